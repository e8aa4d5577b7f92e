//! Pairs of halves, and of bfloat16. Each is computed as a double, rounded to odd, then to its type.

use super::integer::Combine;
use super::program::Refusal;
use super::rounding::{Rounding, narrow, odd_sum};
use super::simd::Lanewise;
use super::single::{Compare, canonical, extreme};
use super::source::{Condition, Flag, Lanes, Place, Reading, Source, Style};
use super::state::{Constants, State, each, mask};

/// Which 16 bits a number has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Half,
    Brain,
}

impl Type {
    fn read(r: &Reading) -> Self {
        if r.has(".BF16_V2") {
            Self::Brain
        } else {
            Self::Half
        }
    }

    /// The bits of the exponent and of the fraction.
    fn bits(self) -> (u32, u32) {
        match self {
            Self::Half => (5, 10),
            Self::Brain => (8, 7),
        }
    }

    /// 16 bits as a number.
    pub fn wide(self, bits: u32) -> f32 {
        if self == Self::Brain {
            return f32::from_bits(bits << 16);
        }
        let sign = (bits & 0x8000) << 16;
        let magnitude = match (bits >> 10 & 31, bits & 0x3ff) {
            (31, fraction) => 0x7f80_0000 | fraction << 13,
            (0, fraction) => (fraction as f32 / 16_777_216.0).to_bits(),
            (exponent, fraction) => (exponent + 112) << 23 | fraction << 13,
        };
        f32::from_bits(sign | magnitude)
    }

    pub fn narrow(self, value: f64, rounding: Rounding) -> u32 {
        let (exponent, fraction) = self.bits();
        narrow(value, exponent, fraction, rounding)
    }

    /// Zero of the same sign for what has no leading one.
    fn flush(self, bits: u32) -> u32 {
        let (exponent, fraction) = self.bits();
        if bits >> fraction & ((1 << exponent) - 1) == 0 {
            bits & 0x8000
        } else {
            bits
        }
    }

    fn one(self) -> u32 {
        self.narrow(1.0, Rounding::Nearest)
    }
}

/// Which parts of a source are its two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Both,
    Low,
    High,
}

/// A source of pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair(Source, Part);

impl Pair {
    fn read(r: &mut Reading) -> Result<Self, Refusal> {
        let (source, part) = r.part(Style::Halves)?;
        let part = match part {
            "" => Part::Both,
            ".H0_H0" => Part::Low,
            ".H1_H1" => Part::High,
            other => return Err(r.refuse(format!("a source with {other} is not modelled"))),
        };
        Ok(Self(source, part))
    }

