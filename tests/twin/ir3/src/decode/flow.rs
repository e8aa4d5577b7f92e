//! Categories 0 (control flow), 1 (moves) and 7 (barriers).

use super::bits::{Bits, DecodeError, sign};
use super::empty;
use crate::inst::{Inst, Mods, Operand, Round, Type, Value};
use crate::op::Op;

/// Mesa's assembler repeats a nop at most 5 times: ir3_legalize.c, `legalize_block`.
const MAX_REPEAT: u64 = 5;

/// But six times behind prede: ir3_legalize.c, `add_predication_workaround`.
const MOST_NOPS: u64 = 6;

pub(super) fn category0(b: &mut Bits) -> Result<Inst, DecodeError> {
    let mut marks = b.marks();
    marks.ss = b.flag(44);
    let high = b.flag(49);
    let opcode = b.take(58, 55);
    let plain = match (high, opcode) {
        (false, 0) => Op::Nop,
        (false, 6) => Op::End,
        (false, 4) => Op::Ret,
        (false, 7) => Op::Emit,
        (false, 8) => Op::Cut,
        (false, 9) => Op::Chmask,
        (false, 10) => Op::Chsh,
        (false, 11) => Op::FlowRev,
        (true, 8) => Op::Shpe,
        (true, 13) => Op::Predt,
        (true, 14) => Op::Predf,
        (true, 15) => Op::Prede,
        _ => return target(b, empty(Op::Jump, marks), high, opcode),
    };
    marks.eq = b.flag(48);
    let repeat = b.take(42, 40);
    let most = match plain {
        Op::Nop => MOST_NOPS,
        _ => MAX_REPEAT,
    };
    if repeat > most {
        return Err(b.value("repetition", repeat));
    }
    Ok(Inst {
        repeat: repeat as u8,
        ..empty(plain, marks)
    })
}

/// What has a target, or a condition.
fn target(b: &mut Bits, mut inst: Inst, high: bool, opcode: u64) -> Result<Inst, DecodeError> {
    inst.op = match (high, opcode) {
        (false, 2) => Op::Jump,
        (false, 3) => Op::Call,
        (false, 5) => Op::Kill,
        (true, 0) => Op::Bkt,
        (true, 4) => Op::Getlast,
        (true, 5) => Op::Getone,
        (true, 7) => Op::Shps,
        (false, 1) => match b.take(39, 37) {
            0 => Op::Br,
            1 => Op::Brao,
            2 => Op::Braa,
            3 => Op::Brac,
            4 => Op::Bany,
            5 => Op::Ball,
            6 => Op::Brax,
            _ => return Err(b.opcode()),
        },
        _ => return Err(b.opcode()),
    };
    match inst.op {
        Op::Getlast => inst.mods.width = 2 << b.take(54, 52),
        Op::Brac => inst.mods.index = b.byte(36, 32),
        _ => {}
    }
    if matches!(
        inst.op,
        Op::Br | Op::Bany | Op::Ball | Op::Brao | Op::Braa | Op::Kill
    ) {
        inst.srcs.push(predicate(b.take(54, 53), b.flag(52)));
    }
    if matches!(inst.op, Op::Brao | Op::Braa) {
        inst.srcs.push(predicate(b.take(47, 46), b.flag(45)));
    }
    if opcode == 1 || inst.op == Op::Kill {
        // Mesa shows (eq) on branches and kill, and not on the others.
        inst.marks.eq = !high && b.flag(48);
    }
    if inst.op != Op::Kill {
        let by = b.take(31, 0) as u32;
        inst.srcs.push(Operand::new(Value::Imm(by), false));
    }
    Ok(inst)
}

/// p0.x is register 62.x.
fn predicate(component: u64, neg: bool) -> Operand {
    let mut operand = Operand::new(Value::Reg(0xf8 | component as u8), false);
    operand.neg = neg;
    operand
}

/// Whether a move of these types has half registers: the byte in a full register counts as one, in category 1.
fn move_half(ty: Type) -> bool {
    ty.half() || ty == Type::U8Full
}

fn round(b: &mut Bits) -> Option<Round> {
    Round::from_bits(b.take(56, 55))
}

/// The types and the destination of a move.
struct Move {
    ty: Type,
    src_ty: Type,
    /// A move to a0.x or a1.x, called mova.
    address: bool,
    dst: Operand,
}

fn moved(b: &mut Bits, movs: bool) -> Result<Move, DecodeError> {
    let (ty, src_ty) = (b.ty(48, 46)?, b.ty(52, 50)?);
    let number = b.byte(39, 32);
    let address = !movs
        && matches!(
            (number, ty, src_ty),
            (0xf4, Type::S16, Type::S16) | (0xf5, Type::U16, Type::U16)
        );
    // The address registers have no relative form.
    let value = match !address && b.flag(49) {
        true => Value::RelReg(number.into()),
        false => Value::Reg(number),
    };
    let dst = Operand::new(value, move_half(ty) && !address);
    Ok(Move {
        ty,
        src_ty,
        address,
        dst,
    })
}

