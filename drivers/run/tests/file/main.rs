//! Files that are as they should be, and files that are not.
#![allow(clippy::unwrap_used)] // A test may panic.

mod caches;
mod damage;
mod golden;
mod program;
mod run;
#[path = "../small/mod.rs"]
mod small;
