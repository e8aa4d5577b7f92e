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

/// What lanes do that join, or will.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Join {
    /// The lanes that are here will join.
    Begin {
        when: Condition,
    },
    Await {
        when: Condition,
    },
    /// With which lanes a lane joins, out of a register or into one, which may end that.
    Load {
        from: Place,
    },
    Store {
        to: Place,
        clear: bool,
    },
    /// These lanes will not join.
    Leave {
        when: Condition,
    },
}

/// How warps come to a barrier of the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meet {
    pub how: Meeting,
    pub barrier: Source,
    pub count: Option<Source>,
    pub vote: Option<Condition>,
    pub and: bool,
    pub or: bool,
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
    /// At a barrier of the warp.
    Join {
        barrier: u8,
        what: Join,
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
    /// At a barrier of the block.
    Meet(Meet),
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
        "BRA" | "CALL" if r.has(".DIV") || r.has(".CONV") => gathered(r, at)?,
        "BRA" | "CALL" => branch(r, at)?,
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
        "BSSY" => {
            let when = r.condition()?;
            join(Join::Begin { when }, r)?
        }
        "BSYNC" => {
            let when = r.condition()?;
            join(Join::Await { when }, r)?
        }
        "BREAK" => {
            let when = r.condition()?;
            join(Join::Leave { when }, r)?
        }
        "BMOV" => lanes_of_join(r)?,
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
        "BAR" => Op::Meet(Meet::read(r)?),
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

/// A branch to an instruction.
fn branch(r: &mut Reading, at: usize) -> Result<Op, Refusal> {
    let mut when = [TRUE; 2];
    let mut count = 0;
    while r.left() > 1 {
        let condition = r.condition()?;
        if let Some(when) = when.get_mut(count) {
            *when = condition;
        }
        count += 1;
    }
    Ok(Op::Branch {
        any: r.has(".ANY"),
        when,
        to: target(r, at)?,
    })
}

impl Meet {
    fn read(r: &mut Reading) -> Result<Self, Refusal> {
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
        Ok(Self {
            how,
            barrier,
            count,
            vote,
            and: r.has(".AND"),
            or: r.has(".OR"),
        })
    }
}

fn join(what: Join, r: &mut Reading) -> Result<Op, Refusal> {
    let barrier = barrier(r)?;
    Ok(Op::Join { barrier, what })
}

/// The lanes that lanes join with, into a barrier or out of one.
fn lanes_of_join(r: &mut Reading) -> Result<Op, Refusal> {
    if r.has(".PQUAD") {
        return Err(r.refuse("it is not modelled"));
    }
    if let Some(Kind::Join(_)) = r.peek().map(|operand| operand.kind) {
        let barrier = barrier(r)?;
        let what = Join::Load { from: value(r)? };
        return Ok(Op::Join { barrier, what });
    }
    let to = r.place()?;
    let clear = r.has(".CLEAR");
    join(Join::Store { to, clear }, r)
}

fn barrier(r: &mut Reading) -> Result<u8, Refusal> {
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
