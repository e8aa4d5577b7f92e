//! The command processor: reads packets of indirect buffers, and does what they say.
//!
//! - `packet`: headers; `commands`: commands of type 7; `draws`: those of draws; `transfer`: those that read and write memory;
//! - [`registers`]: registers; [`state`]: what is loaded into shader cores; [`launch`]: dispatches;
//! - `pipe`: dispatches, blits and events that are not done yet; `shader`: runs a dispatch; [`blit`]: the 2D engine;
//! - [`bindless`]: descriptors that dispatches find in memory; [`others`]: registers that nothing here reads.
//!
//! Dispatches and events of EVENT_WRITE are done as late as packets allow: at CP_WAIT_FOR_IDLE, while a packet waits
//! for memory, or at the end of a submission, where the kernel waits. So are writes of the command processor itself:
//! at CP_WAIT_MEM_WRITES, before an event is written, or at the end.
//!
//! Source: Mesa, src/freedreno/registers/adreno/adreno_pm4.xml, and src/freedreno/afuc; KGSL,
//! adreno_a6xx_ringbuffer.c: indirect buffers of the kernel are level 1, and may call level 2.

pub mod bindless;
pub mod blit;
mod commands;
mod draws;
pub mod launch;
pub mod others;
mod packet;
mod pipe;
pub mod registers;
mod shader;
pub mod state;
mod transfer;

use std::collections::{BTreeSet, VecDeque};

use drivers_spec::qcom::chip::Gen;
use drivers_spec::qcom::packet as spec;
use twin::rule::{Journal, Proof, Rule};
use twin::touched::Touched;

use crate::gpu::Core;
use crate::memory::Space;
use crate::memory::view::{PageFault, Via, View, Writes, unflushed};

use bindless::Cached;
use packet::Header;
use pipe::Pipe;
use registers::Registers;
use state::State;

static LEVEL: Rule = Rule {
    name: "CP-IB-LEVEL",
    text: "an indirect buffer of a submission calls others, and these call none, nor do groups of draw state, which both \
           may have",
    source: "Mesa, src/freedreno/registers/adreno/adreno_control_regs.xml, IB1 and IB2; tu_cs.h: no IB3 outside of \
             draw states",
    proof: Proof::Sourced,
};

static SIZE: Rule = Rule {
    name: "CP-IB-SIZE",
    text: "an indirect buffer has 1 to 2^20 - 1 dwords, and begins at a multiple of 4 bytes",
    source: "KGSL, adreno.c, _verify_ib: 0xFFFFF dwords, IS_ALIGNED(gpuaddr, 4)",
    proof: Proof::Sourced,
};

/// A rule that is broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// Which.
    pub rule: &'static Rule,
    /// By what.
    pub what: String,
}

impl Broken {
    /// That rule, by that.
    pub fn new(rule: &'static Rule, what: String) -> Broken {
        Broken { rule, what }
    }
}

/// Why a ring stands still for good.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An access that no page answers.
    Page(PageFault),
    /// The command processor, or a shader core, stops at an error.
    Hard(String),
    /// It makes no progress, and the kernel's timer says so.
    Hang(String),
    /// It makes no progress, as the kernel sees by its registers: what is tried again may go well.
    Soft(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Page(fault) => write!(f, "page fault: {fault}"),
            Fault::Hard(why) => write!(f, "error: {why}"),
            Fault::Hang(why) | Fault::Soft(why) => write!(f, "hang: {why}"),
        }
    }
}

/// What a packet waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// Where; none for a register.
    pub at: Option<u64>,
    /// What was there.
    pub held: u64,
    /// What is waited for, in words.
    pub why: String,
}

/// What a turn has come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Turn {
    /// There is more.
    Ran,
    /// A packet waits.
    Waits(Wait),
    /// The submission is done.
    Done,
    /// It cannot go on.
    Fault(Fault),
}

/// Why a packet stops.
pub(crate) enum Stop {
    Wait(Wait),
    Fault(Fault),
    Broken(Broken),
}

impl From<PageFault> for Stop {
    fn from(fault: PageFault) -> Stop {
        Stop::Fault(Fault::Page(fault))
    }
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Stop {
        Stop::Broken(broken)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

/// What is around a command processor in its turn.
pub struct Around<'a> {
    /// Where broken rules go.
    pub journal: &'a Journal,
    /// Caches, clock, shader cores.
    pub core: &'a mut Core,
    /// Which memory lies where.
    pub space: &'a Space,
    /// The memory that the submission lists, where it has to.
    pub listed: Option<&'a BTreeSet<u32>>,
}

impl Around<'_> {
    /// Accesses of somebody.
    fn view<'b>(&'b mut self, writes: &'b Writes, who: String) -> View<'b> {
        View::new(
            self.journal,
            self.space,
            &mut self.core.caches,
            self.listed,
            writes,
            who,
        )
    }
}

/// An indirect buffer of a submission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ib {
    /// Where.
    pub address: u64,
    /// How long.
    pub dwords: u32,
}

/// An indirect buffer that is being read.
struct Frame {
    address: u64,
    words: Vec<u32>,
    at: usize,
    /// Whether it is a group of draw state.
    is_group: bool,
}

