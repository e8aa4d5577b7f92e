//! How bytes reach a device: the transports, object-safe, and middleware over them.
//!
//! | trait | what it is | who implements it |
//! |---|---|---|
//! | [`Pci`] | a PCI function: BARs, config space, DMA memory, reset, interrupts | the machine, by sysfs or VFIO; models |
//! | [`DevFile`] | a device file: ioctl and mmap | the kernel's drivers, models of them |
//! | [`Machine`] | where devices are: finds and opens them, reads sysfs, hands out addresses | the machine, models of one |
//! | [`UsbPipe`] | a USB device: control and bulk transfers | the machine, by libusb; models |
//! | [`Clock`] | time | the machine, or [`VirtualClock`], on which no test waits |
//!
//! In front of any of them (but the clock) a [`tap`] sees every call as data ([`access`]): [`trace`]
//! records, [`replay`] answers from such a record, [`fault`] makes the n-th call fail, transparently for
//! the driver.

pub mod access;
pub mod cable;
pub mod errno;
pub mod error;
pub mod fault;
pub mod found;
pub mod ioctl;
mod listed;
pub mod machine;
pub mod relay;
pub mod replay;
pub mod tap;
pub mod trace;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::addr::{BusAddr, BusRanges, Domain};
use crate::mem::view::View;
use crate::mem::window::{AccessWidth, Window};
use crate::wait::Deadline;

pub use crate::addr::BusRange;
pub use crate::clock::{Clock, MonotonicClock, VirtualClock};
pub use error::{Fault, TransportError};
pub use found::{Bar, PciFunction, UsbDevice};
pub use ioctl::{Ioctl, IoctlOf, Request};
pub use machine::{ANYWHERE, Machine, PerProcess, Reserved};
pub use relay::Relay;

/// Host memory that is pinned and that the device can reach.
#[derive(Debug, Clone)]
pub struct Dma {
    /// The host's access. Dropping the last clone unpins the memory: not before the device has
    /// stopped using it.
    pub view: View,
    /// Where the device finds it, in the order of the view; the lengths add up to it.
    pub ranges: BusRanges,
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
    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError>;

    /// Writes config space.
    ///
    /// # Errors
    /// As [`Pci::config_read`].
    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError>;

    /// Pinned, zeroed host memory of at least `bytes` bytes; each bus range starts at a multiple
    /// of `align` bytes.
    ///
    /// # Errors
    /// No memory, or none that is aligned so.
    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError>;

    /// The functions with the same bus addresses: those from [`Pci::dma`] are valid there.
    fn domain(&self) -> Domain {
        Domain::BUS
    }

    /// The bus addresses of the first `bytes` bytes of BAR `n` for other functions of the domain.
    ///
    /// # Errors
    /// No such BAR, or others cannot access it.
    fn shown(&self, n: u8, bytes: u64) -> Result<BusRanges, TransportError> {
        shown_on_bus(self, n, bytes)
    }

    /// Whether the function can access host memory. If not, [`Pci::dma`] fails, and the function's own memory is used
    /// instead.
    fn reaches_host(&self) -> bool {
        true
    }

    /// Memory of the bridge to a function that cannot access host memory, if any.
    fn relay(&self) -> Option<Arc<dyn Relay>> {
        None
    }

    /// The host's window to DMA memory: a tap sees accesses through it, but not those through the view.
    fn window(&self, name: &str, dma: &Dma) -> Window {
        Window::mapped(name, dma.view.clone())
    }

    /// Diagnostics of the path to the function, as name and text: links, error counts. For humans, after a failure;
    /// read-only. Empty if the machine's own files have them.
    fn condition(&self) -> Vec<[String; 2]> {
        Vec::new()
    }

    /// Resets the function: its registers, and possibly its memory.
    ///
    /// # Errors
    /// The kind is not supported, or the function did not come back.
    fn reset(&self, kind: ResetKind) -> Result<(), TransportError>;

    /// Waits for interrupt `vector` and returns how often it fired since the last wait (>= 1).
    ///
    /// # Errors
    /// [`Fault::TimedOut`] at the deadline, [`Fault::Unsupported`] without interrupts: then poll.
    fn wait_irq(&self, vector: u32, deadline: Deadline) -> Result<u64, TransportError>;
}

