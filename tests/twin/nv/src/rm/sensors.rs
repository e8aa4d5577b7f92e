//! What RM tells of a GPU and of who has it: processes by the classes of their objects, and the page of measurements
//! that all programs map.
//!
//! Source: open-gpu-kernel-modules 580.142, src/nvidia/src/kernel/gpu/gpu_user_shared_data.c;
//! gpu/subdevice/subdevice_ctrl_gpu_kernel.c, subdeviceCtrlCmdGpuGetPids, subdeviceCtrlCmdGpuGetPidInfo;
//! gpu/gpu_rmapi.c, gpuGetProcWithObject, gpuFindClientInfoWithPidIterator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::shared::{self, SharedData, at, poll};
use drivers_spec::nv::{class, query, status};

use crate::chip::Chip;
use crate::contents::Contents;
use crate::errno::{Failure, Result};
use crate::kernel::Machine;
use crate::space::{Memory, Place};

use super::alloc::{New, is_engine};
use super::{Call, Kind, State};

/// `NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_*`: by a class, by a virtual machine.
const BY_CLASS: u32 = 0;
const BY_GUEST: u32 = 1;

/// `NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE`.
const MEMORY_USAGE: u32 = 0;

/// `PARTITIONID_INVALID`: the GPU is in one piece.
const NO_PART: u32 = u32::MAX;

/// Between two measurements. Cards take 100 ms to 1 s; nobody here needs to wait so long.
const INTERVAL: Duration = Duration::from_millis(10);

/// The page of a GPU.
#[derive(Default)]
pub(crate) struct Sensors {
    page: Option<Arc<Memory>>,
    /// What each object wants measured, by its client and its handle.
    wanted: BTreeMap<(u32, u32), u64>,
    /// Whether somebody measures.
    running: bool,
    /// How often was measured.
    count: u64,
}

/// What a GPU measures.
struct Measured {
    graphics_mhz: u32,
    memory_mhz: u32,
    percent: u32,
    milliwatts: u32,
    most_milliwatts: u32,
    celsius: u32,
    rpm: u32,
}

impl Measured {
    /// Of a card with that many channels. Nothing is warm here: all of it is of this model's choice, higher where
    /// there is a channel.
    fn of(chip: &Chip, channels: usize) -> Measured {
        let most_milliwatts = 450_000;
        match channels {
            0 => Measured {
                graphics_mhz: 210,
                memory_mhz: 405,
                percent: 0,
                milliwatts: 21_300,
                most_milliwatts,
                celsius: 34,
                rpm: 0,
            },
            _ => Measured {
                graphics_mhz: 1_700 + chip.sm_version,
                memory_mhz: 10_501,
                percent: 63,
                milliwatts: 287_250,
                most_milliwatts,
                celsius: 61,
                rpm: 1_480,
            },
        }
    }

    /// The blocks that were asked for: by the name of their field, their dwords with where those lie.
    fn blocks(&self, wanted: u64) -> Vec<(&'static str, Vec<(usize, u32)>)> {
        let temperature = vec![(at::TEMPERATURE, self.celsius << 8)];
        let all = [
            (
                poll::CLOCK,
                "clkPublicDomainInfos",
                vec![
                    (at::GRAPHICS_MHZ, self.graphics_mhz),
                    (at::MEMORY_MHZ, self.memory_mhz),
                ],
            ),
            (
                poll::PERF,
                "perfDevUtil",
                vec![(at::GPU_PERCENT, self.percent)],
            ),
            (
                poll::POWER,
                "powerLimitGpu",
                vec![(at::ENFORCED_MW, self.most_milliwatts)],
            ),
            (
                poll::POWER,
                "instPowerUsage",
                vec![(at::GPU_MW, self.milliwatts)],
            ),
            (poll::THERMAL, "temperature", temperature.clone()),
            (poll::THERMAL, "temperatures", temperature),
            (poll::FAN, "fanCoolerStatus", vec![(at::RPM, self.rpm)]),
        ];
        let asked = all.into_iter().filter(|(of, ..)| wanted & of != 0);
        asked.map(|(_, name, dwords)| (name, dwords)).collect()
    }
}

impl State {
    /// The page of a GPU, once somebody has it.
    pub fn shared_page(&self, gpu: usize) -> Option<Arc<Memory>> {
        self.sensors[gpu].page.clone()
    }

    /// An object ends: what only it wanted is measured no longer.
    pub(super) fn unwanted(&mut self, client: u32, handle: u32) {
        for sensors in &mut self.sensors {
            sensors.wanted.remove(&(client, handle));
        }
    }

