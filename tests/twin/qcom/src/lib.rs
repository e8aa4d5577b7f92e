//! Qualcomm's Adreno 6xx in software, as a program sees it: the kernel drivers KGSL and msm, the command processor,
//! memory and its caches.
//!
//! - [`chip`]: the chips that can be chosen; [`config`]: the config string: chip, kernel driver, faults;
//! - [`memory`]: objects, address spaces, the caches of CPU and GPU;
//! - [`cp`]: the command processor: packets, registers, dispatches;
//! - `gpu`: rings, jobs and the clock; `scheduler`: when they run;
//! - [`kernel`]: files, ioctls of KGSL and of msm, faults and recovery;
//! - [`machine`]: a process on the twin, as C and drivers of this repository hold it.
//!
//! Shader code runs in [`twin_ir3`].
//!
//! Where the kernel checks something, the call fails with the kernel's errno. Where hardware or kernel let a mistake
//! pass in silence, a rule with a name is broken.
//!
//! Not modelled: graphics; secure memory; LPAC queues; preemption inside of a submission: rings take turns between
//! packets; eviction of the CPU's cache lines by themselves. The CPU's own instructions for its cache are part of no call:
//! unless a config has `pages=cached`, memory of the program (MAP_USER_MEM) is taken to be coherent. KGSL gives objects
//! with USE_CPU_MAP an address below 2^35; here it is the address of the mapping on the host.
#![forbid(unsafe_code)]

pub mod chip;
pub mod config;
pub mod cp;
mod gpu;
pub mod kernel;
pub mod machine;
pub mod memory;
mod scheduler;

pub use twin::rule::{Journal, Proof, Rule, Violation};
