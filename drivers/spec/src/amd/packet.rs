//! How packets and registers are described: fields in dwords, dwords in packets.
//!
//! A table says everything about a packet that can be checked or printed without knowing what it
//! does: its length, the bits that mean something on a generation, the names. An encoder puts
//! values through the same [`Field`]s.

/// A generation of the graphics and compute block (GC), with the SDMA engine beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Gfx {
    /// GC 9.4.3 (gfx942), SDMA 4.4.2.
    Gfx9,
    /// GC 10.3 (gfx1030), SDMA 5.2.
    Gfx10,
    /// GC 11.0 (gfx1100), SDMA 6.0.
    Gfx11,
    /// GC 12.0 (gfx1201), SDMA 7.0.
    Gfx12,
}

/// A set of generations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gfxs(u8);

impl Gfxs {
    /// None.
    pub const NONE: Self = Self(0);
    /// Only GFX9.
    pub const GFX9: Self = Self(0b0001);
    /// Only GFX10.
    pub const GFX10: Self = Self(0b0010);
    /// Only GFX11.
    pub const GFX11: Self = Self(0b0100);
    /// Only GFX12.
    pub const GFX12: Self = Self(0b1000);
    /// GFX9 and GFX10.
    pub const TO_GFX10: Self = Self(0b0011);
    /// GFX9 to GFX11.
    pub const TO_GFX11: Self = Self(0b0111);
    /// GFX10 and newer.
    pub const GFX10_UP: Self = Self(0b1110);
    /// GFX11 and newer.
    pub const GFX11_UP: Self = Self(0b1100);
    /// GFX10 and GFX11.
    pub const GFX10_11: Self = Self(0b0110);
    /// Every generation but GFX10.
    pub const NOT_GFX10: Self = Self(0b1101);
    /// Every generation.
    pub const ALL: Self = Self(0b1111);

    /// Whether `gfx` is one of them.
    pub const fn has(self, gfx: Gfx) -> bool {
        self.0 & (1 << gfx as u8) != 0
    }
}

/// Bits of a dword.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// The vendor's name.
    pub name: &'static str,
    /// The highest bit.
    pub high: u8,
    /// The lowest bit.
    pub low: u8,
    /// Where it exists.
    pub gfx: Gfxs,
}

impl Field {
    /// Its bits.
    #[inline]
    pub const fn mask(self) -> u32 {
        (u32::MAX >> (31 - (self.high - self.low))) << self.low
    }

    /// Its value in a dword.
    #[inline]
    pub const fn get(self, word: u32) -> u32 {
        (word & self.mask()) >> self.low
    }

    /// A dword with nothing but this value, cut to its width.
    #[inline]
    pub const fn put(self, value: u32) -> u32 {
        (value << self.low) & self.mask()
    }
}

/// A dword of a packet, or a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// The vendor's name.
    pub name: &'static str,
    /// Its fields; none where it is one field of 32 bits.
    pub fields: &'static [Field],
    /// Where it exists.
    pub gfx: Gfxs,
}

impl Word {
    /// A dword of one field.
    pub const fn whole(name: &'static str) -> Self {
        Self {
            name,
            fields: &[],
            gfx: Gfxs::ALL,
        }
    }

    /// A dword that must be zero.
    pub const RESERVED: Self = Self {
        name: "reserved",
        fields: &[Field {
            name: "reserved",
            high: 31,
            low: 0,
            gfx: Gfxs::NONE,
        }],
        gfx: Gfxs::ALL,
    };

    /// The same, only on some generations.
    pub const fn on(self, gfx: Gfxs) -> Self {
        Self { gfx, ..self }
    }

    /// The bits that mean something on a generation.
    pub fn mask(&self, gfx: Gfx) -> u32 {
        if self.fields.is_empty() {
            return u32::MAX;
        }
        self.fields
            .iter()
            .filter(|field| field.gfx.has(gfx))
            .fold(0, |mask, field| mask | field.mask())
    }
}

/// What may follow the fixed dwords of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Nothing.
    None,
    /// Data, at least so many dwords.
    Data(usize),
}

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The vendor's name.
    pub name: &'static str,
    /// The operation, and what else identifies it (for SDMA: the sub-operation in 15:8).
    pub op: u16,
    /// Where it exists.
    pub gfx: Gfxs,
    /// Its fixed dwords; for PM4 those after the header, for SDMA all.
    pub words: &'static [Word],
    /// What follows.
    pub rest: Rest,
}

impl Packet {
    /// Its fixed dwords on a generation.
    pub fn words(&self, gfx: Gfx) -> impl Iterator<Item = &'static Word> + use<> {
        self.words.iter().filter(move |word| word.gfx.has(gfx))
    }

    /// How many fixed dwords it has on a generation.
    pub fn fixed(&self, gfx: Gfx) -> usize {
        self.words(gfx).count()
    }
}

/// Declares the fields of dwords, and the dwords.
macro_rules! words {
    ($($(#[$doc:meta])* $word:ident $name:literal {
        $($(#[$field_doc:meta])* $field:ident $high:literal $low:literal $(on $gfx:ident)?;)*
    })*) => {$(
        $(
            $(#[$field_doc])*
            pub const $field: $crate::amd::packet::Field = $crate::amd::packet::Field {
                name: stringify!($field),
                high: $high,
                low: $low,
                gfx: $crate::amd::packet::words!(@gfx $($gfx)?),
            };
        )*
        $(#[$doc])*
        pub const $word: $crate::amd::packet::Word = $crate::amd::packet::Word {
            name: $name,
            fields: &[$($field),*],
            gfx: $crate::amd::packet::Gfxs::ALL,
        };
    )*};
    (@gfx) => { $crate::amd::packet::Gfxs::ALL };
    (@gfx $gfx:ident) => { $crate::amd::packet::Gfxs::$gfx };
}
pub(crate) use words;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_keeps_to_its_bits() {
        let field = Field {
            name: "F",
            high: 9,
            low: 4,
            gfx: Gfxs::ALL,
        };
        assert_eq!(field.mask(), 0x3f0);
        assert_eq!(field.put(0xff), 0x3f0);
        assert_eq!(field.get(0x1235), 0x23);
        let all = Field {
            high: 31,
            low: 0,
            ..field
        };
        assert_eq!(all.mask(), u32::MAX);
    }
}
