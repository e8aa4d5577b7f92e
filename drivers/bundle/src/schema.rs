//! The contents of a bundle.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The version of the format.
pub const SCHEMA: &str = "doorbell.bundle/1";

/// An address or a word of hardware, which is text in the file (`"0x1f"`): JSON's numbers are exact up to 53 bits
/// only, and people compare these with manuals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Hex(pub u64);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Hex, D::Error> {
        let text = String::deserialize(from)?;
        let digits = text.strip_prefix("0x");
        let value = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let value =
            value.ok_or_else(|| D::Error::custom(format!("{text:?} is not a number such as 0x1f")));
        value.map(Hex)
    }
}

/// Why there is a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The device reported an exception, or is no longer reachable.
    #[default]
    Fault,
    /// Something did not come in time.
    Hang,
    /// The device could not be started.
    Start,
    /// A check found something wrong that the device did not notice.
    Check,
    /// A program broke rules of a simulated card.
    Rules,
}

/// All that is known of a device when something went wrong.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bundle {
    /// [`SCHEMA`].
    pub schema: String,
    /// Why it was written.
    pub kind: Kind,
    /// The error reported to the program.
    pub error: String,
    /// By whom, and when.
    pub written: Written,
    /// The device.
    pub device: Device,
    /// What was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Waited>,
    /// What the device said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception: Option<Exception>,
    /// Its queues, each with what it does and did last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<Queue>,
    /// Unfinished work of a program that was ended on a simulated card.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<Undone>,
    /// Kernels that are loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<Kernel>,
    /// State read through the interface.
    pub evidence: Evidence,
    /// The machine.
    pub system: System,
    /// Rules of a simulated card that were broken.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<Rule>,
}

/// By whom, and when.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Written {
    /// The version of Doorbell.
    pub version: String,
    /// The name of the program.
    pub program: String,
    /// Its number in the system.
    pub process: u32,
    /// Seconds since 1970, UTC.
    pub at: u64,
}

/// The device.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Device {
    /// Its name in messages: `AMD:0`.
    pub id: String,
    /// The interface: `KFD`, `PCI`, `USB`, `NVK`.
    pub interface: String,
    /// Where it is: `0000:03:00.0`, or a port of USB, `2-1`.
    pub place: String,
    /// Bytes of its memory.
    pub memory: u64,
    /// What the system's log calls its kernel driver.
    pub log: String,
}

/// What was waited for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Waited {
    /// Which signal, or what else.
    pub what: String,
    /// The value that was waited for.
    pub wanted: u64,
    /// The last one that was seen.
    pub seen: u64,
    /// How long, in ms.
    pub after_ms: u64,
}

/// What the device said.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "of", rename_all = "lowercase")]
pub enum Exception {
    /// An address could not be used.
    Memory {
        /// The address; its low bits may be missing.
        va: Hex,
        /// What is wrong: `page fault`, `ecc`, `poison`, `hang`.
        cause: String,
        /// `read`, `write` or `atomic`, if reported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        access: Option<String>,
        /// Nothing is mapped there.
        #[serde(default)]
        not_present: bool,
        /// It may only be read.
        #[serde(default)]
        read_only: bool,
        /// It may not be executed.
        #[serde(default)]
        no_execute: bool,
        /// Whose it is, was, or is near.
        owner: Owner,
        /// The packet in flight that names the page, with its queue.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guilty: Option<[String; 2]>,
    },
    /// A kernel or packet performed an operation that the hardware rejects.
    Refused {
        /// The unit.
        unit: String,
        /// What it says.
        what: String,
        /// The address or instruction, if reported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Hex>,
        /// Whose it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Owner>,
    },
    /// The hardware was reset.
    Reset {
        /// One engine only.
        #[serde(default)]
        engine: bool,
        /// Memory could not be corrected.
        #[serde(default)]
        uncorrectable: bool,
        /// The contents of its memory are lost.
        #[serde(default)]
        memory_lost: bool,
    },
    /// The device does not answer any more.
    Broken {
        /// What could not be reached.
        unit: String,
        /// Why.
        what: String,
    },
}

