//! The compiler: passes, backends, caches.
#![allow(clippy::unwrap_used)] // A test may panic.

mod backends;
mod bytes;
mod cache;
mod casts;
mod common;
mod decompose;
mod gpu;
mod keys;
mod memory;
mod native;
mod opts;
mod rewrite;
mod rng;
mod strength;
#[path = "../support/mod.rs"]
mod support;
mod unrolled;
