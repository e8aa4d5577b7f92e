//! [`Opened`]: a GPU of a kernel driver as a backend. A [`Driver`] makes its calls.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use drivers_bundle::Evidence;
use drivers_gpu::backend::{
    Age, Backend, Event, Exception, Facts, Memory, Refused, Request, Space,
};
use drivers_spec::qcom::chip::Chip;
use drivers_spec::qcom::regs::ALWAYS_ON_HZ;
use hcq::mem::window::Window;
use hcq::sync::lock;
use hcq::transport::{Fault, Machine, TransportError};
use hcq::{Costs, DeviceId, Error, Import, Result};

use super::sleeper::Sleeper;
use super::unusable::{of_call, of_memory};
use super::{ContextHandle, Gpu, QcomBackend};

/// A call of the kernel driver for each submission, and few that it queues: estimates.
const COSTS: Costs = Costs {
    batch: 128,
    in_flight: 16,
};

/// Bytes of memory where the machine does not tell: the least of devices with these GPUs.
const FALLBACK: u64 = 2 << 30;

/// A kernel driver, opened for this process.
pub trait Driver: Send + Sync + 'static {
    /// The short name of the interface.
    const NAME: &'static str;
    /// What its lines in the log have.
    const LOG: &'static str;
    /// Where it puts what it knows of a fault.
    const DUMPS: &'static str;

    /// The addresses that its devices of this process share.
    fn space(&self) -> &Arc<Space>;

    /// New memory.
    ///
    /// # Errors
    /// The kernel's; nothing is left behind then.
    fn memory(&self, request: &Request<'_>) -> Result<Memory, TransportError>;

    /// Memory of others: see [`Backend::import`].
    ///
    /// # Errors
    /// The kernel's; nothing is left behind then.
    fn import(&self, memory: &Import) -> Result<Memory, TransportError>;

    /// A context of a device, with a priority of 1 (the highest) to 15.
    ///
    /// # Errors
    /// The kernel's; nothing is left behind then.
    fn context(
        &self,
        device: &DeviceId,
        priority: u32,
    ) -> Result<Arc<dyn ContextHandle>, TransportError>;

    /// The counter that is always on, now.
    ///
    /// # Errors
    /// The kernel's.
    fn ticks(&self) -> Result<u64, TransportError>;

    /// The host's window of an address, and the offset of the address in it.
    fn window_at(&self, va: u64) -> Option<(Window, u64)>;
}

/// A GPU of this process.
pub struct Opened<D> {
    id: DeviceId,
    driver: D,
    gpu: Gpu,
    share: u64,
    /// Those that may fault.
    contexts: Mutex<Vec<Weak<dyn ContextHandle>>>,
}

