//! What objects are asked: RM_CONTROL.
//!
//! Source: open-gpu-kernel-modules 580.142, src/nvidia/src/libraries/resserv/src/rs_resource.c,
//! resControlLookup; src/common/sdk/nvidia/inc/ctrl.

use drivers_spec::nv::abi::{self, Struct};
use drivers_spec::nv::{class, control, escape, query, status};
use twin::rule::{Proof, Rule};

use crate::chip::Chip;
use crate::errno::Result;
use crate::kernel::Machine;

use super::alloc::is_channel;
use super::{Call, Kind, Object, State};

pub(crate) static UNKNOWN: Rule = Rule {
    name: "RM-CONTROL-NOT-MODELLED",
    text: "the twin models the control",
    source: "this twin: src/rm/control.rs",
    proof: Proof::Twin,
};

pub(crate) static CLASS: Rule = Rule {
    name: "RM-CONTROL-CLASS",
    text: "a control is sent to an object of its class",
    source: "open-gpu-kernel-modules, rs_resource.c, resControlLookup: NV_ERR_NOT_SUPPORTED",
    proof: Proof::Sourced,
};

pub(crate) static SIZE: Rule = Rule {
    name: "RM-CONTROL-SIZE",
    text: "paramsSize is the size of the branch's struct",
    source: "open-gpu-kernel-modules, rs_resource.c, resControlLookup: NV_ERR_INVALID_PARAM_STRUCT",
    proof: Proof::Sourced,
};

pub(crate) static VALUE: Rule = Rule {
    name: "RM-CONTROL-VALUE",
    text: "a control has valid values: a GPU's ID, lists of at least 1 element, existing formats and indices",
    source: "open-gpu-kernel-modules, gpu_mgr.c, gpumgrGetGpuIdInfoV2; subdevice_ctrl_gpu_kernel.c, subdeviceCtrlCmdGpuGetGidInfo, subdeviceCtrlCmdGpuGetPids, subdeviceCtrlCmdGpuGetPidInfo; kernel_graphics.c",
    proof: Proof::Sourced,
};

/// The ID of a GPU: its place on the bus.
pub(crate) fn gpu_id(gpu: usize) -> u32 {
    (gpu as u32 + 1) << 8
}

/// The UUID of a GPU. Of this model's choice: cards have numbers of their own.
pub(crate) fn uuid(machine: &Machine, gpu: usize) -> [u8; 16] {
    let mut uuid = *b"doorbell twin 00";
    uuid[13] = gpu as u8;
    uuid[14..].copy_from_slice(&machine.config.chips[gpu].device_id.to_le_bytes());
    uuid
}

/// `NV2080_CTRL_FB_INFO_INDEX_*`, ctrl2080fb.h: the same in every branch.
mod fb_info {
    pub(super) const BAR1_SIZE: u32 = 0x5;
    pub(super) const RAM_SIZE: u32 = 0x7;
    pub(super) const TOTAL_RAM_SIZE: u32 = 0x8;
    pub(super) const HEAP_SIZE: u32 = 0x9;
    pub(super) const BUS_WIDTH: u32 = 0xb;
    pub(super) const RAM_TYPE: u32 = 0xd;
    pub(super) const FB_TAX_SIZE_KB: u32 = 0x10;
    pub(super) const HEAP_FREE: u32 = 0x16;
    pub(super) const RAM_LOCATION: u32 = 0x17;
    pub(super) const FB_IS_BROKEN: u32 = 0x18;
    pub(super) const FBP_COUNT: u32 = 0x19;
    pub(super) const FBP_MASK: u32 = 0x1a;
    pub(super) const L2CACHE_SIZE: u32 = 0x1b;
    pub(super) const BAR1_AVAIL_SIZE: u32 = 0x1d;
    pub(super) const USABLE_RAM_SIZE: u32 = 0x20;
    pub(super) const LTC_COUNT: u32 = 0x22;
    pub(super) const LTS_COUNT: u32 = 0x23;
}

/// Where the registers and the window to memory of a GPU are, and how long. The places are of this model's
/// choice.
pub(crate) fn bars(chip: &Chip, gpu: usize) -> [(u64, u64); 2] {
    let gpu = gpu as u64;
    [
        (0xa000_0000 + (gpu << 25), 16 << 20),
        ((gpu + 1) << 40, chip.bar1_mib << 20),
    ]
}

/// Whether a control, by the class in its number, is for objects of a class.
fn is_for(control: u32, class: u32) -> bool {
    match control >> 16 {
        0 => class == class::NV01_ROOT_CLIENT.number,
        0x80 => class == class::NV01_DEVICE_0.number,
        0x906f | 0xa06f | 0xc36f => is_channel(class),
        other => other == class,
    }
}

