//! [`Core`]: what every part of one open device knows: its name, its GPU, its memory, whether it is
//! lost. Buffers, programs and signals keep it; queues may be gone before it.
//!
//! It owns no queue. What it needs of them (who is to be woken, what was in flight) it asks through
//! [`Queues`], which is filled in from above.

pub(crate) mod error;
mod fault;
pub(crate) mod kernels;
pub(crate) mod queues;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hcq::transport::{Fault, Machine};
use hcq::{DeviceId, Error, LostState, Result};

use self::error::{memory_error, os};
use self::kernels::Kernels;
use self::queues::Queues;
use crate::chip::{Chip, QueueSizes};
use crate::kfd::event::{Age, Event, Watch};
use crate::kfd::memory::{HdpFlush, Memory, Reach, Request};
use crate::kfd::process::{Gpu, Process};

/// State of one open device.
pub(crate) struct Core {
    pub(crate) id: DeviceId,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) process: Arc<Process>,
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) chip: &'static Chip,
    pub(crate) lost: LostState,
    /// Makes the host's writes through the BAR arrive; none where the host does not map VRAM.
    pub(crate) hdp: Option<HdpFlush>,
    watch: Watch,
    /// The loaded kernels, for messages.
    pub(crate) kernels: Arc<Kernels>,
    queues: Mutex<Option<Weak<dyn Queues>>>,
}

impl Core {
    /// The state of a GPU that is about to be opened.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`].
    pub(crate) fn new(
        id: DeviceId,
        machine: &Arc<dyn Machine>,
        process: &Arc<Process>,
        gpu: &Arc<Gpu>,
        chip: &'static Chip,
        visible: bool,
    ) -> Result<Core> {
        let failed = |e| memory_error(&id, &**machine, gpu, e);
        let hdp = match visible {
            true => Some(HdpFlush::new(&**machine, process, gpu).map_err(failed)?),
            false => None,
        };
        let watch = Watch::new(&**machine, process, gpu).map_err(failed)?;
        Ok(Core {
            lost: LostState::new(id.clone()),
            machine: machine.clone(),
            process: process.clone(),
            gpu: gpu.clone(),
            chip,
            hdp,
            watch,
            kernels: Arc::default(),
            queues: Mutex::default(),
            id,
        })
    }

    /// Names the queues, once they are there.
    pub(crate) fn set_queues(&self, queues: Weak<dyn Queues>) {
        *self.queues_slot() = Some(queues);
    }

    /// The queues, while somebody has them.
    pub(crate) fn queues(&self) -> Option<Arc<dyn Queues>> {
        self.queues_slot().as_ref()?.upgrade()
    }

    fn queues_slot(&self) -> MutexGuard<'_, Option<Weak<dyn Queues>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A memory object.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`].
    pub(crate) fn memory(
        &self,
        request: &Request<'_>,
        reach: Option<Reach>,
    ) -> Result<Arc<Memory>> {
        let (machine, process, gpu) = (&*self.machine, &self.process, &self.gpu);
        let made = match reach {
            None => Memory::new(machine, process, gpu, request).map(Arc::new),
            Some(reach) => Memory::shared(machine, process, gpu, request, reach),
        };
        made.map_err(|e| match memory_error(&self.id, machine, gpu, e) {
            gone @ Error::Fault { .. } => self.lose(gone),
            other => other,
        })
    }

    /// Loses the device and wakes whoever waits for it. Returns what every later call gives.
    pub(crate) fn lose(&self, cause: Error) -> Error {
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
    pub(crate) fn look(&self) -> Result<()> {
        self.sleep(None, &mut Age::NEW.clone(), Duration::ZERO)
    }

    /// Sleeps until `event` is signalled, the GPU has stopped, or `limit` is over.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] if the GPU has stopped, or the kernel does not let us wait.
    pub(crate) fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<()> {
        self.lost.check()?;
        match self.watch.wait(event, age, limit) {
            Ok(None) => self.lost.check(),
            Ok(Some(exception)) => {
                let queues = self.queues();
                let ranges = &self.process.ranges;
                let cause = fault::describe(&self.id, &exception, ranges, queues.as_deref());
                Err(self.lose(cause))
            }
            // Short of memory for the wait itself: looking does without.
            Err(error) if error.fault == Fault::Errno(ENOMEM) => {
                std::thread::sleep(limit.min(Duration::from_millis(1)));
                self.lost.check()
            }
            Err(error) => Err(self.lose(os(&self.id, error))),
        }
    }

    /// What the kernel driver wants of the buffers of a compute queue.
    ///
    /// # Errors
    /// [`Error::Os`]: the topology is not one of hardware.
    pub(crate) fn queue_sizes(&self) -> Result<QueueSizes> {
        let units = self.gpu.node.units();
        QueueSizes::new(self.chip, &units).ok_or_else(|| Error::Os {
            device: self.id.clone(),
            call: format!("node {} of the topology", self.gpu.node.number),
            source_text: format!("expected the units of a GPU, found {units:?}"),
            hint: "Compare with `rocminfo`; the kernel driver may be broken".into(),
        })
    }

    /// The error of who uses what needs queues after they are gone.
    pub(crate) fn closed(&self) -> Error {
        Error::Fault {
            device: self.id.clone(),
            unit: "device".into(),
            what: "its last handle is gone, and its queues with it".into(),
        }
    }
}

const ENOMEM: i32 = 12;
