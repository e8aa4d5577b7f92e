//! What a client is asked: which driver this is, which GPUs there are, what they can do together.
//!
//! Source: open-gpu-kernel-modules 550.163.01, src/nvidia/src/kernel/rmapi/client_resource.c,
//! src/nvidia/interface/deprecated/rmapi_deprecated_control.c.

use drivers_spec::nv::abi;
use drivers_spec::nv::{control, query, status};

use crate::errno::Result;
use crate::space::Place;

use super::alloc::is_usermode;
use super::control::{VALUE, gpu_id};
use super::{Call, Kind, State};

/// `NV0000_CTRL_GET_SYSTEM_FABRIC_STATUS_SKIP`: there is none.
const FABRIC_SKIP: u32 = 1;

/// `NV_CONF_COMPUTE_SYSTEM_FEATURE_HCC_ENABLED`. Source: ctrlcb33.h.
const HCC_ENABLED: u8 = 2;

/// `RS_SHARE_TYPE_MAX`.
const SHARE_TYPES: u16 = 8;

impl Call<'_> {
    /// What the driver calls itself: its release, its branch, its title.
    fn versions(&self) -> [String; 3] {
        let config = &self.machine.config;
        [
            config.driver.clone(),
            format!("rel/gpu_drv/r{0}/r{0}_00", config.branch),
            format!(
                "{}  {}  Release Build",
                config.module.title(),
                config.driver
            ),
        ]
    }

    /// The old form, which leaves texts elsewhere in memory.
    fn build_version(&self, params: &mut query::BuildVersionOld) -> Result {
        let texts = self.versions();
        let longest = texts
            .iter()
            .map(|text| text.len() as u32 + 1)
            .max()
            .unwrap_or_default();
        let places = [
            params.driver_version_buffer,
            params.version_buffer,
            params.title_buffer,
        ];
        if places.contains(&0) {
            params.size_of_strings = longest;
            return Ok(());
        }
        if params.size_of_strings < longest {
            let what = format!("{} bytes for {longest}", params.size_of_strings);
            let invalid = status::NV_ERR_INVALID_PARAM_STRUCT;
            return self.machine.refuse(&VALUE, invalid, what);
        }
        for (at, text) in places.into_iter().zip(texts) {
            let mut bytes = text.into_bytes();
            bytes.push(0);
            self.process.memory().write(at, &bytes)?;
        }
        Ok(())
    }

    /// The numbers of all GPUs, and what stands for none behind them.
    fn gpu_ids(&self) -> [u32; 32] {
        let mut ids = [u32::MAX; 32];
        let gpus = self.machine.config.chips.len();
        for (gpu, id) in ids.iter_mut().enumerate().take(gpus) {
            *id = gpu_id(gpu);
        }
        ids
    }

    fn gpu_by_id(&self, id: u32) -> Result<usize> {
        let mut all = 0..self.machine.config.chips.len();
        match all.find(|&gpu| gpu_id(gpu) == id) {
            Some(gpu) => Ok(gpu),
            None => self.value(format!("GPU {id:#x}")),
        }
    }

    /// Whether GPUs of a list are there. It ends at the first that is invalid; 0xffffffff first means all.
    fn are_there(&self, ids: &[u32]) -> Result {
        let all = self.gpu_ids();
        let asked = ids.iter().take_while(|&&id| id != u32::MAX);
        match asked.copied().find(|id| !all.contains(id)) {
            None => Ok(()),
            Some(id) => self.value(format!("GPU {id:#x}")),
        }
    }

    /// Controls of a client about which GPUs there are.
    fn of_gpu_list(&self, cmd: u32, at: u64) -> Option<Result> {
        let is = |one: abi::Call| one.number == cmd;
        Some(match cmd {
            _ if is(control::NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS) => self
                .answer::<control::AttachedIds>(at, |params| {
                    params.gpu_ids = self.gpu_ids();
                    Ok(())
                }),
            _ if is(control::NV0000_CTRL_CMD_GPU_GET_PROBED_IDS) => self
                .answer::<control::ProbedIds>(at, |params| {
                    params.gpu_ids = self.gpu_ids();
                    params.excluded_gpu_ids = [u32::MAX; 32];
                    Ok(())
                }),
            _ if is(control::NV0000_CTRL_CMD_GPU_ATTACH_IDS) => {
                self.answer::<control::AttachIds>(at, |params| self.are_there(&params.gpu_ids))
            }
            _ if is(control::NV0000_CTRL_CMD_GPU_DETACH_IDS) => self
                .answer(at, |params: &mut query::DetachIds| {
                    self.are_there(&params.gpu_ids)
                }),
            _ if is(control::NV0000_CTRL_CMD_GPU_GET_ID_INFO) => {
                self.answer(at, |params: &mut query::IdInfoOld| {
                    let gpu = self.gpu_by_id(params.gpu_id)?;
                    params.device_instance = gpu as u32;
                    params.sub_device_instance = 0;
                    params.gpu_instance = gpu as u32;
                    params.board_id = gpu_id(gpu);
                    params.numa_id = -1;
                    Ok(())
                })
            }
            _ if is(control::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2) => {
                self.answer::<control::IdInfo>(at, |params| {
                    let gpu = self.gpu_by_id(params.gpu_id)?;
                    params.device_instance = gpu as u32;
                    params.sub_device_instance = 0;
                    params.gpu_instance = gpu as u32;
                    params.board_id = gpu_id(gpu);
                    params.numa_id = -1;
                    Ok(())
                })
            }
            _ => return None,
        })
    }

    /// Controls of a client.
    pub(super) fn of_client(&self, state: &State, client: u32, cmd: u32, at: u64) -> Result {
        if let Some(done) = self.of_gpu_list(cmd, at) {
            return done;
        }
        let is = |one: abi::Call| one.number == cmd;
        match cmd {
            _ if is(control::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION) => {
                self.answer(at, |params| self.build_version(params))
            }
            _ if is(control::NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2) => {
                self.answer::<control::BuildVersion>(at, |params| {
                    let [driver, version, title] = self.versions();
                    for (to, text) in [
                        (&mut params.driver_version_buffer, driver),
                        (&mut params.version_buffer, version),
                        (&mut params.title_buffer, title),
                    ] {
                        *to = [0; 256];
                        to[..text.len()].copy_from_slice(text.as_bytes());
                    }
                    Ok(())
                })
            }
            _ if is(control::NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES) => {
                let on = self.machine.config.confidential;
                self.answer::<control::ConfComputeCapabilities>(at, |params| {
                    *params = control::ConfComputeCapabilities::default();
                    if on {
                        params.cc_feature = HCC_ENABLED;
                    }
                    Ok(())
                })
            }
            // No firmware of UEFI, no switches between machines, no operations on memory by streams.
            _ if is(control::NV0000_CTRL_CMD_SYSTEM_GET_FEATURES) => {
                self.zeros::<query::Features>(at)
            }
            _ if is(control::NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE) => {
                self.zeros::<query::MemopEnable>(at)
            }
            _ if is(control::NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO) => {
                self.zeros::<query::BoostGroups>(at)
            }
            _ if is(control::NV0000_CTRL_CMD_SYSTEM_GET_FABRIC_STATUS) => {
                self.answer(at, |params: &mut query::FabricStatus| {
                    params.fabric_status = FABRIC_SKIP;
                    Ok(())
                })
            }
            _ if is(control::NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE) => {
                self.answer(at, |params| self.address_space(state, client, params))
            }
            _ if is(control::NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY) => {
                self.answer(at, |params: &mut query::SetInheritedSharePolicy| {
                    match params.share_policy.kind < SHARE_TYPES {
                        true => Ok(()),
                        false => self.value(format!("share type {}", params.share_policy.kind)),
                    }
                })
            }
            _ => self.not_modelled(cmd),
        }
    }

    /// What mapping an object would map.
    fn address_space(
        &self,
        state: &State,
        client: u32,
        params: &mut query::AddrSpaceType,
    ) -> Result {
        let object = self.object(state, client, params.h_object)?;
        params.addr_space_type = match &object.kind {
            Kind::Memory(memory) if memory.place == Place::Local => 2,
            Kind::Memory(_) => 1,
            _ if is_usermode(object.class) => 3,
            _ => {
                let what = format!("mapping an object of class {:#x}", object.class);
                let invalid = status::NV_ERR_INVALID_OBJECT;
                return self.machine.refuse(&VALUE, invalid, what);
            }
        };
        Ok(())
    }
}
