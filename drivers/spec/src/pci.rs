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
/// Bridges, 32 bits: primary, secondary and subordinate bus, a byte each.
pub const PCI_PRIMARY_BUS: u16 = 0x18;
/// Bridges, 32 bits: first and last MiB of the memory window, 16 bits each.
pub const PCI_MEMORY_BASE: u16 = 0x20;
/// Bridges, 32 bits: first and last MiB of the prefetchable window, 16 bits each.
pub const PCI_PREF_MEMORY_BASE: u16 = 0x24;
/// Bridges, 32 bits: upper half of the start of the prefetchable window.
pub const PCI_PREF_BASE_UPPER32: u16 = 0x28;
/// Bridges, 32 bits: upper half of its end.
pub const PCI_PREF_LIMIT_UPPER32: u16 = 0x2c;
/// [`PCI_HEADER_TYPE`] without bit 7: a bridge.
pub const PCI_HEADER_TYPE_BRIDGE: u8 = 1;
/// Devices, 32 bits: vendor and device identifier of the board.
pub const PCI_SUBSYSTEM_VENDOR_ID: u16 = 0x2c;
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

/// Capability: PCI Express. Its identifier is in the first 8 bits of a capability, the next one's offset behind it.
pub const PCI_CAP_ID_EXP: u8 = 0x10;
/// Of that capability, 32 bits: device control, and from bit 16 [`DeviceStatus`].
pub const PCI_EXP_DEVCTL: u16 = 0x08;
/// Of that capability, 32 bits: link control, and from bit 16 the link's status.
pub const PCI_EXP_LNKCTL: u16 = 0x10;
/// The link's status: its speed, 1 for 2.5 GT/s, 2 for 5, then twice as much each.
pub const PCI_EXP_LNKSTA_CLS: u16 = 0xf;
/// The link's status: its lanes.
pub const PCI_EXP_LNKSTA_NLW: u16 = 0x3f0;

bitflags::bitflags! {
    /// What a function has seen go wrong, `PCI_EXP_DEVSTA_*`. It stays until it is written.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DeviceStatus: u16 {
        /// Correctable errors.
        const CORRECTABLE = 0x1;
        /// Errors that are not fatal.
        const NONFATAL = 0x2;
        /// Fatal errors.
        const FATAL = 0x4;
        /// Requests that it does not support.
        const UNSUPPORTED_REQUEST = 0x8;
    }
}

/// Where extended capabilities start: identifier in 16 bits, version in 4, the next one's offset in 12.
pub const PCI_EXT_CAPABILITIES: u16 = 0x100;
/// Extended capability: resizable BAR. Behind its header a capability and a control register for each BAR.
pub const PCI_EXT_CAP_ID_REBAR: u16 = 0x15;
/// The sizes that a BAR may have, in its capability register: bit 4 + n for 2^n MiB.
pub const PCI_REBAR_CAP_SIZES: u32 = 0xffff_fff0;
/// Which BAR a control register is of.
pub const PCI_REBAR_CTRL_BAR_IDX: u32 = 0x7;
/// How many BARs there are, in the first control register.
pub const PCI_REBAR_CTRL_NBAR: u32 = 0xe0;
/// The size of the BAR: n for 2^n MiB.
pub const PCI_REBAR_CTRL_BAR_SIZE: u32 = 0x3f00;

/// Base address: an address of ports.
pub const PCI_BASE_ADDRESS_SPACE_IO: u32 = 0x1;
/// Base address: 64 bits wide, the next register holds the upper half.
pub const PCI_BASE_ADDRESS_MEM_TYPE_64: u32 = 0x4;
/// Base address: reading has no side effect.
pub const PCI_BASE_ADDRESS_MEM_PREFETCH: u32 = 0x8;

/// Size of the configuration space of an express function in bytes; the first 256 are those of a conventional
/// one.
pub const CONFIG_BYTES: u16 = 4096;
