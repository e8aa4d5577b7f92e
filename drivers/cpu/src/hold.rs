//! What blocked command processors wait for.

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
                Ok(compares(word, compare, value))
            }
        }
    }
}

/// Whether a word compares true.
pub(crate) fn compares(word: u64, compare: Compare, value: u64) -> bool {
    match compare {
        Compare::Equal => word == value,
        Compare::NotEqual => word != value,
        Compare::GreaterEqual => word >= value,
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
