//! Files of the graphics block's processors: command processors, the scheduler, and the unit that
//! initialises the block.

use drivers_spec::amd::fw_hdr::{
    GfxFirmwareHeaderV1_0, GfxFirmwareHeaderV2_0, ImuFirmwareHeaderV1_0, MesFirmwareHeaderV1_0,
};
use drivers_spec::amd::fw_type::GfxFwType;

use super::{Cp, Parser, PartId};
use crate::Error;

pub(super) fn take(parser: &mut Parser<'_, '_>, processor: Cp) -> Result<(), Error> {
    match parser.version() {
        (1, _) => {
            let v1: &GfxFirmwareHeaderV1_0 = parser.layout()?;
            parser.feature = Some(v1.ucode_feature_version.get());
            fixed(parser, processor, v1)
        }
        (2, _) => {
            let v2: &GfxFirmwareHeaderV2_0 = parser.layout()?;
            parser.feature = Some(v2.ucode_feature_version.get());
            rs64(parser, processor, v2)
        }
        _ => Err(parser.unknown_version("1 or 2")),
    }
}

/// A processor with fixed functions. The compute engine's jump table is loaded by itself, and is
/// no part of its code then.
fn fixed(parser: &mut Parser<'_, '_>, cp: Cp, header: &GfxFirmwareHeaderV1_0) -> Result<(), Error> {
    let (code, table): (&'static [GfxFwType], &'static [GfxFwType]) = match cp {
        Cp::Ce => return whole(parser, &[GfxFwType::CP_CE]),
        Cp::Pfp => return whole(parser, &[GfxFwType::CP_PFP]),
        Cp::Me => return whole(parser, &[GfxFwType::CP_ME]),
        Cp::Mec(2) => (&[GfxFwType::CP_MEC], &[GfxFwType::CP_MEC_ME2]),
        Cp::Mec(_) => (&[GfxFwType::CP_MEC], &[GfxFwType::CP_MEC_ME1]),
    };
    let all = parser.header.ucode_size_bytes.get();
    let bytes = |field, dwords: u32| {
        let expected = format!("at most the code's {all} bytes, in dwords");
        let file = parser.code.file;
        let bytes = dwords.checked_mul(4).filter(|&bytes| bytes <= all);
        bytes.ok_or_else(|| file.field(field, dwords, expected))
    };
    let size = bytes("jt_size", header.jt_size.get())?;
    let offset = bytes("jt_offset", header.jt_offset.get())?;
    parser.inner(PartId::Ip(code), 0, all - size)?;
    parser.inner(PartId::Ip(table), offset, size)?;
    Ok(())
}

fn whole(parser: &mut Parser<'_, '_>, ids: &'static [GfxFwType]) -> Result<(), Error> {
    parser.whole(PartId::Ip(ids));
    Ok(())
}

/// A RISC-V processor: its code, and the same initial stack for each of its pipes.
fn rs64(parser: &mut Parser<'_, '_>, cp: Cp, header: &GfxFirmwareHeaderV2_0) -> Result<(), Error> {
    let (code, stacks): (&'static [GfxFwType], &'static [GfxFwType]) = match cp {
        Cp::Pfp => (
            &[GfxFwType::RS64_PFP],
            &[GfxFwType::RS64_PFP_P0_STACK, GfxFwType::RS64_PFP_P1_STACK],
        ),
        Cp::Me => (
            &[GfxFwType::RS64_ME],
            &[GfxFwType::RS64_ME_P0_STACK, GfxFwType::RS64_ME_P1_STACK],
        ),
        Cp::Mec(1) => (
            &[GfxFwType::RS64_MEC],
            &[
                GfxFwType::RS64_MEC_P0_STACK,
                GfxFwType::RS64_MEC_P1_STACK,
                GfxFwType::RS64_MEC_P2_STACK,
                GfxFwType::RS64_MEC_P3_STACK,
            ],
        ),
        Cp::Ce | Cp::Mec(_) => return Err(parser.unknown_version("1")),
    };
    parser.inner(PartId::Ip(code), 0, header.ucode_size_bytes.get())?;
    let data = header.data_offset_bytes.get().into();
    parser.part(PartId::Ip(stacks), data, header.data_size_bytes.get())?;
    parser.start = Some(wide(
        header.ucode_start_addr_lo.get(),
        header.ucode_start_addr_hi.get(),
    ));
    Ok(())
}

pub(super) fn imu(parser: &mut Parser<'_, '_>) -> Result<(), Error> {
    if parser.version().0 != 1 {
        return Err(parser.unknown_version("1"));
    }
    let v1: &ImuFirmwareHeaderV1_0 = parser.layout()?;
    let instructions = v1.imu_iram_ucode_size_bytes.get();
    let data = v1.imu_dram_ucode_size_bytes.get();
    parser.inner(PartId::Ip(&[GfxFwType::IMU_I]), 0, instructions)?;
    parser.inner(PartId::Ip(&[GfxFwType::IMU_D]), instructions, data)?;
    Ok(())
}

pub(super) fn scheduler(parser: &mut Parser<'_, '_>, kiq: bool) -> Result<(), Error> {
    if parser.version().0 != 1 {
        return Err(parser.unknown_version("1"));
    }
    let v1: &MesFirmwareHeaderV1_0 = parser.layout()?;
    let (code, data): (&'static [GfxFwType], &'static [GfxFwType]) = if kiq {
        (&[GfxFwType::CP_MES_KIQ], &[GfxFwType::MES_KIQ_STACK])
    } else {
        (&[GfxFwType::CP_MES], &[GfxFwType::MES_STACK])
    };
    let offset = v1.mes_ucode_offset_bytes.get().into();
    parser.part(PartId::Ip(code), offset, v1.mes_ucode_size_bytes.get())?;
    let offset = v1.mes_ucode_data_offset_bytes.get().into();
    parser.part(PartId::Ip(data), offset, v1.mes_ucode_data_size_bytes.get())?;
    parser.start = Some(wide(
        v1.mes_uc_start_addr_lo.get(),
        v1.mes_uc_start_addr_hi.get(),
    ));
    Ok(())
}

fn wide(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
