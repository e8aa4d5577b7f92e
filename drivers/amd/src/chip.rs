//! What differs between chips, as data.
//!
//! A [`Chip`] names the facts of one target of LLVM; a [`Generation`] those that all chips of a
//! generation of packets share. Sequences ask these, never a version.
//!
//! Sources: LLVM, AMDGPUUsage (targets, `EF_AMDGPU_MACH`, memory models); Linux,
//! drivers/gpu/drm/amd/amdkfd/{kfd_device.c, kfd_queue.c} (versions, sizes of queues),
//! amdgpu/{gfx_v9_4_3.c, gfx_v10_0.c, gfx_v11_0.c, gfx_v12_0.c} (cache actions of fences and of memory
//! syncs); Mesa, radv_cp_dma.c (copies of the command processor); ROCR, amd_aql_queue.cpp,
//! amd_blit_sdma.cpp (scratch, copy queues). Bits and registers: `drivers_spec::amd`.

use drivers_spec::amd::packet::{Field, Gfx};
use drivers_spec::amd::pm4::{acquire, release};
use drivers_spec::amd::{pm4, regs, sdma};

/// A chip, as LLVM names it.
#[derive(Debug)]
pub struct Chip {
    /// LLVM's name: `gfx1100`.
    pub name: &'static str,
    /// `gfx_target_version` of the topology: major * 10000 + minor * 100 + step.
    pub target_version: u32,
    /// `EF_AMDGPU_MACH` in the flags of its ELF files.
    pub mach: u32,
    /// What its packets look like.
    pub generation: &'static Generation,
    /// Lanes of a wave that compilers may choose.
    pub wave_sizes: &'static [u32],
    /// Bytes of vector registers of a compute unit that a context save stores.
    pub vgpr_bytes: u32,
    /// Bytes of LDS of a workgroup at most.
    pub lds_bytes: u32,
    /// The default packets of its compute queues.
    pub compute: Language,
}

/// The packets that a queue takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// PM4: runs on one XCC; on several where each has a queue of its own.
    Pm4,
    /// AQL: hardware spreads a dispatch over all XCCs.
    Aql,
    /// SDMA: the packets of copy engines.
    Sdma,
}

/// How ACQUIRE_MEM names the caches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AcquireForm {
    /// COHER_CNTL in the first dword.
    CoherCntl,
    /// GCR_CNTL in the last dword.
    GcrCntl,
}

/// Where a kernel gets the address of its scratch memory from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScratchBase {
    /// From COMPUTE_DISPATCH_SCRATCH_BASE.
    Register,
    /// From SGPRs: a buffer resource, or what flat scratch is initialised with.
    Sgprs,
}

/// What the chips of a generation share.
#[derive(Debug)]
pub struct Generation {
    /// The tables of packets and registers.
    pub gfx: Gfx,
    /// The form of ACQUIRE_MEM.
    pub acquire: AcquireForm,
    /// Cache actions that make the queue's writes visible to its next kernel: vector and scalar
    /// caches, and the caches between them and GL2.
    pub acquire_queue: u32,
    /// The same from outside of the queue: everything, with GL2 and the instruction cache.
    pub acquire_system: u32,
    /// Write-back and invalidation of GL2 alone.
    pub acquire_gl2: u32,
    /// Clocks between two looks of ACQUIRE_MEM, in units of 16.
    pub acquire_interval: u32,
    /// Event dword of a RELEASE_MEM that writes GL2 back first.
    pub release_system: u32,
    /// There is a wait that compares 64 bits.
    pub wait64: bool,
    /// Maximum bytes of one DMA_DATA, a multiple of its preferred size.
    pub dma_max: u32,
    /// DMA_DATA goes through GL2. Else it copies below it.
    pub dma_through_gl2: bool,
    /// Workgroups of a dispatch in x, y, z at most.
    pub grid_max: [u32; 3],
    /// Address of COMPUTE_PGM_RSRC3.
    pub pgm_rsrc3: u32,
    /// Bits that a driver sets in COMPUTE_PGM_RSRC1.
    pub rsrc1_set: u32,
    /// DISPATCH_INITIATOR of a kernel with waves of 64.
    pub initiator: u32,
    /// What waves of 32 add.
    pub initiator_wave32: u32,
    /// Bytes of the unit of RSRC2.LDS_SIZE.
    pub lds_granule: u32,
    /// The register of the scratch address.
    pub scratch_base: ScratchBase,
    /// Word 3 of a buffer resource of scratch, but for the stride of its index. `None` where
    /// kernels reach scratch by its registers only.
    pub scratch_resource: Option<u32>,
    /// The field of TMPRING_SIZE that holds the scratch of a wave.
    pub tmpring_wavesize: Field,
    /// Bytes of the unit of that field.
    pub scratch_granule: u32,
    /// TMPRING_SIZE counts the waves of a shader engine, not those of an XCC.
    pub tmpring_per_engine: bool,
    /// Registers that ask for a flush of the HDP, and that say that it is done.
    pub hdp_flush: [u32; 2],
    /// Bytes of one linear copy or fill of SDMA at most.
    pub sdma_bytes_max: u64,
    /// Header of SDMA's FENCE, whose write must reach memory.
    pub sdma_fence: u32,
    /// SDMA's packet that acts on caches, where there is one.
    pub sdma_gcr: Option<u32>,
    /// How large what a context save stores is.
    pub save: Save,
}

