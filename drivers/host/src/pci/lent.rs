//! Functions that the crate `pci-driver` has opened, as ours: a program that has one hands it to our drivers.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use drivers_host::machine::Host;
//! use drivers_host::pci::lent::Container;
//! use pci_driver::backends::vfio::VfioPciDevice;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address = "0000:03:00.0";
//! let device = Arc::new(VfioPciDevice::open(format!("/sys/bus/pci/devices/{address}"))?);
//! // All bus addresses are for us: the program maps nothing at any itself.
//! let container = Container::new(device.clone(), 0..=u64::MAX)?;
//! let function = container.function(address, device)?;
//! // A driver opens it on this machine by its address, as `drivers_amd::open_pci` does.
//! let machine = Host::lending(vec![function]);
//! # let _ = machine.open_pci(address)?;
//! # Ok(())
//! # }
//! ```
//!
//! Features missing in the crate are refused: bus resets, and 8-byte writes to a BAR that VFIO does not allow to be
//! mapped. One interrupt only: the crate hides that the kernel grants fewer than requested, and none then. No mode
//! without IOMMU.

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use drivers_spec::vfio::IovaRange;
use hcq::addr::{BusRanges, Domain};
use hcq::mem::view::View;
use hcq::mem::window::{AccessWidth, Piece, RemoteWindow, Window};
use hcq::transport::{Dma, Fault, Pci, Prot, ResetKind, TransportError};
use hcq::wait::Deadline;
use nix::errno::Errno;
use pci_driver::device::PciDevice;
use pci_driver::regions::{OwningPciRegion, PciRegion, Permissions};

use super::System;
use super::quiet::{Config, quiet};
use super::space::{Iommu, ShownBars, Space};
use super::vfio::calls::{Calls, this, until};
use super::vfio::regions::elements;
use crate::devfile::{fault, refused};
use crate::range::page_size;
use crate::reserve::view;

/// The most that the crate writes at a time.
const WIDEST: usize = 4;

/// Functions behind one IOMMU, and the bus addresses of memory mapped for them.
#[derive(Clone)]
pub struct Container(Arc<Space<Lender>>);

/// Who maps memory: any device of the container.
struct Lender(Arc<dyn PciDevice>);

impl Container {
    /// That of a device. `within` are the bus addresses that are used here; the program maps nothing there itself.
    ///
    /// # Errors
    /// No addresses among them that the IOMMU translates, larger pages than those of the system.
    pub fn new(
        device: Arc<dyn PciDevice>,
        within: RangeInclusive<u64>,
    ) -> Result<Container, TransportError> {
        let iommu = device.iommu();
        let align = iommu.alignment();
        if align > page_size() {
            let why = format!("IOMMU pages of {align:#x} bytes are larger than the system's");
            let fault = Fault::Unsupported(why);
            return Err(TransportError::new("the IOMMU", "open", fault));
        }
        // Ends are exclusive here.
        let all = iommu.valid_iova_ranges().iter().map(|range| IovaRange {
            start: range.start.max(*within.start()),
            end: range.end.saturating_sub(1).min(*within.end()),
        });
        let all: Vec<_> = all.collect();
        let space = Space::of(Lender(device), &all, "the IOMMU")?;
        Ok(Container(space))
    }

    /// A function of this container. `address` is its name, `0000:03:00.0`. The returned object owns its
    /// configuration, BARs and interrupts; dropping it stops the function's DMA.
    ///
    /// # Errors
    /// Interrupts that cannot be had.
    pub fn function(
        &self,
        address: &str,
        device: Arc<dyn PciDevice>,
    ) -> Result<Arc<dyn Pci>, TransportError> {
        let event = Event::of(&*device).map_err(|e| refused(address, "its interrupt", &e))?;
        Ok(Arc::new(Lent {
            shown: ShownBars::new(),
            address: address.into(),
            event,
            config: ConfigSpace {
                address: address.into(),
                device: device.clone(),
            },
            device,
            space: self.0.clone(),
        }))
    }
}

