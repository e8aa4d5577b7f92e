//! Atomic operations on memory that is a thread's own: what they return, and what is there then.

use super::Out::{Double, Single, Wide, Word};
use super::float::{f, z, zf};
use super::short::{HALF, pair, part};
use super::{In, Out, Row};

fn sums(i: &In) -> Out {
    pair(|k| HALF.sum(part(i.a, k), part(i.b, k)))
}

/// Numbers of two bits are often equal: the third then takes the place of the first.
fn swapped(i: &In) -> Out {
    Word(if i.a & 3 == i.b & 3 { i.c } else { i.a & 3 })
}

fn swapped_wide(i: &In) -> Out {
    Wide(if i.x & 3 == i.y & 3 { i.z } else { i.x & 3 })
}

fn sum(i: &In) -> Out {
    Double(f64::from_bits(i.x) + f64::from_bits(i.y))
}

fn one_more(i: &In) -> Out {
    Word(if i.a >= i.b { 0 } else { i.a + 1 })
}

fn one_less(i: &In) -> Out {
    Word(if i.a == 0 || i.a > i.b { i.b } else { i.a - 1 })
}

fn least(i: &In) -> Out {
    Word(i.a.cast_signed().min(i.b.cast_signed()).cast_unsigned())
}

fn least_wide(i: &In) -> Out {
    Wide(i.x.cast_signed().min(i.y.cast_signed()).cast_unsigned())
}

fn found(i: &In) -> Out {
    Word(i.a)
}

fn found_wide(i: &In) -> Out {
    Wide(i.x)
}

