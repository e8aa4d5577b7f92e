//! Quotients and remainders of integers.
//!
//! By a constant below 2^24 a quotient is a product of 24 bits and a shift where that is exact, then an estimate of
//! `f32` where that is. In general it is the estimate, a step of Newton, and two corrections (as LLVM's AMDGPU backend
//! expands `udiv`; the factor is smaller here, for a reciprocal that may be off by more).

use super::Select;
use super::build::Template;
use super::integer::constant;
use super::operand::{List, Opnd};
use super::wide::Wide;
use crate::dtype::DType;
use crate::ir::Binary;
use crate::ir3::virt::{Code, Dst, FULL, Name, Src};
use crate::ir3::{Cond, Op, Round, Type};
use crate::lower::Interval;
use crate::machine::Part;

/// Below this the estimate `(a + 1/2) / c` has the integer part of `a / c`: three roundings of 2^-24 each make it
/// wrong by less than half of `1 / c`.
const EXACT: i64 = 1 << 21;
/// Below this `(a + 1/2) * rcp(b)` has the integer part of `a / b` for every `b` below 2^24: what is estimated is half of
/// `1 / b` from an integer at least, and the reciprocal is off by two units in the last place at most.
const SMALL: i64 = 1 << 20;

/// A factor and a shift for the quotient of numbers up to `most` by `c`: `a * factor >> shift`, in 32 bits.
fn factor(most: u64, c: u64) -> Option<(u32, u32)> {
    (1..32).rev().find_map(|shift| {
        let one = 1u64 << shift;
        let factor = one.div_ceil(c);
        let error = factor * c - one;
        let small = factor < 1 << 24 && most < 1 << 24 && most * factor < 1 << 32;
        (small && most * error < one).then_some((factor as u32, shift))
    })
}