/// Where a BAR of 64 bits is on the bus, by the function's own registers.
///
/// Source: PCI Local Bus Specification 3.0, 6.2.5.1: bits 3:0 of the register are no address.
///
/// # Errors
/// Of the accesses.
pub fn shown_on_bus(
    pci: &(impl Pci + ?Sized),
    n: u8,
    bytes: u64,
) -> Result<BusRanges, TransportError> {
    const FIRST: u16 = 0x10;
    let at = FIRST + 4 * u16::from(n);
    let half = |at| pci.config_read(at, AccessWidth::W32).map(u64::from);
    let addr = BusAddr((half(at)? | half(at + 4)? << 32) & !0xf);
    Ok(BusRanges::new(Domain::BUS, vec![BusRange { addr, bytes }]))
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

    /// Makes a call, which may rewrite its argument; returns the result (not negative).
    ///
    /// # Errors
    /// [`Fault::Errno`] with the ioctl named, or what [`Request::perform`] refuses.
    fn ioctl(&self, request: &mut Request<'_, '_>) -> Result<i32, TransportError>;

    /// Maps part of the file. A view of a mapping that is only read refuses writes.
    ///
    /// # Errors
    /// [`Fault::Errno`]; [`Fault::Unsupported`] for an address outside of what was reserved.
    fn mmap(&self, map: Map) -> Result<View, TransportError>;

    /// Waits until the file reports an event or `limit` passes; returns which. The event is consumed: the next wait
    /// is for a new one. May end early.
    ///
    /// # Errors
    /// [`Fault::Errno`]; [`Fault::Unsupported`] if files report no events.
    fn poll(&self, limit: Duration) -> Result<bool, TransportError> {
        let why = format!("this file reports no events (asked to wait {limit:?})");
        let fault = Fault::Unsupported(why);
        Err(TransportError::new(self.name(), "poll", fault))
    }

    /// Its descriptor, by which a request to another file names this one.
    ///
    /// # Errors
    /// [`Fault::Unsupported`] where it has none.
    fn number(&self) -> Result<u32, TransportError> {
        let why = "this file has no descriptor";
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
    /// `bmRequestType`; bit 7 is the direction.
    pub request_type: u8,
    /// `bRequest`.
    pub request: u8,
    /// `wValue`.
    pub value: u16,
    /// `wIndex`.
    pub index: u16,
}

/// A USB transfer, and where its bytes go or come from.
#[derive(Debug)]
pub enum Transfer<'a> {
    /// Control transfer to the host.
    ControlIn(Setup, &'a mut [u8]),
    /// Control transfer to the device.
    ControlOut(Setup, &'a [u8]),
    /// Bulk transfer to the host, from endpoint 0x81..=0x8f.
    BulkIn(u8, &'a mut [u8]),
    /// Bulk transfer to the device's endpoint 0x01..=0x0f.
    BulkOut(u8, &'a [u8]),
}

/// A transfer in flight. Dropping it cancels it and waits for the cancellation.
pub trait Flight {
    /// Waits for its end and returns the bytes moved.
    ///
    /// # Errors
    /// As [`UsbPipe::control_in`].
    fn wait(self: Box<Self>) -> Result<usize, TransportError>;
}

/// A completed transfer, with the bytes moved.
struct Completed(usize);

impl Flight for Completed {
    fn wait(self: Box<Self>) -> Result<usize, TransportError> {
        Ok(self.0)
    }
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

    /// Concurrent transfers: in order on one endpoint, in any order on different ones. Returns the bytes moved by
    /// each. They cost one wait if the transport supports that; otherwise they run one after the other.
    ///
    /// # Errors
    /// As [`UsbPipe::control_in`], of the first failure; later ones may or may not have run. None is in flight when
    /// it returns.
    fn queue(
        &self,
        transfers: &mut [Transfer<'_>],
        timeout: Duration,
    ) -> Result<Vec<usize>, TransportError> {
        let one = |transfer: &mut Transfer<'_>| match transfer {
            Transfer::ControlIn(setup, to) => self.control_in(*setup, to, timeout),
            Transfer::ControlOut(setup, from) => self.control_out(*setup, from, timeout),
            Transfer::BulkIn(endpoint, to) => self.bulk_in(*endpoint, to, timeout),
            Transfer::BulkOut(endpoint, from) => self.bulk_out(*endpoint, from, timeout),
        };
        transfers.iter_mut().map(one).collect()
    }

    /// An asynchronous bulk transfer to the device's endpoint, in order on one endpoint. If the transport does not
    /// support that, it completes before this returns.
    ///
    /// # Errors
    /// As [`UsbPipe::control_in`].
    fn submit(
        &self,
        endpoint: u8,
        bytes: Vec<u8>,
        timeout: Duration,
    ) -> Result<Box<dyn Flight + '_>, TransportError> {
        let moved = self.queue(&mut [Transfer::BulkOut(endpoint, &bytes)], timeout)?;
        Ok(Box::new(Completed(moved.first().copied().unwrap_or(0))))
    }

    /// Clears the halt of an endpoint on both sides, which resets their toggles.
    ///
    /// # Errors
    /// As [`UsbPipe::control_in`]; [`Fault::Unsupported`].
    fn clear_halt(&self, endpoint: u8) -> Result<(), TransportError> {
        let operation = format!("clear the halt of endpoint {endpoint:#x}");
        let fault = Fault::Unsupported("not available on this transport".into());
        Err(TransportError::new(self.name(), operation, fault))
    }

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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Arc;

    /// A device, and a machine, that accepts everything and answers zeros, but for the ioctl that it
    /// refuses.
    pub(crate) struct Zeros;

    impl Pci for Zeros {
        fn name(&self) -> &str {
            "zeros"
        }
        fn bar(&self, _: u8) -> Result<Window, TransportError> {
            let view = View::alloc(0x1000, 0x1000).unwrap();
            Ok(Window::mapped("zeros", view))
        }
        fn config_read(&self, _: u16, _: AccessWidth) -> Result<u32, TransportError> {
            Ok(0)
        }
        fn config_write(&self, _: u16, _: AccessWidth, _: u32) -> Result<(), TransportError> {
            Ok(())
        }
        fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
            let addr = BusAddr(0x1_0000_0000);
            let ranges = vec![BusRange { addr, bytes }];
            Ok(Dma {
                view: View::alloc(bytes as usize, align as usize).unwrap(),
                ranges: BusRanges::new(Domain::BUS, ranges),
            })
        }
        fn reset(&self, _: ResetKind) -> Result<(), TransportError> {
            Ok(())
        }
        fn wait_irq(&self, _: u32, deadline: Deadline) -> Result<u64, TransportError> {
            let fault = Fault::TimedOut(deadline.limit());
            Err(TransportError::new("zeros", "wait for interrupt", fault))
        }
    }

    impl UsbPipe for Zeros {
        fn name(&self) -> &str {
            "zeros"
        }
        fn control_in(
            &self,
            _: Setup,
            to: &mut [u8],
            _: Duration,
        ) -> Result<usize, TransportError> {
            Ok(to.len())
        }
        fn control_out(&self, _: Setup, from: &[u8], _: Duration) -> Result<usize, TransportError> {
            Ok(from.len())
        }
        fn bulk_in(&self, _: u8, to: &mut [u8], _: Duration) -> Result<usize, TransportError> {
            Ok(to.len())
        }
        fn bulk_out(&self, _: u8, from: &[u8], _: Duration) -> Result<usize, TransportError> {
            Ok(from.len())
        }
    }

    impl DevFile for Zeros {
        fn name(&self) -> &str {
            "zeros"
        }
        fn ioctl(&self, request: &mut Request<'_, '_>) -> Result<i32, TransportError> {
            match request.ioctl().name {
                name @ "IOC_REFUSED" => Err(TransportError::new(
                    "zeros",
                    name,
                    Fault::Errno(errno::ENOTTY),
                )),
                _ => Ok(0),
            }
        }
        fn mmap(&self, map: Map) -> Result<View, TransportError> {
            Ok(View::alloc(map.len, 0x1000).unwrap())
        }
    }

    impl Machine for Zeros {
        fn open(&self, _: &str) -> Result<Arc<dyn DevFile>, TransportError> {
            Ok(Arc::new(Zeros))
        }
        fn read(&self, _: &str) -> Result<String, TransportError> {
            Ok("0\n".into())
        }
        fn list(&self, _: &str) -> Result<Vec<String>, TransportError> {
            Ok(vec!["a".into(), "b".into()])
        }
        fn reserve(&self, bytes: u64, _: u64, _: u64) -> Result<Reserved, TransportError> {
            Ok(Reserved::new(0x7000_0000, bytes, Arc::new(())))
        }
        fn memory(&self, bytes: u64, align: u64) -> Result<View, TransportError> {
            Ok(View::alloc(bytes as usize, align as usize).unwrap())
        }
        fn per_process(&self) -> &PerProcess {
            static PER_PROCESS: PerProcess = PerProcess::new();
            &PER_PROCESS
        }
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
