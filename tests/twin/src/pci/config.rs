//! Configuration space: a header of type 0, capabilities, and what of them can be written.
//!
//! The capabilities are those without which nobody drives a card: power management, PCI Express with a function
//! level reset, MSI, and resizable BARs with one size each. Source: PCI Local Bus Specification 3.0, 6.1, 6.7, 6.8.1;
//! PCI Express Base Specification 5.0, 7.5.3, 7.8.6, 7.9.1; PCI Power Management 1.2, 3.2. Where they lie depends on the
//! card: [`Capabilities`].

use drivers_spec::pci::{
    CONFIG_BYTES, PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_MEM_PREFETCH, PCI_BASE_ADDRESS_MEM_TYPE_64,
    PCI_CAPABILITY_LIST, PCI_CLASS_REVISION, PCI_COMMAND, PCI_DEVICE_ID, PCI_STATUS,
    PCI_STATUS_CAP_LIST, PCI_VENDOR_ID,
};
use hcq::mem::window::AccessWidth;

use super::{Bar, Identity};

/// Bits of the command register that can be written: decoding, mastership, errors, and no INTx.
const COMMAND: u16 = 0x0547;

/// What is modelled of capabilities, in bytes.
const POWER: u16 = 8;
const EXPRESS: u16 = 0x3c;
const MSI: u16 = 14;
const MSIX: u16 = 12;
/// Where extended capabilities begin.
const FIRST: u16 = 0x100;
/// Of the express capability: the device's control, and its bit that resets the function.
const DEVICE_CONTROL: u16 = 8;
const RESET: u16 = 1 << 15;

/// Where a function has its capabilities, and what it has beside.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// Power management.
    pub power: u16,
    /// PCI Express.
    pub express: u16,
    /// MSI.
    pub msi: u16,
    /// MSI-X, if there is one.
    pub msix: Option<MsiX>,
    /// The word and the one behind it of the first extended capability, without the offset of the next.
    pub first: [u32; 2],
    /// Bytes of that capability.
    pub first_bytes: u16,
    /// Resizable BARs.
    pub resize: u16,
    /// Which BARs those are.
    pub resizable: &'static [u8],
    /// Registers outside of capabilities, and which of their bits hold what was written.
    pub own: &'static [(u16, u32)],
}

/// Interrupts by a table in BAR 0. Its entries are not modelled: nobody can enable it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MsiX {
    /// Where the capability is.
    pub at: u16,
    /// How many entries the table has.
    pub entries: u16,
    /// Where the table is in BAR 0.
    pub table: u32,
    /// Where the bits of pending messages are in BAR 0.
    pub pending: u32,
}

impl Capabilities {
    /// Source: lspci of an RX 7900 XTX.
    pub const RADEON: Capabilities = Capabilities {
        power: 0x50,
        express: 0x64,
        msi: 0xa0,
        msix: None,
        // Vendor specific.
        first: [0x0001_000b, 0x0101_0001],
        first_bytes: 16,
        resize: 0x200,
        resizable: &[0],
        own: &[],
    };

    /// `NV_XVE`, up to Ada; what later cards have behind the first 256 bytes is taken to be like it. Its own registers switch
    /// what the expansion ROM shows, switch the function for audio on, which is not modelled, and end a message, so that the
    /// next can be sent.
    ///
    /// Source: OGKM, published/maxwell/gm107/dev_nv_xve.h (MSI_CTRL, VCCAP_HDR), turing/tu102 (DEVICE_CAPABILITY, in the
    /// express capability), ampere/ga100 (RESIZE_BAR1_CTRL 0xbc0, the second of the BARs 0, 1 and 3); lspci of an RTX 3090;
    /// Linux, drivers/gpu/drm/nouveau/nvkm/subdev/pci/{base,gp100}.c, nvkm_pci_rom_shadow, gp100_pci_msi_rearm;
    /// drivers/pci/quirks.c, quirk_nvidia_hda.
    pub const GEFORCE: Capabilities = Capabilities {
        power: 0x60,
        express: 0x78,
        msi: 0x68,
        msix: None,
        // Virtual channels, of which there is one.
        first: [0x0001_0002, 0],
        first_bytes: 0x1c,
        resize: 0xbb0,
        resizable: &[0, 1, 3],
        own: &[(0x50, 1), (0x488, 1 << 25), (0x704, 0)],
    };

    /// Where the capability lies that follows one in the list; the first one follows 0.
    fn next(&self, at: u16) -> u16 {
        let msix = self.msix.map(|msix| msix.at);
        let all = [self.power, self.express, self.msi].into_iter().chain(msix);
        all.filter(|other| *other > at).min().unwrap_or(0)
    }
}

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
    /// How many BARs can be resized.
    resizable: u16,
}

