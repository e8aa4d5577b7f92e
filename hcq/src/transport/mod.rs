//! How bytes reach a device: the transports, object-safe, and middleware over them.
//!
//! | trait | what it is | who implements it |
//! |---|---|---|
//! | [`Pci`] | a PCI function: BARs, config space, DMA memory, reset, interrupts | sysfs, VFIO, a USB bridge, models |
//! | [`DevFile`] | a device file: ioctl and mmap | the kernel's drivers, models of them |
//! | [`Machine`] | where device files are: opens them, reads sysfs, hands out addresses | the machine, models of one |
//! | [`UsbPipe`] | a USB device: control and bulk transfers | usbfs, models |
//! | [`Clock`] | time | the machine, or [`VirtualClock`], on which no test waits |
//!
//! [`trace`] records what passes, [`replay`] answers from such a record, [`fault`] makes the n-th
//! call fail, [`null`] accepts everything. They are written once for all transports, over the calls
//! as data ([`access`]), and are used through the same traits, so a driver cannot tell.

pub mod access;
pub mod fault;
pub mod machine;
pub mod null;
pub mod replay;
pub mod trace;

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::addr::BusAddr;
use crate::mem::view::{View, ViewError};
use crate::mem::window::{Width, Window};
use crate::wait::{Deadline, Timeout};

pub use machine::{Kept, Machine, Reserved};

/// A transport operation failed: on which device, doing what, and how.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{device}: {operation}: {fault}")]
pub struct TransportError {
    /// PCI address, device file or USB port.
    pub device: String,
    /// What was attempted, with its numbers; an ioctl by its vendor name.
    pub operation: String,
    /// What went wrong.
    pub fault: Fault,
}

impl TransportError {
    /// An error of `device` while doing `operation`.
    pub fn new(device: impl Into<String>, operation: impl Into<String>, fault: Fault) -> Self {
        TransportError {
            device: device.into(),
            operation: operation.into(),
            fault,
        }
    }
}

/// The ways a transport fails.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The operating system refused, with this errno.
    #[error("{}", errno_text(*.0))]
    Errno(i32),
    /// No answer in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The device has left: off the bus, unplugged, or reset under us. It must be opened again.
    #[error("the device is gone; open it again once it is back")]
    Gone,
    /// A USB endpoint stalled.
    #[error("endpoint stalled")]
    Stall,
    /// Fewer bytes moved than were needed.
    #[error("moved {moved:#x} of {wanted:#x} bytes")]
    Short {
        /// Bytes that should have moved.
        wanted: usize,
        /// Bytes that did.
        moved: usize,
    },
    /// Outside of the window or view, or misaligned.
    #[error(transparent)]
    View(ViewError),
    /// This transport cannot do that at all.
    #[error("not possible here: {0}")]
    Unsupported(String),
    /// The access differs from the recorded one.
    #[error("trace line {line}: expected `{expected}`, seen `{seen}`")]
    Replay {
        /// Line of the trace, from 1; one past the last where the trace has ended.
        line: usize,
        /// What the trace has there.
        expected: String,
        /// What was attempted instead.
        seen: String,
    },
}

impl From<Timeout> for Fault {
    fn from(timeout: Timeout) -> Fault {
        Fault::TimedOut(timeout.waited)
    }
}

/// The errno with its name: numbers and names that Linux has on every architecture we run on.
fn errno_text(errno: i32) -> String {
    let name = match errno {
        1 => "EPERM: operation not permitted",
        2 => "ENOENT: no such file or object",
        4 => "EINTR: interrupted",
        5 => "EIO: input/output error",
        6 => "ENXIO: no such device or address",
        9 => "EBADF: bad file descriptor",
        11 => "EAGAIN: try again",
        12 => "ENOMEM: out of memory",
        13 => "EACCES: permission denied; is the user in the groups render and video?",
        14 => "EFAULT: bad address",
        16 => "EBUSY: device or resource busy; does another process or driver hold it?",
        17 => "EEXIST: exists already",
        19 => "ENODEV: no such device",
        22 => "EINVAL: invalid argument",
        23 => "ENFILE: too many open files in the system",
        24 => "EMFILE: too many open files; raise `ulimit -n`",
        25 => "ENOTTY: this file does not know the ioctl",
        28 => "ENOSPC: no space left",
        32 => "EPIPE: broken pipe or stalled endpoint",
        35 => "EDEADLK: the context hung and was reset",
        62 => "ETIME: timer expired",
        71 => "EPROTO: protocol error",
        95 => "EOPNOTSUPP: not supported",
        110 => "ETIMEDOUT: timed out",
        _ => return format!("errno {errno}"),
    };
    format!("errno {errno} ({name})")
}

