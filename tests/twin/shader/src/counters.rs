//! What is in flight, and the waits for it.

use std::collections::VecDeque;

use smallvec::SmallVec;
use twin::rule::{Proof, Rule};

use crate::isa::Gen;
use crate::step::{File, Regs};

/// A register is used while a memory operation is still to write it.
pub static WAIT_BEFORE_USE: Rule = Rule {
    name: "WAIT-BEFORE-USE",
    text: "a wait precedes every use of a register that a memory instruction writes",
    source: "ISA documents, \"data dependency resolution\"; LLVM SIInsertWaitcnts",
    proof: Proof::Sourced,
};

/// A counter of outstanding operations, by what RDNA4 calls it. Older generations count several of
/// these in one: see [`Counters::issue`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Counter {
    /// Vector memory that returns data (`loadcnt`; `vmcnt` before).
    Load,
    /// Vector memory that returns none (`storecnt`; `vscnt` in RDNA2 and 3; `vmcnt` in CDNA).
    Store,
    /// LDS and the like (`dscnt`; `lgkmcnt` before).
    Lds,
    /// Scalar memory and messages (`kmcnt`; `lgkmcnt` before). Out of order.
    Scalar,
}

/// A wait: go on when at most so many operations are outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Of [`Counter::Load`].
    pub load: u16,
    /// Of [`Counter::Store`].
    pub store: u16,
    /// Of [`Counter::Lds`].
    pub lds: u16,
    /// Of [`Counter::Scalar`].
    pub scalar: u16,
}

impl Wait {
    /// Waits for nothing.
    pub const NONE: Self = Self {
        load: u16::MAX,
        store: u16::MAX,
        lds: u16::MAX,
        scalar: u16::MAX,
    };
    /// Waits for everything.
    pub const ALL: Self = Self {
        load: 0,
        store: 0,
        lds: 0,
        scalar: 0,
    };
}

/// One outstanding operation.
#[derive(Clone, Debug)]
struct Operation {
    /// What it will write.
    writes: Option<Regs>,
    /// Whether it may be overtaken by later ones.
    unordered: bool,
}

/// What one hardware counter counts, oldest first.
#[derive(Clone, Debug, Default)]
struct Queue {
    operations: VecDeque<Operation>,
    unordered: usize,
}

/// A set of registers, as words of bits: 512 VGPRs, then 128 scalar operands.
#[derive(Clone, Debug, Default)]
struct Flight([u64; 10]);

/// The words of a `Flight` that some registers have bits in, and those bits: two of them beside the
/// instruction, where the cache of the processor has them already, and more apart.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    words: [u8; 2],
    bits: [u64; 2],
    more: Option<Box<[(u8, u64)]>>,
}

impl Mask {
    /// The bits of these registers.
    pub fn of(touches: &[Regs]) -> Self {
        let mut words = SmallVec::<[(u8, u64); 4]>::new();
        for (word, mask) in touches.iter().flat_map(|regs| Flight::words(*regs)) {
            match words.iter_mut().find(|(w, _)| usize::from(*w) == word) {
                Some((_, bits)) => *bits |= mask,
                None => words.push((word as u8, mask)),
            }
        }
        let first = |i: usize| words.get(i).copied().unwrap_or_default();
        Self {
            words: [first(0).0, first(1).0],
            bits: [first(0).1, first(1).1],
            more: words
                .get(2..)
                .filter(|more| !more.is_empty())
                .map(Into::into),
        }
    }
}

impl Flight {
    /// The words that a range of registers has bits in, and those bits.
    fn words(regs: Regs) -> impl Iterator<Item = (usize, u64)> {
        let first = usize::from(regs.first)
            + match regs.file {
                File::V => 0,
                File::S => 512,
            };
        let end = (first + usize::from(regs.count)).min(640);
        (first / 64..end.div_ceil(64)).map(move |word| {
            let low = first.saturating_sub(64 * word);
            let high = (end - 64 * word).min(64);
            (word, !0u64 >> (64 - (high - low)) << low)
        })
    }