impl Select<'_> {
    /// A quotient or a remainder of at most 32 bits; the divisor is not zero.
    pub(super) fn division(
        &mut self,
        op: Binary,
        dtype: DType,
        [of, by]: [Interval; 2],
        a: &List,
        b: &List,
    ) -> List {
        let signs = |r: Interval| dtype.is_signed() && r.is_none_or(|r| r.0 < 0);
        let signed = signs(of) || signs(by);
        let quotient = matches!(op, Binary::FloorDiv | Binary::TruncDiv);
        if !signed {
            let q = self.quotient([of, by], a, b);
            return if quotient {
                q
            } else {
                self.rest([of, by], a, b, &q)
            };
        }
        let zero = self.same(0, a.len());
        let (ma, mb) = (self.magnitude(a), self.magnitude(b));
        let sizes = [of, by].map(|r| r.map(|(x, y)| (0, x.saturating_abs().max(y))));
        let q = self.quotient(sizes, &ma, &mb);
        let minus = self.sub(&zero, &q);
        let differ = self.xor(a, b);
        let negative = self.compare(Op::CmpsS, Cond::Lt, FULL, &differ, &zero);
        let mut q = self.choose(FULL, &negative, &minus, &q);
        let both_signs = sizes[0].map(|(_, most)| (-most, most));
        let product = self.multiply([both_signs, by], &q, b);
        let mut r = self.sub(a, &product);
        if matches!(op, Binary::FloorDiv | Binary::FloorMod) {
            let some = self.truth(&r);
            let low = self.and(&some, &negative);
            q = self.sub(&q, &low);
            let more = self.add(&r, b);
            r = self.choose(FULL, &low, &more, &r);
        }
        let made = if quotient { q } else { r };
        self.narrowed(dtype, made)
    }

    fn magnitude(&mut self, a: &List) -> List {
        match constant(a) {
            Some(x) => self.same((x as i32).unsigned_abs(), a.len()),
            None => {
                let zero = self.same(0, a.len());
                let minus = self.sub(&zero, a);
                self.make(Template::full(Op::MaxS), &[a, &minus])
            }
        }
    }

    /// A remainder without signs.
    fn rest(&mut self, ranges: [Interval; 2], a: &List, b: &List, q: &List) -> List {
        if let Some(c) = constant(b).filter(|c| c.is_power_of_two()) {
            let mask = self.same(c - 1, a.len());
            return self.and(a, &mask);
        }
        // A quotient is not larger than what was divided.
        let product = self.multiply(ranges, q, b);
        self.sub(a, &product)
    }

    /// A quotient without signs.
    fn quotient(&mut self, [of, by]: [Interval; 2], a: &List, b: &List) -> List {
        let lanes = a.len();
        let Some(c) = constant(b) else {
            let below = |r: Interval, limit: i64| r.is_some_and(|r| r.0 >= 0 && r.1 < limit);
            return match below(of, SMALL) && below(by, 1 << 24) {
                true => self.small_quotient(a, b),
                false => self.estimated(a, b),
            };
        };
        if c.is_power_of_two() {
            return self.shr_by(a, c.trailing_zeros());
        }
        let most = of.map_or(i64::from(u32::MAX), |r| r.1);
        if let Some((factor, shift)) = factor(most as u64, u64::from(c)) {
            let factor = self.same(factor, lanes);
            let product = self.make(Template::full(Op::MulU24), &[a, &factor]);
            return self.shr_by(&product, shift);
        }
        if most < EXACT {
            let inverse = 1.0 / c as f32;
            let float = self.make(Template::convert(Type::U32, Type::F32, Round::Even), &[a]);
            let (inverse, half) = (
                vec![Opnd::float(inverse); lanes],
                vec![Opnd::float(inverse * 0.5); lanes],
            );
            let estimate = self.make(Template::full(Op::MadF32), &[&inverse, &float, &half]);
            return self.make(
                Template::convert(Type::F32, Type::U32, Round::Zero),
                &[&estimate],
            );
        }
        self.estimated(a, b)
    }

    fn small_quotient(&mut self, a: &List, b: &List) -> List {
        let to_float = Template::convert(Type::U32, Type::F32, Round::Even);
        let (x, y) = (self.make(to_float, &[a]), self.make(to_float, &[b]));
        let half = vec![Opnd::float(0.5); a.len()];
        let x = self.make(Template::full(Op::AddF), &[&x, &half]);
        let inverse = self.make(Template::full(Op::Rcp), &[&y]);
        let estimate = self.make(Template::full(Op::MulF), &[&x, &inverse]);
        let to_integer = Template::convert(Type::F32, Type::U32, Round::Zero);
        self.make(to_integer, &[&estimate])
    }

    fn estimated(&mut self, a: &List, b: &List) -> List {
        let lanes = a.len();
        let float = self.make(Template::convert(Type::U32, Type::F32, Round::Even), &[b]);
        let inverse = self.make(Template::full(Op::Rcp), &[&float]);
        // 2^32 less as much as the reciprocal may be too large.
        let scale = vec![Opnd::float(4_294_965_248.0); lanes];
        let scaled = self.make(Template::full(Op::MulF), &[&inverse, &scale]);
        let z = self.make(
            Template::convert(Type::F32, Type::U32, Round::Zero),
            &[&scaled],
        );
        let product = self.mul(&z, b);
        let zero = self.same(0, lanes);
        let error = self.sub(&zero, &product);
        let more = self.mul_high(&z, &error);
        let z = self.add(&z, &more);
        let mut q = self.mul_high(a, &z);
        let product = self.mul(&q, b);
        let mut r = self.sub(a, &product);
        for _ in 0..2 {
            let more = self.compare(Op::CmpsU, Cond::Ge, FULL, &r, b);
            q = self.add(&q, &more);
            let less = self.sub(&r, b);
            r = self.choose(FULL, &more, &less, &r);
        }
        q
    }

    /// A quotient or a remainder of 64 bits; the divisor is not zero.
    pub(super) fn wide_division(&mut self, op: Binary, signed: bool, a: &List, b: &List) -> List {
        let (a, b) = (Wide::of(a), Wide::of(b));
        let (ma, mb) = match signed {
            true => (self.wide_abs(&a), self.wide_abs(&b)),
            false => (a.clone(), b.clone()),
        };
        let (mut q, mut r) = self.long_division(&ma, &mb);
        if signed {
            let zero = self.same(0, q.low.len());
            let differ = self.xor(&a.high, &b.high);
            let opposite = self.compare(Op::CmpsS, Cond::Lt, FULL, &differ, &zero);
            let negative = self.compare(Op::CmpsS, Cond::Lt, FULL, &a.high, &zero);
            let (mq, mr) = (self.wide_neg(&q), self.wide_neg(&r));
            q = self.wide_choose(&opposite, &mq, &q);
            r = self.wide_choose(&negative, &mr, &r);
            if matches!(op, Binary::FloorDiv | Binary::FloorMod) {
                let any = self.or(&r.low, &r.high);
                let some = self.truth(&any);
                let low = self.and(&some, &opposite);
                let one = Wide {
                    low: low.clone(),
                    high: zero,
                };
                q = self.wide_sub(&q, &one);
                let more = self.wide_add(&r, &b);
                r = self.wide_choose(&low, &more, &r);
            }
        }
        match op {
            Binary::FloorDiv | Binary::TruncDiv => q.list(),
            _ => r.list(),
        }
    }

    /// Bit by bit: the rest takes in the highest bit of the dividend, which takes in one of the quotient. Where the upper
    /// words of all lanes are zero, the lower ones are all there is.
    fn long_division(&mut self, a: &Wide, b: &Wide) -> (Wide, Wide) {
        let lanes = a.low.len();
        let rest: Vec<[Part; 2]> = (0..lanes).map(|_| self.two_lanes()).collect();
        let dividend: Vec<[Part; 2]> = (0..lanes).map(|_| self.two_lanes()).collect();
        let (zero, whole) = (self.same(0, 1), self.same(64, 1));
        let any = a
            .high
            .iter()
            .fold(zero.clone(), |any, &high| self.or(&any, &vec![high]));
        let short = match constant(&any) {
            Some(high) => self.same(u32::from(high == 0), 1),
            None => self.compare(Op::CmpsU, Cond::Eq, FULL, &any, &zero),
        };
        for n in 0..lanes {
            let (low, high) = (vec![a.low[n]], vec![a.high[n]]);
            let first = [
                self.choose(FULL, &short, &zero, &low),
                self.choose(FULL, &short, &low, &high),
            ];
            for (to, from) in dividend[n].into_iter().zip(first) {
                self.move_to(FULL, to, from[0]);
            }
            for to in rest[n] {
                self.move_to(FULL, to, Opnd::bits(0));
            }
        }
        let count = self.lane(FULL);
        let half = self.same(32, 1);
        let steps = self.choose(FULL, &short, &half, &whole);
        self.move_to(FULL, count, steps[0]);
        let head = self.enter(self.depth + 1);
        for n in 0..lanes {
            let pair = |p: [Part; 2]| Wide {
                low: vec![Opnd::part(p[0])],
                high: vec![Opnd::part(p[1])],
            };
            let (r, d) = (pair(rest[n]), pair(dividend[n]));
            let by = Wide {
                low: vec![b.low[n]],
                high: vec![b.high[n]],
            };
            let top = self.shr_by(&d.high, 31);
            let up = self.wide_shift(Binary::Shl, false, &r, &vec![Opnd::bits(1)]);
            let up = Wide {
                low: self.or(&up.low, &top),
                high: up.high,
            };
            let below = self.wide_less(false, &up, &by);
            let less = self.wide_sub(&up, &by);
            let kept = self.wide_choose(&below, &up, &less);
            let shifted = self.wide_shift(Binary::Shl, false, &d, &vec![Opnd::bits(1)]);
            let digit = self.xor(&below, &vec![Opnd::bits(1)]);
            let low = self.or(&shifted.low, &digit);
            let made = [kept.low[0], kept.high[0], low[0], shifted.high[0]];
            for (to, from) in rest[n].into_iter().chain(dividend[n]).zip(made) {
                self.move_to(FULL, to, from);
            }
        }
        let src = vec![Src::part(count), Src::imm(1)];
        self.emit(Code::compare(
            Op::CmpsU,
            Cond::Gt,
            Dst::Predicate(0),
            src.clone(),
        ));
        self.emit(Code::new(Op::SubU, Dst::Part(count), src));
        self.diverge(1);
        self.again(Name::Predicate(0), false, head);
        self.join();
        let out = |parts: &[[Part; 2]]| Wide {
            low: parts.iter().map(|p| Opnd::part(p[0])).collect(),
            high: parts.iter().map(|p| Opnd::part(p[1])).collect(),
        };
        (out(&dividend), out(&rest))
    }

    /// Two words that lie side by side.
    pub(super) fn two_lanes(&mut self) -> [Part; 2] {
        let value = self.f.value(FULL, 2);
        [Part::of(value, 0), Part::of(value, 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::factor;

    #[test]
    fn factors_give_every_quotient() {
        let mut found = 0;
        for c in [3u64, 5, 6, 7, 10, 11, 28, 100, 127, 360, 641] {
            for most in [30u64, 255, 1000, 4095, 65535] {
                let Some((factor, shift)) = factor(most, c) else {
                    continue;
                };
                found += 1;
                for a in 0..=most {
                    assert_eq!(
                        (a * u64::from(factor)) >> shift,
                        a / c,
                        "{a} / {c} up to {most}"
                    );
                }
            }
        }
        assert!(found > 40, "{found}");
    }

    #[test]
    fn estimates_give_every_quotient() {
        for c in [3u32, 7, 11, 127, 1000, 99_991, 2_097_151] {
            let inverse = 1.0 / c as f32;
            for a in (0..1u32 << 21).filter(|a| a % c < 2 || a % c == c - 1) {
                // Two roundings are the worse case.
                let estimate = a as f32 * inverse + inverse * 0.5;
                assert_eq!(estimate as u32, a / c, "{a} / {c}");
                let fused = (a as f32).mul_add(inverse, inverse * 0.5);
                assert_eq!(fused as u32, a / c, "{a} / {c}, fused");
            }
        }
    }
}
