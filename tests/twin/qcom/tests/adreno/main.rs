//! Clients on the twin: recorded ones, dispatches with mistakes, every call of the kernel drivers.

#![allow(clippy::unwrap_used)] // A test may panic.

mod bench;
mod bindless;
mod caches;
mod contexts;
mod counters;
mod dispatches;
mod faults;
mod golden;
mod machine;
mod memory;
mod msm;
mod packets;
mod random;
mod rig;
mod stream;
mod submits;
mod syncobjs;
