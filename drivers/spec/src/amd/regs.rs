//! Registers that a compute queue writes, as dword addresses in the space of SET_SH_REG,
//! SET_UCONFIG_REG, WAIT_REG_MEM and COPY_DATA.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/asic_reg/gc/gc_{9_4_3,10_3_0,11_0_0,12_0_0}_{offset,
//! sh_mask}.h, nbio/nbio_{4_3_0,7_9_0}_offset.h, nbif/nbif_6_3_1_offset.h. The addresses of
//! GFX9, 10, 11 and 12 agree where a row gives one.

use hcq::reg::At;

use super::packet::{Field, Gfx, Gfxs, Word, words};

/// A register.
pub type Reg = hcq::reg::Register<Gfxs>;

words! {
    /// Starts a grid.
    DISPATCH_INITIATOR "COMPUTE_DISPATCH_INITIATOR" {
        /// Shaders run. Without it nothing is started.
        COMPUTE_SHADER_EN 0 0;
        /// The last workgroup in a dimension may be partial.
        PARTIAL_TG_EN 1 1;
        /// Starts at group 0, whatever START_X, _Y and _Z say.
        FORCE_START_AT_000 2 2;
        /// Ordered append.
        ORDERED_APPEND_ENBL 3 3;
        /// Ordered append.
        ORDERED_APPEND_MODE 4 4;
        /// Dimensions are in work-items, not in workgroups.
        USE_THREAD_DIMENSIONS 5 5;
        /// Order in which workgroups start.
        ORDER_MODE 6 6;
        /// Invalidates volatile lines of the scalar cache.
        SCALAR_L1_INV_VOL 10 10;
        /// Invalidates volatile lines of the vector cache.
        VECTOR_L1_INV_VOL 11 11;
        /// Alternates the order of workgroups.
        PING_PONG_EN 12 12 on GFX12;
        /// A tunnelled dispatch.
        TUNNEL_ENABLE 13 13 on GFX10_UP;
        /// Restores from a context save.
        RESTORE 14 14;
        /// Waves of 32 lanes.
        CS_W32_EN 15 15 on GFX10_UP;
        /// Amplification shader.
        AMP_SHADER_EN 16 16 on GFX11_UP;
        /// Not preempted inside of the dispatch.
        DISABLE_DISP_PREEMPT_EN 17 17 on GFX10_UP;
        /// Workgroups in two-dimensional tiles.
        INTERLEAVE_2D_EN 18 18 on GFX12;
        /// The queue in a thread trace.
        TTRACE_QUEUE_ID 31 29 on GFX12;
    }
    /// Work-items of a workgroup in x and y.
    NUM_THREAD "COMPUTE_NUM_THREAD" {
        /// Work-items.
        NUM_THREAD_FULL 15 0 on TO_GFX11;
        /// Work-items.
        NUM_THREAD_FULL_12 12 0 on GFX12;
        /// How ids are interleaved: 0 not at all.
        INTERLEAVE_BITS 15 13 on GFX12;
        /// Work-items of the last workgroup where it is partial.
        NUM_THREAD_PARTIAL 31 16;
    }
    /// Work-items of a workgroup in z.
    NUM_THREAD_Z "COMPUTE_NUM_THREAD_Z" {
        /// Work-items.
        NUM_THREAD_Z_FULL 15 0;
        /// Work-items of the last workgroup where it is partial.
        NUM_THREAD_Z_PARTIAL 31 16;
    }
    /// A register of one bit.
    ENABLE "COMPUTE_ENABLE" {
        /// On.
        ENABLE_BIT 0 0;
    }
    /// Bits 47:40 of an address.
    HIGH8 "COMPUTE_HI" {
        /// The bits.
        HIGH8_DATA 7 0;
    }
    /// Registers, modes.
    RSRC1 "COMPUTE_PGM_RSRC1" {
        /// VGPRs, in the granule of the generation, less one.
        VGPRS 5 0;
        /// SGPRs, in the granule of the generation, less one; 0 from GFX10 on.
        SGPRS 9 6;
        /// Priority.
        PRIORITY 11 10;
        /// Rounding of f32, of f64 and f16, denormals of f32, of f64 and f16.
        FLOAT_MODE 19 12;
        /// Privileged.
        PRIV 20 20;
        /// Clamps NaN to zero.
        DX10_CLAMP 21 21 on TO_GFX11;
        /// Workgroups start round robin.
        WG_RR_EN 21 21 on GFX12;
        /// Debug mode.
        DEBUG_MODE 22 22;
        /// IEEE rules for NaN.
        IEEE_MODE 23 23 on TO_GFX11;
        /// Performance counters do not count it.
        DISABLE_PERF 23 23 on GFX12;
        /// At most one workgroup of a compute unit.
        BULKY 24 24;
        /// For debuggers.
        CDBG_USER 25 25;
        /// f16 overflows to the largest number.
        FP16_OVFL 26 26;
        /// A workgroup spreads over both compute units of a WGP.
        WGP_MODE 29 29 on GFX10_UP;
        /// Loads come back in order.
        MEM_ORDERED 30 30 on GFX10_UP;
        /// Older waves go first.
        FWD_PROGRESS 31 31 on GFX10_UP;
    }
    /// Scratch, SGPRs, LDS.
    RSRC2 "COMPUTE_PGM_RSRC2" {
        /// Waves have scratch.
        SCRATCH_EN 0 0;
        /// How many SGPRs are loaded from USER_DATA.
        USER_SGPR 5 1;
        /// A trap handler is there.
        TRAP_PRESENT 6 6 on TO_GFX11;
        /// VGPRs are allocated while a wave runs.
        DYNAMIC_VGPR 6 6 on GFX12;
        /// An SGPR with the x of the workgroup.
        TGID_X_EN 7 7;
        /// An SGPR with the y of the workgroup.
        TGID_Y_EN 8 8;
        /// An SGPR with the z of the workgroup.
        TGID_Z_EN 9 9;
        /// An SGPR with the size of the workgroup.
        TG_SIZE_EN 10 10;
        /// Work-item ids in VGPRs: 0 x, 1 x and y, 2 all.
        TIDIG_COMP_CNT 12 11;
        /// Exceptions: address watch, memory violation.
        EXCP_EN_MSB 14 13;
        /// LDS of a workgroup in units of 512 bytes.
        LDS_SIZE 23 15;
        /// Exceptions.
        EXCP_EN 30 24;
        /// Skips SGPR 0.
        SKIP_USGPR0 31 31 on GFX9;
        /// Takes over a WGP.
        WGP_TAKEOVER 31 31 on GFX12;
    }
    /// More of the same.
    RSRC3 "COMPUTE_PGM_RSRC3" {
        /// The first accumulation VGPR, in units of 4, less one.
        ACCUM_OFFSET 5 0 on GFX9;
        /// Waves of a workgroup may spread over compute units.
        TG_SPLIT 16 16 on GFX9;
        /// VGPRs that both halves of a wave of 64 share.
        SHARED_VGPR_CNT 3 0 on GFX10_UP;
        /// How much of the code is prefetched, in units of 128 bytes.
        INST_PREF_SIZE 9 4 on GFX11;
        /// How much of the code is prefetched, in units of 128 bytes.
        INST_PREF_SIZE_12 11 4 on GFX12;
        /// Traps at the start.
        TRAP_ON_START 10 10 on TO_GFX11;
        /// Traps at the end.
        TRAP_ON_END 11 11 on TO_GFX11;
        /// Groups of groups.
        GLG_EN 13 13 on GFX12;
        /// The kernel has image instructions.
        IMAGE_OP 31 31 on GFX11_UP;
    }
    /// Limits of a queue.
    RESOURCE_LIMITS "COMPUTE_RESOURCE_LIMITS" {
        /// Waves of a shader array, 0 for no limit.
        WAVES_PER_SH 9 0;
        /// Workgroups of a compute unit, 0 for no limit.
        TG_PER_CU 15 12;
        /// When a queue locks compute units.
        LOCK_THRESHOLD 21 16;
        /// Where waves go.
        SIMD_DEST_CNTL 22 22;
        /// Waves go to all SIMDs.
        FORCE_SIMD_DIST 23 23;
        /// Compute units that are filled together.
        CU_GROUP_COUNT 26 24;
        /// SIMDs that are not used.
        SIMD_DISABLE 30 27 on GFX9;
    }
    /// How much scratch there is.
    TMPRING_SIZE "COMPUTE_TMPRING_SIZE" {
        /// Waves that may have scratch at a time: in an XCC, or from GFX11 on in a shader engine.
        WAVES 11 0;
        /// Scratch of a wave, in units of 1024 bytes.
        WAVESIZE_GFX9 24 12 on TO_GFX10;
        /// Scratch of a wave, in units of 256 bytes.
        WAVESIZE_GFX11 26 12 on GFX11;
        /// Scratch of a wave, in units of 256 bytes.
        WAVESIZE_GFX12 29 12 on GFX12;
    }
    /// Which XCC a queue runs on.
    CURRENT_LOGIC_XCC_ID "COMPUTE_CURRENT_LOGIC_XCC_ID" {
        /// Its number.
        XCC_ID 3 0;
    }
    /// How many workgroups go to an XCC before the next one gets some.
    TG_CHUNK_SIZE "COMPUTE_TG_CHUNK_SIZE" {
        /// The number.
        CHUNK 15 0;
    }
    /// Which instance other accesses go to.
    GRBM_GFX_INDEX_WORD "GRBM_GFX_INDEX" {
        /// Instance.
        INSTANCE_INDEX 7 0 on TO_GFX11;
        /// Instance.
        INSTANCE_INDEX_12 6 0 on GFX12;
        /// Shader array.
        SA_INDEX 15 8 on TO_GFX11;
        /// Shader array.
        SA_INDEX_12 9 8 on GFX12;
        /// Shader engine.
        SE_INDEX 23 16 on TO_GFX11;
        /// Shader engine.
        SE_INDEX_12 19 16 on GFX12;
        /// All shader arrays.
        SA_BROADCAST_WRITES 29 29;
        /// All instances.
        INSTANCE_BROADCAST_WRITES 30 30;
        /// All shader engines.
        SE_BROADCAST_WRITES 31 31;
    }
    /// Delays coherence actions.
    COHER_START_DELAY "CP_COHER_START_DELAY" {
        /// Clocks.
        START_DELAY_COUNT 5 0;
    }
}

