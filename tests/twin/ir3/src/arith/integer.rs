//! Integers and bits. Results are of the size of the sources: 32 bits, or 16.
//!
//! Source: Mesa src/freedreno/isa/ir3-cat2.xml and ir3-cat3.xml (documentation of clz, mgen, getbit, the shifts of
//! category 3, dp2acc and dp4acc); src/compiler/nir/nir_opcodes.py (`imadsh_mix16`, `imul24`, `umul_low`,
//! `imad24_ir3`), which ir3_compiler_nir.c maps to one instruction each.

use crate::op::Op;

/// A number with the sign of its size.
pub fn widen(value: u32, full: bool) -> i32 {
    if full {
        value as i32
    } else {
        value as u16 as i16 as i32
    }
}

/// A result in its size.
fn cut(value: u32, full: bool) -> u32 {
    if full { value } else { value & 0xffff }
}

/// Bits of a size.
fn width(full: bool) -> u32 {
    if full { 32 } else { 16 }
}

/// The bits of an amount that shifts look at.
fn amount(value: u32, full: bool) -> u32 {
    value & (width(full) - 1)
}

/// The lower 24 bits with their sign.
fn signed24(value: u32) -> i32 {
    (value << 8) as i32 >> 8
}

/// Operations on two integers; the last argument says whether they have 32 bits.
pub fn two(op: Op) -> Option<fn(u32, u32, bool) -> u32> {
    Some(match op {
        Op::AddU | Op::AddS => |a, b, full| cut(a.wrapping_add(b), full),
        Op::SubU | Op::SubS => |a, b, full| cut(a.wrapping_sub(b), full),
        Op::MinU => |a, b, _| a.min(b),
        Op::MaxU => |a, b, _| a.max(b),
        Op::MinS => |a, b, full| {
            if widen(a, full) < widen(b, full) {
                a
            } else {
                b
            }
        },
        Op::MaxS => |a, b, full| {
            if widen(a, full) > widen(b, full) {
                a
            } else {
                b
            }
        },
        Op::AndB => |a, b, _| a & b,
        Op::OrB => |a, b, _| a | b,
        Op::XorB => |a, b, _| a ^ b,
        Op::MulU24 => |a, b, full| cut((a & 0xff_ffff).wrapping_mul(b & 0xff_ffff), full),
        Op::MulS24 => |a, b, full| {
            let (a, b) = match full {
                true => (signed24(a), signed24(b)),
                false => (widen(a, false), widen(b, false)),
            };
            cut(a.wrapping_mul(b) as u32, full)
        },
        Op::MullU => |a, b, full| cut((a & 0xffff).wrapping_mul(b & 0xffff), full),
        Op::ShlB => |a, b, full| cut(a << amount(b, full), full),
        Op::ShrB => |a, b, full| a >> amount(b, full),
        Op::AshrB => |a, b, full| cut((widen(a, full) >> amount(b, full)) as u32, full),
        Op::MgenB => |a, b, full| cut(((1u32 << amount(a, full)) - 1) << amount(b, full), full),
        Op::GetbitB => |a, b, full| a >> amount(b, full) & 1,
        _ => return None,
    })
}

/// Operations on one.
pub fn one(op: Op) -> Option<fn(u32, bool) -> u32> {
    Some(match op {
        Op::AbsnegS => |a, _| a,
        Op::NotB => |a, full| cut(!a, full),
        Op::BfrevB => |a, full| a.reverse_bits() >> (32 - width(full)),
        Op::CbitsB => |a, _| a.count_ones(),
        Op::ClzB => |a, full| match a {
            0 => cut(u32::MAX, full),
            a => a.leading_zeros() - (32 - width(full)),
        },
        Op::ClzS => |a, full| {
            let number = widen(a, full);
            let differs = number ^ (number >> 31);
            match differs {
                0 => cut(u32::MAX, full),
                bits => bits.leading_zeros() - (32 - width(full)),
            }
        },
        _ => return None,
    })
}

/// An operation on three integers; the last argument says whether they have 32 bits.
type Three = fn(u32, u32, u32, bool) -> u32;

