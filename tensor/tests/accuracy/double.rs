//! Numbers of twice the digits of `f64`: unevaluated sums of two (Dekker, "A floating-point technique for
//! extending the available precision", 1971), and the elementary functions on them, by series and by
//! Newton's method. Good for some 28 digits: what results are measured against.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// The sum of two numbers that do not overlap.
#[derive(Clone, Copy, Debug)]
pub struct Double(pub f64, pub f64);

/// ln 2, pi/2 in three parts, 2/sqrt(pi), ln 10, sqrt(pi).
const LN_2: Double = Double(std::f64::consts::LN_2, 2.3190468138462996e-17);
const HALF_PI: [f64; 3] = [
    std::f64::consts::FRAC_PI_2,
    6.123233995736766e-17,
    -1.4973849048591833e-33,
];
const LN_10: Double = Double(std::f64::consts::LN_10, -2.1707562233822494e-16);
const TWO_OVER_ROOT_PI: Double = Double(std::f64::consts::FRAC_2_SQRT_PI, 1.533545961316588e-17);

fn two_sum(a: f64, b: f64) -> Double {
    let s = a + b;
    let t = s - a;
    Double(s, (a - (s - t)) + (b - t))
}

impl Double {
    pub const ONE: Double = Double(1.0, 0.0);

    pub fn of(x: f64) -> Double {
        Double(x, 0.0)
    }

    fn scaled(self, by: f64) -> Double {
        Double(self.0 * by, self.1 * by)
    }

    fn abs(self) -> Double {
        if self.0 < 0.0 { -self } else { self }
    }

    pub fn sqrt(self) -> Double {
        if self.0 == 0.0 {
            return self;
        }
        let root = Double::of(self.0.sqrt());
        root + (self - root * root) / root.scaled(2.0)
    }

    /// A sum of terms of which each is the one before times `next`, times x.
    fn series(first: Double, x: Double, next: impl Fn(f64) -> Double) -> Double {
        let (mut term, mut sum, mut n) = (first, first, 1.0);
        while term.0.abs() > sum.0.abs() * 1e-33 && n < 2000.0 {
            term = term * x * next(n);
            sum = sum + term;
            n += 1.0;
        }
        sum
    }

    fn ratio(a: f64, b: f64) -> Double {
        Double::of(a) / Double::of(b)
    }

    pub fn exp_m1(self) -> Double {
        if self.0.abs() < 0.4 {
            return Double::series(self, self, |n| Double::ratio(1.0, n + 1.0));
        }
        self.exp() - Double::ONE
    }

    pub fn exp(self) -> Double {
        if self.0 > 720.0 || self.0 < -760.0 {
            return Double::of(self.0.exp());
        }
        let n = (self.0 / LN_2.0).round();
        let r = self - LN_2 * Double::of(n);
        let y = Double::series(Double::ONE, r, |n| Double::ratio(1.0, n));
        // In two factors, for results that are subnormal.
        let half = (n / 2.0).floor();
        y.scaled(2f64.powi(half as i32))
            .scaled(2f64.powi((n - half) as i32))
    }

    /// ln(1 + x) for |x| <= 1/2: 2 atanh(x / (2 + x)).
    fn ln_near(self) -> Double {
        let s = self / (self + Double::of(2.0));
        let square = s * s;
        let (mut term, mut sum, mut n) = (s, s, 3.0);
        while term.0.abs() > sum.0.abs() * 1e-34 {
            term = term * square;
            sum = sum + term / Double::of(n);
            n += 2.0;
        }
        sum.scaled(2.0)
    }

    pub fn ln(self) -> Double {
        if !(self.0 > 0.0 && self.0 < f64::INFINITY) {
            return Double::of(self.0.ln());
        }
        if (self.0 - 1.0).abs() < 0.4 {
            return (self - Double::ONE).ln_near();
        }
        // Of the number times a power of two near 1.
        let up = if self.0 < 1e-300 { 64 } else { 0 };
        let x = self.scaled(2f64.powi(up));
        let e = x.0.log2().round();
        let half = (e / 2.0).trunc();
        let m = x
            .scaled(2f64.powi(-half as i32))
            .scaled(2f64.powi(-(e - half) as i32));
        (m - Double::ONE).ln_near() + LN_2 * Double::of(e - f64::from(up))
    }

    pub fn ln_1p(self) -> Double {
        if self.0.abs() < 0.4 {
            return if self.0 == 0.0 { self } else { self.ln_near() };
        }
        (self + Double::ONE).ln()
    }

    pub fn log2(self) -> Double {
        self.ln() / LN_2
    }

    pub fn log10(self) -> Double {
        self.ln() / LN_10
    }

    pub fn exp2(self) -> Double {
        (self * LN_2).exp()
    }

    /// Sine and cosine for arguments up to some millions.
    pub fn sin_cos(self) -> (Double, Double) {
        let k = (self.0 / HALF_PI[0]).round();
        let mut r = self;
        for part in HALF_PI {
            r = r - Double::of(part) * Double::of(k);
        }
        let square = -(r * r);
        let term = |shift: f64| {
            move |n: f64| Double::ratio(1.0, (2.0 * n + shift) * (2.0 * n + shift - 1.0))
        };
        let sine = Double::series(r, square, term(1.0));
        let cosine = Double::series(Double::ONE, square, term(0.0));
        match k.rem_euclid(4.0) as i32 {
            0 => (sine, cosine),
            1 => (cosine, -sine),
            2 => (-sine, -cosine),
            _ => (-cosine, sine),
        }
    }

