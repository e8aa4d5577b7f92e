//! [`Engines`]: the engines that run channels, their runlists, and the units of graphics.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/fifo/kernel_fifo.c (the table comes from GSP);
//! Linux, drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/fifo.c (`r535_fifo_runl_ctor`).

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::class::engine;
use drivers_spec::nv::control::gr_info;
use drivers_spec::nv::pci_regs::{DOORBELL_GB20X, DOORBELL_RUNLIST_SHIFT};
use drivers_spec::nv::pci_rm::{
    DEVICE_ENTRIES, DeviceEntry, DeviceInfoTable, KgrInfo, MethodBufferSize,
    NV2080_CTRL_CMD_CE_GET_FAULT_METHOD_BUFFER_SIZE, NV2080_CTRL_CMD_CE_UPDATE_CLASS_DB,
    NV2080_CTRL_CMD_FIFO_GET_DEVICE_INFO_TABLE, NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_INFO,
    StubbedCopies, engine_info,
};

use super::internal::Internal;
use crate::chip::Units;
use crate::gsp::Cause;

/// Tables that are asked for at most: `NV2080_CTRL_FIFO_GET_DEVICE_INFO_TABLE_MAX_DEVICES` entries.
const TABLES: u32 = 256 / DEVICE_ENTRIES;

/// The engines of a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Engines {
    /// By type, `NV2080_ENGINE_TYPE_*`, with the runlist.
    all: Vec<(u32, u32)>,
    arch: Arch,
    /// Bytes for methods that have faulted, of each channel group.
    pub(super) methods: u64,
}

impl Engines {
    /// Asks RM.
    ///
    /// # Errors
    /// [`Cause::Call`]; [`Cause::Lists`]: there is no engine for compute.
    pub(super) fn of(internal: &Internal, arch: Arch) -> Result<Engines, Cause> {
        let mut all = Vec::new();
        for table in 0..TABLES {
            let mut params = DeviceInfoTable {
                base_index: table * DEVICE_ENTRIES,
                ..Default::default()
            };
            internal.ask(&NV2080_CTRL_CMD_FIFO_GET_DEVICE_INFO_TABLE, &mut params)?;
            let count = params.num_entries.min(DEVICE_ENTRIES) as usize;
            all.extend(params.entries.iter().take(count).filter_map(host_driven));
            if params.more == 0 {
                break;
            }
        }
        let mut stubbed = StubbedCopies::default();
        internal.ask(&NV2080_CTRL_CMD_CE_UPDATE_CLASS_DB, &mut stubbed)?;
        all.retain(|(kind, _)| has_hardware(*kind, stubbed.stubbed_ce_mask));
        let mut size = MethodBufferSize::default();
        let ask = NV2080_CTRL_CMD_CE_GET_FAULT_METHOD_BUFFER_SIZE;
        internal.ask(&ask, &mut size)?;
        let engines = Engines {
            all,
            arch,
            methods: u64::from(size.size),
        };
        match engines.runlist(engine::GRAPHICS) {
            Some(_) => Ok(engines),
            None => Err(Cause::Lists {
                found: format!("engines of types and runlists {:?}", engines.all),
                expected: format!("one of type {} (graphics)", engine::GRAPHICS),
            }),
        }
    }

    fn runlist(&self, kind: u32) -> Option<u32> {
        let found = self.all.iter().find(|(one, _)| *one == kind);
        found.map(|(_, runlist)| *runlist)
    }

    /// Copy engines that do not share the runlist of graphics.
    pub(super) fn copies(&self) -> Vec<u32> {
        let graphics = self.runlist(engine::GRAPHICS);
        let copies = self.all.iter().filter(|(kind, runlist)| {
            (engine::COPY0..=engine::COPY9).contains(kind) && Some(*runlist) != graphics
        });
        let mut copies: Vec<_> = copies.map(|(kind, _)| *kind).collect();
        copies.sort_unstable();
        copies
    }

