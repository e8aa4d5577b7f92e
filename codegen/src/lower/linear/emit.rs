//! Writes the instructions of the items, block by block.

mod exchange;

use hashbrown::{HashMap, HashSet};

use super::{Block, Item, Linear, Link};
use crate::DType;
use crate::error::Result;
use crate::ir::mma::MmaDesc;
use crate::ir::{Binary, Id, Op, RangeKind, ReduceOp, StoreMode, Unary};
use crate::lower::decomp;
use crate::lower::nest::{Set, bits};
use crate::lower::program::{Acc, Access, Arg, Inst, Mem, Reg, Ty};
use crate::rewrite::toposort;

impl Linear<'_> {
    fn new_reg(&mut self, dtype: DType, lanes: u32) -> Reg {
        self.p.regs.push(Ty { dtype, lanes });
        Reg(self.p.regs.len() as u32 - 1)
    }

    fn emit(&mut self, dtype: DType, lanes: u32, make: impl FnOnce(Reg) -> Inst) -> Reg {
        let dst = self.new_reg(dtype, lanes);
        self.p.insts.push(make(dst));
        dst
    }

    fn lanes_of_set(&self, set: Set) -> Result<u32> {
        let mut found = bits(set & self.input.ranges.lanes);
        let first = found.next();
        if found.next().is_some() {
            return self.invalid("a value depends on two lane indices");
        }
        Ok(match first.map(|i| self.op(self.input.ranges.ids[i])) {
            Some(Op::Range { extent, .. }) => extent as u32,
            _ => 1,
        })
    }

    fn lanes(&self, n: Id) -> Result<u32> {
        self.lanes_of_set(self.input.free[&n])
    }

    /// The register of a node, widened to a number of lanes.
    fn reg(&mut self, n: Id, lanes: u32) -> Result<Reg> {
        let Some(&reg) = self.regs.get(&n) else {
            return self.invalid(format!("node {} is used before it is made", n.0));
        };
        self.widen(reg, lanes)
    }

    fn widen(&mut self, reg: Reg, lanes: u32) -> Result<Reg> {
        let ty = self.p.ty(reg);
        if ty.lanes == lanes {
            return Ok(reg);
        }
        if ty.lanes != 1 {
            return self.invalid(format!("{} lanes used as {lanes}", ty.lanes));
        }
        if let Some(&wide) = self.splats.get(&(reg, lanes)) {
            return Ok(wide);
        }
        let wide = self.emit(ty.dtype, lanes, |dst| Inst::Splat { dst, a: reg });
        self.splats.insert((reg, lanes), wide);
        Ok(wide)
    }

    fn index_const(&mut self, value: i64) -> Reg {
        self.emit(DType::I64, 1, |dst| Inst::Const {
            dst,
            bits: value as u64,
        })
    }

    /// Work-item coordinates and lane numbers, which are the same everywhere.
    pub(super) fn prologue(&mut self) {
        let mut ranges: Vec<(Id, i64, i64)> = self
            .items
            .iter()
            .map(|(&r, &(stride, extent))| (r, stride, extent))
            .collect();
        ranges.sort();
        if ranges.is_empty() {
            return;
        }
        let item = self.emit(DType::I64, 1, |dst| Inst::Item { dst });
        for (range, stride, extent) in ranges {
            let reg = self.coordinate(item, stride, extent);
            self.regs.insert(range, reg);
        }
    }

    fn coordinate(&mut self, item: Reg, stride: i64, extent: i64) -> Reg {
        let q = self.quotient(item, stride);
        if stride * extent == self.p.items {
            return q;
        }
        self.remainder(q, extent)
    }

    /// `a / n` of something that is not negative.
    fn quotient(&mut self, a: Reg, n: i64) -> Reg {
        match n {
            1 => a,
            _ if n.count_ones() == 1 => {
                let b = self.index_const(i64::from(n.trailing_zeros()));
                self.index(Binary::Shr, a, b)
            }
            _ => {
                let b = self.index_const(n);
                self.index(Binary::FloorDiv, a, b)
            }
        }
    }

    /// `a % n` of something that is not negative.
    fn remainder(&mut self, a: Reg, n: i64) -> Reg {
        if n.count_ones() == 1 {
            let b = self.index_const(n - 1);
            return self.index(Binary::And, a, b);
        }
        let b = self.index_const(n);
        self.index(Binary::FloorMod, a, b)
    }

    /// Emits the items of a block, each after what it needs. Blocks nest as deep as there are
    /// ranges, at most 128.
    pub(super) fn block(&mut self, block: Block) -> Result<()> {
        let mut state: HashMap<Item, bool> = HashMap::new();
        let mut stack: Vec<Item> = self.seeds.get(&block).cloned().unwrap_or_default();
        stack.reverse();
        while let Some(&item) = stack.last() {
            match state.get(&item) {
                Some(true) => {
                    stack.pop();
                    continue;
                }
                Some(false) => {
                    stack.pop();
                    state.insert(item, true);
                    self.item(block, item)?;
                    continue;
                }
                None => {}
            }
            state.insert(item, false);
            let needs = self.before.get(&item).cloned().unwrap_or_default();
            for need in needs.into_iter().rev() {
                match state.get(&need) {
                    Some(true) => {}
                    Some(false) if stack.contains(&need) && self.cyclic(item, need) => {
                        return self.invalid("loops depend on each other");
                    }
                    _ => stack.push(need),
                }
            }
        }
        Ok(())
    }

    /// True if `from` is needed, directly or not, by its own need.
    fn cyclic(&self, from: Item, need: Item) -> bool {
        let mut seen = HashSet::new();
        let mut stack = vec![need];
        while let Some(item) = stack.pop() {
            if item == from {
                return true;
            }
            if seen.insert(item) {
                stack.extend(self.before.get(&item).into_iter().flatten().copied());
            }
        }
        false
    }

    fn item(&mut self, block: Block, item: Item) -> Result<()> {
        let stores = match item {
            Item::Node(n) => matches!(self.op(n), Op::Store(_)),
            Item::Loop(range) => self.with_store.contains(&range),
            Item::Update(_) | Item::Early(_) | Item::Late(_) => false,
        };
        let global = match item {
            Item::Loop(range) => matches!(
                self.op(self.input.ranges.ids[range]),
                Op::Range {
                    kind: RangeKind::Global,
                    ..
                }
            ),
            _ => false,
        };
        // What does not belong to any group is done by the call that has the first one.
        let once = block.is_none() && stores && !global && self.p.groups > 1;
        let kept = self.splats.clone();
        if once {
            self.p.insts.push(Inst::Once);
        }
        match item {
            Item::Node(n) => self.node(n)?,
            Item::Update(n) => self.update(n)?,
            Item::Early(n) => self.fill(self.fills(n).0.to_vec())?,
            Item::Late(n) => self.fill(self.fills(n).1.to_vec())?,
            Item::Loop(range) => self.enter(range, global)?,
        }
        if once {
            self.p.insts.push(Inst::End);
            self.splats = kept;
        }
        Ok(())
    }

    fn enter(&mut self, range: usize, global: bool) -> Result<()> {
        for n in self.starts.get(&range).cloned().unwrap_or_default() {
            let (op, dtype) = match self.op(n) {
                Op::Reduce(op) | Op::Scan(op) => (op, self.input.g.dtype(n)),
                _ => continue,
            };
            let lanes = match self.op(n) {
                Op::Reduce(_) => self.lanes_of_set(self.reduce_lanes(n))?,
                _ => self.lanes(n)?,
            };
            self.p.accs.push(Ty { dtype, lanes });
            let acc = Acc(self.p.accs.len() as u32 - 1);
            self.accs.insert(n, acc);
            let bits = crate::interp::scalar::identity(op, dtype);
            let a = self.emit(dtype, lanes, |dst| Inst::Const { dst, bits });
            self.p.insts.push(Inst::SetAcc { acc, a });
        }
        let id = self.input.ranges.ids[range];
        let extent = match self.op(id) {
            Op::Range { extent, .. } => extent,
            _ => 1,
        };
        let var = self.new_reg(DType::I64, 1);
        self.regs.insert(id, var);
        self.p.insts.push(if global {
            Inst::Groups { var }
        } else {
            Inst::Loop { var, extent }
        });
        let kept = self.splats.clone();
        self.block(Some(range))?;
        self.splats = kept;
        self.p.insts.push(Inst::End);
        Ok(())
    }

    /// The lanes of the accumulator of a reduction: those of the value and those reduced over.
    fn reduce_lanes(&self, n: Id) -> Set {
        self.input.free[&self.src(n)[0]] | self.input.ranges.bits(&self.src(n)[1..])
    }

    fn update(&mut self, n: Id) -> Result<()> {
        let Op::Reduce(op) = self.op(n) else {
            return Ok(());
        };
        let Some(&acc) = self.accs.get(&n) else {
            return self.invalid("a reduction is updated outside of its loop");
        };
        let Ty { dtype, lanes } = self.p.accs[acc.0 as usize];
        let old = self.emit(dtype, lanes, |dst| Inst::GetAcc { dst, acc });
        let Some(links) = self.chain(n) else {
            let b = self.reg(self.src(n)[0], lanes)?;
            let op = op.binary();
            let new = self.emit(dtype, lanes, |dst| Inst::Binary { dst, op, a: old, b });
            self.p.insts.push(Inst::SetAcc { acc, a: new });
            return Ok(());
        };
        let mut new = old;
        for Link { matrix, a, b } in links {
            new = match matrix {
                Some(desc) => self.multiply(desc, a, b, new)?,
                None => {
                    let (a, b) = (self.reg(a, lanes)?, self.reg(b, lanes)?);
                    self.emit(dtype, lanes, |dst| Inst::Fma { dst, a, b, c: new })
                }
            };
        }
        self.p.insts.push(Inst::SetAcc { acc, a: new });
        Ok(())
    }

    fn multiply(&mut self, desc: MmaDesc, a: Id, b: Id, c: Reg) -> Result<Reg> {
        let [in_a, in_b, in_c] = desc.elements();
        let (a, b) = (self.reg(a, in_a)?, self.reg(b, in_b)?);
        let c = self.widen(c, in_c)?;
        Ok(self.emit(desc.acc, in_c, |dst| Inst::Mma { dst, desc, a, b, c }))
    }

    /// Waits until local memory is filled; fills it unless that was done ahead.
    fn pass(&mut self, fence: Id, ahead: bool) -> Result<()> {
        if !ahead {
            // The readers of what was there are done.
            self.p.insts.push(Inst::Barrier);
            self.fill(self.src(fence).to_vec())?;
        }
        self.p.insts.push(Inst::Barrier);
        Ok(())
    }

    fn fill(&mut self, stores: Vec<Id>) -> Result<()> {
        for store in stores {
            let lanes = self.lanes(store)?;
            let src = self.operands(store);
            self.store(store, StoreMode::Set, lanes, &src)?;
        }
        Ok(())
    }

    fn reduce(&mut self, n: Id, op: ReduceOp) -> Result<Reg> {
        let dtype = self.input.g.dtype(n);
        let inner = self.lanes_of_set(self.reduce_lanes(n))?;
        let outer = self.lanes(n)?;
        let mut value = match self.accs.get(&n) {
            Some(&acc) => self.emit(dtype, inner, |dst| Inst::GetAcc { dst, acc }),
            None => self.reg(self.src(n)[0], inner)?,
        };
        let bound = self.input.ranges.bits(&self.src(n)[1..]);
        if bound & self.input.ranges.lanes != 0 {
            value = self.emit(dtype, 1, |dst| Inst::Horizontal { dst, op, a: value });
        }
        let groups: Vec<Id> = self.src(n)[1..]
            .iter()
            .copied()
            .filter(|r| self.items.contains_key(r))
            .collect();
        for range in groups {
            value = self.group_reduce(value, op, range, dtype, outer)?;
        }
        Ok(value)
    }

    fn index(&mut self, op: Binary, a: Reg, b: Reg) -> Reg {
        self.emit(DType::I64, 1, |dst| Inst::Binary { dst, op, a, b })
    }

    fn memory(&mut self, n: Id) -> Result<Mem> {
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
            _ => return self.invalid("access through something that is not a buffer argument"),
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
    fn masked_index(&mut self, gate: Id, index: Reg) -> Result<Reg> {
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

    fn node(&mut self, n: Id) -> Result<()> {
        let dtype = self.input.g.dtype(n);
        let lanes = self.lanes(n)?;
        let src: Vec<Id> = self.operands(n);
        if let Some(&(count, positive)) = self.input.lanes.masks.get(&n) {
            let count = self.reg(count, 1)?;
            let mut mask = self.emit(DType::Bool, lanes, |dst| Inst::Mask { dst, count });
            if !positive {
                let a = mask;
                mask = self.emit(DType::Bool, lanes, |dst| Inst::Unary {
                    dst,
                    op: Unary::Not,
                    a,
                });
            }
            self.regs.insert(n, mask);
            return Ok(());
        }
        let reg = match self.op(n) {
            Op::Var { slot: wanted, .. } => {
                let found = self
                    .p
                    .args
                    .iter()
                    .position(|a| matches!(a, Arg::Var { slot } if *slot == wanted));
                let Some(arg) = found else {
                    return self.invalid(format!("variable {wanted} is not an argument"));
                };
                self.emit(dtype, 1, |dst| Inst::Var {
                    dst,
                    arg: arg as u32,
                })
            }
            Op::Range {
                kind: RangeKind::Vec,
                ..
            } => self.emit(dtype, lanes, |dst| Inst::Lanes { dst }),
            // Loop variables and work-items have their registers.
            Op::Range { .. } | Op::Param { .. } | Op::Local { .. } => return Ok(()),
            Op::Fence { ahead } => return self.pass(n, ahead > 0),
            Op::Mma(desc) => {
                let c = self.reg(src[2], lanes)?;
                self.multiply(desc, src[0], src[1], c)?
            }
            Op::Load => {
                let mem = self.memory(n)?;
                let access = self.access(n);
                let wide = if access == Access::Gather { lanes } else { 1 };
                let mut index = self.reg(src[0], wide)?;
                if let (&[_, gate, _], Access::Contiguous, true) = (&src[..], access, lanes > 1) {
                    index = self.masked_index(gate, index)?;
                }
                let gate = match src[..] {
                    [_, gate, alt] => Some((self.reg(gate, lanes)?, self.reg(alt, lanes)?)),
                    _ => None,
                };
                self.emit(dtype, lanes, |dst| Inst::Load {
                    dst,
                    mem,
                    index,
                    access,
                    gate,
                })
            }
            Op::Reduce(op) => self.reduce(n, op)?,
            Op::Scan(op) => {
                let Some(&acc) = self.accs.get(&n) else {
                    return self.invalid("a scan outside of its loop");
                };
                let b = self.reg(src[0], lanes)?;
                let a = self.emit(dtype, lanes, |dst| Inst::GetAcc { dst, acc });
                let op = op.binary();
                let a = self.emit(dtype, lanes, |dst| Inst::Binary { dst, op, a, b });
                self.p.insts.push(Inst::SetAcc { acc, a });
                a
            }
            Op::Store(mode) => return self.store(n, mode, lanes, &src),
            op => {
                let mut args = Vec::new();
                for &s in &src {
                    args.push(self.reg(s, lanes)?);
                }
                self.arithmetic(op, dtype, lanes, &args)?
            }
        };
        self.regs.insert(n, reg);
        Ok(())
    }

    /// What has no more to it than its operands, which are as wide as the result.
    fn arithmetic(&mut self, op: Op, dtype: DType, lanes: u32, args: &[Reg]) -> Result<Reg> {
        let dst = self.new_reg(dtype, lanes);
        self.p.insts.push(match (op, args) {
            (Op::Const(bits), []) => Inst::Const { dst, bits },
            (Op::Unary(op), &[a]) => Inst::Unary { dst, op, a },
            (Op::Binary(op), &[a, b]) => Inst::Binary { dst, op, a, b },
            (Op::Where, &[cond, a, b]) => Inst::Select { dst, cond, a, b },
            (Op::Fma, &[a, b, c]) => Inst::Fma { dst, a, b, c },
            (Op::Cast, &[a]) => Inst::Cast { dst, a },
            (Op::Bitcast, &[a]) => Inst::Bitcast { dst, a },
            _ => return self.invalid(format!("{op:?} of {} operands", args.len())),
        });
        Ok(dst)
    }

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

    fn access(&self, n: Id) -> Access {
        self.input
            .lanes
            .access
            .get(&n)
            .map_or(Access::Contiguous, |a| a.0)
    }

    fn store(&mut self, n: Id, mut mode: StoreMode, lanes: u32, src: &[Id]) -> Result<()> {
        let mem = self.memory(n)?;
        let access = self.access(n);
        if access == Access::Gather && mode != StoreMode::Set {
            return self.invalid("a combining store whose lanes may meet in memory");
        }
        let linear = self
            .input
            .lanes
            .access
            .get(&n)
            .is_some_and(|a| a.1 != self.src(n)[1]);
        if lanes > 1 && access == Access::Contiguous && !linear {
            return self.invalid("all lanes of a store go to one element");
        }
        let wide = if access == Access::Gather { lanes } else { 1 };
        let index = self.reg(src[0], wide)?;
        let mut value = self.reg(src[1], lanes)?;
        let mut gate = match src.get(2) {
            Some(&gate) => Some(self.reg(gate, lanes)?),
            None => None,
        };
        // One work-item along each dimension that the store does not depend on.
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
        let dtype = self.input.g.dtype(n);
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
}
