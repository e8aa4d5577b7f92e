//! Memory objects of msm (GEM). The kernel chooses the address of the GPU.
//!
//! Memory is write-combined for the host. Host memory is cached where the GPU sees the caches of the CPU
//! (CACHED_COHERENT); elsewhere it is write-combined, too: the kernel offers no cache maintenance of parts.
//!
//! Source: Linux, drivers/gpu/drm/msm/msm_drv.c, `msm_ioctl_gem_new`, `msm_ioctl_gem_info`; msm_gem.c, `msm_gem_new`;
//! drivers/gpu/drm/drm_prime.c.

use std::sync::{Arc, Weak};

use drivers_gpu::backend::{Memory as Given, Named, PAGE, Request};
use drivers_spec::amd::drm::{self, GemClose, PrimeHandle};
use drivers_spec::qcom::msm::{self, Bo, GemNew, by_value, info};
use hcq::mem::window::Window;
use hcq::sync::lock;
use hcq::transport::errno::EINVAL;
use hcq::transport::{Fault, Machine, Map, Prot, TransportError};
use hcq::{GpuVa, Import, MemoryKind};

use super::process;
use crate::backend::heap::Object;
use crate::backend::retry::ioctl;
use crate::backend::unusable::of_dmabuf;

/// The process, with its memory.
pub(super) type Process = process::Process<Memory>;

