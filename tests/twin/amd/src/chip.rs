//! The chips that can be chosen.
//!
//! Counts of units, IP versions and PCI ids: Linux, drivers/gpu/drm/amd (amdgpu_discovery.c,
//! amdkfd/kfd_device.c, amdkfd/kfd_crat.c, amdgpu_drv.c) and the topology files of such cards as
//! people have published them. Where two cards share a chip, the larger is meant. Versions of
//! firmware, clocks and capability masks vary from machine to machine; those of gfx1100 are of one
//! real machine, the others are plausible.

use twin_shader::isa::Gen;

/// Facts of a chip.
#[derive(Debug)]
pub struct Chip {
    /// LLVM's name, `gfx1100`.
    pub name: &'static str,
    /// What a person calls it.
    pub card: &'static str,
    /// The instruction set.
    pub generation: Gen,
    /// `gfx_target_version` of the topology: major * 10000 + minor * 100 + step.
    pub target_version: u32,
    /// Accelerated compute dies; 1 but for CDNA3 (1, 2, 4 or 8).
    pub xccs: u32,
    /// Shader engines of an XCC.
    pub engines: u32,
    /// Shader arrays of an engine.
    pub arrays: u32,
    /// Compute units of an array, working or not (`cu_per_simd_array`).
    pub cus_per_array: u32,
    /// Compute units of an XCC.
    pub cus: u32,
    /// SIMDs of a compute unit.
    pub simds: u32,
    /// Waves of a SIMD.
    pub waves: u32,
    /// Scratch slots of a compute unit.
    pub scratch_slots: u32,
    /// LDS of a compute unit in KiB.
    pub lds_kib: u32,
    /// VRAM in bytes.
    pub vram: u64,
    /// Width of the VRAM in bits.
    pub vram_bits: u32,
    /// L2 in KiB (of an XCC).
    pub l2_kib: u32,
    /// The cache behind L2 in KiB (Infinity Cache).
    pub l3_kib: u32,
    /// IP versions: GC, SDMA, NBIF, as major, minor, revision.
    pub gc: [u8; 3],
    /// SDMA's.
    pub sdma: [u8; 3],
    /// NBIF's.
    pub nbif: [u8; 3],
    /// SDMA engines.
    pub sdma_engines: u32,
    /// SDMA engines for XGMI.
    pub sdma_xgmi_engines: u32,
    /// Queues of an SDMA engine, before the kernel takes its own.
    pub sdma_queues: u32,
    /// Queues of an SDMA engine that the kernel keeps (for paging and for graphics).
    pub sdma_reserved: u32,
    /// `num_cp_queues`.
    pub cp_queues: u32,
    /// PCI device.
    pub device_id: u16,
    /// PCI revision.
    pub pci_revision: u8,
    /// `AMDGPU_FAMILY_*`.
    pub family: u32,
    /// `external_rev` of the family.
    pub external_revision: u32,
    /// The name of the topology node.
    pub node_name: &'static str,
    /// Clock of the shader engines in MHz.
    pub engine_mhz: u32,
    /// Clock of the memory in MHz.
    pub memory_mhz: u32,
    /// `fw_version`: of the MEC.
    pub mec_firmware: u32,
    /// `sdma_fw_version`.
    pub sdma_firmware: u32,
    /// `capability`.
    pub capability: u32,
    /// `debug_prop`.
    pub debug_prop: u64,
    /// In a hive of GPUs that XGMI connects.
    pub xgmi: bool,
}

const GIB: u64 = 1 << 30;

/// Radeon RX 7900 XTX.
pub static GFX1100: Chip = Chip {
    name: "gfx1100",
    card: "Radeon RX 7900 XTX",
    generation: Gen::Rdna3,
    target_version: 110000,
    xccs: 1,
    engines: 6,
    arrays: 2,
    cus_per_array: 8,
    cus: 96,
    simds: 2,
    waves: 16,
    scratch_slots: 32,
    lds_kib: 64,
    vram: 24 * GIB,
    vram_bits: 384,
    l2_kib: 6144,
    l3_kib: 96 << 10,
    gc: [11, 0, 0],
    sdma: [6, 0, 0],
    nbif: [4, 3, 0],
    sdma_engines: 2,
    sdma_xgmi_engines: 0,
    sdma_queues: 8,
    sdma_reserved: 2,
    cp_queues: 8,
    device_id: 0x744c,
    pci_revision: 0xc8,
    family: 145,
    external_revision: 1,
    node_name: "ip discovery",
    engine_mhz: 2482,
    memory_mhz: 1249,
    mec_firmware: 2140,
    sdma_firmware: 20,
    capability: 671588992,
    debug_prop: 1495,
    xgmi: false,
};