/// Work-items of a workgroup from a NUM_THREAD register.
pub const fn threads(gfx: Gfx, word: u32) -> u32 {
    match gfx {
        Gfx::Gfx12 => NUM_THREAD_FULL_12.get(word),
        Gfx::Gfx9 | Gfx::Gfx10 | Gfx::Gfx11 => NUM_THREAD_FULL.get(word),
    }
}

/// The field of TMPRING_SIZE that holds the scratch of a wave, and the bytes of its unit.
pub const fn wavesize(gfx: Gfx) -> (Field, u32) {
    match gfx {
        Gfx::Gfx9 | Gfx::Gfx10 => (WAVESIZE_GFX9, 1024),
        Gfx::Gfx11 => (WAVESIZE_GFX11, 256),
        Gfx::Gfx12 => (WAVESIZE_GFX12, 256),
    }
}

/// Bytes of the unit of [`LDS_SIZE`].
pub const LDS_GRANULE: u32 = 512;

/// First of START_X, _Y, _Z.
pub const COMPUTE_START_X: u32 = 0x2e04;
/// First of NUM_THREAD_X, _Y, _Z.
pub const COMPUTE_NUM_THREAD_X: u32 = 0x2e07;
/// Code address 39:8.
pub const COMPUTE_PGM_LO: u32 = 0x2e0c;
/// Code address 47:40.
pub const COMPUTE_PGM_HI: u32 = 0x2e0d;
/// Scratch address 39:8.
pub const COMPUTE_DISPATCH_SCRATCH_BASE_LO: u32 = 0x2e10;
/// Scratch address 47:40.
pub const COMPUTE_DISPATCH_SCRATCH_BASE_HI: u32 = 0x2e11;
/// See [`RSRC1`].
pub const COMPUTE_PGM_RSRC1: u32 = 0x2e12;
/// See [`RSRC2`].
pub const COMPUTE_PGM_RSRC2: u32 = 0x2e13;
/// See [`RESOURCE_LIMITS`].
pub const COMPUTE_RESOURCE_LIMITS: u32 = 0x2e15;
/// See [`TMPRING_SIZE`].
pub const COMPUTE_TMPRING_SIZE: u32 = 0x2e18;
/// First of RESTART_X, _Y, _Z.
pub const COMPUTE_RESTART_X: u32 = 0x2e1b;
/// First of 16 dwords that become SGPRs.
pub const COMPUTE_USER_DATA_0: u32 = 0x2e40;
/// How many there are.
pub const USER_DATA: u32 = 16;

