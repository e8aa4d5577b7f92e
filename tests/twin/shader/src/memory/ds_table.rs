//! DS: one row per instruction.

use std::sync::LazyLock;

use super::atomic::{self, Op32, Op64};
use super::table::Cell::{self, B32, B64, B96, B128, I8, I16, U8, U16};
use super::table::Half::{self, High, Low};
use crate::isa::Gen;

/// What a row does.
#[derive(Clone, Copy)]
pub enum Does {
    /// Loads.
    Load(Cell),
    /// Loads 8 or 16 bits into half of a register; the other half stays.
    LoadHalf(Cell, Half),
    /// Loads so many dwords at each of two offsets, which count in these bytes.
    Load2(u8, u32),
    /// Stores.
    Store(Cell),
    /// Stores from bits 16 and up.
    StoreHigh(Cell),
    /// Stores so many dwords at each of two offsets.
    Store2(u8, u32),
    /// Swaps so many dwords at each of two offsets.
    Swap2(u8, u32),
    /// Changes 32 bits; takes this many data registers; whether it returns what was there.
    Atomic32(Op32, u8, bool),
    /// Changes 64 bits; takes this many pairs of data registers; whether it returns.
    Atomic64(Op64, u8, bool),
    /// Two exchanges of 32 bits, each where bit 31 of its data is set.
    CondSwap,
    /// Loads at M0 plus the offset plus four times the lane.
    LoadTid,
    /// Stores there.
    StoreTid,
    /// Adds the number of lanes that are on, or takes it away, once.
    Count(bool),
    /// Moves values between lanes by a pattern in the offset.
    Swizzle,
    /// Sends to the lane that the address names.
    Permute,
    /// Fetches from the lane that the address names; true where lanes that are off count too.
    Bpermute(bool),
    /// Nothing.
    Nop,
    /// Global wave sync, with or without a register; not executed.
    Gws(bool),
    /// Ordered append of graphics; not executed.
    Ordered,
    /// Registers of geometry shaders; not executed.
    GsReg,
    /// Stack of ray tracing: so many registers returned, so many pushed; not executed.
    Bvh(u8, u8),
}

use Does::{
    Atomic32, Atomic64, Bpermute, Bvh, CondSwap, Count, GsReg, Gws, Load, Load2, LoadHalf, LoadTid,
    Nop, Ordered, Permute, Store, Store2, StoreHigh, StoreTid, Swap2, Swizzle,
};

/// The registers of an instruction, in dwords; 0 for none.
pub struct Shape {
    pub dst: u8,
    pub addr: bool,
    pub data: [u8; 2],
}

impl Shape {
    /// Whether all registers exist: the destination and the data, by their first ones.
    pub fn inside(&self, [dst, data0, data1]: [u16; 3]) -> bool {
        let [count0, count1] = self.data;
        [(dst, self.dst), (data0, count0), (data1, count1)]
            .iter()
            .all(|&(first, count)| first + u16::from(count) <= 256)
    }
}

impl Does {
    /// Its registers.
    pub const fn shape(self) -> Shape {
        const fn shape(dst: u8, addr: bool, data: [u8; 2]) -> Shape {
            Shape { dst, addr, data }
        }
        match self {
            Load(cell) => shape(cell.dwords(), true, [0, 0]),
            LoadHalf(..) | Swizzle => shape(1, true, [0, 0]),
            Load2(dwords, _) => shape(2 * dwords, true, [0, 0]),
            Store(cell) => shape(0, true, [cell.dwords(), 0]),
            StoreHigh(_) => shape(0, true, [1, 0]),
            Store2(dwords, _) => shape(0, true, [dwords, dwords]),
            Swap2(dwords, _) => shape(2 * dwords, true, [dwords, dwords]),
            Atomic32(_, n, rtn) => shape(rtn as u8, true, [1, n - 1]),
            Atomic64(_, n, rtn) => shape(2 * rtn as u8, true, [2, 2 * (n - 1)]),
            CondSwap => shape(2, true, [2, 0]),
            LoadTid | Count(_) => shape(1, false, [0, 0]),
            StoreTid => shape(0, false, [1, 0]),
            Permute | Bpermute(_) => shape(1, true, [1, 0]),
            Nop => shape(0, false, [0, 0]),
            Gws(addr) => shape(0, addr, [0, 0]),
            Ordered => shape(1, true, [0, 0]),
            GsReg => shape(2, false, [1, 0]),
            Bvh(dst, data) => shape(dst, true, [1, data]),
        }
    }

