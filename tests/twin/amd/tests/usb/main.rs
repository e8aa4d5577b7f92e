//! The bridge behind USB3, as drivers use it.

#![allow(clippy::unwrap_used)] // A test may panic.

mod golden;
