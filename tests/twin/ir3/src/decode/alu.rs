//! Categories 2 to 4: arithmetic.

use super::bits::{Bits, DecodeError, sign};
use super::empty;
use crate::inst::{Cond, Inst, Operand, Value};
use crate::op::Op;

/// Entries of the table of floats: Mesa ir3-common.xml, `#flut`.
const FLOATS: u64 = 12;

/// A source of 16 bits: categories 2 and 4.
fn any(b: &mut Bits, low: u32, half: bool) -> Result<Operand, DecodeError> {
    let kind = b.take(low + 13, low + 11);
    let mut operand = Operand::new(Value::Imm(0), half);
    operand.neg = b.flag(low + 14);
    operand.abs = b.flag(low + 15);
    operand.value = match kind {
        0 => {
            operand.last = b.flag(low + 10);
            Value::Reg(b.byte(low + 7, low))
        }
        1 => relative(b, low),
        2 => Value::Const(b.take(low + 10, low) as u16),
        4 => Value::Imm(sign(b.take(low + 10, low), 11) as u32),
        5 => {
            operand.half = b.flag(low + 10);
            let entry = b.take(low + 9, low);
            if entry >= FLOATS {
                return Err(b.value("float", entry));
            }
            Value::Float(entry as u8)
        }
        kind => return Err(b.value("kind of source", kind)),
    };
    Ok(operand)
}

fn relative(b: &mut Bits, low: u32) -> Value {
    let constant = b.flag(low + 10);
    let offset = b.signed(low + 9, low) as i16;
    if constant {
        Value::RelConst(offset)
    } else {
        Value::RelReg(offset)
    }
}

/// What a source of category 3 may be beside a register.
#[derive(Clone, Copy, PartialEq)]
enum Wide {
    Const,
    Imm,
    Neither,
}

/// A source of 13 bits: the first and the third of category 3.
fn three(b: &mut Bits, low: u32, half: bool, wide: Wide) -> Result<Operand, DecodeError> {
    let kind = b.take(low + 12, low + 11);
    let mut operand = Operand::new(Value::Imm(0), half);
    operand.value = match (kind, wide) {
        (0, _) => {
            operand.last = b.flag(low + 10);
            Value::Reg(b.byte(low + 7, low))
        }
        (1, _) => relative(b, low),
        (2, Wide::Const) => Value::Const(b.take(low + 10, low) as u16),
        (2 | 3, Wide::Imm) => {
            operand.half = false;
            Value::Imm(b.take(low + 11, low) as u32)
        }
        (kind, _) => return Err(b.value("kind of source", kind)),
    };
    Ok(operand)
}

/// The destination of arithmetic: DST_CONV says that it has the other size. Predicates have none, and the size of what
/// is discarded does not matter.
fn destination(b: &mut Bits, full: bool) -> Operand {
    let number = b.byte(39, 32);
    let predicate = (0xf8..0xfc).contains(&number);
    let half = !predicate && full == b.flag(46) && number < 0xfc;
    Operand::new(Value::Reg(number), half)
}

/// Without a repetition, the (r) of the first two sources count the slots after the instruction.
///
/// Source: Mesa ir3-common.xml, `#cat2-cat3-nop-encoding`.
fn nops(inst: &mut Inst, first: bool, second: bool) {
    if inst.repeat == 0 && (first || second) {
        inst.nop = u8::from(first) | u8::from(second) << 1;
        return;
    }
    for (source, advances) in inst.srcs.iter_mut().zip([first, second]) {
        source.advances = advances;
    }
}

