//! [`Reading`]: gauges and users of a GPU. Does no compute and does not block other programs.
//!
//! Clocks, power, temperature and load are in the page that RM has for all programs ([`shared`]), from branch 550 on;
//! memory and processes are asked for by controls. The page has no size that RM checks: it is read only where its
//! struct is that of the very version.
//!
//! Source: open-gpu-kernel-modules, src/common/sdk/nvidia/inc/class/cl00de.h; ctrl/ctrl2080/ctrl2080gpu.h,
//! `NV2080_CTRL_GPU_GET_PIDS_PARAMS`, `NV2080_CTRL_GPU_PID_INFO`.

use std::collections::BTreeSet;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::control::{self, fb_info};
use drivers_spec::nv::shared::{self, SharedData, at, poll};
use drivers_spec::nv::{class, query, status};
use hcq::mem::view::View;
use hcq::transport::{Machine, Prot};

use super::client::Object;
use super::device::Device;
use super::transport::{MapRequest, Result as Called, Side};

/// The requested measurements.
const WANTED: u64 = poll::CLOCK | poll::PERF | poll::POWER | poll::THERMAL;

/// How often a block that is written while it is read is read again, as in RUSD_READ_DATA.
const TRIES: u32 = 10;

/// The measurements of a GPU; `None` if unavailable.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Reading {
    /// Where it is: `0000:03:00.0`.
    pub place: String,
    /// Bytes of its memory in use, and all of them.
    pub memory: Option<(u64, u64)>,
    /// Part of the time that it was at work, in percent.
    pub percent: Option<u32>,
    /// In degrees Celsius.
    pub celsius: Option<f64>,
    /// Its power, in watts.
    pub watts: Option<f64>,
    /// Its power limit, in watts.
    pub most_watts: Option<f64>,
    /// The clock of its multiprocessors, in MHz.
    pub core_mhz: Option<u32>,
    /// The clock of its memory, in MHz.
    pub memory_mhz: Option<u32>,
    /// Turns of its first fan in a minute.
    pub fan_rpm: Option<u32>,
    /// Processes with channels on it, by number, each with its bytes of memory.
    pub users: Option<Vec<(u32, Option<u64>)>>,
}

/// A GPU that is measured. Its parts are freed from the top.
pub(crate) struct Meter {
    place: String,
    page: Option<Page>,
    /// Its classes that are made below channels.
    engines: Vec<u32>,
    gpu: Device,
}

/// A refused query is `None`.
fn told<T>(answer: Called<T>) -> Option<T> {
    let refused = |error| tracing::debug!(%error, "value not reported");
    answer.map_err(refused).ok()
}

impl Meter {
    /// That of a GPU, which measures from now on where it can. `exact` is whether the structs of this very driver are
    /// described.
    pub(crate) fn new(machine: &dyn Machine, gpu: Device, place: String, exact: bool) -> Meter {
        let engines = gpu.classes().map(|mut classes| {
            // Of graphics, of compute, of copies.
            classes.retain(|class| *class > 0xc000 && matches!(class & 0xff, 0x97 | 0xc0 | 0xb5));
            classes
        });
        let page = Page::new(machine, &gpu).map_err(|error| {
            tracing::debug!(%error, place, "no measurements");
        });
        Meter {
            place,
            page: page.ok().flatten().filter(|_| exact),
            engines: engines.unwrap_or_default(),
            gpu,
        }
    }

    /// Whether it has a page of measurements, and a measurement in it that was made since we asked.
    pub(crate) fn is_fresh(&self) -> Option<bool> {
        self.page.as_ref().map(Page::is_fresh)
    }

    /// The current values.
    pub(crate) fn read(&self) -> Reading {
        let memory = self
            .gpu
            .memory_sizes([fb_info::TOTAL_RAM_SIZE, fb_info::HEAP_FREE]);
        let memory = told(memory).map(|[all, free]| (all.saturating_sub(free), all));
        let mut reading = Reading {
            place: self.place.clone(),
            memory,
            users: told(self.users()),
            ..Reading::default()
        };
        if let Some(page) = &self.page {
            page.read(&mut reading);
        }
        reading
    }

