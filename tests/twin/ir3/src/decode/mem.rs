//! Category 6: loads, stores, atomics.

use super::bits::{Bits, DecodeError};
use super::empty;
use crate::inst::{Inst, Mode, Operand, Shuffle, Value};
use crate::op::Op;

pub(super) fn category6(b: &mut Bits) -> Result<Inst, DecodeError> {
    let marks = b.marks();
    // Images have an offset where the others have their opcode.
    if b.peek(53, 52) == 2 && b.peek(40, 40) == 0 && b.peek(22, 20) == 6 {
        let op = match b.peek(19, 14) {
            6 => Some(Op::LdibB),
            29 => Some(Op::StibB),
            _ => None,
        };
        if let Some(op) = op
            && (b.peek(23, 23) != 0 || b.peek(58, 54) == 0)
        {
            return image(b, empty(op, marks));
        }
    }
    let opcode = b.take(58, 54);
    let inst = empty(Op::Ldg, marks);
    match opcode {
        0 => match b.take(53, 52) {
            0 => ldg(b, inst),
            1 => ldg_k(b, inst),
            group => descriptor(b, inst, group),
        },
        1 => load(b, inst, Op::Ldl),
        2 => load(b, inst, Op::Ldp),
        10 => load(b, inst, Op::Ldlw),
        3 => stg(b, inst),
        4 => store(b, inst, Op::Stl),
        5 => store(b, inst, Op::Stp),
        11 => store(b, inst, Op::Stlw),
        15 => resinfo(b, inst),
        16..=26 => atomic(b, inst, opcode),
        27 => shfl(b, inst),
        28 => stc(b, inst),
        31 => ldlv(b, inst),
        _ => Err(b.opcode()),
    }
}

fn ldg(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    b.fixed(0, 0, 1)?;
    b.fixed(23, 23, 1)?;
    let ty = b.ty(51, 49)?;
    inst.mods.ty = Some(ty);
    inst.mods.count = b.take(26, 24) as u16;
    inst.dsts.push(b.reg(39, 32, ty.half()));
    inst.srcs.push(b.reg(21, 14, false));
    match b.flag(22) {
        false => inst.mods.offset = b.signed(13, 1) as i32,
        true => {
            inst.op = Op::LdgA;
            inst.srcs.push(b.reg(8, 1, false));
            shifted(b, &mut inst);
        }
    }
    Ok(inst)
}

/// The offset and the shift of an index.
fn shifted(b: &mut Bits, inst: &mut Inst) {
    inst.mods.offset = b.take(10, 9) as i32;
    inst.mods.shift = b.byte(13, 12);
}

fn ldg_k(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    inst.op = Op::LdgK;
    b.fixed(0, 0, 1)?;
    inst.mods.ty = Some(b.ty(51, 49)?);
    inst.mods.count = b.take(26, 23) as u16;
    inst.dsts.push(stored(b));
    inst.srcs.push(b.reg(21, 14, false));
    inst.mods.offset = b.signed(13, 1) as i32;
    Ok(inst)
}

/// A constant that is written.
fn stored(b: &mut Bits) -> Operand {
    let at = b.byte(39, 32);
    let value = if b.flag(40) {
        Value::A1Const(at)
    } else {
        Value::Imm(at.into())
    };
    Operand::new(value, false)
}

/// The offset of a store in two parts, the upper one with the sign.
fn split(b: &mut Bits) -> i32 {
    (b.signed(13, 9) << 8) as i32 | b.take(39, 32) as i32
}

fn stg(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    b.fixed(40, 40, 1)?;
    b.fixed(23, 23, 1)?;
    let ty = b.ty(51, 49)?;
    inst.mods.ty = Some(ty);
    inst.mods.count = b.take(26, 24) as u16;
    inst.srcs.push(b.reg(48, 41, false));
    match b.flag(52) {
        false => {
            inst.op = Op::Stg;
            inst.mods.offset = split(b);
        }
        true => {
            inst.op = Op::StgA;
            inst.srcs.push(b.reg(39, 32, false));
            shifted(b, &mut inst);
        }
    }
    inst.srcs.push(b.reg(8, 1, ty.half()));
    Ok(inst)
}

