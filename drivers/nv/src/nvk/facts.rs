//! [`Facts`]: what a GPU tells of itself, and whether it computes for this process.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/ctrl/ctrl2080/{ctrl2080gr,ctrl2080fb,
//! ctrl2080gpu,ctrl2080ce}.h; what libcuda asks is told by recordings.

use std::sync::Arc;

use drivers_spec::nv::abi::Call;
use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::control::{self, fb_info, gr_info};
use drivers_spec::nv::query::compute_mode;
use drivers_spec::nv::{class, query, status};
use hcq::transport::{Fault, Machine};

use super::base::Base;
use super::call::{CallError, Result};
use super::rm::Rm;
use super::session::Session;
use super::survey::{Found, Survey, Unusable, survey, text};
use super::uvm::Uuid;
use crate::chip::{Chip, Units};
use crate::encode::limits::Limits;

/// A number, not a text, of as many bytes as a UUID has (`NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY`).
const BINARY: u32 = 2;

/// More GPCs, and TPCs of one, than any chip has: 12 of 8 (GB202), 8 of 9 (GH100), 8 of 10 (GB100).
const MOST_GPCS: u32 = 12;
const MOST_TPCS: u32 = 10;
/// Multiprocessors of a TPC, since Volta.
const SMS_PER_TPC: u32 = 2;

/// What a sandbox answers that does not know a call (gVisor passes on those of CUDA): EINVAL.
const NOT_PASSED: Fault = Fault::Errno(22);

/// Whether a call was not passed on to the driver.
pub(super) fn not_passed(error: &CallError) -> bool {
    matches!(error, CallError::System(error) if error.fault == NOT_PASSED)
}

/// Looks at a machine as [`survey`] does, and asks each GPU whether it computes for this process: one for one program
/// at a time is reserved for a moment.
pub fn examine(machine: &dyn Machine) -> Survey {
    let mut all = survey(machine);
    if all.driver.is_err() {
        return all;
    }
    let session = match Session::new(machine, false) {
        Ok(session) => session,
        Err(why) => {
            all.driver = Err(why);
            return all;
        }
    };
    for found in all.gpus.iter_mut().filter(|gpu| gpu.unusable.is_none()) {
        let told = Base::new(machine, &session.rm, found)
            .and_then(|gpu| Asked::of(&session.rm, &gpu).facts(found));
        found.unusable = told.err();
    }
    all
}

/// What a GPU says of itself.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) product: String,
    pub(super) chip: Chip,
    pub(super) units: Units,
    /// Bytes of memory.
    pub(super) vram: u64,
    /// Bytes of the window to it.
    pub(super) bar: u64,
    /// Its classes.
    pub(super) channel: Call,
    pub(super) compute: Call,
    pub(super) copy: Call,
    /// Copy engines that channels of their own may have.
    pub(super) copy_engines: Vec<u32>,
}

/// A device and its subdevice, to ask.
pub(super) struct Asked<'a> {
    rm: &'a Arc<Rm>,
    device: u32,
    subdevice: u32,
}

impl<'a> Asked<'a> {
    /// Those of a GPU.
    pub(super) fn of(rm: &'a Arc<Rm>, gpu: &Base) -> Asked<'a> {
        Asked {
            rm,
            device: gpu.device.handle(),
            subdevice: gpu.subdevice.handle(),
        }
    }

    /// What it says of itself, and the classes of its doorbell's page: its own, then older ones that it takes.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(super) fn facts(&self, found: &Found) -> std::result::Result<(Facts, Vec<Call>), Unusable> {
        let chip = self.chip(found)?;
        self.not_divided(found)?;
        self.may_compute(found)?;
        let classes = self.classes()?;
        self.not_confidential(found, chip.arch)?;
        let facts = chip.facts();
        let has = |wanted: Call| match classes.contains(&wanted.number) {
            true => Ok(wanted),
            false => Err(Unusable::Unsupported {
                place: found.place.clone(),
                chip: format!("{}, without class {}", chip.name, wanted.name),
            }),
        };
        let [vram, bar] = memory_sizes(
            self.rm,
            self.subdevice,
            [fb_info::TOTAL_RAM_SIZE, fb_info::BAR1_SIZE],
        )?;
        let told = Facts {
            product: self.product()?,
            chip,
            units: self.units(&chip)?,
            vram,
            bar,
            channel: has(facts.channel)?,
            compute: has(facts.compute)?,
            copy: has(facts.copy)?,
            copy_engines: self.copy_engines()?,
        };
        let mut usermodes = vec![has(facts.usermode)?];
        let older = facts.older.iter().rev();
        let older = older.filter(|class| class.name.ends_with("_USERMODE_A"));
        usermodes.extend(older.filter(|class| classes.contains(&class.number)));
        Ok((told, usermodes))
    }