impl<D: Driver> Opened<D> {
    /// A GPU at a place, with its chip and the chip's id.
    pub fn backend(
        machine: &dyn Machine,
        id: DeviceId,
        driver: D,
        (place, chip, chip_id): (&str, &'static Chip, u32),
    ) -> Arc<dyn QcomBackend> {
        let gpu = Gpu {
            facts: Facts {
                place: place.into(),
                vram: 0,
                vram_windows: true,
                clock_hz: ALWAYS_ON_HZ,
                costs: COSTS,
                log: D::LOG,
            },
            chip,
            chip_id,
        };
        Arc::new(Opened {
            id,
            driver,
            gpu,
            share: share(machine),
            contexts: Mutex::default(),
        })
    }

    fn failed(&self, error: &TransportError) -> Error {
        of_call(&self.id, error, D::LOG)
    }

    fn full(&self, error: &TransportError, asked: u64) -> Error {
        of_memory(&self.id, error, (asked, self.share), D::LOG)
    }

    /// What is known of a fault of one of the contexts, if there was one. `now`: the kernel is asked.
    ///
    /// # Errors
    /// The GPU is gone.
    fn exception(&self, now: bool) -> Result<Option<Exception>> {
        // One after the other, since waits allocate nothing and the lock is not held over a call. Of two that trade places
        // meanwhile, one is asked the next time.
        for at in 0.. {
            let context = match lock(&self.contexts).get(at) {
                Some(context) => context.upgrade(),
                None => break,
            };
            let Some(context) = context else {
                continue;
            };
            let fault = context.fault(now).map_err(|e| self.failed(&e))?;
            if let Some(what) = fault {
                return Ok(Some(Exception::Refused(Refused {
                    unit: context.name().into(),
                    what,
                    at: None,
                })));
            }
        }
        Ok(None)
    }
}

/// Bytes of the host's memory that the GPU may have: three quarters of what the machine has.
fn share(machine: &dyn Machine) -> u64 {
    // As of proc_meminfo(5): `MemTotal: 3800000 kB`.
    let text = machine.read("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(FALLBACK, |kib| kib.saturating_mul(1024)) / 4 * 3
}

/// Bytes of memory of others.
fn bytes_of(memory: &Import) -> u64 {
    match memory {
        Import::Host(view) => view.len() as u64,
        Import::DmaBuf(_, bytes) | Import::Device { bytes, .. } => *bytes,
    }
}

impl<D: Driver> Backend for Opened<D> {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn name(&self) -> &'static str {
        D::NAME
    }

    fn facts(&self) -> &Facts {
        &self.gpu.facts
    }

    fn space(&self) -> &Arc<Space> {
        self.driver.space()
    }

    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        let made = self.driver.memory(request);
        made.map_err(|e| self.full(&e, request.bytes))
    }

    fn import(&self, memory: &Import) -> Result<Memory> {
        let imported = self.driver.import(memory);
        imported.map_err(|error| match error.fault {
            Fault::Unsupported(why) => Error::Unsupported {
                asked: format!("{}: import of {memory:?}", self.id),
                why,
            },
            _ => self.full(&error, bytes_of(memory)),
        })
    }

    fn host_share(&self) -> u64 {
        self.share
    }

    fn event(&self) -> Result<Event> {
        Ok(Event {
            id: 0,
            mailbox: None,
            owner: Box::new(Sleeper::default()),
        })
    }

    fn wake(&self, event: &Event) {
        if let Some(sleeper) = event.owner.downcast_ref::<Sleeper>() {
            sleeper.wake();
        }
    }

    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        if let Some(exception) = self.exception(limit.is_zero())? {
            return Ok(Some(exception));
        }
        if limit.is_zero() {
            return Ok(None);
        }
        match event.and_then(|event| event.owner.downcast_ref::<Sleeper>()) {
            Some(sleeper) => sleeper.sleep(age, limit).map_err(|e| self.failed(&e))?,
            None => std::thread::sleep(limit),
        }
        self.exception(false)
    }

    fn flush_vram(&self) -> Result<()> {
        // There is none; writes to memory of the host are there before the call that submits.
        Ok(())
    }

    fn ticks(&self) -> Result<u64> {
        self.driver.ticks().map_err(|e| self.failed(&e))
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        self.driver.window_at(va)
    }

    fn evidence(&self, _: Option<&Exception>) -> Evidence {
        let (log, dumps) = (D::LOG, D::DUMPS);
        let missing = format!(
            "registers and page tables: owned by the kernel driver; see `dmesg | grep {log}` and {dumps}"
        );
        Evidence {
            missing: vec![missing],
            ..Evidence::default()
        }
    }
}

impl<D: Driver> QcomBackend for Opened<D> {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn context(&self, event: &Event, priority: u32) -> Result<Arc<dyn ContextHandle>> {
        let made = self.driver.context(&self.id, priority);
        let made = made.map_err(|e| self.full(&e, 0))?;
        {
            let mut contexts = lock(&self.contexts);
            contexts.retain(|context| context.strong_count() > 0);
            contexts.push(Arc::downgrade(&made));
        }
        if let Some(sleeper) = event.owner.downcast_ref::<Sleeper>() {
            sleeper.follow(Arc::downgrade(&made));
        }
        Ok(made)
    }
}
