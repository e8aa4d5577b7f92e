//! Tensor programs on hardware command queues, without vendor runtimes.
//!
//! ```
//! use doorbell::{DType, Rng};
//!
//! fn main() -> Result<(), doorbell::Error> {
//!     let engine = doorbell::open()?; // the device that DEV names, or the CPU
//!
//!     let mut rng = Rng::new(&engine, 7);
//!     let (x, w) = (rng.rand(&[64, 128], DType::F32)?, rng.rand(&[128, 10], DType::F32)?);
//!     let y = x.matmul(&w)?.add(0.5)?.relu()?; // nothing has run yet
//!     let values: Vec<f32> = y.to_vec()?; // compiled, run, read
//!     assert_eq!(values.len(), 640);
//!     Ok(())
//! }
//! ```
//!
//! - [`open()`] and [`open_target`] give an [`Engine`]; [`Setup`] has more options: threads, a profile, an observer,
//!   who is told what happens, the rules of a simulated device.
//! - A [`Tensor`] is lazy: what is called on it builds a graph, which runs when a value is read. Shapes and
//!   types are checked at once, so that an error names the line that is wrong.
//! - [`gradients`] differentiates; [`nn`] has layers, optimizers and saved states; a [`Parameter`] is state.
//! - [`Jit`] and [`Frozen`] capture a function and replay it; [`onnx`] loads and runs models.
//! - [`recur`] is a loop as one node of a graph; [`nn::Gru`] and [`nn::Lstm`] are made of it.
//! - [`io`] reads and writes safetensors, npy and npz; [`trace`] writes a profile.
//!
//! `tensor/README.md` in the repository has an example of each; [`recipes`] has more, for state, captured functions
//! and training.
//!
//! # Errors
//!
//! What is called on tensors gives [`tensor::Error`], and `?` turns it into [`Error`], which has the errors of opening a
//! device as well: a program is written with [`Result`] alone. [`recur`] takes functions with either. Those of
//! [`Jit`], and what is called by a trait object, such as the change of gradients in
//! [`nn::Optimizer::minimize_with`], give [`tensor::Result`].
//!
//! # Features
//!
//! - `llvm`: LLVM in the process as the kernel compiler; without it `clang` must be on the `PATH`.
//! - `twin`: simulated devices, such as `DEV=TWINKFD+AMD::gfx1100`, in the process. Not on by default.
//! - `usb`: GPUs behind USB bridges, by libusb.
//! - `cli`: what only the program `doorbell` needs.
//!
//! The others are on by default, for the program. A library wants
//! `default-features = false, features = ["llvm"]`.
#![forbid(unsafe_code)]

pub mod model_bundle;
mod open;
/// The command line, for the programs of this package.
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod program;
pub mod recipes;
mod talk;

/// The examples of the front page; one of them needs simulated devices.
#[cfg(all(doctest, feature = "twin"))]
#[doc = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/", env!("CARGO_PKG_README")))]
struct Readme;

/// The examples of the library's page.
#[cfg(all(doctest, feature = "twin"))]
#[doc = include_str!("../../README.md")]
struct Guide;

pub use drivers::Front;
pub use open::{Error, Opened, Result, Setup, Transfers, Twin, open, open_target};

/// What is below, for those who go deeper.
pub use {codegen, drivers, hcq, tensor};

pub use tensor::exec::{Observer, Run, trace};
pub use tensor::{
    Access, DType, Element, Engine, Frozen, Jit, Layout, Nested, NoGrad, Operand, Order, Owner,
    Parameter, ReduceOp, Rng, Scalar, ScatterMode, Tensor, bf16, dependence, dependence_from, f16,
    gradients, gradients_from, no_grad, on_release, recur,
};
pub use tensor::{dlpack, io, loops, nn, onnx, ops};
