//! [`RuntimeBackend`]: one GPU of a runtime: memory, sleep, and its failure.

use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::time::Duration;

use drivers_gpu::backend::{
    Age, Backend, Event, Exception, Facts, Memory, PAGE, Request, Space, refused,
};
use hcq::mem::window::Window;
use hcq::sync::{lock, unpoisoned};
use hcq::{DeviceId, Error, GpuVa, Import, MemoryKind, Result};

use crate::calls::{Allocation, Gpu};
use crate::clock::Clock;
use crate::process::{Noted, Process};
use crate::refusal::Refusal;

/// Alignment that the runtimes give memory.
///
/// Source: CUDA C++ Programming Guide 12.4, device memory accesses: at least 256 bytes.
const ALIGN: u64 = 256;

/// How long a thread sleeps between two looks: values that a stream writes wake nobody.
const SLICE: Duration = Duration::from_micros(250);

/// More than any machine has: the runtimes take such a size for a mistake of another kind.
const NO_SIZE: u64 = 1 << 47;

/// What threads of a device tell each other.
#[derive(Default)]
pub(crate) struct State {
    failed: OnceLock<Error>,
    rung: Mutex<u64>,
    bell: Condvar,
}

impl State {
    /// The first failure of a queue is that of the device.
    pub(crate) fn fail(&self, error: Error) {
        if let Err(later) = self.failed.set(error) {
            tracing::debug!(%later, "failed again");
        }
        self.ring();
    }

    /// The failure.
    pub(crate) fn failed(&self) -> Option<&Error> {
        self.failed.get()
    }

    /// Wakes all threads that sleep.
    pub(crate) fn ring(&self) {
        *lock(&self.rung) += 1;
        self.bell.notify_all();
    }

    /// Sleeps until somebody rings, or a little while.
    fn sleep(&self, age: &mut Age, limit: Duration) {
        let rung = lock(&self.rung);
        let before = *rung;
        if before >= age.0 {
            age.0 = before + 1;
            return;
        }
        let (rung, _) = unpoisoned(self.bell.wait_timeout(rung, limit.min(SLICE)));
        age.0 = age.0.max(*rung + 1);
    }
}

/// One GPU of a runtime.
pub(crate) struct RuntimeBackend {
    pub(crate) id: DeviceId,
    pub(crate) interface: &'static str,
    pub(crate) facts: Facts,
    pub(crate) gpu: Arc<Gpu>,
    /// Its number for the runtime.
    pub(crate) ordinal: u32,
    pub(crate) process: Arc<Process>,
    pub(crate) state: Arc<State>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) name: Arc<str>,
}

/// Keeps memory of a buffer: first its name goes, then the host's window, then the memory.
struct Owner {
    _noted: Noted,
    _window: Option<Arc<Window>>,
    _allocation: Box<dyn Send + Sync>,
}

impl RuntimeBackend {
    fn no_memory(&self, asked: u64, refusal: Refusal) -> Error {
        if !refusal.is_memory {
            return refusal.error(&self.id);
        }
        self.out_of_memory(asked, format!("; {refusal}"))
    }

    fn out_of_memory(&self, asked: u64, hint: String) -> Error {
        let (free, _) = self.gpu.memory().unwrap_or_default();
        Error::OutOfMemory {
            device: self.id.clone(),
            asked,
            free,
            total: self.facts.vram,
            hint,
        }
    }

    fn device(&self, bytes: u64, align: u64) -> Result<Memory> {
        let size = bytes.clamp(1, NO_SIZE).next_multiple_of(PAGE);
        let slack = if align > ALIGN { align } else { 0 };
        let asked = size.checked_add(slack);
        let Some(asked) = asked.filter(|&asked| asked <= self.facts.vram) else {
            return Err(self.out_of_memory(bytes, String::new()));
        };
        let allocation = self.gpu.device_memory(asked);
        let allocation = allocation.map_err(|refusal| self.no_memory(bytes, refusal))?;
        let at = allocation.at();
        let noted = self
            .process
            .note((at, asked), Some(self.ordinal), Weak::new());
        Ok(Memory {
            va: GpuVa(at.next_multiple_of(align.max(1))),
            bytes: size,
            window: None,
            zeroed: false,
            owner: Box::new(Owner {
                _noted: noted,
                _window: None,
                _allocation: Box::new(allocation),
            }),
        })
    }

