//! Encoded commands: words for the ring, a data block, and open patches.
//!
//! Encoding is pure. It writes `words` (what the queue reads) and `data` (what the words point to:
//! kernel argument blocks, launch descriptors, constant banks). Where a word must hold the address
//! of the data block, which is known only when the packets are placed, it leaves a [`Reloc`]; where
//! it must hold a value given at submission, a [`Patch`].

use std::any::Any;
use std::sync::Arc;

use crate::command::{Slot, Val};

/// Which part of the packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Section {
    /// The words that the queue reads.
    Words,
    /// The block that they point to.
    Data,
}

/// Which bits of a 64-bit value go into a place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// All 64 bits, in 8 bytes.
    Whole,
    /// Bits 31:0, in 4 bytes.
    Low,
    /// Bits 63:32, in 4 bytes.
    High,
    /// `(value >> shift) & mask`, placed at bit `at` of a 4-byte word whose other bits stay.
    Field {
        /// Right shift of the value.
        shift: u8,
        /// Mask after the shift.
        mask: u32,
        /// Bit position in the word.
        at: u8,
    },
}

/// A place whose value is `values[slot] + add` at submission.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Patch {
    /// Words or data.
    pub section: Section,
    /// Byte offset in the section, a multiple of 4.
    pub offset: u32,
    /// Which bits.
    pub part: Part,
    /// Which value.
    pub slot: Slot,
    /// Added to the value first.
    pub add: u64,
}

/// A place whose value is the device address of the data block plus `add`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reloc {
    /// Words or data.
    pub section: Section,
    /// Byte offset in the section, a multiple of 4.
    pub offset: u32,
    /// Which bits.
    pub part: Part,
    /// Offset in the data block.
    pub add: u32,
}

/// An encoded, not yet submitted piece of a queue. Reused between encodings: clearing keeps the
/// memory, so a steady state encodes without allocation.
#[derive(Clone, Debug, Default)]
pub struct CommandBuffer {
    /// What the queue reads.
    pub words: Vec<u32>,
    /// What the words point to.
    pub data: Vec<u32>,
    /// Places that take a value at submission.
    pub patches: Vec<Patch>,
    /// Places that take the address of `data`.
    pub relocs: Vec<Reloc>,
    /// Number of head words of every submission, kept by encoders and [`CommandBuffer::clear`].
    head: usize,
    /// Objects used by the words, kept by their submitter or binder until no longer needed.
    pub keep: Vec<Keep>,
}

/// Something that is kept for a device.
pub type Keep = Arc<dyn Any + Send + Sync>;

impl CommandBuffer {
    /// Nothing encoded.
    pub const fn new() -> Self {
        CommandBuffer {
            words: Vec::new(),
            data: Vec::new(),
            patches: Vec::new(),
            relocs: Vec::new(),
            head: 0,
            keep: Vec::new(),
        }
    }

    /// Packets that begin with these words, also when they are cleared.
    pub fn headed(words: Vec<u32>) -> Self {
        CommandBuffer {
            head: words.len(),
            words,
            ..CommandBuffer::new()
        }
    }

    /// Puts words before all others, as [`CommandBuffer::headed`] does.
    #[cold]
    pub fn set_head(&mut self, words: &[u32]) {
        let old = self.head;
        self.words.splice(..old, words.iter().copied());
        self.head = words.len();
        let moved =
            |offset: &mut u32| *offset = *offset + (words.len() as u32 * 4) - old as u32 * 4;
        let in_words = |section: Section| section == Section::Words;
        let patches = self.patches.iter_mut().filter(|p| in_words(p.section));
        patches.for_each(|p| moved(&mut p.offset));
        let relocs = self.relocs.iter_mut().filter(|r| in_words(r.section));
        relocs.for_each(|r| moved(&mut r.offset));
    }

    /// How many words they begin with that stay.
    #[inline]
    pub fn head(&self) -> usize {
        self.head
    }

