//! The cards that can be chosen, and what their firmware says of them.
//!
//! Source: Linux, Documentation/gpu/amdgpu/dgpu-asic-info-table.csv for versions of blocks. Where the blocks lie
//! was seen on Navi cards: all of them have the same places. What a table says beyond that (units, the layout of
//! the table itself) is one that the vendor's driver takes, not that of a card.

use drivers_spec::amd::discovery::{self as ip, GcInfo1};
use drivers_spec::amd::packet::Gfx;
use zerocopy::FromZeros;

use super::discovery::{Block, Contents, Units};

/// A version of a block.
type Version = (u8, u8, u8);

/// A card.
#[derive(Clone, Copy, Debug)]
pub struct Chip {
    /// Name of the shader architecture.
    pub name: &'static str,
    /// What the twins know of it beside.
    pub twin: &'static crate::chip::Chip,
    /// PCI device identifier.
    pub device: u16,
    /// Generation.
    pub gfx: Gfx,
    /// Bytes of VRAM.
    pub vram: u64,
    /// Shader engines.
    pub(super) engines: u32,
    gc: Version,
    sdma: Version,
    mp: Version,
    mmhub: Version,
    nbif: Version,
    hdp: Version,
    osssys: Version,
    /// What else it has: blocks that only the vendor's kernel driver asks for.
    more: &'static [(u16, Version, &'static [u64])],
}

/// THM, SMUIO, ATHUB, UMC, the second SDMA engine, VCN: 13.0.2 and 13.0.6 are those of Navi31 in the sources of the driver.
const NAVI31: &[(u16, Version, &[u64])] = &[
    (ip::SDMA1, (6, 0, 0), &GC),
    (ip::THM, (13, 0, 2), &[0x16600, 0x240_0c00]),
    (
        ip::SMUIO,
        (13, 0, 6),
        &[0x16800, 0x16a00, 0x240_1000, 0x344_0000],
    ),
    (ip::ATHUB, (3, 0, 0), &[0xc20, 0x240_8c00]),
    (ip::UMC, (8, 10, 0), &[0x14000, 0x242_5800]),
    (ip::VCN, (4, 0, 0), &[0x7800, 0x7e00, 0x240_3000]),
];

const GC: [u64; 4] = [0x1260, 0xa000, 0x1c000, 0x240_2c00];

/// The cards.
pub const CHIPS: [Chip; 4] = [
    Chip {
        name: "gfx1100",
        twin: &crate::chip::GFX1100,
        device: 0x744c,
        gfx: Gfx::Gfx11,
        vram: 24 << 30,
        engines: 6,
        gc: (11, 0, 0),
        sdma: (6, 0, 0),
        mp: (13, 0, 0),
        mmhub: (3, 0, 0),
        nbif: (4, 3, 0),
        hdp: (6, 0, 0),
        osssys: (6, 0, 0),
        more: NAVI31,
    },
    Chip {
        name: "gfx1102",
        twin: &crate::chip::GFX1102,
        device: 0x7480,
        gfx: Gfx::Gfx11,
        vram: 8 << 30,
        engines: 2,
        gc: (11, 0, 2),
        sdma: (6, 0, 2),
        mp: (13, 0, 7),
        mmhub: (3, 0, 2),
        nbif: (4, 3, 1),
        hdp: (6, 0, 1),
        osssys: (6, 0, 0),
        more: &[],
    },
    Chip {
        name: "gfx1200",
        twin: &crate::chip::GFX1200,
        device: 0x7590,
        gfx: Gfx::Gfx12,
        vram: 16 << 30,
        engines: 2,
        gc: (12, 0, 0),
        sdma: (7, 0, 0),
        mp: (14, 0, 2),
        mmhub: (4, 1, 0),
        nbif: (6, 3, 1),
        hdp: (7, 0, 0),
        osssys: (7, 0, 0),
        more: &[],
    },
    Chip {
        name: "gfx1201",
        twin: &crate::chip::GFX1201,
        device: 0x7550,
        gfx: Gfx::Gfx12,
        vram: 16 << 30,
        engines: 4,
        gc: (12, 0, 1),
        sdma: (7, 0, 1),
        mp: (14, 0, 3),
        mmhub: (4, 1, 0),
        nbif: (6, 3, 1),
        hdp: (7, 0, 0),
        osssys: (7, 0, 0),
        more: &[],
    },
];

/// One die of an Instinct MI300X: what drives it without its firmware's partitions is that of one XCC. Only what it takes
/// to start it as far as power management is modelled.
pub static MI300X: Chip = Chip {
    name: "gfx942",
    twin: &crate::chip::GFX942_CPX,
    device: 0x74a1,
    gfx: Gfx::Gfx9,
    vram: 24 << 30,
    engines: 4,
    gc: (9, 4, 3),
    sdma: (4, 4, 2),
    mp: (13, 0, 6),
    mmhub: (1, 8, 0),
    nbif: (7, 9, 0),
    hdp: (4, 4, 2),
    osssys: (4, 4, 2),
    more: &[],
};

impl Chip {
    /// The card of a name.
    pub fn of(name: &str) -> Option<&'static Chip> {
        let mut all = CHIPS.iter().chain([&MI300X]);
        all.find(|chip| chip.name == name)
    }

    /// What its firmware says of it.
    pub fn contents(&self) -> Contents {
        const MP: [u64; 5] = [0x16000, 0xdc_0000, 0xe0_0000, 0xe4_0000, 0x243_fc00];
        let far = [0x404_0000, 0x408_0000, 0x40c_0000, 0x410_0000];
        let nbif = [&[0, 0x14, 0xd20, 0x10400, 0x241_b000][..], &far].concat();
        let block = |hw_id, version, bases: &[u64]| Block {
            die: 0,
            hw_id,
            instance: 0,
            version,
            more: 0,
            bases: bases.to_vec(),
        };
        let mut units = GcInfo1::new_zeroed();
        units.num_se = self.engines.into();
        units.num_sa_per_se = 2.into();
        units.num_wgp0_per_sa = 4.into();
        units.num_gl2c = (self.engines * 4).into();
        units.wave_size = 32.into();
        units.max_waves_per_simd = 16.into();
        units.max_scratch_slots_per_cu = 32.into();
        units.lds_size = 64.into();
        let more = self.more.iter();
        let more = more.map(|(hw_id, version, bases)| block(*hw_id, *version, bases));
        let mut blocks: Vec<_> = more.collect();
        blocks.extend([
            block(ip::GC, self.gc, &GC),
            block(ip::SDMA0, self.sdma, &GC),
            block(ip::MMHUB, self.mmhub, &[0x1a000, 0x240_8800]),
            block(ip::NBIF, self.nbif, &nbif),
            block(ip::MP0, self.mp, &MP),
            block(ip::MP1, self.mp, &MP),
            block(ip::HDP, self.hdp, &[0xf20, 0x240_a400]),
            block(ip::OSSSYS, self.osssys, &[0x10a0, 0x240_a000]),
        ]);
        Contents {
            binary: 1,
            table: 3,
            wide: false,
            blocks,
            units: Units::One(units),
            harvested: Vec::new(),
        }
    }
}
