//! The CPU as a device.
#![allow(clippy::unwrap_used)] // A test may panic.

#[path = "../cc/mod.rs"]
mod cc;
mod faults;
mod fork;
mod loader;
mod lost;
mod runtime;
mod silence;
mod suite;