/// What a context save needs besides registers and LDS.
#[derive(Debug)]
pub struct Save {
    /// Waves of a compute unit.
    pub waves_per_cu: u32,
    /// Waves of a shader engine at most.
    pub waves_per_engine: u32,
    /// Bytes of the control stack per wave.
    pub stack_per_wave: u32,
    /// Bytes of the control stack at most.
    pub stack_max: u32,
}

/// L0, scalar cache, GL1, metadata: the caches between a kernel and GL2.
const GCR_QUEUE: u32 = acquire::GLM_WB.put(1)
    | acquire::GLM_INV.put(1)
    | acquire::GLK_WB.put(1)
    | acquire::GLK_INV.put(1)
    | acquire::GLV_INV.put(1)
    | acquire::GL1_INV.put(1);

const GCR_GL2: u32 = acquire::GL2_INV.put(1) | acquire::GL2_WB.put(1);

/// Everything. GFX12 has neither metadata cache nor GL1; the kernel driver sets their bits all the
/// same.
const GCR_SYSTEM: u32 = GCR_QUEUE | GCR_GL2 | acquire::GLI_INV.put(1);

/// An end-of-pipe event without a cache action.
pub(crate) const END_OF_PIPE: u32 = release::EVENT_TYPE.put(pm4::CACHE_FLUSH_AND_INV_TS_EVENT)
    | release::EVENT_INDEX.put(pm4::EVENT_INDEX_END_OF_PIPE);

const INITIATOR: u32 = regs::COMPUTE_SHADER_EN.put(1) | regs::FORCE_START_AT_000.put(1);

/// Word 3 of a buffer resource: DST_SEL x, y, z, w (11:0), FORMAT 32_UINT (17:12), ADD_TID_ENABLE
/// (23), OOB_SELECT 2, nothing is out of bounds (29:28).
/// Source: ROCR, amd_aql_queue.cpp, InitScratchSRD; RDNA2 and RDNA3 ISA, buffer resource descriptor.
const SCRATCH_RESOURCE: u32 = 0xfac | 0x14 << 12 | 1 << 23 | 2 << 28;
/// Bit 24 of the same word, which only GFX10 has.
const RESOURCE_LEVEL: u32 = 1 << 24;

const fn sdma_fence(gfx: Gfx) -> u32 {
    let mtype = match gfx {
        Gfx::Gfx9 => 0,
        Gfx::Gfx10 | Gfx::Gfx11 | Gfx::Gfx12 => sdma::FENCE_MTYPE.put(sdma::MTYPE_UC),
    };
    sdma::FENCE as u32 | mtype
}

