//! Files of the system management unit: its code, and tables of power and clocks.

use drivers_spec::amd::fw_hdr::{SmcFirmwareHeaderV1_0, SmcFirmwareHeaderV2_0};
use drivers_spec::amd::fw_hdr::{SmcFirmwareHeaderV2_1, SmcSoftPptableEntry};
use drivers_spec::amd::fw_type::GfxFwType;

use super::{Parser, PartId};
use crate::Error;

/// More tables than AMD's files have (six), fewer than a damaged count.
const MOST_TABLES: u32 = 64;

pub(super) fn take(parser: &mut Parser<'_, '_>) -> Result<(), Error> {
    let _: &SmcFirmwareHeaderV1_0 = parser.layout()?;
    parser.whole(PartId::Ip(&[GfxFwType::SMU]));
    match parser.version() {
        (1, _) => Ok(()),
        (2, 0) => {
            let v2: &SmcFirmwareHeaderV2_0 = parser.layout()?;
            let (offset, size) = (v2.ppt_offset_bytes.get(), v2.ppt_size_bytes.get());
            parser.part(PartId::Table(0), offset.into(), size)
        }
        (2, 1) => {
            let v2: &SmcFirmwareHeaderV2_1 = parser.layout()?;
            let (count, start) = (v2.pptable_count.get(), v2.pptable_entry_offset.get());
            let file = parser.code.file;
            if count > MOST_TABLES {
                let expected = format!("at most {MOST_TABLES}");
                return Err(file.field("pptable_count", count, expected));
            }
            for i in 0..u64::from(count) {
                let at = u64::from(start) + i * size_of::<SmcSoftPptableEntry>() as u64;
                let entry: &SmcSoftPptableEntry = file.read(&format!("pptable entry {i}"), at)?;
                let id = PartId::Table(entry.id.get());
                let (offset, size) = (entry.ppt_offset_bytes.get(), entry.ppt_size_bytes.get());
                parser.part(id, offset.into(), size)?;
            }
            Ok(())
        }
        _ => Err(parser.unknown_version("1, 2.0 or 2.1")),
    }
}
