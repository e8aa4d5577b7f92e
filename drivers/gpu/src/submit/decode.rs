//! Decoded packets, for messages and traces. Not on the submission path.

use smallvec::SmallVec;

use crate::core::Core;

/// How a wait compares memory with a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    /// It does not.
    Always,
    /// Memory is less.
    Less,
    /// It is not larger.
    LessEqual,
    /// They are equal.
    Equal,
    /// They are not.
    NotEqual,
    /// Memory is not less.
    GreaterEqual,
    /// It is larger.
    Greater,
}

impl Test {
    /// Its sign.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Test::Always => "always",
            Test::Less => "<",
            Test::LessEqual => "<=",
            Test::Equal => "==",
            Test::NotEqual => "!=",
            Test::GreaterEqual => ">=",
            Test::Greater => ">",
        }
    }

    /// Whether it holds.
    pub fn holds(self, memory: u64, value: u64) -> bool {
        match self {
            Test::Always => true,
            Test::Less => memory < value,
            Test::LessEqual => memory <= value,
            Test::Equal => memory == value,
            Test::NotEqual => memory != value,
            Test::GreaterEqual => memory >= value,
            Test::Greater => memory > value,
        }
    }
}

/// A packet that shows what a queue runs or waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Holds the queue until memory compares true.
    Wait {
        /// Where.
        at: u64,
        /// How many bytes are compared: 4 or 8.
        bytes: usize,
        /// Which bits of them.
        mask: u64,
        /// With what.
        value: u64,
        /// How they compare.
        test: Test,
    },
    /// Runs a kernel.
    Launch {
        /// An address in its image: the first instruction, or the descriptor.
        code: u64,
        /// Where its arguments may be.
        arguments: SmallVec<[u64; 2]>,
    },
    /// Copies.
    Copy {
        /// To where.
        dst: u64,
        /// From where.
        src: u64,
        /// How much.
        bytes: u64,
    },
    /// Fills.
    Fill {
        /// Where.
        at: u64,
        /// With what.
        value: u32,
        /// How much.
        bytes: u64,
    },
    /// Writes a value once everything before is done.
    Signal {
        /// Where.
        at: u64,
        /// The value.
        value: u64,
    },
    /// An unknown packet, after which nothing is decoded; or one that runs packets the host cannot read.
    Unknown {
        /// Its first dword.
        word: u32,
    },
}

/// A packet in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Where it is in the ring, in dwords since the queue was made.
    pub position: u64,
    /// Its operation.
    pub doing: Doing,
}

/// A packet as part of a sentence.
pub fn sentence(core: &Core, doing: &Doing) -> String {
    match doing {
        Doing::Wait {
            at,
            bytes,
            mask,
            value,
            test,
        } => {
            let sign = test.sign();
            let now = match peek_bytes(core, *at, *bytes) {
                Some(now) => format!("which is {:#x}", now & mask),
                None => "which is not readable by the host".into(),
            };
            let whose = core.ranges().describe(*at);
            format!("a wait for memory at {at:#x} {sign} {value:#x}, {now} ({whose})")
        }
        Doing::Launch { code, .. } => match core.kernels.at(*code) {
            Some((kernel, _)) => format!("the launch of kernel {}", kernel.name),
            None => format!("the launch of code at {code:#x}, in no loaded program"),
        },
        Doing::Copy { dst, src, bytes } => {
            format!("a copy of {bytes:#x} bytes from {src:#x} to {dst:#x}")
        }
        Doing::Fill { at, value, bytes } => {
            format!("a fill of {bytes:#x} bytes at {at:#x} with {value:#x}")
        }
        Doing::Signal { at, value } => format!("a signal at {at:#x} of {value:#x}"),
        Doing::Unknown { word } => {
            format!("undecodable packets from word {word:#x}")
        }
    }
}

/// 64 bits of memory that the host sees.
pub fn peek(core: &Core, va: u64) -> Option<u64> {
    peek_bytes(core, va, 8)
}

/// The same with 4 bytes or 8.
pub fn peek_bytes(core: &Core, va: u64, bytes: usize) -> Option<u64> {
    let (window, offset) = core.backend.window_at(va)?;
    match bytes {
        4 => window.read::<u32>(offset).ok().map(u64::from),
        _ => window.read(offset).ok(),
    }
}

/// Dwords of memory that the host sees.
pub fn peek_words(core: &Core, va: u64, dwords: usize) -> Option<Vec<u32>> {
    let mut words = Vec::new();
    peek_words_into(core, va, dwords, &mut words)?;
    Some(words)
}

/// The same in place of what was in `out`.
pub fn peek_words_into(core: &Core, va: u64, dwords: usize, out: &mut Vec<u32>) -> Option<()> {
    let (window, offset) = core.backend.window_at(va)?;
    let there = (window.len() - offset) / 4;
    out.clear();
    out.resize(dwords.min(there as usize), 0);
    window.read_words(offset, out).ok()
}

/// Two of some dwords as one value; those that are not there are zeros.
pub fn wide(words: &[u32], at: usize) -> u64 {
    let word = |at: usize| u64::from(words.get(at).copied().unwrap_or(0));
    word(at) | word(at + 1) << 32
}
