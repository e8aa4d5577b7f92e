//! Integers, logic, selection: what they mean.

use super::lane::{self, Word};
use super::program::Refusal;
use super::simd::Lanewise;
use super::source::{Condition, Flag, From, Lanes, Place, Reading, Source, Style};
use super::state::{Constants, State, each, mask};

/// How two numbers compare.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    Never,
    Less,
    Equal,
    LessEqual,
    Greater,
    NotEqual,
    GreaterEqual,
    Always,
}

impl Order {
    pub fn read(r: &Reading) -> Result<Self, Refusal> {
        use Order::{Always, Equal, Greater, GreaterEqual, Less, LessEqual, Never, NotEqual};
        r.choice(&[
            (".LT", Less),
            (".EQ", Equal),
            (".LE", LessEqual),
            (".GT", Greater),
            (".NE", NotEqual),
            (".GE", GreaterEqual),
            (".F", Never),
            (".T", Always),
        ])
        .ok_or_else(|| r.refuse("no comparison"))
    }

    /// For which lanes it holds; the loop is one for each order.
    #[inline(always)]
    pub fn lanes<T: PartialOrd>(self, a: &[T; 32], b: &[T; 32]) -> u32 {
        match self {
            Self::Never => 0,
            Self::Less => mask(|i| a[i] < b[i]),
            Self::Equal => mask(|i| a[i] == b[i]),
            Self::LessEqual => mask(|i| a[i] <= b[i]),
            Self::Greater => mask(|i| a[i] > b[i]),
            Self::NotEqual => mask(|i| a[i] != b[i]),
            Self::GreaterEqual => mask(|i| a[i] >= b[i]),
            Self::Always => u32::MAX,
        }
    }
}

/// How a comparison combines with a predicate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Combine {
    And,
    Or,
    Xor,
}

impl Combine {
    pub fn read(reading: &Reading) -> Self {
        reading
            .choice(&[(".OR", Self::Or), (".XOR", Self::Xor)])
            .unwrap_or(Self::And)
    }

    pub fn of(self, a: u32, b: u32) -> u32 {
        match self {
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
        }
    }
}

/// Which half of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Low,
    High,
    Both,
}

/// A predicate, or the sign of a word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bit {
    Predicate(Condition),
    Sign(Source),
}

impl Bit {
    fn read(r: &mut Reading) -> Result<Self, Refusal> {
        match r.peek() {
            Some(operand) if operand.part == ".SIGN" => r.source(Style::Integer).map(Self::Sign),
            _ => r.condition().map(Self::Predicate),
        }
    }

    fn of(self, state: &State, c: &Constants) -> u32 {
        match self {
            Self::Predicate(condition) => state.test(condition),
            Self::Sign(source) => {
                let value = state.get(&source, c);
                mask(|i| value[i] >> 31 != 0)
            }
        }
    }
}

/// A sum of three words. Carries go in and out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sum {
    to: Place,
    carry: [Flag; 2],
    of: [Source; 3],
    with: Option<[Condition; 2]>,
}

/// A product of two words, and a third one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    to: Place,
    carry: Option<Flag>,
    of: [Source; 3],
    with: Option<Condition>,
    signed: bool,
    half: Half,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    to: [Flag; 2],
    of: [Source; 2],
    order: Order,
    signed: bool,
    combine: Combine,
    with: Condition,
    low: Option<Condition>,
}

/// The first source, shifted, and the second; the third is the upper half of the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled {
    to: Place,
    carry: Flag,
    of: [Source; 3],
    shift: u32,
    with: Option<Condition>,
    high: bool,
    sign: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Add3(Sum),
    Multiply(Product),
    Compare(Comparison),
    Logic {
        to: Place,
        any: Flag,
        of: [Source; 3],
        table: u8,
        with: Condition,
        and: bool,
    },
    Scale(Scaled),
    Word {
        to: Place,
        flag: Option<Flag>,
        of: [Source; 3],
        with: Option<Condition>,
        word: Word,
    },
    /// Two tables over three bits.
    Predicates {
        to: [Flag; 2],
        of: [Bit; 3],
        tables: [u8; 2],
    },
    /// All predicates into a byte of a word, or out of one: those of a mask, and how far up.
    Gather {
        to: Place,
        of: [Source; 2],
        shift: u32,
    },
    Scatter {
        of: [Source; 2],
        shift: u32,
    },
}

const ZERO: Source = Source {
    from: From::Register(255),
    and: u32::MAX,
    xor: 0,
    plus: 0,
};

