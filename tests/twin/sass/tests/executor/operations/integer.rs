//! Integers.

use super::Out::{Any, Wide, Word};
use super::{In, Out, Row};

fn s(x: u32) -> i32 {
    x.cast_signed()
}

fn word(x: i32) -> Out {
    Word(x.cast_unsigned())
}

fn flag(x: bool) -> Out {
    Word(u32::from(x))
}

fn high_signed(a: u32, b: u32) -> u32 {
    ((i64::from(s(a)) * i64::from(s(b))) >> 32) as u32
}

fn high(a: u32, b: u32) -> u32 {
    ((u64::from(a) * u64::from(b)) >> 32) as u32
}

fn sign24(x: u32) -> i64 {
    i64::from(s(x << 8) >> 8)
}

/// A field of bits, with its sign or without one.
fn field(a: u32, at: u32, len: u32, signed: bool) -> u32 {
    let bit = |i: u32| i < 32 && a >> i & 1 != 0;
    if len == 0 {
        return 0;
    }
    let sign = signed && bit((at + len - 1).min(31));
    (0..32).fold(0, |r, i| {
        let set = if i < len && at + i < 32 {
            bit(at + i)
        } else {
            sign
        };
        r | u32::from(set) << i
    })
}

fn funnel(a: u32, b: u32) -> u64 {
    u64::from(b) << 32 | u64::from(a)
}

fn top(x: u32) -> u32 {
    x.checked_ilog2().unwrap_or(u32::MAX)
}

fn magnitude(x: u32) -> u32 {
    if s(x) < 0 { !x } else { x }
}

fn shift_amount(x: u32) -> u32 {
    x.checked_ilog2().map_or(u32::MAX, |top| 31 - top)
}

/// Bytes of two words by four selectors.
fn permuted(i: &In, select: impl Fn(u32) -> u32) -> Out {
    let bytes = funnel(i.a, i.b);
    Word((0..4).fold(0, |r, k| {
        r | ((bytes >> (8 * select(k))) as u32 & 0xff) << (8 * k)
    }))
}

fn dot(i: &In, bytes: [fn(u8) -> i64; 2]) -> Out {
    let (a, b) = (i.a.to_le_bytes(), i.b.to_le_bytes());
    let sum: i64 = (0..4).map(|k| bytes[0](a[k]) * bytes[1](b[k])).sum();
    Word((sum + i64::from(i.c)) as u32)
}

fn unsigned(x: u8) -> i64 {
    i64::from(x)
}

fn signed(x: u8) -> i64 {
    i64::from(x.cast_signed())
}

