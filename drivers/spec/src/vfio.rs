//! VFIO: PCI functions given to programs, by `/dev/vfio/vfio`, the file of an IOMMU group, and that of a device.
//!
//! Source: Linux, include/uapi/linux/vfio.h (6.1; nothing here is newer) and Documentation/driver-api/vfio.rst.
//! `<-` marks what the kernel returns. Requests are bare numbers (`_IO`): what their argument is says each one here.

use bitflags::bitflags;
use hcq::transport::Ioctl;

use crate::amd::uapi::structs;

/// The version that all kernels with VFIO have.
pub const VFIO_API_VERSION: i32 = 0;
/// An IOMMU like that of x86; mappings are taken away as they were made.
pub const VFIO_TYPE1V2_IOMMU: u32 = 3;
/// No IOMMU: functions see physical memory.
pub const VFIO_NOIOMMU_IOMMU: u32 = 8;

/// Region of BAR 0; those of the others follow.
pub const VFIO_PCI_BAR0_REGION_INDEX: u32 = 0;
/// Region of the configuration space.
pub const VFIO_PCI_CONFIG_REGION_INDEX: u32 = 7;
/// Message signalled interrupts.
pub const VFIO_PCI_MSI_IRQ_INDEX: u32 = 1;

const fn request(name: &'static str, nr: u32) -> Ioctl {
    Ioctl::new(name, 0, b';', 100 + nr, 0)
}

/// Of a container, without argument: the version.
pub const GET_API_VERSION: Ioctl = request("VFIO_GET_API_VERSION", 0);
/// Of a container, the type of an IOMMU by value: 1 if it can be had.
pub const CHECK_EXTENSION: Ioctl = request("VFIO_CHECK_EXTENSION", 1);
/// Of a container with a group, the type of an IOMMU by value.
pub const SET_IOMMU: Ioctl = request("VFIO_SET_IOMMU", 2);
/// Of a group, [`GroupStatus`].
pub const GROUP_GET_STATUS: Ioctl = request("VFIO_GROUP_GET_STATUS", 3);
/// Of a group, the address of the descriptor of a container, 32 bits.
pub const GROUP_SET_CONTAINER: Ioctl = request("VFIO_GROUP_SET_CONTAINER", 4);
/// Of a group, the address of the address of a function as text that ends with a zero: the device's descriptor.
pub const GROUP_GET_DEVICE_FD: Ioctl = request("VFIO_GROUP_GET_DEVICE_FD", 6);
/// Of a device, [`DeviceInfo`].
pub const DEVICE_GET_INFO: Ioctl = request("VFIO_DEVICE_GET_INFO", 7);
/// Of a device, [`RegionInfo`].
pub const DEVICE_GET_REGION_INFO: Ioctl = request("VFIO_DEVICE_GET_REGION_INFO", 8);
/// Of a device, [`IrqInfo`].
pub const DEVICE_GET_IRQ_INFO: Ioctl = request("VFIO_DEVICE_GET_IRQ_INFO", 9);
/// Of a device, [`IrqSet`] with descriptors behind it.
pub const DEVICE_SET_IRQS: Ioctl = request("VFIO_DEVICE_SET_IRQS", 10);
/// Of a device, without argument.
pub const DEVICE_RESET: Ioctl = request("VFIO_DEVICE_RESET", 11);
/// Of a device, [`HotResetInfo`] with room for [`DependentDevice`]s behind it.
pub const DEVICE_GET_PCI_HOT_RESET_INFO: Ioctl = request("VFIO_DEVICE_GET_PCI_HOT_RESET_INFO", 12);
/// Of a device, [`HotReset`] with the descriptors of groups behind it, 32 bits each.
pub const DEVICE_PCI_HOT_RESET: Ioctl = request("VFIO_DEVICE_PCI_HOT_RESET", 13);
/// Of a container, [`Type1Info`] with capabilities behind it.
pub const IOMMU_GET_INFO: Ioctl = request("VFIO_IOMMU_GET_INFO", 12);
/// Of a container, [`DmaMap`].
pub const IOMMU_MAP_DMA: Ioctl = request("VFIO_IOMMU_MAP_DMA", 13);
/// Of a container, [`DmaUnmap`].
pub const IOMMU_UNMAP_DMA: Ioctl = request("VFIO_IOMMU_UNMAP_DMA", 14);

