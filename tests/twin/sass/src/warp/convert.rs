//! From one type of number to another.

use super::double;
use super::half::Type;
use super::program::Refusal;
use super::rounding::{Rounding, single};
use super::simd::Lanewise;
use super::single::{canonical, flush};
use super::source::{Place, Reading, Source, Style};
use super::state::{Constants, State};

/// A type of floating-point numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    Short(Type),
    Single,
    Double,
}

/// A type of integers: its bits, and whether it has a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Int {
    bits: u32,
    signed: bool,
}

/// How a number becomes whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    Even,
    Floor,
    Ceil,
    Trunc,
}

impl Whole {
    fn read(r: &Reading) -> Self {
        r.choice(&[
            (".FLOOR", Self::Floor),
            (".CEIL", Self::Ceil),
            (".TRUNC", Self::Trunc),
        ])
        .unwrap_or(Self::Even)
    }

    fn of(self, x: f64) -> f64 {
        match self {
            Self::Even => x.round_ties_even(),
            Self::Floor => x.floor(),
            Self::Ceil => x.ceil(),
            Self::Trunc => x.trunc(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Which bits of a register the source is: how far up.
    Floats {
        to: Place,
        of: Source,
        shift: u32,
        types: [Float; 2],
        rounding: Rounding,
        flush: bool,
    },
    Whole {
        to: Place,
        of: Source,
        shift: u32,
        types: [Float; 2],
        how: Whole,
        flush: bool,
    },
    FromFloat {
        to: Place,
        of: Source,
        shift: u32,
        from: Float,
        into: Int,
        how: Whole,
        flush: bool,
        nan_is_zero: bool,
    },
    FromInt {
        to: Place,
        of: Source,
        shift: u32,
        from: Int,
        into: Float,
        rounding: Rounding,
    },
    Clamp {
        to: Place,
        of: Source,
        into: Int,
    },
}

fn floats(r: &Reading) -> Vec<Float> {
    let types = r.inst.modifiers.iter().filter_map(|&text| match text {
        ".F16" => Some(Float::Short(Type::Half)),
        ".BF16" => Some(Float::Short(Type::Brain)),
        ".F32" => Some(Float::Single),
        ".F64" => Some(Float::Double),
        _ => None,
    });
    types.collect()
}

fn int(r: &Reading) -> Int {
    let of = |bits, signed| Int { bits, signed };
    r.choice(&[
        (".U8", of(8, false)),
        (".S8", of(8, true)),
        (".U16", of(16, false)),
        (".S16", of(16, true)),
        (".U32", of(32, false)),
        (".U64", of(64, false)),
        (".S64", of(64, true)),
    ])
    .unwrap_or(of(32, true))
}

/// A source and how far up in its register it lies.
fn part(r: &mut Reading, style: Style) -> Result<(Source, u32), Refusal> {
    let (source, part) = r.part(style)?;
    let shift = match part {
        "" => 0,
        ".B1" => 8,
        ".H1" | ".B2" => 16,
        ".B3" => 24,
        other => return Err(r.refuse(format!("a source with {other} is not modelled"))),
    };
    Ok((source, shift))
}

/// The sign of a number lies at the top of its type.
fn style(float: Float) -> Style {
    match float {
        Float::Short(_) => Style::Halves,
        Float::Single | Float::Double => Style::Float,
    }
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let rounding = Rounding::read(r);
    let flush = r.has(".FTZ");
    let types = floats(r);
    Ok(Some(match name {
        "F2F" => {
            let [into, from] = types[..] else {
                return Err(r.refuse("two types were expected"));
            };
            let to = r.place()?;
            let (of, shift) = part(r, style(from))?;
            Op::Floats {
                to,
                of,
                shift,
                types: [into, from],
                rounding,
                flush,
            }
        }
        "FRND" => {
            let both = types.first().copied().unwrap_or(Float::Single);
            let to = r.place()?;
            let (of, shift) = part(r, style(both))?;
            Op::Whole {
                to,
                of,
                shift,
                types: [both; 2],
                how: Whole::read(r),
                flush,
            }
        }
        "F2I" => {
            let from = types.first().copied().unwrap_or(Float::Single);
            let to = r.place()?;
            let (of, shift) = part(r, style(from))?;
            let (into, how) = (int(r), Whole::read(r));
            Op::FromFloat {
                to,
                of,
                shift,
                from,
                into,
                how,
                flush,
                nan_is_zero: r.has(".NTZ"),
            }
        }
        "I2F" => {
            let into = types.first().copied().unwrap_or(Float::Single);
            let to = r.place()?;
            let (of, shift) = part(r, Style::Integer)?;
            Op::FromInt {
                to,
                of,
                shift,
                from: int(r),
                into,
                rounding,
            }
        }
        "I2FP" => {
            let to = r.place()?;
            let from = Int {
                bits: 32,
                signed: r.has(".S32"),
            };
            Op::FromInt {
                to,
                of: r.source(Style::Integer)?,
                shift: 0,
                from,
                into: Float::Single,
                rounding,
            }
        }
        "I2I" => Op::Clamp {
            into: int(r),
            to: r.place()?,
            of: r.source(Style::Integer)?,
        },
        _ => return Ok(None),
    }))
}

/// The numbers of each lane.
fn read(
    state: &State,
    c: &Constants,
    of: &Source,
    shift: u32,
    from: Float,
    flushes: bool,
) -> [f64; 32] {
    match from {
        Float::Double => state.pair(of, c).map(f64::from_bits),
        Float::Single => state
            .get(of, c)
            .map(|x| f64::from(f32::from_bits(if flushes { flush(x) } else { x }))),
        Float::Short(short) => state
            .get(of, c)
            .map(|x| f64::from(short.wide(x >> shift & 0xffff))),
    }
}

fn write(
    state: &mut State,
    to: Place,
    active: u32,
    into: Float,
    rounding: Rounding,
    flushes: bool,
    value: &[f64; 32],
) {
    match into {
        Float::Double => state.put_pair(to, active, &value.map(double::canonical)),
        Float::Single => state.put(
            to,
            active,
            &value.map(|x| {
                let bits = canonical(single(x, rounding));
                if flushes { flush(bits) } else { bits }
            }),
        ),
        Float::Short(short) => state.put(to, active, &value.map(|x| short.narrow(x, rounding))),
    }
}

impl Lanewise for Op {
    #[inline(always)]
    fn run(&self, state: &mut State, c: &Constants, active: u32) {
        match *self {
            Op::Floats {
                to,
                ref of,
                shift,
                types: [into, from],
                rounding,
                flush,
            } => {
                let value = read(state, c, of, shift, from, flush);
                write(state, to, active, into, rounding, flush, &value);
            }
            Op::Whole {
                to,
                ref of,
                shift,
                types: [into, from],
                how,
                flush,
            } => {
                let value = read(state, c, of, shift, from, flush).map(|x| how.of(x));
                write(state, to, active, into, Rounding::Nearest, flush, &value);
            }
            Op::FromFloat {
                to,
                ref of,
                shift,
                from,
                into,
                how,
                flush,
                nan_is_zero,
            } => {
                let value = read(state, c, of, shift, from, flush)
                    .map(|x| whole(how.of(x), into, nan_is_zero));
                if into.bits == 64 {
                    state.put_pair(to, active, &value);
                } else {
                    state.put(to, active, &value.map(|x| x as u32));
                }
            }
            Op::FromInt {
                to,
                ref of,
                shift,
                from,
                into,
                rounding,
            } => {
                let value = if from.bits == 64 {
                    state.wide(of, c).0
                } else {
                    state.get(of, c).map(|x| u64::from(x >> shift))
                };
                let value = value.map(|x| extended(x, from));
                let odd = value.map(|x| odd_double(x, into, rounding));
                write(state, to, active, into, rounding, false, &odd);
            }
            Op::Clamp { to, ref of, into } => {
                let (least, most) = bounds(into);
                let value = state
                    .get(of, c)
                    .map(|x| i128::from(x.cast_signed()).clamp(least, most) as u32);
                state.put(to, active, &value);
            }
        }
    }
}

fn bounds(of: Int) -> (i128, i128) {
    if of.signed {
        (-(1 << (of.bits - 1)), (1 << (of.bits - 1)) - 1)
    } else {
        (0, (1 << of.bits) - 1)
    }
}

/// A whole number as an integer, the nearest there is; in a register what is shorter has its sign.
fn whole(x: f64, into: Int, nan_is_zero: bool) -> u64 {
    if x.is_nan() {
        return if nan_is_zero { 0 } else { 1 << (into.bits - 1) };
    }
    let (least, most) = bounds(into);
    (x as i128).clamp(least, most) as u64
}

/// An integer of a type, from its bits.
fn extended(bits: u64, of: Int) -> i128 {
    let unused = 64 - of.bits;
    if of.signed {
        i128::from((bits << unused).cast_signed() >> unused)
    } else {
        i128::from(bits << unused >> unused)
    }
}

/// An integer as a double: rounded as said if that is the result, to odd if more rounding follows.
fn odd_double(x: i128, into: Float, rounding: Rounding) -> f64 {
    let nearest = x as f64;
    let error = x - nearest as i128;
    if error == 0 || (into == Float::Double && rounding == Rounding::Nearest) {
        return nearest;
    }
    let up = error > 0;
    if into == Float::Double {
        return match rounding {
            Rounding::Down if !up => nearest.next_down(),
            Rounding::Up if up => nearest.next_up(),
            Rounding::Zero if up != (x > 0) => {
                if up {
                    nearest.next_up()
                } else {
                    nearest.next_down()
                }
            }
            _ => nearest,
        };
    }
    match nearest.to_bits() & 1 {
        1 => nearest,
        _ if up => nearest.next_up(),
        _ => nearest.next_down(),
    }
}
