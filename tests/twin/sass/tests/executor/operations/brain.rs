//! Bfloat16.

use super::Out::{Any, Double, Single, Wide, Word};
use super::float::To;
use super::short::{BRAIN, HALF, floored, known, pair, part, signed, twice, unsigned};
use super::{In, Out, Row};

fn single(x: u32) -> f64 {
    f64::from(f32::from_bits(x))
}

fn upper(i: &In) -> f64 {
    BRAIN.read(i.a >> 16)
}

fn flags(of: impl Fn(u32) -> bool) -> Out {
    Word(if of(0) { 1 } else { 2 } + if of(16) { 4 } else { 0 })
}

/// A sign that changes; of what is no number it is not said.
fn turned(i: &In, of: fn(u32) -> u32) -> Out {
    known(|k| (!BRAIN.is_none(part(i.a, k))).then(|| of(part(i.a, k))))
}

fn sums(i: &In) -> Out {
    pair(|k| BRAIN.sum(part(i.a, k), part(i.b, k)))
}

pub const ROWS: &[Row] = &[
    ("fma.rn.bf16x2 r, a, b, c;", |i| {
        pair(|k| BRAIN.fused(part(i.a, k), part(i.b, k), part(i.c, k)))
    }),
    ("fma.rn.relu.bf16x2 r, a, b, c;", |i| {
        known(|k| floored(BRAIN.fused(part(i.a, k), part(i.b, k), part(i.c, k))))
    }),
    ("min.bf16x2 r, a, b;", |i| {
        pair(|k| BRAIN.least(part(i.a, k), part(i.b, k), false))
    }),
    ("max.bf16x2 r, a, b;", |i| {
        pair(|k| BRAIN.most(part(i.a, k), part(i.b, k), false))
    }),
    ("min.NaN.bf16x2 r, a, b;", |i| {
        pair(|k| BRAIN.least(part(i.a, k), part(i.b, k), true))
    }),
    ("max.NaN.bf16x2 r, a, b;", |i| {
        pair(|k| BRAIN.most(part(i.a, k), part(i.b, k), true))
    }),
    ("min.xorsign.abs.bf16x2 r, a, b;", |i| {
        pair(|k| BRAIN.signed_least(part(i.a, k), part(i.b, k)))
    }),
    ("neg.bf16x2 r, a;", |i| turned(i, |x| x ^ 0x8000)),
    ("abs.bf16x2 r, a;", |i| turned(i, |x| x & 0x7fff)),
    (
        "{ .reg .b16 g, h, k, l; mov.b32 {g, h}, a; mov.b32 {k, l}, b; fma.rn.bf16 h, g, l, h; mov.b32 r, {h, k}; }",
        |i| Word(BRAIN.fused(part(i.a, 0), part(i.b, 16), part(i.a, 16)) | part(i.b, 0) << 16),
    ),
    (
        "{ .reg .b16 h; cvt.rn.bf16.f32 h, a; mov.b32 r, {h, h}; }",
        |i| twice(BRAIN.nearest(single(i.a), 0.0)),
    ),
    (
        "{ .reg .b16 h; cvt.rn.relu.bf16.f32 h, a; mov.b32 r, {h, h}; }",
        |i| known(|_| floored(BRAIN.nearest(single(i.a), 0.0))),
    ),
    ("cvt.rn.relu.bf16x2.f32 r, a, b;", |i| {
        known(|k| floored(BRAIN.nearest(single(if k == 0 { i.b } else { i.a }), 0.0)))
    }),
    ("cvt.rz.relu.bf16x2.f32 r, a, b;", |i| {
        known(|k| floored(BRAIN.directed(single(if k == 0 { i.b } else { i.a }), To::Zero)))
    }),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.f32.bf16 r, h; }",
        |i| Single(upper(i) as f32),
    ),
];

