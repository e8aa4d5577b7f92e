//! What a command can end with, and the exit code of each.

use std::io::ErrorKind;
use std::time::Duration;

use doorbell_run::error::device_code;
use drivers::regs::RegsError;
use drivers_bundle::ReadError;
use drivers_bundle::limits::TooMuch;
use drivers_host::pci::LockError;
use drivers_host::pci::claim::ClaimError;
use hcq::transport::TransportError;
use tensor::io::FileError;
use tensor::io::npy::NpyError;
use tensor::io::npz::NpzError;
use tensor::onnx::OnnxError;
use thiserror::Error as ThisError;

/// An error that ends the program.
#[derive(Debug, ThisError)]
pub enum Error {
    /// A selection or setting that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// From the library.
    #[error(transparent)]
    Library(Box<crate::Error>),
    /// A check of the program's own results failed.
    #[error("{0}")]
    Check(String),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// About a file of firmware.
    #[error("{0}")]
    Firmware(firmware_tools::Error),
    /// Binding or unbinding a PCI function failed.
    #[error(transparent)]
    Claim(ClaimError),
    /// Another program uses a PCI function.
    #[error(transparent)]
    Lock(LockError),
    /// About registers of a card.
    #[error(transparent)]
    Registers(RegsError),
    /// A card that cannot be opened.
    #[error("{0}")]
    Transport(TransportError),
    /// An interface that is missing or unusable.
    #[error("{check}: {what}")]
    Unusable {
        /// The row of `doorbell doctor`.
        check: String,
        /// What was seen.
        what: String,
        /// What to do, or nothing.
        fix: String,
    },
    /// A step does not return.
    #[error("no answer{}: doorbell hangs in code without a timeout, which is a bug; please report it with a log \
             (RUST_LOG=debug)", after.map_or(String::new(), |after| format!(" in {after:?}")))]
    Stuck {
        /// The time waited; without one its thread has ended.
        after: Option<Duration>,
    },
    /// A step of `doorbell bringup` failed; the reason is already printed.
    #[error("bring-up stopped at step {name}")]
    Step {
        /// Which.
        name: &'static str,
        /// The exit code of what it failed with.
        code: u8,
    },
    /// A bundle that cannot be read.
    #[error(transparent)]
    Bundle(ReadError),
    /// A file that is too large.
    #[error(transparent)]
    TooMuch(TooMuch),
    /// Signals cannot be blocked.
    #[error("cannot block signals: {0}")]
    Signals(std::io::Error),
    /// Writing to standard output failed.
    #[error("cannot write to stdout: {0}")]
    Output(std::io::Error),
}

impl Error {
    /// As [`doorbell_run::error::EXIT_CODES`] says.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_)
            | Error::Bundle(ReadError::Other { .. } | ReadError::TooMuch(_))
            | Error::TooMuch(_)
            | Error::Registers(RegsError::Chip { .. } | RegsError::Name { .. }) => 2,
            Error::Library(e) => library_code(e),
            Error::Claim(ClaimError::Missing { .. }) | Error::Unusable { .. } => 3,
            Error::Stuck { .. } => 5,
            Error::Step { code, .. } => *code,
            Error::Firmware(firmware_tools::Error::File { source, .. })
            | Error::File { source, .. }
            | Error::Claim(
                ClaimError::Journal { source, .. } | ClaimError::Refused { source, .. },
            )
            | Error::Lock(LockError::File { source, .. })
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                4
            }
            _ => 1,
        }
    }
}

/// Whatever the library makes an error of its own of.
impl<E> From<E> for Error
where
    crate::Error: From<E>,
{
    fn from(e: E) -> Error {
        Error::Library(Box::new(e.into()))
    }
}

fn library_code(e: &crate::Error) -> u8 {
    use crate::Error::{
        Device, File, Model, ModelBundle, NoCompiler, Npy, Npz, Recipe, Select, Tensor, Twin,
        Variable,
    };
    match e {
        Variable(_) | Select(_) | Twin { .. } | NoCompiler { .. } | Recipe { .. } => 2,
        ModelBundle(e) => e.exit_code(),
        File(e) => file_code(e),
        Npy(e) => array_code(e),
        Npz(e) => match &**e {
            NpzError::File(e) => file_code(e),
            NpzError::Array(e) => array_code(e),
            _ => 1,
        },
        Device(e) | Tensor(tensor::Error::Device(e)) => device_code(e),
        Model(e) => match &**e {
            OnnxError::Engine { source, .. } => match &**source {
                tensor::Error::Device(e) => device_code(e),
                _ => 1,
            },
            _ => 1,
        },
        _ => 1,
    }
}

fn array_code(e: &NpyError) -> u8 {
    match e {
        NpyError::File(e) => file_code(e),
        _ => 1,
    }
}

fn file_code(e: &FileError) -> u8 {
    match e.source.kind() {
        ErrorKind::PermissionDenied => 4,
        _ => 1,
    }
}
