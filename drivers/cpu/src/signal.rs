//! Signals of the CPU: 16 bytes of device memory, the value and the time in ns.

use hcq::mem::view::{View, ViewError};
use hcq::progress::{Asked, Silence, raising};
use hcq::transport::MonotonicClock;
use hcq::{AllocSpec, Deadline, Error, MemoryKind, Result, Signal, SignalMemory};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::event::spin;
use crate::shared::Shared;
use crate::waiters;

/// The most that a waiter sleeps before it looks by itself: bounds how late it sees a loss that
/// nobody announced, or a value that another device's hardware wrote.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

struct CpuSignal {
    name: Arc<str>,
    shared: Arc<Shared>,
    view: View,
    spin: Duration,
}

/// A new signal with value 0.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(crate) fn new_signal(shared: &Arc<Shared>, name: &str, spin: Duration) -> Result<Signal> {
    let buffer = shared.pool.alloc(AllocSpec {
        bytes: 16,
        align: 16,
        kind: MemoryKind::Control,
        zeroed: true,
    })?;
    let memory = CpuSignal {
        name: name.into(),
        shared: shared.clone(),
        // Keeps the memory.
        view: buffer.view()?,
        spin,
    };
    Ok(Signal::new(name, buffer.va(), Arc::new(memory)))
}

impl CpuSignal {
    /// Cannot be: the view has 16 aligned bytes.
    fn broken(&self, error: ViewError) -> Error {
        Error::Fault {
            device: self.shared.id.clone(),
            unit: format!("signal {}", self.name),
            what: error.to_string(),
        }
    }

    fn load(&self) -> Result<u64> {
        self.view.load_u64(0).map_err(|e| self.broken(e))
    }
}

impl SignalMemory for CpuSignal {
    fn value(&self) -> Result<u64> {
        self.shared.lost.check()?;
        self.load()
    }

    fn set(&self, value: u64) -> Result<()> {
        self.shared.lost.check()?;
        self.view.store_u64(0, value).map_err(|e| self.broken(e))?;
        waiters::raised(self.view.as_ptr() as u64, value);
        Ok(())
    }

    fn timestamp(&self) -> Result<u64> {
        self.shared.lost.check()?;
        self.view.load_u64(8).map_err(|e| self.broken(e))
    }

    fn keep(&self, what: Box<dyn Any + Send>) {
        self.shared.lost.keep(what);
    }

    fn wait(&self, value: u64, deadline: Deadline) -> Result<()> {
        let lost = &self.shared.lost;
        // An unreadable signal is reported below.
        let reached = || lost.is_lost() || self.load().is_ok_and(|now| now >= value);
        spin(self.spin, reached);
        let va = self.view.as_ptr() as u64;
        let mut silence = Silence::new(deadline);
        let mut last = None;
        loop {
            lost.check()?;
            // Before the look: what happens meanwhile still counts.
            let mut left = silence.left(&MonotonicClock);
            let over = match left.is_zero() {
                true => silence.over(&MonotonicClock, || raising(va, &mut Asked::default())),
                false => None,
            };
            let seen = self.load()?;
            if seen >= value {
                return Ok(());
            }
            if last.replace(seen).is_some_and(|last| last != seen) {
                silence.hear(&MonotonicClock);
            } else if let Some(over) = over {
                return Err(Error::Timeout {
                    device: self.shared.id.clone(),
                    what: format!("signal {} ({})", self.name, self.shared.report()),
                    wanted: value,
                    seen,
                    after: silence.elapsed(&MonotonicClock),
                    over,
                });
            }
            if left.is_zero() {
                left = silence.left(&MonotonicClock);
            }
            waiters::sleep(va, value, left.min(LONGEST_SLEEP), reached);
        }
    }
}