/// Host memory that is pinned and that the device can reach.
#[derive(Debug, Clone)]
pub struct Dma {
    /// The host's access. Dropping the last clone unpins the memory: not before the device has
    /// stopped using it.
    pub view: View,
    /// Where the device finds it, in the order of the view; the lengths add up to it.
    pub ranges: Vec<BusRange>,
}

/// A range of bus addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusRange {
    /// First address.
    pub addr: BusAddr,
    /// Length in bytes.
    pub bytes: u64,
}

/// Ways to reset a PCI function, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetKind {
    /// Function level reset (FLR).
    Function,
    /// Secondary bus reset: hot reset of everything behind the bridge.
    Bus,
    /// Through power management, D3hot and back.
    Power,
}

impl fmt::Display for ResetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResetKind::Function => "function",
            ResetKind::Bus => "bus",
            ResetKind::Power => "power",
        })
    }
}

/// A PCI function.
pub trait Pci: Send + Sync {
    /// Its address, `dddd:bb:dd.f`, or another stable name.
    fn name(&self) -> &str;

    /// The window of BAR `n` (0..=5).
    ///
    /// # Errors
    /// No such BAR, or it cannot be mapped.
    fn bar(&self, n: u8) -> Result<Window, TransportError>;

    /// Reads config space. `offset` is a multiple of the width; `width` is at most 32 bits.
    ///
    /// # Errors
    /// Outside of config space, or the access failed.
    fn config_read(&self, offset: u16, width: Width) -> Result<u32, TransportError>;

    /// Writes config space.
    ///
    /// # Errors
    /// As [`Pci::config_read`].
    fn config_write(&self, offset: u16, width: Width, value: u32) -> Result<(), TransportError>;

    /// Pinned, zeroed host memory of at least `bytes` bytes; each bus range starts at a multiple
    /// of `align` bytes.
    ///
    /// # Errors
    /// No memory, or none that is aligned so.
    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError>;

    /// Resets the function. Its registers, and maybe its memory, start anew.
    ///
    /// # Errors
    /// The kind is not possible here, or the function did not come back.
    fn reset(&self, kind: ResetKind) -> Result<(), TransportError>;

    /// Waits for interrupt `vector` and returns how often it fired since the last wait (>= 1).
    ///
    /// # Errors
    /// [`Fault::TimedOut`] at the deadline, [`Fault::Unsupported`] without interrupts: then poll.
    fn wait_irq(&self, vector: u32, deadline: Deadline) -> Result<u64, TransportError>;
}

/// What a mapping may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prot {
    /// Reads only.
    Read,
    /// Writes only (doorbell pages of some drivers).
    Write,
    /// Reads and writes.
    ReadWrite,
}

/// A mapping to make from a device file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Map {
    /// Offset in the file, which drivers use as a handle.
    pub offset: u64,
    /// Bytes to map.
    pub len: usize,
    /// Use of it.
    pub prot: Prot,
    /// Address where it must lie, inside a range that the caller has reserved
    /// ([`Machine::reserve`]) and that the view then keeps; or anywhere.
    pub at: Option<u64>,
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prot = match self.prot {
            Prot::Read => "r",
            Prot::Write => "w",
            Prot::ReadWrite => "rw",
        };
        write!(
            f,
            "mmap {:#x} bytes {prot} at offset {:#x}",
            self.len, self.offset
        )?;
        match self.at {
            Some(at) => write!(f, " to address {at:#x}"),
            None => Ok(()),
        }
    }
}

/// An open device file.
pub trait DevFile: Send + Sync {
    /// Its path.
    fn name(&self) -> &str;

    /// Calls ioctl `request` with `payload`, which it may rewrite; returns the call's result
    /// (not negative). `name` is the vendor's name of it, for errors and traces.
    ///
    /// # Errors
    /// [`Fault::Errno`] with the ioctl named.
    fn ioctl(&self, request: u32, name: &str, payload: &mut [u8]) -> Result<i32, TransportError>;

    /// Maps part of the file.
    ///
    /// # Errors
    /// [`Fault::Errno`]; [`Fault::Unsupported`] for an address outside of what was reserved.
    fn mmap(&self, map: Map) -> Result<View, TransportError>;

    /// The number by which a request to another file names this one: its descriptor.
    ///
    /// # Errors
    /// [`Fault::Unsupported`] where it has none.
    fn number(&self) -> Result<u32, TransportError> {
        let why = "this file has no number";
        Err(TransportError::new(
            self.name(),
            "number",
            Fault::Unsupported(why.into()),
        ))
    }
}

