//! Scalar semantics: every arithmetic op on every element type, on values given as the bits of
//! [`Op::Const`](crate::ir::Op::Const). Shared by constant folding and the interpreter.
//!
//! Choices that the laws leave open:
//!
//! - A cast that overflows `f8e4m3` gives NaN (the type has no infinity; as PyTorch's
//!   `float8_e4m3fn`), one that overflows `f8e5m2` gives infinity.
//! - Integers reach `f16`, `bf16` and the 8-bit floats through `f32`.
//! - `Add` and `Max` of booleans are "or", `Mul` and `Min` are "and", `Sub` is "exclusive or".

use super::arith::BinaryValue;
use super::{Binary, ReduceOp, Unary};
use crate::dtype::DType;

/// Layout of a float narrower than `f32`.
struct Small {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// The all-ones exponent is an ordinary one, with NaN at all-ones mantissa only (e4m3).
    finite_only: bool,
}

const fn small(dtype: DType) -> Option<Small> {
    let (exponent_bits, mantissa_bits, finite_only) = match dtype {
        DType::F16 => (5, 10, false),
        DType::BF16 => (8, 7, false),
        DType::F8E4M3 => (4, 3, true),
        DType::F8E5M2 => (5, 2, false),
        _ => return None,
    };
    Some(Small {
        exponent_bits,
        mantissa_bits,
        finite_only,
    })
}

