//! The cards that can be chosen, and what their firmware says of them.
//!
//! Source: Linux, Documentation/gpu/amdgpu/dgpu-asic-info-table.csv for versions of blocks. Where the blocks lie
//! was seen on Navi cards: all of them have the same places. Those of MI300X: `of_dies`. What a table says
//! beyond that (units, the layout of the table itself) is one that the vendor's driver takes, not that of a card.

use drivers_spec::amd::discovery::{self as ip, GcInfo1, GcInfo2};
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
    /// Bytes of the BAR that shows registers.
    pub registers: u64,
    /// Bytes of the trusted memory region that its PSP asks for, where the driver gives it.
    pub(super) tmr: u32,
    /// Shader engines, of each XCC.
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

/// The bytes of the trusted memory region that a Navi 31 has been seen to ask for. A Navi 32 asks for more than the
/// 19 MiB that tinygrad has for it; how much is a guess.
const TMR: u32 = 0xb0_0000;
const TMR_OF_NAVI32: u32 = 0x280_0000;

/// Bytes of registers that a Navi card shows, and an MI300X: the last XCC ends below 0x20_0000.
const NAVI: u64 = 1 << 20;
const INSTINCT: u64 = 2 << 20;

/// The cards.
pub const CHIPS: [Chip; 6] = [
    Chip {
        name: "gfx1100",
        twin: &crate::chip::GFX1100,
        device: 0x744c,
        gfx: Gfx::Gfx11,
        vram: 24 << 30,
        registers: NAVI,
        tmr: TMR,
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
    // Versions of MMHUB, NBIF and HDP are those of Navi31: no list of Navi32's is known.
    Chip {
        name: "gfx1101",
        twin: &crate::chip::GFX1101,
        device: 0x747e,
        gfx: Gfx::Gfx11,
        vram: 16 << 30,
        registers: NAVI,
        tmr: TMR_OF_NAVI32,
        engines: 3,
        gc: (11, 0, 3),
        sdma: (6, 0, 3),
        mp: (13, 0, 10),
        mmhub: (3, 0, 0),
        nbif: (4, 3, 0),
        hdp: (6, 0, 0),
        osssys: (6, 0, 0),
        more: &[],
    },
    Chip {
        name: "gfx1102",
        twin: &crate::chip::GFX1102,
        device: 0x7480,
        gfx: Gfx::Gfx11,
        vram: 8 << 30,
        registers: NAVI,
        tmr: TMR,
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
        registers: NAVI,
        tmr: TMR,
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
        registers: NAVI,
        tmr: TMR,
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
    MI300X,
];

/// An Instinct MI300X: eight XCCs, two on each of four dies, which have a memory hub and four copy engines each.
pub const MI300X: Chip = Chip {
    name: "gfx942",
    twin: &crate::chip::GFX942,
    device: 0x74a1,
    gfx: Gfx::Gfx9,
    vram: 192 << 30,
    registers: INSTINCT,
    tmr: TMR,
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

/// Copy engines of a die of MI300X.
pub(super) const ENGINES_OF_DIE: u8 = 4;
/// XCCs of a die of MI300X.
pub(super) const XCCS_OF_DIE: u8 = 2;
/// Dwords from the registers of an XCC to those of the next, and from those of a die.
///
/// Source: Linux, gfx_v9_4_3.c, `NORMALIZE_XCC_REG_OFFSET`; jpeg_v4_0_3.c, `NORMALIZE_JPEG_REG_OFFSET`.
const NEXT_XCC: u64 = 1 << 16;
const NEXT_DIE: u64 = 1 << 17;
/// The segments of the first XCC. Source: the same, `XCC_REG_RANGE_0_LOW` and `XCC_REG_RANGE_1_LOW`.
const XCC: [u64; 2] = [0x2000, 0xa000];
/// Where the copy engines of a die are. Source: gem5, configs/example/gpufs/system/system.py, from the table of a card.
const COPY: [u64; 4] = [0x1260, 0x1860, 0x19400, 0x19800];
/// Where its memory hub is: a guess, outside of what the blocks above have.
const HUB: u64 = 0x18000;

impl Chip {
    /// The card of a name.
    pub fn of(name: &str) -> Option<&'static Chip> {
        CHIPS.iter().find(|chip| chip.name == name)
    }

    /// What its firmware says of it.
    pub fn contents(&self) -> Contents {
        const MP: [u64; 5] = [0x16000, 0xdc_0000, 0xe0_0000, 0xe4_0000, 0x243_fc00];
        let mut blocks: Vec<_> = self
            .more
            .iter()
            .map(|(hw_id, v, at)| one(*hw_id, *v, at))
            .collect();
        blocks.extend(match self.gfx {
            Gfx::Gfx9 => self.of_dies(),
            _ => vec![
                one(ip::GC, self.gc, &GC),
                one(ip::SDMA0, self.sdma, &GC),
                one(ip::MMHUB, self.mmhub, &[0x1a000, 0x240_8800]),
                one(ip::NBIF, self.nbif, &nbif()),
            ],
        });
        blocks.extend([
            one(ip::MP0, self.mp, &MP),
            one(ip::MP1, self.mp, &MP),
            one(ip::HDP, self.hdp, &[0xf20, 0x240_a400]),
            one(ip::OSSSYS, self.osssys, &[0x10a0, 0x240_a000]),
        ]);
        Contents {
            binary: 1,
            table: 3,
            wide: false,
            blocks,
            units: match self.gfx {
                Gfx::Gfx9 => Units::Two(self.units_of_xcc()),
                _ => Units::One(self.units()),
            },
            harvested: Vec::new(),
        }
    }

    /// Blocks of MI300X that are there several times. The bus interface of a die is at the same place as that of the
    /// first, where its address says which die is meant.
    fn of_dies(&self) -> Vec<Block> {
        let xccs = self.twin.xccs as u8;
        let dies = xccs / XCCS_OF_DIE;
        let some = |hw_id, version, instance, bases: &[u64], further: u64| Block {
            instance,
            bases: bases.iter().map(|base| base + further).collect(),
            ..one(hw_id, version, &[])
        };
        let mut blocks = Vec::new();
        for xcc in 0..xccs {
            let further = u64::from(xcc) * NEXT_XCC;
            blocks.push(some(ip::GC, self.gc, xcc, &XCC, further));
        }
        for die in 0..dies {
            let further = u64::from(die) * NEXT_DIE;
            for (i, base) in COPY.iter().enumerate() {
                let number = die * ENGINES_OF_DIE + i as u8;
                blocks.push(some(ip::SDMA0, self.sdma, number, &[*base], further));
            }
            blocks.push(some(ip::MMHUB, self.mmhub, die, &[HUB], further));
            blocks.push(some(ip::NBIF, self.nbif, die, &nbif(), 0));
        }
        blocks
    }

    fn units(&self) -> GcInfo1 {
        let mut units = GcInfo1::new_zeroed();
        units.num_se = self.engines.into();
        units.num_sa_per_se = 2.into();
        units.num_wgp0_per_sa = 4.into();
        units.num_gl2c = (self.engines * 4).into();
        units.wave_size = 32.into();
        units.max_waves_per_simd = 16.into();
        units.max_scratch_slots_per_cu = 32.into();
        units.lds_size = 64.into();
        units
    }

    fn units_of_xcc(&self) -> GcInfo2 {
        let mut units = GcInfo2::new_zeroed();
        units.num_se = self.engines.into();
        units.num_sh_per_se = self.twin.arrays.into();
        units.num_cu_per_sh = self.twin.cus_per_array.into();
        units.num_tccs = 16.into();
        units.wave_size = 64.into();
        units.max_waves_per_simd = self.twin.waves.into();
        units.max_scratch_slots_per_cu = self.twin.scratch_slots.into();
        units.lds_size = self.twin.lds_kib.into();
        units
    }
}

/// The only block of its kind.
fn one(hw_id: u16, version: Version, bases: &[u64]) -> Block {
    Block {
        die: 0,
        hw_id,
        instance: 0,
        version,
        more: 0,
        bases: bases.to_vec(),
    }
}

/// Where the bus interface is.
fn nbif() -> Vec<u64> {
    const FAR: [u64; 4] = [0x404_0000, 0x408_0000, 0x40c_0000, 0x410_0000];
    [&[0, 0x14, 0xd20, 0x10400, 0x241_b000][..], &FAR].concat()
}
