//! Addresses in buffers: descriptors, bounds, swizzle.

use super::target::{Address, Where};
use crate::isa::Gen;
use crate::page::lanes;
use crate::wave::{Lanes, Wave};

/// What an instruction says beyond its [`Address`].
#[derive(Clone, Copy)]
pub struct Buffer {
    pub generation: Gen,
    /// Code of SOFFSET.
    pub soffset: Offset,
    /// VADDR, or the first of two, is an index.
    pub idxen: bool,
    /// VADDR, or the second of two, is an offset.
    pub offen: bool,
}

/// SOFFSET.
#[derive(Clone, Copy)]
pub enum Offset {
    /// A register.
    Scalar(u16),
    /// A constant.
    Constant(u32),
}

/// When an access is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Check {
    /// Index beyond the records, or offset beyond the stride.
    Structured,
    /// Index beyond the records.
    Index,
    /// There are no records.
    Empty,
    /// Bytes beyond the records, which count bytes.
    Raw,
}

/// A descriptor (V#), as far as addresses go.
///
/// Source: ISA documents, "buffer resource descriptor", "buffer addressing", "range checking".
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    base: u64,
    soffset: u32,
    stride: u32,
    records: u32,
    /// Bytes that stay together where lanes interleave; 0 where they do not.
    element: u32,
    /// How many lanes interleave.
    group: u32,
    tid: bool,
    check: Check,
}

impl Descriptor {
    /// From the four registers.
    pub fn new(generation: Gen, words: [u32; 4], soffset: u32) -> Self {
        let [low, high, records, flags] = words;
        let base = u64::from(low) | u64::from(high & 0xffff) << 32;
        let mut stride = high >> 16 & 0x3fff;
        let tid = flags >> 23 & 1 == 1;
        let element = match generation {
            Gen::Rdna2 | Gen::Cdna3 => [0, 4][(high >> 31) as usize],
            Gen::Rdna3 | Gen::Rdna4 => [0, 4, 8, 16][(high >> 30) as usize],
        };
        let check = match generation {
            Gen::Cdna3 if stride == 0 || element == 0 => Check::Raw,
            Gen::Cdna3 => Check::Structured,
            _ => match flags >> 28 & 3 {
                0 => Check::Structured,
                1 => Check::Index,
                2 => Check::Empty,
                _ => Check::Raw,
            },
        };
        if generation == Gen::Cdna3 && tid {
            // The data format holds the high bits of the stride.
            stride |= (flags >> 15 & 15) << 14;
        }
        Self {
            base,
            soffset,
            stride,
            records,
            element,
            group: 8 << (flags >> 21 & 3),
            tid,
            check,
        }
    }

    /// The address of `bytes` at an index and offset; none where they are out of range.
    pub fn address(&self, index: u32, offset: u32, bytes: u32) -> Option<u64> {
        let end = u64::from(offset) + u64::from(bytes);
        let linear = u64::from(index) * u64::from(self.stride) + end;
        let out = match self.check {
            Check::Structured => {
                index >= self.records || self.stride != 0 && end > self.stride.into()
            }
            Check::Index => index >= self.records,
            Check::Empty => self.records == 0,
            Check::Raw if self.element != 0 && self.stride != 0 => {
                index >= self.records / self.stride || end > self.stride.into()
            }
            Check::Raw => linear + u64::from(self.soffset) > self.records.into(),
        };
        if out {
            return None;
        }
        let wide = u64::from;
        let inside = match offset.checked_div(self.element) {
            None => linear - wide(bytes),
            Some(row) => {
                let (index_high, index_low) = (index / self.group, index % self.group);
                (wide(index_high) * wide(self.stride) + wide(row) * wide(self.element))
                    * wide(self.group)
                    + wide(index_low) * wide(self.element)
                    + wide(offset % self.element)
            }
        };
        Some(
            self.base
                .wrapping_add(self.soffset.into())
                .wrapping_add(inside),
        )
    }
}

impl Buffer {
    /// The words of the descriptor.
    pub fn words(address: &Address, wave: &Wave) -> [u32; 4] {
        let first = address.saddr.unwrap_or_default();
        std::array::from_fn(|i| wave.scalar(first + i as u16))
    }

    /// Where the lanes of `mask` access.
    pub fn target(
        &self,
        address: &Address,
        wave: &Wave,
        half: usize,
        mask: u32,
        bytes: u32,
    ) -> Where {
        let soffset = match self.soffset {
            Offset::Scalar(code) => wave.scalar(code),
            Offset::Constant(value) => value,
        };
        let descriptor = Descriptor::new(self.generation, Self::words(address, wave), soffset);
        let (mut indices, mut offsets): (Lanes, Lanes) = ([0; 32], [address.offset as u32; 32]);
        if let Some(vaddr) = address.vaddr {
            if self.idxen {
                indices = *wave.vgpr(vaddr, half);
            }
            if self.offen {
                let second = vaddr + usize::from(self.idxen);
                for (offset, v) in offsets.iter_mut().zip(wave.vgpr(second, half)) {
                    *offset = offset.wrapping_add(*v);
                }
            }
        }
        if descriptor.tid {
            for (lane, index) in indices.iter_mut().enumerate() {
                *index = index.wrapping_add((32 * half + lane) as u32);
            }
        }
        // Every lane in range and its bytes together: plain addresses.
        let together = descriptor.element == 0
            || bytes <= 4 && lanes(mask).all(|lane| offsets[lane].is_multiple_of(4));
        let mut addresses = [0; 32];
        let plain = together
            && lanes(mask).all(|lane| {
                let found = descriptor.address(indices[lane], offsets[lane], bytes);
                addresses[lane] = found.unwrap_or_default();
                found.is_some()
            });
        if plain {
            Where::Memory(addresses)
        } else {
            Where::Buffer(descriptor, indices, offsets)
        }
    }
}
