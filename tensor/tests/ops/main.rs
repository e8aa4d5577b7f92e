//! Operators at the edges of what they take: numbers that do not fit, odd shapes, indices out of range,
//! long axes.
#![allow(clippy::unwrap_used, clippy::expect_used)] // A test may panic.

mod indices;
mod reductions;
mod scalars;
mod shapes;
mod sorting;
#[path = "../support/mod.rs"]
mod support;
mod transposed;
