//! [`open`]: a GPU through NVIDIA's kernel driver.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use drivers_bundle::Evidence;
use drivers_gpu::backend::{
    Age, Backend, Event, Exception, Facts, Memory, RING_COSTS, Request, Space,
};
use drivers_gpu::kernel::{HeapRequest, Presence};
use hcq::mem::window::Window;
use hcq::sync::lock;
use hcq::transport::Machine;
use hcq::{DeviceId, Error, Result};

use super::channel::Channel;
use super::error::{gone, of_call, of_memory, of_open};
use super::event;
use super::gpu;
use super::memory;
use super::process::Process;
use super::survey::{self, Found, Unusable};
use crate::VENDOR;
use crate::backend::{ChannelHandle, ChannelRequest, Gpu, HardwareChannel, NvBackend};
use crate::options::Options;
use crate::rm::fault;

/// The clock of a GPU counts nanoseconds.
const CLOCK_HZ: u64 = 1_000_000_000;

/// Opens GPU number `index` of a machine ([`Found::index`]).
///
/// # Errors
/// [`Error::NoDevice`], [`Error::NoPermission`] or [`Error::Unsupported`] with the reason if it cannot be
/// used, see [`Unusable`].
pub fn open(
    machine: &Arc<dyn Machine>,
    index: u32,
    options: &Options,
) -> Result<Arc<dyn NvBackend>> {
    let id = DeviceId::new(VENDOR, index);
    let failed = |why: Unusable| of_open(&id, &why);
    let process = Process::on(&**machine, options.uvm).map_err(failed)?;
    let files = &process.session.files;
    let all = survey::gpus(&*files.control, files.branch).map_err(failed)?;
    let found = find(&id, all, index)?;
    let gpu = process.gpu(machine, &found).map_err(failed)?;
    let told = &gpu.facts;
    let facts = Gpu {
        facts: Facts {
            place: found.place,
            vram: told.vram,
            vram_windows: options.host_visible && told.bar >= told.vram,
            clock_hz: CLOCK_HZ,
            costs: RING_COSTS,
            log: "-e NVRM -e Xid",
        },
        product: told.product.clone(),
        chip: told.chip,
        units: told.units,
        copy_engines: told.copy_engines.len() as u32,
    };
    Ok(Arc::new(Nvk {
        id,
        machine: machine.clone(),
        gpu,
        process,
        facts,
        pinned: options.pinned,
        channels: Mutex::default(),
        presence: Presence::now(),
    }))
}

/// The GPU of that number.
fn find(id: &DeviceId, all: Vec<Found>, index: u32) -> Result<Found> {
    let count = all.len();
    let found = all.into_iter().find(|found| found.index == index);
    found.ok_or_else(|| Error::NoDevice {
        asked: id.to_string(),
        why: match count {
            0 => "NVIDIA's kernel driver lists no GPU: see `dmesg | grep -e NVRM -e Xid`; in a container, \
                  pass one (`--gpus all`)"
                .into(),
            1 => "NVIDIA's kernel driver lists one GPU, number 0".into(),
            n => format!("NVIDIA's kernel driver lists {n} GPUs, numbers 0 to {}", n - 1),
        },
    })
}

/// A GPU of this process.
struct Nvk {
    id: DeviceId,
    machine: Arc<dyn Machine>,
    gpu: Arc<gpu::Gpu>,
    process: Arc<Process>,
    facts: Gpu,
    /// Host memory is that of the process.
    pinned: bool,
    /// Those that may die.
    channels: Mutex<Vec<Weak<Channel>>>,
    presence: Presence,
}

impl Nvk {
    fn failed(&self, error: memory::MemoryError) -> Error {
        self.or_gone(of_memory(&self.id, &self.gpu, error))
    }

    /// Why a call was refused; of a GPU that has left, that it has: the system refuses what its files are
    /// asked, without a reason (kernel-open/nvidia/nv.c, nvidia_ioctl: EINVAL).
    fn or_gone(&self, refused: Error) -> Error {
        match (&refused, self.ticks()) {
            (Error::Os { .. }, Err(gone @ Error::Fault { .. })) => gone,
            _ => refused,
        }
    }

