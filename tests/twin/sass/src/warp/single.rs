//! Singles.

use super::half::Type;
use super::integer::Combine;
use super::program::Refusal;
use super::rounding::{Rounding, odd_sum, single};
use super::simd::Lanewise;
use super::source::{Condition, Flag, Lanes, Place, Reading, Source, Style};
use super::special::Function;
use super::state::{Constants, State, each, mask};

/// How two floating-point numbers compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compare {
    less: bool,
    equal: bool,
    greater: bool,
    /// One of them is no number.
    unordered: bool,
}

impl Compare {
    pub fn read(r: &Reading) -> Result<Self, Refusal> {
        let rows: [(&str, u8); 16] = [
            (".F", 0),
            (".LT", 1),
            (".EQ", 2),
            (".LE", 3),
            (".GT", 4),
            (".NE", 5),
            (".GE", 6),
            (".NUM", 7),
            (".NAN", 8),
            (".LTU", 9),
            (".EQU", 10),
            (".LEU", 11),
            (".GTU", 12),
            (".NEU", 13),
            (".GEU", 14),
            (".T", 15),
        ];
        let set = r.choice(&rows).ok_or_else(|| r.refuse("no comparison"))?;
        Ok(Self {
            less: set & 1 != 0,
            equal: set & 2 != 0,
            greater: set & 4 != 0,
            unordered: set & 8 != 0,
        })
    }

    #[inline(always)]
    pub fn holds<T: PartialOrd>(self, a: &T, b: &T) -> bool {
        match a.partial_cmp(b) {
            Some(std::cmp::Ordering::Less) => self.less,
            Some(std::cmp::Ordering::Equal) => self.equal,
            Some(std::cmp::Ordering::Greater) => self.greater,
            None => self.unordered,
        }
    }
}

/// What is done to sources and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub rounding: Rounding,
    /// What is too small for a leading one is zero.
    pub flush: bool,
    /// Zero times anything is zero.
    pub zero: bool,
    /// The result is from 0 to 1.
    pub saturate: bool,
}

impl Mode {
    pub fn read(r: &Reading) -> Self {
        let zero = r.has(".FMZ");
        Self {
            rounding: Rounding::read(r),
            flush: r.has(".FTZ") || zero,
            zero,
            saturate: r.has(".SAT"),
        }
    }

    #[inline(always)]
    fn plain(self) -> bool {
        self.rounding == Rounding::Nearest && !self.flush && !self.saturate
    }

    #[inline(always)]
    fn input(self, x: u32) -> f32 {
        f32::from_bits(if self.flush { flush(x) } else { x })
    }

    /// A product; with the mode for it, zero times anything is zero.
    #[inline(always)]
    fn product(self, x: f32, y: f32) -> f64 {
        if self.zero && (x == 0.0 || y == 0.0) {
            0.0
        } else {
            f64::from(x) * f64::from(y)
        }
    }

    #[inline(always)]
    fn output(self, x: f32) -> u32 {
        let x = if self.saturate {
            if x > 0.0 { x.min(1.0) } else { 0.0 }
        } else {
            x
        };
        canonical(if self.flush {
            f32::from_bits(flush(x.to_bits()))
        } else {
            x
        })
    }
}

/// Zero of the same sign for what has no leading one.
#[inline(always)]
pub(crate) fn flush(x: u32) -> u32 {
    if x & 0x7f80_0000 == 0 {
        x & 0x8000_0000
    } else {
        x
    }
}