pub const HOPPER: &[Row] = &[
    ("add.rn.bf16x2 r, a, b;", sums),
    ("sub.rn.bf16x2 r, a, b;", |i| {
        pair(|k| BRAIN.sum(part(i.a, k), part(i.b, k) ^ 0x8000))
    }),
    ("mul.rn.bf16x2 r, a, b;", |i| {
        pair(|k| BRAIN.product(part(i.a, k), part(i.b, k)))
    }),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.f64.bf16 w, h; }",
        |i| Double(upper(i)),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rzi.s32.bf16 r, h; }",
        |i| Word((upper(i) as i32).cast_unsigned()),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rni.u32.bf16 r, h; }",
        |i| Word(upper(i).round_ties_even() as u32),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rzi.s64.bf16 w, h; }",
        |i| {
            let x = upper(i);
            Wide(if x.is_nan() {
                1 << 63
            } else {
                (x as i64).cast_unsigned()
            })
        },
    ),
    (
        "{ .reg .b16 h; cvt.rn.bf16.s32 h, a; mov.b32 r, {h, h}; }",
        |i| twice(BRAIN.nearest(f64::from(i.a.cast_signed()), 0.0)),
    ),
    (
        "{ .reg .b16 h; cvt.rz.bf16.u32 h, a; mov.b32 r, {h, h}; }",
        |i| twice(BRAIN.directed(f64::from(i.a), To::Zero)),
    ),
    (
        "{ .reg .b16 h; cvt.rn.bf16.u64 h, x; mov.b32 r, {h, h}; }",
        |i| {
            let (near, off) = unsigned(i.x);
            twice(BRAIN.nearest(near, off))
        },
    ),
    (
        "{ .reg .b16 h; cvt.rp.bf16.s64 h, x; mov.b32 r, {h, h}; }",
        |i| match signed(i.x) {
            (near, 0.0) => twice(BRAIN.directed(near, To::Up)),
            // What the double is off by matters only where it is a bfloat16.
            (near, _) => match twice(BRAIN.directed(near, To::Up)) {
                Word(bits) if BRAIN.read(bits & 0xffff) == near => Any,
                out => out,
            },
        },
    ),
    (
        "{ .reg .b16 h; cvt.rn.bf16.f64 h, x; mov.b32 r, {h, h}; }",
        |i| twice(BRAIN.nearest(f64::from_bits(i.x), 0.0)),
    ),
    (
        "{ .reg .b16 h; cvt.rm.bf16.f64 h, x; mov.b32 r, {h, h}; }",
        |i| twice(BRAIN.directed(f64::from_bits(i.x), To::Down)),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rn.f16.bf16 h, h; mov.b32 r, {h, h}; }",
        |i| twice(HALF.nearest(upper(i), 0.0)),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rn.bf16.f16 h, h; mov.b32 r, {h, h}; }",
        |i| twice(BRAIN.nearest(HALF.read(i.a >> 16), 0.0)),
    ),
    (
        "{ .reg .b16 h, l; mov.b32 {l, h}, a; cvt.rmi.bf16.bf16 h, h; mov.b32 r, {h, h}; }",
        |i| twice(BRAIN.nearest(upper(i).floor(), 0.0)),
    ),
    (
        "{ .reg .pred p, q; setp.lt.bf16x2 p|q, a, b; selp.u32 r, 1, 2, p; @q add.u32 r, r, 4; }",
        |i| flags(|k| BRAIN.read(part(i.a, k)) < BRAIN.read(part(i.b, k))),
    ),
    (
        "{ .reg .pred p, q; setp.neu.bf16x2 p|q, a, b; selp.u32 r, 1, 2, p; @q add.u32 r, r, 4; }",
        |i| flags(|k| BRAIN.read(part(i.a, k)) != BRAIN.read(part(i.b, k))),
    ),
    ("set.gt.bf16x2.bf16x2 r, a, b;", |i| {
        pair(|k| {
            let greater = BRAIN.read(part(i.a, k)) > BRAIN.read(part(i.b, k));
            if greater { 0x3f80 } else { 0 }
        })
    }),
    ("set.le.u32.bf16x2 r, a, b;", |i| {
        pair(|k| {
            let holds = BRAIN.read(part(i.a, k)) <= BRAIN.read(part(i.b, k));
            if holds { 0xffff } else { 0 }
        })
    }),
    (
        "{ st.global.u32 [to], a; atom.global.add.noftz.bf16x2 r, [to], b; }",
        |i| Word(i.a),
    ),
    (
        "{ st.global.u32 [to], a; red.global.add.noftz.bf16x2 [to], b; ld.global.u32 r, [to]; }",
        sums,
    ),
    (
        "{ st.shared.u32 [cell], a; atom.shared.add.noftz.bf16x2 r, [cell], b; ld.shared.u32 r, [cell]; }",
        sums,
    ),
    (
        "{ .reg .b16 s, t; mov.b32 {s, t}, b; st.shared.u32 [cell], a; atom.shared.add.noftz.bf16 s, [cell], t; ld.shared.u32 r, [cell]; }",
        |i| Word(BRAIN.sum(part(i.a, 0), part(i.b, 16)) | i.a & 0xffff_0000),
    ),
];
