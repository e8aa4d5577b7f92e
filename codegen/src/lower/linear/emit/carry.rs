//! Long sums keep what their additions round away. The rounding error of an addition is a number of
//! the same type, found by additions alone (Knuth, "The Art of Computer Programming", volume 2, 4.2.2,
//! theorem B). A second accumulator adds these up beside the first, so that the chain of dependent
//! additions gets no longer.

use super::Linear;
use crate::dtype::DType;
use crate::ir::{Binary, Id, Op, ReduceOp};
use crate::lower::expand::extent_of;
use crate::lower::program::{Acc, Inst, Reg, Ty};

/// So few blocks lose no more than one of them has lost.
const FEW: i64 = 16;

impl Linear<'_> {
    /// Whether a sum keeps what its additions round away: one of blocks.
    fn carries(&self, n: Id) -> bool {
        matches!(self.input.g.dtype(n), DType::F32 | DType::F64)
            && self.op(n) == Op::Reduce(ReduceOp::Add)
            && self.is_block(self.src(n)[0])
            && self.steps(n) > FEW
    }

    /// Additions to one accumulator.
    fn steps(&self, n: Id) -> i64 {
        let extents = self.src(n)[1..].iter().map(|&r| extent_of(self.input.g, r));
        extents.fold(1, i64::saturating_mul)
    }

    /// A sum that has a loop of its own, or two of them together.
    fn is_block(&self, n: Id) -> bool {
        match self.op(n) {
            Op::Reduce(ReduceOp::Add) => self.bound(n) != 0,
            Op::Binary(Binary::Add) => self.src(n).iter().all(|&s| self.is_block(s)),
            _ => false,
        }
    }

    /// Begins with nothing rounded away.
    pub(super) fn start_carry(&mut self, n: Id, ty: Ty) {
        if !self.carries(n) {
            return;
        }
        self.p.accs.push(ty);
        let acc = Acc(self.p.accs.len() as u32 - 1);
        self.carries.insert(n, acc);
        let a = self.emit(ty.dtype, ty.lanes, |dst| Inst::Const { dst, bits: 0 });
        self.p.insts.push(Inst::SetAcc { acc, a });
    }

    /// Adds what `old + b` has rounded away to make `new`.
    pub(super) fn carry(&mut self, n: Id, ty: Ty, [old, b, new]: [Reg; 3]) {
        let Some(&acc) = self.carries.get(&n) else {
            return;
        };
        let mut two =
            |op, a, b| self.emit(ty.dtype, ty.lanes, |dst| Inst::Binary { dst, op, a, b });
        let b_used = two(Binary::Sub, new, old);
        let old_used = two(Binary::Sub, new, b_used);
        let old_lost = two(Binary::Sub, old, old_used);
        let b_lost = two(Binary::Sub, b, b_used);
        let lost = two(Binary::Add, old_lost, b_lost);
        let before = self.emit(ty.dtype, ty.lanes, |dst| Inst::GetAcc { dst, acc });
        let a = self.emit(ty.dtype, ty.lanes, |dst| Inst::Binary {
            dst,
            op: Binary::Add,
            a: before,
            b: lost,
        });
        self.p.insts.push(Inst::SetAcc { acc, a });
    }

    /// A sum with what was rounded away.
    pub(super) fn carried(&mut self, n: Id, ty: Ty, sum: Reg) -> Reg {
        let Some(&acc) = self.carries.get(&n) else {
            return sum;
        };
        let (dtype, lanes) = (ty.dtype, ty.lanes);
        let lost = self.emit(dtype, lanes, |dst| Inst::GetAcc { dst, acc });
        let all = self.emit(dtype, lanes, |dst| Inst::Binary {
            dst,
            op: Binary::Add,
            a: sum,
            b: lost,
        });
        // Once the sum is infinite, what it has lost is no number.
        let number = self.emit(DType::Bool, lanes, |dst| Inst::Binary {
            dst,
            op: Binary::Eq,
            a: lost,
            b: lost,
        });
        self.emit(dtype, lanes, |dst| Inst::Select {
            dst,
            cond: number,
            a: all,
            b: sum,
        })
    }
}
