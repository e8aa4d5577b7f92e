//! What runs rings: the host with its channels, copy engines, compute; and where a doorbell goes.
//!
//! - [`bus`]: what an engine sees of memory; [`view`]: where that is;
//! - [`host`]: a channel: ring, push buffer, the host's own methods, and the work that it hands on;
//! - [`mod@copy`]: copies; `compute`: grids; [`error`]: why a channel stops;
//! - `port`: a channel's way to memory and to the journal; `reduce`: operations of semaphores;
//!   `registers`: what methods have set.
//!
//! Whoever schedules calls [`host::Channel::step`] again and again; nothing here blocks. What engines
//! have been told waits in the channel until something demands that it is done: a packet that waits for
//! idle, another engine, or that there is nothing else to do. A client that does not wait for its work
//! finds that it is not done.

pub mod bus;
mod compute;
pub mod copy;
pub mod error;
pub mod host;
mod port;
mod reduce;
mod registers;
pub mod view;

use drivers_spec::nv::push::userd;
use twin::rule::{Proof, Rule};

use crate::chip::Chip;
use crate::config::Hardware;
use crate::kernel::Machine;
use crate::rm::State;
use crate::rm::channel::Channel;
use crate::space::{self, Access};

use bus::Bus;

use bus::Fault;
use error::{Exception, xid};

pub use error::{Error, Wait};
pub use host::Turn;

pub(crate) static TOKEN: Rule = Rule {
    name: "HOST-DOORBELL-TOKEN",
    text: "the doorbell is written with the token of a channel, as GPFIFO_GET_WORK_SUBMIT_TOKEN returned it",
    source: "open-gpu-kernel-modules, ctrl/ctrlc36f.h, NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN",
    proof: Proof::Sourced,
};

pub(crate) static SCHEDULED: Rule = Rule {
    name: "HOST-DOORBELL-SCHEDULED",
    text: "a channel is scheduled before its doorbell is written: until then the host ignores it",
    source: "open-gpu-kernel-modules, ctrl/ctrla06f/ctrla06fgpfifo.h, NVA06F_CTRL_CMD_GPFIFO_SCHEDULE",
    proof: Proof::Sourced,
};

pub(crate) static PUT: Rule = Rule {
    name: "HOST-GP-PUT",
    text: "GPPut of USERD is an index below the number of entries of the ring",
    source: "open-gpu-doc, classes/host/clc56f.h, Nvc56fControl; manuals/volta/gv100/dev_ram.ref.txt",
    proof: Proof::Sourced,
};

static DEADLOCK: Rule = Rule {
    name: "HOST-DEADLOCK",
    text: "an acquire of a semaphore completes: it cannot if every channel waits or is idle and the client stores nothing",
    source: "open-gpu-doc, manuals/ampere/ga100/dev_pbdma.ref.txt, SEM_EXECUTE: the acquire times out (INTR_0_ACQUIRE)",
    proof: Proof::Sourced,
};

/// What the channels of a GPU share.
#[derive(Debug)]
pub struct Gpu {
    /// Its number in the machine.
    pub number: usize,
    /// Its chip.
    pub chip: &'static Chip,
    caches: compute::Caches,
    contexts: compute::Contexts,
    waiting: compute::Waiting,
}

impl Gpu {
    /// A GPU that has done nothing.
    pub fn new(number: usize, chip: &'static Chip) -> Self {
        Self {
            number,
            chip,
            caches: compute::Caches::default(),
            contexts: compute::Contexts::default(),
            waiting: compute::Waiting::default(),
        }
    }
}

/// What is around a channel that takes a step.
pub struct Around<'a> {
    /// The machine: its journal and its clock.
    pub machine: &'a Machine,
    /// The GPU.
    pub gpu: &'a mut Gpu,
    /// The address space of the channel.
    pub bus: &'a dyn Bus,
    /// USERD, from its first byte on, unless the kernel has it.
    pub userd: Option<&'a dyn Bus>,
}

/// What a channel tells the kernel: an interrupt that does not stall, by the engine that raised it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The host, by a method.
    Host,
    /// Compute, by a semaphore or the end of a grid.
    Compute,
    /// A copy engine.
    Copy,
}

/// The doorbell of a GPU was rung: the channel that is meant, if it runs.
pub fn ring<'a>(
    machine: &Machine,
    state: &'a State,
    gpu: usize,
    token: u32,
) -> Option<&'a Channel> {
    let mut channels = state.channels().filter(|channel| channel.gpu == gpu);
    let Some(channel) = channels.find(|channel| channel.token == token) else {
        machine.broken(&TOKEN, format!("token {token:#x} on GPU {gpu}"));
        return None;
    };
    if channel.error.is_some() {
        // The host has nothing to do with it any more; the client need not know yet.
        return None;
    }
    if !channel.scheduled {
        machine.broken(&SCHEDULED, format!("channel {:#x}", channel.handle));
        return None;
    }
    Some(channel)
}

/// GPPut of a channel, as the host takes it from USERD when the doorbell was rung.
pub fn put(machine: &Machine, channel: &Channel, userd: &dyn Bus) -> Option<u32> {
    let put = userd.word(userd::GP_PUT).ok()?;
    if put < channel.entries {
        return Some(put);
    }
    let entries = channel.entries;
    machine.broken(&PUT, format!("GPPut {put} of {entries} entries"));
    None
}

/// Every channel waits or has nothing to do, and nothing else can change that: names who waits for what.
pub fn stuck<'a>(machine: &Machine, channels: impl IntoIterator<Item = &'a host::Channel>) {
    for channel in channels {
        if let Some(wait) = channel.waits_for() {
            machine.broken(&DEADLOCK, format!("{}: {wait}", channel.who()));
        }
    }
}

/// What the config says that hardware does wrong, as the kernel driver is told of it.
pub(crate) fn injected(fault: &Hardware) -> Error {
    let mut error = Error {
        xid: xid::GONE,
        what: "the GPU has fallen off the bus".into(),
        fault: None,
        exception: None,
    };
    match *fault {
        Hardware::Mmu(va) => {
            let fault = Fault {
                va,
                access: Access::Read,
                why: space::Fault::Unmapped,
            };
            error.what = format!("as the config says: {fault}");
            (error.xid, error.fault) = (xid::MMU, Some(fault));
        }
        Hardware::Exception => {
            error.what = "as the config says: an exception of a kernel".into();
            error.xid = xid::GR_EXCEPTION;
            error.exception = Some(Exception::default());
        }
        Hardware::Gone | Hardware::Hang(_) | Hardware::EventLost(_) => {}
    }
    error
}
