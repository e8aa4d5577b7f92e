//! [`Runtime`]: a vendor's runtime as the engine behind the command processors of a device.
//!
//! Rings, lists of packets, waits, signals and their timelines are those of the CPU: a thread per queue reads packets and
//! does them in order. Where a device has a runtime, that thread hands kernels, copies and fills over to it, and
//! waits for them before anything that the host or another queue may see: a signal, a timestamp, a written word.
//!
//! Addresses of a runtime's memory are its own business: it says which are its own ([`Work::owns`]). All others are
//! memory of the process.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

use hcq::sync::lock;
use hcq::{DeviceId, Error, KernelImage, QueueKind, Result};

/// What a runtime says of its device.
#[derive(Clone, Debug)]
pub struct About {
    /// The interface: `OPENCL`.
    pub interface: &'static str,
    /// Where it is, for people.
    pub place: String,
    /// What images are compiled for ([`hcq::DeviceInfo::arch`]).
    pub arch: String,
    /// What users call it.
    pub name: String,
    /// Its compute units.
    pub units: u32,
    /// Bytes of its memory that may be allocated.
    pub memory: u64,
    /// Whether kernels compute with subnormal numbers.
    pub subnormals: bool,
}

/// Memory of a runtime.
pub struct Allocated {
    /// Its address, by which packets name it.
    pub va: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Frees it.
    pub owner: Box<dyn Any + Send + Sync>,
}

/// A kernel that a runtime has.
pub struct Loaded {
    /// The number by which packets name it: no other kernel of the device has it, and it is no address.
    pub entry: u64,
    /// Work-items of a group.
    pub items: u32,
    /// Frees it.
    pub owner: Box<dyn Any + Send + Sync>,
}

/// A device of a runtime.
pub trait Runtime: Send + Sync + 'static {
    /// The device, for messages.
    fn id(&self) -> &DeviceId;

    /// What it is.
    fn about(&self) -> &About;

    /// Memory of the device, whose address is a multiple of `align`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Fault`].
    fn memory(&self, bytes: u64, align: u64) -> Result<Allocated>;

    /// Builds a kernel.
    ///
    /// # Errors
    /// Why not, with what the compiler says.
    fn load(&self, image: &KernelImage) -> std::result::Result<Loaded, String>;

    /// Opens a queue.
    ///
    /// # Errors
    /// [`Error::Fault`], [`Error::OutOfMemory`].
    fn queue(&self, kind: QueueKind, index: u32) -> Result<Box<dyn Work>>;

    /// The error of a call of the runtime that failed.
    fn failed(&self, unit: &str, what: String) -> Error {
        Error::Fault {
            device: self.id().clone(),
            unit: unit.into(),
            what,
        }
    }
}

/// The bounds of the buffer of the process that an address lies in, if there is one.
pub type Host<'a> = dyn Fn(u64) -> Option<Range<u64>> + 'a;

/// What a call of a queue says: why it failed, which loses the device.
pub type Said<T> = std::result::Result<T, String>;

/// A queue of a runtime, which does what it is given in order. One thread uses it.
pub trait Work: Send {
    /// Whether an address is one of the runtime's memory, whichever of its devices has it.
    fn owns(&self, at: u64) -> bool;

    /// Hands a kernel over. `args`: the argument block.
    ///
    /// # Errors
    /// The runtime's; an address that is in no memory.
    fn exec(&mut self, entry: u64, groups: u64, args: &[u32], host: &Host<'_>) -> Said<()>;

    /// Hands a copy over, of which one side at least is memory of the runtime. Memory of the process stays until the work
    /// is done, and is there.
    ///
    /// # Errors
    /// The runtime's; an address that is in no memory.
    fn copy(&mut self, dst: u64, src: u64, bytes: u64) -> Said<()>;

    /// Hands a fill of memory of the runtime over; address and bytes are multiples of 4.
    ///
    /// # Errors
    /// As [`Work::copy`].
    fn fill(&mut self, at: u64, value: u32, bytes: u64) -> Said<()>;

    /// Hands a write of some bytes to memory of the runtime over; it keeps a copy of them.
    ///
    /// # Errors
    /// As [`Work::copy`].
    fn write(&mut self, at: u64, bytes: &[u8]) -> Said<()>;

    /// Hands a read of so many bytes of memory of the runtime over: [`Work::bytes`] has them once the work is done.
    ///
    /// # Errors
    /// As [`Work::copy`].
    fn read(&mut self, at: u64, bytes: usize) -> Said<()>;

    /// What the last read has found.
    fn bytes(&self) -> &[u8];

    /// Whether all that was handed over is done. Does not wait.
    ///
    /// # Errors
    /// What has failed.
    fn is_done(&mut self) -> Said<bool>;
}

/// Memory of the process that devices with a runtime have, with its bytes, by its address.
static MAPPED: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// An entry of [`MAPPED`].
pub(crate) struct Mapped(u64);

impl Mapped {
    pub(crate) fn new(at: u64, bytes: u64) -> Mapped {
        lock(&MAPPED).insert(at, bytes);
        Mapped(at)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        lock(&MAPPED).remove(&self.0);
    }
}

/// The mapping of a device with a runtime that an address lies in.
pub(crate) fn mapped(at: u64) -> Option<Range<u64>> {
    let mapped = lock(&MAPPED);
    let (&start, &bytes) = mapped.range(..=at).next_back()?;
    (at - start < bytes).then_some(start..start + bytes)
}
