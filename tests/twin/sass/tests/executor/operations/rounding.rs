//! Rounding in a direction, saturation, subnormal numbers that are zeros.

use super::Out::{Any, Double, Single, Wide, Word};
use super::float::{
    To, ULP, directed, f, flag, least, lost, most, near, saturated, stepped, z, zf,
};
use super::{In, Out, Row};

fn d(x: u64) -> f64 {
    f64::from_bits(x)
}

/// The quotient of two singles: nearer to a single than doubles tell, it is that single.
fn quotient(i: &In, to: To) -> Out {
    Single(directed(f64::from(f(i.a)) / f64::from(f(i.b)), to))
}

fn root(i: &In, to: To) -> Out {
    Single(directed(f64::from(f(i.a)).sqrt(), to))
}

/// Of magnitudes whose products and rests are numbers with all their bits.
fn middle(x: f64) -> bool {
    (1e-120..1e120).contains(&x.abs())
}

/// A product and a sum, in a direction; decided where the sum of the three is one of two.
fn fused(i: &In, to: To) -> Out {
    let (x, y, c) = (d(i.x), d(i.y), d(i.z));
    let product = x * y;
    let rest = x.mul_add(y, -product);
    let near = x.mul_add(y, c);
    let part = (product - near) + c;
    let exact = lost(product, -near) == 0.0 && lost(product - near, c) == 0.0;
    if !exact || product.abs() < 1e-250 {
        return Any;
    }
    stepped(near, part + rest, to)
}

