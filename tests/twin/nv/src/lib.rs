//! NVIDIA's kernel driver in software, as a program sees it: files, ioctls of the resource manager (RM)
//! and of UVM, objects, memory, page tables, channels.
//!
//! - [`chip`]: the chips that can be chosen, each a table of facts;
//! - [`config`]: the config string: chip, number of GPUs, branch of the driver, faults;
//! - [`client`]: memory of the process that calls; [`contents`]: the bytes of memory, which it and engines
//!   share;
//! - [`kernel`]: files, and how ioctls get to what they ask for;
//! - [`rm`]: RM's objects and what they answer;
//! - [`uvm`]: address spaces across GPUs;
//! - [`space`]: the page tables of a GPU: what is mapped where, with which rights;
//! - [`engines`]: what runs rings; `scheduler`: when;
//! - [`machine`]: a process on the twin, as C and drivers of this repository hold it;
//! - [`pci`]: a card without that driver: registers, processors, and the firmware that RM is behind then.
//!
//! Where the kernel has a check, the call fails with the kernel's status; where it lets a mistake pass
//! in silence, it does here, too. Both break a rule that has a name: RM has few statuses, and prints
//! its reasons to a log.
#![forbid(unsafe_code)]

pub mod chip;
pub mod client;
pub mod config;
pub mod contents;
pub mod engines;
pub mod errno;
pub mod kernel;
pub mod machine;
pub mod pci;
pub mod ranges;
pub mod rm;
mod scheduler;
pub mod space;
pub mod uvm;

pub use twin::rule::{Journal, Proof, Rule, Violation};