/// See the front page.
#[derive(Default)]
pub struct Cp {
    registers: Registers,
    state: State,
    /// Bases of bindless descriptors.
    cached: Cached,
    marker: Option<u32>,
    /// CP_SET_MODE: whether groups of CP_SET_DRAW_STATE run at once.
    immediate: bool,
    /// Groups that run now, and the level of the packet that has set them.
    groups: (usize, VecDeque<Ib>),
    /// What CP_REG_TEST has found.
    predicate: bool,
    ibs: VecDeque<Ib>,
    stack: Vec<Frame>,
    pipe: Pipe,
    writes: Writes,
    /// For reports.
    name: String,
    waiting: Option<Wait>,
}

impl Cp {
    /// Another context begins: it has no registers and no state of its own. `invalidates`: the kernel has the caches
    /// invalidated before it.
    pub fn switch(&mut self, core: &mut Core, invalidates: bool) {
        self.registers.clear();
        self.state = State::default();
        self.cached = Cached::default();
        self.pipe = Pipe::default();
        self.marker = None;
        self.immediate = false;
        self.predicate = false;
        // KGSL, adreno_a6xx_ringbuffer.c, a6xx_rb_context_switch: event 0x31; Linux, a6xx_gpu.c, a6xx_set_pagetable.
        if invalidates {
            core.caches.invalidate();
        }
    }

    /// A submission begins.
    pub fn start(&mut self, name: String, ibs: impl IntoIterator<Item = Ib>) {
        self.stop();
        self.name = name;
        self.ibs.extend(ibs);
    }

    /// What is under way is given up.
    pub fn stop(&mut self) {
        self.ibs.clear();
        self.groups.1.clear();
        self.stack.clear();
        self.pipe.stop();
        self.writes.clear();
        self.waiting = None;
    }

    /// What it waited for at the end of its last turn.
    pub fn waiting(&self) -> Option<&Wait> {
        self.waiting.as_ref()
    }

    /// Where it is, for reports.
    pub fn place(&self) -> String {
        let Some(frame) = self.stack.last() else {
            return self.name.clone();
        };
        let at = frame.address + frame.at as u64 * 4;
        let level = match frame.is_group {
            true => "group".into(),
            false => format!("IB{}", self.stack.len()),
        };
        let header = frame.words.get(frame.at).copied().unwrap_or(0);
        format!("{}, {level} at {at:#x} ({})", self.name, name(header))
    }

    /// Runs so many packets.
    pub fn step(&mut self, around: &mut Around<'_>, packets: usize) -> Turn {
        self.waiting = None;
        for _ in 0..packets {
            match self.packet(around) {
                Ok(true) => {}
                Ok(false) => return Turn::Done,
                Err(Stop::Wait(wait)) => {
                    self.waiting = Some(wait.clone());
                    return Turn::Waits(wait);
                }
                Err(Stop::Fault(fault)) => return Turn::Fault(fault),
                Err(Stop::Broken(broken)) => {
                    let what = format!("{}: {}", self.place(), broken.what);
                    around.journal.broken(broken.rule, what);
                    return Turn::Fault(Fault::Hard(broken.what));
                }
            }
        }
        Turn::Ran
    }

    /// The next packet. False where there is none left.
    fn packet(&mut self, around: &mut Around<'_>) -> Result<bool, Stop> {
        while self
            .stack
            .last()
            .is_some_and(|frame| frame.at >= frame.words.len())
            && (self.groups.1.is_empty() || self.stack.len() > self.groups.0)
        {
            self.stack.pop();
        }
        if self.stack.is_empty() {
            let Some(ib) = self.ibs.pop_front() else {
                // The kernel waits for idle: its own timestamp comes last.
                self.idle(around)?;
                self.land(around)?;
                if let Some((at, _)) = self.writes.take(Via::Colors).first() {
                    unflushed(around.journal, &self.name, *at);
                }
                around.core.caches.flush();
                return Ok(false);
            };
            self.call(around, ib, false)?;
            return Ok(true);
        }
        if self.stack.len() == self.groups.0
            && let Some(group) = self.groups.1.pop_front()
        {
            self.call(around, group, true)?;
            return Ok(true);
        }
        let Some(frame) = self.stack.last() else {
            return Ok(true);
        };
        let at = frame.at;
        let header = packet::header(frame.words[at], frame.words.len() - at - 1)?;
        let count = header.count() as usize;
        let body = frame.words[at + 1..at + 1 + count].to_vec();
        around.core.pass(1);
        if around.core.packets {
            around
                .core
                .print(|| format!("{}: {header:x?} {body:x?}", self.place()));
        }
        // A packet that waits is done again, and one that calls an indirect buffer is behind it by then.
        let depth = self.stack.len() - 1;
        match header {
            Header::Registers { first, .. } => {
                for (register, value) in (first..).zip(&body) {
                    self.write(around, register, *value);
                }
            }
            Header::Command { op, .. } => self.command(around, op, &body)?,
        }
        if let Some(frame) = self.stack.get_mut(depth) {
            frame.at += 1 + count;
        }
        Ok(true)
    }