pub const ATOMIC: &[Row] = &[
    (
        "{ .reg .b32 s, t; and.b32 s, a, 3; and.b32 t, b, 3; st.global.u32 [to], s; atom.global.cas.b32 r, [to], t, c; }",
        |i| Word(i.a & 3),
    ),
    (
        "{ .reg .b32 s, t; and.b32 s, a, 3; and.b32 t, b, 3; st.global.u32 [to], s; atom.global.cas.b32 r, [to], t, c; ld.global.u32 r, [to]; }",
        swapped,
    ),
    (
        "{ .reg .b64 s, t; and.b64 s, x, 3; and.b64 t, y, 3; st.global.u64 [to], s; atom.global.cas.b64 w, [to], t, z; ld.global.u64 w, [to]; }",
        swapped_wide,
    ),
    (
        "{ .reg .b64 g; cvta.global.u64 g, to; st.u32 [g], a; atom.cas.b32 r, [g], b, c; }",
        found,
    ),
    (
        "{ st.shared.u32 [cell], a; atom.shared.cas.b32 r, [cell], b, c; }",
        found,
    ),
    (
        "{ .reg .b32 s, t; and.b32 s, a, 3; and.b32 t, b, 3; st.shared.u32 [cell], s; atom.shared.cas.b32 r, [cell], t, c; ld.shared.u32 r, [cell]; }",
        swapped,
    ),
    (
        "{ .reg .b64 s, t; and.b64 s, x, 3; and.b64 t, y, 3; st.shared.u64 [cell], s; atom.shared.cas.b64 w, [cell], t, z; ld.shared.u64 w, [cell]; }",
        swapped_wide,
    ),
    (
        "{ .reg .b16 s, t, u, v; mov.b32 {s, u}, a; mov.b32 {t, v}, b; st.shared.u32 [cell], a; atom.shared.cas.b16 s, [cell], s, t; ld.shared.u32 r, [cell]; }",
        |i| Word(i.a & 0xffff_0000 | i.b & 0xffff),
    ),
    (
        "{ st.shared.u32 [cell], a; atom.shared.exch.b32 r, [cell], b; }",
        found,
    ),
    (
        "{ st.shared.u64 [cell], x; atom.shared.exch.b64 w, [cell], y; }",
        found_wide,
    ),
    (
        "{ st.global.u64 [to], x; atom.global.exch.b64 w, [to], y; }",
        found_wide,
    ),
    (
        "{ st.shared.f32 [cell], a; atom.shared.add.f32 r, [cell], b; }",
        found,
    ),
    (
        "{ st.shared.f32 [cell], a; atom.shared.add.f32 r, [cell], b; ld.shared.u32 r, [cell]; }",
        |i| Single(f(i.a) + f(i.b)),
    ),
    (
        "{ st.global.f32 [to], a; atom.global.add.f32 r, [to], b; }",
        found,
    ),
    (
        "{ st.global.f32 [to], a; red.global.add.f32 [to], b; ld.global.u32 r, [to]; }",
        |i| Single(z(zf(i.a) + zf(i.b))),
    ),
    (
        "{ st.shared.f64 [cell], x; atom.shared.add.f64 w, [cell], y; ld.shared.u64 w, [cell]; }",
        sum,
    ),
    (
        "{ st.global.f64 [to], x; red.global.add.f64 [to], y; ld.global.u64 w, [to]; }",
        sum,
    ),
    (
        "{ st.global.u32 [to], a; atom.global.add.noftz.f16x2 r, [to], b; }",
        found,
    ),
    (
        "{ st.global.u32 [to], a; red.global.add.noftz.f16x2 [to], b; ld.global.u32 r, [to]; }",
        sums,
    ),
    (
        "{ st.shared.u32 [cell], a; atom.shared.add.noftz.f16x2 r, [cell], b; ld.shared.u32 r, [cell]; }",
        sums,
    ),
    (
        "{ .reg .b16 s, t; mov.b32 {s, t}, b; st.shared.u32 [cell], a; atom.shared.add.noftz.f16 s, [cell], t; ld.shared.u32 r, [cell]; }",
        |i| Word(HALF.sum(part(i.a, 0), part(i.b, 16)) | i.a & 0xffff_0000),
    ),
    (
        "{ .reg .b16 s, t; mov.b32 {s, t}, b; st.global.u32 [to], a; atom.global.add.noftz.f16 s, [to+2], t; ld.global.u32 r, [to]; }",
        |i| Word(HALF.sum(part(i.a, 16), part(i.b, 16)) << 16 | i.a & 0xffff),
    ),
    (
        "{ st.shared.u32 [cell], a; atom.shared.min.s32 r, [cell], b; ld.shared.u32 r, [cell]; }",
        least,
    ),
    (
        "{ st.shared.u32 [cell], a; atom.shared.max.u32 r, [cell], b; }",
        found,
    ),
    (
        "{ st.shared.u64 [cell], x; atom.shared.min.s64 w, [cell], y; ld.shared.u64 w, [cell]; }",
        least_wide,
    ),
    (
        "{ st.shared.u64 [cell], x; atom.shared.max.u64 w, [cell], y; ld.shared.u64 w, [cell]; }",
        |i| Wide(i.x.max(i.y)),
    ),
    (
        "{ st.shared.u64 [cell], x; atom.shared.add.u64 w, [cell], y; ld.shared.u64 w, [cell]; }",
        |i| Wide(i.x.wrapping_add(i.y)),
    ),
    (
        "{ st.shared.u64 [cell], x; atom.shared.and.b64 w, [cell], y; ld.shared.u64 w, [cell]; }",
        |i| Wide(i.x & i.y),
    ),
    (
        "{ st.global.u64 [to], x; red.global.min.s64 [to], y; ld.global.u64 w, [to]; }",
        least_wide,
    ),
    (
        "{ st.global.u64 [to], x; atom.global.max.u64 w, [to], y; }",
        found_wide,
    ),
    (
        "{ st.global.u64 [to], x; red.global.xor.b64 [to], y; ld.global.u64 w, [to]; }",
        |i| Wide(i.x ^ i.y),
    ),
    (
        "{ st.shared.u32 [cell], a; atom.shared.inc.u32 r, [cell], b; ld.shared.u32 r, [cell]; }",
        one_more,
    ),
    (
        "{ st.shared.u32 [cell], a; atom.shared.dec.u32 r, [cell], b; ld.shared.u32 r, [cell]; }",
        one_less,
    ),
    (
        "{ st.global.u32 [to], a; atom.global.inc.u32 r, [to], b; }",
        found,
    ),
    (
        "{ st.global.u32 [to], a; red.global.inc.u32 [to], b; ld.global.u32 r, [to]; }",
        one_more,
    ),
    (
        "{ st.global.u32 [to], a; red.global.dec.u32 [to], b; ld.global.u32 r, [to]; }",
        one_less,
    ),
    (
        "{ st.global.u32 [to], a; red.global.min.s32 [to], b; ld.global.u32 r, [to]; }",
        least,
    ),
    (
        "{ st.global.u32 [to], a; atom.global.max.u32 r, [to], b; }",
        found,
    ),
];