/// An operation by its name.
pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let signed = !r.has(".U32");
    let int = Style::Integer;
    let op = match name {
        "IADD" => Op::Add3(Sum::of_two(r)?),
        "IADD3" => Op::Add3(Sum {
            to: r.place()?,
            carry: [r.flag()?, r.flag()?],
            of: [r.source(int)?, r.source(int)?, r.source(int)?],
            with: if r.has(".X") {
                Some([r.condition()?, r.condition()?])
            } else {
                None
            },
        }),
        "IMAD" => Op::Multiply(Product::read(r, signed)?),
        "ISETP" => Op::Compare(Comparison {
            to: [r.flag()?, r.flag()?],
            of: [r.source(int)?, r.source(int)?],
            order: Order::read(r)?,
            signed,
            combine: Combine::read(r),
            with: r.condition()?,
            low: if r.has(".EX") {
                Some(r.condition()?)
            } else {
                None
            },
        }),
        "LOP3" => Op::Logic {
            any: r.flag()?,
            to: r.place()?,
            of: [r.source(int)?, r.source(int)?, r.source(int)?],
            table: r.number()? as u8,
            with: r.condition()?,
            and: r.has(".PAND"),
        },
        "LEA" => Op::Scale(Scaled::read(r)?),
        "PLOP3" => return predicates(r).map(Some),
        "P2R" => {
            let to = r.place()?;
            r.next()?;
            Op::Gather {
                to,
                of: [r.source(int)?, r.source(int)?],
                shift: byte(
                    r.choice(&[(".B1", ".B1"), (".B2", ".B2"), (".B3", ".B3")])
                        .unwrap_or_default(),
                ),
            }
        }
        "R2P" => {
            r.next()?;
            let (of, part) = r.part(int)?;
            Op::Scatter {
                of: [of, r.source(int)?],
                shift: byte(part),
            }
        }
        _ => return word(name, r, signed),
    };
    Ok(Some(op))
}

/// How far up a byte of a word lies.
fn byte(part: &str) -> u32 {
    match part {
        ".B1" => 8,
        ".B2" => 16,
        ".B3" => 24,
        _ => 0,
    }
}

fn predicates(r: &mut Reading) -> Result<Op, Refusal> {
    Ok(Op::Predicates {
        to: [r.flag()?, r.flag()?],
        of: [Bit::read(r)?, Bit::read(r)?, Bit::read(r)?],
        tables: [r.number()? as u8, r.number()? as u8],
    })
}

fn word(name: &str, r: &mut Reading, signed: bool) -> Result<Option<Op>, Refusal> {
    let Some((word, sources, last)) = lane::lower(name, r, signed)? else {
        return Ok(None);
    };
    let to = r.place()?;
    let flag = match name {
        "FLO" | "VABSDIFF" => Some(r.flag()?),
        _ => None,
    };
    let mut of = [ZERO; 3];
    for source in &mut of[..sources] {
        *source = r.source(Style::Integer)?;
    }
    if name == "MOV" && r.left() > 0 && r.number()? != 15 {
        return Err(r.refuse("a move of some bytes only is not modelled"));
    }
    let with = if last { Some(r.condition()?) } else { None };
    Ok(Some(Op::Word {
        to,
        flag,
        of,
        with,
        word,
    }))
}

/// A sum of some words, each with the carry that its negation makes.
#[inline(always)]
fn total(values: &[(u32, bool)]) -> u64 {
    values
        .iter()
        .map(|&(x, negated)| u64::from(x) + u64::from(negated))
        .sum()
}

impl Sum {
    fn of_two(r: &mut Reading) -> Result<Self, Refusal> {
        let int = Style::Integer;
        Ok(Self {
            to: r.place()?,
            carry: [
                r.flag()?,
                Flag {
                    uniform: false,
                    number: 7,
                },
            ],
            of: [r.source(int)?, r.source(int)?, ZERO],
            with: if r.has(".X") {
                let never = Condition {
                    uniform: false,
                    number: 7,
                    inverted: true,
                };
                Some([r.condition()?, never])
            } else {
                None
            },
        })
    }

    #[inline(always)]
    fn run(&self, state: &mut State, c: &Constants, active: u32) {
        let &Self {
            to,
            carry,
            ref of,
            with,
        } = self;
        let inputs = with.map(|with| with.map(|with| state.test(with)));
        if with.is_none() && carry.iter().all(|flag| flag.number == 7) {
            let room = &mut [[0; 32]; 3];
            let [a, b, d] = state.look_at(of, c, room);
            let value = each(|i| a[i].wrapping_add(b[i]).wrapping_add(d[i]));
            state.put(to, active, &value);
            return;
        }
        // A negative number is its inverse and one more, which may carry.
        let v = of.map(|source| state.get(&Source { plus: 0, ..source }, c));
        let negated = of.map(|source| source.negative());
        let sums: [u64; 32] = each(|i| {
            let carried = inputs.map_or(0, |[a, b]| u64::from(a >> i & 1) + u64::from(b >> i & 1));
            total(&[
                (v[0][i], negated[0]),
                (v[1][i], negated[1]),
                (v[2][i], negated[2]),
            ]) + carried
        });
        state.put(to, active, &sums.map(|sum| sum as u32));
        if carry[0].number != 7 || carry[1].number != 7 {
            state.set(carry[0], active, mask(|i| sums[i] >> 32 >= 1));
            state.set(carry[1], active, mask(|i| sums[i] >> 32 >= 2));
        }
    }
}

