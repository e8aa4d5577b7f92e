//! [`Process`]: what KFD knows of this process, and keeps until it ends.
//!
//! The kernel binds the address space of a render node to the process once, takes an event page
//! once, and gives neither back before the process ends. So both are kept with the machine, and a
//! device that is opened again finds them.
//!
//! Source: Linux, amdkfd/kfd_process.c, `kfd_process_device_init_vm`; amdkfd/kfd_events.c,
//! `kfd_event_page_set`; amdkfd/kfd_chardev.c, `kfd_ioctl_free_memory_of_gpu` (EPERM).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use drivers_spec::amd::drm::{self, Info, InfoDevice, info};
use drivers_spec::amd::kfd::{
    self, AcquireVmArgs, CreateEventArgs, GetAvailableMemoryArgs, GetProcessAperturesNewArgs,
    ProcessDeviceApertures, SIGNAL_EVENT_LIMIT, mmap,
};
use hcq::GpuVa;
use hcq::mem::view::View;
use hcq::transport::{DevFile, Fault, Machine, Map, Prot, Reserved, TransportError};
use zerocopy::FromZeros;

use super::call::Call;
use super::memory::{Memory, MemoryError, Reach, Request, Use, map_handle};
use super::ranges::Ranges;
use super::survey::{self, KFD, Unusable};
use super::topology::Node;

/// KFD's side of this process.
pub(crate) struct Process {
    /// `/dev/kfd`.
    pub(crate) kfd: Arc<dyn DevFile>,
    /// Version of the interface.
    pub(crate) version: (u32, u32),
    /// Which addresses belong to what.
    pub(crate) ranges: Ranges,
    /// Devices that end, and whose work still goes on.
    ending: AtomicU32,
    state: Mutex<State>,
}

/// A device that ends, as others of the process see it.
pub(crate) struct Ending<'a> {
    process: &'a Process,
    moves: bool,
}

