//! AMD GPUs over KFD, on the twin.
#![allow(clippy::unwrap_used)] // A test may panic.

mod bundles;
mod cable;
mod extremes;
mod faults;
mod flaky;
mod fork;
#[path = "../stand/bundles.rs"]
mod keeping;
mod kfd;
mod leaks;
#[path = "../stand/mutant.rs"]
mod mutant;
mod mutations;
mod remote;
mod scratch;
#[path = "../stand/mod.rs"]
mod stand;
mod stress;
mod submissions;
mod topology;
#[path = "../stand/wrongs.rs"]
mod wrongs;