/// Every request of this file.
pub const IOCTLS: &[Ioctl] = &[
    GET_API_VERSION,
    CHECK_EXTENSION,
    SET_IOMMU,
    GROUP_GET_STATUS,
    GROUP_SET_CONTAINER,
    GROUP_GET_DEVICE_FD,
    DEVICE_GET_INFO,
    DEVICE_GET_REGION_INFO,
    DEVICE_GET_IRQ_INFO,
    DEVICE_SET_IRQS,
    DEVICE_RESET,
    DEVICE_GET_PCI_HOT_RESET_INFO,
    DEVICE_PCI_HOT_RESET,
    IOMMU_GET_INFO,
    IOMMU_MAP_DMA,
    IOMMU_UNMAP_DMA,
];

structs! { LAYOUTS;
    /// `VFIO_GROUP_GET_STATUS`.
    GroupStatus = "vfio_group_status" {
        /// Bytes of the argument.
        argsz: u32,
        /// <- [`GroupFlags`].
        flags: u32,
    }
    /// `VFIO_DEVICE_GET_INFO`.
    DeviceInfo = "vfio_device_info" {
        /// Bytes of the argument.
        argsz: u32,
        /// <- [`DeviceFlags`].
        flags: u32,
        /// <- How many regions there are at most.
        num_regions: u32,
        /// <- How many kinds of interrupts there are at most.
        num_irqs: u32,
        /// <- Where capabilities start.
        cap_offset: u32,
    }
    /// `VFIO_DEVICE_GET_REGION_INFO`.
    RegionInfo = "vfio_region_info" {
        /// Bytes of the argument.
        argsz: u32,
        /// <- [`RegionFlags`].
        flags: u32,
        /// Which one.
        index: u32,
        /// <- Where capabilities start.
        cap_offset: u32,
        /// <- Its length in bytes; 0 for one that is not there.
        size: u64,
        /// <- Where it starts in the device's file.
        offset: u64,
    }
    /// `VFIO_DEVICE_GET_IRQ_INFO`.
    IrqInfo = "vfio_irq_info" {
        /// Bytes of the argument.
        argsz: u32,
        /// <- [`IrqFlags`].
        flags: u32,
        /// Which kind.
        index: u32,
        /// <- How many of it there are.
        count: u32,
    }
    /// `VFIO_DEVICE_SET_IRQS`.
    IrqSet = "vfio_irq_set" {
        /// Bytes of the argument, with what is behind it.
        argsz: u32,
        /// [`IrqSetFlags`].
        flags: u32,
        /// Which kind.
        index: u32,
        /// The first one.
        start: u32,
        /// How many.
        count: u32,
    }
    /// `VFIO_DEVICE_GET_PCI_HOT_RESET_INFO`.
    HotResetInfo = "vfio_pci_hot_reset_info" {
        /// Bytes of the argument, with what is behind it.
        argsz: u32,
        /// <- Nothing, for a device of a group.
        flags: u32,
        /// <- How many functions a reset takes along, this one among them.
        count: u32,
    }
    /// A function that a reset takes along.
    DependentDevice = "vfio_pci_dependent_device" {
        /// The number of its group.
        group_id: u32,
        /// Its segment.
        segment: u16,
        /// Its bus.
        bus: u8,
        /// Its device in bits 7:3, its function in 2:0.
        devfn: u8,
    }
    /// `VFIO_DEVICE_PCI_HOT_RESET`.
    HotReset = "vfio_pci_hot_reset" {
        /// Bytes of the argument, with what is behind it.
        argsz: u32,
        /// Nothing.
        flags: u32,
        /// How many groups.
        count: u32,
    }
    /// `VFIO_IOMMU_GET_INFO`.
    Type1Info = "vfio_iommu_type1_info" {
        /// Bytes of the argument; <- bytes that it should have had.
        argsz: u32,
        /// <- [`IommuFlags`].
        flags: u32,
        /// <- Sizes of pages, each a bit.
        iova_pgsizes: u64,
        /// <- Where capabilities start.
        cap_offset: u32,
        /// Nothing.
        pad = "": u32,
    }
    /// The start of a capability.
    CapHeader = "vfio_info_cap_header" {
        /// Which one.
        id: u16,
        /// Its version.
        version: u16,
        /// Where the next one starts, from the start of the argument; 0 after the last.
        next: u32,
    }
    /// Capability [`CAP_IOVA_RANGE`], with [`IovaRange`]s behind it.
    CapIovaRange = "vfio_iommu_type1_info_cap_iova_range" {
        /// Its start.
        header: CapHeader,
        /// How many follow.
        nr_iovas: u32,
        /// Nothing.
        reserved: u32,
    }
    /// Capability [`CAP_DMA_AVAIL`].
    CapDmaAvail = "vfio_iommu_type1_info_dma_avail" {
        /// Its start.
        header: CapHeader,
        /// How many mappings there is room for.
        avail: u32,
    }
    /// Addresses that may be mapped.
    IovaRange = "vfio_iova_range" {
        /// The first.
        start: u64,
        /// The last.
        end: u64,
    }
    /// `VFIO_IOMMU_MAP_DMA`.
    DmaMap = "vfio_iommu_type1_dma_map" {
        /// Bytes of the argument.
        argsz: u32,
        /// [`MapFlags`].
        flags: u32,
        /// Where the memory is in the process.
        vaddr: u64,
        /// Where the device finds it.
        iova: u64,
        /// Its length in bytes.
        size: u64,
    }
    /// `VFIO_IOMMU_UNMAP_DMA`.
    DmaUnmap = "vfio_iommu_type1_dma_unmap" {
        /// Bytes of the argument.
        argsz: u32,
        /// Nothing.
        flags: u32,
        /// Where the device found it.
        iova: u64,
        /// Its length in bytes; <- what was taken away.
        size: u64,
    }
}

