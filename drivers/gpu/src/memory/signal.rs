//! Signals: 16 bytes of memory that host and GPUs share uncached: the value, and the clock.
//!
//! SDMA writes a value in two halves, the low one first. The host may see a value between the old and the
//! new one then, or the low half of the new value under the high one of the old: less than was there
//! before. Such a look counts for nothing.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hcq::mem::window::Window;
use hcq::progress::{Asked, Silence, raising};
use hcq::transport::{MonotonicClock, TransportError};
use hcq::{Deadline, Error, GpuVa, MemoryKind, Result, Signal, SignalMemory};

use super::pool::{Piece, Pool};
use crate::backend::{Age, Event};
use crate::core::Core;

/// Bytes of a signal.
const BYTES: u64 = 16;

/// How long a waiting thread looks before it sleeps: most waits are for work of some microseconds, and
/// an interrupt and a wake-up take tens.
const SPIN: Duration = Duration::from_micros(50);

/// Looks between two looks at the clock.
const LOOKS: u32 = 32;

/// The longest sleep of a thread between two polls: with interrupts, which can be lost,
/// and without.
const SLICE: Duration = Duration::from_millis(20);
const SLICE_ALONE: Duration = Duration::from_millis(1);

struct SharedSignal {
    name: Arc<str>,
    core: Arc<Core>,
    window: Window,
    va: GpuVa,
    /// The largest value that was seen.
    seen: AtomicU64,
    /// The number of times that the event was signalled, as known from waits.
    age: AtomicU64,
    /// Signalled with the value, if it is a timeline; else by whatever ends on the GPU, where there is such an event.
    event: Option<Arc<Event>>,
    /// The time between two polls of a sleeping thread.
    slice: Duration,
    /// Keeps the memory; none where someone else does.
    _piece: Option<Piece>,
}

/// A new signal of a queue, with value 0: packets that set it raise an interrupt, which signals the event.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn new_timeline(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    name: &str,
    event: &Arc<Event>,
) -> Result<Signal> {
    placed(core, pool, name, Some(event.clone()), SLICE)
}

/// A new signal with value 0. Packets that set it raise no interrupt. An event that the end of their submission signals
/// spares who sleeps the rest of his slice.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub fn new_signal(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    name: &str,
    event: Option<Arc<Event>>,
) -> Result<Signal> {
    placed(core, pool, name, event, SLICE_ALONE)
}

fn placed(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    name: &str,
    event: Option<Arc<Event>>,
    slice: Duration,
) -> Result<Signal> {
    let piece = pool.piece(MemoryKind::Control, BYTES, &format!("signal {name}"))?;
    let place = (piece.shared()?, piece.va());
    let memory = SharedSignal {
        event,
        slice,
        _piece: Some(piece),
        ..SharedSignal::at(core, name, place)
    };
    // Arrived on return: another device may wait for it at once.
    let zeroed = memory.window.fill(0, BYTES, 0);
    zeroed
        .and_then(|()| memory.window.flush())
        .map_err(|e| memory.broken(e))?;
    Ok(memory.signal())
}

/// A signal over memory that someone else keeps, zeroed.
pub fn over(core: &Arc<Core>, name: &str, window: Window, va: GpuVa) -> Signal {
    SharedSignal::at(core, name, (window, va)).signal()
}

impl SharedSignal {
    /// A signal with its initial value, in memory owned by the caller.
    fn at(core: &Arc<Core>, name: &str, (window, va): (Window, GpuVa)) -> SharedSignal {
        SharedSignal {
            name: name.into(),
            core: core.clone(),
            window,
            va,
            seen: AtomicU64::new(0),
            age: AtomicU64::new(Age::NEW.0),
            event: None,
            slice: SLICE_ALONE,
            _piece: None,
        }
    }

    fn signal(self) -> Signal {
        let name = self.name.clone();
        Signal::new(&name, self.va, Arc::new(self))
    }

