//! Configuration space: a header of type 0, capabilities, and what of them can be written.
//!
//! The capabilities are those without which nobody drives a card: power management, PCI Express with a function
//! level reset, MSI, and the resizable BAR with one size. Source: PCI Local Bus Specification 3.0, 6.1, 6.7, 6.8.1;
//! PCI Express Base Specification 5.0, 7.5.3, 7.8.6; PCI Power Management 1.2, 3.2. Where they lie is as lspci shows
//! of an RX 7900 XTX.

use drivers_spec::pci::{
    CONFIG_BYTES, PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_MEM_PREFETCH, PCI_BASE_ADDRESS_MEM_TYPE_64,
    PCI_CAPABILITY_LIST, PCI_CLASS_REVISION, PCI_COMMAND, PCI_DEVICE_ID, PCI_STATUS,
    PCI_STATUS_CAP_LIST, PCI_VENDOR_ID,
};
use hcq::mem::window::AccessWidth;

use super::{Bar, Identity};

/// Bits of the command register that can be written: decoding, mastership, errors, and no INTx.
const COMMAND: u16 = 0x0547;

const POWER: u16 = 0x50;
const EXPRESS: u16 = 0x64;
const MSI: u16 = 0xa0;
const VENDOR: u16 = 0x100;
const RESIZE: u16 = 0x200;
/// Where a list of capabilities ends, and what is modelled of each.
const CAPABILITIES: [(u16, u16); 5] = [
    (POWER, 8),
    (EXPRESS, 0x3c),
    (MSI, 14),
    (VENDOR, 16),
    (RESIZE, 12),
];
/// Of the express capability: the device's control, and its bit that resets the function.
const DEVICE_CONTROL: u16 = EXPRESS + 8;
const RESET: u16 = 1 << 15;

/// What a write did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wrote {
    /// It is there, as far as it can be.
    Done,
    /// It asked for a reset of the function.
    Reset,
}

/// The space of a function.
#[derive(Clone)]
pub(super) struct Space {
    image: Vec<u8>,
    writable: Vec<u8>,
}

impl Space {
    /// As firmware leaves it: BARs at 0, nothing enabled.
    pub(super) fn new(identity: Identity, bars: &[Bar]) -> Space {
        let zeros = vec![0; usize::from(CONFIG_BYTES)];
        let mut space = Space {
            image: zeros.clone(),
            writable: zeros,
        };
        let Identity {
            vendor,
            device,
            class,
            revision,
        } = identity;
        space.put(PCI_VENDOR_ID, 2, vendor.into(), 0);
        space.put(PCI_DEVICE_ID, 2, device.into(), 0);
        space.put(PCI_COMMAND, 2, 0, COMMAND.into());
        space.put(PCI_STATUS, 2, PCI_STATUS_CAP_LIST.into(), 0);
        space.put(PCI_CLASS_REVISION, 4, class << 8 | u32::from(revision), 0);
        // Cache line size, which nothing looks at; and the line of INTx, which software leaves a note in.
        space.put(0x0c, 1, 0, 0xff);
        space.put(0x3c, 2, 0x0100, 0xff);
        for bar in bars {
            // Address bits below the size are wired to zero: that is how sizing works (6.2.5.1).
            let address = !(bar.bytes - 1);
            let wide = if bar.wide {
                PCI_BASE_ADDRESS_MEM_TYPE_64
            } else {
                0
            };
            let prefetch = if bar.prefetch {
                PCI_BASE_ADDRESS_MEM_PREFETCH
            } else {
                0
            };
            let at = PCI_BASE_ADDRESS_0 + 4 * u16::from(bar.number);
            space.put(at, 4, wide | prefetch, address as u32 & !0xf);
            if bar.wide {
                space.put(at + 4, 4, 0, (address >> 32) as u32);
            }
        }
        space.put(PCI_CAPABILITY_LIST, 1, POWER.into(), 0);
        // Version 3, no wake events; the power state.
        space.put(POWER, 4, 0x0003_0001 | u32::from(EXPRESS) << 8, 0);
        space.put(POWER + 4, 4, 0x8, 0x3);
        // A legacy endpoint, version 2; it can be reset by itself; 16 GT/s by 16 lanes, and so it runs.
        space.put(EXPRESS, 4, 0x0012_0010 | u32::from(MSI) << 8, 0);
        space.put(EXPRESS + 4, 4, 0x1000_8fa1, 0);
        space.put(DEVICE_CONTROL, 2, 0x2810, 0x7fff);
        space.put(EXPRESS + 0xc, 4, 0x0040_0d04, 0);
        space.put(EXPRESS + 0x10, 4, 0x1104_0000, 0x0fff);
        space.put(EXPRESS + 0x28, 2, 0, 0xffff);
        // One message, an address of 64 bits.
        space.put(MSI, 4, 0x0080_0005, 0x0071_0000);
        space.put(MSI + 4, 4, 0, !3);
        space.put(MSI + 8, 4, 0, u32::MAX);
        space.put(MSI + 12, 2, 0, 0xffff);
        space.put(VENDOR, 4, 0x0001_000b | u32::from(RESIZE) << 20, 0);
        space.put(VENDOR + 4, 4, 0x0101_0001, 0);
        let memory = bars.iter().find(|bar| bar.number == 0);
        let mib = memory.map_or(0, |bar| (bar.bytes >> 20).max(1).trailing_zeros());
        space.put(RESIZE, 4, 0x0001_0015, 0);
        space.put(RESIZE + 4, 4, 1 << (mib + 4), 0);
        space.put(RESIZE + 8, 4, mib << 8 | 1 << 5, 0);
        space
    }

