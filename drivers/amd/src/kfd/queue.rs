//! Queues as the kernel makes them: a ring, pointers, a doorbell, and the buffers that the kernel
//! checks. What is written into the ring is the business of [`crate::submit`].
//!
//! Source: Linux 6.12, amdkfd/kfd_queue.c, `kfd_queue_acquire_buffers`: each buffer is a mapping of
//! its own, of exactly the size that the queue is created with.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use drivers_spec::amd::aql;
use drivers_spec::amd::kfd::{
    self, ContextSaveAreaHeader, CreateQueueArgs, DestroyQueueArgs, UpdateQueueArgs, mmap,
    queue_type,
};
use hcq::GpuVa;
use hcq::mem::view::{View, ViewError};
use hcq::transport::{Fault, Machine, TransportError};

use super::call::Call;
use super::memory::{Memory, MemoryError, PAGE, Request, Use, again};
use super::process::{Gpu, Process};
use crate::chip::QueueSizes;

/// What a queue takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// PM4 packets.
    Pm4,
    /// AQL packets.
    Aql,
    /// SDMA packets.
    Sdma,
}

/// `queue_priority` that is neither raised nor lowered. Source: ROCR, libhsakmt/src/queues.c,
/// priority_map.
const NORMAL_PRIORITY: u32 = 7;

/// What the kernel answers where no queue, or no doorbell, is left: ENOMEM, ENOSPC, EBUSY, EPERM.
///
/// Source: Linux, amdkfd/kfd_device_queue_manager.c, `allocate_sdma_queue`, `allocate_doorbell`,
/// `create_queue_cpsch`; amdkfd/kfd_process_queue_manager.c, `pqm_create_queue`.
const NO_QUEUE: [i32; 4] = [12, 28, 16, 1];

/// Offsets in the page of pointers. All kinds of queues use the layout of `amd_queue_t`, because AQL
/// has to.
const WPTR: usize = aql::queue::WRITE_DISPATCH_ID;
const RPTR: usize = aql::queue::READ_DISPATCH_ID;

/// Where the later XCCs of a PM4 queue have their read pointers: behind `amd_queue_t`, which they do not
/// use, in a cache line of its own each.
const RPTRS: usize = 1024;

/// Free for the driver: behind `amd_queue_t`, in a cache line of its own each.
const FENCE: usize = 512;
const PROGRESS: usize = 576;

/// A queue of the kernel. Destroyed on drop, before its buffers are freed.
///
/// AQL runs on all XCCs of a GPU, a PM4 queue on one. PM4 for several is a queue of the kernel on each,
/// all of them on the same ring: they share its write pointer, and the context save area, in which each
/// XCC has its part.
///
/// Source: Linux, amdkfd/kfd_mqd_manager_v9.c, init_mqd_v9_4_3 (`pm4_target_xcc`, the part of each XCC).
pub(crate) struct KernelQueue {
    process: Arc<Process>,
    /// The first is that of XCC 0.
    parts: Vec<Part>,
    kind: Kind,
    ring: Memory,
    pointers: Memory,
    ring_view: View,
    pointer_view: View,
    doorbells: View,
    // Used by the hardware.
    _buffers: Vec<Memory>,
}

/// A queue on one XCC, or on all.
struct Part {
    id: u32,
    /// Where its doorbell is in the page.
    doorbell: usize,
    /// Where its read pointer is in the page of pointers.
    rptr: usize,
}

/// Destroys what was made when a later part cannot be.
struct Made<'a>(&'a Process, Vec<Part>);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for part in self.1.drain(..).rev() {
            destroy(self.0, part.id);
        }
    }
}

fn destroy(process: &Process, id: u32) {
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
        tracing::debug!(%error, id, "a queue did not stop, and is gone");
        Ok(())
    };
    if let Err(error) = again(call) {
        tracing::warn!(%error, id, "a queue stays with the kernel");
    }
}