/// The bits of a result: there is one that is no number.
#[inline(always)]
pub(crate) fn canonical(x: f32) -> u32 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits() }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Add(Place, [Source; 2], Mode),
    /// And by what the product is multiplied.
    Multiply(Place, [Source; 2], Mode, f64),
    Fused(Place, [Source; 3], Mode),
    Compare([Flag; 2], [Source; 2], Compare, Combine, Condition, bool),
    /// As the number 1.
    Set(Place, [Source; 2], Compare, Combine, Condition, bool),
    Select(Place, [Source; 2], Condition, bool),
    /// The smaller one or the greater; whether one that is no number wins.
    Extreme {
        to: Place,
        of: [Source; 2],
        with: Condition,
        flush: bool,
        nan: bool,
        sign: bool,
    },
    /// Whether a division needs the long way.
    Check(Flag, [Source; 2]),
    Function(Place, Source, Function),
    /// The same of a number of 16 bits, and how far up in its register that is.
    Short(Place, Source, u32, Type, Function),
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let float = Style::Float;
    let mode = Mode::read(r);
    Ok(Some(match name {
        "FADD" => Op::Add(r.place()?, [r.source(float)?, r.source(float)?], mode),
        "FMUL" => {
            let by = r.choice(&[
                (".D2", 0.5),
                (".D4", 0.25),
                (".D8", 0.125),
                (".M2", 2.0),
                (".M4", 4.0),
                (".M8", 8.0),
            ]);
            Op::Multiply(
                r.place()?,
                [r.source(float)?, r.source(float)?],
                mode,
                by.unwrap_or(1.0),
            )
        }
        "FFMA" => Op::Fused(
            r.place()?,
            [r.source(float)?, r.source(float)?, r.source(float)?],
            mode,
        ),
        "FSETP" => {
            let (to, of) = ([r.flag()?, r.flag()?], [r.source(float)?, r.source(float)?]);
            Op::Compare(
                to,
                of,
                Compare::read(r)?,
                Combine::read(r),
                r.condition()?,
                mode.flush,
            )
        }
        "FSET" => {
            let (to, of) = (r.place()?, [r.source(float)?, r.source(float)?]);
            Op::Set(
                to,
                of,
                Compare::read(r)?,
                Combine::read(r),
                r.condition()?,
                mode.flush,
            )
        }
        "FSEL" => Op::Select(
            r.place()?,
            [r.source(float)?, r.source(float)?],
            r.condition()?,
            mode.flush,
        ),
        "FMNMX" => {
            let (to, mut of) = (r.place()?, [r.source(float)?, r.source(float)?]);
            let sign = r.has(".XORSIGN");
            if sign {
                of = [r.signed(of[0])?, r.signed(of[1])?];
            }
            Op::Extreme {
                to,
                of,
                with: r.condition()?,
                flush: mode.flush,
                nan: r.has(".NAN"),
                sign,
            }
        }
        "FCHK" => Op::Check(r.flag()?, [r.source(float)?, r.source(float)?]),
        "MUFU" => {
            let function = Function::read(r)?;
            if let Some(of) = r.choice(&[(".F16", Type::Half), (".BF16", Type::Brain)]) {
                let to = r.place()?;
                let (source, part) = r.part(Style::Halves)?;
                let shift = if part == ".H1" { 16 } else { 0 };
                return Ok(Some(Op::Short(to, source, shift, of, function)));
            }
            Op::Function(r.place()?, r.source(float)?, function)
        }
        _ => return Ok(None),
    }))
}

#[inline(always)]
fn fused(a: u32, b: u32, d: u32) -> u32 {
    canonical(f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(d)))
}

