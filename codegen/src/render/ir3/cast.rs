//! Conversions.
//!
//! Out of range, `cov` to integers is documented nowhere: what does not fit is settled before or after it.

use super::Select;
use super::build::Template;
use super::integer::constant;
use super::operand::{List, Opnd};
use super::wide::Wide;
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Unary, scalar};
use crate::ir3::virt::FULL;
use crate::ir3::{Cond, Op, Round, Type};
use crate::lower::Reg;

impl Select<'_> {
    pub(super) fn convert(&mut self, from: Type, to: Type, round: Round, a: &List) -> List {
        self.make(Template::convert(from, to, round), &[a])
    }

    pub(super) fn cast(&mut self, dst: Reg, a: Reg) -> Result<List> {
        let (from, to) = (self.ty(a).dtype, self.ty(dst).dtype);
        let range = self.range(a);
        let list = self.r(a)?;
        if from == to {
            return Ok(list);
        }
        Ok(match (from, to) {
            (DType::F32, DType::Bool) => {
                let zero = self.same(0, list.len());
                self.compare(Op::CmpsF, Cond::Ne, FULL, &list, &zero)
            }
            (f, DType::Bool) if f.is_int() && f.size() == 8 => {
                let wide = Wide::of(&list);
                let any = self.or(&wide.low, &wide.high);
                self.truth(&any)
            }
            (f, DType::Bool) if f.is_int() => self.truth(&list),
            (f, t) if !f.is_float() && !t.is_float() => self.integers(f, t, range, list),
            (f, DType::F32) if !f.is_float() => match f.size() {
                8 => self.float_of_wide(f.is_signed(), &list),
                _ => {
                    let ty = if f.is_signed() { Type::S32 } else { Type::U32 };
                    self.convert(ty, Type::F32, Round::Even, &list)
                }
            },
            (DType::F32, t) if t.is_int() => match t.size() {
                8 => self.wide_of_float(t.is_signed(), &list)?,
                _ => self.integer_of(t, &list),
            },
            (DType::F16, DType::F32) => self.convert(Type::F16, Type::F32, Round::Even, &list),
            (DType::F32, DType::F16) => self.convert(Type::F32, Type::F16, Round::Even, &list),
            _ => return self.unsupported(format!("a cast from {from} to {to}")),
        })
    }

    /// Between integers.
    fn integers(&mut self, from: DType, to: DType, range: Option<(i64, i64)>, list: List) -> List {
        match (from.size(), to.size()) {
            (8, 8) => list,
            (_, 8) => {
                let negative = range.is_none_or(|r| r.0 < 0);
                self.extended(from.is_signed() && negative, &list).list()
            }
            _ => {
                let low = if from.size() == 8 {
                    Wide::of(&list).low
                } else {
                    list
                };
                // What fits is the same in both.
                let (min, max) = scalar::int_limits(to);
                let fits = |r: (i64, i64)| i128::from(r.0) >= min && i128::from(r.1) <= max;
                match range.is_some_and(fits) {
                    true => low,
                    false => self.narrowed(to, low),
                }
            }
        }
    }

    /// The nearest integer towards zero of at most 32 bits; what is beyond it is the last one, NaN is 0.
    fn integer_of(&mut self, to: DType, list: &List) -> List {
        let lanes = list.len();
        let (min, max) = scalar::int_limits(to);
        let scalar = |x: f64| vec![Opnd::float(x as f32); lanes];
        let ty = if to.is_signed() { Type::S32 } else { Type::U32 };
        let is = self.compare(Op::CmpsF, Cond::Eq, FULL, list, list);
        let zero = self.same(0, lanes);
        let value = if to.size() < 4 {
            let (low, high) = (scalar(min as f64), scalar(max as f64));
            let least = self.make(Template::full(Op::MaxF), &[list, &low]);
            let inside = self.make(Template::full(Op::MinF), &[&least, &high]);
            self.convert(Type::F32, ty, Round::Zero, &inside)
        } else {
            // The first one above is a float, the last one below is none.
            let above = scalar(max as f64 + 1.0);
            let over = self.compare(Op::CmpsF, Cond::Ge, FULL, list, &above);
            let below = scalar(min as f64);
            let under = self.compare(Op::CmpsF, Cond::Lt, FULL, list, &below);
            let value = self.convert(Type::F32, ty, Round::Zero, list);
            let (low, high) = (self.same(min as u32, lanes), self.same(max as u32, lanes));
            let value = self.choose(FULL, &over, &high, &value);
            self.choose(FULL, &under, &low, &value)
        };
        self.choose(FULL, &is, &value, &zero)
    }

    /// An integer of 64 bits as a float, rounded once: its highest 32 digits, the last one of which says whether there
    /// are others below.
    fn float_of_wide(&mut self, signed: bool, list: &List) -> List {
        let wide = Wide::of(list);
        let lanes = wide.low.len();
        let size = if signed {
            self.wide_abs(&wide)
        } else {
            wide.clone()
        };
        let zero = self.same(0, lanes);
        let top = self.make(Template::full(Op::ClzB), &[&size.high]);
        // Without a digit in the high word, all of the low word is taken.
        let empty = self.compare(Op::CmpsU, Cond::Eq, FULL, &size.high, &zero);
        let top = self.choose(FULL, &empty, &zero, &top);
        let up = self.wide_shift(crate::ir::Binary::Shl, false, &size, &top);
        let rest = self.truth(&up.low);
        let high = self.or(&up.high, &rest);
        let digits = self.choose(FULL, &empty, &size.low, &high);
        let float = self.convert(Type::U32, Type::F32, Round::Even, &digits);
        // 32 less the shift is added to the exponent.
        let most = self.same(32, lanes);
        let places = self.sub(&most, &top);
        let places = self.shl_by(&places, 23);
        let larger = self.add(&float, &places);
        let mut value = self.choose(FULL, &empty, &float, &larger);
        if signed {
            let sign = self.same(0x8000_0000, lanes);
            let sign = self.and(&wide.high, &sign);
            value = self.or(&value, &sign);
        }
        value
    }

    /// A float as an integer of 64 bits; what is beyond it is the last one, NaN is 0.
    fn wide_of_float(&mut self, signed: bool, list: &List) -> Result<List> {
        let lanes = list.len();
        let full = Template::full;
        let scalar = |x: f32| vec![Opnd::float(x); lanes];
        let size = self.float_unary(Unary::Abs, DType::F32, list)?;
        let (down, up) = (scalar(2f32.powi(-32)), scalar(-2f32.powi(32)));
        let scaled = self.make(full(Op::MulF), &[&size, &down]);
        let whole = self.make(full(Op::TruncF), &[&scaled]);
        // Both have at most 24 digits: exact.
        let below = self.make(full(Op::MulF), &[&whole, &up]);
        let below = self.make(full(Op::AddF), &[&size, &below]);
        let value = Wide {
            low: self.convert(Type::F32, Type::U32, Round::Zero, &below),
            high: self.convert(Type::F32, Type::U32, Round::Zero, &whole),
        };
        let zero = scalar(0.0);
        let negative = self.compare(Op::CmpsF, Cond::Lt, FULL, list, &zero);
        let limit = scalar(if signed { 2f32.powi(63) } else { 2f32.powi(64) });
        let over = self.compare(Op::CmpsF, Cond::Ge, FULL, &size, &limit);
        let is = self.compare(Op::CmpsF, Cond::Eq, FULL, list, list);
        let most = if signed { i64::MAX as u64 } else { u64::MAX };
        let most = self.wide_constant(most, lanes);
        let none = self.wide_constant(0, lanes);
        let minus = match signed {
            true => self.wide_neg(&value),
            false => none.clone(),
        };
        let least = self.wide_constant(if signed { i64::MIN as u64 } else { 0 }, lanes);
        let inside = self.wide_choose(&negative, &minus, &value);
        let ends = self.wide_choose(&negative, &least, &most);
        let value = self.wide_choose(&over, &ends, &inside);
        Ok(self.wide_choose(&is, &value, &none).list())
    }

    pub(super) fn bitcast(&mut self, dst: Reg, a: Reg) -> Result<List> {
        let (from, to) = (self.ty(a).dtype, self.ty(dst).dtype);
        let list = self.r(a)?;
        let list = self.plain(super::class(from), list);
        if from == DType::Bool || to == DType::Bool {
            return self.unsupported(format!("the bits of {from} as {to}"));
        }
        Ok(match (from, to) {
            (DType::F16, DType::F16) => list,
            (DType::F16, DType::I16) => self.convert(Type::S16, Type::S32, Round::Zero, &list),
            (DType::F16, _) => self.convert(Type::U16, Type::U32, Round::Zero, &list),
            (_, DType::F16) => match constant(&list) {
                Some(bits) => self.same(bits & 0xffff, list.len()),
                None => self.convert(Type::U32, Type::U16, Round::Zero, &list),
            },
            // What is above is the same in both.
            _ if to.size() >= 4 || from.is_signed() == to.is_signed() => list,
            _ => self.narrowed(to, list),
        })
    }
}