impl Product {
    fn read(r: &mut Reading, signed: bool) -> Result<Self, Refusal> {
        let int = Style::Integer;
        let half = r
            .choice(&[(".WIDE", Half::Both), (".HI", Half::High)])
            .unwrap_or(Half::Low);
        Ok(Self {
            to: r.place()?,
            carry: if half == Half::Low {
                None
            } else {
                Some(r.flag()?)
            },
            of: [r.source(int)?, r.source(int)?, r.source(int)?],
            with: if r.has(".X") {
                Some(r.condition()?)
            } else {
                None
            },
            signed,
            half,
        })
    }

    #[inline(always)]
    fn run(&self, state: &mut State, c: &Constants, active: u32) {
        let &Self {
            to,
            carry,
            ref of,
            with,
            signed,
            half,
        } = self;
        if with.is_none() && half == Half::Low {
            let room = &mut [[0; 32]; 3];
            let [a, b, third] = state.look_at(of, c, room);
            let value = each(|i| a[i].wrapping_mul(b[i]).wrapping_add(third[i]));
            state.put(to, active, &value);
            return;
        }
        let [a, b, third] = of;
        let (a, b) = (state.get(a, c), state.get(b, c));
        let carried = with.map_or(0, |with| state.test(with));
        let (third, one) = match third.from {
            _ if half == Half::Low => (state.get(third, c).map(u64::from), 0),
            From::Immediate(low, _) if signed => {
                ([i64::from(low.cast_signed()).cast_unsigned(); 32], 0)
            }
            _ => state.wide(third, c),
        };
        let sums: [u128; 32] = each(|i| {
            let product = if signed {
                (i64::from(a[i].cast_signed()) * i64::from(b[i].cast_signed())).cast_unsigned()
            } else {
                u64::from(a[i]) * u64::from(b[i])
            };
            u128::from(product)
                + u128::from(third[i])
                + u128::from(one)
                + u128::from(carried >> i & 1)
        });
        match half {
            Half::Low => state.put(to, active, &sums.map(|sum| sum as u32)),
            Half::High => state.put(to, active, &sums.map(|sum| (sum >> 32) as u32)),
            Half::Both => state.put_pair(to, active, &sums.map(|sum| sum as u64)),
        }
        if let Some(carry) = carry {
            state.set(carry, active, mask(|i| sums[i] >> 64 != 0));
        }
    }
}

impl Comparison {
    #[inline(always)]
    fn run(&self, state: &mut State, c: &Constants, active: u32) {
        let (room, other) = (&mut [0; 32], &mut [0; 32]);
        let [a, b] = &self.of;
        let (a, b) = (state.look(a, c, room), state.look(b, c, other));
        let mut holds = if self.signed {
            let (a, b) = (a.map(u32::cast_signed), b.map(u32::cast_signed));
            self.order.lanes(&a, &b)
        } else {
            self.order.lanes(a, b)
        };
        if let Some(low) = self.low {
            // Where the upper halves are the same, the lower ones decide.
            let same = mask(|i| a[i] == b[i]);
            holds = holds & !same | state.test(low) & same;
        }
        let with = state.test(self.with);
        state.set(self.to[0], active, self.combine.of(holds, with));
        state.set(self.to[1], active, self.combine.of(!holds, with));
    }
}

impl Scaled {
    fn read(r: &mut Reading) -> Result<Self, Refusal> {
        let int = Style::Integer;
        let has = |part| {
            r.inst
                .modifiers
                .iter()
                .any(|text| text.split('.').any(|p| p == part))
        };
        let (high, sign, extended) = (has("HI"), has("SX32"), has("X"));
        let (to, carry) = (r.place()?, r.flag()?);
        let (a, b) = (r.source(int)?, r.source(int)?);
        let upper = if high && !sign { r.source(int)? } else { ZERO };
        Ok(Self {
            to,
            carry,
            of: [a, b, upper],
            shift: r.number()? as u32,
            with: if extended { Some(r.condition()?) } else { None },
            high,
            sign,
        })
    }

