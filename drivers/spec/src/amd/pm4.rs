//! PM4: the packets of a compute queue, as the microcode of the compute engine (MEC) takes them.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu/{soc15d.h, nvd.h} (opcodes, fields), gfx_v9_4_3.c,
//! gfx_v10_0.c, gfx_v11_0.c, gfx_v12_0.c (use), amdkfd/kfd_pm4_headers_ai.h (RELEASE_MEM of MEC);
//! Mesa, src/amd/common/sid.h (COND_EXEC, DISPATCH_INDIRECT on MEC). Fields that only the graphics
//! engine has are left out.

use super::packet::{Gfx, Gfxs, Packet, RESERVED, Rest, Word, words};

words! {
    /// The header of a type 3 packet.
    HEADER "header" {
        /// The type: 3.
        TYPE 31 30;
        /// Dwords after the header, less one.
        COUNT 29 16;
        /// The operation.
        OPCODE 15 8;
        /// 1 for compute. MEC does not look at it.
        SHADER_TYPE 1 1;
        /// Skip while predication says so.
        PREDICATE 0 0;
    }
}

/// The header of a packet with `body` dwords after it.
#[inline]
pub const fn header(op: u8, body: u32) -> u32 {
    TYPE.put(3) | COUNT.put(body.wrapping_sub(1)) | OPCODE.put(op as u32)
}

/// A NOP of one dword: count 0x3fff is taken as "no body".
pub const NOP_PAD: u32 = 0xffff_1000;

/// The first register of SET_SH_REG, as a dword address.
pub const SH_REG_START: u32 = 0x2c00;
/// One past the last.
pub const SH_REG_END: u32 = 0x3000;
/// The first register of SET_UCONFIG_REG.
pub const UCONFIG_REG_START: u32 = 0xc000;
/// One past the last. nvd.h says 0xc400; the field of 16 bits and the registers in use (performance
/// counters, thread trace) go beyond.
pub const UCONFIG_REG_END: u32 = 0x1_0000;

/// Does nothing; also carries data.
pub const NOP: u8 = 0x10;
/// Starts a grid whose size is in the packet.
pub const DISPATCH_DIRECT: u8 = 0x15;
/// Starts a grid whose size is in memory.
pub const DISPATCH_INDIRECT: u8 = 0x16;
/// An atomic operation on memory.
pub const ATOMIC_MEM: u8 = 0x1e;
/// Skips dwords where memory is zero.
pub const COND_EXEC: u8 = 0x22;
/// Skips dwords on some XCCs.
pub const PRED_EXEC: u8 = 0x23;
/// Writes data to memory or a register.
pub const WRITE_DATA: u8 = 0x37;
/// Waits for a value in memory or a register.
pub const WAIT_REG_MEM: u8 = 0x3c;
/// Runs packets from elsewhere.
pub const INDIRECT_BUFFER: u8 = 0x3f;
/// Copies 32 or 64 bits.
pub const COPY_DATA: u8 = 0x40;
/// Sends an event down the pipe.
pub const EVENT_WRITE: u8 = 0x46;
/// At the end of the pipe: caches, data, interrupt.
pub const RELEASE_MEM: u8 = 0x49;
/// Copies or fills memory.
pub const DMA_DATA: u8 = 0x50;
/// DMA_SRC_SEL of DMA_DATA: the source is the packet, whose low half of the address is the word.
pub const DMA_SRC_DATA: u32 = 2;
/// Invalidates and writes back caches.
pub const ACQUIRE_MEM: u8 = 0x58;
/// Writes registers of the queue.
pub const SET_SH_REG: u8 = 0x76;
/// Writes registers of the whole engine.
pub const SET_UCONFIG_REG: u8 = 0x79;
/// Waits for 64 bits.
pub const WAIT_REG_MEM64: u8 = 0x93;
/// Writes registers of the queue, in a special way.
pub const SET_SH_REG_INDEX: u8 = 0x9b;

