//! What a wave shows of itself by SQ_IND_INDEX and SQ_IND_DATA, on GFX11.
//!
//! Source: Linux, drivers/gpu/drm/amd/include/asic_reg/gc/gc_11_0_0, `_offset.h` (`ixSQ_WAVE_*`) and `_sh_mask.h`;
//! amdgpu/gfx_v11_0.c, `gfx_v11_0_read_wave_data`. That SIMDs are counted in INSTANCE_INDEX below workgroup processors:
//! umr, `MANY_TO_INSTANCE`.

use super::packet::words;

/// Which wave slots of the SIMD have a wave, a bit for each.
pub const WAVE_ACTIVE: u32 = 0x00a;
/// Its state, see [`STATUS`].
pub const WAVE_STATUS: u32 = 0x102;
/// Exceptions that it has met.
pub const WAVE_TRAPSTS: u32 = 0x103;
/// Its next instruction, low half.
pub const WAVE_PC_LO: u32 = 0x108;
/// High half.
pub const WAVE_PC_HI: u32 = 0x109;
/// Its lanes, low half.
pub const WAVE_EXEC_LO: u32 = 0x27e;
/// High half.
pub const WAVE_EXEC_HI: u32 = 0x27f;

/// What registers of a wave read that is not there.
/// Source: Linux, amdgpu/amdgpu_amdkfd_gfx_v11.c: waves whose HW_ID2 reads so are left out.
pub const ABSENT: u32 = 0xbebe_beef;

/// SIMDs of a workgroup processor.
pub const SIMDS: u32 = 4;
/// Wave slots that WAVE_ACTIVE has bits for.
pub const SLOTS: u32 = 20;

words! {
    /// [`WAVE_STATUS`].
    STATUS "SQ_WAVE_STATUS" {
        /// It waits at a barrier.
        IN_BARRIER 12 12;
        /// It is halted.
        HALT 13 13;
        /// There is a wave.
        VALID 16 16;
    }
}