impl Call<'_> {
    /// The name of a control, which is checked; none where it has none, and is done.
    fn known(&self, args: &escape::Control, class: u32) -> Result<Option<&'static str>> {
        let branch = self.machine.branch();
        let Some(known) = abi::find(control::CONTROLS, branch, args.cmd) else {
            if is_for(args.cmd, class)
                && let Some(done) = self.without_name(args.cmd, args.params_size)
            {
                return done.map(|()| None);
            }
            let what = format!("control {:#x} of class {class:#x}", args.cmd);
            let unsupported = status::NV_ERR_NOT_SUPPORTED;
            return self.machine.refuse(&UNKNOWN, unsupported, what);
        };
        let named = |what: String| format!("{}: {what}", known.name);
        if !is_for(args.cmd, class) {
            let what = named(format!("of class {class:#x}"));
            let unsupported = status::NV_ERR_NOT_SUPPORTED;
            return self.machine.refuse(&CLASS, unsupported, what);
        }
        let expected = known.layout.map_or(0, |layout| layout.size(branch)) as u32;
        if args.params_size != expected {
            let what = named(format!("{} bytes, expected {expected}", args.params_size));
            let invalid = status::NV_ERR_INVALID_PARAM_STRUCT;
            return self.machine.refuse(&SIZE, invalid, what);
        }
        Ok(Some(known.name))
    }

    /// Controls that tell what went wrong, and that begin again.
    fn of_fault(&self, state: &mut State, args: &escape::Control, gpu: usize) -> Option<Result> {
        let is = |one: abi::Call| one.number == args.cmd;
        let (client, object, at) = (args.h_client, args.h_object, args.params);
        Some(match args.cmd {
            _ if is(control::NV906F_CTRL_CMD_GET_MMU_FAULT_INFO) => self.answer(at, |params| {
                self.mmu_fault(state, client, object, params);
                Ok(())
            }),
            _ if is(control::NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO) => {
                self.answer(at, |params| {
                    self.mmu_faults(state, client, params);
                    Ok(())
                })
            }
            _ if is(control::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES) => {
                self.answer(at, |params| self.sm_states(state, client, gpu, params))
            }
            _ if is(control::NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES) => {
                let params = self.process.get(at);
                params.map(|params| self.clear_sm_states(state, client, &params))
            }
            _ if is(control::NV906F_CTRL_CMD_RESET_CHANNEL) => {
                let params = self.process.get(at);
                params.and_then(|params| self.reset_channel(state, client, object, &params))
            }
            _ => return None,
        })
    }

    /// RM_CONTROL.
    pub(crate) fn control(&self, args: &escape::Control) -> Result {
        let mut state = self.machine.state();
        self.client(&state, args.h_client)?;
        let object = self.object(&state, args.h_client, args.h_object)?;
        let (class, gpu) = (object.class, object.gpu);
        if let Some(gpu) = gpu
            && class == class::NV20_SUBDEVICE_0.number
            && args.params_size == 0
        {
            let by = (args.h_client, args.h_object);
            let acquire = control::ACQUIRE_COMPUTE_MODE_RESERVATION;
            if args.cmd == acquire.number {
                self.machine.inject(acquire.name)?;
            }
            if let Some(done) = self.reservation(&mut state, gpu, by, args.cmd) {
                return done;
            }
        }
        let Some(name) = self.known(args, class)? else {
            return Ok(());
        };
        self.machine.inject(name)?;
        let at = args.params;
        let is = |one: abi::Call| one.number == args.cmd;
        let Some(gpu) = gpu else {
            return self.of_client(&state, args.h_client, args.cmd, at);
        };
        if is(control::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE)
            || is(control::NVA06F_CTRL_CMD_GPFIFO_SCHEDULE)
        {
            let params = self.process.get(at)?;
            return self.schedule(&mut state, args.h_client, args.h_object, &params);
        }
        if is(control::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN) {
            return self.token(&state, args, at);
        }
        if is(control::NVA06C_CTRL_CMD_BIND) || is(control::NVA06F_CTRL_CMD_BIND) {
            return self.bind(object_of(&state, args), at);
        }
        if is(control::NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST) {
            return self.answer(at, |params| {
                self.channel_list(&state, args.h_client, params)
            });
        }
        if is(control::NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE) {
            return self.answer(at, |params| self.preemption(&state, args.h_client, params));
        }
        if is(control::NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE) {
            return self.answer(at, |params| self.buffers(&state, args.h_client, params));
        }
        if is(control::NVC36F_CTRL_GET_CLASS_ENGINEID) {
            return self.answer(at, |params| self.class_engine(&state, args, params));
        }
        if is(control::NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS) {
            return self.disable(&mut state, at);
        }
        if is(control::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION) {
            let params = self.process.get(at)?;
            return self.notify(&mut state, args.h_client, args.h_object, &params);
        }
        if is(control::NV2080_CTRL_CMD_EVENT_SET_TRIGGER_FIFO) {
            let params: control::EventSetTriggerFifo = self.process.get(at)?;
            state.trigger(self.machine, gpu, params.h_event);
            return Ok(());
        }
        if is(control::NV2080_CTRL_CMD_FB_GET_INFO_V2) {
            return self.fb_info(&mut state, gpu, at);
        }
        if is(control::NV2080_CTRL_CMD_GPU_GET_PIDS) {
            return self.answer(at, |params| self.pids(&state, gpu, params));
        }
        if is(control::NV2080_CTRL_CMD_GPU_GET_PID_INFO) {
            return self.answer(at, |params| self.pid_info(&state, gpu, params));
        }
        if let Some(done) = self.of_fault(&mut state, args, gpu) {
            return done;
        }
        drop(state);
        if let Some(done) = self.fact(gpu, args.cmd, at) {
            return done;
        }
        self.of_gpu(gpu, args.cmd, at)
    }

    /// Reads parameters, answers, and writes them back.
    pub(super) fn answer<T: Struct>(&self, at: u64, fill: impl FnOnce(&mut T) -> Result) -> Result {
        let mut params = self.process.get::<T>(at)?;
        fill(&mut params)?;
        self.process.put(at, &params)
    }

    pub(super) fn value<T>(&self, what: String) -> Result<T> {
        let invalid = status::NV_ERR_INVALID_ARGUMENT;
        self.machine.refuse(&VALUE, invalid, what)
    }

    /// A list of questions about memory: sizes in KiB, that of the cache in bytes.
    fn fb_info(&self, state: &mut State, gpu: usize, at: u64) -> Result {
        super::memory::count(state);
        let chip = self.machine.config.chips[gpu];
        let all = (chip.vram() >> 10) as u32;
        let free = ((chip.vram() - state.used[gpu]) >> 10) as u32;
        let bar = (bars(chip, gpu)[1].1 >> 10) as u32;
        let partitions = chip.partitions();
        self.answer::<control::FbGetInfoV2>(at, |params| {
            let count = params.fb_info_list_size as usize;
            let Some(list) = params.fb_info_list.get_mut(..count) else {
                return self.value(format!("a list of {count}"));
            };
            for info in list {
                info.data = match info.index {
                    fb_info::BAR1_SIZE | fb_info::BAR1_AVAIL_SIZE => bar,
                    fb_info::RAM_SIZE
                    | fb_info::TOTAL_RAM_SIZE
                    | fb_info::HEAP_SIZE
                    | fb_info::USABLE_RAM_SIZE => all,
                    fb_info::HEAP_FREE => free,
                    fb_info::BUS_WIDTH => chip.bus_bits,
                    fb_info::L2CACHE_SIZE => chip.l2_kib << 10,
                    fb_info::RAM_TYPE => chip.ram_type,
                    // None is kept back, and none is broken.
                    fb_info::FB_TAX_SIZE_KB | fb_info::RAM_LOCATION | fb_info::FB_IS_BROKEN => 0,
                    fb_info::FBP_COUNT => partitions,
                    fb_info::FBP_MASK => (1 << partitions) - 1,
                    fb_info::LTC_COUNT => 2 * partitions,
                    fb_info::LTS_COUNT => 8 * partitions,
                    index => return self.unknown_index("FB_GET_INFO_V2", index),
                };
            }
            Ok(())
        })
    }

    pub(super) fn not_modelled(&self, cmd: u32) -> Result {
        let what = format!("control {cmd:#x}");
        let unsupported = status::NV_ERR_NOT_SUPPORTED;
        self.machine.refuse(&UNKNOWN, unsupported, what)
    }

    /// Controls that tell about the engine of graphics and compute.
    fn of_graphics(&self, chip: &Chip, cmd: u32, at: u64) -> Option<Result> {
        let is = |one: abi::Call| one.number == cmd;
        Some(match cmd {
            _ if is(control::NV2080_CTRL_CMD_GR_GET_INFO) => self.gr_info(chip, at),
            _ if is(control::NV2080_CTRL_CMD_GR_GET_INFO_V2) => self
                .answer::<control::GrGetInfoV2>(at, |params| {
                    let count = params.gr_info_list_size as usize;
                    let Some(list) = params.gr_info_list.get_mut(..count) else {
                        return self.value(format!("a list of {count}"));
                    };
                    list.iter_mut()
                        .try_for_each(|info| self.one_info(chip, info))
                }),
            _ if is(control::NV2080_CTRL_CMD_GR_GET_GPC_MASK) => {
                self.answer::<control::GrGpcMask>(at, |params| {
                    params.gpc_mask = (1 << chip.tpcs.len()) - 1;
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_GR_GET_TPC_MASK) => {
                self.answer::<control::GrTpcMask>(at, |params| {
                    match chip.tpcs.get(params.gpc_id as usize) {
                        Some(tpcs) => params.tpc_mask = (1 << tpcs) - 1,
                        None => return self.value(format!("GPC {}", params.gpc_id)),
                    }
                    Ok(())
                })
            }
            _ => return None,
        })
    }

    /// Controls that tell about a GPU.
    fn of_gpu(&self, gpu: usize, cmd: u32, at: u64) -> Result {
        let chip = self.machine.config.chips[gpu];
        if let Some(done) = self.of_graphics(chip, cmd, at) {
            return done;
        }
        let is = |one: abi::Call| one.number == cmd;
        match cmd {
            _ if is(control::NV0080_CTRL_CMD_GPU_GET_CLASSLIST) => self.class_list(chip, at),
            _ if is(control::NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2) => self
                .answer::<control::ClassListV2>(at, |params| {
                    params.num_classes = 0;
                    for (to, class) in params.class_list.iter_mut().zip(self.classes(chip)) {
                        *to = class;
                        params.num_classes += 1;
                    }
                    Ok(())
                }),
            _ if is(control::NV0080_CTRL_CMD_FIFO_IDLE_CHANNELS) => {
                self.answer::<control::FifoIdleChannels>(at, |_| Ok(()))
            }
            _ if is(control::NV2080_CTRL_CMD_GPU_GET_GID_INFO) => {
                self.answer::<control::GidInfo>(at, |params| {
                    // Bit 1: binary; the kinds of SHA are in the bits above.
                    if params.index != 0 || params.flags & 3 != 2 {
                        let what = format!("index {}, flags {}", params.index, params.flags);
                        return self.value(what);
                    }
                    params.length = 16;
                    params.data[..16].copy_from_slice(&uuid(self.machine, gpu));
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_GPU_GET_ENGINES_V2) => self
                .answer::<control::Engines>(at, |params| {
                    params.engine_count = 0;
                    for (to, engine) in params.engine_list.iter_mut().zip(chip.engines()) {
                        *to = engine;
                        params.engine_count += 1;
                    }
                    Ok(())
                }),
            _ if is(control::NV2080_CTRL_CMD_MC_GET_ARCH_INFO) => {
                self.answer::<control::ArchInfo>(at, |params| {
                    (params.architecture, params.implementation) = chip.id;
                    params.revision = 0xa1;
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_CE_GET_ALL_CAPS) => {
                self.answer::<control::CeAllCaps>(at, |params| {
                    let present = (1_u64 << chip.copy_engines) - 1;
                    params.present = present;
                    params.present32 = present as u32;
                    for (copy, caps) in params.caps_tbl.iter_mut().enumerate() {
                        let engine = class::engine::COPY0 + copy as u32;
                        let there = (copy as u32) < chip.copy_engines;
                        *caps = [u8::from(there && chip.runlist(engine) == 0), 0];
                    }
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO) => self
                .answer::<control::PciBarInfo>(at, |params| {
                    params.pci_bar_count = 2;
                    for (bar, (offset, bytes)) in bars(chip, gpu).into_iter().enumerate() {
                        let to = &mut params.pci_bar_info[bar];
                        (to.bar_offset, to.bar_size_bytes) = (offset, bytes);
                        to.bar_size = (bytes >> 20) as u32;
                    }
                    Ok(())
                }),
            _ if is(control::NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO) => {
                self.answer::<control::TimeCorrelation>(at, |params| {
                    let count = usize::from(params.sample_count);
                    let Some(samples) = params.samples.get_mut(..count) else {
                        return self.value(format!("{count} samples"));
                    };
                    for sample in samples {
                        sample.gpu_time = self.machine.clock();
                        sample.cpu_time = sample.gpu_time;
                    }
                    Ok(())
                })
            }
            _ if is(control::NV2080_CTRL_CMD_FB_FLUSH_GPU_CACHE) => self
                .answer::<control::FbFlushGpuCache>(at, |params| {
                    match params.address_array_size as usize <= params.address_array.len() {
                        true => Ok(()),
                        false => self.value(format!("{} addresses", params.address_array_size)),
                    }
                }),
            _ if is(control::NV2080_CTRL_CMD_PERF_BOOST) => {
                self.answer::<control::PerfBoost>(at, |params| match params.flags & 3 {
                    0..=2 => Ok(()),
                    command => self.value(format!("command {command}")),
                })
            }
            _ => self.not_modelled(cmd),
        }
    }

    /// The classes of a chip that the branch has.
    fn classes(&self, chip: &'static Chip) -> impl Iterator<Item = u32> + use<> {
        let branch = self.machine.branch();
        let has = move |class: &abi::Call| class.on.has(branch);
        chip.classes().filter(has).map(|class| class.number)
    }

    /// How many classes there are, or which.
    fn class_list(&self, chip: &'static Chip, at: u64) -> Result {
        self.answer::<control::ClassList>(at, |params| {
            let all: Vec<u32> = self.classes(chip).collect();
            if params.class_list != 0 {
                if (params.num_classes as usize) < all.len() {
                    return self.value(format!(
                        "room for {} of {} classes",
                        params.num_classes,
                        all.len()
                    ));
                }
                let bytes: Vec<u8> = all.iter().flat_map(|class| class.to_le_bytes()).collect();
                self.process.memory().write(params.class_list, &bytes)?;
            }
            params.num_classes = all.len() as u32;
            Ok(())
        })
    }

    /// A list of questions, elsewhere in memory.
    fn gr_info(&self, chip: &Chip, at: u64) -> Result {
        let params = self.process.get::<control::GrGetInfo>(at)?;
        let count = u64::from(params.gr_info_list_size);
        if count == 0 || count > 64 {
            return self.value(format!("a list of {count}"));
        }
        for i in 0..count {
            let offset = i * size_of::<query::Info>() as u64;
            let at = params.gr_info_list.wrapping_add(offset);
            self.answer(at, |info| self.one_info(chip, info))?;
        }
        Ok(())
    }

    fn one_info(&self, chip: &Chip, info: &mut query::Info) -> Result {
        info.data = self.gr_fact(chip, info.index)?;
        Ok(())
    }

    /// A list has a question that the twin does not know.
    pub(super) fn unknown_index<T>(&self, list: &str, index: u32) -> Result<T> {
        let what = format!("index {index} of {list}");
        let unsupported = status::NV_ERR_NOT_SUPPORTED;
        self.machine.refuse(&UNKNOWN, unsupported, what)
    }

    /// What the doorbell takes.
    fn token(&self, state: &State, args: &escape::Control, at: u64) -> Result {
        match &object_of(state, args).map(|object| &object.kind) {
            Some(Kind::Channel(channel)) => self.answer::<control::WorkSubmitToken>(at, |params| {
                params.work_submit_token = channel.token;
                Ok(())
            }),
            _ => self.no_object(args.h_client, args.h_object),
        }
    }

    /// BIND says again which engine a channel or a group is for.
    fn bind(&self, object: Option<&Object>, at: u64) -> Result {
        let params = self.process.get::<control::Bind>(at)?;
        let engine = match object.map(|object| &object.kind) {
            Some(Kind::Channel(channel)) => channel.engine,
            Some(Kind::Group(group)) => group.engine,
            _ => class::engine::NULL,
        };
        match params.engine_type == engine {
            true => Ok(()),
            false => self.value(format!("engine {:#x} of {engine:#x}", params.engine_type)),
        }
    }

    /// FIFO_DISABLE_CHANNELS.
    fn disable(&self, state: &mut State, at: u64) -> Result {
        let params = self.process.get::<control::DisableChannels>(at)?;
        let count = params.num_channels as usize;
        let all = params.h_client_list.iter().zip(&params.h_channel_list);
        if count > params.h_client_list.len() {
            return self.value(format!("{count} channels"));
        }
        for (&client, &handle) in all.take(count) {
            self.client(state, client)?;
            match state.channel_mut(client, handle) {
                Some(channel) => channel.scheduled = params.disable == 0,
                None => return self.no_object(client, handle),
            }
        }
        Ok(())
    }
}

fn object_of<'s>(state: &'s State, args: &escape::Control) -> Option<&'s Object> {
    state.object(args.h_client, args.h_object)
}