/// Event type: waits until all waves before have ended.
pub const CS_PARTIAL_FLUSH: u32 = 0x07;
/// Event type of a RELEASE_MEM that acts on caches and writes.
pub const CACHE_FLUSH_AND_INV_TS_EVENT: u32 = 0x14;
/// Operation of ATOMIC_MEM: adds 32 bits. Source: Linux, vega10_enum.h, `enum TC_OP`.
pub const TC_OP_ATOMIC_ADD_RTN_32: u32 = 0xf;
/// Event type: ends a thread trace.
pub const THREAD_TRACE_FINISH: u32 = 0x37;
/// Event type: a mark in a thread trace.
pub const THREAD_TRACE_MARKER: u32 = 0x35;
/// Event type: samples performance counters.
pub const PERFCOUNTER_SAMPLE: u32 = 0x1b;
/// Event type: starts performance counters.
pub const PERFCOUNTER_START: u32 = 0x17;
/// Event type: stops performance counters.
pub const PERFCOUNTER_STOP: u32 = 0x18;
/// Event index of CS_PARTIAL_FLUSH.
pub const EVENT_INDEX_PARTIAL_FLUSH: u32 = 4;
/// Event index of RELEASE_MEM on MEC: end of pipe.
pub const EVENT_INDEX_END_OF_PIPE: u32 = 5;

/// WAIT_REG_MEM and WAIT_REG_MEM64.
pub mod wait {
    use super::words;
    words! {
        /// What is waited for.
        INFO "info" {
            /// How the masked value compares with the reference: 0 always, 1 <, 2 <=, 3 ==, 4 !=,
            /// 5 >=, 6 >.
            FUNCTION 2 0;
            /// 0 a register, 1 memory.
            MEM_SPACE 5 4;
            /// 0 wait; 1 write the first register, wait for the second; 3 a wait on memory that can be
            /// preempted.
            OPERATION 7 6;
            /// 0 on MEC.
            ENGINE 8 8;
            /// Interrupt of MES.
            MES_INTR_PIPE 23 22 on GFX10_UP;
            /// Action of MES.
            MES_ACTION 24 24 on GFX10_UP;
            /// Cache policy of the reads.
            CACHE_POLICY 26 25;
        }
        /// How often it is looked.
        POLL "poll" {
            /// Clocks between looks, in units of 16.
            INTERVAL 15 0;
            /// Lets the scheduler run other queues meanwhile.
            OPTIMIZE_ACE_OFFLOAD_MODE 31 31 on GFX10_UP;
        }
    }
}

