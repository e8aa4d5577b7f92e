//! [`open`]: a GPU through KFD.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use drivers_bundle::Evidence;
use drivers_gpu::backend::shared::Shared;
use drivers_gpu::backend::{
    Age, Backend, Event, Exception, Facts, Memory, RING_COSTS, Request, Space,
};
use drivers_gpu::kernel::{HeapRequest, KernelMemory as _, Presence};
use drivers_spec::amd::kfd::{self, GetClockCountersArgs, event_type, mmio_remap};
use hcq::mem::window::Window;
use hcq::transport::{Fault, Machine, TransportError};
use hcq::{DeviceId, Error, Result};

use super::call::Call;
use super::error::{memory_error, os};
use super::event::{self, Watch};
use super::memory;
use super::process::{self, Process};
use super::queue;
use super::survey::{Found, Unusable, survey_for};
use crate::VENDOR;
use crate::backend::{AmdBackend, Gpu, HardwareQueue, QueueRequest};
use crate::chip::{Chip, Language, QueueSizes};
use crate::options::Options;

/// Opens GPU number `index` of a machine ([`Found::index`]).
///
/// # Errors
/// [`Error::NoDevice`] with the reason if it cannot be used, see [`Unusable`]; [`Error::OutOfMemory`];
/// [`Error::Os`] for what the kernel refuses.
pub fn open(
    machine: &Arc<dyn Machine>,
    index: u32,
    options: &Options,
) -> Result<Arc<dyn AmdBackend>> {
    let id = DeviceId::new(VENDOR, index);
    let (found, chip) = find(&**machine, &id, index)?;
    let Some(node) = found.gpu else {
        return Err(none(&id, "node hidden by the process's cgroup".into()));
    };
    let process = Process::on(&**machine).map_err(|e| none(&id, e.to_string()))?;
    let gpu = process
        .gpu(&**machine, &node)
        .map_err(|e| none(&id, Unusable::from_error(e, &node.render()).to_string()))?;
    let shared = Shared::on(&**machine);
    shared.join(&gpu).map_err(|e| os(&id, e))?;
    let known = Gpu {
        facts: Facts {
            place: node.pci(),
            vram: node.vram,
            vram_windows: options.host_visible && node.large_bar,
            clock_hz: u64::from(gpu.info.gpu_counter_freq) * 1000,
            costs: RING_COSTS,
            log: "amdgpu",
        },
        chip,
        units: node.units(),
        copy_queues: node.copy_queues(),
    };
    let failed = |e| memory_error(&id, &**machine, &gpu, e);
    let hdp = match known.facts.vram_windows {
        true => Some(HdpFlush::new(&**machine, &process, &gpu).map_err(failed)?),
        false => None,
    };
    let watch = Watch::new(&**machine, &process, &gpu).map_err(failed)?;
    Ok(Arc::new(Kfd {
        id,
        machine: machine.clone(),
        process,
        shared,
        gpu,
        known,
        userptr: options.userptr,
        hdp,
        watch,
        sizes: OnceLock::new(),
        presence: Presence::now(),
    }))
}

/// The GPU of that number, and its chip.
fn find(machine: &dyn Machine, id: &DeviceId, index: u32) -> Result<(Found, &'static Chip)> {
    let survey = survey_for(machine, index);
    if let Err(why) = &survey.driver {
        return Err(none(id, why.to_string()));
    }
    let count = survey.gpus.iter().filter(|g| g.index.is_some()).count();
    let others: Vec<_> = survey
        .gpus
        .iter()
        .filter(|g| g.index.is_none())
        .filter_map(|g| g.unusable.as_ref().map(ToString::to_string))
        .collect();
    let found = survey.gpus.into_iter().find(|g| g.index == Some(index));
    let Some(found) = found else {
        let mut why = match count {
            0 => "KFD lists no supported GPU".to_string(),
            1 => "KFD lists one supported GPU, number 0".into(),
            n => format!("KFD lists {n} supported GPUs, numbers 0 to {}", n - 1),
        };
        if !others.is_empty() {
            why += &format!("; others: {}", others.join("; "));
        }
        return Err(none(id, why));
    };
    match (&found.unusable, found.chip) {
        (None, Some(chip)) => Ok((found, chip)),
        (why, _) => {
            let why = why.as_ref().map(ToString::to_string);
            Err(none(id, why.unwrap_or_default()))
        }
    }
}

fn none(id: &DeviceId, why: String) -> Error {
    Error::NoDevice {
        asked: id.to_string(),
        why,
    }
}

/// A GPU of this process.
struct Kfd {
    id: DeviceId,
    machine: Arc<dyn Machine>,
    process: Arc<Process>,
    shared: Arc<Shared<process::Gpu, memory::Memory>>,
    gpu: Arc<process::Gpu>,
    known: Gpu,
    /// Host memory is that of the process.
    userptr: bool,
    /// Makes the host's writes through the BAR arrive; none where the host does not map VRAM.
    hdp: Option<HdpFlush>,
    watch: Watch,
    sizes: OnceLock<QueueSizes>,
    presence: Presence,
}

impl Kfd {
    fn failed(&self, error: memory::MemoryError) -> Error {
        memory_error(&self.id, &*self.machine, &self.gpu, error)
    }

    /// Asks now and then whether the GPU is there.
    ///
    /// # Errors
    /// [`Error::Fault`]: it is not.
    fn ask(&self, at_once: bool) -> Result<()> {
        let is_there = || self.gpu.is_there().map_err(|e| os(&self.id, e));
        self.presence.ask(at_once, is_there)
    }

