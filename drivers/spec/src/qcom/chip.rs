//! Which Adreno 6xx there are, how `chip_id` names them, and what differs for compute.
//!
//! Source: Mesa, src/freedreno/common/freedreno_devices.py (chaotic-cx/mesa-mirror 738f9f1; A621, A623, A663 and A702 by
//! a newer copy, whitebelyash/mesa-tu8 0a819cb); bytes of on-chip memory: Linux, drivers/gpu/drm/msm/adreno/
//! a6xx_catalog.c (01bcc03), and KGSL (qualcomm-linux/kgsl 27cf0e4), adreno-gpulist.h, which agree where both have a
//! chip. On-chip memory of A605 and A608 is in neither.

use hcq::reg::Generations;

/// The most pixels along a side of an image, as the vendor's OpenCL has it; the fields hold 15 bits.
pub const MAX_SIDE: u32 = 16384;
/// An image of rows is this many pixels wide, or a multiple, in the vendor's OpenCL.
pub const PITCH_ALIGNMENT: u32 = 64;

/// A sub-generation, as Mesa has them: `a6xx_gen1_low`, `a6xx_gen1` and so on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Gen {
    /// Half of the registers, no waves of double size.
    Gen1Low,
    /// A630 and its like.
    Gen1,
    /// A640, A680.
    Gen2,
    /// A650 and its like.
    Gen3,
    /// A660 and its like: with LPAC.
    Gen4,
}

impl Gen {
    /// Every sub-generation.
    pub const ALL: [Gen; 5] = [Gen::Gen1Low, Gen::Gen1, Gen::Gen2, Gen::Gen3, Gen::Gen4];

    /// What it has.
    pub const fn facts(self) -> &'static Facts {
        &FACTS[self as usize]
    }
}

/// A set of sub-generations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gens(u8);

impl Gens {
    /// Every one.
    pub const ALL: Self = Self(0b1_1111);
    /// None.
    pub const NONE: Self = Self(0);
    /// Those with LPAC: more registers of compute have a second copy.
    pub const LPAC: Self = Self(0b1_0000);

    /// Whether `one` is one of them.
    pub const fn has(self, one: Gen) -> bool {
        self.0 & (1 << one as u8) != 0
    }
}

impl Generations for Gens {
    type One = Gen;

    const ALL: Self = Gens::ALL;

    fn has(self, one: Gen) -> bool {
        Gens::has(self, one)
    }
}

/// What a sub-generation has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Vectors of four registers of a shader processor, of 64 fibers: waves share them. `reg_size_vec4`.
    pub registers: u32,
    /// Units of 128 bytes of code that may be preloaded. `instr_cache_size`.
    pub instruction_cache: u32,
    /// Whether waves may have 128 fibers. `supports_double_threadsize`; A702 has it in spite of its sub-generation.
    pub double_threadsize: bool,
    /// Bytes of a CCU's cache of colours where there is no tiling. `sysmem_per_ccu_color_cache_size`.
    pub ccu_color: u32,
    /// The same of depths.
    pub ccu_depth: u32,
    /// With tiling a CCU's cache of colours is shifted right by this. `gmem_ccu_color_cache_fraction`.
    pub ccu_color_tiled_shift: u32,
    /// Whether there is a low-priority pipe, with registers of its own: see [`Gens::LPAC`].
    pub lpac: bool,
    /// Whether buffers have elements of 16 bits.
    pub storage_16bit: bool,
    /// `getfiberid`.
    pub getfiberid: bool,
    /// `dp2acc`.
    pub dp2acc: bool,
    /// `dp4acc`.
    pub dp4acc: bool,
}

const FACTS: [Facts; 5] = {
    let gen1 = Facts {
        registers: 96,
        instruction_cache: 64,
        double_threadsize: true,
        ccu_color: 64 << 10,
        ccu_depth: 64 << 10,
        ccu_color_tiled_shift: 2,
        lpac: false,
        storage_16bit: false,
        getfiberid: false,
        dp2acc: false,
        dp4acc: false,
    };
    let gen3 = Facts {
        registers: 64,
        // Mesa: the vendor's driver has 128, and they hang.
        instruction_cache: 127,
        storage_16bit: true,
        dp2acc: true,
        ..gen1
    };
    [
        Facts {
            registers: 48,
            double_threadsize: false,
            ccu_color: 8 << 10,
            ccu_depth: 8 << 10,
            ccu_color_tiled_shift: 1,
            ..gen1
        },
        gen1,
        gen1,
        gen3,
        Facts {
            lpac: true,
            getfiberid: true,
            dp4acc: true,
            ..gen3
        },
    ]
};