/// `VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE`.
pub const CAP_IOVA_RANGE: u16 = 1;
/// `VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL`, since Linux 5.10.
pub const CAP_DMA_AVAIL: u16 = 3;

bitflags! {
    /// `VFIO_GROUP_FLAGS_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct GroupFlags: u32 {
        /// No kernel driver has any function of it.
        const VIABLE = 1 << 0;
        /// It is in a container.
        const CONTAINER_SET = 1 << 1;
    }
    /// `VFIO_DEVICE_FLAGS_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DeviceFlags: u32 {
        /// It can be reset.
        const RESET = 1 << 0;
        /// It is a PCI function.
        const PCI = 1 << 1;
    }
    /// `VFIO_REGION_INFO_FLAG_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RegionFlags: u32 {
        /// It can be read.
        const READ = 1 << 0;
        /// It can be written.
        const WRITE = 1 << 1;
        /// It can be mapped.
        const MMAP = 1 << 2;
    }
    /// `VFIO_IRQ_INFO_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IrqFlags: u32 {
        /// They can be told to an eventfd.
        const EVENTFD = 1 << 0;
    }
    /// `VFIO_IRQ_SET_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IrqSetFlags: u32 {
        /// Nothing is behind the argument.
        const DATA_NONE = 1 << 0;
        /// Descriptors of eventfds are behind it, 32 bits each; -1 for none.
        const DATA_EVENTFD = 1 << 2;
        /// About what is done when one comes.
        const ACTION_TRIGGER = 1 << 5;
    }
    /// `VFIO_IOMMU_INFO_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct IommuFlags: u32 {
        /// The sizes of pages are there.
        const PGSIZES = 1 << 0;
        /// Capabilities are there.
        const CAPS = 1 << 1;
    }
    /// `VFIO_DMA_MAP_FLAG_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct MapFlags: u32 {
        /// The device may read it.
        const READ = 1 << 0;
        /// The device may write it.
        const WRITE = 1 << 1;
    }
}