const GFX11: Generation = Generation {
    gfx: Gfx::Gfx11,
    acquire: AcquireForm::GcrCntl,
    acquire_queue: GCR_QUEUE,
    acquire_system: GCR_SYSTEM,
    acquire_gl2: GCR_GL2,
    acquire_interval: 0,
    release_system: END_OF_PIPE
        | release::GLM_WB.put(1)
        | release::GLM_INV.put(1)
        | release::GLV_INV.put(1)
        | release::GL1_INV.put(1)
        | release::GL2_INV.put(1)
        | release::GL2_WB.put(1)
        | release::SEQ.put(1),
    wait64: true,
    // The count has 15 bits on the command processors of GFX11.
    dma_max: 0x7fe0,
    dma_through_gl2: true,
    grid_max: [i32::MAX as u32; 3],
    pgm_rsrc3: regs::pgm_rsrc3(Gfx::Gfx11),
    // Context save works only in privileged waves, as far as is known.
    rsrc1_set: regs::PRIV.put(1),
    initiator: INITIATOR,
    initiator_wave32: regs::CS_W32_EN.put(1),
    lds_granule: regs::LDS_GRANULE,
    scratch_base: ScratchBase::Register,
    scratch_resource: Some(SCRATCH_RESOURCE),
    tmpring_wavesize: regs::wavesize(Gfx::Gfx11).0,
    scratch_granule: regs::wavesize(Gfx::Gfx11).1,
    tmpring_per_engine: true,
    hdp_flush: [regs::GPU_HDP_FLUSH_REQ, regs::GPU_HDP_FLUSH_DONE],
    sdma_bytes_max: sdma::COUNT_MAX,
    sdma_fence: sdma_fence(Gfx::Gfx11),
    sdma_gcr: Some(sdma::GCR_USER as u32),
    save: Save {
        waves_per_cu: 32,
        waves_per_engine: u32::MAX,
        stack_per_wave: 12,
        stack_max: u32::MAX,
    },
};

static GEN11: Generation = GFX11;

static GEN12: Generation = Generation {
    gfx: Gfx::Gfx12,
    dma_through_gl2: false,
    // A wave gets y and z in one register of 32 bits.
    grid_max: [i32::MAX as u32, 0xffff, 0xffff],
    pgm_rsrc3: regs::pgm_rsrc3(Gfx::Gfx12),
    rsrc1_set: 0,
    tmpring_wavesize: regs::wavesize(Gfx::Gfx12).0,
    scratch_granule: regs::wavesize(Gfx::Gfx12).1,
    sdma_fence: sdma_fence(Gfx::Gfx12),
    ..GFX11
};

static GEN10: Generation = Generation {
    gfx: Gfx::Gfx10,
    dma_max: 0x3ff_ffe0,
    pgm_rsrc3: regs::pgm_rsrc3(Gfx::Gfx10),
    rsrc1_set: 0,
    scratch_base: ScratchBase::Sgprs,
    scratch_resource: Some(SCRATCH_RESOURCE | RESOURCE_LEVEL),
    tmpring_wavesize: regs::wavesize(Gfx::Gfx10).0,
    scratch_granule: regs::wavesize(Gfx::Gfx10).1,
    tmpring_per_engine: false,
    sdma_fence: sdma_fence(Gfx::Gfx10),
    save: Save {
        stack_max: 0x7000,
        ..GFX11.save
    },
    ..GFX11
};

static GEN9: Generation = Generation {
    gfx: Gfx::Gfx9,
    acquire: AcquireForm::CoherCntl,
    acquire_queue: acquire::TCL1_ACTION_ENA.put(1) | acquire::SH_KCACHE_ACTION_ENA.put(1),
    acquire_system: acquire::TC_WB_ACTION_ENA.put(1)
        | acquire::TC_ACTION_ENA.put(1)
        | acquire::TCL1_ACTION_ENA.put(1)
        | acquire::SH_KCACHE_ACTION_ENA.put(1)
        | acquire::SH_ICACHE_ACTION_ENA.put(1),
    acquire_gl2: acquire::TC_WB_ACTION_ENA.put(1) | acquire::TC_ACTION_ENA.put(1),
    acquire_interval: 10,
    release_system: END_OF_PIPE | release::TC_WB_ACTION_EN.put(1) | release::TC_NC_ACTION_EN.put(1),
    wait64: false,
    dma_max: 0x3ff_ffe0,
    dma_through_gl2: true,
    pgm_rsrc3: regs::pgm_rsrc3(Gfx::Gfx9),
    rsrc1_set: 0,
    initiator_wave32: 0,
    scratch_resource: None,
    tmpring_wavesize: regs::wavesize(Gfx::Gfx9).0,
    scratch_granule: regs::wavesize(Gfx::Gfx9).1,
    tmpring_per_engine: false,
    // The engine takes 1 GiB; ROCR went back to 4 MiB, since large packets are slower there
    // ("Disable large copies for gfx94x").
    sdma_bytes_max: 1 << 22,
    sdma_fence: sdma_fence(Gfx::Gfx9),
    sdma_gcr: None,
    save: Save {
        waves_per_cu: 40,
        waves_per_engine: 512,
        stack_per_wave: 8,
        stack_max: u32::MAX,
    },
    ..GFX11
};

