//! What can go wrong between a file and a result.

use std::io::ErrorKind;
use std::time::Duration;

use drivers::env::EnvError;
use drivers::open::without_cpu;
use drivers::select::SelectError;
use hcq::progress::Over;

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
    #[error("{file}: no code for {asked}, only for {has}. Compile it with --target {fix}")]
    NoCode {
        /// The file.
        file: String,
        /// The kind of device.
        asked: String,
        /// What the file has code for.
        has: String,
        /// What to compile for.
        fix: String,
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
    /// An input, output or state of another name or size, or memory that cannot take its place.
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
    /// The only kind of device that a file has code for cannot be opened here.
    #[error(
        "{}. {file} has code for {has} only: to run it here, compile it with --target CPU as well",
        elsewhere(.source)
    )]
    Alone {
        /// The file.
        file: String,
        /// What it has code for.
        has: String,
        /// Why it cannot be opened.
        source: Box<hcq::Error>,
    },
    /// A simulated device, asked of who has none.
    #[error(
        "{asked}: doorbell-run and its library have no simulator. On a PC, `DEV='{asked}' doorbell run FILE.dbx` and `doorbell \
         verify FILE.dbx` have one{exec}. On the board, use DEV={device} or another device of it"
    )]
    Simulated {
        /// The target.
        asked: String,
        /// The kind of device.
        device: &'static str,
        /// How a program with this library gets one, or nothing.
        exec: String,
    },
    /// A file to write that is read or written under another name as well.
    #[error(
        "{file}: expected a file of its own to write, found {other}, which is read or written as well. Name another file"
    )]
    Same {
        /// The file to write.
        file: String,
        /// The other name.
        other: String,
    },
    /// A run that did not end in time.
    #[error(
        "{device}: the run was not over after {limit:?}, and goes on: {}. If the model may take longer, raise the limit: \
         --limit MS, or that of the call",
        progress(.source)
    )]
    Late {
        /// The device.
        device: String,
        /// The deadline.
        limit: Duration,
        /// What the queue says.
        source: Box<hcq::Error>,
    },
    /// A run that has ended, but not in time.
    #[error(
        "{device}: the run took {took:.1?}, expected {limit:?} at most; it is over, and its outputs are whole. If the model may \
         take longer, raise the limit: --limit MS, or that of the call"
    )]
    Overdue {
        /// The device.
        device: String,
        /// The deadline.
        limit: Duration,
        /// How long it took.
        took: Duration,
    },
    /// What was submitted before did not end in time, so that this run was not submitted.
    #[error(
        "{device}: the run before was not over after {limit:?}, and goes on: {}. This one was not submitted: wait for that \
         one, then run again",
        progress(.source)
    )]
    Waiting {
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

/// Why a device cannot be opened, for who has no code for the CPU.
fn elsewhere(source: &hcq::Error) -> String {
    without_cpu(&source.to_string()).to_owned()
}

/// How far a queue is, without the advice of the queue's own limits: they are not what ended the wait.
fn progress(source: &hcq::Error) -> String {
    let hcq::Error::Timeout {
        what,
        wanted,
        seen,
        over,
        ..
    } = source
    else {
        return source.to_string();
    };
    let moved = match over {
        Over::Silent(silence) | Over::Blind(silence) => {
            format!(", without progress for {silence:?}")
        }
        Over::Long(_) => String::new(),
    };
    format!("{what} is at {seen}, expected {wanted}{moved}")
}

/// What the exit codes of `doorbell` and `doorbell-run` mean.
pub const EXIT_CODES: &str = "Exit codes: 0 ok, 1 failure, 2 usage, 3 no device, 4 permission, 5 device lost or hanging, \
     6 unsupported hardware, 7 the device is there and did not start.";

/// The exit code of a device's error: see [`EXIT_CODES`].
pub fn device_code(e: &hcq::Error) -> u8 {
    match e {
        hcq::Error::NoDevice { .. } => 3,
        hcq::Error::NoPermission { .. } => 4,
        hcq::Error::Unsupported { .. } => 6,
        hcq::Error::NotStarted { .. } => 7,
        hcq::Error::DeviceLost { .. } | hcq::Error::Timeout { .. } | hcq::Error::Fault { .. } => 5,
        _ => 1,
    }
}

impl Error {
    /// The exit code of a program that ends with it: see [`EXIT_CODES`].
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Foreign { .. }
            | Error::Port { .. }
            | Error::Same { .. }
            | Error::Simulated { .. }
            | Error::Select(_)
            | Error::Variable(_) => 2,
            Error::NoDevice { .. } => 3,
            Error::Late { .. }
            | Error::Overdue { .. }
            | Error::Waiting { .. }
            | Error::Busy { .. } => 5,
            Error::NoCode { .. } | Error::Chip { .. } | Error::Version { .. } => 6,
            Error::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => 4,
            Error::Device(source) | Error::Alone { source, .. } => device_code(source),
            Error::Io { .. } | Error::Damaged { .. } => 1,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_run_names_the_limit_that_ended_it() {
        let late = |over| {
            let source = hcq::Error::Timeout {
                device: hcq::DeviceId::new("QCOM", 0),
                what: "compute queue".into(),
                wanted: 4,
                seen: 3,
                after: Duration::from_millis(50),
                over,
            };
            let late = Error::Late {
                device: "QCOM:0".into(),
                limit: Duration::from_millis(50),
                source: Box::new(source),
            };
            assert_eq!(late.exit_code(), 5);
            late.to_string()
        };
        for (over, moved) in [
            (Over::Long(Duration::from_millis(50)), ""),
            (
                Over::Silent(Duration::from_secs(30)),
                ", without progress for 30s",
            ),
        ] {
            assert_eq!(
                late(over),
                format!(
                    "QCOM:0: the run was not over after 50ms, and goes on: compute queue is at 3, expected 4{moved}. If the \
                     model may take longer, raise the limit: --limit MS, or that of the call"
                )
            );
        }
    }
}
