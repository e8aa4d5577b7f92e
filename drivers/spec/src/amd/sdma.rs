//! SDMA: the packets of a copy queue.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu/{vega10_sdma_pkt_open.h, navi10_sdma_pkt_open.h,
//! sdma_v6_0_0_pkt_open.h} (fields), sdma_v4_4_2.c, sdma_v5_2.c, sdma_v6_0.c, sdma_v7_0.c (use); ROCR,
//! sdma_registers.h and amd_blit_sdma.cpp (GCR, user packets). Generations name the engines: see
//! [`Gfx`].

use super::packet::{Field, Gfx, Gfxs, Packet, Rest, Word, words};

/// The operation of a packet, 7:0 of its first dword.
pub const fn op(header: u32) -> u8 {
    header as u8
}

/// The operation and the sub-operation, as [`Packet::op`] holds them.
pub const fn op_sub(header: u32) -> u16 {
    header as u16
}

/// Does nothing; so does a dword of zero.
pub const NOP: u16 = 0;
/// Copies bytes.
pub const COPY_LINEAR: u16 = 1;
/// Copies a box.
pub const COPY_LINEAR_SUB_WIND: u16 = 1 | 4 << 8;
/// Writes dwords of the packet.
pub const WRITE: u16 = 2;
/// Runs packets from elsewhere.
pub const INDIRECT: u16 = 4;
/// Writes a dword after everything before.
pub const FENCE: u16 = 5;
/// Interrupts.
pub const TRAP: u16 = 6;
/// Waits for a value.
pub const POLL_REGMEM: u16 = 8;
/// Skips dwords where memory differs.
pub const COND_EXE: u16 = 9;
/// An atomic operation on memory.
pub const ATOMIC: u16 = 10;
/// Fills memory.
pub const CONST_FILL: u16 = 11;
/// Sets the engine's clock. Not for user queues.
pub const TIMESTAMP_SET: u16 = 13;
/// Writes the engine's clock.
pub const TIMESTAMP_GET: u16 = 13 | 1 << 8;
/// Writes the GPU's clock.
pub const TIMESTAMP_GET_GLOBAL: u16 = 13 | 2 << 8;
/// Acts on caches, as the kernel driver writes it.
pub const GCR_REQ: u16 = 17;
/// Acts on caches, as user queues write it.
pub const GCR_USER: u16 = 17 | 1 << 8;

/// MTYPE of FENCE from SDMA 5 on: uncached, which makes the write reach memory.
pub const MTYPE_UC: u32 = 3;

/// The alignment of an INDIRECT packet's end in the ring, in dwords.
pub const INDIRECT_END: u64 = 8;

/// The most bytes of one COPY_LINEAR, and of one CONST_FILL.
///
/// The headers of SDMA 4 and 5 still say 22 bits. Those of 4.4 and 5.2 have 30: ROCR, "Increase SDMA
/// copy size" (copies); Linux, "drm/amdgpu/sdma4.4: adjust SDMA limits" and the same for 5.2 (both).
pub const COUNT_MAX: u64 = 1 << 30;

/// The HDP flush that ROCR sends, a POLL_REGMEM without parameters that microcode since GFX9 knows.
///
/// Source: ROCR, sdma_registers.h, hdp_flush_cmd.
pub const HDP_FLUSH_PACKET: [u32; 6] = [POLL_REGMEM as u32, 0, 0x8000_0000, 0, 0, 0];

/// The fields of COPY_LINEAR_SUB_WIND on a generation.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Where the box starts, in each side: x and y in one dword, z in the next.
    pub start: [Field; 3],
    /// Elements of a row, less one; beside z.
    pub pitch: Field,
    /// Elements of a slice, less one.
    pub slice: Field,
    /// The size of the box, less one: x and y in one dword, z in the next.
    pub size: [Field; 3],
}

/// The fields of COPY_LINEAR_SUB_WIND. Those of SDMA 7 are others than before.
///
/// Source: ROCR, sdma_registers.h, SDMA_PKT_COPY_LINEAR_RECT_GFX12.
pub const fn window(gfx: Gfx) -> Window {
    match gfx {
        Gfx::Gfx12 => Window {
            start: [X_16, Y_16, Z_14],
            pitch: PITCH_16,
            slice: SLICE_PITCH_32,
            size: [RECT_X_16, RECT_Y_16, RECT_Z_14],
        },
        Gfx::Gfx10 | Gfx::Gfx11 => Window {
            start: [X, Y, Z_13],
            pitch: PITCH,
            slice: SLICE_PITCH,
            size: [RECT_X, RECT_Y, RECT_Z_13],
        },
        Gfx::Gfx9 => Window {
            start: [X, Y, Z_11],
            pitch: PITCH,
            slice: SLICE_PITCH,
            size: [RECT_X, RECT_Y, RECT_Z_11],
        },
    }
}