/// The eight bytes that start a USB control transfer, minus the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// `bmRequestType`; bit 7 says the direction.
    pub request_type: u8,
    /// `bRequest`.
    pub request: u8,
    /// `wValue`.
    pub value: u16,
    /// `wIndex`.
    pub index: u16,
}

/// A claimed interface of a USB device. A transfer that moves fewer bytes than asked for is no
/// error here: the count is returned.
pub trait UsbPipe: Send + Sync {
    /// Bus, port and serial, or another stable name.
    fn name(&self) -> &str;

    /// Control transfer to the host.
    ///
    /// # Errors
    /// [`Fault::Stall`], [`Fault::TimedOut`], [`Fault::Gone`], [`Fault::Errno`].
    fn control_in(
        &self,
        setup: Setup,
        to: &mut [u8],
        timeout: Duration,
    ) -> Result<usize, TransportError>;

    /// Control transfer to the device.
    ///
    /// # Errors
    /// As [`UsbPipe::control_in`].
    fn control_out(
        &self,
        setup: Setup,
        from: &[u8],
        timeout: Duration,
    ) -> Result<usize, TransportError>;

    /// Bulk transfer to the host from `endpoint` (0x81..=0x8f).
    ///
    /// # Errors
    /// As [`UsbPipe::control_in`].
    fn bulk_in(
        &self,
        endpoint: u8,
        to: &mut [u8],
        timeout: Duration,
    ) -> Result<usize, TransportError>;

    /// Bulk transfer to the device's `endpoint` (0x01..=0x0f).
    ///
    /// # Errors
    /// As [`UsbPipe::control_in`].
    fn bulk_out(
        &self,
        endpoint: u8,
        from: &[u8],
        timeout: Duration,
    ) -> Result<usize, TransportError>;
}

/// Time that only grows.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some fixed moment.
    fn now_ns(&self) -> u64;
    /// Lets at least `time` pass.
    fn sleep(&self, time: Duration);
}

/// The machine's monotonic clock. All values of this type share one origin.
#[derive(Debug, Clone, Copy, Default)]
pub struct MonotonicClock;

impl MonotonicClock {
    /// What it shows when it is first read. What a device did before that, by its own clock, has a
    /// time as well, which is not negative.
    const START: Duration = Duration::from_secs(1 << 20);
}

impl Clock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        let origin = *ORIGIN.get_or_init(Instant::now);
        u64::try_from((Self::START + origin.elapsed()).as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A clock that stands still until someone sleeps: sleeping only moves it. For models of hardware
/// and tests.
#[derive(Debug, Default)]
pub struct VirtualClock(AtomicU64);

impl VirtualClock {
    /// A clock at zero.
    pub fn new() -> VirtualClock {
        VirtualClock::default()
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn sleep(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(ns, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_device_operation_and_cause() {
        let error =
            TransportError::new("/dev/kfd", "ioctl AMDKFD_IOC_GET_VERSION", Fault::Errno(16));
        assert_eq!(
            error.to_string(),
            "/dev/kfd: ioctl AMDKFD_IOC_GET_VERSION: errno 16 (EBUSY: device or resource busy; \
             does another process or driver hold it?)"
        );
        assert_eq!(Fault::Errno(12345).to_string(), "errno 12345");
        let short = Fault::Short {
            wanted: 512,
            moved: 13,
        };
        assert_eq!(short.to_string(), "moved 0xd of 0x200 bytes");
    }

    #[test]
    fn the_virtual_clock_moves_only_by_sleeping() {
        let clock = VirtualClock::new();
        assert_eq!(clock.now_ns(), 0);
        clock.sleep(Duration::from_secs(3600));
        assert_eq!(clock.now_ns(), 3_600_000_000_000);
    }

    #[test]
    fn the_monotonic_clock_does_not_go_back() {
        let before = MonotonicClock.now_ns();
        MonotonicClock.sleep(Duration::from_nanos(1));
        assert!(MonotonicClock.now_ns() >= before);
        let clock = crate::ClockInfo {
            hz: 100_000_000,
            host_ns: before,
            device_ticks: 5_000_000_000,
        };
        // A device that ran for 50 seconds before the clock was read.
        assert_eq!(clock.to_host_ns(0), before - 50_000_000_000);
    }

    #[test]
    fn a_map_reads_as_a_sentence() {
        let map = Map {
            offset: 0x1000,
            len: 0x2000,
            prot: Prot::ReadWrite,
            at: Some(0x7000_0000),
        };
        assert_eq!(
            map.to_string(),
            "mmap 0x2000 bytes rw at offset 0x1000 to address 0x70000000"
        );
    }
}
