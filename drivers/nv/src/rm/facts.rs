//! [`Facts`]: properties of a GPU, and whether this process may compute on it.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/ctrl/ctrl2080/{ctrl2080gr,ctrl2080fb,
//! ctrl2080gpu,ctrl2080ce}.h; the controls of libcuda are known from recordings.

use drivers_spec::nv::abi::Call;
use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::control::{self, fb_info, gr_info};
use drivers_spec::nv::query::compute_mode;
use drivers_spec::nv::{class, query, status};
use thiserror::Error;

use super::device::Device;
use super::transport::{CallError, Result, not_passed};
use crate::chip::{Chip, Units};
use crate::encode::limits::Limits;

/// More GPCs, and TPCs of one, than any chip has: 12 of 8 (GB202), 8 of 9 (GH100), 8 of 10 (GB100).
const MOST_GPCS: u32 = 12;
const MOST_TPCS: u32 = 10;
/// Multiprocessors of a TPC, since Volta.
const SMS_PER_TPC: u32 = 2;

/// Why a GPU of RM cannot be used for compute, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Unfit {
    /// An unsupported chip.
    #[error(
        "{place} ({chip}) is not supported; supported are {}",
        Chip::supported()
    )]
    Unsupported {
        /// The GPU.
        place: String,
        /// The chip, as reported by RM.
        chip: String,
    },
    /// The GPU is in MIG mode.
    #[error(
        "{place} is split into {parts} MIG partitions, which are not supported: disable MIG (`sudo nvidia-smi -mig \
         0`)"
    )]
    Divided {
        /// The GPU.
        place: String,
        /// Number of partitions.
        parts: u32,
    },
    /// Compute mode Prohibited.
    #[error(
        "{place} is in compute mode Prohibited (`nvidia-smi -q -d COMPUTE`): run `sudo nvidia-smi -c DEFAULT`"
    )]
    Prohibited {
        /// The GPU.
        place: String,
    },
    /// An exclusive compute mode, and another program uses the GPU.
    #[error(
        "{place} is in an exclusive compute mode (`nvidia-smi -q -d COMPUTE`) and in use by another program (see \
         `nvidia-smi`): wait for it, or share the GPU (`sudo nvidia-smi -c DEFAULT`)"
    )]
    Busy {
        /// The GPU.
        place: String,
    },
    /// Confidential computing is enabled.
    #[error(
        "{place} has confidential computing enabled, which is not supported (memory and rings are \
         encrypted): disable it (`nvidia-smi conf-compute`, or in the BIOS)"
    )]
    Confidential {
        /// The GPU.
        place: String,
    },
    /// RM refused a call.
    #[error("{0}; see `dmesg | grep -e NVRM -e Xid`")]
    Refused(#[from] CallError),
}

/// A GPU's own facts.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) product: String,
    pub(crate) chip: Chip,
    pub(crate) units: Units,
    /// Bytes of memory.
    pub(crate) vram: u64,
    /// Bytes of the window to it.
    pub(crate) bar: u64,
    /// Its classes.
    pub(crate) channel: Call,
    pub(crate) compute: Call,
    pub(crate) copy: Call,
    /// Copy engines that channels of their own may have.
    pub(crate) copy_engines: Vec<u32>,
}

/// Text that ends with a zero.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    let text = &bytes[..end.unwrap_or(bytes.len())];
    String::from_utf8_lossy(text).into_owned()
}

/// A GPU to ask.
pub(crate) struct Asked<'a> {
    gpu: &'a Device,
    /// Where it is, for messages: `0000:03:00.0`.
    place: &'a str,
    /// Its PCI IDs, for messages.
    device_id: u16,
}