/// ACQUIRE_MEM.
pub mod acquire {
    use super::words;
    words! {
        /// What is done, on GFX9.
        COHER_CNTL "COHER_CNTL" {
            /// L2: non-coherent lines.
            TC_NC_ACTION_ENA 3 3 on GFX9;
            /// L2: write-combined lines.
            TC_WC_ACTION_ENA 4 4 on GFX9;
            /// L2: metadata.
            TC_INV_METADATA_ACTION_ENA 5 5 on GFX9;
            /// Vector cache: volatile lines.
            TCL1_VOL_ACTION_ENA 15 15 on GFX9;
            /// L2: write back.
            TC_WB_ACTION_ENA 18 18 on GFX9;
            /// Vector cache: invalidate.
            TCL1_ACTION_ENA 22 22 on GFX9;
            /// L2: invalidate.
            TC_ACTION_ENA 23 23 on GFX9;
            /// Colour buffers; no meaning for compute.
            CB_ACTION_ENA 25 25 on GFX9;
            /// Depth buffers; no meaning for compute.
            DB_ACTION_ENA 26 26 on GFX9;
            /// Scalar cache: invalidate.
            SH_KCACHE_ACTION_ENA 27 27 on GFX9;
            /// Scalar cache: volatile lines.
            SH_KCACHE_VOL_ACTION_ENA 28 28 on GFX9;
            /// Instruction cache: invalidate.
            SH_ICACHE_ACTION_ENA 29 29 on GFX9;
            /// Scalar cache: write back.
            SH_KCACHE_WB_ACTION_ENA 30 30 on GFX9;
            /// 0 on MEC.
            ENGINE_SEL 31 31;
        }
        /// Base of the range, 256 bytes, high half.
        COHER_BASE_HI "COHER_BASE_HI" {
            /// Bits 55:32 of the base in units of 256 bytes.
            BASE_HI 23 0;
        }
        /// How often completion is looked for.
        POLL "POLL_INTERVAL" {
            /// Clocks, in units of 16.
            INTERVAL 15 0;
        }
        /// What is done, from GFX10 on.
        GCR_CNTL "GCR_CNTL" {
            /// Instruction cache: 0 nothing, 1 all, 2 range, 3 first and last line.
            GLI_INV 1 0;
            /// 0 the range of the packet applies to GL1, else others.
            GL1_RANGE 3 2;
            /// Metadata cache: write back.
            GLM_WB 4 4;
            /// Metadata cache: invalidate.
            GLM_INV 5 5;
            /// Scalar cache: write back.
            GLK_WB 6 6;
            /// Scalar cache: invalidate.
            GLK_INV 7 7;
            /// Vector cache L0: invalidate.
            GLV_INV 8 8;
            /// GL1: invalidate.
            GL1_INV 9 9;
            /// GL2: also lines marked for it.
            GL2_US 10 10;
            /// GL2: 0 all, 1 volume, 2 range, 3 first and last line.
            GL2_RANGE 12 11;
            /// GL2: drop without writing back.
            GL2_DISCARD 13 13;
            /// GL2: invalidate.
            GL2_INV 14 14;
            /// GL2: write back.
            GL2_WB 15 15;
            /// Order of the levels: 0 parallel, 1 forward (L0 first), 2 reverse.
            SEQ 17 16;
            /// The range is physical.
            RANGE_IS_PA 18 18;
        }
    }
}

/// RELEASE_MEM.
pub mod release {
    use super::words;
    words! {
        /// Event and caches.
        EVENT "event" {
            /// The event.
            EVENT_TYPE 5 0;
            /// The kind of event: 5 end of pipe, 6 shader done.
            EVENT_INDEX 11 8;
            /// Vector cache: volatile lines.
            TCL1_VOL_ACTION_EN 12 12 on GFX9;
            /// L2: volatile lines.
            TC_VOL_ACTION_EN 13 13 on GFX9;
            /// L2: write back.
            TC_WB_ACTION_EN 15 15 on GFX9;
            /// Vector cache: invalidate.
            TCL1_ACTION_EN 16 16 on GFX9;
            /// L2: invalidate.
            TC_ACTION_EN 17 17 on GFX9;
            /// L2: non-coherent lines.
            TC_NC_ACTION_EN 19 19 on GFX9;
            /// L2: write-combined lines.
            TC_WC_ACTION_EN 20 20 on GFX9;
            /// L2: metadata.
            TC_MD_ACTION_EN 21 21 on GFX9;
            /// Metadata cache: write back.
            GLM_WB 12 12 on GFX10_UP;
            /// Metadata cache: invalidate.
            GLM_INV 13 13 on GFX10_UP;
            /// Vector cache L0: invalidate.
            GLV_INV 14 14 on GFX10_UP;
            /// GL1: invalidate.
            GL1_INV 15 15 on GFX10_UP;
            /// GL2: also lines marked for it.
            GL2_US 16 16 on GFX10_UP;
            /// GL2: the range.
            GL2_RANGE 18 17 on GFX10_UP;
            /// GL2: drop without writing back.
            GL2_DISCARD 19 19 on GFX10_UP;
            /// GL2: invalidate.
            GL2_INV 20 20 on GFX10_UP;
            /// GL2: write back.
            GL2_WB 21 21 on GFX10_UP;
            /// Order of the levels.
            SEQ 22 22 on GFX10_UP;
            /// Cache policy of the write: 0 LRU, 1 stream, 2 no allocation, 3 bypass.
            CACHE_POLICY 26 25;
            /// For trailing fences.
            EXECUTE 28 28;
        }
        /// What is written and told.
        SELECT "select" {
            /// 0 memory, 1 L2.
            DST_SEL 17 16;
            /// 0 no interrupt, 1 an interrupt only, 2 an interrupt after the write.
            INT_SEL 26 24;
            /// 0 nothing, 1 32 bits, 2 64 bits, 3 the GPU's clock, 4 the system's clock.
            DATA_SEL 31 29;
        }
    }
}