    /// What the doorbell takes for a channel of an engine. None for an engine that is not there.
    pub(super) fn token(&self, kind: u32, channel: u32) -> Option<u32> {
        let token = self.runlist(kind)? << DOORBELL_RUNLIST_SHIFT | channel;
        Some(match self.arch {
            Arch::Gb20x => token | DOORBELL_GB20X,
            _ => token,
        })
    }
}

/// The type and the runlist of an engine that channels may run on.
fn host_driven(entry: &DeviceEntry) -> Option<(u32, u32)> {
    let kind = entry.engine_data[engine_info::RM_ENGINE_TYPE];
    let runlist = entry.engine_data[engine_info::RUNLIST];
    let is_known = kind == engine::GRAPHICS || (engine::COPY0..=engine::COPY9).contains(&kind);
    is_known.then_some((kind, runlist))
}

/// Whether an engine has hardware, by the mask of copy engines that have none: the table lists them all.
///
/// Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/ce/kernel_ce.c (`kceUpdateClassDB_KERNEL`).
fn has_hardware(kind: u32, stubbed: u32) -> bool {
    match kind {
        engine::COPY0..=engine::COPY9 => stubbed >> (kind - engine::COPY0) & 1 == 0,
        _ => true,
    }
}

/// The units of graphics.
///
/// # Errors
/// [`Cause::Call`]; [`Cause::Lists`]: there are none.
pub(super) fn units(internal: &Internal) -> Result<Units, Cause> {
    let mut params = KgrInfo::default();
    internal.ask(&NV2080_CTRL_CMD_INTERNAL_STATIC_KGR_GET_INFO, &mut params)?;
    let of = |index: u32| params.first.get(index as usize).map_or(0, |one| one.data);
    let sms_per_tpc = of(gr_info::LITTER_NUM_SM_PER_TPC);
    let units = Units {
        sms: of(gr_info::SHADER_PIPE_SUB_COUNT).saturating_mul(sms_per_tpc),
        gpcs: of(gr_info::LITTER_NUM_GPCS),
        tpcs_per_gpc: of(gr_info::LITTER_NUM_TPC_PER_GPC),
        sms_per_tpc,
        warps_per_sm: of(gr_info::MAX_WARPS_PER_SM),
    };
    let is_whole = [
        units.sms,
        units.gpcs,
        units.tpcs_per_gpc,
        units.warps_per_sm,
    ];
    match is_whole.contains(&0) {
        false => Ok(units),
        true => Err(Cause::Lists {
            found: format!("units of graphics {units:?}"),
            expected: "none of them 0".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engines(arch: Arch) -> Engines {
        let entry = |kind, runlist| {
            let mut entry = DeviceEntry::default();
            entry.engine_data[engine_info::RM_ENGINE_TYPE] = kind;
            entry.engine_data[engine_info::RUNLIST] = runlist;
            entry
        };
        // Graphics and a copy engine beside it, two others, a decoder.
        let all = [
            entry(1, 0),
            entry(9, 0),
            entry(12, 4),
            entry(11, 3),
            entry(0x1d, 6),
        ];
        Engines {
            all: all.iter().filter_map(host_driven).collect(),
            arch,
            methods: 0x5000,
        }
    }

    #[test]
    fn copy_engines_beside_graphics_are_no_engines_of_their_own() {
        let engines = engines(Arch::Ga10x);
        assert_eq!(engines.copies(), [11, 12]);
        assert_eq!(engines.all.len(), 4);
    }

    #[test]
    fn copy_engines_without_hardware_are_none() {
        // The last two are a decoder, whose number is not in the mask, and one beyond 32 bits.
        let has = [1, 9, 11, 12, 19, 64].map(|kind| has_hardware(kind, 0b100_0000_1001));
        assert_eq!(has, [true, false, true, false, true, true]);
    }

    #[test]
    fn a_token_has_the_runlist_and_the_channel() {
        assert_eq!(engines(Arch::Ad10x).token(12, 7), Some(0x4_0007));
        assert_eq!(engines(Arch::Ad10x).token(1, 1), Some(1));
        assert_eq!(engines(Arch::Gb20x).token(11, 7), Some(0x4003_0007));
        assert_eq!(engines(Arch::Gb20x).token(13, 7), None);
    }
}
