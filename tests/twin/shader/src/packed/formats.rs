//! Formats of the elements of matrices.

use std::sync::LazyLock;

use crate::vector::fp8::{self, Bf8, Bf8Z, Format8, Fp8, Fp8Z};

/// What a matrix holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Element {
    /// Half precision.
    F16,
    /// Brain float.
    Bf16,
    /// Single precision.
    F32,
    /// Single precision of which 10 bits of the fraction count. Whether the rest is cut off or rounded
    /// is not documented: here it is cut off.
    Xf32,
    /// Double precision.
    F64,
    /// OCP E4M3: no infinities, all ones is NaN.
    Fp8,
    /// OCP E5M2.
    Bf8,
    /// E4M3 with one more in the bias; no infinities, no negative zero, whose code is the NaN.
    Fp8Fnuz,
    /// E5M2 in the same way.
    Bf8Fnuz,
    /// Bytes; signed or not.
    I8,
    /// Nibbles; signed or not.
    I4,
}

impl Element {
    /// How many bits it takes.
    pub const fn bits(self) -> usize {
        match self {
            Self::I4 => 4,
            Self::Fp8 | Self::Bf8 | Self::Fp8Fnuz | Self::Bf8Fnuz | Self::I8 => 8,
            Self::F16 | Self::Bf16 => 16,
            Self::F32 | Self::Xf32 => 32,
            Self::F64 => 64,
        }
    }

    /// The value of each of the 256 codes of an 8 bit float.
    pub fn values(self) -> &'static [f32; 256] {
        static FP8: LazyLock<[f32; 256]> = LazyLock::new(tabulate::<Fp8>);
        static BF8: LazyLock<[f32; 256]> = LazyLock::new(tabulate::<Bf8>);
        static FP8_FNUZ: LazyLock<[f32; 256]> = LazyLock::new(tabulate::<Fp8Z>);
        static BF8_FNUZ: LazyLock<[f32; 256]> = LazyLock::new(tabulate::<Bf8Z>);
        match self {
            Self::Bf8 => &BF8,
            Self::Fp8Fnuz => &FP8_FNUZ,
            Self::Bf8Fnuz => &BF8_FNUZ,
            _ => &FP8,
        }
    }
}

fn tabulate<F: Format8>() -> [f32; 256] {
    std::array::from_fn(|code| fp8::from8::<F>(code as u32))
}

#[cfg(test)]
mod tests {
    use super::Element;

    /// Values from the OCP specification of 8 bit floats, table 2, and from the paper that the FNUZ
    /// formats come from (arXiv 2206.02915), table 2.
    #[test]
    fn limits_of_the_8_bit_floats() {
        let is = |e: Element, code: usize, value: f32| {
            assert_eq!(e.values()[code], value, "{e:?} {code:#x}")
        };
        is(Element::Fp8, 0x7e, 448.0);
        is(Element::Fp8, 0x08, 2f32.powi(-6));
        is(Element::Fp8, 0x81, -(2f32.powi(-9)));
        is(Element::Bf8, 0x7b, 57344.0);
        is(Element::Bf8, 0x01, 2f32.powi(-16));
        is(Element::Bf8, 0xfc, f32::NEG_INFINITY);
        is(Element::Fp8Fnuz, 0x7f, 240.0);
        is(Element::Fp8Fnuz, 0x01, 2f32.powi(-10));
        is(Element::Bf8Fnuz, 0x7f, 57344.0);
        is(Element::Bf8Fnuz, 0x01, 2f32.powi(-17));
        for e in [Element::Fp8Fnuz, Element::Bf8Fnuz] {
            assert!(e.values()[0x80].is_nan());
        }
        assert!(Element::Fp8.values()[0xff].is_nan() && Element::Bf8.values()[0x7d].is_nan());
    }
}
