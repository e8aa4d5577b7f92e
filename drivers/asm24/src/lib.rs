//! PCIe over USB: the ASM24xx bridge, and the function behind it as a [`Pci`].
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`tlp`] | one PCIe request as numbers |
//! | [`request`] | USB requests of the bridge's open firmware: pure |
//! | `writes` | queued bytes, cut into requests |
//! | [`traffic`] | counters of the USB traffic |
//! | [`bridge`] | the bridge: writes, reads, its own memory |
//! | `error` | stages of opening the function, with hints |
//! | [`bus`] | the buses behind it: numbers, windows, BARs |
//! | `relay` | copies through the bridge's own memory |
//! | `condition` | diagnostics of all of that after a failure |
//! | [`function`] | [`open`]: the function at their end |
//! | [`machine`] | a machine whose PCI functions are those behind its bridges |
//!
//! The function behind the bridge is made of single PCIe requests and of streams of them: power and link, bus numbers, the
//! windows of intermediate bridges, the BARs of the card, registers, memory. Requests are compared with recorded ones
//! (tests/golden/asm24). libusb and Linux's USB stack are tested in a virtual machine, where the simulated bridge is a USB3
//! device (`scripts/lab usb`).
//!
//! A wait costs more than a transfer: writes are gathered and sent with as few waits as the firmware allows.
//!
//! | what | transfers | waits |
//! |---|---|---|
//! | up to 4 dwords are written | a control transfer each | one, with all others of the kind, and with a stream behind them |
//! | more dwords in a row | a control and a bulk transfer | one |
//! | a register is read | two control transfers | one |
//! | memory is read | the same, then a control and a bulk transfer | two |
//! | 256 KiB go through the buffer | a look, a control and a bulk transfer | none: they go on behind each other |
#![forbid(unsafe_code)]

pub mod bridge;
pub mod bus;
mod condition;
mod error;
pub mod function;
pub mod machine;
mod relay;
pub mod request;
pub mod tlp;
pub mod traffic;
mod writes;

pub use function::open;
pub use machine::Bridged;

#[cfg(doc)]
use hcq::transport::Pci;
