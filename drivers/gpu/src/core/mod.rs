//! [`Core`]: the shared state of one open device: its name, its GPU, its memory, whether it is lost. Buffers,
//! programs and signals keep it; queues may end before it.
//!
//! It owns no queue. It queries them (waiters to wake, work in flight) through [`Queues`], which the engine
//! implements.

mod fault;
mod keep;
pub mod queues;

use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use drivers_bundle::CoredumpWriter;
use hcq::kernels::Kernels;
use hcq::sync::lock;
use hcq::transport::TransportError;
use hcq::{DeviceId, Error, GpuVa, LostState, Result};

use self::queues::{Copies, Queues};
use crate::backend::{Age, Backend, Event, Exception, Facts, Memory, Ranges, Request};

/// The queues, and what copies by them.
type Named = (Weak<dyn Queues>, Weak<dyn Copies>);

/// State of one open device.
pub struct Core {
    /// The device, for messages.
    pub id: DeviceId,
    /// Its interface.
    pub backend: Arc<dyn Backend>,
    /// Whether it is lost.
    pub lost: LostState,
    /// Its number among the handles of the process.
    pub number: u64,
    /// The loaded kernels, for messages.
    pub kernels: Arc<Kernels>,
    queues: Mutex<Option<Named>>,
    /// Where bundles go; none if nothing is kept.
    coredumps: Option<Arc<CoredumpWriter>>,
}

impl Core {
    /// The state of a GPU with an open backend. `coredumps` provides the data of bundles.
    pub fn new(backend: Arc<dyn Backend>, coredumps: Option<Arc<CoredumpWriter>>) -> Core {
        let id = backend.id().clone();
        Core {
            lost: LostState::new(id.clone()),
            number: backend.space().number(),
            backend,
            kernels: Arc::default(),
            queues: Mutex::default(),
            coredumps,
            id,
        }
    }

    /// What the interface knows of its GPU.
    pub fn facts(&self) -> &Facts {
        self.backend.facts()
    }

    /// Which addresses belong to what.
    pub fn ranges(&self) -> &Ranges {
        &self.backend.space().ranges
    }

    /// Names the queues, and what copies by them, once they are there.
    pub fn set_queues(&self, queues: Weak<dyn Queues>, copies: Weak<dyn Copies>) {
        *self.queues_slot() = Some((queues, copies));
    }

    /// The queues, while they exist.
    pub fn queues(&self) -> Option<Arc<dyn Queues>> {
        self.queues_slot().as_ref()?.0.upgrade()
    }

    /// What copies for the host, while the device has a handle.
    pub fn copies(&self) -> Option<Arc<dyn Copies>> {
        self.queues_slot().as_ref()?.1.upgrade()
    }

    fn queues_slot(&self) -> MutexGuard<'_, Option<Named>> {
        lock(&self.queues)
    }

    /// Memory of the interface.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`].
    pub fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        self.backend.memory(request).map_err(|e| match e {
            gone @ Error::Fault { .. } => self.lose(gone),
            other => other,
        })
    }

    /// Loses the device because access to its memory failed: it is unknown which writes have arrived.
    /// This cannot happen with mapped memory: offsets are checked.
    #[cold]
    pub fn broken(&self, unit: impl Into<String>, error: TransportError) -> Error {
        self.lose(Error::Fault {
            device: self.id.clone(),
            unit: unit.into(),
            what: error.to_string(),
        })
    }

    /// Cannot be: memory of this kind has a window for the host.
    pub fn no_window(&self, va: GpuVa) -> Error {
        Error::NoHostAccess {
            device: self.id.clone(),
            va: va.0,
            has: "none",
            needs: "a window",
        }
    }

    /// Writes a bundle, loses the device, and wakes its waiters. Returns the error of every later
    /// call.
    pub fn lose(&self, cause: Error) -> Error {
        self.give_up(self.keep_loss(cause, None))
    }

    /// The same without a bundle, for callers with their own evidence.
    pub fn give_up(&self, cause: Error) -> Error {
        let error = self.lost.lose(cause);
        if let Some(queues) = self.queues() {
            queues.wake();
        }
        error
    }

    /// Looks whether the GPU has stopped, without waiting.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    pub fn look(&self) -> Result<()> {
        self.sleep(None, &mut Age::NEW.clone(), Duration::ZERO)
    }

    /// Sleeps until `event` is signalled, the GPU has stopped, or `limit` is over.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] if the GPU has stopped, or cannot be looked at.
    pub fn sleep(&self, event: Option<&Event>, age: &mut Age, limit: Duration) -> Result<()> {
        self.lost.check()?;
        self.slept(self.backend.sleep(event, age, limit))
    }

    /// The same for a signal: see [`Backend::sleep_for`].
    ///
    /// # Errors
    /// As [`Core::sleep`].
    pub fn sleep_for(
        &self,
        signal: (GpuVa, u64),
        reached: &dyn Fn() -> bool,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<()> {
        self.lost.check()?;
        let backend = &self.backend;
        self.slept(backend.sleep_for(signal, reached, event, age, limit))
    }

    fn slept(&self, slept: Result<Option<Exception>>) -> Result<()> {
        match slept {
            Ok(None) => self.lost.check(),
            Ok(Some(exception)) if !self.is_own(&exception) => self.of_another(&exception),
            Ok(Some(exception)) => {
                let queues = self.queues();
                let (ranges, log) = (self.ranges(), self.facts().log);
                let cause = fault::describe(&self.id, &exception, ranges, queues.as_deref(), log);
                Err(self.give_up(self.keep_loss(cause, Some(&exception))))
            }
            Err(error) => Err(self.lose(error)),
        }
    }

    /// A fault that another handle of the GPU has made.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] where it has taken the queues of this one as well.
    fn of_another(&self, exception: &Exception) -> Result<()> {
        tracing::debug!(device = %self.id, ?exception, "fault of another handle");
        if !self.backend.stops_all() {
            return self.lost.check();
        }
        let (ranges, log) = (self.ranges(), self.facts().log);
        let what = match fault::describe(&self.id, exception, ranges, None, log) {
            Error::Fault { what, .. } => what,
            other => other.to_string(),
        };
        Err(self.give_up(Error::Fault {
            device: self.id.clone(),
            unit: "GPU".into(),
            what: format!(
                "a fault of another handle in this process, after which the kernel driver stops all its queues: {what}"
            ),
        }))
    }

    /// Whether an exception is this handle's.
    fn is_own(&self, exception: &Exception) -> bool {
        // A reset takes all.
        let is_told = self.backend.tells_whose()
            || matches!(exception, Exception::Reset(_))
            || self.backend.take_own(exception);
        let handle = (self.number, &*self.facts().place);
        is_told || self.backend.space().is_own(handle, exception)
    }

    /// The error for using a closed device.
    pub fn closed(&self) -> Error {
        Error::Fault {
            device: self.id.clone(),
            unit: "device".into(),
            what: "device is closed".into(),
        }
    }
}
