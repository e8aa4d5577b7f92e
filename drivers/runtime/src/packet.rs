//! Words of a queue, both directions. Pure.
//!
//! A packet starts with a header: the operation in bits 31:24, its words in bits 23:0. 64-bit values are two words, the low one
//! first. The thread of a queue reads them from memory, once: nothing else writes there while a submission is in flight.

use hcq::{Compare, Width};

/// Operations.
pub mod op {
    /// Address, value: holds the queue until the signal there has the value.
    pub const WAIT: u32 = 1;
    /// Address, value: sets a signal behind all work so far.
    pub const SIGNAL: u32 = 2;
    /// Address of a signal: its timestamp behind all work so far.
    pub const TIMESTAMP: u32 = 3;
    /// Number of the kernel, grid, block, bytes of arguments, arguments.
    pub const EXEC: u32 = 4;
    /// Destination, source, bytes.
    pub const COPY: u32 = 5;
    /// Address, word, bytes.
    pub const FILL: u32 = 6;
    /// Address, value, bytes of the word.
    pub const WRITE: u32 = 7;
    /// Address, mask, value, bytes of the word and the comparison.
    pub const POLL: u32 = 8;
}

/// Words of an [`op::EXEC`] before its arguments.
pub const EXEC_FIXED: usize = 10;

/// Words that a packet has at most.
pub const MAX_WORDS: usize = (1 << 24) - 1;

/// The header of a packet of so many words.
#[inline]
pub const fn header(op: u32, words: usize) -> u32 {
    op << 24 | words as u32
}

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // `op` says what they are.
pub enum Packet<'a> {
    Wait {
        at: u64,
        value: u64,
    },
    Signal {
        at: u64,
        value: u64,
    },
    Timestamp {
        at: u64,
    },
    Exec {
        kernel: u64,
        grid: [u32; 3],
        block: [u32; 3],
        arguments: &'a [u32],
    },
    Copy {
        dst: u64,
        src: u64,
        bytes: u64,
    },
    Fill {
        at: u64,
        value: u32,
        bytes: u64,
    },
    Write {
        at: u64,
        value: u64,
        width: Width,
    },
    Poll {
        at: u64,
        mask: u64,
        value: u64,
        compare: Compare,
        width: Width,
    },
}

/// The first packet of some words, and its length; none for what is no packet.
pub fn decode(words: &[u32]) -> Option<(Packet<'_>, usize)> {
    let first = *words.first()?;
    let length = (first & 0x00ff_ffff) as usize;
    let body = words.get(1..length)?;
    let quad = |at: usize| Some(u64::from(*body.get(at)?) | u64::from(*body.get(at + 1)?) << 32);
    let three = |at: usize| Some([*body.get(at)?, *body.get(at + 1)?, *body.get(at + 2)?]);
    let packet = match first >> 24 {
        op::WAIT => Packet::Wait {
            at: quad(0)?,
            value: quad(2)?,
        },
        op::SIGNAL => Packet::Signal {
            at: quad(0)?,
            value: quad(2)?,
        },
        op::TIMESTAMP => Packet::Timestamp { at: quad(0)? },
        op::EXEC => Packet::Exec {
            kernel: quad(0)?,
            grid: three(2)?,
            block: three(5)?,
            arguments: body.get(9..)?.get(..(*body.get(8)?).div_ceil(4) as usize)?,
        },
        op::COPY => Packet::Copy {
            dst: quad(0)?,
            src: quad(2)?,
            bytes: quad(4)?,
        },
        op::FILL => Packet::Fill {
            at: quad(0)?,
            value: *body.get(2)?,
            bytes: quad(3)?,
        },
        op::WRITE => Packet::Write {
            at: quad(0)?,
            value: quad(2)?,
            width: width(*body.get(4)?)?,
        },
        op::POLL => {
            let how = *body.get(6)?;
            Packet::Poll {
                at: quad(0)?,
                mask: quad(2)?,
                value: quad(4)?,
                compare: match how >> 8 {
                    0 => Compare::Equal,
                    1 => Compare::NotEqual,
                    2 => Compare::GreaterEqual,
                    _ => return None,
                },
                width: width(how & 0xff)?,
            }
        }
        _ => return None,
    };
    Some((packet, length))
}

/// The word of a width.
pub const fn bytes_of(width: Width) -> u32 {
    match width {
        Width::W32 => 4,
        Width::W64 => 8,
    }
}

/// The word of a comparison, with a width.
pub const fn how(compare: Compare, width: Width) -> u32 {
    let compare = match compare {
        Compare::Equal => 0,
        Compare::NotEqual => 1,
        Compare::GreaterEqual => 2,
    };
    bytes_of(width) | compare << 8
}

const fn width(bytes: u32) -> Option<Width> {
    match bytes {
        4 => Some(Width::W32),
        8 => Some(Width::W64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_packet_is_none() {
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[header(99, 1)]), None);
        assert_eq!(decode(&[header(op::WAIT, 5), 1, 2, 3]), None, "cut");
        assert_eq!(decode(&[header(op::WAIT, 0), 1, 2, 3, 4]), None);
        assert_eq!(decode(&[header(op::COPY, 3), 1, 2]), None, "short");
        let poll = [header(op::POLL, 8), 0, 0, 0, 0, 0, 0, 3 << 8 | 4];
        assert_eq!(decode(&poll), None);
    }

    #[test]
    fn a_launch_has_the_arguments_that_it_says() {
        let mut words = vec![header(op::EXEC, EXEC_FIXED + 2), 7, 0, 1, 2, 3, 4, 5, 6, 8];
        words.extend([0xaa, 0xbb]);
        let expected = Packet::Exec {
            kernel: 7,
            grid: [1, 2, 3],
            block: [4, 5, 6],
            arguments: &[0xaa, 0xbb],
        };
        assert_eq!(decode(&words), Some((expected, 12)));
        // More bytes than there are words.
        words[9] = 12;
        assert_eq!(decode(&words), None);
    }
}
