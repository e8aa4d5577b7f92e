//! Functions: exponentials, trigonometry, reciprocals, and the steps of a division.

use super::float::{self, Number, Round};
use super::value::Env;

/// Zero with its sign in place of a denormal. The f32 functions flush denormals whatever MODE says
/// (LLVM, `AMDGPUCodeGenPrepare`: "rcp_f32 is accurate for !fpmath >= 1.0ulp and denormals are
/// flushed"; the expansions of exp, log, sqrt and rsq scale them away likewise).
#[inline(always)]
fn flush(x: f32) -> f32 {
    let bits = x.to_bits();
    let denormal = bits & 0x7f80_0000 == 0;
    f32::from_bits(if denormal { bits & 0x8000_0000 } else { bits })
}

/// `2^x` in double precision, for what is left after rounding to a single or less.
#[inline(always)]
fn exp2_wide(x: f64) -> f64 {
    // Beyond these all singles are infinite or zero.
    let x = x.clamp(-1000.0, 1000.0);
    // 1.5 * 2^52: adding it rounds to an integer, which stands in the low bits.
    let magic = 6_755_399_441_055_744.0;
    let shifted = x + magic;
    let n = shifted - magic;
    let t = (x - n) * std::f64::consts::LN_2;
    // The series of e^t for |t| < 0.35.
    let mut p: f64 = 1.0 / 362_880.0;
    for c in [
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ] {
        p = p.mul_add(t, c);
    }
    let scale = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1.0f64.to_bits()));
    p * scale
}

/// `2^x`; denormals are flushed.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let y = flush(exp2_wide(f64::from(flush(x))) as f32);
    if x.is_nan() { x } else { y }
}

/// `2^x` for halves.
#[inline(always)]
pub fn exp16(x: f32) -> f32 {
    let y = exp2_wide(f64::from(x)) as f32;
    if x.is_nan() { x } else { y }
}

/// The logarithm to base 2, in double precision, of a positive normal number.
#[inline(always)]
fn log2_wide(x: f64) -> f64 {
    let bits = x.to_bits();
    // The mantissa from sqrt(1/2) to sqrt(2).
    let offset = bits.wrapping_sub(0x3fe6_a09e_667f_3bcd);
    let exponent = (offset as i64) >> 52;
    let mantissa = f64::from_bits(bits.wrapping_sub((exponent as u64) << 52));
    // As a double: the integer put below 1.5 * 2^52.
    let magic = 6_755_399_441_055_744.0f64;
    let n = f64::from_bits(magic.to_bits().wrapping_add(exponent as u64)) - magic;
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let z = s * s;
    // The series of the inverse hyperbolic tangent.
    let mut p: f64 = 1.0 / 13.0;
    for c in [1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0] {
        p = p.mul_add(z, c);
    }
    n + 2.0 * std::f64::consts::LOG2_E * s * p
}

#[inline(always)]
fn log2_of(x: f32) -> f32 {
    let y = log2_wide(f64::from(x)) as f32;
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    let y = if x == f32::INFINITY { x } else { y };
    let y = if x < 0.0 { f32::NAN } else { y };
    if x.is_nan() { x } else { y }
}

/// The logarithm to base 2; denormals are flushed.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    flush(log2_of(flush(x)))
}

/// The logarithm to base 2 of a half.
#[inline(always)]
pub fn log16(x: f32) -> f32 {
    log2_of(x)
}

/// The sine of `turns` turns between -1/2 and 1/2.
#[inline(always)]
fn sin_turns(turns: f64) -> f64 {
    let folded = if turns.abs() > 0.25 {
        f64::copysign(0.5, turns) - turns
    } else {
        turns
    };
    let x = folded * std::f64::consts::TAU;
    let z = x * x;
    let mut p: f64 = -1.0 / 1_307_674_368_000.0;
    for c in [
        1.0 / 6_227_020_800.0,
        -1.0 / 39_916_800.0,
        1.0 / 362_880.0,
        -1.0 / 5_040.0,
        1.0 / 120.0,
        -1.0 / 6.0,
        1.0,
    ] {
        p = p.mul_add(z, c);
    }
    x * p
}

