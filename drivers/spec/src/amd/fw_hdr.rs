//! The headers that amdgpu firmware files start with: one common header, then what the kind of
//! file has more of. Everything is little-endian; offsets count bytes from the start of the file
//! unless a field says otherwise.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_ucode.h; names of fields as there.

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `common_firmware_header`, 32 bytes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct CommonFirmwareHeader {
    /// Size of the file in bytes.
    pub size_bytes: U32,
    /// Size of the whole header of this block's version in bytes.
    pub header_size_bytes: U32,
    /// Layout of the header.
    pub header_version_major: U16,
    /// Layout of the header, compatible changes.
    pub header_version_minor: U16,
    /// Version of the hardware block.
    pub ip_version_major: U16,
    /// Version of the hardware block.
    pub ip_version_minor: U16,
    /// Version of the code.
    pub ucode_version: U32,
    /// Size of the code in bytes.
    pub ucode_size_bytes: U32,
    /// Offset of the code.
    pub ucode_array_offset_bytes: U32,
    /// CRC-32 (IEEE). The kernel driver prints it and does not check it. Observed in the files
    /// that AMD publishes: of all bytes after this header, or of the code alone, or of something
    /// UNKNOWN, by kind of file.
    pub crc32: U32,
}

const _: () = assert!(size_of::<CommonFirmwareHeader>() == 32);