/// gfx1030: Radeon RX 6800 to 6950 (RDNA2).
pub static GFX1030: Chip = RDNA2;

const RDNA2: Chip = Chip {
    name: "gfx1030",
    target_version: 100300,
    mach: 0x36,
    generation: &GEN10,
    wave_sizes: &[32, 64],
    vgpr_bytes: 0x40000,
    lds_bytes: 0x10000,
    compute: Language::Pm4,
};

/// gfx1031: Radeon RX 6700 and 6750 (RDNA2).
pub static GFX1031: Chip = Chip {
    name: "gfx1031",
    target_version: 100301,
    mach: 0x37,
    ..RDNA2
};

/// gfx1032: Radeon RX 6600 and 6650 (RDNA2).
pub static GFX1032: Chip = Chip {
    name: "gfx1032",
    target_version: 100302,
    mach: 0x38,
    ..RDNA2
};

/// gfx1034: Radeon RX 6400 and 6500 (RDNA2).
pub static GFX1034: Chip = Chip {
    name: "gfx1034",
    target_version: 100304,
    mach: 0x3e,
    ..RDNA2
};

/// gfx1100: Radeon RX 7900 (RDNA3).
pub static GFX1100: Chip = RDNA3;

const RDNA3: Chip = Chip {
    name: "gfx1100",
    target_version: 110000,
    mach: 0x41,
    generation: &GEN11,
    wave_sizes: &[32, 64],
    vgpr_bytes: 0x60000,
    lds_bytes: 0x10000,
    compute: Language::Pm4,
};

/// gfx1101: Radeon RX 7700 and 7800 (RDNA3).
pub static GFX1101: Chip = Chip {
    name: "gfx1101",
    target_version: 110001,
    mach: 0x46,
    ..RDNA3
};

/// gfx1102: Radeon RX 7600 (RDNA3).
pub static GFX1102: Chip = Chip {
    name: "gfx1102",
    target_version: 110002,
    mach: 0x47,
    vgpr_bytes: 0x40000,
    ..RDNA3
};

/// gfx1103: Radeon 740M to 780M (RDNA3).
pub static GFX1103: Chip = Chip {
    name: "gfx1103",
    target_version: 110003,
    mach: 0x44,
    vgpr_bytes: 0x40000,
    ..RDNA3
};

/// gfx1200: Radeon RX 9060 (RDNA4).
pub static GFX1200: Chip = Chip {
    name: "gfx1200",
    target_version: 120000,
    mach: 0x48,
    generation: &GEN12,
    ..RDNA3
};

/// gfx1201: Radeon RX 9070 (RDNA4).
pub static GFX1201: Chip = Chip {
    name: "gfx1201",
    target_version: 120001,
    mach: 0x4e,
    generation: &GEN12,
    ..RDNA3
};

/// gfx942: Instinct MI300 (CDNA3).
pub static GFX942: Chip = Chip {
    name: "gfx942",
    target_version: 90402,
    mach: 0x4c,
    generation: &GEN9,
    wave_sizes: &[64],
    vgpr_bytes: 0x80000,
    lds_bytes: 0x10000,
    compute: Language::Aql,
};

/// Every chip.
pub static CHIPS: &[&Chip] = &[
    &GFX942, &GFX1030, &GFX1031, &GFX1032, &GFX1034, &GFX1100, &GFX1101, &GFX1102, &GFX1103,
    &GFX1200, &GFX1201,
];