    /// The processes that compute, copy or draw on it.
    fn users(&self) -> Called<Vec<(u32, Option<u64>)>> {
        let subdevice = &self.gpu.subdevice;
        let mut pids = BTreeSet::new();
        for &id in &self.engines {
            let mut params = query::Pids {
                id,
                ..Default::default()
            };
            let ask = control::NV2080_CTRL_CMD_GPU_GET_PIDS;
            subdevice.control(&ask, &mut params)?;
            let count = params.pid_tbl.len().min(params.pid_tbl_count as usize);
            pids.extend(&params.pid_tbl[..count]);
        }
        let pids: Vec<u32> = pids.into_iter().filter(|pid| *pid != 0).collect();
        let mut users = Vec::new();
        let mut params = query::PidInfos::default();
        for some in pids.chunks(params.pid_info_list.len()) {
            params.pid_info_list_count = some.len() as u32;
            for (one, pid) in params.pid_info_list.iter_mut().zip(some) {
                *one = query::PidInfo {
                    pid: *pid,
                    ..Default::default()
                };
            }
            let ask = control::NV2080_CTRL_CMD_GPU_GET_PID_INFO;
            subdevice.control(&ask, &mut params)?;
            let known = params.pid_info_list.iter().zip(some);
            users.extend(known.map(|(one, pid)| {
                let data = one.data;
                let bytes = data.mem_private + data.mem_shared_owned;
                (*pid, (one.result == status::NV_OK).then_some(bytes))
            }));
        }
        Ok(users)
    }
}

/// A page of measurements. Mapped for reads: RM makes it so for all programs.
struct Page {
    view: View,
    branch: Branch,
    /// The time of the last earlier measurement: long ago, if no other program polls.
    before: Vec<(&'static str, u64)>,
    _object: Object,
}

/// The blocks that are read.
const BLOCKS: [&str; 7] = [
    "clkPublicDomainInfos",
    "perfDevUtil",
    "powerLimitGpu",
    "temperature",
    "temperatures",
    "instPowerUsage",
    "fanCoolerStatus",
];

impl Page {
    /// That of a GPU; none where the branch has no measurements.
    fn new(machine: &dyn Machine, gpu: &Device) -> Called<Option<Page>> {
        let branch = gpu.client().branch();
        if branch == Branch::R535 {
            return Ok(None);
        }
        let fans = match branch {
            Branch::R580 => poll::FAN,
            _ => 0,
        };
        let params = class::SharedDataAlloc {
            polled_data_mask: WANTED | fans,
            ..Default::default()
        };
        let class = class::RM_USER_SHARED_DATA;
        let object = gpu.subdevice.alloc(&class, &params)?;
        let wanted = MapRequest {
            bytes: SharedData::LAYOUT.size(branch) as u64,
            at: None,
            prot: Prot::Read,
            of: Side::System,
        };
        let view = gpu.device.map(machine, &object, wanted)?;
        let mut page = Page {
            view,
            branch,
            before: Vec::new(),
            _object: object,
        };
        page.before = BLOCKS.map(|name| (name, page.time(name))).to_vec();
        Ok(Some(page))
    }

    /// Where a block is.
    fn place(&self, name: &str) -> Option<usize> {
        let mut fields = SharedData::LAYOUT.fields(self.branch);
        fields.find(|field| field.name == name).map(|one| one.at)
    }

    /// The time of a block.
    fn time(&self, name: &str) -> u64 {
        let time = self.place(name).map(|at| self.view.load_u64(at));
        time.and_then(Result::ok).unwrap_or(shared::NEVER)
    }

    /// Whether the GPU has measured since we asked.
    fn is_fresh(&self) -> bool {
        let mut before = self.before.iter();
        before.any(|(name, before)| ![*before, shared::BEING_WRITTEN].contains(&self.time(name)))
    }

    /// A dword of a block, if the block is of now.
    fn dword(&self, name: &str, offset: usize) -> Option<u32> {
        let at = self.place(name)?;
        let before = self.before.iter().find(|one| one.0 == name)?.1;
        for _ in 0..TRIES {
            let time = self.view.load_u64(at).ok()?;
            if [shared::NEVER, before].contains(&time) {
                return None;
            }
            let value = self.view.load_u32(at + offset).ok()?;
            if time != shared::BEING_WRITTEN && self.view.load_u64(at).ok()? == time {
                return Some(value);
            }
            std::hint::spin_loop();
        }
        None
    }

    fn read(&self, reading: &mut Reading) {
        let watts = |milliwatts: u32| f64::from(milliwatts) / 1e3;
        reading.core_mhz = self.dword("clkPublicDomainInfos", at::GRAPHICS_MHZ);
        reading.memory_mhz = self.dword("clkPublicDomainInfos", at::MEMORY_MHZ);
        let percent = self.dword("perfDevUtil", at::GPU_PERCENT);
        reading.percent = percent.map(|percent| percent & 0xff);
        reading.watts = self.dword("instPowerUsage", at::GPU_MW).map(watts);
        let most = self.dword("powerLimitGpu", at::ENFORCED_MW);
        reading.most_watts = most.filter(|most| *most != 0).map(watts);
        let name = match self.branch {
            Branch::R550 => "temperature",
            _ => "temperatures",
        };
        let celsius = self.dword(name, at::TEMPERATURE);
        reading.celsius = celsius.map(|one| f64::from(one.cast_signed()) / 256.0);
        reading.fan_rpm = self.dword("fanCoolerStatus", at::RPM);
    }
}
