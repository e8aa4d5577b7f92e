//! The graphics block before it has queues: what the RLC loads, where the command processors start, apertures of
//! shaders, resets. What GRBM_GFX_CNTL selects decides which of several registers of a name is meant.

use std::collections::BTreeMap;
use std::thread::ThreadId;

use drivers_spec::amd::mmio::gc;
use drivers_spec::amd::packet::Gfx;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::hqd::{Bank, Hqd};
use super::mes::Mes;
use super::registers::{At, Hook, hold};
use super::state::{State, put};
use super::wait::{Looks, Wait};
use super::{hqd, mes, sdma};

/// The command processors have firmware before they are programmed.
pub static AUTOLOAD: Rule = Rule {
    name: "GFX-AUTOLOAD",
    text: "command processors, SDMA and their queues are programmed after the driver has seen CP_STAT 0 and \
           BOOTLOAD_COMPLETE",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gfx_v11_0.c, gfx_v11_0_wait_for_rlc_autoload_complete",
    proof: Proof::Sourced,
};

/// Firmware of RS64 processors starts where its header says.
pub static ENTRY: Rule = Rule {
    name: "GFX-RS64-ENTRY",
    text: "a pipe of MEC starts after a reset pulse, during which PRGRM_CNTR_START of that pipe has the start of the \
           firmware, in dwords",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_config_gfx_rs64; the start in gfx_firmware_header_v2_0 of gc_11_0_{0,2,3}_mec.bin and gc_12_0_{0,1}_mec.bin",
    proof: Proof::Sourced,
};

/// The RLC answers once it runs.
pub static SAFE_MODE: Rule = Rule {
    name: "GFX-SAFE-MODE",
    text: "RLC_SAFE_MODE is written while the RLC runs, with CMD, after it has cleared CMD of the previous message",
    source: "Linux, gfx_v11_0.c, gfx_v11_0_set_safe_mode: waits for CMD to be cleared; gfx_v11_0_rlc_start",
    proof: Proof::Sourced,
};

/// Where firmware of all RS64 processors starts, in bytes.
const START: u64 = 0x7_0000_0000_3000;

/// Pipes that a micro engine has at most.
const PIPES: usize = 4;

/// How far the firmware of the command processors is.
#[derive(Clone, Copy, Debug)]
enum Firmware {
    Absent,
    /// The RLC loads it; then it has that long to go.
    Loads(Looks, Looks),
    /// It is there, and initializes itself.
    Begins(Looks),
    Runs,
}

/// A pipe of the first micro engine for compute.
#[derive(Clone, Copy, Default, Debug)]
struct Pipe {
    /// Where it starts, as it was when its reset was on.
    start: Option<u64>,
    runs: bool,
}

/// One XCC.
pub(super) struct Xcc {
    firmware: Firmware,
    safe_mode: Looks,
    pipes: [Pipe; PIPES],
    /// PRGRM_CNTR_START of what has been selected, low and high.
    starts: BTreeMap<(u32, u32), [u32; 2]>,
    /// SH_MEM_CONFIG and SH_MEM_BASES of each VMID.
    memory: [[u32; 2]; 16],
    /// The time that it was asked to hold.
    pub(super) clock: Option<u64>,
    pub(super) hqds: BTreeMap<Bank, Hqd>,
    /// Who wrote GRBM_GFX_CNTL last: others ring doorbells meanwhile, as programs do beside Linux, which locks selections
    /// among each other alone.
    pub(super) selector: Option<ThreadId>,
}

impl Xcc {
    fn new() -> Xcc {
        Xcc {
            firmware: Firmware::Absent,
            safe_mode: Looks::default(),
            pipes: Default::default(),
            starts: BTreeMap::new(),
            memory: Default::default(),
            clock: None,
            hqds: BTreeMap::new(),
            selector: None,
        }
    }

    /// SH_MEM_CONFIG and SH_MEM_BASES of a VMID.
    pub(super) fn memory(&self, vmid: u32) -> [u32; 2] {
        self.memory.get(vmid as usize).copied().unwrap_or_default()
    }

