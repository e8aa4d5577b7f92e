//! Signals: a logical 64-bit value that only grows, with the time of its last change.

use std::fmt;
use std::sync::Arc;

use crate::addr::GpuVa;
use crate::error::Result;
use crate::wait::Deadline;

/// How the host reaches a signal. The driver hides which bits the hardware really compares, how a
/// narrow value wraps, and whether a read is a load or a round trip over a bus.
pub trait SignalMemory: Send + Sync {
    /// The logical value now: never less than an earlier call gave, or a wait has waited for.
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
}

/// A handle of a signal; clones share it.
#[derive(Clone)]
pub struct Signal {
    name: Arc<str>,
    va: GpuVa,
    memory: Arc<dyn SignalMemory>,
}

impl Signal {
    /// Made by drivers. `va` is the address of 16 bytes that packets name: value, timestamp.
    pub fn new(name: &str, va: GpuVa, memory: Arc<dyn SignalMemory>) -> Self {
        Signal {
            name: name.into(),
            va,
            memory,
        }
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address of its 16 bytes.
    pub fn va(&self) -> GpuVa {
        self.va
    }

    /// The logical value now.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn value(&self) -> Result<u64> {
        self.memory.value()
    }

    /// Sets the value from the host, and wakes waiters.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn set(&self, value: u64) -> Result<()> {
        self.memory.set(value)
    }

    /// The last timestamp in ticks of the device clock.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn timestamp(&self) -> Result<u64> {
        self.memory.timestamp()
    }

    /// Blocks until the value is at least `value`.
    ///
    /// # Errors
    /// [`crate::Error::Timeout`] naming the signal, or the loss of the device.
    pub fn wait(&self, value: u64, deadline: Deadline) -> Result<()> {
        self.memory.wait(value, deadline)
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signal({} @ {:?})", self.name, self.va)
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
        Ok(self.signal.value()? >= self.value)
    }

    /// Blocks until the work before the point is done.
    ///
    /// # Errors
    /// [`crate::Error::Timeout`] naming the signal, or the loss of the device.
    pub fn wait(&self, deadline: Deadline) -> Result<()> {
        self.signal.wait(self.value, deadline)
    }
}
