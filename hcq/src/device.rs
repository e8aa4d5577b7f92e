//! The device: identity, memory, programs, queues. Object-safe, one implementation per interface.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::id::{DeviceId, QueueKind};
use crate::memory::{AllocSpec, Buffer, Import, MemoryStats};
use crate::program::{KernelImage, Program};
use crate::queue::Queue;
use crate::signal::Signal;
use crate::wait::Deadline;

/// What a device is; fixed at open.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name in messages.
    pub id: DeviceId,
    /// The interface: `KFD`, `PCI`, `USB`, `NVK`, `KGSL`, `THREADS`...
    pub interface: &'static str,
    /// The instruction set, as compilers know it: `gfx1100`, `sm_89`, `x86_64`...
    pub arch: String,
    /// The marketing name.
    pub name: String,
    /// Compute units, streaming multiprocessors or threads.
    pub units: u32,
    /// Bytes of memory that the device can allocate from.
    pub memory: u64,
    /// Queues of each kind that can be opened.
    pub queues: Vec<(QueueKind, u32)>,
    /// Recommended batch sizes.
    pub costs: Costs,
    /// Optional features.
    pub can: Abilities,
}

/// Recommended batch sizes (estimates).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// Commands per submission: with far fewer, submission overhead dominates; with more, the device idles during encoding
    /// and the ring holds too few submissions.
    pub batch: usize,
    /// Submissions in flight before the host waits for the oldest one.
    pub in_flight: usize,
}

/// Optional features of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// Queues take [`crate::Command::Poll`].
    pub poll: bool,
    /// Queues take [`crate::Command::Write`].
    pub write: bool,
    /// Kernels support 32-bit and 64-bit subnormal numbers; otherwise they are flushed to zero.
    pub subnormals: bool,
}

/// The clock of a device's timestamps, and one pair of readings that aligns it with the host.
#[derive(Clone, Copy, Debug)]
pub struct ClockInfo {
    /// Ticks per second.
    pub hz: u64,
    /// The host's monotonic clock in ns, read together with `device_ticks`.
    pub host_ns: u64,
    /// The device's counter, read together with `host_ns`.
    pub device_ticks: u64,
}

impl ClockInfo {
    /// Converts a device timestamp to the host's monotonic ns.
    pub fn to_host_ns(&self, ticks: u64) -> u64 {
        let delta = ticks.wrapping_sub(self.device_ticks) as i64 as i128;
        (self.host_ns as i128 + delta * 1_000_000_000 / self.hz.max(1) as i128) as u64
    }
}

/// The error of an interface that does not take some memory of others.
#[cold]
pub fn cannot_import(device: &DeviceId, interface: &str, memory: &Import) -> Error {
    Error::Unsupported {
        asked: format!("{device}: import of {memory:?}"),
        why: format!("{interface} cannot import this kind of memory: allocate a buffer and copy"),
    }
}

/// An open device.
///
/// After a fault the device is *lost* for this handle: every call returns [`crate::Error::DeviceLost`] with the first
/// cause. Opening it again gives a new handle; other GPUs are unaffected. Buffers, programs, queues and signals
/// keep the parts of the device alive that they need.
pub trait Device: Send + Sync + fmt::Debug {
    /// What the device is.
    fn info(&self) -> &DeviceInfo;

    /// Allocates memory; never zeroed unless the spec says so.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`], or the loss of the device.
    fn alloc(&self, spec: AllocSpec) -> Result<Buffer>;

    /// Memory of somebody else as a buffer, without a copy. It is not counted in [`Device::memory`].
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] if the interface takes no such memory; [`crate::Error::Os`]; the loss of the device.
    fn import(&self, memory: &Import) -> Result<Buffer> {
        Err(cannot_import(
            &self.info().id,
            self.info().interface,
            memory,
        ))
    }

    /// Bytes in use and free.
    fn memory(&self) -> MemoryStats;

    /// Whether commands of this device may use the addresses of a buffer: one that it has made or imported itself; or
    /// one of another device, whose memory is mapped here, where both can wait for each other's signals. A device that
    /// does not say so has none that others may give it.
    fn reaches(&self, buffer: &Buffer) -> bool {
        let _ = buffer;
        false
    }

    /// Puts a compiled kernel into device memory.
    ///
    /// # Errors
    /// [`crate::Error::Program`] if the image is not for this device or malformed.
    fn load(&self, image: &KernelImage) -> Result<Arc<Program>>;

    /// Opens (or finds) queue number `index` of a kind.
    ///
    /// # Errors
    /// [`crate::Error::Command`] if the device has no such queue: see [`DeviceInfo::queues`].
    fn queue(&self, kind: QueueKind, index: u32) -> Result<Arc<dyn Queue>>;

    /// A new signal with value 0.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`], or the loss of the device.
    fn signal(&self, name: &str) -> Result<Signal>;

    /// The clock of its timestamps, read now.
    ///
    /// # Errors
    /// The loss of the device.
    fn clock(&self) -> Result<ClockInfo>;

    /// `Ok` while the device works.
    ///
    /// # Errors
    /// [`crate::Error::DeviceLost`] with the first cause.
    fn status(&self) -> Result<()>;

    /// Marks the device lost, with a cause unless it has one; work in flight is no longer waited for. Returns the
    /// error of every later call.
    fn lose(&self, cause: Error) -> Error;

    /// Writes a bundle of the device's state because the caller found a wrong result. Returns its path, or `None` if
    /// bundles are disabled. Faults and hangs write bundles by themselves, named in their errors.
    fn bundle(&self, cause: &Error) -> Option<String> {
        let _ = cause;
        None
    }

    /// Waits until everything submitted to every queue so far is done.
    ///
    /// # Errors
    /// [`crate::Error::Timeout`] or the loss of the device.
    fn synchronize(&self, deadline: Deadline) -> Result<()>;
}