pub const WORDS: &[Row] = &[
    ("add.u32 r, a, b;", |i| Word(i.a.wrapping_add(i.b))),
    ("sub.u32 r, a, b;", |i| Word(i.a.wrapping_sub(i.b))),
    ("add.sat.s32 r, a, b;", |i| {
        word(s(i.a).saturating_add(s(i.b)))
    }),
    ("sub.sat.s32 r, a, b;", |i| {
        word(s(i.a).saturating_sub(s(i.b)))
    }),
    ("mul.lo.u32 r, a, b;", |i| Word(i.a.wrapping_mul(i.b))),
    ("mul.hi.u32 r, a, b;", |i| Word(high(i.a, i.b))),
    ("mul.hi.s32 r, a, b;", |i| Word(high_signed(i.a, i.b))),
    ("mad.lo.u32 r, a, b, c;", |i| {
        Word(i.a.wrapping_mul(i.b).wrapping_add(i.c))
    }),
    ("mad.hi.s32 r, a, b, c;", |i| {
        Word(high_signed(i.a, i.b).wrapping_add(i.c))
    }),
    ("mul.wide.u32 w, a, b;", |i| {
        Wide(u64::from(i.a) * u64::from(i.b))
    }),
    ("mul.wide.s32 w, a, b;", |i| {
        Wide((i64::from(s(i.a)) * i64::from(s(i.b))).cast_unsigned())
    }),
    ("mad.wide.u32 w, a, b, x;", |i| {
        Wide((u64::from(i.a) * u64::from(i.b)).wrapping_add(i.x))
    }),
    ("mad.wide.s32 w, a, b, x;", |i| {
        Wide(
            (i64::from(s(i.a)) * i64::from(s(i.b)))
                .cast_unsigned()
                .wrapping_add(i.x),
        )
    }),
    ("mul24.lo.s32 r, a, b;", |i| {
        Word((sign24(i.a) * sign24(i.b)) as u32)
    }),
    ("div.u32 r, a, b;", |i| {
        i.a.checked_div(i.b).map_or(Any, Word)
    }),
    ("div.s32 r, a, b;", |i| {
        s(i.a).checked_div(s(i.b)).map_or(Any, word)
    }),
    ("rem.u32 r, a, b;", |i| {
        i.a.checked_rem(i.b).map_or(Any, Word)
    }),
    ("rem.s32 r, a, b;", |i| {
        s(i.a).checked_rem(s(i.b)).map_or(Any, word)
    }),
    ("abs.s32 r, a;", |i| word(s(i.a).wrapping_abs())),
    ("neg.s32 r, a;", |i| word(s(i.a).wrapping_neg())),
    ("sad.u32 r, a, b, c;", |i| {
        Word(i.a.abs_diff(i.b).wrapping_add(i.c))
    }),
    ("sad.s32 r, a, b, c;", |i| {
        Word(s(i.a).abs_diff(s(i.b)).wrapping_add(i.c))
    }),
    ("min.u32 r, a, b;", |i| Word(i.a.min(i.b))),
    ("min.s32 r, a, b;", |i| word(s(i.a).min(s(i.b)))),
    ("max.u32 r, a, b;", |i| Word(i.a.max(i.b))),
    ("max.s32 r, a, b;", |i| word(s(i.a).max(s(i.b)))),
    ("and.b32 r, a, b;", |i| Word(i.a & i.b)),
    ("or.b32 r, a, b;", |i| Word(i.a | i.b)),
    ("xor.b32 r, a, b;", |i| Word(i.a ^ i.b)),
    ("not.b32 r, a;", |i| Word(!i.a)),
    ("cnot.b32 r, a;", |i| flag(i.a == 0)),
    ("lop3.b32 r, a, b, c, 0x96;", |i| Word(i.a ^ i.b ^ i.c)),
    ("lop3.b32 r, a, b, c, 0xe8;", |i| {
        Word(i.a & i.b | i.a & i.c | i.b & i.c)
    }),
    ("lop3.b32 r, a, b, c, 0x1b;", |i| {
        // Bit k of the table is for a the 4, b the 2, c the 1.
        Word((0..32).fold(0, |r, k| {
            let at = (i.a >> k & 1) << 2 | (i.b >> k & 1) << 1 | (i.c >> k & 1);
            r | (0x1b >> at & 1) << k
        }))
    }),
    ("shl.b32 r, a, b;", |i| {
        Word(i.a.checked_shl(i.b).unwrap_or(0))
    }),
    ("shr.u32 r, a, b;", |i| {
        Word(i.a.checked_shr(i.b).unwrap_or(0))
    }),
    ("shr.s32 r, a, b;", |i| word(s(i.a) >> i.b.min(31))),
    ("shl.b32 r, a, c;", |i| {
        Word(i.a.checked_shl(i.c).unwrap_or(0))
    }),
    ("shr.s32 r, a, c;", |i| word(s(i.a) >> i.c.min(31))),
    ("shf.l.wrap.b32 r, a, b, c;", |i| {
        Word(((funnel(i.a, i.b) << (i.c & 31)) >> 32) as u32)
    }),
    ("shf.r.wrap.b32 r, a, b, c;", |i| {
        Word((funnel(i.a, i.b) >> (i.c & 31)) as u32)
    }),
    ("shf.l.clamp.b32 r, a, b, c;", |i| {
        Word(((u128::from(funnel(i.a, i.b)) << i.c.min(32)) >> 32) as u32)
    }),
    ("shf.r.clamp.b32 r, a, b, c;", |i| {
        Word((funnel(i.a, i.b) >> i.c.min(32)) as u32)
    }),
    ("popc.b32 r, a;", |i| {
        Word((0..32).map(|k| i.a >> k & 1).sum())
    }),
    ("clz.b32 r, a;", |i| Word(31_u32.wrapping_sub(top(i.a)))),
    ("bfind.u32 r, a;", |i| Word(top(i.a))),
    ("bfind.s32 r, a;", |i| Word(top(magnitude(i.a)))),
    ("bfind.shiftamt.u32 r, a;", |i| Word(shift_amount(i.a))),
    ("bfind.shiftamt.s32 r, a;", |i| {
        Word(shift_amount(magnitude(i.a)))
    }),
    ("brev.b32 r, a;", |i| {
        Word((0..32).fold(0, |r, k| r | (i.a >> k & 1) << (31 - k)))
    }),
    ("bfe.u32 r, a, 5, 11;", |i| Word(field(i.a, 5, 11, false))),
    ("bfe.s32 r, a, 5, 11;", |i| Word(field(i.a, 5, 11, true))),
    ("bfe.u32 r, a, c, 7;", |i| {
        Word(field(i.a, i.c & 255, 7, false))
    }),
    ("bfe.s32 r, a, c, 9;", |i| {
        Word(field(i.a, i.c & 255, 9, true))
    }),
    ("bfi.b32 r, a, b, 7, 13;", |i| {
        Word(i.b & !(0x1fff << 7) | (i.a & 0x1fff) << 7)
    }),
    ("bmsk.clamp.b32 r, a, c;", |i| {
        Word(((((1_u128 << i.c.min(32)) - 1) << i.a.min(32)) & 0xffff_ffff) as u32)
    }),
    ("bmsk.wrap.b32 r, a, c;", |i| {
        Word(((1_u32 << (i.c & 31)) - 1) << (i.a & 31))
    }),
    ("szext.clamp.s32 r, a, c;", |i| {
        Word(field(i.a, 0, i.c.min(32), true))
    }),
    ("szext.wrap.u32 r, a, c;", |i| {
        Word(field(i.a, 0, i.c & 31, false))
    }),
    ("prmt.b32 r, a, b, c;", |i| {
        let bytes = funnel(i.a, i.b);
        Word((0..4).fold(0, |r, k| {
            let select = i.c >> (4 * k);
            let byte = (bytes >> (8 * (select & 7))) as u8;
            let byte = match select & 8 {
                0 => byte,
                _ if byte >= 0x80 => 0xff,
                _ => 0,
            };
            r | u32::from(byte) << (8 * k)
        }))
    }),
    ("prmt.b32.f4e r, a, b, c;", |i| {
        permuted(i, |k| (i.c & 3) + k)
    }),
    ("prmt.b32.b4e r, a, b, c;", |i| {
        permuted(i, |k| ((i.c & 3) + 8 - k) % 8)
    }),
    ("prmt.b32.rc8 r, a, b, c;", |i| permuted(i, |_| i.c & 3)),
    ("prmt.b32.ecl r, a, b, c;", |i| {
        permuted(i, |k| k.max(i.c & 3))
    }),
    ("prmt.b32.ecr r, a, b, c;", |i| {
        permuted(i, |k| k.min(i.c & 3))
    }),
    ("prmt.b32.rc16 r, a, b, c;", |i| {
        permuted(i, |k| (i.c & 1) * 2 + k % 2)
    }),
    ("dp4a.u32.u32 r, a, b, c;", |i| dot(i, [unsigned, unsigned])),
    ("dp4a.s32.s32 r, a, b, c;", |i| dot(i, [signed, signed])),
    ("dp4a.u32.s32 r, a, b, c;", |i| dot(i, [unsigned, signed])),
    ("dp2a.lo.s32.s32 r, a, b, c;", |i| {
        let half = |k: u32| i64::from((i.a >> (16 * k)) as u16 as i16);
        let sum: i64 = (0..2)
            .map(|k| half(k) * signed((i.b >> (8 * k)) as u8))
            .sum();
        Word((sum + i64::from(i.c)) as u32)
    }),
    ("dp2a.hi.u32.u32 r, a, b, c;", |i| {
        let half = |k: u32| i64::from((i.a >> (16 * k)) as u16);
        let sum: i64 = (0..2)
            .map(|k| half(k) * unsigned((i.b >> (16 + 8 * k)) as u8))
            .sum();
        Word((sum + i64::from(i.c)) as u32)
    }),
];

