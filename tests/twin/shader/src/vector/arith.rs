//! The arithmetic of single instructions that is more than an operator.
//!
//! In the fast way (see [`Env`]) a NaN may be any NaN; where the choice matters, these functions
//! return one to be called again exactly.

use super::float::{self, Number, Real, Round, SINGLE};
use super::value::Env;

/// The position of the first bit that counts, or -1 where there is none.
#[inline(always)]
pub fn first(n: u32) -> i32 {
    if n == 32 { -1 } else { n as i32 }
}

/// The low 24 bits with their sign.
#[inline(always)]
pub fn i24(x: i32) -> i32 {
    x << 8 >> 8
}

/// The low 24 bits.
#[inline(always)]
pub fn u24(x: u32) -> u32 {
    x & 0xff_ffff
}

/// To the range of 32 bits with a sign.
#[inline(always)]
pub fn sat32(x: i64) -> i32 {
    x.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

/// To the range of 32 bits.
#[inline(always)]
pub fn satu32(x: u64) -> u32 {
    x.min(u64::from(u32::MAX)) as u32
}

/// To the range of 16 bits with a sign, as bits.
#[inline(always)]
pub fn sat16(x: i32) -> u16 {
    x.clamp(-0x8000, 0x7fff) as u16
}

/// To the range of a byte.
#[inline(always)]
pub fn sat8(x: i16) -> u16 {
    x.clamp(0, 255) as u16
}

/// Two halves of a dword.
#[inline(always)]
pub fn pair(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// Two dwords, the second one low.
#[inline(always)]
pub fn both(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// Sum and carry.
#[inline(always)]
pub fn carry(a: u32, b: u32, bit: bool) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(bit);
    (sum as u32, sum >> 32 != 0)
}

/// Difference and borrow.
#[inline(always)]
pub fn borrow(a: u32, b: u32, bit: bool) -> (u32, bool) {
    let take = u64::from(b) + u64::from(bit);
    (u64::from(a).wrapping_sub(take) as u32, take > u64::from(a))
}

/// The limit where there was a carry.
#[inline(always)]
pub fn saturated<T>((value, bit): (T, bool), limit: T) -> (T, bool) {
    (if bit { limit } else { value }, bit)
}

/// `a * b + c` in 64 bits, and the carry.
#[inline(always)]
pub fn mad_u64(a: u32, b: u32, c: u64) -> (u64, bool) {
    (u64::from(a) * u64::from(b)).overflowing_add(c)
}

/// `a * b + c` in 64 bits, and bit 64 of the result.
#[inline(always)]
pub fn mad_i64(a: i32, b: i32, c: i64) -> (i64, bool) {
    let (sum, overflow) = (i64::from(a) * i64::from(b)).overflowing_add(c);
    // Bit 64 is the sign of the exact sum.
    (sum, (sum < 0) != overflow)
}

/// [`mad_i64`] to the range of 64 bits.
#[inline(always)]
pub fn saturated_i64(a: i32, b: i32, c: i64) -> (i64, bool) {
    let (_, negative) = mad_i64(a, b, c);
    ((i64::from(a) * i64::from(b)).saturating_add(c), negative)
}

/// An integer as a single.
#[inline(always)]
pub fn from_int<E: Env>(env: E, a: i32) -> f32 {
    if E::EXACT {
        f32::of(float::from_integer(i128::from(a), SINGLE, env.round32()))
    } else {
        a as f32
    }
}

/// An integer as a single.
#[inline(always)]
pub fn from_uint<E: Env>(env: E, a: u32) -> f32 {
    if E::EXACT {
        f32::of(float::from_integer(i128::from(a), SINGLE, env.round32()))
    } else {
        a as f32
    }
}

/// A double as a single.
#[inline(always)]
pub fn narrow<E: Env>(env: E, a: f64) -> f32 {
    if E::EXACT {
        f32::of(float::convert(
            float::DOUBLE,
            a.bits(),
            SINGLE,
            env.inner::<f32>(),
        ))
    } else {
        a as f32
    }
}

/// A single as a double.
#[inline(always)]
pub fn widen<E: Env>(_: E, a: f32) -> f64 {
    if E::EXACT {
        f64::of(float::convert(
            SINGLE,
            a.bits(),
            float::DOUBLE,
            Round::Nearest,
        ))
    } else {
        f64::from(a)
    }
}

/// -1 to 1 as 16 bits with a sign.
#[inline(always)]
pub fn snorm(x: f32) -> i16 {
    (x.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16
}

/// 0 to 1 as 16 bits.
#[inline(always)]
pub fn unorm(x: f32) -> u16 {
    (x.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16
}

/// The integer part of a float as a byte.
#[inline(always)]
pub fn byte_of(x: f32) -> u32 {
    u32::from(x as u8)
}

/// Puts a byte at the place that the low two bits of `at` say.
#[inline(always)]
pub fn put_byte(into: u32, at: u32, byte: u32) -> u32 {
    let shift = 8 * (at & 3);
    into & !(0xff << shift) | byte << shift
}

/// Two singles as halves, rounded towards zero.
#[inline(always)]
pub fn pk_rtz(a: f32, b: f32) -> u32 {
    pair(f32_to_f16_zero(a), f32_to_f16_zero(b))
}

/// A single as a half, rounded towards zero. A NaN keeps the high bits of its payload.
#[inline(always)]
pub fn f32_to_f16_zero(x: f32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // 2^-24 is the least half; the product is exact and the conversion truncates.
    let denormal = (f32::from_bits(magnitude) * f32::from_bits(0x4b80_0000)) as u32;
    let normal = magnitude.wrapping_sub(0x3800_0000) >> 13;
    let mut half = if magnitude < 0x3880_0000 {
        denormal
    } else {
        normal
    };
    half = if magnitude >= 0x4780_0000 {
        0x7bff
    } else {
        half
    };
    half = if magnitude == 0x7f80_0000 {
        0x7c00
    } else {
        half
    };
    half = if magnitude > 0x7f80_0000 {
        0x7e00 | magnitude >> 13 & 0x1ff
    } else {
        half
    };
    (half | bits >> 16 & 0x8000) as u16
}

/// The part after the point.
#[inline(always)]
pub fn fract<E: Env, R: Number>(env: E, a: R) -> R {
    env.sub(a, a.floored())
}

/// The integer part.
#[inline(always)]
pub fn trunc<R: Number>(a: R) -> R {
    a.truncated()
}

/// The next integer above.
#[inline(always)]
pub fn ceil<R: Number>(a: R) -> R {
    a.ceiled()
}

/// The next integer below.
#[inline(always)]
pub fn floor<R: Number>(a: R) -> R {
    a.floored()
}

/// The nearest integer, ties to even.
#[inline(always)]
pub fn rndne<R: Number>(a: R) -> R {
    a.rounded()
}

/// The exponent for a mantissa of 0.5 to 1; 0 for infinities and NaNs.
#[inline(always)]
pub fn frexp_exp<R: Number>(a: R) -> i32 {
    let format = R::FORMAT;
    let magnitude = a.bits() & (format.sign() - 1);
    let highest = 63 - (magnitude | 1).leading_zeros() as i32;
    let biased = (magnitude >> format.fraction) as i32;
    let denormal = highest + 2 - format.bias() - format.fraction as i32;
    let exponent = if biased == 0 {
        denormal
    } else {
        biased - format.bias() + 1
    };
    if magnitude == 0 || magnitude >= format.infinity() {
        0
    } else {
        exponent
    }
}

/// The number with its exponent changed so that it lies in 0.5 to 1.
#[inline(always)]
pub fn frexp_mant<R: Number>(a: R) -> R {
    let format = R::FORMAT;
    let magnitude = a.bits() & (format.sign() - 1);
    let leading = (magnitude | 1).leading_zeros() as i32;
    // A denormal is shifted until its highest one is where the hidden bit is.
    let up = (leading - (63 - format.fraction as i32)).max(0) as u32;
    let fraction = magnitude << up & ((1 << format.fraction) - 1);
    let half = ((format.bias() - 1) as u64) << format.fraction;
    if magnitude == 0 || magnitude >= format.infinity() {
        a
    } else {
        R::of(a.bits() & format.sign() | half | fraction)
    }
}

/// `a * 2^n`, rounded once.
#[inline(always)]
pub fn ldexp<E: Env, R: Number>(env: E, a: R, n: i32) -> R {
    if R::FORMAT == SINGLE && !E::EXACT {
        let n = n.clamp(-400, 400);
        let scale = f64::from_bits(((n + 1023) as u64) << 52);
        return R::from_f64(a.to_f64() * scale);
    }
    let format = R::FORMAT;
    let magnitude = a.bits() & (format.sign() - 1);
    if magnitude == 0 || magnitude >= format.infinity() {
        return a;
    }
    let mut number = float::Unrounded::of(format, a.bits());
    number.exponent += n.clamp(-5000, 5000);
    R::of(number.round(format, env.inner::<R>()))
}

/// `a * b + c` of halves, rounded twice.
#[inline(always)]
pub fn mad16<E: Env>(env: E, a: f32, b: f32, c: f32) -> f32 {
    let product = env.write16(env.mul(a, b));
    env.add(env.read16(product), c)
}

/// `v_mullit`.
#[inline(always)]
pub fn mullit<E: Env>(env: E, a: f32, b: f32, c: f32) -> f32 {
    let least = b == -f32::MAX || b == f32::NEG_INFINITY || b.is_nan() || c <= 0.0 || c.is_nan();
    let product = env.mul(a, b);
    if least { -f32::MAX } else { product }
}

/// The face of a cube map that a direction meets, the coordinates there and the major axis.
#[inline(always)]
pub fn cube(x: f32, y: f32, z: f32) -> (f32, f32, f32, f32) {
    let z_major = z.abs() >= x.abs() && z.abs() >= y.abs();
    let y_major = y.abs() >= x.abs();
    if z_major {
        if z < 0.0 {
            (5.0, -x, -y, z)
        } else {
            (4.0, x, -y, z)
        }
    } else if y_major {
        if y < 0.0 {
            (3.0, x, -z, y)
        } else {
            (2.0, x, z, y)
        }
    } else if x < 0.0 {
        (1.0, z, -y, x)
    } else {
        (0.0, -z, -y, x)
    }
}

/// Bits from `b`, `c` of them.
#[inline(always)]
pub fn bfe_u(a: u32, b: u32, c: u32) -> u32 {
    a >> (b & 31) & ((1 << (c & 31)) - 1)
}

/// Bits from `b`, `c` of them, with the sign of the highest.
#[inline(always)]
pub fn bfe_i(a: i32, b: u32, c: u32) -> i32 {
    let width = c & 31;
    let field = (a >> (b & 31)) as u32 & ((1 << width) - 1);
    // Where the width is 0 so is the field.
    let up = (32 - width) & 31;
    (field << up) as i32 >> up
}

/// Bytes of two dwords, each chosen by a byte of `select`: 0 to 7 bytes of `b`, then `a`; 8 to 11 signs;
/// 12 zero; above all ones.
#[inline(always)]
pub fn perm(a: u32, b: u32, select: u32) -> u32 {
    let mut result = 0;
    for i in 0..4 {
        let s = select >> (8 * i) & 0xff;
        let data = if s & 4 != 0 { a } else { b };
        let byte = data >> (8 * (s & 3)) & 0xff;
        let data = if s & 2 != 0 { a } else { b };
        let sign = (data >> (16 * (s & 1) + 15) & 1) * 0xff;
        let byte = if s >= 8 { sign } else { byte };
        let byte = if s == 12 { 0 } else { byte };
        let byte = if s > 12 { 0xff } else { byte };
        result |= byte << (8 * i);
    }
    result
}

/// A function of the four bytes of each operand.
#[inline(always)]
pub fn bytes(a: u32, b: u32, c: u32, f: impl Fn(u32, u32, u32) -> u32) -> u32 {
    let mut result = 0;
    for i in 0..4 {
        let byte = |x: u32| x >> (8 * i) & 0xff;
        result |= (f(byte(a), byte(b), byte(c)) & 0xff) << (8 * i);
    }
    result
}

/// The sum of the differences of four bytes.
#[inline(always)]
pub fn sad8(a: u32, b: u32) -> u32 {
    let mut sum = 0;
    for i in 0..4 {
        let byte = |x: u32| x >> (8 * i) & 0xff;
        sum += byte(a).abs_diff(byte(b));
    }
    sum
}

/// [`sad8`] without the bytes where `b` is zero.
#[inline(always)]
pub fn msad8(a: u32, b: u32) -> u32 {
    let mut sum = 0;
    for i in 0..4 {
        let byte = |x: u32| x >> (8 * i) & 0xff;
        let difference = byte(a).abs_diff(byte(b));
        sum += if byte(b) == 0 { 0 } else { difference };
    }
    sum
}

/// The sum of the differences of two halves.
#[inline(always)]
pub fn sad16(a: u32, b: u32) -> u32 {
    (a & 0xffff).abs_diff(b & 0xffff) + (a >> 16).abs_diff(b >> 16)
}

/// Four sums at four places of the bytes of `a`, onto the halves of `c`.
#[inline(always)]
pub fn qsad(a: u64, b: u32, c: u64, sum: impl Fn(u32, u32) -> u32, clamp: bool) -> u64 {
    let mut result = 0;
    for i in 0..4 {
        let total = sum((a >> (8 * i)) as u32, b) + (c >> (16 * i)) as u32 % 0x1_0000;
        let half = if clamp { total.min(0xffff) } else { total };
        result |= u64::from(half & 0xffff) << (16 * i);
    }
    result
}

/// `c` plus the products of the parts of `a` and `b`, which have `bits` bits and a sign.
#[inline(always)]
pub fn dot_i(a: u32, b: u32, c: i32, bits: u32) -> i32 {
    let mut sum = c;
    let mut at = 0;
    while at < 32 {
        let part = |x: u32| (x << (32 - bits - at)) as i32 >> (32 - bits);
        sum = sum.wrapping_add(part(a).wrapping_mul(part(b)));
        at += bits;
    }
    sum
}

#[inline(always)]
fn halves<E: Env>(env: E, x: u32) -> [f32; 2] {
    [env.read16(x as u16), env.read16((x >> 16) as u16)]
}

/// Both halves of `a * b + c`.
#[inline(always)]
pub fn pk_fma16<E: Env>(env: E, a: u32, b: u32, c: u32) -> u32 {
    let (a, b, c) = (halves(env, a), halves(env, b), halves(env, c));
    pair(
        env.write16(env.fma16(a[0], b[0], c[0])),
        env.write16(env.fma16(a[1], b[1], c[1])),
    )
}

/// `c` plus the products of both halves of `a` and `b`.
#[inline(always)]
pub fn dot2_f32_f16<E: Env>(env: E, a: u32, b: u32, c: f32) -> f32 {
    let (a, b) = (halves(env, a), halves(env, b));
    env.fma(a[1], b[1], env.fma(a[0], b[0], c))
}

/// `c` plus the products of both halves of `a` and `b`, as a half.
#[inline(always)]
pub fn dot2_f16<E: Env>(env: E, a: u32, b: u32, c: f32) -> f32 {
    let (a, b) = (halves(env, a), halves(env, b));
    env.fma(a[1], b[1], env.fma(a[0], b[0], c))
}

/// `c` plus the products of both halves of `a` and `b`, as brain floats.
#[inline(always)]
pub fn dot2_bf16<E: Env>(_: E, a: u32, b: u32, c: u16) -> u16 {
    let at = |x: u32, i: u32| float::bf16_to_f32((x >> (16 * i)) as u16);
    let sum = at(a, 0).mul_add(at(b, 0), float::bf16_to_f32(c));
    float::f32_to_bf16(at(a, 1).mul_add(at(b, 1), sum))
}
