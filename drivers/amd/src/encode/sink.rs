//! Where PM4 goes: to the words of a PM4 queue, or to an indirect buffer in the data block of an AQL
//! queue.

use hcq::Val;
use hcq::command_buffer::{CommandBuffer, Part, Patch, Section};

/// One of the two sections of packets.
pub(crate) struct Sink<'a> {
    out: &'a mut CommandBuffer,
    section: Section,
    /// The start of its packets; earlier words are complete.
    start: usize,
}

impl<'a> Sink<'a> {
    /// The words.
    pub fn words(out: &'a mut CommandBuffer) -> Self {
        Sink {
            start: out.head(),
            out,
            section: Section::Words,
        }
    }

    /// The data block, from a dword on.
    pub fn data(out: &'a mut CommandBuffer, start: usize) -> Self {
        Sink {
            out,
            section: Section::Data,
            start,
        }
    }

    /// Removes `words` from the end, if they are there and `before` precedes them.
    pub fn drop_end(&mut self, before: u32, words: &[u32]) {
        let start = self.start;
        let buffer = self.buffer();
        let Some(rest) = buffer[start..].strip_suffix(words) else {
            return;
        };
        if rest.last() == Some(&before) {
            buffer.truncate(start + rest.len());
        }
    }

    /// Its words.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u32> {
        match self.section {
            Section::Words => &mut self.out.words,
            Section::Data => &mut self.out.data,
        }
    }

    /// Appends words.
    #[inline]
    pub fn put(&mut self, words: &[u32]) {
        self.buffer().extend_from_slice(words);
    }

    /// Appends a 64-bit operand.
    #[inline]
    pub fn val(&mut self, value: Val) {
        match self.section {
            Section::Words => self.out.val(value),
            Section::Data => self.out.data_val(value),
        }
    }

    /// Appends one half of a 64-bit operand: [`Part::Low`] or [`Part::High`].
    #[inline]
    pub fn half(&mut self, value: Val, part: Part) {
        let word = match (value, part) {
            (Val::Const(q), Part::High) => (q >> 32) as u32,
            (Val::Const(q), _) => q as u32,
            (Val::Slot(slot, add), part) => {
                let offset = self.buffer().len() as u32 * 4;
                self.out.patches.push(Patch {
                    section: self.section,
                    offset,
                    part,
                    slot,
                    add,
                });
                0
            }
        };
        self.put(&[word]);
    }
}

/// A value further on.
#[inline]
pub(crate) fn plus(value: Val, bytes: u64) -> Val {
    match value {
        Val::Const(q) => Val::Const(q.wrapping_add(bytes)),
        Val::Slot(slot, add) => Val::Slot(slot, add.wrapping_add(bytes)),
    }
}

/// The halves of a value that a comparison by 32 bits has to look at, for a mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Halves {
    /// Only the low one.
    Low,
    /// Only the high one.
    High,
    /// Both.
    Both,
}

impl Halves {
    /// Those in which the mask has bits.
    pub fn of(mask: u64) -> Halves {
        match (mask as u32, (mask >> 32) as u32) {
            (_, 0) => Halves::Low,
            (0, _) => Halves::High,
            _ => Halves::Both,
        }
    }
}
