//! Floating point, bit for bit: conversions, the rounding modes of MODE, denormals, NaNs.
//!
//! Functions marked `inline(always)` have no branches: loops over lanes of them become SIMD code.

/// A rounding mode; 0 to 3 as MODE numbers them (ISA documents, "MODE register").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Round {
    /// To nearest, ties to even.
    Nearest,
    /// Towards plus infinity.
    Up,
    /// Towards minus infinity.
    Down,
    /// Towards zero.
    Zero,
    /// To odd: whatever is inexact ends in a one, so that a second rounding to fewer bits is as if
    /// it were the only one.
    Odd,
}

impl Round {
    /// By the number in MODE.
    pub const fn of(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Nearest,
            1 => Self::Up,
            2 => Self::Down,
            _ => Self::Zero,
        }
    }
}

/// A binary format: how many bits of fraction and of exponent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// Bits of the fraction.
    pub fraction: u32,
    /// Bits of the exponent.
    pub exponent: u32,
}

/// Half precision.
pub const HALF: Format = Format {
    fraction: 10,
    exponent: 5,
};
/// Brain float.
pub const BRAIN: Format = Format {
    fraction: 7,
    exponent: 8,
};
/// Single precision.
pub const SINGLE: Format = Format {
    fraction: 23,
    exponent: 8,
};
/// Double precision.
pub const DOUBLE: Format = Format {
    fraction: 52,
    exponent: 11,
};

impl Format {
    /// What is added to exponents.
    pub const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// Positive infinity.
    pub const fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    /// The sign bit.
    pub const fn sign(self) -> u64 {
        1 << (self.fraction + self.exponent)
    }

    /// The bit that tells quiet NaNs.
    pub const fn quiet(self) -> u64 {
        1 << (self.fraction - 1)
    }
}

/// A finite number that is not rounded yet: `significand * 2^exponent`. The lowest bit also stands
/// for whatever lies below it.
#[derive(Clone, Copy, Debug)]
pub struct Unrounded {
    /// Whether it is negative.
    pub negative: bool,
    /// The exponent of the lowest bit.
    pub exponent: i32,
    /// The significand.
    pub significand: u128,
}

/// Shifts right; a one that falls out stays as the lowest bit.
fn shift_jam(value: u128, by: u32) -> u128 {
    match by {
        0 => value,
        128.. => u128::from(value != 0),
        _ => value >> by | u128::from(value << (128 - by) != 0),
    }
}

impl Unrounded {
    /// The finite number with these bits.
    pub fn of(format: Format, bits: u64) -> Self {
        let fraction = bits & ((1 << format.fraction) - 1);
        let exponent = (bits >> format.fraction & ((1 << format.exponent) - 1)) as i32;
        let hidden = u64::from(exponent != 0) << format.fraction;
        Self {
            negative: bits & format.sign() != 0,
            exponent: exponent.max(1) - format.bias() - format.fraction as i32,
            significand: u128::from(fraction | hidden),
        }
    }

    /// Moves the highest one to bit 126.
    fn normalized(mut self) -> Self {
        if self.significand != 0 {
            let by = self.significand.leading_zeros() as i32 - 1;
            if by >= 0 {
                self.significand <<= by;
            } else {
                self.significand = shift_jam(self.significand, 1);
            }
            self.exponent -= by;
        }
        self
    }

