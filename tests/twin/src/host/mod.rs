//! What the system that this runs on gives: memory that a twin and its client share, and the client's own.
//!
//! - `memory`: files in memory, and memory of the client, by pages ([`Frame`]);
//! - [`user`]: what a system call copies from and to its caller;
//! - [`socket`]: bytes and descriptors for another process;
//! - [`client`]: the address space of a driver of this repository.
//!
//! All `unsafe` of this crate is here.
#![allow(unsafe_code)]

pub mod client;
mod frame;
mod memory;
pub mod socket;
pub mod user;

pub use frame::Frame;
pub use memory::{Identity, Mapping, Part, identity, memory_file, touched};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