    /// The lower number and the upper one of each lane.
    fn get(&self, state: &State, c: &Constants) -> [Lanes; 2] {
        let value = state.get(&self.0, c);
        let (low, high) = (value.map(|x| x & 0xffff), value.map(|x| x >> 16));
        match self.1 {
            Part::Both => [low, high],
            Part::Low => [low, low],
            Part::High => [high, high],
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    of: Type,
    flush: bool,
    zero: bool,
    saturate: bool,
    /// Not below zero.
    floor: bool,
    /// The result is a single: that of the lower numbers.
    single: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Add(Place, [Pair; 2], Mode),
    Multiply(Place, [Pair; 2], Mode),
    Fused(Place, [Pair; 3], Mode),
    Set(Place, [Pair; 2], Compare, Combine, Condition, Mode, bool),
    /// One for each number, or one that both hold and one that they do not.
    Compare(
        [Flag; 2],
        [Pair; 2],
        Compare,
        Combine,
        Condition,
        Mode,
        bool,
    ),
    Extreme {
        to: Place,
        of: [Pair; 2],
        with: Condition,
        mode: Mode,
        nan: bool,
        sign: bool,
    },
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let zero = r.has(".FMZ");
    let mode = Mode {
        of: Type::read(r),
        flush: r.has(".FTZ") || zero,
        zero,
        saturate: r.has(".SAT"),
        floor: r.has(".RELU"),
        single: name == "HADD2" && r.has(".F32"),
    };
    if r.has(".OOB") {
        return Err(r.refuse("numbers out of bounds are not modelled"));
    }
    Ok(Some(match name {
        "HADD2" => Op::Add(r.place()?, [Pair::read(r)?, Pair::read(r)?], mode),
        "HMUL2" => Op::Multiply(r.place()?, [Pair::read(r)?, Pair::read(r)?], mode),
        "HFMA2" => Op::Fused(
            r.place()?,
            [Pair::read(r)?, Pair::read(r)?, Pair::read(r)?],
            mode,
        ),
        "HSET2" => {
            let (to, of) = (r.place()?, [Pair::read(r)?, Pair::read(r)?]);
            Op::Set(
                to,
                of,
                Compare::read(r)?,
                Combine::read(r),
                r.condition()?,
                mode,
                r.has(".BF"),
            )
        }
        "HSETP2" => {
            let (to, of) = ([r.flag()?, r.flag()?], [Pair::read(r)?, Pair::read(r)?]);
            Op::Compare(
                to,
                of,
                Compare::read(r)?,
                Combine::read(r),
                r.condition()?,
                mode,
                r.has(".H_AND"),
            )
        }
        "HMNMX2" => {
            let (to, mut of) = (r.place()?, [Pair::read(r)?, Pair::read(r)?]);
            let sign = r.has(".XORSIGN");
            if sign {
                of = [
                    Pair(r.signed(of[0].0)?, of[0].1),
                    Pair(r.signed(of[1].0)?, of[1].1),
                ];
            }
            Op::Extreme {
                to,
                of,
                with: r.condition()?,
                mode,
                nan: r.has(".NAN"),
                sign,
            }
        }
        _ => return Ok(None),
    }))
}

impl Mode {
    fn input(self, bits: u32) -> f64 {
        f64::from(self.of.wide(if self.flush {
            self.of.flush(bits)
        } else {
            bits
        }))
    }

    fn output(self, value: f64) -> u32 {
        let value = match value {
            x if self.saturate => {
                if x > 0.0 {
                    x.min(1.0)
                } else {
                    0.0
                }
            }
            x if self.floor && x < 0.0 => 0.0,
            x => x,
        };
        let bits = self.of.narrow(value, Rounding::Nearest);
        if self.flush {
            self.of.flush(bits)
        } else {
            bits
        }
    }

    fn product(self, a: f64, b: f64) -> f64 {
        if self.zero && (a == 0.0 || b == 0.0) {
            0.0
        } else {
            a * b
        }
    }

    /// Writes what is computed of each lane's numbers, the lower ones and the upper ones.
    fn put(self, state: &mut State, to: Place, active: u32, of: impl Fn(usize, usize) -> f64) {
        let value = each(|i| {
            if self.single {
                canonical(of(0, i) as f32)
            } else {
                self.output(of(0, i)) | self.output(of(1, i)) << 16
            }
        });
        state.put(to, active, &value);
    }
}

impl Lanewise for Op {
    #[inline(always)]
    fn run(&self, state: &mut State, c: &Constants, active: u32) {
        match *self {
            Op::Add(to, ref of, mode) => {
                let [a, b] = of.map(|pair| pair.get(state, c));
                mode.put(state, to, active, |k, i| {
                    odd_sum(mode.input(a[k][i]), mode.input(b[k][i]))
                });
            }
            Op::Multiply(to, ref of, mode) => {
                let [a, b] = of.map(|pair| pair.get(state, c));
                mode.put(state, to, active, |k, i| {
                    mode.product(mode.input(a[k][i]), mode.input(b[k][i]))
                });
            }
            Op::Fused(to, ref of, mode) => {
                let [a, b, d] = of.map(|pair| pair.get(state, c));
                mode.put(state, to, active, |k, i| {
                    odd_sum(
                        mode.product(mode.input(a[k][i]), mode.input(b[k][i])),
                        mode.input(d[k][i]),
                    )
                });
            }
            Op::Set(to, ref of, compare, combine, with, mode, number) => {
                let holds = compared(state, c, of, compare, mode);
                let with = state.test(with);
                let one = if number { mode.of.one() } else { 0xffff };
                let [low, high] = holds.map(|holds| combine.of(holds, with));
                let value = each(|i| ((low >> i & 1) * one) | ((high >> i & 1) * (one << 16)));
                state.put(to, active, &value);
            }
            Op::Compare(to, ref of, compare, combine, with, mode, both) => {
                let [low, high] = compared(state, c, of, compare, mode);
                let with = state.test(with);
                let (first, second) = if both {
                    (low & high, !(low & high))
                } else {
                    (low, high)
                };
                state.set(to[0], active, combine.of(first, with));
                state.set(to[1], active, combine.of(second, with));
            }
            Op::Extreme {
                to,
                ref of,
                with,
                mode,
                nan,
                sign,
            } => {
                let [a, b] = of.map(|pair| pair.get(state, c));
                let with = state.test(with);
                mode.put(state, to, active, |k, i| {
                    let bits = |x: u32| (mode.input(x) as f32).to_bits();
                    let x = extreme(bits(a[k][i]), bits(b[k][i]), with >> i & 1 != 0, nan, sign);
                    f64::from(f32::from_bits(x))
                });
            }
        }
    }
}

/// Whether it holds for the lower numbers, and for the upper ones.
fn compared(
    state: &State,
    c: &Constants,
    of: &[Pair; 2],
    compare: Compare,
    mode: Mode,
) -> [u32; 2] {
    let [a, b] = of.map(|pair| pair.get(state, c));
    [0, 1].map(|k| mask(|i| compare.holds(&mode.input(a[k][i]), &mode.input(b[k][i]))))
}
