//! Which operands the hardware takes, beside what fits into the fields.
//!
//! Source: Mesa `src/freedreno/ir3/ir3.c` (`ir3_valid_flags`, `ir3_valid_immediate`) and `ir3.h`
//! (`ir3_cat2_absneg`, `ir3_cat3_absneg`), for generation 6 without a scalar ALU (A630).

use super::inst::{EncodeError, Inst};
use super::modifier::Flags;
use super::operand::{Operand, Reg, Value};
use super::table::Op;

/// Which signs a source may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signs {
    None,
    Neg,
    AbsNeg,
}

/// Integers beyond it are in the field, but Mesa never encodes them.
const IMMEDIATE: i32 = 511;

/// Checks the operands of an instruction that has an encoding.
pub(super) fn check(inst: &Inst) -> Result<(), EncodeError> {
    let rule = match inst.op.category() {
        1 => category1(inst),
        2 => category2(inst),
        3 => category3(inst),
        4 => category4(inst),
        // `IR3_INSTR_U` in ir3.h.
        6 if inst.op == Op::Ldc && writes_shared(inst) != inst.flags.has(Flags::UNIFORM) => {
            Some("ldc has .u if it writes shared registers, and else not")
        }
        _ => None,
    };
    let rule = rule.or_else(|| registers(inst));
    match rule {
        Some(rule) => Err(EncodeError::Illegal { op: inst.op, rule }),
        None => Ok(()),
    }
}

fn is_shared(operand: &Operand) -> bool {
    matches!(operand.value, Value::Reg(reg) if reg.is_shared())
}

fn is_constant(operand: &Operand) -> bool {
    matches!(operand.value, Value::Const(_) | Value::RelConst(_))
}

fn is_relative(operand: &Operand) -> bool {
    matches!(operand.value, Value::RelReg(_) | Value::RelConst(_))
}

fn writes_shared(inst: &Inst) -> bool {
    inst.dsts.iter().any(is_shared)
}

/// What holds of all operands.
fn registers(inst: &Inst) -> Option<&'static str> {
    let operands = || inst.dsts.iter().chain(&inst.srcs);
    let high = |o: &Operand| matches!(o.value, Value::Reg(reg) if o.half && (48..61).contains(&reg.number()));
    if operands().any(|o| high(o) && !is_shared(o)) {
        return Some("half registers end at hr47");
    }
    if operands().any(|o| matches!(o.value, Value::Reg(reg) if (56..61).contains(&reg.number()))) {
        return Some("there are no registers r56 to r60");
    }
    if inst.dsts.iter().any(is_relative) && inst.srcs.iter().any(is_relative) {
        return Some("destination and source cannot both be relative");
    }
    None
}

fn category1(inst: &Inst) -> Option<&'static str> {
    if inst.op != Op::Mov {
        let plain = |s: &Operand| matches!(s.value, Value::Reg(_));
        return (!inst.srcs.iter().all(plain)).then_some("sources are registers");
    }
    let converts = inst.mods.ty != inst.mods.src_ty;
    let source = inst.srcs.first()?;
    if writes_shared(inst)
        && converts
        && (is_shared(source) || matches!(source.value, Value::Reg(_)))
    {
        return Some("no conversion of registers into shared registers");
    }
    None
}

fn signs2(op: Op) -> Signs {
    use Op::*;
    match op {
        AddF | MinF | MaxF | MulF | SignF | CmpsF | AbsnegF | CmpvF | FloorF | CeilF | RndneF
        | RndazF | TruncF | BaryF | AbsnegS => Signs::AbsNeg,
        // The bit means not.
        AndB | OrB | NotB | XorB | BfrevB | ClzB | ShlB | ShrB | AshrB | MgenB | GetbitB
        | CbitsB => Signs::Neg,
        _ => Signs::None,
    }
}

fn signs(operand: &Operand, signs: Signs) -> Option<&'static str> {
    if operand.abs && signs != Signs::AbsNeg {
        return Some("(abs) is for floats and absneg.s");
    }
    if operand.neg && signs == Signs::None {
        return Some("(neg) is not for this operation");
    }
    None
}

fn category2(inst: &Inst) -> Option<&'static str> {
    let allowed = signs2(inst.op);
    for source in &inst.srcs {
        if let Some(rule) = signs(source, allowed) {
            return Some(rule);
        }
        if let Some(rule) = sized(source, inst) {
            return Some(rule);
        }
        match source.value {
            Value::Imm(value) if !(-IMMEDIATE..=IMMEDIATE).contains(&value) => {
                return Some("immediates are from -511 to 511");
            }
            _ => {}
        }
        if writes_shared(inst) && !source.is_uniform() && !source.is_immediate() {
            return Some("shared registers are written from uniform sources only");
        }
    }
    if let [a, b] = inst.srcs.as_slice() {
        // The second source of flat.b is ignored.
        if a.is_immediate() && b.is_immediate() && inst.op != Op::FlatB {
            return Some("only one source is an immediate");
        }
        if is_constant(a) && is_constant(b) {
            return Some("only one source is a constant");
        }
        if !writes_shared(inst) && a.is_uniform() && b.is_uniform() {
            return Some("only one source is a constant or a shared register");
        }
    }
    None
}

/// A float of the table has its own size: it should be that of the others.
fn sized(source: &Operand, inst: &Inst) -> Option<&'static str> {
    let float = matches!(source.value, Value::Float(_));
    let differs = inst.srcs.iter().any(|other| other.half != source.half);
    (float && differs).then_some("all sources have one size")
}

fn category3(inst: &Inst) -> Option<&'static str> {
    use Op::*;
    let [first, second, third] = inst.srcs.as_slice() else {
        return None;
    };
    for (n, source) in inst.srcs.iter().enumerate() {
        let allowed = match inst.op {
            MadF16 | MadF32 | SelF16 | SelF32 => Signs::Neg,
            SadS16 | SadS32 if n == 1 => Signs::Neg,
            _ => Signs::None,
        };
        if let Some(rule) = signs(source, allowed) {
            return Some(rule);
        }
    }
    let shared = writes_shared(inst);
    if !shared && is_shared(second) {
        return Some("the second source is not shared");
    }
    let scalar = |s: &&Operand| s.is_uniform() || s.is_immediate();
    if shared && !inst.srcs.iter().all(|s| scalar(&s)) {
        return Some("shared registers are written from uniform sources only");
    }
    match inst.op {
        Dp2acc | Dp4acc if [first, third].into_iter().any(is_constant) => {
            Some("sources are registers")
        }
        Wmm | WmmAccu if !matches!(first.value, Value::Reg(_)) => {
            Some("the first source is a register")
        }
        _ => None,
    }
}

fn category4(inst: &Inst) -> Option<&'static str> {
    let source = inst.srcs.first()?;
    if !matches!(source.value, Value::Reg(_) | Value::RelReg(_)) {
        return Some("the source is a register");
    }
    if is_shared(source) && !matches!(source.value, Value::Reg(reg) if reg < Reg::A0) {
        return Some("the source is a register");
    }
    if inst.op == Op::Rcp && inst.repeat > 0 {
        return Some("rcp does not repeat");
    }
    None
}
