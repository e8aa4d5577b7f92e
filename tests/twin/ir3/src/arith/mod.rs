//! What arithmetic gives, fiber by fiber: values are in the low bits of a dword, 16 or 32.

pub mod convert;
pub mod float;
pub mod integer;
pub mod sfu;

use drivers_spec::qcom::chip::{Chip, Gen};

use crate::fault::{Result, broken};
use crate::inst::{Cond, Inst};
use crate::op::Op;
use crate::regs::Lanes;
use crate::rules;

/// How a result becomes one of the other size.
///
/// Source: Mesa src/freedreno/ir3/ir3.h, `ir3_output_conv_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A float.
    Float,
    /// Extended with zeros.
    Unsigned,
    /// Extended with the sign.
    Signed,
}

/// The signs that sources of an operation may have.
///
/// Source: Mesa src/freedreno/ir3/ir3.h, `ir3_cat2_absneg` and `ir3_cat3_absneg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signs {
    /// None.
    Plain,
    /// Of floats: (abs), then (neg).
    Float,
    /// (neg) alone, of floats.
    FloatNeg,
    /// Of integers, absneg.s.
    Integer,
    /// The bit of (neg) is a bitwise not.
    Not,
    /// (neg) alone, which turns the highest bit.
    Top,
}

/// What holds of an operation of categories 2 and 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How its result is converted.
    pub kind: Kind,
    /// Which signs its sources have.
    pub signs: Signs,
}

/// The facts of an operation; none if no source tells its effect.
pub fn facts(op: Op) -> Option<Facts> {
    use Op::*;
    let (kind, signs) = match op {
        AddF | MinF | MaxF | MulF | SignF | AbsnegF | FloorF | CeilF | RndneF | RndazF | TruncF => {
            (Kind::Float, Signs::Float)
        }
        CmpsF => (Kind::Unsigned, Signs::Float),
        AddU | SubU | MinU | MaxU | CmpsU | CmpsS | MulU24 | MullU => {
            (Kind::Unsigned, Signs::Plain)
        }
        AddS | SubS | MinS | MaxS | MulS24 => (Kind::Signed, Signs::Plain),
        // Counts are -1 where there is nothing to count.
        ClzS => (Kind::Signed, Signs::Plain),
        AbsnegS => (Kind::Signed, Signs::Integer),
        AndB | OrB | NotB | XorB | BfrevB | ShlB | ShrB | AshrB | MgenB | GetbitB | CbitsB => {
            (Kind::Unsigned, Signs::Not)
        }
        ClzB => (Kind::Signed, Signs::Not),
        MadF16 | MadF32 => (Kind::Float, Signs::FloatNeg),
        MadU16 | MadU24 | MadshM16 | SelB16 | SelB32 => (Kind::Unsigned, Signs::Plain),
        MadS16 | MadS24 | SadS16 | SadS32 => (Kind::Signed, Signs::Plain),
        Shrm | Shlm | Shrg | Shlg | Andg => (Kind::Unsigned, Signs::Plain),
        Dp2acc | Dp4acc => (Kind::Signed, Signs::Plain),
        _ => return None,
    };
    Some(Facts { kind, signs })
}

/// The signs that the n-th source of an operation of category 3 may have.
///
/// Source: Mesa src/freedreno/ir3/ir3.c, `ir3_cat3_absneg`; freedreno_devices.py, `has_sel_b_fneg`.
pub fn signs_of(op: Op, chip: &Chip, n: usize, facts: Facts) -> Signs {
    match op {
        Op::SelB16 | Op::SelB32 if chip.generation >= Gen::Gen4 => Signs::Top,
        Op::SadS16 | Op::SadS32 if n == 1 => Signs::Integer,
        _ => facts.signs,
    }
}

/// Applies the signs of a source.
pub fn signed(signs: Signs, full: bool, abs: bool, neg: bool, mut values: Lanes) -> Result<Lanes> {
    if !abs && !neg {
        return Ok(values);
    }
    let sign: u32 = if full { 1 << 31 } else { 1 << 15 };
    let allowed = match signs {
        Signs::Float | Signs::Integer => true,
        Signs::FloatNeg | Signs::Not | Signs::Top => !abs,
        Signs::Plain => false,
    };
    if !allowed {
        return broken(
            &rules::OPERANDS,
            "a source has a sign that the operation does not take",
        );
    }
    let ones = if full { u32::MAX } else { 0xffff };
    for value in &mut values {
        *value = match signs {
            Signs::Not => !*value & ones,
            Signs::Integer => {
                let number = integer::widen(*value, full);
                let number = if abs {
                    number.unsigned_abs() as i32
                } else {
                    number
                };
                (if neg { number.wrapping_neg() } else { number }) as u32 & ones
            }
            _ => {
                let magnitude = if abs { *value & !sign } else { *value };
                if neg { magnitude ^ sign } else { magnitude }
            }
        };
    }
    Ok(values)
}

