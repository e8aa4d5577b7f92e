//! Halves, and numbers that change their type.

use super::Out::{Any, Double, Halves, Single, Wide, Word};
use super::float::{To, directed};
use super::{In, Out, Row};

/// A half as an integer, in units of 2^-24; nothing if it is none or infinite.
fn units(half: u32) -> Option<i128> {
    let (exponent, fraction) = (half >> 10 & 31, i128::from(half & 0x3ff));
    let magnitude = match exponent {
        31 => return None,
        0 => fraction,
        _ => (fraction + 1024) << (exponent - 1),
    };
    Some(if half & 0x8000 != 0 {
        -magnitude
    } else {
        magnitude
    })
}

/// The first magnitude for which something holds that holds for all after it; infinity if for none.
fn first(holds: impl Fn(u32) -> bool) -> u32 {
    let (mut from, mut to) = (0, 0x7c00);
    while from < to {
        let middle = (from + to) / 2;
        (from, to) = if holds(middle) {
            (from, middle)
        } else {
            (middle + 1, to)
        };
    }
    from
}

/// The half nearest to a number of units of 2^-`scale`; `zero` is the sign if it is zero.
fn nearest(value: i128, scale: u32, zero: u32) -> u32 {
    let sign = if value < 0 || value == 0 && zero != 0 {
        0x8000
    } else {
        0
    };
    let value = value.abs();
    // What comes after the greatest is infinity.
    let at = |half: u32| units(half).unwrap_or(1 << 40) << (scale - 24);
    let above = first(|half| at(half) >= value);
    let below = above.saturating_sub(1);
    let half = match (at(above) - value).cmp(&(value - at(below))) {
        _ if at(above) <= value => above,
        std::cmp::Ordering::Less => above,
        std::cmp::Ordering::Greater => below,
        std::cmp::Ordering::Equal => {
            if above & 1 == 0 {
                above
            } else {
                below
            }
        }
    };
    sign | half
}

fn single(half: u32) -> f32 {
    let sign = if half & 0x8000 != 0 { -1.0 } else { 1.0 };
    match (units(half), half & 0x3ff) {
        (Some(0), _) => 0.0 * sign,
        (Some(value), _) => value as f32 / 16_777_216.0,
        (None, 0) => f32::INFINITY * sign,
        (None, _) => f32::NAN,
    }
}

fn pair(of: impl Fn(u32) -> u32) -> Out {
    Halves(of(0) | of(16) << 16)
}

fn part(x: u32, k: u32) -> u32 {
    x >> k & 0xffff
}

const NONE: u32 = 0x7fff;

/// What is no number or infinite, as singles have it.
fn special(x: f32) -> u32 {
    match x {
        x if x.is_nan() => NONE,
        x if x > 0.0 => 0x7c00,
        _ => 0xfc00,
    }
}

fn sum(a: u32, b: u32) -> u32 {
    match (units(a), units(b)) {
        (Some(x), Some(y)) => nearest(x + y, 24, a & b & 0x8000),
        _ => special(single(a) + single(b)),
    }
}

fn fused(a: u32, b: u32, c: u32) -> u32 {
    match (units(a), units(b), units(c)) {
        (Some(x), Some(y), Some(z)) => nearest(x * y + (z << 24), 48, (a ^ b) & c & 0x8000),
        _ => special(single(a) * single(b) + single(c)),
    }
}

fn multiplied(a: u32, b: u32) -> u32 {
    match (units(a), units(b)) {
        (Some(x), Some(y)) => nearest(x * y, 48, (a ^ b) & 0x8000),
        _ => special(single(a) * single(b)),
    }
}

fn is_none(half: u32) -> bool {
    single(half).is_nan()
}

fn least(a: u32, b: u32) -> u32 {
    match (is_none(a), is_none(b)) {
        (true, true) => NONE,
        (true, _) => b,
        (_, true) => a,
        _ if units(a) == Some(0) && units(b) == Some(0) => a | b,
        _ => {
            if single(a) < single(b) {
                a
            } else {
                b
            }
        }
    }
}

/// A single as a half: below 2^-25 nothing is left of it, and above 2^17 it is infinite.
fn short(x: f32, zero: bool) -> u32 {
    let sign = x.to_bits() >> 16 & 0x8000;
    if x.is_nan() {
        return NONE;
    }
    if zero {
        // The greatest magnitude that is not above it.
        let x = x.abs();
        return sign
            | if x.is_infinite() {
                0x7c00
            } else {
                first(|half| single(half) > x) - 1
            };
    }
    match x.abs() {
        y if y < 2_f32.powi(-25) => sign,
        y if y > 131_072.0 => sign | 0x7c00,
        y => sign | nearest((f64::from(y) * 2_f64.powi(48)) as i128, 48, 0),
    }
}