    /// Whether a pipe of a micro engine takes packets.
    pub(super) fn runs(&self, pipe: u32) -> bool {
        self.pipes.get(pipe as usize).is_some_and(|pipe| pipe.runs)
    }

    /// Whether the firmware has started.
    pub(super) fn is_loaded(&self) -> bool {
        match self.firmware {
            Firmware::Absent => false,
            Firmware::Loads(loads, begins) => loads.is_done() && begins.is_done(),
            Firmware::Begins(begins) => begins.is_done(),
            Firmware::Runs => true,
        }
    }
}

/// The graphics block.
pub(super) struct Graphics {
    pub(super) xccs: Vec<Xcc>,
}

impl Graphics {
    /// After power has come.
    pub(super) fn new(xccs: usize) -> Graphics {
        Graphics {
            xccs: (0..xccs).map(|_| Xcc::new()).collect(),
        }
    }
}

pub(super) const HOOKS: &[Hook] = &[
    Hook::read(&gc::RLC_RLCS_BOOTLOAD_STATUS, read_bootload),
    Hook::read(&gc::CP_STAT, read_stat),
    Hook::write(&gc::CP_ME1_PIPE0_INT_CNTL, write_ends),
    Hook::both(&gc::RLC_SAFE_MODE, read_safe_mode, write_safe_mode),
    Hook::write(&gc::CP_MEC_RS64_PRGRM_CNTR_START, write_start),
    Hook::write(&gc::CP_MEC_RS64_PRGRM_CNTR_START_HI, write_start_high),
    Hook::write(&gc::CP_PFP_PRGRM_CNTR_START, program),
    Hook::write(&gc::CP_PFP_PRGRM_CNTR_START_HI, program),
    Hook::write(&gc::CP_ME_PRGRM_CNTR_START, program),
    Hook::write(&gc::CP_ME_PRGRM_CNTR_START_HI, program),
    Hook::write(&gc::CP_ME_CNTL, program),
    Hook::write(&gc::CP_MEC_CNTL, write_mec),
    Hook::write(&gc::CP_MEC_RS64_CNTL, write_rs64),
    Hook::both(&gc::SH_MEM_CONFIG, read_memory, write_memory),
    Hook::both(&gc::SH_MEM_BASES, read_memory, write_memory),
    Hook::write(&gc::GRBM_SOFT_RESET, write_soft_reset),
    Hook::write(&gc::GRBM_GFX_CNTL, write_selection),
];

/// What GRBM_GFX_CNTL selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Selected {
    pub(super) me: u32,
    pub(super) pipe: u32,
    pub(super) queue: u32,
    pub(super) vmid: u32,
}

fn write_selection(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    xcc(state, at)?.selector = Some(std::thread::current().id());
    hold(state, at, value)
}

/// What is selected on an XCC.
pub(super) fn selected(state: &State, xcc: u8) -> Selected {
    let field = |name| state.field(&gc::GRBM_GFX_CNTL, xcc, name);
    Selected {
        me: field("meid"),
        pipe: field("pipeid"),
        queue: field("queueid"),
        vmid: field("vmid"),
    }
}

/// The XCC that a register is of.
pub(super) fn xcc(state: &mut State, at: At) -> Result<&mut Xcc, Broken> {
    let found = state.graphics.xccs.get_mut(usize::from(at.instance));
    // Registers are made from the same blocks.
    found.ok_or_else(|| (&super::card::REGISTER, format!("no XCC {}", at.instance)))
}

/// The PSP has all firmware of the block: the RLC loads it.
pub(super) fn autoload(state: &mut State) {
    let looks = state.waits(Wait::Autoload);
    for xcc in &mut state.graphics.xccs {
        xcc.firmware = Firmware::Loads(looks, looks);
    }
}