/// Values of registers that Mesa writes once and that nobody has documented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Magic {
    /// `TPL1_DBG_ECO_CNTL`.
    pub tpl1_dbg_eco_cntl: u32,
    /// `SP_CHICKEN_BITS`.
    pub sp_chicken_bits: u32,
    /// `SP_DBG_ECO_CNTL`.
    pub sp_dbg_eco_cntl: u32,
    /// `HLSQ_DBG_ECO_CNTL`.
    pub hlsq_dbg_eco_cntl: u32,
    /// `UCHE_CLIENT_PF`; Mesa writes none on A621 and A623.
    pub uche_client_pf: Option<u32>,
    /// `UCHE_UNKNOWN_0E12`.
    pub uche_unknown_0e12: u32,
    /// `SP_UNKNOWN_AAF2`, which Mesa lists for A690 alone.
    pub sp_unknown_aaf2: Option<u32>,
}

/// A chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip {
    /// As the vendor calls it.
    pub name: &'static str,
    /// Bits 31:8 of `chip_id`: core, major, minor. The patch level in bits 7:0 changes nothing here.
    pub ids: &'static [u32],
    /// Its sub-generation.
    pub generation: Gen,
    /// Bytes of on-chip memory; 0 where no source says. The kernel tells it.
    pub gmem: u32,
    /// CCUs, and shader processors: Mesa takes them to be as many.
    pub cores: u32,
    /// Fibers of a shader processor that have private memory.
    pub fibers: u32,
    /// Waves that start together.
    pub wave_granularity: u32,
    /// Fibers of a wave that is not of double size.
    pub wave: u32,
    /// Bytes of memory that a group shares, at most.
    pub shared: u32,
    /// Whether waves may have twice as many fibers.
    pub double_threadsize: bool,
    /// Undocumented values.
    pub magic: Magic,
}

impl Chip {
    /// What its sub-generation has.
    pub const fn facts(&self) -> &'static Facts {
        self.generation.facts()
    }

    /// The most fibers of a group whose shader has these footprints, in vectors of four registers, where half and full
    /// registers are apart: as many waves as there are registers for, of the chip's size or twice that.
    ///
    /// Source: Mesa, src/freedreno/ir3/ir3.c, `ir3_get_reg_dependent_max_waves`: waves start in the chip's granularity.
    pub const fn max_group(&self, full: u32, half: u32, double: bool) -> u32 {
        let used = full + half.div_ceil(2);
        let size = if double { 2 } else { 1 };
        let used = if used == 0 { 1 } else { used } * size;
        let mut waves = self.facts().registers / used * self.wave_granularity;
        if waves > Chip::MAX_WAVES {
            waves = Chip::MAX_WAVES;
        }
        let fibers = waves * self.wave * size;
        if fibers < Chip::MAX_GROUP {
            fibers
        } else {
            Chip::MAX_GROUP
        }
    }

    /// Where the CCUs' cache of colours begins in on-chip memory where there is no tiling: behind that of depths.
    /// `ccu_offset_bypass` of Mesa's Vulkan driver, tu_device.cc.
    pub const fn ccu_offset_bypass(&self) -> u32 {
        self.cores * self.facts().ccu_depth
    }

    /// The same with tiling: at the end of `gmem` bytes of on-chip memory. `ccu_offset_gmem` there. None if it is less
    /// than the cache.
    pub const fn ccu_offset_gmem(&self, gmem: u32) -> Option<u32> {
        let facts = self.facts();
        gmem.checked_sub((self.cores * facts.ccu_color) >> facts.ccu_color_tiled_shift)
    }

    /// The most waves of a shader processor. Mesa, ir3_compiler.c: 16.
    pub const MAX_WAVES: u32 = 16;

    /// The most fibers of a group, by the launch limits of Mesa and of the vendor's OpenCL.
    pub const MAX_GROUP: u32 = 1024;
}

const fn magic(tpl1: u32, chicken: u32, sp: u32, hlsq: u32, uche: u32, uche_0e12: u32) -> Magic {
    Magic {
        tpl1_dbg_eco_cntl: tpl1,
        sp_chicken_bits: chicken,
        sp_dbg_eco_cntl: sp,
        hlsq_dbg_eco_cntl: hlsq,
        uche_client_pf: Some(uche),
        uche_unknown_0e12: uche_0e12,
        sp_unknown_aaf2: None,
    }
}