/// The address of PGM_RSRC3.
pub const fn pgm_rsrc3(gfx: Gfx) -> u32 {
    match gfx {
        Gfx::Gfx9 => 0x2e2d,
        Gfx::Gfx10 | Gfx::Gfx11 | Gfx::Gfx12 => 0x2e28,
    }
}

/// Which share of a dispatch is an XCC's.
pub const COMPUTE_CURRENT_LOGIC_XCC_ID: u32 = 0x2e25;
/// Workgroups that go to an XCC before the next one gets some; 0: all of them.
pub const COMPUTE_TG_CHUNK_SIZE: u32 = 0x2e27;

/// Asks for an HDP flush, one bit per client. Segment 2 of NBIO (0xd20) and 0x106; in NBIO 7.11 this
/// copy belongs to PF1.
pub const GPU_HDP_FLUSH_REQ: u32 = 0xe26;
/// Says that it is done, one bit per client.
pub const GPU_HDP_FLUSH_DONE: u32 = 0xe27;

const fn reg(addr: u32, word: Word) -> Reg {
    Reg::fixed(word, addr)
}

const fn whole(addr: u32, name: &'static str) -> Reg {
    reg(addr, Word::whole(name))
}

const fn named(addr: u32, name: &'static str, word: Word) -> Reg {
    reg(addr, Word { name, ..word })
}

