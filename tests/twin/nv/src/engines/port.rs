//! A channel's way to memory and to the journal: what goes wrong is said with the channel's name.

use std::fmt::Display;
use std::sync::Arc;

use drivers_spec::nv::chip::{Arch, Method};
use twin::rule::{Proof, Rule};

use crate::kernel::Machine;

use super::bus::{Bus, Fault};
use super::error::{Error, Exception, Result, Stop, xid};

static MMU: Rule = Rule {
    name: "MMU-FAULT",
    text: "an engine accesses addresses that are mapped for it with sufficient rights",
    source: "open-gpu-kernel-modules, dev_mmu.h; nverror.h, ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT",
    proof: Proof::Sourced,
};

pub(crate) struct Port<'a> {
    pub machine: &'a Machine,
    pub bus: &'a dyn Bus,
    pub who: Arc<str>,
    pub arch: Arch,
}

impl Port<'_> {
    /// Notes a broken rule; the channel goes on.
    pub fn broken(&self, rule: &'static Rule, what: impl Display) {
        self.machine.broken(rule, format!("{}: {what}", self.who));
    }

    /// Notes a broken rule, of which the channel dies.
    pub fn dead(&self, rule: &'static Rule, xid: u32, what: impl Display) -> Stop {
        let what = format!("{}: {what}", self.who);
        self.machine.broken(rule, what.clone());
        Stop::Dead(Error {
            xid,
            what,
            fault: None,
            exception: None,
        })
    }

    /// A warp raised an exception, of which the channel dies.
    pub fn exception(&self, rule: &'static Rule, exception: Exception, what: impl Display) -> Stop {
        let what = format!("{}: {what}", self.who);
        self.machine.broken(rule, what.clone());
        Stop::Dead(Error {
            xid: xid::GR_EXCEPTION,
            what,
            fault: None,
            exception: Some(exception),
        })
    }

    /// The MMU had nothing for an access: the channel dies.
    pub fn mmu(&self, doing: impl Display, fault: Fault) -> Stop {
        let what = format!("{}: {doing}: {fault}", self.who);
        self.machine.broken(&MMU, what.clone());
        Stop::Dead(Error {
            xid: xid::MMU,
            what,
            fault: Some(fault),
            exception: None,
        })
    }

    /// Reads for somebody.
    pub fn read(&self, doing: &str, at: u64, out: &mut [u8]) -> Result {
        self.bus
            .read(at, out)
            .map_err(|fault| self.mmu(doing, fault))
    }

    /// Writes for somebody.
    pub fn write(&self, doing: &str, at: u64, data: &[u8]) -> Result {
        self.bus
            .write(at, data)
            .map_err(|fault| self.mmu(doing, fault))
    }

    /// Notes bits of a method's word that mean nothing.
    pub fn reserved(&self, rule: &'static Rule, method: &Method, value: u32) {
        let rest = value & !method.mask(self.arch);
        if rest != 0 {
            let name = method.register.word.name;
            self.broken(rule, format!("{name} {value:#x}, of which {rest:#x}"));
        }
    }
}
