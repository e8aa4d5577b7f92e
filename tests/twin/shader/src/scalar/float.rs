//! Floats of the scalar ALU (RDNA4): sums and products in f64, rounded once.

use std::cmp::Ordering;

use half::f16;

use super::operand::Value;

/// Floats of 16 and 32 bits.
pub trait Float: Value + PartialOrd {
    /// Bits of the significand that are stored.
    const FRACTION: u32;
    /// The exponent of the smallest normal number.
    const LOWEST: i32;
    /// The largest finite number.
    const LARGEST: f64;
    /// Where MODE has the rounding and denormals of this format.
    const MODE: u32;
    /// Its bits.
    fn bits(self) -> u32;
    /// From its bits.
    fn of(bits: u32) -> Self;
    /// Exact, but for signalling NaNs.
    fn wide(self) -> f64;
    /// From a value that the format has.
    fn narrow(value: f64) -> Self;
}

impl Float for f32 {
    const FRACTION: u32 = 23;
    const LOWEST: i32 = -126;
    const LARGEST: f64 = f32::MAX as f64;
    const MODE: u32 = 0;
    fn bits(self) -> u32 {
        self.to_bits()
    }
    fn of(bits: u32) -> Self {
        Self::from_bits(bits)
    }
    fn wide(self) -> f64 {
        self.into()
    }
    fn narrow(value: f64) -> Self {
        value as Self
    }
}

impl Float for f16 {
    const FRACTION: u32 = 10;
    const LOWEST: i32 = -14;
    const LARGEST: f64 = 65504.0;
    const MODE: u32 = 2;
    fn bits(self) -> u32 {
        self.to_bits().into()
    }
    fn of(bits: u32) -> Self {
        Self::from_bits(bits as u16)
    }
    fn wide(self) -> f64 {
        self.to_f64()
    }
    fn narrow(value: f64) -> Self {
        Self::from_f64(value)
    }
}

fn is_nan<F: Float>(x: F) -> bool {
    x.partial_cmp(&x).is_none()
}

fn quiet<F: Float>(x: F) -> F {
    F::of(x.bits() | 1 << (F::FRACTION - 1))
}

/// Bits 5:4 of MODE for f32, 7:6 for f16 and f64: bit 0 keeps denormal inputs, bit 1 outputs.
fn keeps<F: Float>(mode: u32, output: bool) -> bool {
    mode >> (4 + F::MODE + u32::from(output)) & 1 == 1
}

/// An input: denormals become zeros where MODE says so.
pub fn input<F: Float>(mode: u32, x: F) -> F {
    let denormal = x.bits() >> F::FRACTION & exponents::<F>() == 0;
    if denormal && !keeps::<F>(mode, false) {
        F::of(x.bits() & sign::<F>())
    } else {
        x
    }
}

fn exponents<F: Float>() -> u32 {
    (1 - F::LOWEST) as u32 * 2 + 1
}

fn sign<F: Float>() -> u32 {
    (exponents::<F>() + 1) << F::FRACTION
}

/// Rounds an exact value, or one that was rounded to odd with at least two more bits, as MODE says.
pub fn from_f64<F: Float>(mode: u32, value: f64) -> F {
    rounded(mode, mode >> F::MODE & 3, value)
}

/// Rounds to nearest even (0), up (1), down (2) or to zero (3).
fn rounded<F: Float>(mode: u32, rounding: u32, value: f64) -> F {
    if value == 0.0 || !value.is_finite() {
        return F::narrow(value);
    }
    let exponent = (value.to_bits() >> 52 & 2047) as i32 - 1023;
    // The weight of the last bit; both it and its inverse are normal f64.
    let unit = 2f64.powi(exponent.max(F::LOWEST) - F::FRACTION as i32);
    let count = value / unit;
    let whole = match rounding {
        0 => count.round_ties_even(),
        1 => count.ceil(),
        2 => count.floor(),
        _ => count.trunc(),
    };
    let result = whole * unit;
    if result.abs() > F::LARGEST {
        let infinite = match rounding {
            0 => true,
            1 => result > 0.0,
            2 => result < 0.0,
            _ => false,
        };
        let most = if infinite { f64::INFINITY } else { F::LARGEST };
        return F::narrow(most.copysign(value));
    }
    let result = F::narrow(result.copysign(value));
    let denormal = result.bits() >> F::FRACTION & exponents::<F>() == 0;
    if denormal && !keeps::<F>(mode, true) {
        F::of(result.bits() & sign::<F>())
    } else {
        result
    }
}

/// The sum, rounded to odd: one rounding more does no harm.
fn sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // What the sum lacks, exactly (Knuth).
    let part = sum - a;
    let rest = (a - (sum - part)) + (b - part);
    if rest == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // Between `sum` and its neighbour on the side of the rest, one of which is odd.
    if (rest > 0.0) == (sum > 0.0) {
        f64::from_bits(sum.to_bits() + 1)
    } else {
        f64::from_bits(sum.to_bits() - 1)
    }
}

