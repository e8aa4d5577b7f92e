//! Fences: local memory is filled, and what they get ahead waits in accumulators.

use super::Linear;
use crate::error::Result;
use crate::ir::{Id, StoreMode};
use crate::lower::program::{Acc, Inst, Ty};

impl Linear<'_> {
    /// Fills local memory, and waits until everybody has.
    pub(super) fn pass(&mut self, fence: Id) -> Result<()> {
        let staged = self.staged.get(&fence).cloned();
        if staged.is_none() {
            // The readers of what was there are done.
            self.p.insts.push(Inst::Barrier);
        }
        let stores = self.fills(fence).0.to_vec();
        for (i, store) in stores.into_iter().enumerate() {
            let lanes = self.lanes(store)?;
            let src = self.operands(store);
            let value = match &staged {
                Some(staged) => {
                    let (acc, dtype) = (staged[i], self.input.g.dtype(store));
                    self.emit(dtype, lanes, |dst| Inst::GetAcc { dst, acc })
                }
                None => self.reg(src[1], lanes)?,
            };
            self.store(store, StoreMode::Set, lanes, &src, value)?;
        }
        self.p.insts.push(Inst::Barrier);
        Ok(())
    }

    /// Puts what a fence stores in the first iteration where it waits for it.
    pub(super) fn stage_first(&mut self, fence: Id) -> Result<()> {
        let mut staged = Vec::new();
        for store in self.fills(fence).0.to_vec() {
            let lanes = self.lanes(store)?;
            let dtype = self.input.g.dtype(store);
            let acc = Acc(self.p.accs.len() as u32);
            self.p.accs.push(Ty { dtype, lanes });
            let value = self.operands(store)[1];
            let a = self.reg(value, lanes)?;
            self.p.insts.push(Inst::SetAcc { acc, a });
            staged.push(acc);
        }
        self.staged.insert(fence, staged);
        Ok(())
    }

    /// The same for the next iteration.
    pub(super) fn stage_next(&mut self, fence: Id) -> Result<()> {
        let Some(staged) = self.staged.get(&fence).cloned() else {
            return self.invalid("a fence has nothing for its first iteration");
        };
        for (value, acc) in self.fills(fence).1.to_vec().into_iter().zip(staged) {
            let lanes = self.p.accs[acc.0 as usize].lanes;
            let a = self.reg(value, lanes)?;
            self.p.insts.push(Inst::SetAcc { acc, a });
        }
        Ok(())
    }
}