    /// The exact product, below 2^126.
    pub fn times(self, other: Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            exponent: self.exponent + other.exponent,
            significand: self.significand * other.significand,
        }
    }

    /// The sum. An exact zero of two numbers with different signs is negative when rounding down.
    pub fn plus(self, other: Self, round: Round) -> Self {
        let (a, b) = (self.normalized(), other.normalized());
        let zero_sign = if a.negative == b.negative {
            a.negative
        } else {
            round == Round::Down
        };
        if a.significand == 0 && b.significand == 0 {
            return Self {
                negative: zero_sign,
                ..a
            };
        }
        if a.significand == 0 {
            return b;
        }
        if b.significand == 0 {
            return a;
        }
        let (big, small) = if (a.exponent, a.significand) >= (b.exponent, b.significand) {
            (a, b)
        } else {
            (b, a)
        };
        let by = (big.exponent - small.exponent) as u32;
        let aligned = shift_jam(small.significand, by);
        if big.negative == small.negative {
            return Self {
                significand: big.significand + aligned,
                ..big
            };
        }
        let significand = big.significand - aligned;
        Self {
            negative: if significand == 0 {
                zero_sign
            } else {
                big.negative
            },
            significand,
            ..big
        }
    }

    /// The bits of the nearest number of a format by a rounding mode.
    pub fn round(self, format: Format, round: Round) -> u64 {
        let sign = if self.negative { format.sign() } else { 0 };
        if self.significand == 0 {
            return sign;
        }
        let n = self.normalized();
        // The lowest bit of the result has this exponent, if the number is normal.
        let lowest = n.exponent + 126 - format.fraction as i32;
        let least = 1 - format.bias() - format.fraction as i32;
        let lowest_kept = lowest.max(least);
        // Two more bits than the result has: a half, and everything below.
        let by = lowest_kept - 2 - n.exponent;
        let extended = shift_jam(n.significand, by.max(0) as u32) as u64;
        let (kept, rest) = (extended >> 2, extended & 3);
        let up = match round {
            Round::Nearest => rest > 2 || rest == 2 && kept & 1 == 1,
            Round::Up => rest != 0 && !self.negative,
            Round::Down => rest != 0 && self.negative,
            Round::Zero => false,
            Round::Odd => rest != 0 && kept & 1 == 0,
        };
        let rounded = kept + u64::from(up);
        // A carry runs into the exponent by itself, as does a denormal that becomes normal.
        let exponent = ((lowest_kept - least) as u64).min(format.infinity() >> format.fraction);
        let bits = if rounded >> format.fraction == 0 {
            rounded
        } else {
            rounded + (exponent << format.fraction)
        };
        if bits < format.infinity() {
            return sign | bits;
        }
        let to_infinity = match round {
            Round::Nearest => true,
            Round::Up => !self.negative,
            Round::Down => self.negative,
            Round::Zero | Round::Odd => false,
        };
        sign | (format.infinity() - u64::from(!to_infinity))
    }
}

/// `f32` and `f64`, for what is written once for both.
pub trait Real: Copy + PartialOrd {
    /// Its format.
    const FORMAT: Format;
    /// Its bits.
    fn bits(self) -> u64;
    /// The number with these bits.
    fn of(bits: u64) -> Self;
    /// Native addition, to nearest.
    fn native_add(self, other: Self) -> Self;
    /// Native multiplication, to nearest.
    fn native_mul(self, other: Self) -> Self;
    /// `self * b + c`, rounded once, to nearest.
    fn native_fma(self, b: Self, c: Self) -> Self;
}

/// More of `f32` and `f64`.
pub trait Number: Real {
    /// The same number with the other sign.
    fn negated(self) -> Self;
    /// Without its sign.
    fn magnitude(self) -> Self;
    /// The next integer below.
    fn floored(self) -> Self;
    /// The next integer above.
    fn ceiled(self) -> Self;
    /// The integer part.
    fn truncated(self) -> Self;
    /// The nearest integer, ties to even.
    fn rounded(self) -> Self;
    /// The nearest number of an f64.
    fn from_f64(x: f64) -> Self;
    /// As f64, exactly.
    fn to_f64(self) -> f64;
    /// A NaN.
    const NAN: Self;
    /// Zero.
    const ZERO: Self;
}

macro_rules! real {
    ($t:ty, $format:expr, $bits:ty) => {
        impl Real for $t {
            const FORMAT: Format = $format;
            #[inline(always)]
            fn bits(self) -> u64 {
                self.to_bits() as u64
            }
            #[inline(always)]
            fn of(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }
            #[inline(always)]
            fn native_add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn native_mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn native_fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
        }
        impl Number for $t {
            #[inline(always)]
            fn negated(self) -> Self {
                -self
            }
            #[inline(always)]
            fn magnitude(self) -> Self {
                self.abs()
            }
            #[inline(always)]
            fn floored(self) -> Self {
                self.floor()
            }
            #[inline(always)]
            fn ceiled(self) -> Self {
                self.ceil()
            }
            #[inline(always)]
            fn truncated(self) -> Self {
                self.trunc()
            }
            #[inline(always)]
            fn rounded(self) -> Self {
                self.round_ties_even()
            }
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            const NAN: Self = <$t>::NAN;
            const ZERO: Self = 0.0;
        }
    };
}
real!(f32, SINGLE, u32);
real!(f64, DOUBLE, u64);

/// Whether these are the bits of a NaN.
pub const fn is_nan(format: Format, bits: u64) -> bool {
    bits & (format.sign() - 1) > format.infinity()
}

/// Whether these are the bits of a signaling NaN.
pub const fn is_signaling(format: Format, bits: u64) -> bool {
    is_nan(format, bits) && bits & format.quiet() == 0
}

