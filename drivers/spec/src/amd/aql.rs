//! AQL: the packets of a queue that the Heterogeneous System Architecture defines, and AMD's queue
//! structure and additions to it.
//!
//! Source: HSA Runtime Programmer's Reference Manual 1.2, 2.9 (architected queueing language);
//! ROCR, inc/hsa.h, inc/amd_hsa_queue.h, inc/amd_hsa_signal.h, amd_aql_queue.cpp (PM4 in AQL).

use bitflags::bitflags;

use super::packet::words;

/// Bytes of a packet, and of a slot of the ring.
pub const PACKET_BYTES: u64 = 64;

words! {
    /// Header and setup of a kernel dispatch, dword 0.
    HEADER "header" {
        /// The type of the packet.
        TYPE 7 0;
        /// Starts when all packets before are complete.
        BARRIER 8 8;
        /// What becomes visible before: 0 nothing, 1 of the agent, 2 of the system.
        ACQUIRE_SCOPE 10 9;
        /// What is made visible after.
        RELEASE_SCOPE 12 11;
    }
    /// Setup of a kernel dispatch, the upper half of dword 0.
    SETUP "setup" {
        /// Dimensions of the grid: 1 to 3.
        DIMENSIONS 17 16;
    }
    /// AMD's format of a vendor packet, the upper half of dword 0.
    AMD_FORMAT "format" {
        /// 1: PM4 packets in an indirect buffer.
        FORMAT 23 16;
    }
}

/// Type: AMD's own.
pub const VENDOR_SPECIFIC: u32 = 0;
/// Type: none; the slot is free.
pub const INVALID: u32 = 1;
/// Type: a kernel.
pub const KERNEL_DISPATCH: u32 = 2;
/// Type: waits until all signals are zero.
pub const BARRIER_AND: u32 = 3;
/// Type: work for an agent that is no GPU.
pub const AGENT_DISPATCH: u32 = 4;
/// Type: waits until one signal is zero.
pub const BARRIER_OR: u32 = 5;

/// [`FORMAT`]: PM4 packets.
pub const AMD_AQL_FORMAT_PM4_IB: u32 = 1;
/// [`FORMAT`]: waits for a value of a signal.
pub const AMD_AQL_FORMAT_BARRIER_VALUE: u32 = 2;
/// Dword 5 of a PM4 packet: how many dwords are left.
pub const PM4_IB_REMAINING: u32 = 10;

/// Scope: the system, the widest.
pub const SCOPE_SYSTEM: u32 = 2;
/// Scope: the agent.
pub const SCOPE_AGENT: u32 = 1;

/// Bytes in a kernel dispatch packet.
pub mod dispatch {
    /// Work-items of a workgroup in x, y, z: 16 bits each.
    pub const WORKGROUP_SIZE: usize = 4;
    /// 16 bits, zero.
    pub const RESERVED0: usize = 10;
    /// Work-items of the grid in x, y, z: 32 bits each.
    pub const GRID_SIZE: usize = 12;
    /// Scratch of a work-item in bytes, 32 bits.
    pub const PRIVATE_SEGMENT_SIZE: usize = 24;
    /// LDS of a workgroup in bytes, 32 bits.
    pub const GROUP_SEGMENT_SIZE: usize = 28;
    /// Address of the kernel descriptor.
    pub const KERNEL_OBJECT: usize = 32;
    /// Address of the arguments.
    pub const KERNARG_ADDRESS: usize = 40;
    /// 64 bits, zero.
    pub const RESERVED2: usize = 48;
    /// The signal that is decremented at the end, 0 for none.
    pub const COMPLETION_SIGNAL: usize = 56;
}

/// Bytes in a barrier packet.
pub mod barrier {
    /// 32 bits, zero.
    pub const RESERVED1: usize = 4;
    /// Five signals, 0 for none.
    pub const DEP_SIGNAL: usize = 8;
    /// How many.
    pub const DEP_SIGNALS: usize = 5;
    /// 64 bits, zero.
    pub const RESERVED2: usize = 48;
    /// The signal that is decremented at the end, 0 for none.
    pub const COMPLETION_SIGNAL: usize = 56;
}

