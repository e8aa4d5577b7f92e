//! PCI configuration space, the parts that drivers and models touch.
//!
//! Source: PCI Local Bus Specification 3.0, section 6.1 (type 0 header), 6.2 (fields), 6.7
//! (capability list); names as in Linux, include/uapi/linux/pci_regs.h.

/// AMD/ATI.
pub const VENDOR_AMD: u16 = 0x1002;
/// NVIDIA.
pub const VENDOR_NVIDIA: u16 = 0x10de;

/// Base class 03h: display controller. Source: PCI Code and ID Assignment Specification.
pub const CLASS_DISPLAY: u8 = 0x03;
/// Base class 12h: processing accelerator.
pub const CLASS_ACCELERATOR: u8 = 0x12;

/// Vendor identifier, 16 bits; ffffh if nothing is there.
pub const PCI_VENDOR_ID: u16 = 0x00;
/// Device identifier, 16 bits.
pub const PCI_DEVICE_ID: u16 = 0x02;
/// Command register, 16 bits.
pub const PCI_COMMAND: u16 = 0x04;
/// Status register, 16 bits.
pub const PCI_STATUS: u16 = 0x06;
/// Revision, 8 bits, then the class code in 24 bits.
pub const PCI_CLASS_REVISION: u16 = 0x08;
/// Header type, 8 bits; 0 for a device, bit 7 for several functions.
pub const PCI_HEADER_TYPE: u16 = 0x0e;
/// First of six base address registers, 32 bits each.
pub const PCI_BASE_ADDRESS_0: u16 = 0x10;
/// Offset of the first capability, 8 bits.
pub const PCI_CAPABILITY_LIST: u16 = 0x34;

bitflags::bitflags! {
    /// [`PCI_COMMAND`], `PCI_COMMAND_*`. Only what drivers and models touch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Command: u16 {
        /// Answer memory accesses.
        const MEMORY = 0x2;
        /// May start accesses of its own (DMA, MSI).
        const MASTER = 0x4;
    }
}

/// Status: the capability list is there.
pub const PCI_STATUS_CAP_LIST: u16 = 0x10;

/// Base address: 64 bits wide, the next register holds the upper half.
pub const PCI_BASE_ADDRESS_MEM_TYPE_64: u32 = 0x4;
/// Base address: reading has no side effect.
pub const PCI_BASE_ADDRESS_MEM_PREFETCH: u32 = 0x8;

/// Size of the configuration space of an express function in bytes; the first 256 are those of a conventional
/// one.
pub const CONFIG_BYTES: u16 = 4096;
