//! The operator suite, and programs that are compared on several devices.
#![allow(clippy::unwrap_used)] // A test may panic.

mod combine;
mod coverage;
mod devices;
mod doubles;
mod functions;
mod gradients;
mod indices;
mod judge;
mod limits;
mod matrix;
mod ops;
mod peers;
mod sums;
