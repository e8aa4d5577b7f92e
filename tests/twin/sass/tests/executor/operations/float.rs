//! Singles and doubles.

use super::Out::{Any, Double, Near, Single, Word};
use super::{In, Out, Row};

pub fn f(x: u32) -> f32 {
    f32::from_bits(x)
}

/// Subnormal numbers are zeros of their sign.
pub fn z(x: f32) -> f32 {
    if x.is_subnormal() {
        0_f32.copysign(x)
    } else {
        x
    }
}

pub fn zf(x: u32) -> f32 {
    z(f(x))
}

pub fn saturated(x: f32) -> Out {
    Single(if x.is_nan() || x <= 0.0 {
        0.0
    } else {
        x.min(1.0)
    })
}

#[derive(Clone, Copy)]
pub enum To {
    Zero,
    Down,
    Up,
}

/// An exact value to the neighbour that a direction says: the greatest that is not above it, or the
/// least that is not below it.
pub fn directed(exact: f64, to: To) -> f32 {
    if exact == 0.0 || !exact.is_finite() {
        return exact as f32;
    }
    let near = exact as f32;
    let all = [near.next_down(), near, near.next_up()];
    let down = all
        .into_iter()
        .filter(|&x| f64::from(x) <= exact)
        .reduce(f32::max);
    let up = all
        .into_iter()
        .filter(|&x| f64::from(x) >= exact)
        .reduce(f32::min);
    let down = down.unwrap_or(near);
    let up = up.unwrap_or(near);
    let result = match to {
        To::Down => down,
        To::Up => up,
        To::Zero if exact > 0.0 => down,
        To::Zero => up,
    };
    if result == 0.0 {
        0_f32.copysign(exact as f32)
    } else {
        result
    }
}

/// A sum, if doubles hold it exactly.
pub fn sum(a: f64, b: f64, to: To) -> Out {
    let sum = a + b;
    if sum.is_finite() && (sum - a != b || sum - b != a) {
        return Any;
    }
    if sum == 0.0 && a.is_sign_negative() != b.is_sign_negative() {
        return Single(if matches!(to, To::Down) { -0.0 } else { 0.0 });
    }
    Single(directed(sum, to))
}

fn product(i: &In) -> f64 {
    f64::from(f(i.a)) * f64::from(f(i.b))
}

pub fn least(a: f32, b: f32) -> f32 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => {
            if a.is_sign_negative() {
                a
            } else {
                b
            }
        }
        _ => {
            if a < b {
                a
            } else {
                b
            }
        }
    }
}

pub fn most(a: f32, b: f32) -> f32 {
    -least(-a, -b)
}

/// An approximation, where its argument and its result are normal numbers.
pub fn near(x: f32, value: f64, part: f64) -> Out {
    if x.is_normal() && (value as f32).is_normal() {
        Near(value, part)
    } else {
        Any
    }
}

pub fn flag(x: bool) -> Out {
    Word(u32::from(x))
}

/// Two of the last place.
pub const ULP: f64 = 1.0 / (1_u64 << 22) as f64;

