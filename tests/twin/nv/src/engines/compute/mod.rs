//! The front end of compute: what methods set, and the grids that they start.
//!
//! - `qmd`: the structure that describes a grid; `limits`: what there is room for;
//! - `grid`: a grid that runs; `caches`: what multiprocessors remember; `release`: semaphores;
//! - `waiting`: grids that are to be counted down;
//! - `inline`: bytes of the push buffer; `load`: a QMD that comes in it.
//!
//! Source: open-gpu-doc, classes/compute/{clc6c0,clc7c0,clc9c0,clcbc0,clcdc0,clcec0}.h; Mesa,
//! src/nouveau/vulkan/nvk_cmd_dispatch.c; tinygrad, runtime/ops_nv.py.

mod caches;
mod grid;
mod inline;
mod limits;
mod load;
mod qmd;
mod release;
mod waiting;

use std::collections::BTreeMap;

use drivers_spec::nv::chip::{self as chips, Arch, Method as Named};
use drivers_spec::nv::compute::{
    self as spec, invalidate_shader_caches, invalidate_shader_caches_no_wfi, send_signaling_pcas_b,
    send_signaling_pcas2_b, set_render_enable_c,
};
use twin::rule::{Proof, Rule};
use twin::touched::Touched;
use twin_sass::warp::Windows;

use crate::chip::Chip;
use crate::rm::channel::Channel as Made;

use super::error::{Result, Stop, xid};
use super::host::Method;
use super::port::Port;
use super::registers::Registers;
use super::{Gpu, Notice};

use grid::{Grid, Setting};
use inline::Inline;
use load::Load;
use release::Release;

pub(super) use caches::Caches;
pub(super) use waiting::Waiting;

static METHOD: Rule = Rule {
    name: "COMPUTE-METHOD",
    text: "the twin knows a compute method of the class; unknown ones are ignored",
    source: "this twin: drivers_spec::nv::compute",
    proof: Proof::Twin,
};

static BITS: Rule = Rule {
    name: "COMPUTE-METHOD-BITS",
    text: "bits of a compute method without a field are 0",
    source: "open-gpu-doc, classes/compute/clc7c0.h",
    proof: Proof::Sourced,
};

static ACTION: Rule = Rule {
    name: "COMPUTE-PCAS",
    text: "SEND_SIGNALING_PCAS invalidates, schedules or decrements a QMD; other actions are not modelled",
    source: "this twin: src/engines/compute/mod.rs",
    proof: Proof::Twin,
};

static WINDOW: Rule = Rule {
    name: "COMPUTE-WINDOW",
    text: "the windows of shared and local memory are set before a grid starts, do not overlap and cover no mapping; \
           from Hopper on, the shared window starts at a multiple of 4 GiB",
    source: "Mesa, nvk_cmd_dispatch.c, SET_SHADER_SHARED_MEMORY_WINDOW; maxime-peim/libcuda-research, docs/findings.md: Xid 13 on an H100; NVIDIA, PTX ISA, generic addresses",
    proof: Proof::Sourced,
};

static RENDER: Rule = Rule {
    name: "COMPUTE-RENDER-NOT-MODELLED",
    text: "conditional rendering is not modelled",
    source: "this twin: src/engines/compute/mod.rs",
    proof: Proof::Twin,
};

/// What the channels of a group have in common, by client and handle of the group: where local memory
/// is. (NVIDIA's libcuda 550 says so in the first of its channels only, and starts grids in all of them.
/// Whether they share more is a guess: here, they do not.)
pub(crate) type Contexts = BTreeMap<(u32, u32), Registers>;

/// Compute, as a channel has it.
#[derive(Debug)]
pub(crate) struct Engine {
    registers: Registers,
    chip: &'static Chip,
    context: (u32, u32),
    /// The number of the address space.
    space: u64,
    inline: Option<Inline>,
    load: Load,
}

/// Methods that set what a group has in common.
const OF_GROUP: [Named; 6] = [
    spec::SET_SHADER_LOCAL_MEMORY_A,
    spec::SET_SHADER_LOCAL_MEMORY_B,
    spec::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A,
    spec::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B,
    spec::SET_SHADER_LOCAL_MEMORY_WINDOW_A,
    spec::SET_SHADER_LOCAL_MEMORY_WINDOW_B,
];

