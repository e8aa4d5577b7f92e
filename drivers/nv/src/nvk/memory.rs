//! Memory objects of RM: made, mapped for the host, mapped for GPUs at the same address, and taken apart in
//! the other order.
//!
//! The host reserves an address of its own for each, whether it maps the memory or not: so an address means
//! the same to the host and to every GPU of the process.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/src/kernel/mem_mgr/{video_mem,system_mem}.c; arch/nvalloc/unix/
//! src/escape.c, RmAllocOsDescriptor; kernel-open/nvidia-uvm/uvm_map_external.c.

use std::sync::{Arc, Mutex, Weak};

use drivers_gpu::backend::shared::Shareable;
use drivers_gpu::backend::{Named, PAGE};
use drivers_gpu::kernel::{Addresses, Heap, HeapRequest, KernelMemory};
use drivers_spec::nv::memory::{alloc_flags, alloc_memory_flags, attr, attr2, kind};
use drivers_spec::nv::{class, escape, status};
use hcq::mem::view::View;
use hcq::sync::lock;
use hcq::transport::errno::ENOMEM;
use hcq::transport::{Fault, Machine, Prot, Reserved, TransportError};

use super::dma::Mapping as Dma;
use super::gpu::Gpu;
use super::ioctls::{map_file, number};
use super::uvm::Range;
use crate::rm::CallError;
use crate::rm::client::Object;
use crate::rm::transport::{MapRequest, Result as Called, Side};

/// Pages that a GPU's page table holds memory of it in, and from which size on.
const BIG_PAGE: u64 = 64 << 10;
const HUGE_PAGE: u64 = 2 << 20;

/// Addresses are below this: push buffers, QMDs and semaphores have 40 bits of them up to Ada, and QMDs
/// later, too. The windows of shared and local memory are above it.
pub(super) const BELOW: u64 = 1 << 40;

/// Why there is no memory.
#[derive(Debug)]
pub(super) enum MemoryError {
    /// The GPU has not enough free memory for that number of bytes.
    Local(u64, CallError),
    /// The host has not enough free memory for that number of bytes, or none that GPUs may use.
    System(u64, CallError),
    /// Anything else.
    Refused(CallError),
}

impl<E: Into<CallError>> From<E> for MemoryError {
    fn from(error: E) -> Self {
        MemoryError::Refused(error.into())
    }
}

impl MemoryError {
    /// The error of a request for `bytes` bytes.
    pub(super) fn of(error: CallError, heap: Heap, bytes: u64) -> MemoryError {
        let full = match &error {
            CallError::System(error) => error.fault == Fault::Errno(ENOMEM),
            error => matches!(
                error.status(),
                Some(status::NV_ERR_NO_MEMORY | status::NV_ERR_INSUFFICIENT_RESOURCES)
            ),
        };
        match full {
            false => MemoryError::Refused(error),
            true if heap.is_vram() => MemoryError::Local(bytes, error),
            true => MemoryError::System(bytes, error),
        }
    }
}

/// A memory object. Its parts are freed from the top.
pub(super) struct Memory {
    /// Dropped while the addresses still belong to this memory.
    named: Option<Named>,
    /// Where GPUs have it.
    mapped: Mapped,
    /// The host's access.
    view: Option<View>,
    object: Object,
    /// The addresses; none for memory of the process, which brings its own.
    _reserved: Option<Reserved>,
    heap: Heap,
    va: u64,
    bytes: u64,
    /// The other GPUs that have it.
    others: Mutex<Vec<Weak<Gpu>>>,
    /// The object of its memory; dropped after it.
    gpu: Arc<Gpu>,
}

/// How GPUs have memory.
enum Mapped {
    /// By UVM, all of them.
    Uvm(Range),
    /// By RM, each in an address space of its own.
    Rm(Mutex<Vec<(Weak<Gpu>, Dma)>>),
}

