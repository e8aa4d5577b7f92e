//! Boxes of tensors: the arguments that describe them, and the instructions that copy them.

use drivers_spec::nv::tensor_map::DIMENSIONS;

use super::super::{Level, Linear};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, Id, Op, RangeKind};
use crate::lower::nest::bits;
use crate::lower::program::{Arg, BoxOf, Inst, Mem, Reg, Tensor};
use crate::lower::tensor::is_aligned;

/// Where the copies of iterations are waited for: barriers in local memory, of which an iteration takes the next one.
#[derive(Clone, Copy)]
pub(in super::super) struct Ring {
    mem: Mem,
    barriers: i64,
}

impl Linear<'_> {
    /// Whether the copies of a fence are boxes.
    pub(in super::super) fn boxed(&self, fence: Id) -> bool {
        let first = self.src(fence).first();
        first.is_some_and(|&s| matches!(self.op(s), Op::Box { .. }))
    }

    /// The tensors of which boxes are copied become arguments, behind all others.
    pub(in super::super) fn tensors(&mut self) -> Result<()> {
        let fences = self
            .order
            .iter()
            .copied()
            .filter(|&n| self.copies(n).is_some());
        let boxes: Vec<Id> = fences
            .filter(|&n| self.boxed(n))
            .flat_map(|n| self.src(n).to_vec())
            .collect();
        for n in boxes {
            let arg = Arg::Tensor(self.tensor(n)?);
            if self.p.args.contains(&arg) {
                continue;
            }
            while !is_aligned(&self.p.args) {
                self.p.args.push(Arg::Number { value: 0 });
            }
            self.p.args.push(arg);
        }
        Ok(())
    }

    fn tensor(&self, n: Id) -> Result<Tensor> {
        let src = self.src(n);
        let (Op::Box { rows }, Op::Param { slot }) = (self.op(n), self.op(src[2])) else {
            return self.invalid("the source of a box is not a buffer");
        };
        let mut dims = [[1, 0]; DIMENSIONS];
        let lists = src[4..].chunks_exact(3);
        let rank = lists.len();
        for (dim, list) in dims.iter_mut().zip(lists) {
            for (number, &at) in dim.iter_mut().zip(&list[1..]) {
                let Op::Const(bits) = self.op(at) else {
                    return self.invalid("a tensor of non-constant size");
                };
                *number = bits as i64;
            }
        }
        Ok(Tensor {
            slot,
            dtype: self.input.g.dtype(n),
            rank: rank as u8,
            dims,
            rows,
        })
    }

    /// The barriers of a fence, and what makes them.
    pub(in super::super) fn ring(&mut self, fence: Id) -> Ring {
        let early = self
            .copies(fence)
            .map_or(0, |(first, _)| first.len() as i64);
        // One is waited for while those of the next iterations have been started: powers of two are counted cheaply.
        let barriers = (early + 1).max(2) as u64;
        let barriers = barriers.next_power_of_two() as i64;
        let mem = Mem::Local(self.p.locals.len() as u32);
        self.p.locals.push((DType::U64, barriers as usize));
        let count = barriers as u32;
        self.p.insts.push(Inst::MbarrierInit { mem, count });
        self.p.insts.push(Inst::Barrier);
        let ring = Ring { mem, barriers };
        self.rings.insert(fence, ring);
        ring
    }

    /// Starts the copies of an iteration.
    pub(in super::super) fn fetch(
        &mut self,
        ring: Ring,
        iteration: Reg,
        boxes: &[Id],
    ) -> Result<()> {
        let Some(&first) = boxes.first() else {
            return Ok(());
        };
        let gate = self.src(first)[3];
        let mut list = Vec::new();
        for &n in boxes {
            let src = self.src(n).to_vec();
            if src[3] != gate {
                return self.invalid("boxes of one iteration under different conditions");
            }
            let wanted = Arg::Tensor(self.tensor(n)?);
            let Some(tensor) = self.p.args.iter().position(|arg| *arg == wanted) else {
                return self.invalid("the tensor of a box is not an argument");
            };
            let mut at = Vec::new();
            for &coordinate in src[4..].iter().step_by(3) {
                at.push(self.reg(coordinate, 1)?);
            }
            list.push(BoxOf {
                to: (self.memory(n)?, self.reg(src[1], 1)?),
                tensor: tensor as u32,
                at,
            });
        }
        let gate = self.reg(gate, 1)?;
        let (place, _) = self.turn(ring, iteration);
        self.p.insts.push(Inst::TmaLoad {
            barrier: (ring.mem, place),
            gate,
            boxes: list,
        });
        Ok(())
    }

    /// Waits for the copies of this iteration, and starts those of a later one.
    pub(in super::super) fn pass_boxes(
        &mut self,
        fence: Id,
        block: Level,
        early: i64,
        late: &[Id],
    ) -> Result<()> {
        let (Some(&ring), Some(range)) = (self.rings.get(&fence), block) else {
            return self.invalid("a fence has no copies for its first iteration");
        };
        let mut around = bits(self.input.above[range]);
        let groups = RangeKind::Global;
        let is_loop = |i| !matches!(self.op(self.input.ranges.ids[i]), Op::Range { kind, .. } if kind == groups);
        if around.any(is_loop) {
            // The turns of its barriers are counted from the first iteration of all.
            return self.invalid("boxes copied in nested loops");
        }
        let step = self.reg(self.input.ranges.ids[range], 1)?;
        let (place, odd) = self.turn(ring, step);
        self.p.insts.push(Inst::MbarrierWait {
            barrier: (ring.mem, place),
            odd,
        });
        // Everybody has read what is filled now: that of two iterations ago.
        self.p.insts.push(Inst::Barrier);
        let early = self.index_const(early);
        let next = self.index(Binary::Add, step, early);
        self.fetch(ring, next, late)
    }

    /// Which barrier an iteration has, and whether it has had an odd number of turns before.
    fn turn(&mut self, ring: Ring, iteration: Reg) -> (Reg, Reg) {
        let place = self.remainder(iteration, ring.barriers);
        let turns = self.quotient(iteration, ring.barriers);
        (place, self.remainder(turns, 2))
    }
}
