//! [`Bridged`]: a machine whose PCI functions are those behind its USB bridges, named by USB port.
//!
//! Drivers' state of this machine is separate from that of the underlying one: a function behind a bridge and one on the
//! bus share no memory.

use std::sync::Arc;

use drivers_spec::usb::{ASMEDIA, GPU_BRIDGES};
use hcq::mem::view::View;
use hcq::transport::{
    Clock, DevFile, Fault, Machine, Pci, PciFunction, PerProcess, Reserved, TransportError,
    UsbDevice, UsbPipe,
};

use crate::function::open;

/// A machine, seen through its bridges.
pub struct Bridged {
    machine: Arc<dyn Machine>,
    clock: Arc<dyn Clock>,
    kept: Arc<Apart>,
}

/// Drivers' state for functions behind bridges.
struct Apart(PerProcess);

/// The bridges of a machine, of whatever firmware.
///
/// # Errors
/// Those of the listing.
pub fn bridges(machine: &dyn Machine) -> Result<Vec<UsbDevice>, TransportError> {
    let mut all = machine.usb_devices()?;
    all.retain(is_bridge);
    all.sort_by(|a, b| a.port.cmp(&b.port));
    Ok(all)
}

/// Whether a USB device is a bridge that may carry a GPU.
pub fn is_bridge(device: &UsbDevice) -> bool {
    GPU_BRIDGES.contains(&(device.vendor, device.product))
}

/// Whether a bridge has the open firmware, by its product name and IDs.
///
/// Source: tinygrad, runtime/support/usb.py and ops_amd.py.
pub fn is_open(bridge: &UsbDevice) -> bool {
    let name = bridge.product_name.as_deref().unwrap_or("");
    let is_named = name.starts_with("custom") || name.starts_with("AS2462");
    is_named && bridge.vendor != ASMEDIA
}

impl Bridged {
    /// A machine's; `clock` is what waits of the bridges go by.
    pub fn over(machine: &Arc<dyn Machine>, clock: &Arc<dyn Clock>) -> Arc<dyn Machine> {
        let made = machine
            .per_process()
            .get_or_make(|| Ok::<_, std::convert::Infallible>(Apart(PerProcess::new())));
        let kept = match made {
            Ok(kept) => kept,
            Err(never) => match never {},
        };
        Arc::new(Bridged {
            machine: machine.clone(),
            clock: clock.clone(),
            kept,
        })
    }
}

impl Machine for Bridged {
    fn open(&self, path: &str) -> Result<Arc<dyn DevFile>, TransportError> {
        self.machine.open(path)
    }

    fn read(&self, path: &str) -> Result<String, TransportError> {
        self.machine.read(path)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, TransportError> {
        self.machine.list(path)
    }

    fn pci_functions(&self) -> Result<Vec<PciFunction>, TransportError> {
        // What is behind a bridge is known once it is open.
        Ok(Vec::new())
    }

    fn usb_devices(&self) -> Result<Vec<UsbDevice>, TransportError> {
        self.machine.usb_devices()
    }

    fn open_pci(&self, port: &str) -> Result<Arc<dyn Pci>, TransportError> {
        let refused = |why: String| TransportError::new(port, "open", Fault::Unsupported(why));
        let bridges = bridges(&*self.machine)?;
        let Some(bridge) = bridges.iter().find(|bridge| bridge.port == port) else {
            return Err(refused(
                "no ASM24xx bridge in this port (see `lsusb -t`)".into(),
            ));
        };
        if !is_open(bridge) {
            let name = bridge.product_name.as_deref().unwrap_or("no name");
            return Err(refused(format!(
                "the bridge ({:04x}:{:04x}, {name}) runs the vendor's firmware, expected the open one (product name \
                 `custom...`): flash it (https://github.com/tinygrad/asm2464pd-firmware; see drivers/asm24/README.md)",
                bridge.vendor, bridge.product
            )));
        }
        let pipe = self.machine.open_usb(port)?;
        Ok(Arc::new(open(pipe, self.clock.clone())?))
    }

    fn open_usb(&self, port: &str) -> Result<Arc<dyn UsbPipe>, TransportError> {
        self.machine.open_usb(port)
    }

    fn reserve(&self, bytes: u64, align: u64, below: u64) -> Result<Reserved, TransportError> {
        self.machine.reserve(bytes, align, below)
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
        self.machine.memory(bytes, align)
    }

    fn per_process(&self) -> &PerProcess {
        &self.kept.0
    }
}
