//! Floating-point numbers of eight bits and fewer.
//!
//! What they mean and what they saturate to is in the manual of PTX, under `cvt`, and in what comes with
//! CUDA for processors, cuda_fp8.hpp and its like. `twin-shader` has its own: what is no number, and what is too
//! great, is each vendor's.

use super::source::Reading;

/// A type of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eighth {
    E4M3,
    E5M2,
    E3M2,
    E2M3,
    E2M1,
}

impl Eighth {
    /// The types that an instruction names, in order.
    pub fn read(r: &Reading) -> Vec<Self> {
        r.inst
            .modifiers
            .iter()
            .filter_map(|&text| Self::named(text.strip_prefix('.')?))
            .collect()
    }

    pub fn named(text: &str) -> Option<Self> {
        Some(match text {
            "E4M3" => Self::E4M3,
            "E5M2" => Self::E5M2,
            "E3M2" => Self::E3M2,
            "E2M3" => Self::E2M3,
            "E2M1" => Self::E2M1,
            _ => return None,
        })
    }

    /// The bits of the exponent and of the fraction.
    fn shape(self) -> (u32, u32) {
        match self {
            Self::E4M3 => (4, 3),
            Self::E5M2 => (5, 2),
            Self::E3M2 => (3, 2),
            Self::E2M3 => (2, 3),
            Self::E2M1 => (2, 1),
        }
    }

    /// How many bits one has.
    pub fn bits(self) -> u32 {
        let (exponent, fraction) = self.shape();
        1 + exponent + fraction
    }

    /// The least exponent of a number with a leading one.
    pub fn least(self) -> i32 {
        2 - (1 << (self.shape().0 - 1))
    }

    /// The greatest magnitude, as bits. Beyond it E5M2 has infinity, and both types of eight bits what is no
    /// number.
    fn most(self) -> u32 {
        match self {
            Self::E4M3 => 0x7e,
            Self::E5M2 => 0x7b,
            _ => (1 << (self.bits() - 1)) - 1,
        }
    }

    /// As a number; bits above it do not count.
    #[inline(always)]
    pub fn wide(self, bits: u32) -> f32 {
        let (exponent, fraction) = self.shape();
        let sign = (bits >> (exponent + fraction) & 1) << 31;
        let magnitude = bits & ((1 << (exponent + fraction)) - 1);
        if magnitude > self.most() {
            let infinite = self == Self::E5M2 && magnitude == 0x7c;
            let value = if infinite { f32::INFINITY } else { f32::NAN };
            return f32::from_bits(value.to_bits() | sign);
        }
        // Moved to the places of a single, where it is too small by a power of two.
        let small = f32::from_bits(magnitude << (23 - fraction));
        let value = small * f32::from_bits((self.least() + 126 + 127).cast_unsigned() << 23);
        f32::from_bits(value.to_bits() | sign)
    }

    /// The nearest there is, at most the greatest; of two that are as near the one whose last bit is 0.
    /// What is no number stays so, or is the greatest where there is no such thing.
    pub fn narrow(self, value: f64) -> u32 {
        let (exponent, fraction) = self.shape();
        let most = self.most();
        if value.is_nan() {
            return if self.bits() == 8 { 0x7f } else { most };
        }
        let sign = u32::from(value.is_sign_negative()) << (exponent + fraction);
        let magnitude = value.abs().min(f64::from(self.wide(most)));
        let above = (magnitude.to_bits() >> 52) as i32 - 1023 - self.least();
        let above = above.max(0);
        // In units of the last place there.
        let unit = fraction.cast_signed() - self.least() - above;
        let whole = (magnitude * 2_f64.powi(unit)).round_ties_even() as u32;
        sign | ((above.cast_unsigned() << fraction) + whole)
    }
}
