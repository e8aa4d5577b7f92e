//! Stores, also those that combine with what memory holds.

use hashbrown::HashMap;

use super::super::Linear;
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, Id, Op, ReduceOp, StoreMode};
use crate::lower::decomp;
use crate::lower::program::{Access, Inst, Mem, Reg};
use crate::rewrite::toposort;

impl Linear<'_> {
    /// `old op new` by the instructions of a decomposition.
    fn combine(&mut self, how: &decomp::Combination, lanes: u32, args: [Reg; 2]) -> Result<Reg> {
        let g = &how.graph;
        let mut regs: HashMap<Id, Reg> = HashMap::new();
        for n in toposort(g, how.result) {
            let reg = match g.op(n) {
                Op::Param { slot } => args[usize::from(slot.min(1))],
                op => {
                    let args: Vec<Reg> = g.src(n).iter().map(|s| regs[s]).collect();
                    self.arithmetic(op, g.dtype(n), lanes, &args)?
                }
            };
            regs.insert(n, reg);
        }
        Ok(regs[&how.result])
    }

    /// Stores the number of a check where it is outside: of several lanes the largest one.
    pub(super) fn check(&mut self, n: Id, [number, outside]: [Id; 2]) -> Result<()> {
        let mem = self.memory(n)?;
        let lanes = self.lanes(outside)?.max(self.lanes(number)?);
        let (mut value, mut gate) = (self.reg(number, lanes)?, self.reg(outside, lanes)?);
        if lanes > 1 {
            let least = self.emit(DType::I64, lanes, |dst| Inst::Const {
                dst,
                bits: i64::MIN as u64,
            });
            let found = self.emit(DType::I64, lanes, |dst| Inst::Select {
                dst,
                cond: gate,
                a: value,
                b: least,
            });
            let (max, any) = (ReduceOp::Max, ReduceOp::Or);
            value = self.emit(DType::I64, 1, |dst| Inst::Horizontal {
                dst,
                op: max,
                a: found,
            });
            gate = self.emit(DType::Bool, 1, |dst| Inst::Horizontal {
                dst,
                op: any,
                a: gate,
            });
        }
        let index = self.index_const(0);
        self.p.insts.push(Inst::Store {
            mode: StoreMode::Set,
            mem,
            index,
            access: Access::Contiguous,
            value,
            gate: Some(gate),
        });
        Ok(())
    }

    pub(super) fn access(&self, n: Id) -> Access {
        self.input
            .lanes
            .access
            .get(&n)
            .map_or(Access::Contiguous, |a| a.0)
    }

    /// Stores a value where `src` says, which are the operands of store `n`.
    pub(super) fn store(
        &mut self,
        n: Id,
        mut mode: StoreMode,
        lanes: u32,
        src: &[Id],
        mut value: Reg,
    ) -> Result<()> {
        let mem = self.memory(n)?;
        let access = self.access(n);
        if let StoreMode::Atomic(_) = mode
            && lanes > 1
        {
            return self.invalid("an atomic store of several lanes");
        }
        if access == Access::Gather && mode != StoreMode::Set {
            return self.invalid("a combining store whose lanes may alias");
        }
        let linear = self
            .input
            .lanes
            .access
            .get(&n)
            .is_some_and(|a| a.1 != self.src(n)[1]);
        if lanes > 1 && access == Access::Contiguous && !linear {
            return self.invalid("all lanes of a store write the same element");
        }
        let wide = if access == Access::Gather { lanes } else { 1 };
        let index = self.reg(src[0], wide)?;
        let mut gate = match src.get(2) {
            Some(&gate) => Some(self.reg(gate, lanes)?),
            None => None,
        };
        gate = self.for_one_item(n, lanes, gate)?;
        let dtype = self.input.g.dtype(n);
        if let StoreMode::Atomic(op) = mode
            && !self.input.caps.atomics.one_step(op, dtype)
        {
            return self.attempt(op, dtype, (mem, index), value, gate);
        }
        if let StoreMode::Combine(op) = mode
            && let Some(how) = decomp::combination(op.binary(), dtype, self.input.caps)
        {
            let old = self.emit(dtype, lanes, |dst| Inst::Load {
                dst,
                mem,
                index,
                access,
                gate: gate.map(|gate| (gate, value)),
            });
            value = self.combine(&how, lanes, [old, value])?;
            mode = StoreMode::Set;
        }
        self.p.insts.push(Inst::Store {
            mode,
            mem,
            index,
            access,
            value,
            gate,
        });
        Ok(())
    }

    /// The gate of a store that one work-item makes along each dimension that it does not depend on.
    fn for_one_item(&mut self, n: Id, lanes: u32, mut gate: Option<Reg>) -> Result<Option<Reg>> {
        let own: Vec<(i64, i64)> = self
            .items
            .iter()
            .filter(|(r, _)| self.input.ranges.bit(**r) & self.input.free[&n] != 0)
            .map(|(_, &dim)| dim)
            .collect();
        for (stride, extent) in self.item_stores.clone() {
            if own.contains(&(stride, extent)) {
                continue;
            }
            let item = self.emit(DType::I64, 1, |dst| Inst::Item { dst });
            let at = self.coordinate(item, stride, extent);
            let zero = self.index_const(0);
            let first = self.emit(DType::Bool, 1, |dst| Inst::Binary {
                dst,
                op: Binary::Eq,
                a: at,
                b: zero,
            });
            let first = self.widen(first, lanes)?;
            gate = Some(match gate {
                Some(gate) => self.emit(DType::Bool, lanes, |dst| Inst::Binary {
                    dst,
                    op: Binary::And,
                    a: gate,
                    b: first,
                }),
                None => first,
            });
        }
        Ok(gate)
    }

    /// Combines with one element: tries again where somebody else has written to it meanwhile.
    fn attempt(
        &mut self,
        op: ReduceOp,
        dtype: DType,
        (mem, index): (Mem, Reg),
        value: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        let old = self.emit(dtype, 1, |dst| Inst::Attempt {
            dst,
            mem,
            index,
            gate,
        });
        let value = match decomp::combination(op.binary(), dtype, self.input.caps) {
            Some(how) => self.combine(&how, 1, [old, value])?,
            None => self.emit(dtype, 1, |dst| Inst::Binary {
                dst,
                op: op.binary(),
                a: old,
                b: value,
            }),
        };
        self.p.insts.push(Inst::Commit { value });
        Ok(())
    }
}
