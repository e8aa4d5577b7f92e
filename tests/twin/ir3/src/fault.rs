//! Why a launch could not go on.

use std::fmt;

use twin::rule::Rule;

use crate::memory::{Denied, Path};

/// What went wrong.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// A rule is broken.
    Rule {
        /// The rule.
        rule: &'static Rule,
        /// What was done.
        what: String,
    },
    /// Memory refused an access.
    Memory {
        /// The cache on its way.
        path: Path,
        /// Whether it writes.
        write: bool,
        /// The address.
        address: u64,
        /// How many bytes.
        bytes: usize,
        /// Why.
        why: Denied,
    },
    /// A wave issued more instructions than the launch allows.
    Limit(u64),
    /// No wave of a workgroup can go on.
    Stuck,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { rule, what } => write!(
                f,
                "rule {} ({:?}; {}): {}. Seen: {what}",
                rule.name, rule.proof, rule.source, rule.text
            ),
            Self::Memory {
                path,
                write,
                address,
                bytes,
                why,
            } => {
                let verb = if *write { "writes" } else { "reads" };
                let path = path.name();
                write!(
                    f,
                    "{verb} {bytes} bytes at {address:#x} through {path}: {why}"
                )
            }
            Self::Limit(limit) => write!(
                f,
                "a wave did not end within {limit} instructions: a loop without an end, or a limit that is too low"
            ),
            Self::Stuck => write!(
                f,
                "no wave of the workgroup can go on: each waits at a barrier or for the preamble"
            ),
        }
    }
}

/// What stops a wave: why, and which fiber.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub cause: Box<Cause>,
    pub fiber: Option<u32>,
}

impl Stop {
    pub fn rule(rule: &'static Rule, what: impl Into<String>) -> Self {
        let what = what.into();
        Self::from(Cause::Rule { rule, what })
    }

    /// The same with who it is about before it.
    pub fn about(mut self, who: &str) -> Self {
        if let Cause::Rule { what, .. } = &mut *self.cause {
            *what = format!("{who}: {what}");
        }
        self
    }

    /// The same for one fiber.
    pub fn of(mut self, lane: usize) -> Self {
        self.fiber = Some(lane as u32);
        self
    }
}

impl From<Cause> for Stop {
    fn from(cause: Cause) -> Self {
        Self {
            cause: Box::new(cause),
            fiber: None,
        }
    }
}

/// What an instruction gives, or why it stops its wave.
pub(crate) type Result<T> = std::result::Result<T, Stop>;

/// A broken rule as an error.
pub(crate) fn broken<T>(rule: &'static Rule, what: impl Into<String>) -> Result<T> {
    Err(Stop::rule(rule, what))
}

/// A launch that could not go on: why and where.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Why.
    pub cause: Cause,
    /// The instruction's address.
    pub pc: u64,
    /// Its word, where it could be fetched.
    pub word: Option<u64>,
    /// Its mnemonic.
    pub name: &'static str,
    /// The workgroup.
    pub group: [u32; 3],
    /// The wave in it.
    pub wave: u32,
    /// The fiber in the wave, where one is to blame.
    pub fiber: Option<u32>,
}

impl Broken {
    /// The broken rule.
    pub fn rule(&self) -> Option<&'static Rule> {
        match &self.cause {
            Cause::Rule { rule, .. } => Some(rule),
            Cause::Memory {
                why: Denied::Rule { rule, .. },
                ..
            } => Some(rule),
            _ => None,
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.group;
        write!(f, "shader at {:#x}", self.pc)?;
        if let Some(word) = self.word {
            write!(f, " ({word:016x} {})", self.name)?;
        }
        write!(f, ", workgroup {x}, {y}, {z}, wave {}", self.wave)?;
        if let Some(fiber) = self.fiber {
            write!(f, ", fiber {fiber}")?;
        }
        write!(f, ": {}", self.cause)
    }
}

impl std::error::Error for Broken {}
