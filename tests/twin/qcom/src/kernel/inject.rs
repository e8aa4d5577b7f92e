//! Calls that fail because the config asks for it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use hcq::sync::lock;
use twin::errno::{Errno, Result};

use crate::config::Fault;

/// Counts calls, and says which of them fail.
pub(super) struct Injector {
    faults: Vec<(String, Errno, u32)>,
    counts: Mutex<BTreeMap<String, u32>>,
    fired: AtomicU32,
}

/// What stands for every call in a config.
const ANY: &str = "any";

impl Injector {
    pub(super) fn new(faults: Vec<Fault>) -> Injector {
        let calls = faults.into_iter().filter_map(|fault| match fault {
            Fault::Call { name, errno, nth } => Some((name, errno, nth)),
            _ => None,
        });
        Injector {
            faults: calls.collect(),
            counts: Mutex::default(),
            fired: AtomicU32::new(0),
        }
    }

    /// A call of that name.
    pub(super) fn call(&self, name: &str) -> Result {
        if self.faults.is_empty() {
            return Ok(());
        }
        let (own, any) = {
            let mut counts = lock(&self.counts);
            let mut count = |name: &str| {
                let count = counts.entry(name.into()).or_insert(0);
                *count += 1;
                *count
            };
            (count(name), count(ANY))
        };
        let mut all = self.faults.iter();
        let fails = all.find(|(call, _, nth)| match &**call {
            ANY => *nth == any,
            call => call == name && *nth == own,
        });
        match fails {
            Some((_, errno, _)) => {
                self.fired.fetch_add(1, Ordering::Relaxed);
                Err(*errno)
            }
            None => Ok(()),
        }
    }

    pub(super) fn fired(&self) -> u32 {
        self.fired.load(Ordering::Relaxed)
    }
}