/// The sine of so many turns. The hardware promises a range of -256 to 256.
#[inline(always)]
pub fn sin(turns: f32) -> f32 {
    let x = f64::from(turns);
    let y = sin_turns(x - x.round_ties_even()) as f32;
    if turns.is_finite() {
        // Keeps the sign of zero.
        if turns == 0.0 { turns } else { y }
    } else {
        f32::NAN
    }
}

/// The cosine of so many turns.
#[inline(always)]
pub fn cos(turns: f32) -> f32 {
    let x = f64::from(turns);
    let y = sin_turns(0.25 - (x - x.round_ties_even()).abs()) as f32;
    if turns.is_finite() { y } else { f32::NAN }
}

/// The reciprocal; denormals are flushed.
#[inline(always)]
pub fn rcp32(x: f32) -> f32 {
    flush(1.0 / flush(x))
}

/// The reciprocal of the square root; denormals are flushed.
#[inline(always)]
pub fn rsq32(x: f32) -> f32 {
    (1.0 / f64::from(flush(x)).sqrt()) as f32
}

/// The square root; denormals are flushed.
#[inline(always)]
pub fn sqrt32(x: f32) -> f32 {
    flush(x).sqrt()
}

/// The reciprocal of a half.
#[inline(always)]
pub fn rcp16(x: f32) -> f32 {
    1.0 / x
}

/// The reciprocal of the square root of a half.
#[inline(always)]
pub fn rsq16(x: f32) -> f32 {
    (1.0 / f64::from(x).sqrt()) as f32
}

/// The square root of a half.
#[inline(always)]
pub fn sqrt16(x: f32) -> f32 {
    x.sqrt()
}

/// The reciprocal.
#[inline(always)]
pub fn rcp64(x: f64) -> f64 {
    1.0 / x
}

