//! Element types: names, widths and promotion.
//!
//! One closed enum, so that every table over types is checked for completeness by the compiler.

use std::fmt;

/// An element type of a tensor or of a value in a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum DType {
    /// One byte in memory, 0 or 1; any other byte read from memory counts as true.
    Bool,
    /// Two's complement, 8 bits.
    I8,
    /// Two's complement, 16 bits.
    I16,
    /// Two's complement, 32 bits.
    I32,
    /// Two's complement, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// OCP 8-bit float: 4 exponent bits, 3 mantissa bits, no infinity, NaN is 0x7f/0xff.
    F8E4M3,
    /// OCP 8-bit float: 5 exponent bits, 2 mantissa bits, IEEE-like infinities and NaNs.
    F8E5M2,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

impl DType {
    /// Every type, in promotion order.
    pub const ALL: [DType; 15] = [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Width of one element in memory, in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => 1,
            DType::I16 | DType::U16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::U32 | DType::F32 => 4,
            DType::I64 | DType::U64 | DType::F64 => 8,
        }
    }

    /// Width of one element in bits.
    pub const fn bits(self) -> u32 {
        self.size() as u32 * 8
    }

    /// One of the floating point types.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 | DType::F64
        )
    }

    /// One of the integer types; `Bool` is not one.
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }

    /// A signed integer type.
    pub const fn is_signed(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    /// An unsigned integer type.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// The lower-case short name, as it is printed and parsed: `f32`, `bf16`, `f8e4m3`, ...
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The type in which a sum of many elements is accumulated before it is cast back.
    pub const fn accumulator(self) -> DType {
        match self {
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// The type of a sum, a product, and running ones: `I64` of booleans and of all integers that fit
    /// into it, as in PyTorch; `U64` stays, as in numpy.
    pub const fn sum_type(self) -> DType {
        match self {
            DType::Bool | DType::I8 | DType::I16 | DType::I32 => DType::I64,
            DType::U8 | DType::U16 | DType::U32 => DType::I64,
            other => other,
        }
    }

    /// The smallest type that both operands convert to without a change of kind (the lattice that
    /// JAX documents: bool < unsigned < signed < float; f16 with bf16 gives f32).
    pub fn promote(self, other: DType) -> DType {
        use DType::*;
        if self == other {
            return self;
        }
        let (a, b) = if self < other {
            (self, other)
        } else {
            (other, self)
        };
        match (a, b) {
            (Bool, _) => b,
            (_, F8E4M3 | F8E5M2) if a.is_float() => F16,
            (_, _) if b.is_float() && !a.is_float() => b,
            (F16, BF16) => F32,
            (_, _) if b.is_float() => b,
            (_, U8 | U16 | U32 | U64) if a.is_signed() => {
                // A signed type that holds both; i64 with u64 has none, and becomes f32 as in JAX.
                match b.size().max(a.size() / 2) {
                    1 => [I16, I16, I32, I64][a.size().ilog2() as usize],
                    2 => [I32, I32, I32, I64][a.size().ilog2() as usize],
                    4 => I64,
                    _ if b == U64 => F32,
                    _ => I64,
                }
            }
            _ => b,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_commutative_and_idempotent() {
        for a in DType::ALL {
            assert_eq!(a.promote(a), a);
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a), "{a} {b}");
            }
        }
    }

    #[test]
    fn mixed_signs_widen() {
        assert_eq!(DType::I8.promote(DType::U8), DType::I16);
        assert_eq!(DType::I32.promote(DType::U8), DType::I32);
        assert_eq!(DType::I64.promote(DType::U8), DType::I64);
        assert_eq!(DType::I16.promote(DType::U32), DType::I64);
        assert_eq!(DType::I64.promote(DType::U32), DType::I64);
        assert_eq!(DType::I64.promote(DType::U64), DType::F32);
        assert_eq!(DType::F16.promote(DType::BF16), DType::F32);
        assert_eq!(DType::I64.promote(DType::F16), DType::F16);
        assert_eq!(DType::F8E4M3.promote(DType::F8E5M2), DType::F16);
    }
}