    fn chip(&self, found: &Found) -> std::result::Result<Chip, Unusable> {
        let mut params = control::ArchInfo::default();
        let ask = control::NV2080_CTRL_CMD_MC_GET_ARCH_INFO;
        self.rm.control(&ask, self.subdevice, &mut params)?;
        let id = (params.architecture, params.implementation);
        Chip::by_id(id).ok_or_else(|| Unusable::Unsupported {
            place: found.place.clone(),
            chip: format!(
                "architecture {:#x}, implementation {:#x}, device {:#06x}",
                id.0, id.1, found.device_id
            ),
        })
    }

    fn classes(&self) -> Result<Vec<u32>> {
        let mut params = control::ClassListV2::default();
        let ask = control::NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2;
        self.rm.control(&ask, self.device, &mut params)?;
        let count = params.class_list.len().min(params.num_classes as usize);
        Ok(params.class_list[..count].to_vec())
    }

    /// Its classes that are made below channels: of graphics, of compute, of copies.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn engines(&self) -> Result<Vec<u32>> {
        let mut classes = self.classes()?;
        classes.retain(|class| *class > 0xc000 && matches!(class & 0xff, 0x97 | 0xc0 | 0xb5));
        Ok(classes)
    }

    fn product(&self) -> Result<String> {
        let mut params = query::NameString::default();
        let ask = control::NV2080_CTRL_CMD_GPU_GET_NAME_STRING;
        self.rm.control(&ask, self.subdevice, &mut params)?;
        Ok(text(&params.gpu_name_string))
    }

    fn units(&self, chip: &Chip) -> Result<Units> {
        const ASKED: [u32; 5] = [
            gr_info::SHADER_PIPE_SUB_COUNT,
            gr_info::LITTER_NUM_GPCS,
            gr_info::LITTER_NUM_TPC_PER_GPC,
            gr_info::LITTER_NUM_SM_PER_TPC,
            gr_info::MAX_WARPS_PER_SM,
        ];
        let mut params = control::GrGetInfoV2 {
            gr_info_list_size: ASKED.len() as u32,
            ..Default::default()
        };
        for (info, index) in params.gr_info_list.iter_mut().zip(ASKED) {
            info.index = index;
        }
        let ask = control::NV2080_CTRL_CMD_GR_GET_INFO_V2;
        match self.rm.control(&ask, self.subdevice, &mut params) {
            Err(error) if not_passed(&error) => return self.counted(chip),
            done => done?,
        }
        let [tpcs, gpcs, tpcs_per_gpc, sms_per_tpc, warps_per_sm] =
            std::array::from_fn(|i| params.gr_info_list[i].data);
        Ok(Units {
            sms: tpcs * sms_per_tpc,
            gpcs,
            tpcs_per_gpc,
            sms_per_tpc,
            warps_per_sm,
        })
    }

    /// The same, one by one: how many a chip had before some were switched off is not told so, and taken for the most.
    fn counted(&self, chip: &Chip) -> Result<Units> {
        let mut all = control::GrGpcMask::default();
        let ask = control::NV2080_CTRL_CMD_GR_GET_GPC_MASK;
        self.rm.control(&ask, self.subdevice, &mut all)?;
        let mut tpcs = 0;
        for gpc_id in (0..u32::BITS).filter(|gpc| all.gpc_mask >> gpc & 1 != 0) {
            let mut one = control::GrTpcMask {
                gpc_id,
                ..Default::default()
            };
            let ask = control::NV2080_CTRL_CMD_GR_GET_TPC_MASK;
            self.rm.control(&ask, self.subdevice, &mut one)?;
            tpcs += one.tpc_mask.count_ones();
        }
        Ok(Units {
            sms: tpcs * SMS_PER_TPC,
            gpcs: MOST_GPCS,
            tpcs_per_gpc: MOST_TPCS,
            sms_per_tpc: SMS_PER_TPC,
            warps_per_sm: Limits::of(chip.sm).map_or(64, |limits| limits.warps),
        })
    }

    /// Copy engines that do not share the runlist of graphics: others are taken for graphics.
    ///
    /// Source: uvm_user_channel.c, by engine type; ctrl2080ce.h, `NV2080_CTRL_CE_CAPS_CE_GRCE`.
    fn copy_engines(&self) -> Result<Vec<u32>> {
        let mut params = control::CeAllCaps::default();
        let ask = control::NV2080_CTRL_CMD_CE_GET_ALL_CAPS;
        self.rm.control(&ask, self.subdevice, &mut params)?;
        // One of the two is there, by branch.
        let present = params.present | u64::from(params.present32);
        let first = class::engine::COPY0..=class::engine::COPY9;
        let all = first.zip(params.caps_tbl).enumerate();
        let own = all.filter(|(i, (_, caps))| present >> i & 1 != 0 && caps[0] & 1 == 0);
        Ok(own.map(|(_, (engine, _))| engine).collect())
    }

    /// The number that UVM knows it by.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) fn uuid(&self) -> Result<Uuid> {
        let mut params = control::GidInfo {
            flags: BINARY,
            length: size_of::<Uuid>() as u32,
            ..Default::default()
        };
        let ask = control::NV2080_CTRL_CMD_GPU_GET_GID_INFO;
        self.rm.control(&ask, self.subdevice, &mut params)?;
        let mut uuid = Uuid::default();
        uuid.copy_from_slice(&params.data[..size_of::<Uuid>()]);
        Ok(uuid)
    }

    fn not_divided(&self, found: &Found) -> std::result::Result<(), Unusable> {
        let mut params = query::ActivePartitionIds::default();
        let ask = control::NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS;
        match self.rm.control(&ask, self.subdevice, &mut params) {
            Ok(()) if params.partition_count > 0 => Err(Unusable::Divided {
                place: found.place.clone(),
                parts: params.partition_count,
            }),
            Ok(()) => Ok(()),
            // Whoever may not ask finds out when a channel is made.
            Err(error) => {
                tracing::debug!(%error, "whether the GPU is divided is not told");
                Ok(())
            }
        }
    }

    /// Keeps to what the administrator has set, which RM leaves to programs: a GPU for one program at a time is
    /// reserved, as long as the subdevice lives.
    fn may_compute(&self, found: &Found) -> std::result::Result<(), Unusable> {
        let mut params = query::ComputeModeRules::default();
        let ask = control::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES;
        if let Err(error) = self.rm.control(&ask, self.subdevice, &mut params) {
            tracing::debug!(%error, "who may compute is not told");
            return Ok(());
        }
        let place = || found.place.clone();
        match params.rules {
            compute_mode::COMPUTE_PROHIBITED => Err(Unusable::Prohibited { place: place() }),
            compute_mode::EXCLUSIVE_COMPUTE | compute_mode::EXCLUSIVE_COMPUTE_PROCESS => {
                let reserve = control::ACQUIRE_COMPUTE_MODE_RESERVATION;
                match self.rm.order(&reserve, self.subdevice) {
                    Err(error) if error.is(status::NV_ERR_STATE_IN_USE) => {
                        Err(Unusable::Busy { place: place() })
                    }
                    done => Ok(done?),
                }
            }
            _ => Ok(()),
        }
    }

    fn not_confidential(&self, found: &Found, arch: Arch) -> std::result::Result<(), Unusable> {
        if arch < Arch::Gh100 {
            return Ok(());
        }
        let params = class::ConfidentialComputeAlloc {
            h_client: self.rm.client,
        };
        let asked = || {
            let class = class::NV_CONFIDENTIAL_COMPUTE;
            let object = self.rm.alloc(&class, self.rm.client, &params)?;
            let mut params = control::ConfComputeCapabilities::default();
            let ask = control::NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES;
            self.rm.control(&ask, object.handle(), &mut params)?;
            Ok(params.cc_feature)
        };
        match asked() {
            Ok(0) => Ok(()),
            Ok(_) => Err(Unusable::Confidential {
                place: found.place.clone(),
            }),
            Err::<_, CallError>(error) => {
                tracing::debug!(%error, "whether computing is confidential is not told");
                Ok(())
            }
        }
    }
}

/// Sizes of memory, in bytes.
///
/// # Errors
/// [`CallError`].
pub(super) fn memory_sizes<const N: usize>(
    rm: &Rm,
    subdevice: u32,
    indices: [u32; N],
) -> Result<[u64; N]> {
    let mut params = control::FbGetInfoV2 {
        fb_info_list_size: N as u32,
        ..Default::default()
    };
    for (info, index) in params.fb_info_list.iter_mut().zip(indices) {
        info.index = index;
    }
    let ask = control::NV2080_CTRL_CMD_FB_GET_INFO_V2;
    rm.control(&ask, subdevice, &mut params)?;
    let mut sizes = [0; N];
    for (size, info) in sizes.iter_mut().zip(&params.fb_info_list) {
        *size = u64::from(info.data) << 10;
    }
    Ok(sizes)
}