/// The reciprocal of the square root.
#[inline(always)]
pub fn rsq64(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// The square root.
#[inline(always)]
pub fn sqrt64(x: f64) -> f64 {
    x.sqrt()
}

fn biased_exponent<R: Number>(x: R) -> i32 {
    (x.bits() >> R::FORMAT.fraction) as i32 & ((1 << R::FORMAT.exponent) - 1)
}

fn is_zero<R: Number>(x: R) -> bool {
    x.bits() & (R::FORMAT.sign() - 1) == 0
}

fn is_denormal<R: Number>(x: R) -> bool {
    biased_exponent(x) == 0 && !is_zero(x)
}

/// How `v_div_scale` and `v_div_fmas` scale numbers of a format: by which power of two, from which
/// distance of exponents up, and which numerators are tiny.
struct Scales {
    by: i32,
    near_max: i32,
    tiny: i32,
}

const fn scales(format: float::Format) -> Scales {
    if format.fraction == 23 {
        Scales {
            by: 64,
            near_max: 96,
            tiny: 23,
        }
    } else {
        Scales {
            by: 128,
            near_max: 768,
            tiny: 53,
        }
    }
}

fn scaled<R: Number>(x: R, by: i32) -> R {
    if biased_exponent(x) == (1 << R::FORMAT.exponent) - 1 || is_zero(x) {
        return x;
    }
    let mut number = float::Unrounded::of(R::FORMAT, x.bits());
    number.exponent += by;
    R::of(number.round(R::FORMAT, Round::Nearest))
}

/// `v_div_scale`: scales numerator `num` or denominator `den`, whichever `x` is, so that no step of a
/// division by Newton's method leaves the range; the bit says whether the quotient is to be scaled
/// back.
///
/// The documents' pseudo-code, with three corrections without which the division that LLVM emits is
/// wrong for numbers near the ends of the range: the quotient counts as denormal by the distance of the
/// exponents alone; where both it and the reciprocal are, the denominator is scaled down, not up; zeros
/// set the bit (both as seen on hardware by the tests of tinygrad, `test/amd/hw/test_vop3.py`).
pub fn div_scale<R: Number>(x: R, den: R, num: R) -> (R, bool) {
    let scales = scales(R::FORMAT);
    let same = |a: R, b: R| a == b;
    if is_zero(num) || is_zero(den) {
        return (R::NAN, true);
    }
    let distance = biased_exponent(num) - biased_exponent(den);
    let quotient_denormal = distance <= 1 - R::FORMAT.bias();
    // Of 2^126 and up the reciprocal is denormal (or would lose bits on the way).
    let reciprocal_denormal = biased_exponent(den) >= 2 * R::FORMAT.bias() - 1;
    if distance >= scales.near_max {
        let x = if same(x, den) {
            scaled(x, scales.by)
        } else {
            x
        };
        return (x, true);
    }
    if is_denormal(den) {
        return (scaled(x, scales.by), false);
    }
    if reciprocal_denormal && quotient_denormal {
        let x = if same(x, den) {
            scaled(x, -scales.by)
        } else {
            x
        };
        return (x, true);
    }
    if reciprocal_denormal {
        return (scaled(x, -scales.by), false);
    }
    if quotient_denormal {
        let x = if same(x, num) {
            scaled(x, scales.by)
        } else {
            x
        };
        return (x, true);
    }
    if biased_exponent(num) <= scales.tiny {
        return (scaled(x, scales.by), false);
    }
    (x, false)
}

/// `v_div_fmas`: a fused multiply-add, scaled back where `v_div_scale` set the bit: up where the
/// quotient `c` is large, else down (the documents only know up; see [`div_scale`]).
#[inline(always)]
pub fn div_fmas<E: Env, R: Number>(env: E, a: R, b: R, c: R, bit: bool) -> R {
    let sum = env.fma(a, b, c);
    if !bit {
        return sum;
    }
    fmas_scaled(a, b, c, sum, env.inner::<R>())
}

#[inline(never)]
fn fmas_scaled<R: Number>(a: R, b: R, c: R, sum: R, round: Round) -> R {
    let by = scales(R::FORMAT).by;
    let by = if biased_exponent(c) > R::FORMAT.bias() {
        by
    } else {
        -by
    };
    let all = (1 << R::FORMAT.exponent) - 1;
    if [a, b, c].iter().any(|&x| biased_exponent(x) == all) || is_zero(sum) {
        return sum;
    }
    // Scaled before it is rounded: a quotient that is denormal is rounded once.
    let [a, b, c] = [a, b, c].map(|x| float::Unrounded::of(R::FORMAT, x.bits()));
    let mut exact = a.times(b).plus(c, round);
    exact.exponent += by;
    R::of(exact.round(R::FORMAT, round))
}

/// `v_div_fixup`: the special cases of a division `num / den` whose quotient otherwise is `x`.
/// `underflow` is the distance of exponents from which on the quotient underflows.
#[inline(always)]
pub fn div_fixup<R: Number>(x: R, den: R, num: R, underflow: i32) -> R {
    let format = R::FORMAT;
    let sign = (den.bits() ^ num.bits()) & format.sign();
    let magnitude = |y: R| y.bits() & (format.sign() - 1);
    let (d, n) = (magnitude(den), magnitude(num));
    let inf = format.infinity();
    let exponent = |bits: u64| (bits >> format.fraction) as i32;
    let tiny = exponent(n) - exponent(d) < -underflow;
    // A quotient that came out as a NaN overflowed on the way.
    let usual = if magnitude(x) > inf {
        inf
    } else {
        magnitude(x)
    };
    // Less than half of the least number, which rounds to zero.
    let usual = if tiny { 0 } else { usual };
    let result = sign | usual;
    let result = if d == inf || n == 0 { sign } else { result };
    let result = if d == 0 || n == inf {
        sign | inf
    } else {
        result
    };
    let invalid = d == 0 && n == 0 || d == inf && n == inf;
    let default = format.sign() | inf | format.quiet();
    let result = if invalid { default } else { result };
    let result = if d > inf {
        den.bits() | format.quiet()
    } else {
        result
    };
    let result = if n > inf {
        num.bits() | format.quiet()
    } else {
        result
    };
    R::of(result)
}

/// `v_div_fixup` of halves: there is no underflow.
#[inline(always)]
pub fn div_fixup16(x: f32, den: f32, num: f32) -> f32 {
    div_fixup(x, den, num, 1000)
}

/// 2 / pi: 1201 bits after the point, the highest first.
static TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_0000,
];