    fn put(&mut self, at: u16, bytes: usize, value: u32, writable: u32) {
        let at = usize::from(at);
        self.image[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        self.writable[at..at + bytes].copy_from_slice(&writable.to_le_bytes()[..bytes]);
    }

    /// Whether all of an access is of something that is modelled.
    pub(super) fn knows(offset: u16, bytes: u16) -> bool {
        let header = offset + bytes <= 0x40;
        let mut capabilities = CAPABILITIES.iter();
        header || capabilities.any(|(at, len)| *at <= offset && offset + bytes <= at + len)
    }

    /// The value at an offset.
    pub(super) fn read(&self, offset: u16, width: AccessWidth) -> u32 {
        let at = usize::from(offset);
        let bytes = self.image.iter().skip(at).take(width.bytes());
        bytes
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte))
    }

    /// Writes what of it can be written.
    pub(super) fn write(&mut self, offset: u16, width: AccessWidth, value: u32) -> Wrote {
        for (i, new) in value.to_le_bytes()[..width.bytes()].iter().enumerate() {
            let at = usize::from(offset) + i;
            let mask = self.writable[at];
            self.image[at] = self.image[at] & !mask | new & mask;
        }
        let high = DEVICE_CONTROL + 1;
        let byte = high.checked_sub(offset).map(usize::from);
        let byte = byte.and_then(|byte| value.to_le_bytes()[..width.bytes()].get(byte).copied());
        if byte.is_some_and(|byte| u16::from(byte) & RESET >> 8 != 0) {
            return Wrote::Reset;
        }
        Wrote::Done
    }

    /// Where a BAR is.
    pub(super) fn place(&self, number: u8) -> u64 {
        let at = PCI_BASE_ADDRESS_0 + 4 * u16::from(number);
        let low = self.read(at, AccessWidth::W32);
        let high = match low & PCI_BASE_ADDRESS_MEM_TYPE_64 {
            0 => 0,
            _ => self.read(at + 4, AccessWidth::W32),
        };
        u64::from(low & !0xf) | u64::from(high) << 32
    }

    /// The command register.
    pub(super) fn command(&self) -> u16 {
        self.read(PCI_COMMAND, AccessWidth::W16) as u16
    }

    /// Sets it, as a reset does.
    pub(super) fn set_command(&mut self, command: u16) {
        self.put(PCI_COMMAND, 2, command.into(), COMMAND.into());
    }
}