words! {
    /// NOP, dword 0.
    NOP_HEADER "header" {
        /// The operation.
        OP 7 0;
        /// The sub-operation.
        SUB_OP 15 8;
        /// How many dwords after it are skipped.
        NOP_COUNT 29 16;
    }
    /// COPY_LINEAR, dword 0.
    COPY_HEADER "header" {
        /// The operation.
        COPY_OP 7 0;
        /// The sub-operation.
        COPY_SUB_OP 15 8;
        /// Encrypts. Only for queues of the kernel driver.
        COPY_ENCRYPT 16 16;
        /// Trusted memory. Only for queues of the kernel driver.
        COPY_TMZ 18 18;
        /// Cache policies are given; on SDMA 7 one dword more follows.
        COPY_CPV 19 19 on GFX11_UP;
        /// From high to low addresses.
        COPY_BACKWARDS 25 25 on GFX10_UP;
        /// To two destinations.
        COPY_BROADCAST 27 27;
    }
    /// COPY_LINEAR, dword 1.
    COPY_COUNT "count" {
        /// Bytes, less one.
        COUNT 29 0;
    }
    /// COPY_LINEAR, dword 2.
    COPY_PARAMETER "parameter" {
        /// Byte swap of the destination: 0 none.
        DST_SW 17 16;
        /// Cache policy of the destination.
        DST_CACHE_POLICY 20 18 on GFX11_UP;
        /// Byte swap of the source: 0 none.
        SRC_SW 25 24;
        /// Cache policy of the source.
        SRC_CACHE_POLICY 28 26 on GFX11_UP;
    }
    /// COPY_LINEAR_SUB_WIND, dword 0.
    WINDOW_HEADER "header" {
        /// The operation.
        WINDOW_OP 7 0;
        /// The sub-operation.
        WINDOW_SUB_OP 15 8;
        /// Trusted memory. Only for queues of the kernel driver.
        WINDOW_TMZ 18 18;
        /// Cache policies are given.
        WINDOW_CPV 19 19 on GFX11_UP;
        /// log2 of the bytes of an element, at most 4.
        ELEMENT_SIZE 31 29;
    }
    /// A position: x and y.
    WINDOW_XY "xy" {
        /// x in elements.
        X 13 0 on TO_GFX11;
        /// x in elements.
        X_16 15 0 on GFX12;
        /// y in rows.
        Y 29 16 on TO_GFX11;
        /// y in rows.
        Y_16 31 16 on GFX12;
    }
    /// A position: z; and the pitch.
    WINDOW_Z_PITCH "z_pitch" {
        /// z in slices.
        Z_11 10 0 on GFX9;
        /// z in slices.
        Z_13 12 0 on GFX10_11;
        /// z in slices.
        Z_14 13 0 on GFX12;
        /// Elements of a row, less one.
        PITCH 31 13 on TO_GFX11;
        /// Elements of a row, less one.
        PITCH_16 31 16 on GFX12;
    }
    /// The slice pitch.
    WINDOW_SLICE "slice_pitch" {
        /// Elements of a slice, less one.
        SLICE_PITCH 27 0 on TO_GFX11;
        /// Elements of a slice, less one.
        SLICE_PITCH_32 31 0 on GFX12;
    }
    /// The size of the box in x and y, each less one.
    WINDOW_RECT_XY "rect_xy" {
        /// Elements less one.
        RECT_X 13 0 on TO_GFX11;
        /// Elements less one.
        RECT_X_16 15 0 on GFX12;
        /// Rows less one.
        RECT_Y 29 16 on TO_GFX11;
        /// Rows less one.
        RECT_Y_16 31 16 on GFX12;
    }
    /// The size of the box in z, less one; and swaps.
    WINDOW_RECT_Z "rect_z" {
        /// Slices less one.
        RECT_Z_11 10 0 on GFX9;
        /// Slices less one.
        RECT_Z_13 12 0 on GFX10_11;
        /// Slices less one.
        RECT_Z_14 13 0 on GFX12;
        /// Byte swap of the destination: 0 none.
        RECT_DST_SW 17 16 on TO_GFX11;
        /// Cache policy of the destination.
        RECT_DST_POLICY 20 18 on GFX11;
        /// Cache policy of the destination.
        RECT_DST_POLICY_12 22 20 on GFX12;
        /// Byte swap of the source: 0 none.
        RECT_SRC_SW 25 24 on TO_GFX11;
        /// Cache policy of the source.
        RECT_SRC_POLICY 28 26 on GFX11;
        /// Cache policy of the source.
        RECT_SRC_POLICY_12 30 28 on GFX12;
    }
    /// WRITE, dword 0.
    WRITE_HEADER "header" {
        /// The operation.
        WRITE_OP 7 0;
        /// The sub-operation.
        WRITE_SUB_OP 15 8;
        /// Encrypts. Only for queues of the kernel driver.
        WRITE_ENCRYPT 16 16;
        /// Trusted memory. Only for queues of the kernel driver.
        WRITE_TMZ 18 18;
        /// A cache policy is given.
        WRITE_CPV 28 28 on GFX11_UP;
    }
    /// WRITE, dword 3.
    WRITE_COUNT_WORD "count" {
        /// Dwords, less one.
        WRITE_COUNT 19 0;
        /// Byte swap: 0 none.
        WRITE_SW 25 24;
        /// Cache policy.
        WRITE_CACHE_POLICY 28 26 on GFX11_UP;
    }
    /// INDIRECT, dword 0.
    INDIRECT_HEADER "header" {
        /// The operation.
        INDIRECT_OP 7 0;
        /// The sub-operation.
        INDIRECT_SUB_OP 15 8;
        /// 0 from a user queue: the queue has a VMID.
        INDIRECT_VMID 19 16;
        /// Privileged. Not for user queues.
        INDIRECT_PRIV 31 31 on GFX10_UP;
    }
    /// INDIRECT, dword 1.
    INDIRECT_BASE "ib_base_lo" {
        /// Bits 31:5 of the address.
        IB_BASE_LO 31 5;
    }
    /// INDIRECT, dword 3.
    INDIRECT_SIZE "ib_size" {
        /// Dwords.
        IB_SIZE 19 0;
    }
    /// FENCE, dword 0.
    FENCE_HEADER "header" {
        /// The operation.
        FENCE_OP 7 0;
        /// The sub-operation.
        FENCE_SUB_OP 15 8;
        /// Memory type of the write.
        FENCE_MTYPE 18 16 on GFX10_UP;
        /// GPU coherent.
        FENCE_GCC 19 19 on GFX10_UP;
        /// System memory.
        FENCE_SYS 20 20 on GFX10_UP;
        /// Snooped.
        FENCE_SNP 22 22 on GFX10_UP;
        /// Guest physical address.
        FENCE_GPA 23 23 on GFX10_UP;
        /// Policy in L2.
        FENCE_L2_POLICY 25 24 on GFX10_UP;
        /// Policy in the last level cache.
        FENCE_LLC_POLICY 26 26 on GFX11_UP;
        /// The policies are given.
        FENCE_CPV 28 28 on GFX11_UP;
    }
    /// TRAP, dword 0, and other headers without fields.
    PLAIN_HEADER "header" {
        /// The operation.
        PLAIN_OP 7 0;
        /// The sub-operation.
        PLAIN_SUB_OP 15 8;
    }
    /// TRAP, dword 1.
    TRAP_CONTEXT "int_context" {
        /// What the interrupt carries.
        INT_CONTEXT 27 0;
    }
    /// POLL_REGMEM, dword 0.
    POLL_HEADER "header" {
        /// The operation.
        POLL_OP 7 0;
        /// The sub-operation.
        POLL_SUB_OP 15 8;
        /// Cache policy.
        POLL_CACHE_POLICY 22 20 on GFX11_UP;
        /// A cache policy is given.
        POLL_CPV 24 24 on GFX11_UP;
        /// An HDP flush: the address words are the registers that say done and that ask.
        HDP_FLUSH 26 26;
        /// How the masked value compares with the reference; as WAIT_REG_MEM.
        FUNC 30 28;
        /// 1 memory, 0 a register.
        MEM_POLL 31 31;
    }
    /// POLL_REGMEM, dword 5.
    POLL_INTERVAL "interval" {
        /// Clocks between looks.
        INTERVAL 15 0;
        /// How often it looks; 0xfff for ever.
        RETRY_COUNT 27 16;
    }
    /// COND_EXE, dword 4.
    COND_COUNT "exec_count" {
        /// How many dwords are skipped.
        EXEC_COUNT 13 0;
    }
    /// ATOMIC, dword 0.
    ATOMIC_HEADER "header" {
        /// The operation.
        ATOMIC_PACKET_OP 7 0;
        /// Repeats until the comparison is true.
        ATOMIC_LOOP 16 16;
        /// Trusted memory. Only for queues of the kernel driver.
        ATOMIC_TMZ 18 18;
        /// Cache policy.
        ATOMIC_CACHE_POLICY 22 20 on GFX11_UP;
        /// A cache policy is given.
        ATOMIC_CPV 24 24 on GFX11_UP;
        /// What is done, as the texture cache numbers it.
        ATOMIC_OP 31 25;
    }
    /// ATOMIC, dword 7.
    ATOMIC_INTERVAL "loop" {
        /// Clocks between two tries.
        LOOP_INTERVAL 12 0;
    }
    /// CONST_FILL, dword 0.
    FILL_HEADER "header" {
        /// The operation.
        FILL_OP 7 0;
        /// The sub-operation.
        FILL_SUB_OP 15 8;
        /// Byte swap: 0 none.
        FILL_SW 17 16;
        /// Cache policy.
        FILL_CACHE_POLICY 26 24 on GFX11_UP;
        /// A cache policy is given.
        FILL_CPV 28 28 on GFX11_UP;
        /// 0 bytes, 2 dwords.
        FILL_SIZE 31 30;
    }
    /// CONST_FILL, dword 4.
    FILL_COUNT "count" {
        /// Bytes, less one element.
        FILL_BYTES 29 0;
    }
    /// TIMESTAMP_GET and TIMESTAMP_GET_GLOBAL, dword 0.
    TIME_HEADER "header" {
        /// The operation.
        TIME_OP 7 0;
        /// The sub-operation.
        TIME_SUB_OP 15 8;
        /// Policy in L2.
        TIME_L2_POLICY 25 24 on GFX11_UP;
        /// Policy in the last level cache.
        TIME_LLC_POLICY 26 26 on GFX11_UP;
        /// The policies are given.
        TIME_CPV 28 28 on GFX11_UP;
    }
    /// TIMESTAMP_GET and TIMESTAMP_GET_GLOBAL, dword 1.
    TIME_ADDR "write_addr_lo" {
        /// Bits 31:3 of the address.
        WRITE_ADDR_LO 31 3;
    }
    /// GCR, dword 1.
    GCR_BASE "base_va_lo" {
        /// Bits 31:7 of the start of the range.
        BASE_VA_31_7 31 7;
    }
    /// GCR, dword 2.
    GCR_WORD2 "base_va_hi_gcr" {
        /// Bits 47:32 of the start.
        BASE_VA_47_32 15 0;
        /// GCR_CNTL 15:0, as in ACQUIRE_MEM.
        GCR_CONTROL_15_0 31 16;
    }
    /// GCR, dword 3.
    GCR_WORD3 "gcr_limit_va_lo" {
        /// GCR_CNTL 18:16.
        GCR_CONTROL_18_16 2 0;
        /// Bits 31:7 of the end.
        LIMIT_VA_31_7 31 7;
    }
    /// GCR, dword 4.
    GCR_WORD4 "limit_va_hi_vmid" {
        /// Bits 47:32 of the end.
        LIMIT_VA_47_32 15 0;
        /// 0 from a user queue.
        GCR_VMID 27 24;
    }
    /// An address of a dword, low half.
    ADDR4_LO "addr_lo" {
        /// Bits 31:2.
        ADDR_31_2 31 2;
    }
}

