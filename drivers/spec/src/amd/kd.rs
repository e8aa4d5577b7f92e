//! The kernel descriptor: 64 bytes in `.rodata` that say how a kernel is started.
//!
//! Source: LLVM, AMDGPUUsage ("Kernel Descriptor"), AMDHSAKernelDescriptor.h.

use zerocopy::byteorder::little_endian::{I64, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::packet::words;

/// `kernel_descriptor_t`, 64 bytes, aligned to 64; names as in the source.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct KernelDescriptor {
    /// LDS of a workgroup in bytes, without what a dispatch adds.
    pub group_segment_fixed_size: U32,
    /// Scratch of a work-item in bytes.
    pub private_segment_fixed_size: U32,
    /// Bytes of arguments.
    pub kernarg_size: U32,
    /// Zero.
    pub reserved0: [u8; 4],
    /// Where the code is, from the descriptor on.
    pub kernel_code_entry_byte_offset: I64,
    /// Zero.
    pub reserved1: [u8; 20],
    /// COMPUTE_PGM_RSRC3.
    pub compute_pgm_rsrc3: U32,
    /// COMPUTE_PGM_RSRC1.
    pub compute_pgm_rsrc1: U32,
    /// COMPUTE_PGM_RSRC2. Its LDS size is 0: whoever dispatches fills it in.
    pub compute_pgm_rsrc2: U32,
    /// What the kernel wants in SGPRs: the constants below.
    pub kernel_code_properties: U16,
    /// Arguments in SGPRs: how many dwords 6:0, from which dword on 15:7.
    pub kernarg_preload: U16,
    /// Zero.
    pub reserved3: [u8; 4],
}

const _: () = assert!(size_of::<KernelDescriptor>() == 64);

/// The alignment of a descriptor.
pub const ALIGN: u64 = 64;

words! {
    /// `kernel_code_properties`.
    PROPERTIES "kernel_code_properties" {
        /// The buffer resource of scratch, 4 SGPRs.
        ENABLE_SGPR_PRIVATE_SEGMENT_BUFFER 0 0;
        /// Address of the dispatch packet, 2 SGPRs.
        ENABLE_SGPR_DISPATCH_PTR 1 1;
        /// Address of the queue structure, 2 SGPRs.
        ENABLE_SGPR_QUEUE_PTR 2 2;
        /// Address of the arguments, 2 SGPRs.
        ENABLE_SGPR_KERNARG_SEGMENT_PTR 3 3;
        /// Number of the packet, 2 SGPRs.
        ENABLE_SGPR_DISPATCH_ID 4 4;
        /// Where flat scratch starts, 2 SGPRs.
        ENABLE_SGPR_FLAT_SCRATCH_INIT 5 5;
        /// Scratch of a work-item, 1 SGPR.
        ENABLE_SGPR_PRIVATE_SEGMENT_SIZE 6 6;
        /// Waves of 32 lanes.
        ENABLE_WAVEFRONT_SIZE32 10 10 on GFX10_UP;
        /// The stack has no fixed size.
        USES_DYNAMIC_STACK 11 11;
    }
    /// `kernarg_preload`.
    PRELOAD "kernarg_preload" {
        /// Dwords.
        KERNARG_PRELOAD_SPEC_LENGTH 6 0;
        /// The first dword.
        KERNARG_PRELOAD_SPEC_OFFSET 15 7;
    }
}
