//! The cards that can be chosen: what is of PCI, beside the facts of [`crate::chip`].
//!
//! Source: OGKM, src/common/inc/swref/published/{ampere/ga102,turing/tu102}; identifications as nouveau prints them for
//! cards; sizes of BARs as lspci does.

use vbios::Card as Rom;

use crate::chip::CHIPS as ALL;

/// Chips that GSP's firmware has a signature for together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Ampere without GA100.
    Ga10x,
    /// Ada.
    Ad10x,
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
    /// What its ROM is made from.
    pub rom: Rom,
    /// `NV_PMC_BOOT_0`.
    pub boot_0: u32,
    /// `NV_PMC_BOOT_42`.
    pub boot_42: u32,
    /// The version that the fuse of GSP's microcode has, for FWSEC: the highest bit that is blown, from 1.
    pub fwsec_fuse: u32,
    /// The same of SEC2, for the booter.
    pub booter_fuse: u32,
}

/// BAR 0: registers.
pub const REGISTERS: u64 = 16 << 20;
/// BAR 1 of a card whose firmware does not make it larger.
pub const WINDOW: u64 = 256 << 20;
/// BAR 3: instance memory.
pub const INSTANCES: u64 = 32 << 20;
/// Bytes of IMEM and of DMEM of GSP and SEC2; as much as booters need, in blocks of 256 bytes.
pub const FALCON_MEMORY: usize = 64 << 10;

/// Every card.
pub static CHIPS: [Chip; 2] = [
    Chip {
        name: "ga102",
        twin: &ALL[0],
        family: Family::Ga10x,
        rom: Rom::GA102,
        boot_0: 0xb720_00a1,
        boot_42: 0x172a_1000,
        fwsec_fuse: 2,
        booter_fuse: 1,
    },
    Chip {
        name: "ad102",
        twin: &ALL[1],
        family: Family::Ad10x,
        rom: Rom::AD102,
        boot_0: 0xb920_00a1,
        boot_42: 0x192a_1000,
        fwsec_fuse: 2,
        booter_fuse: 1,
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
            assert_eq!(chip.rom.device, chip.twin.device_id);
            assert_eq!(chip.twin.name, chip.name);
        }
        assert_eq!(Chip::of("sm_86").map(|chip| chip.name), Some("ga102"));
        assert!(Chip::of("h100").is_none());
    }
}