impl Chip {
    /// The chip with that name.
    pub fn by_name(name: &str) -> Option<&'static Chip> {
        CHIPS.iter().copied().find(|chip| chip.name == name)
    }

    /// The chip with that `gfx_target_version`.
    pub fn by_version(target_version: u32) -> Option<&'static Chip> {
        let of = |chip: &&&Chip| chip.target_version == target_version;
        CHIPS.iter().find(of).copied()
    }
}

/// LLVM's name of a `gfx_target_version`, also of one that is not supported: minor and step are
/// hexadecimal digits, so that 90010 is gfx90a.
pub fn target_name(version: u32) -> String {
    let (major, minor, step) = (version / 10000, version / 100 % 100, version % 100);
    format!("gfx{major}{minor:x}{step:x}")
}

/// The units of a GPU from the topology. Counts are totals of all XCCs, as the
/// kernel driver reports them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Units {
    /// `simd_count`.
    pub simds: u32,
    /// `simd_per_cu`.
    pub simds_per_cu: u32,
    /// `num_xcc`; 1 where the kernel driver does not tell it.
    pub xccs: u32,
    /// `array_count`.
    pub arrays: u32,
    /// `simd_arrays_per_engine`.
    pub arrays_per_engine: u32,
    /// `max_slots_scratch_cu`.
    pub scratch_slots: u32,
    /// `lds_size_in_kb`.
    pub lds_kib: u32,
}

impl Units {
    /// Compute units of an XCC.
    pub fn cus(&self) -> u32 {
        self.simds / self.simds_per_cu.max(1) / self.xccs.max(1)
    }

    /// Shader engines of an XCC.
    pub fn engines(&self) -> u32 {
        (self.arrays / self.arrays_per_engine.max(1) / self.xccs.max(1)).max(1)
    }
}

/// Sizes of the buffers of a compute queue, which the kernel driver checks.
///
/// Source: Linux 6.12, amdkfd/kfd_queue.c, `kfd_queue_ctx_save_restore_size`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSizes {
    /// Bytes of the control stack: exactly.
    pub ctl_stack: u32,
    /// Bytes that the context of an XCC takes: at least.
    pub context: u32,
    /// Bytes for the debugger, of an XCC.
    pub debug: u32,
    /// Bytes of the whole buffer: exactly.
    pub buffer: u64,
    /// Bytes of the end-of-pipe buffer: exactly.
    pub end_of_pipe: u64,
}

/// The page that these sizes are rounded to, whatever the host's page is.
const GPU_PAGE: u64 = 4096;

