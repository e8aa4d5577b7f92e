//! PCI functions by VFIO: the kernel's driver vfio-pci has them, and gives them to a program that may open the file
//! of their IOMMU group. No program has to be root then.
//!
//! | file | idea |
//! |---|---|
//! | [`calls`] | the system calls, which a model of a kernel can take |
//! | `request` | requests by their names and types |
//! | `space` | addresses on the bus behind an IOMMU, and memory that is mapped there |
//! | `function` | the function: regions, memory, interrupts, reset |
//!
//! Behind an IOMMU (type 1, version 2) a function reaches what is mapped for it and nothing else. Without one it
//! reaches all memory, by physical addresses, as by sysfs; what VFIO gives then is interrupts.
//!
//! Crates for this (`pci-driver` 0.1, `vfio-ioctls`) make their calls by themselves, so that no model of a kernel
//! can judge the order of them, know no mode without IOMMU, and say `TODO` where an error has to say which group,
//! file or limit it was. What they would spare are the sixteen requests of `request`.
//!
//! Source: Linux, Documentation/driver-api/vfio.rst and include/uapi/linux/vfio.h.

#[allow(unsafe_code)]
pub mod calls;
mod function;
#[allow(unsafe_code)]
mod request;
mod space;

use std::sync::Arc;
use std::time::Duration;

use drivers_spec::vfio::{
    DeviceFlags, GroupFlags, IrqFlags, VFIO_API_VERSION, VFIO_NOIOMMU_IOMMU,
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSI_IRQ_INDEX,
    VFIO_TYPE1V2_IOMMU,
};
use hcq::transport::{Fault, Pci, TransportError};

use super::look::group;
use super::{Lock, System};
use calls::Calls;
use function::{Function, Memory};
use request::Descriptor;
use space::Space;

/// The kernel's driver.
pub(crate) const DRIVER: &str = "vfio-pci";
const CONTAINER: &str = "/dev/vfio/vfio";
/// More interrupts than that are not turned on: drivers here wait for the first.
const MOST_INTERRUPTS: u32 = 8;

/// Opens a function that vfio-pci has, once no other program has it, waiting for that at most so long.
///
/// # Errors
/// No group, files that this process may not open, a group that is not viable, an IOMMU of another kind.
pub fn open(
    system: &System,
    calls: &Arc<dyn Calls>,
    address: &str,
    wait: Duration,
) -> Result<Arc<dyn Pci>, TransportError> {
    let unsupported = |why: String| TransportError::new(address, "open", Fault::Unsupported(why));
    let group = group(system, address);
    let group = group.ok_or_else(|| {
        unsupported(
            "it is in no IOMMU group: `doorbell bind --vfio=noiommu` makes one without IOMMU"
                .into(),
        )
    })?;
    let lock = Lock::take(system, address, wait).map_err(|error| unsupported(error.to_string()))?;
    let container = Descriptor::open(calls, CONTAINER)?;
    match container.api_version()? {
        VFIO_API_VERSION => {}
        version => {
            return Err(unsupported(format!(
                "{CONTAINER} has version {version}, expected {VFIO_API_VERSION}"
            )));
        }
    }
    let iommu = match group.no_iommu {
        true => VFIO_NOIOMMU_IOMMU,
        false => VFIO_TYPE1V2_IOMMU,
    };
    if !container.has(iommu)? {
        return Err(unsupported(format!(
            "{CONTAINER} has no IOMMU of type {iommu}; `modprobe vfio_iommu_type1`, and without an IOMMU \
             enable_unsafe_noiommu_mode"
        )));
    }
    let file = Arc::new(Descriptor::open(calls, &group.node())?);
    let status = GroupFlags::from_bits_retain(file.status()?.flags);
    if !status.contains(GroupFlags::VIABLE) {
        return Err(unsupported(format!(
            "IOMMU group {} is not viable: another function of it ({}) has a kernel driver; `doorbell bind {address} \
             --vfio --plan` says which",
            group.number,
            group.members.join(", ")
        )));
    }
    file.set_container(&container)?;
    container.set_iommu(iommu)?;
    let device = file.device(address)?;
    let memory = match group.no_iommu {
        true => Memory::Physical {
            system: system.clone(),
            _container: container,
        },
        false => Memory::Mapped(Space::of(container, file.clone(), address)?),
    };
    let info = device.info()?;
    let flags = DeviceFlags::from_bits_retain(info.flags);
    if !flags.contains(DeviceFlags::PCI) || info.num_regions <= VFIO_PCI_CONFIG_REGION_INDEX {
        return Err(unsupported("VFIO says that it is no PCI function".into()));
    }
    let bars = VFIO_PCI_BAR0_REGION_INDEX..VFIO_PCI_BAR0_REGION_INDEX + 6;
    let bars: Result<Vec<_>, _> = bars.map(|index| device.region(index)).collect();
    let events = events(&device)?;
    Ok(Arc::new(Function {
        address: address.into(),
        events,
        bars: bars?,
        config: device.region(VFIO_PCI_CONFIG_REGION_INDEX)?,
        device: Arc::new(device),
        resets: flags.contains(DeviceFlags::RESET),
        memory,
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
