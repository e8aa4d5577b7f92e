//! Which powers of two divide indices: what is known of the alignment of an access.

use crate::ir::Binary;
use crate::lower::{Inst, Program};

/// By the number of a register, how often two divides it at least; 0 for what is no integer.
pub(super) fn factors(p: &Program) -> Vec<u32> {
    let mut factors = vec![0u32; p.regs.len()];
    for inst in &p.insts {
        let of = |r: &crate::lower::Reg| factors[r.0 as usize];
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
