//! Neighbours that do the same on neighbouring registers become one instruction that repeats.
//!
//! Source: Mesa `docs/drivers/freedreno/ir3-notes.rst` on (rptN), and `ir3.c` (`ir3_valid_flags`): rcp does not repeat.

use super::inst::Inst;
use super::operand::{Operand, Reg, Value};
use super::table::Op;
use super::units;

/// An instruction repeats three times at most.
const MOST: u8 = 3;

/// Packs a block.
pub(super) fn pack(insts: Vec<Inst>) -> Vec<Inst> {
    let mut out: Vec<Inst> = Vec::with_capacity(insts.len());
    for inst in insts {
        if let Some(last) = out.last_mut()
            && let Some(both) = together(last, &inst)
        {
            *last = both;
            continue;
        }
        out.push(inst);
    }
    out
}

/// The register or constant `n` behind an operand.
fn behind(operand: &Operand, n: u8) -> Option<Value> {
    match operand.value {
        Value::Reg(reg) if reg.number() < 48 => Some(Value::Reg(Reg(reg.0.checked_add(n)?))),
        Value::Const(c) => Some(Value::Const(c + u16::from(n))),
        _ => None,
    }
}

/// Two instructions as one.
fn together(first: &Inst, second: &Inst) -> Option<Inst> {
    let packs = matches!(first.op.category(), 1..=4) && first.op != Op::Rcp;
    let plain = first.op == second.op && first.mods == second.mods && first.flags == second.flags;
    if !packs || !plain || second.repeat != 0 || first.repeat >= MOST {
        return None;
    }
    let ([to], [next]) = (first.dsts.as_slice(), second.dsts.as_slice()) else {
        return None;
    };
    let n = first.repeat + 1;
    let follows = behind(to, n) == Some(next.value) && to.half == next.half;
    if !follows || matches!(to.value, Value::Const(_)) || first.srcs.len() != second.srcs.len() {
        return None;
    }
    let mut both = first.clone();
    both.repeat = n;
    for (own, other) in both.srcs.iter_mut().zip(&second.srcs) {
        let advanced = Operand {
            advances: own.advances,
            ..*other
        };
        let same = advanced == *own;
        let next = behind(own, n).map(|value| Operand { value, ..*own });
        let follows = next == Some(advanced);
        let advances = match (n, own.advances) {
            // Either way is open after the first one.
            (1, _) if follows => true,
            (1, _) if same => false,
            (_, true) if follows => true,
            (_, false) if same => false,
            _ => return None,
        };
        own.advances = advances;
    }
    // Elements read in their turn: what an earlier one has written is not what a single instruction would have read
    // otherwise, but the order is the same.
    ordered(&both).then_some(both)
}

/// Whether elements are far enough apart: none reads what one before it writes.
fn ordered(inst: &Inst) -> bool {
    let mut written = Vec::new();
    units::writes(inst, |t| {
        written.extend(t.units().map(|unit| (unit, t.step)))
    });
    let mut right = true;
    units::reads(inst, |t| {
        right &= !written
            .iter()
            .any(|&(unit, step)| t.units().contains(&unit) && step < t.step);
    });
    right
}
