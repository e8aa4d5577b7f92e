//! Branches, and what waits: joins of lanes, barriers of warps.

use super::access::value;
use super::program::Refusal;
use super::source::{Condition, Flag, Place, Reading, Source, Style};
use crate::operand::{Kind, Number};

/// How warps of a block meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// They wait for each other.
    Wait,
    /// They go on.
    Arrive,
    /// They wait, and count who says so.
    Count,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Nothing that a model of values sees.
    Nothing,
    /// To an instruction, if all hold.
    Branch {
        /// All lanes that are here go, if all hold for one of them.
        any: bool,
        when: [Condition; 2],
        to: u32,
    },
    /// To an instruction, if of the lanes of a mask all are here that have not ended, or not all are.
    Gathered {
        mask: Source,
        all: bool,
        when: Condition,
        to: u32,
    },
    /// To an address in a pair of registers, and some bytes on.
    Jump {
        when: Condition,
        base: u8,
        offset: i64,
    },
    /// The lanes that are here will join.
    Join {
        when: Condition,
        barrier: u8,
    },
    Await {
        when: Condition,
        barrier: u8,
    },
    /// With which lanes a lane joins, out of a register or into one, which may end that.
    Joined {
        from: Place,
        barrier: u8,
    },
    Joining {
        to: Place,
        barrier: u8,
        clear: bool,
    },
    /// These lanes will not join.
    Leave {
        when: Condition,
        barrier: u8,
    },
    /// All lanes of a mask, or all that there are, wait for each other.
    Together {
        when: Condition,
        mask: Option<Source>,
    },
    Exit {
        when: Condition,
    },
    /// The copies that have begun are a group, on a scoreboard.
    Close(Option<u8>),
    /// Waits for products of four warps, until so many groups of them are left.
    Products(usize),
    /// What was written is seen by copies and products beside the warps.
    Fence,
    /// Others may go first.
    Yield,
    Trap,
    Meet {
        how: Meeting,
        barrier: Source,
        count: Option<Source>,
        vote: Option<Condition>,
        and: bool,
        or: bool,
    },
    /// What was counted.
    Counted {
        to: Place,
        flag: Option<Flag>,
    },
}

pub(crate) const TRUE: Condition = Condition {
    uniform: false,
    number: 7,
    inverted: false,
};