/// What most chips of a sub-generation share.
const fn chip(
    name: &'static str,
    ids: &'static [u32],
    generation: Gen,
    gmem_kib: u32,
    cores: u32,
    waves: u32,
    magic: Magic,
) -> Chip {
    let low = matches!(generation, Gen::Gen1Low);
    Chip {
        name,
        ids,
        generation,
        gmem: gmem_kib << 10,
        cores,
        fibers: waves * 128,
        wave_granularity: if low { 1 } else { 2 },
        wave: 64,
        shared: if low { 16 << 10 } else { 32 << 10 },
        double_threadsize: generation.facts().double_threadsize,
        magic,
    }
}

const A61X_LOW: Magic = magic(0, 0, 0, 0, 0x4, 0x1000_0000);
const A61X: Magic = magic(0x0010_8000, 0x430, 0, 0x0008_0000, 0x4, 0x1);
const A621: Magic = Magic {
    uche_client_pf: None,
    ..magic(0x0100_8000, 0x1400, 0x0300_0000, 0, 0, 0x1)
};
const A662: Magic = magic(0x0500_8000, 0x1400, 0x6, 0, 0x84, 0x1);

/// Every chip that is described here.
pub const CHIPS: &[Chip] = &[
    chip("A605", &[0x06_00_05], Gen::Gen1Low, 0, 1, 16, A61X_LOW),
    chip("A608", &[0x06_00_08], Gen::Gen1Low, 0, 1, 16, A61X_LOW),
    chip("A610", &[0x06_01_00], Gen::Gen1Low, 132, 1, 16, A61X_LOW),
    chip("A612", &[0x06_01_02], Gen::Gen1Low, 132, 1, 16, A61X_LOW),
    chip("A615", &[0x06_01_05], Gen::Gen1, 512, 1, 16, A61X),
    chip("A616", &[0x06_01_06], Gen::Gen1, 512, 1, 16, A61X),
    chip("A618", &[0x06_01_08], Gen::Gen1, 512, 1, 16, A61X),
    chip("A619", &[0x06_01_09], Gen::Gen1, 512, 1, 16, A61X),
    chip(
        "A620",
        &[0x06_02_00],
        Gen::Gen1,
        512,
        1,
        16,
        magic(0x0100_8000, 0x400, 0x0100_0000, 0, 0x4, 0x1),
    ),
    chip("A621", &[0x06_02_01], Gen::Gen3, 512, 2, 32, A621),
    chip("A623", &[0x06_02_03], Gen::Gen3, 512, 2, 32, A621),
    chip(
        "A630",
        &[0x06_03_00],
        Gen::Gen1,
        1024,
        2,
        16,
        magic(0x0010_8000, 0x1430, 0, 0x0008_0000, 0x4, 0x1000_0001),
    ),
    chip(
        "A640",
        &[0x06_04_00],
        Gen::Gen2,
        1024,
        2,
        64,
        magic(0x8000, 0x420, 0, 0, 0x4, 0x1),
    ),
    // The vendor calls it A642L or A643, Linux A635, by its speed bin: one chip.
    chip(
        "A643",
        &[0x06_03_05],
        Gen::Gen4,
        512,
        2,
        32,
        magic(0x0500_8000, 0x1400, 0x6, 0, 0x84, 0x1),
    ),
    chip(
        "A650",
        &[0x06_05_00],
        Gen::Gen3,
        1152,
        3,
        32,
        magic(0x0100_8000, 0x1400, 0x0100_0000, 0, 0x4, 0x1),
    ),
    chip(
        "A660",
        &[0x06_06_00],
        Gen::Gen4,
        1536,
        3,
        32,
        magic(0x0500_8000, 0x1400, 0x0100_0000, 0, 0x84, 0x1),
    ),
    // Mesa calls it FD644.
    chip("A662", &[0x06_06_02], Gen::Gen4, 1536, 3, 64, A662),
    chip("A663", &[0x06_06_03], Gen::Gen4, 1536, 3, 64, A662),
    chip(
        "A680",
        &[0x06_08_00],
        Gen::Gen2,
        2048,
        4,
        64,
        magic(0x0010_8000, 0x1430, 0, 0, 0x4, 0x1),
    ),
    chip(
        "A690",
        &[0x06_09_00],
        Gen::Gen4,
        4096,
        8,
        32,
        Magic {
            sp_unknown_aaf2: Some(0x00c0_0000),
            ..magic(0x04c0_0000, 0x1400, 0x0120_0000, 0, 0x84, 0x1)
        },
    ),
    // Of this generation in spite of its number. KGSL counts 7.0.2; Mesa has a second id beside it.
    Chip {
        wave: 16,
        double_threadsize: true,
        ..chip(
            "A702",
            &[0x07_00_02, 0x07_00_20],
            Gen::Gen1Low,
            128,
            1,
            16,
            magic(0x8000, 0x1400, 0, 0x0200_0000, 0x84, 0x1),
        )
    },
];