fn brain(x: u32, zero: bool) -> u32 {
    if f32::from_bits(x).is_nan() {
        return NONE;
    }
    let even = if zero { 0 } else { 0x7fff + (x >> 16 & 1) };
    (x + even) >> 16
}

pub const HALF: &[Row] = &[
    ("add.f16x2 r, a, b;", |i| {
        pair(|k| sum(part(i.a, k), part(i.b, k)))
    }),
    ("sub.f16x2 r, a, b;", |i| {
        pair(|k| sum(part(i.a, k), part(i.b, k) ^ 0x8000))
    }),
    ("mul.f16x2 r, a, b;", |i| {
        pair(|k| multiplied(part(i.a, k), part(i.b, k)))
    }),
    ("fma.rn.f16x2 r, a, b, c;", |i| {
        pair(|k| fused(part(i.a, k), part(i.b, k), part(i.c, k)))
    }),
    ("fma.rn.relu.f16x2 r, a, b, c;", |i| {
        let halves = [0, 16].map(|k| fused(part(i.a, k), part(i.b, k), part(i.c, k)));
        // Whether the negative zero is below zero is not said.
        if halves.contains(&0x8000) {
            return Any;
        }
        pair(|k| match halves[(k / 16) as usize] {
            half if half & 0x8000 != 0 && !is_none(half) => 0,
            half => half,
        })
    }),
    ("add.sat.f16x2 r, a, b;", |i| {
        pair(|k| match sum(part(i.a, k), part(i.b, k)) {
            half if is_none(half) || half & 0x8000 != 0 => 0,
            half => half.min(0x3c00),
        })
    }),
    ("neg.f16x2 r, a;", |i| Halves(i.a ^ 0x8000_8000)),
    ("abs.f16x2 r, a;", |i| Halves(i.a & 0x7fff_7fff)),
    ("min.f16x2 r, a, b;", |i| {
        pair(|k| least(part(i.a, k), part(i.b, k)))
    }),
    ("max.NaN.f16x2 r, a, b;", |i| {
        pair(|k| {
            let (a, b) = (part(i.a, k), part(i.b, k));
            if is_none(a) || is_none(b) {
                NONE
            } else {
                least(a ^ 0x8000, b ^ 0x8000) ^ 0x8000
            }
        })
    }),
    (
        "{ .reg .pred p, q; setp.lt.f16x2 p|q, a, b; selp.u32 r, 1, 2, p; @q add.u32 r, r, 4; }",
        |i| {
            let less = |k| single(part(i.a, k)) < single(part(i.b, k));
            Word(if less(0) { 1 } else { 2 } + if less(16) { 4 } else { 0 })
        },
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.f32.f16 r, h; }",
        |i| Single(single(i.a >> 16)),
    ),
    (
        "{ .reg .b16 h; cvt.rn.f16.f32 h, a; mov.b32 r, {h, h}; }",
        |i| pair(|_| short(f(i), false)),
    ),
    (
        "{ .reg .b16 h; cvt.rz.f16.f32 h, a; mov.b32 r, {h, h}; }",
        |i| pair(|_| short(f(i), true)),
    ),
    ("cvt.rn.f16x2.f32 r, a, b;", |i| {
        Halves(short(f(i), false) << 16 | short(f32::from_bits(i.b), false))
    }),
    ("cvt.rn.bf16x2.f32 r, a, b;", |i| {
        Word(brain(i.a, false) << 16 | brain(i.b, false))
    }),
    ("cvt.rz.bf16x2.f32 r, a, b;", |i| {
        Word(brain(i.a, true) << 16 | brain(i.b, true))
    }),
];

fn f(i: &In) -> f32 {
    f32::from_bits(i.a)
}

fn d(i: &In) -> f64 {
    f64::from_bits(i.x)
}

fn s(i: &In) -> i32 {
    i.a.cast_signed()
}

/// What is no number is zero, unless a type of 64 bits is on either side.
fn wide(x: f64, bits: u64) -> Out {
    Wide(if x.is_nan() { 1 << 63 } else { bits })
}

fn from_double(x: f64, bits: u32) -> Out {
    Word(if x.is_nan() { 1 << 31 } else { bits })
}

