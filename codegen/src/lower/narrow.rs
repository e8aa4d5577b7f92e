//! Indices of 32 bits where 64 are not needed: vector units of GPUs have no arithmetic on 64 bits,
//! and addresses of a scalar base plus 32 bits cost nothing.
//!
//! Intervals of all index registers follow from the extents of loops, groups and work-items. What
//! fits becomes `I32`, with a conversion where something wider takes it. The index of a load or
//! store that cannot be negative becomes `U32`.

use hashbrown::HashMap;

use super::interval::{Interval, bounds, hull};
use super::program::{Inst, Program, Reg, Ty};
use crate::dtype::DType;
use crate::ir::{Binary, Unary};

/// Narrows the indices of a program.
pub fn narrow(p: &mut Program) {
    let insts = std::mem::take(&mut p.insts);
    let mut pass = Narrow {
        of: vec![None; p.regs.len()],
        alias: (0..p.regs.len() as u32).map(Reg).collect(),
        sums: HashMap::new(),
        unsigned: HashMap::new(),
        out: Vec::with_capacity(insts.len()),
        p,
    };
    for inst in insts {
        pass.inst(inst);
    }
    p.insts = pass.out;
}

struct Narrow<'a> {
    p: &'a mut Program,
    /// What each register can be; `None` if it is no index or unknown.
    of: Vec<Interval>,
    /// The register that stands for each.
    alias: Vec<Reg>,
    /// Indices that are another one plus a constant.
    sums: HashMap<Reg, (Reg, i64)>,
    /// Indices of 32 bits as unsigned ones, in the block that is being written.
    unsigned: HashMap<Reg, Reg>,
    out: Vec<Inst>,
}

fn fits(x: Interval) -> bool {
    x.is_some_and(|(a, b)| a >= i64::from(i32::MIN) && b <= i64::from(i32::MAX))
}

/// Values of an integer type, if they are few enough to be an index of 32 bits sometimes.
fn all_of(t: DType) -> Interval {
    match t {
        DType::Bool => Some((0, 1)),
        _ if t.is_int() && t.size() < 8 => {
            let (a, b) = crate::ir::scalar::int_limits(t);
            hull(&[a, b])
        }
        _ => None,
    }
}

