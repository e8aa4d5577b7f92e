//! The bridge on its cable, for who puts it into a machine: plugged in and out, and what goes wrong with transfers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hcq::transport::{Transfer, UsbDevice};

use super::clock::Rates;
use super::device::{self, Answer, Endpoints, IN, OUT};
use super::fabric::Fabric;
use super::pipe::Pipe;
use super::rules;
use super::sram::Sram;
use super::stream::Stream;
use super::tlp::Engine;
use crate::pci::{Function, HostMemory};
use crate::rule::{Journal, Rule};

/// How a bridge is.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its port, as sysfs calls it.
    pub port: String,
    /// It is on USB2.
    pub usb2: bool,
    /// How fast it is; none for what is documented.
    pub rates: Option<Rates>,
    /// Bridges between it and the function, its own two with them: 1 to 4.
    pub hops: usize,
    /// Its firmware gives the function power by itself.
    pub powered: bool,
    /// How many looks at the link find it in training after power has come.
    pub training: u32,
    /// How many configuration requests the function wants again before it answers.
    pub retries: u32,
    /// How many looks at a packet's completion are in vain, by who looks at registers.
    pub looks: u32,
    /// Its firmware keeps a copy over a reset, as it did once.
    pub keeps: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            port: "2-1".into(),
            usb2: false,
            rates: None,
            hops: 4,
            powered: false,
            training: 0,
            retries: 0,
            looks: 1,
            keeps: false,
        }
    }
}

/// What goes wrong with a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It has no effect, and its endpoint halts.
    Stall,
    /// Half of its bytes move.
    Short,
    /// It has its effect, but the host has given up before it knows.
    Late,
    /// It has no effect, and the host hears nothing.
    Vanish,
    /// The cable is pulled out.
    Unplug,
}

/// A transfer that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// How many go right before it.
    pub after: u64,
    /// How.
    pub what: What,
}

/// What has gone over the cable.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Control transfers.
    pub control: u64,
    /// Bulk transfers.
    pub bulk: u64,
    /// How often the host has waited: once for what it queues at a time.
    pub round_trips: u64,
    /// Bytes of bulk transfers to the device.
    pub bytes_out: u64,
    /// Bytes of bulk transfers to the host.
    pub bytes_in: u64,
}

