//! Sums and products rounded as an instruction says.
//!
//! Singles and halves are computed as doubles, rounded to odd: what is inexact ends in a set bit, so
//! that the second rounding, to fewer bits in any direction, is that of the exact value.

use super::source::Reading;

/// To which neighbour a result goes that lies between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Down,
    Up,
    Zero,
}

impl Rounding {
    pub fn read(reading: &Reading) -> Self {
        reading
            .choice(&[(".RM", Self::Down), (".RP", Self::Up), (".RZ", Self::Zero)])
            .unwrap_or(Self::Nearest)
    }

    /// Whether a value of a sign goes to the neighbour that is farther from zero; `rest` is what lies
    /// below the last bit in units of half of it, and whether there is more: 0 to 3.
    fn away(self, negative: bool, odd: bool, rest: u8) -> bool {
        match self {
            Self::Nearest => rest == 3 || rest == 2 && odd,
            Self::Down => negative && rest != 0,
            Self::Up => !negative && rest != 0,
            Self::Zero => false,
        }
    }
}

/// The sum of two doubles, rounded to odd. The sum must not overflow.
#[inline]
pub(crate) fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // What the sum lost, exactly.
    let part = sum - a;
    let lost = (a - (sum - part)) + (b - part);
    let bits = sum.to_bits();
    if lost == 0.0 || bits & 1 != 0 || !sum.is_finite() {
        return sum;
    }
    let outward = (lost > 0.0) == (sum > 0.0);
    f64::from_bits(if outward { bits + 1 } else { bits - 1 })
}

/// A double as a single.
#[inline]
pub(crate) fn single(value: f64, rounding: Rounding) -> f32 {
    let nearest = value as f32;
    if rounding == Rounding::Nearest || value.is_nan() || value.is_infinite() {
        return nearest;
    }
    let back = f64::from(nearest);
    let down = rounding == Rounding::Down || rounding == Rounding::Zero && value > 0.0;
    let up = rounding == Rounding::Up || rounding == Rounding::Zero && value < 0.0;
    if back > value && down {
        nearest.next_down()
    } else if back < value && up {
        nearest.next_up()
    } else {
        nearest
    }
}

/// A double as bits of a shorter type with so many bits of exponent and fraction; no infinity arises
/// where rounding goes the other way.
pub(crate) fn narrow(
    value: f64,
    exponent_bits: u32,
    fraction_bits: u32,
    rounding: Rounding,
) -> u32 {
    let bits = value.to_bits();
    let sign = ((bits >> 63) as u32) << (exponent_bits + fraction_bits);
    let most = (1_u32 << exponent_bits) - 1;
    let infinity = most << fraction_bits;
    if value.is_nan() {
        return (1 << (exponent_bits + fraction_bits)) - 1;
    }
    if value.is_infinite() {
        return sign | infinity;
    }
    let bias = (1_i32 << (exponent_bits - 1)) - 1;
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023 + bias;
    let fraction = bits & ((1 << 52) - 1);
    // What is below the least exponent keeps fewer bits; a double without its leading one is far below.
    let (field, whole, drop) = if exponent > 0 {
        (exponent.cast_unsigned(), fraction, 52 - fraction_bits)
    } else {
        let more = exponent.abs_diff(1).min(62);
        (0, fraction | 1 << 52, (52 - fraction_bits + more).min(63))
    };
    let kept = (whole >> drop) as u32;
    let below = whole & ((1 << drop) - 1);
    let half = 1_u64 << (drop - 1);
    let rest = (u8::from(below >= half) << 1) | u8::from(below & (half - 1) != 0);
    let magnitude = u64::from(field) << fraction_bits;
    let magnitude =
        magnitude + u64::from(kept) + u64::from(rounding.away(sign != 0, kept & 1 != 0, rest));
    let magnitude = if value == 0.0 { 0 } else { magnitude };
    if magnitude < u64::from(infinity) {
        return sign | magnitude as u32;
    }
    // Beyond the greatest: there, or at infinity.
    let stays = match rounding {
        Rounding::Nearest => false,
        Rounding::Down => sign == 0,
        Rounding::Up => sign != 0,
        Rounding::Zero => true,
    };
    sign | (infinity - u32::from(stays))
}

/// `a * b + c` of doubles.
pub(crate) fn fused(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
    let special = [a, b, c].iter().any(|x| !x.is_finite());
    if rounding == Rounding::Nearest || special {
        return a.mul_add(b, c);
    }
    exact(a, b, c, rounding)
}