    /// Two offsets of 8 bits rather than one of 16.
    pub const fn two_offsets(self) -> bool {
        matches!(self, Load2(..) | Store2(..) | Swap2(..))
    }
}

/// A row of the table.
pub struct Row {
    /// Opcodes in RDNA2, RDNA3, RDNA4, CDNA3; -1 where there is none.
    ops: [i16; 4],
    names: [&'static str; 2],
    /// What it does.
    pub does: Does,
}

impl Row {
    /// The mnemonic.
    pub fn name(&self, generation: Gen) -> &'static str {
        match generation {
            Gen::Rdna2 | Gen::Cdna3 => self.names[0],
            Gen::Rdna3 | Gen::Rdna4 => self.names[1],
        }
    }
}

/// The row of an opcode.
pub fn find(generation: Gen, op: u32) -> Option<&'static Row> {
    static INDEX: LazyLock<[[Option<&'static Row>; 256]; 4]> = LazyLock::new(|| {
        let mut index = [[None; 256]; 4];
        for row in ROWS {
            for (column, &op) in row.ops.iter().enumerate() {
                if let Ok(op) = usize::try_from(op) {
                    index[column][op] = Some(row);
                }
            }
        }
        index
    });
    INDEX[generation.column()][op as usize & 255]
}

const fn row(ops: [i16; 4], old: &'static str, new: &'static str, does: Does) -> Row {
    let names = [old, new];
    Row { ops, names, does }
}

const fn same(ops: [i16; 4], name: &'static str, does: Does) -> Row {
    row(ops, name, name, does)
}

