//! GSP's firmware: it starts with what the host has prepared, has the host run its sequencer, and answers RPCs.
//!
//! - [`core`]: its time; `args`: what it is started with; `queue`: messages; `init`: what it is told before it starts;
//! - `sequencer`: what the host does for it; `rpc`: what it answers; `rm`: the resource manager behind that; `objects`: what it
//!   makes of memory that it is given: address spaces and channels.
//!
//! Source: OGKM, kernel_gsp_tu102.c, kgspBootstrap_TU102; kernel_gsp.c, kgspWaitForRmInitDone_IMPL, _kgspProcessRpcEvent.

mod args;
pub(super) mod core;
mod init;
mod objects;
mod queue;
mod rm;
mod rpc;
mod sequencer;

use std::ops::Range;

use drivers_spec::nv::abi::Branch;
use drivers_spec::nv::status;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::card::Trouble;
use super::falcon::Engine;
use super::mmu::table::Cause;
use super::mmu::window;
use super::runner::Died;
use super::state::State;
use super::wait::Wait;
use super::{flush, fsp};
use crate::config::Hardware;
use args::Failed;
use queue::{Message, Queues};
use rm::Rm;
use rpc::Part;

static RESET: Rule = Rule {
    name: "NV-GSP-RESET",
    text: "once GSP has said GSP_INIT_DONE, it is told UNLOADING_GUEST_DRIVER before it is reset",
    source: "OGKM, kernel_gsp.c, kgspUnloadRm_IMPL: the RPC, whose failure does not end it; then kgspTeardown_HAL, which resets GSP; \
             kgspInitRm_IMPL: RPCs are exchanged from GSP_INIT_DONE on",
    proof: Proof::Sourced,
};

static QUEUE: Rule = Rule {
    name: "NV-GSP-QUEUE-HEAD",
    text: "QUEUE_HEAD(0) is rung for RPCs; the other queues are of tasks that the host does not talk to",
    source: "OGKM, message_queue.h: RPC_TASK_RM_QUEUE_IDX, RPC_QUEUE_COUNT; kernel_gsp_tu102.c, kgspSetCmdQueueHead_TU102",
    proof: Proof::Sourced,
};

static LOCKDOWN: Rule = Rule {
    name: "NV-GSP-LOCKDOWN",
    text: "from the notice that GSP locks itself up until the notice that this has ended, as the host takes them from its queue, \
           status and control of GSP's interrupts are not accessed",
    source: "OGKM, kernel_gsp.c, _kgspRpcGspLockdownNotice: some registers, among them interrupt status and control; which \
             others is not published; kernel_gsp_tu102.c, kgspService_TU102",
    proof: Proof::Sourced,
};

/// `NV_VGPU_MSG_EVENT_*`.
const INIT_DONE: u32 = 0x1001;
const RUN_CPU_SEQUENCER: u32 = 0x1002;
/// `NV_VGPU_MSG_EVENT_GSP_LOCKDOWN_NOTICE`, of branch 535 and of newer ones.
const LOCKDOWN_NOTICES: [u32; 2] = [0x101d, 0x101c];

/// How far the firmware is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Phase {
    /// Nothing runs.
    #[default]
    Off,
    /// The booter has started it.
    Starting,
    /// The host runs its sequencer.
    Sequencing,
    /// SEC2 has resumed it.
    Resuming,
    /// It answers.
    Running,
    /// It has ended by itself.
    Suspended,
    /// Something was wrong.
    Dead,
}

/// The firmware.
#[derive(Default)]
pub(super) struct Gsp {
    phase: Phase,
    version: &'static str,
    queues: Option<Queues>,
    rm: Option<Rm>,
    part: Option<Part>,
    /// GSP's mailboxes when it was started.
    arguments: [u32; 2],
    /// Where its logs are, and how much it has written to each.
    logs: Vec<u64>,
    logged: u64,
    /// The host can know that it answers.
    announced: bool,
    /// The host has told it to end.
    unloading: bool,
    /// Between which records of its queue it is locked.
    lockdown: Range<u32>,
    /// It has missed the page for flushes.
    no_flush: bool,
}