    fn set(&mut self, regs: Regs, on: bool) {
        for (word, mask) in Self::words(regs) {
            let bits = &mut self.0[word];
            *bits = if on { *bits | mask } else { *bits & !mask };
        }
    }

    #[inline(always)]
    fn any(&self, mask: &Mask) -> bool {
        let [a, b] = mask.words.map(|word| self.0[usize::from(word)]);
        let hit = a & mask.bits[0] | b & mask.bits[1] != 0;
        hit || mask.more.as_ref().is_some_and(|more| {
            more.iter()
                .any(|(word, bits)| self.0[usize::from(*word)] & bits != 0)
        })
    }
}

/// The outstanding operations of a wave.
#[derive(Clone, Debug)]
pub struct Counters {
    /// By hardware counter.
    queues: [Queue; 4],
    /// Which hardware counter counts each [`Counter`].
    counted_by: [usize; 4],
    /// By hardware counter.
    flight: [Flight; 4],
    /// By all of them.
    any: Flight,
    /// Operations in flight that write registers.
    writing: usize,
}

impl Counters {
    /// Nothing is in flight.
    pub fn new(generation: Gen) -> Self {
        Self {
            queues: Default::default(),
            // Load, Store, Lds, Scalar.
            counted_by: match generation {
                Gen::Cdna3 => [0, 0, 2, 2],
                Gen::Rdna2 | Gen::Rdna3 => [0, 1, 2, 2],
                Gen::Rdna4 => [0, 1, 2, 3],
            },
            flight: Default::default(),
            any: Flight::default(),
            writing: 0,
        }
    }

    /// An operation has been issued: its counters go up, and `writes` are in flight until it is
    /// waited for.
    ///
    /// A flat access counts on two counters; the first of them is the one that its data come back
    /// on, which is known once its addresses are.
    pub fn issue(&mut self, counters: &[Counter], writes: Option<Regs>) {
        for (i, counter) in counters.iter().enumerate() {
            let writes = writes.filter(|_| i == 0);
            let unordered = *counter == Counter::Scalar;
            let by = self.counted_by[*counter as usize];
            let queue = &mut self.queues[by];
            queue.unordered += usize::from(unordered);
            queue.operations.push_back(Operation { writes, unordered });
            if let Some(regs) = writes {
                self.flight[by].set(regs, true);
                self.any.set(regs, true);
                self.writing += 1;
            }
        }
    }

    /// Waits. Operations complete in order, but for scalar memory: while any of that is outstanding
    /// on a counter, only a wait for zero says which operations are complete.
    pub fn wait(&mut self, wait: Wait) {
        if self.queues.iter().all(|queue| queue.operations.is_empty()) {
            return;
        }
        let mut most = [u16::MAX; 4];
        let waits = [wait.load, wait.store, wait.lds, wait.scalar];
        for (queue, wait) in self.counted_by.iter().zip(waits) {
            most[*queue] = most[*queue].min(wait);
        }
        let mut any_completed = false;
        for ((queue, flight), most) in self.queues.iter_mut().zip(&mut self.flight).zip(most) {
            let most = usize::from(most);
            if most > 0 && queue.unordered > 0 {
                continue;
            }
            let mut completed = false;
            while queue.operations.len() > most {
                let Some(done) = queue.operations.pop_front() else {
                    break;
                };
                queue.unordered -= usize::from(done.unordered);
                if let Some(regs) = done.writes {
                    flight.set(regs, false);
                    self.writing -= 1;
                    completed = true;
                }
            }
            // What completed may be written again by what did not.
            if completed {
                for regs in queue.operations.iter().filter_map(|o| o.writes) {
                    flight.set(regs, true);
                }
                any_completed = true;
            }
        }
        if any_completed {
            for (word, any) in self.any.0.iter_mut().enumerate() {
                *any = self
                    .flight
                    .iter()
                    .fold(0, |bits, flight| bits | flight.0[word]);
            }
        }
    }

    /// Whether no register is in flight.
    #[inline(always)]
    pub fn idle(&self) -> bool {
        self.writing == 0
    }