/// How an address lies to what the process has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Owner {
    /// In something that lives.
    Inside(Span),
    /// In something that was freed.
    Freed(Span),
    /// Behind something, so many bytes from its end.
    Behind(Span),
    /// Before something.
    Before(Span),
    /// In nothing, nor near it.
    Nobody,
}

/// Something at addresses, and how far from its start (or for `behind` its end) an address is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Span {
    /// What it is.
    pub what: String,
    /// Where it starts.
    pub start: Hex,
    /// Its bytes.
    pub bytes: Hex,
    /// How far.
    pub distance: Hex,
}

/// A queue.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// Its name: `compute 0`.
    pub name: String,
    /// Dwords of its ring.
    pub ring: u64,
    /// The pointers of the hardware, whatever they are worth.
    pub wptr: Hex,
    /// See above.
    pub rptr: Hex,
    /// What the doorbell was given last.
    pub doorbell: Hex,
    /// Dwords that were written since the queue was made.
    pub written: u64,
    /// Dwords that fences say are done.
    pub done: u64,
    /// Dwords fetched by the device, if reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken: Option<u64>,
    /// Fences that were submitted, and reached.
    pub fences: [u64; 2],
    /// What counts its submissions.
    pub timeline: Timeline,
    /// Packets that are not known to be done, in order.
    pub in_flight: Vec<Packet>,
    /// Submissions, the last one last.
    pub recent: Vec<Submission>,
    /// The first ring word that differs from the submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub altered: Option<Altered>,
}

/// Unfinished work of a program on a simulated card.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Undone {
    /// A queue or a process: `GPU 0 queue 1 (AQL)`.
    pub who: String,
    /// The packet or the call that it is at; empty where that is not known.
    pub at: String,
    /// What keeps it there.
    #[serde(flatten)]
    pub kept: Blocked,
}

/// What keeps something from being done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kept", rename_all = "lowercase")]
pub enum Blocked {
    /// A wait for memory that does not have the awaited value.
    Memory {
        /// Where that is.
        va: Hex,
        /// What it holds.
        now: Hex,
        /// What is waited for.
        why: String,
    },
    /// Work that has begun and does not end.
    Work {
        /// What.
        what: String,
    },
    /// Something else.
    Other {
        /// What.
        why: String,
    },
}

/// What counts the submissions of a queue.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// Where it is.
    pub at: Hex,
    /// What the last submission makes it.
    pub made: u64,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
}

/// A submission.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Submission {
    /// Its number, from 1.
    pub number: u64,
    /// What it makes the timeline; 0 for one of the driver's own.
    #[serde(rename = "makes")]
    pub signal_value: u64,
    /// Where in the ring it starts and ends, in dwords since the queue was made.
    pub place: [u64; 2],
    /// What the doorbell was given.
    pub doorbell: Hex,
    /// Its first words.
    pub words: Vec<Hex>,
    /// What they do, as far as they were kept.
    pub does: Vec<String>,
}

/// A ring word that differs from the submission.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Altered {
    /// Where, in dwords since the queue was made.
    pub at: u64,
    /// What was submitted.
    pub submitted: Hex,
    /// What is there.
    pub found: Hex,
}

/// A packet in flight.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Packet {
    /// Where it is in the ring, in dwords since the queue was made.
    pub position: u64,
    /// What it does, in words.
    pub text: String,
    /// The same for programs.
    pub does: Does,
}

/// What a packet does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Does {
    /// Holds the queue until memory compares true.
    Wait {
        /// Where.
        at: Hex,
        /// With what it is compared.
        value: Hex,
        /// How.
        test: String,
        /// What is there, as far as the host sees it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        now: Option<Hex>,
        /// Whether it is over.
        over: bool,
        /// Whether it is one of the queue's own parts for each other.
        #[serde(default)]
        own: bool,
        /// Whose memory it is.
        owner: Owner,
    },
    /// Runs a kernel.
    Launch {
        /// An address in its image.
        code: Hex,
        /// Its name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kernel: Option<String>,
    },
    /// Copies.
    Copy {
        /// To where.
        dst: Hex,
        /// From where.
        src: Hex,
        /// How much.
        bytes: Hex,
    },
    /// Fills.
    Fill {
        /// Where.
        at: Hex,
        /// With what.
        value: Hex,
        /// How much.
        bytes: Hex,
    },
    /// Writes a value once everything before is done.
    Signal {
        /// Where.
        at: Hex,
        /// The value.
        value: Hex,
    },
    /// Nothing that the device knows.
    Unknown {
        /// Its first dword.
        word: Hex,
    },
}