fn l(x: u64) -> i64 {
    x.cast_signed()
}

fn wide(x: i64) -> Out {
    Wide(x.cast_unsigned())
}

pub const WIDE: &[Row] = &[
    ("add.u64 w, x, y;", |i| Wide(i.x.wrapping_add(i.y))),
    ("sub.u64 w, x, y;", |i| Wide(i.x.wrapping_sub(i.y))),
    ("mul.lo.u64 w, x, y;", |i| Wide(i.x.wrapping_mul(i.y))),
    ("mul.hi.u64 w, x, y;", |i| {
        Wide(((u128::from(i.x) * u128::from(i.y)) >> 64) as u64)
    }),
    ("mul.hi.s64 w, x, y;", |i| {
        Wide(((i128::from(l(i.x)) * i128::from(l(i.y))) >> 64) as u64)
    }),
    ("mad.lo.u64 w, x, y, z;", |i| {
        Wide(i.x.wrapping_mul(i.y).wrapping_add(i.z))
    }),
    ("div.u64 w, x, y;", |i| {
        i.x.checked_div(i.y).map_or(Any, Wide)
    }),
    ("div.s64 w, x, y;", |i| {
        l(i.x).checked_div(l(i.y)).map_or(Any, wide)
    }),
    ("rem.u64 w, x, y;", |i| {
        i.x.checked_rem(i.y).map_or(Any, Wide)
    }),
    ("rem.s64 w, x, y;", |i| {
        l(i.x).checked_rem(l(i.y)).map_or(Any, wide)
    }),
    ("abs.s64 w, x;", |i| wide(l(i.x).wrapping_abs())),
    ("neg.s64 w, x;", |i| wide(l(i.x).wrapping_neg())),
    ("min.u64 w, x, y;", |i| Wide(i.x.min(i.y))),
    ("max.s64 w, x, y;", |i| wide(l(i.x).max(l(i.y)))),
    ("and.b64 w, x, y;", |i| Wide(i.x & i.y)),
    ("shl.b64 w, x, c;", |i| {
        Wide(i.x.checked_shl(i.c).unwrap_or(0))
    }),
    ("shr.u64 w, x, c;", |i| {
        Wide(i.x.checked_shr(i.c).unwrap_or(0))
    }),
    ("shr.s64 w, x, c;", |i| wide(l(i.x) >> i.c.min(63))),
    ("popc.b64 r, x;", |i| {
        Word((0..64).map(|k| (i.x >> k) as u32 & 1).sum())
    }),
    ("clz.b64 r, x;", |i| {
        Word(i.x.checked_ilog2().map_or(64, |top| 63 - top))
    }),
    ("bfind.u64 r, x;", |i| {
        Word(i.x.checked_ilog2().unwrap_or(u32::MAX))
    }),
    ("brev.b64 w, x;", |i| {
        Wide((0..64).fold(0, |r, k| r | (i.x >> k & 1) << (63 - k)))
    }),
    ("bfe.u64 w, x, 9, 40;", |i| Wide(i.x >> 9 & ((1 << 40) - 1))),
    (
        "{ .reg .pred p; setp.lt.u64 p, x, y; selp.u32 r, 1, 0, p; }",
        |i| flag(i.x < i.y),
    ),
    (
        "{ .reg .pred p; setp.lt.s64 p, x, y; selp.u32 r, 1, 0, p; }",
        |i| flag(l(i.x) < l(i.y)),
    ),
    (
        "{ .reg .pred p; setp.ge.s64 p, x, y; selp.u32 r, 1, 0, p; }",
        |i| flag(l(i.x) >= l(i.y)),
    ),
    (
        "{ .reg .pred p; setp.ne.u64 p, x, y; selp.u32 r, 1, 0, p; }",
        |i| flag(i.x != i.y),
    ),
    (
        "{ .reg .pred p; setp.gt.u32 p, a, b; selp.b32 r, a, c, p; }",
        |i| Word(if i.a > i.b { i.a } else { i.c }),
    ),
    (
        "{ .reg .pred p, q; setp.lt.s32 p, a, b; setp.le.xor.s32 q, b, c, p; selp.u32 r, 1, 0, q; }",
        |i| flag((s(i.a) < s(i.b)) ^ (s(i.b) <= s(i.c))),
    ),
    ("{ add.cc.u32 r, a, b; addc.u32 r, c, 0; }", |i| {
        Word(i.c.wrapping_add(u32::from(i.a.checked_add(i.b).is_none())))
    }),
    ("{ sub.cc.u32 r, a, b; subc.u32 r, c, a; }", |i| {
        Word(i.c.wrapping_sub(i.a).wrapping_sub(u32::from(i.a < i.b)))
    }),
    (
        "{ mad.lo.cc.u32 r, a, b, c; madc.hi.u32 r, a, b, c; }",
        |i| {
            let carry = i.a.wrapping_mul(i.b).checked_add(i.c).is_none();
            Word(
                high(i.a, i.b)
                    .wrapping_add(i.c)
                    .wrapping_add(u32::from(carry)),
            )
        },
    ),
];