/// What was started.
#[derive(Debug)]
pub(crate) enum Job {
    Grid(Box<Grid>),
    /// The QMD there is counted down.
    CountDown(u64),
    Release(Release),
    Inline(Inline),
}

/// Whether a method has the scheduler of grids read a QMD. What the push buffer has written before is there
/// by then: NVIDIA's libcuda 550 writes QMDs of Hopper so, and waits for nothing.
pub(crate) fn reads_qmd(method: Method) -> bool {
    let reads = [spec::SEND_SIGNALING_PCAS_B, spec::SEND_SIGNALING_PCAS2_B];
    reads.iter().any(|one| one.dword() == method.dword)
}

impl Engine {
    pub fn new(chip: &'static Chip, made: &Made) -> Self {
        Self {
            registers: Registers::new(spec::METHODS),
            chip,
            context: (made.client, made.group.unwrap_or(made.handle)),
            space: made.space,
            inline: None,
            load: Load::default(),
        }
    }

    /// Takes a method. `idle` is whether all work is done.
    pub fn method(
        &mut self,
        port: &Port,
        gpu: &mut Gpu,
        method: Method,
        idle: bool,
    ) -> Result<Option<Job>> {
        let value = method.value;
        let Gpu {
            caches, contexts, ..
        } = gpu;
        let context = contexts.entry(self.context);
        let context = context.or_insert_with(|| Registers::new(spec::METHODS));
        let Some(named) = chips::method(spec::METHODS, port.arch, method.dword) else {
            let what = format!("{:#x} with {value:#x}", method.dword * 4);
            port.broken(&METHOD, what);
            return Ok(None);
        };
        let is = |other: &Named| other.dword() == method.dword;
        if (is(&spec::WAIT_FOR_IDLE) || is(&spec::INVALIDATE_SHADER_CACHES)) && !idle {
            return Err(Stop::Busy);
        }
        port.reserved(&BITS, named, value);
        let of_group = OF_GROUP.iter().any(is);
        let registers = if of_group {
            &mut *context
        } else {
            &mut self.registers
        };
        registers.set(method.dword, value);
        let r = &self.registers;
        if is(&spec::INVALIDATE_SHADER_CACHES) {
            use invalidate_shader_caches::{CONSTANT, INSTRUCTION};
            invalidate(caches, INSTRUCTION.get(value), CONSTANT.get(value));
        } else if is(&spec::INVALIDATE_SHADER_CACHES_NO_WFI) {
            use invalidate_shader_caches_no_wfi::{CONSTANT, INSTRUCTION};
            invalidate(caches, INSTRUCTION.get(value), CONSTANT.get(value));
        } else if is(&spec::SEND_SIGNALING_PCAS_B) {
            if send_signaling_pcas_b::SCHEDULE.get(value) != 0 {
                return self.schedule(port, context).map(Some);
            }
        } else if is(&spec::SEND_SIGNALING_PCAS2_B) {
            use send_signaling_pcas2_b as bits;
            return match bits::PCAS_ACTION.get(value) {
                bits::PCAS_ACTION_SCHEDULE
                | bits::PCAS_ACTION_INVALIDATE_COPY_SCHEDULE
                | bits::PCAS_ACTION_PREFETCH_SCHEDULE
                | bits::PCAS_ACTION_INVALIDATE_PREFETCH_COPY_SCHEDULE
                | bits::PCAS_ACTION_INVALIDATE_PREFETCH_COPY_FORCE_REQUIRE_SCHEDULING => {
                    self.schedule(port, context).map(Some)
                }
                bits::PCAS_ACTION_NOP
                | bits::PCAS_ACTION_INVALIDATE
                | bits::PCAS_ACTION_PREFETCH => Ok(None),
                bits::PCAS_ACTION_DECREMENT_DEPENDENCE => Ok(Some(Job::CountDown(self.qmd()))),
                action => {
                    let what = format!("PCAS_ACTION {action}");
                    Err(port.dead(&ACTION, xid::GR_CLASS, what))
                }
            };
        } else if is(&spec::SET_REPORT_SEMAPHORE_D) {
            return Release::report(port, r, value).map(|release| Some(Job::Release(release)));
        } else if is(&spec::REPORT_SEMAPHORE_EXECUTE) {
            return Release::execute(port, r, value).map(|release| Some(Job::Release(release)));
        } else if is(&spec::LAUNCH_DMA) {
            self.inline = Some(Inline::new(port, r, value, self.inline.take())?);
        } else if is(&spec::LOAD_INLINE_DATA) {
            let inline = Inline::load(port, &mut self.inline, value)?;
            return Ok(inline.map(Job::Inline));
        } else if let Some(index) = load::index(named, method.dword) {
            if let Some((va, words)) = self.load.word(port, &self.registers, index)? {
                let setting = self.setting(port, context)?;
                let grid = grid::make(port, self.chip, va, &words, setting)?;
                return Ok(Some(Job::Grid(Box::new(grid))));
            }
        } else if is(&spec::SET_RENDER_ENABLE_C) && value > set_render_enable_c::MODE_TRUE {
            let what = format!("SET_RENDER_ENABLE_C {value:#x}");
            return Err(port.dead(&RENDER, xid::GR_CLASS, what));
        }
        Ok(None)
    }