/// Bytes in AMD's packet that waits for a value of a signal ([`AMD_AQL_FORMAT_BARRIER_VALUE`]).
///
/// Source: ROCR, inc/hsa_ext_amd.h, hsa_amd_barrier_value_packet_t.
pub mod barrier_value {
    /// 32 bits, zero.
    pub const RESERVED0: usize = 4;
    /// The signal, 0 for none: then there is nothing to wait for.
    pub const SIGNAL: usize = 8;
    /// What its value is compared with, signed.
    pub const VALUE: usize = 16;
    /// The bits of its value that count.
    pub const MASK: usize = 24;
    /// How, 32 bits: 0 equal, 1 not equal, 2 less, 3 greater or equal.
    pub const CONDITION: usize = 32;
    /// From here to the completion signal all is zero.
    pub const RESERVED1: usize = 36;
    /// The signal that is decremented at the end, 0 for none.
    pub const COMPLETION_SIGNAL: usize = 56;
}

/// What the command processor stores as the value of [`queue::QUEUE_INACTIVE_SIGNAL`].
///
/// Source: ROCR, amd_aql_queue.cpp, DynamicQueueEventsHandler.
pub mod inactive {
    /// Waves of 64 need more scratch than there is. The queue goes on once the value is 0.
    pub const SCRATCH_WAVE64: u64 = 0x1;
    /// The dimensions of a dispatch are wrong.
    pub const DIMENSIONS: u64 = 0x2;
    /// Too much LDS.
    pub const GROUP_SIZE: u64 = 0x4;
    /// The kernel is not one.
    pub const CODE: u64 = 0x8;
    /// The packet is not known.
    pub const FORMAT: u64 = 0x20;
    /// The workgroup is too large.
    pub const WORKGROUP_SIZE: u64 = 0x40;
    /// There are not so many VGPRs.
    pub const VGPRS: u64 = 0x80;
    /// A packet of AMD's is not known.
    pub const VENDOR_FORMAT: u64 = 0x100;
    /// The dispatch that had scratch for itself alone has ended. The queue goes on once the value is 0.
    pub const SCRATCH_ONCE: u64 = 0x200;
    /// Waves of 32 need more scratch than there is. The queue goes on once the value is 0.
    pub const SCRATCH_WAVE32: u64 = 0x400;
}

/// Bytes in a signal (`amd_signal_t`, 64 bytes).
pub mod signal {
    /// The kind, 64 bits: 1 a signal of the user, -1 a doorbell.
    pub const KIND: usize = 0;
    /// The value, 64 bits.
    pub const VALUE: usize = 8;
    /// Where the event id is written for an interrupt, 0 for none.
    pub const EVENT_MAILBOX_PTR: usize = 16;
    /// The event id, 32 bits.
    pub const EVENT_ID: usize = 24;
    /// When the kernel started.
    pub const START_TS: usize = 32;
    /// When it ended.
    pub const END_TS: usize = 40;
    /// The kind of a user's signal.
    pub const KIND_USER: i64 = 1;
}

