//! The expansion ROM of a card: its bytes, and the base address register by which a machine learns its size.
//!
//! Source: PCI Local Bus Specification 3.0, 6.2.5.2.

use std::ops::Range;

/// Where the register lies in configuration space.
pub const REGISTER: Range<u64> = 0x30..0x34;

/// A ROM; empty for a card without one.
#[derive(Default)]
pub struct Rom {
    image: Vec<u8>,
    base: u32,
}

impl Rom {
    /// One with these bytes.
    pub fn new(image: Vec<u8>) -> Rom {
        Rom { image, base: 0 }
    }

    /// Its size as machines count it; 0 if there is none.
    pub fn bytes(&self) -> u64 {
        match self.image.len() as u64 {
            0 => 0,
            bytes => bytes.next_power_of_two(),
        }
    }

    /// The byte at an offset: all ones behind its end.
    pub fn byte(&self, at: u64) -> u8 {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        self.image.get(at).copied().unwrap_or(0xff)
    }

    /// The register: the address, of which the bits below the size are wired to zero, and whether the ROM answers.
    pub fn register(&self) -> u32 {
        match self.bytes() {
            0 => 0,
            bytes => self.base & (!(bytes as u32 - 1) | 1),
        }
    }

    /// Writes a byte of the register.
    pub fn write(&mut self, byte: u64, value: u8) {
        let mut bytes = self.base.to_le_bytes();
        bytes[(byte & 3) as usize] = value;
        self.base = u32::from_le_bytes(bytes);
    }
}
