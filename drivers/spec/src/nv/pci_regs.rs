//! Registers of a card on which RM runs on GSP, as far as its driver touches them: the window to VRAM, TLB invalidation,
//! the clock, the doorbell.
//!
//! Source: open-gpu-kernel-modules 570.144, src/common/inc/swref/published/turing/tu102/{dev_bus,dev_vm,dev_ram}.h and
//! ampere/ga100/dev_ctrl.h; `NV_VIRTUAL_FUNCTION` of the physical function starts at 0xb80000
//! (src/nvidia/generated/g_gpu_access_nvoc.h, `GPU_GET_VREG_OFFSET`). The same from Turing on, but for the window's register:
//! hopper/gh100/pri_nv_xal_ep.h, blackwell/gb100/pri_nv_xal_ep.h.

use hcq::reg::{Register, Word};

use super::chip::Archs;
use super::mmio::{Reg, registers};

registers! {
    /// All of these.
    RUNNING;
    /// Which part of memory [`NV_PRAMIN`] shows, up to Ada.
    NV_PBUS_BAR0_WINDOW @ 0x1700 bar0_window {
        BASE 23 0;
        TARGET 25 24 { TARGET_VID_MEM = 0 };
    };
    /// The same of Hopper and Blackwell, which shows VRAM only.
    NV_XAL_EP_BAR0_WINDOW @ 0x10_fd40 xal_window {
        BASE 22 0;
    };
    /// Writing TRIGGER starts an invalidation; it reads as zero when that is done.
    NV_VIRTUAL_FUNCTION_PRIV_MMU_INVALIDATE @ 0xb8_30b0 mmu_invalidate {
        ALL_VA 0 0;
        ALL_PDB 1 1;
        HUBTLB_ONLY 2 2;
        REPLAY 5 3;
        SYS_MEMBAR 6 6;
        ACK 8 7 { ACK_GLOBALLY = 1 };
        TRIGGER 31 31;
    };
    /// The clock, in nanoseconds: bits 31:5.
    NV_VIRTUAL_FUNCTION_TIME_0 @ 0xbb_0080;
    /// Bits 60:32 of it.
    NV_VIRTUAL_FUNCTION_TIME_1 @ 0xbb_0084;
}

/// The window to VRAM in BAR0.
pub const NV_PRAMIN: u64 = 0x70_0000;
/// Bytes of it.
pub const NV_PRAMIN_BYTES: u64 = 0x10_0000;
/// What the base of [`NV_PBUS_BAR0_WINDOW`] counts in: 64 KiB (`NV_PBUS_BAR0_WINDOW_BASE_SHIFT`).
pub const BAR0_WINDOW_SHIFT: u32 = 16;

/// `NV_VIRTUAL_FUNCTION_DOORBELL`: takes the token of a channel, `NV_CTRL_VF_DOORBELL`.
pub const NV_VIRTUAL_FUNCTION_DOORBELL: u64 = 0xbb_0090;
/// Where in a token the number of the runlist is; that of the channel is below.
pub const DOORBELL_RUNLIST_SHIFT: u32 = 16;
/// What tokens of GB20x have besides.
///
/// Source: src/nvidia/src/kernel/gpu/fifo/arch/blackwell/kernel_fifo_gb202.c, `kfifoGenerateWorkSubmitTokenHal_GB202`.
pub const DOORBELL_GB20X: u32 = 1 << 30;

/// Bytes of an instance block (`NV_RAMIN_ALLOC_SIZE`), and of RAMFC at its start (`NV_RAMFC_SIZE_VAL`).
pub const INSTANCE_BYTES: u64 = 0x1000;
/// See [`INSTANCE_BYTES`].
pub const RAMFC_BYTES: u64 = 0x200;