impl Ending<'_> {
    /// Tells whether its work goes on.
    pub(crate) fn set(&mut self, moves: bool) {
        match (self.moves, moves) {
            (false, true) => self.process.ending.fetch_add(1, Ordering::Relaxed),
            (true, false) => self.process.ending.fetch_sub(1, Ordering::Relaxed),
            _ => return,
        };
        self.moves = moves;
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// Queues of a device of the process.
pub(crate) trait Moves: Send + Sync {
    /// Whether one of them has work that goes on: that of others which waits may wait for it.
    fn moves(&self) -> bool;
}

#[derive(Default)]
struct State {
    /// The queues of every open device.
    moving: Vec<Weak<dyn Moves>>,
    gpus: Vec<Arc<Gpu>>,
    /// Memory that other GPUs reach as well, with whether they must.
    shared: Vec<(Weak<Memory>, Reach)>,
    page: Option<Page>,
}

/// The event page: slots to which GPUs write the ids of events.
struct Page {
    handle: u64,
    va: u64,
    /// `gpu_id` of the GPUs that have it mapped.
    mapped: Vec<u32>,
    /// Its addresses, which stay taken as long as the process has them.
    _addresses: (Option<Reserved>, Option<View>),
}

/// A GPU whose address space the process has.
pub(crate) struct Gpu {
    /// KFD's number for it.
    pub(crate) id: u32,
    /// What the topology says.
    pub(crate) node: Node,
    /// Its render node: maps memory.
    pub(crate) render: Arc<dyn DevFile>,
    /// What the graphics driver says.
    pub(crate) info: InfoDevice,
    /// The flat addresses of LDS and scratch, and those that may be mapped.
    pub(crate) apertures: ProcessDeviceApertures,
    kfd: Arc<dyn DevFile>,
    doorbells: Mutex<Option<View>>,
}

impl Process {
    /// The process on a machine; the same for every device that is opened on it.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(crate) fn on(machine: &dyn Machine) -> Result<Arc<Process>, Unusable> {
        machine.kept().get_or_make(|| {
            let open = machine.open(KFD);
            let kfd = open.map_err(|e| Unusable::from_error(e, KFD))?;
            let version = survey::version(&*kfd)?;
            Ok(Process {
                kfd,
                version,
                ranges: Ranges::default(),
                ending: AtomicU32::new(0),
                state: Mutex::default(),
            })
        })
    }

    /// A GPU, with its address space bound to the process.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn gpu(
        &self,
        machine: &dyn Machine,
        node: &Node,
    ) -> Result<Arc<Gpu>, TransportError> {
        let mut state = self.lock();
        if let Some(gpu) = state.gpus.iter().find(|gpu| gpu.id == node.gpu_id) {
            return Ok(gpu.clone());
        }
        let render = machine.open(&node.render())?;
        let info = device_info(&*render)?;
        let apertures = self.apertures(node)?;
        let mut args = AcquireVmArgs {
            drm_fd: render.number()?,
            gpu_id: node.gpu_id,
        };
        self.kfd.call(kfd::ACQUIRE_VM, &mut args)?;
        let gpu = Arc::new(Gpu {
            id: node.gpu_id,
            node: node.clone(),
            render,
            info,
            apertures,
            kfd: self.kfd.clone(),
            doorbells: Mutex::default(),
        });
        // Kept from here on: the address space is bound to this open file for good.
        state.gpus.push(gpu.clone());
        Ok(gpu)
    }

    /// The apertures of a GPU.
    fn apertures(&self, node: &Node) -> Result<ProcessDeviceApertures, TransportError> {
        let mut args = GetProcessAperturesNewArgs::default();
        let call = |args: &mut _| self.kfd.call(kfd::GET_PROCESS_APERTURES_NEW, args);
        call(&mut args)?;
        let mut all = vec![ProcessDeviceApertures::new_zeroed(); args.num_of_nodes as usize];
        args.kfd_process_device_apertures_ptr = all.as_mut_ptr().expose_provenance() as u64;
        call(&mut args)?;
        all.truncate(args.num_of_nodes as usize);
        let found = all.into_iter().find(|one| one.gpu_id == node.gpu_id);
        found.ok_or_else(|| {
            let why = format!(
                "expected the apertures of gpu_id {:#x}, found only those of others",
                node.gpu_id
            );
            let ioctl = kfd::GET_PROCESS_APERTURES_NEW.name;
            TransportError::new(self.kfd.name(), ioctl, Fault::Unsupported(why))
        })
    }

    /// Maps new memory for the other GPUs that should reach it, and remembers it for those that are
    /// opened later.
    pub(super) fn share(&self, memory: &Arc<Memory>, reach: Reach) -> Result<(), TransportError> {
        let mut state = self.lock();
        for gpu in &state.gpus {
            give(memory, gpu, reach)?;
        }
        if state.shared.len() == state.shared.capacity() {
            state.shared.retain(|(memory, _)| memory.strong_count() > 0);
        }
        state.shared.push((Arc::downgrade(memory), reach));
        Ok(())
    }

    /// Gives a GPU that was just opened what others share with it.
    ///
    /// # Errors
    /// The kernel's, for memory that every GPU must reach.
    pub(crate) fn join(&self, gpu: &Gpu) -> Result<(), TransportError> {
        let state = self.lock();
        let shared = state.shared.iter();
        for (memory, reach) in shared.filter_map(|(m, reach)| Some((m.upgrade()?, *reach))) {
            give(&memory, gpu, reach)?;
        }
        Ok(())
    }

    /// Creates an event for a GPU. The first one brings the event page.
    ///
    /// # Errors
    /// [`MemoryError`], and nothing is left behind.
    pub(super) fn create_event(
        self: &Arc<Self>,
        machine: &dyn Machine,
        gpu: &Arc<Gpu>,
        args: &mut CreateEventArgs,
    ) -> Result<(), MemoryError> {
        let mut state = self.lock();
        if let Some(page) = &mut state.page {
            if !page.mapped.contains(&gpu.id) {
                let (done, is_mapped) = map_handle(&*self.kfd, page.handle, gpu.id);
                page.mapped.extend(is_mapped.then_some(gpu.id));
                done?;
            }
            self.kfd.call(kfd::CREATE_EVENT, args)?;
            return Ok(());
        }
        let request = Request {
            bytes: u64::from(SIGNAL_EVENT_LIMIT) * SLOT,
            align: 4096,
            purpose: Use::Gtt,
            what: "the event page",
        };
        let memory = Memory::new(machine, self, gpu, &request)?;
        args.event_page_offset = memory.handle();
        self.kfd.call(kfd::CREATE_EVENT, args)?;
        state.page = Some(Page {
            handle: memory.handle(),
            va: memory.va(),
            mapped: vec![gpu.id],
            _addresses: memory.keep(),
        });
        Ok(())
    }

    /// The address of an event's slot in the event page.
    pub(super) fn slot(&self, event: &CreateEventArgs) -> GpuVa {
        let page = self.lock().page.as_ref().map_or(0, |page| page.va);
        GpuVa(page + u64::from(event.event_slot_index) * SLOT)
    }

    /// A device that starts to end.
    pub(crate) fn end(&self) -> Ending<'_> {
        Ending {
            process: self,
            moves: false,
        }
    }

    /// Notes the queues of a device.
    pub(crate) fn watch_moves(&self, queues: Weak<dyn Moves>) {
        let mut state = self.lock();
        state.moving.retain(|queues| queues.strong_count() > 0);
        state.moving.push(queues);
    }

    /// Whether work of any device of the process goes on, open or about to end.
    pub(crate) fn moves(&self) -> bool {
        if self.ending.load(Ordering::Relaxed) > 0 {
            return true;
        }
        // Looked at outside of the lock: the last handle of one may be this one.
        let all: Vec<_> = self
            .lock()
            .moving
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        all.iter().any(|queues| queues.moves())
    }

    /// Memory that the host sees at a device's address, and where in it the address is. Slow: for
    /// messages.
    pub(crate) fn host_view(&self, va: u64) -> Option<(View, usize)> {
        let state = self.lock();
        let shared = state.shared.iter().filter_map(|(m, _)| m.upgrade());
        for memory in shared {
            let Some(offset) = va.checked_sub(memory.va()) else {
                continue;
            };
            if offset < memory.bytes() {
                return Some((memory.view()?.clone(), offset as usize));
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Entries are pushed whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of a slot of the event page.
const SLOT: u64 = 8;

/// Maps memory for another GPU that should reach it.
fn give(memory: &Memory, gpu: &Gpu, reach: Reach) -> Result<(), TransportError> {
    match reach {
        Reach::All => memory.map(gpu.id),
        Reach::Peers if !memory.reachable(gpu) => Ok(()),
        Reach::Peers => {
            // Copies between the two go through host memory then.
            if let Err(error) = memory.map(gpu.id) {
                tracing::debug!(%error, va = memory.va(), gpu = gpu.id, "not mapped for a peer");
            }
            Ok(())
        }
    }
}

/// What the graphics driver knows of a GPU. Fields that an older kernel does not fill are 0.
fn device_info(render: &dyn DevFile) -> Result<InfoDevice, TransportError> {
    let mut answer = InfoDevice::new_zeroed();
    let mut args = Info {
        return_pointer: (&raw mut answer).expose_provenance() as u64,
        return_size: size_of::<InfoDevice>() as u32,
        query: info::DEV_INFO,
        arguments: [0; 4],
    };
    render.call(drm::AMDGPU_INFO, &mut args)?;
    Ok(answer)
}

impl Gpu {
    /// Bytes of system memory that GPUs may use, free and in all; 0 where the kernel does not tell.
    ///
    /// Source: Linux, amdgpu/amdgpu_gtt_mgr.c.
    pub(crate) fn system_memory(&self, machine: &dyn Machine) -> (u64, u64) {
        let folder = format!("/sys/bus/pci/devices/{}", self.node.pci());
        let number = |name: &str| -> Option<u64> {
            let text = machine.read(&format!("{folder}/mem_info_gtt_{name}"));
            text.ok()?.trim().parse().ok()
        };
        let total = number("total").unwrap_or(0);
        (total.saturating_sub(number("used").unwrap_or(total)), total)
    }

    /// Bytes of VRAM that can be allocated now.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn available(&self) -> Result<u64, TransportError> {
        let mut args = GetAvailableMemoryArgs {
            gpu_id: self.id,
            ..GetAvailableMemoryArgs::default()
        };
        self.kfd.call(kfd::AVAILABLE_MEMORY, &mut args)?;
        Ok(args.available)
    }

    /// The doorbells of the process on this GPU, mapped once. `offset` is that of a queue.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn doorbells(&self, offset: u64) -> Result<View, TransportError> {
        let mut doorbells = self
            .doorbells
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = &*doorbells {
            return Ok(view.clone());
        }
        let view = self.kfd.mmap(Map {
            offset: offset & !(mmap::DOORBELL_BYTES - 1),
            len: mmap::DOORBELL_BYTES as usize,
            prot: Prot::ReadWrite,
            at: None,
        })?;
        *doorbells = Some(view.clone());
        Ok(view)
    }
}