    fn host(&self, bytes: u64, align: u64) -> Result<Memory> {
        let size = bytes.clamp(1, NO_SIZE).next_multiple_of(PAGE);
        let slack = if align > ALIGN { align } else { 0 };
        let Some(asked) = size.checked_add(slack).filter(|&asked| asked < NO_SIZE) else {
            return Err(self.out_of_memory(bytes, String::new()));
        };
        let memory = self.gpu.host_memory(asked);
        let (allocation, view) = memory.map_err(|refusal| self.no_memory(bytes, refusal))?;
        let at = allocation.at();
        let offset = at.next_multiple_of(align.max(1)) - at;
        let whole = Arc::new(Window::mapped(self.name.clone(), view));
        let window = whole.sub(offset, size);
        let window = window.map_err(|e| refused(&self.id, &e, "Open the device again"))?;
        let noted = self.process.note((at, asked), None, Arc::downgrade(&whole));
        Ok(Memory {
            va: GpuVa(at + offset),
            bytes: size,
            window: Some(window),
            zeroed: false,
            owner: Box::new(Owner {
                _noted: noted,
                _window: Some(whole),
                _allocation: Box::new(allocation),
            }),
        })
    }

    /// Memory that another library of the process has on this GPU.
    fn of_another(
        &self,
        (va, bytes): (GpuVa, u64),
        owner: &Arc<dyn std::any::Any + Send + Sync>,
    ) -> Result<Memory> {
        let whole = self.gpu.range(va.0).map_err(|r| r.error(&self.id))?;
        let end = va.0.checked_add(bytes);
        if end.is_none_or(|end| end > whole.0 + whole.1) {
            return Err(Error::OutOfBounds {
                device: self.id.clone(),
                va: whole.0,
                what: "import",
                offset: va.0.saturating_sub(whole.0),
                len: bytes,
                size: whole.1,
            });
        }
        let noted = self
            .process
            .note((va.0, bytes), Some(self.ordinal), Weak::new());
        Ok(Memory {
            va,
            bytes,
            window: None,
            zeroed: false,
            owner: Box::new(Owner {
                _noted: noted,
                _window: None,
                _allocation: Box::new(owner.clone()),
            }),
        })
    }
}

impl Backend for RuntimeBackend {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn name(&self) -> &'static str {
        self.interface
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn space(&self) -> &Arc<Space> {
        self.process.space()
    }

    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        match request.kind {
            MemoryKind::Device => self.device(request.bytes, request.align),
            MemoryKind::Host | MemoryKind::Control => self.host(request.bytes, request.align),
        }
    }

    fn import(&self, memory: &Import) -> Result<Memory> {
        match memory {
            Import::Host(view) => {
                let registered = self.process.registered(view, || self.gpu.register(view));
                let allocation: Arc<Allocation> = registered.map_err(|r| r.error(&self.id))?;
                let (at, bytes) = (view.as_ptr().addr() as u64, view.len() as u64);
                let window = Arc::new(Window::mapped(self.name.clone(), view.clone()));
                let noted = self
                    .process
                    .note((at, bytes), None, Arc::downgrade(&window));
                Ok(Memory {
                    va: GpuVa(at),
                    bytes,
                    window: Some((*window).clone()),
                    zeroed: false,
                    owner: Box::new(Owner {
                        _noted: noted,
                        _window: Some(window),
                        _allocation: Box::new(allocation),
                    }),
                })
            }
            Import::Device { va, bytes, owner } => self.of_another((*va, *bytes), owner),
            Import::DmaBuf(..) => Err(hcq::cannot_import(&self.id, self.interface, memory)),
        }
    }

    fn reaches(&self, va: u64) -> bool {
        self.process.reaches(self.ordinal, va)
    }

    fn event(&self) -> Result<Event> {
        Ok(Event {
            id: 0,
            mailbox: None,
            owner: Box::new(()),
        })
    }

    fn wake(&self, _: &Event) {
        self.state.ring();
    }

    fn sleep(
        &self,
        _: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        let failed = || self.state.failed().cloned().map_or(Ok(()), Err);
        failed()?;
        if !limit.is_zero() {
            self.state.sleep(age, limit);
            failed()?;
        }
        Ok(None)
    }

    fn raised(&self, _: GpuVa, _: u64) {
        self.state.ring();
    }

    fn flush_vram(&self) -> Result<()> {
        Ok(())
    }

    fn ticks(&self) -> Result<u64> {
        self.clock.now().map_err(|refusal| refusal.error(&self.id))
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        self.process.window_at(va)
    }
}
