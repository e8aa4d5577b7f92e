//! Folds what is known of a linear program: constants, conditions, sums of constants, values that are computed twice, and
//! accumulators that are read where their value is at hand. What nobody reads after that is removed.
//!
//! An index that is another one and a constant gets the constant as its last step, where renderers look for it, and all
//! of those share the rest. Floats are not computed here: the machine may flush denormal ones.

use hashbrown::{HashMap, HashSet};

use super::interval::Intervals;
use super::program::{Acc, Inst, Program, Reg, Ty};
use crate::dtype::DType;
use crate::ir::{Binary, ReduceOp, Unary, scalar};

/// Folds a program.
pub fn fold(p: &mut Program) {
    let insts = std::mem::take(&mut p.insts);
    let mut pass = Fold {
        now: (0..p.regs.len() as u32).map(Reg).collect(),
        constants: vec![None; p.regs.len()],
        sums: HashMap::new(),
        intervals: Intervals::new(p),
        known: vec![HashMap::new()],
        accs: HashMap::new(),
        waits: HashMap::new(),
        out: Vec::with_capacity(insts.len()),
        p,
    };
    for inst in insts {
        pass.inst(inst);
    }
    let out = pass.out;
    p.insts = out.into_iter().flatten().collect();
    sweep(p);
}

/// What computes a value of its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    Const(u64),
    Var(u32),
    Lanes,
    Mask,
    Item,
    Splat,
    Unary(Unary),
    Binary(Binary),
    Select,
    Fma,
    Cast,
    Bitcast,
    Horizontal(ReduceOp),
}

/// A value: two with the same are one.
type Key = (What, Ty, [Option<Reg>; 3]);

struct Fold<'a> {
    p: &'a mut Program,
    /// The register that stands for each.
    now: Vec<Reg>,
    /// The bits of all lanes.
    constants: Vec<Option<u64>>,
    /// Registers that are another one and a constant.
    sums: HashMap<Reg, (Reg, i64)>,
    intervals: Intervals,
    /// Values that are there, for each block that is open.
    known: Vec<HashMap<Key, Reg>>,
    /// What accumulators have, and where that was set without being read since, in the block that is written.
    accs: HashMap<Acc, Reg>,
    waits: HashMap<Acc, usize>,
    /// What is left out later is none.
    out: Vec<Option<Inst>>,
}

/// The integers whose sums are put together.
fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64 | DType::U32)
}

fn key(inst: &Inst, ty: Ty) -> Option<Key> {
    let (what, operands) = match *inst {
        Inst::Const { bits, .. } => (What::Const(bits), [None; 3]),
        Inst::Var { arg, .. } => (What::Var(arg), [None; 3]),
        Inst::Lanes { .. } => (What::Lanes, [None; 3]),
        Inst::Item { .. } => (What::Item, [None; 3]),
        Inst::Mask { count, .. } => (What::Mask, [Some(count), None, None]),
        Inst::Splat { a, .. } => (What::Splat, [Some(a), None, None]),
        Inst::Unary { op, a, .. } => (What::Unary(op), [Some(a), None, None]),
        Inst::Cast { a, .. } => (What::Cast, [Some(a), None, None]),
        Inst::Bitcast { a, .. } => (What::Bitcast, [Some(a), None, None]),
        Inst::Horizontal { op, a, .. } => (What::Horizontal(op), [Some(a), None, None]),
        Inst::Binary { op, a, b, .. } => (What::Binary(op), [Some(a), Some(b), None]),
        Inst::Select { cond, a, b, .. } => (What::Select, [Some(cond), Some(a), Some(b)]),
        Inst::Fma { a, b, c, .. } => (What::Fma, [Some(a), Some(b), Some(c)]),
        _ => return None,
    };
    Some((what, ty, operands))
}

