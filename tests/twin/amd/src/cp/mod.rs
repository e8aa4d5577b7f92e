//! The command processors: PM4 and AQL on the compute engine (MEC), and SDMA.
//!
//! - `queue`: a queue: its engine, its turns, what stops it;
//! - `ring`: rings, doorbells, read and write pointers;
//! - `pm4`: fetches PM4 packets from rings and indirect buffers; `packets` runs them;
//! - `regs`: the registers of a queue; `dispatch` makes a launch of them;
//! - `aql`: AQL packets; `object` makes a launch of a kernel descriptor, with the `scratch` of its queue;
//!   `inactive` tells the runtime what keeps a queue from going on;
//! - `work`: dispatches that are under way, and what happens at the end of the pipe; `fiber`: how they
//!   run in pieces; `race`: those that touch the same bytes;
//! - `clock`: the time;
//! - `xcc`: PM4 queues that share a ring, each on an XCC;
//! - `sdma`: SDMA packets; `copy` moves the bytes;
//! - `text`: packets as text.
//!
//! Hardware is free to run a dispatch any time between its packet and the next packet that waits for
//! it. The model makes use of that: it keeps dispatches back and runs them in random order, so that
//! a barrier that is missing shows. Everything random comes from the seed.
//!
//! Not modelled: GDS, predication by PREDICATE, thread traces, performance counters, ranges of cache
//! actions (all of a cache is acted on), priorities, preemption.

pub(crate) mod aql;
pub(crate) mod atomic;
pub(crate) mod cache;
pub mod clock;
pub(crate) mod copy;
pub(crate) mod dispatch;
pub(crate) mod fiber;
pub(crate) mod inactive;
pub(crate) mod object;
pub(crate) mod packets;
pub(crate) mod pm4;
pub(crate) mod queue;
pub(crate) mod race;
pub(crate) mod regs;
pub(crate) mod ring;
pub(crate) mod scratch;
pub(crate) mod sdma;
pub(crate) mod text;
pub(crate) mod work;
pub(crate) mod xcc;

use std::cell::RefCell;
use std::sync::{Arc, Mutex, Weak};

use drivers_spec::amd::packet::Gfx;
use twin::rule::{Journal, Rule};
use twin_shader::code::Code;
use twin_shader::isa::Gen;
use twin_shader::launch::Broken;
use twin_shader::page::{MemFault, Port};
use twin_shader::trap::Handler;

use crate::chip::Chip;
use crate::gpu::{Interrupt, Logger, QueueDesc, QueueId, Setup};
use crate::mem::{Caches, Vm};
use clock::Clock;
use fiber::Fibers;
use hcq::sync::lock;
use twin::rng::Rng;

/// Exception codes of a queue. Source: Linux, include/uapi/linux/kfd_ioctl.h,
/// `enum kfd_dbg_trap_exception_code`.
pub(crate) mod exception {
    /// A wave executed a trap.
    pub const WAVE_TRAP: u32 = 2;
    /// A wave came to something that is no instruction.
    pub const WAVE_ILLEGAL_INSTRUCTION: u32 = 4;
    /// A size of a dispatch is wrong.
    pub const PACKET_DISPATCH_DIM_INVALID: u32 = 16;
    /// Too much LDS.
    pub const PACKET_DISPATCH_GROUP_SEGMENT_SIZE_INVALID: u32 = 17;
    /// The kernel is not one.
    pub const PACKET_DISPATCH_CODE_INVALID: u32 = 18;
    /// The packet is not known.
    pub const PACKET_UNSUPPORTED: u32 = 20;
    /// A workgroup is too large.
    pub const PACKET_DISPATCH_WORK_GROUP_SIZE_INVALID: u32 = 21;
    /// A register is wrong.
    pub const PACKET_DISPATCH_REGISTER_INVALID: u32 = 22;
    /// AMD's own packet is not known.
    pub const PACKET_VENDOR_UNSUPPORTED: u32 = 23;
}

/// The bits of a doorbell's number that a trap handler tells. Source: ROCR, trap_handler.s, DOORBELL_ID_SIZE.
pub(crate) const DOORBELL_ID: u32 = 0x3ff;

