//! The commands of a queue. Vendor-neutral: a driver encodes them to packets, a fallback over a vendor's runtime
//! interprets them.

use crate::program::Program;
use crate::signal::Signal;
use crate::width::Width;

/// A placeholder in an encoded stream whose value is given at submission: index into the values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Slot(pub u16);

/// A 64-bit operand: known when encoding, or patched in at submission.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Val {
    /// Known now.
    Const(u64),
    /// `values[slot] + add` at submission.
    Slot(Slot, u64),
}

impl From<u64> for Val {
    fn from(v: u64) -> Self {
        Val::Const(v)
    }
}

/// Who must see the writes before a barrier. Drivers map it to cache operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// Later commands of the same queue.
    Queue,
    /// Every queue of the device.
    Device,
    /// The host, and devices that reach this memory over the bus.
    System,
}

/// How [`Command::Poll`] compares memory with its operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Compare {
    /// memory & mask == value.
    Equal,
    /// memory & mask != value.
    NotEqual,
    /// memory & mask >= value, unsigned.
    GreaterEqual,
}

/// One command. Commands of one queue start in order; `Exec`, `Copy` and `Fill` may overlap earlier ones unless
/// separated by a [`Command::Barrier`].
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Holds the queue until the signal is at least `value`.
    ///
    /// Some engines compare 32 bits at a time. Streams and graphs choose values for which that makes no difference.
    /// With your own signal values, let such a queue see a value before the signal's high half changes; a wait
    /// encoded after the host has seen the value ([`Signal::seen`]) is skipped.
    Wait {
        /// The signal, of this or of another device that this one can reach.
        signal: &'a Signal,
        /// The logical value.
        value: Val,
    },
    /// Sets the signal to `value` once everything before is done and visible system-wide. A signal
    /// only grows.
    Signal {
        /// The signal.
        signal: &'a Signal,
        /// The logical value.
        value: Val,
    },
    /// Writes the device clock to the signal's timestamp once everything before is done.
    Timestamp {
        /// The signal whose timestamp field is written.
        signal: &'a Signal,
    },
    /// What comes before is done and visible to `scope` before anything after starts.
    Barrier {
        /// Who must see it.
        scope: Scope,
    },
    /// Runs a kernel.
    Exec {
        /// The kernel.
        program: &'a Program,
        /// One value per argument of its layout: device addresses and integers.
        args: &'a [Val],
        /// Workgroups in x, y, z.
        grid: [u32; 3],
        /// Work-items per workgroup in x, y, z.
        block: [u32; 3],
    },
    /// Copies bytes between addresses that the device can reach. Ranges must not overlap.
    Copy {
        /// Destination address.
        dst: Val,
        /// Source address.
        src: Val,
        /// Number of bytes, may be 0.
        bytes: u64,
    },
    /// Fills memory with a word. Later commands see it as they see a copy.
    Fill {
        /// Address, a multiple of 4.
        at: Val,
        /// The word.
        value: u32,
        /// Number of bytes, a multiple of 4, may be 0.
        bytes: u64,
    },
    /// Writes a word.
    Write {
        /// Aligned address.
        at: Val,
        /// The word.
        value: Val,
        /// Its width.
        width: Width,
    },
    /// Holds the queue until a word in memory compares true.
    Poll {
        /// Aligned address.
        at: Val,
        /// Applied to memory before the comparison.
        mask: u64,
        /// The operand.
        value: Val,
        /// The comparison.
        compare: Compare,
        /// Width of the word.
        width: Width,
    },
}

impl Command<'_> {
    /// The name of the command, for traces and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Wait { .. } => "wait",
            Command::Signal { .. } => "signal",
            Command::Timestamp { .. } => "timestamp",
            Command::Barrier { .. } => "barrier",
            Command::Exec { .. } => "exec",
            Command::Copy { .. } => "copy",
            Command::Fill { .. } => "fill",
            Command::Write { .. } => "write",
            Command::Poll { .. } => "poll",
        }
    }
}