impl<'a> Asked<'a> {
    /// That GPU.
    pub(crate) fn of(gpu: &'a Device, place: &'a str, device_id: u16) -> Asked<'a> {
        Asked {
            gpu,
            place,
            device_id,
        }
    }

    /// Its own facts, and the classes of its doorbell page: its own, then older ones that it supports.
    ///
    /// # Errors
    /// [`Unfit`].
    pub(crate) fn facts(&self) -> std::result::Result<(Facts, Vec<Call>), Unfit> {
        let chip = self.chip()?;
        self.not_divided()?;
        self.may_compute()?;
        let classes = self.gpu.classes()?;
        self.not_confidential(chip.arch)?;
        let facts = chip.facts();
        let has = |wanted: Call| match classes.contains(&wanted.number) {
            true => Ok(wanted),
            false => Err(Unfit::Unsupported {
                place: self.place.into(),
                chip: format!("{}, without class {}", chip.name, wanted.name),
            }),
        };
        let sizes = [fb_info::TOTAL_RAM_SIZE, fb_info::BAR1_SIZE];
        let [vram, bar] = self.gpu.memory_sizes(sizes)?;
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

    fn chip(&self) -> std::result::Result<Chip, Unfit> {
        let mut params = control::ArchInfo::default();
        let ask = control::NV2080_CTRL_CMD_MC_GET_ARCH_INFO;
        self.gpu.subdevice.control(&ask, &mut params)?;
        let id = (params.architecture, params.implementation);
        Chip::by_id(id).ok_or_else(|| Unfit::Unsupported {
            place: self.place.into(),
            chip: format!(
                "architecture {:#x}, implementation {:#x}, device {:#06x}",
                id.0, id.1, self.device_id
            ),
        })
    }

    /// The product's name.
    ///
    /// # Errors
    /// [`super::CallError`].
    pub(crate) fn product(&self) -> Result<String> {
        let mut params = query::NameString::default();
        let ask = control::NV2080_CTRL_CMD_GPU_GET_NAME_STRING;
        self.gpu.subdevice.control(&ask, &mut params)?;
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
        match self.gpu.subdevice.control(&ask, &mut params) {
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

    /// The same by single queries: the number before units were disabled is not available, and the maximum is assumed.
    fn counted(&self, chip: &Chip) -> Result<Units> {
        let mut all = control::GrGpcMask::default();
        let ask = control::NV2080_CTRL_CMD_GR_GET_GPC_MASK;
        self.gpu.subdevice.control(&ask, &mut all)?;
        let mut tpcs = 0;
        for gpc_id in (0..u32::BITS).filter(|gpc| all.gpc_mask >> gpc & 1 != 0) {
            let mut one = control::GrTpcMask {
                gpc_id,
                ..Default::default()
            };
            let ask = control::NV2080_CTRL_CMD_GR_GET_TPC_MASK;
            self.gpu.subdevice.control(&ask, &mut one)?;
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
        self.gpu.subdevice.control(&ask, &mut params)?;
        // One of the two is there, by branch.
        let present = params.present | u64::from(params.present32);
        let first = class::engine::COPY0..=class::engine::COPY9;
        let all = first.zip(params.caps_tbl).enumerate();
        let own = all.filter(|(i, (_, caps))| present >> i & 1 != 0 && caps[0] & 1 == 0);
        Ok(own.map(|(_, (engine, _))| engine).collect())
    }

    fn not_divided(&self) -> std::result::Result<(), Unfit> {
        let mut params = query::ActivePartitionIds::default();
        let ask = control::NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS;
        match self.gpu.subdevice.control(&ask, &mut params) {
            Ok(()) if params.partition_count > 0 => Err(Unfit::Divided {
                place: self.place.into(),
                parts: params.partition_count,
            }),
            Ok(()) => Ok(()),
            // Without permission for this query, the creation of a channel fails.
            Err(error) => {
                tracing::debug!(%error, "RM does not report MIG partitions");
                Ok(())
            }
        }
    }

    /// Keeps to what the administrator has set, which RM leaves to programs: a GPU for one program at a time is
    /// reserved, as long as the subdevice lives.
    fn may_compute(&self) -> std::result::Result<(), Unfit> {
        let mut params = query::ComputeModeRules::default();
        let ask = control::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES;
        if let Err(error) = self.gpu.subdevice.control(&ask, &mut params) {
            tracing::debug!(%error, "RM does not report the compute mode");
            return Ok(());
        }
        let place = || self.place.into();
        match params.rules {
            compute_mode::COMPUTE_PROHIBITED => Err(Unfit::Prohibited { place: place() }),
            compute_mode::EXCLUSIVE_COMPUTE | compute_mode::EXCLUSIVE_COMPUTE_PROCESS => {
                let reserve = control::ACQUIRE_COMPUTE_MODE_RESERVATION;
                match self.gpu.subdevice.order(&reserve) {
                    Err(error) if error.is(status::NV_ERR_STATE_IN_USE) => {
                        Err(Unfit::Busy { place: place() })
                    }
                    done => Ok(done?),
                }
            }
            _ => Ok(()),
        }
    }

    fn not_confidential(&self, arch: Arch) -> std::result::Result<(), Unfit> {
        if arch < Arch::Gh100 {
            return Ok(());
        }
        let rm = self.gpu.client();
        let params = class::ConfidentialComputeAlloc {
            h_client: rm.handle(),
        };
        let asked = || {
            let class = class::NV_CONFIDENTIAL_COMPUTE;
            let object = rm.alloc(&class, &params)?;
            let mut params = control::ConfComputeCapabilities::default();
            let ask = control::NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES;
            object.control(&ask, &mut params)?;
            Ok(params.cc_feature)
        };
        match asked() {
            Ok(0) => Ok(()),
            Ok(_) => Err(Unfit::Confidential {
                place: self.place.into(),
            }),
            Err::<_, CallError>(error) => {
                tracing::debug!(%error, "RM does not report confidential computing");
                Ok(())
            }
        }
    }
}
