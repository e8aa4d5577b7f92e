//! [`LostState`]: whether a device is lost, and whether anything of it can still write.
//!
//! # Lost and stopped
//!
//! A device is *lost* after a fault or a hang, or when the caller gives it up: no call waits for it any more. Its
//! queues may still run and access the buffers of submitted work. It is *stopped* once it can no longer write: its
//! queues are off the hardware and its threads have ended. Memory is freed only then.
//!
//! Between the two, released objects ([`LostState::let_go`]) are kept. If the device is never stopped, they leak.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::error::{Error, Result};
use crate::id::DeviceId;
use crate::sync::{lock, unpoisoned};

/// Number of forks between the initial process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Number of forks since the initial process, counted by [`lose_all_by_fork`]. Owners of state that a child does not
/// inherit (device-shared memory, threads, open devices) record it, and leave that state alone once it differs.
#[inline]
pub fn process_generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Marks all devices opened before a fork as lost in the child, which may open them again. In the child, kernel
/// drivers refuse calls, device-shared memory is not mapped, and driver threads do not exist. Only increments a
/// counter, so it is safe between `fork` and its return.
pub fn lose_all_by_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The error for a device that a fork has inherited.
#[cold]
pub(crate) fn inherited(device: &DeviceId) -> Error {
    Error::Fault {
        device: device.clone(),
        unit: "process".into(),
        what: "opened before a fork and owned by the parent process; open it again in the child"
            .into(),
    }
}

/// Whether a device is lost or stopped. Keeps the first cause of the loss.
pub struct LostState {
    device: DeviceId,
    /// The generation of the process that opened the device.
    generation: u32,
    cause: OnceLock<Arc<Error>>,
    kept: Mutex<Retained>,
}

/// What a device may still use; nothing once it is stopped.
#[derive(Default)]
struct Retained {
    is_stopped: bool,
    things: Vec<Box<dyn Any + Send>>,
}

impl LostState {
    /// A working device.
    pub fn new(device: DeviceId) -> Self {
        LostState {
            device,
            generation: process_generation(),
            cause: OnceLock::new(),
            kept: Mutex::default(),
        }
    }

    /// Marks the device lost. Returns the error of every later call: the first cause, this one or an earlier one.
    pub fn lose(&self, cause: Error) -> Error {
        // A loss seen through another layer is not wrapped twice.
        let cause = match cause {
            Error::DeviceLost { cause, .. } => cause,
            other => Arc::new(other),
        };
        let first = self.cause.get_or_init(|| cause);
        Error::DeviceLost {
            device: self.device.clone(),
            cause: first.clone(),
        }
    }

    /// `Ok` while the device works.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] with the first cause.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.is_lost() {
            true => Err(self.why()),
            false => Ok(()),
        }
    }

    #[cold]
    fn why(&self) -> Error {
        match self.cause.get() {
            None => self.lose(inherited(&self.device)),
            Some(cause) => Error::DeviceLost {
                device: self.device.clone(),
                cause: cause.clone(),
            },
        }
    }

    /// True after [`LostState::lose`].
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.cause.get().is_some() || self.is_inherited()
    }

    /// Whether the device was opened before a fork, so that this process only has its handles.
    #[inline]
    pub fn is_inherited(&self) -> bool {
        self.generation != process_generation()
    }

    /// Whether the device may still use released objects: it is lost, but not stopped.
    pub fn runs_on(&self) -> bool {
        self.is_lost() && !self.lock().is_stopped
    }

    /// Drops an object that only the device may still use: at once, or when a lost device is stopped.
    pub fn let_go<T: Any + Send>(&self, what: T) {
        if self.is_lost() {
            self.keep(Box::new(what));
        }
    }

    /// Keeps something that the device may use, lost or not, until it is stopped.
    pub fn keep(&self, what: Box<dyn Any + Send>) {
        // The memory is the parent's, and a fork may have inherited a lock that no thread releases.
        if self.is_inherited() {
            std::mem::forget(what);
            return;
        }
        let mut kept = self.lock();
        if !kept.is_stopped {
            kept.things.push(what);
            return;
        }
        // Dropped outside of the lock, as all that is kept.
        drop(kept);
        drop(what);
    }

    /// Marks the device stopped: it can no longer write. Drops the kept objects.
    pub fn stop(&self) {
        let things = {
            let mut kept = self.lock();
            kept.is_stopped = true;
            std::mem::take(&mut kept.things)
        };
        drop(things);
    }

    fn lock(&self) -> MutexGuard<'_, Retained> {
        // Changed in single steps.
        lock(&self.kept)
    }
}

impl std::fmt::Debug for LostState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LostState({}, {:?})", self.device, self.cause.get())
    }
}

impl Drop for LostState {
    fn drop(&mut self) {
        let kept = unpoisoned(self.kept.get_mut());
        // To a fork nothing was lost: the memory is the parent's.
        if !kept.things.is_empty() && self.generation == process_generation() {
            let (device, things) = (&self.device, kept.things.len());
            tracing::warn!(%device, things, "device was not stopped and may still access this memory: leaking it");
        }
        std::mem::forget(std::mem::take(&mut kept.things));
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn fault(what: &str) -> Error {
        Error::Fault {
            device: DeviceId::new("CPU", 0),
            unit: "compute 0".into(),
            what: what.into(),
        }
    }

    #[test]
    fn first_cause_is_kept() {
        let lost = LostState::new(DeviceId::new("CPU", 0));
        lost.check().unwrap();
        lost.lose(fault("first"));
        let again = lost.lose(fault("second"));
        assert!(again.to_string().contains("first"), "{again}");
        assert!(lost.check().unwrap_err().to_string().contains("first"));
    }

    #[test]
    fn what_a_lost_device_may_use_is_dropped_when_it_is_stopped() {
        let lost = LostState::new(DeviceId::new("CPU", 0));
        let things = [(); 4].map(|()| Arc::new(()));
        let counts = || things.each_ref().map(Arc::strong_count);
        lost.let_go(things[0].clone());
        lost.keep(Box::new(things[1].clone()));
        assert_eq!(counts(), [1, 2, 1, 1]);
        lost.lose(fault("it hangs"));
        lost.let_go(things[2].clone());
        assert!(lost.runs_on());
        assert_eq!(counts(), [1, 2, 2, 1]);
        lost.stop();
        lost.let_go(things[3].clone());
        lost.keep(Box::new(things[3].clone()));
        assert!(lost.is_lost() && !lost.runs_on());
        assert_eq!(counts(), [1, 1, 1, 1]);
        // A device that is never stopped keeps it.
        let never = LostState::new(DeviceId::new("CPU", 1));
        never.keep(Box::new(things[0].clone()));
        drop(never);
        assert_eq!(counts(), [2, 1, 1, 1]);
    }
}
