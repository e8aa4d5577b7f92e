//! The error type of this library.

use std::fmt;

use drivers::env::EnvError;
use drivers::select::SelectError;
use tensor::io::FileError;
use tensor::io::npy::NpyError;
use tensor::io::npz::NpzError;
use tensor::io::safetensors::SafetensorsError;
use tensor::onnx::OnnxError;

/// The error of programs that use this library; `?` converts the errors of its parts.
///
/// `Debug` prints the text, because `fn main() -> Result<(), doorbell::Error>` uses it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A variable with an invalid value.
    #[error(transparent)]
    Variable(#[from] EnvError),
    /// An invalid or conflicting choice of a device.
    #[error(transparent)]
    Select(Box<SelectError>),
    /// An invalid configuration of a simulated machine.
    #[error("{asked}: {why}")]
    Twin {
        /// The target, and the value of TWIN.
        asked: String,
        /// What is wrong with it.
        why: String,
    },
    /// The requested compiler does not exist.
    #[error("{target}: {source}")]
    NoCompiler {
        /// The target.
        target: String,
        /// The available ones.
        source: Box<codegen::Error>,
    },
    /// From the kernel compiler.
    #[error(transparent)]
    Compiler(#[from] codegen::Error),
    /// From a driver or a queue.
    #[error(transparent)]
    Device(#[from] hcq::Error),
    /// From building, compiling or running tensors.
    #[error(transparent)]
    Tensor(tensor::Error),
    /// From an ONNX model.
    #[error(transparent)]
    Model(Box<OnnxError>),
    /// From a safetensors file.
    #[error(transparent)]
    Safetensors(Box<SafetensorsError>),
    /// From an npy file.
    #[error(transparent)]
    Npy(Box<NpyError>),
    /// From an npz archive.
    #[error(transparent)]
    Npz(Box<NpzError>),
    /// From a model bundle, or the device that runs it.
    #[error(transparent)]
    ModelBundle(Box<doorbell_run::Error>),
    /// A bundle that cannot be made in the requested way.
    #[error("{asked}: {why}")]
    Recipe {
        /// The option.
        asked: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file of tensors could not be opened, read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Any other I/O error, of a program's own files.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A simulated device detected violations of hardware rules.
    #[error(
        "{report}simulated {chip}: the program broke the rules listed above; real hardware may hang or give \
         wrong results. Please report them"
    )]
    Rules {
        /// The chip.
        chip: &'static str,
        /// A line for each rule.
        report: String,
    },
}

/// Those that are large lie behind a pointer: a result is moved more often than it fails.
macro_rules! boxed {
    ($($from:ty => $variant:ident;)*) => {$(
        impl From<$from> for Error {
            fn from(e: $from) -> Error {
                Error::$variant(Box::new(e))
            }
        }
    )*};
}
boxed! {
    SelectError => Select;
    OnnxError => Model;
    SafetensorsError => Safetensors;
    NpyError => Npy;
    NpzError => Npz;
}

impl From<tensor::Error> for Error {
    fn from(e: tensor::Error) -> Error {
        match e {
            // One of these that went through a captured function.
            tensor::Error::Other(other) => match other.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => Error::Tensor(tensor::Error::Other(other)),
            },
            e => Error::Tensor(e),
        }
    }
}

/// So that a function of a program may be captured as it is: `?` takes its errors there and back.
impl From<Error> for tensor::Error {
    fn from(e: Error) -> tensor::Error {
        match e {
            Error::Tensor(e) => e,
            other => tensor::Error::Other(Box::new(other)),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The result of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;
