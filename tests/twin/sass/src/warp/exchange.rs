//! What the lanes of a warp tell each other, and what a lane is told of itself.

use super::program::Refusal;
use super::source::{Condition, Flag, Lanes, Place, Reading, Source, Style};
use super::state::{Constants, State, each, mask};
use super::threads::Identity;
use crate::operand::Kind;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Shuffle {
    Index,
    Up,
    Down,
    Butterfly,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Vote {
    All,
    Any,
    Equal,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Reduce {
    And,
    Or,
    Xor,
    Sum,
    Least(bool),
    Most(bool),
}

/// A special register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Special {
    Zero,
    Lane,
    /// The lanes before, up to, after, from this one on; and itself.
    Before,
    UpTo,
    After,
    From,
    Itself,
    /// The place of a thread in its block, and of a block in its grid.
    Thread(usize),
    Block(usize),
    /// Half of where the window of shared memory begins: whether the upper one.
    Window(bool),
    /// Half of a clock: whether the upper one.
    Clock(bool),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Shuffle {
        valid: Flag,
        to: Place,
        of: Source,
        lane: Source,
        bounds: Source,
        how: Shuffle,
    },
    Vote {
        to: Place,
        flag: Flag,
        of: Condition,
        how: Vote,
    },
    /// One lane of those that are here: its number, and whether a lane is the one. The lowest: a guess.
    Elect {
        to: Place,
        flag: Flag,
        of: Condition,
    },
    /// Lanes that have the same: whether all must.
    Match {
        to: Place,
        flag: Option<Flag>,
        of: Source,
        wide: bool,
    },
    Reduce {
        to: Place,
        of: Source,
        how: Reduce,
    },
    /// Into a register of the warp, from the first lane.
    First(Place, Source),
    Special {
        to: Place,
        what: Special,
        wide: bool,
    },
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    let int = Style::Integer;
    Ok(Some(match name {
        "SHFL" => Op::Shuffle {
            how: r
                .choice(&[
                    (".UP", Shuffle::Up),
                    (".DOWN", Shuffle::Down),
                    (".BFLY", Shuffle::Butterfly),
                ])
                .unwrap_or(Shuffle::Index),
            valid: r.flag()?,
            to: r.place()?,
            of: r.source(int)?,
            lane: r.source(int)?,
            bounds: r.source(int)?,
        },
        "VOTE" | "VOTEU" => Op::Vote {
            how: r
                .choice(&[(".ALL", Vote::All), (".EQ", Vote::Equal)])
                .unwrap_or(Vote::Any),
            to: r.place()?,
            flag: r.flag()?,
            of: r.condition()?,
        },
        "ELECT" if r.has(".IGNOREKILL") => return Err(r.refuse("it is not modelled")),
        "ELECT" => Op::Elect {
            flag: r.flag()?,
            to: r.place()?,
            of: r.condition()?,
        },
        "MATCH" => Op::Match {
            flag: if r.has(".ALL") { Some(r.flag()?) } else { None },
            to: r.place()?,
            of: r.source(int)?,
            wide: r.has(".U64"),
        },
        "REDUX" => {
            let signed = r.has(".S32");
            let how = r.choice(&[
                (".OR", Reduce::Or),
                (".XOR", Reduce::Xor),
                (".SUM", Reduce::Sum),
                (".MIN", Reduce::Least(signed)),
                (".MAX", Reduce::Most(signed)),
            ]);
            Op::Reduce {
                how: how.unwrap_or(Reduce::And),
                to: r.place()?,
                of: r.source(int)?,
            }
        }
        "R2UR" => {
            // .FILL brings back what MOV.SPILL put aside, as compilers use them: the same otherwise.
            if r.has(".OR") || r.flag()?.number != 7 {
                return Err(r.refuse("what its predicate says is not known"));
            }
            Op::First(r.place()?, r.source(int)?)
        }
        "S2R" | "S2UR" | "2UR" | "CS2R" | "CS2UR" => {
            let to = r.place()?;
            let wide = name.starts_with("CS2") && !r.has(".32");
            Op::Special {
                to,
                what: special(r)?,
                wide,
            }
        }
        _ => return Ok(None),
    }))
}

fn special(r: &mut Reading) -> Result<Special, Refusal> {
    let operand = r.next()?;
    let Kind::Special(number, name) = operand.kind else {
        return Err(r.refuse(format!("a special register was expected, not '{operand}'")));
    };
    Ok(match name {
        None if number == 255 => Special::Zero,
        Some("LANEID") => Special::Lane,
        Some("EQMASK") => Special::Itself,
        Some("LTMASK") => Special::Before,
        Some("LEMASK") => Special::UpTo,
        Some("GTMASK") => Special::After,
        Some("GEMASK") => Special::From,
        Some("TID.X" | "TID.Y" | "TID.Z") => Special::Thread(usize::from(number) - 33),
        Some("CTAID.X" | "CTAID.Y" | "CTAID.Z") => Special::Block(usize::from(number) - 37),
        Some("SWINLO") => Special::Window(false),
        Some("SWINHI") => Special::Window(true),
        Some("CLOCKLO" | "GLOBALTIMERLO") => Special::Clock(false),
        Some("CLOCKHI" | "GLOBALTIMERHI") => Special::Clock(true),
        // A block is a cluster of its own.
        Some("CgaCtaId") => Special::Zero,
        _ => return Err(r.refuse("the special register is not modelled")),
    })
}

impl Special {
    /// Its value in each lane.
    fn of(self, identity: &Identity) -> Lanes {
        match self {
            Self::Zero => [0; 32],
            Self::Lane => each(|i| i as u32),
            Self::Itself => each(|i| 1 << i),
            Self::Before => each(|i| (1 << i) - 1),
            Self::UpTo => each(|i| u32::MAX >> (31 - i)),
            Self::After => each(|i| !(u32::MAX >> (31 - i))),
            Self::From => each(|i| u32::MAX << i),
            Self::Thread(axis) => identity.place[axis],
            Self::Block(axis) => [identity.block[axis]; 32],
            Self::Window(false) => [identity.window as u32; 32],
            Self::Window(true) => [(identity.window >> 32) as u32; 32],
            Self::Clock(false) => [identity.clock as u32; 32],
            Self::Clock(true) => [(identity.clock >> 32) as u32; 32],
        }
    }
}

pub(crate) fn run(state: &mut State, c: &Constants, identity: &Identity, op: &Op, active: u32) {
    match *op {
        Op::Shuffle {
            valid,
            to,
            ref of,
            ref lane,
            ref bounds,
            how,
        } => {
            let [value, lane, bounds] = [of, lane, bounds].map(|source| state.get(source, c));
            let from: [(usize, bool); 32] = each(|i| shuffled(how, i as u32, lane[i], bounds[i]));
            let value = each(|i| value[from[i].0]);
            state.put(to, active, &value);
            state.set(valid, active, mask(|i| from[i].1));
        }
        Op::Vote { to, flag, of, how } => {
            let ballot = state.test(of) & active;
            let holds = match how {
                Vote::All => ballot == active,
                Vote::Any => ballot != 0,
                Vote::Equal => ballot == active || ballot == 0,
            };
            state.put(to, active, &[ballot; 32]);
            state.set(flag, active, if holds { u32::MAX } else { 0 });
        }
        Op::Elect { to, flag, of } => {
            let able = state.test(of) & active;
            let first = able & able.wrapping_neg();
            state.put(to, active, &[able.trailing_zeros() & 31; 32]);
            state.set(flag, active, first);
        }
        Op::Match {
            to,
            flag,
            ref of,
            wide,
        } => {
            let low = state.get(of, c);
            let high = if wide {
                state.raw_high(of.from, c)
            } else {
                [0; 32]
            };
            let alike: Lanes = each(|i| active & mask(|k| (low[k], high[k]) == (low[i], high[i])));
            let Some(flag) = flag else {
                state.put(to, active, &alike);
                return;
            };
            let all = (0..32).all(|i| active >> i & 1 == 0 || alike[i] == active);
            state.put(to, active, &[if all { active } else { 0 }; 32]);
            state.set(flag, active, if all { u32::MAX } else { 0 });
        }
        Op::Reduce { to, ref of, how } => {
            let value = state.get(of, c);
            let values = (0..32).filter(|i| active >> i & 1 != 0).map(|i| value[i]);
            let result = values.reduce(|a, b| match how {
                Reduce::And => a & b,
                Reduce::Or => a | b,
                Reduce::Xor => a ^ b,
                Reduce::Sum => a.wrapping_add(b),
                Reduce::Least(true) => a.cast_signed().min(b.cast_signed()).cast_unsigned(),
                Reduce::Most(true) => a.cast_signed().max(b.cast_signed()).cast_unsigned(),
                Reduce::Least(false) => a.min(b),
                Reduce::Most(false) => a.max(b),
            });
            state.put(to, active, &[result.unwrap_or(0); 32]);
        }
        Op::First(to, ref of) => {
            let value = state.get(of, c)[active.trailing_zeros() as usize & 31];
            state.put(to, active, &[value; 32]);
        }
        Op::Special { to, what, wide } => {
            state.put(to, active, &what.of(identity));
            if wide {
                let high = if matches!(what, Special::Clock(false)) {
                    (identity.clock >> 32) as u32
                } else {
                    0
                };
                state.put(to.after(1), active, &[high; 32]);
            }
        }
    }
}

/// The lane whose value a lane gets, and whether it is in bounds: those are the last lane that counts
/// for lanes of a segment and, from bit 8 on, the bits of a lane that tell its segment.
fn shuffled(how: Shuffle, lane: u32, by: u32, bounds: u32) -> (usize, bool) {
    let (by, last, segment) = (by & 31, bounds & 31, bounds >> 8 & 31);
    let most = (lane & segment) | (last & !segment);
    let least = lane & segment;
    let (from, valid) = match how {
        Shuffle::Up => (
            lane.wrapping_sub(by),
            lane.wrapping_sub(by).cast_signed() >= most.cast_signed(),
        ),
        Shuffle::Down => (lane + by, lane + by <= most),
        Shuffle::Butterfly => (lane ^ by, lane ^ by <= most),
        Shuffle::Index => {
            let from = least | (by & !segment);
            (from, from <= most)
        }
    };
    (if valid { from } else { lane } as usize & 31, valid)
}
