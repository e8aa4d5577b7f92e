//! A PCIe bridge behind USB3 (ASMedia ASM2464PD with open firmware), and the function that it carries.
//!
//! Nothing here knows what the function is: a machine gives the bridge one as power leaves it.
//!
//! - [`Bridge`]: the device on its cable, plugged in and out; `config`: how it is, and what goes wrong with it; `state`:
//!   its parts; [`Pipe`]: its interface, open; `transfer`: one of its transfers;
//! - `device`: what every USB device has: descriptors, configuration, endpoints and what they count;
//! - `vendor`: the requests of the firmware; `stream`: bulk transfers that become packets on the bus;
//! - `xdata`: the address space of the bridge's processor; `tlp`: the engine that sends one packet and has its
//!   completion; `sram`: the buffer that the host fills and the function reads, with its DMA engine;
//! - `fabric`: the bridges between, with numbers of buses and windows of addresses, and the function behind;
//! - [`clock`]: how long transfers take; [`rules`]: what is demanded.
//!
//! Sources: github.com/tinygrad/asm2464pd-firmware (handmade/src, src/include/registers.h, pcie), and
//! tinygrad, runtime/support/usb.py and system.py, which drive such bridges; the USB and PCI Express specifications.
//! What is not modelled: firmware in flash, UAS and its streams, USB4, NVMe, how the link is tuned.

mod bridge;
pub mod clock;
mod config;
mod device;
mod fabric;
mod pipe;
pub mod rules;
mod sram;
mod state;
mod stream;
mod tlp;
mod transfer;
mod vendor;
mod xdata;

#[cfg(test)]
mod tests;

pub use bridge::Bridge;
pub use config::{Config, Counts, Make, Trouble, What};
pub use pipe::Pipe;