/// Other names of chips: Linux and Mesa call A643 by its speed bins, and A662 by what is printed on devices.
pub const ALIASES: &[(&str, &str)] = &[("A635", "A643"), ("A642L", "A643"), ("A644", "A662")];

/// The chip of a name, which may be one of [`ALIASES`], in capital or small letters.
pub fn by_name(name: &str) -> Option<&'static Chip> {
    let alias = ALIASES
        .iter()
        .find(|(other, _)| other.eq_ignore_ascii_case(name));
    let name = alias.map_or(name, |(_, name)| name);
    CHIPS
        .iter()
        .find(|chip| chip.name.eq_ignore_ascii_case(name))
}

/// Why there is no driver for a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// A newer generation, whose registers and packets differ.
    #[error("{name} (chip id {id:#010x}) is an Adreno {family}: only Adreno 6xx is supported")]
    Newer {
        /// As the vendor calls it; "a GPU" where no table has it.
        name: &'static str,
        /// `7xx` or `8xx`.
        family: &'static str,
        /// Its id.
        id: u32,
    },
    /// An older generation.
    #[error("chip id {id:#010x} is an Adreno {core}xx: only Adreno 6xx is supported")]
    Older {
        /// The number of the generation.
        core: u32,
        /// Its id.
        id: u32,
    },
    /// One of this generation, or of none, that no table has.
    #[error("unknown Adreno chip id {id:#010x}")]
    Unknown {
        /// Its id.
        id: u32,
    },
}

/// Ids of newer chips, without the patch level where the names do not differ by it, and their names.
const NEWER: &[(u32, u32, &str)] = &[
    (0x0701_0000, 0xffff_ff00, "Adreno 710"),
    (0x4302_0000, 0xffff_ff00, "Adreno 720"),
    (0x0703_0002, 0xffff_ffff, "Adreno 725"),
    (0x0703_0001, 0xffff_ffff, "Adreno 730"),
    (0x4303_0b00, 0xffff_ff00, "Adreno 735"),
    (0x4303_0c00, 0xffff_ff00, "Adreno X1-45"),
    (0x4305_0a00, 0xffff_ffff, "Adreno A32"),
    (0x4305_0a01, 0xffff_ffff, "Adreno 740"),
    (0x4305_0b00, 0xffff_ff00, "Adreno 740v3"),
    (0x4305_0c00, 0xffff_ff00, "Adreno X1-85"),
    (0x4305_1400, 0xffff_ff00, "Adreno 750"),
    (0x4401_0000, 0xffff_ff00, "Adreno 810"),
    (0x4403_0000, 0xffff_ff00, "Adreno 825"),
    (0x4403_0a20, 0xffff_ffff, "Adreno 829"),
    (0x4405_0000, 0xffff_ff00, "Adreno 830"),
    (0x4405_0a31, 0xffff_ffff, "Adreno 840"),
    (0x4407_0041, 0xffff_ffff, "Adreno X2-85"),
];

