//! Writes the instructions of the items, block by block.

mod boxes;
mod carry;
mod exchange;
mod fence;
mod memory;
mod place;
mod store;

pub(super) use boxes::Ring;
use hashbrown::{HashMap, HashSet};

use super::{Item, Level, Linear, Link, Product};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::mma::MmaDesc;
use crate::ir::{Binary, Id, Op, RangeKind, ReduceOp, Unary};
use crate::lower::nest::{Set, bits};
use crate::lower::program::{Acc, Access, Arg, Extent, Inst, Reg, Ty};

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
            return self.invalid(format!("node {} is used before it is emitted", n.0));
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
    pub(super) fn block(&mut self, block: Level) -> Result<()> {
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

    fn item(&mut self, block: Level, item: Item) -> Result<()> {
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
            Item::Early(n) => self.stage_first(n)?,
            Item::Late(n) => self.stage_next(n)?,
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
            let bits = crate::ir::scalar::identity(op, dtype);
            let a = self.emit(dtype, lanes, |dst| Inst::Const { dst, bits });
            self.p.insts.push(Inst::SetAcc { acc, a });
            self.start_carry(n, Ty { dtype, lanes });
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
            let extent = Extent::Known(extent);
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
            return self.invalid("a reduction is updated outside its loop");
        };
        let Ty { dtype, lanes } = self.p.accs[acc.0 as usize];
        if let Some(links) = self.chain(n)
            && let Some(desc) = links.iter().find_map(|l| l.product.in_memory())
        {
            let operands: Vec<[Id; 2]> = links.iter().map(|l| [l.a, l.b]).collect();
            return self.multiply_there(acc, desc, &operands);
        }
        let old = self.emit(dtype, lanes, |dst| Inst::GetAcc { dst, acc });
        let Some(links) = self.chain(n) else {
            let b = self.reg(self.src(n)[0], lanes)?;
            let op = op.binary();
            let new = self.emit(dtype, lanes, |dst| Inst::Binary { dst, op, a: old, b });
            self.p.insts.push(Inst::SetAcc { acc, a: new });
            self.carry(n, Ty { dtype, lanes }, [old, b, new]);
            return Ok(());
        };
        let mut new = old;
        for Link { product, a, b } in links {
            if let Product::Matrices(desc) = product {
                new = self.multiply(desc, a, b, new)?;
                continue;
            }
            let (a, b, c) = (self.reg(a, lanes)?, self.reg(b, lanes)?, new);
            new = self.emit(dtype, lanes, |dst| match product {
                Product::Bytes => Inst::Dot { dst, a, b, c },
                _ => Inst::Fma { dst, a, b, c },
            });
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

    fn reduce(&mut self, n: Id, op: ReduceOp) -> Result<Reg> {
        let dtype = self.input.g.dtype(n);
        let inner = self.lanes_of_set(self.reduce_lanes(n))?;
        let outer = self.lanes(n)?;
        self.settle();
        let mut value = match self.accs.get(&n) {
            Some(&acc) => {
                let sum = self.emit(dtype, inner, |dst| Inst::GetAcc { dst, acc });
                let ty = Ty {
                    dtype,
                    lanes: inner,
                };
                self.carried(n, ty, sum)
            }
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

    fn node(&mut self, n: Id) -> Result<()> {
        let dtype = self.input.g.dtype(n);
        let lanes = self.lanes(n)?;
        let src: Vec<Id> = self.operands(n);
        if let Some(&(count, positive)) = self.input.lanes.masks.get(&n) {
            let mask = self.mask(lanes, count, positive)?;
            self.regs.insert(n, mask);
            return Ok(());
        }
        let reg = match self.op(n) {
            Op::Var { slot, .. } => self.var(dtype, slot)?,
            Op::Range {
                kind: RangeKind::Vec,
                ..
            } => self.emit(dtype, lanes, |dst| Inst::Lanes { dst }),
            // Loop variables and work-items have their registers.
            Op::Range { .. } | Op::Param { .. } | Op::Local { .. } => return Ok(()),
            Op::Fence { .. } => return self.pass(n),
            // Its instruction has the matrix.
            Op::Operand(_) => self.reg(src[0], 1)?,
            Op::Mma(desc) if desc.in_memory() => {
                let a = self.reg(src[2], lanes)?;
                self.p.accs.push(Ty { dtype, lanes });
                let acc = Acc(self.p.accs.len() as u32 - 1);
                self.p.insts.push(Inst::SetAcc { acc, a });
                self.multiply_there(acc, desc, &[[src[0], src[1]]])?;
                self.settle();
                self.emit(dtype, lanes, |dst| Inst::GetAcc { dst, acc })
            }
            Op::Mma(desc) => {
                let c = self.reg(src[2], lanes)?;
                self.multiply(desc, src[0], src[1], c)?
            }
            Op::Load => self.load(n, lanes, &src)?,
            Op::Reduce(op) => self.reduce(n, op)?,
            Op::Scan(op) => self.scan(n, op, lanes)?,
            Op::Check => {
                self.check(n, [src[1], src[2]])?;
                self.reg(src[0], lanes)?
            }
            Op::Store(mode) => {
                let value = self.reg(src[1], lanes)?;
                return self.store(n, mode, lanes, &src, value);
            }
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

    /// Lanes that are true (or not) below a count.
    fn mask(&mut self, lanes: u32, count: Id, positive: bool) -> Result<Reg> {
        let count = self.reg(count, 1)?;
        let mask = self.emit(DType::Bool, lanes, |dst| Inst::Mask { dst, count });
        if positive {
            return Ok(mask);
        }
        Ok(self.emit(DType::Bool, lanes, |dst| Inst::Unary {
            dst,
            op: Unary::Not,
            a: mask,
        }))
    }

    fn var(&mut self, dtype: DType, wanted: u16) -> Result<Reg> {
        let found = self
            .p
            .args
            .iter()
            .position(|a| matches!(a, Arg::Var { slot } if *slot == wanted));
        let Some(arg) = found else {
            return self.invalid(format!("variable {wanted} is not an argument"));
        };
        Ok(self.emit(dtype, 1, |dst| Inst::Var {
            dst,
            arg: arg as u32,
        }))
    }

    fn load(&mut self, n: Id, lanes: u32, src: &[Id]) -> Result<Reg> {
        let mem = self.memory(n)?;
        let access = self.access(n);
        let wide = if access == Access::Gather { lanes } else { 1 };
        let mut index = self.reg(src[0], wide)?;
        if let (&[_, gate, _], Access::Contiguous, true) = (src, access, lanes > 1) {
            index = self.masked_index(gate, index)?;
        }
        let gate = match *src {
            [_, gate, alt] => Some((self.reg(gate, lanes)?, self.reg(alt, lanes)?)),
            _ => None,
        };
        Ok(self.emit(self.input.g.dtype(n), lanes, |dst| Inst::Load {
            dst,
            mem,
            index,
            access,
            gate,
        }))
    }

    fn scan(&mut self, n: Id, op: ReduceOp, lanes: u32) -> Result<Reg> {
        let Some(&acc) = self.accs.get(&n) else {
            return self.invalid("a scan outside its loop");
        };
        let dtype = self.input.g.dtype(n);
        let b = self.reg(self.src(n)[0], lanes)?;
        let a = self.emit(dtype, lanes, |dst| Inst::GetAcc { dst, acc });
        let op = op.binary();
        let a = self.emit(dtype, lanes, |dst| Inst::Binary { dst, op, a, b });
        self.p.insts.push(Inst::SetAcc { acc, a });
        Ok(a)
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
            (Op::Dot, &[a, b, c]) => Inst::Dot { dst, a, b, c },
            (Op::Cast, &[a]) => Inst::Cast { dst, a },
            (Op::Bitcast, &[a]) => Inst::Bitcast { dst, a },
            _ => return self.invalid(format!("{op:?} of {} operands", args.len())),
        });
        Ok(dst)
    }
}