/// `v_trig_preop_f64`: 53 bits of 2 / pi from the place that the exponent of `a` and the segment `b`
/// say, as a double.
pub fn trig_preop(a: f64, b: u32) -> f64 {
    let exponent = biased_exponent(a);
    let shift = (b & 31) * 53 + (exponent - 1077).max(0) as u32;
    let mut bits = 0;
    for i in 0..53 {
        let at = shift + i;
        let bit = TWO_OVER_PI
            .get((at / 64) as usize)
            .map_or(0, |word| word >> (63 - at % 64) & 1);
        // Only 1201 bits are there.
        bits = bits << 1 | if at < 1201 { bit } else { 0 };
    }
    let scale = if exponent >= 1968 { 128 } else { 0 } - 53 - shift as i32;
    scaled(bits as f64, scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::value::Fast;

    #[test]
    fn functions_are_the_nearest_singles() {
        let mut x = 1u32;
        for _ in 0..200_000 {
            x = x.wrapping_mul(0x915f_77f5).wrapping_add(0x1234_5677);
            let a = f32::from_bits(x & 0x87ff_ffff | 0x3800_0000);
            let near = |got: f32, want: f64| {
                let error = (f64::from(got) - want).abs();
                let ulp = f64::from(f32::from_bits(got.abs().to_bits() + 1) - got.abs());
                assert!(error <= 0.501 * ulp, "{a}: {got} for {want}");
            };
            near(exp2(a), f64::from(a).exp2());
            near(log2(a.abs()), f64::from(a.abs()).log2());
            let turns = (f64::from(a) - f64::from(a).round()) * std::f64::consts::TAU;
            if turns.abs() < 3.0 {
                near(sin(a), turns.sin());
            }
            if turns.abs() < 1.5 {
                near(cos(a), turns.cos());
            }
        }
        assert_eq!(exp2(-200.0), 0.0);
        assert_eq!(exp2(200.0), f32::INFINITY);
        assert_eq!(exp2(f32::NEG_INFINITY), 0.0);
        assert_eq!(log2(0.0), f32::NEG_INFINITY);
        assert_eq!(log2(1.0), 0.0);
        assert!(log2(-1.0).is_nan());
    }

    /// The division that LLVM emits for f32 with denormals.
    fn divide(num: f32, den: f32) -> f32 {
        let (d, _) = div_scale(den, den, num);
        let (n, bit) = div_scale(num, den, num);
        let r = rcp32(d);
        let e = (-d).mul_add(r, 1.0);
        let r = e.mul_add(r, r);
        let q = n * r;
        let e = (-d).mul_add(q, n);
        let q = e.mul_add(r, q);
        let e = (-d).mul_add(q, n);
        div_fixup(div_fmas(Fast, e, r, q, bit), den, num, 150)
    }

    #[test]
    fn division_by_its_steps_is_exact() {
        let mut x = 1u64;
        let mut next = || {
            x = x.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x1357);
            f32::from_bits((x >> 32) as u32)
        };
        let special = [0.0, -0.0, 1.0, f32::MAX, f32::MIN_POSITIVE, 1e-45, 1e-40];
        let special = special.into_iter().chain([f32::INFINITY, f32::NAN, 3e38]);
        let special: Vec<f32> = special.collect();
        for i in 0..400_000 {
            let (mut a, mut b) = (next(), next());
            if i % 7 == 0 {
                a = special[i / 7 % special.len()];
            }
            if i % 11 == 0 {
                b = special[i / 11 % special.len()];
            }
            let (got, want) = (divide(a, b), a / b);
            assert!(
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                "{a:e} / {b:e}: {got:e} for {want:e} ({:#x} {:#x})",
                a.to_bits(),
                b.to_bits()
            );
        }
    }
}
