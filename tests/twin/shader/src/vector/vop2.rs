//! VOP2: two sources. See [`super::table`] for how rows are read.

use super::arith::*;
use super::extreme::*;
use super::run::{self, Meaning};
use super::table::flag::*;
use super::table::{Field, Lower, Row, rows};
use super::value::*;

rows! {
    // Two sources
    v_cndmask_b32 [0x101 0x101 0x101 0x100]: R32 = R32 R32 + Bit => { |e, a, b; bit| if bit { b } else { a } }
    v_add_f32 [0x103 0x103 0x103 0x101]: F32 = F32 F32 => { |e, a, b| e.add(a, b) }
    v_sub_f32 [0x104 0x104 0x104 0x102]: F32 = F32 F32 => { |e, a, b| e.sub(a, b) }
    v_subrev_f32 [0x105 0x105 0x105 0x103]: F32 = F32 F32 => { |e, a, b| e.sub(b, a) }
    v_mul_f32 [0x108 0x108 0x108 0x105]: F32 = F32 F32 => { |e, a, b| e.mul(a, b) }
    v_mul_dx9_zero_f32 [- 0x107 0x107 -] v_mul_legacy_f32 [0x107 - - 0x2a1]: F32 = F32 F32 => { |e, a, b| if a == 0.0 || b == 0.0 { 0.0 } else { e.mul(a, b) } }
    v_fmac_f32 [0x12b 0x12b 0x12b 0x13b]: F32 = F32 F32 + Old => { |e, a, b, c| e.fma(a, b, c) }
    v_fmac_dx9_zero_f32 [- 0x106 - -] v_fmac_legacy_f32 [0x106 - - -]: F32 = F32 F32 + Old, NO_DPP => { |e, a, b, c| if a == 0.0 || b == 0.0 { c } else { e.fma(a, b, c) } }
    v_fmamk_f32 [0x12c 0x12c 0x12c 0x117]: F32 = F32 F32 F32, SHORT | MIDDLE => { |e, a, k, c| e.fma(a, k, c) }
    v_fmaak_f32 [0x12d 0x12d 0x12d 0x118]: F32 = F32 F32 F32, SHORT | LAST => { |e, a, b, k| e.fma(a, b, k) }
    v_min_f32 [0x10f 0x10f - 0x10a]: F32 = F32 F32 => { |e, a, b| min(e, a, b) }
    v_max_f32 [0x110 0x110 - 0x10b]: F32 = F32 F32 => { |e, a, b| max(e, a, b) }
    v_min_num_f32 [- - 0x115 -]: F32 = F32 F32 => { |e, a, b| min_num(e, a, b) }
    v_max_num_f32 [- - 0x116 -]: F32 = F32 F32 => { |e, a, b| max_num(e, a, b) }
    v_add_f16 [0x132 0x132 0x132 0x11f]: F16 = F16 F16 => { |e, a, b| e.add(a, b) }
    v_sub_f16 [0x133 0x133 0x133 0x120]: F16 = F16 F16 => { |e, a, b| e.sub(a, b) }
    v_subrev_f16 [0x134 0x134 0x134 0x121]: F16 = F16 F16 => { |e, a, b| e.sub(b, a) }
    v_mul_f16 [0x135 0x135 0x135 0x122]: F16 = F16 F16 => { |e, a, b| e.mul(a, b) }
    v_fmac_f16 [0x136 0x136 0x136 -]: F16 = F16 F16 + Old => { |e, a, b, c| e.fma16(a, b, c) }
    v_mac_f16 [- - - 0x123]: F16 = F16 F16 + Old => { |e, a, b, c| mad16(e, a, b, c) }
    v_fmamk_f16 [0x137 0x137 0x137 -]: F16 = F16 F16 F16, SHORT | MIDDLE => { |e, a, k, c| e.fma16(a, k, c) }
    v_fmaak_f16 [0x138 0x138 0x138 -]: F16 = F16 F16 F16, SHORT | LAST => { |e, a, b, k| e.fma16(a, b, k) }
    v_madmk_f16 [- - - 0x124]: F16 = F16 F16 F16, SHORT | MIDDLE => { |e, a, k, c| mad16(e, a, k, c) }
    v_madak_f16 [- - - 0x125]: F16 = F16 F16 F16, SHORT | LAST => { |e, a, b, k| mad16(e, a, b, k) }
    v_min_f16 [0x13a 0x13a - 0x12e]: F16 = F16 F16 => { |e, a, b| min(e, a, b) }
    v_max_f16 [0x139 0x139 - 0x12d]: F16 = F16 F16 => { |e, a, b| max(e, a, b) }
    v_min_num_f16 [- - 0x130 -]: F16 = F16 F16 => { |e, a, b| min_num(e, a, b) }
    v_max_num_f16 [- - 0x131 -]: F16 = F16 F16 => { |e, a, b| max_num(e, a, b) }
    v_ldexp_f16 [0x13b 0x13b 0x13b 0x133]: F16 = F16 I16 => { |e, a, b| ldexp(e, a, i32::from(b)) }
    v_pk_fmac_f16 [0x13c 0x13c 0x13c 0x13c]: P16 = P16 P16 + Old, SHORT_RDNA | NO_DPP_SINCE_RDNA3 => { |e, a, b, c| pk_fma16(e, a, b, c) }
    v_cvt_pk_rtz_f16_f32 [- 0x12f 0x12f -] v_cvt_pkrtz_f16_f32 [0x12f - - 0x296]: U32 = F32 F32, OMOD => { |e, a, b| pk_rtz(a, b) }
    v_add_f64 [0x164 0x327 0x102 0x280]: F64 = F64 F64 => { |e, a, b| e.add(a, b) }
    v_mul_f64 [0x165 0x328 0x106 0x281]: F64 = F64 F64 => { |e, a, b| e.mul(a, b) }
    v_fmac_f64 [- - - 0x104]: F64 = F64 F64 + Old => { |e, a, b, c| e.fma(a, b, c) }
    v_min_f64 [0x166 0x329 - 0x282]: F64 = F64 F64 => { |e, a, b| min(e, a, b) }
    v_max_f64 [0x167 0x32a - 0x283]: F64 = F64 F64 => { |e, a, b| max(e, a, b) }
    v_min_num_f64 [- - 0x10d -]: F64 = F64 F64 => { |e, a, b| min_num(e, a, b) }
    v_max_num_f64 [- - 0x10e -]: F64 = F64 F64 => { |e, a, b| max_num(e, a, b) }
    // Integers
    v_mul_i32_i24 [0x109 0x109 0x109 0x106]: I32 = I32 I32 => { |e, a, b| { i24(a).wrapping_mul(i24(b)) } clamp { sat32(i64::from(i24(a)) * i64::from(i24(b))) } }
    v_mul_hi_i32_i24 [0x10a 0x10a 0x10a 0x107]: I32 = I32 I32 => { |e, a, b| ((i64::from(i24(a)) * i64::from(i24(b))) >> 32) as i32 }
    v_mul_u32_u24 [0x10b 0x10b 0x10b 0x108]: U32 = U32 U32 => { |e, a, b| { u24(a).wrapping_mul(u24(b)) } clamp { satu32(u64::from(u24(a)) * u64::from(u24(b))) } }
    v_mul_hi_u32_u24 [0x10c 0x10c 0x10c 0x109]: U32 = U32 U32 => { |e, a, b| ((u64::from(u24(a)) * u64::from(u24(b))) >> 32) as u32 }
    v_min_i32 [0x111 0x111 0x111 0x10c]: I32 = I32 I32 => { |e, a, b| a.min(b) }
    v_max_i32 [0x112 0x112 0x112 0x10d]: I32 = I32 I32 => { |e, a, b| a.max(b) }
    v_min_u32 [0x113 0x113 0x113 0x10e]: U32 = U32 U32 => { |e, a, b| a.min(b) }
    v_max_u32 [0x114 0x114 0x114 0x10f]: U32 = U32 U32 => { |e, a, b| a.max(b) }
    v_lshlrev_b32 [0x11a 0x118 0x118 0x112]: U32 = U32 U32 => { |e, a, b| b << (a & 31) }
    v_lshrrev_b32 [0x116 0x119 0x119 0x110]: U32 = U32 U32 => { |e, a, b| b >> (a & 31) }
    v_ashrrev_i32 [0x118 0x11a 0x11a 0x111]: I32 = U32 I32 => { |e, a, b| b >> (a & 31) }
    v_and_b32 [0x11b 0x11b 0x11b 0x113]: U32 = U32 U32 => { |e, a, b| a & b }
    v_or_b32 [0x11c 0x11c 0x11c 0x114]: U32 = U32 U32 => { |e, a, b| a | b }
    v_xor_b32 [0x11d 0x11d 0x11d 0x115]: U32 = U32 U32 => { |e, a, b| a ^ b }
    v_xnor_b32 [0x11e 0x11e 0x11e 0x13d]: U32 = U32 U32 => { |e, a, b| !(a ^ b) }
    v_add_nc_u32 [0x125 0x125 0x125 -] v_add_u32 [- - - 0x134]: U32 = U32 U32 => { |e, a, b| { a.wrapping_add(b) } clamp { a.saturating_add(b) } }
    v_sub_nc_u32 [0x126 0x126 0x126 -] v_sub_u32 [- - - 0x135]: U32 = U32 U32 => { |e, a, b| { a.wrapping_sub(b) } clamp { a.saturating_sub(b) } }
    v_subrev_nc_u32 [0x127 0x127 0x127 -] v_subrev_u32 [- - - 0x136]: U32 = U32 U32 => { |e, a, b| { b.wrapping_sub(a) } clamp { b.saturating_sub(a) } }
    v_add_co_ci_u32 [0x128 0x120 0x120 -] v_addc_co_u32 [- - - 0x11c]: U32 + Bit = U32 U32 + Bit => { |e, a, b; bit| { carry(a, b, bit) } clamp { saturated(carry(a, b, bit), u32::MAX) } }
    v_sub_co_ci_u32 [0x129 0x121 0x121 -] v_subb_co_u32 [- - - 0x11d]: U32 + Bit = U32 U32 + Bit => { |e, a, b; bit| { borrow(a, b, bit) } clamp { saturated(borrow(a, b, bit), 0) } }
    v_subrev_co_ci_u32 [0x12a 0x122 0x122 -] v_subbrev_co_u32 [- - - 0x11e]: U32 + Bit = U32 U32 + Bit => { |e, a, b; bit| { borrow(b, a, bit) } clamp { saturated(borrow(b, a, bit), 0) } }
    v_add_co_u32 [0x30f 0x300 0x300 0x119]: U32 + Bit = U32 U32 => { |e, a, b| { carry(a, b, false) } clamp { saturated(carry(a, b, false), u32::MAX) } }
    v_sub_co_u32 [0x310 0x301 0x301 0x11a]: U32 + Bit = U32 U32 => { |e, a, b| { borrow(a, b, false) } clamp { saturated(borrow(a, b, false), 0) } }
    v_subrev_co_u32 [0x319 0x302 0x302 0x11b]: U32 + Bit = U32 U32 => { |e, a, b| { borrow(b, a, false) } clamp { saturated(borrow(b, a, false), 0) } }
    v_add_u16 [- - - 0x126]: U16 = U16 U16 => { |e, a, b| { a.wrapping_add(b) } clamp { a.saturating_add(b) } }
    v_sub_u16 [- - - 0x127]: U16 = U16 U16 => { |e, a, b| { a.wrapping_sub(b) } clamp { a.saturating_sub(b) } }
    v_subrev_u16 [- - - 0x128]: U16 = U16 U16 => { |e, a, b| { b.wrapping_sub(a) } clamp { b.saturating_sub(a) } }
    v_mul_lo_u16 [0x305 0x305 0x305 0x129]: U16 = U16 U16, OPSEL_RDNA2 => { |e, a, b| { a.wrapping_mul(b) } clamp { a.saturating_mul(b) } }
    v_lshlrev_b16 [0x314 0x338 0x338 0x12a]: U16 = U16 U16, OPSEL_RDNA2 => { |e, a, b| b << (a & 15) }
    v_lshrrev_b16 [0x307 0x339 0x339 0x12b]: U16 = U16 U16, OPSEL_RDNA2 => { |e, a, b| b >> (a & 15) }
    v_ashrrev_i16 [0x308 0x33a 0x33a 0x12c]: I16 = U16 I16, OPSEL_RDNA2 => { |e, a, b| b >> (a & 15) }
    v_max_u16 [0x309 0x309 0x309 0x12f]: U16 = U16 U16, OPSEL_RDNA2 => { |e, a, b| a.max(b) }
    v_max_i16 [0x30a 0x30a 0x30a 0x130]: I16 = I16 I16, OPSEL_RDNA2 => { |e, a, b| a.max(b) }
    v_min_u16 [0x30b 0x30b 0x30b 0x131]: U16 = U16 U16, OPSEL_RDNA2 => { |e, a, b| a.min(b) }
    v_min_i16 [0x30c 0x30c 0x30c 0x132]: I16 = I16 I16, OPSEL_RDNA2 => { |e, a, b| a.min(b) }
    v_lshlrev_b64 [0x2ff 0x33c 0x11f 0x28f]: U64 = U32 U64 => { |e, a, b| b << (a & 63) }
    v_lshrrev_b64 [0x300 0x33d 0x33d 0x290]: U64 = U32 U64 => { |e, a, b| b >> (a & 63) }
    v_ashrrev_i64 [0x301 0x33e 0x33e 0x291]: I64 = U32 I64 => { |e, a, b| b >> (a & 63) }
    // Dot products onto the destination
    v_dot2acc_f32_f16 [- 0x102 - -] v_dot2c_f32_f16 [0x102 - - 0x137]: F32 = P16 P16 + Old, SHORT_RDNA => { |e, a, b, c| dot2_f32_f16(e, a, b, c) }
    v_dot2c_i32_i16 [- - - 0x138]: I32 = U32 U32 + Old, CLAMP => { |e, a, b, c| dot_i(a, b, c, 16) }
    v_dot4c_i32_i8 [0x10d - - 0x139]: I32 = U32 U32 + Old, SHORT_RDNA | CLAMP => { |e, a, b, c| dot_i(a, b, c, 8) }
    v_dot8c_i32_i4 [- - - 0x13a]: I32 = U32 U32 + Old, CLAMP => { |e, a, b, c| dot_i(a, b, c, 4) }
}
