//! What a driver needs from the operating system: memory, device nodes, a clock, a place to sleep,
//! and facts about the processor.
//!
//! Linux only. Kernel calls go through `nix`, or through `libc` where `nix` has none (noted there). Only modules that
//! need `unsafe` allow it.
#![deny(unsafe_code)]

pub mod clock;
pub mod cpuinfo;
#[allow(unsafe_code)]
mod devfile;
#[allow(unsafe_code)]
pub mod fork;
#[allow(unsafe_code)]
pub mod futex;
pub mod machine;
#[allow(unsafe_code)]
pub mod mmap;
pub mod pci;
#[allow(unsafe_code)]
mod range;
#[allow(unsafe_code)]
mod reserve;
pub mod thread;
#[cfg(feature = "usb")]
pub mod usb;