    /// Whether any of these registers is in flight, on whatever counter.
    #[inline(always)]
    pub fn hits(&self, mask: &Mask) -> bool {
        self.writing != 0 && self.any.any(mask)
    }

    /// The first register of a step that is in flight.
    pub fn in_flight(&self, touches: &[Regs], lands: Option<Counter>) -> Option<Regs> {
        let lands = lands.map(|counter| self.counted_by[counter as usize]);
        touches.iter().enumerate().find_map(|(i, regs)| {
            let own = lands.filter(|_| i == 0);
            let mut others = (0..4).filter(|by| Some(*by) != own);
            let mask = Mask::of(&[*regs]);
            others.any(|by| self.flight[by].any(&mask)).then_some(*regs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(first: u16, count: u16) -> Regs {
        Regs {
            file: File::V,
            first,
            count,
        }
    }

    fn s(first: u16, count: u16) -> Regs {
        Regs {
            file: File::S,
            first,
            count,
        }
    }

    #[test]
    fn loads_complete_in_order() {
        let mut counters = Counters::new(Gen::Rdna3);
        counters.issue(&[Counter::Load], Some(v(62, 4)));
        counters.issue(&[Counter::Store], None);
        counters.issue(&[Counter::Load], Some(v(10, 1)));
        assert!(
            counters
                .in_flight(&[v(0, 10), v(11, 51), s(62, 4)], None)
                .is_none()
        );
        assert_eq!(
            counters.in_flight(&[v(0, 9), v(64, 1)], None),
            Some(v(64, 1))
        );
        counters.wait(Wait {
            load: 1,
            ..Wait::NONE
        });
        assert!(counters.in_flight(&[v(62, 4)], None).is_none());
        assert!(counters.in_flight(&[v(10, 1)], None).is_some() && !counters.idle());
        counters.wait(Wait {
            load: 0,
            ..Wait::NONE
        });
        assert!(counters.idle());
    }

    #[test]
    fn scalar_loads_complete_in_any_order() {
        let mut counters = Counters::new(Gen::Rdna3);
        counters.issue(&[Counter::Lds], Some(v(0, 1)));
        counters.issue(&[Counter::Scalar], Some(s(4, 2)));
        let lgkm = |n| Wait {
            lds: n,
            scalar: n,
            ..Wait::NONE
        };
        counters.wait(lgkm(1));
        assert!(counters.in_flight(&[v(0, 1)], None).is_some());
        counters.wait(lgkm(0));
        assert!(counters.idle());
        // RDNA4 counts them apart.
        let mut counters = Counters::new(Gen::Rdna4);
        counters.issue(&[Counter::Lds], Some(v(0, 1)));
        counters.issue(&[Counter::Scalar], Some(s(4, 2)));
        counters.wait(Wait {
            lds: 0,
            ..Wait::NONE
        });
        assert!(counters.in_flight(&[v(0, 1)], None).is_none());
        assert!(counters.in_flight(&[s(5, 1)], None).is_some());
    }

    #[test]
    fn cdna_counts_loads_and_stores_in_one() {
        let mut counters = Counters::new(Gen::Cdna3);
        counters.issue(&[Counter::Load], Some(v(300, 2)));
        counters.issue(&[Counter::Store], None);
        counters.wait(Wait {
            load: 1,
            ..Wait::NONE
        });
        assert!(counters.idle());
    }

    #[test]
    fn a_later_load_may_write_the_same_register_on_the_same_counter() {
        let mut counters = Counters::new(Gen::Rdna3);
        counters.issue(&[Counter::Load], Some(v(3, 1)));
        let touches = [v(3, 1), v(2, 1)];
        assert!(counters.in_flight(&touches, Some(Counter::Load)).is_none());
        assert!(counters.in_flight(&touches, Some(Counter::Lds)).is_some());
        counters.issue(&[Counter::Load], Some(v(3, 1)));
        counters.wait(Wait {
            load: 1,
            ..Wait::NONE
        });
        assert!(counters.in_flight(&[v(3, 1)], None).is_some());
    }
}
