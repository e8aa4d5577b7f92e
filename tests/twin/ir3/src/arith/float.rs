//! Floats: IEEE, to the nearest, ties to even; denormals are 0 on input and output.
//!
//! Source: the float controls of Mesa src/freedreno/vulkan/tu_device.cc (`shaderDenormFlushToZeroFloat16` and 32,
//! `shaderRoundingModeRTE`, `shaderSignedZeroInfNanPreserve`). Whether mad is fused is not documented: Mesa lowers ffma
//! (ir3_compiler.c, `lower_ffma16` and 32) and forms mad from inexact products and sums alone. That the product is rounded
//! first is a guess; a launch may have it otherwise.

use std::cmp::Ordering;

use half::f16;

use crate::op::Op;

/// A denormal as a zero of its sign.
pub fn flush(value: f32) -> f32 {
    if value.is_subnormal() {
        0f32.copysign(value)
    } else {
        value
    }
}

/// A denormal half as a zero of its sign.
pub fn flush_half(bits: u16) -> u16 {
    if bits & 0x7c00 == 0 {
        bits & 0x8000
    } else {
        bits
    }
}

/// The value of half bits; denormals are 0.
pub fn from_half(bits: u32) -> f32 {
    f16::from_bits(flush_half(bits as u16)).to_f32()
}

/// The bits of a result of halves. Two roundings, to 24 bits and then to 11, are as one for sums and products.
fn half_bits(value: f32) -> u32 {
    flush_half(f16::from_f32(value).to_bits()).into()
}

/// The value of a source.
pub fn value(bits: u32, full: bool) -> f32 {
    match full {
        true => flush(f32::from_bits(bits)),
        false => from_half(bits),
    }
}

/// The bits of a result.
pub fn bits(value: f32, full: bool) -> u32 {
    match full {
        true => flush(value).to_bits(),
        false => half_bits(value),
    }
}

/// How two floats compare; none if one is NaN.
pub fn order(a: u32, b: u32, full: bool) -> Option<Ordering> {
    value(a, full).partial_cmp(&value(b, full))
}

/// The lesser or greater of two; of a number and NaN the number.
fn extreme(a: f32, b: f32, max: bool) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b && max == a.is_sign_positive() => a,
        _ if a != b && max == (a > b) => a,
        _ => b,
    }
}

/// Operations on two floats.
pub fn two(op: Op, full: bool) -> Option<impl Fn(u32, u32) -> u32> {
    let f: fn(f32, f32) -> f32 = match op {
        Op::AddF => |a, b| a + b,
        Op::MulF => |a, b| a * b,
        Op::MinF => |a, b| extreme(a, b, false),
        Op::MaxF => |a, b| extreme(a, b, true),
        _ => return None,
    };
    Some(move |a, b| bits(f(value(a, full), value(b, full)), full))
}

/// Operations on one float. absneg.f moves bits: its signs are those of the source.
pub fn one(op: Op, full: bool) -> Option<impl Fn(u32) -> u32> {
    let f: fn(f32) -> f32 = match op {
        Op::AbsnegF => |a| a,
        Op::SignF => sign,
        Op::FloorF => f32::floor,
        Op::CeilF => f32::ceil,
        Op::RndneF => f32::round_ties_even,
        // Away from zero where two are as near.
        Op::RndazF => f32::round,
        Op::TruncF => f32::trunc,
        _ => return None,
    };
    let moves = op == Op::AbsnegF;
    Some(move |a| {
        if moves {
            a
        } else {
            bits(f(value(a, full)), full)
        }
    })
}

fn sign(a: f32) -> f32 {
    if a > 0.0 {
        1.0
    } else if a < 0.0 {
        -1.0
    } else {
        a
    }
}

/// Product, rounded unless it is fused, plus a third.
pub fn mad(a: u32, b: u32, c: u32, full: bool, fused: bool) -> u32 {
    let [a, b, c] = [a, b, c].map(|bits| value(bits, full));
    match (fused, full) {
        (true, true) => bits(a.mul_add(b, c), full),
        // Products of halves are exact in doubles.
        (true, false) => {
            let sum = f64::from(a) * f64::from(b) + f64::from(c);
            flush_half(f16::from_f64(sum).to_bits()).into()
        }
        (false, _) => bits(value(bits(a * b, full), full) + c, full),
    }
}

/// Clamps to 0..1; NaN becomes 0.
pub fn saturate(a: u32, full: bool) -> u32 {
    let value = value(a, full);
    let clamped = if value > 0.0 { value.min(1.0) } else { 0.0 };
    bits(clamped, full)
}