/// Operations on three.
pub fn three(op: Op) -> Option<Three> {
    Some(match op {
        Op::MadU16 | Op::MadS16 => |a, b, c, full| cut(a.wrapping_mul(b).wrapping_add(c), full),
        // The lower half of the first, the upper of the second: ir3_compiler_nir.c, imadsh_mix16 for shared registers, and
        // nir_opt_algebraic.py, which drops it where these are zero.
        Op::MadshM16 => |a, b, c, _| ((a & 0xffff).wrapping_mul(b >> 16) << 16).wrapping_add(c),
        Op::MadU24 => |a, b, c, _| (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c),
        Op::MadS24 => |a, b, c, _| (signed24(a).wrapping_mul(signed24(b)) as u32).wrapping_add(c),
        Op::SelB16 | Op::SelB32 => |a, b, c, _| if b != 0 { a } else { c },
        // Mesa ir3_compiler_nir.c, iadd3: what else it may do with signs is not documented.
        Op::SadS16 | Op::SadS32 => |a, b, c, full| cut(a.wrapping_add(b).wrapping_add(c), full),
        Op::Shrm => |a, b, c, full| b >> amount(a, full) & c,
        Op::Shlm => |a, b, c, full| cut(b << amount(a, full), full) & c,
        Op::Shrg => |a, b, c, full| b >> amount(a, full) | c,
        Op::Shlg => |a, b, c, full| cut(b << amount(a, full), full) | c,
        Op::Andg => |a, b, c, _| b & a | c,
        _ => return None,
    })
}

/// The sum of products of bytes: the first source signed if `mixed`, the second unsigned.
pub fn dot(a: u32, b: u32, c: u32, mixed: bool, high: bool, four: bool) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    let bytes = match (four, high) {
        (true, _) => 0..4,
        (false, false) => 0..2,
        (false, true) => 2..4,
    };
    let products = bytes.map(|n| {
        let first = if mixed {
            i32::from(a[n] as i8)
        } else {
            i32::from(a[n])
        };
        first * i32::from(b[n])
    });
    (products.sum::<i32>() as u32).wrapping_add(c)
}