    /// Measures what is wanted of a GPU; false where nothing is.
    fn measure(&mut self, machine: &Machine, gpu: usize) -> bool {
        let channels = self.channels().filter(|one| one.gpu == gpu).count();
        let sensors = &mut self.sensors[gpu];
        let wanted = sensors.wanted.values().fold(0, |all, one| all | one);
        let Some(page) = sensors.page.as_ref().filter(|_| wanted != 0) else {
            sensors.running = false;
            return false;
        };
        sensors.count += 1;
        let measured = Measured::of(machine.config.chips[gpu], channels);
        let fields: Vec<_> = SharedData::LAYOUT.fields(machine.branch()).collect();
        for (name, dwords) in measured.blocks(wanted) {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                continue;
            };
            let at = field.at as u64;
            // The time first and last, as the processor of the GPU does.
            page.contents
                .write(at, &shared::BEING_WRITTEN.to_le_bytes());
            for (offset, value) in dwords {
                page.contents
                    .write(at + offset as u64, &value.to_le_bytes());
            }
            page.contents.write(at, &sensors.count.to_le_bytes());
        }
        true
    }
}

/// Measures as long as somebody wants it.
fn run(machine: &Weak<Machine>, gpu: usize) {
    loop {
        std::thread::sleep(INTERVAL);
        let Some(machine) = machine.upgrade() else {
            return;
        };
        if !machine.state().measure(&machine, gpu) {
            return;
        }
    }
}

impl Call<'_> {
    /// RM_USER_SHARED_DATA: the page of a GPU, the same one for all.
    pub(super) fn new_shared(
        &self,
        state: &mut State,
        new: &New,
        gpu: usize,
    ) -> Result<Arc<Memory>> {
        const BYTES: u64 = 4096;
        let params = self.required::<class::SharedDataAlloc>(new)?;
        let page = match &state.sensors[gpu].page {
            Some(page) => page.clone(),
            None => {
                let none = |_| Failure::Status(status::NV_ERR_NO_MEMORY);
                let memory = Memory {
                    id: state.number(),
                    gpu,
                    place: Place::System,
                    bytes: BYTES,
                    page: BYTES,
                    writable: false,
                    contents: Contents::zeros(BYTES).map_err(none)?,
                };
                Arc::new(memory)
            }
        };
        let sensors = &mut state.sensors[gpu];
        sensors.page = Some(page.clone());
        if params.polled_data_mask != 0 && self.machine.branch() > Branch::R535 {
            let of = (new.client, new.handle);
            sensors.wanted.insert(of, params.polled_data_mask);
            if !std::mem::replace(&mut sensors.running, true) {
                let machine = Arc::downgrade(self.process.machine());
                std::thread::spawn(move || run(&machine, gpu));
            }
        }
        Ok(page)
    }

    /// GPU_GET_PIDS.
    pub(super) fn pids(&self, state: &State, gpu: usize, params: &mut query::Pids) -> Result {
        let all: BTreeSet<u32> = match params.id_type {
            BY_CLASS => {
                // Any other class is looked for among what is made below channels.
                let counts = is_engine(params.id) || params.id == class::NV20_SUBDEVICE_0.number;
                let has = |object: &super::Object| {
                    counts && object.class == params.id && object.gpu == Some(gpu)
                };
                let clients = state.clients.values();
                let found = clients.filter(|client| client.objects.values().any(has));
                found.map(|client| client.pid).collect()
            }
            // None of them is a virtual machine.
            BY_GUEST => BTreeSet::new(),
            other => return self.value(format!("GPU_GET_PIDS by kind {other}")),
        };
        params.pid_tbl = [0; 950];
        params.pid_tbl_count = 0;
        for (to, pid) in params.pid_tbl.iter_mut().zip(all) {
            *to = pid;
            params.pid_tbl_count += 1;
        }
        Ok(())
    }

    /// GPU_GET_PID_INFO: each question has an answer of its own.
    pub(super) fn pid_info(
        &self,
        state: &State,
        gpu: usize,
        params: &mut query::PidInfos,
    ) -> Result {
        let count = params.pid_info_list_count as usize;
        let list = params.pid_info_list.get_mut(..count);
        let Some(list) = list.filter(|list| !list.is_empty()) else {
            return self.value(format!("GPU_GET_PID_INFO of {count} processes"));
        };
        for one in list {
            one.smc_subscription = [NO_PART; 2];
            one.result = match (one.index, one.pid) {
                (MEMORY_USAGE, 1..) => status::NV_OK,
                _ => status::NV_ERR_INVALID_ARGUMENT,
            };
            if one.result == status::NV_OK {
                one.data = query::MemoryUsage {
                    mem_private: state.local_of(one.pid, gpu),
                    ..Default::default()
                };
            }
        }
        Ok(())
    }
}

impl State {
    /// Bytes of local memory that the clients of a process have on a GPU.
    fn local_of(&self, pid: u32, gpu: usize) -> u64 {
        let clients = self.clients.values().filter(|client| client.pid == pid);
        let objects = clients.flat_map(|client| client.objects.values());
        let memory = objects.filter_map(|object| match &object.kind {
            Kind::Memory(memory) if memory.gpu == gpu && memory.place == Place::Local => {
                Some((memory.id, memory.bytes))
            }
            _ => None,
        });
        let each: BTreeMap<u64, u64> = memory.collect();
        each.into_values().sum()
    }
}