pub(super) fn category1(b: &mut Bits) -> Result<Inst, DecodeError> {
    let marks = b.alu_marks();
    match b.take(58, 57) {
        0 => {}
        2 => return multi(b, empty(Op::Swz, marks)),
        3 => return movmsk(b, empty(Op::Movmsk, marks)),
        _ => return Err(b.opcode()),
    }
    let mut inst = empty(Op::Mov, marks);
    inst.mods.round = round(b);
    inst.repeat = b.byte(41, 40);
    let kind = b.take(54, 53);
    let movs = kind == 0 && b.peek(31, 31) != 0;
    let mov = moved(b, movs)?;
    inst.mods.ty = Some(mov.ty);
    inst.mods.src_ty = Some(mov.src_ty);
    inst.dsts.push(mov.dst);
    let half = move_half(mov.src_ty);
    let mut source = match kind {
        2 => Operand::new(Value::Imm(immediate(b, mov.src_ty)), false),
        1 => Operand::new(Value::Const(b.take(10, 0) as u16), half),
        0 if b.flag(31) => {
            inst.op = Op::Movs;
            register(b, half)
        }
        0 if b.flag(11) => {
            let constant = b.flag(10);
            let offset = b.signed(9, 0) as i16;
            let value = if constant {
                Value::RelConst(offset)
            } else {
                Value::RelReg(offset)
            };
            Operand::new(value, half)
        }
        0 => register(b, half),
        _ => return Err(b.opcode()),
    };
    // On immediates, (r) is the .u of mova alone.
    if kind != 2 || mov.address {
        source.advances = b.flag(43);
    }
    inst.srcs.push(source);
    if inst.op == Op::Movs {
        let value = match b.flag(30) {
            true => Value::Reg(0xf4),
            false => Value::Imm(b.take(29, 23) as u32),
        };
        inst.srcs.push(Operand::new(value, false));
    }
    Ok(inst)
}

fn register(b: &mut Bits, half: bool) -> Operand {
    let mut operand = b.reg(7, 0, half);
    operand.last = b.flag(10);
    operand
}

fn immediate(b: &mut Bits, ty: Type) -> u32 {
    match ty {
        Type::F16 => b.take(15, 0) as u32,
        Type::S16 => sign(b.take(15, 0), 16) as u32,
        _ => b.take(31, 0) as u32,
    }
}

fn multi(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    inst.mods.round = round(b);
    let (ty, src_ty) = (b.ty(48, 46)?, b.ty(52, 50)?);
    inst.mods.ty = Some(ty);
    inst.mods.src_ty = Some(src_ty);
    let (to, from) = (move_half(ty), move_half(src_ty));
    let first = b.reg(39, 32, to);
    inst.dsts.push(first);
    let source = b.reg(7, 0, from);
    inst.srcs.push(source);
    match b.take(41, 40) {
        0 => {
            inst.srcs.push(b.reg(15, 8, from));
            inst.dsts.push(b.reg(23, 16, to));
        }
        1 => {
            inst.op = Op::Gat;
            for low in [8, 16, 24] {
                inst.srcs.push(b.reg(low + 7, low, from));
            }
        }
        2 => {
            inst.op = Op::Sct;
            for low in [8, 16, 24] {
                inst.dsts.push(b.reg(low + 7, low, to));
            }
        }
        _ => return Err(b.opcode()),
    }
    Ok(inst)
}

/// Its types are fixed, its repetition counts words of 32 fibers.
fn movmsk(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    b.fixed(54, 50, 3)?;
    b.fixed(48, 46, 3)?;
    inst.mods.width = (b.take(41, 40) as u16 + 1) * 32;
    let relative = b.flag(49);
    let number = b.byte(39, 32);
    let value = if relative {
        Value::RelReg(number.into())
    } else {
        Value::Reg(number)
    };
    inst.dsts.push(Operand::new(value, false));
    Ok(inst)
}

pub(super) fn category7(b: &mut Bits) -> Result<Inst, DecodeError> {
    let mut marks = b.marks();
    marks.ss = b.flag(44);
    let opcode = b.take(58, 55);
    let op = match opcode {
        0 => Op::Bar,
        1 => Op::Fence,
        2 => Op::Sleep,
        3 => Op::Icinv,
        4 => Op::Dccln,
        5 => Op::Dcinv,
        6 => Op::Dcflu,
        _ => return Err(b.opcode()),
    };
    let mut inst = empty(op, marks);
    match op {
        Op::Bar | Op::Fence => {
            b.fixed(49, 49, 1)?;
            inst.mods = Mods {
                global: b.flag(54),
                local: b.flag(53),
                read: b.flag(52),
                write: b.flag(51),
                ..Mods::default()
            };
        }
        Op::Sleep => inst.mods.long = b.flag(51),
        Op::Icinv => {}
        _ => inst.mods.all = b.flag(51),
    }
    Ok(inst)
}