/// Bytes in the queue structure (`amd_queue_t`, 256 bytes).
pub mod queue {
    /// Its bytes.
    pub const BYTES: usize = 256;
    /// Who writes packets ([`TYPE_MULTI`], or 1: one producer alone), 32 bits.
    pub const TYPE: usize = 0;
    /// Several producers: the doorbell may be rung in any order (hsa.h, `hsa_queue_t.doorbell_signal`).
    pub const TYPE_MULTI: u32 = 0;
    /// Address of the ring.
    pub const BASE_ADDRESS: usize = 8;
    /// Packets of the ring, 32 bits.
    pub const SIZE: usize = 24;
    /// What the command processor can do ([`CAPS_ASYNC_RECLAIM`]), which it stores when the queue is
    /// mapped, 32 bits.
    pub const CAPS: usize = 40;
    /// Scratch may be taken from the queue while it runs, and there is a second, smaller one.
    pub const CAPS_ASYNC_RECLAIM: u32 = 1 << 0;
    /// How many packets have been written.
    pub const WRITE_DISPATCH_ID: usize = 56;
    /// High half of the LDS aperture.
    pub const GROUP_SEGMENT_APERTURE_BASE_HI: usize = 64;
    /// High half of the scratch aperture.
    pub const PRIVATE_SEGMENT_APERTURE_BASE_HI: usize = 68;
    /// The last compute unit, over all XCCs, 32 bits.
    pub const MAX_CU_ID: usize = 72;
    /// The last wave of a compute unit, 32 bits.
    pub const MAX_WAVE_ID: usize = 76;
    /// How many packets have been taken.
    pub const READ_DISPATCH_ID: usize = 128;
    /// How far before [`READ_DISPATCH_ID`] the structure starts, 32 bits.
    pub const READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET: usize = 136;
    /// COMPUTE_TMPRING_SIZE, 32 bits.
    pub const COMPUTE_TMPRING_SIZE: usize = 140;
    /// The buffer resource of scratch, 4 dwords.
    pub const SCRATCH_RESOURCE_DESCRIPTOR: usize = 144;
    /// Address of scratch.
    pub const SCRATCH_BACKING_MEMORY_LOCATION: usize = 160;
    /// Scratch of a lane in a wave of 64, in bytes, 32 bits.
    pub const SCRATCH_WAVE64_LANE_BYTE_SIZE: usize = 176;
    /// [`QueueProperties`](super::QueueProperties).
    pub const QUEUE_PROPERTIES: usize = 180;
    /// The last packet that used scratch. With [`CAPS_ASYNC_RECLAIM`], as is what has `ALT` in its name.
    pub const SCRATCH_LAST_USED_INDEX: usize = 184;
    /// The signal that tells the runtime of an error or of too little scratch ([`inactive`](super::inactive)).
    pub const QUEUE_INACTIVE_SIGNAL: usize = 192;
    /// The last packet that used the second scratch.
    pub const ALT_SCRATCH_LAST_USED_INDEX: usize = 208;
    /// Address of the second scratch.
    pub const ALT_SCRATCH_BACKING_MEMORY_LOCATION: usize = 216;
    /// The largest grid that it is for, in x, y and z, 32 bits each.
    pub const ALT_SCRATCH_DISPATCH_LIMIT: usize = 232;
    /// As [`SCRATCH_WAVE64_LANE_BYTE_SIZE`].
    pub const ALT_SCRATCH_WAVE64_LANE_BYTE_SIZE: usize = 244;
    /// As [`COMPUTE_TMPRING_SIZE`].
    pub const ALT_COMPUTE_TMPRING_SIZE: usize = 248;
}

bitflags! {
    /// [`queue::QUEUE_PROPERTIES`], `AMD_QUEUE_PROPERTIES_*`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct QueueProperties: u32 {
        /// The trap handler is there.
        const ENABLE_TRAP_HANDLER = 1 << 0;
        /// Addresses have 64 bits.
        const IS_PTR64 = 1 << 1;
        /// Start and end are written into completion signals.
        const ENABLE_PROFILING = 1 << 3;
        /// The scratch is for one dispatch alone, and given back after it.
        const USE_SCRATCH_ONCE = 1 << 4;
    }
}

const _: () = assert!(dispatch::COMPLETION_SIGNAL + 8 == PACKET_BYTES as usize);
const _: () = assert!(barrier::COMPLETION_SIGNAL + 8 == PACKET_BYTES as usize);
const _: () = assert!(
    queue::READ_DISPATCH_ID - queue::WRITE_DISPATCH_ID == 72
        && queue::SCRATCH_WAVE64_LANE_BYTE_SIZE == 176
);
