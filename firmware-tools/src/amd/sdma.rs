//! Files of the copy engines.

use drivers_spec::amd::fw_hdr::{
    SdmaFirmwareHeaderV1_0, SdmaFirmwareHeaderV2_0, SdmaFirmwareHeaderV3_0,
};
use drivers_spec::amd::fw_type::GfxFwType;

use super::kind::Engines;
use super::{Parser, PartId};
use crate::Error;

pub(super) fn take(parser: &mut Parser<'_, '_>, engines: Engines) -> Result<(), Error> {
    match parser.version() {
        (1, _) => {
            let v1: &SdmaFirmwareHeaderV1_0 = parser.layout()?;
            parser.feature = Some(v1.ucode_feature_version.get());
            parser.whole(PartId::Ip(match engines {
                Engines::First => &[GfxFwType::SDMA0],
                Engines::Second => &[GfxFwType::SDMA1],
                Engines::Four => &[
                    GfxFwType::SDMA0,
                    GfxFwType::SDMA1,
                    GfxFwType::SDMA2,
                    GfxFwType::SDMA3,
                ],
            }));
            Ok(())
        }
        (2, _) => {
            // The control thread first: it is what the PSP is handed first.
            let v2: &SdmaFirmwareHeaderV2_0 = parser.layout()?;
            parser.feature = Some(v2.ucode_feature_version.get());
            let control = v2.ctl_ucode_offset.get().into();
            let id = PartId::Ip(&[GfxFwType::SDMA_UCODE_TH1]);
            parser.part(id, control, v2.ctl_ucode_size_bytes.get())?;
            let id = PartId::Ip(&[GfxFwType::SDMA_UCODE_TH0]);
            parser.inner(id, 0, v2.ctx_ucode_size_bytes.get())?;
            Ok(())
        }
        (3, _) => {
            let v3: &SdmaFirmwareHeaderV3_0 = parser.layout()?;
            parser.feature = Some(v3.ucode_feature_version.get());
            let id = PartId::Ip(&[GfxFwType::SDMA_UCODE_TH0]);
            parser.inner(id, 0, v3.ucode_size_bytes.get())?;
            Ok(())
        }
        _ => Err(parser.unknown_version("1, 2 or 3")),
    }
}