/// The NaN that a result takes from its inputs: the first of them, quiet.
fn nan<F: Float>(inputs: &[F]) -> Option<F> {
    inputs.iter().copied().find(|x| is_nan(*x)).map(quiet)
}

/// The NaN of invalid operations.
fn invalid<F: Float>(value: f64) -> Option<F> {
    let bits = exponents::<F>() << F::FRACTION | 1 << (F::FRACTION - 1);
    value.is_nan().then(|| F::of(bits))
}

/// A zero sum of numbers that are not both negative zeros is negative only when rounding down.
fn zero_sum(mode: u32, rounding_at: u32, a: f64, b: f64, sum: f64) -> f64 {
    let down = mode >> rounding_at & 3 == 2;
    if sum == 0.0 && a.is_sign_negative() != b.is_sign_negative() && down {
        -0.0
    } else {
        sum
    }
}

/// `a + b`.
pub fn add<F: Float>(mode: u32, a: F, b: F) -> F {
    let (a, b) = (input(mode, a), input(mode, b));
    nan(&[a, b]).unwrap_or_else(|| {
        let (a, b) = (a.wide(), b.wide());
        let sum = zero_sum(mode, F::MODE, a, b, sum(a, b));
        invalid(sum).unwrap_or_else(|| from_f64(mode, sum))
    })
}

/// `a * b`.
pub fn mul<F: Float>(mode: u32, a: F, b: F) -> F {
    let (a, b) = (input(mode, a), input(mode, b));
    nan(&[a, b]).unwrap_or_else(|| {
        // Exact: at most 48 bits.
        let product = a.wide() * b.wide();
        invalid(product).unwrap_or_else(|| from_f64(mode, product))
    })
}

/// `a * b + c`, rounded once.
pub fn fma<F: Float>(mode: u32, a: F, b: F, c: F) -> F {
    let (a, b, c) = (input(mode, a), input(mode, b), input(mode, c));
    nan(&[a, b, c]).unwrap_or_else(|| {
        let product = a.wide() * b.wide();
        let sum = zero_sum(mode, F::MODE, product, c.wide(), sum(product, c.wide()));
        invalid(sum).unwrap_or_else(|| from_f64(mode, sum))
    })
}

/// Numbers in order, with -0 below +0.
fn order<F: Float>(a: F, b: F) -> Ordering {
    a.wide().total_cmp(&b.wide())
}

fn pick_num<F: Float>(mode: u32, a: F, b: F, first: Ordering) -> F {
    let (a, b) = (input(mode, a), input(mode, b));
    match (is_nan(a), is_nan(b)) {
        (true, true) => quiet(a),
        (true, false) => b,
        (false, true) => a,
        _ if order(a, b) == first => a,
        _ => b,
    }
}

/// The lesser; a number wins over NaN.
pub fn min_num<F: Float>(mode: u32, a: F, b: F) -> F {
    pick_num(mode, a, b, Ordering::Less)
}

/// The greater; a number wins over NaN.
pub fn max_num<F: Float>(mode: u32, a: F, b: F) -> F {
    pick_num(mode, a, b, Ordering::Greater)
}

fn pick<F: Float>(mode: u32, a: F, b: F, first: Ordering) -> F {
    let (a, b) = (input(mode, a), input(mode, b));
    let signals = |x: F| is_nan(x) && x.bits() >> (F::FRACTION - 1) & 1 == 0;
    if signals(a) {
        return quiet(a);
    }
    if signals(b) {
        return quiet(b);
    }
    nan(&[a, b]).unwrap_or(if order(a, b) == first { a } else { b })
}

/// The lesser; NaN wins.
pub fn minimum<F: Float>(mode: u32, a: F, b: F) -> F {
    pick(mode, a, b, Ordering::Less)
}

/// The greater; NaN wins.
pub fn maximum<F: Float>(mode: u32, a: F, b: F) -> F {
    pick(mode, a, b, Ordering::Greater)
}

/// Rounds to an integer.
pub fn round<F: Float>(mode: u32, a: F, to: fn(f64) -> f64) -> F {
    let a = input(mode, a);
    if is_nan(a) {
        return quiet(a);
    }
    F::narrow(to(a.wide()).copysign(a.wide()))
}

/// To another format.
pub fn convert<A: Float, D: Float>(mode: u32, a: A) -> D {
    let a = input(mode, a);
    if is_nan(a) {
        // The payload keeps its highest bits.
        let fraction = u64::from(a.bits()) << (52 - A::FRACTION) & ((1 << 52) - 1);
        let payload = (fraction >> (52 - D::FRACTION)) as u32;
        let negative = a.bits() & sign::<A>() != 0;
        let sign = if negative { sign::<D>() } else { 0 };
        return quiet(D::of(sign | exponents::<D>() << D::FRACTION | payload));
    }
    from_f64(mode, a.wide())
}