impl Iommu for Lender {
    fn map(&self, view: &View, at: u64) -> Result<(), TransportError> {
        let (from, bytes) = (view.as_ptr(), view.len());
        Errno::clear();
        // SAFETY: a view is memory that others may change at any time, and who unmaps it first takes this away
        // (`Mapping`).
        let mapped = unsafe {
            let iommu = self.0.iommu();
            iommu.map(at, bytes, from, Permissions::ReadWrite)
        };
        // Read before anything else is called.
        let last = Errno::last_raw();
        mapped.map_err(|error| {
            let fault = no_map(&error, last);
            TransportError::new("the IOMMU", "map for DMA", fault)
        })
    }

    fn unmap(&self, at: u64, bytes: u64) -> Result<(), TransportError> {
        let unmapped = self.0.iommu().unmap(at, bytes as usize);
        unmapped.map_err(|error| refused("the IOMMU", "unmap for DMA", &error))
    }
}

/// Why memory is not mapped. The crate keeps what the system said as text alone: its number is what the system said last. Where
/// it said nothing, the crate refuses by itself.
fn no_map(error: &io::Error, last: i32) -> Fault {
    if error.raw_os_error().is_some() || last == 0 {
        return fault(error);
    }
    tracing::debug!(target: "hcq::host", %error, last, "could not map memory");
    Fault::Errno(last)
}

/// The first interrupt, told of from now on.
struct Event {
    calls: Arc<dyn Calls>,
    fd: OwnedFd,
}

impl Event {
    /// That of a device; none where it has no message signalled interrupts.
    fn of(device: &dyn PciDevice) -> io::Result<Option<Event>> {
        if device.interrupts().msi().max() == 0 {
            return Ok(None);
        }
        let calls = this(&System::this());
        // SAFETY: the number was given to this alone.
        let fd = unsafe { OwnedFd::from_raw_fd(calls.event()?) };
        device.interrupts().msi().enable(&[fd.as_raw_fd()])?;
        Ok(Some(Event { calls, fd }))
    }
}

/// See [`Container::function`]. What comes first is closed first.
struct Lent {
    shown: ShownBars<Lender>,
    address: String,
    event: Option<Event>,
    config: ConfigSpace,
    device: Arc<dyn PciDevice>,
    space: Arc<Space<Lender>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        // It is the parent's.
        if self.space.generation != hcq::process_generation() {
            return;
        }
        // What the kernel does for who closes the device; this one stays open.
        let address = &*self.address;
        if let Err(error) = quiet(address, &self.config) {
            tracing::error!(target: "hcq::host", %error, address, "could not stop its DMA: it may still access memory");
        }
        if self.event.is_some()
            && let Err(error) = self.device.interrupts().msi().disable()
        {
            tracing::warn!(target: "hcq::host", %error, address, "could not disable its interrupt");
        }
    }
}

impl Lent {
    fn failed(&self, operation: impl Into<String>, fault: Fault) -> TransportError {
        TransportError::new(&*self.address, operation, fault)
    }

    fn refused(&self, operation: &str, why: &str) -> TransportError {
        self.failed(operation, Fault::Unsupported(why.into()))
    }

    fn region(&self, n: u8) -> Result<OwningPciRegion, TransportError> {
        let region = |n: u8| self.device.bar(usize::from(n));
        region(n).ok_or_else(|| {
            let there = (0..6u8).filter(|n| region(*n).is_some());
            let there: Vec<_> = there.map(|n| n.to_string()).collect();
            let why = format!("no such BAR; the function has {}", there.join(", "));
            self.refused(&format!("BAR{n}"), &why)
        })
    }

