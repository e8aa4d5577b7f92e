//! Which halves of registers an instruction reads and writes.
//!
//! Units are halves of full registers: r0.x is units 0 and 1, which are hr0.x and hr0.y. Units from 384 on are those of
//! the registers that a wave shares; p0 and a0 are told apart from them.
//!
//! Source: Mesa `ir3.h` (`regmask_set`), `ir3_legalize.c`; registers of memory operations: `ir3-cat6.xml`.

use super::inst::Inst;
use super::modifier::{Flags, Type};
use super::operand::{Operand, Reg, Value};
use super::table::Op;

/// Units of r0 to r47 and r48 to r55.
pub(super) const UNITS: usize = 56 * 8;
/// Units for general use.
pub(super) const GENERAL: usize = 48 * 8;

/// One register of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touched {
    /// The first unit.
    pub unit: usize,
    /// It is a half register, of one unit.
    pub half: bool,
    /// Which repetition.
    pub step: u8,
    /// Which operand.
    pub at: usize,
}

impl Touched {
    /// Its units.
    pub fn units(self) -> std::ops::Range<usize> {
        self.unit..self.unit + if self.half { 1 } else { 2 }
    }
}

/// Whether the value of a memory operation is in half registers.
fn half_data(inst: &Inst) -> bool {
    inst.mods.ty.is_some_and(Type::is_half)
}

/// `atomic.b.*`.
fn is_image_atomic(op: Op) -> bool {
    (Op::AtomicBAdd..=Op::AtomicBXor).contains(&op)
}

/// Coordinates of a texel.
fn coordinates(inst: &Inst) -> u32 {
    let more = [Flags::D3, Flags::ARRAY];
    2 + more.into_iter().filter(|&f| inst.flags.has(f)).count() as u32
}

/// Registers that an operand stands for, beside repetitions, and whether they are half ones.
fn shape(inst: &Inst, dst: bool, at: usize, operand: &Operand) -> (u32, bool) {
    let count = u32::from(inst.mods.count).max(1);
    let dims = u32::from(inst.mods.dims).max(1);
    match (inst.op, dst, at) {
        (Op::Ldg | Op::LdgA | Op::Ldp | Op::Ldl, true, _) => (count, half_data(inst)),
        (Op::Ldg | Op::LdgA | Op::Stg | Op::StgA, false, 0) => (2, false),
        (Op::Stg | Op::Stl | Op::Stp, false, 1) | (Op::StgA, false, 2) => (count, half_data(inst)),
        (op, false, 0) if is_global_atomic(op) => (2, false),
        (Op::AtomicCmpxchg | Op::AtomicGCmpxchg, false, 1) => (2, false),
        // See `components`.
        (Op::Isam, true, _) => (4, operand.half),
        (Op::Isam, false, 0) => (coordinates(inst), operand.half),
        (Op::LdibB, true, _) | (Op::StibB, false, 0) => (count, half_data(inst)),
        (Op::LdibB, false, 0) | (Op::StibB, false, 1) => (dims, false),
        (op, false, 0) if is_image_atomic(op) => (dims, false),
        (Op::Ldc, true, _) => (count, false),
        // There is no mask: three are written (Mesa `emit_intrinsic_image_size`).
        (Op::Resinfo | Op::ResinfoB, true, _) => (3, false),
        _ => (1, operand.half),
    }
}

/// `atomic.g.*`.
pub(super) fn is_global_atomic(op: Op) -> bool {
    (Op::AtomicGAdd..=Op::AtomicGXor).contains(&op)
}

/// `atomic.*` on local memory.
pub(super) fn is_local_atomic(op: Op) -> bool {
    (Op::AtomicAdd..=Op::AtomicXor).contains(&op)
}

/// Whether the n-th register of an operand is touched: a component that is not asked for leaves its register as it is
/// (Mesa `regmask_set`).
fn has_component(inst: &Inst, dst: bool, n: usize) -> bool {
    !(dst && inst.op == Op::Isam) || inst.mods.mask >> n & 1 != 0
}

fn touched(inst: &Inst, dst: bool, see: &mut impl FnMut(Touched)) {
    let operands = if dst { &inst.dsts } else { &inst.srcs };
    for (at, operand) in operands.iter().enumerate() {
        let Value::Reg(reg) = operand.value else {
            continue;
        };
        if reg.number() >= 56 {
            continue;
        }
        let (count, half) = shape(inst, dst, at, operand);
        let size = if half { 1 } else { 2 };
        // Shared registers follow those for general use in whole vectors.
        let first = match half {
            true => usize::from(reg.0),
            false => usize::from(reg.0) * 2,
        };
        for step in 0..=inst.repeat {
            let advance = if dst || operand.advances {
                usize::from(step)
            } else {
                0
            };
            for n in 0..count as usize {
                let unit = first + (advance + n) * size;
                if unit + size <= UNITS && has_component(inst, dst, n) {
                    see(Touched {
                        unit,
                        half,
                        step,
                        at,
                    });
                }
            }
        }
    }
}

