//! Registers of a compute dispatch, as dword addresses in the space of type 4 packets, and of the counter for times.
//!
//! Source: Mesa, src/freedreno/registers/adreno/a6xx.xml (lfdevs/mesa-for-android-container 1524d8d): names, addresses
//! and fields are checked against it; CP_ALWAYS_ON_COUNTER is that of Linux, drivers/gpu/drm/msm/registers/adreno/
//! a6xx.xml, and of KGSL, a6xx_reg.h, as is UCHE_CLIENT_PF. Behind `was` is the name in Mesa before 2025 (chaotic-cx/
//! mesa-mirror 738f9f1). What values do: comments there, and a survey of Mesa's Vulkan driver and of what has run on
//! A630; that RUN_OPENCL leaves out fibers beyond the grid, and that SP_PS_INSTR_SIZE bounds a prefetch of compute, is
//! from that survey alone.
//!
//! A 64-bit address is two registers, the lower half first, as everywhere in these GPUs. Fields of register ids hold
//! `4 * n + component`, or [`NO_REGISTER`].

use hcq::reg::{At, Register};

use super::chip::Gens;
use crate::nv::words::fields;

/// A register.
pub type Reg = Register<Gens>;

/// Declares registers, in the order of their addresses; behind `@` the sub-generations that have it. Without fields it
/// takes 32 bits of one meaning.
macro_rules! registers {
    ($(#[$tdoc:meta])* $table:ident; $($(#[$doc:meta])* $name:ident $(was $old:literal)? $address:literal
        $(@$on:ident)? $($module:ident {
            $($field:ident $high:literal $low:literal $({$($value:ident = $number:literal),* $(,)?})?;)*
        })?;)*
    ) => {
        $(
            $(#[$doc])*
            #[doc = concat!("`", stringify!($name), "`", $(", was `", $old, "`",)? ".")]
            pub const $name: Reg = Register {
                word: hcq::reg::Word {
                    name: stringify!($name),
                    fields: &[$($($module::$field),*)?],
                    on: registers!(@on $($on)?),
                },
                at: At::Fixed($address),
            };

            $(fields! { Gens, $module, stringify!($name);
                $($field $high $low $({$($value = $number),*})?;)*
            })?
        )*

        $(#[$tdoc])*
        pub const $table: &[Reg] = &[$($name,)*];
    };
    (@on) => { Gens::ALL };
    (@on $on:ident) => { Gens::$on };
}

/// A register id that stands for none.
pub const NO_REGISTER: u32 = 0xfc;
/// The first register id of the registers that a wave shares, r48.x: those of `SP_CS_CONST_CONFIG_0` but LOCALIDREGID
/// are at or above it.
pub const SHARED_REGISTERS: u32 = 48 << 2;
/// Bytes of a unit of code: of `SP_CS_INSTR_SIZE`, and of what CP_LOAD_STATE6 preloads.
pub const INSTRUCTION_UNIT: u32 = 128;
/// Vectors of four constants in a unit of CONSTLEN.
pub const CONSTLEN_UNIT: u32 = 4;
/// The most vectors of four constants.
pub const MAX_CONSTANTS: u32 = 256;
/// Bytes in a unit of MEMSIZEPERITEM.
pub const PRIVATE_UNIT: u32 = 512;
/// Bytes in a unit of TOTALPVTMEMSIZE, which is of one shader processor.
pub const PRIVATE_TOTAL_UNIT: u32 = 4096;
/// Bytes in a unit of OFFSET of `SP_CS_PVT_MEM_STACK_OFFSET`.
pub const PRIVATE_STACK_UNIT: u32 = 2048;
/// Ticks of [`CP_ALWAYS_ON_COUNTER`] in a second.
pub const ALWAYS_ON_HZ: u64 = 19_200_000;

registers! {
    /// Every register here.
    REGISTERS;
    /// Counts at [`ALWAYS_ON_HZ`]; the lower half.
    CP_ALWAYS_ON_COUNTER 0x0980;
    /// The upper half.
    CP_ALWAYS_ON_COUNTER_HI 0x0981;
    /// Undocumented, see [`super::chip::Magic`].
    UCHE_UNKNOWN_0E12 0x0e12;
    /// Undocumented, see [`super::chip::Magic`].
    UCHE_CLIENT_PF 0x0e19;
    /// The shader. Footprints count vectors of four registers, the highest plus 1. BRANCHSTACK is half of the depth of
    /// branches. UNK21 and UNK22 stay 0. With MERGEDREGS a half register is half of a full one, without it another one.
    SP_CS_CNTL_0 was "SP_CS_CTRL_REG0" 0xa9b0 sp_cs_cntl_0 {
        THREADMODE 0 0 {MULTI = 0, SINGLE = 1};
        HALFREGFOOTPRINT 6 1;
        FULLREGFOOTPRINT 12 7;
        UNK13 13 13;
        BRANCHSTACK 19 14;
        THREADSIZE 20 20 {THREAD64 = 0, THREAD128 = 1};
        UNK21 21 21;
        UNK22 22 22;
        EARLYPREAMBLE 23 23;
        MERGEDREGS 31 31;
    };
    /// Memory of a group: SHARED_SIZE + 1 KiB, or for 0 all 32 KiB. CONSTANTRAMMODE is at least the number of constants.
    SP_CS_CNTL_1 was "SP_CS_UNKNOWN_A9B1" 0xa9b1 sp_cs_cntl_1 {
        SHARED_SIZE 4 0;
        CONSTANTRAMMODE 6 5 {CONSTLEN_128 = 0, CONSTLEN_192 = 1, CONSTLEN_256 = 2};
        ALT_LM_ENCODE 26 26;
    };
    /// Bit N is the condition of `brac.N`.
    SP_CS_BOOLEAN_CF_MASK was "SP_CS_BRANCH_COND" 0xa9b2;
    /// The first instruction.
    SP_CS_PROGRAM_COUNTER_OFFSET was "SP_CS_OBJ_FIRST_EXEC_OFFSET" 0xa9b3;
    /// Where code is, a multiple of 32 bytes.
    SP_CS_BASE was "SP_CS_OBJ_START" 0xa9b4;
    /// The upper half.
    SP_CS_BASE_HI 0xa9b5;
    /// Private memory of a fiber, in [`PRIVATE_UNIT`]s.
    SP_CS_PVT_MEM_PARAM 0xa9b6 sp_cs_pvt_mem_param {
        MEMSIZEPERITEM 7 0;
        HWSTACKSIZEPERTHREAD 31 24;
    };
    /// Where it is, a multiple of 32 bytes.
    SP_CS_PVT_MEM_BASE was "SP_CS_PVT_MEM_ADDR" 0xa9b7;
    /// The upper half.
    SP_CS_PVT_MEM_BASE_HI 0xa9b8;
    /// Private memory of a shader processor, in [`PRIVATE_TOTAL_UNIT`]s. Accesses of more than a dword need the layout
    /// by waves.
    SP_CS_PVT_MEM_SIZE 0xa9b9 sp_cs_pvt_mem_size {
        TOTALPVTMEMSIZE 17 0;
        PERWAVEMEMLAYOUT 31 31;
    };
    /// Textures.
    SP_CS_TSIZE was "SP_CS_TEX_COUNT" 0xa9ba sp_cs_tsize {
        COUNT 7 0;
    };
    /// What of each kind there is.
    SP_CS_CONFIG 0xa9bb sp_cs_config {
        BINDLESS_TEX 0 0;
        BINDLESS_SAMP 1 1;
        BINDLESS_UAV 2 2;
        BINDLESS_UBO 3 3;
        ENABLED 8 8;
        NTEX 16 9;
        NSAMP 21 17;
        NUAV 28 22;
    };
    /// Code, in [`INSTRUCTION_UNIT`]s.
    SP_CS_INSTR_SIZE was "SP_CS_INSTRLEN" 0xa9bc sp_cs_instr_size {
        UNITS 27 0;
    };
    /// Where the stack of calls is behind private memory, in [`PRIVATE_STACK_UNIT`]s.
    SP_CS_PVT_MEM_STACK_OFFSET was "SP_CS_PVT_MEM_HW_STACK_OFFSET" 0xa9bd sp_cs_pvt_mem_stack_offset {
        OFFSET 18 0;
    };
    /// The same as [`SP_CS_CONST_CONFIG_0`].
    SP_CS_WIE_CNTL_0 was "SP_CS_CNTL_0" 0xa9c2 @LPAC sp_cs_wie_cntl_0 {
        WGIDCONSTID 7 0;
        WGSIZECONSTID 15 8;
        WGOFFSETCONSTID 23 16;
        LOCALIDREGID 31 24;
    };
    /// The same as [`SP_CS_WGE_CNTL`].
    SP_CS_WIE_CNTL_1 was "SP_CS_CNTL_1" 0xa9c3 @LPAC sp_cs_wie_cntl_1 {
        LINEARLOCALIDREGID 7 0;
        SINGLE_SP_CORE 8 8;
        THREADSIZE 9 9 {THREAD64 = 0, THREAD128 = 1};
        THREADSIZE_SCALAR 10 10;
    };
    /// Samplers, a multiple of 16 bytes.
    SP_CS_SAMPLER_BASE was "SP_CS_TEX_SAMP" 0xa9e2;
    /// The upper half.
    SP_CS_SAMPLER_BASE_HI 0xa9e3;
    /// Textures, a multiple of 64 bytes.
    SP_CS_TEXMEMOBJ_BASE was "SP_CS_TEX_CONST" 0xa9e6;
    /// The upper half.
    SP_CS_TEXMEMOBJ_BASE_HI 0xa9e7;
    /// Images, a multiple of 16 bytes.
    SP_CS_UAV_BASE was "SP_CS_IBO" 0xa9f2;
    /// The upper half.
    SP_CS_UAV_BASE_HI 0xa9f3;
    /// Images.
    SP_CS_USIZE was "SP_CS_IBO_COUNT" 0xaa00 sp_cs_usize {
        COUNT 6 0;
    };
    /// Undocumented, see [`super::chip::Magic`].
    SP_UNKNOWN_AAF2 0xaaf2;
    /// How shaders work. With CONSTANT_DEMOTION_ENABLE a half constant is a whole one, made half. ISAMMODE: what reads
    /// outside of an image give.
    SP_MODE_CNTL was "SP_MODE_CONTROL" 0xab00 sp_mode_cntl {
        CONSTANT_DEMOTION_ENABLE 0 0;
        ISAMMODE 2 1 {ISAMMODE_CL = 1, ISAMMODE_GL = 2};
        SHARED_CONSTS_ENABLE 3 3;
    };
    /// Code of a pixel shader: the prefetcher may take it for the bound of compute, too.
    SP_PS_INSTR_SIZE was "SP_FS_INSTRLEN" 0xab05 sp_ps_instr_size {
        UNITS 27 0;
    };
    /// Undocumented, see [`super::chip::Magic`].
    SP_DBG_ECO_CNTL 0xae00;
    /// Undocumented, see [`super::chip::Magic`].
    SP_CHICKEN_BITS 0xae03;
    /// With F16_NO_INF halves have no infinity.
    SP_NC_MODE_CNTL_2 was "SP_FLOAT_CNTL" 0xae04 sp_nc_mode_cntl_2 {
        F16_NO_INF 3 3;
    };
    /// Which shaders are counted.
    SP_PERFCTR_SHADER_MASK was "SP_PERFCTR_ENABLE" 0xae0f sp_perfctr_shader_mask {
        VS 0 0;
        HS 1 1;
        DS 2 2;
        GS 3 3;
        FS 4 4;
        CS 5 5;
    };
    /// Colours that reads outside of an image give, a multiple of 128 bytes.
    TPL1_CS_BORDER_COLOR_BASE was "SP_PS_TP_BORDER_COLOR_BASE_ADDR" 0xb180;
    /// The upper half.
    TPL1_CS_BORDER_COLOR_BASE_HI 0xb181;
    /// How textures work. ISAMMODE as in [`SP_MODE_CNTL`].
    TPL1_MODE_CNTL was "SP_TP_MODE_CNTL" 0xb309 tpl1_mode_cntl {
        ISAMMODE 1 0 {ISAMMODE_CL = 1, ISAMMODE_GL = 2};
        TEXCOORDROUNDMODE 2 2;
        ARRAYCOORDROUNDMODE 4 3;
        NEARESTMIPSNAP 5 5;
        SAMPLEREPLICATE 6 6;
        DESTDATATYPEOVERRIDE 7 7;
        PACK_SAMP_REDUCED_PRECISION 8 8;
    };
    /// Undocumented, see [`super::chip::Magic`].
    TPL1_DBG_ECO_CNTL 0xb600;
    /// Registers of a pixel shader: none.
    SP_REG_PROG_ID_0 was "HLSQ_CONTROL_2_REG" 0xb983 sp_reg_prog_id_0 {
        FACEREGID 7 0;
        SAMPLEID 15 8;
        SAMPLEMASK 23 16;
        CENTERRHW 31 24;
    };
    /// The same.
    SP_REG_PROG_ID_1 was "HLSQ_CONTROL_3_REG" 0xb984 sp_reg_prog_id_1 {
        IJ_PERSP_PIXEL 7 0;
        IJ_LINEAR_PIXEL 15 8;
        IJ_PERSP_CENTROID 23 16;
        IJ_LINEAR_CENTROID 31 24;
    };
    /// The same.
    SP_REG_PROG_ID_2 was "HLSQ_CONTROL_4_REG" 0xb985 sp_reg_prog_id_2 {
        IJ_PERSP_SAMPLE 7 0;
        IJ_LINEAR_SAMPLE 15 8;
        XYCOORDREGID 23 16;
        ZWCOORDREGID 31 24;
    };
    /// The same.
    SP_REG_PROG_ID_3 was "HLSQ_CONTROL_5_REG" 0xb986 sp_reg_prog_id_3 {
        LINELENGTHREGID 7 0;
        FOVEATIONQUALITYREGID 15 8;
    };
    /// Constants, in [`CONSTLEN_UNIT`]s: 64 for all 256.
    SP_CS_CONST_CONFIG was "HLSQ_CS_CNTL" 0xb987 sp_cs_const_config {
        CONSTLEN 7 0;
        ENABLED 8 8;
    };
    /// The grid: dimensions, and fibers of a group along each, less 1.
    SP_CS_NDRANGE_0 was "HLSQ_CS_NDRANGE_0" 0xb990 sp_cs_ndrange_0 {
        KERNELDIM 1 0;
        LOCALSIZEX 11 2;
        LOCALSIZEY 21 12;
        LOCALSIZEZ 31 22;
    };
    /// Fibers along x. Those beyond do not run with RUN_OPENCL.
    SP_CS_NDRANGE_1 was "HLSQ_CS_NDRANGE_1" 0xb991;
    /// The first fiber along x.
    SP_CS_NDRANGE_2 was "HLSQ_CS_NDRANGE_2" 0xb992;
    /// Fibers along y.
    SP_CS_NDRANGE_3 was "HLSQ_CS_NDRANGE_3" 0xb993;
    /// The first fiber along y.
    SP_CS_NDRANGE_4 was "HLSQ_CS_NDRANGE_4" 0xb994;
    /// Fibers along z.
    SP_CS_NDRANGE_5 was "HLSQ_CS_NDRANGE_5" 0xb995;
    /// The first fiber along z.
    SP_CS_NDRANGE_6 was "HLSQ_CS_NDRANGE_6" 0xb996;
    /// Where shaders find their place in the grid: three registers each. The first three are [`SHARED_REGISTERS`].
    /// WGOFFSETCONSTID is the group's id times its size.
    SP_CS_CONST_CONFIG_0 was "HLSQ_CS_CNTL_0" 0xb997 sp_cs_const_config_0 {
        WGIDCONSTID 7 0;
        WGSIZECONSTID 15 8;
        WGOFFSETCONSTID 23 16;
        LOCALIDREGID 31 24;
    };
    /// Waves. THREADSIZE as in [`SP_CS_CNTL_0`]; with THREADSIZE_SCALAR a wave has one fiber.
    SP_CS_WGE_CNTL was "HLSQ_CS_CNTL_1" 0xb998 sp_cs_wge_cntl {
        LINEARLOCALIDREGID 7 0;
        SINGLE_SP_CORE 8 8;
        THREADSIZE 9 9 {THREAD64 = 0, THREAD128 = 1};
        THREADSIZE_SCALAR 10 10;
    };
    /// Groups along x, for RUN_OPENCL; Mesa writes 1 and has EXEC_CS.
    SP_CS_KERNEL_GROUP_X was "HLSQ_CS_KERNEL_GROUP_X" 0xb999;
    /// Along y.
    SP_CS_KERNEL_GROUP_Y was "HLSQ_CS_KERNEL_GROUP_Y" 0xb99a;
    /// Along z.
    SP_CS_KERNEL_GROUP_Z was "HLSQ_CS_KERNEL_GROUP_Z" 0xb99b;
    /// The same as [`SP_CS_CNTL_1`].
    HLSQ_CS_CTRL_REG1 0xb9d0 @LPAC hlsq_cs_ctrl_reg1 {
        SHARED_SIZE 4 0;
        CONSTANTRAMMODE 6 5 {CONSTLEN_128 = 0, CONSTLEN_192 = 1, CONSTLEN_256 = 2};
    };
    /// Forgets what CP_LOAD_STATE6 has loaded.
    SP_UPDATE_CNTL was "HLSQ_INVALIDATE_CMD" 0xbb08 sp_update_cntl {
        VS_STATE 0 0;
        HS_STATE 1 1;
        DS_STATE 2 2;
        GS_STATE 3 3;
        FS_STATE 4 4;
        CS_STATE 5 5;
        CS_UAV 6 6;
        GFX_UAV 7 7;
        GFX_SHARED_CONST 8 8;
        CS_BINDLESS 13 9;
        GFX_BINDLESS 18 14;
        CS_SHARED_CONST 19 19;
    };
    /// Undocumented, see [`super::chip::Magic`].
    HLSQ_DBG_ECO_CNTL 0xbe04;
}

/// Registers that only a GPU with LPAC has, and those that they mirror: written together.
pub const MIRRORS: &[(Reg, Reg)] = &[
    (SP_CS_WIE_CNTL_0, SP_CS_CONST_CONFIG_0),
    (SP_CS_WIE_CNTL_1, SP_CS_WGE_CNTL),
    (HLSQ_CS_CTRL_REG1, SP_CS_CNTL_1),
];

/// The address of a register, in dwords.
pub const fn dword(reg: &Reg) -> u32 {
    match reg.at {
        At::Fixed(dword) => dword,
        At::Rows(_) => panic!("registers of Adreno have one address"),
    }
}

/// The register at an address.
pub fn at(address: u32) -> Option<&'static Reg> {
    let found = REGISTERS.binary_search_by_key(&address, dword);
    found.ok().map(|index| &REGISTERS[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_neither_share_addresses_nor_bits() {
        let mut last = 0;
        for reg in REGISTERS {
            assert!(dword(reg) > last, "{}", reg.word.name);
            last = dword(reg);
            assert_eq!(at(last), Some(reg));
            let mut used = 0;
            for field in reg.word.fields {
                assert!(field.high < 32 && field.low <= field.high);
                assert_eq!(used & field.mask(), 0, "{}.{}", reg.word.name, field.name);
                used |= field.mask();
            }
        }
        // Type 4 packets have 18 bits for an address.
        assert!(last < 1 << 18);
        assert_eq!(at(0xa9af), None);
    }

    #[test]
    fn mirrors_have_the_fields_of_what_they_mirror() {
        for (mirror, of) in MIRRORS {
            assert_eq!(mirror.word.on, Gens::LPAC);
            for field in mirror.word.fields {
                let same = |other: &&hcq::reg::Field<Gens>| {
                    (other.name, other.high, other.low) == (field.name, field.high, field.low)
                };
                assert!(of.word.fields.iter().any(|other| same(&other)));
            }
        }
    }
}
