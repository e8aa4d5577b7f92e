//! Signals: a logical 64-bit value that only grows, with the time of its last change.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::addr::GpuVa;
use crate::error::Result;
use crate::wait::Deadline;

/// How the host reaches a signal. The driver hides which bits the hardware really compares, how a
/// narrow value wraps, and whether a read is a load or a round trip over a bus.
pub trait SignalMemory: Send + Sync {
    /// The current logical value. A smaller value than before (a value written in halves) is ignored: [`Signal`]
    /// keeps the largest.
    ///
    /// # Errors
    /// The loss of the device.
    fn value(&self) -> Result<u64>;

    /// Sets the value from the host, and wakes waiters.
    ///
    /// # Errors
    /// The loss of the device.
    fn set(&self, value: u64) -> Result<()>;

    /// The last timestamp in ticks of the device clock.
    ///
    /// # Errors
    /// The loss of the device.
    fn timestamp(&self) -> Result<u64>;

    /// Blocks until the value is at least `value`.
    ///
    /// # Errors
    /// [`crate::Error::Timeout`] naming the signal, or the loss of the device.
    fn wait(&self, value: u64, deadline: Deadline) -> Result<()>;

    /// Keeps an object that the device may still use until it is stopped ([`crate::LostState`]); forever without a
    /// device.
    fn keep(&self, what: Box<dyn Any + Send>) {
        std::mem::forget(what);
    }
}

/// A handle of a signal; clones share it.
#[derive(Clone)]
pub struct Signal(Arc<Shared>);

struct Shared {
    name: Box<str>,
    va: GpuVa,
    memory: Arc<dyn SignalMemory>,
    /// The largest value that the host has seen or set.
    seen: AtomicU64,
}

impl Signal {
    /// Made by drivers. `va` is the address of 16 bytes that packets name: value, timestamp.
    pub fn new(name: &str, va: GpuVa, memory: Arc<dyn SignalMemory>) -> Self {
        Signal(Arc::new(Shared {
            name: name.into(),
            va,
            memory,
            seen: AtomicU64::new(0),
        }))
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Address of its 16 bytes.
    #[inline]
    pub fn va(&self) -> GpuVa {
        self.0.va
    }

    /// The current logical value: never less than that of an earlier call or completed wait.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn value(&self) -> Result<u64> {
        Ok(self.see(self.0.memory.value()?))
    }

    /// The largest value seen by the host through any handle. Does not read the signal.
    #[inline]
    pub fn seen(&self) -> u64 {
        // Acquire, with the release in `see`: a thread that reads a value sees the writes before it.
        self.0.seen.load(Ordering::Acquire)
    }

    /// Sets the value from the host, and wakes waiters.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn set(&self, value: u64) -> Result<()> {
        self.0.memory.set(value)?;
        self.see(value);
        Ok(())
    }

    /// The last timestamp in ticks of the device clock.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn timestamp(&self) -> Result<u64> {
        self.0.memory.timestamp()
    }

    /// Blocks until the value is at least `value`.
    ///
    /// # Errors
    /// [`crate::Error::Timeout`] naming the signal, or the loss of the device.
    pub fn wait(&self, value: u64, deadline: Deadline) -> Result<()> {
        self.0.memory.wait(value, deadline)?;
        self.see(value);
        Ok(())
    }

    /// Keeps something that the signal's device may still use, until it is stopped.
    pub fn keep(&self, what: Box<dyn Any + Send>) {
        self.0.memory.keep(what);
    }

    /// Notes a value. Returns the largest one that was seen.
    fn see(&self, value: u64) -> u64 {
        let seen = self.seen();
        if seen < value {
            self.0.seen.fetch_max(value, Ordering::AcqRel);
        }
        seen.max(value)
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signal({} @ {:?})", self.name(), self.va())
    }
}

/// A moment on a queue: reached when `signal` is at least `value`.
#[derive(Clone, Debug)]
pub struct Point {
    /// The signal.
    pub signal: Signal,
    /// The logical value.
    pub value: u64,
}

impl Point {
    /// True once the work before the point is done.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn reached(&self) -> Result<bool> {
        // A value that was seen is not read again.
        Ok(self.signal.seen() >= self.value || self.signal.value()? >= self.value)
    }

    /// Blocks until the work before the point is done. Work seen completed stays so when its device is lost.
    ///
    /// # Errors
    /// [`crate::Error::Timeout`] naming the signal, or the loss of the device.
    pub fn wait(&self, deadline: Deadline) -> Result<()> {
        match self.signal.seen() >= self.value {
            true => Ok(()),
            false => self.signal.wait(self.value, deadline),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Memory that counts how often it is looked at.
    #[derive(Default)]
    struct Counted {
        value: AtomicU64,
        looks: AtomicU64,
    }

    impl SignalMemory for Counted {
        fn value(&self) -> Result<u64> {
            self.looks.fetch_add(1, Ordering::Relaxed);
            Ok(self.value.load(Ordering::Relaxed))
        }

        fn set(&self, value: u64) -> Result<()> {
            self.value.store(value, Ordering::Relaxed);
            Ok(())
        }

        fn timestamp(&self) -> Result<u64> {
            Ok(self.looks.load(Ordering::Relaxed))
        }

        fn wait(&self, _: u64, _: Deadline) -> Result<()> {
            Ok(())
        }
    }

    /// A signal without a device; its timestamp counts the reads.
    pub(crate) fn counted() -> Signal {
        Signal::new("counted", GpuVa(0x1000), Arc::new(Counted::default()))
    }

    #[test]
    fn what_the_host_has_seen_is_not_looked_at_again() {
        let signal = counted();
        let point = |value| Point {
            signal: signal.clone(),
            value,
        };
        let looks = || signal.timestamp().unwrap();
        assert!(!point(1).reached().unwrap());
        assert_eq!((signal.seen(), looks()), (0, 1));
        signal.set(5).unwrap();
        assert!(point(5).reached().unwrap() && point(4).reached().unwrap());
        assert_eq!((signal.seen(), looks()), (5, 1));
        signal
            .wait(7, Deadline::after(std::time::Duration::ZERO))
            .unwrap();
        assert!(point(7).reached().unwrap());
        assert_eq!((signal.clone().seen(), looks()), (7, 1));
        assert!(!point(8).reached().unwrap());
        assert_eq!((signal.seen(), looks()), (7, 2));
        // The value in memory is 5.
        assert_eq!(signal.value().unwrap(), 7);
    }
}
