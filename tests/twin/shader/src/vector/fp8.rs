//! 8 bit floats: those of the OCP in RDNA4, those without negative zero and infinities in CDNA3.
//!
//! `twin-sass` has its own: what is no number, and what is too great, is each vendor's.

use crate::isa::Gen;
use crate::step::Run;

use super::inst::Inst;
use super::run::{self, Meaning, Operands};
use super::value::{Env, F32, No, Type, U16, U32, U64};

/// A format of 8 bits.
pub trait Format8: 'static {
    /// Bits of the fraction.
    const FRACTION: i32;
    /// What is added to an exponent.
    const BIAS: i32;
    /// The code of the greatest number.
    const MAX: u32;
    /// The code of infinity, where there is one.
    const INFINITY: Option<u32>;
    /// The code of a NaN.
    const NAN: u32;
    /// Whether the code of minus zero is a NaN.
    const UNSIGNED_ZERO: bool;
}

macro_rules! format8 {
    ($(#[$doc:meta])* $name:ident, $fraction:expr, $bias:expr, $max:expr, $inf:expr, $nan:expr, $uz:expr) => {
        $(#[$doc])*
        pub struct $name;
        impl Format8 for $name {
            const FRACTION: i32 = $fraction;
            const BIAS: i32 = $bias;
            const MAX: u32 = $max;
            const INFINITY: Option<u32> = $inf;
            const NAN: u32 = $nan;
            const UNSIGNED_ZERO: bool = $uz;
        }
    };
}
format8!(/// E4M3 of the OCP.
    Fp8, 3, 7, 0x7e, None, 0x7f, false);
format8!(/// E5M2 of the OCP.
    Bf8, 2, 15, 0x7b, Some(0x7c), 0x7e, false);
format8!(/// E4M3 of CDNA3.
    Fp8Z, 3, 8, 0x7f, None, 0x80, true);
format8!(/// E5M2 of CDNA3.
    Bf8Z, 2, 16, 0x7f, None, 0x80, true);

/// The number of a code.
#[inline(always)]
pub fn from8<F: Format8>(code: u32) -> f32 {
    let magnitude = code & 0x7f;
    let fraction = magnitude & ((1 << F::FRACTION) - 1);
    let exponent = (magnitude >> F::FRACTION) as i32;
    let significand = if exponent == 0 {
        fraction
    } else {
        fraction | 1 << F::FRACTION
    };
    let power = exponent.max(1) - F::BIAS - F::FRACTION;
    let scale = f32::from_bits(((power + 127) as u32) << 23);
    let x = significand as f32 * scale;
    let x = if code & 0x80 != 0 { -x } else { x };
    if F::UNSIGNED_ZERO {
        return if code & 0xff == F::NAN { f32::NAN } else { x };
    }
    match F::INFINITY {
        Some(inf) if magnitude == inf => f32::INFINITY.copysign(x),
        _ if magnitude > F::MAX => f32::NAN,
        _ => x,
    }
}

fn to8<F: Format8>(x: f32) -> u32 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let value = f64::from(x.abs());
    if x.is_nan() {
        return F::NAN | if F::UNSIGNED_ZERO { 0 } else { sign };
    }
    let least = 1 - F::BIAS;
    let exponent = ((value.to_bits() >> 52) as i32 - 1023).max(least);
    let unit = f64::from_bits(((exponent - F::FRACTION + 1023) as u64) << 52);
    let rounded = (value / unit).round_ties_even();
    // A carry runs into the exponent by itself.
    let code = if value > 1e9 {
        0x100
    } else {
        (((exponent - least) as u32) << F::FRACTION) + rounded as u32
    };
    if code > F::MAX {
        let over = F::INFINITY.unwrap_or(F::NAN);
        return over | if F::UNSIGNED_ZERO { 0 } else { sign };
    }
    if F::UNSIGNED_ZERO && code == 0 {
        return 0;
    }
    code | sign
}

macro_rules! meaning8 {
    ($name:ident: $d:ident = $a:ident $b:ident |$e:ident, $x:ident, $y:ident| $body:expr) => {
        struct $name<F>(F);
        impl<F: Format8> Meaning for $name<F> {
            type D = $d;
            type A = $a;
            type B = $b;
            type C = No;
            const MASK_IN: bool = false;
            const MASK_OUT: bool = false;
            #[inline(always)]
            fn lane<E: Env>(
                _: E,
                $x: <$a as Type>::T,
                $y: <$b as Type>::T,
                (): (),
                _: bool,
            ) -> (<$d as Type>::T, bool) {
                ($body, false)
            }
        }
    };
}
meaning8!(From: F32 = U32 No |e, x, _y| from8::<F>(x));
meaning8!(FromPair: U64 = U32 No |e, x, _y| {
    let [low, high] = [x, x >> 8].map(|x| u64::from(from8::<F>(x & 0xff).to_bits()));
    low | high << 32
});
meaning8!(ToPair: U16 = F32 F32 |e, x, y| (to8::<F>(x) | to8::<F>(y) << 8) as u16);
meaning8!(Stochastic4: U32 = F32 U32 |e, x, y| to8::<F>(added(x, y >> 12)));
meaning8!(Stochastic5: U32 = F32 U32 |e, x, y| to8::<F>(added(x, y >> 11)));

/// Adds to the fraction, which wraps around.
fn added(x: f32, random: u32) -> f32 {
    let bits = x.to_bits();
    f32::from_bits(bits & 0xff80_0000 | bits.wrapping_add(random) & 0x7f_ffff)
}

macro_rules! lowering8 {
    ($($(#[$doc:meta])* $name:ident: $meaning:ident $ocp:ident $cdna:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(inst: &Inst, operands: Operands) -> Run {
            if inst.generation == Gen::Cdna3 {
                run::step::<$meaning<$cdna>>(operands)
            } else {
                run::step::<$meaning<$ocp>>(operands)
            }
        })*
    };
}
lowering8! {
    /// `v_cvt_f32_fp8`.
    from_fp8: From Fp8 Fp8Z;
    /// `v_cvt_f32_bf8`.
    from_bf8: From Bf8 Bf8Z;
    /// `v_cvt_pk_f32_fp8`.
    from_pk_fp8: FromPair Fp8 Fp8Z;
    /// `v_cvt_pk_f32_bf8`.
    from_pk_bf8: FromPair Bf8 Bf8Z;
    /// `v_cvt_pk_fp8_f32`.
    to_pk_fp8: ToPair Fp8 Fp8Z;
    /// `v_cvt_pk_bf8_f32`.
    to_pk_bf8: ToPair Bf8 Bf8Z;
    /// `v_cvt_sr_fp8_f32`.
    to_sr_fp8: Stochastic4 Fp8 Fp8Z;
    /// `v_cvt_sr_bf8_f32`.
    to_sr_bf8: Stochastic5 Bf8 Bf8Z;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<F: Format8>() {
        for code in 0..256 {
            let x = from8::<F>(code);
            if x.is_nan() {
                assert!(from8::<F>(to8::<F>(x)).is_nan());
            } else {
                assert_eq!(to8::<F>(x), code, "{x}");
            }
        }
    }

    #[test]
    fn every_code_comes_back() {
        round_trip::<Fp8>();
        round_trip::<Bf8>();
        round_trip::<Fp8Z>();
        round_trip::<Bf8Z>();
        assert_eq!(from8::<Fp8>(0x7e), 448.0);
        assert_eq!(from8::<Fp8Z>(0x7f), 240.0);
        assert_eq!(from8::<Bf8Z>(0x7f), 57344.0);
    }
}