/// Radeon RX 7800 XT.
pub static GFX1101: Chip = Chip {
    name: "gfx1101",
    card: "Radeon RX 7800 XT",
    target_version: 110001,
    engines: 3,
    cus_per_array: 10,
    cus: 60,
    vram: 16 * GIB,
    vram_bits: 256,
    l2_kib: 4096,
    l3_kib: 64 << 10,
    gc: [11, 0, 3],
    sdma: [6, 0, 3],
    device_id: 0x747e,
    external_revision: 0x20,
    engine_mhz: 2254,
    memory_mhz: 1218,
    ..GFX1100
};

/// Radeon RX 7600.
pub static GFX1102: Chip = Chip {
    name: "gfx1102",
    card: "Radeon RX 7600",
    target_version: 110002,
    engines: 2,
    cus: 32,
    vram: 8 * GIB,
    vram_bits: 128,
    l2_kib: 2048,
    l3_kib: 32 << 10,
    gc: [11, 0, 2],
    sdma: [6, 0, 2],
    device_id: 0x7480,
    pci_revision: 0xcf,
    external_revision: 0x10,
    engine_mhz: 2356,
    memory_mhz: 1124,
    ..GFX1100
};

/// Radeon RX 9070 XT.
pub static GFX1201: Chip = Chip {
    name: "gfx1201",
    card: "Radeon RX 9070 XT",
    generation: Gen::Rdna4,
    target_version: 120001,
    engines: 4,
    cus: 64,
    vram: 16 * GIB,
    vram_bits: 256,
    l2_kib: 8192,
    l3_kib: 64 << 10,
    gc: [12, 0, 1],
    sdma: [7, 0, 1],
    nbif: [6, 3, 1],
    device_id: 0x7550,
    pci_revision: 0xc0,
    family: 152,
    external_revision: 0x50,
    engine_mhz: 2460,
    memory_mhz: 1258,
    mec_firmware: 3010,
    sdma_firmware: 841,
    ..GFX1100
};

/// Radeon RX 9060 XT.
pub static GFX1200: Chip = Chip {
    name: "gfx1200",
    card: "Radeon RX 9060 XT",
    target_version: 120000,
    engines: 2,
    cus: 32,
    vram_bits: 128,
    l2_kib: 4096,
    l3_kib: 32 << 10,
    gc: [12, 0, 0],
    sdma: [7, 0, 0],
    device_id: 0x7590,
    external_revision: 0x40,
    engine_mhz: 2700,
    ..GFX1201
};

/// Radeon RX 6900 XT.
pub static GFX1030: Chip = Chip {
    name: "gfx1030",
    card: "Radeon RX 6900 XT",
    generation: Gen::Rdna2,
    target_version: 100300,
    engines: 4,
    cus_per_array: 10,
    cus: 80,
    vram: 16 * GIB,
    vram_bits: 256,
    l2_kib: 4096,
    l3_kib: 128 << 10,
    gc: [10, 3, 0],
    sdma: [5, 2, 0],
    nbif: [3, 3, 0],
    sdma_engines: 4,
    sdma_reserved: 0,
    cp_queues: 32,
    device_id: 0x73bf,
    pci_revision: 0xc0,
    family: 143,
    external_revision: 0x29,
    node_name: "sienna_cichlid",
    engine_mhz: 2660,
    memory_mhz: 1000,
    mec_firmware: 104,
    sdma_firmware: 80,
    ..GFX1100
};

/// Radeon RX 6750 XT.
pub static GFX1031: Chip = Chip {
    name: "gfx1031",
    card: "Radeon RX 6750 XT",
    target_version: 100301,
    engines: 2,
    cus: 40,
    vram: 12 * GIB,
    vram_bits: 192,
    l2_kib: 3072,
    l3_kib: 96 << 10,
    gc: [10, 3, 2],
    sdma: [5, 2, 2],
    nbif: [3, 3, 1],
    sdma_engines: 2,
    device_id: 0x73df,
    external_revision: 0x32,
    node_name: "navy_flounder",
    ..GFX1030
};