/// Local and private memory. The registers of data are half ones by the type, though Mesa shows them so for private
/// loads alone.
fn load(b: &mut Bits, mut inst: Inst, op: Op) -> Result<Inst, DecodeError> {
    inst.op = op;
    b.fixed(0, 0, 1)?;
    b.fixed(23, 23, 1)?;
    let ty = b.ty(51, 49)?;
    inst.mods.ty = Some(ty);
    inst.mods.count = b.take(31, 24) as u16;
    inst.dsts.push(b.reg(39, 32, ty.half()));
    inst.srcs.push(b.reg(21, 14, false));
    inst.mods.offset = b.signed(13, 1) as i32;
    Ok(inst)
}

fn store(b: &mut Bits, mut inst: Inst, op: Op) -> Result<Inst, DecodeError> {
    inst.op = op;
    b.fixed(40, 40, 1)?;
    b.fixed(23, 23, 1)?;
    let ty = b.ty(51, 49)?;
    inst.mods.ty = Some(ty);
    inst.mods.count = b.take(31, 24) as u16;
    inst.srcs.push(b.reg(48, 41, false));
    inst.mods.offset = split(b);
    inst.srcs.push(b.reg(8, 1, ty.half()));
    Ok(inst)
}

fn ldlv(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    inst.op = Op::Ldlv;
    b.fixed(23, 14, 0x300)?;
    inst.mods.ty = Some(b.ty(51, 49)?);
    inst.mods.count = b.take(31, 24) as u16;
    inst.dsts.push(b.reg(39, 32, false));
    inst.mods.offset = b.take(13, 1) as i32;
    Ok(inst)
}

fn stc(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    inst.op = Op::Stc;
    b.fixed(23, 23, 1)?;
    inst.mods.ty = Some(b.ty(51, 49)?);
    inst.mods.count = b.take(26, 24) as u16;
    inst.dsts.push(stored(b));
    inst.srcs.push(b.reg(8, 1, false));
    Ok(inst)
}

fn resinfo(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    inst.op = Op::Resinfo;
    inst.mods.ty = Some(b.ty(51, 49)?);
    inst.mods.dims = b.byte(10, 9) + 1;
    inst.dsts.push(b.reg(39, 32, false));
    let imm = b.flag(53);
    inst.srcs.push(b.reg_or_imm(48, 41, imm));
    Ok(inst)
}

fn atomic(b: &mut Bits, mut inst: Inst, opcode: u64) -> Result<Inst, DecodeError> {
    const LOCAL: [Op; 11] = [
        Op::AtomicAdd,
        Op::AtomicSub,
        Op::AtomicXchg,
        Op::AtomicInc,
        Op::AtomicDec,
        Op::AtomicCmpxchg,
        Op::AtomicMin,
        Op::AtomicMax,
        Op::AtomicAnd,
        Op::AtomicOr,
        Op::AtomicXor,
    ];
    const GLOBAL: [Op; 11] = [
        Op::AtomicGAdd,
        Op::AtomicGSub,
        Op::AtomicGXchg,
        Op::AtomicGInc,
        Op::AtomicGDec,
        Op::AtomicGCmpxchg,
        Op::AtomicGMin,
        Op::AtomicGMax,
        Op::AtomicGAnd,
        Op::AtomicGOr,
        Op::AtomicGXor,
    ];
    let table = if b.flag(52) { GLOBAL } else { LOCAL };
    inst.op = *table.get(opcode as usize - 16).ok_or_else(|| b.opcode())?;
    b.fixed(0, 0, 1)?;
    inst.mods.ty = Some(b.ty(51, 49)?);
    shape(b, &mut inst);
    inst.dsts.push(b.reg(39, 32, false));
    let (first, second) = (b.flag(22), b.flag(23));
    inst.srcs.push(b.reg_or_imm(21, 14, first));
    inst.srcs.push(b.reg_or_imm(31, 24, second));
    Ok(inst)
}

/// Dimensions, components, and whether it converts.
fn shape(b: &mut Bits, inst: &mut Inst) {
    inst.mods.dims = b.byte(10, 9) + 1;
    inst.mods.typed = b.flag(11);
    inst.mods.count = b.take(13, 12) as u16 + 1;
}

