//! PCIe over USB: the ASM24xx bridge, and the function behind it as a [`Pci`].
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`tlp`] | one PCIe request as numbers |
//! | [`request`] | what the bridge's open firmware is asked by USB: pure |
//! | [`bridge`] | the bridge: writes that wait for their turn, reads, its own memory |
//! | `error` | how far the way to the function came, and what helps there |
//! | [`bus`] | the buses behind it: numbers, windows, BARs |
//! | [`function`] | [`open`]: the function at their end |
//! | [`machine`] | a machine whose PCI functions are those behind its bridges |
//!
//! A wait costs more than a transfer: what is written is gathered, and goes in as few waits as the firmware allows.
//!
//! | what | transfers | waits |
//! |---|---|---|
//! | up to [`bridge::FEW`] dwords are written | a control transfer each | one, with all others of the kind, and with a stream behind them |
//! | more dwords in a row | a control and a bulk transfer | one |
//! | a register is read | two control transfers | one |
//! | memory is read | the same, then a control and a bulk transfer | two |
#![forbid(unsafe_code)]

pub mod bridge;
pub mod bus;
mod error;
pub mod function;
pub mod machine;
pub mod request;
pub mod tlp;

pub use function::open;
pub use machine::Bridged;

#[cfg(doc)]
use hcq::transport::Pci;
