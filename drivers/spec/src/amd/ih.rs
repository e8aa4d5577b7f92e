//! Entries of interrupt rings: eight dwords, of which the last four are the source's own.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: amdgpu_ih.c (`amdgpu_ih_decode_iv_helper`); include/soc15_ih_clientid.h
//! (`SOC15_IH_CLIENTID_*`, `SOC21_IH_CLIENTID_*`); include/ivsrcid/gfx/irqsrcs_gfx_{9_0,11_0_0,12_0_0}.h,
//! sdma0/irqsrcs_sdma0_4_0.h, vmc/irqsrcs_vmc_1_0.h.

use super::packet::words;

/// Dwords of an entry.
pub const DWORDS: usize = 8;

words! {
    /// The first dword.
    SOURCE "IV_SOURCE" {
        /// Which block.
        CLIENT_ID 7 0;
        /// What happened there.
        SOURCE_ID 15 8;
        /// Which ring of it.
        RING_ID 23 16;
        /// For which address space.
        VMID 27 24;
        /// Of which hub: 0 for GC.
        VMID_SRC 31 31;
    }
    /// The fourth dword.
    PROCESS "IV_PROCESS" {
        /// Of which process.
        PASID 15 0;
        /// On which die.
        NODE_ID 23 16;
    }
}

/// Where the dwords of the source start.
pub const CONTEXT: usize = 4;

/// Clients of GFX11 and newer (`SOC21_IH_CLIENTID_*`).
pub mod client {
    /// The graphics block, with its hub.
    pub const GFX: u32 = 10;
    /// The memory hub.
    pub const VMC: u32 = 18;
    /// The command processor.
    pub const GRBM_CP: u32 = 20;
}

/// Clients of GFX9 (`SOC15_IH_CLIENTID_*`).
pub mod client9 {
    /// Shader engines, the first of four.
    pub const SE0SH: u32 = 10;
    /// The memory hub.
    pub const VMC: u32 = 18;
    /// The command processor.
    pub const GRBM_CP: u32 = 20;
    /// The hub of the graphics block.
    pub const UTCL2: u32 = 27;
    /// Copy engines.
    pub const SDMA: [u32; 8] = [8, 9, 1, 4, 5, 17, 19, 24];
}

/// Sources.
pub mod source {
    /// A fault of a hub.
    pub const UTCL2_FAULT: u32 = 0;
    /// A trap packet of a copy engine, GFX11 and newer.
    pub const SDMA_TRAP: u32 = 49;
    /// A queue of a copy engine hangs.
    pub const SDMA_QUEUE_HANG: u32 = 55;
    /// The end of work.
    pub const CP_EOP: u32 = 181;
    /// An opcode that is none.
    pub const CP_BAD_OPCODE: u32 = 183;
    /// A register that a queue may not touch.
    pub const CP_PRIV_REG: u32 = 184;
    /// An instruction that a queue may not run.
    pub const CP_PRIV_INSTR: u32 = 185;
    /// A trap packet of a copy engine, GFX9.
    pub const SDMA4_TRAP: u32 = 224;
    /// Shaders: messages, traps, errors.
    pub const SQ: u32 = 239;
}

/// The second dword of the source's own, of [`source::UTCL2_FAULT`]: the page is bits 43:12 in the first and 47:44 in
/// 3:0 here.
pub mod fault {
    /// Bits 47:44 of the address.
    pub const ADDRESS_HIGH: u32 = 0xf;
    /// It will be tried again.
    pub const RETRY: u32 = 0x80;
    /// A read.
    pub const READ: u32 = 0x40;
    /// A write.
    pub const WRITE: u32 = 0x20;
    /// A fetch of instructions.
    pub const EXECUTE: u32 = 0x10;
}
