//! Errors of the tensor engine.

/// What can go wrong between building a graph and reading its values.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Shapes that do not go together.
    #[error("{op}: {what}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// Expected, found, and what to do.
        what: String,
    },
    /// A type that the operation does not take.
    #[error("{op}: {what}")]
    DType {
        /// The operation.
        op: &'static str,
        /// Expected, found, and what to do.
        what: String,
    },
    /// Tensors of different engines in one operation.
    #[error("{op}: tensors on {a} and on {b}; move one of them with `to`")]
    Engines {
        /// The operation.
        op: &'static str,
        /// One engine.
        a: String,
        /// The other.
        b: String,
    },
    /// An index that was computed, or read by a device, and is out of range.
    #[error(
        "{op}: a result that was waited for, or one before it, was made with index {index}, which is out of \
         range for {len} elements; use {low}..{len}. It has 0 where it was read, and nothing where it was \
         written: compute it again with indices in range"
    )]
    Index {
        /// The operation.
        op: &'static str,
        /// The index; one of them, if there are several.
        index: i64,
        /// The least that the operation takes.
        low: i64,
        /// Elements of the axis.
        len: usize,
    },
    /// A file of tensors that cannot be read or written.
    #[error(transparent)]
    File(#[from] Box<crate::io::safetensors::SafetensorsError>),
    /// A file of an array that cannot be read or written.
    #[error(transparent)]
    Array(#[from] Box<crate::io::npy::NpyError>),
    /// A kernel that could not be compiled or run.
    #[error("kernel {kernel}: {what}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// What was expected and found, and what to do.
        what: String,
    },
    /// A function that cannot be captured, or a call that does not fit its capture.
    #[error("capture: {what}")]
    Capture {
        /// What was found, and what to do.
        what: String,
    },
    /// The bytes of a tensor that cannot be read from where they are.
    #[error("{what}: {source}; the file may have been changed or removed while it is in use")]
    Source {
        /// What was read.
        what: String,
        /// What the system answered.
        source: std::io::Error,
    },
    /// More memory than an executor may use.
    #[error(
        "{what} needs {bytes} bytes of memory, of which {engine} may use {most}; make it smaller"
    )]
    Memory {
        /// Which value, or what it is part of.
        what: String,
        /// What it takes, with what is alive at that time.
        bytes: u128,
        /// The executor.
        engine: String,
        /// What it may use.
        most: u64,
    },
    /// An error of another kind, from a function of a program that is captured.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
    /// A device said no.
    #[error(transparent)]
    Device(#[from] hcq::Error),
}

/// The result of tensor operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;