/// Where the logs of a driver are that is no more: nothing is mapped there.
const LEFT: u64 = 0xff_ffff_0000;

impl Gsp {
    /// What an earlier driver has left running, whose memory is gone.
    pub(super) fn left() -> Gsp {
        Gsp {
            phase: Phase::Running,
            announced: true,
            logs: vec![LEFT],
            ..Gsp::default()
        }
    }

    /// GSP's mailboxes when it was started.
    pub(super) fn arguments(&self) -> [u32; 2] {
        self.arguments
    }

    /// Whether its sequencer has SEC2 started again.
    pub(super) fn wants_resume(&self) -> bool {
        self.phase == Phase::Sequencing
    }

    /// Whether nothing runs.
    pub(super) fn is_quiet(&self) -> bool {
        matches!(self.phase, Phase::Off | Phase::Suspended | Phase::Dead)
    }

    /// How far it is, for reports.
    pub(super) fn phase_name(&self) -> String {
        format!("{:?}", self.phase).to_lowercase()
    }

    fn branch(&self) -> Branch {
        Branch::of(self.version).unwrap_or(Branch::R570)
    }
}

/// The booter, or what FSP has started, has started a version with the address of its arguments.
pub(super) fn start(state: &mut State, version: &'static str, arguments: [u32; 2]) {
    state.firmware = Gsp {
        phase: Phase::Starting,
        version,
        arguments,
        ..Gsp::default()
    };
    wake(state);
}

/// There is something to do, for a core that runs.
fn wake(state: &State) {
    if state.gsp.has_core() {
        state.core.wake();
    }
}

/// SEC2 has resumed it.
pub(super) fn resume(state: &mut State) {
    state.firmware.phase = Phase::Resuming;
    state.firmware.lockdown = 0..0;
    wake(state);
}

/// Some time has gone by: as long as it runs, it writes to its logs by itself.
pub(super) fn passes(state: &mut State) {
    let may = state.bus.master() || state.bus.is_withdrawn();
    if !may || !state.gsp.has_core() || state.firmware.is_quiet() {
        return;
    }
    log(state);
    if !state.firmware.no_flush
        && let Err((rule, what)) = flush::check(state, "GSP's firmware runs")
    {
        state.firmware.no_flush = true;
        state.journal.broken(rule, what);
    }
}

/// It writes lines to its logs: their first word grows (OGKM, kernel_gsp.c, _setupLogBufferBaremetal: the put pointer).
fn log(state: &mut State) {
    let host = state.host();
    let firmware = &mut state.firmware;
    firmware.logged += 1;
    let put = firmware.logged.to_le_bytes();
    let mut logs = firmware.logs.iter();
    let all = logs.all(|at| host.write(*at, &put, "GSP, a log"));
    // Once is enough, where that has been said.
    if !all && state.bus.master() {
        firmware.logs.clear();
    }
}

/// Whether the host may access registers of GSP's interrupts.
pub(super) fn is_open(state: &State, what: &str) -> Result<(), Broken> {
    let firmware = &state.firmware;
    let queues = match &firmware.queues {
        Some(queues) if !firmware.lockdown.is_empty() => queues,
        _ => return Ok(()),
    };
    match queues.taken(&state.host()) {
        Some(taken) if firmware.lockdown.contains(&taken) => {
            let what = format!("{what} of GSP, when it has said that it is locked");
            Err((&LOCKDOWN, what))
        }
        _ => Ok(()),
    }
}

/// The host has written a queue's head.
pub(super) fn rung(state: &mut State, queue: u32) {
    if queue != 0 {
        let what = format!("QUEUE_HEAD({queue})");
        state.journal.broken(&QUEUE, what);
    }
    wake(state);
}

/// Its processor is reset.
pub(super) fn processor_reset(state: &mut State) {
    if state.firmware.phase == Phase::Running {
        // What it was told until now counts.
        run(state);
    }
    let firmware = &mut state.firmware;
    if firmware.is_quiet() || firmware.phase == Phase::Sequencing {
        return;
    }
    let what = format!("it is {}", firmware.phase_name());
    let is_told = !firmware.announced || firmware.unloading;
    firmware.phase = Phase::Dead;
    firmware.rm = None;
    state.runner.clear();
    if !is_told {
        state.journal.broken(&RESET, what);
    }
}

