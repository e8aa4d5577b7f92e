//! BAR1, so that it shows VRAM from its first byte on.
//!
//! Addresses of BAR1 are virtual. RM on GSP has bound it to a page directory of its own; what that leads to is the
//! driver's: here VRAM at its own addresses, in pages of 512 MiB and 2 MiB. The tables are written by registers.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/bus/kern_bus.c (`kbusPatchBar1Pdb_GSPCLIENT`); Linux,
//! drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/bar.c (`r535_bar_bar1_init`). BAR2 is not used: what RM has bound it to
//! stays, so that there is no UPDATE_BAR_PDE.

use drivers_gpu::bare::{Attr, PAGE};
use hcq::addr::{PhysAddr, VramAddr};
use hcq::mem::pages::{Frame, PageError, PageTable, TableMemory};
use hcq::mem::window::Window;
use hcq::{Error, GpuVa};

use super::areas::Area;
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

/// Tables one after the other in an area.
struct Fixed<'a> {
    card: &'a Card,
    vram: &'a Window,
    area: Area,
    next: u64,
}

impl TableMemory for Fixed<'_> {
    fn alloc(&mut self, bytes: u64) -> Result<Frame, Error> {
        let at = self.area.at.0 + self.next;
        let bytes = bytes.max(PAGE);
        let window = self.vram.sub(at, bytes).ok();
        let window = window.filter(|_| at + bytes <= self.area.end());
        let window = window.ok_or_else(|| Error::OutOfMemory {
            device: self.card.device().clone(),
            asked: bytes,
            free: self.area.bytes.saturating_sub(self.next),
            total: self.area.bytes,
            hint: " of memory for the page tables of BAR1".into(),
        })?;
        self.next += bytes;
        let at = PhysAddr::Vram(VramAddr(at));
        Ok(Frame { at, window })
    }

    fn free(&mut self, _: Frame) {}
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
    let memory = Fixed {
        card,
        vram,
        area,
        next: 0,
    };
    let failed = |error: PageError| match error {
        PageError::NoTable(error) => Cause::Memory(error),
        PageError::Access(error) => Cause::Transport(error),
        other => Cause::Regions {
            what: other.to_string(),
            expected: "page tables for all of BAR1".into(),
        },
    };
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
