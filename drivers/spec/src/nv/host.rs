//! Methods of channels: the first 0x100 bytes on every subchannel.
//!
//! Source: open-gpu-doc (c8607fe), classes/host/clc56f.h, for Ampere and Ada; open-gpu-kernel-modules
//! 580.142, src/common/sdk/nvidia/inc/class/{clc86f,clc96f,clca6f}.h. The latter name only what the kernel
//! itself uses, in the same places; that the rest is as it was there is an assumption.

use super::words::methods;

methods! {
    /// Every method.
    METHODS;
    /// Which class answers on this subchannel: before anything else of it.
    SET_OBJECT 0x00 set_object {
        NVCLASS 15 0;
        ENGINE 20 16;
    };
    ILLEGAL 0x04;
    NOP 0x08;
    /// Wakes who waits for an event of the channel.
    NON_STALL_INTERRUPT 0x20;
    FB_FLUSH 0x24;
    /// What it holds hangs on the operation.
    MEM_OP_A 0x28;
    MEM_OP_B 0x2c;
    /// For a barrier, which one.
    MEM_OP_C 0x30;
    /// Does it.
    MEM_OP_D 0x34 mem_op_d {
        TLB_INVALIDATE_PDB_ADDR_HI 26 0;
        OPERATION 31 27 {OPERATION_MEMBAR = 5, OPERATION_MMU_TLB_INVALIDATE = 9,
            OPERATION_MMU_TLB_INVALIDATE_TARGETED = 10, OPERATION_L2_PEERMEM_INVALIDATE = 13,
            OPERATION_L2_SYSMEM_INVALIDATE = 14, OPERATION_L2_CLEAN_COMPTAGS = 15,
            OPERATION_L2_FLUSH_DIRTY = 16, OPERATION_L2_WAIT_FOR_SYS_PENDING_READS = 21,
            OPERATION_ACCESS_COUNTER_CLR = 22};
    };
    SET_REFERENCE 0x50;
    /// Where the semaphore is.
    SEM_ADDR_LO 0x5c sem_addr_lo {
        OFFSET 31 2;
    };
    SEM_ADDR_HI 0x60 sem_addr_hi {
        OFFSET_TO_AD10X as "OFFSET" 7 0 on TO_AD10X;
        OFFSET 24 0 on FROM_GH100;
    };
    /// What it is compared with, or becomes.
    SEM_PAYLOAD_LO 0x64;
    SEM_PAYLOAD_HI 0x68;
    /// Does it. A release with a time writes 16 bytes: payload, nanoseconds.
    SEM_EXECUTE 0x6c sem_execute {
        OPERATION 2 0 {OPERATION_ACQUIRE = 0, OPERATION_RELEASE = 1, OPERATION_ACQ_STRICT_GEQ = 2,
            OPERATION_ACQ_CIRC_GEQ = 3, OPERATION_ACQ_AND = 4, OPERATION_ACQ_NOR = 5,
            OPERATION_REDUCTION = 6};
        ACQUIRE_SWITCH_TSG 12 12;
        RELEASE_WFI 20 20;
        PAYLOAD_SIZE 24 24 {PAYLOAD_SIZE_32BIT = 0, PAYLOAD_SIZE_64BIT = 1};
        RELEASE_TIMESTAMP 25 25;
        REDUCTION 30 27 {REDUCTION_IMIN = 0, REDUCTION_IMAX = 1, REDUCTION_IXOR = 2, REDUCTION_IAND = 3,
            REDUCTION_IOR = 4, REDUCTION_IADD = 5, REDUCTION_INC = 6, REDUCTION_DEC = 7};
        REDUCTION_FORMAT 31 31 {REDUCTION_FORMAT_SIGNED = 0, REDUCTION_FORMAT_UNSIGNED = 1};
    };
    /// Waits until the engine is idle.
    WFI 0x78 wfi {
        SCOPE 0 0 {SCOPE_CURRENT_VEID = 0, SCOPE_ALL = 1};
    };
    YIELD 0x80 yield_to {
        OP 1 0 {OP_NOP = 0, OP_TSG = 3};
    };
    CLEAR_FAULTED 0x84 clear_faulted {
        HANDLE 30 0;
        TYPE 31 31 {TYPE_PBDMA_FAULTED = 0, TYPE_ENG_FAULTED = 1};
    };
}

/// What MEM_OP_C says of a barrier, `MEMBAR_TYPE`.
pub mod membar_type {
    /// For the system.
    pub const SYS_MEMBAR: u32 = 0;
    /// For the GPU.
    pub const MEMBAR: u32 = 1;
}
