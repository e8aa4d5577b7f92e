//! SOPC: compares two sources into SCC.

use half::f16;

use super::float::compare;
use super::meaning::*;

/// Columns: RDNA2, RDNA3, RDNA4, CDNA3.
#[rustfmt::skip]
pub fn rows() -> Vec<Row> {
    let mut rows = vec![
        row("s_cmp_eq_i32",     [0x00, 0x00, 0x00, 0x00], test(|a: i32, b: i32| a == b)),
        row("s_cmp_lg_i32",     [0x01, 0x01, 0x01, 0x01], test(|a: i32, b: i32| a != b)),
        row("s_cmp_gt_i32",     [0x02, 0x02, 0x02, 0x02], test(|a: i32, b: i32| a > b)),
        row("s_cmp_ge_i32",     [0x03, 0x03, 0x03, 0x03], test(|a: i32, b: i32| a >= b)),
        row("s_cmp_lt_i32",     [0x04, 0x04, 0x04, 0x04], test(|a: i32, b: i32| a < b)),
        row("s_cmp_le_i32",     [0x05, 0x05, 0x05, 0x05], test(|a: i32, b: i32| a <= b)),
        row("s_cmp_eq_u32",     [0x06, 0x06, 0x06, 0x06], test(|a: u32, b: u32| a == b)),
        row("s_cmp_lg_u32",     [0x07, 0x07, 0x07, 0x07], test(|a: u32, b: u32| a != b)),
        row("s_cmp_gt_u32",     [0x08, 0x08, 0x08, 0x08], test(|a: u32, b: u32| a > b)),
        row("s_cmp_ge_u32",     [0x09, 0x09, 0x09, 0x09], test(|a: u32, b: u32| a >= b)),
        row("s_cmp_lt_u32",     [0x0a, 0x0a, 0x0a, 0x0a], test(|a: u32, b: u32| a < b)),
        row("s_cmp_le_u32",     [0x0b, 0x0b, 0x0b, 0x0b], test(|a: u32, b: u32| a <= b)),
        row("s_bitcmp0_b32",    [0x0c, 0x0c, 0x0c, 0x0c], test(|a: u32, b: u32| a >> (b & 31) & 1 == 0)),
        row("s_bitcmp1_b32",    [0x0d, 0x0d, 0x0d, 0x0d], test(|a: u32, b: u32| a >> (b & 31) & 1 == 1)),
        row("s_bitcmp0_b64",    [0x0e, 0x0e, 0x0e, 0x0e], test(|a: u64, b: u32| a >> (b & 63) & 1 == 0)),
        row("s_bitcmp1_b64",    [0x0f, 0x0f, 0x0f, 0x0f], test(|a: u64, b: u32| a >> (b & 63) & 1 == 1)),
        row("s_cmp_eq_u64",     [0x12, 0x10, 0x10, 0x12], test(|a: u64, b: u64| a == b)),
        row("s_cmp_lg_u64",     [0x13, 0x11, 0x11, 0x13], test(|a: u64, b: u64| a != b)),
        // Skipping of vector instructions, and indexing of VGPRs by M0: compilers stopped using them.
        row("s_setvskip",       [__,   __,   __,   0x10], unsupported(&[Arg::Src0(1), Arg::Src1(1)])),
        row("s_set_gpr_idx_on", [__,   __,   __,   0x11], unsupported(&[Arg::Src0(1), Arg::GprIndexSrc])),
    ];
    /// A compare of floats, of 32 and of 16 bits.
    macro_rules! floats {
        ($($f32:literal $f16:literal $op:literal $test:expr;)*) => {$(
            rows.push(row($f32, [__, __, 0x40 + $op, __], test_with(|w, a: f32, b: f32| compare(w.mode, a, b, $test))));
            rows.push(row($f16, [__, __, 0x50 + $op, __], test_with(|w, a: f16, b: f16| compare(w.mode, a, b, $test))));
        )*};
    }
    // None: at least one is NaN.
    floats! {
        "s_cmp_lt_f32"  "s_cmp_lt_f16"  0x1 |o| o.is_some_and(|o| o.is_lt());
        "s_cmp_eq_f32"  "s_cmp_eq_f16"  0x2 |o| o.is_some_and(|o| o.is_eq());
        "s_cmp_le_f32"  "s_cmp_le_f16"  0x3 |o| o.is_some_and(|o| o.is_le());
        "s_cmp_gt_f32"  "s_cmp_gt_f16"  0x4 |o| o.is_some_and(|o| o.is_gt());
        "s_cmp_lg_f32"  "s_cmp_lg_f16"  0x5 |o| o.is_some_and(|o| o.is_ne());
        "s_cmp_ge_f32"  "s_cmp_ge_f16"  0x6 |o| o.is_some_and(|o| o.is_ge());
        "s_cmp_o_f32"   "s_cmp_o_f16"   0x7 |o| o.is_some();
        "s_cmp_u_f32"   "s_cmp_u_f16"   0x8 |o| o.is_none();
        "s_cmp_nge_f32" "s_cmp_nge_f16" 0x9 |o| o.is_none_or(|o| !o.is_ge());
        "s_cmp_nlg_f32" "s_cmp_nlg_f16" 0xa |o| o.is_none_or(|o| !o.is_ne());
        "s_cmp_ngt_f32" "s_cmp_ngt_f16" 0xb |o| o.is_none_or(|o| !o.is_gt());
        "s_cmp_nle_f32" "s_cmp_nle_f16" 0xc |o| o.is_none_or(|o| !o.is_le());
        "s_cmp_neq_f32" "s_cmp_neq_f16" 0xd |o| o.is_none_or(|o| !o.is_eq());
        "s_cmp_nlt_f32" "s_cmp_nlt_f16" 0xe |o| o.is_none_or(|o| !o.is_lt());
    }
    rows
}
