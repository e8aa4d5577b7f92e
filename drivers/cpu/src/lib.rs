//! The CPU as a hardware-command-queue device: the reference for every other driver.
//!
//! Nothing here is a shortcut around the queue model. Commands are encoded to packets
//! ([`packet`]), packets go through a ring in shared memory, a doorbell wakes a command-processor
//! thread, and that thread decodes the packets, starts kernels on a pool of workers, and raises
//! signals. Compute and copy queues run at the same time. A fault in a kernel, or an invalid packet,
//! loses the device and nothing else.
//!
//! | file | idea |
//! |---|---|
//! | [`packet`], [`encode`] | the packet format, both directions, pure |
//! | `ring`, `event`, `waiters` | the ring with its doorbell, and sleeping waiters |
//! | `processor`, `hold`, `workers` | the ring's consumer, and the threads that run kernels |
//! | `progress` | progress of a queue, for long waits |
//! | `guard`, `bus` | foreign code and device addresses, with faults turned into errors |
//! | [`loader`], `relocate` | relocatable ELF objects to executable memory |
//! | [`runtime`] | vendors' runtimes behind the same queues |
//! | `backend`, `hardware`, `device` | the parts of a device for [`drivers_gpu`]: memory, queues, opening |
//!
//! Submissions, bound packets, memory, signals and the end of the device are those of GPUs.
#![deny(unsafe_code)]

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the entry stub of `guard` and the relocations are for x86-64 and AArch64");

#[allow(unsafe_code)]
mod backend;
#[allow(unsafe_code)]
mod bus;
mod device;
pub mod encode;
mod event;
#[allow(unsafe_code)]
mod guard;
mod hardware;
mod hold;
pub mod loader;
pub mod packet;
#[allow(unsafe_code)]
mod processor;
mod progress;
mod relocate;
mod ring;
pub mod runtime;
mod shared;
mod waiters;
#[allow(unsafe_code)]
mod workers;

pub use device::{Config, CpuDevice, RuntimeConfig, open_runtime};
