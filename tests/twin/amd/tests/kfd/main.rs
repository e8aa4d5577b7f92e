//! The kernel driver of the twin, as a client sees it: every check, every errno, events, processes.

#![allow(clippy::unwrap_used)] // A test may panic.

mod client;
mod drm;
mod events;
mod faults;
mod machine;
mod memory;
mod misc;
mod processes;
mod queue;
mod svm;
