//! Two numbers of 16 bits in a word, functions of them that are near, and what Hopper does with vectors.

use super::Out::{Any, Nearly, Wide, Word};
use super::float::{z, zf};
use super::short::{BRAIN, Format, HALF, part};
use super::{In, Out, Row};

/// Both halves of a result, of the halves of sources.
fn both(of: impl Fn(u32) -> u32) -> Out {
    Word((of(0) & 0xffff) | of(16) << 16)
}

fn unsigned(x: u32, k: u32) -> u32 {
    x >> k & 0xffff
}

fn signed(x: u32, k: u32) -> i32 {
    i32::from((x >> k) as u16 as i16)
}

/// The bits of a sum of 16 bits with its sign.
fn wrapped(x: i32) -> i32 {
    i32::from(x as i16)
}

/// A function of both, so near; arguments without a leading one are zero if `flushes`.
fn near(i: &In, of: Format, f: fn(f64) -> f64, near: [f64; 2], flushes: f64) -> Out {
    let value = |k| {
        let x = of.read(part(i.a, k));
        f(if x.abs() < flushes { 0.0 } else { x })
    };
    let values = [value(0), value(16)];
    // Beyond the greatest, the results are infinite or the greatest.
    let most = of.read(if of.read(0x7bff) > 1e9 {
        0x7f7f
    } else {
        0x7bff
    });
    if values
        .iter()
        .any(|x| x.is_finite() && x.abs() > most * 0.99)
    {
        return Any;
    }
    Nearly(values, of, near[0], near[1])
}

/// Sums of two halves each.
fn sums(i: &In) -> u64 {
    let word = |x: u32, y: u32| {
        HALF.sum(part(x, 0), part(y, 0)) | HALF.sum(part(x, 16), part(y, 16)) << 16
    };
    let low = word(i.x as u32, i.y as u32);
    let high = word((i.x >> 32) as u32, (i.y >> 32) as u32);
    u64::from(high) << 32 | u64::from(low)
}

/// Whether one of four halves is none: its bits may be any that are none.
fn none(x: u64) -> bool {
    (0..4).any(|k| HALF.is_none((x >> (16 * k)) as u32 & 0xffff))
}

pub const FUNCTIONS: &[Row] = &[
    ("ex2.approx.f16x2 r, a;", |i| {
        near(i, HALF, f64::exp2, [2_f64.powf(-9.9), 2_f64.powi(-24)], 0.0)
    }),
    ("tanh.approx.f16x2 r, a;", |i| {
        near(i, HALF, f64::tanh, [0.0, 2_f64.powf(-10.987)], 0.0)
    }),
    (
        "{ .reg .b16 s, t; mov.b32 {s, t}, a; ex2.approx.f16 s, t; mov.b32 r, {s, t}; }",
        |i| {
            let upper = part(i.a, 16);
            if HALF.is_none(upper) || HALF.read(upper).exp2() > 65_000.0 {
                return Any;
            }
            let expected = [HALF.read(upper).exp2(), HALF.read(upper)];
            Nearly(expected, HALF, 2_f64.powf(-9.9), 2_f64.powi(-24))
        },
    ),
    ("{ add.s32 r, a, b; max.s32 r, r, c; }", |i| {
        let sum = i.a.wrapping_add(i.b).cast_signed();
        Word(sum.max(i.c.cast_signed()).cast_unsigned())
    }),
];

pub const PAIRS: &[Row] = &[
    ("min.u16x2 r, a, b;", |i| {
        both(|k| unsigned(i.a, k).min(unsigned(i.b, k)))
    }),
    ("max.u16x2 r, a, b;", |i| {
        both(|k| unsigned(i.a, k).max(unsigned(i.b, k)))
    }),
    ("min.s16x2 r, a, b;", |i| {
        both(|k| signed(i.a, k).min(signed(i.b, k)) as u32)
    }),
    ("max.s16x2 r, a, b;", |i| {
        both(|k| signed(i.a, k).max(signed(i.b, k)) as u32)
    }),
    ("min.relu.s16x2 r, a, b;", |i| {
        both(|k| signed(i.a, k).min(signed(i.b, k)).max(0) as u32)
    }),
    ("max.relu.s16x2 r, a, b;", |i| {
        both(|k| signed(i.a, k).max(signed(i.b, k)).max(0) as u32)
    }),
    ("min.relu.s32 r, a, b;", |i| {
        Word(
            i.a.cast_signed()
                .min(i.b.cast_signed())
                .max(0)
                .cast_unsigned(),
        )
    }),
    ("max.relu.s32 r, a, b;", |i| {
        Word(
            i.a.cast_signed()
                .max(i.b.cast_signed())
                .max(0)
                .cast_unsigned(),
        )
    }),
    ("{ add.s16x2 r, a, b; max.s16x2 r, r, c; }", |i| {
        both(|k| wrapped(signed(i.a, k) + signed(i.b, k)).max(signed(i.c, k)) as u32)
    }),
    ("{ add.u16x2 r, a, b; min.u16x2 r, r, c; }", |i| {
        both(|k| unsigned(unsigned(i.a, k) + unsigned(i.b, k), 0).min(unsigned(i.c, k)))
    }),
    ("{ add.s16x2 r, a, b; min.relu.s16x2 r, r, c; }", |i| {
        both(|k| {
            wrapped(signed(i.a, k) + signed(i.b, k))
                .min(signed(i.c, k))
                .max(0) as u32
        })
    }),
    ("ex2.approx.ftz.bf16x2 r, a;", |i| {
        near(
            i,
            BRAIN,
            f64::exp2,
            [2_f64.powi(-7), 2_f64.powi(-126)],
            2_f64.powi(-126),
        )
    }),
    ("tanh.approx.bf16x2 r, a;", |i| {
        near(i, BRAIN, f64::tanh, [2_f64.powi(-8), 0.0], 0.0)
    }),
    (
        "{ .reg .pred p; elect.sync _|p, 0xffffffff; vote.sync.ballot.b32 r, p, 0xffffffff; popc.b32 r, r; }",
        |_| Word(1),
    ),
    (
        "{ .reg .f32 f, g; st.global.u64 [to], x; mov.b64 {f, g}, y; red.global.v2.f32.add [to], {f, g}; ld.global.u64 w, [to]; }",
        |i| {
            let sum = |k: u32| z(zf((i.x >> k) as u32) + zf((i.y >> k) as u32));
            let (low, high) = (sum(0), sum(32));
            if low.is_nan() || high.is_nan() {
                return Any;
            }
            Wide(u64::from(high.to_bits()) << 32 | u64::from(low.to_bits()))
        },
    ),
    (
        "{ .reg .b32 f, g; st.global.u64 [to], x; mov.b64 {f, g}, y; atom.global.v2.f16x2.add.noftz {f, g}, [to], {f, g}; mov.b64 w, {f, g}; }",
        |i| Wide(i.x),
    ),
    (
        "{ .reg .b32 f, g; st.global.u64 [to], x; mov.b64 {f, g}, y; red.global.v2.f16x2.add.noftz [to], {f, g}; ld.global.u64 w, [to]; }",
        |i| {
            let sums = sums(i);
            if none(sums) { Any } else { Wide(sums) }
        },
    ),
];
