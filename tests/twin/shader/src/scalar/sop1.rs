//! SOP1: one source, one destination.

use half::f16;

use super::control;
use super::float;
use super::meaning::*;
use crate::isa::Gen;
use crate::wave::Wave;
use Gen::Rdna3;

/// Where the first set bit is, or -1.
fn position(zeros: u32, bits: u32) -> u32 {
    if zeros == bits { !0 } else { zeros }
}

/// How many bits after the highest are equal to it, or -1 where all are.
fn same(value: i64, bits: u32) -> u32 {
    let differ = (value ^ value >> 63) as u64;
    position(differ.leading_zeros() + bits - 64, bits)
}

/// A bit per four, set where any of the four is.
fn quads(value: u64) -> u64 {
    (0..16).fold(0, |mask, i| {
        mask | u64::from(value >> (4 * i) & 15 != 0) << i
    })
}

/// Every four bits set where any of them is.
fn whole_quads(value: u64) -> u64 {
    (0..16).fold(0, |mask, i| {
        mask | if value >> (4 * i) & 15 != 0 {
            15 << (4 * i)
        } else {
            0
        }
    })
}

/// Every bit twice.
fn replicate(value: u32) -> u64 {
    (0..32).fold(0, |bits, i| {
        bits | (u64::from(value >> i & 1) * 3) << (2 * i)
    })
}

/// D = EXEC, EXEC = f(S0, EXEC).
fn saveexec64(f: fn(u64, u64) -> u64) -> Meaning {
    one_with(move |wave, a: u64| {
        let old = wave.exec;
        wave.set_scalar64(126, f(a, old));
        wave.scc = wave.exec != 0;
        old
    })
}

/// As [`saveexec64`], on the low half.
fn saveexec32(f: fn(u64, u64) -> u64) -> Meaning {
    one_with(move |wave, a: u32| {
        let old = wave.scalar(126);
        let new = f(a.into(), old.into()) as u32;
        wave.set_scalar(126, new);
        wave.scc = new != 0;
        old
    })
}

/// D = EXEC = f(S0, EXEC).
fn wrexec64(f: fn(u64, u64) -> u64) -> Meaning {
    one_with(move |wave, a: u64| {
        wave.set_scalar64(126, f(a, wave.exec));
        wave.scc = wave.exec != 0;
        wave.exec
    })
}

/// As [`wrexec64`], on the low half.
fn wrexec32(f: fn(u64, u64) -> u64) -> Meaning {
    one_with(move |wave, a: u32| {
        let new = f(a.into(), wave.exec) as u32;
        wave.set_scalar(126, new);
        wave.scc = new != 0;
        new
    })
}

fn bit(wave: &mut Wave, count: u32) -> u32 {
    wave.scc = count != 0;
    count
}

