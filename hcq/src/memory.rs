//! Buffers: memory is a capability. A buffer has a device address and a mode of *host access*; code that reads or
//! writes it works the same over a mapping and over a cable.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::addr::GpuVa;
use crate::error::{Error, Result};
use crate::id::DeviceId;
use crate::lost::{inherited, process_generation};
use crate::mem::view::View;
use crate::mem::window::Window;
use crate::transport::TransportError;

/// What a buffer is for; drivers choose heap, caching and mapping by it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum MemoryKind {
    /// Tensors: fastest for the device, any kind of host access.
    Device,
    /// Staging and results: fast for the host, reachable by the device.
    Host,
    /// Kernel arguments, packets, signals: uncached by the device where that matters.
    Control,
}

/// A request for memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AllocSpec {
    /// Size in bytes; 0 gives a buffer that nothing can be read from.
    pub bytes: u64,
    /// Alignment in bytes, a power of two.
    pub align: u64,
    /// What it is for.
    pub kind: MemoryKind,
    /// Filled with zeros.
    pub zeroed: bool,
}

impl AllocSpec {
    /// Tensor memory of `bytes`, aligned to a cache line, not zeroed.
    pub fn device(bytes: u64) -> Self {
        AllocSpec {
            bytes,
            align: 64,
            kind: MemoryKind::Device,
            zeroed: false,
        }
    }
}

/// Memory that somebody else has made, to be used as a buffer: see [`crate::Device::import`].
#[derive(Clone)]
pub enum Import {
    /// Memory of this process, whole pages. The buffer keeps the view, and with it the mapping: pages of the same mapping may be
    /// the same memory of the device each time ([`View::mapping`]).
    Host(View),
    /// A dma-buf, by its descriptor in this process, with its bytes. The buffer keeps the memory, not the descriptor.
    DmaBuf(i32, u64),
    /// Memory that another library of this process has on the same GPU.
    Device {
        /// Its address there.
        va: GpuVa,
        /// Its bytes.
        bytes: u64,
        /// Keeps the other library from freeing it; the buffer holds this.
        owner: Arc<dyn Any + Send + Sync>,
    },
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Import::Host(view) => write!(f, "{:#x} bytes of this process", view.len()),
            Import::DmaBuf(fd, bytes) => write!(f, "{bytes:#x} bytes of the dma-buf {fd}"),
            Import::Device { va, bytes, .. } => {
                write!(f, "{bytes:#x} bytes at {:#x} on the GPU", va.0)
            }
        }
    }
}

/// Bytes in use and free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryStats {
    /// In live buffers.
    pub used: u64,
    /// Kept for reuse after a free.
    pub cached: u64,
    /// The most that was ever in use.
    pub peak: u64,
    /// What the device has.
    pub total: u64,
}

/// Memory accessed through copies by the driver (VRAM through a copy engine, a vendor runtime's buffer).
pub trait RemoteMemory: Send + Sync {
    /// Reads bytes at an offset.
    ///
    /// # Errors
    /// The transport's, as [`Error::Os`], or the loss of the device.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// The transport's, as [`Error::Os`], or the loss of the device.
    fn write(&self, offset: u64, from: &[u8]) -> Result<()>;
}

/// How the host reaches a buffer.
#[derive(Clone)]
pub enum HostAccess {
    /// Directly: loads and stores, with or without cache maintenance, or transfers. See [`Window`].
    Window(Window),
    /// By copies.
    Remote(Arc<dyn RemoteMemory>),
}

impl HostAccess {
    fn name(&self) -> &'static str {
        match self {
            HostAccess::Window(window) if window.view().is_some() => "a mapping",
            HostAccess::Window(_) => "by transfers or with cache maintenance",
            HostAccess::Remote(_) => "by copies",
        }
    }
}

/// Who has the bytes of an allocation, besides the work that is submitted with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Sharing {
    /// Nobody: they are what was written here.
    Own = 0,
    /// Others, who may change them between two submissions; here they may be written, too.
    Writable = 1,
    /// Others, who may change them; here they are only read.
    ReadOnly = 2,
}