impl Lanewise for Op {
    #[inline(always)]
    fn run(&self, state: &mut State, c: &Constants, active: u32) {
        match *self {
            Op::Add(to, ref of, mode) => {
                let [a, b] = of.map(|source| state.get(&source, c));
                let value: Lanes = if mode.plain() {
                    each(|i| canonical(f32::from_bits(a[i]) + f32::from_bits(b[i])))
                } else {
                    each(|i| mode.output(add(mode.input(a[i]), mode.input(b[i]), mode.rounding)))
                };
                state.put(to, active, &value);
            }
            Op::Multiply(to, ref of, mode, by) => {
                let [a, b] = of.map(|source| state.get(&source, c));
                let value: Lanes = if mode.plain() && by == 1.0 {
                    each(|i| canonical(f32::from_bits(a[i]) * f32::from_bits(b[i])))
                } else {
                    each(|i| {
                        let product = mode.product(mode.input(a[i]), mode.input(b[i]));
                        mode.output(single(product * by, mode.rounding))
                    })
                };
                state.put(to, active, &value);
            }
            Op::Fused(to, ref of, mode) => {
                let room = &mut [[0; 32]; 3];
                let [a, b, d] = state.look_at(of, c, room);
                let value: Lanes = if mode.plain() {
                    each(|i| fused(a[i], b[i], d[i]))
                } else {
                    each(|i| {
                        let product = mode.product(mode.input(a[i]), mode.input(b[i]));
                        let addend = f64::from(mode.input(d[i]));
                        mode.output(sum(product, addend, mode.rounding))
                    })
                };
                state.put(to, active, &value);
            }
            Op::Compare(to, ref of, compare, combine, with, flushes) => {
                let holds = compared(state, c, of, compare, flushes);
                let with = state.test(with);
                state.set(to[0], active, combine.of(holds, with));
                state.set(to[1], active, combine.of(!holds, with));
            }
            Op::Set(to, ref of, compare, combine, with, flushes) => {
                let holds = combine.of(compared(state, c, of, compare, flushes), state.test(with));
                let value = each(|i| (holds >> i & 1) * 1_f32.to_bits());
                state.put(to, active, &value);
            }
            Op::Select(to, ref of, with, flushes) => {
                let [a, b] = of.map(|source| state.get(&source, c));
                let with = state.test(with);
                let value = each(|i| {
                    let x = if with >> i & 1 != 0 { a[i] } else { b[i] };
                    if flushes { flush(x) } else { x }
                });
                state.put(to, active, &value);
            }
            Op::Extreme {
                to,
                ref of,
                with,
                flush: flushes,
                nan,
                sign,
            } => {
                let [a, b] = of.map(|source| state.get(&source, c));
                let with = state.test(with);
                let value = each(|i| {
                    let f = |x: u32| if flushes { flush(x) } else { x };
                    extreme(f(a[i]), f(b[i]), with >> i & 1 != 0, nan, sign)
                });
                state.put(to, active, &value);
            }
            Op::Check(to, ref of) => {
                let [a, b] = of.map(|source| state.get(&source, c));
                state.set(to, active, mask(|i| division_is_long(a[i], b[i])));
            }
            Op::Short(to, ref source, shift, of, function) => {
                let x = state.get(source, c);
                let value = each(|i| {
                    let wide = f64::from(of.wide(x[i] >> shift & 0xffff));
                    of.narrow(function.exact(wide), Rounding::Nearest)
                });
                state.put(to, active, &value);
            }
            Op::Function(to, ref of, function) => {
                let x = state.get(of, c);
                let value = each(|i| {
                    if active >> i & 1 != 0 {
                        function.of(x[i])
                    } else {
                        0
                    }
                });
                state.put(to, active, &value);
            }
        }
    }
}

#[inline(always)]
fn compared(
    state: &State,
    c: &Constants,
    of: &[Source; 2],
    compare: Compare,
    flushes: bool,
) -> u32 {
    let [a, b] = of.map(|source| state.get(&source, c));
    let f = |x: u32| f32::from_bits(if flushes { flush(x) } else { x });
    mask(|i| compare.holds(&f(a[i]), &f(b[i])))
}

#[inline(always)]
fn add(a: f32, b: f32, rounding: Rounding) -> f32 {
    sum(f64::from(a), f64::from(b), rounding)
}

/// The sum of a single and a product of two.
#[inline(always)]
fn sum(a: f64, b: f64, rounding: Rounding) -> f32 {
    let sum = odd_sum(a, b);
    if sum == 0.0
        && rounding == Rounding::Down
        && (a != 0.0 || b != 0.0 || a.is_sign_negative() != b.is_sign_negative())
    {
        return -0.0;
    }
    single(sum, rounding)
}

/// The smaller or the greater of two; of zeros the negative one is smaller.
#[inline(always)]
pub(crate) fn extreme(a: u32, b: u32, least: bool, nan: bool, sign: bool) -> u32 {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    let magnitude = if sign { 0x7fff_ffff } else { u32::MAX };
    let result = match (x.is_nan(), y.is_nan()) {
        (true, true) => return 0x7fff_ffff,
        (true, false) | (false, true) if nan => return 0x7fff_ffff,
        (true, false) => b & magnitude,
        (false, true) => a & magnitude,
        (false, false) => {
            let (p, q) = (a & magnitude, b & magnitude);
            let key = |bits: u32| {
                if bits >> 31 != 0 {
                    !bits
                } else {
                    bits | 0x8000_0000
                }
            };
            if (key(p) < key(q)) == least { p } else { q }
        }
    };
    if sign {
        result | (a ^ b) & 0x8000_0000
    } else {
        result
    }
}

/// Whether a quotient, or what is computed on the way to it, may lie where singles lose bits.
/// A guess on the safe side: the long way is right for all numbers.
fn division_is_long(a: u32, b: u32) -> bool {
    let exponent = |x: u32| (x >> 23 & 0xff).cast_signed();
    let (p, q) = (exponent(a), exponent(b));
    let plain = |e: i32| (1..=254).contains(&e);
    !plain(p) || !plain(q) || !(2..=252).contains(&q) || !(-100..=124).contains(&(p - q)) || p < 26
}
