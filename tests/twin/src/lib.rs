//! Twins: software models of devices, strict where hardware would be silent.
//!
//! A twin is written from the facts of vendors and standards, never from our driver, and shares
//! only the tables of `drivers-spec` with it. An access that the source does not allow breaks a
//! [`rule::Rule`]: the access fails, and the report names the rule, its source, what was done, and
//! the last events before it. No rule is loosened to let a driver pass.
//!
//! - [`rule`]: what every model needs; [`rng`]: choices from a seed; [`rounds`]: when engines have their turns; [`fires`]: what its tests need;
//! - [`touched`]: which bytes were read and written;
//! - [`config`]: strings that say which machine it is;
//! - [`errno`]: how system calls fail; [`host`]: memory that a twin shares with its client;
//! - [`caller`]: the process that calls; [`process`]: a process on a twin; [`machine`]: the same as a machine of `hcq`, for drivers of this
//!   repository;
//! - [`wire`]: a process whose calls come through a socket; [`tree`]: files of a machine as files of the host;
//! - [`record`]: what processes asked of a machine and wrote, as a file; [`watch`]: who looks on;
//! - [`pci`]: a PCI function to put register models behind; [`vfio`]: the kernel's way of giving one to a program;
//! - [`usb`]: a bridge that carries such a function behind USB3.
#![deny(unsafe_code)]

pub mod caller;
pub mod config;
pub mod errno;
pub mod fires;
pub mod host;
pub mod machine;
pub mod pci;
pub mod process;
pub mod record;
pub mod rng;
pub mod rounds;
pub mod rule;
pub mod touched;
pub mod tree;
pub mod usb;
pub mod vfio;
pub mod watch;
pub mod wire;
