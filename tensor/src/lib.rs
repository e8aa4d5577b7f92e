//! Lazy tensors over hardware command queues.
#![deny(unsafe_code)]

mod create;
pub mod element;
pub mod error;
pub mod exec;
pub mod graph;
pub mod schedule;
pub mod io;
pub mod ops;
mod read;
pub mod reference;

pub use codegen::DType;
pub use element::{Element, Scalar};
pub use error::{Error, Result};
pub use graph::{Engine, Executor, Storage, Tensor};
pub use ops::Operand;