/// The XCCs show themselves as so many GPUs. Whether they can.
pub(super) fn partition(state: &mut State, gpus: u32) -> bool {
    let xccs = state.graphics.xccs.len() as u32;
    let Some(of) = xccs.checked_div(gpus).filter(|of| of * gpus == xccs) else {
        return false;
    };
    for xcc in 0..xccs {
        let number = put(
            &gc::CP_HYP_XCP_CTL,
            state.gfx,
            0,
            "virtual_xcc_id",
            xcc % of,
        );
        let control = put(&gc::CP_HYP_XCP_CTL, state.gfx, number, "num_xcc_in_xcp", of);
        state.registers.set(&gc::CP_HYP_XCP_CTL, xcc as u8, control);
    }
    true
}

/// The vendor's kernel driver has it running.
pub(super) fn leave_running(state: &mut State) {
    for xcc in &mut state.graphics.xccs {
        xcc.firmware = Firmware::Runs;
    }
}

/// Refuses what comes before the firmware has started.
pub(super) fn is_loaded(state: &mut State, at: At) -> Result<(), Broken> {
    let what = format!("{} is written", at.reg.word.name);
    match xcc(state, at)?.is_loaded() {
        true => Ok(()),
        false => Err((&AUTOLOAD, what)),
    }
}

fn program(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    is_loaded(state, at)?;
    hold(state, at, value)
}

fn read_bootload(state: &mut State, at: At) -> Result<u32, Broken> {
    let xcc = xcc(state, at)?;
    if let Firmware::Loads(loads, begins) = &mut xcc.firmware
        && loads.look()
    {
        xcc.firmware = Firmware::Begins(*begins);
    }
    Ok(match xcc.firmware {
        Firmware::Absent | Firmware::Loads(..) => 0,
        // Complete, and all that leads to it.
        Firmware::Begins(_) | Firmware::Runs => 0x8000_001f,
    })
}

fn write_ends(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let on = state.field_of(at.reg, value, "time_stamp_int_enable") == 1;
    state.engines.interrupt_at_ends(on);
    hold(state, at, value)
}

fn read_stat(state: &mut State, at: At) -> Result<u32, Broken> {
    let has_status = state.gfx != Gfx::Gfx9;
    let xcc = xcc(state, at)?;
    let begun = match &mut xcc.firmware {
        Firmware::Begins(begins) => begins.look(),
        Firmware::Loads(loads, _) => !has_status && loads.look(),
        Firmware::Absent | Firmware::Runs => false,
    };
    if begun {
        xcc.firmware = Firmware::Runs;
    }
    Ok(match xcc.firmware {
        Firmware::Absent | Firmware::Runs => 0,
        Firmware::Loads(..) | Firmware::Begins(_) if !xcc.is_loaded() => 1 << 31,
        Firmware::Loads(..) | Firmware::Begins(_) => 0,
    })
}

fn read_safe_mode(state: &mut State, at: At) -> Result<u32, Broken> {
    let value = state.registers.get(at.reg, at.instance);
    let done = xcc(state, at)?.safe_mode.look();
    if done && value & 1 == 1 {
        hold(state, at, value & !1)?;
        return Ok(value & !1);
    }
    Ok(value)
}

fn write_safe_mode(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let broken = |what: &str| Err((&SAFE_MODE, format!("{value:#x} is written {what}")));
    let runs = state.field(&gc::RLC_CNTL, at.instance, "rlc_enable_f32") == 1;
    if !runs || !xcc(state, at)?.is_loaded() {
        return broken("and the RLC does not run");
    }
    let before = state.registers.get(at.reg, at.instance);
    if before & 1 == 1 && !xcc(state, at)?.safe_mode.is_done() {
        return broken("while the message before is not taken");
    }
    if value & 1 == 0 {
        return broken("without CMD");
    }
    let looks = state.waits(Wait::SafeMode);
    xcc(state, at)?.safe_mode = looks;
    hold(state, at, value)
}

fn write_start(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    start(state, at, 0, value)
}

fn write_start_high(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    start(state, at, 1, value)
}

fn start(state: &mut State, at: At, half: usize, value: u32) -> Result<(), Broken> {
    is_loaded(state, at)?;
    let Selected { me, pipe, .. } = selected(state, at.instance);
    let starts = &mut xcc(state, at)?.starts;
    starts.entry((me, pipe)).or_default()[half] = value;
    hold(state, at, value)
}