    /// The view of a BAR that can be mapped; none of others.
    fn view(&self, n: u8) -> Result<Option<View>, TransportError> {
        let region = self.region(n)?;
        if !region.is_mappable() || !region.len().is_multiple_of(page_size() as u64) {
            return Ok(None);
        }
        let mapped = region.map(.., Permissions::ReadWrite);
        let mapped = mapped.map_err(|e| refused(&self.address, &format!("map BAR{n}"), &e))?;
        let (ptr, len) = (NonNull::new(mapped.as_mut_ptr()), mapped.len());
        let ptr = ptr.ok_or_else(|| self.refused(&format!("map BAR{n}"), "mapped at address 0"))?;
        // SAFETY: mapped for as long as the owner lives, which makes no reference to what is there.
        Ok(Some(unsafe {
            view(ptr, len, Prot::ReadWrite, Arc::new(mapped))
        }))
    }
}

impl Pci for Lent {
    fn name(&self) -> &str {
        &self.address
    }

    fn bar(&self, n: u8) -> Result<Window, TransportError> {
        let name = format!("{} BAR{n}", self.address);
        if let Some(view) = self.view(n)? {
            return Ok(Window::mapped(name, view));
        }
        let region = self.region(n)?;
        let name = &*name;
        Ok(Window::remote(
            name,
            Arc::new(Bar {
                name: name.into(),
                region,
            }),
        ))
    }

    fn config_read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        self.config.read(offset, width)
    }

    fn config_write(
        &self,
        offset: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), TransportError> {
        self.config.write(offset, width, value)
    }

    fn dma(&self, bytes: u64, align: u64) -> Result<Dma, TransportError> {
        let operation = format!("map {bytes:#x} bytes aligned to {align:#x}");
        if !align.is_power_of_two() || bytes == 0 {
            return Err(self.refused(&operation, "expected whole pages"));
        }
        let dma = self.space.dma(Arc::new(self.device.clone()), bytes, align);
        let how = ": locked in memory (`ulimit -l`)";
        dma.map_err(|fault| self.failed(format!("{operation}{how}"), fault))
    }

    fn domain(&self) -> Domain {
        self.space.domain
    }

    fn shown(&self, n: u8, bytes: u64) -> Result<BusRanges, TransportError> {
        let (bar, user) = ((&*self.address, n, bytes), Arc::new(self.device.clone()));
        self.shown.find(&self.space, user, bar, || self.view(n))
    }

    fn reset(&self, kind: ResetKind) -> Result<(), TransportError> {
        let operation = format!("{kind} reset");
        match kind {
            ResetKind::Function => {
                let done = self.device.reset();
                done.map_err(|error| refused(&self.address, &operation, &error))
            }
            ResetKind::Bus | ResetKind::Power => {
                Err(self.refused(&operation, "not supported by the crate pci-driver"))
            }
        }
    }

    fn wait_irq(&self, vector: u32, deadline: Deadline) -> Result<u64, TransportError> {
        let operation = format!("wait for interrupt {vector}");
        let event = self.event.as_ref().filter(|_| vector == 0);
        let event = event.ok_or_else(|| {
            let count = usize::from(self.event.is_some());
            self.refused(&operation, &format!("the function has {count} interrupts"))
        })?;
        let came = until(&*event.calls, event.fd.as_raw_fd(), deadline);
        let came = came.map_err(|error| refused(&self.address, &operation, &error))?;
        came.ok_or_else(|| self.failed(operation, Fault::TimedOut(deadline.limit())))
    }
}

/// The configuration space of a function.
struct ConfigSpace {
    address: String,
    device: Arc<dyn PciDevice>,
}

impl Config for ConfigSpace {
    fn read(&self, offset: u16, width: AccessWidth) -> Result<u32, TransportError> {
        let config = self.device.config();
        let read = match width {
            AccessWidth::W64 => Err(too_wide()),
            _ => read(&config, offset.into(), width),
        };
        let what = format!("config read {offset:#x} {} bytes", width.bytes());
        Ok(read.map_err(|e| refused(&self.address, &what, &e))? as u32)
    }