struct Block {
    device: DeviceId,
    va: GpuVa,
    bytes: u64,
    host: HostAccess,
    /// A [`Sharing`], which only grows.
    sharing: AtomicU8,
    /// The process that has it: what devices share is not mapped in a fork.
    process: u32,
    // Dropped last: returns the memory to the driver.
    owner: Box<dyn Any + Send + Sync>,
}

/// A piece of device memory; clones and slices share the allocation, which is freed with the last of them. The device
/// may still be using it then: the submitter of work keeps its buffers until its [`crate::Point`] is reached.
#[derive(Clone)]
pub struct Buffer {
    block: Arc<Block>,
    offset: u64,
    bytes: u64,
}

impl Buffer {
    /// Made by drivers; `owner` frees the memory when dropped.
    pub fn new(
        device: DeviceId,
        va: GpuVa,
        bytes: u64,
        host: HostAccess,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Self {
        let block = Block {
            device,
            va,
            bytes,
            host,
            sharing: AtomicU8::new(Sharing::Own as u8),
            process: process_generation(),
            owner,
        };
        Buffer {
            block: Arc::new(block),
            offset: 0,
            bytes,
        }
    }

    /// Address that the device uses.
    pub fn va(&self) -> GpuVa {
        GpuVa(self.block.va.0 + self.offset)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The device that owns it.
    pub fn device(&self) -> &DeviceId {
        &self.block.device
    }

    /// What its driver keeps for it, to know its own again.
    pub fn owner(&self) -> &(dyn Any + Send + Sync) {
        &*self.block.owner
    }

    /// How the host reaches the whole allocation.
    pub fn host(&self) -> &HostAccess {
        &self.block.host
    }

    /// True if both are pieces of one allocation.
    pub fn same_allocation(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.block, &other.block)
    }

    /// Says who else has the bytes of the allocation. What is shared stays shared, and what is read-only stays that.
    pub fn share(&self, how: Sharing) {
        self.block.sharing.fetch_max(how as u8, Ordering::AcqRel);
    }

    /// Who else has the bytes of the allocation.
    pub fn sharing(&self) -> Sharing {
        match self.block.sharing.load(Ordering::Acquire) {
            0 => Sharing::Own,
            1 => Sharing::Writable,
            _ => Sharing::ReadOnly,
        }
    }

    /// A piece of this buffer.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`].
    pub fn slice(&self, offset: u64, len: u64) -> Result<Buffer> {
        self.check("slice", offset, len)?;
        Ok(Buffer {
            block: self.block.clone(),
            offset: self.offset + offset,
            bytes: len,
        })
    }

    /// The host's window to it, for memory shared with the device: signals, rings, arguments.
    ///
    /// # Errors
    /// [`Error::NoHostAccess`] if it is reached by copies only.
    pub fn window(&self) -> Result<Window> {
        match &self.block.host {
            HostAccess::Window(window) => window
                .sub(self.offset, self.bytes)
                .map_err(|e| self.refused("window", e)),
            _ => Err(self.no_access("a window")),
        }
    }

    /// The mapping, for code that needs one: a futex, an atomic.
    ///
    /// # Errors
    /// [`Error::NoHostAccess`] if there is none, or one that needs cache maintenance.
    pub fn view(&self) -> Result<View> {
        match self.window()?.view() {
            Some(view) => Ok(view.clone()),
            None => Err(self.no_access("a mapping")),
        }
    }

    /// Reads bytes; the caller has waited for the device's writes.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] or the transport's.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check("read", offset, into.len() as u64)?;
        let at = self.offset + offset;
        match &self.block.host {
            HostAccess::Window(window) => window
                .read_bytes(at, into)
                .map_err(|e| self.refused("read", e)),
            HostAccess::Remote(remote) => remote.read(at, into),
        }
    }

