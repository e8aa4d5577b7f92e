//! VOP3: up to three sources, and what has no short encoding. See [`super::table`] for how rows are read.

use super::arith::*;
use super::extreme::*;
use super::fp8;
use super::math::*;
use super::moves;
use super::run::{self, Meaning};
use super::table::flag::*;
use super::table::{Field, Lower, Row, rows};
use super::value::*;

rows! {
    // Multiply and add
    v_fma_f32 [0x14b 0x213 0x213 0x1cb]: F32 = F32 F32 F32 => { |e, a, b, c| e.fma(a, b, c) }
    v_fma_f16 [0x34b 0x248 0x248 0x206]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| e.fma16(a, b, c) }
    v_fma_f64 [0x14c 0x214 0x214 0x1cc]: F64 = F64 F64 F64 => { |e, a, b, c| e.fma(a, b, c) }
    v_fma_dx9_zero_f32 [- 0x209 0x209 -] v_fma_legacy_f32 [0x140 - - -]: F32 = F32 F32 F32, NO_DPP => { |e, a, b, c| if a == 0.0 || b == 0.0 { c } else { e.fma(a, b, c) } }
    v_fma_legacy_f16 [- - - 0x1ee]: F16 = F16 F16 F16 => { |e, a, b, c| e.fma16(a, b, c) }
    v_mad_f16 [- - - 0x203]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| mad16(e, a, b, c) }
    v_mad_legacy_f16 [- - - 0x1ea]: F16 = F16 F16 F16 => { |e, a, b, c| mad16(e, a, b, c) }
    v_mullit_f32 [0x150 0x218 0x218 -]: F32 = F32 F32 F32 => { |e, a, b, c| mullit(e, a, b, c) }
    v_mad_i32_i24 [0x142 0x20a 0x20a 0x1c2]: I32 = I32 I32 I32 => { |e, a, b, c| { i24(a).wrapping_mul(i24(b)).wrapping_add(c) } clamp { sat32(i64::from(i24(a)) * i64::from(i24(b)) + i64::from(c)) } }
    v_mad_u32_u24 [0x143 0x20b 0x20b 0x1c3]: U32 = U32 U32 U32 => { |e, a, b, c| { u24(a).wrapping_mul(u24(b)).wrapping_add(c) } clamp { satu32(u64::from(u24(a)) * u64::from(u24(b)) + u64::from(c)) } }
    v_mad_u16 [0x340 0x241 0x241 0x204]: U16 = U16 U16 U16, OPSEL => { |e, a, b, c| { a.wrapping_mul(b).wrapping_add(c) } clamp { (u32::from(a) * u32::from(b) + u32::from(c)).min(0xffff) as u16 } }
    v_mad_i16 [0x35e 0x253 0x253 0x205]: I16 = I16 I16 I16, OPSEL => { |e, a, b, c| { a.wrapping_mul(b).wrapping_add(c) } clamp { (i32::from(a) * i32::from(b) + i32::from(c)).clamp(-0x8000, 0x7fff) as i16 } }
    v_mad_legacy_u16 [- - - 0x1eb]: U16 = U16 U16 U16 => { |e, a, b, c| { a.wrapping_mul(b).wrapping_add(c) } clamp { (u32::from(a) * u32::from(b) + u32::from(c)).min(0xffff) as u16 } }
    v_mad_legacy_i16 [- - - 0x1ec]: I16 = I16 I16 I16 => { |e, a, b, c| { a.wrapping_mul(b).wrapping_add(c) } clamp { (i32::from(a) * i32::from(b) + i32::from(c)).clamp(-0x8000, 0x7fff) as i16 } }
    v_mad_u32_u16 [0x373 0x259 0x259 0x1f1]: U32 = U16 U16 U32, OPSEL => { |e, a, b, c| { (u32::from(a) * u32::from(b)).wrapping_add(c) } clamp { satu32(u64::from(a) * u64::from(b) + u64::from(c)) } }
    v_mad_i32_i16 [0x375 0x25a 0x25a 0x1f2]: I32 = I16 I16 I32, OPSEL => { |e, a, b, c| { (i32::from(a) * i32::from(b)).wrapping_add(c) } clamp { sat32(i64::from(a) * i64::from(b) + i64::from(c)) } }
    v_mad_u64_u32 [0x176 0x2fe - 0x1e8] v_mad_co_u64_u32 [- - 0x2fe -]: U64 + Bit = U32 U32 U64, NO_DPP => { |e, a, b, c| { mad_u64(a, b, c) } clamp { saturated(mad_u64(a, b, c), u64::MAX) } }
    v_mad_i64_i32 [0x177 0x2ff - 0x1e9] v_mad_co_i64_i32 [- - 0x2ff -]: I64 + Bit = I32 I32 I64, NO_DPP => { |e, a, b, c| { mad_i64(a, b, c) } clamp { saturated_i64(a, b, c) } }
    v_lshl_add_u64 [- - - 0x208]: U64 = U64 U32 U64 => { |e, a, b, c| (a << (b & 7)).wrapping_add(c) }
    v_mul_lo_u32 [0x169 0x32c 0x32c 0x285]: U32 = U32 U32, NO_DPP => { |e, a, b| a.wrapping_mul(b) }
    v_mul_hi_u32 [0x16a 0x32d 0x32d 0x286]: U32 = U32 U32, NO_DPP => { |e, a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32 }
    v_mul_hi_i32 [0x16c 0x32e 0x32e 0x287]: I32 = I32 I32, NO_DPP => { |e, a, b| ((i64::from(a) * i64::from(b)) >> 32) as i32 }
    // Minimum, maximum, median
    v_min3_f32 [0x151 0x219 - 0x1d0]: F32 = F32 F32 F32 => { |e, a, b, c| min(e, min(e, a, b), c) }
    v_max3_f32 [0x154 0x21c - 0x1d3]: F32 = F32 F32 F32 => { |e, a, b, c| max(e, max(e, a, b), c) }
    v_med3_f32 [0x157 0x21f - 0x1d6]: F32 = F32 F32 F32 => { |e, a, b, c| med3(e, a, b, c) }
    v_maxmin_f32 [- 0x25e - -]: F32 = F32 F32 F32 => { |e, a, b, c| min(e, max(e, a, b), c) }
    v_minmax_f32 [- 0x25f - -]: F32 = F32 F32 F32 => { |e, a, b, c| max(e, min(e, a, b), c) }
    v_min3_f16 [0x351 0x249 - 0x1f4]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| min(e, min(e, a, b), c) }
    v_max3_f16 [0x354 0x24c - 0x1f7]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| max(e, max(e, a, b), c) }
    v_med3_f16 [0x357 0x24f - 0x1fa]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| med3(e, a, b, c) }
    v_maxmin_f16 [- 0x260 - -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| min(e, max(e, a, b), c) }
    v_minmax_f16 [- 0x261 - -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| max(e, min(e, a, b), c) }
    v_min3_num_f32 [- - 0x229 -]: F32 = F32 F32 F32 => { |e, a, b, c| min_num(e, min_num(e, a, b), c) }
    v_max3_num_f32 [- - 0x22a -]: F32 = F32 F32 F32 => { |e, a, b, c| max_num(e, max_num(e, a, b), c) }
    v_med3_num_f32 [- - 0x231 -]: F32 = F32 F32 F32 => { |e, a, b, c| med3_num(e, a, b, c) }
    v_minmax_num_f32 [- - 0x268 -]: F32 = F32 F32 F32 => { |e, a, b, c| max_num(e, min_num(e, a, b), c) }
    v_maxmin_num_f32 [- - 0x269 -]: F32 = F32 F32 F32 => { |e, a, b, c| min_num(e, max_num(e, a, b), c) }
    v_min3_num_f16 [- - 0x22b -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| min_num(e, min_num(e, a, b), c) }
    v_max3_num_f16 [- - 0x22c -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| max_num(e, max_num(e, a, b), c) }
    v_med3_num_f16 [- - 0x232 -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| med3_num(e, a, b, c) }
    v_minmax_num_f16 [- - 0x26a -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| max_num(e, min_num(e, a, b), c) }
    v_maxmin_num_f16 [- - 0x26b -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| min_num(e, max_num(e, a, b), c) }
    v_minimum_f32 [- - 0x365 -]: F32 = F32 F32 => { |e, a, b| minimum(e, a, b) }
    v_maximum_f32 [- - 0x366 -]: F32 = F32 F32 => { |e, a, b| maximum(e, a, b) }
    v_minimum_f16 [- - 0x367 -]: F16 = F16 F16, OPSEL => { |e, a, b| minimum(e, a, b) }
    v_maximum_f16 [- - 0x368 -]: F16 = F16 F16, OPSEL => { |e, a, b| maximum(e, a, b) }
    v_minimum_f64 [- - 0x341 -]: F64 = F64 F64 => { |e, a, b| minimum(e, a, b) }
    v_maximum_f64 [- - 0x342 -]: F64 = F64 F64 => { |e, a, b| maximum(e, a, b) }
    v_minimum3_f32 [- - 0x22d -]: F32 = F32 F32 F32 => { |e, a, b, c| minimum(e, minimum(e, a, b), c) }
    v_maximum3_f32 [- - 0x22e -]: F32 = F32 F32 F32 => { |e, a, b, c| maximum(e, maximum(e, a, b), c) }
    v_minimum3_f16 [- - 0x22f -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| minimum(e, minimum(e, a, b), c) }
    v_maximum3_f16 [- - 0x230 -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| maximum(e, maximum(e, a, b), c) }
    v_minimummaximum_f32 [- - 0x26c -]: F32 = F32 F32 F32 => { |e, a, b, c| maximum(e, minimum(e, a, b), c) }
    v_maximumminimum_f32 [- - 0x26d -]: F32 = F32 F32 F32 => { |e, a, b, c| minimum(e, maximum(e, a, b), c) }
    v_minimummaximum_f16 [- - 0x26e -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| maximum(e, minimum(e, a, b), c) }
    v_maximumminimum_f16 [- - 0x26f -]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| minimum(e, maximum(e, a, b), c) }
    v_min3_i32 [0x152 0x21a 0x21a 0x1d1]: I32 = I32 I32 I32 => { |e, a, b, c| a.min(b).min(c) }
    v_min3_u32 [0x153 0x21b 0x21b 0x1d2]: U32 = U32 U32 U32 => { |e, a, b, c| a.min(b).min(c) }
    v_max3_i32 [0x155 0x21d 0x21d 0x1d4]: I32 = I32 I32 I32 => { |e, a, b, c| a.max(b).max(c) }
    v_max3_u32 [0x156 0x21e 0x21e 0x1d5]: U32 = U32 U32 U32 => { |e, a, b, c| a.max(b).max(c) }
    v_med3_i32 [0x158 0x220 0x220 0x1d7]: I32 = I32 I32 I32 => { |e, a, b, c| a.max(b).min(a.min(b).max(c)) }
    v_med3_u32 [0x159 0x221 0x221 0x1d8]: U32 = U32 U32 U32 => { |e, a, b, c| a.max(b).min(a.min(b).max(c)) }
    v_minmax_u32 [- 0x263 0x263 -]: U32 = U32 U32 U32 => { |e, a, b, c| a.min(b).max(c) }
    v_maxmin_u32 [- 0x262 0x262 -]: U32 = U32 U32 U32 => { |e, a, b, c| a.max(b).min(c) }
    v_minmax_i32 [- 0x265 0x265 -]: I32 = I32 I32 I32 => { |e, a, b, c| a.min(b).max(c) }
    v_maxmin_i32 [- 0x264 0x264 -]: I32 = I32 I32 I32 => { |e, a, b, c| a.max(b).min(c) }
    v_min3_i16 [0x352 0x24a 0x24a 0x1f5]: I16 = I16 I16 I16, OPSEL | CLAMP => { |e, a, b, c| a.min(b).min(c) }
    v_min3_u16 [0x353 0x24b 0x24b 0x1f6]: U16 = U16 U16 U16, OPSEL | CLAMP => { |e, a, b, c| a.min(b).min(c) }
    v_max3_i16 [0x355 0x24d 0x24d 0x1f8]: I16 = I16 I16 I16, OPSEL | CLAMP => { |e, a, b, c| a.max(b).max(c) }
    v_max3_u16 [0x356 0x24e 0x24e 0x1f9]: U16 = U16 U16 U16, OPSEL | CLAMP => { |e, a, b, c| a.max(b).max(c) }
    v_med3_i16 [0x358 0x250 0x250 0x1fb]: I16 = I16 I16 I16, OPSEL | CLAMP => { |e, a, b, c| a.max(b).min(a.min(b).max(c)) }
    v_med3_u16 [0x359 0x251 0x251 0x1fc]: U16 = U16 U16 U16, OPSEL | CLAMP => { |e, a, b, c| a.max(b).min(a.min(b).max(c)) }
    // Division
    v_div_scale_f32 [0x16d 0x2fc 0x2fc 0x1e0]: F32 + Bit = F32 F32 F32, NO_DPP => { |e, a, b, c| div_scale(a, b, c) }
    v_div_scale_f64 [0x16e 0x2fd 0x2fd 0x1e1]: F64 + Bit = F64 F64 F64, NO_DPP => { |e, a, b, c| div_scale(a, b, c) }
    v_div_fmas_f32 [0x16f 0x237 0x237 0x1e2]: F32 = F32 F32 F32 + Bit, NO_DPP => { |e, a, b, c; bit| div_fmas(e, a, b, c, bit) }
    v_div_fmas_f64 [0x170 0x238 0x238 0x1e3]: F64 = F64 F64 F64 + Bit, NO_DPP => { |e, a, b, c; bit| div_fmas(e, a, b, c, bit) }
    v_div_fixup_f32 [0x15f 0x227 0x227 0x1de]: F32 = F32 F32 F32, NO_DPP => { |e, a, b, c| div_fixup(a, b, c, 150) }
    v_div_fixup_f64 [0x160 0x228 0x228 0x1df]: F64 = F64 F64 F64, NO_DPP => { |e, a, b, c| div_fixup(a, b, c, 1075) }
    v_div_fixup_f16 [0x35f 0x254 0x254 0x207]: F16 = F16 F16 F16, OPSEL => { |e, a, b, c| div_fixup16(a, b, c) }
    v_div_fixup_legacy_f16 [- - - 0x1ef]: F16 = F16 F16 F16 => { |e, a, b, c| div_fixup16(a, b, c) }
    v_ldexp_f32 [0x362 0x31c 0x31c 0x288]: F32 = F32 I32 => { |e, a, b| ldexp(e, a, b) }
    v_ldexp_f64 [0x168 0x32b 0x32b 0x284]: F64 = F64 I32 => { |e, a, b| ldexp(e, a, b) }
    v_trig_preop_f64 [0x174 0x32f 0x32f 0x292]: F64 = F64 U32 => { |e, a, b| trig_preop(a, b) }
    // Cube maps
    v_cubeid_f32 [0x144 0x20c 0x20c 0x1c4]: F32 = F32 F32 F32 => { |e, a, b, c| cube(a, b, c).0 }
    v_cubesc_f32 [0x145 0x20d 0x20d 0x1c5]: F32 = F32 F32 F32 => { |e, a, b, c| cube(a, b, c).1 }
    v_cubetc_f32 [0x146 0x20e 0x20e 0x1c6]: F32 = F32 F32 F32 => { |e, a, b, c| cube(a, b, c).2 }
    v_cubema_f32 [0x147 0x20f 0x20f 0x1c7]: F32 = F32 F32 F32 => { |e, a, b, c| e.mul(cube(a, b, c).3, 2.0) }
    // Bits and bytes
    v_bfe_u32 [0x148 0x210 0x210 0x1c8]: U32 = U32 U32 U32 => { |e, a, b, c| bfe_u(a, b, c) }
    v_bfe_i32 [0x149 0x211 0x211 0x1c9]: I32 = I32 U32 U32 => { |e, a, b, c| bfe_i(a, b, c) }
    v_bfi_b32 [0x14a 0x212 0x212 0x1ca]: U32 = U32 U32 U32 => { |e, a, b, c| a & b | !a & c }
    v_bfm_b32 [0x363 0x31d 0x31d 0x293]: U32 = U32 U32 => { |e, a, b| ((1 << (a & 31)) - 1) << (b & 31) }
    v_alignbit_b32 [0x14e 0x216 0x216 0x1ce]: U32 = U32 U32 U16, OPSEL | CLAMP => { |e, a, b, c| (both(a, b) >> (c & 31)) as u32 }
    v_alignbyte_b32 [0x14f 0x217 0x217 0x1cf]: U32 = U32 U32 U16, OPSEL | CLAMP => { |e, a, b, c| (both(a, b) >> (8 * (c & 3))) as u32 }
    v_perm_b32 [0x344 0x244 0x244 0x1ed]: U32 = U32 U32 U32 => { |e, a, b, c| perm(a, b, c) }
    v_xor3_b32 [0x178 0x240 0x240 -]: U32 = U32 U32 U32 => { |e, a, b, c| a ^ b ^ c }
    v_or3_b32 [0x372 0x258 0x258 0x202]: U32 = U32 U32 U32 => { |e, a, b, c| a | b | c }
    v_and_or_b32 [0x371 0x257 0x257 0x201]: U32 = U32 U32 U32 => { |e, a, b, c| a & b | c }
    v_lshl_or_b32 [0x36f 0x256 0x256 0x200]: U32 = U32 U32 U32 => { |e, a, b, c| a << (b & 31) | c }
    v_lshl_add_u32 [0x346 0x246 0x246 0x1fd]: U32 = U32 U32 U32 => { |e, a, b, c| (a << (b & 31)).wrapping_add(c) }
    v_add_lshl_u32 [0x347 0x247 0x247 0x1fe]: U32 = U32 U32 U32 => { |e, a, b, c| a.wrapping_add(b) << (c & 31) }
    v_xad_u32 [0x345 0x245 0x245 0x1f3]: U32 = U32 U32 U32 => { |e, a, b, c| (a ^ b).wrapping_add(c) }
    v_add3_u32 [0x36d 0x255 0x255 0x1ff]: U32 = U32 U32 U32 => { |e, a, b, c| a.wrapping_add(b).wrapping_add(c) }
    v_bcnt_u32_b32 [0x364 0x31e 0x31e 0x28b]: U32 = U32 U32 => { |e, a, b| a.count_ones().wrapping_add(b) }
    v_mbcnt_lo_u32_b32 [0x365 0x31f 0x31f 0x28c]: U32 = U32 U32 => { special moves::mbcnt_lo }
    v_mbcnt_hi_u32_b32 [0x366 0x320 0x320 0x28d]: U32 = U32 U32 => { special moves::mbcnt_hi }
    v_and_b16 [- 0x362 0x362 -]: U16 = U16 U16 => { |e, a, b| a & b }
    v_or_b16 [- 0x363 0x363 -]: U16 = U16 U16 => { |e, a, b| a | b }
    v_xor_b16 [- 0x364 0x364 -]: U16 = U16 U16 => { |e, a, b| a ^ b }
    v_cndmask_b16 [- 0x25d 0x25d -]: R16 = R16 R16 + Bit => { |e, a, b; bit| if bit { b } else { a } }
    v_add_nc_u16 [0x303 0x303 0x303 -]: U16 = U16 U16, OPSEL => { |e, a, b| { a.wrapping_add(b) } clamp { a.saturating_add(b) } }
    v_sub_nc_u16 [0x304 0x304 0x304 -]: U16 = U16 U16, OPSEL => { |e, a, b| { a.wrapping_sub(b) } clamp { a.saturating_sub(b) } }
    v_add_nc_i16 [0x30d 0x30d 0x30d -] v_add_i16 [- - - 0x29e]: I16 = I16 I16, OPSEL => { |e, a, b| { a.wrapping_add(b) } clamp { a.saturating_add(b) } }
    v_sub_nc_i16 [0x30e 0x30e 0x30e -] v_sub_i16 [- - - 0x29f]: I16 = I16 I16, OPSEL => { |e, a, b| { a.wrapping_sub(b) } clamp { a.saturating_sub(b) } }
    v_add_nc_i32 [0x37f 0x326 0x326 -] v_add_i32 [- - - 0x29c]: I32 = I32 I32 => { |e, a, b| { a.wrapping_add(b) } clamp { a.saturating_add(b) } }
    v_sub_nc_i32 [0x376 0x325 0x325 -] v_sub_i32 [- - - 0x29d]: I32 = I32 I32 => { |e, a, b| { a.wrapping_sub(b) } clamp { a.saturating_sub(b) } }
    v_lerp_u8 [0x14d 0x215 0x215 0x1cd]: U32 = U32 U32 U32 => { |e, a, b, c| bytes(a, b, c, |x, y, r| (x + y + (r & 1)) >> 1) }
    v_sad_u8 [0x15a 0x222 0x222 0x1d9]: U32 = U32 U32 U32 => { |e, a, b, c| { sad8(a, b).wrapping_add(c) } clamp { sad8(a, b).saturating_add(c) } }
    v_sad_hi_u8 [0x15b 0x223 0x223 0x1da]: U32 = U32 U32 U32 => { |e, a, b, c| { (sad8(a, b) << 16).wrapping_add(c) } clamp { (sad8(a, b) << 16).saturating_add(c) } }
    v_sad_u16 [0x15c 0x224 0x224 0x1db]: U32 = U32 U32 U32 => { |e, a, b, c| { sad16(a, b).wrapping_add(c) } clamp { sad16(a, b).saturating_add(c) } }
    v_sad_u32 [0x15d 0x225 0x225 0x1dc]: U32 = U32 U32 U32 => { |e, a, b, c| { a.abs_diff(b).wrapping_add(c) } clamp { a.abs_diff(b).saturating_add(c) } }
    v_msad_u8 [0x171 0x239 0x239 0x1e4]: U32 = U32 U32 U32 => { |e, a, b, c| { msad8(a, b).wrapping_add(c) } clamp { msad8(a, b).saturating_add(c) } }
    v_qsad_pk_u16_u8 [0x172 0x23a 0x23a 0x1e5]: U64 = U64 U32 U64, NO_DPP => { |e, a, b, c| { qsad(a, b, c, sad8, false) } clamp { qsad(a, b, c, sad8, true) } }
    v_mqsad_pk_u16_u8 [0x173 0x23b 0x23b 0x1e6]: U64 = U64 U32 U64, NO_DPP => { |e, a, b, c| { qsad(a, b, c, msad8, false) } clamp { qsad(a, b, c, msad8, true) } }
    v_mqsad_u32_u8 [0x175 0x23d 0x23d 0x1e7]: U128 = U64 U32 U128, NO_DPP => { special moves::mqsad }
    // Conversions to pairs
    v_pack_b32_f16 [0x311 0x311 0x311 0x2a0]: U32 = R16 R16, OPSEL | CLAMP => { |e, a, b| pair(a, b) }
    v_cvt_pk_i16_f32 [- 0x306 0x306 -]: U32 = F32 F32, CLAMP | NO_OMOD => { |e, a, b| pair(a as i16 as u16, b as i16 as u16) }
    v_cvt_pk_u16_f32 [- 0x307 0x307 -]: U32 = F32 F32, CLAMP | NO_OMOD => { |e, a, b| pair(a as u16, b as u16) }
    v_cvt_pk_norm_i16_f32 [- 0x321 0x321 -] v_cvt_pknorm_i16_f32 [0x368 - - 0x294]: U32 = F32 F32, NO_OMOD => { |e, a, b| pair(snorm(a) as u16, snorm(b) as u16) }
    v_cvt_pk_norm_u16_f32 [- 0x322 0x322 -] v_cvt_pknorm_u16_f32 [0x369 - - 0x295]: U32 = F32 F32, NO_OMOD => { |e, a, b| pair(unorm(a), unorm(b)) }
    v_cvt_pk_norm_i16_f16 [- 0x312 0x312 -] v_cvt_pknorm_i16_f16 [0x312 - - 0x299]: U32 = F16 F16, OPSEL | NO_OMOD => { |e, a, b| pair(snorm(a) as u16, snorm(b) as u16) }
    v_cvt_pk_norm_u16_f16 [- 0x313 0x313 -] v_cvt_pknorm_u16_f16 [0x313 - - 0x29a]: U32 = F16 F16, OPSEL | NO_OMOD => { |e, a, b| pair(unorm(a), unorm(b)) }
    v_cvt_pk_u16_u32 [0x36a 0x323 0x323 0x297]: U32 = U32 U32 => { |e, a, b| pair(a.min(0xffff) as u16, b.min(0xffff) as u16) }
    v_cvt_pk_i16_i32 [0x36b 0x324 0x324 0x298]: U32 = I32 I32 => { |e, a, b| pair(sat16(a), sat16(b)) }
    v_cvt_pk_u8_f32 [0x15e 0x226 0x226 0x1dd]: U32 = F32 U32 U32, NO_OMOD => { |e, a, b, c| put_byte(c, b, byte_of(a)) }
    v_cvt_pkaccum_u8_f32 [- - - 0x1f0]: U32 = F32 U32 + Old, NO_OMOD => { |e, a, b, c| put_byte(c, b, byte_of(a)) }
    v_cvt_pk_fp8_f32 [- - 0x369 0x2a2]: U16 = F32 F32, FP8 => { special fp8::to_pk_fp8 }
    v_cvt_pk_bf8_f32 [- - 0x36a 0x2a3]: U16 = F32 F32, FP8 => { special fp8::to_pk_bf8 }
    v_cvt_sr_fp8_f32 [- - 0x36b 0x2a4]: U32 = F32 U32, FP8_SR => { special fp8::to_sr_fp8 }
    v_cvt_sr_bf8_f32 [- - 0x36c 0x2a5]: U32 = F32 U32, FP8_SR => { special fp8::to_sr_bf8 }
    // Dot products
    v_dot2_f16_f16 [- 0x266 0x266 -]: F16 = P16 P16 F16, DOT => { |e, a, b, c| dot2_f16(e, a, b, c) }
    v_dot2_bf16_bf16 [- 0x267 0x267 -]: Bf16 = PBf16 PBf16 Bf16, DOT => { |e, a, b, c| dot2_bf16(e, a, b, c) }
    // Across lanes
    v_readlane_b32 [0x360 0x360 0x360 0x289]: U32 = U32 U32, NO_DPP | TO_SCALAR | VGPR_ONLY => { special moves::readlane }
    v_writelane_b32 [0x361 0x361 0x361 0x28a]: U32 = U32 U32, NO_DPP | FROM_SCALARS => { special moves::writelane }
    v_permlane16_b32 [0x377 0x25b 0x25b -]: U32 = U32 U32 U32, NO_DPP | PERMLANE | VGPR_ONLY => { special moves::permlane16 }
    v_permlanex16_b32 [0x378 0x25c 0x25c -]: U32 = U32 U32 U32, NO_DPP | PERMLANE | VGPR_ONLY => { special moves::permlanex16 }
    v_permlane16_var_b32 [- - 0x30f -]: U32 = U32 U32, NO_DPP | PERMLANE | VGPR_ONLY => { special moves::permlane16_var }
    v_permlanex16_var_b32 [- - 0x310 -]: U32 = U32 U32, NO_DPP | PERMLANE | VGPR_ONLY => { special moves::permlanex16_var }
    // One scalar
    v_s_exp_f32 [- - 0x280 -]: F32 = F32, NO_DPP | SCALAR => { special moves::s_exp_f32 }
    v_s_exp_f16 [- - 0x281 -]: F16 = F16, NO_DPP | SCALAR => { special moves::s_exp_f16 }
    v_s_log_f32 [- - 0x282 -]: F32 = F32, NO_DPP | SCALAR => { special moves::s_log_f32 }
    v_s_log_f16 [- - 0x283 -]: F16 = F16, NO_DPP | SCALAR => { special moves::s_log_f16 }
    v_s_rcp_f32 [- - 0x284 -]: F32 = F32, NO_DPP | SCALAR => { special moves::s_rcp_f32 }
    v_s_rcp_f16 [- - 0x285 -]: F16 = F16, NO_DPP | SCALAR => { special moves::s_rcp_f16 }
    v_s_rsq_f32 [- - 0x286 -]: F32 = F32, NO_DPP | SCALAR => { special moves::s_rsq_f32 }
    v_s_rsq_f16 [- - 0x287 -]: F16 = F16, NO_DPP | SCALAR => { special moves::s_rsq_f16 }
    v_s_sqrt_f32 [- - 0x288 -]: F32 = F32, NO_DPP | SCALAR => { special moves::s_sqrt_f32 }
    v_s_sqrt_f16 [- - 0x289 -]: F16 = F16, NO_DPP | SCALAR => { special moves::s_sqrt_f16 }
}
