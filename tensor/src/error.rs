//! Errors of the tensor engine.

/// An error of building, compiling, running or reading tensors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Incompatible shapes.
    #[error("{op}: {what}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// Expected, found, and what to do.
        what: String,
    },
    /// A type that the operation does not support.
    #[error("{op}: {what}")]
    DType {
        /// The operation.
        op: &'static str,
        /// Expected, found, and what to do.
        what: String,
    },
    /// Tensors of different engines in one operation.
    #[error("{op}: tensors are on different engines, {a} and {b}; move one of them with `to`")]
    Engines {
        /// The operation.
        op: &'static str,
        /// One engine.
        a: String,
        /// The other.
        b: String,
    },
    /// An out-of-range index that was computed, or read by a device.
    #[error(
        "{op}: index {index} is out of range for {len} elements, in this result or an earlier one; use \
         {low}..{len}. Such reads returned 0, such writes were dropped: recompute with valid indices"
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
    /// A safetensors file cannot be read or written.
    #[error(transparent)]
    File(#[from] Box<crate::io::safetensors::SafetensorsError>),
    /// An npy file cannot be read or written.
    #[error(transparent)]
    Array(#[from] Box<crate::io::npy::NpyError>),
    /// A kernel could not be compiled or run.
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
    /// The bytes of a tensor cannot be read from their file.
    #[error("{what}: {source}; the file may have been changed or removed while in use")]
    Source {
        /// What was read.
        what: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// Not enough memory.
    #[error("{what} needs {bytes} bytes of memory; {engine} may use {most}; make it smaller")]
    Memory {
        /// Which value, or what it is part of.
        what: String,
        /// Its size, with all memory in use at that time.
        bytes: u128,
        /// The executor.
        engine: String,
        /// What it may use.
        most: u64,
    },
    /// Any other error, returned by a captured function.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
    /// Device error.
    #[error(transparent)]
    Device(#[from] hcq::Error),
}

/// The result of tensor operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;