impl Space {
    /// As firmware leaves it: BARs at 0, nothing enabled.
    pub(super) fn new(identity: Identity, bars: &[Bar], capabilities: Capabilities) -> Space {
        let zeros = vec![0; usize::from(CONFIG_BYTES)];
        let resizable = |bar: &&Bar| capabilities.resizable.contains(&bar.number);
        let resizable: Vec<&Bar> = bars.iter().filter(resizable).collect();
        let mut space = Space {
            image: zeros.clone(),
            writable: zeros,
            capabilities,
            resizable: resizable.len() as u16,
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
        space.put_capabilities();
        space.resizable(&resizable);
        for &(at, writable) in capabilities.own {
            space.put(at, 4, 0, writable);
        }
        space
    }

    fn put_capabilities(&mut self) {
        let Capabilities {
            power,
            express,
            msi,
            msix,
            first: [header, body],
            resize,
            ..
        } = self.capabilities;
        let next = |at: u16| u32::from(self.capabilities.next(at)) << 8;
        let [after_power, after_express, after_msi] = [power, express, msi].map(next);
        let head = u32::from(self.capabilities.next(0));
        self.put(PCI_CAPABILITY_LIST, 1, head, 0);
        // Version 3, no wake events; the power state.
        self.put(power, 4, 0x0003_0001 | after_power, 0);
        self.put(power + 4, 4, 0x8, 0x3);
        // A legacy endpoint, version 2; it can be reset by itself; 16 GT/s by 16 lanes, and so it runs.
        self.put(express, 4, 0x0012_0010 | after_express, 0);
        self.put(express + 4, 4, 0x1000_8fa1, 0);
        self.put(express + DEVICE_CONTROL, 2, 0x2810, 0x7fff);
        self.put(express + 0xc, 4, 0x0040_0d04, 0);
        self.put(express + 0x10, 4, 0x1104_0000, 0x0fff);
        self.put(express + 0x28, 2, 0, 0xffff);
        // One message, an address of 64 bits.
        self.put(msi, 4, 0x0080_0005 | after_msi, 0x0071_0000);
        self.put(msi + 4, 4, 0, !3);
        self.put(msi + 8, 4, 0, u32::MAX);
        self.put(msi + 12, 2, 0, 0xffff);
        if let Some(msix) = msix {
            let last = u32::from(msix.entries - 1) << 16;
            let after = u32::from(self.capabilities.next(msix.at)) << 8;
            self.put(msix.at, 4, 0x11 | after | last, 0);
            // Multiples of 8, in BAR 0.
            self.put(msix.at + 4, 4, msix.table & !7, 0);
            self.put(msix.at + 8, 4, msix.pending & !7, 0);
        }
        self.put(FIRST, 4, header | u32::from(resize) << 20, 0);
        self.put(FIRST + 4, 4, body, 0);
    }

    /// Resizable BARs: each with the size that it has, and no other.
    fn resizable(&mut self, bars: &[&Bar]) {
        let resize = self.capabilities.resize;
        self.put(resize, 4, 0x0001_0015, 0);
        // The first says how many there are.
        let counts = std::iter::once((bars.len() as u32) << 5).chain(std::iter::repeat(0));
        for ((at, bar), count) in (resize + 4..).step_by(8).zip(bars).zip(counts) {
            let mib = (bar.bytes >> 20).max(1).trailing_zeros();
            self.put(at, 4, 1 << (mib + 4), 0);
            self.put(at + 4, 4, mib << 8 | count | u32::from(bar.number), 0);
        }
    }

    fn put(&mut self, at: u16, bytes: usize, value: u32, writable: u32) {
        let at = usize::from(at);
        self.image[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        self.writable[at..at + bytes].copy_from_slice(&writable.to_le_bytes()[..bytes]);
    }

    /// Whether all of an access is of something that is modelled.
    pub(super) fn knows(&self, offset: u16, bytes: u16) -> bool {
        let all = &self.capabilities;
        let header = (0, 0x40);
        let fixed = [
            header,
            (all.power, POWER),
            (all.express, EXPRESS),
            (all.msi, MSI),
            (FIRST, all.first_bytes),
            (all.resize, 4 + 8 * self.resizable),
        ];
        let msix = all.msix.map(|msix| (msix.at, MSIX));
        let own = all.own.iter().map(|&(at, _)| (at, 4));
        fixed
            .into_iter()
            .chain(msix)
            .chain(own)
            .any(|(at, len)| at <= offset && offset + bytes <= at + len)
    }

    /// Whether a register is one of the vendor's own, outside of capabilities.
    pub(super) fn owns(&self, offset: u16) -> bool {
        self.capabilities.own.iter().any(|(at, _)| *at == offset)
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