impl Small {
    const fn bias(&self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    const fn sign(&self) -> u64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    const fn infinity(&self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    /// What overflow gives: infinity, or NaN where there is none.
    const fn overflow(&self) -> u64 {
        if self.finite_only {
            self.sign() - 1
        } else {
            self.infinity()
        }
    }

    const fn nan(&self) -> u64 {
        if self.finite_only {
            self.sign() - 1
        } else {
            self.infinity() | 1 << (self.mantissa_bits - 1)
        }
    }

    fn decode(&self, bits: u64) -> f64 {
        let magnitude = bits & (self.sign() - 1);
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let mantissa = magnitude & ((1 << self.mantissa_bits) - 1);
        let unit = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
        let special = magnitude >= self.infinity();
        let value = if self.finite_only && magnitude == self.sign() - 1 {
            f64::NAN
        } else if !self.finite_only && special {
            if mantissa == 0 {
                f64::INFINITY
            } else {
                f64::NAN
            }
        } else if exponent == 0 {
            mantissa as f64 * unit(1 - self.bias() - self.mantissa_bits as i32)
        } else {
            let whole = mantissa | 1 << self.mantissa_bits;
            whole as f64 * unit(exponent - self.bias() - self.mantissa_bits as i32)
        };
        if bits & self.sign() != 0 {
            -value
        } else {
            value
        }
    }

    /// Nearest value, ties to even, from a binary64: one rounding.
    fn encode(&self, x: f64) -> u64 {
        let sign = if x.is_sign_negative() { self.sign() } else { 0 };
        if x.is_nan() {
            return sign | self.nan();
        }
        let bits = x.abs().to_bits();
        if x == 0.0 {
            return sign;
        }
        if x.is_infinite() {
            return sign | self.overflow();
        }
        // Subnormal binary64 is far below half of the smallest value of any small type.
        let exponent = (bits >> 52) as i32 - 1023;
        let whole = bits & ((1 << 52) - 1) | 1 << 52;
        let lowest = 1 - self.bias();
        // Mantissa bits to drop: more below the normal range.
        let drop = 52 - self.mantissa_bits as i32 + (lowest - exponent).max(0);
        if drop > 54 {
            return sign;
        }
        let kept = whole >> drop;
        let rest = whole & ((1u64 << drop) - 1);
        let half = 1u64 << (drop - 1);
        let up = rest > half || rest == half && kept & 1 == 1;
        // `kept` carries the hidden one for normal numbers, so adding it to the exponent field less
        // one is right for both, and a carry moves into the exponent.
        let field = (exponent.max(lowest) + self.bias() - 1) as u64;
        let encoded = (field << self.mantissa_bits) + kept + up as u64;
        let limit = if self.finite_only {
            self.sign() - 1
        } else {
            self.infinity()
        };
        sign | if encoded >= limit {
            self.overflow()
        } else {
            encoded
        }
    }
}

/// The value of float bits; exact for every float type.
pub fn to_f64(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        _ => small(dtype).map_or(f64::NAN, |s| s.decode(bits)),
    }
}

/// Float bits of the nearest value, ties to even.
pub fn from_f64(dtype: DType, x: f64) -> u64 {
    match dtype {
        DType::F64 => x.to_bits(),
        DType::F32 => u64::from((x as f32).to_bits()),
        _ => small(dtype).map_or(0, |s| s.encode(x)),
    }
}

/// Bits of an integer value in the encoding of `Const`: the low bits, extended as the type says.
pub fn from_int(dtype: DType, x: i128) -> u64 {
    match dtype {
        DType::Bool => (x != 0) as u64,
        DType::I8 => x as i8 as i64 as u64,
        DType::I16 => x as i16 as i64 as u64,
        DType::I32 => x as i32 as i64 as u64,
        DType::U8 => x as u8 as u64,
        DType::U16 => x as u16 as u64,
        DType::U32 => x as u32 as u64,
        _ => x as u64,
    }
}

/// The integer (or boolean) value of bits.
pub fn to_int(dtype: DType, bits: u64) -> i128 {
    if dtype.is_signed() {
        i128::from(bits as i64)
    } else {
        i128::from(bits)
    }
}

/// Smallest and largest value of an integer type or `Bool`.
pub fn int_limits(dtype: DType) -> (i128, i128) {
    match dtype {
        DType::Bool => (0, 1),
        _ if dtype.is_signed() => (
            -(1i128 << (dtype.bits() - 1)),
            (1i128 << (dtype.bits() - 1)) - 1,
        ),
        _ => (0, (1i128 << dtype.bits()) - 1),
    }
}

/// Bits of the integer `x` in any type, as a cast from a wide integer gives them.
pub fn constant(dtype: DType, x: i64) -> u64 {
    cast(DType::I64, dtype, x as u64)
}

/// `Cast`.
pub fn cast(from: DType, to: DType, bits: u64) -> u64 {
    if from == to {
        return bits;
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => from_f64(to, to_f64(from, bits)),
        (true, false) => {
            let x = to_f64(from, bits);
            if to == DType::Bool {
                return (x != 0.0) as u64;
            }
            let (lo, hi) = int_limits(to);
            // `as` saturates at the limits of i128 and takes NaN to 0.
            from_int(to, (x as i128).clamp(lo, hi))
        }
        (false, true) => {
            let x = to_int(from, bits);
            match to {
                DType::F64 => (x as f64).to_bits(),
                _ => from_f64(to, f64::from(x as f32)),
            }
        }
        (false, false) => from_int(to, to_int(from, bits)),
    }
}

/// `Bitcast` between types of one width.
pub fn bitcast(from: DType, to: DType, bits: u64) -> u64 {
    let width = from.bits();
    let raw = if width == 64 {
        bits
    } else {
        bits & ((1 << width) - 1)
    };
    if to.is_float() {
        raw
    } else {
        from_int(to, i128::from(raw))
    }
}

/// One-operand arithmetic; `None` where the op is not defined for the type.
pub fn unary(op: Unary, dtype: DType, a: u64) -> Option<u64> {
    let row = op.row();
    if !row.types.has(dtype) {
        return None;
    }
    Some(match dtype.is_float() {
        true => from_f64(dtype, row.float?(to_f64(dtype, a))),
        false => from_int(dtype, row.int?(dtype, to_int(dtype, a))),
    })
}

/// Two-operand arithmetic; `None` where the op is not defined for the type.
pub fn binary(op: Binary, dtype: DType, a: u64, b: u64) -> Option<u64> {
    let row = op.row();
    if !row.types.has(dtype) {
        return None;
    }
    // Sum, difference, product and quotient of narrower floats round the same through binary64
    // as directly: 53 >= 2 * 24 + 2 mantissa bits.
    Some(match (&row.value, dtype.is_float()) {
        (BinaryValue::Order(holds), true) => {
            holds(to_f64(dtype, a).partial_cmp(&to_f64(dtype, b))).into()
        }
        (BinaryValue::Order(holds), false) => {
            holds(Some(to_int(dtype, a).cmp(&to_int(dtype, b)))).into()
        }
        (BinaryValue::Number { float, .. }, true) => {
            let f = (*float)?;
            from_f64(dtype, f(to_f64(dtype, a), to_f64(dtype, b)))
        }
        (BinaryValue::Number { int, .. }, false) => {
            let f = (*int)?;
            from_int(dtype, f(dtype, to_int(dtype, a), to_int(dtype, b)))
        }
    })
}

/// `Dot`: products of the bytes of `a`, unsigned, and of `b`, signed, on top of `c`.
pub fn dot(a: u64, b: u64, c: u64) -> u64 {
    let bytes = |x: u64| (x as u32).to_le_bytes();
    let pairs = bytes(a).into_iter().zip(bytes(b));
    let sum: i32 = pairs.map(|(a, b)| i32::from(a) * i32::from(b as i8)).sum();
    from_int(DType::I32, i128::from((c as i32).wrapping_add(sum)))
}

/// `Fma`: one rounding for floats, wrapping for integers.
pub fn fma(dtype: DType, a: u64, b: u64, c: u64) -> Option<u64> {
    match dtype {
        DType::F64 => Some(
            f64::from_bits(a)
                .mul_add(f64::from_bits(b), f64::from_bits(c))
                .to_bits(),
        ),
        DType::F32 => {
            let f = |bits: u64| f32::from_bits(bits as u32);
            Some(u64::from(f(a).mul_add(f(b), f(c)).to_bits()))
        }
        _ if dtype.is_float() => {
            let f = |bits| to_f64(dtype, bits);
            Some(from_f64(dtype, f(a).mul_add(f(b), f(c))))
        }
        _ => {
            let product = binary(Binary::Mul, dtype, a, b)?;
            binary(Binary::Add, dtype, product, c)
        }
    }
}

/// The value that a reduction over nothing gives.
pub fn identity(op: ReduceOp, dtype: DType) -> u64 {
    match op {
        ReduceOp::Add | ReduceOp::Or => 0,
        ReduceOp::Mul => constant(dtype, 1),
        ReduceOp::And => from_int(dtype, -1),
        // e4m3 has no infinity: its largest finite value.
        ReduceOp::Max if dtype == DType::F8E4M3 => 0xfe,
        ReduceOp::Min if dtype == DType::F8E4M3 => 0x7e,
        ReduceOp::Max if dtype.is_float() => from_f64(dtype, f64::NEG_INFINITY),
        ReduceOp::Min if dtype.is_float() => from_f64(dtype, f64::INFINITY),
        ReduceOp::Max => from_int(dtype, int_limits(dtype).0),
        ReduceOp::Min => from_int(dtype, int_limits(dtype).1),
    }
}

/// Reads one element from memory as bits of `Const`; `bytes` holds exactly one element.
pub fn read(dtype: DType, bytes: &[u8]) -> u64 {
    let mut raw = [0u8; 8];
    for (to, from) in raw.iter_mut().zip(bytes) {
        *to = *from;
    }
    let raw = u64::from_le_bytes(raw);
    if dtype.is_float() {
        raw
    } else {
        from_int(dtype, i128::from(raw))
    }
}

/// Writes one element to memory; `bytes` holds exactly one element.
pub fn write(bits: u64, bytes: &mut [u8]) {
    let raw = bits.to_le_bytes();
    let n = bytes.len();
    bytes.copy_from_slice(&raw[..n]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_round_trip() {
        for dtype in [DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2] {
            for bits in 0..1u64 << dtype.bits() {
                let x = to_f64(dtype, bits);
                if x.is_nan() {
                    assert!(to_f64(dtype, from_f64(dtype, x)).is_nan());
                } else {
                    assert_eq!(from_f64(dtype, x), bits, "{dtype} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn halves_agree_with_the_half_crate() {
        let mut state = 88172645463325252u64;
        for _ in 0..200_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let x = f32::from_bits(state as u32);
            if x.is_nan() {
                continue;
            }
            let want = half::f16::from_f32(x).to_bits();
            assert_eq!(from_f64(DType::F16, f64::from(x)), u64::from(want), "{x:e}");
            let want = half::bf16::from_f32(x).to_bits();
            assert_eq!(
                from_f64(DType::BF16, f64::from(x)),
                u64::from(want),
                "{x:e}"
            );
        }
    }

    #[test]
    fn eight_bit_overflow() {
        assert_eq!(from_f64(DType::F8E4M3, 448.0), 0x7e);
        assert_eq!(from_f64(DType::F8E4M3, 464.0), 0x7e); // a tie, to even
        assert_eq!(from_f64(DType::F8E4M3, 465.0), 0x7f);
        assert_eq!(from_f64(DType::F8E5M2, 57344.0), 0x7b);
        assert_eq!(from_f64(DType::F8E5M2, 61440.0), 0x7c);
        assert_eq!(from_f64(DType::F8E4M3, 2f64.powi(-9)), 1);
        assert_eq!(from_f64(DType::F8E4M3, 2f64.powi(-10)), 0);
        assert_eq!(from_f64(DType::F8E4M3, 1.01 * 2f64.powi(-10)), 1);
    }

    #[test]
    fn one_rounding_from_binary64() {
        // 1 + 2^-11 + 2^-40 is above the tie, which its upper 32 bits do not show.
        let x = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(from_f64(DType::F16, x), 0x3c01);
    }

    #[test]
    fn integer_laws() {
        use Binary::*;
        let m1 = -1i64 as u64;
        let min = i64::MIN as u64;
        assert_eq!(binary(FloorDiv, DType::I64, min, m1), Some(min));
        assert_eq!(binary(FloorDiv, DType::I64, 5, 0), Some(0));
        assert_eq!(binary(FloorMod, DType::I64, 5, 0), Some(0));
        assert_eq!(
            binary(FloorDiv, DType::I32, -7i64 as u64, 2),
            Some(-4i64 as u64)
        );
        assert_eq!(binary(FloorMod, DType::I32, -7i64 as u64, 2), Some(1));
        assert_eq!(binary(TruncMod, DType::I32, -7i64 as u64, 2), Some(m1));
        assert_eq!(binary(Shl, DType::I8, 1, 8), Some(0));
        assert_eq!(
            binary(Shr, DType::I8, m1, 200u8 as i8 as i64 as u64),
            Some(m1)
        );
        assert_eq!(binary(Mul, DType::U64, u64::MAX, u64::MAX), Some(1));
        assert_eq!(cast(DType::F32, DType::I8, f32::NAN.to_bits().into()), 0);
        assert_eq!(cast(DType::F32, DType::I8, 300f32.to_bits().into()), 127);
        assert_eq!(cast(DType::I32, DType::U8, m1), 255);
        assert_eq!(cast(DType::I32, DType::Bool, 2), 1);
    }

    #[test]
    fn zeros_are_ordered_in_max_and_min() {
        let (p, n) = (0u64, 1u64 << 31);
        for (a, b) in [(p, n), (n, p)] {
            assert_eq!(binary(Binary::Max, DType::F32, a, b), Some(p));
            assert_eq!(binary(Binary::Min, DType::F32, a, b), Some(n));
        }
    }
}
