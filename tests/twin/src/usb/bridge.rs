//! The bridge on its cable, for who puts it into a machine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hcq::sync::lock;
use hcq::transport::UsbDevice;

use super::clock::Rates;
use super::config::{Config, Counts, Make, Trouble};
use super::device::{self, Endpoints};
use super::fabric::Fabric;
use super::pipe::Pipe;
use super::sram::Sram;
use super::state::State;
use super::tlp::Engine;
use crate::pci::{Function, HostMemory};
use crate::rule::Journal;

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
            carries: Duration::ZERO,
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
        lock(&self.state)
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

    /// How fast it is.
    pub fn rates(&self) -> Rates {
        self.lock().rates
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
        let ((vendor, product), name) = match state.config.stock {
            true => (device::STOCK_IDS, device::STOCK_PRODUCT),
            false => (device::IDS, device::PRODUCT),
        };
        state.plugged.then(|| UsbDevice {
            port: self.port.clone(),
            vendor,
            product,
            bus: 2,
            number: state.number,
            speed: if state.config.usb2 { 480 } else { 10_000 },
            product_name: Some(name.into()),
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
