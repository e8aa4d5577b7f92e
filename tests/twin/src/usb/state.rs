//! What the bridge is: its parts, its power, its cable.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hcq::transport::Setup;

use super::clock::Rates;
use super::config::{Config, Counts, Make, Trouble, What};
use super::device::Endpoints;
use super::fabric::Fabric;
use super::rules;
use super::sram::Sram;
use super::stream::Stream;
use super::tlp::Engine;
use crate::rule::{Journal, Rule};

/// What the bridge is.
pub(super) struct State {
    pub(super) config: Config,
    pub(super) rates: Rates,
    pub(super) journal: Arc<Journal>,
    pub(super) engine: Engine,
    pub(super) fabric: Fabric,
    pub(super) sram: Sram,
    /// What was written to memory that does nothing.
    pub(super) ram: BTreeMap<u16, u8>,
    pub(super) endpoints: Endpoints,
    pub(super) stream: Option<Stream>,
    /// Packets that were read ahead for the host, and how many of them nobody wants any more.
    pub(super) waiting: VecDeque<Vec<u8>>,
    pub(super) stale: usize,
    /// Looks that find the link in training.
    pub(super) training: u32,
    /// What the transfer that is under way takes, beside the round trip.
    pub(super) took: Duration,
    pub(super) make: Make,
    pub(super) plugged: bool,
    /// Its number on the bus: who has opened it by an older one has lost it.
    pub(super) number: u8,
    pub(super) troubles: Vec<Trouble>,
    pub(super) counts: Counts,
    pub(super) now: Duration,
    /// Until when the cable carries bulk data.
    pub(super) carries: Duration,
}

impl State {
    /// A rule is broken.
    pub(super) fn broken(&self, rule: &'static Rule, what: String) {
        self.journal.broken(rule, what);
    }

    /// The function gets power, or loses it.
    pub(super) fn power(&mut self, on: bool) {
        match (on, self.fabric.function().is_some()) {
            (true, false) => match (self.make)() {
                Ok(function) => {
                    self.fabric.attach(Arc::new(function), self.config.retries);
                    self.training = self.config.training;
                }
                // The host has no memory left: the link stays down.
                Err(errno) => self.journal.event(format!("no function: errno {errno}")),
            },
            (false, true) => self.fabric.detach(),
            _ => {}
        }
        self.follow();
    }

    /// The function reaches the buffer as long as all bridges let it.
    pub(super) fn follow(&mut self) {
        let shown = self.fabric.function().is_some() && self.fabric.is_master();
        self.sram.show(shown);
    }

    /// Power has come to the bridge.
    pub(super) fn start(&mut self) {
        self.engine = Engine::new(self.config.looks);
        self.fabric = Fabric::new(self.config.hops, &self.journal);
        self.sram.lose();
        self.ram.clear();
        self.quiet();
        self.endpoints.both();
        self.plugged = true;
        self.power(self.config.powered);
    }

    pub(super) fn unplug(&mut self) {
        self.plugged = false;
        self.number = self.number.wrapping_add(1).max(2);
        self.power(false);
    }

    /// The cable carries bulk data for so long, after what is under way: returns when that ends.
    pub(super) fn carried(&mut self, took: Duration) -> Duration {
        self.carries = self.carries.max(self.now) + took;
        self.carries
    }

    /// What is wrong with the next transfer.
    fn trouble(&mut self) -> Option<What> {
        let mut found = None;
        self.troubles
            .retain_mut(|trouble| match trouble.after.checked_sub(1) {
                Some(left) => {
                    trouble.after = left;
                    true
                }
                None => {
                    found = Some(trouble.what);
                    false
                }
            });
        found
    }

    /// Whether who has opened it under a number still has it.
    pub(super) fn is_there(&self, number: u8) -> bool {
        self.plugged && self.number == number
    }

    /// Sets the configuration and the interface, as the host's own calls do.
    pub(super) fn configure(&mut self) {
        self.endpoints.both();
        self.quiet();
        self.sram.leave();
    }

    /// Clears a halt, as the host's own call does.
    pub(super) fn clear_halt(&mut self, address: u8) -> bool {
        let setup = Setup {
            request_type: 0x02,
            request: 1,
            value: 0,
            index: address.into(),
        };
        self.standard_out(setup, &[]);
        let endpoint = self.endpoints.get(address);
        endpoint.map(|endpoint| endpoint.host = 0).is_some()
    }

    /// Resets the port, and configures the device again.
    pub(super) fn reset(&mut self) {
        if self.config.keeps && self.sram.waits(false) {
            self.broken(&rules::RESET, "a copy from the host waits".into());
        } else if !self.config.keeps {
            self.sram.forget();
        }
        self.configure();
    }

    /// What is wrong with each of so many transfers to come.
    pub(super) fn troubles(&mut self, transfers: usize) -> Vec<Option<What>> {
        (0..transfers).map(|_| self.trouble()).collect()
    }
}
