//! Files of the run list controller. Each minor version of the header adds parts, and RLC_G, which
//! is the code, comes last: the PSP starts loading by itself once it has it.

use drivers_spec::amd::fw_hdr::{
    RlcFirmwareHeaderV1_0, RlcFirmwareHeaderV2_0, RlcFirmwareHeaderV2_1, RlcFirmwareHeaderV2_2,
    RlcFirmwareHeaderV2_3, RlcFirmwareHeaderV2_4, RlcFirmwareHeaderV2_5,
};
use drivers_spec::amd::fw_type::GfxFwType;
use zerocopy::byteorder::little_endian::U32;

use super::{Parser, PartId};
use crate::Error;

pub(super) fn take(parser: &mut Parser<'_, '_>) -> Result<(), Error> {
    let minor = match parser.version() {
        (1, _) => {
            let v1: &RlcFirmwareHeaderV1_0 = parser.layout()?;
            parser.feature = Some(v1.ucode_feature_version.get());
            0
        }
        (2, minor @ 0..=5) => {
            let v2: &RlcFirmwareHeaderV2_0 = parser.layout()?;
            parser.feature = Some(v2.ucode_feature_version.get());
            minor
        }
        _ => return Err(parser.unknown_version("1, or 2.0 to 2.5")),
    };
    if minor >= 1 {
        lists(parser)?;
    }
    if minor >= 2 {
        let v2: &RlcFirmwareHeaderV2_2 = parser.layout()?;
        let (offset, size) = (v2.rlc_iram_ucode_offset_bytes, v2.rlc_iram_ucode_size_bytes);
        add(parser, &[GfxFwType::RLC_IRAM], offset, size)?;
        let (offset, size) = (v2.rlc_dram_ucode_offset_bytes, v2.rlc_dram_ucode_size_bytes);
        add(parser, &[GfxFwType::RLC_DRAM_BOOT], offset, size)?;
    }
    if minor == 3 || minor == 4 {
        helpers(parser)?;
    }
    if minor == 4 {
        delays(parser)?;
    }
    if minor == 5 {
        let v2: &RlcFirmwareHeaderV2_5 = parser.layout()?;
        let (offset, size) = (
            v2.rlc_1_iram_ucode_offset_bytes,
            v2.rlc_1_iram_ucode_size_bytes,
        );
        add(parser, &[GfxFwType::RLX6_UCODE_CORE1], offset, size)?;
        let (offset, size) = (
            v2.rlc_1_dram_ucode_offset_bytes,
            v2.rlc_1_dram_ucode_size_bytes,
        );
        add(parser, &[GfxFwType::RLX6_DRAM_BOOT_CORE1], offset, size)?;
    }
    parser.whole(PartId::Ip(&[GfxFwType::RLC_G]));
    Ok(())
}

fn add(
    parser: &mut Parser<'_, '_>,
    ids: &'static [GfxFwType],
    offset: U32,
    size: U32,
) -> Result<(), Error> {
    parser.part(PartId::Ip(ids), offset.get().into(), size.get())
}

/// Registers that are saved and restored around power gating.
fn lists(parser: &mut Parser<'_, '_>) -> Result<(), Error> {
    let v2: &RlcFirmwareHeaderV2_1 = parser.layout()?;
    let before = parser.parts.len();
    let ids: &'static [GfxFwType] = &[GfxFwType::RLC_RESTORE_LIST_SRM_CNTL];
    let (offset, size) = (
        v2.save_restore_list_cntl_offset_bytes,
        v2.save_restore_list_cntl_size_bytes,
    );
    add(parser, ids, offset, size)?;
    let feature = v2.save_restore_list_cntl_feature_ver.get();
    parser.versions(
        before,
        v2.save_restore_list_cntl_ucode_ver.get(),
        Some(feature),
    );

    let before = parser.parts.len();
    let ids: &'static [GfxFwType] = &[GfxFwType::RLC_RESTORE_LIST_GPM_MEM];
    let (offset, size) = (
        v2.save_restore_list_gpm_offset_bytes,
        v2.save_restore_list_gpm_size_bytes,
    );
    add(parser, ids, offset, size)?;
    let feature = v2.save_restore_list_gpm_feature_ver.get();
    parser.versions(
        before,
        v2.save_restore_list_gpm_ucode_ver.get(),
        Some(feature),
    );

    let before = parser.parts.len();
    let ids: &'static [GfxFwType] = &[GfxFwType::RLC_RESTORE_LIST_SRM_MEM];
    let (offset, size) = (
        v2.save_restore_list_srm_offset_bytes,
        v2.save_restore_list_srm_size_bytes,
    );
    add(parser, ids, offset, size)?;
    let feature = v2.save_restore_list_srm_feature_ver.get();
    parser.versions(
        before,
        v2.save_restore_list_srm_ucode_ver.get(),
        Some(feature),
    );
    Ok(())
}

/// The processors for power and for virtualisation.
fn helpers(parser: &mut Parser<'_, '_>) -> Result<(), Error> {
    let v2: &RlcFirmwareHeaderV2_3 = parser.layout()?;
    let before = parser.parts.len();
    add(
        parser,
        &[GfxFwType::RLC_P],
        v2.rlcp_ucode_offset_bytes,
        v2.rlcp_ucode_size_bytes,
    )?;
    let feature = v2.rlcp_ucode_feature_version.get();
    parser.versions(before, v2.rlcp_ucode_version.get(), Some(feature));
    let before = parser.parts.len();
    add(
        parser,
        &[GfxFwType::RLC_V],
        v2.rlcv_ucode_offset_bytes,
        v2.rlcv_ucode_size_bytes,
    )?;
    let feature = v2.rlcv_ucode_feature_version.get();
    parser.versions(before, v2.rlcv_ucode_version.get(), Some(feature));
    Ok(())
}

/// Delays of clocks, for the block and for each shader engine.
fn delays(parser: &mut Parser<'_, '_>) -> Result<(), Error> {
    let v2: &RlcFirmwareHeaderV2_4 = parser.layout()?;
    let ids: [(&'static [GfxFwType], U32, U32); 5] = [
        (
            &[GfxFwType::GLOBAL_TAP_DELAYS],
            v2.global_tap_delays_ucode_offset_bytes,
            v2.global_tap_delays_ucode_size_bytes,
        ),
        (
            &[GfxFwType::SE0_TAP_DELAYS],
            v2.se0_tap_delays_ucode_offset_bytes,
            v2.se0_tap_delays_ucode_size_bytes,
        ),
        (
            &[GfxFwType::SE1_TAP_DELAYS],
            v2.se1_tap_delays_ucode_offset_bytes,
            v2.se1_tap_delays_ucode_size_bytes,
        ),
        (
            &[GfxFwType::SE2_TAP_DELAYS],
            v2.se2_tap_delays_ucode_offset_bytes,
            v2.se2_tap_delays_ucode_size_bytes,
        ),
        (
            &[GfxFwType::SE3_TAP_DELAYS],
            v2.se3_tap_delays_ucode_offset_bytes,
            v2.se3_tap_delays_ucode_size_bytes,
        ),
    ];
    for (ids, offset, size) in ids {
        add(parser, ids, offset, size)?;
    }
    Ok(())
}
