//! The MODE register, as float instructions see it.

use super::arith::is_nan_lane;
use crate::isa::Gen;
use crate::vector::float::{Format, HALF, Round, SINGLE};

/// Rounding and denormals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    bits: u32,
    generation: Gen,
}

impl Mode {
    /// What the register says.
    #[inline]
    pub fn new(generation: Gen, bits: u32) -> Self {
        Self { bits, generation }
    }

    /// Rounds to nearest and keeps denormals, in every format.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.bits & 0xff == 0xf0
    }

    /// The rounding of a format: bits 1:0 for single precision, 3:2 for half and double.
    pub fn round(self, format: Format) -> Round {
        Round::of(if format == SINGLE {
            self.bits
        } else {
            self.bits >> 2
        })
    }

    /// What is read of these bits: denormals may read as zero.
    #[inline]
    pub fn input(self, format: Format, bits: u32) -> u32 {
        self.flush(format, bits, 0)
    }

    /// What is written of these bits: denormals may become zero.
    #[inline]
    pub fn output(self, format: Format, bits: u32) -> u32 {
        self.flush(format, bits, 1)
    }

    /// Bits 5:4 for single precision, 7:6 for half and double: the low one keeps denormals that are
    /// read, the high one those that are written.
    #[inline]
    fn flush(self, format: Format, bits: u32, which: u32) -> u32 {
        let at = if format == SINGLE { 4 } else { 6 } + which;
        let exponent = ((1 << format.exponent) - 1) << format.fraction;
        if self.bits >> at & 1 == 0 && bits & exponent == 0 {
            bits & 1 << (format.fraction + format.exponent)
        } else {
            bits
        }
    }

    /// IEEE: minimum and maximum quiet a signaling NaN and return it. RDNA4 has no such bit.
    pub fn ieee(self) -> bool {
        self.bits >> 9 & 1 != 0
    }

    /// DX10_CLAMP: clamp makes a NaN zero. RDNA4 has no such bit, and does.
    #[inline]
    pub fn nan_clamps_to_zero(self) -> bool {
        self.generation == Gen::Rdna4 || self.bits >> 8 & 1 != 0
    }

    /// The generation.
    pub fn generation(self) -> Gen {
        self.generation
    }

    /// Clamps to 0 .. 1.
    #[inline(always)]
    pub fn clamp(self, format: Format, bits: u32) -> u32 {
        let one = if format == HALF { 0x3c00 } else { 0x3f80_0000 };
        let sign = 1 << (format.fraction + format.exponent);
        if is_nan_lane(format, bits) {
            if self.nan_clamps_to_zero() { 0 } else { bits }
        } else if bits & sign != 0 {
            0
        } else {
            bits.min(one)
        }
    }
}
