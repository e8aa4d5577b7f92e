//! Memory objects of KGSL. The kernel chooses the address of the GPU, as for Mesa; the host maps the object where it likes.
//!
//! Device and control memory is write-combined: the host writes it fast and reads it slowly. Host memory is cached by the
//! CPU, and the kernel cleans or invalidates the lines of each access ([`ByKernel`]): GPUs of SDM845 do not see these caches.
//!
//! Source: KGSL, kgsl.c, `kgsl_ioctl_gpuobj_alloc`, `kgsl_ioctl_gpumem_sync_cache`, `get_mmap_entry`; Mesa,
//! src/freedreno/vulkan/tu_knl_kgsl.cc, `kgsl_bo_init`.

use std::any::Any;
use std::sync::Arc;

use drivers_gpu::backend::{Memory as Given, Named, PAGE, Request};
use drivers_spec::qcom::kgsl::{
    self, CacheOp, GpumemSyncCache, GpuobjAlloc, GpuobjFree, GpuobjInfo, SharedmemFree, memory,
    mmap_offset,
};
use hcq::mem::window::{Coherence, Window};
use hcq::transport::errno::EINVAL;
use hcq::transport::{DevFile, Fault, Machine, Map, Prot, TransportError};
use hcq::{GpuVa, MemoryKind};

use super::process;
use crate::backend::heap::Object;
use crate::backend::retry::ioctl;

/// The largest alignment that the kernel gives an object.
///
/// Source: KGSL, kgsl_sharedmem.c, `kgsl_memdesc_set_align`: 2^25; 4.9 as a survey of it says.
const MOST_ALIGN: u64 = 32 << 20;

/// The largest object: its size is below 4 GiB.
const MOST_BYTES: u64 = (4 << 30) - PAGE;

/// The process, with its memory.
pub(super) type Process = process::Process<Memory>;

/// A memory object.
pub(super) struct Memory {
    pub(super) named: Option<Named>,
    window: Option<Window>,
    kind: Kind,
    pub(super) va: u64,
    bytes: u64,
    /// The kernel has filled it with zeros.
    is_new: bool,
    process: Arc<Process>,
}

/// How it was made, and so how it is freed.
pub(super) enum Kind {
    /// An object with an id.
    Object(u32),
    /// A mapping of other memory.
    Mapped,
    /// Memory of another library, with what keeps it.
    Foreign(#[expect(dead_code, reason = "it is kept")] Arc<dyn Any + Send + Sync>),
    /// The same once more, by another owner: the first import has the address, and is kept as well.
    Shared(
        #[expect(dead_code, reason = "it is kept")] Arc<dyn Any + Send + Sync>,
        Arc<Memory>,
    ),
}

impl Object for Memory {
    fn va(&self) -> u64 {
        self.va
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn window(&self) -> Option<Window> {
        self.window.clone()
    }
}

/// A request that the kernel would take for another one.
pub(super) fn misfit(what: String) -> TransportError {
    TransportError::new(super::survey::FILE, what, Fault::Errno(EINVAL))
}

impl Memory {
    /// A new object, with zeros.
    ///
    /// # Errors
    /// The kernel's; nothing is left behind then.
    pub(super) fn new(
        machine: &dyn Machine,
        process: &Arc<Process>,
        wanted: &Request<'_>,
    ) -> Result<Arc<Memory>, TransportError> {
        let bytes = wanted.bytes.max(1).checked_next_multiple_of(PAGE);
        let Some(bytes) = bytes.filter(|bytes| *bytes <= MOST_BYTES) else {
            let bytes = wanted.bytes;
            return Err(misfit(format!(
                "an object of {bytes} bytes, expected at most {MOST_BYTES}"
            )));
        };
        let align = wanted.align.max(PAGE);
        if align > MOST_ALIGN {
            return Err(misfit(format!(
                "alignment {align}, expected at most {MOST_ALIGN}"
            )));
        }
        let is_cached = wanted.kind == MemoryKind::Host;
        let mode = if is_cached {
            memory::WRITEBACK
        } else {
            memory::WRITECOMBINE
        };
        let mut made = GpuobjAlloc {
            size: bytes,
            flags: u64::from(align.trailing_zeros()) << memory::ALIGN_SHIFT
                | mode << memory::CACHEMODE_SHIFT,
            ..Default::default()
        };
        let file = &*process.file;
        ioctl(file, kgsl::GPUOBJ_ALLOC, &mut made)?;
        // From here on a failure frees it.
        let mut one = Memory::unmapped(process, made.id, bytes);
        one.is_new = true;
        let mut info = GpuobjInfo {
            id: made.id,
            ..Default::default()
        };
        ioctl(file, kgsl::GPUOBJ_INFO, &mut info)?;
        if info.gpuaddr == 0 || !info.gpuaddr.is_multiple_of(align) {
            let at = info.gpuaddr;
            return Err(misfit(format!(
                "the address {at:#x} of an object, expected a multiple of {align:#x}"
            )));
        }
        one.va = info.gpuaddr;
        let view = file.mmap(Map {
            offset: mmap_offset(made.id),
            len: bytes as usize,
            prot: Prot::ReadWrite,
            at: None,
        })?;
        let name = if wanted.what.is_empty() {
            "memory"
        } else {
            wanted.what
        };
        one.window = Some(match is_cached {
            false => machine.window(name, one.va, view),
            true => {
                let by = ByKernel {
                    file: process.file.clone(),
                    id: made.id,
                };
                Window::managed(name, view, Arc::new(by))
            }
        });
        one.named = Some(Named::new(&process.space, one.va, bytes, wanted.what));
        Ok(one.known())
    }