/// A memory object.
pub(super) struct Memory {
    named: Option<Named>,
    window: Option<Window>,
    handle: u32,
    /// Where the object is.
    start: u64,
    /// Where what was asked for is: at a multiple of its alignment.
    va: u64,
    bytes: u64,
    is_new: bool,
    is_imported: bool,
    process: Arc<Process>,
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
        let align = wanted.align.max(PAGE);
        let bytes = wanted.bytes.max(1).checked_next_multiple_of(PAGE);
        let room = bytes.and_then(|bytes| bytes.checked_add(align - PAGE));
        let (Some(bytes), Some(room)) = (bytes, room) else {
            let operation = format!("an object of {} bytes", wanted.bytes);
            return Err(TransportError::new(
                &*process.path,
                operation,
                Fault::Errno(EINVAL),
            ));
        };
        // Addresses are pages, often those that are free first: a larger object has an aligned part.
        let mut one = Memory::with(machine, process, wanted, bytes)?;
        if !one.start.is_multiple_of(align) {
            drop(one);
            one = Memory::with(machine, process, wanted, room)?;
        }
        one.va = one.start.next_multiple_of(align);
        let skipped = one.va - one.start;
        one.bytes = bytes;
        one.window = one
            .window
            .take()
            .map(|all| all.sub(skipped, bytes))
            .transpose()?;
        one.named = Some(Named::new(&process.space, one.va, bytes, wanted.what));
        Ok(one.known())
    }

    /// An object of some bytes, mapped for the host.
    fn with(
        machine: &dyn Machine,
        process: &Arc<Process>,
        wanted: &Request<'_>,
        bytes: u64,
    ) -> Result<Memory, TransportError> {
        let file = &*process.file;
        let make = |flags: Bo| {
            let mut made = GemNew {
                size: bytes,
                flags: flags.bits(),
                ..Default::default()
            };
            ioctl(file, msm::MSM_GEM_NEW, &mut made).map(|()| made.handle)
        };
        let made = match wanted.kind {
            // Refused where the GPU does not see the caches.
            MemoryKind::Host => match make(Bo::CACHED_COHERENT) {
                Err(error) if error.fault == Fault::Errno(EINVAL) => make(Bo::WC),
                made => made,
            },
            MemoryKind::Device | MemoryKind::Control => make(Bo::WC),
        };
        // From here on a failure closes it.
        let mut one = Memory::of(process, made?, bytes);
        one.is_new = true;
        one.place()?;
        let view = file.mmap(Map {
            offset: one.ask(info::GET_OFFSET)?,
            len: bytes as usize,
            prot: Prot::ReadWrite,
            at: None,
        })?;
        let name = if wanted.what.is_empty() {
            "memory"
        } else {
            wanted.what
        };
        one.window = Some(machine.window(name, one.start, view));
        Ok(one)
    }

    /// A dma-buf. One that is imported already is the same memory.
    ///
    /// # Errors
    /// The kernel's; EINVAL for more bytes than it has; [`Fault::Unsupported`] for other memory, which msm does not take.
    pub(super) fn import(
        machine: &dyn Machine,
        process: &Arc<Process>,
        memory: &Import,
    ) -> Result<Arc<Memory>, TransportError> {
        let why = match memory {
            Import::DmaBuf(fd, bytes) => {
                check_size(machine, &process.path, *fd, *bytes)?;
                return Memory::of_dmabuf(process, *fd, *bytes);
            }
            Import::Host(_) => {
                "msm cannot import host memory: copy it to a buffer, or pass it as a dma-buf"
            }
            Import::Device { .. } => {
                "msm has one GPU address space per open file, so addresses of another library are not valid here: share the memory \
                 as a dma-buf"
            }
        };
        let why = Fault::Unsupported(why.into());
        Err(TransportError::new(&*process.path, "import", why))
    }

    fn of_dmabuf(
        process: &Arc<Process>,
        fd: i32,
        bytes: u64,
    ) -> Result<Arc<Memory>, TransportError> {
        // Held until the new one is known, and while one is closed: the kernel gives a dma-buf one handle, however often it
        // is imported, and one close ends it.
        let mut imported = lock(&process.imported);
        let mut prime = PrimeHandle {
            fd,
            ..Default::default()
        };
        ioctl(&*process.file, drm::PRIME_FD_TO_HANDLE, &mut prime).map_err(|e| of_dmabuf(fd, e))?;
        let known = imported.get(&prime.handle).and_then(Weak::upgrade);
        if let Some(known) = known {
            // Its drop takes the lock.
            drop(imported);
            if known.bytes == bytes {
                return Ok(known);
            }
            let operation = format!(
                "import of {bytes:#x} bytes of a dma-buf that is imported with {:#x}",
                known.bytes
            );
            return Err(TransportError::new(
                &*process.path,
                operation,
                Fault::Errno(EINVAL),
            ));
        }
        let mut one = Memory::of(process, prime.handle, bytes);
        one.is_imported = true;
        if let Err(error) = one.place() {
            // Its drop takes the lock.
            drop(imported);
            return Err(error);
        }
        one.va = one.start;
        one.named = Some(Named::new(&process.space, one.va, bytes, "a dma-buf"));
        // One that is about to be dropped leaves the handle to this one.
        process.unlist(prime.handle, || ());
        let made = one.known();
        imported.insert(prime.handle, Arc::downgrade(&made));
        Ok(made)
    }

    fn of(process: &Arc<Process>, handle: u32, bytes: u64) -> Memory {
        Memory {
            named: None,
            window: None,
            handle,
            start: 0,
            va: 0,
            bytes,
            is_new: false,
            is_imported: false,
            process: process.clone(),
        }
    }

    /// Asks where it is for the GPU.
    fn place(&mut self) -> Result<(), TransportError> {
        self.start = self.ask(info::GET_IOVA)?;
        match self.start {
            0 => {
                let operation = format!("the address of object {}: 0", self.handle);
                Err(TransportError::new(
                    &*self.process.path,
                    operation,
                    Fault::Errno(EINVAL),
                ))
            }
            _ => Ok(()),
        }
    }

    fn ask(&self, what: u32) -> Result<u64, TransportError> {
        let mut argument = by_value::GemInfo {
            handle: self.handle,
            info: what,
            value: 0,
        };
        ioctl(&*self.process.file, by_value::MSM_GEM_INFO, &mut argument)?;
        Ok(argument.value)
    }

    fn known(self) -> Arc<Memory> {
        let one = Arc::new(self);
        one.process.heap.add(&one);
        one.process.list(one.handle, one.start);
        one
    }

    /// Its handle, and how far an address is in the object.
    pub(super) fn place_of(&self, va: u64) -> (u32, u64) {
        (self.handle, va - self.start)
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

/// Checks that a dma-buf has so many bytes: msm does not say how large an imported object is, and beyond its end is other
/// memory, or none. Kernels before Linux 5.3 do not tell; nothing is checked there.
///
/// Source: Linux, drivers/dma-buf/dma-buf.c, `dma_buf_show_fdinfo`.
fn check_size(
    machine: &dyn Machine,
    path: &str,
    fd: i32,
    bytes: u64,
) -> Result<(), TransportError> {
    let about = format!("/proc/self/fdinfo/{fd}");
    let text = machine.read(&about).unwrap_or_default();
    let size = text.lines().find_map(|line| line.strip_prefix("size:"));
    let Some(size) = size.and_then(|size| size.trim().parse::<u64>().ok()) else {
        tracing::warn!(
            fd,
            bytes,
            "no size of the dma-buf in /proc/self/fdinfo: not checked"
        );
        return Ok(());
    };
    if (1..=size).contains(&bytes) {
        return Ok(());
    }
    let operation = format!(
        "import of {bytes:#x} bytes of dma-buf {fd}, expected 1 to {size:#x}, its size: import fewer, or export a larger one"
    );
    Err(TransportError::new(path, operation, Fault::Errno(EINVAL)))
}

impl Memory {
    /// Closes the handle. The kernel keeps what submissions that still run have listed.
    fn close(&self) {
        if self.va != 0 {
            self.process.heap.remove(self.va, None);
        }
        let mut argument = GemClose {
            handle: self.handle,
            ..Default::default()
        };
        self.process.unlist(self.handle, || {
            if let Err(error) = ioctl(&*self.process.file, drm::GEM_CLOSE, &mut argument) {
                tracing::warn!(%error, va = self.va, "could not free memory: it stays until the file is closed");
            }
        });
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.named = None;
        self.window = None;
        if !self.is_imported {
            self.close();
            return;
        }
        let mut imported = lock(&self.process.imported);
        let handle = imported.get(&self.handle);
        // Imported again meanwhile: the handle is that one's now.
        if handle.is_none_or(|newer| newer.strong_count() == 0) {
            imported.remove(&self.handle);
            self.close();
        }
    }
}