impl Fold<'_> {
    fn constant(&self, r: Reg) -> Option<u64> {
        self.constants[r.0 as usize]
    }

    /// The value of an integer.
    fn number(&self, r: Reg) -> Option<i64> {
        let dtype = self.p.ty(r).dtype;
        let bits = self.constant(r).filter(|_| !dtype.is_float())?;
        i64::try_from(scalar::to_int(dtype, bits)).ok()
    }

    fn register(&mut self, ty: Ty) -> Reg {
        self.p.regs.push(ty);
        self.constants.push(None);
        let new = Reg(self.p.regs.len() as u32 - 1);
        self.now.push(new);
        new
    }

    /// Writes an instruction that computes a value, or takes the one that is there.
    fn value(&mut self, inst: Inst) {
        let Some(dst) = inst.dst() else { return };
        let key = key(&inst, self.p.ty(dst));
        let found = key.and_then(|key| self.known.iter().find_map(|k| k.get(&key).copied()));
        if let Some(found) = found {
            self.now[dst.0 as usize] = found;
            return;
        }
        if let (Some(key), Some(open)) = (key, self.known.last_mut()) {
            open.insert(key, dst);
        }
        if let Inst::Const { bits, .. } = inst {
            self.constants[dst.0 as usize] = Some(bits);
        }
        self.out.push(Some(inst));
    }

    /// The register of a value that is new, or there.
    fn made(&mut self, ty: Ty, inst: impl FnOnce(Reg) -> Inst) -> Reg {
        let dst = self.register(ty);
        let inst = inst(dst);
        self.intervals.see(self.p, &inst);
        self.value(inst);
        self.now[dst.0 as usize]
    }

    /// A register that is another one and a constant.
    fn offset(&mut self, dst: Reg, base: Reg, more: i64) {
        if more == 0 {
            self.now[dst.0 as usize] = base;
            return;
        }
        let ty = self.p.ty(dst);
        let bits = scalar::from_int(ty.dtype, i128::from(more));
        let b = self.made(ty, |dst| Inst::Const { dst, bits });
        let (op, a) = (Binary::Add, base);
        self.value(Inst::Binary { dst, op, a, b });
        if self.now[dst.0 as usize] == dst {
            self.sums.insert(dst, (base, more));
        }
    }

    /// A register as another one and a constant, one of which may be missing.
    fn parts(&self, r: Reg) -> (Option<Reg>, i64) {
        match (self.number(r), self.sums.get(&r)) {
            (Some(n), _) => (None, n),
            (None, Some(&(base, more))) => (Some(base), more),
            (None, None) => (Some(r), 0),
        }
    }

    /// An operation on indices as a register and a constant, if that is less than it was.
    fn sum(&mut self, op: Binary, ty: Ty, a: Reg, b: Reg) -> Option<(Reg, i64)> {
        let ((xa, ma), (xb, mb)) = (self.parts(a), self.parts(b));
        let (more, operands) = match (op, xa, xb) {
            (Binary::Add, Some(x), None) | (Binary::Add, None, Some(x)) => {
                return self.whole(ty, x, ma.checked_add(mb)?);
            }
            (Binary::Sub, Some(x), None) => return self.whole(ty, x, ma.checked_sub(mb)?),
            (Binary::Add, Some(x), Some(y)) => (ma.checked_add(mb)?, [x, y]),
            (Binary::Sub, Some(x), Some(y)) => (ma.checked_sub(mb)?, [x, y]),
            (Binary::Mul, Some(x), None) => (ma.checked_mul(mb)?, [x, b]),
            (Binary::Mul, None, Some(y)) => (ma.checked_mul(mb)?, [a, y]),
            _ => return None,
        };
        if operands == [a, b] {
            return None;
        }
        // Nothing may wrap that did not before: addresses are wider.
        if ty.dtype == DType::U32 {
            return None;
        }
        let [a, b] = operands;
        let base = self.made(ty, |dst| Inst::Binary { dst, op, a, b });
        Some((base, more))
    }

    /// A register and a constant, if their sum does not wrap where it must not.
    fn whole(&self, ty: Ty, base: Reg, more: i64) -> Option<(Reg, i64)> {
        let fits = |(_, most): (i64, i64)| more >= 0 && most + more <= i64::from(u32::MAX);
        let wraps = ty.dtype == DType::U32 && !self.intervals.of(base).is_some_and(fits);
        (!wraps).then_some((base, more))
    }

    fn inst(&mut self, mut inst: Inst) {
        inst.registers(&mut |r, defines| {
            if !defines {
                *r = self.now[r.0 as usize];
            }
        });
        self.intervals.see(self.p, &inst);
        if inst.opens() || inst.closes() {
            match inst.opens() {
                true => self.known.push(HashMap::new()),
                false => drop(self.known.pop()),
            }
            self.accs.clear();
            self.waits.clear();
            self.out.push(Some(inst));
            return;
        }
        match inst {
            Inst::Binary { dst, op, a, b } => self.binary(dst, op, a, b),
            Inst::Cast { dst, a } => self.cast(dst, a),
            Inst::Splat { dst, a } => {
                self.constants[dst.0 as usize] = self.constant(a);
                self.value(inst);
            }
            Inst::Mask { dst, count } => {
                let lanes = i64::from(self.p.ty(dst).lanes);
                match self.number(count) {
                    Some(n) if n >= lanes => self.value(Inst::Const { dst, bits: 1 }),
                    Some(n) if n <= 0 => self.value(Inst::Const { dst, bits: 0 }),
                    _ => self.value(inst),
                }
            }
            Inst::Select { dst, cond, a, b } => match self.constant(cond) {
                Some(0) => self.now[dst.0 as usize] = b,
                Some(_) => self.now[dst.0 as usize] = a,
                None => self.value(inst),
            },
            Inst::GetAcc { dst, acc } => match self.accs.get(&acc) {
                Some(&value) => self.now[dst.0 as usize] = value,
                None => {
                    self.accs.insert(acc, dst);
                    self.out.push(Some(inst));
                }
            },
            Inst::SetAcc { acc, a } => {
                let before = self.waits.insert(acc, self.out.len());
                if let Some(at) = before
                    && let Some(slot) = self.out.get_mut(at)
                {
                    *slot = None;
                }
                self.accs.insert(acc, a);
                self.out.push(Some(inst));
            }
            inst => self.others(inst),
        }
    }

    /// Conditions of accesses; and what is not looked into.
    fn others(&mut self, mut inst: Inst) {
        match &mut inst {
            Inst::Load { dst, gate, .. } => {
                if let Some((condition, alt)) = *gate {
                    match self.constants[condition.0 as usize] {
                        Some(0) => {
                            self.now[dst.0 as usize] = alt;
                            return;
                        }
                        Some(_) => *gate = None,
                        None => {}
                    }
                }
            }
            Inst::Store { gate, .. } => match gate.map(|g| self.constants[g.0 as usize]) {
                Some(Some(0)) => return,
                Some(Some(_)) => *gate = None,
                _ => {}
            },
            // The machine has the accumulators then.
            Inst::MmaThere { .. } | Inst::WgmmaWait { .. } => {
                self.accs.clear();
                self.waits.clear();
            }
            _ => {}
        }
        match key(&inst, Program::INDEX) {
            Some(_) => self.value(inst),
            None => self.out.push(Some(inst)),
        }
    }

    fn cast(&mut self, dst: Reg, a: Reg) {
        let (from, ty) = (self.p.ty(a).dtype, self.p.ty(dst));
        if let Some(bits) = self.constant(a)
            && !from.is_float()
            && !ty.dtype.is_float()
        {
            let bits = scalar::cast(from, ty.dtype, bits);
            return self.value(Inst::Const { dst, bits });
        }
        // The sum of what is not negative.
        if let (DType::I32, DType::U32, Some(&(base, more))) = (from, ty.dtype, self.sums.get(&a))
            && ty.lanes == 1
            && self.intervals.of(base).is_some_and(|(least, most)| {
                least >= 0 && more > 0 && most + more <= i64::from(i32::MAX)
            })
        {
            let base = self.made(ty, |dst| Inst::Cast { dst, a: base });
            return self.offset(dst, base, more);
        }
        self.value(Inst::Cast { dst, a });
    }

    fn binary(&mut self, dst: Reg, op: Binary, a: Reg, b: Reg) {
        let (of, ty) = (self.p.ty(a).dtype, self.p.ty(dst));
        if of.is_float() {
            return self.value(Inst::Binary { dst, op, a, b });
        }
        if let (Some(x), Some(y)) = (self.constant(a), self.constant(b))
            && let Some(bits) = scalar::binary(op, of, x, y)
        {
            return self.value(Inst::Const { dst, bits });
        }
        if let Some(truth) = self.compared(op, a, b) {
            let bits = u64::from(truth);
            return self.value(Inst::Const { dst, bits });
        }
        match (op, self.number(a), self.number(b)) {
            (Binary::Mul | Binary::TruncDiv | Binary::FloorDiv, _, Some(1))
            | (Binary::Add | Binary::Sub, _, Some(0)) => return self.now[dst.0 as usize] = a,
            (Binary::Mul, Some(1), _) | (Binary::Add, Some(0), _) if of != DType::Bool => {
                return self.now[dst.0 as usize] = b;
            }
            (Binary::Mul, Some(0), _) | (Binary::Mul, _, Some(0)) => {
                return self.value(Inst::Const { dst, bits: 0 });
            }
            (Binary::And, Some(1), _) if of == DType::Bool => {
                return self.now[dst.0 as usize] = b;
            }
            (Binary::And, _, Some(1)) if of == DType::Bool => {
                return self.now[dst.0 as usize] = a;
            }
            (Binary::And, Some(0), _) | (Binary::And, _, Some(0)) => {
                return self.value(Inst::Const { dst, bits: 0 });
            }
            _ => {}
        }
        if is_index(of)
            && ty.lanes == 1
            && let Some((base, more)) = self.sum(op, ty, a, b)
        {
            return self.offset(dst, base, more);
        }
        self.value(Inst::Binary { dst, op, a, b });
    }

    /// A comparison that intervals decide.
    fn compared(&self, op: Binary, a: Reg, b: Reg) -> Option<bool> {
        let (x, y) = (self.intervals.of(a)?, self.intervals.of(b)?);
        let apart = x.1 < y.0 || x.0 > y.1;
        match op {
            Binary::Lt if x.1 < y.0 => Some(true),
            Binary::Lt if x.0 >= y.1 => Some(false),
            Binary::Eq if apart => Some(false),
            Binary::Ne if apart => Some(true),
            _ => None,
        }
    }
}