fn operation2(b: &mut Bits) -> Result<(Op, u8), DecodeError> {
    let opcode = b.take(58, 53);
    Ok(match opcode {
        57 => (if b.flag(50) { Op::FlatB } else { Op::BaryF }, 2),
        0 => (Op::AddF, 2),
        1 => (Op::MinF, 2),
        2 => (Op::MaxF, 2),
        3 => (Op::MulF, 2),
        4 => (Op::SignF, 1),
        5 => (Op::CmpsF, 3),
        6 => (Op::AbsnegF, 1),
        7 => (Op::CmpvF, 3),
        9 => (Op::FloorF, 1),
        10 => (Op::CeilF, 1),
        11 => (Op::RndneF, 1),
        12 => (Op::RndazF, 1),
        13 => (Op::TruncF, 1),
        16 => (Op::AddU, 2),
        17 => (Op::AddS, 2),
        18 => (Op::SubU, 2),
        19 => (Op::SubS, 2),
        20 => (Op::CmpsU, 3),
        21 => (Op::CmpsS, 3),
        22 => (Op::MinU, 2),
        23 => (Op::MinS, 2),
        24 => (Op::MaxU, 2),
        25 => (Op::MaxS, 2),
        26 => (Op::AbsnegS, 1),
        28 => (Op::AndB, 2),
        29 => (Op::OrB, 2),
        30 => (Op::NotB, 1),
        31 => (Op::XorB, 2),
        33 => (Op::CmpvU, 3),
        34 => (Op::CmpvS, 3),
        48 => (Op::MulU24, 2),
        49 => (Op::MulS24, 2),
        50 => (Op::MullU, 2),
        51 => (Op::BfrevB, 1),
        52 => (Op::ClzS, 1),
        53 => (Op::ClzB, 1),
        54 => (Op::ShlB, 2),
        55 => (Op::ShrB, 2),
        56 => (Op::AshrB, 2),
        58 => (Op::MgenB, 2),
        59 => (Op::GetbitB, 2),
        60 => (Op::Setrm, 1),
        61 => (Op::CbitsB, 1),
        62 => (Op::Shb, 2),
        63 => (Op::Msad, 2),
        _ => return Err(b.opcode()),
    })
}

pub(super) fn category2(b: &mut Bits) -> Result<Inst, DecodeError> {
    let marks = b.alu_marks();
    // 1 and 2 sources; 3 stands for two and a condition.
    let (op, form) = operation2(b)?;
    let mut inst = empty(op, marks);
    inst.marks.sat = b.flag(42);
    inst.marks.ei = b.flag(47);
    inst.repeat = b.byte(41, 40);
    let full = b.flag(52);
    inst.dsts.push(destination(b, full));
    inst.srcs.push(any(b, 0, !full)?);
    if form > 1 {
        inst.srcs.push(any(b, 16, !full)?);
    }
    if form == 3 {
        let cond = b.take(50, 48);
        inst.mods.cond = Some(Cond::from_bits(cond).ok_or_else(|| b.value("condition", cond))?);
    }
    let first = b.flag(43);
    // A source that is not there advances with no repetition.
    let second = (form > 1 || inst.repeat == 0) && b.flag(51);
    nops(&mut inst, first, second);
    Ok(inst)
}

/// The operation, and whether it has 32 bits.
fn operation3(b: &mut Bits) -> Result<(Op, bool), DecodeError> {
    Ok(match b.take(58, 55) {
        0 => (Op::MadU16, false),
        1 => (Op::MadshU16, true),
        2 => (Op::MadS16, false),
        3 => (Op::MadshM16, true),
        4 => (Op::MadU24, true),
        5 => (Op::MadS24, true),
        6 => (Op::MadF16, false),
        7 => (Op::MadF32, true),
        8 => (Op::SelB16, false),
        9 => (Op::SelB32, true),
        10 => (Op::SelS16, false),
        11 => (Op::SelS32, true),
        12 => (Op::SelF16, false),
        13 => (Op::SelF32, true),
        14 => (Op::SadS16, false),
        _ => (Op::SadS32, true),
    })
}

