//! Files of the PSP: its drivers and secure OS, and trusted applications.

use drivers_spec::amd::fw_hdr::{
    PspFirmwareHeaderV1_0, PspFirmwareHeaderV1_1, PspFirmwareHeaderV1_2, PspFirmwareHeaderV1_3,
    PspFirmwareHeaderV2_0, PspFirmwareHeaderV2_1, PspFwBinDesc, PspFwLegacyBinDesc,
    TaFirmwareHeaderV1_0, TaFirmwareHeaderV2_0,
};
use drivers_spec::amd::fw_type::{PspFwType, TaFwType};

use super::{Parser, PartId};
use crate::Error;

pub(super) fn secure_os(parser: &mut Parser<'_, '_>) -> Result<(), Error> {
    match parser.version() {
        (1, minor @ 0..=3) => {
            let v1: &PspFirmwareHeaderV1_0 = parser.layout()?;
            // The system driver has no entry of its own: it is what lies before the secure OS.
            let version = parser.header.ucode_version.get();
            let system = v1.sos.offset_bytes.get();
            piece(parser, PspFwType::PSP_SYS_DRV, version, 0, system)?;
            legacy(parser, PspFwType::PSP_SOS, &v1.sos)?;
            parser.versions(0, version, None);
            match minor {
                1 => {
                    let v1: &PspFirmwareHeaderV1_1 = parser.layout()?;
                    legacy(parser, PspFwType::PSP_TOC, &v1.toc)?;
                    legacy(parser, PspFwType::PSP_KDB, &v1.kdb)
                }
                2 => {
                    let v1: &PspFirmwareHeaderV1_2 = parser.layout()?;
                    legacy(parser, PspFwType::PSP_KDB, &v1.kdb)
                }
                3 => {
                    let v1: &PspFirmwareHeaderV1_3 = parser.layout()?;
                    legacy(parser, PspFwType::PSP_TOC, &v1.v1_1.toc)?;
                    legacy(parser, PspFwType::PSP_KDB, &v1.v1_1.kdb)?;
                    legacy(parser, PspFwType::PSP_SPL, &v1.spl)?;
                    legacy(parser, PspFwType::PSP_RL, &v1.rl)?;
                    let second = parser.parts.len();
                    legacy(parser, PspFwType::PSP_SYS_DRV, &v1.sys_drv_aux)?;
                    legacy(parser, PspFwType::PSP_SOS, &v1.sos_aux)?;
                    auxiliary(parser, second);
                    Ok(())
                }
                _ => Ok(()),
            }
        }
        (2, 0) => {
            let v2: &PspFirmwareHeaderV2_0 = parser.layout()?;
            let count = v2.psp_fw_bin_count.get();
            bins(parser, size_of_val(v2), count, count, |id| {
                PartId::Psp(PspFwType(id))
            })
        }
        (2, 1) => {
            let v2: &PspFirmwareHeaderV2_1 = parser.layout()?;
            let (count, second) = (v2.psp_fw_bin_count.get(), v2.psp_aux_fw_bin_index.get());
            if second > count {
                let expected = format!("at most psp_fw_bin_count, {count}");
                let file = parser.code.file;
                return Err(file.field("psp_aux_fw_bin_index", second, expected));
            }
            bins(parser, size_of_val(v2), count, second, |id| {
                PartId::Psp(PspFwType(id))
            })
        }
        _ => Err(parser.unknown_version("1.0 to 1.3, 2.0 or 2.1")),
    }
}

pub(super) fn trusted(parser: &mut Parser<'_, '_>) -> Result<(), Error> {
    match parser.version() {
        (1, _) => {
            let v1: &TaFirmwareHeaderV1_0 = parser.layout()?;
            for (id, piece) in [
                (TaFwType::PSP_XGMI, &v1.xgmi),
                (TaFwType::PSP_RAS, &v1.ras),
                (TaFwType::PSP_HDCP, &v1.hdcp),
                (TaFwType::PSP_DTM, &v1.dtm),
                (TaFwType::PSP_SECUREDISPLAY, &v1.securedisplay),
            ] {
                let before = parser.parts.len();
                parser.inner(
                    PartId::Ta(id),
                    piece.offset_bytes.get(),
                    piece.size_bytes.get(),
                )?;
                parser.versions(before, piece.fw_version.get(), None);
            }
            Ok(())
        }
        (2, _) => {
            let v2: &TaFirmwareHeaderV2_0 = parser.layout()?;
            let count = v2.ta_fw_bin_count.get();
            bins(parser, size_of_val(v2), count, count, |id| {
                PartId::Ta(TaFwType(id))
            })
        }
        _ => Err(parser.unknown_version("1 or 2")),
    }
}

fn legacy(
    parser: &mut Parser<'_, '_>,
    id: PspFwType,
    desc: &PspFwLegacyBinDesc,
) -> Result<(), Error> {
    let (offset, size) = (desc.offset_bytes.get(), desc.size_bytes.get());
    piece(parser, id, desc.fw_version.get(), offset, size)
}

fn piece(
    parser: &mut Parser<'_, '_>,
    id: PspFwType,
    version: u32,
    offset: u32,
    size: u32,
) -> Result<(), Error> {
    let before = parser.parts.len();
    parser.inner(PartId::Psp(id), offset, size)?;
    parser.versions(before, version, None);
    Ok(())
}

fn auxiliary(parser: &mut Parser<'_, '_>, from: usize) {
    for part in &mut parser.parts[from..] {
        part.auxiliary = true;
    }
}

/// Reads `count` entries behind the header; those from `second` on are of the second set.
fn bins(
    parser: &mut Parser<'_, '_>,
    at: usize,
    count: u32,
    second: u32,
    id: fn(u32) -> PartId,
) -> Result<(), Error> {
    let entry = size_of::<PspFwBinDesc>() as u64;
    parser.before_code(at as u64 + u64::from(count) * entry)?;
    for i in 0..count {
        let what = format!("entry {i}");
        let bin: &PspFwBinDesc = parser
            .code
            .file
            .read(&what, at as u64 + u64::from(i) * entry)?;
        let before = parser.parts.len();
        parser.inner(
            id(bin.fw_type.get()),
            bin.offset_bytes.get(),
            bin.size_bytes.get(),
        )?;
        parser.versions(before, bin.fw_version.get(), None);
        if i >= second {
            auxiliary(parser, before);
        }
    }
    Ok(())
}
