//! The first context of graphics: RM makes the image of it that every other context starts with, and fills the buffers
//! that they share.
//!
//! Its address space is RM's, with page tables of its own; the buffers that all share have the same addresses in the address
//! space of channels.
//!
//! Source: Linux, drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/gr.c (`r535_gr_oneinit`), vmm.c
//! (`r535_mmu_vaspace_new`); open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/gr/kernel_graphics.c
//! (`kgraphicsCreateGoldenImageChannel_IMPL`): a channel that never runs, and an object of graphics in it.

use drivers_gpu::bare::{Driver as _, Entry, Format as _, Mmu as _, PAGE};
use drivers_spec::nv::class::{ChannelAlloc, engine};
use drivers_spec::nv::pci_rm::{
    APERTURE_VIDEO, PageLevel, RESERVED_SHIFT, RESERVED_START, graphics,
};
use hcq::GpuVa;
use hcq::addr::PhysAddr;
use hcq::mem::pages::{PageError, PageTable, PteFormat as _};
use hcq::mem::window::Window;

use super::areas::{Area, FIRST};
use super::channel::{self, Level};
use super::context::{self, Of, Placed};
use super::fixed::{self, Fixed};
use super::running::Running;
use super::space;
use crate::gsp::Cause;
use crate::gsp::pages::Format;

/// Where buffers of the driver's own have their addresses: below those of memory, above those of RM.
const ADDRESSES: u64 = 0x4_0000_0000;
/// Entries of a ring that nobody writes.
const ENTRIES: u32 = 512;
/// What the page tables are for, in messages.
const BUFFERS: &str = "the first context of graphics";

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
        if one.buffer.of == Of::Card {
            card.space().unmap(one.va, one.buffer.bytes)?;
        }
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
        if buffer.of == Of::Card
            && let Err(error) = card.space().map(va, &piece, buffer.attr())
        {
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

/// The page tables on the way to RM's own addresses, from the root on: RM writes the entries of the last one.
fn upper(vram: &Window, format: Format, root: PhysAddr) -> Result<Vec<PageLevel>, Cause> {
    let (mut found, mut table) = (Vec::new(), root);
    for (number, level) in format.levels().iter().enumerate() {
        found.push(PageLevel {
            phys_address: table.raw(),
            size: 8 << level.index_bits,
            aperture: APERTURE_VIDEO,
            page_shift: level.shift as u8,
            ..Default::default()
        });
        if level.shift == RESERVED_SHIFT {
            return Ok(found);
        }
        let index = RESERVED_START >> level.shift & ((1 << level.index_bits) - 1);
        let entry: u64 = vram.read(table.raw() + index * 8)?;
        match format.decode(number, entry.into()) {
            Entry::Table(next) => table = next,
            _ => break,
        }
    }
    Err(Cause::Tables {
        what: BUFFERS,
        levels: found.len(),
        at: RESERVED_START,
    })
}

/// Has RM make the image.
fn fill(card: &Running, all: &[Placed]) -> Result<(), Cause> {
    let nv = card.driver();
    let vram = nv.function().vram();
    let format = Format::of(nv.card().arch());
    let failed = |error: PageError| fixed::failed(error, BUFFERS);
    let memory = Fixed::new(nv.card(), vram, nv.areas.image, BUFFERS);
    let mut table = PageTable::new(format, memory, GpuVa(0)).map_err(failed)?;
    for one in all {
        let piece = [(PhysAddr::Vram(one.at), one.buffer.bytes)];
        table
            .map(one.va, &piece, one.buffer.attr())
            .map_err(failed)?;
    }
    // Some of the upper tables are those of RM's addresses, too.
    let levels = upper(vram, format, table.root())?;
    nv.mmu().invalidate()?;
    // RM has it until its channel has ended.
    let space = space::managed(&nv.rm, &levels)?;
    let place = nv.areas.channel(FIRST);
    nv.clear(place.all)?;
    let params = ChannelAlloc {
        gp_fifo_entries: ENTRIES,
        h_va_space: space.handle(),
        engine_type: engine::GRAPHICS,
        ..channel::memory(&place, nv.engines.methods, Level::Admin)?
    };
    let channel = nv.rm.device.alloc(&nv.facts.channel, &params)?;
    let entries: Vec<_> = all.iter().map(Placed::first).collect();
    context::promote(&nv.rm, &channel, &entries)?;
    let class = graphics(nv.card().arch());
    drop(channel.alloc_plain(&class)?);
    // Buffers stay mapped until the channel has ended, and page tables until the address space has.
    let ended = [("channel", channel.free()), ("address space", space.free())];
    match ended.iter().find(|(_, is_freed)| !is_freed) {
        None => Ok(()),
        Some((what, _)) => Err(Cause::Kept {
            name: format!("{what} of {BUFFERS}"),
        }),
    }
}