    /// What the kernel driver wants of the buffers of a compute queue.
    ///
    /// # Errors
    /// [`Error::Os`]: the topology is not one of hardware.
    fn queue_sizes(&self) -> Result<&QueueSizes> {
        if let Some(sizes) = self.sizes.get() {
            return Ok(sizes);
        }
        let units = &self.known.units;
        let sizes = QueueSizes::new(self.known.chip, units).ok_or_else(|| Error::Os {
            device: self.id.clone(),
            call: format!("node {} of the topology", self.gpu.node.number),
            source_text: format!("expected GPU compute units, found {units:?}"),
            errno: None,
            hint: "Compare with `rocminfo`; the kernel driver may be broken".into(),
        })?;
        Ok(self.sizes.get_or_init(|| sizes))
    }
}

impl Backend for Kfd {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn name(&self) -> &'static str {
        "KFD"
    }

    fn facts(&self) -> &Facts {
        &self.known.facts
    }

    fn space(&self) -> &Arc<Space> {
        &self.process.space
    }

    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        let wanted = HeapRequest::of(request, &self.known.facts, self.userptr);
        let made = memory::Memory::new(&*self.machine, &self.process, &self.gpu, &wanted);
        let made = made.map_err(|e| self.failed(e))?;
        let given = self.shared.give(&*self.machine, made, request.what);
        given.map_err(|e| self.failed(e.into()))
    }

    fn reaches(&self, va: u64) -> bool {
        self.shared.reaches(&self.gpu, va)
    }

    fn event(&self) -> Result<Event> {
        let kind = event_type::SIGNAL;
        let event = event::Event::new(&*self.machine, &self.process, &self.gpu, kind);
        let event = event.map_err(|e| self.failed(e))?;
        Ok(Event {
            id: event.id(),
            mailbox: Some(event.slot()),
            owner: Box::new(event),
        })
    }

    fn wake(&self, event: &Event) {
        event::set(&self.process, event.id);
    }

    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        self.ask(limit.is_zero())?;
        let woken = self.watch.wait(event.map(|event| event.id), age, limit);
        let woken = woken.map_err(|e| os(&self.id, e))?;
        // To the kernel's driver one that has left the bus looks like one that hangs.
        if woken.is_some() {
            self.ask(true)?;
        }
        Ok(woken)
    }

    fn tells_whose(&self) -> bool {
        // The kernel reports to a process, per GPU.
        false
    }

    fn stops_all(&self) -> bool {
        // Linux, amdkfd/kfd_int_process_v11.c, `event_interrupt_wq_v11`: `kfd_dqm_evict_pasid`.
        true
    }

    fn flush_vram(&self) -> Result<()> {
        if let Some(hdp) = &self.hdp {
            hdp.flush().map_err(|e| os(&self.id, e))?;
        }
        Ok(())
    }

    fn ticks(&self) -> Result<u64> {
        let mut args = GetClockCountersArgs {
            gpu_id: self.gpu.id,
            ..GetClockCountersArgs::default()
        };
        let read = self.process.kfd.call(kfd::GET_CLOCK_COUNTERS, &mut args);
        read.map_err(|e| os(&self.id, e))?;
        Ok(args.gpu_clock_counter)
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        self.shared.window_at(&*self.machine, va)
    }

    fn evidence(&self, _: Option<&Exception>) -> Evidence {
        let missing = [
            "registers and page tables: owned by the kernel driver; read them with `umr` as root",
            "waves: only debuggers can read them; use `rocgdb`",
        ];
        Evidence {
            missing: missing.map(str::to_owned).into(),
            ..Evidence::default()
        }
    }
}

impl AmdBackend for Kfd {
    fn gpu(&self) -> &Gpu {
        &self.known
    }

    fn queue(&self, request: &QueueRequest<'_>) -> Result<HardwareQueue> {
        let sizes = match request.language {
            Language::Sdma => None,
            Language::Pm4 | Language::Aql => Some(self.queue_sizes()?),
        };
        let of = (&self.id, &self.gpu, &self.known);
        queue::create(&*self.machine, &self.process, of, request, sizes).map_err(|e| self.failed(e))
    }
}

/// The register that makes the host's writes to VRAM visible to the GPU.
///
/// Source: Linux, include/uapi/linux/kfd_ioctl.h, `KFD_MMIO_REMAP_HDP_MEM_FLUSH_CNTL`.
struct HdpFlush {
    register: Window,
    _memory: memory::Memory,
}

impl HdpFlush {
    /// Maps the register of a GPU.
    ///
    /// # Errors
    /// [`memory::MemoryError`].
    fn new(
        machine: &dyn Machine,
        process: &Arc<Process>,
        gpu: &Arc<process::Gpu>,
    ) -> std::result::Result<HdpFlush, memory::MemoryError> {
        let memory = memory::Memory::registers(machine, process, gpu)?;
        let page = memory.view().ok_or_else(|| no_registers(process))?;
        let page = Window::mapped("the registers of the HDP", page.clone());
        Ok(HdpFlush {
            register: page.with_readback(mmio_remap::HDP_MEM_FLUSH_CNTL),
            _memory: memory,
        })
    }

    /// Flushes: what this thread has written to VRAM through the BAR is there on return.
    fn flush(&self) -> std::result::Result<(), TransportError> {
        // Write-combining buffers first; reading back waits for the arrival.
        self.register
            .ring(mmio_remap::HDP_MEM_FLUSH_CNTL as u64, 1u32)?;
        self.register.flush()
    }
}

/// Cannot be: registers are mapped.
fn no_registers(process: &Process) -> memory::MemoryError {
    let why = Fault::Unsupported("registers not mapped".into());
    memory::MemoryError::Refused(TransportError::new(process.kfd.name(), "map", why))
}
