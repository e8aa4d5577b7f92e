//! A PCI function of a model as a device of a virtual machine, by the protocol vfio-user.
//!
//! - [`Function`]: what the machine asks of it, answered by a [`Pci`](hcq::transport::Pci);
//! - `regions`: what there is to ask for: BARs, configuration space;
//! - `rom`: its expansion ROM;
//! - `memory`: the guest's memory, as far as its IOMMU lets the card reach it; `messages`: interrupts;
//! - [`report`]: which rules the guest has broken.
//!
//! Every access of the guest to a BAR comes here, none goes to memory that is shared: a model that is strict sees each.
//!
//! Source: QEMU, docs/interop/vfio-user.rst; the crate `vfio_user` is the protocol.
#![forbid(unsafe_code)]

mod function;
mod memory;
mod messages;
mod regions;
pub mod report;
mod rom;

use std::io;
use std::path::PathBuf;

pub use function::Function;

/// Why a card could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for is not to be had.
    #[error("{0}")]
    Usage(String),
    /// A file.
    #[error("{path}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The machine that this runs on has no memory for a card.
    #[error("a card: {0}")]
    Card(io::Error),
    /// The socket, or what came over it.
    #[error("{path}: {source}")]
    Socket {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        source: vfio_user::Error,
    },
}