    /// A QMD is scheduled: it is read now.
    fn schedule(&self, port: &Port, context: &Registers) -> Result<Job> {
        let setting = self.setting(port, context)?;
        let grid = grid::read(port, self.chip, self.qmd(), setting)?;
        Ok(Job::Grid(Box::new(grid)))
    }

    /// Where the QMD is that is meant.
    fn qmd(&self) -> u64 {
        u64::from(self.registers.get(&spec::SEND_PCAS_A)) << 8
    }

    fn setting(&self, port: &Port, r: &Registers) -> Result<Setting> {
        Ok(Setting {
            space: self.space,
            windows: self.windows(port, r)?,
            local: (
                r.long(
                    &spec::SET_SHADER_LOCAL_MEMORY_A,
                    &spec::SET_SHADER_LOCAL_MEMORY_B,
                    spec::SET_SHADER_LOCAL_MEMORY_A.mask(port.arch),
                ),
                r.long(
                    &spec::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A,
                    &spec::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B,
                    u32::MAX,
                ),
            ),
        })
    }

    fn windows(&self, port: &Port, context: &Registers) -> Result<Windows> {
        let shared = self.registers.long(
            &spec::SET_SHADER_SHARED_MEMORY_WINDOW_A,
            &spec::SET_SHADER_SHARED_MEMORY_WINDOW_B,
            u32::MAX,
        );
        let local = context.long(
            &spec::SET_SHADER_LOCAL_MEMORY_WINDOW_A,
            &spec::SET_SHADER_LOCAL_MEMORY_WINDOW_B,
            u32::MAX,
        );
        let (unit, size) = match self.chip.arch >= Arch::Gh100 {
            true => (1 << 32, 1 << 32),
            false => (1 << 24, 1 << 24),
        };
        let apart = shared.abs_diff(local) >= if shared < local { size } else { 1 << 24 };
        let mut byte = [0];
        let mapped = [shared, local]
            .into_iter()
            .any(|base| port.bus.read(base, &mut byte).is_ok());
        if shared == 0 || local == 0 || !apart || mapped || !shared.is_multiple_of(unit) {
            let what = format!("shared at {shared:#x}, local at {local:#x}");
            return Err(port.dead(&WINDOW, xid::GR_EXCEPTION, what));
        }
        Ok(Windows { shared, local })
    }

    /// Does work; what it tells the kernel.
    pub fn run(
        &self,
        port: &Port,
        gpu: &mut Gpu,
        job: Job,
        touched: Option<&mut Touched>,
    ) -> Result<Vec<Notice>> {
        let Gpu {
            caches, waiting, ..
        } = gpu;
        match job {
            Job::Grid(grid) => grid.run(port, self.chip, caches, waiting, touched),
            Job::CountDown(va) => match waiting.less(port, self.space, va)? {
                Some(grid) => grid.run(port, self.chip, caches, waiting, None),
                None => Ok(Vec::new()),
            },
            Job::Release(release) => Ok(release.run(port)?.into_iter().collect()),
            Job::Inline(inline) => inline.run(port).map(|()| Vec::new()),
        }
    }
}

fn invalidate(caches: &mut Caches, code: u32, constants: u32) {
    if code != 0 {
        caches.invalidate_code();
    }
    if constants != 0 {
        caches.invalidate_constants();
    }
}