/// The NaN that an operation gives: the first operand that is one, made quiet; else the default NaN,
/// positive with only the quiet bit (as IEEE 754 recommends; ISA documents are silent).
pub fn nan<R: Real>(operands: &[R]) -> R {
    let format = R::FORMAT;
    R::of(
        operands
            .iter()
            .map(|x| x.bits())
            .find(|&bits| is_nan(format, bits))
            .map_or(format.infinity() | format.quiet(), |bits| {
                bits | format.quiet()
            }),
    )
}

fn finite<R: Real>(x: R) -> bool {
    x.bits() & R::FORMAT.infinity() != R::FORMAT.infinity()
}

/// A sum in any rounding mode, with the NaN that [`nan`] chooses.
pub fn add<R: Real>(a: R, b: R, round: Round) -> R {
    let native = a.native_add(b);
    if is_nan(R::FORMAT, native.bits()) {
        return nan(&[a, b]);
    }
    if round == Round::Nearest || !finite(a) || !finite(b) {
        return native;
    }
    let format = R::FORMAT;
    let sum = Unrounded::of(format, a.bits()).plus(Unrounded::of(format, b.bits()), round);
    R::of(sum.round(format, round))
}

/// A product in any rounding mode.
pub fn mul<R: Real>(a: R, b: R, round: Round) -> R {
    let native = a.native_mul(b);
    if is_nan(R::FORMAT, native.bits()) {
        return nan(&[a, b]);
    }
    if round == Round::Nearest || !finite(a) || !finite(b) {
        return native;
    }
    let format = R::FORMAT;
    let product = Unrounded::of(format, a.bits()).times(Unrounded::of(format, b.bits()));
    R::of(product.round(format, round))
}

/// `a * b + c`, rounded once, in any rounding mode.
pub fn fma<R: Real>(a: R, b: R, c: R, round: Round) -> R {
    let native = a.native_fma(b, c);
    if is_nan(R::FORMAT, native.bits()) {
        return nan(&[a, b, c]);
    }
    if round == Round::Nearest || !finite(a) || !finite(b) || !finite(c) {
        return native;
    }
    let format = R::FORMAT;
    let product = Unrounded::of(format, a.bits()).times(Unrounded::of(format, b.bits()));
    let sum = product.plus(Unrounded::of(format, c.bits()), round);
    R::of(sum.round(format, round))
}

/// Any finite or infinite number or NaN of one format in another; a NaN keeps the high bits of its
/// payload and becomes quiet.
pub fn convert(from: Format, bits: u64, to: Format, round: Round) -> u64 {
    let sign = if bits & from.sign() != 0 {
        to.sign()
    } else {
        0
    };
    let magnitude = bits & (from.sign() - 1);
    if magnitude == from.infinity() {
        return sign | to.infinity();
    }
    if magnitude > from.infinity() {
        let payload = magnitude & (from.quiet() - 1);
        let payload = if to.fraction >= from.fraction {
            payload << (to.fraction - from.fraction)
        } else {
            payload >> (from.fraction - to.fraction)
        };
        return sign | to.infinity() | to.quiet() | payload;
    }
    Unrounded::of(from, bits).round(to, round)
}

/// An integer as a float.
pub fn from_integer(value: i128, format: Format, round: Round) -> u64 {
    Unrounded {
        negative: value < 0,
        exponent: 0,
        significand: value.unsigned_abs(),
    }
    .round(format, round)
}

/// Half precision as single, exactly. A signaling NaN stays one.
#[inline(always)]
pub fn f16_to_f32(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff) << 13;
    let sign = u32::from(half & 0x8000) << 16;
    // 2^112 makes up for the difference of the biases, and makes denormals normal.
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = magnitude | 0x7f80_0000;
    let bits = if magnitude >= 0x0f80_0000 {
        special
    } else {
        scaled.to_bits()
    };
    f32::from_bits(bits | sign)
}

/// Single precision as half, to nearest. A NaN keeps the high bits of its payload.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // Adding 0.5 puts the lowest bit of a denormal half at the lowest bit of the sum, rounded.
    let denormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let odd = magnitude >> 13 & 1;
    let normal = magnitude
        .wrapping_sub(0x3800_0000)
        .wrapping_add(0xfff + odd)
        >> 13;
    let nan = 0x7e00 | magnitude >> 13 & 0x1ff;
    let mut half = if magnitude < 0x3880_0000 {
        denormal
    } else {
        normal
    };
    half = if magnitude >= 0x4780_0000 {
        0x7c00
    } else {
        half
    };
    half = if magnitude > 0x7f80_0000 { nan } else { half };
    (half | bits >> 16 & 0x8000) as u16
}

/// Single precision as half in any rounding mode.
pub fn f32_to_f16_in(x: f32, round: Round) -> u16 {
    convert(SINGLE, u64::from(x.to_bits()), HALF, round) as u16
}