impl QueueSizes {
    /// The sizes for a chip with these units. `None` if they do not fit the 32 bits that the kernel
    /// driver computes in: the topology is not one of hardware.
    pub fn new(chip: &Chip, units: &Units) -> Option<QueueSizes> {
        /// Bytes of scalar registers and of hardware registers of a compute unit.
        const SGPRS_AND_STATE: u64 = 0x4000 + 0x1000;
        /// Bytes of the header of the control stack, and of the data before the first wave.
        const STACK_HEADER: u64 = 40 + 8;
        let save = &chip.generation.save;
        let cus = u64::from(units.cus());
        let waves = (cus * u64::from(save.waves_per_cu))
            .min(u64::from(units.engines() * units.xccs.max(1)) * u64::from(save.waves_per_engine));
        let ctl_stack = (waves * u64::from(save.stack_per_wave) + STACK_HEADER)
            .next_multiple_of(GPU_PAGE)
            .min(u64::from(save.stack_max));
        let per_cu = u64::from(chip.vgpr_bytes) + u64::from(chip.lds_bytes) + SGPRS_AND_STATE;
        let context = ctl_stack + (cus * per_cu).next_multiple_of(GPU_PAGE);
        let debug = (waves * 32).next_multiple_of(64);
        let buffer = (context + debug) * u64::from(units.xccs.max(1));
        Some(QueueSizes {
            ctl_stack: u32::try_from(ctl_stack).ok()?,
            context: u32::try_from(context).ok()?,
            debug: u32::try_from(debug).ok()?,
            buffer: u64::from(u32::try_from(buffer).ok()?).next_multiple_of(GPU_PAGE),
            end_of_pipe: GPU_PAGE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(cus: u32, xccs: u32, arrays: u32, arrays_per_engine: u32) -> Units {
        let simds_per_cu = if xccs > 1 { 4 } else { 2 };
        Units {
            simds: cus * simds_per_cu * xccs,
            simds_per_cu,
            xccs,
            arrays,
            arrays_per_engine,
            scratch_slots: 32,
            lds_kib: 64,
        }
    }

    #[test]
    fn queue_sizes_are_those_that_the_kernel_driver_accepts() {
        let sizes = |chip: &Chip, units: Units| {
            let s = QueueSizes::new(chip, &units).unwrap();
            (s.ctl_stack, s.context, s.debug, s.buffer)
        };
        // From traces of cards (6900 XT, 7900 XTX), and the formula for the others.
        let deck = Chip {
            target_version: 100303,
            ..GFX1030_COPY
        };
        assert_eq!(
            sizes(&GFX1030, units(80, 1, 8, 2)),
            (0x7000, 0x1a97000, 0x14000, 0x1aab000)
        );
        assert_eq!(
            sizes(&deck, units(8, 1, 2, 2)),
            (0x1000, 0x2a9000, 0x2000, 0x2ab000)
        );
        assert_eq!(
            sizes(&GFX1100, units(96, 1, 12, 2)),
            (0xa000, 0x2bea000, 0x18000, 0x2c02000)
        );
        assert_eq!(
            sizes(&GFX1101, units(60, 1, 6, 2)),
            (0x6000, 0x1b72000, 0xf000, 0x1b81000)
        );
        assert_eq!(
            sizes(&GFX1103, units(12, 1, 2, 2)),
            (0x2000, 0x3fe000, 0x3000, 0x401000)
        );
        assert_eq!(
            sizes(&GFX1201, units(64, 1, 8, 2)),
            (0x7000, 0x1d47000, 0x10000, 0x1d57000)
        );
        assert_eq!(
            sizes(&GFX942, units(38, 8, 32, 1)),
            (0x3000, 0x1621000, 0xbe00, 0xb167000)
        );
    }

    /// gfx1033 differs from gfx1030 in nothing that counts here.
    const GFX1030_COPY: Chip = Chip {
        name: "gfx1033",
        target_version: 100303,
        mach: 0x39,
        generation: &GEN10,
        wave_sizes: &[32, 64],
        vgpr_bytes: 0x40000,
        lds_bytes: 0x10000,
        compute: Language::Pm4,
    };

    #[test]
    fn a_topology_that_no_hardware_has_is_no_panic() {
        let zero = Units {
            simds: 0,
            simds_per_cu: 0,
            xccs: 0,
            arrays: 0,
            arrays_per_engine: 0,
            scratch_slots: 0,
            lds_kib: 0,
        };
        assert!(QueueSizes::new(&GFX1100, &zero).is_some());
        let huge = Units {
            simds: u32::MAX,
            simds_per_cu: 1,
            ..zero
        };
        assert_eq!(QueueSizes::new(&GFX1100, &huge), None);
    }

    #[test]
    fn chips_are_found_by_what_names_them() {
        for chip in CHIPS {
            assert_eq!(target_name(chip.target_version), chip.name);
            let found = [
                Chip::by_name(chip.name),
                Chip::by_version(chip.target_version),
            ];
            assert!(found.iter().all(|f| f.is_some_and(|f| f.name == chip.name)));
        }
        assert!(Chip::by_name("gfx90a").is_none());
        assert_eq!(target_name(90010), "gfx90a");
    }

    /// The words that another driver, which has run on cards, uses.
    #[test]
    fn cache_actions_are_the_known_ones() {
        assert_eq!(GEN11.acquire_system, 0xc3f1);
        assert_eq!(GEN12.acquire_queue, 0x3f0);
        assert_eq!(GEN11.release_system, 0x70f514);
        assert_eq!(GEN9.acquire_system, 0x28c4_0000);
        assert_eq!(GEN9.acquire_queue, 0x0840_0000);
        assert_eq!(GEN9.release_system, 0x88514);
        assert_eq!(END_OF_PIPE, 0x514);
        assert_eq!(GEN10.sdma_fence, 0x30005);
        assert_eq!(GEN11.initiator | GEN11.initiator_wave32, 0x8005);
    }
}