/// The registers of a queue (SET_SH_REG), by address.
pub static SH: &[Reg] = &[
    whole(0x2e04, "COMPUTE_START_X"),
    whole(0x2e05, "COMPUTE_START_Y"),
    whole(0x2e06, "COMPUTE_START_Z"),
    named(0x2e07, "COMPUTE_NUM_THREAD_X", NUM_THREAD),
    named(0x2e08, "COMPUTE_NUM_THREAD_Y", NUM_THREAD),
    reg(0x2e09, NUM_THREAD_Z),
    named(0x2e0a, "COMPUTE_PIPELINESTAT_ENABLE", ENABLE),
    named(0x2e0b, "COMPUTE_PERFCOUNT_ENABLE", ENABLE),
    whole(0x2e0c, "COMPUTE_PGM_LO"),
    named(0x2e0d, "COMPUTE_PGM_HI", HIGH8),
    whole(0x2e10, "COMPUTE_DISPATCH_SCRATCH_BASE_LO"),
    named(0x2e11, "COMPUTE_DISPATCH_SCRATCH_BASE_HI", HIGH8),
    reg(0x2e12, RSRC1),
    reg(0x2e13, RSRC2),
    reg(0x2e15, RESOURCE_LIMITS),
    whole(0x2e16, "COMPUTE_STATIC_THREAD_MGMT_SE0"),
    whole(0x2e17, "COMPUTE_STATIC_THREAD_MGMT_SE1"),
    reg(0x2e18, TMPRING_SIZE),
    whole(0x2e19, "COMPUTE_STATIC_THREAD_MGMT_SE2"),
    whole(0x2e1a, "COMPUTE_STATIC_THREAD_MGMT_SE3"),
    whole(0x2e1b, "COMPUTE_RESTART_X"),
    whole(0x2e1c, "COMPUTE_RESTART_Y"),
    whole(0x2e1d, "COMPUTE_RESTART_Z"),
    named(0x2e1e, "COMPUTE_THREAD_TRACE_ENABLE", ENABLE),
    whole(0x2e22, "COMPUTE_REQ_CTRL").on(Gfxs::GFX10_UP),
    whole(0x2e24, "COMPUTE_USER_ACCUM_0").on(Gfxs::GFX10_UP),
    reg(0x2e25, CURRENT_LOGIC_XCC_ID).on(Gfxs::GFX9),
    whole(0x2e25, "COMPUTE_USER_ACCUM_1").on(Gfxs::GFX10_UP),
    whole(0x2e26, "COMPUTE_USER_ACCUM_2").on(Gfxs::GFX10_UP),
    reg(0x2e27, TG_CHUNK_SIZE).on(Gfxs::GFX9),
    whole(0x2e27, "COMPUTE_USER_ACCUM_3").on(Gfxs::GFX10_UP),
    reg(0x2e28, RSRC3).on(Gfxs::GFX10_UP),
    whole(0x2e2a, "COMPUTE_SHADER_CHKSUM").on(Gfxs::GFX10_UP),
    whole(0x2e2b, "COMPUTE_STATIC_THREAD_MGMT_SE4").on(Gfxs::GFX11_UP),
    whole(0x2e2c, "COMPUTE_SHADER_CHKSUM").on(Gfxs::GFX9),
    whole(0x2e2c, "COMPUTE_STATIC_THREAD_MGMT_SE5").on(Gfxs::GFX11_UP),
    reg(0x2e2d, RSRC3).on(Gfxs::GFX9),
    whole(0x2e2d, "COMPUTE_STATIC_THREAD_MGMT_SE6").on(Gfxs::GFX11_UP),
    whole(0x2e2e, "COMPUTE_STATIC_THREAD_MGMT_SE7").on(Gfxs::GFX11_UP),
    whole(0x2e2f, "COMPUTE_DISPATCH_INTERLEAVE").on(Gfxs::GFX11_UP),
    whole(0x2e40, "COMPUTE_USER_DATA_0"),
    whole(0x2e41, "COMPUTE_USER_DATA_1"),
    whole(0x2e42, "COMPUTE_USER_DATA_2"),
    whole(0x2e43, "COMPUTE_USER_DATA_3"),
    whole(0x2e44, "COMPUTE_USER_DATA_4"),
    whole(0x2e45, "COMPUTE_USER_DATA_5"),
    whole(0x2e46, "COMPUTE_USER_DATA_6"),
    whole(0x2e47, "COMPUTE_USER_DATA_7"),
    whole(0x2e48, "COMPUTE_USER_DATA_8"),
    whole(0x2e49, "COMPUTE_USER_DATA_9"),
    whole(0x2e4a, "COMPUTE_USER_DATA_10"),
    whole(0x2e4b, "COMPUTE_USER_DATA_11"),
    whole(0x2e4c, "COMPUTE_USER_DATA_12"),
    whole(0x2e4d, "COMPUTE_USER_DATA_13"),
    whole(0x2e4e, "COMPUTE_USER_DATA_14"),
    whole(0x2e4f, "COMPUTE_USER_DATA_15"),
];