    /// Cannot be where it is mapped: the window has 16 aligned bytes.
    #[cold]
    fn broken(&self, error: TransportError) -> Error {
        self.core.broken(format!("signal {}", self.name), error)
    }

    fn load(&self) -> Result<u64> {
        let value = self.window.load::<u64>(0).map_err(|e| self.broken(e))?;
        // Over USB: all ones of a GPU that has left.
        if value == u64::MAX && self.window.is_remote() {
            self.core.look()?;
        }
        // Acquire: who finds a larger value here sees what the thread that saw it did.
        let seen = self.seen.load(Ordering::Acquire);
        if value > seen {
            self.seen.fetch_max(value, Ordering::AcqRel);
        }
        Ok(value.max(seen))
    }

    /// Looks for a short while.
    fn spin(&self, value: u64, limit: Duration) -> Result<bool> {
        let mut start = None;
        loop {
            for _ in 0..LOOKS {
                if self.load()? >= value {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            // Most waits end before the clock is read.
            let start = start.get_or_insert_with(Instant::now);
            if start.elapsed() >= limit || self.core.lost.is_lost() {
                return Ok(false);
            }
            std::thread::yield_now();
        }
    }
}

impl SignalMemory for SharedSignal {
    fn value(&self) -> Result<u64> {
        self.core.lost.check()?;
        self.load()
    }

    fn set(&self, value: u64) -> Result<()> {
        self.core.lost.check()?;
        self.window.ring(0, value).map_err(|e| self.broken(e))?;
        self.core.backend.raised(self.va, value);
        Ok(())
    }

    fn timestamp(&self) -> Result<u64> {
        self.core.lost.check()?;
        self.window.load(8).map_err(|e| self.broken(e))
    }

    fn keep(&self, what: Box<dyn Any + Send>) {
        self.core.lost.keep(what);
    }

    fn wait(&self, value: u64, deadline: Deadline) -> Result<()> {
        self.core.lost.check()?;
        // Each look at remote memory is a transfer that is waited for.
        let looks = !self.window.is_remote();
        if looks && self.spin(value, SPIN.min(deadline.remaining(&MonotonicClock)))? {
            return Ok(());
        }
        let event = self.event.as_deref();
        // Before the check: a signal after it ends the sleep.
        let mut age = Age(self.age.load(Ordering::Acquire));
        let mut silence = Silence::new(deadline);
        let mut last = None;
        loop {
            // Before the check: later events still count.
            let mut left = silence.left(&MonotonicClock);
            let silent = || raising(self.va.0, &mut Asked::default());
            let over = match left.is_zero() {
                true => silence.over(&MonotonicClock, silent),
                false => None,
            };
            let seen = self.load()?;
            if seen >= value {
                return Ok(());
            }
            if last.replace(seen).is_some_and(|last| last != seen) {
                silence.hear(&MonotonicClock);
            } else if let Some(over) = over {
                // Why it does not come may be known by now.
                self.core.look()?;
                let report = self.core.queues().map(|queues| queues.report());
                return Err(self.core.overdue(Error::Timeout {
                    device: self.core.id.clone(),
                    what: match report.filter(|text| !text.is_empty()) {
                        Some(report) => format!("signal {} ({report})", self.name),
                        None => format!("signal {}", self.name),
                    },
                    wanted: value,
                    seen,
                    after: silence.elapsed(&MonotonicClock),
                    over,
                }));
            }
            if left.is_zero() {
                left = silence.left(&MonotonicClock);
            }
            let reached = || self.core.lost.is_lost() || self.load().is_ok_and(|now| now >= value);
            let (signal, limit) = ((self.va, value), left.min(self.slice));
            self.core
                .sleep_for(signal, &reached, event, &mut age, limit)?;
            if event.is_some() {
                self.age.fetch_max(age.0, Ordering::AcqRel);
            }
        }
    }
}
