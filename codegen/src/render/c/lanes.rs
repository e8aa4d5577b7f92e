//! Dialects without vectors: every lane is a variable, and an instruction is spelled once for each. What is contiguous is
//! read and written together where its address allows.

use super::{Dialect, Text, scalar};
use crate::error::Result;
use crate::ir::{ReduceOp, StoreMode};
use crate::lower::{Access, Inst, Mem, Reg, Ty};
use crate::render::factors::splat;

impl Text<'_> {
    /// An instruction, once for each of its lanes.
    pub(super) fn each_lane(&mut self, inst: &Inst) -> Result<()> {
        let lanes = |r: &Reg| self.p.ty(*r).lanes;
        let lanes = match inst {
            Inst::Load {
                dst,
                mem,
                index,
                access: Access::Contiguous,
                gate,
            } if lanes(dst) > 1 => match gate {
                None => {
                    self.load_wide(*dst, *mem, *index);
                    return Ok(());
                }
                Some((gate, alt)) => match splat(self.p, *gate) {
                    Some(gate) => {
                        self.load_gated(*dst, *mem, *index, gate, *alt);
                        return Ok(());
                    }
                    None => lanes(dst),
                },
            },
            Inst::Store {
                mode: StoreMode::Set,
                mem,
                index,
                access: Access::Contiguous,
                value,
                gate,
            } if lanes(value) > 1 => match gate {
                None => {
                    self.store_wide(*mem, *index, *value);
                    return Ok(());
                }
                Some(gate) => match splat(self.p, *gate) {
                    Some(gate) => {
                        let gate = self.r(gate);
                        self.line(format!("if ({gate}) {{"));
                        self.depth += 1;
                        self.store_wide(*mem, *index, *value);
                        self.depth -= 1;
                        self.line("}");
                        return Ok(());
                    }
                    None => lanes(value),
                },
            },
            Inst::Horizontal { dst, op, a } => return self.fold(*dst, *op, *a),
            other if self.dialect == Dialect::Cuda && self.of_cuda(other)? => return Ok(()),
            Inst::Store { value, .. } => lanes(value),
            Inst::SetAcc { a, .. } => lanes(a),
            other => other.dst().map_or(1, |dst| lanes(&dst)),
        };
        for lane in 0..lanes {
            self.lane = lane;
            self.inst(inst)?;
        }
        self.lane = 0;
        Ok(())
    }

    /// The element of the lane that is spelled.
    pub(super) fn element(&self, mem: Mem, index: Reg, access: Access) -> String {
        let (at, i) = (Self::place(mem), self.r(index));
        let lane = i64::from(self.lane);
        let further = match access {
            Access::Contiguous => lane,
            Access::Strided(by) => by.wrapping_mul(lane),
            Access::Gather => 0,
        };
        match further {
            0 => format!("{at}[{i}]"),
            _ => format!("({at} + {i})[{further}]"),
        }
    }

    /// Declares the lanes of a register.
    pub(super) fn declare(&mut self, reg: Reg) -> Vec<String> {
        let Ty { dtype, lanes } = self.p.ty(reg);
        let names: Vec<String> = (0..lanes).map(|i| format!("r{}_{i}", reg.0)).collect();
        self.line(format!("{} {};", scalar(dtype), names.join(", ")));
        names
    }

    fn load_wide(&mut self, dst: Reg, mem: Mem, index: Reg) {
        let names = self.declare(dst);
        self.read(&names, self.p.ty(dst), mem, index);
    }

    fn load_gated(&mut self, dst: Reg, mem: Mem, index: Reg, gate: Reg, alt: Reg) {
        let names = self.declare(dst);
        let gate = self.r(gate);
        self.line(format!("if ({gate}) {{"));
        self.depth += 1;
        self.read(&names, self.p.ty(dst), mem, index);
        self.depth -= 1;
        self.line("} else {");
        for (lane, name) in (0..).zip(&names) {
            self.lane = lane;
            let alt = self.r(alt);
            self.line(format!("  {name} = {alt};"));
        }
        self.lane = 0;
        self.line("}");
    }

    fn read(&mut self, names: &[String], ty: Ty, mem: Mem, index: Reg) {
        match self.dialect {
            Dialect::OpenCl => self.read_vectors(names, ty, mem, index),
            _ => self.read_structures(names, ty, mem, index),
        }
    }

    fn store_wide(&mut self, mem: Mem, index: Reg, value: Reg) {
        match self.dialect {
            Dialect::OpenCl => self.store_vectors(mem, index, value),
            _ => self.store_structures(mem, index, value),
        }
    }

    /// Folds halves of the lanes onto each other, as the other dialects do; an odd number one by one.
    fn fold(&mut self, dst: Reg, op: ReduceOp, a: Reg) -> Result<()> {
        let Ty { dtype, lanes } = self.p.ty(a);
        let one = Ty { dtype, lanes: 1 };
        let mut names: Vec<String> = match lanes {
            1 => vec![format!("r{}", a.0)],
            _ => (0..lanes).map(|i| format!("r{}_{i}", a.0)).collect(),
        };
        let mut made = 0;
        while names.len() > 1 {
            let half = match names.len() {
                n if n % 2 == 0 => n / 2,
                n => n - 1,
            };
            for i in half..names.len() {
                let to = i - half;
                let Some(sum) = self.expression(one, op.binary(), &names[to], &names[i])? else {
                    return self.unsupported(format!("reduction by {op:?}"));
                };
                let name = format!("h{}_{made}", dst.0);
                made += 1;
                self.line(format!("{} {name} = {sum};", scalar(dtype)));
                names[to] = name;
            }
            names.truncate(half);
        }
        self.define(dst, &names[0]);
        Ok(())
    }
}