/// Radeon RX 6600 XT.
pub static GFX1032: Chip = Chip {
    name: "gfx1032",
    card: "Radeon RX 6600 XT",
    target_version: 100302,
    engines: 2,
    cus_per_array: 8,
    cus: 32,
    vram: 8 * GIB,
    vram_bits: 128,
    l2_kib: 2048,
    l3_kib: 32 << 10,
    gc: [10, 3, 4],
    sdma: [5, 2, 4],
    nbif: [3, 3, 2],
    sdma_engines: 2,
    device_id: 0x73ff,
    external_revision: 0x3c,
    node_name: "dimgrey_cavefish",
    ..GFX1030
};

/// Radeon RX 6500 XT.
pub static GFX1034: Chip = Chip {
    name: "gfx1034",
    card: "Radeon RX 6500 XT",
    target_version: 100304,
    engines: 1,
    cus_per_array: 8,
    cus: 16,
    vram: 4 * GIB,
    vram_bits: 64,
    l2_kib: 1024,
    l3_kib: 16 << 10,
    gc: [10, 3, 5],
    sdma: [5, 2, 5],
    nbif: [3, 3, 3],
    sdma_engines: 1,
    device_id: 0x743f,
    external_revision: 0x46,
    node_name: "beige_goby",
    ..GFX1030
};

/// Radeon 780M, the GPU of an APU.
///
/// What newer kernels do on APUs is not modelled: they take what is asked for as VRAM from system memory
/// (Linux 6.10, amdgpu_amdkfd_gpuvm.c); nor the links of such a machine. VRAM is the part of memory that
/// the firmware has set aside; 4 GiB is one of the sizes.
pub static GFX1103: Chip = Chip {
    name: "gfx1103",
    card: "Radeon 780M",
    target_version: 110003,
    engines: 1,
    cus_per_array: 6,
    cus: 12,
    vram: 4 * GIB,
    vram_bits: 128,
    l2_kib: 2048,
    l3_kib: 0,
    gc: [11, 0, 1],
    sdma: [6, 0, 1],
    nbif: [7, 7, 0],
    sdma_engines: 1,
    device_id: 0x15bf,
    pci_revision: 0xc1,
    family: 148,
    external_revision: 1,
    engine_mhz: 2700,
    memory_mhz: 2800,
    ..GFX1100
};

/// Instinct MI300X as one GPU (SPX).
pub static GFX942: Chip = Chip {
    name: "gfx942",
    card: "Instinct MI300X (SPX)",
    generation: Gen::Cdna3,
    target_version: 90402,
    xccs: 8,
    engines: 4,
    arrays: 1,
    cus_per_array: 10,
    cus: 38,
    simds: 4,
    waves: 8,
    scratch_slots: 32,
    lds_kib: 64,
    vram: 192 * GIB,
    vram_bits: 8192,
    l2_kib: 4096,
    l3_kib: 256 << 10,
    gc: [9, 4, 3],
    sdma: [4, 4, 2],
    nbif: [7, 9, 0],
    sdma_engines: 2,
    sdma_xgmi_engines: 14,
    sdma_queues: 8,
    sdma_reserved: 0,
    cp_queues: 24,
    device_id: 0x74a1,
    pci_revision: 0,
    family: 141,
    external_revision: 0x46,
    node_name: "ip discovery",
    engine_mhz: 2100,
    memory_mhz: 1300,
    mec_firmware: 192,
    sdma_firmware: 25,
    capability: 671588992,
    debug_prop: 1511,
    xgmi: true,
};

/// One of the two GPUs as which an Instinct MI300X can show itself (DPX).
///
/// Source: Linux, amdgpu/aqua_vanjaram.c, the partition modes; amdkfd/kfd_topology.c,
/// kfd_get_num_sdma_engines: 16 engines are shared among the GPUs, all but 2 of each are for XGMI.
pub static GFX942_DPX: Chip = Chip {
    card: "Instinct MI300X (DPX)",
    xccs: 4,
    vram: 96 * GIB,
    sdma_xgmi_engines: 6,
    ..GFX942
};