/// The registers that it reads.
pub(super) fn reads(inst: &Inst, mut see: impl FnMut(Touched)) {
    touched(inst, false, &mut see);
    // Behind the register of the result are what is combined, and what must have been there (Mesa
    // `emit_intrinsic_atomic_image`).
    if let (true, [result]) = (is_image_atomic(inst.op), inst.dsts.as_slice()) {
        let compared = usize::from(inst.op == Op::AtomicBCmpxchg);
        if let Value::Reg(reg) = result.value {
            for n in 1..=1 + compared {
                let unit = (usize::from(reg.0) + n) * 2;
                if unit + 2 <= UNITS {
                    see(Touched {
                        unit,
                        half: false,
                        step: 0,
                        at: inst.srcs.len(),
                    });
                }
            }
        }
    }
}

/// The registers that it writes.
pub(super) fn writes(inst: &Inst, mut see: impl FnMut(Touched)) {
    touched(inst, true, &mut see);
}

/// The component of p0 that an operand is.
pub(super) fn predicate(operand: &Operand) -> Option<usize> {
    match operand.value {
        Value::Reg(reg) if reg.is_predicate() => Some(usize::from(reg.component())),
        _ => None,
    }
}

/// Whether it is an instruction of the arithmetic units with a fixed latency: categories 1 to 3.
pub(super) fn is_alu(inst: &Inst) -> bool {
    matches!(inst.op.category(), 1..=3)
}

/// Its result is waited for by (ss).
pub(super) fn is_ss_producer(inst: &Inst) -> bool {
    inst.op.category() == 4
        || matches!(inst.op, Op::Ldl | Op::Shfl | Op::Resinfo | Op::ResinfoB)
        || is_local_atomic(inst.op)
}

/// Its result is waited for by (sy).
pub(super) fn is_sy_producer(inst: &Inst) -> bool {
    inst.op.category() == 5
        || matches!(inst.op, Op::Ldg | Op::LdgA | Op::Ldp | Op::LdibB | Op::Ldc)
        || is_global_atomic(inst.op)
        || is_image_atomic(inst.op)
}

/// It writes memory and nothing else.
pub(super) fn is_store(inst: &Inst) -> bool {
    matches!(
        inst.op,
        Op::Stg | Op::StgA | Op::Stl | Op::Stp | Op::Stc | Op::StibB
    )
}

/// It may read its sources after later instructions have been issued (`is_war_hazard_producer`).
pub(super) fn reads_late(inst: &Inst) -> bool {
    matches!(inst.op.category(), 4..=6)
}

/// `bar` and `fence`.
pub(super) fn is_barrier(inst: &Inst) -> bool {
    matches!(inst.op, Op::Bar | Op::Fence)
}

/// How many slots after its issue an operand is read: the third one of products is two later (Mesa
/// `ir3_src_read_delay`).
pub(super) fn read_delay(inst: &Inst, at: usize) -> u32 {
    use Op::*;
    let product = matches!(
        inst.op,
        MadU16 | MadshU16 | MadS16 | MadshM16 | MadU24 | MadS24 | MadF16 | MadF32
    );
    if product && at == 2 { 2 } else { 0 }
}

/// Whether it fills slots: instructions of the arithmetic units and nops do, branches are not counted
/// (Mesa `count_instruction`).
pub(super) fn fills(inst: &Inst) -> bool {
    is_alu(inst)
        || (inst.op.category() == 0 && !matches!(inst.op, Op::Br | Op::Brao | Op::Braa | Op::Jump))
}

/// The register of a unit, as the text has it.
pub(super) fn name(unit: usize) -> String {
    let reg = Reg((unit / 2) as u8);
    let component = ['x', 'y', 'z', 'w'][usize::from(reg.component())];
    format!("r{}.{component}", reg.number())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The full registers that an instruction reads and writes, by number and component.
    fn of(text: &str) -> [Vec<String>; 2] {
        let inst: Inst = text.parse().unwrap();
        let mut found = [Vec::new(), Vec::new()];
        reads(&inst, |t| found[0].push(name(t.unit)));
        writes(&inst, |t| found[1].push(name(t.unit)));
        found
    }

    #[test]
    fn images_and_buffers_have_all_their_registers() {
        for (text, read, written) in [
            (
                "ldib.b.typed.2d.f32.4.imm r3.x, r2.z, 0",
                "r2.z r2.w",
                "r3.x r3.y r3.z r3.w",
            ),
            (
                "stib.b.typed.2d.f32.3.imm r3.x, r2.z, 0",
                "r3.x r3.y r3.z r2.z r2.w",
                "",
            ),
            (
                "atomic.b.cmpxchg.untyped.1d.u32.1.imm r0.x, r1.x, 0",
                "r1.x r0.y r0.z",
                "r0.x",
            ),
            ("ldc.offset0.3.imm r1.x, r0.x, 0", "r0.x", "r1.x r1.y r1.z"),
            (
                "isam (f32)(xw)r1.x, r0.x, s#0, t#0",
                "r0.x r0.y",
                "r1.x r1.w",
            ),
        ] {
            let [reads, writes] = of(text).map(|list| list.join(" "));
            assert_eq!((reads.as_str(), writes.as_str()), (read, written), "{text}");
        }
    }
}
