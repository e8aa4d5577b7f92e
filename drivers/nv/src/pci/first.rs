//! The first context of graphics: RM makes the image of it that every other context starts with, and fills the buffers
//! that they share.
//!
//! Source: Linux, drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/gr.c (`r535_gr_oneinit`); open-gpu-kernel-modules
//! 570.144, src/nvidia/src/kernel/gpu/gr/kernel_graphics.c (`kgraphicsCreateGoldenImageChannel_IMPL`): a channel that never
//! runs, and an object of graphics in it.

use drivers_gpu::bare::{Attr, Driver as _, PAGE};
use drivers_spec::nv::class::{ChannelAlloc, engine};
use drivers_spec::nv::pci_rm::graphics;
use hcq::GpuVa;
use hcq::addr::PhysAddr;

use super::areas::{Area, FIRST};
use super::channel::{self, Level};
use super::context::{self, Of, Placed};
use super::running::Running;
use crate::gsp::Cause;

/// Where buffers of the driver's own have their addresses: below those of memory.
const ADDRESSES: u64 = 0x4_0000_0000;
/// Entries of a ring that nobody writes.
const ENTRIES: u32 = 512;

/// Makes it, once for a card.
///
/// # Errors
/// [`Cause::Memory`], [`Cause::Call`]; the bus's.
pub(super) fn make(card: &Running) -> Result<(), Cause> {
    let (mut all, mut next) = (Vec::new(), ADDRESSES);
    let placed = place(card, &mut all, &mut next).and_then(|()| fill(card, &all));
    let (shared, own): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|one| placed.is_ok() && one.buffer.of == Of::Card);
    // The first context itself is not needed any more.
    for one in &own {
        card.space().unmap(one.va, one.buffer.bytes)?;
        card.give_back(one.at);
    }
    placed?;
    card.driver().share(shared);
    Ok(())
}

/// Memory and addresses for every buffer.
fn place(card: &Running, all: &mut Vec<Placed>, next: &mut u64) -> Result<(), Cause> {
    let nv = card.driver();
    for &buffer in &nv.buffers {
        let va = GpuVa(next.next_multiple_of(buffer.align));
        *next = va.0 + buffer.bytes + PAGE;
        let at = card.vram(buffer.bytes, buffer.align)?;
        let piece = [(PhysAddr::Vram(at), buffer.bytes)];
        if let Err(error) = card.space().map(va, &piece, Attr::LOCAL) {
            card.give_back(at);
            return Err(error.into());
        }
        all.push(Placed { buffer, at, va });
        if buffer.is_filled {
            let bytes = buffer.bytes;
            nv.clear(Area { at, bytes })?;
        }
    }
    Ok(())
}

/// Has RM make the image.
fn fill(card: &Running, all: &[Placed]) -> Result<(), Cause> {
    let nv = card.driver();
    let place = nv.areas.channel(FIRST);
    nv.clear(place.all)?;
    let params = ChannelAlloc {
        gp_fifo_entries: ENTRIES,
        h_va_space: nv.space.handle(),
        engine_type: engine::GRAPHICS,
        ..channel::memory(&place, nv.engines.methods, Level::Admin)?
    };
    let channel = nv.rm.device.alloc(&nv.facts.channel, &params)?;
    let entries: Vec<_> = all.iter().map(Placed::first).collect();
    context::promote(&nv.rm, &channel, &entries)?;
    let class = graphics(nv.card().arch());
    drop(channel.alloc_plain(&class)?);
    // Buffers stay mapped until it has ended.
    match channel.free() {
        true => Ok(()),
        false => Err(Cause::Channel {
            name: format!("the first channel of {}", nv.function().pci().name()),
        }),
    }
}