/// One of the four GPUs as which an Instinct MI300X can show itself (QPX).
pub static GFX942_QPX: Chip = Chip {
    card: "Instinct MI300X (QPX)",
    xccs: 2,
    vram: 48 * GIB,
    sdma_xgmi_engines: 2,
    ..GFX942
};

/// One of the eight GPUs as which an Instinct MI300X can show itself (CPX).
pub static GFX942_CPX: Chip = Chip {
    card: "Instinct MI300X (CPX)",
    xccs: 1,
    vram: 24 * GIB,
    sdma_engines: 2,
    sdma_xgmi_engines: 0,
    ..GFX942
};

/// Every chip.
pub static CHIPS: &[&Chip] = &[
    &GFX1030,
    &GFX1031,
    &GFX1032,
    &GFX1034,
    &GFX1100,
    &GFX1101,
    &GFX1102,
    &GFX1103,
    &GFX1200,
    &GFX1201,
    &GFX942,
    &GFX942_DPX,
    &GFX942_QPX,
    &GFX942_CPX,
];

impl Chip {
    /// The chip of that name with that many XCCs (`None`: as many as it has as one GPU).
    pub fn find(name: &str, xccs: Option<u32>) -> Option<&'static Self> {
        let of_name = || CHIPS.iter().copied().filter(|chip| chip.name == name);
        match xccs {
            Some(xccs) => of_name().find(|chip| chip.xccs == xccs),
            None => of_name().max_by_key(|chip| chip.xccs),
        }
    }

    /// Compute units that work, of all XCCs.
    pub const fn all_cus(&self) -> u32 {
        self.cus * self.xccs
    }

    /// The vector cache of a compute unit (TCP, L0) in KiB.
    pub fn tcp_kib(&self) -> u32 {
        match self.generation {
            Gen::Rdna2 => 16,
            Gen::Rdna3 | Gen::Rdna4 | Gen::Cdna3 => 32,
        }
    }

    /// The cache of an array between L0 and L2 (GL1) in KiB, 0 where there is none.
    pub fn gl1_kib(&self) -> u32 {
        match self.generation {
            Gen::Rdna2 => 128,
            Gen::Rdna3 | Gen::Rdna4 => 256,
            Gen::Cdna3 => 0,
        }
    }

    /// Whether the command processor lets scratch be taken from queues that run (`ASYNC_RECLAIM`).
    ///
    /// Source: ROCR, amd_gpu_agent.h, AsyncScratchReclaimEnabled, GFX94X_MIN_CP_FW_VERSION_REQUIRED.
    pub fn reclaims_scratch(&self) -> bool {
        matches!(self.generation, Gen::Cdna3) && self.mec_firmware >= 177
    }

    /// `GB_ADDR_CONFIG`: how addresses spread over pipes. Nothing of compute depends on it.
    ///
    /// Source: Linux, gfx_v9_4_3.c, GOLDEN_GB_ADDR_CONFIG; Mesa, ac_surface_test_common.h, for the fields
    /// since GFX10: log2 of pipes in 2:0, of packers in 10:8, bit 6. Pipes here are as many as channels
    /// of L2, packers two of an array, both rounded up.
    pub fn gb_addr_config(&self) -> u32 {
        if matches!(self.generation, Gen::Cdna3) {
            return 0x2a11_4042;
        }
        let log2 = |n: u32| n.next_power_of_two().trailing_zeros();
        let (pipes, packers) = (self.l2_kib / 256, self.engines * self.arrays * 2);
        0x40 | log2(pipes) | log2(packers) << 8
    }

    /// Lanes of a wave, as the topology says it.
    pub const fn wave_front_size(&self) -> u32 {
        match self.generation {
            Gen::Cdna3 => 64,
            _ => 32,
        }
    }

    /// Bits of the compute units that work, of one array of an XCC. What is missing is missing from
    /// the last arrays.
    pub fn array_bits(&self, array: u32) -> u32 {
        let arrays = self.engines * self.arrays;
        let missing = arrays * self.cus_per_array - self.cus;
        // Whole WGPs are missing on RDNA.
        let unit = if self.wave_front_size() == 32 { 2 } else { 1 };
        let (steps, from_end) = (missing / unit, arrays - 1 - array);
        let here = steps / arrays + u32::from(from_end < steps % arrays);
        (1 << (self.cus_per_array - here * unit)) - 1
    }

    /// What the kernel wants of the buffers of a queue.
    pub fn queue_sizes(&self) -> QueueSizes {
        QueueSizes::of(self)
    }
}

