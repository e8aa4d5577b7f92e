//! Barriers that lie in shared memory and count bytes beside arrivals: `mbarrier` of PTX.
//!
//! The word of one is what compilers build and read of it: from bit 1 on the arrivals of a phase, from
//! bit 43 on those that are missing, both as what they lack of 2^20, and the phase in bit 63. That the
//! bytes lie between, and that bit 0 says that all have arrived while bytes are missing, is a guess; no
//! program can tell.

use super::access::{Address, value};
use super::bulk;
use super::fault::Cause;
use super::memory::Space;
use super::program::Refusal;
use super::reach::{How, Memories, lanes};
use super::source::{Flag, Place, Reading};
use super::state::{State, each};
use crate::operand::{Kind, Role};

/// One more than the most that arrive.
const MOST: u64 = 1 << 20;

/// What an arrival counts: nothing, one, or what a register says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    None,
    One,
    Register,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// A word for another.
    Exchange { old: Place, at: Address, new: Place },
    Arrive {
        old: Place,
        at: Address,
        value: Place,
        arrivals: Count,
        /// Bytes that are expected from now on, or that have come.
        bytes: Count,
        come: bool,
        /// Whether it does not take part in later phases.
        leaves: bool,
    },
    /// Whether a phase is over: that of a word's upper half.
    Check {
        over: Flag,
        at: Address,
        phase: Place,
    },
    /// The word is free for other use.
    Forget(Address),
}

pub(crate) fn lower(name: &str, r: &mut Reading) -> Result<Option<Op>, Refusal> {
    if name != "SYNCS" {
        return Ok(None);
    }
    Ok(Some(match () {
        () if r.has(".EXCH.64") => Op::Exchange {
            old: r.place()?,
            at: Address::read(r, Space::Shared)?,
            new: register(r)?,
        },
        () if r.has(".PHASECHK.TRANS64") => Op::Check {
            over: r.flag()?,
            at: Address::read(r, Space::Shared)?,
            phase: value(r)?,
        },
        () if r.has(".CCTL") && r.has(".IV") => Op::Forget(Address::read(r, Space::Shared)?),
        () if r.has(".ARRIVE.TRANS64") && !r.has(".TMASK") => {
            use Count::{None, One, Register};
            let (arrivals, bytes, come) = r
                .choice(&[
                    (".A1T0", (One, None, false)),
                    (".A0T1", (None, One, false)),
                    (".A0TR", (None, Register, false)),
                    (".A0TX", (None, Register, true)),
                    (".ART0", (Register, None, false)),
                ])
                .unwrap_or((One, Register, false));
            Op::Arrive {
                old: r.place()?,
                at: Address::read(r, Space::Shared)?,
                value: value(r)?,
                arrivals,
                bytes,
                come,
                leaves: r.has(".OPTOUT"),
            }
        }
        () => return Err(r.refuse("it is not modelled")),
    }))
}

/// A register that is read, of each lane or of the warp.
fn register(r: &mut Reading) -> Result<Place, Refusal> {
    let operand = r.next()?;
    match operand.kind {
        Kind::Register(n) if operand.role == Role::Read => Ok(Place::Register(n)),
        Kind::Uniform(n) if operand.role == Role::Read => Ok(Place::Uniform(n)),
        _ => Err(r.refuse(format!("a register was expected, not '{operand}'"))),
    }
}

/// A barrier, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Barrier {
    phase: bool,
    /// Arrivals of each phase, and those that this one lacks.
    expected: u64,
    missing: u64,
    /// Bytes that are missing, less those that came before they were expected.
    bytes: i64,
}

impl Barrier {
    fn read(word: u64) -> Self {
        let waits_for_bytes = word & 1 != 0;
        Self {
            phase: word >> 63 != 0,
            expected: MOST - (word >> 1) % MOST,
            missing: if waits_for_bytes {
                0
            } else {
                MOST - (word >> 43) % MOST
            },
            bytes: (word << 21).cast_signed() >> 42,
        }
    }

    fn write(self) -> u64 {
        let lacks = |count: u64| (MOST - count) % MOST;
        u64::from(self.phase) << 63
            | lacks(self.missing) << 43
            | (self.bytes.cast_unsigned() << 42 >> 21)
            | lacks(self.expected) << 1
            | u64::from(self.missing == 0)
    }

    /// Some arrive, and bytes are expected, or have come: fewer than none.
    fn arrive(&mut self, arrivals: u64, bytes: i64, leave: u64) -> Result<(), &'static str> {
        let limit = MOST as i64;
        self.missing = self
            .missing
            .checked_sub(arrivals)
            .ok_or("more arrive than are expected in a phase")?;
        self.bytes += bytes;
        if !(1 - limit..limit).contains(&self.bytes) {
            return Err("it counts at most 2^20 - 1 bytes");
        }
        self.expected = self
            .expected
            .checked_sub(leave)
            .filter(|&expected| expected != 0)
            .ok_or("nobody is left to arrive")?;
        if self.missing == 0 && self.bytes == 0 {
            self.phase = !self.phase;
            self.missing = self.expected;
        }
        Ok(())
    }
}