/// Brain float as single.
#[inline(always)]
pub fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// Single precision as brain float, to nearest.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let nan = bits >> 16 | 0x40;
    let result = if x.is_nan() { nan } else { rounded };
    result as u16
}

/// `a * b + c` of three half precision numbers, not rounded to half yet: rounding the result to half
/// gives what a single rounding would.
#[inline(always)]
pub fn fma_of_halves(a: f32, b: f32, c: f32) -> f32 {
    // The product has 22 bits and is exact. Where the sum is not, the smaller term lies below all
    // bits that a half has, and only whether it is there matters.
    let product = a * b;
    let sum = product + c;
    // What the addition lost (Knuth's two-sum).
    let part = sum - product;
    let lost = (product - (sum - part)) + (c - part);
    let bits = sum.to_bits();
    let too_far = (lost > 0.0) != (sum > 0.0);
    let odd = bits.wrapping_sub(u32::from(too_far)) | 1;
    f32::from_bits(if lost == 0.0 || lost.is_nan() {
        bits
    } else {
        odd
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_convert_like_the_exact_way() {
        for h in 0..=u16::MAX {
            let wide = f16_to_f32(h);
            let exact = convert(HALF, u64::from(h), SINGLE, Round::Nearest) as u32;
            if is_nan(HALF, u64::from(h)) {
                assert_eq!(wide.to_bits() | 0x40_0000, exact, "{h:#x}");
            } else {
                assert_eq!(wide.to_bits(), exact, "{h:#x}");
                assert_eq!(f32_to_f16(wide), h);
            }
        }
        let mut x = 1u32;
        for _ in 0..1_000_000 {
            x = x.wrapping_mul(0x915f_77f5).wrapping_add(0x1234_5677);
            // Exponents around those of halves.
            let bits = x & 0x807f_ffff | (0x60 + (x >> 7) % 0x40) << 23;
            for bits in [x, bits] {
                let f = f32::from_bits(bits);
                assert_eq!(f32_to_f16(f), f32_to_f16_in(f, Round::Nearest), "{bits:#x}");
                assert_eq!(
                    u64::from(f32_to_bf16(f)),
                    convert(SINGLE, u64::from(bits), BRAIN, Round::Nearest),
                    "{bits:#x}"
                );
            }
        }
    }

    #[test]
    fn the_exact_way_agrees_with_the_processor() {
        let mut x = 7u64;
        let mut next = || {
            x = x.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x1357);
            (x >> 32) as u32
        };
        for _ in 0..300_000 {
            let near = next() % 64 + 96;
            let [a, b, c] = [(); 3].map(|()| {
                let bits = next();
                f32::from_bits(bits & 0x807f_ffff | (near + bits % 30) << 23)
            });
            let [ua, ub, uc] = [a, b, c].map(|x| Unrounded::of(SINGLE, x.bits()));
            let sum = ua.plus(ub, Round::Nearest).round(SINGLE, Round::Nearest);
            assert_eq!(sum, (a + b).bits());
            let product = ua.times(ub);
            assert_eq!(product.round(SINGLE, Round::Nearest), (a * b).bits());
            let fma = product.plus(uc, Round::Nearest);
            assert_eq!(fma.round(SINGLE, Round::Nearest), a.mul_add(b, c).bits());
            let (down, up) = (
                f32::of(fma.round(SINGLE, Round::Down)),
                f32::of(fma.round(SINGLE, Round::Up)),
            );
            let near = a.mul_add(b, c);
            assert!(near == down || near == up);
            let exact = f64::from(a).mul_add(f64::from(b), f64::from(c));
            assert!(f64::from(down) <= exact && exact <= f64::from(up));
            let zero = f32::of(fma.round(SINGLE, Round::Zero));
            assert_eq!(zero, if near < 0.0 { up } else { down });
        }
    }

    #[test]
    fn fma_of_halves_rounds_once() {
        let mut x = 3u64;
        for _ in 0..300_000 {
            x = x.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x1357);
            let [a, b, c] = [16, 32, 48].map(|at| f16_to_f32((x >> at) as u16));
            if [a, b, c].iter().any(|x| !x.is_finite()) {
                continue;
            }
            let [ua, ub, uc] = [a, b, c].map(|x| Unrounded::of(SINGLE, x.bits()));
            let exact = ua.times(ub).plus(uc, Round::Nearest);
            assert_eq!(
                u64::from(f32_to_f16(fma_of_halves(a, b, c))),
                exact.round(HALF, Round::Nearest),
                "{a} {b} {c}"
            );
        }
    }
}