/// The same of finite numbers, from the exact sum.
fn exact(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
    let product_negative = a.is_sign_negative() != b.is_sign_negative();
    let (mut product, product_exponent) = multiply(a, b);
    let (mut addend, addend_exponent) = split(c);
    let (mut p, mut q) = (product_exponent, addend_exponent);
    if product == 0 && addend == 0 {
        // Zeros of both signs are zero, the negative one only when rounding down.
        return match (product_negative, c.is_sign_negative()) {
            (x, y) if x == y => {
                if x {
                    -0.0
                } else {
                    0.0
                }
            }
            _ => {
                if rounding == Rounding::Down {
                    -0.0
                } else {
                    0.0
                }
            }
        };
    }
    // Both to the top but for two bits, then the lesser one down to the other; what it loses stays as
    // a last bit that is set.
    for (value, exponent) in [(&mut product, &mut p), (&mut addend, &mut q)] {
        if *value == 0 {
            *exponent = i32::MIN / 2;
        } else {
            let up = value.leading_zeros() - 2;
            *value <<= up;
            *exponent -= up.cast_signed();
        }
    }
    let exponent = p.max(q);
    let product = jam(product, exponent.abs_diff(p)).cast_signed();
    let addend = jam(addend, exponent.abs_diff(q)).cast_signed();
    let signed = |x: i128, negative: bool| if negative { -x } else { x };
    let sum = signed(product, product_negative) + signed(addend, c.is_sign_negative());
    if sum == 0 {
        return if rounding == Rounding::Down {
            -0.0
        } else {
            0.0
        };
    }
    compose(sum < 0, sum.unsigned_abs(), exponent, rounding)
}

/// A finite double as an integer and the exponent of its last bit.
fn split(x: f64) -> (u128, i32) {
    let field = (x.to_bits() >> 52 & 0x7ff) as i32;
    let fraction = u128::from(x.to_bits() & ((1 << 52) - 1));
    if field == 0 {
        (fraction, -1074)
    } else {
        (fraction | 1 << 52, field - 1075)
    }
}

fn multiply(a: f64, b: f64) -> (u128, i32) {
    let ((a, p), (b, q)) = (split(a), split(b));
    (a * b, p + q)
}

fn jam(value: u128, by: u32) -> u128 {
    if by == 0 {
        value
    } else if by > 127 {
        u128::from(value != 0)
    } else {
        value >> by | u128::from(value & ((1 << by) - 1) != 0)
    }
}

fn compose(negative: bool, value: u128, exponent: i32, rounding: Rounding) -> f64 {
    let top = 127 - value.leading_zeros().cast_signed();
    // The exponent of the last bit that is kept.
    let last = (exponent + top - 52).max(-1074);
    let drop = last - exponent;
    let (kept, rest) = if drop <= 0 {
        (value << drop.unsigned_abs(), 0)
    } else {
        let below = drop.unsigned_abs() - 1;
        let half = below < 128 && value >> below & 1 != 0;
        let kept = if drop > 127 { 0 } else { value >> drop };
        (kept, u8::from(half) << 1 | u8::from(lost(value, below)))
    };
    let kept = kept as u64 + u64::from(rounding.away(negative, kept & 1 != 0, rest));
    // A carry moves on into the exponent by itself.
    let bits = match kept.checked_sub(1 << 52) {
        None => kept,
        Some(fraction) => (u64::from((last + 1075).cast_unsigned()) << 52) + fraction,
    };
    let sign = u64::from(negative) << 63;
    if bits >= 0x7ff << 52 {
        let stays = match rounding {
            Rounding::Nearest => false,
            Rounding::Down => !negative,
            Rounding::Up => negative,
            Rounding::Zero => true,
        };
        return f64::from_bits(sign | ((0x7ff << 52) - u64::from(stays)));
    }
    f64::from_bits(sign | bits)
}

/// Whether any of the lowest bits is set.
fn lost(value: u128, count: u32) -> bool {
    if count > 127 {
        value != 0
    } else {
        value & ((1 << count) - 1) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To the nearest it is what the processor computes; in the directions it is the neighbours of that,
    /// on both sides of it.
    #[test]
    fn sums_of_products() {
        let mut seed = 1_u64;
        let mut next = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            seed ^ seed >> 29
        };
        let mut number = || {
            let bits = next();
            let near = 0x3fe0_0000_0000_0000 + (bits & 0x003f_0000_0000_00ff);
            let tiny = bits & 0x801f_ffff_ffff_ffff;
            let x = f64::from_bits([bits, near, near | 1 << 63, tiny][(next() >> 60) as usize % 4]);
            if x.is_finite() { x } else { 1.5 }
        };
        for _ in 0..200_000 {
            let (a, b, c) = (number(), number(), number());
            let nearest = a.mul_add(b, c);
            let of = |rounding| exact(a, b, c, rounding);
            let ours = of(Rounding::Nearest);
            assert_eq!(
                ours.to_bits(),
                nearest.to_bits(),
                "{a:e} * {b:e} + {c:e} is {nearest:e}, not {ours:e}"
            );
            let (down, up) = (of(Rounding::Down), of(Rounding::Up));
            assert!(
                down <= nearest && nearest <= up,
                "{a:e} * {b:e} + {c:e}: {down:e} {nearest:e} {up:e}"
            );
            assert!(
                down == up || down.next_up() == up,
                "{a:e} * {b:e} + {c:e}: {down:e} {up:e}"
            );
            let zero = if nearest > 0.0 { down } else { up };
            assert_eq!(of(Rounding::Zero), zero, "{a:e} * {b:e} + {c:e}");
        }
    }
}
