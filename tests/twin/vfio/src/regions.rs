//! What a card shows of itself to a virtual machine: its regions, numbered as VFIO does, and its interrupts.
//!
//! Source: Linux, include/uapi/linux/vfio.h, the enumerations of regions and interrupts of `vfio-pci`.

use std::mem::size_of;

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_INFO_EVENTFD, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_NUM_IRQS,
    VFIO_PCI_NUM_REGIONS, VFIO_PCI_ROM_REGION_INDEX, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE, vfio_region_info,
};
use vfio_user::{IrqInfo, ServerRegion};

/// Bytes of the configuration space of a PCI Express function.
pub const CONFIG_BYTES: u64 = 4096;
/// The region that is configuration space.
pub const CONFIG: u32 = VFIO_PCI_CONFIG_REGION_INDEX;
/// The region that is the expansion ROM.
pub const ROM: u32 = VFIO_PCI_ROM_REGION_INDEX;
/// The interrupts that are messages.
pub const MSI: u32 = VFIO_PCI_MSI_IRQ_INDEX;

/// The regions of a card with BARs of these lengths; 0 for one that is not there.
pub fn of(bars: [u64; 6], rom: u64) -> Vec<ServerRegion> {
    let both = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
    let region = |index: u32| {
        let (size, flags) = match index {
            CONFIG => (CONFIG_BYTES, both),
            ROM => (rom, VFIO_REGION_INFO_FLAG_READ),
            bar => (bars.get(bar as usize).copied().unwrap_or(0), both),
        };
        let region_info = vfio_region_info {
            argsz: size_of::<vfio_region_info>() as u32,
            flags: if size == 0 { 0 } else { flags },
            index,
            size,
            ..vfio_region_info::default()
        };
        // A file would be mapped into the guest, and what it does there be seen by nobody.
        ServerRegion {
            region_info,
            sparse_areas: Vec::new(),
            mmap_fd: None,
        }
    };
    (0..VFIO_PCI_NUM_REGIONS).map(region).collect()
}

/// Its interrupts: one message, as the capability of these cards has it.
pub fn interrupts() -> Vec<IrqInfo> {
    let kind = |index| IrqInfo {
        index,
        flags: VFIO_IRQ_INFO_EVENTFD,
        count: u32::from(index == MSI),
    };
    (0..VFIO_PCI_NUM_IRQS).map(kind).collect()
}
