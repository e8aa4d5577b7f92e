//! Lazy tensors over hardware command queues.
#![deny(unsafe_code)]

pub mod error;
pub mod graph;
pub mod schedule;
pub mod io;

pub use codegen::DType;
pub use error::{Error, Result};
pub use graph::{Engine, Executor, Storage, Tensor};
