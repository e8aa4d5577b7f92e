//! AMD GPUs and the kernel driver in front of them (KFD and the render node), in software.
//!
//! - [`chip`]: the chips that can be chosen, each a table of facts;
//! - [`config`]: the config string: chip, number of GPUs, seed, faults;
//! - [`mem`]: objects, page tables, caches, HDP;
//! - [`gpu`]: a GPU: its queues, what it tells the kernel;
//! - [`scheduler`]: what runs the queues, in which order, and what time it is;
//! - [`cp`]: the packets of PM4, AQL and SDMA;
//! - [`pci`]: what a card shows on its bus; [`usb`]: the same behind a bridge;
//! - [`kernel`]: the files, ioctls and events of the kernel driver;
//! - [`machine`]: a process on the twin, as C and drivers of this repository hold it.
//!
//! The client runs in the same process: an address of its own is an address of the GPU, as with the
//! real driver.

pub mod chip;
pub mod config;
pub mod cp;
pub mod gpu;
pub mod kernel;
pub mod machine;
pub mod mem;
pub mod pci;
pub mod scheduler;
pub mod usb;

pub use twin::rule::{Journal, Proof, Rule, Violation};