    /// Forgets the content but the [head](CommandBuffer::headed), keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.words.truncate(self.head);
        self.data.clear();
        self.patches.clear();
        self.relocs.clear();
        self.keep.clear();
    }

    /// Appends a 32-bit word.
    #[inline]
    pub fn word(&mut self, w: u32) {
        self.words.push(w);
    }

    /// Appends a 64-bit constant, low word first.
    #[inline]
    pub fn quad(&mut self, q: u64) {
        self.words.extend_from_slice(&[q as u32, (q >> 32) as u32]);
    }

    /// Appends a 64-bit operand, low word first, with a patch if it is open.
    #[inline]
    pub fn val(&mut self, v: Val) {
        match v {
            Val::Const(q) => self.quad(q),
            Val::Slot(slot, add) => {
                let offset = self.words.len() as u32 * 4;
                let section = Section::Words;
                self.patches.push(Patch {
                    section,
                    offset,
                    part: Part::Whole,
                    slot,
                    add,
                });
                self.quad(0);
            }
        }
    }

    /// Appends a 64-bit operand to the data block, with a patch if it is open.
    #[inline]
    pub fn data_val(&mut self, v: Val) {
        let q = match v {
            Val::Const(q) => q,
            Val::Slot(slot, add) => {
                let offset = self.data.len() as u32 * 4;
                let section = Section::Data;
                self.patches.push(Patch {
                    section,
                    offset,
                    part: Part::Whole,
                    slot,
                    add,
                });
                0
            }
        };
        self.data.extend_from_slice(&[q as u32, (q >> 32) as u32]);
    }

    /// Fills every patch from `values`, in place. The words may be patched again later.
    ///
    /// # Errors
    /// The first slot without a value.
    pub fn patch(&mut self, values: &[u64]) -> Result<(), Slot> {
        for p in &self.patches {
            let base = *values.get(p.slot.0 as usize).ok_or(p.slot)?;
            let section = match p.section {
                Section::Words => &mut self.words,
                Section::Data => &mut self.data,
            };
            place(section, p.offset, p.part, base.wrapping_add(p.add));
        }
        Ok(())
    }

    /// Fills every relocation for a data block at `address`, in place. May be done again for another one.
    #[inline]
    pub fn relocate(&mut self, address: u64) {
        for r in &self.relocs {
            let section = match r.section {
                Section::Words => &mut self.words,
                Section::Data => &mut self.data,
            };
            place(section, r.offset, r.part, address + r.add as u64);
        }
    }
}

/// Writes the part of `value` into the section at a byte offset.
#[inline]
pub fn place(section: &mut [u32], offset: u32, part: Part, value: u64) {
    let i = offset as usize / 4;
    match part {
        Part::Whole => {
            section[i] = value as u32;
            section[i + 1] = (value >> 32) as u32;
        }
        Part::Low => section[i] = value as u32,
        Part::High => section[i] = (value >> 32) as u32,
        Part::Field { shift, mask, at } => {
            let field = ((value >> shift) as u32) & mask;
            section[i] = (section[i] & !(mask << at)) | (field << at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_and_relocations_land() {
        let mut p = CommandBuffer::new();
        p.word(0xc0de);
        p.val(Val::Slot(Slot(1), 0x10));
        p.val(Val::Const(7));
        p.relocs.push(Reloc {
            section: Section::Words,
            offset: 12,
            part: Part::Low,
            add: 4,
        });
        p.data_val(Val::Slot(Slot(0), 0));
        p.patch(&[5, 0x1_0000_0000]).unwrap();
        p.relocate(0x1000);
        assert_eq!(p.words, [0xc0de, 0x10, 1, 0x1004, 0]);
        assert_eq!(p.data, [5, 0]);
        assert_eq!(p.patch(&[5]), Err(Slot(1)));
    }

    #[test]
    fn a_head_stays() {
        let mut p = CommandBuffer::headed(vec![1, 2]);
        p.word(3);
        p.data_val(Val::Const(4));
        assert_eq!((p.head(), &p.words[..]), (2, &[1, 2, 3][..]));
        p.clear();
        assert_eq!((&p.words[..], p.data.len()), (&[1, 2][..], 0));
        p.val(Val::Slot(Slot(0), 0));
        p.set_head(&[7, 8, 9]);
        p.patch(&[5]).unwrap();
        assert_eq!(p.words, [7, 8, 9, 5, 0]);
    }

    #[test]
    fn a_field_keeps_its_neighbours() {
        let mut w = [0xffff_ffffu32];
        place(
            &mut w,
            0,
            Part::Field {
                shift: 8,
                mask: 0xff,
                at: 4,
            },
            0xab00,
        );
        assert_eq!(w[0], 0xffff_fabf);
    }
}