/// Columns: RDNA2, RDNA3, RDNA4, CDNA3.
#[rustfmt::skip]
pub fn rows() -> Vec<Row> {
    vec![
        row("s_mov_b32",              [0x03, 0x00, 0x00, 0x00], one(|a: u32| a)),
        row("s_mov_b64",              [0x04, 0x01, 0x01, 0x01], one(|a: u64| a)),
        row("s_cmov_b32",             [0x05, 0x02, 0x02, 0x02], one_old(|w, a: u32, d: u32| if w.scc { a } else { d })),
        row("s_cmov_b64",             [0x06, 0x03, 0x03, 0x03], one_old(|w, a: u64, d: u64| if w.scc { a } else { d })),
        row("s_not_b32",              [0x07, 0x1e, 0x1e, 0x04], one_nz(|a: u32| !a)),
        row("s_not_b64",              [0x08, 0x1f, 0x1f, 0x05], one_nz(|a: u64| !a)),
        row("s_wqm_b32",              [0x09, 0x1c, 0x1c, 0x06], one_nz(|a: u32| whole_quads(a.into()) as u32)),
        row("s_wqm_b64",              [0x0a, 0x1d, 0x1d, 0x07], one_nz(whole_quads)),
        row("s_brev_b32",             [0x0b, 0x04, 0x04, 0x08], one(|a: u32| a.reverse_bits())),
        row("s_brev_b64",             [0x0c, 0x05, 0x05, 0x09], one(|a: u64| a.reverse_bits())),
        row("s_bcnt0_i32_b32",        [0x0d, 0x16, 0x16, 0x0a], one_with(|w, a: u32| bit(w, a.count_zeros()))),
        row("s_bcnt0_i32_b64",        [0x0e, 0x17, 0x17, 0x0b], one_with(|w, a: u64| bit(w, a.count_zeros()))),
        row("s_bcnt1_i32_b32",        [0x0f, 0x18, 0x18, 0x0c], one_with(|w, a: u32| bit(w, a.count_ones()))),
        row("s_bcnt1_i32_b64",        [0x10, 0x19, 0x19, 0x0d], one_with(|w, a: u64| bit(w, a.count_ones()))),
        row("s_ff0_i32_b32",          [0x11, __,   __,   0x0e], one(|a: u32| position(a.trailing_ones(), 32))),
        row("s_ff0_i32_b64",          [0x12, __,   __,   0x0f], one(|a: u64| position(a.trailing_ones(), 64))),
        row("s_ff1_i32_b32",          [0x13, 0x08, 0x08, 0x10], one(|a: u32| position(a.trailing_zeros(), 32))).since(Rdna3, "s_ctz_i32_b32"),
        row("s_ff1_i32_b64",          [0x14, 0x09, 0x09, 0x11], one(|a: u64| position(a.trailing_zeros(), 64))).since(Rdna3, "s_ctz_i32_b64"),
        row("s_flbit_i32_b32",        [0x15, 0x0a, 0x0a, 0x12], one(|a: u32| position(a.leading_zeros(), 32))).since(Rdna3, "s_clz_i32_u32"),
        row("s_flbit_i32_b64",        [0x16, 0x0b, 0x0b, 0x13], one(|a: u64| position(a.leading_zeros(), 64))).since(Rdna3, "s_clz_i32_u64"),
        row("s_flbit_i32",            [0x17, 0x0c, 0x0c, 0x14], one(|a: i32| same(a.into(), 32))).since(Rdna3, "s_cls_i32"),
        row("s_flbit_i32_i64",        [0x18, 0x0d, 0x0d, 0x15], one(|a: i64| same(a, 64))).since(Rdna3, "s_cls_i32_i64"),
        row("s_sext_i32_i8",          [0x19, 0x0e, 0x0e, 0x16], one(|a: u32| i32::from(a as i8))),
        row("s_sext_i32_i16",         [0x1a, 0x0f, 0x0f, 0x17], one(|a: u32| i32::from(a as i16))),
        row("s_bitset0_b32",          [0x1b, 0x10, 0x10, 0x18], one_old(|_, a: u32, d: u32| d & !(1 << (a & 31)))),
        row("s_bitset0_b64",          [0x1c, 0x11, 0x11, 0x19], one_old(|_, a: u32, d: u64| d & !(1 << (a & 63)))),
        row("s_bitset1_b32",          [0x1d, 0x12, 0x12, 0x1a], one_old(|_, a: u32, d: u32| d | 1 << (a & 31))),
        row("s_bitset1_b64",          [0x1e, 0x13, 0x13, 0x1b], one_old(|_, a: u32, d: u64| d | 1 << (a & 63))),
        row("s_getpc_b64",            [0x1f, 0x47, 0x47, 0x1c], control::getpc()),
        row("s_setpc_b64",            [0x20, 0x48, 0x48, 0x1d], control::setpc()),
        row("s_swappc_b64",           [0x21, 0x49, 0x49, 0x1e], control::swappc()),
        row("s_rfe_b64",              [0x22, 0x4a, 0x4a, 0x1f], control::rfe()),
        row("s_and_saveexec_b64",     [0x24, 0x21, 0x21, 0x20], saveexec64(|a, e| a & e)),
        row("s_or_saveexec_b64",      [0x25, 0x23, 0x23, 0x21], saveexec64(|a, e| a | e)),
        row("s_xor_saveexec_b64",     [0x26, 0x25, 0x25, 0x22], saveexec64(|a, e| a ^ e)),
        row("s_andn2_saveexec_b64",   [0x27, 0x31, 0x31, 0x23], saveexec64(|a, e| a & !e)).since(Rdna3, "s_and_not1_saveexec_b64"),
        row("s_orn2_saveexec_b64",    [0x28, 0x33, 0x33, 0x24], saveexec64(|a, e| a | !e)).since(Rdna3, "s_or_not1_saveexec_b64"),
        row("s_nand_saveexec_b64",    [0x29, 0x27, 0x27, 0x25], saveexec64(|a, e| !(a & e))),
        row("s_nor_saveexec_b64",     [0x2a, 0x29, 0x29, 0x26], saveexec64(|a, e| !(a | e))),
        row("s_xnor_saveexec_b64",    [0x2b, 0x2b, 0x2b, 0x27], saveexec64(|a, e| !(a ^ e))),
        row("s_quadmask_b32",         [0x2c, 0x1a, 0x1a, 0x28], one_nz(|a: u32| quads(a.into()) as u32)),
        row("s_quadmask_b64",         [0x2d, 0x1b, 0x1b, 0x29], one_nz(quads)),
        row("s_movrels_b32",          [0x2e, 0x40, 0x40, 0x2a], control::movrels::<u32>()),
        row("s_movrels_b64",          [0x2f, 0x41, 0x41, 0x2b], control::movrels::<u64>()),
        row("s_movreld_b32",          [0x30, 0x42, 0x42, 0x2c], control::movreld::<u32>()),
        row("s_movreld_b64",          [0x31, 0x43, 0x43, 0x2d], control::movreld::<u64>()),
        row("s_movrelsd_2_b32",       [0x49, 0x44, 0x44, __  ], control::movrelsd_2()),
        row("s_abs_i32",              [0x34, 0x15, 0x15, 0x30], one_nz(|a: i32| a.wrapping_abs())),
        row("s_andn1_saveexec_b64",   [0x37, 0x2d, 0x2d, 0x33], saveexec64(|a, e| !a & e)).since(Rdna3, "s_and_not0_saveexec_b64"),
        row("s_orn1_saveexec_b64",    [0x38, 0x2f, 0x2f, 0x34], saveexec64(|a, e| !a | e)).since(Rdna3, "s_or_not0_saveexec_b64"),
        row("s_andn1_wrexec_b64",     [0x39, 0x35, 0x35, 0x35], wrexec64(|a, e| !a & e)).since(Rdna3, "s_and_not0_wrexec_b64"),
        row("s_andn2_wrexec_b64",     [0x3a, 0x37, 0x37, 0x36], wrexec64(|a, e| a & !e)).since(Rdna3, "s_and_not1_wrexec_b64"),
        row("s_bitreplicate_b64_b32", [0x3b, 0x14, 0x14, 0x37], one(replicate)),
        row("s_and_saveexec_b32",     [0x3c, 0x20, 0x20, __  ], saveexec32(|a, e| a & e)),
        row("s_or_saveexec_b32",      [0x3d, 0x22, 0x22, __  ], saveexec32(|a, e| a | e)),
        row("s_xor_saveexec_b32",     [0x3e, 0x24, 0x24, __  ], saveexec32(|a, e| a ^ e)),
        row("s_andn2_saveexec_b32",   [0x3f, 0x30, 0x30, __  ], saveexec32(|a, e| a & !e)).since(Rdna3, "s_and_not1_saveexec_b32"),
        row("s_orn2_saveexec_b32",    [0x40, 0x32, 0x32, __  ], saveexec32(|a, e| a | !e)).since(Rdna3, "s_or_not1_saveexec_b32"),
        row("s_nand_saveexec_b32",    [0x41, 0x26, 0x26, __  ], saveexec32(|a, e| !(a & e))),
        row("s_nor_saveexec_b32",     [0x42, 0x28, 0x28, __  ], saveexec32(|a, e| !(a | e))),
        row("s_xnor_saveexec_b32",    [0x43, 0x2a, 0x2a, __  ], saveexec32(|a, e| !(a ^ e))),
        row("s_andn1_saveexec_b32",   [0x44, 0x2c, 0x2c, __  ], saveexec32(|a, e| !a & e)).since(Rdna3, "s_and_not0_saveexec_b32"),
        row("s_orn1_saveexec_b32",    [0x45, 0x2e, 0x2e, __  ], saveexec32(|a, e| !a | e)).since(Rdna3, "s_or_not0_saveexec_b32"),
        row("s_andn1_wrexec_b32",     [0x46, 0x34, 0x34, __  ], wrexec32(|a, e| !a & e)).since(Rdna3, "s_and_not0_wrexec_b32"),
        row("s_andn2_wrexec_b32",     [0x47, 0x36, 0x36, __  ], wrexec32(|a, e| a & !e)).since(Rdna3, "s_and_not1_wrexec_b32"),
        row("s_sendmsg_rtn_b32",      [__,   0x4c, 0x4c, __  ], control::sendmsg_rtn::<u32>()),
        row("s_sendmsg_rtn_b64",      [__,   0x4d, 0x4d, __  ], control::sendmsg_rtn::<u64>()),
        row("s_barrier_signal",       [__,   __,   0x4e, __  ], control::barrier_signal(false)),
        row("s_barrier_signal_isfirst",[__,  __,   0x4f, __  ], control::barrier_signal(true)),
        row("s_get_barrier_state",    [__,   __,   0x50, __  ], unsupported(&[Arg::Dst(1), Arg::Barrier])),
        row("s_barrier_init",         [__,   __,   0x51, __  ], unsupported(&[Arg::Barrier])),
        row("s_barrier_join",         [__,   __,   0x52, __  ], unsupported(&[Arg::Barrier])),
        row("s_alloc_vgpr",           [__,   __,   0x53, __  ], unsupported(&[Arg::Src0(1)])),
        row("s_sleep_var",            [__,   __,   0x58, __  ], control::sleep_var()),
        row("s_ceil_f32",             [__,   __,   0x60, __  ], one_with(|w, a: f32| float::round(w.mode, a, f64::ceil))),
        row("s_floor_f32",            [__,   __,   0x61, __  ], one_with(|w, a: f32| float::round(w.mode, a, f64::floor))),
        row("s_trunc_f32",            [__,   __,   0x62, __  ], one_with(|w, a: f32| float::round(w.mode, a, f64::trunc))),
        row("s_rndne_f32",            [__,   __,   0x63, __  ], one_with(|w, a: f32| float::round(w.mode, a, f64::round_ties_even))),
        row("s_cvt_f32_i32",          [__,   __,   0x64, __  ], one_with(|w, a: i32| -> f32 { float::from_f64(w.mode, a.into()) })),
        row("s_cvt_f32_u32",          [__,   __,   0x65, __  ], one_with(|w, a: u32| -> f32 { float::from_f64(w.mode, a.into()) })),
        row("s_cvt_i32_f32",          [__,   __,   0x66, __  ], one_with(|w, a: f32| float::input(w.mode, a) as i32)),
        row("s_cvt_u32_f32",          [__,   __,   0x67, __  ], one_with(|w, a: f32| float::input(w.mode, a) as u32)),
        row("s_cvt_f16_f32",          [__,   __,   0x68, __  ], one_with(|w, a: f32| -> f16 { float::convert(w.mode, a) })),
        row("s_cvt_f32_f16",          [__,   __,   0x69, __  ], one_with(|w, a: f16| -> f32 { float::convert(w.mode, a) })),
        row("s_cvt_hi_f32_f16",       [__,   __,   0x6a, __  ], one_with(|w, a: u32| -> f32 { float::convert(w.mode, f16::from_bits((a >> 16) as u16)) })),
        row("s_ceil_f16",             [__,   __,   0x6b, __  ], one_with(|w, a: f16| float::round(w.mode, a, f64::ceil))),
        row("s_floor_f16",            [__,   __,   0x6c, __  ], one_with(|w, a: f16| float::round(w.mode, a, f64::floor))),
        row("s_trunc_f16",            [__,   __,   0x6d, __  ], one_with(|w, a: f16| float::round(w.mode, a, f64::trunc))),
        row("s_rndne_f16",            [__,   __,   0x6e, __  ], one_with(|w, a: f16| float::round(w.mode, a, f64::round_ties_even))),
        row("s_cbranch_join",         [__,   __,   __,   0x2e], unsupported(&[Arg::Reg0(1)])),
        row("s_set_gpr_idx_idx",      [__,   __,   __,   0x32], unsupported(&[Arg::Src0(1)])),
    ]
}