    /// An object without a place, for what follows to fill.
    pub(super) fn unmapped(process: &Arc<Process>, id: u32, bytes: u64) -> Memory {
        Memory {
            named: None,
            window: None,
            kind: Kind::Object(id),
            va: 0,
            bytes,
            is_new: false,
            process: process.clone(),
        }
    }

    /// Memory that is mapped, and known from now on.
    pub(super) fn imported(
        process: &Arc<Process>,
        (va, bytes): (u64, u64),
        (kind, window): (Kind, Option<Window>),
        what: &str,
    ) -> Arc<Memory> {
        let one = Memory {
            named: Some(Named::new(&process.space, va, bytes, what)),
            window,
            kind,
            va,
            bytes,
            is_new: false,
            process: process.clone(),
        };
        one.known()
    }

    /// Memory that another import has the address of. It is what is known there if it ends later.
    pub(super) fn shared(
        first: Arc<Memory>,
        (va, bytes): (u64, u64),
        window: Option<Window>,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Arc<Memory> {
        let is_longer = va + bytes > first.va + first.bytes;
        let one = Memory {
            named: None,
            window,
            va,
            bytes,
            is_new: false,
            process: first.process.clone(),
            kind: Kind::Shared(owner, first),
        };
        match is_longer {
            true => one.known(),
            false => Arc::new(one),
        }
    }

    /// Whether it is of another library.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.kind, Kind::Foreign(_) | Kind::Shared(..))
    }

    pub(super) fn known(self) -> Arc<Memory> {
        let one = Arc::new(self);
        one.process.heap.add(&one);
        one
    }

    /// As memory of the backend.
    pub(super) fn given(self: Arc<Memory>) -> Given {
        Given {
            va: GpuVa(self.va),
            bytes: self.bytes,
            window: self.window.clone(),
            zeroed: self.is_new,
            owner: Box::new(self),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let file = &*self.process.file;
        let under = match &self.kind {
            Kind::Shared(_, first) => Some(first),
            _ => None,
        };
        if self.va != 0 {
            self.process.heap.remove(self.va, under);
        }
        self.named = None;
        if matches!(self.kind, Kind::Object(_)) {
            self.window = None;
        }
        // The queues that used it have passed it, or are gone: the pool waits for that.
        let freed = match &self.kind {
            Kind::Object(id) => {
                let mut argument = GpuobjFree {
                    id: *id,
                    ..Default::default()
                };
                ioctl(file, kgsl::GPUOBJ_FREE, &mut argument)
            }
            // Its window keeps the memory until then.
            Kind::Mapped => {
                let mut argument = SharedmemFree { gpuaddr: self.va };
                ioctl(file, kgsl::SHAREDMEM_FREE, &mut argument)
            }
            Kind::Foreign(_) | Kind::Shared(..) => Ok(()),
        };
        if let Err(error) = freed {
            tracing::warn!(%error, va = self.va, "could not free memory: it stays until the process ends");
        }
    }
}

/// Bytes of a line of the CPU's cache.
pub(super) const LINE: u64 = 64;

/// Cache maintenance of an object that the CPU caches, by the kernel.
struct ByKernel {
    file: Arc<dyn DevFile>,
    id: u32,
}

impl ByKernel {
    /// Of whole pages, as the kernel works: some leave out the first one where a range begins inside of it
    /// (`kgsl_cache_range_op` of kgsl_sharedmem.c at 27cf0e4 masks offset and size the wrong way round).
    fn sync(&self, op: CacheOp, offset: u64, length: u64) -> Result<(), TransportError> {
        if length == 0 {
            return Ok(());
        }
        let end = (offset + length).next_multiple_of(PAGE);
        let offset = offset / PAGE * PAGE;
        let length = end - offset;
        let mut argument = GpumemSyncCache {
            gpuaddr: 0,
            id: self.id,
            op: (op | CacheOp::RANGE).bits(),
            offset,
            length,
        };
        ioctl(&*self.file, kgsl::GPUMEM_SYNC_CACHE, &mut argument)
    }
}

/// What the CPU has written goes to memory before lines are dropped: the kernel drops whole pages, and another thread may
/// be writing to a part of one.
const DROP: CacheOp = CacheOp::TO_GPU.union(CacheOp::FROM_GPU);

impl Coherence for ByKernel {
    fn flush(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        self.sync(CacheOp::TO_GPU, offset, len)
    }

    fn invalidate(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        self.sync(DROP, offset, len)
    }

    fn prepare(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        match offset.is_multiple_of(LINE) && len.is_multiple_of(LINE) {
            true => Ok(()),
            false => self.sync(DROP, offset, len),
        }
    }
}
