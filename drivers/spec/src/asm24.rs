//! ASM24xx, bridges from USB to PCIe, as far as a host talks to them.
//!
//! Two firmwares answer a host: an open one, by vendor requests, which is described here, and the maker's own, by SCSI
//! commands.
//! Source: tinygrad/asm2464pd-firmware, handmade/src/main.c, handmade/src/pcie_pio.h, src/include/registers.h,
//! USBGPU.md; cyrozap/usb-to-pcie-re, ASM2x6x/doc/Notes.md; tinygrad, runtime/support/usb.py.

/// Interface of the open firmware: vendor requests and two bulk endpoints.
pub mod open {
    /// `bmRequestType` of a vendor's request to the device.
    pub const TO_DEVICE: u8 = 0x40;
    /// `bmRequestType` of a vendor's request to the host.
    pub const TO_HOST: u8 = 0xc0;

    /// Reads XDATA: `wValue` is the address, the high byte of `wIndex` the bank.
    pub const READ_XDATA: u8 = 0xe4;
    /// Writes a byte of XDATA: `wValue` is the address, the low byte of `wIndex` the value, the high byte the bank.
    pub const WRITE_XDATA: u8 = 0xe5;
    /// To the device: a TLP, or a stream of them. `wValue` is [`tlp`](super::tlp) type | byte enables << 8, `wIndex`
    /// one of the modes; 12 bytes: address in two dwords, then data, or how many dwords the stream has. To the host:
    /// 8 bytes that say what the last one was answered.
    pub const TLP: u8 = 0xf0;
    /// Arms the DMA between bulk endpoints and SRAM: `wValue` is sectors of 512 bytes, with [`ARM_IN`] to the host;
    /// `wIndex` the first slot, and in the high byte how many.
    pub const ARM: u8 = 0xf2;
    /// Power of the PCIe slot: `wValue` is 1 or 0.
    pub const POWER: u8 = 0xf3;

    /// Mode of [`TLP`]: one.
    pub const SINGLE: u16 = 0;
    /// Mode of [`TLP`]: writes of a dword each, of what comes from the bulk endpoint.
    pub const STREAM_OUT: u16 = 1;
    /// Mode of [`TLP`]: reads of a dword each, to the bulk endpoint.
    pub const STREAM_IN: u16 = 2;

    /// In `wValue` of [`ARM`]: from SRAM to the host.
    pub const ARM_IN: u16 = 0x8000;
    /// Bytes of a sector of [`ARM`].
    pub const SECTOR: usize = 512;
    /// Bytes of a slot of [`ARM`].
    pub const SLOT: usize = 16 << 10;

    /// The bulk endpoint to the device.
    pub const OUT: u8 = 0x02;
    /// The bulk endpoint to the host.
    pub const IN: u8 = 0x81;

    /// The last byte of what [`TLP`] answers: a completion came.
    pub const COMPLETED: u8 = 0;
    /// The engine reports an error.
    pub const FAILED: u8 = 1;
    /// Nothing came.
    pub const NOTHING: u8 = 0xff;
}

/// Types of TLPs, `Fmt` and `Type`. Source: PCI Express Base Specification, 2.2.1.
pub mod tlp {
    /// Memory read, address of 64 bits.
    pub const MRD64: u8 = 0x20;
    /// Memory write, address of 64 bits.
    pub const MWR64: u8 = 0x60;
    /// Configuration read on the bus behind the root.
    pub const CFG_RD0: u8 = 0x04;
    /// Configuration read that bridges pass on.
    pub const CFG_RD1: u8 = 0x05;
    /// Configuration write on the bus behind the root.
    pub const CFG_WR0: u8 = 0x44;
    /// Configuration write that bridges pass on.
    pub const CFG_WR1: u8 = 0x45;

    /// Completion status: unsupported request.
    pub const UNSUPPORTED_REQUEST: u8 = 1;
    /// Completion status: configuration request retry.
    pub const RETRY: u8 = 2;
    /// Completion status: completer abort.
    pub const ABORT: u8 = 4;
}

/// State of the PCIe link.
pub const LTSSM: u16 = 0xb450;
/// Value of [`LTSSM`]: the link is up.
pub const LTSSM_UP: u8 = 0x78;

/// A range of the bridge's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Its address on the bus, for a device behind the bridge.
    pub bus: u64,
    /// Its address in XDATA, for the host.
    pub xdata: u16,
    /// Its length in bytes. XDATA may show but a part of it.
    pub bytes: u64,
}

/// The buffer of the DMA, in slots of 16 KiB.
pub const SRAM: Memory = Memory {
    bus: 0x20_0000,
    xdata: 0xf000,
    bytes: 512 << 10,
};
/// Free memory: once a queue of the NVMe controller's host.
pub const PAGE: Memory = Memory {
    bus: 0x82_0000,
    xdata: 0xa000,
    bytes: 0x1000,
};
/// Once the completion queue: a write of a device at [`RELEASE`] lets the bulk transfer to the host go.
pub const COMPLETIONS: Memory = Memory {
    bus: 0x82_2000,
    xdata: 0xb800,
    bytes: 0x800,
};
/// Where in [`COMPLETIONS`] a dword is written.
pub const RELEASE: u64 = 12;