impl Narrow<'_> {
    fn ty(&self, r: Reg) -> Ty {
        self.p.ty(r)
    }

    fn interval(&self, r: Reg) -> Interval {
        self.of[r.0 as usize]
    }

    fn new_reg(&mut self, dtype: DType, lanes: u32, interval: Interval) -> Reg {
        self.p.regs.push(Ty { dtype, lanes });
        self.of.push(interval);
        let reg = Reg(self.p.regs.len() as u32 - 1);
        self.alias.push(reg);
        reg
    }

    fn cast(&mut self, a: Reg, dtype: DType) -> Reg {
        let ty = self.ty(a);
        if ty.dtype == dtype {
            return a;
        }
        let dst = self.new_reg(dtype, ty.lanes, self.interval(a));
        self.out.push(Inst::Cast { dst, a });
        dst
    }

    /// The register as something other than an index takes it.
    fn wide(&mut self, r: Reg) -> Reg {
        let shrunk = self.ty(r).dtype == DType::I32 && self.interval(r).is_some();
        if shrunk { self.cast(r, DType::I64) } else { r }
    }

    /// The register in 32 bits, if it is there so.
    fn small(&self, r: Reg) -> Option<Reg> {
        let now = self.alias[r.0 as usize];
        let narrowed = self.ty(now).dtype == DType::I32 && self.interval(now).is_some();
        narrowed.then_some(now)
    }

    /// The index of a load or store.
    fn index(&mut self, r: Reg) -> Reg {
        let Some(now) = self.small(r) else {
            return self.wide(r);
        };
        match self.interval(now) {
            Some((a, _)) if a >= 0 => self.address(now),
            _ => now,
        }
    }

    /// An index that is not negative as `U32`. A constant that is added to one that is not negative
    /// either stays the last step: renderers find it there and put it into the access.
    fn address(&mut self, r: Reg) -> Reg {
        if let Some(&(base, more)) = self.sums.get(&r)
            && self.interval(base).is_some_and(|(a, _)| a >= 0)
        {
            let (a, lanes) = (self.positive(base), self.ty(r).lanes);
            let b = self.new_reg(DType::U32, 1, None);
            let bits = u64::from(more as u32);
            self.out.push(Inst::Const { dst: b, bits });
            let dst = self.new_reg(DType::U32, lanes, None);
            let op = Binary::Add;
            self.out.push(Inst::Binary { dst, op, a, b });
            return dst;
        }
        self.positive(r)
    }

    fn positive(&mut self, r: Reg) -> Reg {
        if let Some(&done) = self.unsigned.get(&r) {
            return done;
        }
        let dst = self.cast(r, DType::U32);
        self.unsigned.insert(r, dst);
        dst
    }

    /// After something that defines an index of 64 bits with known bounds: uses take it in 32.
    fn alias_small(&mut self, r: Reg, interval: Interval) {
        if fits(interval) {
            self.of[r.0 as usize] = interval;
            let small = self.cast(r, DType::I32);
            self.alias[r.0 as usize] = small;
        }
    }

    /// Makes the result of the next instruction 32 bits wide.
    fn shrink(&mut self, r: Reg, interval: Interval) {
        self.p.regs[r.0 as usize].dtype = DType::I32;
        self.of[r.0 as usize] = interval;
    }

    fn is_index(&self, r: Reg) -> bool {
        self.ty(r).dtype == DType::I64
    }

    fn both(&self, a: Reg, b: Reg) -> Option<[Reg; 2]> {
        Some([self.small(a)?, self.small(b)?])
    }

    fn inst(&mut self, inst: Inst) {
        if matches!(
            inst,
            Inst::Loop { .. } | Inst::Groups { .. } | Inst::Once | Inst::End
        ) {
            self.unsigned.clear();
        }
        match inst {
            Inst::Const { dst, bits } if self.is_index(dst) => {
                let x = bits as i64;
                if fits(Some((x, x))) {
                    self.shrink(dst, Some((x, x)));
                }
                self.out.push(inst);
            }
            Inst::Item { dst } => self.starts(inst, dst, self.p.items - 1),
            Inst::Lanes { dst } => {
                let last = i64::from(self.ty(dst).lanes) - 1;
                self.starts(inst, dst, last);
            }
            Inst::Loop { var, extent } => self.starts(inst, var, self.p.extent(extent) - 1),
            Inst::Groups { var } => self.starts(inst, var, self.p.groups - 1),
            Inst::Cast { dst, a } if self.is_index(dst) && !self.is_index(a) => {
                let a = self.wide(a);
                let interval = all_of(self.ty(a).dtype);
                self.out.push(Inst::Cast { dst, a });
                self.alias_small(dst, interval);
            }
            Inst::Splat { dst, a } if self.is_index(dst) => match self.small(a) {
                Some(a) => {
                    self.shrink(dst, self.interval(a));
                    self.out.push(Inst::Splat { dst, a });
                }
                None => {
                    let a = self.wide(a);
                    self.out.push(Inst::Splat { dst, a });
                }
            },
            Inst::Unary {
                dst,
                op: Unary::Neg,
                a,
            } if self.is_index(dst) => {
                let small = self.small(a);
                let interval = small
                    .and_then(|a| self.interval(a))
                    .and_then(|(x, y)| hull(&[-i128::from(x), -i128::from(y)]));
                let a = match small.filter(|_| fits(interval)) {
                    Some(a) => {
                        self.shrink(dst, interval);
                        a
                    }
                    None => self.wide(a),
                };
                let op = Unary::Neg;
                self.out.push(Inst::Unary { dst, op, a });
            }
            Inst::Binary { dst, op, a, b } => self.binary(dst, op, a, b),
            Inst::Select { dst, cond, a, b } if self.is_index(dst) => {
                let arms = self.both(a, b);
                let cond = self.wide(cond);
                let [a, b] = match arms {
                    Some([a, b]) => {
                        let all = self.interval(a).zip(self.interval(b));
                        let hull = all.map(|(x, y)| (x.0.min(y.0), x.1.max(y.1)));
                        self.shrink(dst, hull);
                        [a, b]
                    }
                    None => [self.wide(a), self.wide(b)],
                };
                self.out.push(Inst::Select { dst, cond, a, b });
            }
            // A conversion of an index to something else takes either width.
            Inst::Cast { dst, a } => {
                let a = self.small(a).unwrap_or(a);
                self.out.push(Inst::Cast { dst, a });
            }
            inst => {
                let inst = self.others(inst);
                self.out.push(inst);
            }
        }
    }

    fn starts(&mut self, inst: Inst, r: Reg, last: i64) {
        let interval = Some((0, last.max(0)));
        if fits(interval) {
            self.shrink(r, interval);
        }
        self.out.push(inst);
    }

    fn binary(&mut self, dst: Reg, op: Binary, a: Reg, b: Reg) {
        let indices = self.small(a).is_some() || self.is_index(a);
        if !indices {
            let (a, b) = (self.wide(a), self.wide(b));
            self.out.push(Inst::Binary { dst, op, a, b });
            return;
        }
        let found = self.both(a, b).and_then(|[a, b]| {
            let (x, y) = (self.interval(a)?, self.interval(b)?);
            let interval = match op.is_compare() {
                true => Some((0, 1)),
                false => bounds(op, x, y),
            };
            fits(interval).then_some((a, b, interval))
        });
        let (a, b) = match found {
            Some((a, b, interval)) => {
                if !op.is_compare() {
                    self.shrink(dst, interval);
                }
                if op == Binary::Add && self.ty(dst).lanes == 1 {
                    self.sum(dst, a, b);
                }
                (a, b)
            }
            None => (self.wide(a), self.wide(b)),
        };
        self.out.push(Inst::Binary { dst, op, a, b });
    }

    /// Keeps that `dst` is something plus a constant, if it is.
    fn sum(&mut self, dst: Reg, a: Reg, b: Reg) {
        let constant = |r| self.interval(r).and_then(|(x, y)| (x == y).then_some(x));
        let (of, more) = match (constant(a), constant(b)) {
            (None, Some(c)) => (a, c),
            (Some(c), None) => (b, c),
            _ => return,
        };
        let (base, before) = self.sums.get(&of).copied().unwrap_or((of, 0));
        self.sums.insert(dst, (base, before + more));
    }

    /// [`Self::wide`], in place.
    fn widen(&mut self, r: &mut Reg) {
        *r = self.wide(*r);
    }

    /// [`Self::index`], in place.
    fn reach(&mut self, r: &mut Reg) {
        *r = self.index(*r);
    }

    /// Instructions that take indices as what they were, but for addresses.
    fn others(&mut self, mut inst: Inst) -> Inst {
        match &mut inst {
            Inst::Load { index, gate, .. } => {
                self.reach(index);
                if let Some((gate, alt)) = gate {
                    self.widen(gate);
                    self.widen(alt);
                }
            }
            Inst::Store {
                index, value, gate, ..
            } => {
                self.reach(index);
                self.widen(value);
                gate.iter_mut().for_each(|r| self.widen(r));
            }
            Inst::Attempt { index, gate, .. } => {
                self.reach(index);
                gate.iter_mut().for_each(|r| self.widen(r));
            }
            Inst::Select { cond, a, b, .. } => {
                self.widen(cond);
                self.widen(a);
                self.widen(b);
            }
            Inst::Fma { a, b, c, .. } => {
                self.widen(a);
                self.widen(b);
                self.widen(c);
            }
            Inst::Commit { value: a }
            | Inst::Mask { count: a, .. }
            | Inst::Splat { a, .. }
            | Inst::Unary { a, .. }
            | Inst::Bitcast { a, .. }
            | Inst::Horizontal { a, .. }
            | Inst::SetAcc { a, .. } => self.widen(a),
            Inst::Copy {
                to,
                from,
                there,
                gate,
                ..
            } => {
                self.reach(&mut to.1);
                self.reach(&mut from.1);
                there.iter_mut().for_each(|r| self.widen(r));
                gate.iter_mut().for_each(|r| self.widen(r));
            }
            Inst::TmaLoad {
                barrier,
                gate,
                boxes,
            } => {
                self.reach(&mut barrier.1);
                self.widen(gate);
                for of in boxes {
                    self.reach(&mut of.to.1);
                    for r in &mut of.at {
                        *r = self.small(*r).unwrap_or(*r);
                    }
                }
            }
            Inst::MbarrierWait { barrier, odd } => {
                self.reach(&mut barrier.1);
                self.reach(odd);
            }
            Inst::MmaThere { at, .. } => {
                at.iter_mut().flatten().for_each(|r| self.reach(r));
            }
            _ => {}
        }
        inst
    }
}
