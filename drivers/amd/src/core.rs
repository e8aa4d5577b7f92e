//! [`Core`]: what every part of one open device knows: its name, its GPU, its memory, whether it is
//! lost. Buffers, programs and signals keep it; queues may be gone before it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hcq::transport::{Fault, Machine, TransportError};
use hcq::{DeviceId, Error, LostState, Result};

use crate::chip::{Chip, QueueSizes};
use crate::engine::Engine;
use crate::fault;
use crate::kfd::event::{Age, Event, Watch};
use crate::kfd::memory::{HdpFlush, Memory, MemoryError, Reach, Request};
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
    /// The queues, for reports and to wake who waits for them.
    engine: Mutex<Weak<Engine>>,
    kernels: Mutex<BTreeMap<u64, KernelPlace>>,
}

struct KernelPlace {
    end: u64,
    kernel: Kernel,
}

/// A loaded kernel, for messages.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) name: Arc<str>,
    /// Bytes of its arguments.
    pub(crate) argument_bytes: u32,
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
        let failed = |e| memory_error(&id, gpu, 0, e);
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
            engine: Mutex::default(),
            kernels: Mutex::default(),
            id,
        })
    }

    /// Names the queues, once they are there.
    pub(crate) fn set_engine(&self, engine: &Arc<Engine>) {
        *self.engine_slot() = Arc::downgrade(engine);
    }

    /// The queues, while somebody has them.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.engine_slot().upgrade()
    }

    fn engine_slot(&self) -> MutexGuard<'_, Weak<Engine>> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
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
        made.map_err(|e| memory_error(&self.id, gpu, request.bytes, e))
    }

    /// Loses the device and wakes whoever waits for it. Returns what every later call gives.
    pub(crate) fn lose(&self, cause: Error) -> Error {
        let error = self.lost.lose(cause);
        if let Some(engine) = self.engine() {
            engine.wake();
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
                let cause = fault::describe(self, &exception);
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

    /// Notes that the image of a kernel lies at `code`; forgotten with the returned value.
    pub(crate) fn register(self: &Arc<Self>, code: Range<u64>, kernel: Kernel) -> Registration {
        let place = KernelPlace {
            end: code.end,
            kernel,
        };
        self.kernels().insert(code.start, place);
        Registration {
            core: self.clone(),
            start: code.start,
        }
    }

    /// The kernel whose image holds an address.
    pub(crate) fn kernel_at(&self, va: u64) -> Option<Kernel> {
        let kernels = self.kernels();
        let (_, place) = kernels.range(..=va).next_back()?;
        (va < place.end).then(|| place.kernel.clone())
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

    fn kernels(&self) -> MutexGuard<'_, BTreeMap<u64, KernelPlace>> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the name of a kernel known.
pub(crate) struct Registration {
    core: Arc<Core>,
    start: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.core.kernels().remove(&self.start);
    }
}

const ENOMEM: i32 = 12;

/// What the system refused, as an error of the device.
pub(crate) fn os(device: &DeviceId, error: TransportError) -> Error {
    let hint = match error.fault {
        // ENOMEM, EBUSY, EINVAL, ENODEV.
        Fault::Errno(12) => "Free memory of the host or raise its limits (`ulimit -l`)",
        Fault::Errno(16) => "Another process may hold the device: `sudo fuser -v /dev/kfd`",
        Fault::Errno(22) => "The kernel may want other sizes than this version knows: see `dmesg`",
        Fault::Errno(19) => "The GPU is gone: see `dmesg | grep amdgpu`",
        _ => "See `dmesg | grep -e amdgpu -e kfd`",
    };
    Error::Os {
        device: device.clone(),
        call: format!("{}: {}", error.device, error.operation),
        source_text: error.fault.to_string(),
        hint: hint.into(),
    }
}

/// Why there is no memory, as an error of the device.
pub(crate) fn memory_error(device: &DeviceId, gpu: &Gpu, asked: u64, error: MemoryError) -> Error {
    match error {
        MemoryError::Full(error) => Error::OutOfMemory {
            device: device.clone(),
            asked,
            free: gpu.available().unwrap_or(0),
            total: gpu.node.vram,
            hint: format!("; {error}"),
        },
        MemoryError::Refused(error) => os(device, error),
    }
}
