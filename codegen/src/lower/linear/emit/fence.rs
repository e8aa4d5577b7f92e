//! Fences: local memory is filled, and what they get ahead waits in accumulators.

use super::Linear;
use crate::error::Result;
use crate::ir::{Id, Op, StoreMode};
use crate::lower::program::{Acc, Access, Inst, Ty};

impl Linear<'_> {
    /// Fills local memory, and waits until everybody has.
    pub(super) fn pass(&mut self, fence: Id) -> Result<()> {
        let block = self.block_of(fence);
        let there = self.reads_there();
        if let Some((first, late)) = self.copies(fence) {
            let (early, late) = (first.len(), late.to_vec());
            if self.boxed(fence) {
                self.unsettled = 0;
                return self.pass_boxes(fence, block, early as i64, &late);
            }
            let left = early as u32 - 1;
            self.p.insts.push(Inst::Arrived { left });
            if there {
                self.p.insts.push(Inst::Expose);
            }
            // Everybody has read what is filled now: that of two iterations ago.
            self.p.insts.push(Inst::Barrier);
            self.unsettled = 0;
            return self.send(&late);
        }
        let staged = self.staged.get(&fence).cloned();
        if staged.is_none() {
            if there {
                self.p.insts.push(Inst::WgmmaWait { left: 0 });
            }
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
        if there {
            // Those that read the other slab, which is filled next.
            if staged.is_some() {
                self.p.insts.push(Inst::WgmmaWait { left: 0 });
            }
            self.p.insts.push(Inst::Expose);
        }
        self.p.insts.push(Inst::Barrier);
        Ok(())
    }

    /// Copies elements beside the work-items, as one group.
    fn send(&mut self, stores: &[Id]) -> Result<()> {
        for &store in stores {
            let load = self.src(store)[2];
            let lanes = self.lanes(store)?;
            let dtype = self.input.g.dtype(store);
            let (to, from) = (self.operands(store), self.operands(load));
            if self.op(load) != Op::Load {
                // Nothing there is an operand's.
                let value = self.reg(load, lanes)?;
                self.store(store, StoreMode::Set, lanes, &to, value)?;
                continue;
            }
            let both = [self.access(store), self.access(load)];
            if both != [Access::Contiguous; 2] {
                return self.invalid("a copy of non-contiguous elements");
            }
            let inst = Inst::Copy {
                ty: Ty { dtype, lanes },
                to: (self.memory(store)?, self.reg(to[0], 1)?),
                from: (self.memory(load)?, self.reg(from[0], 1)?),
                there: from.get(1).map(|&gate| self.reg(gate, 1)).transpose()?,
                gate: to.get(2).map(|&gate| self.reg(gate, 1)).transpose()?,
            };
            self.p.insts.push(inst);
        }
        self.p.insts.push(Inst::Sent);
        Ok(())
    }

    /// Puts what a fence stores in the first iteration where it waits for it.
    pub(super) fn stage_first(&mut self, fence: Id) -> Result<()> {
        if let Some((first, _)) = self.copies(fence) {
            let lists = first.map(<[Id]>::to_vec).collect::<Vec<_>>();
            let ring = self.boxed(fence).then(|| self.ring(fence));
            for (i, list) in lists.into_iter().enumerate() {
                match ring {
                    Some(ring) => {
                        let iteration = self.index_const(i as i64);
                        self.fetch(ring, iteration, &list)?;
                    }
                    None => self.send(&list)?,
                }
            }
            return Ok(());
        }
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
        if self.copies(fence).is_some() {
            // Those of this iteration are under way while the next one begins.
            if self.unsettled > 0 {
                let left = self.unsettled;
                self.p.insts.push(Inst::WgmmaWait { left });
            }
            return Ok(());
        }
        let Some(staged) = self.staged.get(&fence).cloned() else {
            return self.invalid("a fence has no copies for its first iteration");
        };
        for (value, acc) in self.fills(fence).1.to_vec().into_iter().zip(staged) {
            let lanes = self.p.accs[acc.0 as usize].lanes;
            let a = self.reg(value, lanes)?;
            self.p.insts.push(Inst::SetAcc { acc, a });
        }
        Ok(())
    }
}