/// Gives a function as power leaves it, or an errno.
pub type Make = Box<dyn Fn() -> Result<Function, i32> + Send + Sync>;

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
    make: Make,
    plugged: bool,
    /// Its number on the bus: who has opened it by an older one has lost it.
    number: u8,
    troubles: Vec<Trouble>,
    counts: Counts,
    now: Duration,
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
    fn start(&mut self) {
        self.engine = Engine::new(self.config.looks);
        self.fabric = Fabric::new(self.config.hops, &self.journal);
        self.sram.lose();
        self.ram.clear();
        self.quiet();
        self.endpoints.both();
        self.plugged = true;
        self.power(self.config.powered);
    }

    fn unplug(&mut self) {
        self.plugged = false;
        self.number = self.number.wrapping_add(1).max(2);
        self.power(false);
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

    /// A bulk transfer of an endpoint, as far as the endpoint lets it: packets whose numbers differ are lost.
    fn bulk(
        &mut self,
        address: u8,
        bytes: usize,
        run: impl FnOnce(&mut State) -> Answer,
    ) -> Answer {
        let packet = if self.config.usb2 { 512 } else { 1024 };
        let Some(endpoint) = self.endpoints.get(address) else {
            self.broken(
                &rules::ENDPOINT,
                format!("{bytes:#x} bytes of {address:#04x}"),
            );
            return Answer::Quiet;
        };
        if endpoint.halted {
            return Answer::Stall;
        }
        let (host, device) = (endpoint.host % 32, endpoint.device % 32);
        if host != device {
            let what = format!("{address:#04x}: the host is at {host}, the device at {device}");
            self.broken(&rules::TOGGLE, what);
            return Answer::Quiet;
        }
        let answer = run(self);
        if let (Answer::Moved(bytes), Some(endpoint)) = (answer, self.endpoints.get(address)) {
            let packets = bytes.div_ceil(packet).max(1) as u32;
            endpoint.host = endpoint.host.wrapping_add(packets);
            endpoint.device = endpoint.host;
        }
        answer
    }

    fn run(&mut self, transfer: &mut Transfer<'_>) -> Answer {
        match transfer {
            Transfer::ControlIn(setup, to) => self.control_in(*setup, to),
            Transfer::ControlOut(setup, from) => self.control_out(*setup, from),
            Transfer::BulkIn(address, to) => {
                let bytes = to.len();
                let in_only = *address & 0x80 != 0;
                self.bulk(if in_only { *address } else { 0xff }, bytes, |state| {
                    state.bulk_in(to)
                })
            }
            Transfer::BulkOut(address, from) => {
                let out_only = *address & 0x80 == 0;
                let address = if out_only { *address } else { 0xff };
                self.bulk(address, from.len(), |state| state.bulk_out(from))
            }
        }
    }

    /// One transfer. What went wrong with it is `trouble`.
    pub(super) fn transfer(
        &mut self,
        transfer: &mut Transfer<'_>,
        trouble: Option<What>,
    ) -> Answer {
        self.journal.event(told(transfer));
        self.took = Duration::ZERO;
        if is_control(transfer) {
            self.took += self.rates.control;
        }
        match trouble {
            Some(What::Stall) => {
                if let Some(endpoint) = self.endpoints.get(address(transfer)) {
                    endpoint.halted = true;
                }
                return Answer::Stall;
            }
            Some(What::Vanish) => return Answer::Quiet,
            Some(What::Unplug) => {
                self.unplug();
                return Answer::Quiet;
            }
            Some(What::Late) if to_host(transfer) && !is_control(transfer) => return Answer::Quiet,
            Some(What::Short) => {
                return match transfer {
                    Transfer::ControlOut(_, from) => Answer::Moved(from.len() / 2),
                    Transfer::BulkOut(to, from) => {
                        let half = from.len() / 2 / 4 * 4;
                        let mut half = Transfer::BulkOut(*to, &from[..half]);
                        match self.run(&mut half) {
                            Answer::Moved(bytes) => Answer::Moved(bytes),
                            other => other,
                        }
                    }
                    _ => match self.run(transfer) {
                        Answer::Moved(bytes) => Answer::Moved(bytes / 2),
                        other => other,
                    },
                };
            }
            Some(What::Late) | None => {}
        }
        let answer = self.run(transfer);
        match (trouble, answer) {
            (Some(_), Answer::Moved(_)) => Answer::Quiet,
            _ => answer,
        }
    }

    /// Counts what has moved.
    pub(super) fn count(&mut self, transfer: &Transfer<'_>, moved: usize) {
        match transfer {
            Transfer::ControlIn(..) | Transfer::ControlOut(..) => self.counts.control += 1,
            Transfer::BulkIn(..) => {
                self.counts.bulk += 1;
                self.counts.bytes_in += moved as u64;
            }
            Transfer::BulkOut(..) => {
                self.counts.bulk += 1;
                self.counts.bytes_out += moved as u64;
            }
        }
    }

    /// The host has waited for so long.
    pub(super) fn waited(&mut self, time: Duration) {
        self.counts.round_trips += 1;
        self.now += time;
    }
}

/// Whether it is of endpoint 0.
pub(super) fn is_control(transfer: &Transfer<'_>) -> bool {
    matches!(transfer, Transfer::ControlIn(..) | Transfer::ControlOut(..))
}

fn to_host(transfer: &Transfer<'_>) -> bool {
    matches!(transfer, Transfer::ControlIn(..) | Transfer::BulkIn(..))
}

/// The endpoint of a transfer.
pub(super) fn address(transfer: &Transfer<'_>) -> u8 {
    match transfer {
        Transfer::ControlIn(..) | Transfer::ControlOut(..) => 0,
        Transfer::BulkIn(address, _) | Transfer::BulkOut(address, _) => *address,
    }
}

/// A transfer in words.
pub(super) fn told(transfer: &Transfer<'_>) -> String {
    match transfer {
        Transfer::ControlIn(setup, to) => format!(
            "control in {:#04x}, value {:#06x}, index {:#06x}, {} bytes",
            setup.request,
            setup.value,
            setup.index,
            to.len()
        ),
        Transfer::ControlOut(setup, from) => format!(
            "control out {:#04x}, value {:#06x}, index {:#06x}, {} bytes",
            setup.request,
            setup.value,
            setup.index,
            from.len()
        ),
        Transfer::BulkIn(address, to) => format!("bulk in {address:#04x}, {:#x} bytes", to.len()),
        Transfer::BulkOut(address, from) => {
            format!("bulk out {address:#04x}, {:#x} bytes", from.len())
        }
    }
}

