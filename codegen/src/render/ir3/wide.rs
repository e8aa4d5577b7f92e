//! Integers of 64 bits, as two words.

use super::Select;
use super::build::Template;
use super::integer::constant;
use super::operand::List;
use crate::ir::{Binary, Unary};
use crate::ir3::virt::FULL;
use crate::ir3::{Cond, Op};
use crate::lower::Interval;

/// Low and high words of lanes.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    pub low: List,
    pub high: List,
}

impl Wide {
    /// From words, lane by lane.
    pub fn of(list: &List) -> Wide {
        Wide {
            low: list.iter().step_by(2).copied().collect(),
            high: list.iter().skip(1).step_by(2).copied().collect(),
        }
    }

    /// Words, lane by lane.
    pub fn list(&self) -> List {
        self.low
            .iter()
            .zip(&self.high)
            .flat_map(|(&l, &h)| [l, h])
            .collect()
    }
}

/// Whether numbers of 64 bits are those of their low words, with a sign.
pub(super) fn is_short(range: Interval) -> bool {
    range.is_some_and(|(least, most)| least >= i32::MIN.into() && most <= i32::MAX.into())
}

impl Select<'_> {
    /// A comparison of integers of 64 bits, or one of two of them, that their low words decide.
    pub(super) fn short_binary(&mut self, op: Binary, a: &List, b: &List) -> Option<List> {
        let (a, b) = (Wide::of(a), Wide::of(b));
        let cond = match op {
            Binary::Lt | Binary::Max | Binary::Min => Cond::Lt,
            Binary::Eq => Cond::Eq,
            Binary::Ne => Cond::Ne,
            _ => return None,
        };
        let made = self.compare(Op::CmpsS, cond, FULL, &a.low, &b.low);
        Some(match op {
            Binary::Max => self.wide_choose(&made, &b, &a).list(),
            Binary::Min => self.wide_choose(&made, &a, &b).list(),
            _ => made,
        })
    }

    fn below(&mut self, a: &List, b: &List) -> List {
        self.compare(Op::CmpsU, Cond::Lt, FULL, a, b)
    }

    pub(super) fn wide_constant(&self, value: u64, lanes: usize) -> Wide {
        Wide {
            low: self.same(value as u32, lanes),
            high: self.same((value >> 32) as u32, lanes),
        }
    }

    pub(super) fn wide_add(&mut self, a: &Wide, b: &Wide) -> Wide {
        let low = self.add(&a.low, &b.low);
        let high = self.add(&a.high, &b.high);
        // Nothing is carried from zero.
        if constant(&a.low) == Some(0) || constant(&b.low) == Some(0) {
            return Wide { low, high };
        }
        let carry = match constant(&b.low) {
            Some(_) => self.below(&low, &a.low),
            None => self.below(&low, &b.low),
        };
        let high = self.add(&carry, &high);
        Wide { low, high }
    }

    pub(super) fn wide_sub(&mut self, a: &Wide, b: &Wide) -> Wide {
        let low = self.sub(&a.low, &b.low);
        let high = self.sub(&a.high, &b.high);
        if constant(&b.low) == Some(0) {
            return Wide { low, high };
        }
        let borrow = self.below(&a.low, &b.low);
        let high = self.sub(&high, &borrow);
        Wide { low, high }
    }

    pub(super) fn wide_neg(&mut self, a: &Wide) -> Wide {
        let zero = self.wide_constant(0, a.low.len());
        self.wide_sub(&zero, a)
    }

    pub(super) fn wide_mul(&mut self, a: &Wide, b: &Wide) -> Wide {
        let low = self.mul(&a.low, &b.low);
        let mut high = self.mul_high(&a.low, &b.low);
        for (x, y) in [(&a.low, &b.high), (&a.high, &b.low)] {
            let part = self.mul(x, y);
            high = self.add(&high, &part);
        }
        Wide { low, high }
    }

    pub(super) fn wide_choose(&mut self, cond: &List, a: &Wide, b: &Wide) -> Wide {
        Wide {
            low: self.choose(FULL, cond, &a.low, &b.low),
            high: self.choose(FULL, cond, &a.high, &b.high),
        }
    }

    pub(super) fn wide_less(&mut self, signed: bool, a: &Wide, b: &Wide) -> List {
        let op = if signed { Op::CmpsS } else { Op::CmpsU };
        let high = self.compare(op, Cond::Lt, FULL, &a.high, &b.high);
        let same = self.compare(Op::CmpsU, Cond::Eq, FULL, &a.high, &b.high);
        let low = self.below(&a.low, &b.low);
        let low = self.and(&same, &low);
        self.or(&high, &low)
    }

    fn wide_differ(&mut self, cond: Cond, a: &Wide, b: &Wide) -> List {
        let (low, high) = (self.xor(&a.low, &b.low), self.xor(&a.high, &b.high));
        let any = self.or(&low, &high);
        let zero = self.same(0, any.len());
        self.compare(Op::CmpsU, cond, FULL, &any, &zero)
    }

    /// A shift by less than 64.
    pub(super) fn wide_shift(&mut self, op: Binary, signed: bool, a: &Wide, by: &List) -> Wide {
        if let Some(n) = constant(by) {
            return self.wide_shift_by(op, signed, a, n & 63);
        }
        let lanes = by.len();
        let (mask, last) = (self.same(31, lanes), self.same(31, lanes));
        let few = self.and(by, &mask);
        let rest = self.sub(&last, &few);
        let limit = self.same(31, lanes);
        let far = self.compare(Op::CmpsU, Cond::Gt, FULL, by, &limit);
        let zero = self.same(0, lanes);
        if op == Binary::Shl {
            let up = self.shl(&a.low, &few);
            let down = self.shr_by(&a.low, 1);
            let over = self.shr(&down, &rest);
            let high = self.shl(&a.high, &few);
            let high = self.or(&high, &over);
            return Wide {
                low: self.choose(FULL, &far, &zero, &up),
                high: self.choose(FULL, &far, &up, &high),
            };
        }
        let shifted = match signed {
            true => self.ashr(&a.high, &few),
            false => self.shr(&a.high, &few),
        };
        let fill = match signed {
            true => self.ashr_by(&a.high, 31),
            false => zero,
        };
        let up = self.shl_by(&a.high, 1);
        let over = self.shl(&up, &rest);
        let low = self.shr(&a.low, &few);
        let low = self.or(&low, &over);
        Wide {
            low: self.choose(FULL, &far, &shifted, &low),
            high: self.choose(FULL, &far, &fill, &shifted),
        }
    }

    fn wide_shift_by(&mut self, op: Binary, signed: bool, a: &Wide, n: u32) -> Wide {
        let zero = self.same(0, a.low.len());
        match (op, n) {
            (_, 0) => a.clone(),
            (Binary::Shl, 32..) => Wide {
                high: self.shl_by(&a.low, n - 32),
                low: zero,
            },
            (Binary::Shl, _) => {
                let over = self.shr_by(&a.low, 32 - n);
                let high = self.shl_by(&a.high, n);
                Wide {
                    low: self.shl_by(&a.low, n),
                    high: self.or(&high, &over),
                }
            }
            (_, 32..) if signed => Wide {
                low: self.ashr_by(&a.high, n - 32),
                high: self.ashr_by(&a.high, 31),
            },
            (_, 32..) => Wide {
                low: self.shr_by(&a.high, n - 32),
                high: zero,
            },
            _ => {
                let over = self.shl_by(&a.high, 32 - n);
                let low = self.shr_by(&a.low, n);
                Wide {
                    low: self.or(&low, &over),
                    high: match signed {
                        true => self.ashr_by(&a.high, n),
                        false => self.shr_by(&a.high, n),
                    },
                }
            }
        }
    }

    /// An operation on integers of 64 bits, but for divisions.
    pub(super) fn wide_binary(
        &mut self,
        op: Binary,
        signed: bool,
        a: &List,
        b: &List,
    ) -> Option<List> {
        let (a, b) = (Wide::of(a), Wide::of(b));
        let each = |s: &mut Self, of: fn(&mut Self, &List, &List) -> List| Wide {
            low: of(s, &a.low, &b.low),
            high: of(s, &a.high, &b.high),
        };
        let made = match op {
            Binary::Add => self.wide_add(&a, &b),
            Binary::Sub => self.wide_sub(&a, &b),
            Binary::Mul => self.wide_mul(&a, &b),
            Binary::And => each(self, Self::and),
            Binary::Or => each(self, Self::or),
            Binary::Xor => each(self, Self::xor),
            Binary::Shl | Binary::Shr => self.wide_shift(op, signed, &a, &b.low),
            Binary::Lt => return Some(self.wide_less(signed, &a, &b)),
            Binary::Eq => return Some(self.wide_differ(Cond::Eq, &a, &b)),
            Binary::Ne => return Some(self.wide_differ(Cond::Ne, &a, &b)),
            Binary::Max | Binary::Min => {
                let less = self.wide_less(signed, &a, &b);
                match op {
                    Binary::Max => self.wide_choose(&less, &b, &a),
                    _ => self.wide_choose(&less, &a, &b),
                }
            }
            _ => return None,
        };
        Some(made.list())
    }

    /// An operation on one integer of 64 bits.
    pub(super) fn wide_unary(&mut self, op: Unary, signed: bool, a: &List) -> Option<List> {
        let a = Wide::of(a);
        let made = match op {
            Unary::Neg => self.wide_neg(&a),
            Unary::Not => Wide {
                low: self.not(&a.low),
                high: self.not(&a.high),
            },
            Unary::Abs if !signed => a,
            Unary::Abs => self.wide_abs(&a),
            _ => return None,
        };
        Some(made.list())
    }

    pub(super) fn wide_abs(&mut self, a: &Wide) -> Wide {
        let minus = self.wide_neg(a);
        let zero = self.same(0, a.low.len());
        let negative = self.compare(Op::CmpsS, Cond::Lt, FULL, &a.high, &zero);
        self.wide_choose(&negative, &minus, a)
    }

    /// A word as two, extended.
    pub(super) fn extended(&mut self, signed: bool, low: &List) -> Wide {
        let high = match signed {
            true => self.ashr_by(low, 31),
            false => self.same(0, low.len()),
        };
        Wide {
            low: low.clone(),
            high,
        }
    }

    /// Copies of words, which do not change when their values do.
    pub(super) fn copied(&mut self, list: &List) -> List {
        let mov = Template::convert(
            crate::ir3::Type::U32,
            crate::ir3::Type::U32,
            crate::ir3::Round::Zero,
        );
        self.make(mov, &[list])
    }
}
