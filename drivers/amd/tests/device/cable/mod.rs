//! [`Remote`]: an interface behind a [`Cable`]: the host has no mapping of anything, each access is a
//! transfer, and transfers are counted.
//!
//! What a driver over USB has to do with, on any machine that has the GPU otherwise. Memory of the GPU is
//! reached by its own copies alone, all other memory by transfers.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use drivers_amd::backend::{AmdBackend, Gpu, HardwareQueue, QueueRequest};
use drivers_bundle::Evidence;
use drivers_gpu::backend::{Age, Backend, Event, Exception, Facts, Memory, Request, Space};
use hcq::mem::window::Window;
use hcq::transport::cable::Cable;
use hcq::{DeviceId, MemoryKind, Result};

/// An interface with its memory at the other end of a cable.
pub struct Remote {
    near: Arc<dyn AmdBackend>,
    cable: Arc<Cable>,
    gpu: Gpu,
}

/// What an interface frees, once the writes to it have arrived.
struct Owner {
    cable: Arc<Cable>,
    _near: Box<dyn Any + Send + Sync>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Err(error) = self.cable.send() {
            eprintln!("writes to memory that is freed are lost: {error}");
        }
    }
}

impl Remote {
    /// Puts an interface behind a cable. GPUs that share an address space share the cable.
    pub fn over(cable: &Arc<Cable>, near: Arc<dyn AmdBackend>) -> Arc<dyn AmdBackend> {
        let mut gpu = near.gpu().clone();
        gpu.facts.vram_windows = false;
        let cable = cable.clone();
        Arc::new(Remote { near, cable, gpu })
    }

    fn owner(&self, near: Box<dyn Any + Send + Sync>) -> Box<dyn Any + Send + Sync> {
        Box::new(Owner {
            cable: self.cable.clone(),
            _near: near,
        })
    }
}

impl Backend for Remote {
    fn id(&self) -> &DeviceId {
        self.near.id()
    }

    fn name(&self) -> &'static str {
        self.near.name()
    }

    fn facts(&self) -> &Facts {
        &self.gpu.facts
    }

    fn space(&self) -> &Arc<Space> {
        self.near.space()
    }

    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        let near = self.near.memory(request)?;
        let window = near.window.filter(|_| request.kind != MemoryKind::Device);
        Ok(Memory {
            va: near.va,
            bytes: near.bytes,
            window: window.map(|window| self.cable.window(&window)),
            zeroed: near.zeroed,
            owner: self.owner(near.owner),
        })
    }

    fn event(&self) -> Result<Event> {
        self.near.event()
    }

    fn wake(&self, event: &Event) {
        self.near.wake(event);
    }

    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        self.near.sleep(event, age, limit)
    }

    fn tells_whose(&self) -> bool {
        self.near.tells_whose()
    }

    fn take_own(&self, exception: &Exception) -> bool {
        self.near.take_own(exception)
    }

    fn stops_all(&self) -> bool {
        self.near.stops_all()
    }

    fn flush_vram(&self) -> Result<()> {
        self.near.flush_vram()
    }

    fn ticks(&self) -> Result<u64> {
        self.near.ticks()
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        let (window, offset) = self.near.window_at(va)?;
        Some((self.cable.window(&window), offset))
    }

    fn evidence(&self, exception: Option<&Exception>) -> Evidence {
        self.near.evidence(exception)
    }
}

impl AmdBackend for Remote {
    fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    fn queue(&self, request: &QueueRequest<'_>) -> Result<HardwareQueue> {
        let near = self.near.queue(request)?;
        let far = |window: &Window| self.cable.window(window);
        Ok(HardwareQueue {
            handle: near.handle,
            language: near.language,
            ring: far(&near.ring),
            control: far(&near.control),
            control_va: near.control_va,
            doorbells: near.doorbells.iter().map(far).collect(),
            owner: self.owner(near.owner),
        })
    }
}
