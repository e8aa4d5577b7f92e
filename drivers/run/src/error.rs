//! What can go wrong between a file and a result.

use std::time::Duration;

use drivers::env::EnvError;
use drivers::select::SelectError;

/// An error: which file, section, port or device; what was expected; what was there; what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file of another format.
    #[error(
        "{file}: expected a model bundle, which begins with {expected}, found {found}. `doorbell compile MODEL.onnx` \
         writes one"
    )]
    Foreign {
        /// The file.
        file: String,
        /// Its first bytes should be these.
        expected: String,
        /// And are these.
        found: String,
    },
    /// A file of a newer version of the format.
    #[error(
        "{file}: version {version} of the format, expected 1 to {known}. Update doorbell-run, or compile the model \
         with doorbell {own}"
    )]
    Version {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
        /// The newest one that is known here.
        known: u32,
        /// The version of this crate.
        own: &'static str,
    },
    /// A file that is damaged or truncated.
    #[error(
        "{file}: {section}: expected {expected}, found {found}. Copy the file again, or compile the model again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Which part of it.
        section: String,
        /// What was expected.
        expected: String,
        /// What was there.
        found: String,
    },
    /// The file has no code for a kind of device.
    #[error("{file}: no code for {asked}, only for {has}. Compile it with --target {asked}")]
    NoCode {
        /// The file.
        file: String,
        /// The kind of device.
        asked: String,
        /// What the file has code for.
        has: String,
    },
    /// The code is for another chip.
    #[error(
        "{device}: expected {expected}, the chips that {file} has code for, found {found}. Compile it with --target {fix}"
    )]
    Chip {
        /// The device.
        device: String,
        /// The file.
        file: String,
        /// The architectures that there is code for.
        expected: String,
        /// The architecture of the device.
        found: String,
        /// What to compile for.
        fix: String,
    },
    /// An input, output or state of another name or size.
    #[error("{what} {name:?}: expected {expected}, found {found}")]
    Port {
        /// Input, output or state.
        what: &'static str,
        /// The name.
        name: String,
        /// What was expected.
        expected: String,
        /// What was given.
        found: String,
    },
    /// No device of a chain can run the model.
    #[error("no device of {asked} can run {file}:{}", listed(.reasons))]
    NoDevice {
        /// The chain.
        asked: String,
        /// The file.
        file: String,
        /// Each device with its reason.
        reasons: Vec<String>,
    },
    /// A run that did not end in time.
    #[error("{device}: the run was not over after {limit:?}: {source}")]
    Late {
        /// The device.
        device: String,
        /// The deadline.
        limit: Duration,
        /// What the queue says.
        source: Box<hcq::Error>,
    },
    /// A run is under way.
    #[error(
        "{device}: a run is under way; wait for it first, then touch inputs, outputs and states"
    )]
    Busy {
        /// The device.
        device: String,
    },
    /// A choice of devices that is not understood.
    #[error("{asked:?}: {why}")]
    Chain {
        /// The text.
        asked: String,
        /// What is wrong with it.
        why: String,
    },
    /// A target that is not understood.
    #[error(transparent)]
    Select(Box<SelectError>),
    /// A variable with an invalid value.
    #[error(transparent)]
    Variable(#[from] EnvError),
    /// From a driver or a queue.
    #[error(transparent)]
    Device(Box<hcq::Error>),
}

fn listed(reasons: &[String]) -> String {
    reasons.iter().map(|r| format!("\n  {r}")).collect()
}

impl From<SelectError> for Error {
    fn from(e: SelectError) -> Error {
        Error::Select(Box::new(e))
    }
}

impl From<hcq::Error> for Error {
    fn from(e: hcq::Error) -> Error {
        Error::Device(Box::new(e))
    }
}

/// The result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
