//! [`Fixed`]: page tables one after the other in an area of VRAM, which is left as a whole.

use drivers_gpu::bare::PAGE;
use hcq::Error;
use hcq::addr::{PhysAddr, VramAddr};
use hcq::mem::pages::{Frame, PageError, TableMemory};
use hcq::mem::window::Window;

use super::areas::Area;
use crate::gsp::{Card, Cause};

/// Tables of one area.
pub(super) struct Fixed<'a> {
    card: &'a Card,
    vram: &'a Window,
    area: Area,
    next: u64,
    what: &'static str,
}

impl<'a> Fixed<'a> {
    /// Those of an area, of which none is taken. `vram` is all of VRAM that the host sees; `what` they map, for messages.
    pub(super) fn new(card: &'a Card, vram: &'a Window, area: Area, what: &'static str) -> Self {
        Fixed {
            card,
            vram,
            area,
            next: 0,
            what,
        }
    }
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
            hint: format!(" of memory for the page tables of {}", self.what),
        })?;
        self.next += bytes;
        let at = PhysAddr::Vram(VramAddr(at));
        Ok(Frame { at, window })
    }

    fn free(&mut self, _: Frame) {}
}

/// What went wrong with such tables, which are to map `what`.
pub(super) fn failed(error: PageError, what: &str) -> Cause {
    match error {
        PageError::NoTable(error) => Cause::Memory(error),
        PageError::Access(error) => Cause::Transport(error),
        other => Cause::Regions {
            what: other.to_string(),
            expected: format!("page tables for {what}"),
        },
    }
}