/// What all engines of a GPU share.
pub(crate) struct Core {
    /// The number of the GPU.
    pub index: usize,
    /// Its facts.
    pub chip: &'static Chip,
    /// Its generation in the tables of packets.
    pub gfx: Gfx,
    /// Where events and broken rules are noted.
    pub journal: Arc<Journal>,
    /// The clock of the machine.
    pub clock: Arc<Clock>,
    /// Seeds every choice.
    pub seed: u64,
    /// Host threads of a dispatch.
    pub threads: usize,
    /// Gets every packet.
    pub packets: Option<Logger>,
    /// Gets every instruction.
    pub instructions: Option<Logger>,
    /// The decoded instructions of every address space.
    code: Mutex<Vec<(Weak<Vm>, Arc<Code>)>>,
    /// The PM4 queues that share a ring.
    pub groups: xcc::Groups,
}

impl Core {
    /// The decoded instructions of an address space.
    pub fn code(&self, vm: &Arc<Vm>) -> Arc<Code> {
        // Only whole entries are pushed.
        let mut all = lock(&self.code);
        all.retain(|(of, _)| of.strong_count() > 0);
        let known = all.iter().find(|(of, _)| of.as_ptr() == Arc::as_ptr(vm));
        if let Some((_, code)) = known {
            return code.clone();
        }
        let code = Arc::new(Code::new(self.chip.generation));
        all.push((Arc::downgrade(vm), code.clone()));
        code
    }

    /// Of a GPU.
    pub fn new(setup: Setup, clock: Arc<Clock>) -> Self {
        let gfx = match setup.chip.generation {
            Gen::Cdna3 => Gfx::Gfx9,
            Gen::Rdna2 => Gfx::Gfx10,
            Gen::Rdna3 => Gfx::Gfx11,
            Gen::Rdna4 => Gfx::Gfx12,
        };
        Self {
            index: setup.index,
            chip: setup.chip,
            gfx,
            journal: setup.journal,
            clock,
            seed: setup.seed,
            threads: setup.threads,
            packets: setup.packets,
            instructions: setup.instructions,
            code: Mutex::default(),
            groups: Mutex::default(),
        }
    }
}

/// Why a queue cannot go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A rule is broken, and hardware would be lost as well.
    Rule {
        rule: &'static Rule,
        what: String,
        /// The exception of the queue.
        code: u32,
    },
    /// Memory did not answer the command processor.
    Fault(MemFault),
    /// A wave could not go on.
    Wave {
        broken: Box<Broken>,
        /// The dispatch.
        dispatch: String,
    },
    /// Somebody stopped it.
    Cancelled,
}

impl From<MemFault> for Stop {
    fn from(fault: MemFault) -> Self {
        Self::Fault(fault)
    }
}

/// A rule that stops the queue with "packet not supported".
pub(crate) fn refuse(rule: &'static Rule, what: impl Into<String>) -> Stop {
    Stop::Rule {
        rule,
        what: what.into(),
        code: exception::PACKET_UNSUPPORTED,
    }
}

/// What an engine did in one step.
#[derive(Debug)]
pub(crate) enum Step {
    /// A packet is done.
    Next,
    /// The packet waits for memory; the text says for what.
    Wait(String),
    /// The packet waits for work of the queue.
    Busy,
    /// The packet has got further, and wants another turn.
    More,
    /// There is no packet.
    Empty,
}

/// A packet on its way through an engine: what it may touch.
pub(crate) struct Cx<'a> {
    pub core: &'a Arc<Core>,
    pub id: QueueId,
    pub desc: &'a QueueDesc,
    pub rng: &'a mut Rng,
    /// The dispatches that run.
    pub fibers: &'a mut Fibers,
    /// Interrupts, delivered once the GPU is not locked any more.
    pub out: &'a mut Vec<Interrupt>,
    /// The packet, for reports.
    pub who: String,
    /// Whether this is the first try of the packet.
    pub first: bool,
    /// The rules that the queue has broken without being stopped.
    pub told: &'a RefCell<Vec<&'static str>>,
    /// The words that the packet has read.
    pub seen: RefCell<Vec<Word>>,
}

/// A word of memory: its address and bytes, and what was there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub va: u64,
    pub bytes: usize,
    pub value: u64,
}