pub const SINGLE: &[Row] = &[
    ("add.f32 r, a, b;", |i| Single(f(i.a) + f(i.b))),
    ("sub.f32 r, a, b;", |i| Single(f(i.a) - f(i.b))),
    ("add.ftz.f32 r, a, b;", |i| Single(z(zf(i.a) + zf(i.b)))),
    ("add.sat.f32 r, a, b;", |i| saturated(f(i.a) + f(i.b))),
    ("add.rz.f32 r, a, b;", |i| {
        sum(f64::from(f(i.a)), f64::from(f(i.b)), To::Zero)
    }),
    ("add.rm.f32 r, a, b;", |i| {
        sum(f64::from(f(i.a)), f64::from(f(i.b)), To::Down)
    }),
    ("add.rp.f32 r, a, b;", |i| {
        sum(f64::from(f(i.a)), f64::from(f(i.b)), To::Up)
    }),
    ("mul.f32 r, a, b;", |i| Single(f(i.a) * f(i.b))),
    ("mul.ftz.f32 r, a, b;", |i| Single(z(zf(i.a) * zf(i.b)))),
    ("mul.rz.f32 r, a, b;", |i| {
        Single(directed(product(i), To::Zero))
    }),
    ("mul.rm.f32 r, a, b;", |i| {
        Single(directed(product(i), To::Down))
    }),
    ("mul.rp.f32 r, a, b;", |i| {
        Single(directed(product(i), To::Up))
    }),
    ("mul.sat.f32 r, a, b;", |i| saturated(f(i.a) * f(i.b))),
    ("fma.rn.f32 r, a, b, c;", |i| {
        Single(f(i.a).mul_add(f(i.b), f(i.c)))
    }),
    ("fma.rn.ftz.f32 r, a, b, c;", |i| {
        Single(z(zf(i.a).mul_add(zf(i.b), zf(i.c))))
    }),
    ("fma.rz.f32 r, a, b, c;", |i| {
        sum(product(i), f64::from(f(i.c)), To::Zero)
    }),
    ("fma.rm.f32 r, a, b, c;", |i| {
        sum(product(i), f64::from(f(i.c)), To::Down)
    }),
    ("fma.rp.f32 r, a, b, c;", |i| {
        sum(product(i), f64::from(f(i.c)), To::Up)
    }),
    ("div.rn.f32 r, a, b;", |i| Single(f(i.a) / f(i.b))),
    ("sqrt.rn.f32 r, a;", |i| Single(f(i.a).sqrt())),
    ("rcp.rn.f32 r, a;", |i| Single(1.0 / f(i.a))),
    ("min.f32 r, a, b;", |i| Single(least(f(i.a), f(i.b)))),
    ("max.f32 r, a, b;", |i| Single(most(f(i.a), f(i.b)))),
    ("min.NaN.f32 r, a, b;", |i| {
        let none = f(i.a).is_nan() || f(i.b).is_nan();
        Single(if none {
            f32::NAN
        } else {
            least(f(i.a), f(i.b))
        })
    }),
    ("max.ftz.f32 r, a, b;", |i| Single(most(zf(i.a), zf(i.b)))),
    ("abs.f32 r, a;", |i| Single(f(i.a).abs())),
    ("neg.f32 r, a;", |i| Single(-f(i.a))),
    ("rcp.approx.ftz.f32 r, a;", |i| {
        near(f(i.a), 1.0 / f64::from(f(i.a)), ULP)
    }),
    ("rsqrt.approx.ftz.f32 r, a;", |i| {
        near(f(i.a), 1.0 / f64::from(f(i.a)).sqrt(), ULP)
    }),
    ("sqrt.approx.ftz.f32 r, a;", |i| {
        near(f(i.a), f64::from(f(i.a)).sqrt(), ULP)
    }),
    ("ex2.approx.ftz.f32 r, a;", |i| {
        near(f(i.a), f64::from(f(i.a)).exp2(), ULP)
    }),
    ("lg2.approx.ftz.f32 r, a;", |i| {
        near(f(i.a), f64::from(f(i.a)).log2(), ULP)
    }),
    ("tanh.approx.f32 r, a;", |i| {
        near(f(i.a), f64::from(f(i.a)).tanh(), 1.0 / 2048.0)
    }),
    (
        "{ .reg .pred p; setp.lt.f32 p, a, b; selp.u32 r, 1, 0, p; }",
        |i| flag(f(i.a) < f(i.b)),
    ),
    (
        "{ .reg .pred p; setp.ge.f32 p, a, b; selp.u32 r, 1, 0, p; }",
        |i| flag(f(i.a) >= f(i.b)),
    ),
    (
        "{ .reg .pred p; setp.ne.f32 p, a, b; selp.u32 r, 1, 0, p; }",
        |i| flag(f(i.a) < f(i.b) || f(i.a) > f(i.b)),
    ),
    (
        "{ .reg .pred p; setp.neu.f32 p, a, b; selp.u32 r, 1, 0, p; }",
        |i| flag(f(i.a) != f(i.b)),
    ),
    (
        "{ .reg .pred p; setp.ltu.f32 p, a, b; selp.u32 r, 1, 0, p; }",
        |i| flag(f(i.a) < f(i.b) || f(i.a).is_nan() || f(i.b).is_nan()),
    ),
    (
        "{ .reg .pred p; setp.num.f32 p, a, b; selp.u32 r, 1, 0, p; }",
        |i| flag(!f(i.a).is_nan() && !f(i.b).is_nan()),
    ),
    (
        "{ .reg .pred p; setp.nan.f32 p, a, b; selp.u32 r, 1, 0, p; }",
        |i| flag(f(i.a).is_nan() || f(i.b).is_nan()),
    ),
    ("set.gt.u32.f32 r, a, b;", |i| {
        Word(if f(i.a) > f(i.b) { u32::MAX } else { 0 })
    }),
    ("set.le.f32.f32 r, a, b;", |i| {
        Single(if f(i.a) <= f(i.b) { 1.0 } else { 0.0 })
    }),
];