    fn write(&self, offset: u16, width: AccessWidth, value: u32) -> Result<(), TransportError> {
        let written = write(&self.device.config(), offset.into(), width, value.into());
        let what = format!("config write {offset:#x} {} bytes", width.bytes());
        written.map_err(|e| refused(&self.address, &what, &e))
    }
}

/// A BAR that is read and written by calls.
struct Bar {
    name: String,
    region: OwningPciRegion,
}

impl Bar {
    fn done<T>(&self, verb: &str, at: u64, done: io::Result<T>) -> Result<T, TransportError> {
        done.map_err(|error| refused(&self.name, &format!("{verb} {at:#x}"), &error))
    }
}

impl RemoteWindow for Bar {
    fn len(&self) -> u64 {
        self.region.len()
    }

    fn read(&self, offset: u64, width: AccessWidth) -> Result<u64, TransportError> {
        self.done("read", offset, read(&self.region, offset, width))
    }

    fn read_bytes(&self, offset: u64, to: &mut [u8]) -> Result<(), TransportError> {
        elements(offset, to.len(), 8).try_for_each(|(at, range)| {
            let read = self.region.read_bytes(at, &mut to[range]);
            self.done("read", at, read)
        })
    }

    fn write(&self, offset: u64, width: AccessWidth, value: u64) -> Result<(), TransportError> {
        self.done("write", offset, write(&self.region, offset, width, value))
    }

    fn write_many(&self, pieces: &[Piece<'_>]) -> Result<(), TransportError> {
        pieces.iter().try_for_each(|(offset, from)| {
            elements(*offset, from.len(), WIDEST).try_for_each(|(at, range)| {
                let mut word = [0; 8];
                let width = AccessWidth::from_bytes(range.len()).unwrap_or(AccessWidth::W8);
                word[..range.len()].copy_from_slice(&from[range]);
                let value = u64::from_le_bytes(word);
                self.done("write", at, write(&self.region, at, width, value))
            })
        })
    }

    fn send(&self) -> Result<(), TransportError> {
        // A call returns when it is done.
        Ok(())
    }

    fn flush(&self) -> Result<(), TransportError> {
        Ok(())
    }
}

fn too_wide() -> io::Error {
    let why = "at most 4 bytes at a time (crate pci-driver)";
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// One element, in one access.
fn read(region: &impl PciRegion, at: u64, width: AccessWidth) -> io::Result<u64> {
    Ok(match width {
        AccessWidth::W8 => region.read_u8(at)?.into(),
        AccessWidth::W16 => region.read_le_u16(at)?.into(),
        AccessWidth::W32 => region.read_le_u32(at)?.into(),
        AccessWidth::W64 => {
            let mut word = [0; 8];
            region.read_bytes(at, &mut word)?;
            u64::from_le_bytes(word)
        }
    })
}

/// Likewise.
fn write(region: &impl PciRegion, at: u64, width: AccessWidth, value: u64) -> io::Result<()> {
    match width {
        AccessWidth::W8 => region.write_u8(at, value as u8),
        AccessWidth::W16 => region.write_le_u16(at, value as u16),
        AccessWidth::W32 => region.write_le_u32(at, value as u32),
        AccessWidth::W64 => Err(too_wide()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_want_of_room_is_told_by_its_number() {
        let wrapped = io::Error::other("Failed to set up IOMMU mapping: ENOMEM");
        let of = |error: &io::Error, last| match no_map(error, last) {
            Fault::Errno(errno) => errno,
            other => panic!("{other}"),
        };
        assert_eq!(of(&wrapped, libc::ENOSPC), libc::ENOSPC);
        let own = io::Error::other("the address is not a multiple of the alignment");
        let Fault::Unsupported(text) = no_map(&own, 0) else {
            panic!("a refusal of the crate's own is no want of memory");
        };
        assert_eq!(text, own.to_string());
        let told = io::Error::from_raw_os_error(libc::EFAULT);
        assert_eq!(of(&told, libc::ENOMEM), libc::EFAULT);
    }
}
