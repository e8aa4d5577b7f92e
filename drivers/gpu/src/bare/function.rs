//! [`Function`]: the driver-independent part of a card: its PCI function, the window to its VRAM, whether it is
//! present, and whether it is wedged.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hcq::mem::window::Window;
use hcq::reg::bus::Bus;
use hcq::transport::Pci;
use hcq::{DeviceId, Error};

/// A PCI function that is a GPU.
pub struct Function {
    device: DeviceId,
    pci: Arc<dyn Pci>,
    bus: Arc<dyn Bus>,
    bar: u8,
    vram: Window,
    vram_bytes: u64,
    is_wedged: AtomicBool,
}

impl Function {
    /// A function whose BAR of that number exposes VRAM, all `vram_bytes` bytes or the first part. `bus` accesses its
    /// registers and knows whether it is present.
    pub fn new(
        device: DeviceId,
        pci: Arc<dyn Pci>,
        bus: Arc<dyn Bus>,
        (bar, vram): (u8, Window),
        vram_bytes: u64,
    ) -> Function {
        Function {
            device,
            pci,
            bus,
            bar,
            vram,
            vram_bytes,
            is_wedged: AtomicBool::new(false),
        }
    }

    /// The device, for messages.
    pub fn device(&self) -> &DeviceId {
        &self.device
    }

    /// The PCI function.
    pub fn pci(&self) -> &Arc<dyn Pci> {
        &self.pci
    }

    /// The register bus.
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    /// The number of the BAR that shows VRAM.
    pub fn bar(&self) -> u8 {
        self.bar
    }

    /// The part of VRAM that the host can access, from its first byte on.
    pub fn vram(&self) -> &Window {
        &self.vram
    }

    /// Bytes of VRAM.
    pub fn vram_bytes(&self) -> u64 {
        self.vram_bytes
    }

    /// Whether the host reaches all of VRAM.
    pub fn has_large_bar(&self) -> bool {
        self.vram.len() >= self.vram_bytes
    }

    /// Whether it does not answer any more, or has once been found so.
    pub fn has_left(&self) -> bool {
        self.bus.has_left()
    }

    /// Marks the card wedged: the next process resets it. Returns whether it was marked before.
    pub fn mark_wedged(&self) -> bool {
        self.is_wedged.swap(true, Ordering::Relaxed)
    }

    /// Whether something went wrong.
    pub fn is_wedged(&self) -> bool {
        self.is_wedged.load(Ordering::Relaxed)
    }

    /// The loss of the card: a block failed or does not respond. The next process resets it.
    pub fn broken(&self, unit: &str, cause: impl Display) -> Error {
        self.mark_wedged();
        let cause = cause.to_string();
        let left = match !cause.contains("left the bus") && self.has_left() {
            true => "the card has left the bus: ",
            false => "",
        };
        Error::Fault {
            device: self.device.clone(),
            unit: unit.into(),
            what: format!("{left}{cause} ({})", self.pci.name()),
        }
    }
}
