//! Conversions of category 1.
//!
//! Source: Mesa src/freedreno/isa/ir3-cat1.xml (types, rounding); ir3_compiler_nir.c, `create_cov`. Floats beyond an
//! integer's range become its end, and NaN becomes 0: a guess, as OpenCL's saturated conversions have it.
//!
//! There is one type of 8 bits, u8, and its conversions keep the sign: Mesa takes cov.u8s16 and cov.u8s32 for signed bytes,
//! and an `and` for unsigned ones, since `cov` does not extend with zeros. It takes none between bytes and floats, since
//! those do not work either.

use half::f16;

use super::float::{flush, flush_half, from_half};
use super::integer::widen;
use crate::fault::{Result, broken};
use crate::inst::{Round, Type};
use crate::regs::Lanes;
use crate::rules;

/// A float as a half, to the nearest.
pub fn to_half(value: f32) -> u16 {
    round_half(value.into(), Round::Even)
}

/// The float with the next bits, up or down.
fn step(bits: u32, up: bool, sign: u32) -> u32 {
    let negative = bits & sign != 0;
    match (bits & !sign, negative == up) {
        // Beyond zero is the least of the other sign.
        (0, _) => {
            if up {
                1
            } else {
                sign | 1
            }
        }
        (_, true) => bits - 1,
        (_, false) => bits + 1,
    }
}

/// Whether a rounded value is to be stepped, and up or not.
fn correction(exact: f64, rounded: f64, round: Round) -> Option<bool> {
    match round {
        Round::Up if rounded < exact => Some(true),
        Round::Down if rounded > exact => Some(false),
        Round::Zero if rounded.abs() > exact.abs() => Some(exact < 0.0),
        _ => None,
    }
}

fn round_half(exact: f64, round: Round) -> u16 {
    let nearest = f16::from_f64(exact);
    let bits = match correction(exact, nearest.to_f64(), round) {
        Some(up) => step(nearest.to_bits().into(), up, 0x8000) as u16,
        None => nearest.to_bits(),
    };
    flush_half(bits)
}

fn round_single(exact: f64, round: Round) -> u32 {
    let nearest = exact as f32;
    let bits = match correction(exact, nearest.into(), round) {
        Some(up) => step(nearest.to_bits(), up, 1 << 31),
        None => nearest.to_bits(),
    };
    flush(f32::from_bits(bits)).to_bits()
}

fn whole(value: f64, round: Round) -> f64 {
    match round {
        Round::Zero => value.trunc(),
        Round::Even => value.round_ties_even(),
        Round::Up => value.ceil(),
        Round::Down => value.floor(),
    }
}

/// A number of some type, exactly.
fn exact(bits: u32, ty: Type) -> f64 {
    match ty {
        Type::F32 => flush(f32::from_bits(bits)).into(),
        Type::F16 => from_half(bits).into(),
        ty => integer(bits, ty) as f64,
    }
}

fn integer(bits: u32, ty: Type) -> i64 {
    match ty {
        Type::U8 | Type::U8Full => (bits as u8 as i8).into(),
        Type::S16 => widen(bits, false).into(),
        Type::S32 => (bits as i32).into(),
        Type::U16 => (bits & 0xffff).into(),
        _ => bits.into(),
    }
}

/// One value from a type to another.
pub fn convert(bits: u32, from: Type, to: Type, round: Round) -> u32 {
    if to.float() {
        let number = exact(bits, from);
        return match to {
            Type::F16 => round_half(number, round).into(),
            _ => round_single(number, round),
        };
    }
    let number = match from.float() {
        // Saturates, and NaN is 0.
        true => {
            let number = whole(exact(bits, from), round);
            let (low, high) = match to {
                Type::U8 | Type::U8Full => (0, 0xff),
                Type::U16 => (0, 0xffff),
                Type::S16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
                Type::S32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
                _ => (0, i64::from(u32::MAX)),
            };
            (number as i64).clamp(low, high)
        }
        false => integer(bits, from),
    };
    match to.bytes() {
        1 => number as u32 & 0xff,
        2 => number as u32 & 0xffff,
        _ => number as u32,
    }
}

