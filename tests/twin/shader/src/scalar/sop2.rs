//! SOP2: two sources, one destination.

use super::float;
use super::meaning::*;
use crate::isa::Gen;
use crate::step::Flow;
use Gen::{Rdna3, Rdna4};

/// `S0 << n` plus S1; SCC where it needs more than 32 bits.
fn shift_add(a: u32, b: u32, n: u32) -> (u32, bool) {
    let sum = (u64::from(a) << n) + u64::from(b);
    (sum as u32, sum >> 32 != 0)
}

/// The `size` bits (bits 22:16 of the control) from bit `control[5:0]`.
fn bfe(value: u64, control: u32, bits: u32) -> u64 {
    let size = (control >> 16 & 127).min(bits);
    let field = value >> (control & (bits - 1));
    if size == 64 {
        field
    } else {
        field & ((1 << size) - 1)
    }
}

/// As [`bfe`], the highest bit of the field repeated to the left.
fn bfe_signed(value: i64, control: u32, bits: u32) -> i64 {
    let size = (control >> 16 & 127).min(bits);
    if size == 0 {
        return 0;
    }
    let field = value >> (control & (bits - 1));
    field << (64 - size) >> (64 - size)
}

/// Columns: RDNA2, RDNA3, RDNA4, CDNA3.
#[rustfmt::skip]
pub fn rows() -> Vec<Row> {
    vec![
        row("s_add_u32",        [0x00, 0x00, 0x00, 0x00], two_scc(|a: u32, b: u32| a.overflowing_add(b))).since(Rdna4, "s_add_co_u32"),
        row("s_sub_u32",        [0x01, 0x01, 0x01, 0x01], two_scc(|a: u32, b: u32| a.overflowing_sub(b))).since(Rdna4, "s_sub_co_u32"),
        row("s_add_i32",        [0x02, 0x02, 0x02, 0x02], two_scc(|a: i32, b: i32| a.overflowing_add(b))).since(Rdna4, "s_add_co_i32"),
        row("s_sub_i32",        [0x03, 0x03, 0x03, 0x03], two_scc(|a: i32, b: i32| a.overflowing_sub(b))).since(Rdna4, "s_sub_co_i32"),
        row("s_addc_u32",       [0x04, 0x04, 0x04, 0x04], two_with(|w, a: u32, b: u32| { let (d, c) = a.carrying_add(b, w.scc); w.scc = c; d })).since(Rdna4, "s_add_co_ci_u32"),
        row("s_subb_u32",       [0x05, 0x05, 0x05, 0x05], two_with(|w, a: u32, b: u32| { let (d, c) = a.borrowing_sub(b, w.scc); w.scc = c; d })).since(Rdna4, "s_sub_co_ci_u32"),
        row("s_absdiff_i32",    [0x2c, 0x06, 0x06, 0x2a], two_nz(|a: i32, b: i32| a.wrapping_sub(b).wrapping_abs())),
        row("s_min_i32",        [0x06, 0x12, 0x12, 0x06], two_scc(|a: i32, b: i32| (a.min(b), a < b))),
        row("s_min_u32",        [0x07, 0x13, 0x13, 0x07], two_scc(|a: u32, b: u32| (a.min(b), a < b))),
        row("s_max_i32",        [0x08, 0x14, 0x14, 0x08], two_scc(|a: i32, b: i32| (a.max(b), a >= b))),
        row("s_max_u32",        [0x09, 0x15, 0x15, 0x09], two_scc(|a: u32, b: u32| (a.max(b), a >= b))),
        row("s_cselect_b32",    [0x0a, 0x30, 0x30, 0x0a], two_with(|w, a: u32, b: u32| if w.scc { a } else { b })),
        row("s_cselect_b64",    [0x0b, 0x31, 0x31, 0x0b], two_with(|w, a: u64, b: u64| if w.scc { a } else { b })),
        row("s_and_b32",        [0x0e, 0x16, 0x16, 0x0c], two_nz(|a: u32, b: u32| a & b)),
        row("s_and_b64",        [0x0f, 0x17, 0x17, 0x0d], two_nz(|a: u64, b: u64| a & b)),
        row("s_or_b32",         [0x10, 0x18, 0x18, 0x0e], two_nz(|a: u32, b: u32| a | b)),
        row("s_or_b64",         [0x11, 0x19, 0x19, 0x0f], two_nz(|a: u64, b: u64| a | b)),
        row("s_xor_b32",        [0x12, 0x1a, 0x1a, 0x10], two_nz(|a: u32, b: u32| a ^ b)),
        row("s_xor_b64",        [0x13, 0x1b, 0x1b, 0x11], two_nz(|a: u64, b: u64| a ^ b)),
        row("s_andn2_b32",      [0x14, 0x22, 0x22, 0x12], two_nz(|a: u32, b: u32| a & !b)).since(Rdna3, "s_and_not1_b32"),
        row("s_andn2_b64",      [0x15, 0x23, 0x23, 0x13], two_nz(|a: u64, b: u64| a & !b)).since(Rdna3, "s_and_not1_b64"),
        row("s_orn2_b32",       [0x16, 0x24, 0x24, 0x14], two_nz(|a: u32, b: u32| a | !b)).since(Rdna3, "s_or_not1_b32"),
        row("s_orn2_b64",       [0x17, 0x25, 0x25, 0x15], two_nz(|a: u64, b: u64| a | !b)).since(Rdna3, "s_or_not1_b64"),
        row("s_nand_b32",       [0x18, 0x1c, 0x1c, 0x16], two_nz(|a: u32, b: u32| !(a & b))),
        row("s_nand_b64",       [0x19, 0x1d, 0x1d, 0x17], two_nz(|a: u64, b: u64| !(a & b))),
        row("s_nor_b32",        [0x1a, 0x1e, 0x1e, 0x18], two_nz(|a: u32, b: u32| !(a | b))),
        row("s_nor_b64",        [0x1b, 0x1f, 0x1f, 0x19], two_nz(|a: u64, b: u64| !(a | b))),
        row("s_xnor_b32",       [0x1c, 0x20, 0x20, 0x1a], two_nz(|a: u32, b: u32| !(a ^ b))),
        row("s_xnor_b64",       [0x1d, 0x21, 0x21, 0x1b], two_nz(|a: u64, b: u64| !(a ^ b))),
        row("s_lshl_b32",       [0x1e, 0x08, 0x08, 0x1c], two_nz(|a: u32, b: u32| a << (b & 31))),
        row("s_lshl_b64",       [0x1f, 0x09, 0x09, 0x1d], two_nz(|a: u64, b: u32| a << (b & 63))),
        row("s_lshr_b32",       [0x20, 0x0a, 0x0a, 0x1e], two_nz(|a: u32, b: u32| a >> (b & 31))),
        row("s_lshr_b64",       [0x21, 0x0b, 0x0b, 0x1f], two_nz(|a: u64, b: u32| a >> (b & 63))),
        row("s_ashr_i32",       [0x22, 0x0c, 0x0c, 0x20], two_nz(|a: i32, b: u32| a >> (b & 31))),
        row("s_ashr_i64",       [0x23, 0x0d, 0x0d, 0x21], two_nz(|a: i64, b: u32| a >> (b & 63))),
        row("s_bfm_b32",        [0x24, 0x2a, 0x2a, 0x22], two(|a: u32, b: u32| ((1u32 << (a & 31)) - 1) << (b & 31))),
        row("s_bfm_b64",        [0x25, 0x2b, 0x2b, 0x23], two(|a: u32, b: u32| ((1u64 << (a & 63)) - 1) << (b & 63))),
        row("s_mul_i32",        [0x26, 0x2c, 0x2c, 0x24], two(|a: u32, b: u32| a.wrapping_mul(b))),
        row("s_bfe_u32",        [0x27, 0x26, 0x26, 0x25], two_nz(|a: u32, b: u32| bfe(a.into(), b, 32) as u32)),
        row("s_bfe_i32",        [0x28, 0x27, 0x27, 0x26], two_nz(|a: i32, b: u32| bfe_signed(a.into(), b, 32) as i32)),
        row("s_bfe_u64",        [0x29, 0x28, 0x28, 0x27], two_nz(|a: u64, b: u32| bfe(a, b, 64))),
        row("s_bfe_i64",        [0x2a, 0x29, 0x29, 0x28], two_nz(|a: i64, b: u32| bfe_signed(a, b, 64))),
        row("s_lshl1_add_u32",  [0x2e, 0x0e, 0x0e, 0x2e], two_scc(|a: u32, b: u32| shift_add(a, b, 1))),
        row("s_lshl2_add_u32",  [0x2f, 0x0f, 0x0f, 0x2f], two_scc(|a: u32, b: u32| shift_add(a, b, 2))),
        row("s_lshl3_add_u32",  [0x30, 0x10, 0x10, 0x30], two_scc(|a: u32, b: u32| shift_add(a, b, 3))),
        row("s_lshl4_add_u32",  [0x31, 0x11, 0x11, 0x31], two_scc(|a: u32, b: u32| shift_add(a, b, 4))),
        row("s_pack_ll_b32_b16",[0x32, 0x32, 0x32, 0x32], two(|a: u32, b: u32| a & 0xffff | b << 16)),
        row("s_pack_lh_b32_b16",[0x33, 0x33, 0x33, 0x33], two(|a: u32, b: u32| a & 0xffff | b & 0xffff_0000)),
        row("s_pack_hh_b32_b16",[0x34, 0x34, 0x34, 0x34], two(|a: u32, b: u32| a >> 16 | b & 0xffff_0000)),
        row("s_pack_hl_b32_b16",[__,   0x35, 0x35, __  ], two(|a: u32, b: u32| a >> 16 | b << 16)),
        row("s_mul_hi_u32",     [0x35, 0x2d, 0x2d, 0x2c], two(|a: u32, b: u32| ((u64::from(a) * u64::from(b)) >> 32) as u32)),
        row("s_mul_hi_i32",     [0x36, 0x2e, 0x2e, 0x2d], two(|a: i32, b: i32| ((i64::from(a) * i64::from(b)) >> 32) as i32)),
        row("s_add_f32",        [__,   __,   0x40, __  ], two_with(|w, a: f32, b: f32| float::add(w.mode, a, b))),
        row("s_sub_f32",        [__,   __,   0x41, __  ], two_with(|w, a: f32, b: f32| float::add(w.mode, a, -b))),
        row("s_min_num_f32",    [__,   __,   0x42, __  ], two_with(|w, a: f32, b: f32| float::min_num(w.mode, a, b))),
        row("s_max_num_f32",    [__,   __,   0x43, __  ], two_with(|w, a: f32, b: f32| float::max_num(w.mode, a, b))),
        row("s_mul_f32",        [__,   __,   0x44, __  ], two_with(|w, a: f32, b: f32| float::mul(w.mode, a, b))),
        row("s_fmaak_f32",      [__,   __,   0x45, __  ], fma_literal(&[Arg::Dst(1), Arg::Src0(1), Arg::Src1(1), Arg::Literal], float::fma)),
        row("s_fmamk_f32",      [__,   __,   0x46, __  ], fma_literal(&[Arg::Dst(1), Arg::Src0(1), Arg::Literal, Arg::Src1(1)], |mode, a, b, k| float::fma(mode, a, k, b))),
        row("s_fmac_f32",       [__,   __,   0x47, __  ], two_old(|w, a: f32, b: f32, d: f32| float::fma(w.mode, a, b, d))),
        row("s_cvt_pk_rtz_f16_f32", [__, __, 0x48, __  ], two_with(|w, a: f32, b: f32| float::pack_rtz(w.mode, a, b))),
        row("s_add_f16",        [__,   __,   0x49, __  ], two_with(|w, a: half::f16, b: half::f16| float::add(w.mode, a, b))),
        row("s_sub_f16",        [__,   __,   0x4a, __  ], two_with(|w, a: half::f16, b: half::f16| float::add(w.mode, a, -b))),
        row("s_min_num_f16",    [__,   __,   0x4b, __  ], two_with(|w, a: half::f16, b: half::f16| float::min_num(w.mode, a, b))),
        row("s_max_num_f16",    [__,   __,   0x4c, __  ], two_with(|w, a: half::f16, b: half::f16| float::max_num(w.mode, a, b))),
        row("s_mul_f16",        [__,   __,   0x4d, __  ], two_with(|w, a: half::f16, b: half::f16| float::mul(w.mode, a, b))),
        row("s_fmac_f16",       [__,   __,   0x4e, __  ], two_old(|w, a: half::f16, b: half::f16, d: half::f16| float::fma(w.mode, a, b, d))),
        row("s_minimum_f32",    [__,   __,   0x4f, __  ], two_with(|w, a: f32, b: f32| float::minimum(w.mode, a, b))),
        row("s_maximum_f32",    [__,   __,   0x50, __  ], two_with(|w, a: f32, b: f32| float::maximum(w.mode, a, b))),
        row("s_minimum_f16",    [__,   __,   0x51, __  ], two_with(|w, a: half::f16, b: half::f16| float::minimum(w.mode, a, b))),
        row("s_maximum_f16",    [__,   __,   0x52, __  ], two_with(|w, a: half::f16, b: half::f16| float::maximum(w.mode, a, b))),
        row("s_add_nc_u64",     [__,   __,   0x53, __  ], two(|a: u64, b: u64| a.wrapping_add(b))),
        row("s_sub_nc_u64",     [__,   __,   0x54, __  ], two(|a: u64, b: u64| a.wrapping_sub(b))),
        row("s_mul_u64",        [__,   __,   0x55, __  ], two(|a: u64, b: u64| a.wrapping_mul(b))),
        // The stack of divergent branches and returns from traps have no use in compute code.
        row("s_cbranch_g_fork", [__,   __,   __,   0x29], unsupported(&[Arg::Src0(2), Arg::Src1(2)])),
        row("s_rfe_restore_b64",[__,   __,   __,   0x2b], unsupported(&[Arg::Src0(2), Arg::Src1(1)])),
    ]
}

/// D = f(MODE, S0, S1, the literal that follows).
fn fma_literal(args: &[Arg], f: fn(u32, f32, f32, f32) -> f32) -> Meaning {
    use super::operand::{Value, registers};
    special(args, move |inst, _| {
        let (a, b, d) = (inst.src0::<f32>()?, inst.src1::<f32>()?, inst.dst::<f32>()?);
        let k = f32::from_bits(inst.words[1]);
        let touches = [a.touches(1), b.touches(1), Some(registers(d, 1))];
        step(touches, move |wave| {
            let (a, b) = (f32::get(a, wave), f32::get(b, wave));
            f(wave.mode, a, b, k).put(d, wave);
            Ok(Flow::Next)
        })
    })
}
