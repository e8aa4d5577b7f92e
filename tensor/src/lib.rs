//! Lazy tensors over hardware command queues.
#![deny(unsafe_code)]

pub mod autograd;
#[allow(unsafe_code)]
pub mod blob;
mod create;
#[allow(unsafe_code)]
pub mod dlpack;
mod doubles;
pub mod element;
pub mod error;
pub mod exec;
mod files;
pub mod graph;
pub mod io;
pub mod jit;
pub mod loops;
mod nested;
pub mod nn;
mod no_grad;
pub mod onnx;
pub mod ops;
pub mod param;
mod read;
pub mod reference;
pub mod schedule;
mod walk;

pub use autograd::{dependence, dependence_from, gradients, gradients_from};
pub use blob::{Access, Layout, Owner, on_release};
pub use codegen::DType;
pub use codegen::ir::ReduceOp;
pub use element::{Element, Scalar};
pub use error::{Error, Result};
pub use graph::{Engine, Executor, ScatterMode, Source, Storage, Tensor};
pub use half::{bf16, f16};
pub use jit::{Frozen, Jit};
pub use loops::{Order, recur};
pub use nested::Nested;
pub use no_grad::{NoGrad, no_grad};
pub use ops::Operand;
pub use ops::random::Rng;
pub use param::Parameter;