/// Its core has time.
fn run(state: &mut State) {
    let done = match state.firmware.phase {
        Phase::Starting => boot(state),
        Phase::Resuming => resumed(state),
        Phase::Running => commands(state),
        _ => Ok(()),
    };
    if let Err(failed) = done {
        if let Some((rule, what)) = failed {
            state.journal.broken(rule, what);
        }
        state.firmware.phase = Phase::Dead;
    }
}

/// It finds its queues and what it was told, and asks for the sequencer.
fn boot(state: &mut State) -> Result<(), Failed> {
    let host = state.host();
    let branch = state.firmware.branch();
    let [low, high] = state.firmware.arguments;
    let at = u64::from(low) | u64::from(high) << 32;
    let arguments = args::read(&host, at, branch)?;
    state.firmware.logs = arguments.logs;
    let mut queues = Queues::link(&host, arguments.queues)?;
    let mut count = 0;
    while let Some(message) = queues.next(&host).map_err(Some)? {
        let (function, sequence) = (message.function, message.sequence);
        let whole = rpc::join(
            &mut state.firmware.part,
            function,
            sequence,
            message.payload,
        );
        if let Some(rpc) = whole.map_err(Some)? {
            let card = (state.bars, state.config.chip.mirror());
            init::check(count, rpc.function, &rpc.payload, branch, card).map_err(Some)?;
            count += 1;
        }
    }
    init::complete(count).map_err(Some)?;
    let clock = state.clock();
    let rm = Rm::new(state.config.chip.name, state.firmware.version, clock);
    let rm = rm.map_err(|what| {
        // The host of the twin lacks memory or a thread.
        state.journal.event(format!("GSP does not start: {what}"));
        None
    });
    let rm = rm?;
    state.runner.begin(&rm.notes);
    state.firmware.rm = Some(rm);
    state.firmware.queues = Some(queues);
    state.firmware.phase = Phase::Sequencing;
    if state.config.lockdown {
        let [old, new] = LOCKDOWN_NOTICES;
        let notice = if branch == Branch::R535 { old } else { new };
        event(state, notice, vec![1])?;
        let engaged = written(state);
        event(state, notice, vec![0])?;
        state.firmware.lockdown = engaged..written(state);
    }
    if state.config.chip.fsp.is_some() {
        // nova-core, gsp/hal/{tu102,gh100}.rs: the host has a sequencer to run where SEC2 has started GSP.
        log(state);
        return resumed(state);
    }
    event(state, RUN_CPU_SEQUENCER, sequencer::steps())?;
    log(state);
    Ok(())
}

/// Where its next record goes.
fn written(state: &State) -> u32 {
    let queues = state.firmware.queues.as_ref();
    queues.map_or(0, Queues::written)
}

/// It goes on behind the sequencer.
fn resumed(state: &mut State) -> Result<(), Failed> {
    state.firmware.phase = Phase::Running;
    state.gsp.allows_messages();
    window::bind(state);
    state.firmware.announced = event(state, INIT_DONE, Vec::new())?;
    commands(state)
}

/// It answers what is there.
fn commands(state: &mut State) -> Result<(), Failed> {
    let host = state.host();
    loop {
        let firmware = &mut state.firmware;
        let Some(queues) = &mut firmware.queues else {
            return Ok(());
        };
        if queues.flush(&host).map_err(Some)? {
            notify(state);
            continue;
        }
        let message = match queues.next(&host) {
            Ok(None) => return Ok(()),
            Ok(Some(message)) => message,
            Err((rule, what)) => {
                // It prints a line to its log, and goes on.
                state.journal.broken(rule, what);
                continue;
            }
        };
        let whole = rpc::join(
            &mut firmware.part,
            message.function,
            message.sequence,
            message.payload,
        );
        match whole {
            Ok(None) => {}
            Ok(Some(rpc)) => reply(state, &rpc)?,
            Err((rule, what)) => drop(state.journal.broken(rule, what)),
        }
    }
}