/// Registers of the whole engine that queues write (SET_UCONFIG_REG), by address.
pub static UCONFIG: &[Reg] = &[
    whole(0xc046, "SCRATCH_REG6"),
    whole(0xc047, "SCRATCH_REG7"),
    reg(0xc07b, COHER_START_DELAY).on(Gfxs::TO_GFX10),
    reg(0xc200, GRBM_GFX_INDEX_WORD),
    whole(0xc340, "SQ_THREAD_TRACE_USERDATA_0"),
    whole(0xc341, "SQ_THREAD_TRACE_USERDATA_1"),
    whole(0xc342, "SQ_THREAD_TRACE_USERDATA_2"),
    whole(0xc343, "SQ_THREAD_TRACE_USERDATA_3"),
];

/// The register at an address.
pub fn find(gfx: Gfx, addr: u32) -> Option<&'static Reg> {
    SH.iter()
        .chain(UCONFIG)
        .find(|reg| reg.at == At::Fixed(addr) && reg.word.on.has(gfx))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_order_and_said_once_per_generation() {
        for gfx in [Gfx::Gfx9, Gfx::Gfx10, Gfx::Gfx11, Gfx::Gfx12] {
            for table in [SH, UCONFIG] {
                let addrs: Vec<_> = table
                    .iter()
                    .filter(|reg| reg.word.on.has(gfx))
                    .map(|reg| match reg.at {
                        At::Fixed(addr) => addr,
                        At::Rows(_) => panic!("{reg:?}"),
                    })
                    .collect();
                assert!(addrs.windows(2).all(|pair| pair[0] < pair[1]), "{gfx:?}");
            }
        }
        assert_eq!(
            find(Gfx::Gfx9, 0x2e2d).map(|r| r.word.name),
            Some(RSRC3.name)
        );
        assert_eq!(pgm_rsrc3(Gfx::Gfx9), 0x2e2d);
    }
}