    /// A rule is broken, and the command processor goes on.
    fn note(&self, around: &Around<'_>, broken: Broken) {
        let what = format!("{}: {}", self.place(), broken.what);
        around.journal.broken(broken.rule, what);
    }

    /// Writes a register, with what that does.
    fn write(&mut self, around: &mut Around<'_>, register: u32, value: u32) {
        use drivers_spec::qcom::regs::{self, sp_update_cntl as update};
        let done = self
            .registers
            .write(around.core.generation(), register, value);
        if let Err(broken) = done {
            self.note(around, broken);
        }
        if register == regs::dword(&regs::SP_UPDATE_CNTL) {
            let bases = update::CS_BINDLESS.get(value);
            self.cached.forgotten(bases);
            self.pipe.forget(bases);
            let state = update::CS_STATE.get(value) != 0;
            let shared = update::CS_SHARED_CONST.get(value) != 0;
            let images = update::CS_UAV.get(value) != 0;
            self.state.forget(state, images, shared);
            if state {
                around.core.caches.invalidate_instructions();
            }
        }
    }

    /// Begins an indirect buffer, or a group of draw state, which has a level of its own.
    fn call(&mut self, around: &mut Around<'_>, ib: Ib, is_group: bool) -> Result<(), Stop> {
        if ib.dwords == 0 || ib.dwords >= 1 << 20 || !ib.address.is_multiple_of(4) {
            return Err(Broken::new(&SIZE, format!("{ib:x?}")).into());
        }
        if !is_group && (self.stack.len() >= 2 || self.in_group()) {
            return Err(Broken::new(&LEVEL, format!("{ib:x?} from level 2, or a group")).into());
        }
        let words = self.fetch_words(around, ib.address, ib.dwords as usize)?;
        self.stack.push(Frame {
            address: ib.address,
            words,
            at: 0,
            is_group,
        });
        Ok(())
    }

    /// Whether a group of draw state runs.
    fn in_group(&self) -> bool {
        self.stack.last().is_some_and(|frame| frame.is_group)
    }

    /// Skips dwords behind the current packet, which has `count`.
    fn skip(&mut self, count: usize, dwords: usize) -> bool {
        let Some(frame) = self.stack.last_mut() else {
            return false;
        };
        let fits = frame.at + 1 + count + dwords <= frame.words.len();
        if fits {
            frame.at += dwords;
        }
        fits
    }

    /// Reads memory as the command processor does.
    fn fetch(&mut self, around: &mut Around<'_>, at: u64, out: &mut [u8]) -> Result<(), Stop> {
        let who = self.place();
        let mut view = around.view(&self.writes, who);
        let done = view.fetch(at, out);
        let touched = std::mem::take(&mut view.touched);
        self.pipe.accessed(&touched);
        Ok(done?)
    }

    fn fetch_words(
        &mut self,
        around: &mut Around<'_>,
        at: u64,
        count: usize,
    ) -> Result<Vec<u32>, Stop> {
        let mut bytes = vec![0; count * 4];
        self.fetch(around, at, &mut bytes)?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().copied().map(u32::from_le_bytes).collect())
    }

    /// Sends a write to memory on its way.
    fn send(&mut self, around: &mut Around<'_>, at: u64, data: Vec<u8>) -> Result<(), Stop> {
        let who = self.place();
        around.view(&self.writes, who).probe(at, data.len())?;
        let mut touched = Touched::default();
        touched.write(at, data.len());
        self.pipe.accessed(&touched);
        self.writes.push(Via::Commands, at, data);
        Ok(())
    }

    /// Waits until its own writes are in memory.
    fn land(&mut self, around: &mut Around<'_>) -> Result<(), Stop> {
        let (who, none) = (self.place(), Writes::default());
        for (at, data) in self.writes.take(Via::Commands) {
            let mut view = around.view(&none, who.clone());
            // It was looked for when the write was sent.
            view.listed = None;
            view.store(at, &data)?;
        }
        Ok(())
    }

    /// Does the oldest dispatch, blit or event that is not done. False where there is none.
    fn advance(&mut self, around: &mut Around<'_>) -> Result<bool, Stop> {
        let Some(entry) = self.pipe.next() else {
            return Ok(false);
        };
        if entry.writes() {
            self.land(around)?;
        }
        let who = self.name.clone();
        self.pipe.run(around, &mut self.writes, entry, &who)?;
        Ok(true)
    }

    /// Waits until all dispatches and events are done.
    fn idle(&mut self, around: &mut Around<'_>) -> Result<(), Stop> {
        while self.advance(around)? {}
        self.pipe.idle();
        Ok(())
    }
}

/// The name of a packet.
fn name(header: u32) -> String {
    match header >> 28 {
        4 => "registers".into(),
        7 => {
            let op = spec::header7::OPCODE.get(header) as u8;
            let known = spec::command(op);
            known.map_or_else(
                || format!("operation {op:#x}"),
                |c| format!("CP_{}", c.name),
            )
        }
        _ => format!("{header:#010x}"),
    }
}

/// The sub-generation that packets are checked by: none differs in packets of compute.
const PACKETS: Gen = Gen::Gen1;