    #[inline(always)]
    fn run(&self, state: &mut State, c: &Constants, active: u32) {
        let &Self {
            shift, high, sign, ..
        } = self;
        // Of the first source what was shifted is negated.
        let [a, b, upper] = self.of;
        let x = state.raw(a.from, c);
        let upper = state.raw(upper.from, c);
        let y = state.get(&Source { plus: 0, ..b }, c);
        let carried = self.with.map_or(0, |with| state.test(with));
        let sums: [u64; 32] = each(|i| {
            let top = if sign {
                (x[i].cast_signed() >> 31).cast_unsigned()
            } else {
                upper[i]
            };
            let wide = u64::from(top) << 32 | u64::from(x[i]);
            let shifted = if high {
                (wide >> (32 - shift)) as u32
            } else {
                x[i] << shift
            };
            total(&[(shifted ^ a.xor, a.negative()), (y[i], b.negative())])
                + u64::from(carried >> i & 1)
        });
        state.put(self.to, active, &sums.map(|sum| sum as u32));
        state.set(self.carry, active, mask(|i| sums[i] >> 32 != 0));
    }
}

/// The first source, with predicates in one of its bytes.
#[inline(always)]
fn gathered(state: &State, c: &Constants, of: &[Source; 2], shift: u32) -> Lanes {
    let [rest, chosen] = of.map(|source| state.get(&source, c));
    let predicates = state.predicates;
    each(|i| {
        let all = (0..7).fold(0, |all, k| all | (predicates[k] >> i & 1) << k);
        rest[i] & !(chosen[i] << shift) | (all & chosen[i]) << shift
    })
}

/// Sets predicates out of a byte of a word.
#[inline(always)]
fn scatter(state: &mut State, c: &Constants, of: &[Source; 2], shift: u32, active: u32) {
    let [value, chosen] = of.map(|source| state.get(&source, c));
    for number in 0..7 {
        let lanes = active & mask(|i| chosen[i] >> number & 1 != 0);
        let flag = Flag {
            uniform: false,
            number,
        };
        state.set(flag, lanes, mask(|i| value[i] >> shift >> number & 1 != 0));
    }
}

impl Lanewise for Op {
    #[inline(always)]
    fn run(&self, state: &mut State, c: &Constants, active: u32) {
        match *self {
            Op::Add3(ref sum) => sum.run(state, c, active),
            Op::Multiply(ref product) => product.run(state, c, active),
            Op::Compare(ref comparison) => comparison.run(state, c, active),
            Op::Scale(ref scaled) => scaled.run(state, c, active),
            Op::Logic {
                to,
                any,
                ref of,
                table,
                with,
                and,
            } => {
                let room = &mut [[0; 32]; 3];
                let [x, y, z] = state.look_at(of, c, room);
                let value: Lanes = match table {
                    0xc0 => each(|i| x[i] & y[i]),
                    0xfc => each(|i| x[i] | y[i]),
                    0x3c => each(|i| x[i] ^ y[i]),
                    _ => each(|i| logic(table, x[i], y[i], z[i])),
                };
                state.put(to, active, &value);
                if any.number != 7 {
                    let (some, with) = (mask(|i| value[i] != 0), state.test(with));
                    state.set(any, active, if and { some & with } else { some | with });
                }
            }
            Op::Word {
                to,
                flag,
                ref of,
                with,
                ref word,
            } => {
                let room = &mut [[0; 32]; 3];
                let [x, y, z] = state.look_at(of, c, room);
                let with = with.map_or(0, |with| state.test(with));
                let value: Lanes = match *word {
                    Word::Move => *x,
                    Word::Select => each(|i| if with >> i & 1 != 0 { x[i] } else { y[i] }),
                    Word::Add => each(|i| x[i].wrapping_add(y[i])),
                    word => each(|i| word.of(x[i], y[i], z[i], with >> i & 1 != 0)),
                };
                state.put(to, active, &value);
                if let Some(flag) = flag {
                    let found = matches!(word, Word::Find(..));
                    state.set(flag, active, mask(|i| found && value[i] != u32::MAX));
                }
            }
            Op::Gather { to, ref of, shift } => {
                let value = gathered(state, c, of, shift);
                state.put(to, active, &value);
            }
            Op::Scatter { ref of, shift } => scatter(state, c, of, shift, active),
            Op::Predicates { to, of, tables } => {
                let [x, y, z] = of.map(|bit| bit.of(state, c));
                for (to, table) in to.into_iter().zip(tables) {
                    state.set(to, active, logic(table, x, y, z));
                }
            }
        }
    }
}

/// Bit by bit what a table says: bit `4x + 2y + z` of it.
#[inline(always)]
pub(crate) fn logic(table: u8, x: u32, y: u32, z: u32) -> u32 {
    let pick = |k: u32| if table >> k & 1 != 0 { u32::MAX } else { 0 };
    let low = |k: u32| (!z & pick(k)) | (z & pick(k + 1));
    let middle = |k: u32| (!y & low(k)) | (y & low(k + 2));
    (!x & middle(0)) | (x & middle(4))
}