/// Two f32 to f16, rounded to zero.
pub fn pack_rtz(mode: u32, a: f32, b: f32) -> u32 {
    let half = |x: f32| {
        let to_zero: f16 = if is_nan(x) {
            convert(mode, x)
        } else {
            rounded(mode, 3, input(mode, x).wide())
        };
        u32::from(to_zero.to_bits())
    };
    half(a) | half(b) << 16
}

/// A compare, by the order of its inputs: none where one is NaN.
pub fn compare<F: Float>(mode: u32, a: F, b: F, f: fn(Option<Ordering>) -> bool) -> bool {
    f(input(mode, a).partial_cmp(&input(mode, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Denormals kept; nearest even, up, down, to zero.
    const MODES: [u32; 4] = [0xf0, 0xf5, 0xfa, 0xff];

    #[test]
    fn sums_round_as_mode_says() {
        let tiny = f32::from_bits(1);
        let next = f32::from_bits(1f32.to_bits() + 1);
        let sums = MODES.map(|mode| add(mode, 1f32, tiny));
        assert_eq!(sums, [1.0, next, 1.0, 1.0]);
        let sums = MODES.map(|mode| add(mode, -1f32, -tiny));
        assert_eq!(sums, [-1.0, -1.0, -next, -1.0]);
        // Exactly between two.
        let half = f32::from_bits(0x3380_0000);
        assert_eq!(add(0xf0, 1.0, half), 1.0);
        assert_eq!(add(0xf0, next, half), f32::from_bits(next.to_bits() + 1));
    }

    #[test]
    fn a_product_and_a_sum_round_once() {
        for (a, b, c) in [
            (0x3f80_0001, 0x3f80_0001, 0xbf80_0002),
            (0x3f7f_ffff, 0x3f7f_ffff, 0x0000_0001),
            (0x0080_0000, 0x3f00_0000, 0x8000_0001),
            (0x7f7f_ffff, 0x4000_0000, 0xff7f_ffff),
            (0x4b80_0001, 0x4b80_0001, 0x2000_0000),
        ] {
            let [a, b, c] = [a, b, c].map(f32::from_bits);
            assert_eq!(fma(0xf0, a, b, c), a.mul_add(b, c), "{a:e} {b:e} {c:e}");
        }
    }

    #[test]
    fn overflow_is_infinite_or_the_largest() {
        let products = MODES.map(|mode| mul(mode, f32::MAX, 2.0));
        assert_eq!(products, [f32::INFINITY, f32::INFINITY, f32::MAX, f32::MAX]);
        let products = MODES.map(|mode| mul(mode, f16::MIN, f16::from_f32(2.0)));
        let least = f16::NEG_INFINITY;
        assert_eq!(products, [least, f16::MIN, least, f16::MIN]);
    }

    #[test]
    fn denormals_are_flushed_where_mode_says() {
        let denormal = f32::from_bits(0x8000_0100);
        assert_eq!(add(0x00, denormal, -0.0).to_bits(), 0x8000_0000);
        assert_eq!(add(0x10, denormal, -0.0).to_bits(), 0x8000_0000);
        assert_eq!(add(0x30, denormal, -0.0), denormal);
        // The mode of f32 says nothing about f16.
        let half = f16::from_bits(1);
        assert_eq!(add(0x30, half, half).to_bits(), 0);
        assert_eq!(add(0xc0, half, half).to_bits(), 2);
    }

    #[test]
    fn nans_come_first_and_quiet() {
        let signalling = f32::from_bits(0x7f80_0001);
        assert_eq!(add(0xf0, 1.0, signalling).to_bits(), 0x7fc0_0001);
        assert_eq!(mul(0xf0, f32::INFINITY, 0.0).to_bits(), 0x7fc0_0000);
        assert_eq!(min_num(0xf0, signalling, 2.0), 2.0);
        assert_eq!(minimum(0xf0, 2.0, signalling).to_bits(), 0x7fc0_0001);
        assert_eq!(min_num(0xf0, 0.0f32, -0.0).to_bits(), 0x8000_0000);
        assert_eq!(maximum(0xf0, -0.0f32, 0.0).to_bits(), 0);
        let half: f16 = convert(0xf0, f32::from_bits(0xff80_2000));
        assert_eq!(half.to_bits(), 0xfe01);
    }

    #[test]
    fn halves_are_f32_rounded() {
        for bits in [
            0x3c00_0000,
            0x3c00_2001,
            0x477f_efff,
            0x477f_f000,
            0x3380_0000,
            0x3300_0001,
        ] {
            let x = f32::from_bits(bits);
            let half: f16 = convert(0xf0, x);
            assert_eq!(half, f16::from_f32(x), "{bits:#x}");
        }
        assert_eq!(pack_rtz(0xf0, 65535.0, -1e-9), 0x8000_7bff);
    }
}
