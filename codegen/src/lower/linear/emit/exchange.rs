//! Reductions over the work-items of a group, through local memory.

use super::Linear;
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, Id, ReduceOp, StoreMode};
use crate::lower::program::{Access, Inst, Mem, Reg};

impl Linear<'_> {
    /// Combines the partial results of the work-items along one dimension through local memory, in
    /// steps of up to sixteen of them. All work-items add in the same order, so all have the same.
    pub(super) fn group_reduce(
        &mut self,
        partial: Reg,
        op: ReduceOp,
        range: Id,
        dtype: DType,
        lanes: u32,
    ) -> Result<Reg> {
        let Some(&(stride, extent)) = self.items.get(&range) else {
            return self.invalid("a group reduction without work-items");
        };
        let Some(&own) = self.regs.get(&range) else {
            return self.invalid("a work-item range without coordinate");
        };
        // Every round begins with a barrier, so reductions of one type share a block.
        let block = (dtype, self.p.items as usize * lanes as usize);
        let mem = match self.exchange.get(&block) {
            Some(&mem) => mem,
            None => {
                let mem = Mem::Local(self.p.locals.len() as u32);
                self.p.locals.push(block);
                self.exchange.insert(block, mem);
                mem
            }
        };
        let item = self.emit(DType::I64, 1, |dst| Inst::Item { dst });
        let width = self.index_const(i64::from(lanes));
        let index = self.index(Binary::Mul, item, width);
        let mut value = partial;
        // Work-items that are `near` apart have different values, those further apart the same.
        let mut near = 1;
        for radix in radices(extent) {
            // The readers of an earlier round are done before the block is written again.
            self.p.insts.push(Inst::Barrier);
            self.p.insts.push(Inst::Store {
                mode: StoreMode::Set,
                mem,
                index,
                access: Access::Contiguous,
                value,
                gate: None,
            });
            self.p.insts.push(Inst::Barrier);
            // The digit of this step is 0 in the first one.
            let digit = self.quotient(own, near);
            let digit = self.remainder(digit, radix);
            let step = self.index_const(near * stride);
            let offset = self.index(Binary::Mul, digit, step);
            let first = self.index(Binary::Sub, item, offset);
            let mut all = Vec::new();
            for i in 0..radix {
                let n = self.index_const(i * near * stride);
                let other = self.index(Binary::Add, first, n);
                let index = self.index(Binary::Mul, other, width);
                all.push(self.emit(dtype, lanes, |dst| Inst::Load {
                    dst,
                    mem,
                    index,
                    access: Access::Contiguous,
                    gate: None,
                }));
            }
            let op = op.binary();
            while all.len() > 1 {
                let mut next = Vec::with_capacity(all.len().div_ceil(2));
                for pair in all.chunks(2) {
                    next.push(match *pair {
                        [a, b] => self.emit(dtype, lanes, |dst| Inst::Binary { dst, op, a, b }),
                        _ => pair[0],
                    });
                }
                all = next;
            }
            value = all[0];
            near *= radix;
        }
        Ok(value)
    }
}

/// Factors of a number of work-items: as few steps as there can be with at most sixteen values in
/// each, but for large primes.
fn radices(extent: i64) -> Vec<i64> {
    let mut out = Vec::new();
    let mut left = extent.max(1);
    while left > 1 {
        let even = [16, 8].into_iter().find(|r| left > 16 && left % r == 0);
        let small = (2..=16).rev().find(|r| left % r == 0);
        let radix = even.or(small).unwrap_or(left);
        out.push(radix);
        left /= radix;
    }
    out
}