/// How many pipes a micro engine for compute has, and queues each of them.
///
/// Source: Linux, gfx_v9_4_3.c, gfx_v11_0.c, gfx_v12_0.c: `num_pipe_per_mec`, `num_queue_per_pipe`.
pub(super) fn units(gfx: Gfx) -> (u32, u32) {
    match gfx {
        Gfx::Gfx9 => (4, 8),
        Gfx::Gfx10 | Gfx::Gfx11 => (4, 4),
        Gfx::Gfx12 => (2, 4),
    }
}

/// MEC before RS64.
fn write_mec(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    if state.gfx != Gfx::Gfx9 {
        return program(state, at, value);
    }
    is_loaded(state, at)?;
    let halted = state.field_of(at.reg, value, "mec_me1_halt") == 1;
    for pipe in 0..PIPES {
        let name = format!("mec_me1_pipe{pipe}_reset");
        let in_reset = state.field_of(at.reg, value, &name) == 1;
        set_runs(state, at, pipe, !halted && !in_reset)?;
    }
    hold(state, at, value)
}

fn write_rs64(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    is_loaded(state, at)?;
    let field = |state: &State, name: &str| state.field_of(at.reg, value, name) == 1;
    let halted = field(state, "mec_halt");
    let (pipes, _) = units(state.gfx);
    for pipe in 0..pipes as usize {
        let in_reset = field(state, &format!("mec_pipe{pipe}_reset"));
        let active = field(state, &format!("mec_pipe{pipe}_active"));
        let xcc = xcc(state, at)?;
        if in_reset {
            let start = xcc.starts.get(&(1, pipe as u32));
            xcc.pipes[pipe].start =
                start.map(|[low, high]| u64::from(*high) << 32 | u64::from(*low));
        }
        let runs = active && !in_reset && !halted;
        let start = xcc.pipes[pipe].start;
        if runs && start != Some(START >> 2) {
            let at = start.map_or("without a pulse of its reset".to_owned(), |start| {
                format!("at {:#x}", start << 2)
            });
            return Err((
                &ENTRY,
                format!("pipe {pipe} would start {at}, not at {START:#x}"),
            ));
        }
        set_runs(state, at, pipe, runs)?;
    }
    hold(state, at, value)
}

/// A pipe that stops loses what its queues did.
fn set_runs(state: &mut State, at: At, pipe: usize, runs: bool) -> Result<(), Broken> {
    let before = std::mem::replace(&mut xcc(state, at)?.pipes[pipe].runs, runs);
    if before && !runs {
        hqd::stop(state, at.instance, |bank| {
            bank.me != mes::ME && bank.pipe as usize == pipe
        });
    }
    Ok(())
}

fn memory_of(state: &mut State, at: At) -> Result<&mut u32, Broken> {
    let vmid = selected(state, at.instance).vmid as usize;
    let which = usize::from(at.is(&gc::SH_MEM_BASES));
    Ok(&mut xcc(state, at)?.memory[vmid & 15][which])
}

fn read_memory(state: &mut State, at: At) -> Result<u32, Broken> {
    Ok(*memory_of(state, at)?)
}

fn write_memory(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    *memory_of(state, at)? = value;
    Ok(())
}

fn write_soft_reset(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let field = |state: &State, name: &str| state.field_of(at.reg, value, name) == 1;
    if field(state, "soft_reset_cp") || field(state, "soft_reset_cpc") {
        hqd::stop(state, at.instance, |_| true);
        let xcc = xcc(state, at)?;
        xcc.hqds.clear();
        xcc.starts.clear();
        xcc.pipes = Default::default();
        let reg = if state.gfx == Gfx::Gfx9 {
            &gc::CP_MEC_CNTL
        } else {
            &gc::CP_MEC_RS64_CNTL
        };
        state.registers.set(reg, at.instance, 0);
        state.mes = Mes::default();
    }
    for engine in 0..2 {
        if field(state, &format!("soft_reset_sdma{engine}")) {
            sdma::reset(state, engine);
        }
    }
    hold(state, at, value)
}
