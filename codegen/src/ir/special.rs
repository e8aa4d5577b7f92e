//! Functions of `f64` that the standard library lacks, or computes less accurately.

/// 2 / sqrt(pi).
const SCALE: f64 = std::f64::consts::FRAC_2_SQRT_PI;

/// Inverse hyperbolic sine.
pub fn asinh(x: f64) -> f64 {
    let a = x.abs();
    let y = if a > 1e10 {
        a.ln() + std::f64::consts::LN_2
    } else {
        (a + a * a / (1.0 + a.mul_add(a, 1.0).sqrt())).ln_1p()
    };
    y.copysign(x)
}

/// Inverse hyperbolic cosine; NaN below 1.
pub fn acosh(x: f64) -> f64 {
    if x > 1e10 {
        return x.ln() + std::f64::consts::LN_2;
    }
    let t = x - 1.0;
    if t < 0.0 {
        return f64::NAN;
    }
    (t + t.mul_add(t, 2.0 * t).sqrt()).ln_1p()
}

/// Inverse hyperbolic tangent; NaN outside of -1..=1.
pub fn atanh(x: f64) -> f64 {
    let a = x.abs();
    if a > 1.0 {
        return f64::NAN;
    }
    (0.5 * (2.0 * a / (1.0 - a)).ln_1p()).copysign(x)
}

/// e^(-x^2), where the square has more digits than its float.
fn bell(x: f64) -> f64 {
    let square = x * x;
    let low = x.mul_add(x, -square);
    (-square).exp() * (1.0 - low)
}

/// The error function.
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() {
        return x;
    }
    if a >= 2.0 {
        return (1.0 - erfc(a)).copysign(x);
    }
    if a < 1e-8 {
        return x * SCALE;
    }
    // e^(-x^2) (x + 2/3 x^3 + 4/15 x^5 ...): all terms have one sign.
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > sum.abs() * 1e-18 {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    SCALE * bell(x) * sum
}

/// 1 - erf(x), with all digits where it is small.
pub fn erfc(x: f64) -> f64 {
    if x < 0.5 {
        return 1.0 - erf(x);
    }
    if x > 28.0 {
        return 0.0;
    }
    if x < 2.0 {
        // The tail as its value at 2 and an integral from x to there, by Gauss's rule on short pieces.
        return integral(x) + erfc(2.0);
    }
    // A continued fraction, from its far end.
    let mut fraction = x;
    for n in (1..=120).rev() {
        fraction = x + f64::from(n) / 2.0 / fraction;
    }
    bell(x) / fraction / std::f64::consts::PI.sqrt()
}

/// 2 / sqrt(pi) times the integral of e^(-t^2) from x to 2.
fn integral(x: f64) -> f64 {
    // Nodes and weights of Gauss and Legendre for eight points on -1..=1.
    const RULE: [(f64, f64); 4] = [
        (0.183_434_642_495_649_8, 0.362_683_783_378_362),
        (0.525_532_409_916_329, 0.313_706_645_877_887_3),
        (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
        (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
    ];
    let pieces = 8;
    let half = (2.0 - x) / f64::from(pieces) / 2.0;
    let piece = |i: i32| {
        let middle = x + half * f64::from(2 * i + 1);
        let pair = |&(node, weight): &(f64, f64)| {
            weight * (bell(middle - half * node) + bell(middle + half * node))
        };
        RULE.iter().map(pair).sum::<f64>()
    };
    SCALE * half * (0..pieces).map(piece).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_tables() {
        // Abramowitz and Stegun, table 7.1, and values of 20 digits.
        for (x, want) in [
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
        ] {
            assert!((erf(x) - want).abs() < 2e-16, "{x}");
            assert!((erf(-x) + want).abs() < 2e-16, "{x}");
        }
        for (x, want) in [
            (1.0, 0.157_299_207_050_285_13),
            (2.0, 4.677_734_981_047_266e-3),
            (5.0, 1.537_459_794_428_034_8e-12),
            (10.0, 2.088_487_583_762_545e-45),
        ] {
            assert!((erfc(x) / want - 1.0).abs() < 2e-15, "{x}: {}", erfc(x));
        }
        assert_eq!(erf(f64::INFINITY), 1.0);
        assert_eq!(erfc(f64::NEG_INFINITY), 2.0);
        assert!(erf(f64::NAN).is_nan() && erfc(f64::NAN).is_nan());
    }
}