/// A header: its parts before the first word, then words, then its size.
macro_rules! headers {
    ($($(#[$meta:meta])* $name:ident = $size:literal {
        $($inner:ident : $type:ty,)*
        $(; $($field:ident),* $(,)?)?
    })*) => {$(
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
            Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $(#[doc = concat!("`", stringify!($inner), "`.")] pub $inner: $type,)*
            $($(#[doc = concat!("`", stringify!($field), "`.")] pub $field: U32,)*)?
        }
        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

headers! {
    /// `psp_fw_legacy_bin_desc`: offsets count from the code.
    PspFwLegacyBinDesc = 12 { ; fw_version, offset_bytes, size_bytes }
    /// `psp_fw_bin_desc`: offsets count from the code.
    PspFwBinDesc = 16 { ; fw_type, fw_version, offset_bytes, size_bytes }
    /// `psp_firmware_header_v1_0`: the system driver lies before the secure OS.
    PspFirmwareHeaderV1_0 = 44 { header: CommonFirmwareHeader, sos: PspFwLegacyBinDesc, }
    /// `psp_firmware_header_v1_1`.
    PspFirmwareHeaderV1_1 = 68 {
        v1_0: PspFirmwareHeaderV1_0, toc: PspFwLegacyBinDesc, kdb: PspFwLegacyBinDesc,
    }
    /// `psp_firmware_header_v1_2`.
    PspFirmwareHeaderV1_2 = 68 {
        v1_0: PspFirmwareHeaderV1_0, res: PspFwLegacyBinDesc, kdb: PspFwLegacyBinDesc,
    }
    /// `psp_firmware_header_v1_3`.
    PspFirmwareHeaderV1_3 = 116 {
        v1_1: PspFirmwareHeaderV1_1, spl: PspFwLegacyBinDesc, rl: PspFwLegacyBinDesc,
        sys_drv_aux: PspFwLegacyBinDesc, sos_aux: PspFwLegacyBinDesc,
    }
    /// `psp_firmware_header_v2_0`; [`PspFwBinDesc`]s follow.
    PspFirmwareHeaderV2_0 = 36 { header: CommonFirmwareHeader, ; psp_fw_bin_count }
    /// `psp_firmware_header_v2_1`; [`PspFwBinDesc`]s follow, from `psp_aux_fw_bin_index` on those
    /// of a second set.
    PspFirmwareHeaderV2_1 = 40 {
        header: CommonFirmwareHeader, ; psp_fw_bin_count, psp_aux_fw_bin_index
    }
    /// `ta_firmware_header_v1_0`.
    TaFirmwareHeaderV1_0 = 92 {
        header: CommonFirmwareHeader, xgmi: PspFwLegacyBinDesc, ras: PspFwLegacyBinDesc,
        hdcp: PspFwLegacyBinDesc, dtm: PspFwLegacyBinDesc, securedisplay: PspFwLegacyBinDesc,
    }
    /// `ta_firmware_header_v2_0`; [`PspFwBinDesc`]s follow.
    TaFirmwareHeaderV2_0 = 36 { header: CommonFirmwareHeader, ; ta_fw_bin_count }

    /// `smc_firmware_header_v1_0`.
    SmcFirmwareHeaderV1_0 = 36 { header: CommonFirmwareHeader, ; ucode_start_addr }
    /// `smc_firmware_header_v2_0`.
    SmcFirmwareHeaderV2_0 = 44 { v1_0: SmcFirmwareHeaderV1_0, ; ppt_offset_bytes, ppt_size_bytes }
    /// `smc_firmware_header_v2_1`.
    SmcFirmwareHeaderV2_1 = 44 {
        v1_0: SmcFirmwareHeaderV1_0, ; pptable_count, pptable_entry_offset
    }
    /// `smc_soft_pptable_entry`.
    SmcSoftPptableEntry = 12 { ; id, ppt_offset_bytes, ppt_size_bytes }

    /// `gfx_firmware_header_v1_0`: the jump table is counted in dwords, from the code on.
    GfxFirmwareHeaderV1_0 = 44 {
        header: CommonFirmwareHeader, ; ucode_feature_version, jt_offset, jt_size
    }
    /// `gfx_firmware_header_v2_0`: processors of the kind RS64.
    GfxFirmwareHeaderV2_0 = 60 {
        header: CommonFirmwareHeader, ; ucode_feature_version, ucode_size_bytes,
        ucode_offset_bytes, data_size_bytes, data_offset_bytes, ucode_start_addr_lo,
        ucode_start_addr_hi
    }
    /// `mes_firmware_header_v1_0`.
    MesFirmwareHeaderV1_0 = 72 {
        header: CommonFirmwareHeader, ; mes_ucode_version, mes_ucode_size_bytes,
        mes_ucode_offset_bytes, mes_ucode_data_version, mes_ucode_data_size_bytes,
        mes_ucode_data_offset_bytes, mes_uc_start_addr_lo, mes_uc_start_addr_hi,
        mes_data_start_addr_lo, mes_data_start_addr_hi
    }
    /// `imu_firmware_header_v1_0`: the data follow the instructions, from the code on.
    ImuFirmwareHeaderV1_0 = 48 {
        header: CommonFirmwareHeader, ; imu_iram_ucode_size_bytes, imu_iram_ucode_offset_bytes,
        imu_dram_ucode_size_bytes, imu_dram_ucode_offset_bytes
    }

    /// `rlc_firmware_header_v1_0`.
    RlcFirmwareHeaderV1_0 = 52 {
        header: CommonFirmwareHeader, ; ucode_feature_version, save_and_restore_offset,
        clear_state_descriptor_offset, avail_scratch_ram_locations, master_pkt_description_offset
    }
    /// `rlc_firmware_header_v2_0`.
    RlcFirmwareHeaderV2_0 = 104 {
        header: CommonFirmwareHeader, ; ucode_feature_version, jt_offset, jt_size,
        save_and_restore_offset, clear_state_descriptor_offset, avail_scratch_ram_locations,
        reg_restore_list_size, reg_list_format_start, reg_list_format_separate_start,
        starting_offsets_start, reg_list_format_size_bytes, reg_list_format_array_offset_bytes,
        reg_list_size_bytes, reg_list_array_offset_bytes, reg_list_format_separate_size_bytes,
        reg_list_format_separate_array_offset_bytes, reg_list_separate_size_bytes,
        reg_list_separate_array_offset_bytes
    }
    /// `rlc_firmware_header_v2_1`.
    RlcFirmwareHeaderV2_1 = 156 {
        v2_0: RlcFirmwareHeaderV2_0, ; reg_list_format_direct_reg_list_length,
        save_restore_list_cntl_ucode_ver, save_restore_list_cntl_feature_ver,
        save_restore_list_cntl_size_bytes, save_restore_list_cntl_offset_bytes,
        save_restore_list_gpm_ucode_ver, save_restore_list_gpm_feature_ver,
        save_restore_list_gpm_size_bytes, save_restore_list_gpm_offset_bytes,
        save_restore_list_srm_ucode_ver, save_restore_list_srm_feature_ver,
        save_restore_list_srm_size_bytes, save_restore_list_srm_offset_bytes
    }
    /// `rlc_firmware_header_v2_2`.
    RlcFirmwareHeaderV2_2 = 172 {
        v2_1: RlcFirmwareHeaderV2_1, ; rlc_iram_ucode_size_bytes, rlc_iram_ucode_offset_bytes,
        rlc_dram_ucode_size_bytes, rlc_dram_ucode_offset_bytes
    }
    /// `rlc_firmware_header_v2_3`.
    RlcFirmwareHeaderV2_3 = 204 {
        v2_2: RlcFirmwareHeaderV2_2, ; rlcp_ucode_version, rlcp_ucode_feature_version,
        rlcp_ucode_size_bytes, rlcp_ucode_offset_bytes, rlcv_ucode_version,
        rlcv_ucode_feature_version, rlcv_ucode_size_bytes, rlcv_ucode_offset_bytes
    }
    /// `rlc_firmware_header_v2_4`.
    RlcFirmwareHeaderV2_4 = 244 {
        v2_3: RlcFirmwareHeaderV2_3, ; global_tap_delays_ucode_size_bytes,
        global_tap_delays_ucode_offset_bytes, se0_tap_delays_ucode_size_bytes,
        se0_tap_delays_ucode_offset_bytes, se1_tap_delays_ucode_size_bytes,
        se1_tap_delays_ucode_offset_bytes, se2_tap_delays_ucode_size_bytes,
        se2_tap_delays_ucode_offset_bytes, se3_tap_delays_ucode_size_bytes,
        se3_tap_delays_ucode_offset_bytes
    }
    /// `rlc_firmware_header_v2_5`: it goes on from 2.2, not from 2.4.
    RlcFirmwareHeaderV2_5 = 188 {
        v2_2: RlcFirmwareHeaderV2_2, ; rlc_1_iram_ucode_size_bytes,
        rlc_1_iram_ucode_offset_bytes, rlc_1_dram_ucode_size_bytes, rlc_1_dram_ucode_offset_bytes
    }

    /// `sdma_firmware_header_v1_0`; 1.1 has a word more, the size of a digest.
    SdmaFirmwareHeaderV1_0 = 48 {
        header: CommonFirmwareHeader, ; ucode_feature_version, ucode_change_version, jt_offset,
        jt_size
    }
    /// `sdma_firmware_header_v2_0`: one thread for contexts, which is the code, one for control.
    SdmaFirmwareHeaderV2_0 = 64 {
        header: CommonFirmwareHeader, ; ucode_feature_version, ctx_ucode_size_bytes,
        ctx_jt_offset, ctx_jt_size, ctl_ucode_offset, ctl_ucode_size_bytes, ctl_jt_offset,
        ctl_jt_size
    }
    /// `sdma_firmware_header_v3_0`: a processor of the kind RS64.
    SdmaFirmwareHeaderV3_0 = 44 {
        header: CommonFirmwareHeader, ; ucode_feature_version, ucode_offset_bytes,
        ucode_size_bytes
    }
}
