//! The cards that can be chosen: what is of PCI, beside the facts of [`crate::chip`].
//!
//! Source: OGKM, src/common/inc/swref/published/{ampere/ga102,turing/tu102,hopper/gh100,blackwell/gb202}; identifications as
//! nouveau prints them for cards; BARs as lspci shows them, those of an H100 also by a dump of its configuration space
//! (topofmind.dev/notes/sysadmin/gpu).

use vbios::Card as Rom;

use crate::chip::CHIPS as ALL;

/// Chips that GSP's firmware has a signature for together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Ampere without GA100.
    Ga10x,
    /// Ada.
    Ad10x,
    /// Hopper.
    Gh100,
    /// Blackwell of consumers.
    Gb20x,
}

/// What a chip has whose FSP starts GSP.
///
/// Source: OGKM, generated/g_kern_fsp_nvoc.c (version, sizes), mem_mgr_{gm107,gb100}.c, memmgrGetFBEndReserveSizeEstimate;
/// kern_pmu.c, kpmuReservedMemorySizeGet; g_kernel_gsp_nvoc.h, kgspGetNonWprHeapSize; hopper/gh100/dev_{fb,therm}.h,
/// blackwell/gb10b/dev_fbhub.h, blackwell/gb202/dev_therm.h.
#[derive(Debug)]
pub struct Fsp {
    /// `NV_THERM_I2CS_SCRATCH`: what FSP says of its own start.
    pub boot_complete: u32,
    /// LO and HI of `PCIE_FLUSH_SYSMEM_ADDR`.
    pub flush: [u32; 2],
    /// The version of the chain of trust's payload.
    pub cot_version: u16,
    /// Bytes of the public key in it, and of the signature.
    pub key: usize,
    /// The same of the signature.
    pub signature: usize,
    /// What lies behind FRTS, up to the end of memory: without what the PMU has of it, and that.
    pub reserved: u64,
    /// The same of the PMU.
    pub pmu: u32,
    /// The heap outside of WPR2.
    pub plain_heap: u64,
}

/// A card.
#[derive(Debug)]
pub struct Chip {
    /// The name in configs.
    pub name: &'static str,
    /// What RM says about it.
    pub twin: &'static crate::chip::Chip,
    /// Whose signatures it takes.
    pub family: Family,
    /// What its ROM is made from, where registers show it.
    pub rom: Option<Rom>,
    /// What starts GSP where it is not falcons.
    pub fsp: Option<Fsp>,
    /// `NV_PMC_BOOT_0`.
    pub boot_0: u32,
    /// `NV_PMC_BOOT_42`.
    pub boot_42: u32,
    /// The version that the fuse of GSP's microcode has, for FWSEC: the highest bit that is blown, from 1.
    pub fwsec_fuse: u32,
    /// The same of SEC2, for the booter.
    pub booter_fuse: u32,
}

/// BAR 0, of most cards: registers.
pub const REGISTERS: u64 = 16 << 20;
/// BAR 1 of a card whose firmware does not make it larger.
pub const WINDOW: u64 = 256 << 20;
/// BAR 3: instance memory.
pub const INSTANCES: u64 = 32 << 20;
/// Bytes of IMEM and of DMEM of GSP and SEC2; as much as booters need, in blocks of 256 bytes.
pub const FALCON_MEMORY: usize = 64 << 10;

/// Every card.
pub static CHIPS: [Chip; 4] = [
    Chip {
        name: "ga102",
        twin: &ALL[0],
        family: Family::Ga10x,
        rom: Some(Rom::GA102),
        fsp: None,
        boot_0: 0xb720_00a1,
        boot_42: 0x172a_1000,
        fwsec_fuse: 2,
        booter_fuse: 1,
    },
    Chip {
        name: "ad102",
        twin: &ALL[1],
        family: Family::Ad10x,
        rom: Some(Rom::AD102),
        fsp: None,
        boot_0: 0xb920_00a1,
        boot_42: 0x192a_1000,
        fwsec_fuse: 2,
        booter_fuse: 1,
    },
    Chip {
        name: "gh100",
        twin: &ALL[2],
        family: Family::Gh100,
        rom: None,
        fsp: Some(Fsp {
            boot_complete: 0x2_00bc,
            flush: [0x10_0a34, 0x10_0a38],
            cot_version: 1,
            key: 384,
            signature: 384,
            reserved: 0x20_0000,
            pmu: 0,
            plain_heap: 2 << 20,
        }),
        boot_0: 0x1800_00a1,
        boot_42: 0x180a_1000,
        fwsec_fuse: 0,
        booter_fuse: 0,
    },
    Chip {
        name: "gb202",
        twin: &ALL[4],
        family: Family::Gb20x,
        rom: None,
        fsp: Some(Fsp {
            boot_complete: 0xad_00bc,
            flush: [0x8a_1d58, 0x8a_1d5c],
            cot_version: 2,
            key: 97,
            signature: 96,
            reserved: 0x22_0000,
            pmu: 0x182_0000,
            plain_heap: 0x22_0000,
        }),
        boot_0: 0x1b20_00a1,
        boot_42: 0x1b2a_1000,
        fwsec_fuse: 0,
        booter_fuse: 0,
    },
];

impl Chip {
    /// The card of that name, or of one that [`crate::chip::Chip::by_name`] knows.
    pub fn of(name: &str) -> Option<&'static Chip> {
        let known = crate::chip::Chip::by_name(name)?;
        CHIPS.iter().find(|chip| chip.twin.name == known.name)
    }

    /// Bytes of memory.
    pub fn vram(&self) -> u64 {
        self.twin.vram()
    }

    /// How much of it BAR 1 shows.
    pub fn window(&self) -> u64 {
        self.twin.bar1_mib << 20
    }

    /// Which BARs of the function registers, memory and instance memory lie behind: that of registers has 64 bits, and
    /// takes two, from Hopper on where the card is for servers.
    pub fn bars(&self) -> [u8; 3] {
        match self.family {
            Family::Gh100 => [0, 2, 4],
            _ => [0, 1, 3],
        }
    }

    /// Bytes behind BAR 0.
    pub fn registers(&self) -> u64 {
        match self.family {
            Family::Gb20x => 4 * REGISTERS,
            _ => REGISTERS,
        }
    }

    /// Where registers show configuration space: `NV_PCFG`, or `NV_EP_PCFGM` of Hopper and later.
    pub fn mirror(&self) -> u32 {
        match self.fsp {
            None => 0x8_8000,
            Some(_) => 0x9_2000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifications_agree() {
        for chip in &CHIPS {
            let (architecture, implementation) = chip.twin.id;
            assert_eq!(
                chip.boot_42 >> 20,
                architecture | implementation,
                "{}",
                chip.name
            );
            assert_eq!(
                chip.boot_0 >> 20 & 0x1ff,
                chip.boot_42 >> 20,
                "{}",
                chip.name
            );
            assert!(
                chip.rom
                    .as_ref()
                    .is_none_or(|rom| rom.device == chip.twin.device_id)
            );
            assert_eq!(chip.rom.is_some(), chip.fsp.is_none(), "{}", chip.name);
            assert_eq!(Chip::of(chip.name).map(|found| found.name), Some(chip.name));
        }
        let named = |name| Chip::of(name).map(|chip| chip.name);
        assert_eq!(
            ["sm_86", "h100", "sm_120"].map(named),
            [Some("ga102"), Some("gh100"), Some("gb202")]
        );
        assert!(Chip::of("h200").is_none());
    }
}
