//! BAR1, so that it shows VRAM from its first byte on.
//!
//! Addresses of BAR1 are virtual. RM on GSP has bound it to a page directory of its own; what that leads to is the
//! driver's: here VRAM at its own addresses, in pages of 512 MiB and 2 MiB. The tables are written by registers.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/bus/kern_bus.c (`kbusPatchBar1Pdb_GSPCLIENT`); Linux,
//! drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/bar.c (`r535_bar_bar1_init`). BAR2 is not used: what RM has bound it to
//! stays, so that there is no UPDATE_BAR_PDE.

use drivers_gpu::bare::{Attr, PAGE};
use hcq::GpuVa;
use hcq::addr::{PhysAddr, VramAddr};
use hcq::mem::pages::{PageError, PageTable};
use hcq::mem::window::Window;

use super::areas::Area;
use super::fixed::{self, Fixed};
use super::mmu;
use crate::gsp::pages::Format;
use crate::gsp::{Card, Cause};

/// The unit of what is shown: a large page.
const UNIT: u64 = 2 << 20;
/// What is written to see whether BAR1 shows it.
const PROBE: u32 = 0x5eed_ba21;

/// The BAR with VRAM: its number, and what of it will show VRAM, which has `vram` bytes.
///
/// # Errors
/// The transport's.
pub(super) fn find(card: &Card, vram: u64) -> Result<(u8, Window), Cause> {
    let number = card.vram_bar()?;
    let bar = card.pci().bar(number)?;
    let bytes = bar.len().min(vram) & !(UNIT - 1);
    Ok((number, bar.sub(0, bytes)?))
}

/// Has BAR1 show VRAM: as much as `bar` is long. Its tables are in `area`, its page directory is at `root`; `vram` is all of
/// VRAM, through registers.
///
/// # Errors
/// [`Cause::Memory`], [`Cause::Shows`]; the bus's.
pub(super) fn show(
    card: &Card,
    bar: &Window,
    area: Area,
    root: VramAddr,
    vram: &Window,
) -> Result<(), Cause> {
    let memory = Fixed::new(card, vram, area, "BAR1");
    let failed = |error: PageError| fixed::failed(error, "all of BAR1");
    let table = PageTable::new(Format::of(card.arch()), memory, GpuVa(0));
    let mut table = table.map_err(failed)?;
    let all = [(PhysAddr::Vram(VramAddr(0)), bar.len())];
    let mapped = table.map(GpuVa(0), &all, Attr::LOCAL);
    mapped.map_err(failed)?;
    // RM has a root of its own, of which all of BAR1 is in the first entry.
    let first: u64 = vram.read(table.root().raw())?;
    vram.write(root.0, first)?;
    vram.flush()?;
    mmu::invalidate(card)?;
    probe(bar, area, vram)
}

/// Whether BAR1 shows what registers have written.
fn probe(bar: &Window, area: Area, vram: &Window) -> Result<(), Cause> {
    let at = area.end() - PAGE;
    vram.write(at, PROBE)?;
    vram.flush()?;
    match bar.load::<u32>(at)? {
        PROBE => Ok(()),
        found => Err(Cause::Shows {
            at,
            found,
            expected: PROBE,
        }),
    }
}
