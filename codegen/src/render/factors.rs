//! Facts about the lanes of an access: whether they are contiguous, and which powers of two divide an index.

use crate::ir::Binary;
use crate::lower::{Inst, Program, Reg, Ty};

/// By the number of a register, how often two divides it at least; 0 for what is no integer.
pub(super) fn factors(p: &Program) -> Vec<u32> {
    let mut factors = vec![0u32; p.regs.len()];
    for inst in &p.insts {
        let of = |r: &Reg| factors[r.0 as usize];
        let (dst, factor) = match inst {
            Inst::Const { dst, bits } => (dst, bits.trailing_zeros()),
            Inst::Cast { dst, a } | Inst::Splat { dst, a } => (dst, of(a)),
            Inst::Select { dst, a, b, .. } => (dst, of(a).min(of(b))),
            Inst::Binary { dst, op, a, b } => {
                let (a, b) = (of(a), of(b));
                let factor = match op {
                    Binary::Add | Binary::Sub | Binary::Or | Binary::Xor => a.min(b),
                    Binary::FloorMod | Binary::TruncMod => a.min(b),
                    Binary::Mul => a.saturating_add(b),
                    Binary::And => a.max(b),
                    _ => 0,
                };
                (dst, factor)
            }
            _ => continue,
        };
        if p.ty(*dst).dtype.is_int() {
            factors[dst.0 as usize] = factor.min(31);
        }
    }
    factors
}

/// The widest access of one work-item of NVIDIA's GPUs, bytes, and the alignment of their buffers: those of
/// tensors are aligned to 64.
pub(super) const WIDEST: usize = 16;

/// How many neighbours of a vector can be accessed as one, from an index on.
pub(super) fn together(factors: &[u32], ty: Ty, index: Reg) -> u32 {
    let size = ty.dtype.size();
    let aligned = (size << factors[index.0 as usize].min(4)).min(WIDEST) / size;
    let mut together = (aligned as u32).min(ty.lanes.next_power_of_two());
    while !ty.lanes.is_multiple_of(together) {
        together /= 2;
    }
    together
}

/// The scalar that all lanes of a register have, if it was made of one.
pub(super) fn splat(p: &Program, reg: Reg) -> Option<Reg> {
    p.insts.iter().find_map(|inst| match inst {
        Inst::Splat { dst, a } if *dst == reg => Some(*a),
        _ => None,
    })
}