pub(super) fn category3(b: &mut Bits) -> Result<Inst, DecodeError> {
    let marks = b.alu_marks();
    let alternative = b.flag(13);
    if alternative {
        return alternatives(b, empty(Op::Shrm, marks));
    }
    let (op, full) = operation3(b)?;
    let mut inst = empty(op, marks);
    inst.marks.sat = b.flag(42);
    inst.repeat = b.byte(41, 40);
    inst.dsts.push(destination(b, full));
    sources3(b, &mut inst, full, Wide::Const, Wide::Const)?;
    negations(b, &mut inst, &[14, 30, 31]);
    Ok(inst)
}

fn sources3(
    b: &mut Bits,
    inst: &mut Inst,
    full: bool,
    first: Wide,
    third: Wide,
) -> Result<(), DecodeError> {
    inst.srcs.push(three(b, 0, !full, first)?);
    inst.srcs.push(b.reg(54, 47, !full));
    inst.srcs.push(three(b, 16, !full, third)?);
    let (one, two) = (b.flag(43), b.flag(15));
    nops(inst, one, two);
    // Beside slots, the third source advances in dot products alone.
    if inst.nop == 0 || matches!(inst.op, Op::Dp2acc | Op::Dp4acc) {
        inst.srcs[2].advances = b.flag(29);
    }
    Ok(())
}

fn negations(b: &mut Bits, inst: &mut Inst, at: &[u32]) {
    for (source, at) in inst.srcs.iter_mut().zip(at) {
        source.neg = b.flag(*at);
    }
}

fn alternatives(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    inst.op = match b.take(58, 55) {
        8 => Op::Shrm,
        9 => Op::Shlm,
        10 => Op::Shrg,
        11 => Op::Shlg,
        12 => Op::Andg,
        13 => return dot(b, inst),
        14 => return matrix(b, inst),
        _ => return Err(b.opcode()),
    };
    inst.repeat = b.byte(41, 40);
    let full = b.flag(42);
    inst.dsts.push(destination(b, full));
    sources3(b, &mut inst, full, Wide::Imm, Wide::Imm)?;
    negations(b, &mut inst, &[14, 30, 31]);
    Ok(inst)
}

fn dot(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    inst.op = if b.flag(46) { Op::Dp4acc } else { Op::Dp2acc };
    inst.marks.sat = b.flag(42);
    inst.dsts.push(b.reg(39, 32, false));
    sources3(b, &mut inst, true, Wide::Neither, Wide::Neither)?;
    inst.mods.mixed = b.flag(14);
    inst.mods.high = b.flag(30);
    inst.srcs[2].neg = b.flag(31);
    Ok(inst)
}

fn matrix(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    inst.op = if b.flag(42) { Op::WmmAccu } else { Op::Wmm };
    inst.repeat = b.byte(41, 40);
    let half = !b.flag(46);
    inst.dsts.push(b.reg(39, 32, half));
    let full = b.flag(31);
    sources3(b, &mut inst, full, Wide::Neither, Wide::Imm)?;
    negations(b, &mut inst, &[14, 30]);
    Ok(inst)
}

pub(super) fn category4(b: &mut Bits) -> Result<Inst, DecodeError> {
    let marks = b.alu_marks();
    let op = match b.take(58, 53) {
        0 => Op::Rcp,
        1 => Op::Rsq,
        2 => Op::Log2,
        3 => Op::Exp2,
        4 => Op::Sin,
        5 => Op::Cos,
        6 => Op::Sqrt,
        9 => Op::Hrsq,
        10 => Op::Hlog2,
        11 => Op::Hexp2,
        _ => return Err(b.opcode()),
    };
    let mut inst = empty(op, marks);
    inst.marks.sat = b.flag(42);
    inst.repeat = b.byte(41, 40);
    let full = b.flag(52);
    inst.dsts.push(destination(b, full));
    let mut source = any(b, 0, !full)?;
    source.advances = b.flag(43);
    inst.srcs.push(source);
    Ok(inst)
}