/// The doorbell of a queue that the kernel has put somewhere else than it says.
fn no_doorbell(offset: u64) -> TransportError {
    let why = format!("expected an aligned offset below 0x2000, found {offset:#x}");
    TransportError::new("/dev/kfd", kfd::CREATE_QUEUE.name, Fault::Unsupported(why))
}

impl KernelQueue {
    /// Makes a queue with a ring of `ring_bytes`, a power of two of at least a page. A compute queue
    /// needs `sizes`. One of PM4 runs on all XCCs of the GPU.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    pub(crate) fn new(
        machine: &dyn Machine,
        process: &Arc<Process>,
        gpu: &Arc<Gpu>,
        kind: Kind,
        ring_bytes: u64,
        sizes: Option<&QueueSizes>,
        name: &str,
    ) -> Result<KernelQueue, MemoryError> {
        let memory = |bytes, purpose, what: &str| {
            let what = format!("the {what} of {name}");
            let request = Request {
                bytes,
                align: PAGE,
                purpose,
                what: &what,
            };
            Memory::new(machine, process, gpu, &request)
        };
        let ring = memory(ring_bytes, Use::Gtt, "ring")?;
        let pointers = memory(PAGE, Use::Gtt, "pointers")?;
        let ring_view = mapped(&ring)?;
        let pointer_view = mapped(&pointers)?;
        if kind == Kind::Aql {
            let fits = prepare_aql(&ring, &ring_view, &pointer_view, gpu);
            fits.map_err(|e| refused(name, e))?;
        }
        let mut args = CreateQueueArgs {
            ring_base_address: ring.va(),
            write_pointer_address: pointers.va() + WPTR as u64,
            read_pointer_address: pointers.va() + RPTR as u64,
            ring_size: ring_bytes as u32,
            gpu_id: gpu.id,
            queue_type: match kind {
                Kind::Pm4 => queue_type::COMPUTE,
                Kind::Aql => queue_type::COMPUTE_AQL,
                Kind::Sdma => queue_type::SDMA,
            },
            queue_percentage: kfd::MAX_QUEUE_PERCENTAGE,
            queue_priority: NORMAL_PRIORITY,
            ..CreateQueueArgs::default()
        };
        let mut buffers = Vec::new();
        let xccs = gpu.node.units().xccs;
        if let Some(sizes) = sizes {
            let context = memory(sizes.buffer, Use::Gtt, "context save area")?;
            args.ctx_save_restore_address = context.va();
            args.ctx_save_restore_size = sizes.context;
            args.ctl_stack_size = sizes.ctl_stack;
            if let Some(view) = context.view() {
                header(view, sizes, xccs).map_err(|e| refused(name, e))?;
            }
            buffers.push(context);
        }
        let parts = match kind {
            Kind::Pm4 => xccs,
            Kind::Aql | Kind::Sdma => 1,
        };
        // Each queues its own events at the end of the pipe.
        for _ in 0..parts {
            if let Some(sizes) = sizes {
                buffers.push(memory(sizes.end_of_pipe, Use::Vram, "end-of-pipe buffer")?);
            }
        }
        let first = buffers.len() - if sizes.is_some() { parts as usize } else { 0 };
        let mut made = Made(process, Vec::new());
        let mut doorbells = None;
        for xcc in 0..parts {
            let rptr = match xcc {
                0 => RPTR,
                xcc => RPTRS + 64 * xcc as usize,
            };
            args.read_pointer_address = pointers.va() + rptr as u64;
            args.queue_percentage = percentage(xcc);
            if let (Some(sizes), Some(buffer)) = (sizes, buffers.get(first + xcc as usize)) {
                args.eop_buffer_address = buffer.va();
                args.eop_buffer_size = sizes.end_of_pipe;
            }
            let created = process.kfd.call(kfd::CREATE_QUEUE, &mut args);
            created.map_err(|error| match error.fault {
                Fault::Errno(errno) if NO_QUEUE.contains(&errno) => MemoryError::Queues(error),
                _ => error.into(),
            })?;
            let offset = args.doorbell_offset & (mmap::DOORBELL_BYTES - 1);
            made.1.push(Part {
                id: args.queue_id,
                doorbell: offset as usize,
                rptr,
            });
            if !offset.is_multiple_of(8) {
                return Err(no_doorbell(offset).into());
            }
            if doorbells.is_none() {
                doorbells = Some(gpu.doorbells(args.doorbell_offset)?);
            }
        }
        Ok(KernelQueue {
            process: process.clone(),
            // From here on the drop of the queue destroys them.
            parts: std::mem::take(&mut made.1),
            kind,
            doorbells: doorbells.unwrap_or_else(|| pointer_view.clone()),
            ring,
            pointers,
            ring_view,
            pointer_view,
            _buffers: buffers,
        })
    }

    /// The ring, for the host.
    pub(crate) fn ring(&self) -> &View {
        &self.ring_view
    }

    /// Bytes of the ring.
    pub(crate) fn ring_bytes(&self) -> u64 {
        self.ring.bytes()
    }

    /// Where the page of pointers is.
    pub(crate) fn pointers_va(&self) -> GpuVa {
        GpuVa(self.pointers.va())
    }

    /// Four bytes for the encoder's fence.
    pub(crate) fn fence_va(&self) -> GpuVa {
        GpuVa(self.pointers.va() + FENCE as u64)
    }

    /// The signal of progress, 16 bytes: where the host sees it, and where the device writes it.
    pub(crate) fn progress(&self) -> Result<(View, GpuVa), ViewError> {
        let view = self.pointer_view.sub(PROGRESS, 16)?;
        Ok((view, GpuVa(self.pointers.va() + PROGRESS as u64)))
    }

    /// The read pointer as the device has written it, in its own unit; `None` for PM4, whose
    /// firmware promises nothing about it.
    #[inline]
    pub(crate) fn read_pointer(&self) -> Result<Option<u64>, ViewError> {
        match self.kind {
            Kind::Pm4 => Ok(None),
            Kind::Aql | Kind::Sdma => self.pointer_view.load_u64(RPTR).map(Some),
        }
    }

    /// Both pointers, write and read, whatever they are worth: for messages.
    pub(crate) fn raw_pointers(&self) -> (u64, u64) {
        let load = |at| self.pointer_view.load_u64(at).unwrap_or(u64::MAX);
        // The XCC that is last.
        let rptr = self.parts.iter().map(|part| load(part.rptr)).min();
        (load(WPTR), rptr.unwrap_or(u64::MAX))
    }

    /// Tells the device that the ring is written up to `dwords`, counted since the queue was made.
    #[inline]
    pub(crate) fn publish(&self, dwords: u64) -> Result<(), ViewError> {
        const PACKET_DWORDS: u64 = aql::PACKET_BYTES / 4;
        let (wptr, bell) = match self.kind {
            Kind::Pm4 => (dwords, dwords),
            Kind::Sdma => (dwords * 4, dwords * 4),
            // The index of the last packet.
            Kind::Aql => (dwords / PACKET_DWORDS, dwords / PACKET_DWORDS - 1),
        };
        // A release: the ring is written before.
        self.pointer_view.store_u64(WPTR, wptr)?;
        // The pointer is in memory before the doorbell, whatever the memory type of either.
        fence(Ordering::SeqCst);
        for part in &self.parts {
            self.doorbells.store_u64(part.doorbell, bell)?;
        }
        Ok(())
    }

    /// Writes dwords into `amd_queue_t`, for [`KernelQueue::remap`].
    ///
    /// # Errors
    /// Outside of the page.
    pub(crate) fn set_field(&self, at: usize, words: &[u32]) -> Result<(), ViewError> {
        self.pointer_view.write_words(at, words)
    }

    /// Takes the queue from the hardware and gives it back: what the command processor has read of
    /// `amd_queue_t` is read again.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn remap(&self) -> Result<(), TransportError> {
        for (xcc, part) in self.parts.iter().enumerate() {
            for share in [percentage(xcc as u32) & !0xff, percentage(xcc as u32)] {
                let mut args = UpdateQueueArgs {
                    ring_base_address: self.ring.va(),
                    queue_id: part.id,
                    ring_size: self.ring.bytes() as u32,
                    queue_percentage: share,
                    queue_priority: NORMAL_PRIORITY,
                };
                // A queue that is left unmapped is of no use.
                again(|| self.process.kfd.call(kfd::UPDATE_QUEUE, &mut args))?;
            }
        }
        Ok(())
    }
}