/// INDIRECT_BUFFER.
pub mod ib {
    use super::words;
    words! {
        /// Where it is.
        BASE_LO "IB_BASE_LO" {
            /// Bits 31:2 of the address.
            IB_BASE_LO 31 2;
        }
        /// How long it is, and how it is run.
        CONTROL "control" {
            /// Its dwords.
            IB_SIZE 19 0;
            /// It goes on in place of the buffer that holds this packet.
            CHAIN 20 20;
            /// Polls in an offload engine.
            OFFLOAD_POLLING 21 21 on GFX10_UP;
            /// Preemption is enabled in it.
            PRE_ENB 21 21 on GFX9;
            /// It is there.
            VALID 23 23;
            /// 0 from a user queue: the queue has a VMID.
            VMID 27 24;
            /// Cache policy of the fetch.
            CACHE_POLICY 29 28;
            /// Resumed after preemption.
            PRE_RESUME 30 30 on GFX9;
            /// Privileged.
            PRIV 31 31 on GFX10_UP;
        }
    }
}

/// Smaller packets.
pub mod op {
    use super::words;
    words! {
        /// SET_SH_REG, dword 1.
        SH_REG "reg" {
            /// Dword address, less [`super::SH_REG_START`].
            REG_OFFSET 15 0;
            /// Moves a VMID into the value. Not for user queues.
            VMID_SHIFT 27 23;
            /// 0 plain; 3 with the kernel driver's mask of compute units (SET_SH_REG_INDEX).
            REG_INDEX 31 28;
        }
        /// EVENT_WRITE, dword 1.
        EVENT "event" {
            /// The event.
            EVENT_TYPE 5 0;
            /// What kind it is of.
            EVENT_INDEX 11 8;
        }
        /// COPY_DATA, dword 1.
        COPY "control" {
            /// 0 a register, 2 memory, 4 a performance counter, 5 the packet, 6 what the last atomic
            /// returned, 9 the GPU's clock, 10 the system's clock.
            SRC_SEL 3 0;
            /// 0 a register, 2 memory, 4 a performance counter, 5 memory (old).
            DST_SEL 11 8;
            /// Cache policy of the read.
            SRC_CACHE_POLICY 14 13;
            /// 64 bits.
            COUNT_SEL 16 16;
            /// Waits until it is written.
            WR_CONFIRM 20 20;
            /// Cache policy of the write.
            DST_CACHE_POLICY 26 25;
            /// Marks the status of a queue.
            PQ_EXE_STATUS 29 29;
        }
        /// WRITE_DATA, dword 1.
        WRITE "control" {
            /// 0 a register, 2 memory through L2, 5 memory.
            WRITE_DST_SEL 11 8;
            /// Every dword goes to the same address.
            WR_ONE_ADDR 16 16;
            /// Waits until it is written.
            WRITE_CONFIRM 20 20;
            /// Cache policy.
            WRITE_CACHE_POLICY 26 25;
            /// 0 on MEC.
            ENGINE_SEL 31 30;
        }
        /// ATOMIC_MEM, dword 1.
        ATOMIC "control" {
            /// The operation, as the texture cache numbers it.
            ATOMIC_OP 6 0;
            /// 0 once, 1 until the comparison is true, 2 wait for the write, 3 go on.
            COMMAND 11 8;
            /// Cache policy.
            ATOMIC_CACHE_POLICY 26 25;
        }
        /// ATOMIC_MEM, dword 8.
        LOOP "loop" {
            /// Clocks between two tries.
            LOOP_INTERVAL 12 0;
        }
        /// DMA_DATA, dword 1.
        DMA "control" {
            /// 0 on MEC.
            ENGINE 0 0;
            /// Cache policy of the reads.
            DMA_SRC_POLICY 14 13;
            /// 0 an address, 1 GDS, 3 an address through L2.
            DMA_DST_SEL 21 20;
            /// Cache policy of the writes.
            DMA_DST_POLICY 26 25;
            /// 0 an address, 1 GDS, 2 the packet, 3 an address through L2.
            DMA_SRC_SEL 30 29;
            /// The next packet waits for it.
            CP_SYNC 31 31;
        }
        /// DMA_DATA, dword 6.
        DMA_COMMAND "command" {
            /// How many bytes, before GFX10: 25:0 as well (soc15d.h says 20:0 for old firmware).
            BYTE_COUNT 25 0;
            /// The source is registers.
            SAS 26 26;
            /// The destination is registers.
            DAS 27 27;
            /// The source stays.
            SAIC 28 28;
            /// The destination stays.
            DAIC 29 29;
            /// Waits for writes before.
            RAW_WAIT 30 30;
        }
        /// PRED_EXEC, dword 1.
        PRED "control" {
            /// How many dwords are skipped elsewhere.
            EXEC_COUNT 13 0;
            /// The XCCs that run them.
            VIRTUAL_XCC_MASK 31 24;
        }
        /// COND_EXEC, dword 4.
        COND "control" {
            /// How many dwords are skipped.
            COND_EXEC_COUNT 13 0;
        }
        /// An address of a dword, low half.
        ADDR4_LO "addr_lo" {
            /// Bits 31:2.
            ADDR_LO 31 2;
        }
    }
}