/// A bridge.
pub struct Bridge {
    pub(super) port: String,
    state: Mutex<State>,
}

impl Bridge {
    /// A bridge that carries the function that `make` gives, which reaches that memory; it is plugged in.
    ///
    /// # Errors
    /// An errno: the host has no memory left.
    pub fn new(
        config: Config,
        memory: &Arc<HostMemory>,
        journal: &Arc<Journal>,
        make: Make,
    ) -> Result<Arc<Bridge>, i32> {
        let usual = if config.usb2 {
            Rates::USB2
        } else {
            Rates::USB3
        };
        let mut state = State {
            rates: config.rates.unwrap_or(usual),
            journal: journal.clone(),
            engine: Engine::new(config.looks),
            fabric: Fabric::new(config.hops, journal),
            sram: Sram::new(memory)?,
            ram: BTreeMap::new(),
            endpoints: Endpoints::default(),
            stream: None,
            waiting: VecDeque::new(),
            stale: 0,
            training: 0,
            took: Duration::ZERO,
            make,
            plugged: true,
            number: 2,
            troubles: Vec::new(),
            counts: Counts::default(),
            now: Duration::ZERO,
            config,
        };
        state.start();
        Ok(Arc::new(Bridge {
            port: state.config.port.clone(),
            state: Mutex::new(state),
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in a model is a failed test already.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pulls the cable out: who has it open has lost it, and the function loses power.
    pub fn unplug(&self) {
        self.lock().unplug();
    }

    /// Plugs it in again: it starts anew, with another number.
    pub fn plug(&self) {
        let mut state = self.lock();
        if !state.plugged {
            state.start();
        }
    }

    /// Resets the port, as the host's own call does: who has it open keeps it, in its first configuration.
    pub fn reset(&self) {
        self.lock().reset();
    }

    /// Has a transfer go wrong.
    pub fn inject(&self, trouble: Trouble) {
        self.lock().troubles.push(trouble);
    }

    /// What has gone over the cable so far.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// How long that has taken the host.
    pub fn now(&self) -> Duration {
        self.lock().now
    }

    /// The function, as long as it has power.
    pub fn function(&self) -> Option<Arc<Function>> {
        self.lock().fabric.function().cloned()
    }

    /// What the host sees of it; none while it is not plugged in.
    pub fn found(&self) -> Option<UsbDevice> {
        let state = self.lock();
        let (vendor, product) = device::IDS;
        state.plugged.then(|| UsbDevice {
            port: self.port.clone(),
            vendor,
            product,
            bus: 2,
            number: state.number,
            speed: if state.config.usb2 { 480 } else { 10_000 },
            product_name: Some(device::PRODUCT.into()),
            serial: Some(device::SERIAL.into()),
        })
    }

    /// Its descriptor (Universal Serial Bus 3.2 Specification, 9.6.1).
    pub fn descriptor(&self) -> Vec<u8> {
        device::device(self.lock().config.usb2)
    }

    /// Opens its interface, in the first configuration and setting; none while it is not plugged in.
    pub fn open(self: &Arc<Self>) -> Option<Arc<Pipe>> {
        let mut state = self.lock();
        if !state.plugged {
            return None;
        }
        state.configure();
        let number = state.number;
        Some(Arc::new(Pipe::new(self.clone(), number)))
    }
}

impl State {
    /// Whether who has opened it under a number still has it.
    pub(super) fn is_there(&self, number: u8) -> bool {
        self.plugged && self.number == number
    }

    /// Sets the configuration and the interface, as the host's own calls do.
    fn configure(&mut self) {
        self.endpoints.both();
        self.quiet();
    }

    /// Clears a halt, as the host's own call does.
    pub(super) fn clear_halt(&mut self, address: u8) -> bool {
        let setup = hcq::transport::Setup {
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
    fn reset(&mut self) {
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

    /// A request ended a stream whose bulk transfer is still to come.
    pub(super) fn was_cut(&self, setup: &Transfer<'_>, later: &[&Transfer<'_>]) -> bool {
        let Transfer::ControlOut(setup, _) = setup else {
            return false;
        };
        let (Some(stream), 0xf0) = (self.stream, setup.request) else {
            return false;
        };
        let address = if stream.to_host { IN } else { OUT };
        later.iter().any(|other| self::address(other) == address)
    }
}
