//! SOPK: a constant of 16 bits.

use super::meaning::*;
use super::{control, hwreg};
use crate::counters::Wait;
use crate::isa::Gen;
use Gen::Rdna4;

fn extend(k: u16) -> i32 {
    i32::from(k as i16)
}

/// Columns: RDNA2, RDNA3, RDNA4, CDNA3.
#[rustfmt::skip]
pub fn rows() -> Vec<Row> {
    vec![
        row("s_movk_i32",             [0x00, 0x00, 0x00, 0x00], constant(|_, k, _: i32| extend(k))),
        row("s_version",              [0x01, 0x01, 0x01, __  ], nothing(Arg::Version)),
        row("s_cmovk_i32",            [0x02, 0x02, 0x02, 0x01], constant(|w, k, d: i32| if w.scc { extend(k) } else { d })),
        row("s_cmpk_eq_i32",          [0x03, 0x03, __,   0x02], test_constant(|a: i32, k| a == extend(k))),
        row("s_cmpk_lg_i32",          [0x04, 0x04, __,   0x03], test_constant(|a: i32, k| a != extend(k))),
        row("s_cmpk_gt_i32",          [0x05, 0x05, __,   0x04], test_constant(|a: i32, k| a > extend(k))),
        row("s_cmpk_ge_i32",          [0x06, 0x06, __,   0x05], test_constant(|a: i32, k| a >= extend(k))),
        row("s_cmpk_lt_i32",          [0x07, 0x07, __,   0x06], test_constant(|a: i32, k| a < extend(k))),
        row("s_cmpk_le_i32",          [0x08, 0x08, __,   0x07], test_constant(|a: i32, k| a <= extend(k))),
        row("s_cmpk_eq_u32",          [0x09, 0x09, __,   0x08], test_constant(|a: u32, k| a == u32::from(k))),
        row("s_cmpk_lg_u32",          [0x0a, 0x0a, __,   0x09], test_constant(|a: u32, k| a != u32::from(k))),
        row("s_cmpk_gt_u32",          [0x0b, 0x0b, __,   0x0a], test_constant(|a: u32, k| a > u32::from(k))),
        row("s_cmpk_ge_u32",          [0x0c, 0x0c, __,   0x0b], test_constant(|a: u32, k| a >= u32::from(k))),
        row("s_cmpk_lt_u32",          [0x0d, 0x0d, __,   0x0c], test_constant(|a: u32, k| a < u32::from(k))),
        row("s_cmpk_le_u32",          [0x0e, 0x0e, __,   0x0d], test_constant(|a: u32, k| a <= u32::from(k))),
        row("s_addk_i32",             [0x0f, 0x0f, 0x0f, 0x0e], constant(|w, k, d: i32| { let (d, o) = d.overflowing_add(extend(k)); w.scc = o; d })).since(Rdna4, "s_addk_co_i32"),
        row("s_mulk_i32",             [0x10, 0x10, 0x10, 0x0f], constant(|_, k, d: i32| d.wrapping_mul(extend(k)))),
        row("s_getreg_b32",           [0x12, 0x11, 0x11, 0x11], hwreg::getreg()),
        row("s_setreg_b32",           [0x13, 0x12, 0x12, 0x12], hwreg::setreg()),
        row("s_setreg_imm32_b32",     [0x15, 0x13, 0x13, 0x14], hwreg::setreg_imm32()),
        row("s_call_b64",             [0x16, 0x14, 0x14, 0x15], control::call()),
        row("s_waitcnt_vscnt",        [0x17, 0x18, __,   __  ], control::waitcnt_k(|n| Wait { store: n, ..Wait::NONE })),
        row("s_waitcnt_vmcnt",        [0x18, 0x19, __,   __  ], control::waitcnt_k(|n| Wait { load: n, ..Wait::NONE })),
        row("s_waitcnt_expcnt",       [0x19, 0x1a, __,   __  ], control::waitcnt_k(|_| Wait::NONE)),
        row("s_waitcnt_lgkmcnt",      [0x1a, 0x1b, __,   __  ], control::waitcnt_k(|n| Wait { lds: n, scalar: n, ..Wait::NONE })),
        // Half of a wave of 64 at a time, and the stack of divergent branches: no compiler emits them.
        row("s_subvector_loop_begin", [0x1b, 0x16, __,   __  ], unsupported(&[Arg::Dst(1), Arg::Label])),
        row("s_subvector_loop_end",   [0x1c, 0x17, __,   __  ], unsupported(&[Arg::Dst(1), Arg::Label])),
        row("s_cbranch_i_fork",       [__,   __,   __,   0x10], unsupported(&[Arg::DstRead(2), Arg::Label])),
    ]
}