/// Entries of the table of floats: single and half bits.
///
/// Source: Mesa src/freedreno/ir3/ir3.c, `ir3_flut`.
pub const TABLE: [(u32, u16); 12] = [
    (0x0000_0000, 0x0000),
    (0x3f00_0000, 0x3800),
    (0x3f80_0000, 0x3c00),
    (0x4000_0000, 0x4000),
    (0x402d_f854, 0x4170),
    (0x4049_0fdb, 0x4248),
    (0x3ea2_f983, 0x3518),
    (0x3f31_7218, 0x398c),
    (0x3fb8_aa3b, 0x3dc5),
    (0x3e9a_209b, 0x34d1),
    (0x4054_9a78, 0x42a5),
    (0x4080_0000, 0x4400),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn apply2(op: Op, full: bool, a: f32, b: f32) -> f32 {
        let to = |v: f32| {
            if full {
                v.to_bits()
            } else {
                f16::from_f32(v).to_bits().into()
            }
        };
        let f = two(op, full).unwrap();
        let result = f(to(a), to(b));
        if full {
            f32::from_bits(result)
        } else {
            f16::from_bits(result as u16).to_f32()
        }
    }

    #[test]
    fn sums_and_products_round_to_the_nearest() {
        assert_eq!(apply2(Op::AddF, true, 0.1, 0.2), 0.1f32 + 0.2f32);
        assert_eq!(
            apply2(Op::MulF, false, 3.0, 0.333),
            f16::from_f32(3.0 * f16::from_f32(0.333).to_f32()).to_f32()
        );
        assert_eq!(apply2(Op::AddF, false, 2048.0, 1.0), 2048.0);
        assert_eq!(apply2(Op::AddF, false, 2048.0, 3.0), 2052.0);
    }

    #[test]
    fn denormals_are_zero() {
        let tiny = f32::from_bits(1);
        assert_eq!(apply2(Op::AddF, true, tiny, tiny).to_bits(), 0);
        assert_eq!(apply2(Op::MulF, true, -1e-30, 1e-30).to_bits(), 1 << 31);
        assert_eq!(apply2(Op::MulF, false, 1e-4, 1e-4), 0.0);
        assert_eq!(apply2(Op::AddF, false, 3e-5, 0.0), 0.0);
    }

    #[test]
    fn extremes_prefer_numbers() {
        assert_eq!(apply2(Op::MinF, true, f32::NAN, 2.0), 2.0);
        assert_eq!(apply2(Op::MaxF, true, -3.0, f32::NAN), -3.0);
        assert_eq!(apply2(Op::MinF, true, 0.0, -0.0).to_bits(), 1 << 31);
        assert_eq!(apply2(Op::MaxF, true, -0.0, 0.0).to_bits(), 0);
        assert_eq!(apply2(Op::MaxF, true, 5.0, 4.0), 5.0);
    }

    #[test]
    fn one_source() {
        let f = |op, v: f32| f32::from_bits(one(op, true).unwrap()(v.to_bits()));
        assert_eq!(f(Op::RndneF, 2.5), 2.0);
        assert_eq!(f(Op::RndazF, 2.5), 3.0);
        assert_eq!(f(Op::RndazF, -2.5), -3.0);
        assert_eq!(f(Op::FloorF, -0.5), -1.0);
        assert_eq!(f(Op::CeilF, 0.5), 1.0);
        assert_eq!(f(Op::TruncF, -1.7), -1.0);
        assert_eq!(f(Op::SignF, -1.7), -1.0);
        assert_eq!(f(Op::SignF, 0.0), 0.0);
        assert_eq!(f(Op::AbsnegF, f32::from_bits(3)).to_bits(), 3);
    }

    #[test]
    fn the_product_of_mad_is_rounded() {
        let (a, b) = (1.0 + f32::EPSILON, 1.0 - f32::EPSILON);
        let of = |fused| mad(a.to_bits(), b.to_bits(), (-1f32).to_bits(), true, fused);
        assert_eq!(f32::from_bits(of(false)), a * b - 1.0);
        // Unless it is fused: a * b is 1 - EPSILON^2.
        let square = f32::EPSILON * f32::EPSILON;
        assert_eq!(f32::from_bits(of(true)), -square);
        let halves = [64.0625, 63.9375, -4096.0].map(|v| f16::from_f32(v).to_bits().into());
        let [a, b, c]: [u32; 3] = halves;
        let of = |fused| f16::from_bits(mad(a, b, c, false, fused) as u16).to_f32();
        assert_eq!((of(false), of(true)), (0.0, -1.0 / 256.0));
    }

    #[test]
    fn saturation() {
        let f = |v: f32| f32::from_bits(saturate(v.to_bits(), true));
        assert_eq!((f(-1.0), f(0.5), f(7.0), f(f32::NAN)), (0.0, 0.5, 1.0, 0.0));
    }

    #[test]
    fn the_halves_of_the_table_are_those_of_its_singles() {
        for (single, half) in TABLE {
            let rounded = f16::from_f32(f32::from_bits(single)).to_bits();
            assert!(
                rounded.abs_diff(half) <= 1,
                "{single:x} {half:x} {rounded:x}"
            );
        }
    }
}