pub const CONVERT: &[Row] = &[
    ("cvt.rn.f32.s32 r, a;", |i| Single(s(i) as f32)),
    ("cvt.rn.f32.u32 r, a;", |i| Single(i.a as f32)),
    ("cvt.rz.f32.s32 r, a;", |i| {
        Single(directed(f64::from(s(i)), To::Zero))
    }),
    ("cvt.rm.f32.u32 r, a;", |i| {
        Single(directed(f64::from(i.a), To::Down))
    }),
    ("cvt.rp.f32.s32 r, a;", |i| {
        Single(directed(f64::from(s(i)), To::Up))
    }),
    ("cvt.rn.f32.s64 r, x;", |i| Single(i.x.cast_signed() as f32)),
    ("cvt.rn.f32.u64 r, x;", |i| Single(i.x as f32)),
    ("cvt.rn.f64.s32 w, a;", |i| Double(f64::from(s(i)))),
    ("cvt.rn.f64.u32 w, a;", |i| Double(f64::from(i.a))),
    ("cvt.rn.f64.s64 w, x;", |i| Double(i.x.cast_signed() as f64)),
    ("cvt.rn.f64.u64 w, x;", |i| Double(i.x as f64)),
    ("cvt.rni.s32.f32 r, a;", |i| {
        Word((f(i).round_ties_even() as i32).cast_unsigned())
    }),
    ("cvt.rzi.s32.f32 r, a;", |i| {
        Word((f(i) as i32).cast_unsigned())
    }),
    ("cvt.rmi.s32.f32 r, a;", |i| {
        Word((f(i).floor() as i32).cast_unsigned())
    }),
    ("cvt.rpi.u32.f32 r, a;", |i| Word(f(i).ceil() as u32)),
    ("cvt.rzi.u32.f32 r, a;", |i| Word(f(i) as u32)),
    ("cvt.rzi.s64.f32 w, a;", |i| {
        wide(f64::from(f(i)), (f(i) as i64).cast_unsigned())
    }),
    ("cvt.rzi.u64.f32 w, a;", |i| {
        wide(f64::from(f(i)), f(i) as u64)
    }),
    ("cvt.rni.s32.f64 r, x;", |i| {
        from_double(d(i), (d(i).round_ties_even() as i32).cast_unsigned())
    }),
    ("cvt.rzi.u32.f64 r, x;", |i| from_double(d(i), d(i) as u32)),
    ("cvt.rzi.s64.f64 w, x;", |i| {
        wide(d(i), (d(i) as i64).cast_unsigned())
    }),
    ("cvt.rmi.u64.f64 w, x;", |i| wide(d(i), d(i).floor() as u64)),
    ("cvt.rni.f32.f32 r, a;", |i| Single(f(i).round_ties_even())),
    ("cvt.rzi.f32.f32 r, a;", |i| Single(f(i).trunc())),
    ("cvt.rmi.f32.f32 r, a;", |i| Single(f(i).floor())),
    ("cvt.rpi.f32.f32 r, a;", |i| Single(f(i).ceil())),
    ("cvt.rni.f64.f64 w, x;", |i| Double(d(i).round_ties_even())),
    ("cvt.f64.f32 w, a;", |i| Double(f64::from(f(i)))),
    ("cvt.rn.f32.f64 r, x;", |i| Single(d(i) as f32)),
    ("cvt.rz.f32.f64 r, x;", |i| Single(directed(d(i), To::Zero))),
    ("cvt.rp.f32.f64 r, x;", |i| Single(directed(d(i), To::Up))),
    ("cvt.sat.u8.s32 r, a;", |i| {
        Word(s(i).clamp(0, 255).cast_unsigned())
    }),
    ("cvt.sat.s8.s32 r, a;", |i| {
        Word(s(i).clamp(-128, 127).cast_unsigned())
    }),
    ("cvt.sat.u16.s32 r, a;", |i| {
        Word(s(i).clamp(0, 65_535).cast_unsigned())
    }),
    ("cvt.sat.s16.s32 r, a;", |i| {
        Word(s(i).clamp(-32_768, 32_767).cast_unsigned())
    }),
    ("cvt.u32.u8 r, a;", |i| Word(i.a & 0xff)),
    ("cvt.s32.s8 r, a;", |i| {
        Word(i32::from(i.a as u8 as i8).cast_unsigned())
    }),
    ("cvt.s64.s32 w, a;", |i| {
        Wide(i64::from(s(i)).cast_unsigned())
    }),
];
