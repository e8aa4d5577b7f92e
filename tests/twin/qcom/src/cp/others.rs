//! Registers that drivers of graphics and compute write, and dispatches do not read: those of pipelines, of bindless
//! descriptors, and of the 2D engine.
//!
//! Mesa's drivers write the first kind at the start of their commands. They hold what was written, and nothing here
//! comes of it. `bindless` and `blit` read theirs.
//!
//! Source: Mesa 25.0.7, src/freedreno/registers/adreno/a6xx.xml: names, addresses, and the bits of fields.

/// A register: its address, its name, the bits that fields have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Other {
    /// Its address, in dwords.
    pub address: u32,
    /// Its name.
    pub name: &'static str,
    /// Bits that may be set.
    pub mask: u32,
}

/// By address.
#[rustfmt::skip]
static ALL: &[(u32, &str, u32)] = &[
    (0x0883, "CP_SCRATCH_0_REG", 0xffff_ffff),
    (0x088a, "CP_SCRATCH_7_REG", 0xffff_ffff),
    (0x0e17, "UCHE_CACHE_WAYS", 0xffff_ffff),
    (0x8094, "GRAS_SU_DEPTH_PLANE_CNTL", 0x3),
    (0x8099, "GRAS_SU_CONSERVATIVE_RAS_CNTL", 0x3f),
    (0x809b, "GRAS_VS_LAYER_CNTL", 0x3),
    (0x80a0, "GRAS_SC_CNTL", 0x1fff),
    (0x80af, "GRAS_UNKNOWN_80AF", 0x1),
    (0x8100, "GRAS_LRZ_CNTL", 0x3ff),
    (0x8101, "GRAS_LRZ_PS_INPUT_CNTL", 0x7),
    (0x8103, "GRAS_LRZ_BUFFER_BASE", 0xffff_ff00),
    (0x8104, "GRAS_LRZ_BUFFER_BASE_HI", 0xffff_ffff),
    (0x8105, "GRAS_LRZ_BUFFER_PITCH", 0x1fff_fcff),
    (0x8106, "GRAS_LRZ_FAST_CLEAR_BUFFER_BASE", 0xffff_ffc0),
    (0x8107, "GRAS_LRZ_FAST_CLEAR_BUFFER_BASE_HI", 0xffff_ffff),
    (0x8109, "GRAS_SAMPLE_CNTL", 0x1),
    (0x810a, "GRAS_LRZ_DEPTH_VIEW", 0xf7ff_07ff),
    (0x8110, "GRAS_UNKNOWN_8110", 0x3),
    (0x8400, "GRAS_2D_BLIT_CNTL", 0x3fff_ffff),
    (0x8401, "GRAS_2D_SRC_TL_X", 0x01ff_ff00),
    (0x8402, "GRAS_2D_SRC_BR_X", 0x01ff_ff00),
    (0x8403, "GRAS_2D_SRC_TL_Y", 0x01ff_ff00),
    (0x8404, "GRAS_2D_SRC_BR_Y", 0x01ff_ff00),
    (0x8405, "GRAS_2D_DST_TL", 0x3fff_3fff),
    (0x8406, "GRAS_2D_DST_BR", 0x3fff_3fff),
    (0x8407, "GRAS_2D_UNKNOWN_8407", 0xffff_ffff),
    (0x8408, "GRAS_2D_UNKNOWN_8408", 0xffff_ffff),
    (0x8409, "GRAS_2D_UNKNOWN_8409", 0xffff_ffff),
    (0x840a, "GRAS_2D_RESOLVE_CNTL_1", 0x3fff_3fff),
    (0x840b, "GRAS_2D_RESOLVE_CNTL_2", 0x3fff_3fff),
    (0x8600, "GRAS_DBG_ECO_CNTL", 0x880),
    (0x8801, "RB_RENDER_CNTL", 0x00ff_5ff8),
    (0x8811, "RB_UNKNOWN_8811", 0x70),
    (0x8818, "RB_UNKNOWN_8818", 0x7f),
    (0x8819, "RB_UNKNOWN_8819", 0xffff_ffff),
    (0x881a, "RB_UNKNOWN_881A", 0xffff_ffff),
    (0x881b, "RB_UNKNOWN_881B", 0xffff_ffff),
    (0x881c, "RB_UNKNOWN_881C", 0xffff_ffff),
    (0x881d, "RB_UNKNOWN_881D", 0xffff_ffff),
    (0x881e, "RB_UNKNOWN_881E", 0xffff_ffff),
    (0x8864, "RB_ALPHA_CONTROL", 0xfff),
    (0x8870, "RB_DEPTH_PLANE_CNTL", 0x3),
    (0x8898, "RB_LRZ_CNTL", 0x1),
    (0x88f0, "RB_UNKNOWN_88F0", 0xfff),
    (0x8c00, "RB_2D_BLIT_CNTL", 0x3fff_ffff),
    (0x8c01, "RB_2D_UNKNOWN_8C01", 0xffff_ffff),
    (0x8c17, "RB_2D_DST_INFO", 0xffff),
    (0x8c18, "RB_2D_DST", 0xffff_ffc0),
    (0x8c19, "RB_2D_DST_HI", 0xffff_ffff),
    (0x8c1a, "RB_2D_DST_PITCH", 0xffff),
    (0x8c1b, "RB_2D_DST_PLANE1", 0xffff_ffc0),
    (0x8c1c, "RB_2D_DST_PLANE1_HI", 0xffff_ffff),
    (0x8c1d, "RB_2D_DST_PLANE_PITCH", 0xffff),
    (0x8c1e, "RB_2D_DST_PLANE2", 0xffff_ffc0),
    (0x8c1f, "RB_2D_DST_PLANE2_HI", 0xffff_ffff),
    (0x8c20, "RB_2D_DST_FLAGS", 0xffff_ffc0),
    (0x8c21, "RB_2D_DST_FLAGS_HI", 0xffff_ffff),
    // fd6_emit.cc, fd6_emit_flag_reference, writes the pitch of layers beside, as for targets of draws.
    (0x8c22, "RB_2D_DST_FLAGS_PITCH", 0x1fff_ffff),
    (0x8c23, "RB_2D_DST_FLAGS_PLANE", 0xffff_ffc0),
    (0x8c24, "RB_2D_DST_FLAGS_PLANE_HI", 0xffff_ffff),
    (0x8c25, "RB_2D_DST_FLAGS_PLANE_PITCH", 0xff),
    (0x8c2c, "RB_2D_SRC_SOLID_C0", 0xffff_ffff),
    (0x8c2d, "RB_2D_SRC_SOLID_C1", 0xffff_ffff),
    (0x8c2e, "RB_2D_SRC_SOLID_C2", 0xffff_ffff),
    (0x8c2f, "RB_2D_SRC_SOLID_C3", 0xffff_ffff),
    (0x8e01, "RB_UNKNOWN_8E01", 0xffff_ffff),
    (0x8e04, "RB_DBG_ECO_CNTL", 0xffff_ffff),
    (0x8e07, "RB_CCU_CNTL", 0xffff_fe85),
    (0x9107, "VPC_UNKNOWN_9107", 0x5),
    (0x9210, "VPC_UNKNOWN_9210", 0xffff_ffff),
    (0x9211, "VPC_UNKNOWN_9211", 0xffff_ffff),
    (0x9236, "VPC_POINT_COORD_INVERT", 0x1),
    (0x9300, "VPC_UNKNOWN_9300", 0x7),
    (0x9305, "VPC_SO_STREAM_CNTL", 0x0007_8fff),
    (0x9306, "VPC_SO_DISABLE", 0x1),
    (0x9600, "VPC_DBG_ECO_CNTL", 0xffff_ffff),
    (0x9602, "VPC_UNKNOWN_9602", 0x1),
    (0x9804, "PC_MODE_CNTL", 0xff),
    (0x9805, "PC_POWER_CNTL", 0x7),
    (0x980a, "PC_DGEN_SU_CONSERVATIVE_RAS_CNTL", 0x1),
    (0x9980, "PC_RASTER_CNTL", 0x7),
    (0x9b07, "PC_MULTIVIEW_CNTL", 0x7f),
    (0x9e08, "PC_TESSFACTOR_ADDR", 0xffff_ffe0),
    (0x9e09, "PC_TESSFACTOR_ADDR_HI", 0xffff_ffff),
    (0x9e72, "PC_UNKNOWN_9E72", 0xffff_ffff),
    (0xa007, "VFD_MODE_CNTL", 0x7),
    (0xa008, "VFD_MULTIVIEW_CNTL", 0x7f),
    (0xa009, "VFD_ADD_OFFSET", 0x3),
    (0xa012, "VFD_FETCH_0_SIZE", 0xffff_ffff),
    (0xa016, "VFD_FETCH_1_SIZE", 0xffff_ffff),
    (0xa01a, "VFD_FETCH_2_SIZE", 0xffff_ffff),
    (0xa01e, "VFD_FETCH_3_SIZE", 0xffff_ffff),
    (0xa022, "VFD_FETCH_4_SIZE", 0xffff_ffff),
    (0xa026, "VFD_FETCH_5_SIZE", 0xffff_ffff),
    (0xa02a, "VFD_FETCH_6_SIZE", 0xffff_ffff),
    (0xa02e, "VFD_FETCH_7_SIZE", 0xffff_ffff),
    (0xa032, "VFD_FETCH_8_SIZE", 0xffff_ffff),
    (0xa036, "VFD_FETCH_9_SIZE", 0xffff_ffff),
    (0xa03a, "VFD_FETCH_10_SIZE", 0xffff_ffff),
    (0xa03e, "VFD_FETCH_11_SIZE", 0xffff_ffff),
    (0xa042, "VFD_FETCH_12_SIZE", 0xffff_ffff),
    (0xa046, "VFD_FETCH_13_SIZE", 0xffff_ffff),
    (0xa04a, "VFD_FETCH_14_SIZE", 0xffff_ffff),
    (0xa04e, "VFD_FETCH_15_SIZE", 0xffff_ffff),
    (0xa052, "VFD_FETCH_16_SIZE", 0xffff_ffff),
    (0xa056, "VFD_FETCH_17_SIZE", 0xffff_ffff),
    (0xa05a, "VFD_FETCH_18_SIZE", 0xffff_ffff),
    (0xa05e, "VFD_FETCH_19_SIZE", 0xffff_ffff),
    (0xa062, "VFD_FETCH_20_SIZE", 0xffff_ffff),
    (0xa066, "VFD_FETCH_21_SIZE", 0xffff_ffff),
    (0xa06a, "VFD_FETCH_22_SIZE", 0xffff_ffff),
    (0xa06e, "VFD_FETCH_23_SIZE", 0xffff_ffff),
    (0xa072, "VFD_FETCH_24_SIZE", 0xffff_ffff),
    (0xa076, "VFD_FETCH_25_SIZE", 0xffff_ffff),
    (0xa07a, "VFD_FETCH_26_SIZE", 0xffff_ffff),
    (0xa07e, "VFD_FETCH_27_SIZE", 0xffff_ffff),
    (0xa082, "VFD_FETCH_28_SIZE", 0xffff_ffff),
    (0xa086, "VFD_FETCH_29_SIZE", 0xffff_ffff),
    (0xa08a, "VFD_FETCH_30_SIZE", 0xffff_ffff),
    (0xa08e, "VFD_FETCH_31_SIZE", 0xffff_ffff),
    (0xa0f8, "VFD_POWER_CNTL", 0x7),
    (0xa980, "SP_FS_CTRL_REG0", 0x9ff0_0000),
    (0xa9a8, "SP_UNKNOWN_A9A8", 0x0001_ffff),
    (0xa9e8, "SP_CS_BINDLESS_BASE_0_DESCRIPTOR", 0xffff_ffff),
    (0xa9e9, "SP_CS_BINDLESS_BASE_0_DESCRIPTOR_HI", 0xffff_ffff),
    (0xa9ea, "SP_CS_BINDLESS_BASE_1_DESCRIPTOR", 0xffff_ffff),
    (0xa9eb, "SP_CS_BINDLESS_BASE_1_DESCRIPTOR_HI", 0xffff_ffff),
    (0xa9ec, "SP_CS_BINDLESS_BASE_2_DESCRIPTOR", 0xffff_ffff),
    (0xa9ed, "SP_CS_BINDLESS_BASE_2_DESCRIPTOR_HI", 0xffff_ffff),
    (0xa9ee, "SP_CS_BINDLESS_BASE_3_DESCRIPTOR", 0xffff_ffff),
    (0xa9ef, "SP_CS_BINDLESS_BASE_3_DESCRIPTOR_HI", 0xffff_ffff),
    (0xa9f0, "SP_CS_BINDLESS_BASE_4_DESCRIPTOR", 0xffff_ffff),
    (0xa9f1, "SP_CS_BINDLESS_BASE_4_DESCRIPTOR_HI", 0xffff_ffff),
    (0xab20, "SP_IBO_COUNT", 0x7f),
    (0xacc0, "SP_2D_DST_FORMAT", 0xffff),
    (0xb182, "SP_UNKNOWN_B182", 0x7),
    (0xb183, "SP_UNKNOWN_B183", 0x00ff_ffff),
    (0xb302, "SP_TP_BORDER_COLOR_BASE_ADDR", 0xffff_ff80),
    (0xb303, "SP_TP_BORDER_COLOR_BASE_ADDR_HI", 0xffff_ffff),
    (0xb4c0, "SP_PS_2D_SRC_INFO", 0x17ff_ffff),
    (0xb4c1, "SP_PS_2D_SRC_SIZE", 0x3fff_ffff),
    (0xb4c2, "SP_PS_2D_SRC", 0xffff_fff0),
    (0xb4c3, "SP_PS_2D_SRC_HI", 0xffff_ffff),
    (0xb4c4, "SP_PS_2D_SRC_PITCH", 0x00ff_ffff),
    (0xb4c5, "SP_PS_2D_SRC_PLANE1", 0xffff_fff0),
    (0xb4c6, "SP_PS_2D_SRC_PLANE1_HI", 0xffff_ffff),
    (0xb4c7, "SP_PS_2D_SRC_PLANE_PITCH", 0xfff),
    (0xb4c8, "SP_PS_2D_SRC_PLANE2", 0xffff_fff0),
    (0xb4c9, "SP_PS_2D_SRC_PLANE2_HI", 0xffff_ffff),
    (0xb4ca, "SP_PS_2D_SRC_FLAGS", 0xffff_fff0),
    (0xb4cb, "SP_PS_2D_SRC_FLAGS_HI", 0xffff_ffff),
    (0xb4cc, "SP_PS_2D_SRC_FLAGS_PITCH", 0xff),
    (0xb602, "TPL1_DBG_ECO_CNTL1", 0x0004_0000),
    (0xb605, "TPL1_UNKNOWN_B605", 0xff),
    (0xb800, "HLSQ_VS_CNTL", 0x1ff),
    (0xb980, "HLSQ_FS_CNTL_0", 0xfff),
    (0xb9c0, "HLSQ_CS_BINDLESS_BASE_0_DESCRIPTOR", 0xffff_ffff),
    (0xb9c1, "HLSQ_CS_BINDLESS_BASE_0_DESCRIPTOR_HI", 0xffff_ffff),
    (0xb9c2, "HLSQ_CS_BINDLESS_BASE_1_DESCRIPTOR", 0xffff_ffff),
    (0xb9c3, "HLSQ_CS_BINDLESS_BASE_1_DESCRIPTOR_HI", 0xffff_ffff),
    (0xb9c4, "HLSQ_CS_BINDLESS_BASE_2_DESCRIPTOR", 0xffff_ffff),
    (0xb9c5, "HLSQ_CS_BINDLESS_BASE_2_DESCRIPTOR_HI", 0xffff_ffff),
    (0xb9c6, "HLSQ_CS_BINDLESS_BASE_3_DESCRIPTOR", 0xffff_ffff),
    (0xb9c7, "HLSQ_CS_BINDLESS_BASE_3_DESCRIPTOR_HI", 0xffff_ffff),
    (0xb9c8, "HLSQ_CS_BINDLESS_BASE_4_DESCRIPTOR", 0xffff_ffff),
    (0xb9c9, "HLSQ_CS_BINDLESS_BASE_4_DESCRIPTOR_HI", 0xffff_ffff),
    (0xbb11, "HLSQ_SHARED_CONSTS", 0x1),
    (0xbe00, "HLSQ_UNKNOWN_BE00", 0xffff_ffff),
    (0xbe01, "HLSQ_UNKNOWN_BE01", 0x70),
];

/// The register of an address.
pub fn at(address: u32) -> Option<Other> {
    let found = ALL.binary_search_by_key(&address, |(address, ..)| *address);
    let (address, name, mask) = ALL[found.ok()?];
    Some(Other {
        address,
        name,
        mask,
    })
}

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::regs;

    use super::*;

    #[test]
    fn registers_are_in_order_and_no_others() {
        assert!(ALL.is_sorted_by(|one, two| one.0 < two.0));
        for (address, name, mask) in ALL {
            assert_eq!(regs::at(*address), None, "{name}");
            assert!(*mask != 0, "{name}");
            assert_eq!(at(*address).map(|one| one.name), Some(*name));
        }
        assert_eq!(at(0), None);
    }
}
