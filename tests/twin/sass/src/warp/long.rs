//! Integers of 64 bits as one operand, which Blackwell's arithmetic has: sums, comparisons, selection.

use super::integer::{Combine, Order};
use super::program::Refusal;
use super::simd::Lanewise;
use super::source::{Condition, Flag, From, Pairs, Place, Reading, Source, Style};
use super::state::{Constants, State, each, mask};
use crate::operand::Kind;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Carries go in and out.
    Sum {
        to: Place,
        carry: [Flag; 2],
        of: [Source; 3],
        with: Option<[Condition; 2]>,
    },
    Compare {
        to: [Flag; 2],
        of: [Source; 2],
        order: Order,
        signed: bool,
        combine: Combine,
        with: Condition,
    },
    /// The first if a condition holds.
    Select {
        to: Place,
        of: [Source; 2],
        with: Condition,
    },
    /// The smaller one if a condition holds, otherwise the greater.
    Extreme {
        to: Place,
        of: [Source; 2],
        signed: bool,
        least: Condition,
    },
}

const ZERO: Source = Source {
    from: From::Register(255),
    and: u32::MAX,
    xor: 0,
    plus: 0,
};
const NONE: Flag = Flag {
    uniform: false,
    number: 7,
};
const TRUE: Condition = Condition {
    uniform: false,
    number: 7,
    inverted: false,
};
const FALSE: Condition = Condition {
    inverted: true,
    ..TRUE
};

/// An operation by its name, if it is one of 64 bits.
pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let signed = r.has(".S64");
    if !signed && !r.has(".U64") && !r.has(".64") {
        return Ok(None);
    }
    Ok(Some(match name {
        "IADD" => Op::Sum {
            to: r.place()?,
            carry: [r.flag()?, NONE],
            of: [source(r)?, source(r)?, ZERO],
            with: if r.has(".X") {
                Some([r.condition()?, FALSE])
            } else {
                None
            },
        },
        "IADD3" => Op::Sum {
            to: r.place()?,
            carry: [r.flag()?, r.flag()?],
            of: [source(r)?, source(r)?, source(r)?],
            with: if r.has(".X") {
                Some([r.condition()?, r.condition()?])
            } else {
                None
            },
        },
        "ISETP" if r.has(".EX") => {
            return Err(r.refuse("comparisons of more than 64 bits are not modelled"));
        }
        "ISETP" => Op::Compare {
            to: [r.flag()?, r.flag()?],
            of: [source(r)?, source(r)?],
            order: Order::read(r)?,
            signed,
            combine: Combine::read(r),
            with: r.condition()?,
        },
        "MOV" => {
            let (to, of) = (r.place()?, source(r)?);
            if r.left() > 0 && r.number()? != 15 {
                return Err(r.refuse("a move of some bytes only is not modelled"));
            }
            Op::Select {
                to,
                of: [of, ZERO],
                with: TRUE,
            }
        }
        "SEL" => Op::Select {
            to: r.place()?,
            of: [source(r)?, source(r)?],
            with: r.condition()?,
        },
        "IMNMX" => {
            let results = [r.flag()?, r.flag()?];
            let op = Op::Extreme {
                to: r.place()?,
                of: [source(r)?, source(r)?],
                signed,
                least: r.condition()?,
            };
            let last = r.condition()?;
            if results.iter().any(|flag| flag.number != 7) || last.number != 7 || !last.inverted {
                return Err(r.refuse("what its predicates say is not known"));
            }
            op
        }
        _ => return Ok(None),
    }))
}

/// A source of two words. An immediate has its sign in the upper one.
fn source(r: &mut Reading) -> Result<Source, Refusal> {
    let kind = r.peek().map(|operand| operand.kind);
    let mut source = r.source(Style::Integer)?;
    if let Some(Kind::Immediate(value, _)) = kind {
        source.from = From::Immediate(value as u32, (value >> 32) as u32);
    }
    Ok(source)
}

impl Lanewise for Op {
    #[inline(always)]
    fn run(&self, state: &mut State, c: &Constants, active: u32) {
        match *self {
            Op::Sum {
                to,
                carry,
                ref of,
                with,
            } => {
                let inputs = with.map(|with| with.map(|with| state.test(with)));
                // A negative number is its inverse and one more, which may carry.
                let v = of.map(|source| state.wide(&source, c));
                let sums: [u128; 32] = each(|i| {
                    let carried =
                        inputs.map_or(0, |[a, b]| u128::from(a >> i & 1) + u128::from(b >> i & 1));
                    v.iter()
                        .map(|(x, one)| u128::from(x[i]) + u128::from(*one))
                        .sum::<u128>()
                        + carried
                });
                state.put_pair(to, active, &sums.map(|sum| sum as u64));
                state.set(carry[0], active, mask(|i| sums[i] >> 64 >= 1));
                state.set(carry[1], active, mask(|i| sums[i] >> 64 >= 2));
            }
            Op::Compare {
                to,
                of,
                order,
                signed,
                combine,
                with,
            } => {
                let [a, b] = of.map(|source| value(state, &source, c));
                let holds = if signed {
                    order.lanes(&a.map(u64::cast_signed), &b.map(u64::cast_signed))
                } else {
                    order.lanes(&a, &b)
                };
                let with = state.test(with);
                state.set(to[0], active, combine.of(holds, with));
                state.set(to[1], active, combine.of(!holds, with));
            }
            Op::Select { to, of, with } => {
                let [a, b] = of.map(|source| value(state, &source, c));
                let with = state.test(with);
                state.put_pair(
                    to,
                    active,
                    &each(|i| if with >> i & 1 != 0 { a[i] } else { b[i] }),
                );
            }
            Op::Extreme {
                to,
                of,
                signed,
                least,
            } => {
                let [a, b] = of.map(|source| value(state, &source, c));
                let least = state.test(least);
                let value = each(|i| {
                    let less = if signed {
                        a[i].cast_signed() < b[i].cast_signed()
                    } else {
                        a[i] < b[i]
                    };
                    if less == (least >> i & 1 != 0) {
                        a[i]
                    } else {
                        b[i]
                    }
                });
                state.put_pair(to, active, &value);
            }
        }
    }
}

/// A source with its sign.
#[inline(always)]
fn value(state: &State, source: &Source, c: &Constants) -> Pairs {
    let (value, one) = state.wide(source, c);
    value.map(|x| x.wrapping_add(one))
}
