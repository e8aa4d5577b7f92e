//! ONNX models that the tests write themselves.
#![allow(clippy::unwrap_used)] // A test may panic.

mod bad;
mod branch;
mod bytes;
mod control;
mod guards;
mod numbers;
mod recurrent;
mod session;
mod subnormal;
#[path = "../support/mod.rs"]
mod support;
mod trees;
