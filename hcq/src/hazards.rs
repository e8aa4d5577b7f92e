//! Which commands depend on which, by the bytes that they touch.

use crate::command::{Slot, Val};
use crate::memory::Buffer;

/// Where a range of bytes begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Base {
    /// At address 0.
    Memory,
    /// At the value of a slot.
    Slot(Slot),
}

/// A range of bytes that a command touches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Span {
    base: Base,
    offset: u64,
    len: u64,
}

impl Span {
    /// `len` bytes at an operand. Ranges of different slots, and of a slot and an address, are assumed disjoint: the
    /// caller must order accesses to overlapping buffers in two slots.
    pub fn new(at: Val, len: u64) -> Span {
        let (base, offset) = match at {
            Val::Const(va) => (Base::Memory, va),
            Val::Slot(slot, add) => (Base::Slot(slot), add),
        };
        Span { base, offset, len }
    }

    /// `len` bytes at an address.
    pub fn at(va: u64, len: u64) -> Span {
        Span::new(Val::Const(va), len)
    }

    /// `len` bytes at a slot's value plus `offset`.
    pub fn slot(slot: Slot, offset: u64, len: u64) -> Span {
        Span::new(Val::Slot(slot, offset), len)
    }

    /// The bytes of a buffer.
    pub fn of(buffer: &Buffer) -> Span {
        Span::at(buffer.va().0, buffer.bytes())
    }

    /// Whether two ranges share bytes.
    pub fn overlaps(&self, other: &Span) -> bool {
        self.base == other.base && self.offset < other.end() && other.offset < self.end()
    }

    fn covers(&self, other: &Span) -> bool {
        self.base == other.base && self.offset <= other.offset && other.end() <= self.end()
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// Finds the earlier commands a command depends on: those that wrote bytes it accesses, and those that read bytes it
/// writes.
#[derive(Default, Debug)]
pub struct Hazards {
    /// The last accesses to each range. The list is short: an entry is dropped when a write covers it.
    touched: Vec<Touch>,
    /// The result; its memory is reused.
    found: Vec<usize>,
}

#[derive(Debug)]
struct Touch {
    span: Span,
    command: usize,
    write: bool,
}

impl Hazards {
    /// No commands so far.
    pub fn new() -> Hazards {
        Hazards::default()
    }

    /// Forgets all commands: they are over before any that comes.
    pub fn clear(&mut self) {
        self.touched.clear();
    }

    /// Notes the next command. Returns the commands that it depends on, without those that it depends
    /// on by way of them because they wrote the same bytes; in order.
    pub fn step(&mut self, command: usize, reads: &[Span], writes: &[Span]) -> &[usize] {
        self.found.clear();
        for touch in &self.touched {
            let meets = |span: &Span| touch.span.overlaps(span);
            if touch.write && reads.iter().any(meets) || writes.iter().any(meets) {
                self.found.push(touch.command);
            }
        }
        if !writes.is_empty() {
            self.touched
                .retain(|touch| !writes.iter().any(|write| write.covers(&touch.span)));
        }
        let touch = |write| {
            move |&span| Touch {
                span,
                command,
                write,
            }
        };
        self.touched.extend(writes.iter().map(touch(true)));
        self.touched.extend(reads.iter().map(touch(false)));
        self.found.sort_unstable();
        self.found.dedup();
        &self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(offset: u64, len: u64) -> Span {
        Span::at(offset, len)
    }

    #[test]
    fn hazards_are_found_by_bytes() {
        let mut h = Hazards::new();
        assert_eq!(h.step(0, &[], &[span(0, 8)]), []);
        assert_eq!(h.step(1, &[], &[span(8, 8)]), []);
        assert_eq!(h.step(2, &[span(4, 8)], &[span(16, 4)]), [0, 1]);
        // Write after read, and the reads between.
        assert_eq!(h.step(3, &[], &[span(0, 16)]), [0, 1, 2]);
        // The covered writes are hidden.
        assert_eq!(h.step(4, &[span(0, 4)], &[]), [3]);
        // Reading twice is no hazard.
        assert_eq!(h.step(5, &[span(0, 4)], &[]), [3]);
        h.clear();
        assert_eq!(h.step(6, &[span(0, 4)], &[span(0, 16)]), []);
    }

    #[test]
    fn slots_are_apart_but_ordered_in_themselves() {
        let mut h = Hazards::new();
        let slot = |n, at| Span::slot(Slot(n), at, 4);
        assert_eq!(h.step(0, &[], &[slot(0, 0)]), []);
        assert_eq!(h.step(1, &[slot(1, 0)], &[]), []);
        assert_eq!(h.step(2, &[slot(0, 0)], &[slot(0, 8)]), [0]);
        assert_eq!(h.step(3, &[], &[slot(0, 0)]), [0, 2]);
    }

    #[test]
    fn ranges_at_the_end_of_the_address_space_do_not_wrap() {
        let last = Span::at(u64::MAX - 3, 8);
        assert!(last.overlaps(&Span::at(u64::MAX - 1, 1)) && !last.overlaps(&Span::at(0, 8)));
    }
}
