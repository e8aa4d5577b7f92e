//! Category 5: textures, and exchange between fibers.

use super::bits::{Bits, DecodeError};
use super::empty;
use crate::inst::{Desc, Inst, Operand, Value};
use crate::op::Op;

/// What an operation has, as the `derived` fields of Mesa's ir3-cat5.xml say.
#[derive(Clone, Copy)]
struct Has {
    op: Op,
    sources: u8,
    sampler: bool,
    texture: bool,
    /// Any type; else only whether it is a half.
    ty: bool,
}

const fn has(op: Op, sources: u8, sampler: bool, texture: bool) -> Has {
    Has {
        op,
        sources,
        sampler,
        texture,
        ty: true,
    }
}

fn operation(opcode: u64) -> Option<Has> {
    let samples = |op, sources| has(op, sources, true, true);
    Some(match opcode {
        0 => samples(Op::Isam, 1),
        1 => samples(Op::Isaml, 2),
        2 => samples(Op::Isamm, 1),
        3 => samples(Op::Sam, 1),
        4 => samples(Op::Samb, 2),
        5 => samples(Op::Saml, 2),
        6 => samples(Op::Samgq, 1),
        7 => samples(Op::Getlod, 1),
        8 => samples(Op::Conv, 2),
        9 => samples(Op::Convm, 2),
        10 => has(Op::Getsize, 1, false, true),
        11 => has(Op::Getbuf, 0, false, true),
        12 => has(Op::Getpos, 1, false, true),
        13 => has(Op::Getinfo, 0, false, true),
        14 => has(Op::Dsx, 1, false, false),
        15 => has(Op::Dsy, 1, false, false),
        16 => samples(Op::Gather4r, 1),
        17 => samples(Op::Gather4g, 1),
        18 => samples(Op::Gather4b, 1),
        19 => samples(Op::Gather4a, 1),
        20 => samples(Op::Samgp0, 1),
        21 => samples(Op::Samgp1, 1),
        22 => samples(Op::Samgp2, 1),
        23 => samples(Op::Samgp3, 1),
        24 | 25 => Has {
            ty: false,
            ..has(
                if opcode == 24 { Op::Dsxpp } else { Op::Dsypp },
                1,
                false,
                false,
            )
        },
        26 => has(Op::Rgetpos, 1, false, false),
        27 => has(Op::Rgetinfo, 0, false, false),
        _ => return None,
    })
}

pub(super) fn category5(b: &mut Bits) -> Result<Inst, DecodeError> {
    let marks = b.marks();
    let opcode = b.take(58, 54);
    match opcode {
        28 => return Ok(empty(Op::Tcinv, marks)),
        31 => return exchange(b, empty(Op::QuadBrcst, marks)),
        _ => {}
    }
    let has = operation(opcode).ok_or_else(|| b.opcode())?;
    let mut inst = empty(has.op, marks);
    result(b, &mut inst, has)?;
    inst.mods.d3 = b.flag(48);
    inst.mods.array = b.flag(49);
    inst.mods.compare = b.flag(50);
    inst.mods.offsets = b.flag(52);
    if has.op == Op::Isam {
        inst.mods.d1 = !b.flag(18);
    } else {
        inst.mods.project = b.flag(53);
    }
    sources(b, &mut inst, has);
    if b.flag(51) {
        return indirect(b, inst, has);
    }
    if has.sampler {
        inst.mods.sampler = Some(b.byte(24, 21));
    }
    if has.texture {
        inst.mods.texture = Some(b.byte(31, 25));
    }
    Ok(inst)
}

fn result(b: &mut Bits, inst: &mut Inst, has: Has) -> Result<(), DecodeError> {
    let ty = b.ty(46, 44)?;
    if !has.ty && !ty.float() {
        return Err(b.value("type", ty as u64));
    }
    inst.mods.ty = Some(ty);
    inst.mods.mask = b.byte(43, 40);
    inst.dsts.push(b.reg(39, 32, ty.half()));
    Ok(())
}

fn sources(b: &mut Bits, inst: &mut Inst, has: Has) {
    let second = has.sources > 1 || inst.mods.offsets;
    let half = (has.sources > 0 || second) && !b.flag(0);
    if has.sources > 0 {
        inst.srcs.push(b.reg(8, 1, half));
    }
    if second {
        inst.srcs.push(b.reg(16, 9, half));
    } else if inst.op == Op::Isam && b.peek(53, 53) != 0 && b.peek(16, 9) != 0 {
        inst.mods.offset = b.take(16, 9) as i32;
        b.take(53, 53);
    }
}

fn indirect(b: &mut Bits, mut inst: Inst, has: Has) -> Result<Inst, DecodeError> {
    let bits = b.take(31, 29);
    let desc = Desc::from_bits(bits).ok_or_else(|| b.value("descriptor", bits))?;
    inst.mods.desc = Some(desc);
    if desc.bindless() {
        inst.mods.base = Some((b.take(20, 19) << 1 | b.take(47, 47)) as u8);
    }
    if desc.indirect() {
        let indices = Operand::new(Value::Reg(b.byte(28, 21)), !desc.bindless());
        inst.srcs.push(indices);
    } else if desc == Desc::BindlessA1Imm {
        if has.sampler {
            inst.mods.sampler = Some(b.byte(28, 21));
        }
    } else {
        if has.sampler {
            inst.mods.sampler = Some(b.byte(24, 21));
        }
        if has.texture {
            inst.mods.texture = Some(b.byte(28, 25));
        }
    }
    Ok(inst)
}

fn exchange(b: &mut Bits, mut inst: Inst) -> Result<Inst, DecodeError> {
    let variant = b.take(20, 19);
    let quad = b.flag(53);
    inst.op = match (quad, variant) {
        (false, _) => Op::BrcstActive,
        (true, 0) => Op::QuadBrcst,
        (true, 1) => Op::QuadHoriz,
        (true, 2) => Op::QuadVert,
        (true, _) => Op::QuadDiag,
    };
    if !quad {
        inst.mods.width = 2 << variant;
    }
    let sources = if inst.op == Op::QuadBrcst { 2 } else { 1 };
    let has = has(inst.op, sources, false, false);
    result(b, &mut inst, has)?;
    self::sources(b, &mut inst, has);
    Ok(inst)
}