/// Removes what nobody reads.
fn sweep(p: &mut Program) {
    let read: HashSet<Acc> = p
        .insts
        .iter()
        .filter_map(|inst| match inst {
            Inst::GetAcc { acc, .. } | Inst::MmaThere { acc, .. } => Some(*acc),
            _ => None,
        })
        .collect();
    let mut used = vec![false; p.regs.len()];
    let mut kept = Vec::with_capacity(p.insts.len());
    for inst in std::mem::take(&mut p.insts).into_iter().rev() {
        let needed = match (&inst, inst.dst()) {
            (Inst::SetAcc { acc, .. }, _) => read.contains(acc),
            (Inst::Load { .. } | Inst::GetAcc { .. } | Inst::Dot { .. }, Some(dst)) => {
                used[dst.0 as usize]
            }
            (_, Some(dst)) => key(&inst, Program::INDEX).is_none() || used[dst.0 as usize],
            (_, None) => true,
        };
        if needed {
            for r in inst.reads() {
                used[r.0 as usize] = true;
            }
            kept.push(inst);
        }
    }
    kept.reverse();
    p.insts = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::StoreMode;
    use crate::lower::{Access, Arg, Extent, Mem};

    /// A program of registers of some types, which stores the last one.
    fn program(regs: &[(DType, u32)], mut insts: Vec<Inst>) -> Program {
        let index = Reg(regs.len() as u32);
        let value = Reg(index.0 - 1);
        insts.push(Inst::Const {
            dst: index,
            bits: 0,
        });
        insts.push(Inst::Store {
            mode: StoreMode::Set,
            mem: Mem::Arg(0),
            index,
            access: Access::Contiguous,
            value,
            gate: None,
        });
        let mut types: Vec<Ty> = regs
            .iter()
            .map(|&(dtype, lanes)| Ty { dtype, lanes })
            .collect();
        types.push(Program::INDEX);
        Program {
            name: "fold".into(),
            args: vec![Arg::Buffer {
                slot: 0,
                dtype: DType::F32,
                len: 1024,
                written: true,
            }],
            locals: Vec::new(),
            groups: 1,
            items: 64,
            regs: types,
            accs: vec![Ty {
                dtype: DType::F32,
                lanes: 1,
            }],
            insts,
        }
    }

    fn folded(regs: &[(DType, u32)], insts: Vec<Inst>) -> Vec<Inst> {
        let mut p = program(regs, insts);
        fold(&mut p);
        p.insts
    }

    fn two(dst: u32, op: Binary, a: u32, b: u32) -> Inst {
        let [dst, a, b] = [dst, a, b].map(Reg);
        Inst::Binary { dst, op, a, b }
    }

    fn number(dst: u32, bits: u64) -> Inst {
        Inst::Const {
            dst: Reg(dst),
            bits,
        }
    }

    fn load(dst: u32, index: u32) -> Inst {
        Inst::Load {
            dst: Reg(dst),
            mem: Mem::Arg(0),
            index: Reg(index),
            access: Access::Contiguous,
            gate: None,
        }
    }

    /// `(item + 2) * 4 + 3` as an index is `item * 4` and 11, and so is `item * 4 + 11`.
    #[test]
    fn constants_of_indices_come_last() {
        let (i, u, f) = ((DType::I32, 1), (DType::U32, 1), (DType::F32, 1));
        let regs = [i, i, i, i, i, i, i, u, f, i, i, u, f, f];
        let insts = folded(
            &regs,
            vec![
                Inst::Item { dst: Reg(0) },
                number(1, 2),
                two(2, Binary::Add, 0, 1),
                number(3, 4),
                two(4, Binary::Mul, 2, 3),
                number(5, 3),
                two(6, Binary::Add, 4, 5),
                Inst::Cast {
                    dst: Reg(7),
                    a: Reg(6),
                },
                load(8, 7),
                two(9, Binary::Mul, 0, 3),
                number(10, 12),
                Inst::Cast {
                    dst: Reg(11),
                    a: Reg(9),
                },
                load(12, 11),
                two(13, Binary::Add, 8, 12),
            ],
        );
        let texts: Vec<String> = insts.iter().map(|i| format!("{i:?}")).collect();
        let all = texts.join("\n");
        let count = |what: &str| texts.iter().filter(|t| t.starts_with(what)).count();
        assert_eq!(
            (count("Binary"), count("Cast"), count("Load")),
            (3, 1, 2),
            "{all}"
        );
        let indices = insts.iter().filter_map(|i| match i {
            Inst::Load { index, .. } => Some(*index),
            _ => None,
        });
        let [far, near] = indices.collect::<Vec<_>>().try_into().unwrap();
        let sum = insts.iter().find(|i| i.dst() == Some(far));
        assert!(
            matches!(sum, Some(Inst::Binary { op: Binary::Add, a, .. }) if *a == near),
            "{all}"
        );
    }

    #[test]
    fn an_index_that_may_be_negative_stays_whole() {
        let (i, u, f) = ((DType::I32, 1), (DType::U32, 1), (DType::F32, 1));
        // (item - 5) + 8: the sum without 8 is negative.
        let insts = folded(
            &[i, i, i, i, i, i, i, u, f],
            vec![
                Inst::Item { dst: Reg(0) },
                number(1, 5),
                two(2, Binary::Sub, 0, 1),
                number(3, 60),
                two(4, Binary::Min, 2, 3),
                number(5, 8),
                two(6, Binary::Add, 4, 5),
                Inst::Cast {
                    dst: Reg(7),
                    a: Reg(6),
                },
                load(8, 7),
            ],
        );
        let cast = insts.iter().find_map(|i| match i {
            Inst::Cast { a, .. } => Some(*a),
            _ => None,
        });
        assert_eq!(cast, Some(Reg(6)), "{insts:?}");
    }

    #[test]
    fn accumulators_are_read_at_hand() {
        let f = (DType::F32, 1);
        let set = |a| Inst::SetAcc {
            acc: Acc(0),
            a: Reg(a),
        };
        let get = |dst| Inst::GetAcc {
            dst: Reg(dst),
            acc: Acc(0),
        };
        let insts = folded(
            &[f, f, f, f, f],
            vec![
                number(0, 0),
                set(0),
                get(1),
                number(2, 5),
                two(3, Binary::Add, 1, 2),
                set(3),
                get(4),
            ],
        );
        let accs = |i: &Inst| matches!(i, Inst::SetAcc { .. } | Inst::GetAcc { .. });
        assert!(!insts.iter().any(accs), "{insts:?}");
        // Not across a loop, which may come back.
        let i = (DType::I64, 1);
        let body = vec![
            number(0, 0),
            set(0),
            Inst::Loop {
                var: Reg(5),
                extent: Extent::Known(3),
            },
            get(1),
            number(2, 5),
            two(3, Binary::Add, 1, 2),
            set(3),
            Inst::End,
            get(6),
        ];
        let insts = folded(&[f, f, f, f, f, i, f], body);
        assert_eq!(insts.iter().filter(|i| accs(i)).count(), 4, "{insts:?}");
    }

    #[test]
    fn conditions_that_are_known_are_gone() {
        let (i, f, b) = ((DType::I64, 1), (DType::F32, 1), (DType::Bool, 1));
        let insts = folded(
            &[i, i, b, f, f],
            vec![
                Inst::Item { dst: Reg(0) },
                number(1, 64),
                two(2, Binary::Lt, 0, 1),
                number(3, 0),
                Inst::Load {
                    dst: Reg(4),
                    mem: Mem::Arg(0),
                    index: Reg(0),
                    access: Access::Contiguous,
                    gate: Some((Reg(2), Reg(3))),
                },
            ],
        );
        let gated = |i: &Inst| matches!(i, Inst::Load { gate: Some(_), .. });
        assert!(!insts.iter().any(gated), "{insts:?}");
    }
}
