//! Floats: `F32` in full registers, `F16` in half ones.
//!
//! Reciprocals and roots of category 4 are off by a unit or two in the last place; one step of Newton corrects them.
//! What is not finite, or zero, keeps what the instruction gave. Whether products and sums of `mad.f32` are rounded
//! once or twice is documented nowhere, and nothing here depends on it.

use super::Select;
use super::build::Template;
use super::integer::constant;
use super::operand::{At, List, Opnd};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, Unary};
use crate::ir3::virt::{Code, Dst, FULL, HALF, Name, Src};
use crate::ir3::{Cond, Op, Round, Type};
use crate::machine::Class;

/// From here on the reciprocal is a denormal number: divisors are made smaller first.
const LARGE: u32 = 0x7e80_0000;
/// 2^-32.
const SMALLER: f32 = 2.328_306_4e-10;

impl Select<'_> {
    /// The sign is taken off or turned around where the word is read.
    fn signed(&self, a: &List, class: Class, of: impl Fn(bool, bool) -> (bool, bool)) -> List {
        let top = if class == HALF { 0x8000 } else { 0x8000_0000 };
        let each = |o: &Opnd| {
            let (neg, abs) = of(o.neg, o.abs);
            match o.at {
                At::Bits(bits) => {
                    let bits = if abs { bits & !top } else { bits };
                    Opnd::bits(if neg { bits ^ top } else { bits })
                }
                at => Opnd { at, neg, abs },
            }
        };
        a.iter().map(each).collect()
    }

    pub(super) fn float_neg(&self, a: &List, class: Class) -> List {
        self.signed(a, class, |neg, abs| (!neg, abs))
    }

    pub(super) fn float_abs(&self, a: &List, class: Class) -> List {
        self.signed(a, class, |_, _| (false, true))
    }

    /// Words without signs beside them.
    pub(super) fn plain(&mut self, class: Class, list: List) -> List {
        if list.iter().all(|o| !o.neg && !o.abs) {
            return list;
        }
        self.make(Template::of(Op::AbsnegF, class), &[&list])
    }

    pub(super) fn float_unary(&mut self, op: Unary, dtype: DType, a: &List) -> Result<List> {
        let class = super::class(dtype);
        let one = |op| Template::of(op, class);
        Ok(match op {
            Unary::Neg => self.float_neg(a, class),
            Unary::Abs => self.float_abs(a, class),
            _ if dtype != DType::F32 => return self.unsupported(format!("{op:?} on {dtype}")),
            Unary::Trunc => self.make(one(Op::TruncF), &[a]),
            Unary::Floor => self.make(one(Op::FloorF), &[a]),
            Unary::Ceil => self.make(one(Op::CeilF), &[a]),
            Unary::RoundEven => self.make(one(Op::RndneF), &[a]),
            Unary::Exp2 => self.make(one(Op::Exp2), &[a]),
            Unary::Recip => {
                let ones = vec![Opnd::float(1.0); a.len()];
                self.divide(&ones, a)
            }
            Unary::Sqrt => self.root(a),
            _ => return self.unsupported(format!("{op:?} on {dtype}")),
        })
    }

    pub(super) fn float_binary(
        &mut self,
        op: Binary,
        dtype: DType,
        a: List,
        b: List,
    ) -> Result<List> {
        let class = super::class(dtype);
        if dtype.is_float() && !matches!(dtype, DType::F32 | DType::F16) {
            return self.unsupported(format!("{op:?} on {dtype}"));
        }
        let two = |op| Template::of(op, class);
        let (a, b) = (&a, &b);
        Ok(match op {
            Binary::Add => self.make(two(Op::AddF), &[a, b]),
            Binary::Sub => {
                let minus = self.float_neg(b, class);
                self.make(two(Op::AddF), &[a, &minus])
            }
            Binary::Mul => self.make(two(Op::MulF), &[a, b]),
            Binary::Lt => self.compare(Op::CmpsF, Cond::Lt, class, a, b),
            Binary::Eq => self.compare(Op::CmpsF, Cond::Eq, class, a, b),
            Binary::Ne => self.compare(Op::CmpsF, Cond::Ne, class, a, b),
            Binary::Max => self.extreme(Op::MaxF, class, a, b),
            Binary::Min => self.extreme(Op::MinF, class, a, b),
            Binary::FDiv if dtype == DType::F32 => self.divide(a, b),
            Binary::TruncMod if dtype == DType::F32 => {
                let (a, b) = (self.plain(FULL, a.clone()), self.plain(FULL, b.clone()));
                let pairs = a.into_iter().zip(b);
                pairs.map(|(x, y)| self.float_rest(x, y)).collect()
            }
            _ => return self.unsupported(format!("{op:?} on {dtype}")),
        })
    }

    /// `a * b + c`. The second factor is a register: the first one may be a constant instead.
    pub(super) fn fma(&mut self, class: Class, a: &List, b: &List, c: &List) -> List {
        let op = if class == HALF {
            Op::MadF16
        } else {
            Op::MadF32
        };
        let register = |l: &List| l.iter().all(|o| matches!(o.at, At::Part(_)) && !o.abs);
        let (a, b) = if register(b) || !register(a) {
            (a, b)
        } else {
            (b, a)
        };
        self.make(Template::of(op, class), &[a, b, c])
    }

    /// The instruction takes the other one of a number and NaN.
    fn extreme(&mut self, op: Op, class: Class, a: &List, b: &List) -> List {
        let mut made = self.make(Template::of(op, class), &[a, b]);
        for x in [a, b] {
            let number = |o: &Opnd| match (o.at, class) {
                (At::Bits(bits), FULL) => !f32::from_bits(bits).is_nan(),
                (At::Bits(bits), _) => bits & 0x7fff <= 0x7c00,
                _ => false,
            };
            if x.iter().all(number) {
                continue;
            }
            let plain = self.plain(class, x.clone());
            let is = self.compare(Op::CmpsF, Cond::Eq, class, &plain, &plain);
            made = self.choose(class, &is, &made, &plain);
        }
        made
    }

    /// `a / b`.
    fn divide(&mut self, a: &List, b: &List) -> List {
        let lanes = a.len();
        let full = Template::full;
        let scalar = |x: f32| vec![Opnd::float(x); lanes];
        if let Some(c) = constant(b).map(f32::from_bits) {
            let inverse = scalar(1.0 / c);
            let exact = c.to_bits() & 0x007f_ffff == 0 && (1.0 / c).is_normal();
            if exact {
                return self.make(full(Op::MulF), &[a, &inverse]);
            }
            if c.is_normal() && (1.0 / c).is_normal() {
                let q = self.make(full(Op::MulF), &[a, &inverse]);
                return self.corrected(&q, a, b, &inverse);
            }
        }
        let size = self.float_abs(b, FULL);
        let limit = scalar(f32::from_bits(LARGE));
        let large = self.compare(Op::CmpsF, Cond::Ge, FULL, &size, &limit);
        let (small, one) = (scalar(SMALLER), scalar(1.0));
        let scale = self.choose(FULL, &large, &small, &one);
        let by = self.make(full(Op::MulF), &[b, &scale]);
        let inverse = self.make(full(Op::Rcp), &[&by]);
        let q = match constant(a) {
            Some(bits) if bits == 1f32.to_bits() => inverse.clone(),
            _ => self.make(full(Op::MulF), &[a, &inverse]),
        };
        let q = self.corrected(&q, a, &by, &inverse);
        self.make(full(Op::MulF), &[&q, &scale])
    }

    /// A quotient with what is left of the dividend added; itself where that is no number, and where it is 0: the sum of
    /// what is left and a zero has lost the sign.
    fn corrected(&mut self, q: &List, a: &List, b: &List, inverse: &List) -> List {
        let minus = self.float_neg(q, FULL);
        let left = self.fma(FULL, b, &minus, a);
        let better = self.fma(FULL, inverse, &left, q);
        let size = self.float_abs(&better, FULL);
        let zero = vec![Opnd::float(0.0); size.len()];
        let is = self.compare(Op::CmpsF, Cond::Gt, FULL, &size, &zero);
        self.choose(FULL, &is, &better, q)
    }

    /// The first one, or where it is NaN the second one.
    fn number_or(&mut self, a: &List, b: &List) -> List {
        let is = self.compare(Op::CmpsF, Cond::Eq, FULL, a, a);
        self.choose(FULL, &is, a, b)
    }

    fn root(&mut self, a: &List) -> List {
        let full = Template::full;
        let root = self.make(full(Op::Sqrt), &[a]);
        let inverse = self.make(full(Op::Rsq), &[a]);
        let half = vec![Opnd::float(0.5); a.len()];
        let inverse = self.make(full(Op::MulF), &[&inverse, &half]);
        let minus = self.float_neg(&root, FULL);
        let left = self.fma(FULL, &minus, &root, a);
        let better = self.fma(FULL, &inverse, &left, &root);
        self.number_or(&better, &root)
    }

    /// The remainder of a division of floats, of one lane: the mantissa is reduced once for each digit of the
    /// quotient. Denormal divisors are zeros, as everywhere.
    fn float_rest(&mut self, x: Opnd, y: Opnd) -> Opnd {
        let one = |o: Opnd| vec![o];
        let word = |bits: u32| vec![Opnd::bits(bits)];
        let (x, y) = (one(x), one(y));
        let (ax, ay) = (
            self.and(&x, &word(0x7fff_ffff)),
            self.and(&y, &word(0x7fff_ffff)),
        );
        let (ex, ey) = (self.shr_by(&ax, 23), self.shr_by(&ay, 23));
        let mantissa = |s: &mut Self, a: &List| {
            let m = s.and(a, &word(0x007f_ffff));
            s.or(&m, &word(0x0080_0000))
        };
        let (mx, my) = (mantissa(self, &ax), mantissa(self, &ay));
        let rest = self.lane(FULL);
        let left = self.lane(FULL);
        self.move_to(FULL, rest, mx[0]);
        let steps = self.sub(&ex, &ey);
        self.move_to(FULL, left, steps[0]);
        let head = self.enter(self.depth + 1);
        let now = one(Opnd::part(rest));
        let less = self.sub(&now, &my);
        let fits = self.compare(Op::CmpsU, Cond::Ge, FULL, &now, &my);
        let kept = self.choose(FULL, &fits, &less, &now);
        let more = self.compare(Op::CmpsS, Cond::Gt, FULL, &one(Opnd::part(left)), &word(0));
        // One digit further, but not after the last one.
        let next = self.shl(&kept, &more);
        self.predicate(2, more[0]);
        self.move_to(FULL, rest, next[0]);
        let down = vec![Src::part(left), Src::imm(1)];
        self.emit(Code::new(Op::SubS, Dst::Part(left), down));
        self.diverge(1);
        self.again(Name::Predicate(2), false, head);
        self.join();
        let float = self.make(
            Template::convert(Type::U32, Type::F32, Round::Even),
            &[&one(Opnd::part(rest))],
        );
        let unit = vec![Opnd::float(1.192_092_9e-7)];
        let float = self.make(Template::full(Op::MulF), &[&float, &unit]);
        let scale = self.shl_by(&ey, 23);
        let size = self.make(Template::full(Op::MulF), &[&float, &scale]);
        let sign = self.and(&x, &word(0x8000_0000));
        let value = self.or(&size, &sign);
        // A smaller dividend is the remainder; infinities and zeros have none.
        let below = self.compare(Op::CmpsU, Cond::Lt, FULL, &ax, &ay);
        let value = self.choose(FULL, &below, &x, &value);
        let endless = self.compare(Op::CmpsU, Cond::Ge, FULL, &ax, &word(0x7f80_0000));
        let none = self.compare(Op::CmpsU, Cond::Lt, FULL, &ay, &word(0x0080_0000));
        let wrong = self.compare(Op::CmpsU, Cond::Gt, FULL, &ay, &word(0x7f80_0000));
        let any = self.or(&endless, &none);
        let any = self.or(&any, &wrong);
        self.choose(FULL, &any, &word(0x7fc0_0000), &value)[0]
    }
}
