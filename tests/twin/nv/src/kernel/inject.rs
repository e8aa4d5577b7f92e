//! Calls that fail because the config asks for it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use drivers_spec::nv::status;
use hcq::sync::lock;

use crate::config::{Fault, Hardware};
use crate::errno::{Failure, Result};

/// Counts calls, and says which of them fail.
pub(super) struct Injector {
    faults: Vec<Fault>,
    counts: Mutex<BTreeMap<String, u32>>,
    fired: AtomicU32,
    /// What the hardware has still to do wrong.
    hardware: Mutex<Vec<Hardware>>,
    /// Whether the GPUs are off the bus.
    gone: AtomicBool,
}

/// What stands for every call in a config.
const ANY: &str = "any";

/// Calls that are no ioctls.
const PLAIN: [&str; 3] = ["open", "mmap", "munmap"];

/// Calls that need no GPU.
const WITHOUT: [&str; 4] = ["open", "mmap", "munmap", "NV01_ROOT_CLIENT"];

impl Injector {
    pub(super) fn new(faults: Vec<Fault>, hardware: Vec<Hardware>) -> Injector {
        Injector {
            hardware: Mutex::new(hardware),
            gone: AtomicBool::new(false),
            faults,
            counts: Mutex::default(),
            fired: AtomicU32::new(0),
        }
    }

    /// A call of that name. `NV_ESC_` need not be said in a config.
    pub(super) fn call(&self, name: &str) -> Result {
        if self.gone() && !WITHOUT.contains(&name) && !name.contains("FREE") {
            return Err(Failure::Status(status::NV_ERR_GPU_IS_LOST));
        }
        if self.faults.is_empty() {
            return Ok(());
        }
        let short = name.strip_prefix("NV_ESC_").unwrap_or(name);
        let (count, any) = {
            let mut counts = lock(&self.counts);
            let mut count = |name: &str| {
                let count = counts.entry(name.into()).or_insert(0);
                *count += 1;
                *count
            };
            // Classes and controls are part of a call.
            let whole = name != short || name.starts_with("UVM_") || PLAIN.contains(&name);
            (count(short), whole.then(|| count(ANY)))
        };
        let mut all = self.faults.iter();
        let fails = |one: &&Fault| match &*one.call {
            ANY => any == Some(one.nth),
            call => one.nth == count && (call == short || call == name),
        };
        match all.find(fails) {
            Some(fault) => {
                self.fired.fetch_add(1, Ordering::Relaxed);
                Err(fault.failure)
            }
            None => Ok(()),
        }
    }

    /// What the hardware does wrong now, if it is one of these; it does so once.
    pub(super) fn hardware(&self, now: impl Fn(&Hardware) -> bool) -> Option<Hardware> {
        let mut all = lock(&self.hardware);
        let at = all.iter().position(now)?;
        let fault = all.remove(at);
        if fault == Hardware::Gone {
            self.gone.store(true, Ordering::Release);
        }
        Some(fault)
    }

    /// Whether an event that happens now is lost.
    pub(super) fn loses(&self) -> bool {
        let mut all = lock(&self.hardware);
        let mut lost = false;
        for fault in all.iter_mut() {
            if let Hardware::EventLost(nth) = fault {
                *nth -= 1;
                lost |= *nth == 0;
            }
        }
        all.retain(|fault| *fault != Hardware::EventLost(0));
        lost
    }

    /// Whether the GPUs are off the bus.
    pub(super) fn gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// The calls that were counted, which is done where some fail.
    pub(super) fn calls(&self) -> Vec<String> {
        lock(&self.counts).keys().cloned().collect()
    }

    pub(super) fn fired(&self) -> u32 {
        self.fired.load(Ordering::Relaxed)
    }
}