pub(crate) fn run(
    state: &mut State,
    memories: &mut Memories,
    op: &Op,
    active: u32,
) -> Result<(), Cause> {
    match *op {
        Op::Exchange { old, ref at, new } => {
            let address = at.of(state);
            let [low, high] = [new, new.after(1)].map(|place| state.read(place));
            let mut olds = [0; 32];
            for i in lanes(active) {
                let word = u64::from(high[i]) << 32 | u64::from(low[i]);
                olds[i] = update(memories, address[i], i, &mut |there| {
                    *there = word;
                    Ok(())
                })?;
            }
            state.put_pair(old, active, &olds);
        }
        Op::Arrive {
            old,
            ref at,
            value,
            arrivals,
            bytes,
            come,
            leaves,
        } => {
            let address = at.of(state);
            let value = state.read(value);
            let count = |count: Count, i: usize| match count {
                Count::None => 0,
                Count::One => 1,
                Count::Register => u64::from(value[i]),
            };
            let mut olds = [0; 32];
            for i in lanes(active) {
                let bytes = count(bytes, i).cast_signed();
                let bytes = if come { -bytes } else { bytes };
                olds[i] = update(memories, address[i], i, &mut |there| {
                    let mut barrier = Barrier::read(*there);
                    barrier.arrive(count(arrivals, i), bytes, u64::from(leaves))?;
                    *there = barrier.write();
                    Ok(())
                })?;
            }
            state.put_pair(old, active, &olds);
        }
        Op::Check {
            over,
            ref at,
            phase,
        } => {
            let address = at.of(state);
            let phase = state.read(phase);
            let mut now = 0;
            for i in lanes(active) {
                let word = update(memories, address[i], i, &mut |_| Ok(()))?;
                now |= ((word >> 63) as u32) << i;
                if (word ^ u64::from(phase[i]) << 32) >> 63 == 0 {
                    bulk::arrive(memories, address[i])?;
                }
            }
            let asked: [u32; 32] = each(|i| phase[i] >> 31);
            let asked = (0..32).fold(0, |mask, i| mask | asked[i] << i);
            state.set(over, active, now ^ asked);
        }
        Op::Forget(ref at) => {
            let address = at.of(state);
            for i in lanes(active) {
                update(memories, address[i], i, &mut |_| Ok(()))?;
            }
        }
    }
    Ok(())
}

/// Bytes have come to a barrier.
pub(crate) fn come(memories: &mut Memories, address: u64, bytes: u64) -> Result<(), Cause> {
    update(memories, address, 0, &mut |there| {
        let mut barrier = Barrier::read(*there);
        barrier.arrive(0, -bytes.cast_signed(), 0)?;
        *there = barrier.write();
        Ok(())
    })?;
    Ok(())
}

/// Changes the word of a barrier. Returns what it was.
fn update(
    memories: &mut Memories,
    address: u64,
    lane: usize,
    change: &mut dyn FnMut(&mut u64) -> Result<(), &'static str>,
) -> Result<u64, Cause> {
    let mut bytes = [0; 8];
    let mut done = Ok(());
    let mut change_bytes = |there: &mut [u8]| {
        if let Some(bytes) = there.first_chunk_mut() {
            let mut word = u64::from_le_bytes(*bytes);
            done = change(&mut word);
            *bytes = word.to_le_bytes();
        }
    };
    memories.access(
        Space::Shared,
        lane,
        address,
        &mut bytes,
        How::Update(&mut change_bytes),
    )?;
    done.map_err(|why| Cause::Barrier {
        lane: lane as u8,
        address,
        why,
    })?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::Barrier;

    /// What ptxas writes for `mbarrier.init` with 3, and reads for `mbarrier.pending_count`.
    #[test]
    fn the_word_is_the_one_of_compilers() {
        let lacks = (1_u64 << 20) - 3;
        let word = (lacks << 11) << 32 | lacks << 1;
        let mut barrier = Barrier::read(word);
        assert_eq!(
            (barrier.expected, barrier.missing, barrier.bytes),
            (3, 3, 0)
        );
        assert_eq!(barrier.write(), word);
        barrier.arrive(2, 0, 0).unwrap_or_default();
        let pending = (1 << 20) - (barrier.write() >> 43 & 0xfffff);
        assert_eq!(pending, 1);
    }

    #[test]
    fn a_phase_waits_for_arrivals_and_bytes() {
        let lacks = (1_u64 << 20) - 2;
        let mut barrier = Barrier::read(lacks << 43 | lacks << 1);
        for (arrivals, bytes, phase) in [
            (1, 64, false),
            (1, 0, false),
            (0, -48, false),
            (0, -16, true),
        ] {
            barrier.arrive(arrivals, bytes, 0).unwrap_or_default();
            assert_eq!(Barrier::read(barrier.write()), barrier);
            assert_eq!(barrier.phase, phase);
        }
        assert_eq!((barrier.missing, barrier.bytes), (2, 0));
        // Bytes may come before they are expected.
        for (arrivals, bytes, phase) in [(1, -32, true), (1, 0, true), (0, 32, false)] {
            barrier.arrive(arrivals, bytes, 0).unwrap_or_default();
            assert_eq!(Barrier::read(barrier.write()), barrier);
            assert_eq!(barrier.phase, phase);
        }
        assert!(barrier.arrive(3, 0, 0).is_err());
    }
}