/// A kernel that is loaded.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// Where its image is.
    pub at: Hex,
    /// Bytes of it.
    pub bytes: Hex,
}

/// What the way to a device could read of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// Registers, by the vendor's names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub registers: Vec<Register>,
    /// The walk of page tables to the address at fault, root first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub walk: Vec<Step>,
    /// What waves or warps were doing, where that can be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waves: Vec<String>,
    /// Waves of a shader, where their registers can be read; of many, the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shader_waves: Vec<Wave>,
    /// Firmware that was loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub firmware: Vec<Firmware>,
    /// Diagnostics by name: of the path to the device (links, error counts), and what its firmware has logged last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub way: Vec<[String; 2]>,
    /// What could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// A register.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Register {
    /// Its block and name: `GC0.CP_STAT`.
    pub name: String,
    /// What it holds.
    pub value: Hex,
    /// The same by its fields.
    pub text: String,
}

/// A step of a walk of page tables.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    /// The level: `PDB2`.
    pub level: String,
    /// Where the entry is.
    pub at: Hex,
    /// The entry.
    pub entry: Hex,
    /// What it says.
    pub text: String,
}

/// A wave that has not ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Wave {
    /// The unit that it is on.
    pub place: String,
    /// Address of its next instruction.
    pub pc: Hex,
    /// Its lanes, a bit for each.
    pub exec: Hex,
    /// Its state, as the unit has it.
    pub status: Hex,
    /// Exceptions that it has met, likewise.
    pub exceptions: Hex,
    /// Whether it waits at a barrier.
    pub in_barrier: bool,
    /// Whether it is halted.
    pub halted: bool,
}

/// A file of firmware.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Firmware {
    /// Its name.
    pub name: String,
    /// Its version, if reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its SHA-256, where the file was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// The machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct System {
    /// Whether the device is a simulated one.
    pub simulated: bool,
    /// What files of the system say: path and text.
    pub files: Vec<[String; 2]>,
    /// Variables that choose or change the device.
    pub environment: Vec<[String; 2]>,
}

/// A rule that was broken.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// What it demands.
    pub text: String,
    /// Where that is written.
    pub source: String,
    /// How often it was broken.
    pub times: u64,
    /// What was done the first time.
    pub seen: String,
    /// What happened before that, the last one last.
    pub after: Vec<String>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (span, before, after) = match self {
            Owner::Inside(span) => (span, "at offset ", "of "),
            Owner::Freed(span) => (span, "at offset ", "of "),
            Owner::Behind(span) => (span, "", "bytes past "),
            Owner::Before(span) => (span, "", "bytes before "),
            Owner::Nobody => return f.write_str("not in or near any buffer"),
        };
        let Span {
            what,
            start,
            bytes,
            distance,
        } = span;
        write!(
            f,
            "{before}{distance} {after}{what} ({bytes} bytes at {start})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_hardware_are_text() {
        let all = serde_json::to_string(&[Hex(u64::MAX), Hex(0)]).unwrap();
        assert_eq!(all, r#"["0xffffffffffffffff","0x0"]"#);
        let back: [Hex; 2] = serde_json::from_str(&all).unwrap();
        assert_eq!(back, [Hex(u64::MAX), Hex(0)]);
        let error = serde_json::from_str::<Hex>(r#""12""#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("is not a number such as 0x1f"), "{error}");
    }

    #[test]
    fn what_a_reader_does_not_know_is_left() {
        let text = r#"{"schema": "doorbell.bundle/1", "error": "e", "later": {"a": [1]}}"#;
        let bundle: Bundle = serde_json::from_str(text).unwrap();
        assert_eq!((bundle.kind, &*bundle.error), (Kind::Fault, "e"));
    }
}