/// Sizes of the buffers of a compute queue, which both sides compute from the topology.
///
/// Source: Linux 6.12, amdkfd/kfd_queue.c, `kfd_queue_ctx_save_restore_size`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSizes {
    /// Bytes of the control stack.
    pub ctl_stack: u32,
    /// Bytes of the context of an XCC: control stack and what work groups hold.
    pub context: u32,
    /// Bytes for the debugger, of an XCC.
    pub debug: u32,
    /// Bytes of the whole buffer, with the smallest context.
    pub buffer: u64,
    /// Bytes of the end-of-pipe buffer.
    pub eop: u64,
}

const PAGE: u64 = 4096;

impl QueueSizes {
    fn of(chip: &Chip) -> Self {
        let version = chip.target_version;
        let waves = if version < 100100 {
            // array_count counts the arrays of all XCCs.
            (chip.cus * 40).min(chip.engines * chip.xccs * 512)
        } else {
            chip.cus * 32
        };
        let vgprs = match version {
            90402 | 90010 | 90008 | 90500 => 0x80000,
            110000 | 110001 | 120000 | 120001 => 0x60000,
            _ => 0x40000,
        };
        let (sgprs, lds, registers) = (0x4000, 0x10000, 0x1000);
        let groups =
            (u64::from(chip.cus) * (vgprs + sgprs + lds + registers)).next_multiple_of(PAGE) as u32;
        // A header of 40 bytes, 8 more, and what each wave pushes.
        let per_wave = if version >= 100100 { 12 } else { 8 };
        let mut ctl_stack = (40 + 8 + waves * per_wave).next_multiple_of(PAGE as u32);
        if version / 10000 == 10 {
            ctl_stack = ctl_stack.min(0x7000);
        }
        let context = ctl_stack + groups;
        let debug = (waves * 32).next_multiple_of(64);
        Self {
            ctl_stack,
            context,
            debug,
            buffer: buffer_bytes(context, debug, chip.xccs),
            eop: PAGE,
        }
    }

    /// Bytes of the whole buffer, with a context of that size.
    pub fn buffer_with(&self, context: u32, xccs: u32) -> u64 {
        buffer_bytes(context, self.debug, xccs)
    }
}

fn buffer_bytes(context: u32, debug: u32, xccs: u32) -> u64 {
    // The kernel computes in 32 bits.
    let bytes = context.wrapping_add(debug).wrapping_mul(xccs);
    u64::from(bytes).next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_queues_as_in_traces() {
        let sizes = |chip: &Chip| {
            let s = chip.queue_sizes();
            (s.ctl_stack, s.context, s.debug, s.buffer)
        };
        assert_eq!(sizes(&GFX1030), (0x7000, 0x1a97000, 0x14000, 0x1aab000));
        assert_eq!(sizes(&GFX1100), (0xa000, 0x2bea000, 0x18000, 0x2c02000));
        assert_eq!(sizes(&GFX1101), (0x6000, 0x1b72000, 0xf000, 0x1b81000));
        assert_eq!(sizes(&GFX1201), (0x7000, 0x1d47000, 0x10000, 0x1d57000));
        assert_eq!(sizes(&GFX942), (0x3000, 0x1621000, 0xbe00, 0xb167000));
    }

    #[test]
    fn working_units_add_up() {
        for chip in CHIPS {
            let sum: u32 = (0..chip.engines * chip.arrays)
                .map(|array| chip.array_bits(array).count_ones())
                .sum();
            assert_eq!(sum, chip.cus, "{}", chip.card);
        }
    }

    #[test]
    fn chips_are_found_by_name_and_dies() {
        let xccs = |name, xccs| Chip::find(name, xccs).map(|chip| chip.xccs);
        assert_eq!(xccs("gfx942", None), Some(8));
        for n in [1, 2, 4, 8] {
            assert_eq!(xccs("gfx942", Some(n)), Some(n));
        }
        assert_eq!(xccs("gfx942", Some(3)), None);
        assert_eq!(xccs("gfx1100", Some(8)), None);
        assert_eq!(xccs("gfx9", None), None);
    }
}
