//! Where a doorbell goes: what RM knows of the channel that was rung, for whatever runs its ring.
//!
//! - [`bus`]: what an engine sees of memory.

pub mod bus;

use twin::rule::{Proof, Rule};

use crate::kernel::Machine;
use crate::rm::channel::Channel;

static TOKEN: Rule = Rule {
    name: "HOST-DOORBELL-TOKEN",
    text: "the doorbell is rung with the token of a channel, as GPFIFO_GET_WORK_SUBMIT_TOKEN gave it",
    source: "open-gpu-kernel-modules, ctrl/ctrlc36f.h, NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN",
    proof: Proof::Sourced,
};

static SCHEDULED: Rule = Rule {
    name: "HOST-DOORBELL-SCHEDULED",
    text: "a channel is scheduled before its doorbell is rung: the host does nothing with it before",
    source: "open-gpu-kernel-modules, ctrl/ctrla06f/ctrla06fgpfifo.h, NVA06F_CTRL_CMD_GPFIFO_SCHEDULE",
    proof: Proof::Sourced,
};

static PUT: Rule = Rule {
    name: "HOST-GP-PUT",
    text: "GPPut of USERD is the index of an entry: below the number of entries of the ring",
    source: "open-gpu-doc, classes/host/clc56f.h, Nvc56fControl; manuals/volta/gv100/dev_ram.ref.txt",
    proof: Proof::Sourced,
};

/// What there is to do: entries of a ring up to `put`.
#[derive(Debug)]
pub struct Work<'a> {
    /// The GPU.
    pub gpu: usize,
    /// The channel: its ring, its address space, its notifier.
    pub channel: &'a Channel,
    /// What the doorbell was rung with.
    pub token: u32,
    /// GPPut, as it is in USERD.
    pub put: u32,
}

/// What runs rings: the hardware, of which the kernel driver sees nothing.
pub trait Engines {
    /// A channel has work.
    fn work(&self, work: Work<'_>);
}

/// The page with the doorbell is written: looks the channel up, and hands its work over.
pub fn ring(machine: &Machine, gpu: usize, token: u32, put: u32, engines: &dyn Engines) {
    let state = machine.state();
    let mut channels = state.channels().filter(|channel| channel.gpu == gpu);
    let Some(channel) = channels.find(|channel| channel.token == token) else {
        machine.broken(&TOKEN, format!("token {token:#x} on GPU {gpu}"));
        return;
    };
    if !channel.scheduled {
        machine.broken(&SCHEDULED, format!("channel {:#x}", channel.handle));
        return;
    }
    if put >= channel.entries {
        let entries = channel.entries;
        machine.broken(&PUT, format!("GPPut {put} of {entries} entries"));
        return;
    }
    engines.work(Work {
        gpu,
        channel,
        token,
        put,
    });
}
