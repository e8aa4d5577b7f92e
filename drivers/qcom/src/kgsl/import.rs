//! Memory of others for the GPU: pages of the process, dma-bufs, memory of another library of the process.
//!
//! KGSL has one address space for a process, whichever of its files an object is made through: what a vendor's OpenCL
//! has allocated is at its address for our contexts, too.
//!
//! The kernel takes the cache mode of imported memory from nobody: pages of the process count as write-combined, so its
//! calls for caches do nothing there. It cleans the pages once, when they are mapped; later the CPU's own instructions do.
//!
//! An import pins the pages that are at its address when it is made. Other pages that are mapped there later are imported anew, to
//! another address of the GPU, whoever still has the old ones: [`View::mapping`] tells them apart.
//!
//! Source: KGSL, kgsl.c, `kgsl_ioctl_map_user_mem` ("CACHEMODE is ignored for this call"), `memdesc_sg_virt`,
//! `_kgsl_gpumem_sync_cache`, `kgsl_ioctl_gpuobj_import`.

use std::any::Any;
use std::sync::Arc;

use drivers_gpu::backend::{Named, PAGE};
use drivers_spec::qcom::kgsl::{
    self, CacheOp, GpumemSyncCache, GpuobjImport, GpuobjInfo, ImportDmaBuf, MapUserMem, user,
};
use hcq::Import;
use hcq::mem::view::View;
use hcq::mem::window::{Coherence, Window};
use hcq::sync::lock;
use hcq::transport::errno::{EFAULT, EINVAL};
use hcq::transport::{DevFile, Fault, TransportError};
use zerocopy::IntoBytes;

use super::memory::{Kind, LINE, Memory, Process, misfit};
use crate::backend::retry::{ioctl, ioctl_with};
use crate::backend::unusable::of_dmabuf;
use crate::lines::CacheLines;

impl Memory {
    /// Memory of others. Pages of the same mapping of the process that are imported already are the same memory.
    ///
    /// # Errors
    /// The kernel's; nothing is left behind then.
    pub(super) fn import(
        process: &Arc<Process>,
        memory: &Import,
        lines: &Arc<dyn CacheLines>,
    ) -> Result<Arc<Memory>, TransportError> {
        match memory {
            Import::Host(view) => Memory::of_host(process, view, lines),
            Import::DmaBuf(fd, bytes) => Memory::of_dmabuf(process, *fd, *bytes),
            Import::Device { va, bytes, owner } => {
                // Held over the look and what it leads to.
                let _one = lock(&process.imported);
                Memory::of_library(process, (va.0, *bytes), None, owner.clone())
            }
        }
    }