fn shfl(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    inst.op = Op::Shfl;
    b.fixed(53, 52, 2)?;
    let ty = b.ty(51, 49)?;
    inst.mods.ty = Some(ty);
    let mode = b.take(47, 45);
    inst.mods.shuffle = Some(Shuffle::from_bits(mode).ok_or_else(|| b.value("lane", mode))?);
    inst.dsts.push(b.reg(39, 32, ty.half()));
    inst.srcs.push(b.reg(8, 1, ty.half()));
    let imm = b.flag(23);
    inst.srcs.push(b.reg_or_imm(31, 24, imm));
    Ok(inst)
}

/// How the descriptor is found; the field of its index is bits 48:41.
fn found(b: &mut Bits, inst: &mut Inst) -> Result<Operand, DecodeError> {
    let mode = b.take(7, 6);
    let mode = Mode::from_bits(mode).ok_or_else(|| b.value("mode", mode))?;
    inst.mods.mode = Some(mode);
    if b.flag(8) {
        inst.mods.base = Some(b.byte(3, 1));
    }
    Ok(b.reg_or_imm(48, 41, mode == Mode::Imm))
}

fn image(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    b.take(53, 52);
    b.take(22, 14);
    let ty = b.ty(51, 49)?;
    inst.mods.ty = Some(ty);
    shape(b, &mut inst);
    let index = found(b, &mut inst)?;
    let offset = b.peek(5, 4) << 5 | b.peek(58, 54);
    if b.peek(23, 23) != 0 && offset != 0 {
        b.take(23, 23);
        b.take(5, 4);
        b.take(58, 54);
        inst.mods.offset = offset as i32;
    }
    let data = b.reg(39, 32, ty.half());
    let place = b.reg(31, 24, false);
    match inst.op {
        Op::LdibB => inst.dsts.push(data),
        _ => inst.srcs.push(data),
    }
    inst.srcs.extend([place, index]);
    Ok(inst)
}

/// The group of opcode 0 with bit 53.
fn descriptor(b: &mut Bits, mut inst: Inst, group: u64) -> Result<Inst, DecodeError> {
    let sub = b.take(19, 14);
    b.fixed(22, 22, 1)?;
    match (group, sub) {
        (_, 30) => return constants(b, inst, group),
        (2, 36) => inst.op = Op::Getspid,
        (2, 37) => inst.op = Op::Getwid,
        (2, 38) => {
            inst.op = Op::Getfiberid;
            b.fixed(23, 23, 1)?;
        }
        (2, 15) => inst.op = Op::ResinfoB,
        (2, 12) => inst.op = Op::Resbase,
        (3, sub) => inst.op = image_atomic(sub).ok_or_else(|| b.opcode())?,
        _ => return Err(b.opcode()),
    }
    inst.mods.ty = Some(b.ty(51, 49)?);
    if matches!(inst.op, Op::Getspid | Op::Getwid | Op::Getfiberid) {
        inst.dsts.push(b.reg(39, 32, false));
        return Ok(inst);
    }
    b.fixed(21, 20, 2)?;
    shape(b, &mut inst);
    let index = found(b, &mut inst)?;
    inst.dsts.push(b.reg(39, 32, false));
    if group == 3 {
        inst.srcs.push(b.reg(31, 24, false));
    }
    inst.srcs.push(index);
    Ok(inst)
}

fn image_atomic(sub: u64) -> Option<Op> {
    Some(match sub {
        16 => Op::AtomicBAdd,
        17 => Op::AtomicBSub,
        18 => Op::AtomicBXchg,
        21 => Op::AtomicBCmpxchg,
        22 => Op::AtomicBMin,
        23 => Op::AtomicBMax,
        24 => Op::AtomicBAnd,
        25 => Op::AtomicBOr,
        26 => Op::AtomicBXor,
        _ => return None,
    })
}

fn constants(b: &mut Bits, mut inst: Inst, group: u64) -> Result<Inst, DecodeError> {
    b.fixed(50, 49, 3)?;
    let index = found(b, &mut inst)?;
    if group == 2 {
        inst.op = Op::Ldc;
        inst.dsts.push(b.reg(39, 32, false));
        inst.mods.uniform = b.flag(11);
        inst.mods.index = b.byte(10, 9);
        inst.mods.count = b.take(13, 12) as u16 + 1;
    } else {
        inst.op = Op::LdcK;
        inst.mods.count = b.take(39, 32) as u16 + 1;
    }
    let imm = b.flag(23);
    inst.srcs.push(b.reg_or_imm(31, 24, imm));
    inst.srcs.push(index);
    Ok(inst)
}