impl Drop for KernelQueue {
    fn drop(&mut self) {
        for part in self.parts.iter().rev() {
            destroy(&self.process, part.id);
        }
    }
}

/// Source: Linux, amdkfd/kfd_process_queue_manager.c, `pqm_destroy_queue`: after ETIME, and since 6.15
/// after EIO, the queue is removed although the call fails; EINVAL is an id that no queue has.
const ETIME: i32 = 62;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;

/// All of an XCC's time.
///
/// Source: Linux, amdkfd/kfd_chardev.c, set_queue_properties_from_user: bits 15:8 are the XCC of PM4.
const fn percentage(xcc: u32) -> u32 {
    kfd::MAX_QUEUE_PERCENTAGE | xcc << 8
}

/// The host's mapping of memory that has one.
fn mapped(memory: &Memory) -> Result<View, MemoryError> {
    memory.view().cloned().ok_or_else(|| {
        let why = "system memory without a mapping".to_string();
        MemoryError::Refused(TransportError::new("KFD", "map", Fault::Unsupported(why)))
    })
}

fn refused(name: &str, error: ViewError) -> MemoryError {
    MemoryError::Refused(TransportError::new(name, "create", Fault::View(error)))
}

/// The structure that the command processor reads beside an AQL ring, and a ring of free slots.
///
/// Source: ROCR, inc/amd_hsa_queue.h; HSA Runtime Programmer's Reference Manual, 2.9.
fn prepare_aql(
    ring: &Memory,
    ring_view: &View,
    pointers: &View,
    gpu: &Gpu,
) -> Result<(), ViewError> {
    use aql::queue::{
        BASE_ADDRESS, GROUP_SEGMENT_APERTURE_BASE_HI, IS_PTR64, MAX_CU_ID, MAX_WAVE_ID,
        PRIVATE_SEGMENT_APERTURE_BASE_HI, QUEUE_PROPERTIES,
        READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET, SIZE,
    };
    let packets = ring.bytes() / aql::PACKET_BYTES;
    for packet in 0..packets as usize {
        ring_view.write(packet * aql::PACKET_BYTES as usize, aql::INVALID)?;
    }
    let units = gpu.node.units();
    let waves = gpu.node.number_of("max_waves_per_simd");
    let waves = waves.saturating_mul(units.simds_per_cu);
    pointers.write(BASE_ADDRESS, ring.va())?;
    let words = [
        (SIZE, packets as u32),
        (
            GROUP_SEGMENT_APERTURE_BASE_HI,
            (gpu.apertures.lds_base >> 32) as u32,
        ),
        (
            PRIVATE_SEGMENT_APERTURE_BASE_HI,
            (gpu.apertures.scratch_base >> 32) as u32,
        ),
        (MAX_CU_ID, gpu.node.compute_units().saturating_sub(1)),
        (MAX_WAVE_ID, waves.saturating_sub(1)),
        (READ_DISPATCH_ID_FIELD_BASE_BYTE_OFFSET, RPTR as u32),
        (QUEUE_PROPERTIES, IS_PTR64),
    ];
    for (at, word) in words {
        pointers.write(at, word)?;
    }
    Ok(())
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

// The two pointers lie in one page, apart from what the driver puts behind them.
const _: () = assert!(RPTR + 8 < FENCE && aql::queue::BYTES <= FENCE && PROGRESS + 16 <= RPTRS);