/// Source of names and opcodes: the microcode formats of the ISA documents.
///
/// Opcode in RDNA2, RDNA3, RDNA4, CDNA3; name in RDNA2 and CDNA3; name in RDNA3 and 4.
#[rustfmt::skip]
static ROWS: &[Row] = &[
    same([0; 4], "ds_add_u32", Atomic32(atomic::add, 1, false)),
    same([32; 4], "ds_add_rtn_u32", Atomic32(atomic::add, 1, true)),
    same([1; 4], "ds_sub_u32", Atomic32(atomic::sub, 1, false)),
    same([33; 4], "ds_sub_rtn_u32", Atomic32(atomic::sub, 1, true)),
    same([2; 4], "ds_rsub_u32", Atomic32(atomic::rsub, 1, false)),
    same([34; 4], "ds_rsub_rtn_u32", Atomic32(atomic::rsub, 1, true)),
    same([3; 4], "ds_inc_u32", Atomic32(atomic::inc, 1, false)),
    same([35; 4], "ds_inc_rtn_u32", Atomic32(atomic::inc, 1, true)),
    same([4; 4], "ds_dec_u32", Atomic32(atomic::dec, 1, false)),
    same([36; 4], "ds_dec_rtn_u32", Atomic32(atomic::dec, 1, true)),
    same([5; 4], "ds_min_i32", Atomic32(atomic::min_i, 1, false)),
    same([37; 4], "ds_min_rtn_i32", Atomic32(atomic::min_i, 1, true)),
    same([6; 4], "ds_max_i32", Atomic32(atomic::max_i, 1, false)),
    same([38; 4], "ds_max_rtn_i32", Atomic32(atomic::max_i, 1, true)),
    same([7; 4], "ds_min_u32", Atomic32(atomic::min_u, 1, false)),
    same([39; 4], "ds_min_rtn_u32", Atomic32(atomic::min_u, 1, true)),
    same([8; 4], "ds_max_u32", Atomic32(atomic::max_u, 1, false)),
    same([40; 4], "ds_max_rtn_u32", Atomic32(atomic::max_u, 1, true)),
    same([9; 4], "ds_and_b32", Atomic32(atomic::and, 1, false)),
    same([41; 4], "ds_and_rtn_b32", Atomic32(atomic::and, 1, true)),
    same([10; 4], "ds_or_b32", Atomic32(atomic::or, 1, false)),
    same([42; 4], "ds_or_rtn_b32", Atomic32(atomic::or, 1, true)),
    same([11; 4], "ds_xor_b32", Atomic32(atomic::xor, 1, false)),
    same([43; 4], "ds_xor_rtn_b32", Atomic32(atomic::xor, 1, true)),
    same([12; 4], "ds_mskor_b32", Atomic32(atomic::mskor, 2, false)),
    same([44; 4], "ds_mskor_rtn_b32", Atomic32(atomic::mskor, 2, true)),
    row([13; 4], "ds_write_b32", "ds_store_b32", Store(B32)),
    row([14; 4], "ds_write2_b32", "ds_store_2addr_b32", Store2(1, 4)),
    row([15; 4], "ds_write2st64_b32", "ds_store_2addr_stride64_b32", Store2(1, 256)),
    row([16, -1, -1, 16], "ds_cmpst_b32", "", Atomic32(atomic::cmpst, 2, false)),
    row([-1, 16, 16, -1], "", "ds_cmpstore_b32", Atomic32(atomic::cmpswap, 2, false)),
    row([17, -1, -1, 17], "ds_cmpst_f32", "", Atomic32(atomic::cmpst_f32, 2, false)),
    row([-1, 17, -1, -1], "", "ds_cmpstore_f32", Atomic32(atomic::cmpswap_f32, 2, false)),
    same([18, 18, -1, 18], "ds_min_f32", Atomic32(atomic::min_f32, 1, false)),
    same([19, 19, -1, 19], "ds_max_f32", Atomic32(atomic::max_f32, 1, false)),
    row([-1, -1, 18, -1], "", "ds_min_num_f32", Atomic32(atomic::min_num_f32, 1, false)),
    row([-1, -1, 19, -1], "", "ds_max_num_f32", Atomic32(atomic::max_num_f32, 1, false)),
    same([20; 4], "ds_nop", Nop),
    same([21; 4], "ds_add_f32", Atomic32(atomic::add_f32, 1, false)),
    same([-1, -1, 154, 23], "ds_pk_add_f16", Atomic32(atomic::pk_add_f16, 1, false)),
    same([-1, -1, 155, 24], "ds_pk_add_bf16", Atomic32(atomic::pk_add_bf16, 1, false)),
    row([-1, -1, 152, -1], "", "ds_cond_sub_u32", Atomic32(atomic::cond_sub, 1, false)),
    row([-1, -1, 153, -1], "", "ds_sub_clamp_u32", Atomic32(atomic::sub_clamp, 1, false)),
    same([24, 24, -1, 152], "ds_gws_sema_release_all", Gws(false)),
    same([25, 25, -1, 153], "ds_gws_init", Gws(true)),
    same([26, 26, -1, 154], "ds_gws_sema_v", Gws(false)),
    same([27, 27, -1, 155], "ds_gws_sema_br", Gws(true)),
    same([28, 28, -1, 156], "ds_gws_sema_p", Gws(false)),
    same([29, 29, -1, 157], "ds_gws_barrier", Gws(true)),
    row([176, 176, 176, 29], "ds_write_addtid_b32", "ds_store_addtid_b32", StoreTid),
    row([177, 177, 177, 182], "ds_read_addtid_b32", "ds_load_addtid_b32", LoadTid),
    row([30; 4], "ds_write_b8", "ds_store_b8", Store(U8)),
    row([31; 4], "ds_write_b16", "ds_store_b16", Store(U16)),
    row([45; 4], "ds_wrxchg_rtn_b32", "ds_storexchg_rtn_b32", Atomic32(atomic::swap, 1, true)),
    row([46; 4], "ds_wrxchg2_rtn_b32", "ds_storexchg_2addr_rtn_b32", Swap2(1, 4)),
    row([47; 4], "ds_wrxchg2st64_rtn_b32", "ds_storexchg_2addr_stride64_rtn_b32", Swap2(1, 256)),
    row([48, -1, -1, 48], "ds_cmpst_rtn_b32", "", Atomic32(atomic::cmpst, 2, true)),
    row([-1, 48, 48, -1], "", "ds_cmpstore_rtn_b32", Atomic32(atomic::cmpswap, 2, true)),
    row([49, -1, -1, 49], "ds_cmpst_rtn_f32", "", Atomic32(atomic::cmpst_f32, 2, true)),
    row([-1, 49, -1, -1], "", "ds_cmpstore_rtn_f32", Atomic32(atomic::cmpswap_f32, 2, true)),
    same([50, 50, -1, 50], "ds_min_rtn_f32", Atomic32(atomic::min_f32, 1, true)),
    same([51, 51, -1, 51], "ds_max_rtn_f32", Atomic32(atomic::max_f32, 1, true)),
    row([-1, -1, 50, -1], "", "ds_min_num_rtn_f32", Atomic32(atomic::min_num_f32, 1, true)),
    row([-1, -1, 51, -1], "", "ds_max_num_rtn_f32", Atomic32(atomic::max_num_f32, 1, true)),
    same([52, 52, -1, 52], "ds_wrap_rtn_b32", Atomic32(atomic::wrap, 2, true)),
    same([85, 121, 121, 53], "ds_add_rtn_f32", Atomic32(atomic::add_f32, 1, true)),
    same([-1, -1, 170, 183], "ds_pk_add_rtn_f16", Atomic32(atomic::pk_add_f16, 1, true)),
    same([-1, -1, 171, 184], "ds_pk_add_rtn_bf16", Atomic32(atomic::pk_add_bf16, 1, true)),
    row([-1, -1, 168, -1], "", "ds_cond_sub_rtn_u32", Atomic32(atomic::cond_sub, 1, true)),
    row([-1, -1, 169, -1], "", "ds_sub_clamp_rtn_u32", Atomic32(atomic::sub_clamp, 1, true)),
    same([53, 53, 53, 61], "ds_swizzle_b32", Swizzle),
    same([178, 178, 178, 62], "ds_permute_b32", Permute),
    same([179, 179, 179, 63], "ds_bpermute_b32", Bpermute(false)),
    row([-1, -1, 205, -1], "", "ds_bpermute_fi_b32", Bpermute(true)),
    row([54; 4], "ds_read_b32", "ds_load_b32", Load(B32)),
    row([55; 4], "ds_read2_b32", "ds_load_2addr_b32", Load2(1, 4)),
    row([56; 4], "ds_read2st64_b32", "ds_load_2addr_stride64_b32", Load2(1, 256)),
    row([57; 4], "ds_read_i8", "ds_load_i8", Load(I8)),
    row([58; 4], "ds_read_u8", "ds_load_u8", Load(U8)),
    row([59; 4], "ds_read_i16", "ds_load_i16", Load(I16)),
    row([60; 4], "ds_read_u16", "ds_load_u16", Load(U16)),
    same([61, 61, 61, 189], "ds_consume", Count(false)),
    same([62, 62, 62, 190], "ds_append", Count(true)),
    same([63, 63, -1, -1], "ds_ordered_count", Ordered),
    same([64; 4], "ds_add_u64", Atomic64(atomic::add64, 1, false)),
    same([96; 4], "ds_add_rtn_u64", Atomic64(atomic::add64, 1, true)),
    same([65; 4], "ds_sub_u64", Atomic64(atomic::sub64, 1, false)),
    same([97; 4], "ds_sub_rtn_u64", Atomic64(atomic::sub64, 1, true)),
    same([66; 4], "ds_rsub_u64", Atomic64(atomic::rsub64, 1, false)),
    same([98; 4], "ds_rsub_rtn_u64", Atomic64(atomic::rsub64, 1, true)),
    same([67; 4], "ds_inc_u64", Atomic64(atomic::inc64, 1, false)),
    same([99; 4], "ds_inc_rtn_u64", Atomic64(atomic::inc64, 1, true)),
    same([68; 4], "ds_dec_u64", Atomic64(atomic::dec64, 1, false)),
    same([100; 4], "ds_dec_rtn_u64", Atomic64(atomic::dec64, 1, true)),
    same([69; 4], "ds_min_i64", Atomic64(atomic::min_i64, 1, false)),
    same([101; 4], "ds_min_rtn_i64", Atomic64(atomic::min_i64, 1, true)),
    same([70; 4], "ds_max_i64", Atomic64(atomic::max_i64, 1, false)),
    same([102; 4], "ds_max_rtn_i64", Atomic64(atomic::max_i64, 1, true)),
    same([71; 4], "ds_min_u64", Atomic64(atomic::min_u64, 1, false)),
    same([103; 4], "ds_min_rtn_u64", Atomic64(atomic::min_u64, 1, true)),
    same([72; 4], "ds_max_u64", Atomic64(atomic::max_u64, 1, false)),
    same([104; 4], "ds_max_rtn_u64", Atomic64(atomic::max_u64, 1, true)),
    same([73; 4], "ds_and_b64", Atomic64(atomic::and64, 1, false)),
    same([105; 4], "ds_and_rtn_b64", Atomic64(atomic::and64, 1, true)),
    same([74; 4], "ds_or_b64", Atomic64(atomic::or64, 1, false)),
    same([106; 4], "ds_or_rtn_b64", Atomic64(atomic::or64, 1, true)),
    same([75; 4], "ds_xor_b64", Atomic64(atomic::xor64, 1, false)),
    same([107; 4], "ds_xor_rtn_b64", Atomic64(atomic::xor64, 1, true)),
    same([76; 4], "ds_mskor_b64", Atomic64(atomic::mskor64, 2, false)),
    same([108; 4], "ds_mskor_rtn_b64", Atomic64(atomic::mskor64, 2, true)),
    row([77; 4], "ds_write_b64", "ds_store_b64", Store(B64)),
    row([78; 4], "ds_write2_b64", "ds_store_2addr_b64", Store2(2, 8)),
    row([79; 4], "ds_write2st64_b64", "ds_store_2addr_stride64_b64", Store2(2, 512)),
    row([80, -1, -1, 80], "ds_cmpst_b64", "", Atomic64(atomic::cmpst64, 2, false)),
    row([-1, 80, 80, -1], "", "ds_cmpstore_b64", Atomic64(atomic::cmpswap64, 2, false)),
    row([81, -1, -1, 81], "ds_cmpst_f64", "", Atomic64(atomic::cmpst_f64, 2, false)),
    row([-1, 81, -1, -1], "", "ds_cmpstore_f64", Atomic64(atomic::cmpswap_f64, 2, false)),
    same([82, 82, -1, 82], "ds_min_f64", Atomic64(atomic::min_f64, 1, false)),
    same([83, 83, -1, 83], "ds_max_f64", Atomic64(atomic::max_f64, 1, false)),
    row([-1, -1, 82, -1], "", "ds_min_num_f64", Atomic64(atomic::min_num_f64, 1, false)),
    row([-1, -1, 83, -1], "", "ds_max_num_f64", Atomic64(atomic::max_num_f64, 1, false)),
    row([-1, -1, -1, 92], "ds_add_f64", "", Atomic64(atomic::add_f64, 1, false)),
    row([112, -1, -1, 112], "ds_cmpst_rtn_b64", "", Atomic64(atomic::cmpst64, 2, true)),
    row([-1, 112, 112, -1], "", "ds_cmpstore_rtn_b64", Atomic64(atomic::cmpswap64, 2, true)),
    row([113, -1, -1, 113], "ds_cmpst_rtn_f64", "", Atomic64(atomic::cmpst_f64, 2, true)),
    row([-1, 113, -1, -1], "", "ds_cmpstore_rtn_f64", Atomic64(atomic::cmpswap_f64, 2, true)),
    same([114, 114, -1, 114], "ds_min_rtn_f64", Atomic64(atomic::min_f64, 1, true)),
    same([115, 115, -1, 115], "ds_max_rtn_f64", Atomic64(atomic::max_f64, 1, true)),
    row([-1, -1, 114, -1], "", "ds_min_num_rtn_f64", Atomic64(atomic::min_num_f64, 1, true)),
    row([-1, -1, 115, -1], "", "ds_max_num_rtn_f64", Atomic64(atomic::max_num_f64, 1, true)),
    row([-1, -1, -1, 124], "ds_add_rtn_f64", "", Atomic64(atomic::add_f64, 1, true)),
    row([109; 4], "ds_wrxchg_rtn_b64", "ds_storexchg_rtn_b64", Atomic64(atomic::swap64, 1, true)),
    row([110; 4], "ds_wrxchg2_rtn_b64", "ds_storexchg_2addr_rtn_b64", Swap2(2, 8)),
    row([111; 4], "ds_wrxchg2st64_rtn_b64", "ds_storexchg_2addr_stride64_rtn_b64", Swap2(2, 512)),
    row([118; 4], "ds_read_b64", "ds_load_b64", Load(B64)),
    row([119; 4], "ds_read2_b64", "ds_load_2addr_b64", Load2(2, 8)),
    row([120; 4], "ds_read2st64_b64", "ds_load_2addr_stride64_b64", Load2(2, 512)),
    row([-1, 122, -1, -1], "", "ds_add_gs_reg_rtn", GsReg),
    row([-1, 123, -1, -1], "", "ds_sub_gs_reg_rtn", GsReg),
    same([126; 4], "ds_condxchg32_rtn_b64", CondSwap),
    row([160, 160, 160, 84], "ds_write_b8_d16_hi", "ds_store_b8_d16_hi", StoreHigh(U8)),
    row([161, 161, 161, 85], "ds_write_b16_d16_hi", "ds_store_b16_d16_hi", StoreHigh(U16)),
    row([162, 162, 162, 86], "ds_read_u8_d16", "ds_load_u8_d16", LoadHalf(U8, Low)),
    row([163, 163, 163, 87], "ds_read_u8_d16_hi", "ds_load_u8_d16_hi", LoadHalf(U8, High)),
    row([164, 164, 164, 88], "ds_read_i8_d16", "ds_load_i8_d16", LoadHalf(I8, Low)),
    row([165, 165, 165, 89], "ds_read_i8_d16_hi", "ds_load_i8_d16_hi", LoadHalf(I8, High)),
    row([166, 166, 166, 90], "ds_read_u16_d16", "ds_load_u16_d16", LoadHalf(U16, Low)),
    row([167, 167, 167, 91], "ds_read_u16_d16_hi", "ds_load_u16_d16_hi", LoadHalf(U16, High)),
    row([-1, 173, -1, -1], "", "ds_bvh_stack_rtn_b32", Bvh(1, 4)),
    row([-1, -1, 224, -1], "", "ds_bvh_stack_push4_pop1_rtn_b32", Bvh(1, 4)),
    row([-1, -1, 225, -1], "", "ds_bvh_stack_push8_pop1_rtn_b32", Bvh(1, 8)),
    row([-1, -1, 226, -1], "", "ds_bvh_stack_push8_pop2_rtn_b64", Bvh(2, 8)),
    row([222; 4], "ds_write_b96", "ds_store_b96", Store(B96)),
    row([223; 4], "ds_write_b128", "ds_store_b128", Store(B128)),
    row([254; 4], "ds_read_b96", "ds_load_b96", Load(B96)),
    row([255; 4], "ds_read_b128", "ds_load_b128", Load(B128)),
];
