//! One error for everything that a program does with this library.

use std::fmt;

use drivers::env::EnvError;
use drivers::select::SelectError;
use tensor::io::FileError;
use tensor::io::npy::NpyError;
use tensor::io::npz::NpzError;
use tensor::io::safetensors::SafetensorsError;
use tensor::onnx::OnnxError;

/// What a program that uses this library can end with: every error of its parts becomes one by `?`.
///
/// Its `Debug` is its text, since that is what `fn main() -> Result<(), doorbell::Error>` prints.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A variable that does not hold what it must.
    #[error(transparent)]
    Variable(#[from] EnvError),
    /// A choice of a device that is not understood, or contradicts another one.
    #[error(transparent)]
    Select(Box<SelectError>),
    /// A simulated machine that cannot be as it was asked for.
    #[error("{asked}: {why}")]
    Twin {
        /// The target, and what the variable TWIN says.
        asked: String,
        /// What is wrong with it.
        why: String,
    },
    /// A compiler that was asked for and is not there.
    #[error("{target}: {source}")]
    NoCompiler {
        /// What asked for it.
        target: String,
        /// Which there are.
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
    /// From a file of numpy.
    #[error(transparent)]
    Npy(Box<NpyError>),
    /// From an archive of numpy.
    #[error(transparent)]
    Npz(Box<NpzError>),
    /// The system refused a file of tensors.
    #[error(transparent)]
    File(#[from] FileError),
    /// Whatever else the system refused: a program's own files.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A simulated device saw rules of the hardware broken.
    #[error(
        "{report}the simulated {chip} saw the rules above broken: real hardware may hang, or give \
         wrong numbers. Please report it"
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