/// What two values give under a condition.
pub fn holds(cond: Cond, order: Option<std::cmp::Ordering>) -> bool {
    use std::cmp::Ordering::*;
    match (cond, order) {
        (Cond::Ne, order) => order != Some(Equal),
        (_, None) => false,
        (Cond::Lt, Some(order)) => order == Less,
        (Cond::Le, Some(order)) => order != Greater,
        (Cond::Gt, Some(order)) => order == Greater,
        (Cond::Ge, Some(order)) => order != Less,
        (Cond::Eq, Some(order)) => order == Equal,
    }
}

fn map1(a: &Lanes, f: impl Fn(u32) -> u32) -> Lanes {
    a.map(f)
}

fn map2(a: &Lanes, b: &Lanes, f: impl Fn(u32, u32) -> u32) -> Lanes {
    std::array::from_fn(|n| f(a[n], b[n]))
}

fn map3(sources: [&Lanes; 3], f: impl Fn(u32, u32, u32) -> u32) -> Lanes {
    let [a, b, c] = sources;
    std::array::from_fn(|n| f(a[n], b[n], c[n]))
}

/// The result of an operation of category 2, in the size of its sources.
pub fn category2(inst: &Inst, full: bool, a: &Lanes, b: &Lanes) -> Result<Lanes> {
    let cond = inst.mods.cond.unwrap_or(Cond::Eq);
    let op = inst.op;
    if let Some(f) = float::two(op, full) {
        return Ok(map2(a, b, f));
    }
    if op == Op::CmpsF {
        return Ok(map2(a, b, |a, b| {
            holds(cond, float::order(a, b, full)).into()
        }));
    }
    if let Some(f) = float::one(op, full) {
        return Ok(map1(a, f));
    }
    if matches!(op, Op::CmpsU | Op::CmpsS) {
        let signed = op == Op::CmpsS;
        return Ok(map2(a, b, |a, b| {
            let order = match signed {
                true => integer::widen(a, full).cmp(&integer::widen(b, full)),
                false => a.cmp(&b),
            };
            holds(cond, Some(order)).into()
        }));
    }
    if let Some(f) = integer::two(op) {
        return Ok(map2(a, b, |a, b| f(a, b, full)));
    }
    match integer::one(op) {
        Some(f) => Ok(map1(a, |a| f(a, full))),
        None => broken(&rules::MEANING, op.name()),
    }
}

/// The result of an operation of category 3, in the size of its sources. `fused`: see [`float::mad`].
pub fn category3(inst: &Inst, full: bool, fused: bool, sources: [&Lanes; 3]) -> Result<Lanes> {
    if matches!(inst.op, Op::MadF16 | Op::MadF32) {
        return Ok(map3(sources, |a, b, c| float::mad(a, b, c, full, fused)));
    }
    if matches!(inst.op, Op::Dp2acc | Op::Dp4acc) {
        let (mixed, high, four) = (inst.mods.mixed, inst.mods.high, inst.op == Op::Dp4acc);
        return Ok(map3(sources, |a, b, c| {
            integer::dot(a, b, c, mixed, high, four)
        }));
    }
    match integer::three(inst.op) {
        Some(f) => Ok(map3(sources, |a, b, c| f(a, b, c, full))),
        None => broken(&rules::MEANING, inst.op.name()),
    }
}

/// Converts a result to the other size.
pub fn resize(kind: Kind, full: bool, values: Lanes) -> Lanes {
    match (kind, full) {
        (Kind::Float, true) => values.map(|v| convert::to_half(f32::from_bits(v)).into()),
        (Kind::Float, false) => values.map(|v| float::flush(float::from_half(v)).to_bits()),
        (_, true) => values.map(|v| v & 0xffff),
        (Kind::Unsigned, false) => values,
        (Kind::Signed, false) => values.map(|v| integer::widen(v, false) as u32),
    }
}