    fn of_host(
        process: &Arc<Process>,
        view: &View,
        lines: &Arc<dyn CacheLines>,
    ) -> Result<Arc<Memory>, TransportError> {
        let (at, bytes) = (view.as_ptr().addr() as u64, view.len() as u64);
        if !at.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) || bytes == 0 {
            return Err(misfit(format!(
                "{bytes:#x} bytes of the process at {at:#x}, expected whole pages of {PAGE:#x} bytes: import the pages \
                 around it"
            )));
        }
        // Held until the new one is known: pages are mapped once.
        let mut imported = lock(&process.imported);
        imported.retain(|(_, memory)| memory.strong_count() > 0);
        let pages = (at, bytes, view.mapping());
        let known = imported.iter().find(|(of, _)| *of == pages);
        if let Some(known) = known.and_then(|(_, memory)| memory.upgrade()) {
            return Ok(known);
        }
        let mut argument = MapUserMem {
            len: bytes,
            hostptr: at,
            memtype: user::ADDR,
            ..Default::default()
        };
        let made = match ioctl(&*process.file, kgsl::MAP_USER_MEM, &mut argument) {
            Ok(()) => {
                let what = "memory of the process";
                let window = Lines::window(what, view, lines);
                Memory::imported(
                    process,
                    (argument.gpuaddr, bytes),
                    (Kind::Mapped, Some(window)),
                    what,
                )
            }
            // Pages that may not be written, or KGSL's own memory: the GPU has it, at the same address if it was made so.
            Err(error) if error.fault == Fault::Errno(EFAULT) => {
                // How the CPU caches it is its owner's: all lines are cleaned.
                let window = Lines::window("memory of a library", view, lines);
                let owner = Arc::new(view.clone());
                let library = Memory::of_library(process, (at, bytes), Some(window), owner);
                library.map_err(|other| {
                    let own = process.heap.at(at).filter(|own| !own.is_foreign());
                    if own.is_some() || other.fault != Fault::Errno(EINVAL) {
                        return other;
                    }
                    TransportError {
                        operation: format!(
                            "{} of {at:#x}: {bytes:#x} bytes that are not mapped, or read-only (map them writable), or memory of a \
                             GPU that it has at another address (import that address)",
                            error.operation
                        ),
                        ..error
                    }
                })?
            }
            Err(error) => return Err(error),
        };
        imported.push((pages, Arc::downgrade(&made)));
        Ok(made)
    }

    fn of_dmabuf(
        process: &Arc<Process>,
        fd: i32,
        bytes: u64,
    ) -> Result<Arc<Memory>, TransportError> {
        let mut which = ImportDmaBuf { fd };
        let mut argument = GpuobjImport {
            priv_len: size_of::<ImportDmaBuf>() as u64,
            kind: user::DMABUF,
            ..Default::default()
        };
        let file = &*process.file;
        let mut memory = [which.as_mut_bytes()];
        let call = kgsl::by_descriptor::GPUOBJ_IMPORT;
        ioctl_with(file, call, &mut argument, &mut memory).map_err(|e| of_dmabuf(fd, e))?;
        // From here on a failure frees it.
        let mut one = Memory::unmapped(process, argument.id, bytes);
        let mut info = GpuobjInfo {
            id: argument.id,
            ..Default::default()
        };
        ioctl(file, kgsl::GPUOBJ_INFO, &mut info)?;
        if info.gpuaddr == 0 || bytes == 0 || bytes > info.size {
            let (at, size) = (info.gpuaddr, info.size);
            return Err(misfit(format!(
                "{bytes:#x} bytes of dma-buf {fd} (GPU address {at:#x}), expected 1 to {size:#x}, its size"
            )));
        }
        one.va = info.gpuaddr;
        one.named = Some(Named::new(&process.space, one.va, bytes, "a dma-buf"));
        Ok(one.known())
    }

    /// Memory that another library of the process has made; the host may see it through a window. The list of what is imported is
    /// locked: of two at the same address one is the first.
    fn of_library(
        process: &Arc<Process>,
        (va, bytes): (u64, u64),
        window: Option<Window>,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Arc<Memory>, TransportError> {
        // Two objects of a library may name the same memory: an image of a buffer, a buffer that is imported twice.
        let first = process.heap.at(va);
        if first.as_ref().is_some_and(|first| !first.is_foreign()) {
            return Err(misfit(format!(
                "memory at {va:#x}, which is a buffer of this driver: use that buffer"
            )));
        }
        let last = bytes.checked_sub(1).and_then(|last| va.checked_add(last));
        let Some(last) = last else {
            return Err(misfit(format!("{bytes:#x} bytes at {va:#x}")));
        };
        for at in [va, last] {
            check_there(&*process.file, at)?;
        }
        if let Some(first) = first {
            return Ok(Memory::shared(first, (va, bytes), window, owner));
        }
        Ok(Memory::imported(
            process,
            (va, bytes),
            (Kind::Foreign(owner), window),
            "memory of another library",
        ))
    }
}

/// Checks that the process has an object at an address of the GPU.
fn check_there(file: &dyn DevFile, at: u64) -> Result<(), TransportError> {
    let mut argument = GpumemSyncCache {
        gpuaddr: at,
        op: (CacheOp::TO_GPU | CacheOp::RANGE).bits(),
        length: 1,
        ..Default::default()
    };
    let there = ioctl(file, kgsl::GPUMEM_SYNC_CACHE, &mut argument);
    there.map_err(|error| match error.fault {
        Fault::Errno(EINVAL) => TransportError {
            operation: format!(
                "{}: no GPU memory of this process at {at:#x}: pass a GPU address of memory that is not freed",
                error.operation
            ),
            ..error
        },
        _ => error,
    })
}

/// Cache maintenance of pages that the CPU caches and the kernel knows nothing of.
struct Lines {
    view: View,
    by: Arc<dyn CacheLines>,
}

impl Lines {
    fn window(name: &str, view: &View, by: &Arc<dyn CacheLines>) -> Window {
        let lines = Lines {
            view: view.clone(),
            by: by.clone(),
        };
        Window::managed(name, view.clone(), Arc::new(lines))
    }

    fn part(&self, offset: u64, len: u64) -> Result<View, TransportError> {
        let part = self.view.sub(offset as usize, len as usize);
        part.map_err(|e| {
            let why = Fault::Unsupported(e.to_string());
            TransportError::new("memory of the process", "cache maintenance", why)
        })
    }
}

impl Coherence for Lines {
    fn flush(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        self.by.clean(&self.part(offset, len)?);
        Ok(())
    }

    fn invalidate(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        self.by.clean_and_invalidate(&self.part(offset, len)?);
        Ok(())
    }

    fn prepare(&self, offset: u64, len: u64) -> Result<(), TransportError> {
        match offset.is_multiple_of(LINE) && len.is_multiple_of(LINE) {
            true => Ok(()),
            false => self.invalidate(offset, len),
        }
    }
}