const fn packet(op: u16, name: &'static str, words: &'static [Word]) -> Packet {
    Packet {
        name,
        op,
        gfx: Gfxs::ALL,
        words,
        rest: Rest::None,
    }
}

const ADDR_LO: Word = Word::whole("addr_lo");
const ADDR_HI: Word = Word::whole("addr_hi");
const SRC_LO: Word = Word::whole("src_lo");
const SRC_HI: Word = Word::whole("src_hi");
const DST_LO: Word = Word::whole("dst_lo");
const DST_HI: Word = Word::whole("dst_hi");

/// Every packet that a user queue takes. The packet of [`COPY_LINEAR`] has two dwords more with
/// [`COPY_BROADCAST`], and one more on SDMA 7 with [`COPY_CPV`].
pub static PACKETS: &[Packet] = &[
    Packet {
        rest: Rest::Data(0),
        ..packet(NOP, "NOP", &[NOP_HEADER])
    },
    packet(
        COPY_LINEAR,
        "COPY_LINEAR",
        &[
            COPY_HEADER,
            COPY_COUNT,
            COPY_PARAMETER,
            SRC_LO,
            SRC_HI,
            DST_LO,
            DST_HI,
        ],
    ),
    packet(
        COPY_LINEAR_SUB_WIND,
        "COPY_LINEAR_SUB_WIND",
        &[
            WINDOW_HEADER,
            SRC_LO,
            SRC_HI,
            WINDOW_XY,
            WINDOW_Z_PITCH,
            WINDOW_SLICE,
            DST_LO,
            DST_HI,
            WINDOW_XY,
            WINDOW_Z_PITCH,
            WINDOW_SLICE,
            WINDOW_RECT_XY,
            WINDOW_RECT_Z,
        ],
    ),
    Packet {
        rest: Rest::Data(1),
        ..packet(
            WRITE,
            "WRITE",
            &[WRITE_HEADER, ADDR4_LO, ADDR_HI, WRITE_COUNT_WORD],
        )
    },
    packet(
        INDIRECT,
        "INDIRECT",
        &[
            INDIRECT_HEADER,
            INDIRECT_BASE,
            Word::whole("ib_base_hi"),
            INDIRECT_SIZE,
            Word::whole("csa_addr_lo"),
            Word::whole("csa_addr_hi"),
        ],
    ),
    packet(
        FENCE,
        "FENCE",
        &[FENCE_HEADER, ADDR4_LO, ADDR_HI, Word::whole("data")],
    ),
    packet(TRAP, "TRAP", &[PLAIN_HEADER, TRAP_CONTEXT]),
    packet(
        POLL_REGMEM,
        "POLL_REGMEM",
        &[
            POLL_HEADER,
            ADDR4_LO,
            ADDR_HI,
            Word::whole("value"),
            Word::whole("mask"),
            POLL_INTERVAL,
        ],
    ),
    packet(
        COND_EXE,
        "COND_EXE",
        &[
            PLAIN_HEADER,
            ADDR4_LO,
            ADDR_HI,
            Word::whole("reference"),
            COND_COUNT,
        ],
    ),
    packet(
        ATOMIC,
        "ATOMIC",
        &[
            ATOMIC_HEADER,
            ADDR4_LO,
            ADDR_HI,
            SRC_LO,
            SRC_HI,
            Word::whole("cmp_lo"),
            Word::whole("cmp_hi"),
            ATOMIC_INTERVAL,
        ],
    ),
    packet(
        CONST_FILL,
        "CONST_FILL",
        &[
            FILL_HEADER,
            ADDR_LO,
            ADDR_HI,
            Word::whole("data"),
            FILL_COUNT,
        ],
    ),
    packet(
        TIMESTAMP_GET,
        "TIMESTAMP_GET",
        &[TIME_HEADER, TIME_ADDR, ADDR_HI],
    ),
    packet(
        TIMESTAMP_GET_GLOBAL,
        "TIMESTAMP_GET_GLOBAL",
        &[TIME_HEADER, TIME_ADDR, ADDR_HI],
    ),
    gcr(GCR_REQ, "GCR_REQ"),
    gcr(GCR_USER, "GCR_USER"),
];