    pub fn tan(self) -> Double {
        let (s, c) = self.sin_cos();
        s / c
    }

    pub fn atan(self) -> Double {
        if self.0.abs() < 1e-9 || self.0.is_infinite() {
            // x - x^3/3
            return if self.0.is_infinite() {
                Double::of(self.0.atan())
            } else {
                self - self * self * self / Double::of(3.0)
            };
        }
        let near = Double::of(self.0.atan());
        let (s, c) = near.sin_cos();
        near + (self * c - s) / (c + self * s)
    }

    pub fn asin(self) -> Double {
        if self.0.abs() < 1e-9 {
            return self + self * self * self / Double::of(6.0);
        }
        (self / ((Double::ONE - self) * (Double::ONE + self)).sqrt()).atan()
    }

    pub fn acos(self) -> Double {
        let half = ((Double::ONE - self) / (Double::ONE + self)).sqrt();
        half.atan().scaled(2.0)
    }

    pub fn sinh(self) -> Double {
        if self.0.abs() < 0.4 {
            let term = |n: f64| Double::ratio(1.0, 2.0 * n * (2.0 * n + 1.0));
            return Double::series(self, self * self, term);
        }
        // By halves: e^x may be infinite where this is not.
        let e = self.abs().scaled(0.5).exp();
        let y = (e.scaled(0.5) * e) - Double::ONE / (e * e).scaled(2.0);
        if self.0 < 0.0 { -y } else { y }
    }

    pub fn cosh(self) -> Double {
        let e = self.abs().scaled(0.5).exp();
        (e.scaled(0.5) * e) + Double::ONE / (e * e).scaled(2.0)
    }

    pub fn tanh(self) -> Double {
        if self.0.abs() > 40.0 {
            return Double::of(self.0.signum());
        }
        self.sinh() / self.cosh()
    }

    pub fn asinh(self) -> Double {
        let a = self.abs();
        let y = if a.0 > 1e100 {
            a.ln() + LN_2
        } else {
            (a + a * a / (Double::ONE + (Double::ONE + a * a).sqrt())).ln_1p()
        };
        if self.0 < 0.0 { -y } else { y }
    }

    pub fn acosh(self) -> Double {
        if self.0 > 1e100 {
            return self.ln() + LN_2;
        }
        let t = self - Double::ONE;
        if t.0 < 0.0 {
            return Double::of(f64::NAN);
        }
        (t + (t * (t + Double::of(2.0))).sqrt()).ln_1p()
    }

    pub fn atanh(self) -> Double {
        let a = self.abs();
        let y = (a.scaled(2.0) / (Double::ONE - a)).ln_1p().scaled(0.5);
        if self.0 < 0.0 { -y } else { y }
    }

    pub fn erf(self) -> Double {
        if self.0.abs() > 7.0 {
            return Double::of(self.0.signum());
        }
        // e^(-x^2) (x + 2/3 x^3 + 4/15 x^5 ...): all terms have one sign.
        let square = self * self;
        let sum = Double::series(self, square, |n| Double::ratio(2.0, 2.0 * n + 1.0));
        sum * (-square).exp() * TWO_OVER_ROOT_PI
    }

    pub fn erfc(self) -> Double {
        if self.0 < 4.0 {
            return Double::ONE - self.erf();
        }
        let mut fraction = self;
        for n in (1..=200).rev() {
            fraction = self + Double::of(f64::from(n)).scaled(0.5) / fraction;
        }
        (-(self * self)).exp() * TWO_OVER_ROOT_PI.scaled(0.5) / fraction
    }
}

impl Neg for Double {
    type Output = Double;
    fn neg(self) -> Double {
        Double(-self.0, -self.1)
    }
}

impl Add for Double {
    type Output = Double;
    fn add(self, other: Double) -> Double {
        let (s, t) = (two_sum(self.0, other.0), two_sum(self.1, other.1));
        if !s.0.is_finite() {
            return Double::of(s.0);
        }
        let s = two_sum(s.0, s.1 + t.0);
        two_sum(s.0, s.1 + t.1)
    }
}

impl Sub for Double {
    type Output = Double;
    fn sub(self, other: Double) -> Double {
        self + -other
    }
}

impl Mul for Double {
    type Output = Double;
    fn mul(self, other: Double) -> Double {
        let p = self.0 * other.0;
        if !p.is_finite() {
            return Double::of(p);
        }
        let low = self.0.mul_add(other.0, -p) + (self.0 * other.1 + self.1 * other.0);
        two_sum(p, low)
    }
}

impl Div for Double {
    type Output = Double;
    fn div(self, other: Double) -> Double {
        let first = self.0 / other.0;
        if !first.is_finite() || first == 0.0 {
            return Double::of(first);
        }
        let rest = self - other * Double::of(first);
        let second = rest.0 / other.0;
        let rest = rest - other * Double::of(second);
        two_sum(first, second) + Double::of(rest.0 / other.0)
    }
}
