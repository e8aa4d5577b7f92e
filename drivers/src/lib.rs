//! The facade over every driver: selecting, opening and examining devices.
#![forbid(unsafe_code)]

mod bus;
pub mod doctor;
pub mod env;
mod front;
pub mod gauges;
mod look;
pub mod open;
pub mod panel;
pub mod regs;
pub mod select;
pub mod trace;

pub use bus::{NVIDIA_CARDS, OnBus, on_bus};
pub use drivers_qcom::interop::cl as opencl;
pub use front::Front;
pub use look::{Metrics, metrics, reset_card};
pub use open::{Present, Twin, open, open_with, present};

/// Bridges from USB to PCIe, as a machine lists them.
pub mod usb {
    pub use drivers_asm24::machine::{bridges, is_open};
}
