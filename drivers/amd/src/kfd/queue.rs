//! Queues as the kernel makes them, and the buffers that it checks.
//!
//! Source: Linux 6.12, amdkfd/kfd_queue.c, `kfd_queue_acquire_buffers`: each buffer is a mapping of
//! its own, of exactly the size that the queue is created with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use drivers_gpu::backend::PAGE;
use drivers_gpu::backend::shared::Shareable as _;
use drivers_gpu::kernel::calls::again;
use drivers_gpu::kernel::{Heap, HeapRequest, KernelMemory as _};
use drivers_spec::amd::kfd::{
    self, ContextSaveAreaHeader, CreateQueueArgs, DestroyQueueArgs, UpdateQueueArgs, mmap,
    queue_type,
};
use hcq::mem::view::{View, ViewError};
use hcq::mem::window::Window;
use hcq::sync::lock;
use hcq::transport::errno::{EINVAL, ENODEV, ETIME};
use hcq::transport::{Fault, Machine, TransportError};
use hcq::{DeviceId, GpuVa};

use super::call::Call;
use super::error::os;
use super::memory::{Memory, MemoryError};
use super::process::{Gpu, Process};
use crate::backend::queue::{Apertures, CONTROL_BYTES, WPTR, prepare_aql, rptr};
use crate::backend::{self, HardwareQueue, QueueHandle, QueueRequest};
use crate::chip::{Language, QueueSizes};

/// `queue_priority` that is neither raised nor lowered. Source: ROCR, libhsakmt/src/queues.c,
/// priority_map.
const NORMAL_PRIORITY: u32 = 7;

/// What the kernel answers where no queue, or no doorbell, is left: ENOMEM, ENOSPC, EBUSY, EPERM.
///
/// Source: Linux, amdkfd/kfd_device_queue_manager.c, `allocate_sdma_queue`, `allocate_doorbell`,
/// `create_queue_cpsch`; amdkfd/kfd_process_queue_manager.c, `pqm_create_queue`.
const NO_QUEUE: [i32; 4] = [12, 28, 16, 1];

/// The queues of the kernel under one queue of the hardware: one on each XCC for PM4, one for all else.
///
/// Those of PM4 share the context save area, in which each XCC has its part.
///
/// Source: Linux, amdkfd/kfd_mqd_manager_v9.c, init_mqd_v9_4_3 (`pm4_target_xcc`, the part of each XCC).
struct KernelQueue {
    device: DeviceId,
    process: Arc<Process>,
    /// The ids, until they are destroyed; the first is that of XCC 0.
    ids: Mutex<Vec<u32>>,
    /// One of them could not be destroyed.
    stays: Arc<AtomicBool>,
    ring_va: u64,
    ring_bytes: u32,
}

impl KernelQueue {
    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        // Changed in single steps.
        lock(&self.ids)
    }

    /// Has the kernel make one more queue. Returns its doorbell.
    fn add(
        &self,
        machine: &dyn Machine,
        gpu: &Gpu,
        args: &mut CreateQueueArgs,
    ) -> Result<Window, MemoryError> {
        let created = self.process.kfd.call(kfd::CREATE_QUEUE, args);
        created.map_err(|error| match error.fault {
            Fault::Errno(errno) if NO_QUEUE.contains(&errno) => MemoryError::Queues(error),
            _ => error.into(),
        })?;
        self.lock().push(args.queue_id);
        let offset = args.doorbell_offset & (mmap::DOORBELL_BYTES - 1);
        if !offset.is_multiple_of(8) {
            return Err(no_doorbell(offset).into());
        }
        let page = args.doorbell_offset & !(mmap::DOORBELL_BYTES - 1);
        let all = machine.window("doorbells", page, gpu.doorbells(page)?);
        Ok(all.sub(offset, 8)?)
    }
}