const ADDR_LO: Word = Word::whole("addr_lo");
const ADDR_HI: Word = Word::whole("addr_hi");
const DISPATCH_INITIATOR: Word = Word::whole("DISPATCH_INITIATOR");

/// Every packet that a user queue of MEC takes, by opcode.
pub static PACKETS: &[Packet] = &[
    packet(NOP, "NOP", &[], Rest::Data(0)),
    packet(
        DISPATCH_DIRECT,
        "DISPATCH_DIRECT",
        &[
            Word::whole("dim_x"),
            Word::whole("dim_y"),
            Word::whole("dim_z"),
            DISPATCH_INITIATOR,
        ],
        Rest::None,
    ),
    packet(
        DISPATCH_INDIRECT,
        "DISPATCH_INDIRECT",
        &[op::ADDR4_LO, ADDR_HI, DISPATCH_INITIATOR],
        Rest::None,
    ),
    packet(
        ATOMIC_MEM,
        "ATOMIC_MEM",
        &[
            op::ATOMIC,
            op::ADDR4_LO,
            ADDR_HI,
            Word::whole("src_lo"),
            Word::whole("src_hi"),
            Word::whole("cmp_lo"),
            Word::whole("cmp_hi"),
            op::LOOP,
        ],
        Rest::None,
    ),
    packet(
        COND_EXEC,
        "COND_EXEC",
        &[op::ADDR4_LO, ADDR_HI, RESERVED, op::COND],
        Rest::None,
    ),
    packet(PRED_EXEC, "PRED_EXEC", &[op::PRED], Rest::None),
    packet(
        WRITE_DATA,
        "WRITE_DATA",
        &[op::WRITE, ADDR_LO, ADDR_HI],
        Rest::Data(1),
    ),
    packet(
        WAIT_REG_MEM,
        "WAIT_REG_MEM",
        &[
            wait::INFO,
            ADDR_LO,
            ADDR_HI,
            Word::whole("ref"),
            Word::whole("mask"),
            wait::POLL,
        ],
        Rest::None,
    ),
    packet(
        INDIRECT_BUFFER,
        "INDIRECT_BUFFER",
        &[ib::BASE_LO, ADDR_HI, ib::CONTROL],
        Rest::None,
    ),
    packet(
        COPY_DATA,
        "COPY_DATA",
        &[
            op::COPY,
            Word::whole("src_lo"),
            Word::whole("src_hi"),
            Word::whole("dst_lo"),
            Word::whole("dst_hi"),
        ],
        Rest::None,
    ),
    packet(EVENT_WRITE, "EVENT_WRITE", &[op::EVENT], Rest::None),
    packet(
        RELEASE_MEM,
        "RELEASE_MEM",
        &[
            release::EVENT,
            release::SELECT,
            ADDR_LO,
            ADDR_HI,
            Word::whole("data_lo"),
            Word::whole("data_hi"),
            Word::whole("int_ctxid"),
        ],
        Rest::None,
    ),
    packet(
        DMA_DATA,
        "DMA_DATA",
        &[
            op::DMA,
            Word::whole("src_lo"),
            Word::whole("src_hi"),
            Word::whole("dst_lo"),
            Word::whole("dst_hi"),
            op::DMA_COMMAND,
        ],
        Rest::None,
    ),
    packet(
        ACQUIRE_MEM,
        "ACQUIRE_MEM",
        &[
            acquire::COHER_CNTL,
            Word::whole("COHER_SIZE"),
            // nvd.h and soc15d.h give it 8 bits. The kernel driver writes 0xffffff and others
            // 0xffffffff for "everything", on real cards: the bits above mean nothing.
            Word::whole("COHER_SIZE_HI"),
            Word::whole("COHER_BASE"),
            acquire::COHER_BASE_HI,
            acquire::POLL,
            acquire::GCR_CNTL.on(Gfxs::GFX10_UP),
        ],
        Rest::None,
    ),
    packet(SET_SH_REG, "SET_SH_REG", &[op::SH_REG], Rest::Data(1)),
    packet(
        SET_UCONFIG_REG,
        "SET_UCONFIG_REG",
        &[op::SH_REG],
        Rest::Data(1),
    ),
    Packet {
        gfx: Gfxs::GFX10_UP,
        ..packet(
            WAIT_REG_MEM64,
            "WAIT_REG_MEM64",
            &[
                wait::INFO,
                ADDR_LO,
                ADDR_HI,
                Word::whole("ref_lo"),
                Word::whole("ref_hi"),
                Word::whole("mask_lo"),
                Word::whole("mask_hi"),
                wait::POLL,
            ],
            Rest::None,
        )
    },
    Packet {
        gfx: Gfxs::GFX10_UP,
        ..packet(
            SET_SH_REG_INDEX,
            "SET_SH_REG_INDEX",
            &[op::SH_REG],
            Rest::Data(1),
        )
    },
];

const fn packet(op: u8, name: &'static str, words: &'static [Word], rest: Rest) -> Packet {
    Packet {
        name,
        op: op as u16,
        gfx: Gfxs::ALL,
        words,
        rest,
    }
}

/// The packet of an opcode on a generation.
pub fn find(gfx: Gfx, op: u8) -> Option<&'static Packet> {
    PACKETS
        .iter()
        .find(|packet| packet.op == u16::from(op) && packet.gfx.has(gfx))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_kernel_driver() {
        assert_eq!(header(SET_SH_REG, 2), 0xc001_7600);
        assert_eq!(header(DISPATCH_DIRECT, 4), 0xc003_1500);
        assert_eq!(header(NOP, 0x4000), NOP_PAD);
    }

    #[test]
    fn acquire_mem_is_one_dword_longer_from_gfx10_on() {
        let acquire = |gfx| find(gfx, ACQUIRE_MEM).map(|packet| packet.fixed(gfx));
        assert_eq!(acquire(Gfx::Gfx9), Some(6));
        assert_eq!(acquire(Gfx::Gfx12), Some(7));
        assert_eq!(find(Gfx::Gfx9, WAIT_REG_MEM64), None);
    }
}