const fn gcr(op: u16, name: &'static str) -> Packet {
    Packet {
        gfx: Gfxs::GFX10_UP,
        ..packet(
            op,
            name,
            &[PLAIN_HEADER, GCR_BASE, GCR_WORD2, GCR_WORD3, GCR_WORD4],
        )
    }
}

/// The packet that a first dword starts on a generation.
pub fn find(gfx: Gfx, header: u32) -> Option<&'static Packet> {
    // ATOMIC has no sub-operation; what is there does not choose another packet.
    PACKETS
        .iter()
        .find(|packet| packet.op == op_sub(header) && packet.gfx.has(gfx))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_headers() {
        let dwords = |header| find(Gfx::Gfx11, header).map(|packet| packet.fixed(Gfx::Gfx11));
        assert_eq!(dwords(0x0000_0001), Some(7));
        assert_eq!(dwords(0x0003_0005), Some(4));
        assert_eq!(dwords(0xd000_0008), Some(6));
        assert_eq!(dwords(0x0000_020d), Some(3));
        assert_eq!(dwords(0x5e00_000a), Some(8));
        assert_eq!(dwords(0x0000_0111), Some(5));
        assert_eq!(find(Gfx::Gfx9, 0x111), None);
        assert_eq!(dwords(0x0000_0007), None);
    }
}
