//! What blocked command processors wait for, and when that is hopeless.

use std::fmt;

use hcq::{Compare, Width};

use crate::bus::Bus;
use crate::guard::Trap;
use crate::packet::Packet;

/// What ends a WAIT or a POLL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    /// A signal that reaches a value.
    Signal { va: u64, value: u64 },
    /// A word that compares true.
    Word {
        at: u64,
        mask: u64,
        value: u64,
        compare: Compare,
        width: Width,
    },
}

impl Hold {
    /// Whether memory is as wanted now.
    pub(crate) fn met(&self, bus: &Bus<'_>) -> Result<bool, Trap> {
        match *self {
            Hold::Signal { va, value } => Ok(bus.load(va, Width::W64)? >= value),
            Hold::Word {
                at,
                mask,
                value,
                compare,
                width,
            } => {
                let word = bus.load(at, width)? & mask;
                Ok(match compare {
                    Compare::Equal => word == value,
                    Compare::NotEqual => word != value,
                    Compare::GreaterEqual => word >= value,
                })
            }
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Hold::Signal { va, value } => Packet::Wait { va, value }.fmt(f),
            Hold::Word {
                at,
                mask,
                value,
                compare,
                width,
            } => Packet::Poll {
                at,
                mask,
                value,
                compare,
                width,
            }
            .fmt(f),
        }
    }
}

/// The processors of a device: how many can still do something, and what the others wait for.
#[derive(Default)]
pub(crate) struct Holds {
    /// Processors that have not ended and are in no hold.
    pub(crate) running: usize,
    holds: Vec<Hold>,
}

impl Holds {
    /// A processor starts. Room is made for it to block later, when nothing may be allocated.
    pub(crate) fn start(&mut self) {
        self.running += 1;
        self.holds.reserve(self.running);
    }

    /// A running processor blocks.
    pub(crate) fn begin(&mut self, hold: Hold) {
        self.running -= 1;
        self.holds.push(hold);
    }

    /// It runs again, or ends.
    pub(crate) fn end(&mut self, hold: Hold) {
        self.running += 1;
        if let Some(i) = self.holds.iter().position(|h| *h == hold) {
            self.holds.swap_remove(i);
        }
    }

    /// Whether no processor can go on: none runs, and what the blocked ones wait for is not there.
    /// A hold that is met counts as running, its processor just has not woken up yet.
    pub(crate) fn all_stuck(&self, bus: &Bus<'_>) -> bool {
        let met = |hold: &Hold| hold.met(bus).unwrap_or(true);
        self.running == 0 && !self.holds.iter().any(met)
    }
}