    /// Writes bytes; the device is not using them. Submissions that follow find them.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] or the transport's.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<()> {
        self.check("write", offset, from.len() as u64)?;
        let at = self.offset + offset;
        match &self.block.host {
            HostAccess::Window(window) => window
                .write_bytes(at, from)
                .map_err(|e| self.refused("write", e)),
            HostAccess::Remote(remote) => remote.write(at, from),
        }
    }

    /// Says that the host has written bytes by another way than this buffer, such as the pointer of an imported one:
    /// submissions that follow find them.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] or the transport's.
    pub fn clean(&self, offset: u64, len: u64) -> Result<()> {
        self.check("clean", offset, len)?;
        match &self.block.host {
            HostAccess::Window(window) => window
                .clean(self.offset + offset, len)
                .map_err(|e| self.refused("clean", e)),
            HostAccess::Remote(_) => Ok(()),
        }
    }

    /// Says that the host will read bytes by another way than this buffer: it finds what the device has written by now.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] or the transport's.
    pub fn invalidate(&self, offset: u64, len: u64) -> Result<()> {
        self.check("invalidate", offset, len)?;
        match &self.block.host {
            HostAccess::Window(window) => window
                .invalidate(self.offset + offset, len)
                .map_err(|e| self.refused("invalidate", e)),
            HostAccess::Remote(_) => Ok(()),
        }
    }

    fn check(&self, what: &'static str, offset: u64, len: u64) -> Result<()> {
        if self.block.process != process_generation() {
            return Err(inherited(&self.block.device));
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(self.out_of_bounds(what, offset, len)),
        }
    }

    fn out_of_bounds(&self, what: &'static str, offset: u64, len: u64) -> Error {
        let size = self.bytes.min(self.block.bytes);
        let device = self.block.device.clone();
        Error::OutOfBounds {
            device,
            va: self.va().0,
            what,
            offset,
            len,
            size,
        }
    }

    /// What the transport says.
    fn refused(&self, what: &'static str, error: TransportError) -> Error {
        Error::Os {
            device: self.block.device.clone(),
            call: format!("{what} of the buffer at {:#x}", self.va().0),
            source_text: error.to_string(),
            errno: error.fault.errno(),
            hint: "See `dmesg`; open the device again".into(),
        }
    }

    fn no_access(&self, needs: &'static str) -> Error {
        let (device, va) = (self.block.device.clone(), self.va().0);
        Error::NoHostAccess {
            device,
            va,
            has: self.block.host.name(),
            needs,
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Buffer({} {:#x}+{:#x})",
            self.block.device,
            self.va().0,
            self.bytes
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::window::Coherence;

    struct Nothing;

    impl Coherence for Nothing {
        fn flush(&self, _: u64, _: u64) -> Result<(), TransportError> {
            Ok(())
        }
        fn invalidate(&self, _: u64, _: u64) -> Result<(), TransportError> {
            Ok(())
        }
    }

    #[test]
    fn what_is_shared_stays_shared_in_all_its_pieces() {
        let view = View::alloc(64, 8).unwrap();
        let host = HostAccess::Window(Window::mapped("memory", view));
        let id = DeviceId::new("TEST", 0);
        let buffer = Buffer::new(id, GpuVa(0x1000), 64, host, Box::new(()));
        let part = buffer.slice(16, 8).unwrap();
        assert_eq!(part.sharing(), Sharing::Own);
        buffer.share(Sharing::ReadOnly);
        buffer.share(Sharing::Writable);
        assert_eq!(part.sharing(), Sharing::ReadOnly);
    }

    #[test]
    fn only_memory_that_needs_no_maintenance_shows_its_mapping() {
        let view = View::alloc(64, 8).unwrap();
        let buffer = |host| {
            let id = DeviceId::new("TEST", 0);
            Buffer::new(id, GpuVa(0x1000), 64, host, Box::new(()))
        };
        let mapped = buffer(HostAccess::Window(Window::mapped("memory", view.clone())));
        let part = mapped.slice(16, 8).unwrap();
        part.view().unwrap().write(0, 7u32).unwrap();
        assert_eq!(view.read::<u32>(16), Ok(7));
        let managed = Window::managed("memory", view.clone(), Arc::new(Nothing));
        let managed = buffer(HostAccess::Window(managed));
        let part = managed.slice(16, 8).unwrap();
        assert_eq!(part.window().unwrap().read::<u32>(0), Ok(7));
        let error = part.view().unwrap_err().to_string();
        assert!(
            error.contains("by transfers or with cache maintenance, expected a mapping"),
            "{error}"
        );
        let mut byte = [0];
        part.read(0, &mut byte).unwrap();
        assert_eq!(byte, [7]);
        assert!(part.read(8, &mut byte).is_err());
    }
}