pub(crate) fn lower(name: &str, r: &mut Reading, at: usize) -> Result<Option<Op>, Refusal> {
    Ok(Some(match name {
        "NOP" | "MEMBAR" | "ERRBAR" | "CGAERRBAR" | "DEPBAR" | "NANOSLEEP" | "CCTL" | "PMTRIG"
        | "PREEXIT" | "ACQBULK" | "ENDCOLLECTIVE" => Op::Nothing,
        "FENCE" => Op::Fence,
        "YIELD" => Op::Yield,
        "WARPGROUP" if r.has(".ARRIVE") => Op::Nothing,
        "WARPGROUP" => {
            r.next()?;
            Op::Products(r.number()? as usize)
        }
        "LDGDEPBAR" => Op::Close(r.inst.control.writes),
        "BRA" | "CALL" => {
            let any = r.has(".ANY");
            if r.has(".DIV") || r.has(".CONV") {
                return gathered(r, at).map(Some);
            }
            let mut when = [TRUE; 2];
            let mut count = 0;
            while r.left() > 1 {
                let condition = r.condition()?;
                if let Some(when) = when.get_mut(count) {
                    *when = condition;
                }
                count += 1;
            }
            Op::Branch {
                any,
                when,
                to: target(r, at)?,
            }
        }
        "RET" | "BRX" | "JMX" => {
            let when = r.condition()?;
            let operand = r.next()?;
            let Kind::Register(base) = operand.kind else {
                return Err(r.refuse(format!("a register was expected, not '{operand}'")));
            };
            let next = if name == "BRX" || r.has(".REL") {
                16 * (at as i64 + 1)
            } else {
                0
            };
            Op::Jump {
                when,
                base,
                offset: next + r.number()?.cast_signed(),
            }
        }
        "BSSY" => Op::Join {
            when: r.condition()?,
            barrier: join(r)?,
        },
        "BMOV" if r.has(".PQUAD") => return Err(r.refuse("it is not modelled")),
        "BMOV" => match r.peek().map(|operand| operand.kind) {
            Some(Kind::Join(_)) => Op::Joined {
                barrier: join(r)?,
                from: value(r)?,
            },
            _ => Op::Joining {
                to: r.place()?,
                barrier: join(r)?,
                clear: r.has(".CLEAR"),
            },
        },
        "BSYNC" => Op::Await {
            when: r.condition()?,
            barrier: join(r)?,
        },
        "BREAK" => Op::Leave {
            when: r.condition()?,
            barrier: join(r)?,
        },
        "WARPSYNC" => {
            if r.has(".EXCLUSIVE") {
                return Err(r.refuse("lanes one by one are not modelled"));
            }
            let when = r.condition()?;
            let mask = if r.left() > 0 {
                Some(r.source(Style::Integer)?)
            } else {
                None
            };
            Op::Together { when, mask }
        }
        "EXIT" => Op::Exit {
            when: r.condition()?,
        },
        "BPT" => Op::Trap,
        "BAR" => {
            let how = r.choice(&[
                (".SYNC", Meeting::Wait),
                (".ARV", Meeting::Arrive),
                (".RED", Meeting::Count),
            ]);
            let how = how.ok_or_else(|| r.refuse("it is not modelled"))?;
            let barrier = r.source(Style::Integer)?;
            let mut count = None;
            if r.peek()
                .is_some_and(|operand| !matches!(operand.kind, Kind::Predicate(_)))
            {
                let absent = r.peek().is_some_and(|operand| {
                    matches!(operand.kind, Kind::Immediate(0, _) | Kind::Register(255))
                });
                count = Some(r.source(Style::Integer)?).filter(|_| !absent);
            }
            let vote = if r.left() > 0 {
                Some(r.condition()?)
            } else {
                None
            };
            Op::Meet {
                how,
                barrier,
                count,
                vote,
                and: r.has(".AND"),
                or: r.has(".OR"),
            }
        }
        "B2R" if r.has(".RESULT") => {
            let to = r.place()?;
            let flag = if r.left() > 0 { Some(r.flag()?) } else { None };
            Op::Counted { to, flag }
        }
        _ => return Ok(None),
    }))
}

/// A branch that asks whether all lanes of a mask are here.
fn gathered(r: &mut Reading, at: usize) -> Result<Op, Refusal> {
    let all = r.has(".CONV");
    let when = r.condition()?;
    if r.left() < 2 {
        return Err(r.refuse("no lanes are named"));
    }
    Ok(Op::Gathered {
        mask: r.source(Style::Integer)?,
        all,
        when,
        to: target(r, at)?,
    })
}

fn join(r: &mut Reading) -> Result<u8, Refusal> {
    let operand = r.next()?;
    match operand.kind {
        Kind::Join(n) => Ok(n & 15),
        _ => Err(r.refuse(format!("a barrier was expected, not '{operand}'"))),
    }
}

/// The instruction that a branch goes to.
fn target(r: &mut Reading, at: usize) -> Result<u32, Refusal> {
    let operand = r.next()?;
    let Kind::Immediate(offset, Number::Target) = operand.kind else {
        return Err(r.refuse(format!("a target was expected, not '{operand}'")));
    };
    let to = (at as i64 + 1) * 16 + offset.cast_signed();
    match u32::try_from(to / 16) {
        Ok(index) if to % 16 == 0 => Ok(index),
        _ => Err(r.refuse(format!("it goes to {to:#x}, where no instruction begins"))),
    }
}