fn d(x: u64) -> f64 {
    f64::from_bits(x)
}

/// A value of which the nearest double and what it is off by are known, in a direction.
pub fn stepped(near: f64, off: f64, to: To) -> Out {
    if !near.is_finite() || near == 0.0 || near.abs() < 1e-280 || off.is_nan() {
        return Any;
    }
    let (below, above) = (off < 0.0, off > 0.0);
    Double(match to {
        To::Down if below => near.next_down(),
        To::Up if above => near.next_up(),
        To::Zero if below && near > 0.0 => near.next_down(),
        To::Zero if above && near < 0.0 => near.next_up(),
        _ => near,
    })
}

pub fn lost(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    (a - (sum - part)) + (b - part)
}

fn least_double(a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, _) => b,
        (_, true) => a,
        _ if a == b => {
            if a.is_sign_negative() {
                a
            } else {
                b
            }
        }
        _ => {
            if a < b {
                a
            } else {
                b
            }
        }
    }
}

pub const DOUBLE: &[Row] = &[
    ("add.f64 w, x, y;", |i| Double(d(i.x) + d(i.y))),
    ("sub.f64 w, x, y;", |i| Double(d(i.x) - d(i.y))),
    ("mul.f64 w, x, y;", |i| Double(d(i.x) * d(i.y))),
    ("fma.rn.f64 w, x, y, z;", |i| {
        Double(d(i.x).mul_add(d(i.y), d(i.z)))
    }),
    ("add.rz.f64 w, x, y;", |i| {
        stepped(d(i.x) + d(i.y), lost(d(i.x), d(i.y)), To::Zero)
    }),
    ("mul.rp.f64 w, x, y;", |i| {
        let near = d(i.x) * d(i.y);
        stepped(near, d(i.x).mul_add(d(i.y), -near), To::Up)
    }),
    ("fma.rm.f64 w, x, y, z;", |i| {
        // The product as a sum of two, then three numbers; decided where the second sum is exact.
        let product = d(i.x) * d(i.y);
        let rest = d(i.x).mul_add(d(i.y), -product);
        let near = d(i.x).mul_add(d(i.y), d(i.z));
        let part = (product - near) + d(i.z);
        if lost(product, -near) != 0.0
            || lost(product - near, d(i.z)) != 0.0
            || product.abs() < 1e-250
        {
            return Any;
        }
        stepped(near, part + rest, To::Down)
    }),
    ("div.rn.f64 w, x, y;", |i| Double(d(i.x) / d(i.y))),
    ("sqrt.rn.f64 w, x;", |i| Double(d(i.x).sqrt())),
    ("rcp.rn.f64 w, x;", |i| Double(1.0 / d(i.x))),
    ("min.f64 w, x, y;", |i| Double(least_double(d(i.x), d(i.y)))),
    ("max.f64 w, x, y;", |i| {
        Double(-least_double(-d(i.x), -d(i.y)))
    }),
    ("abs.f64 w, x;", |i| Double(d(i.x).abs())),
    ("neg.f64 w, x;", |i| Double(-d(i.x))),
    (
        "{ .reg .pred p; setp.lt.f64 p, x, y; selp.u32 r, 1, 0, p; }",
        |i| flag(d(i.x) < d(i.y)),
    ),
    (
        "{ .reg .pred p; setp.geu.f64 p, x, y; selp.u32 r, 1, 0, p; }",
        |i| flag(d(i.x) >= d(i.y) || d(i.x).is_nan() || d(i.y).is_nan()),
    ),
];
