//! Calls that fail because the config asks for it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::config::Fault;
use crate::errno::Result;

use super::lock;

/// Counts calls, and says which of them fail.
pub(super) struct Injector {
    faults: Vec<Fault>,
    counts: Mutex<BTreeMap<String, u32>>,
    fired: AtomicU32,
}

impl Injector {
    pub(super) fn new(faults: Vec<Fault>) -> Injector {
        Injector {
            faults,
            counts: Mutex::default(),
            fired: AtomicU32::new(0),
        }
    }

    /// A call of that name. `NV_ESC_` need not be said in a config.
    pub(super) fn call(&self, name: &str) -> Result {
        if self.faults.is_empty() {
            return Ok(());
        }
        let short = name.strip_prefix("NV_ESC_").unwrap_or(name);
        let count = {
            let mut counts = lock(&self.counts);
            let count = counts.entry(short.into()).or_insert(0);
            *count += 1;
            *count
        };
        let mut same = self.faults.iter().filter(|one| one.nth == count);
        match same.find(|one| one.call == short || one.call == name) {
            Some(fault) => {
                self.fired.fetch_add(1, Ordering::Relaxed);
                Err(fault.failure)
            }
            None => Ok(()),
        }
    }

    pub(super) fn fired(&self) -> u32 {
        self.fired.load(Ordering::Relaxed)
    }
}