/// The chip of an id, as DEVICE_INFO of KGSL tells it, or bits 31:0 of CHIP_ID of msm:
/// `core << 24 | major << 16 | minor << 8 | patch`.
///
/// # Errors
/// [`Unsupported`] for any other chip: newer ones by name. Those that no table names are told apart by their core alone:
/// 7 and 0x43 are 7xx, 0x44 is 8xx, as all that have names are.
pub fn find(id: u32) -> Result<&'static Chip, Unsupported> {
    if let Some(chip) = CHIPS.iter().find(|chip| chip.ids.contains(&(id >> 8))) {
        return Ok(chip);
    }
    let named = NEWER.iter().find(|(want, mask, _)| id & mask == *want);
    let name = named.map_or("a GPU", |(.., name)| name);
    Err(match id >> 24 {
        core @ 2..=5 => Unsupported::Older { core, id },
        7 | 0x43 => Unsupported::Newer {
            name,
            family: "7xx",
            id,
        },
        0x44 => Unsupported::Newer {
            name,
            family: "8xx",
            id,
        },
        _ => Unsupported::Unknown { id },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_are_told_apart() {
        let mut ids: Vec<u32> = CHIPS.iter().flat_map(|chip| chip.ids).copied().collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "an id stands for two chips");
        for chip in CHIPS {
            assert!(chip.ids.iter().all(|id| find(id << 8 | 1) == Ok(chip)));
            assert!(chip.cores > 0 && chip.fibers.is_multiple_of(128));
        }
    }

    #[test]
    fn names_have_others() {
        let name = |text| by_name(text).map(|chip| chip.name);
        for (alias, of) in ALIASES {
            assert_eq!(name(alias), Some(*of));
            assert!(CHIPS.iter().all(|chip| chip.name != *alias), "{alias}");
        }
        assert_eq!((name("a642l"), name("a630")), (Some("A643"), Some("A630")));
        assert_eq!((name("a740"), name("")), (None, None));
    }

    #[test]
    fn ids_of_kernels_are_found() {
        let name = |id| find(id).map(|chip| chip.name);
        // As a6xx_catalog.c has them.
        let known = [
            (0x0601_0000, "A610"),
            (0x0601_0800, "A618"),
            (0x0601_0901, "A619"),
            (0x0603_0001, "A630"),
            (0x0603_0002, "A630"),
            (0x0603_0500, "A643"),
            (0x0604_0001, "A640"),
            (0x0605_0002, "A650"),
            (0x0606_0001, "A660"),
            (0x0606_0201, "A662"),
            (0x0608_0001, "A680"),
            (0x0609_0000, "A690"),
            (0x0700_0200, "A702"),
        ];
        for (id, want) in known {
            assert_eq!(name(id), Ok(want), "{id:#x}");
        }
    }

    #[test]
    fn facts_follow_the_sub_generation() {
        let chip = |name| *CHIPS.iter().find(|chip| chip.name == name).unwrap();
        let a630 = chip("A630");
        assert_eq!((a630.gmem, a630.cores, a630.fibers), (1 << 20, 2, 2048));
        assert_eq!(a630.facts().registers, 96);
        assert_eq!(a630.facts().instruction_cache, 64);
        assert!(a630.double_threadsize && !a630.facts().lpac);
        let a610 = chip("A610");
        assert_eq!((a610.shared, a610.wave_granularity), (16 << 10, 1));
        assert!(!a610.double_threadsize);
        assert!(chip("A702").double_threadsize);
        // A650 has no LPAC, its successors have.
        let lpac: Vec<_> = CHIPS.iter().filter(|chip| chip.facts().lpac).collect();
        let names: Vec<_> = lpac.iter().map(|chip| chip.name).collect();
        assert_eq!(names, ["A643", "A660", "A662", "A663", "A690"]);
        assert!(lpac.iter().all(|chip| Gens::LPAC.has(chip.generation)));
        assert_eq!(chip("A650").facts().registers, 64);
        // The first is of the recorded program, which may have 1024.
        let groups = [(7, 1), (0, 0), (12, 0), (12, 1), (48, 0), (48, 48), (96, 2)];
        let most = groups.map(|(full, half)| a630.max_group(full, half, false));
        assert_eq!(most, [1024, 1024, 1024, 896, 256, 128, 0]);
        let double = groups.map(|(full, half)| a630.max_group(full, half, true));
        assert_eq!(double, [1024, 1024, 1024, 768, 256, 0, 0]);
        // 25 vectors leave one pair of waves.
        assert_eq!(a630.max_group(25, 0, true), 256);
        // As older versions of Mesa's table have them in numbers.
        let offsets = |name| {
            let chip = chip(name);
            (chip.ccu_offset_bypass(), chip.ccu_offset_gmem(chip.gmem))
        };
        assert_eq!(offsets("A618"), (0x10000, Some(0x7c000)));
        assert_eq!(offsets("A630"), (0x20000, Some(0xf8000)));
        assert_eq!(chip("A690").ccu_offset_gmem(0), None);
    }

    #[test]
    fn others_are_refused_by_name() {
        let text = |id| find(id).unwrap_err().to_string();
        assert_eq!(
            text(0x0703_0001),
            "Adreno 730 (chip id 0x07030001) is an Adreno 7xx: only Adreno 6xx is supported"
        );
        assert_eq!(
            text(0x4405_0001),
            "Adreno 830 (chip id 0x44050001) is an Adreno 8xx: only Adreno 6xx is supported"
        );
        let unnamed = Unsupported::Newer {
            name: "a GPU",
            family: "7xx",
            id: 0x43ff_0000,
        };
        assert_eq!(find(0x43ff_0000), Err(unnamed));
        let older = Unsupported::Older {
            core: 5,
            id: 0x0503_0002,
        };
        assert_eq!(find(0x0503_0002), Err(older));
        for id in [0x0607_0000, 0, 0xffff_ffff] {
            assert_eq!(find(id), Err(Unsupported::Unknown { id }));
        }
        for (id, _, name) in NEWER {
            assert!(text(*id).contains(name));
        }
    }
}
