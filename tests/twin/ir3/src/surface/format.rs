//! Formats of pixels.
//!
//! Source: Mesa src/freedreno/registers/adreno/a6xx.xml, `a6xx_format`. Packed, compressed and planar formats, and those
//! of depth, are left out.

/// How registers hold a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// As a float.
    Float,
    /// As an integer without sign.
    Unsigned,
    /// As an integer with sign.
    Signed,
}

/// What the bits of a component are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// A float.
    Float,
    /// 0 to 1.
    Unorm,
    /// -1 to 1.
    Snorm,
    /// An integer without sign.
    Uint,
    /// An integer with sign.
    Sint,
}

/// A format: components of one size, from the lowest address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its number in `a6xx_format`.
    pub number: u32,
    /// Its name there.
    pub name: &'static str,
    /// What components are.
    pub numbers: Numbers,
    /// How many.
    pub count: usize,
    /// Bits of each.
    pub bits: u32,
}

/// The number of the format whose one component is the fourth one.
const ALPHA: u32 = 0x02;
/// The number of the format whose fourth component reads as 1.
const OPAQUE: u32 = 0x31;

/// Declares formats: number, name, what components are, how many, bits of each.
macro_rules! formats {
    ($($number:literal $name:literal $numbers:ident $count:literal $bits:literal;)*) => {
        static ALL: &[Format] = &[$(Format {
            number: $number,
            name: $name,
            numbers: Numbers::$numbers,
            count: $count,
            bits: $bits,
        }),*];
    };
}

formats! {
    0x02 "FMT6_A8_UNORM" Unorm 1 8;
    0x03 "FMT6_8_UNORM" Unorm 1 8;
    0x04 "FMT6_8_SNORM" Snorm 1 8;
    0x05 "FMT6_8_UINT" Uint 1 8;
    0x06 "FMT6_8_SINT" Sint 1 8;
    0x0f "FMT6_8_8_UNORM" Unorm 2 8;
    0x10 "FMT6_8_8_SNORM" Snorm 2 8;
    0x11 "FMT6_8_8_UINT" Uint 2 8;
    0x12 "FMT6_8_8_SINT" Sint 2 8;
    0x15 "FMT6_16_UNORM" Unorm 1 16;
    0x16 "FMT6_16_SNORM" Snorm 1 16;
    0x17 "FMT6_16_FLOAT" Float 1 16;
    0x18 "FMT6_16_UINT" Uint 1 16;
    0x19 "FMT6_16_SINT" Sint 1 16;
    0x30 "FMT6_8_8_8_8_UNORM" Unorm 4 8;
    0x31 "FMT6_8_8_8_X8_UNORM" Unorm 4 8;
    0x32 "FMT6_8_8_8_8_SNORM" Snorm 4 8;
    0x33 "FMT6_8_8_8_8_UINT" Uint 4 8;
    0x34 "FMT6_8_8_8_8_SINT" Sint 4 8;
    0x43 "FMT6_16_16_UNORM" Unorm 2 16;
    0x44 "FMT6_16_16_SNORM" Snorm 2 16;
    0x45 "FMT6_16_16_FLOAT" Float 2 16;
    0x46 "FMT6_16_16_UINT" Uint 2 16;
    0x47 "FMT6_16_16_SINT" Sint 2 16;
    0x4a "FMT6_32_FLOAT" Float 1 32;
    0x4b "FMT6_32_UINT" Uint 1 32;
    0x4c "FMT6_32_SINT" Sint 1 32;
    0x60 "FMT6_16_16_16_16_UNORM" Unorm 4 16;
    0x61 "FMT6_16_16_16_16_SNORM" Snorm 4 16;
    0x62 "FMT6_16_16_16_16_FLOAT" Float 4 16;
    0x63 "FMT6_16_16_16_16_UINT" Uint 4 16;
    0x64 "FMT6_16_16_16_16_SINT" Sint 4 16;
    0x67 "FMT6_32_32_FLOAT" Float 2 32;
    0x68 "FMT6_32_32_UINT" Uint 2 32;
    0x69 "FMT6_32_32_SINT" Sint 2 32;
    0x82 "FMT6_32_32_32_32_FLOAT" Float 4 32;
    0x83 "FMT6_32_32_32_32_UINT" Uint 4 32;
    0x84 "FMT6_32_32_32_32_SINT" Sint 4 32;
}

impl Format {
    /// By its number.
    pub fn of(number: u32) -> Option<Format> {
        let found = ALL.binary_search_by_key(&number, |format| format.number);
        found.ok().map(|at| ALL[at])
    }

    /// Bytes of a pixel.
    pub fn bytes(self) -> usize {
        self.count * self.bits as usize / 8
    }

    /// How registers hold its components.
    pub fn sort(self) -> Sort {
        match self.numbers {
            Numbers::Float | Numbers::Unorm | Numbers::Snorm => Sort::Float,
            Numbers::Uint => Sort::Unsigned,
            Numbers::Sint => Sort::Signed,
        }
    }

    /// The component of a pixel that is first in memory.
    pub(crate) fn first(self) -> usize {
        if self.number == ALPHA { 3 } else { 0 }
    }

    /// Whether the fourth component reads as 1.
    pub(crate) fn is_opaque(self) -> bool {
        self.number == OPAQUE
    }

    /// Two components of a byte: such pixels have blocks of their own.
    pub(crate) fn is_pair_of_bytes(self) -> bool {
        self.count == 2 && self.bits == 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_their_numbers() {
        assert!(ALL.is_sorted_by_key(|format| format.number));
        for format in ALL {
            assert_eq!(Format::of(format.number), Some(*format));
            assert!(matches!(format.bytes(), 1 | 2 | 4 | 8 | 16));
        }
        assert_eq!(Format::of(0), None);
        assert_eq!(Format::of(0xff), None);
    }

    /// What the driver's table of descriptors has is what is here.
    #[test]
    fn formats_agree_with_descriptors() {
        for other in drivers_spec::qcom::descriptor::Format::ALL {
            let format = Format::of(*other as u32).map(|format| (format.name, format.bytes()));
            assert_eq!(format, Some((other.name(), other.bytes() as usize)));
        }
    }
}
