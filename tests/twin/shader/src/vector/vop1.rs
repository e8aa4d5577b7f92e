//! VOP1: one source. See [`super::table`] for how rows are read.

use super::arith::*;
use super::fp8;
use super::math::*;
use super::moves;
use super::run::{self, Meaning};
use super::table::flag::*;
use super::table::{Field, Lower, Row, rows};
use super::value::*;

rows! {
    // None: they do nothing here
    v_nop [0x180 0x180 0x180 0x140]: No =, BARE => { special moves::nothing }
    v_pipeflush [0x19b 0x19b 0x19b -]: No =, BARE => { special moves::nothing }
    v_clrexcp [0x1c1 - - 0x175]: No =, BARE => { special moves::nothing }
    // One source
    v_mov_b32 [0x181 0x181 0x181 0x141]: U32 = U32 => { |e, a| a }
    v_mov_b16 [- 0x19c - -]: U16 = U16 => { |e, a| a }
    v_mov_b64 [- - - 0x178]: U64 = U64 => { |e, a| a }
    v_not_b32 [0x1b7 0x1b7 0x1b7 0x16b]: U32 = U32 => { |e, a| !a }
    v_not_b16 [- 0x1e9 0x1e9 -]: U16 = U16 => { |e, a| !a }
    v_bfrev_b32 [0x1b8 0x1b8 0x1b8 0x16c]: U32 = U32 => { |e, a| a.reverse_bits() }
    v_clz_i32_u32 [- 0x1b9 0x1b9 -] v_ffbh_u32 [0x1b9 - - 0x16d]: I32 = U32 => { |e, a| first(a.leading_zeros()) }
    v_ctz_i32_b32 [- 0x1ba 0x1ba -] v_ffbl_b32 [0x1ba - - 0x16e]: I32 = U32 => { |e, a| first(a.trailing_zeros()) }
    v_cls_i32 [- 0x1bb 0x1bb -] v_ffbh_i32 [0x1bb - - 0x16f]: I32 = I32 => { |e, a| first(((a ^ a >> 31) as u32).leading_zeros()) }
    // Conversions between integers and floats
    v_cvt_f32_i32 [0x185 0x185 0x185 0x145]: F32 = I32 => { |e, a| from_int(e, a) }
    v_cvt_f32_u32 [0x186 0x186 0x186 0x146]: F32 = U32 => { |e, a| from_uint(e, a) }
    v_cvt_u32_f32 [0x187 0x187 0x187 0x147]: U32 = F32 => { |e, a| a as u32 }
    v_cvt_i32_f32 [0x188 0x188 0x188 0x148]: I32 = F32 => { |e, a| a as i32 }
    v_cvt_nearest_i32_f32 [- 0x18c 0x18c -] v_cvt_rpi_i32_f32 [0x18c - - 0x14c]: I32 = F32, NO_OMOD => { |e, a| floor(a + 0.5) as i32 }
    v_cvt_floor_i32_f32 [- 0x18d 0x18d -] v_cvt_flr_i32_f32 [0x18d - - 0x14d]: I32 = F32, NO_OMOD => { |e, a| floor(a) as i32 }
    v_cvt_f32_ubyte0 [0x191 0x191 0x191 0x151]: F32 = U32 => { |e, a| (a & 255) as f32 }
    v_cvt_f32_ubyte1 [0x192 0x192 0x192 0x152]: F32 = U32 => { |e, a| (a >> 8 & 255) as f32 }
    v_cvt_f32_ubyte2 [0x193 0x193 0x193 0x153]: F32 = U32 => { |e, a| (a >> 16 & 255) as f32 }
    v_cvt_f32_ubyte3 [0x194 0x194 0x194 0x154]: F32 = U32 => { |e, a| (a >> 24) as f32 }
    v_cvt_off_f32_i4 [0x18e 0x18e 0x18e 0x14e]: F32 = U32 => { |e, a| ((a << 28) as i32 >> 28) as f32 / 16.0 }
    v_cvt_i32_f64 [0x183 0x183 0x183 0x143]: I32 = F64 => { |e, a| a as i32 }
    v_cvt_u32_f64 [0x195 0x195 0x195 0x155]: U32 = F64 => { |e, a| a as u32 }
    v_cvt_f64_i32 [0x184 0x184 0x184 0x144]: F64 = I32 => { |e, a| f64::from(a) }
    v_cvt_f64_u32 [0x196 0x196 0x196 0x156]: F64 = U32 => { |e, a| f64::from(a) }
    v_cvt_f16_u16 [0x1d0 0x1d0 0x1d0 0x179]: F16 = U16 => { |e, a| f32::from(a) }
    v_cvt_f16_i16 [0x1d1 0x1d1 0x1d1 0x17a]: F16 = I16 => { |e, a| f32::from(a) }
    v_cvt_u16_f16 [0x1d2 0x1d2 0x1d2 0x17b]: U16 = F16 => { |e, a| a as u16 }
    v_cvt_i16_f16 [0x1d3 0x1d3 0x1d3 0x17c]: I16 = F16 => { |e, a| a as i16 }
    v_cvt_i32_i16 [- 0x1ea 0x1ea -]: I32 = I16 => { |e, a| i32::from(a) }
    v_cvt_u32_u16 [- 0x1eb 0x1eb -]: U32 = U16 => { |e, a| u32::from(a) }
    v_cvt_norm_i16_f16 [0x1e3 0x1e3 0x1e3 0x18d]: I16 = F16 => { |e, a| snorm(a) }
    v_cvt_norm_u16_f16 [0x1e4 0x1e4 0x1e4 0x18e]: U16 = F16 => { |e, a| unorm(a) }
    v_sat_pk_u8_i16 [0x1e2 0x1e2 0x1e2 0x18f]: U16 = U32 => { |e, a| sat8(a as i16) | sat8((a >> 16) as i16) << 8 }
    v_screen_partition_4se_b32 [- - - 0x177]: U32 = U32 => { special moves::reserved }
    // Conversions between floats
    v_cvt_f16_f32 [0x18a 0x18a 0x18a 0x14a]: F16 = F32 => { |e, a| a }
    v_cvt_f32_f16 [0x18b 0x18b 0x18b 0x14b]: F32 = F16 => { |e, a| a }
    v_cvt_f32_f64 [0x18f 0x18f 0x18f 0x14f]: F32 = F64 => { |e, a| narrow(e, a) }
    v_cvt_f64_f32 [0x190 0x190 0x190 0x150]: F64 = F32 => { |e, a| widen(e, a) }
    // Rounding
    v_fract_f32 [0x1a0 0x1a0 0x1a0 0x15b]: F32 = F32 => { |e, a| fract(e, a) }
    v_trunc_f32 [0x1a1 0x1a1 0x1a1 0x15c]: F32 = F32 => { |e, a| trunc(a) }
    v_ceil_f32 [0x1a2 0x1a2 0x1a2 0x15d]: F32 = F32 => { |e, a| ceil(a) }
    v_rndne_f32 [0x1a3 0x1a3 0x1a3 0x15e]: F32 = F32 => { |e, a| rndne(a) }
    v_floor_f32 [0x1a4 0x1a4 0x1a4 0x15f]: F32 = F32 => { |e, a| floor(a) }
    v_fract_f16 [0x1df 0x1df 0x1df 0x188]: F16 = F16 => { |e, a| fract(e, a) }
    v_trunc_f16 [0x1dd 0x1dd 0x1dd 0x186]: F16 = F16 => { |e, a| trunc(a) }
    v_ceil_f16 [0x1dc 0x1dc 0x1dc 0x185]: F16 = F16 => { |e, a| ceil(a) }
    v_rndne_f16 [0x1de 0x1de 0x1de 0x187]: F16 = F16 => { |e, a| rndne(a) }
    v_floor_f16 [0x1db 0x1db 0x1db 0x184]: F16 = F16 => { |e, a| floor(a) }
    v_fract_f64 [0x1be 0x1be 0x1be 0x172]: F64 = F64 => { |e, a| fract(e, a) }
    v_trunc_f64 [0x197 0x197 0x197 0x157]: F64 = F64 => { |e, a| trunc(a) }
    v_ceil_f64 [0x198 0x198 0x198 0x158]: F64 = F64 => { |e, a| ceil(a) }
    v_rndne_f64 [0x199 0x199 0x199 0x159]: F64 = F64 => { |e, a| rndne(a) }
    v_floor_f64 [0x19a 0x19a 0x19a 0x15a]: F64 = F64 => { |e, a| floor(a) }
    // Functions. The documents promise 1 ULP; what is given is the nearest number.
    v_exp_f32 [0x1a5 0x1a5 0x1a5 0x160]: F32 = F32 => { |e, a| exp2(a) }
    v_log_f32 [0x1a7 0x1a7 0x1a7 0x161]: F32 = F32 => { |e, a| log2(a) }
    v_rcp_f32 [0x1aa 0x1aa 0x1aa 0x162]: F32 = F32 => { |e, a| rcp32(a) }
    v_rcp_iflag_f32 [0x1ab 0x1ab 0x1ab 0x163]: F32 = F32 => { |e, a| rcp32(a) }
    v_rsq_f32 [0x1ae 0x1ae 0x1ae 0x164]: F32 = F32 => { |e, a| rsq32(a) }
    v_sqrt_f32 [0x1b3 0x1b3 0x1b3 0x167]: F32 = F32 => { |e, a| sqrt32(a) }
    v_sin_f32 [0x1b5 0x1b5 0x1b5 0x169]: F32 = F32 => { |e, a| sin(a) }
    v_cos_f32 [0x1b6 0x1b6 0x1b6 0x16a]: F32 = F32 => { |e, a| cos(a) }
    v_exp_legacy_f32 [- - - 0x18b]: F32 = F32 => { |e, a| exp2(a) }
    v_log_legacy_f32 [- - - 0x18c]: F32 = F32 => { |e, a| log2(a) }
    v_exp_f16 [0x1d8 0x1d8 0x1d8 0x181]: F16 = F16 => { |e, a| exp16(a) }
    v_log_f16 [0x1d7 0x1d7 0x1d7 0x180]: F16 = F16 => { |e, a| log16(a) }
    v_rcp_f16 [0x1d4 0x1d4 0x1d4 0x17d]: F16 = F16 => { |e, a| rcp16(a) }
    v_rsq_f16 [0x1d6 0x1d6 0x1d6 0x17f]: F16 = F16 => { |e, a| rsq16(a) }
    v_sqrt_f16 [0x1d5 0x1d5 0x1d5 0x17e]: F16 = F16 => { |e, a| sqrt16(a) }
    v_sin_f16 [0x1e0 0x1e0 0x1e0 0x189]: F16 = F16 => { |e, a| sin(a) }
    v_cos_f16 [0x1e1 0x1e1 0x1e1 0x18a]: F16 = F16 => { |e, a| cos(a) }
    v_rcp_f64 [0x1af 0x1af 0x1af 0x165]: F64 = F64 => { |e, a| rcp64(a) }
    v_rsq_f64 [0x1b1 0x1b1 0x1b1 0x166]: F64 = F64 => { |e, a| rsq64(a) }
    v_sqrt_f64 [0x1b4 0x1b4 0x1b4 0x168]: F64 = F64 => { |e, a| sqrt64(a) }
    // Parts of floats
    v_frexp_exp_i32_f32 [0x1bf 0x1bf 0x1bf 0x173]: I32 = F32, NO_OMOD => { |e, a| frexp_exp(a) }
    v_frexp_mant_f32 [0x1c0 0x1c0 0x1c0 0x174]: F32 = F32 => { |e, a| frexp_mant(a) }
    v_frexp_exp_i16_f16 [0x1da 0x1da 0x1da 0x183]: I16 = F16 => { |e, a| frexp_exp(a) as i16 }
    v_frexp_mant_f16 [0x1d9 0x1d9 0x1d9 0x182]: F16 = F16 => { |e, a| frexp_mant(a) }
    v_frexp_exp_i32_f64 [0x1bc 0x1bc 0x1bc 0x170]: I32 = F64 => { |e, a| frexp_exp(a) }
    v_frexp_mant_f64 [0x1bd 0x1bd 0x1bd 0x171]: F64 = F64 => { |e, a| frexp_mant(a) }
    // 8 bit floats
    v_cvt_f32_fp8 [- - 0x1ec 0x194]: F32 = U32, FP8 => { special fp8::from_fp8 }
    v_cvt_f32_bf8 [- - 0x1ed 0x195]: F32 = U32, FP8 => { special fp8::from_bf8 }
    v_cvt_pk_f32_fp8 [- - 0x1ee 0x196]: U64 = U32, FP8 => { special fp8::from_pk_fp8 }
    v_cvt_pk_f32_bf8 [- - 0x1ef 0x197]: U64 = U32, FP8 => { special fp8::from_pk_bf8 }
    // Registers chosen by M0
    v_movreld_b32 [0x1c2 0x1c2 0x1c2 -]: U32 = U32 => { special moves::movreld }
    v_movrels_b32 [0x1c3 0x1c3 0x1c3 -]: U32 = U32, VGPR_ONLY => { special moves::movrels }
    v_movrelsd_b32 [0x1c4 0x1c4 0x1c4 -]: U32 = U32, VGPR_ONLY => { special moves::movrelsd }
    v_movrelsd_2_b32 [0x1c8 0x1c8 0x1c8 -]: U32 = U32, VGPR_ONLY => { special moves::movrelsd_2 }
    v_swaprel_b32 [0x1e8 0x1e8 0x1e8 -]: U32 = U32, SHORT | NO_DPP | VGPR_ONLY => { special moves::swaprel }
    // Across lanes and registers
    v_swap_b32 [0x1e5 0x1e5 0x1e5 0x191]: U32 = U32, SHORT | NO_DPP | VGPR_ONLY => { special moves::swap }
    v_swap_b16 [- 0x1e6 - -]: U16 = U16, SHORT | NO_DPP | VGPR_ONLY => { special moves::swap }
    v_permlane64_b32 [- 0x1e7 0x1e7 -]: U32 = U32, SHORT | NO_DPP | VGPR_ONLY => { special moves::permlane64 }
    v_readfirstlane_b32 [0x182 0x182 0x182 0x142]: U32 = U32, SHORT | NO_DPP | TO_SCALAR | VGPR_ONLY => { special moves::readfirstlane }
}