/// A sum or difference with (sat), where that has a meaning: the nearest number of the type.
///
/// Source: Mesa src/freedreno/ir3/ir3_compiler_nir.c, `emit_alu`: nir_op_uadd_sat, nir_op_iadd_sat, nir_op_usub_sat and
/// nir_op_isub_sat are add.u, add.s, sub.u and sub.s with (sat).
pub fn saturated(op: Op, full: bool, a: u32, b: u32) -> Option<u32> {
    let unsigned = |v: u32| i64::from(cut(v, full));
    let signed = |v: u32| i64::from(widen(v, full));
    let bits = if full { 32 } else { 16 };
    let top = (1i64 << bits) - 1;
    let value = match op {
        Op::AddU => (unsigned(a) + unsigned(b)).min(top),
        Op::SubU => (unsigned(a) - unsigned(b)).max(0),
        Op::AddS => (signed(a) + signed(b)).clamp(-(top / 2) - 1, top / 2),
        Op::SubS => (signed(a) - signed(b)).clamp(-(top / 2) - 1, top / 2),
        _ => return None,
    };
    Some(cut(value as u32, full))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers at which something happens, and some without order.
    fn numbers() -> Vec<u32> {
        let mut all = vec![
            0, 1, 2, 31, 0x7fff, 0x8000, 0xffff, 0x1_0000, 0x80_0000, 0xff_ffff,
        ];
        all.extend([0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff]);
        let mut seed = 9u32;
        all.extend((0..40).map(|_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed
        }));
        all
    }

    fn each(op: Op, meaning: impl Fn(u32, u32) -> u32, half: impl Fn(u16, u16) -> u16) {
        let f = two(op).unwrap();
        for a in numbers() {
            for b in numbers() {
                assert_eq!(f(a, b, true), meaning(a, b), "{op:?} {a:x} {b:x}");
                let (a, b) = (a as u16, b as u16);
                assert_eq!(
                    f(a.into(), b.into(), false),
                    half(a, b).into(),
                    "{op:?} {a:x} {b:x}"
                );
            }
        }
    }

    #[test]
    fn sums_end_at_the_ends_of_their_types() {
        let all = |op, full| {
            [(1, 2), (0xffff, 1), (0x7fff, 1), (3, 5)].map(|(a, b)| saturated(op, full, a, b))
        };
        assert_eq!(all(Op::AddU, false), [3, 0xffff, 0x8000, 8].map(Some));
        assert_eq!(all(Op::AddS, false), [3, 0, 0x7fff, 8].map(Some));
        assert_eq!(all(Op::SubU, true), [0, 0xfffe, 0x7ffe, 0].map(Some));
        assert_eq!(all(Op::SubS, false)[3], Some(0xfffe));
        assert_eq!(saturated(Op::AddU, true, u32::MAX, 2), Some(u32::MAX));
        assert_eq!(saturated(Op::SubS, true, 1 << 31, 1), Some(1 << 31));
        assert_eq!(saturated(Op::AndB, true, 1, 1), None);
    }

    #[test]
    fn two_sources() {
        each(Op::AddU, u32::wrapping_add, u16::wrapping_add);
        each(Op::SubS, u32::wrapping_sub, u16::wrapping_sub);
        each(Op::MinU, u32::min, u16::min);
        each(Op::MaxU, u32::max, u16::max);
        each(
            Op::MinS,
            |a, b| (a as i32).min(b as i32) as u32,
            |a, b| (a as i16).min(b as i16) as u16,
        );
        each(
            Op::MaxS,
            |a, b| (a as i32).max(b as i32) as u32,
            |a, b| (a as i16).max(b as i16) as u16,
        );
        each(
            Op::ShlB,
            |a, b| a.wrapping_shl(b),
            |a, b| a.wrapping_shl(b.into()),
        );
        each(
            Op::ShrB,
            |a, b| a.wrapping_shr(b),
            |a, b| a.wrapping_shr(b.into()),
        );
        each(
            Op::AshrB,
            |a, b| (a as i32).wrapping_shr(b) as u32,
            |a, b| (a as i16).wrapping_shr(b.into()) as u16,
        );
        each(
            Op::GetbitB,
            |a, b| a >> (b & 31) & 1,
            |a, b| a >> (b & 15) & 1,
        );
        each(
            Op::MgenB,
            |a, b| ((1u32 << (a & 31)) - 1) << (b & 31),
            |a, b| (((1u32 << (a & 15)) - 1) << (b & 15)) as u16,
        );
        each(
            Op::MulU24,
            |a, b| (u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) as u32,
            u16::wrapping_mul,
        );
        let extend = |v: u32| i64::from((v << 8) as i32) >> 8;
        each(
            Op::MulS24,
            |a, b| (extend(a) * extend(b)) as u32,
            u16::wrapping_mul,
        );
        each(
            Op::MullU,
            |a, b| (a & 0xffff) * (b & 0xffff),
            u16::wrapping_mul,
        );
    }

    #[test]
    fn one_source() {
        let f = |op, a| one(op).unwrap()(a, true);
        let h = |op, a| one(op).unwrap()(a, false);
        assert_eq!(
            (f(Op::ClzB, 0), f(Op::ClzB, 1), f(Op::ClzB, u32::MAX)),
            (u32::MAX, 31, 0)
        );
        assert_eq!((h(Op::ClzB, 0), h(Op::ClzB, 1)), (0xffff, 15));
        assert_eq!(
            (f(Op::ClzS, 0), f(Op::ClzS, u32::MAX)),
            (u32::MAX, u32::MAX)
        );
        assert_eq!((f(Op::ClzS, 1), f(Op::ClzS, 0xffff_0000)), (31, 16));
        assert_eq!((f(Op::BfrevB, 1), h(Op::BfrevB, 1)), (1 << 31, 1 << 15));
        assert_eq!((f(Op::CbitsB, 0xff), h(Op::NotB, 1)), (8, 0xfffe));
    }

    #[test]
    fn a_product_is_made_of_three() {
        let (low, mix) = (two(Op::MullU).unwrap(), three(Op::MadshM16).unwrap());
        for a in numbers() {
            for b in numbers() {
                let t = low(a, b, true);
                let t = mix(a, b, t, true);
                assert_eq!(mix(b, a, t, true), a.wrapping_mul(b));
            }
        }
        assert_eq!(mix(5, 0x3_0000, 7, true), 0xf_0007);
        assert_eq!(mix(0x3_0000, 5, 7, true), 7);
    }

    #[test]
    fn three_sources() {
        let f = |op, a, b, c| three(op).unwrap()(a, b, c, true);
        assert_eq!(f(Op::Shrm, 4, 0xabcd, 0xff), 0xbc);
        assert_eq!(f(Op::Shlm, 4, 0xabcd, 0xff0), 0xcd0);
        assert_eq!(f(Op::Shrg, 30, u32::MAX, 0x10), 0x13);
        assert_eq!(f(Op::Shlg, 8, 0xab, 1), 0xab01);
        assert_eq!(f(Op::Andg, 0xf0, 0xff, 1), 0xf1);
        assert_eq!((f(Op::SelB32, 1, 5, 2), f(Op::SelB32, 1, 0, 2)), (1, 2));
        assert_eq!(f(Op::MadS24, 0xff_ffff, 3, 10), 7);
        assert_eq!(f(Op::SadS32, u32::MAX, 3, 10), 12);
        assert_eq!(three(Op::SadS16).unwrap()(0xffff, 0xfffe, 1, false), 0xfffe);
        assert_eq!(f(Op::MadU24, 0xff_ffff, 3, 10), 3 * 0xff_ffff + 10);
        assert_eq!(
            three(Op::MadU16).unwrap()(300, 300, 1, false),
            90_001 & 0xffff
        );
    }

    #[test]
    fn dot_products() {
        assert_eq!(
            dot(0x0403_02ff, 0x0101_0101, 10, false, false, true),
            255 + 2 + 3 + 4 + 10
        );
        assert_eq!(dot(0x0403_02ff, 0x0101_0101, 10, true, false, false), 11);
        assert_eq!(dot(0x0403_02ff, 0x0201_0101, 0, true, true, false), 3 + 8);
    }
}
