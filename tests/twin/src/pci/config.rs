//! Configuration space: a header of type 0, capabilities, and what of them can be written.
//!
//! The capabilities are those without which nobody drives a card: power management, PCI Express with a function
//! level reset, MSI, and the resizable BAR with one size. Source: PCI Local Bus Specification 3.0, 6.1, 6.7, 6.8.1;
//! PCI Express Base Specification 5.0, 7.5.3, 7.8.6; PCI Power Management 1.2, 3.2. Where they lie is as lspci shows
//! of an RX 7900 XTX, unless a card says where it has them ([`Capabilities`]).

use drivers_spec::pci::{
    CONFIG_BYTES, PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_MEM_PREFETCH, PCI_BASE_ADDRESS_MEM_TYPE_64,
    PCI_CAPABILITY_LIST, PCI_CLASS_REVISION, PCI_COMMAND, PCI_DEVICE_ID, PCI_STATUS,
    PCI_STATUS_CAP_LIST, PCI_VENDOR_ID,
};
use hcq::mem::window::AccessWidth;

use super::{Bar, Identity};

/// Bits of the command register that can be written: decoding, mastership, errors, and no INTx.
const COMMAND: u16 = 0x0547;

/// Where the capabilities in the first 256 bytes lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Power management.
    pub power: u16,
    /// PCI Express.
    pub express: u16,
    /// MSI.
    pub msi: u16,
    /// MSI-X, if there is one.
    pub msix: Option<MsiX>,
}

/// Interrupts by a table in BAR 0. Its entries are not modelled: nobody can enable it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiX {
    /// Where the capability is.
    pub at: u16,
    /// How many entries the table has.
    pub entries: u16,
    /// Where the table is in BAR 0, and which of them are pending.
    pub table: u32,
    /// Where that is.
    pub pending: u32,
}

impl Capabilities {
    /// Those of an RX 7900 XTX.
    pub const USUAL: Capabilities = Capabilities {
        power: 0x50,
        express: 0x64,
        msi: 0xa0,
        msix: None,
    };

    /// Each with what is modelled of it.
    fn all(&self) -> Vec<(u16, u16)> {
        let known = [(self.power, 8), (self.express, 0x3c), (self.msi, 14)];
        let mut all = known.to_vec();
        all.extend(self.msix.map(|msix| (msix.at, 12)));
        all.sort_unstable();
        all
    }

    /// Where the list goes on behind one; 0 at its end.
    fn after(&self, at: u16) -> u32 {
        let all = self.all();
        let next = all.iter().find(|(other, _)| *other > at);
        next.map_or(0, |(next, _)| (*next).into())
    }
}

const VENDOR: u16 = 0x100;
const RESIZE: u16 = 0x200;
/// What is modelled of those behind the first 256 bytes.
const EXTENDED: [(u16, u16); 2] = [(VENDOR, 16), (RESIZE, 12)];
/// Of the express capability: the device's control, and its bit that resets the function.
const DEVICE_CONTROL: u16 = 8;
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
    capabilities: Capabilities,
}

impl Space {
    /// As firmware leaves it: BARs at 0, nothing enabled.
    pub(super) fn new(identity: Identity, bars: &[Bar], capabilities: Capabilities) -> Space {
        let zeros = vec![0; usize::from(CONFIG_BYTES)];
        let mut space = Space {
            image: zeros.clone(),
            writable: zeros,
            capabilities,
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
        bars.iter().for_each(|bar| space.put_bar(bar));
        space.put_capabilities();
        space.put(VENDOR, 4, 0x0001_000b | u32::from(RESIZE) << 20, 0);
        space.put(VENDOR + 4, 4, 0x0101_0001, 0);
        let memory = bars.iter().find(|bar| bar.number == 0);
        let mib = memory.map_or(0, |bar| (bar.bytes >> 20).max(1).trailing_zeros());
        space.put(RESIZE, 4, 0x0001_0015, 0);
        space.put(RESIZE + 4, 4, 1 << (mib + 4), 0);
        space.put(RESIZE + 8, 4, mib << 8 | 1 << 5, 0);
        space
    }

    fn put_bar(&mut self, bar: &Bar) {
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
        self.put(at, 4, wide | prefetch, address as u32 & !0xf);
        if bar.wide {
            self.put(at + 4, 4, 0, (address >> 32) as u32);
        }
    }

    /// The capabilities in the first 256 bytes, one behind the other.
    fn put_capabilities(&mut self) {
        let Capabilities {
            power,
            express,
            msi,
            msix,
        } = self.capabilities;
        let next = |at: u16| self.capabilities.after(at) << 8;
        let nexts = [power, express, msi].map(next);
        let first = self.capabilities.after(0);
        self.put(PCI_CAPABILITY_LIST, 1, first, 0);
        // Version 3, no wake events; the power state.
        self.put(power, 4, 0x0003_0001 | nexts[0], 0);
        self.put(power + 4, 4, 0x8, 0x3);
        // A legacy endpoint, version 2; it can be reset by itself; 16 GT/s by 16 lanes, and so it runs.
        self.put(express, 4, 0x0012_0010 | nexts[1], 0);
        self.put(express + 4, 4, 0x1000_8fa1, 0);
        self.put(express + DEVICE_CONTROL, 2, 0x2810, 0x7fff);
        self.put(express + 0xc, 4, 0x0040_0d04, 0);
        self.put(express + 0x10, 4, 0x1104_0000, 0x0fff);
        self.put(express + 0x28, 2, 0, 0xffff);
        // One message, an address of 64 bits.
        self.put(msi, 4, 0x0080_0005 | nexts[2], 0x0071_0000);
        self.put(msi + 4, 4, 0, !3);
        self.put(msi + 8, 4, 0, u32::MAX);
        self.put(msi + 12, 2, 0, 0xffff);
        if let Some(msix) = msix {
            let last = u32::from(msix.entries - 1) << 16;
            let next = self.capabilities.after(msix.at) << 8;
            self.put(msix.at, 4, 0x11 | next | last, 0);
            // Multiples of 8, behind BAR 0.
            self.put(msix.at + 4, 4, msix.table & !7, 0);
            self.put(msix.at + 8, 4, msix.pending & !7, 0);
        }
    }

    fn put(&mut self, at: u16, bytes: usize, value: u32, writable: u32) {
        let at = usize::from(at);
        self.image[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        self.writable[at..at + bytes].copy_from_slice(&writable.to_le_bytes()[..bytes]);
    }

    /// Whether all of an access is of something that is modelled.
    pub(super) fn knows(&self, offset: u16, bytes: u16) -> bool {
        let header = offset + bytes <= 0x40;
        let mut capabilities = self.capabilities.all().into_iter().chain(EXTENDED);
        header || capabilities.any(|(at, len)| at <= offset && offset + bytes <= at + len)
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
        let high = self.capabilities.express + DEVICE_CONTROL + 1;
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
