//! Where loads and stores go, and the stores themselves.

use super::Linear;
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, Id, Op};
use crate::lower::program::{Arg, Inst, Mem, Reg};

impl Linear<'_> {
    pub(super) fn memory(&mut self, n: Id) -> Result<Mem> {
        let pointer = self.src(n)[0];
        let wanted = match self.op(pointer) {
            Op::Param { slot } => slot,
            Op::Local { block, len } => {
                let new = Mem::Local(self.p.locals.len() as u32);
                let mem = *self.blocks.entry(block).or_insert(new);
                if mem == new {
                    let dtype = self.input.g.dtype(pointer);
                    self.p.locals.push((dtype, len as usize));
                }
                return Ok(mem);
            }
            _ => return self.invalid("memory access without a buffer argument"),
        };
        let found = self
            .p
            .args
            .iter()
            .position(|a| matches!(a, Arg::Buffer { slot, .. } if *slot == wanted));
        match found {
            Some(i) => Ok(Mem::Arg(i as u32)),
            None => self.invalid(format!("buffer {wanted} is not an argument")),
        }
    }

    /// The index of a masked vector access: 0 where the part of the gate that is the same for all
    /// lanes is false. Nothing is read there then, but processors take hundreds of cycles to find
    /// out that no lane of an address that is not mapped is wanted.
    pub(super) fn masked_index(&mut self, gate: Id, index: Reg) -> Result<Reg> {
        let mut pending = vec![gate];
        let mut all: Option<Reg> = None;
        while let Some(n) = pending.pop() {
            if self.input.free[&n] & self.input.ranges.lanes == 0 {
                if matches!(self.op(n), Op::Const(_)) {
                    continue;
                }
                let b = self.reg(n, 1)?;
                all = Some(match all {
                    Some(a) => self.emit(DType::Bool, 1, |dst| Inst::Binary {
                        dst,
                        op: Binary::And,
                        a,
                        b,
                    }),
                    None => b,
                });
            } else if self.op(n) == Op::Binary(Binary::And) {
                pending.extend_from_slice(self.src(n));
            }
        }
        let Some(cond) = all else {
            return Ok(index);
        };
        let zero = self.index_const(0);
        Ok(self.emit(DType::I64, 1, |dst| Inst::Select {
            dst,
            cond,
            a: index,
            b: zero,
        }))
    }
}