impl Drop for KernelQueue {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether the kernel has the queue no more.
///
/// Source: Linux, amdkfd/kfd_process_queue_manager.c, `pqm_destroy_queue`: after ETIME, and since 6.15
/// after EIO, the queue is removed although the call fails; EINVAL is an id that no queue has.
fn destroy(process: &Process, id: u32) -> bool {
    let mut args = DestroyQueueArgs {
        queue_id: id,
        pad: 0,
    };
    let mut refused = false;
    let call = || {
        let done = process.kfd.call(kfd::DESTROY_QUEUE, &mut args);
        let Err(error) = done else { return Ok(()) };
        let gone = match error.fault {
            // It did not stop: the GPU is reset, and the queue is gone. ENODEV: so is the GPU.
            Fault::Errno(ETIME | ENODEV) => true,
            // The refusal before was such a one: of a scheduler that is being reset (EIO).
            Fault::Errno(EINVAL) => refused,
            _ => false,
        };
        refused = true;
        if !gone {
            return Err(error);
        }
        tracing::debug!(%error, id, "queue destroyed without stopping");
        Ok(())
    };
    let destroyed = again(call);
    if let Err(error) = &destroyed {
        tracing::warn!(%error, id, "could not destroy a queue");
    }
    destroyed.is_ok()
}

/// The doorbell of a queue at another offset than the kernel reported.
fn no_doorbell(offset: u64) -> TransportError {
    let why = format!("expected an aligned offset below 0x2000, found {offset:#x}");
    TransportError::new("/dev/kfd", kfd::CREATE_QUEUE.name, Fault::Unsupported(why))
}

/// Creates a queue; a PM4 queue runs on all XCCs of the GPU. A compute queue needs `sizes`.
///
/// # Errors
/// [`MemoryError`]; nothing is left behind then.
pub(super) fn create(
    machine: &dyn Machine,
    process: &Arc<Process>,
    (device, gpu, facts): (&DeviceId, &Arc<Gpu>, &backend::Gpu),
    request: &QueueRequest<'_>,
    sizes: Option<&QueueSizes>,
) -> Result<HardwareQueue, MemoryError> {
    let &QueueRequest {
        language,
        ring_bytes,
        name,
    } = request;
    let of = |what: &str| format!("the {what} of {name}");
    let memory = |bytes, heap, what: &str| {
        let wanted = HeapRequest {
            bytes,
            align: PAGE,
            heap,
            what,
        };
        Memory::new(machine, process, gpu, &wanted)
    };
    let shared = |bytes, what: &str| {
        let what = of(what);
        let memory = memory(bytes, Heap::System, &what)?;
        let window = memory.window(machine, &what)?;
        Ok::<_, MemoryError>((memory, window))
    };
    let (ring, ring_window) = shared(ring_bytes, "ring")?;
    let (control, control_window) = shared(CONTROL_BYTES, "pointers")?;
    if language == Language::Aql {
        let apertures = Apertures {
            local: gpu.apertures.lds_base,
            scratch: gpu.apertures.scratch_base,
        };
        let waves = gpu.node.number_of("max_waves_per_simd");
        let ring = (GpuVa(ring.va()), &ring_window);
        prepare_aql(facts, ring, &control_window, apertures, waves)?;
    }
    let mut args = CreateQueueArgs {
        ring_base_address: ring.va(),
        write_pointer_address: control.va() + WPTR,
        ring_size: ring_bytes as u32,
        gpu_id: gpu.id,
        queue_type: kind(language),
        queue_priority: NORMAL_PRIORITY,
        ..CreateQueueArgs::default()
    };
    let stays = Arc::<AtomicBool>::default();
    let mut buffers = Buffers {
        all: vec![ring, control],
        stays: stays.clone(),
    };
    let xccs = facts.units.xccs;
    if let Some(sizes) = sizes {
        let context = memory(sizes.buffer, Heap::System, &of("context save area"))?;
        save_to(&context, sizes, xccs, &mut args).map_err(|e| refused(name, e))?;
        buffers.all.push(context);
    }
    let queues = match language {
        Language::Pm4 => xccs,
        Language::Aql | Language::Sdma => 1,
    };
    let mut doorbells = Vec::new();
    // After the buffers: the queue is destroyed before them if a later step fails.
    let made = KernelQueue {
        device: device.clone(),
        process: process.clone(),
        ids: Mutex::default(),
        stays,
        ring_va: args.ring_base_address,
        ring_bytes: ring_bytes as u32,
    };
    for xcc in 0..queues {
        args.read_pointer_address = buffers.all[CONTROL].va() + rptr(xcc);
        args.queue_percentage = percentage(xcc);
        if let Some(sizes) = sizes {
            // Each queues its own events at the end of the pipe.
            let buffer = memory(sizes.end_of_pipe, Heap::Vram, &of("end-of-pipe buffer"))?;
            args.eop_buffer_address = buffer.va();
            args.eop_buffer_size = sizes.end_of_pipe;
            buffers.all.push(buffer);
        }
        doorbells.push(made.add(machine, gpu, &mut args)?);
    }
    Ok(HardwareQueue {
        handle: Box::new(made),
        language,
        ring: ring_window,
        control: control_window,
        control_va: GpuVa(buffers.all[CONTROL].va()),
        doorbells,
        owner: Box::new(buffers),
    })
}

const fn kind(language: Language) -> u32 {
    match language {
        Language::Pm4 => queue_type::COMPUTE,
        Language::Aql => queue_type::COMPUTE_AQL,
        Language::Sdma => queue_type::SDMA,
    }
}

/// Memory that a queue itself reads and writes. It is kept with a queue that was not destroyed: older kernels free it under the queue.
struct Buffers {
    all: Vec<Memory>,
    stays: Arc<AtomicBool>,
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.stays.load(Ordering::Relaxed) {
            std::mem::forget(std::mem::take(&mut self.all));
        }
    }
}