impl Cx<'_> {
    /// The generation.
    pub fn gfx(&self) -> Gfx {
        self.core.gfx
    }

    /// Notes a broken rule and goes on, as hardware would. A queue is told of a rule once: what a
    /// driver does wrong it does in every packet.
    pub fn note(&self, rule: &'static Rule, what: impl std::fmt::Display) {
        let mut told = self.told.borrow_mut();
        if self.first && !told.contains(&rule.name) {
            told.push(rule.name);
            self.core
                .journal
                .broken(rule, format!("{what} ({})", self.who));
        }
    }

    /// The packet is what accesses memory from now on. The first try tells the journal, and whoever
    /// listens.
    pub fn announce(&self) {
        // Other queues, or copies of earlier packets, have had their turn since the last try.
        self.desc.vm.set_origin(&self.who);
        if !self.first {
            return;
        }
        if let Some(log) = &self.core.packets {
            log(&self.who);
        }
        self.core.journal.event(self.who.clone());
    }

    /// Acts on the caches of the XCCs of a mask.
    pub fn caches(&self, caches: Caches, mask: u32) {
        if cache::any(caches) {
            self.desc.vm.caches_on(mask, caches, &self.who);
        }
    }

    /// The trap handler of the process.
    pub fn trap(&self) -> Option<Handler> {
        let (code, data) = self.desc.vm.trap()?;
        let doorbell = (self.desc.doorbell.offset / 8) as u32 & DOORBELL_ID;
        Some(Handler {
            code,
            data,
            doorbell,
        })
    }

    /// The path of this queue to memory.
    pub fn port(&self) -> Port {
        self.desc.port()
    }

    pub fn read<const N: usize>(&self, va: u64) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        self.desc.vm.read(self.port(), va, &mut bytes)?;
        Ok(bytes)
    }

    pub fn read32(&self, va: u64) -> Result<u32, Stop> {
        let value = self.read(va).map(u32::from_le_bytes)?;
        self.saw(va, 4, value.into());
        Ok(value)
    }

    pub fn read64(&self, va: u64) -> Result<u64, Stop> {
        let value = self.read(va).map(u64::from_le_bytes)?;
        self.saw(va, 8, value);
        Ok(value)
    }

    /// What a poll looks at. Whoever waits looks again: it may see what is old, but not take that for what it waits for.
    pub fn look32(&self, va: u64) -> Result<u32, Stop> {
        let mut bytes = [0; 4];
        self.desc.vm.look(self.port(), va, &mut bytes)?;
        let value = u32::from_le_bytes(bytes);
        self.saw(va, 4, value.into());
        Ok(value)
    }

    /// The same of 64 bits.
    pub fn look64(&self, va: u64) -> Result<u64, Stop> {
        let mut bytes = [0; 8];
        self.desc.vm.look(self.port(), va, &mut bytes)?;
        let value = u64::from_le_bytes(bytes);
        self.saw(va, 8, value);
        Ok(value)
    }

    /// The write pointer in memory. The host writes the next one while the doorbell of this one is looked at: where
    /// that has not arrived yet, this one is right.
    pub fn wptr(&self) -> Result<u64, Stop> {
        self.look64(self.desc.wptr)
    }

    fn saw(&self, va: u64, bytes: usize, value: u64) {
        self.seen.borrow_mut().push(Word { va, bytes, value });
    }

    pub fn write(&self, va: u64, data: &[u8]) -> Result<(), Stop> {
        Ok(self.desc.vm.write(self.port(), va, data)?)
    }

    /// Reads dwords.
    pub fn words(&self, va: u64, count: usize) -> Result<Vec<u32>, Stop> {
        let mut bytes = vec![0; count * 4];
        self.desc.vm.read(self.port(), va, &mut bytes)?;
        Ok(bytes
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect())
    }
}

/// Two dwords as 64 bits.
pub(crate) fn wide(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Comparisons of WAIT_REG_MEM and POLL_REGMEM, and how they print. All are unsigned.
pub(crate) fn compare(function: u32, value: u64, reference: u64) -> Option<bool> {
    Some(match function {
        0 => true,
        1 => value < reference,
        2 => value <= reference,
        3 => value == reference,
        4 => value != reference,
        5 => value >= reference,
        6 => value > reference,
        _ => return None,
    })
}

/// The sign of a comparison.
pub(crate) fn sign(function: u32) -> &'static str {
    ["always", "<", "<=", "==", "!=", ">=", ">"]
        .get(function as usize)
        .unwrap_or(&"?")
}
