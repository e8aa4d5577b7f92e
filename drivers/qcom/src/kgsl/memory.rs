//! Memory objects of KGSL. The kernel chooses the address of the GPU, as for Mesa; the host maps the object where it likes.
//!
//! Device and control memory is write-combined: the host writes it fast and reads it slowly. Host memory is cached by the
//! CPU, and the kernel cleans or invalidates the lines of each access ([`Sync`]): GPUs of SDM845 do not see these caches.
//!
//! Source: KGSL, kgsl.c, `kgsl_ioctl_gpuobj_alloc`, `kgsl_ioctl_map_user_mem`, `kgsl_ioctl_gpumem_sync_cache`,
//! `get_mmap_entry`; Mesa, src/freedreno/vulkan/tu_knl_kgsl.cc, `kgsl_bo_init`.

use std::sync::Arc;

use drivers_gpu::backend::{Memory as Given, Named, PAGE, Request};
use drivers_spec::qcom::kgsl::{
    self, CacheOp, GpumemSyncCache, GpuobjAlloc, GpuobjFree, GpuobjInfo, MapUserMem, SharedmemFree,
    memory, mmap_offset, user,
};
use hcq::mem::view::View;
use hcq::mem::window::{Coherence, Window};
use hcq::sync::lock;
use hcq::transport::errno::{EFAULT, EINVAL};
use hcq::transport::{DevFile, Fault, Machine, Map, Prot, TransportError};
use hcq::{GpuVa, MemoryKind};

use super::process::{self, Source};
use crate::backend::Import;
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
    named: Option<Named>,
    window: Option<Window>,
    kind: Kind,
    va: u64,
    bytes: u64,
    process: Arc<Process>,
}

/// How it was made, and so how it is freed.
enum Kind {
    /// An object with an id.
    Object(u32),
    /// A mapping of other memory.
    Mapped,
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
fn misfit(what: String) -> TransportError {
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
        let mut one = Memory {
            named: None,
            window: None,
            kind: Kind::Object(made.id),
            va: 0,
            bytes,
            process: process.clone(),
        };
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
                let by = Sync {
                    file: process.file.clone(),
                    object: Target::Id(made.id),
                };
                Window::managed(name, view, Arc::new(by))
            }
        });
        one.named = Some(Named::new(&process.space, one.va, bytes, wanted.what));
        Ok(one.known())
    }

    /// Memory of others. An address or a descriptor that was imported before is the same memory.
    ///
    /// # Errors
    /// The kernel's; nothing is left behind then.
    pub(super) fn import(
        process: &Arc<Process>,
        memory: &Import,
    ) -> Result<Arc<Memory>, TransportError> {
        let (source, view) = match memory {
            Import::User(view) => {
                let at = view.as_ptr().addr() as u64;
                (Source::User(at, view.len() as u64), Some(view.clone()))
            }
            Import::DmaBuf(fd, bytes) => (Source::DmaBuf(*fd, *bytes), None),
        };
        // Held until the new one is known: a memory is mapped once.
        let mut imported = lock(&process.imported);
        imported.retain(|(_, memory)| memory.strong_count() > 0);
        let known = imported.iter().find(|(of, _)| *of == source);
        if let Some(known) = known.and_then(|(_, memory)| memory.upgrade()) {
            return Ok(known);
        }
        let made = Memory::map(process, source, view)?;
        imported.push((source, Arc::downgrade(&made)));
        Ok(made)
    }

    fn map(
        process: &Arc<Process>,
        source: Source,
        view: Option<View>,
    ) -> Result<Arc<Memory>, TransportError> {
        let (argument, bytes, what) = match source {
            Source::User(at, bytes) => {
                if !at.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) || bytes == 0 {
                    return Err(misfit(format!(
                        "{bytes:#x} bytes of the process at {at:#x}, expected whole pages"
                    )));
                }
                let argument = MapUserMem {
                    len: bytes,
                    hostptr: at,
                    memtype: user::ADDR,
                    flags: (memory::WRITEBACK << memory::CACHEMODE_SHIFT) as u32,
                    ..Default::default()
                };
                (argument, bytes, "memory of the process")
            }
            Source::DmaBuf(fd, bytes) => {
                let argument = MapUserMem {
                    fd,
                    len: bytes,
                    memtype: user::DMABUF,
                    ..Default::default()
                };
                (argument, bytes, "a dma-buf")
            }
        };
        let mut argument = argument;
        let mapped = ioctl(&*process.file, kgsl::MAP_USER_MEM, &mut argument);
        mapped.map_err(|error| match (&error.fault, source) {
            // It has this address on the GPU already.
            (Fault::Errno(EFAULT), Source::User(at, _)) => TransportError {
                operation: format!(
                    "{} of {at:#x}, memory of a GPU: use its buffer",
                    error.operation
                ),
                ..error
            },
            _ => error,
        })?;
        let va = argument.gpuaddr;
        let window = view.as_ref().map(|view| {
            let by = Sync {
                file: process.file.clone(),
                object: Target::Address(va),
            };
            Window::managed(what, view.clone(), Arc::new(by))
        });
        let one = Memory {
            named: Some(Named::new(&process.space, va, bytes, what)),
            window,
            kind: Kind::Mapped,
            va,
            bytes,
            process: process.clone(),
        };
        Ok(one.known())
    }

    fn known(self) -> Arc<Memory> {
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
            zeroed: matches!(self.kind, Kind::Object(_)),
            owner: Box::new(self),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let file = &*self.process.file;
        if self.va != 0 {
            self.process.heap.remove(self.va);
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
        };
        if let Err(error) = freed {
            tracing::warn!(%error, va = self.va, "could not free memory: it stays until the process ends");
        }
    }
}

/// Cache maintenance of an object that the CPU caches.
struct Sync {
    file: Arc<dyn DevFile>,
    object: Target,
}

/// How GPUMEM_SYNC_CACHE names an object.
#[derive(Clone, Copy)]
enum Target {
    Id(u32),
    Address(u64),
}

impl Sync {
    fn sync(&self, op: CacheOp, offset: u64, length: u64) -> Result<(), TransportError> {
        if length == 0 {
            return Ok(());
        }
        let (id, gpuaddr) = match self.object {
            Target::Id(id) => (id, 0),
            Target::Address(at) => (0, at),
        };
        let mut argument = GpumemSyncCache {
            gpuaddr,
            id,
            op: (op | CacheOp::RANGE).bits(),
            offset,
            length,
        };
        ioctl(&*self.file, kgsl::GPUMEM_SYNC_CACHE, &mut argument)
    }
}

impl Coherence for Sync {
    fn flush(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        self.sync(CacheOp::TO_GPU, offset, len)
    }

    fn invalidate(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        self.sync(CacheOp::FROM_GPU, offset, len)
    }
}
