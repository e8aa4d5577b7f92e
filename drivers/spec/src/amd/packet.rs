//! How packets are described: dwords of fields, as [`hcq::reg`] describes them for registers too.
//!
//! A table says everything about a packet that can be checked or printed without knowing what it
//! does: its length, the bits that mean something on a generation, the names. An encoder puts
//! values through the same [`Field`]s.

use hcq::reg::Generations;

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
    /// GFX9 and GFX12.
    pub const GFX9_12: Self = Self(0b1001);
    /// Every generation but GFX10.
    pub const NOT_GFX10: Self = Self(0b1101);
    /// Every generation.
    pub const ALL: Self = <Self as Generations>::ALL;

    /// Whether `gfx` is one of them.
    pub const fn has(self, gfx: Gfx) -> bool {
        self.0 & (1 << gfx as u8) != 0
    }
}

impl Generations for Gfxs {
    type One = Gfx;

    const ALL: Self = Self(0b1111);

    fn has(self, one: Gfx) -> bool {
        Gfxs::has(self, one)
    }
}

/// Bits of a dword.
pub type Field = hcq::reg::Field<Gfxs>;

/// A dword of a packet, or a register.
pub type Word = hcq::reg::Word<Gfxs>;

/// A dword that must be zero.
pub const RESERVED: Word = Word {
    name: "reserved",
    fields: &[Field {
        name: "reserved",
        high: 31,
        low: 0,
        on: Gfxs::NONE,
    }],
    on: Gfxs::ALL,
};

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
        self.words.iter().filter(move |word| word.on.has(gfx))
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
                on: $crate::amd::packet::words!(@gfx $($gfx)?),
            };
        )*
        $(#[$doc])*
        pub const $word: $crate::amd::packet::Word = $crate::amd::packet::Word {
            name: $name,
            fields: &[$($field),*],
            on: $crate::amd::packet::Gfxs::ALL,
        };
    )*};
    (@gfx) => { $crate::amd::packet::Gfxs::ALL };
    (@gfx $gfx:ident) => { $crate::amd::packet::Gfxs::$gfx };
}
pub(crate) use words;