impl Memory {
    /// Makes memory and maps it for its own GPU.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    pub(super) fn new(
        machine: &dyn Machine,
        gpu: &Arc<Gpu>,
        asked: &HeapRequest<'_>,
    ) -> Result<Memory, MemoryError> {
        let heap = asked.heap;
        let page = match asked.bytes {
            HUGE_PAGE.. if heap.is_vram() => HUGE_PAGE,
            BIG_PAGE.. if heap.is_vram() => BIG_PAGE,
            _ => PAGE,
        };
        let bytes = asked.bytes.max(1).checked_next_multiple_of(page);
        let bytes = bytes.unwrap_or(u64::MAX - (PAGE - 1));
        // The page tables of large memory in the host have large pages, too, if both are aligned.
        let align = match asked.bytes {
            HUGE_PAGE.. => HUGE_PAGE,
            _ => page,
        };
        let align = asked.align.max(align);
        let failed = |error: CallError| MemoryError::of(error, heap, bytes);
        // Addresses are the host's, whatever memory they get.
        let host = |error: TransportError| MemoryError::of(error.into(), Heap::User, bytes);
        let place = Addresses::new(machine, heap, (bytes, align), BELOW).map_err(host)?;
        let Addresses { va, reserved, own } = place;
        let wanted = |of| MapRequest {
            bytes,
            at: Some(va),
            prot: Prot::ReadWrite,
            of,
        };
        let (object, view) = match heap {
            Heap::Vram => (local(gpu, bytes, page, false).map_err(failed)?, None),
            Heap::VisibleVram => {
                let object = local(gpu, bytes, page, true).map_err(failed)?;
                let view = gpu.rm.device.map(machine, &object, wanted(Side::Gpu));
                let view = view.map_err(failed)?;
                (object, Some(view))
            }
            Heap::System => {
                let made = system(machine, gpu, &wanted(Side::System));
                let (object, view) = made.map_err(failed)?;
                (object, Some(view))
            }
            Heap::User => (pinned(gpu, va, bytes).map_err(failed)?, own),
        };
        let mapped = match &gpu.session.uvm {
            Some(uvm) => Mapped::Uvm(uvm.range(va, bytes).map_err(failed)?),
            None => Mapped::Rm(Mutex::default()),
        };
        let mut memory = Memory {
            named: None,
            gpu: gpu.clone(),
            mapped,
            view,
            object,
            _reserved: reserved,
            heap,
            va,
            bytes,
            others: Mutex::default(),
        };
        memory.map(gpu).map_err(failed)?;
        memory.named = Some(Named::new(&gpu.session.space, va, bytes, asked.what));
        Ok(memory)
    }

    /// The handle of the object.
    pub(super) fn handle(&self) -> u32 {
        self.object.handle()
    }

    /// Maps it for a GPU.
    ///
    /// # Errors
    /// [`CallError`]: the GPU cannot access it, or has no memory for page tables.
    pub(super) fn map(&self, gpu: &Arc<Gpu>) -> Called {
        let other = gpu.id != self.gpu.id;
        match &self.mapped {
            Mapped::Uvm(range) => range.map(gpu.uuid, self.object.handle())?,
            Mapped::Rm(_) if self.heap.is_vram() && other => return Ok(()),
            Mapped::Rm(all) => {
                let mapping = Dma::new(gpu, self.object.handle(), (self.va, self.bytes))?;
                lock(all).push((Arc::downgrade(gpu), mapping));
            }
        }
        if other {
            let mut others = lock(&self.others);
            others.retain(|gpu| gpu.strong_count() > 0);
            others.push(Arc::downgrade(gpu));
        }
        Ok(())
    }
}

impl Shareable<Gpu> for Memory {
    type Error = CallError;

    fn va(&self) -> u64 {
        self.va
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_mapped_for(&self, gpu: &Arc<Gpu>) -> bool {
        let is = |other: &Weak<Gpu>| std::ptr::eq(other.as_ptr(), Arc::as_ptr(gpu));
        gpu.id == self.gpu.id || lock(&self.others).iter().any(is)
    }

    fn share(&self, gpu: &Arc<Gpu>) -> Called {
        if gpu.id == self.gpu.id {
            return Ok(());
        }
        if !self.heap.is_vram() {
            return match self.map(gpu) {
                // That one uses nothing any more.
                Err(error) if error.is_gone() => Ok(()),
                mapped => mapped,
            };
        }
        if self.gpu.peers().contains(&gpu.id)
            && let Err(error) = self.map(gpu)
        {
            // Copies between the two go through host memory then.
            tracing::debug!(%error, va = self.va, "not mapped for a peer");
        }
        Ok(())
    }
}

impl KernelMemory<Gpu> for Memory {
    fn heap(&self) -> Heap {
        self.heap
    }

    fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Mapped::Rm(all) = &self.mapped {
            for (gpu, mapping) in lock(all).drain(..) {
                // What a GPU had has gone with it.
                match gpu.upgrade() {
                    Some(_) => drop(mapping),
                    None => mapping.forget(),
                }
            }
        }
    }
}

/// Memory of a GPU.
fn local(gpu: &Gpu, bytes: u64, page: u64, visible: bool) -> Called<Object> {
    let unmapped = alloc_flags::MAP_NOT_REQUIRED.put(u32::from(!visible));
    let page_size = match page {
        HUGE_PAGE => attr::PAGE_SIZE_HUGE,
        BIG_PAGE => attr::PAGE_SIZE_BIG,
        _ => attr::PAGE_SIZE_4KB,
    };
    let params = class::MemoryAlloc {
        owner: gpu.session.rm.handle(),
        kind: kind::IMAGE,
        flags: alloc_flags::ALIGNMENT_FORCE.put(1)
            | alloc_flags::PERSISTENT_VIDMEM.put(1)
            | alloc_flags::IGNORE_BANK_PLACEMENT.put(1)
            | unmapped,
        attr: attr::PAGE_SIZE.put(page_size)
            | attr::LOCATION.put(attr::LOCATION_VIDMEM)
            | attr::PHYSICALITY.put(attr::PHYSICALITY_ALLOW_NONCONTIGUOUS),
        attr2: attr2::ZBC.put(attr2::ZBC_PREFER_NO_ZBC)
            | attr2::GPU_CACHEABLE.put(attr2::GPU_CACHEABLE_YES)
            | attr2::PAGE_SIZE_HUGE.put(match page {
                HUGE_PAGE => attr2::PAGE_SIZE_HUGE_2MB,
                _ => attr2::PAGE_SIZE_HUGE_DEFAULT,
            }),
        size: bytes,
        alignment: page,
        ..Default::default()
    };
    let device = &gpu.rm.device;
    device.alloc(&class::NV01_MEMORY_LOCAL_USER, &params)
}

/// System memory of the driver, and the host's mapping of it: cached by the host, which the GPU's accesses
/// respect.
fn system(machine: &dyn Machine, gpu: &Gpu, wanted: &MapRequest) -> Called<(Object, View)> {
    let file = machine.open(super::survey::CONTROL)?;
    let flags = alloc_memory_flags::PHYSICALITY.put(alloc_memory_flags::PHYSICALITY_NONCONTIGUOUS)
        | alloc_memory_flags::LOCATION.put(alloc_memory_flags::LOCATION_PCI)
        | alloc_memory_flags::COHERENCY.put(alloc_memory_flags::COHERENCY_CACHED)
        | alloc_memory_flags::MAPPING.put(alloc_memory_flags::MAPPING_DEFAULT);
    let args = escape::AllocMemoryWithFd {
        params: escape::AllocMemory {
            flags,
            limit: wanted.bytes - 1,
            ..Default::default()
        },
        fd: number(&*file)?,
        ..Default::default()
    };
    let class = (&class::NV01_MEMORY_SYSTEM, gpu.rm.device.handle());
    let (files, rm) = (&gpu.session.files, &gpu.session.rm);
    let object = files.alloc_memory(rm, &*gpu.file, class, args)?;
    let view = map_file(&*file, wanted)?;
    Ok((object, view))
}

/// Memory of the process, which stays where it is.
fn pinned(gpu: &Gpu, va: u64, bytes: u64) -> Called<Object> {
    let flags = alloc_memory_flags::PHYSICALITY.put(alloc_memory_flags::PHYSICALITY_NONCONTIGUOUS)
        | alloc_memory_flags::LOCATION.put(alloc_memory_flags::LOCATION_PCI)
        | alloc_memory_flags::COHERENCY.put(alloc_memory_flags::COHERENCY_CACHED)
        | alloc_memory_flags::MAPPING.put(alloc_memory_flags::MAPPING_NO_MAP);
    let args = escape::AllocMemoryWithFd {
        params: escape::AllocMemory {
            flags,
            p_memory: va,
            limit: bytes - 1,
            ..Default::default()
        },
        fd: -1,
        ..Default::default()
    };
    let class = (
        &class::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
        gpu.rm.device.handle(),
    );
    let (files, rm) = (&gpu.session.files, &gpu.session.rm);
    files.alloc_memory(rm, &*gpu.file, class, args)
}