/// Where among the buffers of a queue its pointers are.
const CONTROL: usize = 1;

impl QueueHandle for KernelQueue {
    fn remap(&self) -> hcq::Result<()> {
        for (xcc, &id) in self.lock().iter().enumerate() {
            for share in [percentage(xcc as u32) & !0xff, percentage(xcc as u32)] {
                let mut args = UpdateQueueArgs {
                    ring_base_address: self.ring_va,
                    queue_id: id,
                    ring_size: self.ring_bytes,
                    queue_percentage: share,
                    queue_priority: NORMAL_PRIORITY,
                };
                // A queue that is left unmapped is of no use.
                again(|| self.process.kfd.call(kfd::UPDATE_QUEUE, &mut args))
                    .map_err(|e| os(&self.device, e))?;
            }
        }
        Ok(())
    }

    fn stop(&self) -> bool {
        let mut ids = self.lock();
        // The last one first, and none twice.
        let all = std::mem::take(&mut *ids);
        let left: Vec<_> = all
            .into_iter()
            .rev()
            .filter(|&id| !destroy(&self.process, id))
            .collect();
        self.stays.fetch_or(!left.is_empty(), Ordering::Relaxed);
        !self.stays.load(Ordering::Relaxed)
    }
}

/// All of an XCC's time.
///
/// Source: Linux, amdkfd/kfd_chardev.c, set_queue_properties_from_user: bits 15:8 are the XCC of PM4.
const fn percentage(xcc: u32) -> u32 {
    kfd::MAX_QUEUE_PERCENTAGE | xcc << 8
}

fn refused(name: &str, error: ViewError) -> MemoryError {
    MemoryError::Refused(TransportError::new(name, "create", Fault::View(error)))
}

/// Tells the kernel of the context save area, which all XCCs share.
fn save_to(
    context: &Memory,
    sizes: &QueueSizes,
    xccs: u32,
    args: &mut CreateQueueArgs,
) -> Result<(), ViewError> {
    args.ctx_save_restore_address = context.va();
    args.ctx_save_restore_size = sizes.context;
    args.ctl_stack_size = sizes.ctl_stack;
    match context.view() {
        Some(view) => header(view, sizes, xccs),
        None => Ok(()),
    }
}

/// Where a debugger finds its part of the context save area of each XCC.
fn header(view: &View, sizes: &QueueSizes, xccs: u32) -> Result<(), ViewError> {
    use std::mem::offset_of;
    for xcc in 0..xccs {
        let at = sizes.context as usize * xcc as usize;
        let field = |field: usize| at + field;
        let debug_offset = (xccs - xcc) * sizes.context;
        view.write(
            field(offset_of!(ContextSaveAreaHeader, debug_offset)),
            debug_offset,
        )?;
        view.write(
            field(offset_of!(ContextSaveAreaHeader, debug_size)),
            sizes.debug * xccs,
        )?;
    }
    Ok(())
}