/// The values of a move.
pub fn moved(values: Lanes, from: Type, to: Type, round: Round) -> Result<Lanes> {
    if from == Type::U8Full || to == Type::U8Full {
        return broken(&rules::MEANING, "a conversion of the type 7");
    }
    if from == to {
        return Ok(values);
    }
    match (from, to) {
        (Type::U8, Type::U16 | Type::U32) => {
            return broken(&rules::MEANING, "a byte that cov extends with zeros");
        }
        (Type::U8, Type::F16 | Type::F32) => {
            return broken(&rules::MEANING, "a byte that cov makes a float");
        }
        (Type::F16 | Type::F32, Type::U8) => {
            return broken(&rules::MEANING, "a float that cov makes a byte");
        }
        _ => {}
    }
    Ok(values.map(|bits| convert(bits, from, to, round)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regs::LANES;

    fn half(value: f32, round: Round) -> f32 {
        f16::from_bits(convert(value.to_bits(), Type::F32, Type::F16, round) as u16).to_f32()
    }

    #[test]
    fn floats_become_halves_as_the_rounding_says() {
        // Halves between 2048 and 4096 are even.
        assert_eq!(half(2049.0, Round::Even), 2048.0);
        assert_eq!(half(2051.0, Round::Even), 2052.0);
        assert_eq!(half(2051.0, Round::Zero), 2050.0);
        assert_eq!(half(-2051.0, Round::Zero), -2050.0);
        assert_eq!(half(2049.0, Round::Up), 2050.0);
        assert_eq!(half(-2049.0, Round::Up), -2048.0);
        assert_eq!(half(-2049.0, Round::Down), -2050.0);
        assert_eq!(half(1e6, Round::Even), f32::INFINITY);
        assert_eq!(half(1e6, Round::Zero), 65504.0);
        assert_eq!(half(1e-6, Round::Even), 0.0);
        assert!(half(f32::NAN, Round::Zero).is_nan());
    }

    #[test]
    fn floats_become_integers() {
        let to = |v: f32, ty, round| convert(v.to_bits(), Type::F32, ty, round);
        assert_eq!(to(-1.7, Type::S32, Round::Zero) as i32, -1);
        assert_eq!(to(2.5, Type::S32, Round::Even), 2);
        assert_eq!(to(2.1, Type::U32, Round::Up), 3);
        assert_eq!(to(-2.1, Type::S32, Round::Down) as i32, -3);
        assert_eq!(to(1e20, Type::S32, Round::Zero) as i32, i32::MAX);
        assert_eq!(to(-5.0, Type::U32, Round::Zero), 0);
        assert_eq!(to(f32::NAN, Type::S32, Round::Zero), 0);
        assert_eq!(to(70000.0, Type::U16, Round::Zero), 0xffff);
    }

    #[test]
    fn integers_become_floats() {
        let to = |v: u32, ty, round| f32::from_bits(convert(v, ty, Type::F32, round));
        assert_eq!(to(16_777_217, Type::U32, Round::Even), 16_777_216.0);
        assert_eq!(to(16_777_217, Type::U32, Round::Up), 16_777_218.0);
        assert_eq!(to(16_777_219, Type::U32, Round::Zero), 16_777_218.0);
        assert_eq!(to(u32::MAX, Type::S32, Round::Even), -1.0);
        assert_eq!(to(0xffff, Type::S16, Round::Even), -1.0);
    }

    #[test]
    fn integers_change_their_size() {
        assert_eq!(convert(0xffff, Type::S16, Type::S32, Round::Zero), u32::MAX);
        assert_eq!(convert(0xffff, Type::U16, Type::S32, Round::Zero), 0xffff);
        assert_eq!(convert(0x1_2345, Type::U32, Type::U16, Round::Zero), 0x2345);
        assert_eq!(convert(0x12345, Type::S32, Type::U8, Round::Zero), 0x45);
    }

    #[test]
    fn bytes_keep_their_sign() {
        let to = |bits: u32, ty| moved([bits; LANES], Type::U8, ty, Round::Zero).map(|v| v[0]);
        // What is above the byte in its register is not looked at.
        for (bits, value) in [
            (0x7f, 127),
            (0x80, -128),
            (0xab80, -128),
            (0xff, -1),
            (0x100, 0),
        ] {
            assert_eq!(to(bits, Type::S16).unwrap() as u16 as i16, value);
            assert_eq!(to(bits, Type::S32).unwrap() as i32, i32::from(value));
        }
        for ty in [Type::U16, Type::U32, Type::F16, Type::F32, Type::U8Full] {
            assert!(to(1, ty).is_err(), "{ty:?}");
        }
        for ty in [Type::F16, Type::F32] {
            assert!(moved([0; LANES], ty, Type::U8, Round::Zero).is_err());
        }
    }

    #[test]
    fn halves_become_floats_exactly() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            let single = f32::from_bits(convert(bits.into(), Type::F16, Type::F32, Round::Zero));
            if half.is_nan() {
                assert!(single.is_nan());
            } else if bits & 0x7c00 == 0 {
                assert_eq!(single, 0.0);
            } else {
                assert_eq!(single, half.to_f32());
                assert_eq!(to_half(single), bits);
            }
        }
    }
}
