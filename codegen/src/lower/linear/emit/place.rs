//! Products of matrices that instructions read in local memory, beside the work-items.

use super::Linear;
use crate::error::Result;
use crate::ir::mma::MmaDesc;
use crate::ir::{Id, Op};
use crate::lower::program::{Acc, Inst, Operand};

impl Linear<'_> {
    /// Adds the products of pairs of matrices to an accumulator.
    pub(super) fn multiply_there(
        &mut self,
        acc: Acc,
        desc: MmaDesc,
        operands: &[[Id; 2]],
    ) -> Result<()> {
        let Some(&[a, b]) = operands.first() else {
            return Ok(());
        };
        let sides = [self.operand(a)?, self.operand(b)?];
        let mut at = Vec::new();
        for &[a, b] in operands {
            if [self.operand(a)?, self.operand(b)?] != sides {
                return self.invalid("a sum of matrices in different blocks of local memory");
            }
            at.push([self.reg(a, 1)?, self.reg(b, 1)?]);
        }
        self.p.insts.push(Inst::MmaThere {
            acc,
            desc,
            operands: sides,
            at,
        });
        self.unsettled += 1;
        Ok(())
    }

    fn operand(&mut self, n: Id) -> Result<Operand> {
        match self.op(n) {
            Op::Operand(rows) => Ok(Operand {
                mem: self.memory(n)?,
                rows,
            }),
            _ => self.invalid("a matrix in local memory without an address"),
        }
    }

    /// What products were started has its sums.
    pub(super) fn settle(&mut self) {
        if std::mem::take(&mut self.unsettled) > 0 {
            self.p.insts.push(Inst::WgmmaWait { left: 0 });
        }
    }

    /// Whether instructions read in local memory.
    pub(super) fn reads_there(&self) -> bool {
        let place = |&n: &Id| matches!(self.op(n), Op::Operand(_));
        self.order.iter().any(place)
    }
}
