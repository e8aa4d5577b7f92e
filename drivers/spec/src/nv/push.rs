//! What lies between a CPU and a channel: the push buffer, the ring of its segments, the page with the
//! ring's pointers, the doorbell, and what the GPU writes back.
//!
//! Source: open-gpu-doc (c8607fe), classes/host/clc56f.h; open-gpu-kernel-modules 580.142,
//! src/common/sdk/nvidia/inc/class/{clc56f,clc86f,clc361}.h, nvgputypes.h,
//! src/common/inc/swref/published/ampere/ga100/dev_ctrl.h, blackwell/gb202/dev_vm.h.

use super::chip::Archs;
use super::words::words;

words! { Archs;
    /// Before the words of a method in a push buffer. `METHOD_ADDRESS` is in dwords; `METHOD_COUNT` is data
    /// itself where the operation is immediate.
    HEADER header "DMA" {
        METHOD_ADDRESS 11 0;
        METHOD_SUBCHANNEL 15 13;
        METHOD_COUNT 28 16;
        SEC_OP 31 29 {SEC_OP_INC_METHOD = 1, SEC_OP_NON_INC_METHOD = 3, SEC_OP_IMMD_DATA_METHOD = 4,
            SEC_OP_ONE_INC = 5, SEC_OP_END_PB_SEGMENT = 7};
    }
    /// The first dword of a ring entry: where a segment begins. `GET` is bits 31:2 of the address, in place.
    GP_ENTRY0 gp_entry0 "GP_ENTRY0" {
        FETCH 0 0 {FETCH_UNCONDITIONAL = 0, FETCH_CONDITIONAL = 1};
        GET 31 2;
    }
    /// The second: how many dwords it has. None: the entry is an instruction, `OPCODE`, and the first dword
    /// its operand.
    GP_ENTRY1 gp_entry1 "GP_ENTRY1" {
        GET_HI 7 0;
        LEVEL 9 9 {LEVEL_MAIN = 0, LEVEL_SUBROUTINE = 1};
        LENGTH 30 10;
        SYNC 31 31 {SYNC_PROCEED = 0, SYNC_WAIT = 1};
    }
    /// The operand of SET_PB_SEGMENT_EXTENDED_BASE: bits 56:40 of addresses in entries that follow.
    PB_EXTENDED_BASE pb_extended_base "GP_ENTRY0_PB_EXTENDED_BASE" {
        OPERAND 24 8 on FROM_GH100;
    }
    /// What GPFIFO_GET_WORK_SUBMIT_TOKEN gives and the doorbell takes.
    DOORBELL doorbell "DOORBELL" {
        VECTOR 11 0;
        RUNLIST_ID 22 16;
        RUNLIST_DOORBELL 30 30 on GB20X {RUNLIST_DOORBELL_DISABLE = 0, RUNLIST_DOORBELL_ENABLE = 1};
    }
}

/// Instructions in the ring, `GP_ENTRY1_OPCODE`, bits 7:0 of an entry of no length.
pub mod opcode {
    /// Nothing.
    pub const NOP: u32 = 0;
    /// An error.
    pub const ILLEGAL: u32 = 1;
    /// Checks the ring.
    pub const GP_CRC: u32 = 2;
    /// Checks the push buffer.
    pub const PB_CRC: u32 = 3;
    /// From Hopper on: see [`super::PB_EXTENDED_BASE`].
    pub const SET_PB_SEGMENT_EXTENDED_BASE: u32 = 4;
}

/// Bytes of a ring entry.
pub const GP_ENTRY_BYTES: u64 = 8;

/// On which subchannel an engine listens.
pub mod subchannel {
    /// Compute.
    pub const COMPUTE: u32 = 1;
    /// Copy engines; another one is an error of the channel.
    pub const COPY: u32 = 4;
}

/// Offsets in USERD, the page of a channel, in bytes.
pub mod userd {
    /// Bytes of a channel's USERD, and what its address is a multiple of.
    pub const BYTES: u64 = 512;
    /// How far the push buffer is read.
    pub const GET: u64 = 0x44;
    /// The upper half of that.
    pub const GET_HI: u64 = 0x60;
    /// What SET_REFERENCE has set.
    pub const REFERENCE: u64 = 0x48;
    /// The next entry that the GPU will read; the GPU's.
    pub const GP_GET: u64 = 0x88;
    /// The entry after the last one that is written; an index, less than the ring is long.
    pub const GP_PUT: u64 = 0x8c;
}

/// Offsets in the region of a usermode object, in bytes, `NVC361_*`.
pub mod usermode {
    /// Bytes of it.
    pub const BYTES: u64 = 0x1_0000;
    /// Nanoseconds, the lower half. Only where it is mapped through BAR0.
    pub const TIME_0: u64 = 0x80;
    /// The upper half.
    pub const TIME_1: u64 = 0x84;
    /// The doorbell. Reading it gives 0.
    pub const NOTIFY_CHANNEL_PENDING: u64 = 0x90;
}

/// Offsets in a semaphore of four words, in bytes; one word or two are the first of these.
pub mod semaphore {
    /// Bytes, and what its address is a multiple of.
    pub const BYTES: u64 = 16;
    /// The value, of 4 or 8 bytes.
    pub const PAYLOAD: u64 = 0;
    /// Nanoseconds when it was released.
    pub const TIMESTAMP: u64 = 8;
}

/// What RM writes where a channel has died, `NvNotification`; an array of these, by [`notifier_index`].
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::Immutable,
)]
#[repr(C)]
pub struct Notification {
    /// Nanoseconds, the lower half first.
    pub nanoseconds: [u32; 2],
    /// What it is about: an Xid, see [`super::status::xid_name`].
    pub info32: u32,
    /// More.
    pub info16: u16,
    /// Written last; 0 before, 0xffff for an error.
    pub status: u16,
}

/// Indices of a channel's notifications.
pub mod notifier_index {
    /// Errors.
    pub const ERROR: usize = 0;
}
