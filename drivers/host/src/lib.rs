//! What a driver needs from the operating system: memory, device nodes, a clock, a place to sleep,
//! and facts about the processor.
//!
//! Linux only. The modules that call the kernel are the only ones that may hold `unsafe`.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod clock;
pub mod cpuinfo;
#[allow(unsafe_code)]
pub mod devfile;
#[allow(unsafe_code)]
pub mod fork;
#[allow(unsafe_code)]
pub mod futex;
#[allow(unsafe_code)]
pub mod machine;
#[allow(unsafe_code)]
pub mod mmap;