fn reply(state: &mut State, rpc: &Part) -> Result<(), Failed> {
    let branch = state.firmware.branch();
    let Some(mut rm) = state.firmware.rm.take() else {
        return Ok(());
    };
    // Whoever asks has taken the notices, and GSP_INIT_DONE behind them.
    state.firmware.lockdown = 0..0;
    state.firmware.unloading |= rpc.function == rpc::UNLOADING_GUEST_DRIVER;
    let (answer, ends) = rpc::answer(state, &mut rm, branch, rpc);
    rm.notes.tell(&state.journal);
    state.firmware.rm = Some(rm);
    let (result, payload) = match answer {
        Ok(payload) => (status::NV_OK, payload),
        Err(status) => (status, rpc.payload.clone()),
    };
    let message = Message {
        function: rpc.function,
        result,
        sequence: rpc.sequence,
        payload,
    };
    send(state, &message)?;
    if ends {
        // kgspWaitForProcessorSuspend_TU102 waits for this.
        state.runner.clear();
        state.gsp.mailbox[0] = 0x8000_0000;
        match state.config.chip.fsp {
            None => state.gsp.riscv = None,
            Some(_) => fsp::ends(state),
        }
        state.firmware = Gsp {
            phase: Phase::Suspended,
            ..Gsp::default()
        };
    }
    Ok(())
}

/// The host rings a doorbell: the channel that is meant runs.
pub(super) fn doorbell(state: &mut State, token: u32) -> Result<(), Broken> {
    let none = || {
        (
            &crate::engines::TOKEN,
            format!("token {token:#x}, without GSP's firmware"),
        )
    };
    let rm = state.firmware.rm.as_ref().ok_or_else(none)?;
    let Some((key, put)) = objects::rung(&rm.objects, state, token)? else {
        return Ok(());
    };
    match state.trouble() {
        None => state.runner.ring(key, put),
        Some(Trouble::Hangs) => state.journal.event("it hangs, as the config says".into()),
        Some(Trouble::Dies) => {
            let error = crate::engines::injected(&Hardware::Mmu(LOST));
            let cause = Some(Cause::Pte);
            let one = Died { key, error, cause };
            died(state, &one);
        }
    }
    Ok(())
}

/// Where a channel faults that dies because the config says so.
const LOST: u64 = 0x1000;

/// A channel has died.
pub(super) fn died(state: &mut State, died: &Died) {
    let branch = state.firmware.branch();
    let Some(mut rm) = state.firmware.rm.take() else {
        return;
    };
    let told = objects::died(&mut rm.objects, state, branch, died);
    state.firmware.rm = Some(rm);
    for (function, payload) in told {
        if let Err(failed) = event(state, function, payload) {
            if let Some((rule, what)) = failed {
                state.journal.broken(rule, what);
            }
            state.firmware.phase = Phase::Dead;
        }
    }
}

/// It tells the host something by itself. Whether it does.
fn event(state: &mut State, function: u32, payload: Vec<u8>) -> Result<bool, Failed> {
    let message = Message {
        function,
        result: status::NV_OK,
        sequence: 0,
        payload,
    };
    send(state, &message)
}

fn send(state: &mut State, message: &Message) -> Result<bool, Failed> {
    if state.waits(Wait::Message).is_never() {
        return Ok(false);
    }
    let host = state.host();
    let Some(queues) = &mut state.firmware.queues else {
        return Ok(false);
    };
    if queues.send(&host, message).map_err(Some)? {
        notify(state);
    }
    Ok(true)
}

/// The host hears that there is a message.
fn notify(state: &mut State) {
    state.falcon(Engine::Gsp).swgen0();
    interrupt(state);
}

/// The host is interrupted, if one of GSP's interrupts is pending.
pub(super) fn interrupt(state: &mut State) {
    if state.gsp.interrupts() {
        state.raise(objects::GSP_VECTOR);
    }
}

/// A channel of an engine tells the host something.
pub(super) fn noticed(state: &mut State, engine: u32) {
    state.raise(objects::notification(engine));
}
