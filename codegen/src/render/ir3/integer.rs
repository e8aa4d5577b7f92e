//! Integers of at most 32 bits, and booleans.
//!
//! Source of products: Mesa `ir3_nir_imul.py`: three steps of 16 bits.

use super::Select;
use super::build::Template;
use super::operand::{At, List, Opnd};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::Binary;
use crate::ir3::virt::{FULL, HALF};
use crate::ir3::{Cond, Op, Round, Type};
use crate::lower::Interval;
use crate::machine::{Class, Part};

/// Bounds of factors that `mul.u24` and `mul.s24` multiply whole.
const U24: (i64, i64) = (0, (1 << 24) - 1);
const S24: (i64, i64) = (-(1 << 23), (1 << 23) - 1);

fn within(range: Option<(i64, i64)>, limits: (i64, i64)) -> bool {
    range.is_some_and(|(a, b)| a >= limits.0 && b <= limits.1)
}

/// The same bits for all lanes.
pub(super) fn constant(list: &List) -> Option<u32> {
    let first = list.first()?.known()?;
    list.iter()
        .all(|o| o.known() == Some(first))
        .then_some(first)
}

impl Select<'_> {
    /// The same bits in each of so many lanes.
    pub(super) fn same(&self, bits: u32, lanes: usize) -> List {
        vec![Opnd::bits(bits); lanes]
    }

    /// An operation on words whose value may be known.
    fn two(&mut self, op: Op, a: &List, b: &List, fold: impl Fn(u32, u32) -> u32) -> List {
        if let (Some(x), Some(y)) = (constant(a), constant(b)) {
            return self.same(fold(x, y), a.len());
        }
        self.make(Template::full(op), &[a, b])
    }

    pub(super) fn add(&mut self, a: &List, b: &List) -> List {
        match (constant(a), constant(b)) {
            (Some(0), _) => b.clone(),
            (_, Some(0)) => a.clone(),
            _ => self.two(Op::AddU, a, b, u32::wrapping_add),
        }
    }

    pub(super) fn sub(&mut self, a: &List, b: &List) -> List {
        match constant(b) {
            Some(0) => a.clone(),
            _ => self.two(Op::SubU, a, b, u32::wrapping_sub),
        }
    }

    pub(super) fn and(&mut self, a: &List, b: &List) -> List {
        match (constant(a), constant(b)) {
            (Some(0), _) | (_, Some(0)) => self.same(0, a.len()),
            (Some(u32::MAX), _) => b.clone(),
            (_, Some(u32::MAX)) => a.clone(),
            _ => self.two(Op::AndB, a, b, |x, y| x & y),
        }
    }

    pub(super) fn or(&mut self, a: &List, b: &List) -> List {
        match (constant(a), constant(b)) {
            (Some(0), _) => b.clone(),
            (_, Some(0)) => a.clone(),
            _ => self.two(Op::OrB, a, b, |x, y| x | y),
        }
    }

    pub(super) fn xor(&mut self, a: &List, b: &List) -> List {
        match constant(b) {
            Some(0) => a.clone(),
            _ => self.two(Op::XorB, a, b, |x, y| x ^ y),
        }
    }

    pub(super) fn not(&mut self, a: &List) -> List {
        match constant(a) {
            Some(x) => self.same(!x, a.len()),
            None => self.make(Template::full(Op::NotB), &[a]),
        }
    }

    pub(super) fn shl(&mut self, a: &List, by: &List) -> List {
        match constant(by) {
            Some(0) => a.clone(),
            _ => self.two(Op::ShlB, a, by, |x, n| x << (n & 31)),
        }
    }

    pub(super) fn shr(&mut self, a: &List, by: &List) -> List {
        match constant(by) {
            Some(0) => a.clone(),
            _ => self.two(Op::ShrB, a, by, |x, n| x >> (n & 31)),
        }
    }

    pub(super) fn ashr(&mut self, a: &List, by: &List) -> List {
        match constant(by) {
            Some(0) => a.clone(),
            _ => self.two(Op::AshrB, a, by, |x, n| (x as i32 >> (n & 31)) as u32),
        }
    }

    /// A shift by a number.
    pub(super) fn shl_by(&mut self, a: &List, n: u32) -> List {
        let by = self.same(n, a.len());
        self.shl(a, &by)
    }

    pub(super) fn shr_by(&mut self, a: &List, n: u32) -> List {
        let by = self.same(n, a.len());
        self.shr(a, &by)
    }

    pub(super) fn ashr_by(&mut self, a: &List, n: u32) -> List {
        let by = self.same(n, a.len());
        self.ashr(a, &by)
    }

    /// `cond ? a : b` of words of a class; the condition is a boolean.
    pub(super) fn choose(&mut self, class: Class, cond: &List, a: &List, b: &List) -> List {
        if a == b {
            return a.clone();
        }
        if let Some(truth) = constant(cond) {
            return if truth != 0 { a.clone() } else { b.clone() };
        }
        if class == HALF {
            let narrow = Template::convert(Type::U32, Type::U16, Round::Zero);
            let cond = self.make(narrow, &[cond]);
            return self.make(Template::of(Op::SelB16, HALF), &[a, &cond, b]);
        }
        self.make(Template::full(Op::SelB32), &[a, cond, b])
    }

    /// Low 32 bits of a product.
    pub(super) fn mul(&mut self, a: &List, b: &List) -> List {
        match (constant(a), constant(b)) {
            (Some(x), Some(y)) => return self.same(x.wrapping_mul(y), a.len()),
            (Some(x), None) => return self.mul_by(b, x),
            (None, Some(y)) => return self.mul_by(a, y),
            (None, None) => {}
        }
        self.product(a, b)
    }

    fn mul_by(&mut self, a: &List, n: u32) -> List {
        match n {
            0 => self.same(0, a.len()),
            n if n.is_power_of_two() => self.shl_by(a, n.trailing_zeros()),
            _ => {
                let n = self.same(n, a.len());
                self.product(a, &n)
            }
        }
    }

    fn product(&mut self, a: &List, b: &List) -> List {
        let low = self.make(Template::full(Op::MullU), &[a, b]);
        let some = self.make(Template::full(Op::MadshM16), &[a, b, &low]);
        self.make(Template::full(Op::MadshM16), &[b, a, &some])
    }

    /// A product of registers whose bounds are known.
    pub(super) fn multiply(&mut self, [rx, ry]: [Interval; 2], a: &List, b: &List) -> List {
        let power = |l: &List| constant(l).is_some_and(|n| n == 0 || n.is_power_of_two());
        let small = [(U24, Op::MulU24), (S24, Op::MulS24)];
        let found = small
            .iter()
            .find(|(limits, _)| within(rx, *limits) && within(ry, *limits));
        match found {
            Some(&(_, op))
                if !power(a) && !power(b) && (constant(a).is_none() || constant(b).is_none()) =>
            {
                self.make(Template::full(op), &[a, b])
            }
            _ => self.mul(a, b),
        }
    }

    /// High 32 bits of a product without signs.
    pub(super) fn mul_high(&mut self, a: &List, b: &List) -> List {
        let mull = Template::full(Op::MullU);
        let (ah, bh) = (self.shr_by(a, 16), self.shr_by(b, 16));
        let low = self.make(mull, &[a, b]);
        let (x, y) = (self.make(mull, &[&ah, b]), self.make(mull, &[a, &bh]));
        let high = self.make(mull, &[&ah, &bh]);
        let mask = self.same(0xffff, a.len());
        let carried = self.shr_by(&low, 16);
        let (xl, yl) = (self.and(&x, &mask), self.and(&y, &mask));
        let middle = self.add(&carried, &xl);
        let middle = self.add(&middle, &yl);
        let (xh, yh) = (self.shr_by(&x, 16), self.shr_by(&y, 16));
        let middle = self.shr_by(&middle, 16);
        let sum = self.add(&high, &xh);
        let sum = self.add(&sum, &yh);
        self.add(&sum, &middle)
    }

    /// Extends what an operation on 32 bits made of a narrower type.
    pub(super) fn narrowed(&mut self, dtype: DType, a: List) -> List {
        let lanes = a.len();
        if let Some(bits) = constant(&a) {
            let value = crate::ir::scalar::from_int(dtype, i128::from(bits as i32));
            return self.same(value as u32, lanes);
        }
        match dtype {
            DType::I8 | DType::I16 => {
                let n = 32 - dtype.bits();
                let up = self.shl_by(&a, n);
                self.ashr_by(&up, n)
            }
            DType::U8 | DType::F8E4M3 | DType::F8E5M2 => {
                let mask = self.same(0xff, lanes);
                self.and(&a, &mask)
            }
            DType::U16 | DType::BF16 => {
                let mask = self.same(0xffff, lanes);
                self.and(&a, &mask)
            }
            _ => a,
        }
    }

    /// A boolean from a word: whether it is not zero.
    pub(super) fn truth(&mut self, a: &List) -> List {
        if let Some(x) = constant(a) {
            return self.same(u32::from(x != 0), a.len());
        }
        let zero = self.same(0, a.len());
        self.compare(Op::CmpsU, Cond::Ne, FULL, a, &zero)
    }

    /// An operation on booleans.
    pub(super) fn boolean(&mut self, op: Binary, a: &List, b: &List) -> Result<List> {
        Ok(match op {
            Binary::Add | Binary::Max | Binary::Or => self.or(a, b),
            Binary::Mul | Binary::Min | Binary::And => self.and(a, b),
            Binary::Sub | Binary::Xor | Binary::Ne => self.xor(a, b),
            Binary::Eq => self.compare(Op::CmpsU, Cond::Eq, FULL, a, b),
            Binary::Lt => self.compare(Op::CmpsU, Cond::Lt, FULL, a, b),
            _ => return self.unsupported(format!("{op:?} on bool")),
        })
    }

    /// An operation on integers of at most 32 bits; the ranges are those of its operands.
    pub(super) fn integer(
        &mut self,
        op: Binary,
        dtype: DType,
        ranges: [Interval; 2],
        a: &List,
        b: &List,
    ) -> Result<List> {
        let signed = dtype.is_signed();
        let pick = |s: Op, u: Op| if signed { s } else { u };
        let wide = match op {
            Binary::Add => self.add(a, b),
            Binary::Sub => self.sub(a, b),
            Binary::Mul => self.multiply(ranges, a, b),
            Binary::Max => self.make(Template::full(pick(Op::MaxS, Op::MaxU)), &[a, b]),
            Binary::Min => self.make(Template::full(pick(Op::MinS, Op::MinU)), &[a, b]),
            Binary::And => self.and(a, b),
            Binary::Or => self.or(a, b),
            Binary::Xor => self.xor(a, b),
            Binary::Shl => self.shl(a, b),
            Binary::Shr if signed => self.ashr(a, b),
            Binary::Shr => self.shr(a, b),
            Binary::Lt => {
                return Ok(self.compare(pick(Op::CmpsS, Op::CmpsU), Cond::Lt, FULL, a, b));
            }
            Binary::Eq => return Ok(self.compare(Op::CmpsU, Cond::Eq, FULL, a, b)),
            Binary::Ne => return Ok(self.compare(Op::CmpsU, Cond::Ne, FULL, a, b)),
            Binary::FloorDiv | Binary::FloorMod | Binary::TruncDiv | Binary::TruncMod => {
                return Ok(self.division(op, dtype, ranges, a, b));
            }
            _ => return self.unsupported(format!("{op:?} on {dtype}")),
        };
        let keeps = matches!(
            op,
            Binary::Max | Binary::Min | Binary::And | Binary::Or | Binary::Xor | Binary::Shr
        );
        if dtype.size() >= 4 || keeps {
            return Ok(wide);
        }
        Ok(self.narrowed(dtype, wide))
    }

    /// Neighbours of a list from a lane on, if they are those of one value.
    pub(super) fn run(list: &[Opnd]) -> Option<Part> {
        let At::Part(first) = list.first()?.at else {
            return None;
        };
        let follows = |(n, o): (usize, &Opnd)| {
            *o == Opnd::part(Part {
                lane: first.lane + n as u8,
                ..first
            })
        };
        list.iter().enumerate().all(follows).then_some(Part {
            lanes: list.len() as u8,
            ..first
        })
    }
}
