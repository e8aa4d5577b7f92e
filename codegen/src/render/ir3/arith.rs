//! The instructions of a program, one by one.

use super::Select;
use super::build::Template;
use super::operand::{At, List, Opnd};
use super::wide::{self, Wide};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, ReduceOp, Unary};
use crate::ir3::virt::FULL;
use crate::lower::{Acc, Inst, Interval, Reg, Ty};

impl Select<'_> {
    /// Selects one.
    pub(super) fn inst(&mut self, inst: &Inst) -> Result<()> {
        match *inst {
            Inst::Const { dst, bits } => {
                let Ty { dtype, lanes } = self.ty(dst);
                self.has(dtype)?;
                let word = [Opnd::bits(bits as u32), Opnd::bits((bits >> 32) as u32)];
                let word = &word[..super::words(dtype)];
                self.define(dst, word.repeat(lanes as usize));
            }
            Inst::Var { dst, arg } => {
                let at = 2 * arg as u16;
                let list = [at, at + 1].map(|n| Opnd::new(At::Const(n)));
                let list = match super::words(self.ty(dst).dtype) {
                    2 => list.to_vec(),
                    _ => vec![list[0]],
                };
                self.define(dst, list);
            }
            Inst::Lanes { dst } => {
                let Ty { dtype, lanes } = self.ty(dst);
                let word = |n: u32| [Opnd::bits(n), Opnd::bits(0)];
                let words = super::words(dtype);
                let list = (0..lanes)
                    .flat_map(|n| word(n).into_iter().take(words))
                    .collect();
                self.define(dst, list);
            }
            Inst::Mask { dst, count } => self.mask(dst, count)?,
            Inst::Item { dst } => {
                let first = crate::machine::Part::of(self.item, 0);
                let item = match self.p.items {
                    1 => Opnd::bits(0),
                    _ => Opnd::part(first),
                };
                let list = [item, Opnd::bits(0)];
                self.define(dst, list[..super::words(self.ty(dst).dtype)].to_vec());
            }
            Inst::Splat { dst, a } => {
                let list = self.r(a)?;
                self.define(dst, list.repeat(self.ty(dst).lanes as usize));
            }
            Inst::Unary { dst, op, a } => self.unary(dst, op, a)?,
            Inst::Binary { dst, op, a, b } => self.binary_inst(dst, op, a, b)?,
            Inst::Select { dst, cond, a, b } => {
                let [cond, a, b] = [self.r(cond)?, self.r(a)?, self.r(b)?];
                let list = self.select_list(self.ty(dst).dtype, &cond, a, b);
                self.define(dst, list);
            }
            Inst::Fma { dst, a, b, c } => {
                let dtype = self.ty(dst).dtype;
                if dtype != DType::F32 {
                    return self.unsupported(format!("multiply-add of {dtype}"));
                }
                let [a, b, c] = [self.r(a)?, self.r(b)?, self.r(c)?];
                let list = self.fma(FULL, &a, &b, &c);
                self.define(dst, list);
            }
            Inst::Cast { dst, a } => {
                let list = self.cast(dst, a)?;
                self.define(dst, list);
            }
            Inst::Bitcast { dst, a } => {
                let list = self.bitcast(dst, a)?;
                self.define(dst, list);
            }
            Inst::Load {
                dst,
                mem,
                index,
                access,
                gate,
            } => self.load(dst, mem, index, access, gate)?,
            Inst::Store {
                mode,
                mem,
                index,
                access,
                value,
                gate,
            } => self.store(mode, mem, index, access, value, gate)?,
            Inst::Horizontal { dst, op, a } => self.fold(dst, op, a)?,
            Inst::SetAcc { acc, a } => {
                let dtype = self.ty(a).dtype;
                let list = self.r(a)?;
                let list = self.plain(super::class(dtype), list);
                let to = self.accumulator(acc);
                let template = copy(super::class(dtype));
                self.make_to(template, &to, &[&list]);
            }
            Inst::GetAcc { dst, acc } => {
                let dtype = self.ty(dst).dtype;
                let list: List = self.accumulator(acc).into_iter().map(Opnd::part).collect();
                // What is read does not change when the accumulator does.
                let list = self.make(copy(super::class(dtype)), &[&list]);
                self.define(dst, list);
            }
            Inst::Loop { .. }
            | Inst::Groups { .. }
            | Inst::Once
            | Inst::End
            | Inst::Attempt { .. }
            | Inst::Commit { .. }
            | Inst::Barrier => self.control(inst)?,
            Inst::Dot { .. }
            | Inst::Mma { .. }
            | Inst::MmaThere { .. }
            | Inst::WgmmaWait { .. }
            | Inst::Copy { .. }
            | Inst::MbarrierInit { .. }
            | Inst::TmaLoad { .. }
            | Inst::MbarrierWait { .. }
            | Inst::Sent
            | Inst::Arrived { .. }
            | Inst::Expose => return self.unsupported(format!("{inst:?}")),
        }
        Ok(())
    }

    /// The lanes of an accumulator.
    fn accumulator(&self, acc: Acc) -> Vec<crate::machine::Part> {
        self.accs.get(&acc).cloned().unwrap_or_default()
    }

    /// Refuses what there are no registers for.
    pub(super) fn has(&self, dtype: DType) -> Result<()> {
        match dtype {
            DType::F64 => self.unsupported("f64, which Adreno 6xx does not have; use f32"),
            _ => Ok(()),
        }
    }

    fn mask(&mut self, dst: Reg, count: Reg) -> Result<()> {
        let lanes = self.ty(dst).lanes as usize;
        let (dtype, list) = (self.ty(count).dtype, self.r(count)?);
        let numbers: List = (0..lanes as u32).map(Opnd::bits).collect();
        let made = match super::words(dtype) {
            2 if !wide::is_short(self.range(count)) => {
                let a = Wide {
                    low: numbers,
                    high: self.same(0, lanes),
                };
                let b = Wide::of(&list.repeat(lanes));
                self.wide_less(true, &a, &b)
            }
            _ => {
                let count = list[..1].repeat(lanes);
                let (op, cond) = (crate::ir3::Op::CmpsS, crate::ir3::Cond::Gt);
                self.compare(op, cond, FULL, &count, &numbers)
            }
        };
        self.define(dst, made);
        Ok(())
    }

    fn unary(&mut self, dst: Reg, op: Unary, a: Reg) -> Result<()> {
        let dtype = self.ty(dst).dtype;
        let a = self.r(a)?;
        let list = match dtype {
            DType::Bool => match op {
                Unary::Not => {
                    let one = self.same(1, a.len());
                    self.xor(&a, &one)
                }
                Unary::Neg | Unary::Abs => a,
                _ => return self.unsupported(format!("{op:?} on bool")),
            },
            t if t.is_float() => self.float_unary(op, t, &a)?,
            t if t.size() == 8 => match self.wide_unary(op, t.is_signed(), &a) {
                Some(list) => list,
                None => return self.unsupported(format!("{op:?} on {t}")),
            },
            t => {
                let zero = self.same(0, a.len());
                let wide = match op {
                    Unary::Neg => self.sub(&zero, &a),
                    Unary::Not => self.not(&a),
                    Unary::Abs if t.is_signed() => {
                        let minus = self.sub(&zero, &a);
                        let max = Template::full(crate::ir3::Op::MaxS);
                        self.make(max, &[&a, &minus])
                    }
                    Unary::Abs => a,
                    _ => return self.unsupported(format!("{op:?} on {t}")),
                };
                self.narrowed(t, wide)
            }
        };
        self.define(dst, list);
        Ok(())
    }

    fn binary_inst(&mut self, dst: Reg, op: Binary, x: Reg, y: Reg) -> Result<()> {
        let dtype = self.ty(x).dtype;
        if dtype == DType::F32 {
            if op == Binary::Mul && self.joins_a_sum(dst) {
                self.products.insert(dst, [x, y]);
                return Ok(());
            }
            if let (Binary::Add, Some([a, b, c])) = (op, self.sum_of_product(x, y)) {
                let [a, b, c] = [self.r(a)?, self.r(b)?, self.r(c)?];
                let list = self.fma(FULL, &a, &b, &c);
                self.define(dst, list);
                return Ok(());
            }
        }
        let (a, b) = (self.r(x)?, self.r(y)?);
        let list = self.binary(op, dtype, [self.range(x), self.range(y)], a, b)?;
        self.define(dst, list);
        Ok(())
    }

    /// Whether a product is read by one sum and by nothing else.
    fn joins_a_sum(&self, dst: Reg) -> bool {
        if self.facts.uses[dst.0 as usize] != 1 {
            return false;
        }
        let from = self.facts.defs[dst.0 as usize].unwrap_or(0);
        // Its operands are there as long as the block is not left.
        let rest = self.p.insts[from + 1..].iter();
        let mut near = rest.take_while(|i| !super::control::is_control(i));
        near.any(
            |i| matches!(*i, Inst::Binary { op: Binary::Add, a, b, .. } if (a == dst) != (b == dst)),
        )
    }

    /// The factors and the other operand of a sum that takes in a product.
    fn sum_of_product(&mut self, x: Reg, y: Reg) -> Option<[Reg; 3]> {
        if let Some([a, b]) = self.products.remove(&x) {
            return Some([a, b, y]);
        }
        let [a, b] = self.products.remove(&y)?;
        Some([a, b, x])
    }

    /// An operation on words of a type.
    pub(super) fn binary(
        &mut self,
        op: Binary,
        dtype: DType,
        ranges: [Interval; 2],
        a: List,
        b: List,
    ) -> Result<List> {
        match dtype {
            DType::Bool => self.boolean(op, &a, &b),
            t if t.is_float() => self.float_binary(op, t, a, b),
            t if t.size() < 8 => self.integer(op, t, ranges, &a, &b),
            t => {
                if matches!(
                    op,
                    Binary::FloorDiv | Binary::FloorMod | Binary::TruncDiv | Binary::TruncMod
                ) {
                    return Ok(self.wide_division(op, t.is_signed(), &a, &b));
                }
                if ranges.into_iter().all(wide::is_short)
                    && let Some(list) = self.short_binary(op, &a, &b)
                {
                    return Ok(list);
                }
                match self.wide_binary(op, t.is_signed(), &a, &b) {
                    Some(list) => Ok(list),
                    None => self.unsupported(format!("{op:?} on {t}")),
                }
            }
        }
    }

    /// One of two lists, by booleans.
    pub(super) fn select_list(&mut self, dtype: DType, cond: &List, a: List, b: List) -> List {
        let class = super::class(dtype);
        if super::words(dtype) == 2 {
            let (a, b) = (Wide::of(&a), Wide::of(&b));
            return self.wide_choose(cond, &a, &b).list();
        }
        let (a, b) = (self.plain(class, a), self.plain(class, b));
        self.choose(class, cond, &a, &b)
    }

    /// Folds halves of the lanes onto each other, as the other renderers do; an odd number one by one.
    fn fold(&mut self, dst: Reg, op: ReduceOp, a: Reg) -> Result<()> {
        let Ty { dtype, lanes } = self.ty(a);
        let words = super::words(dtype);
        let mut list = self.r(a)?;
        let mut left = lanes as usize;
        while left > 1 {
            let half = if left.is_multiple_of(2) {
                left / 2
            } else {
                left - 1
            };
            let more = list[half * words..].to_vec();
            let some = list[..more.len()].to_vec();
            let sum = self.binary(op.binary(), dtype, [None; 2], some, more)?;
            list.splice(..sum.len(), sum);
            list.truncate(half * words);
            left = half;
        }
        self.define(dst, list);
        Ok(())
    }
}

/// A copy of words of a class.
fn copy(class: crate::machine::Class) -> Template {
    use crate::ir3::{Round, Type};
    let ty = if class == FULL { Type::U32 } else { Type::U16 };
    Template::convert(ty, ty, Round::Zero)
}