pub const ROUNDING: &[Row] = &[
    ("min.xorsign.abs.f32 r, a, b;", |i| {
        let least = least(f(i.a).abs(), f(i.b).abs());
        Single(if (i.a ^ i.b) >> 31 != 0 {
            -least
        } else {
            least
        })
    }),
    ("max.NaN.f32 r, a, b;", |i| {
        let none = f(i.a).is_nan() || f(i.b).is_nan();
        Single(if none { f32::NAN } else { most(f(i.a), f(i.b)) })
    }),
    ("fma.rn.sat.f32 r, a, b, c;", |i| {
        saturated(f(i.a).mul_add(f(i.b), f(i.c)))
    }),
    ("fma.rn.ftz.sat.f32 r, a, b, c;", |i| {
        saturated(z(zf(i.a).mul_add(zf(i.b), zf(i.c))))
    }),
    ("mul.ftz.sat.f32 r, a, b;", |i| {
        saturated(z(zf(i.a) * zf(i.b)))
    }),
    ("div.rz.f32 r, a, b;", |i| quotient(i, To::Zero)),
    ("div.rm.f32 r, a, b;", |i| quotient(i, To::Down)),
    ("div.rp.f32 r, a, b;", |i| quotient(i, To::Up)),
    ("rcp.rm.f32 r, a;", |i| {
        Single(directed(1.0 / f64::from(f(i.a)), To::Down))
    }),
    ("sqrt.rz.f32 r, a;", |i| root(i, To::Zero)),
    ("sqrt.rp.f32 r, a;", |i| root(i, To::Up)),
    ("div.full.f32 r, a, b;", |i| {
        if !f(i.b).is_normal() || f(i.b).abs() > 2_f32.powi(126) {
            return Any;
        }
        near(f(i.a), f64::from(f(i.a)) / f64::from(f(i.b)), ULP)
    }),
    ("div.approx.ftz.f32 r, a, b;", |i| {
        if !f(i.b).is_normal() || f(i.b).abs() > 2_f32.powi(126) {
            return Any;
        }
        near(f(i.a), f64::from(f(i.a)) / f64::from(f(i.b)), ULP)
    }),
    ("cvt.sat.f32.f32 r, a;", |i| saturated(f(i.a))),
    ("cvt.rni.ftz.f32.f32 r, a;", |i| {
        Single(zf(i.a).round_ties_even())
    }),
    ("cvt.rm.f32.f64 r, x;", |i| {
        Single(directed(d(i.x), To::Down))
    }),
    ("cvt.rn.ftz.f32.f64 r, x;", |i| Single(z(d(i.x) as f32))),
    ("cvt.rn.sat.f32.f64 r, x;", |i| saturated(d(i.x) as f32)),
    ("cvt.ftz.f64.f32 w, a;", |i| Double(f64::from(zf(i.a)))),
    ("cvt.rzi.ftz.s32.f32 r, a;", |i| {
        Word((zf(i.a) as i32).cast_unsigned())
    }),
    ("cvt.rmi.u32.f64 r, x;", |i| {
        Word(if d(i.x).is_nan() {
            1 << 31
        } else {
            d(i.x).floor() as u32
        })
    }),
    ("cvt.rpi.s64.f64 w, x;", |i| {
        Wide(if d(i.x).is_nan() {
            1 << 63
        } else {
            (d(i.x).ceil() as i64).cast_unsigned()
        })
    }),
    ("cvt.rm.f64.s64 w, x;", |i| {
        let near = i.x.cast_signed() as f64;
        let above = near as i128 > i128::from(i.x.cast_signed());
        Double(if above { near.next_down() } else { near })
    }),
    ("cvt.rp.f64.u64 w, x;", |i| {
        let near = i.x as f64;
        let below = (near as i128) < i128::from(i.x);
        Double(if below { near.next_up() } else { near })
    }),
    ("cvt.rz.f32.u64 r, x;", |i| {
        let near = i.x as f32;
        let above = near as i128 > i128::from(i.x);
        Single(if above { near.next_down() } else { near })
    }),
    ("cvt.rzi.s16.f32 r, a;", |i| {
        Word(i32::from(f(i.a) as i16).cast_unsigned())
    }),
    ("cvt.rzi.sat.s8.f32 r, a;", |i| {
        Word(i32::from(f(i.a) as i8).cast_unsigned())
    }),
    ("cvt.rn.f32.u8 r, a;", |i| Single(f32::from(i.a as u8))),
    ("cvt.rn.f32.s16 r, a;", |i| {
        Single(f32::from(i.a as u16 as i16))
    }),
    (
        "{ .reg .pred p; setp.num.f64 p, x, y; selp.u32 r, 1, 0, p; }",
        |i| flag(!d(i.x).is_nan() && !d(i.y).is_nan()),
    ),
    (
        "{ .reg .pred p; testp.subnormal.f32 p, a; selp.u32 r, 1, 0, p; }",
        |i| flag(f(i.a).is_subnormal()),
    ),
    (
        "{ .reg .pred p; setp.lt.ftz.f32 p, a, b; selp.u32 r, 1, 0, p; }",
        |i| flag(zf(i.a) < zf(i.b)),
    ),
    ("set.eq.ftz.f32.f32 r, a, b;", |i| {
        Single(if zf(i.a) == zf(i.b) { 1.0 } else { 0.0 })
    }),
    ("slct.f32.f32 r, a, b, c;", |i| {
        Word(if f(i.c) >= 0.0 { i.a } else { i.b })
    }),
    ("fma.rz.f64 w, x, y, z;", |i| fused(i, To::Zero)),
    ("fma.rp.f64 w, x, y, z;", |i| fused(i, To::Up)),
    ("add.rm.f64 w, x, y;", |i| {
        stepped(d(i.x) + d(i.y), lost(d(i.x), d(i.y)), To::Down)
    }),
    ("div.rz.f64 w, x, y;", |i| {
        let (x, y) = (d(i.x), d(i.y));
        let near = x / y;
        if !middle(x) || !middle(y) {
            return Any;
        }
        stepped(near, near.mul_add(-y, x) / y, To::Zero)
    }),
    ("sqrt.rm.f64 w, x;", |i| {
        let near = d(i.x).sqrt();
        if !middle(d(i.x)) {
            return Any;
        }
        stepped(near, near.mul_add(-near, d(i.x)), To::Down)
    }),
];
