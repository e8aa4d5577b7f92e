//! PCI functions through VFIO: they are bound to the kernel driver vfio-pci, and available to programs that may open
//! the file of their IOMMU group. No root needed.
//!
//! | file | idea |
//! |---|---|
//! | [`calls`] | the system calls, which can go to a model of a kernel |
//! | `request` | the requests, by name and type |
//! | `domains` | the containers of a process, and which groups are in them |
//! | `regions` | regions accessed by calls |
//! | `function` | the function: memory, interrupts, reset |
//!
//! Behind an IOMMU (type 1, version 2), the functions of a process can access only memory mapped for them, including
//! each other's BARs: in one container, at the same addresses, if their IOMMUs allow it. Without an IOMMU a function
//! can access all memory by physical address, as with sysfs; VFIO then only adds interrupts.
//!
//! Crates for this (`pci-driver` 0.1, `vfio-ioctls`) know no mode without IOMMU, and say `TODO` where an error has to say
//! which group, file or limit it was. What they would spare are the sixteen requests of `request`. A program that has a
//! function by `pci-driver` gives it to our drivers by `pci::lent`, a feature.
//!
//! Source: Linux, Documentation/driver-api/vfio.rst and include/uapi/linux/vfio.h.

#[allow(unsafe_code)]
pub mod calls;
mod domains;
mod function;
pub(super) mod regions;
#[allow(unsafe_code)]
mod request;

use std::sync::Arc;
use std::time::Duration;

use drivers_spec::vfio::{
    DeviceFlags, IrqFlags, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX,
    VFIO_PCI_MSI_IRQ_INDEX,
};
use hcq::transport::{Fault, Pci, TransportError};

use super::left::let_go;
use super::look::group;
use super::pages::HugePages;
use super::space::ShownBars;
use super::{Lock, System};
use function::Function;
use regions::ConfigRegion;
use request::Descriptor;

pub use domains::Domains;

/// The kernel's driver.
pub(crate) const DRIVER: &str = "vfio-pci";
/// More interrupts than that are not turned on: drivers here wait for the first.
const MOST_INTERRUPTS: u32 = 8;

/// Opens a function bound to vfio-pci, waiting at most `wait` for other programs to release it.
///
/// # Errors
/// No group, files that this process may not open, a group that is not viable, an IOMMU of another kind.
pub fn open(
    system: &System,
    domains: &Domains,
    address: &str,
    wait: Duration,
) -> Result<Arc<dyn Pci>, TransportError> {
    let unsupported = |why: String| TransportError::new(address, "open", Fault::Unsupported(why));
    let group = group(system, address);
    let group = group.ok_or_else(|| {
        unsupported("not in an IOMMU group: run `doorbell bind --vfio=noiommu`".into())
    })?;
    let lock = Lock::take(system, address, wait).map_err(|error| unsupported(error.to_string()))?;
    let (file, memory) = domains.join(&group, address)?;
    let device = file.device(address)?;
    let info = device.info()?;
    let flags = DeviceFlags::from_bits_retain(info.flags);
    if !flags.contains(DeviceFlags::PCI) || info.num_regions <= VFIO_PCI_CONFIG_REGION_INDEX {
        return Err(unsupported("not a PCI function according to VFIO".into()));
    }
    let bars = VFIO_PCI_BAR0_REGION_INDEX..VFIO_PCI_BAR0_REGION_INDEX + 6;
    let bars: Result<Vec<_>, _> = bars.map(|index| device.region(index)).collect();
    let events = events(&device)?;
    let device = Arc::new(device);
    let config = Arc::new(ConfigRegion {
        address: address.into(),
        region: device.region(VFIO_PCI_CONFIG_REGION_INDEX)?,
        device: device.clone(),
    });
    let_go(system, address, &*config)?;
    let lock = Arc::new(lock);
    Ok(Arc::new(Function {
        address: address.into(),
        events,
        bars: bars?,
        pages: HugePages::new(system, address, config.clone(), lock.clone()),
        config,
        device,
        resets: flags.contains(DeviceFlags::RESET),
        memory,
        shown: ShownBars::new(),
        number: group.number,
        group: file,
        _lock: lock,
    }))
}

/// An eventfd for each interrupt, told of from now on: one that comes before somebody waits is not lost.
fn events(device: &Descriptor) -> Result<Vec<Descriptor>, TransportError> {
    let info = device.interrupts(VFIO_PCI_MSI_IRQ_INDEX)?;
    let has_events = IrqFlags::from_bits_retain(info.flags).contains(IrqFlags::EVENTFD);
    let count = if has_events { info.count } else { 0 };
    let event = |vector| {
        let name = format!("{} interrupt {vector}", device.name);
        Descriptor::event(&device.calls, &name)
    };
    let events: Result<Vec<_>, _> = (0..count.min(MOST_INTERRUPTS)).map(event).collect();
    let mut events = events?;
    // The function has more than the machine gives, such as one where nothing remaps interrupts.
    while !events.is_empty() {
        match device.set_events(VFIO_PCI_MSI_IRQ_INDEX, &events)? {
            0 => break,
            fewer => events.truncate(fewer.min(events.len() - 1)),
        }
    }
    Ok(events)
}