    /// Why one of the channels has died, if one has.
    ///
    /// # Errors
    /// The GPU is gone.
    fn exception(&self) -> Result<Option<Exception>> {
        let channels: Vec<_> = lock(&self.channels)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        for channel in channels {
            let died = channel.died();
            if let Some(xid) = died.map_err(|e| of_call(&self.id, e.into()))? {
                if xid == fault::XID_GONE {
                    return Err(gone(&self.id, &format!("Xid {xid}")));
                }
                return Ok(Some(fault::explain(channel.witness(), xid)));
            }
        }
        Ok(None)
    }
}

impl Backend for Nvk {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn name(&self) -> &'static str {
        "NVK"
    }

    fn facts(&self) -> &Facts {
        &self.facts.facts
    }

    fn space(&self) -> &Arc<Space> {
        &self.gpu.session.space
    }

    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        let wanted = HeapRequest::of(request, &self.facts.facts, self.pinned);
        let (heap, bytes) = (wanted.heap, wanted.bytes);
        let made = memory::Memory::new(&*self.machine, &self.gpu, &wanted);
        let made = made.map_err(|e| self.failed(e))?;
        let given = self.process.shared.give(&*self.machine, made, request.what);
        given.map_err(|e| self.failed(memory::MemoryError::of(e, heap, bytes)))
    }

    fn reaches(&self, va: u64) -> bool {
        self.process.shared.reaches(&self.gpu, va)
    }

    fn event(&self) -> Result<Event> {
        let event = event::Event::new(&*self.machine, &self.gpu);
        let event = event.map_err(|why| match why {
            Unusable::Refused(error) => self.or_gone(of_call(&self.id, error)),
            other => of_open(&self.id, &other),
        })?;
        Ok(Event {
            id: 0,
            mailbox: None,
            owner: Box::new(event),
        })
    }

    fn wake(&self, event: &Event) {
        if let Some(event) = event.owner.downcast_ref::<event::Event>()
            && let Err(error) = event.wake()
        {
            tracing::debug!(%error, "could not wake waiting threads");
        }
    }

    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        if let Some(exception) = self.exception()? {
            return Ok(Some(exception));
        }
        let is_there = || self.ticks().map(|_| ());
        self.presence.ask(limit.is_zero(), is_there)?;
        if limit.is_zero() {
            return Ok(None);
        }
        match event.and_then(|event| event.owner.downcast_ref::<event::Event>()) {
            Some(event) => {
                let waited = event.wait(age, limit);
                waited.map_err(|e| of_call(&self.id, e.into()))?;
            }
            None => std::thread::sleep(limit),
        }
        self.exception()
    }

    fn flush_vram(&self) -> Result<()> {
        // Writes through the BAR are ordered before the doorbell, which uses the same bus.
        Ok(())
    }

    fn ticks(&self) -> Result<u64> {
        self.gpu.rm.ticks().map_err(|e| of_call(&self.id, e))
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        self.process.shared.window_at(&*self.machine, va)
    }

    fn evidence(&self, _: Option<&Exception>) -> Evidence {
        let channels: Vec<_> = lock(&self.channels)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let missing =
            "registers and page tables: owned by the resource manager; see `nvidia-bug-report.sh`";
        Evidence {
            waves: channels
                .iter()
                .flat_map(|channel| fault::waves(channel.witness()))
                .collect(),
            missing: vec![missing.into()],
            ..Evidence::default()
        }
    }
}

impl NvBackend for Nvk {
    fn gpu(&self) -> &Gpu {
        &self.facts
    }

    fn channel(&self, request: &ChannelRequest<'_>) -> Result<HardwareChannel> {
        let made = Channel::new(&*self.machine, &self.gpu, request);
        let (channel, parts) = made.map_err(|e| self.failed(e))?;
        let channel = Arc::new(channel);
        {
            let mut channels = lock(&self.channels);
            channels.retain(|channel| channel.strong_count() > 0);
            channels.push(Arc::downgrade(&channel));
        }
        let owner = channel.memory();
        Ok(HardwareChannel {
            handle: Box::new(Handle {
                id: self.id.clone(),
                channel,
            }),
            kind: request.kind,
            classes: parts.classes,
            ring: parts.ring,
            userd: parts.userd,
            doorbell: parts.doorbell,
            token: parts.token,
            owner,
        })
    }
}

/// The owner's handle of a channel.
struct Handle {
    id: DeviceId,
    channel: Arc<Channel>,
}

impl ChannelHandle for Handle {
    fn died(&self) -> Result<Option<u32>> {
        self.channel.died().map_err(|e| of_call(&self.id, e.into()))
    }

    fn stop(&self) -> bool {
        self.channel.stop()
    }
}
