//! [`Space`]: the bus addresses of a container behind an IOMMU, and memory mapped there.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};

use drivers_spec::vfio::IovaRange;
use hcq::addr::{BusAddr, BusRange, BusRanges, Domain};
use hcq::mem::tlsf::Tlsf;
use hcq::mem::view::View;
use hcq::sync::lock;
use hcq::transport::{Dma, Fault, TransportError};

use crate::range::page_size;
use crate::reserve::memory;

/// Below are addresses that other parts of a machine may mean by themselves.
pub(super) const LOWEST: u64 = 1 << 20;
/// Every GPU that this is for sends addresses of 44 bits at least.
const HIGHEST: u64 = (1 << 44) - 1;

/// Who maps memory of this process for functions.
pub(super) trait Iommu: Send + Sync + 'static {
    /// Maps all of a view, for reads and writes, at a bus address. The view is kept until it is unmapped.
    ///
    /// # Errors
    /// The system's.
    fn map(&self, view: &View, at: u64) -> Result<(), TransportError>;

    /// Takes a whole mapping away.
    ///
    /// # Errors
    /// The system's; it stays then.
    fn unmap(&self, at: u64, bytes: u64) -> Result<(), TransportError>;
}

/// The addresses that functions of a container can be given.
pub(super) struct Space<I: Iommu> {
    /// The owner of these addresses.
    pub(super) domain: Domain,
    free: Mutex<Tlsf>,
    /// First and last address of what it gives.
    given: (u64, u64),
    pub(super) iommu: I,
    /// The process that has it: what a child of it drops is not its own.
    pub(super) generation: u32,
}

impl<I: Iommu> Space<I> {
    /// The largest of the ranges that an IOMMU translates.
    pub(super) fn of(
        iommu: I,
        all: &[IovaRange],
        address: &str,
    ) -> Result<Arc<Space<I>>, TransportError> {
        let cut = |range: &IovaRange| {
            let (start, end) = (range.start.max(LOWEST), range.end.min(HIGHEST));
            let bytes = end.checked_sub(start)?.checked_add(1)?;
            Some((start, bytes))
        };
        let page = page_size() as u64;
        let largest = all.iter().filter_map(cut).max_by_key(|(_, bytes)| *bytes);
        let made = largest.and_then(|(start, bytes)| {
            let first = start.next_multiple_of(page);
            let bytes = (start + bytes).checked_sub(first)? & !(page - 1);
            let free = Tlsf::new(first, bytes, page).ok()?;
            Some((free, (first, first + (bytes - 1))))
        });
        let (free, given) = made.ok_or_else(|| {
            let why = format!("no usable IOMMU address range: {all:x?}");
            TransportError::new(address, "open", Fault::Unsupported(why))
        })?;
        Ok(Arc::new(Space {
            domain: Domain::unique(),
            free: Mutex::new(free),
            given,
            iommu,
            generation: hcq::process_generation(),
        }))
    }

    /// Whether all that it gives lies in these ranges.
    pub(super) fn is_within(&self, all: &[IovaRange]) -> bool {
        let (first, last) = self.given;
        let has = |range: &IovaRange| range.start <= first && last <= range.end;
        all.iter().any(has)
    }

    fn free(&self) -> MutexGuard<'_, Tlsf> {
        // An allocator that was left by half gives fewer addresses, none twice.
        lock(&self.free)
    }

    /// Zeroed memory that the functions find in one range at a multiple of `align`. The user of the space, a group or a
    /// device, is kept as long as somebody has the memory.
    ///
    /// # Errors
    /// [`Fault::Errno`]: ENOMEM where there are no such addresses, no memory, or none that this process may lock.
    pub(super) fn dma(
        self: &Arc<Self>,
        user: Arc<dyn Any + Send + Sync>,
        bytes: u64,
        align: u64,
    ) -> Result<Dma, Fault> {
        let view = memory(bytes, page_size() as u64).map_err(|error| error.fault)?;
        let mapping = self.map(user, &view, align)?;
        let ranges = mapping.ranges();
        Ok(Dma {
            view: view.with_guard(mapping),
            ranges,
        })
    }

    /// Lets the functions find all of a view, until the mapping is dropped. The view is not kept.
    ///
    /// # Errors
    /// As [`Space::dma`].
    pub(super) fn map(
        self: &Arc<Self>,
        user: Arc<dyn Any + Send + Sync>,
        view: &View,
        align: u64,
    ) -> Result<Mapping<I>, Fault> {
        let bytes = view.len() as u64;
        let at = self.free().alloc(bytes, align.max(page_size() as u64));
        // As with memory: what is given back makes room.
        let at = at.map_err(|_| Fault::Errno(libc::ENOMEM))?;
        if let Err(error) = self.iommu.map(view, at) {
            // No function has its address.
            _ = self.free().free(at);
            return Err(error.fault);
        }
        Ok(Mapping {
            at,
            bytes,
            _user: user,
            space: self.clone(),
        })
    }
}

/// Memory that is mapped, until this is dropped.
pub(super) struct Mapping<I: Iommu> {
    at: u64,
    bytes: u64,
    _user: Arc<dyn Any + Send + Sync>,
    space: Arc<Space<I>>,
}

impl<I: Iommu> Mapping<I> {
    /// Where functions of the container find it.
    fn ranges(&self) -> BusRanges {
        let addr = BusAddr(self.at);
        let bytes = self.bytes;
        BusRanges::new(self.space.domain, vec![BusRange { addr, bytes }])
    }

    /// Where they find its first bytes; none where there are fewer.
    fn first(&self, bytes: u64) -> Option<BusRanges> {
        let addr = BusAddr(self.at);
        let range = BusRange { addr, bytes };
        (bytes <= self.bytes).then(|| BusRanges::new(self.space.domain, vec![range]))
    }
}

impl<I: Iommu> Drop for Mapping<I> {
    fn drop(&mut self) {
        let Mapping {
            space, at, bytes, ..
        } = self;
        // It is the parent's.
        if space.generation != hcq::process_generation() {
            return;
        }
        match space.iommu.unmap(*at, *bytes) {
            Ok(()) => _ = space.free().free(*at),
            // The pages stay pinned and the address taken: nothing else is ever found there.
            Err(error) => {
                tracing::error!(target: "hcq::host", %error, at, bytes, "could not unmap")
            }
        }
    }
}

/// A BAR that is mapped for other functions; or why it is not.
type Shown<I> = Result<(Mapping<I>, View), TransportError>;

/// BARs of a function that others of its container find, each by its number, for as long as the function is open.
pub(super) struct ShownBars<I: Iommu>(Mutex<Vec<(u8, Shown<I>)>>);

impl<I: Iommu> ShownBars<I> {
    /// None yet.
    pub(super) fn new() -> ShownBars<I> {
        ShownBars(Mutex::default())
    }

    /// Where others find the first `bytes` bytes of BAR `n`. It is mapped for them when that is asked for the first time:
    /// `view` gives it to the host, or none where nobody may map it.
    ///
    /// # Errors
    /// Those of `view`, what the system refused, fewer bytes.
    pub(super) fn find(
        &self,
        space: &Arc<Space<I>>,
        user: Arc<dyn Any + Send + Sync>,
        (address, n, bytes): (&str, u8, u64),
        view: impl FnOnce() -> Result<Option<View>, TransportError>,
    ) -> Result<BusRanges, TransportError> {
        /// The largest page of an IOMMU.
        const LARGEST: u64 = 1 << 30;
        let failed = |fault| {
            let operation = format!("map BAR{n} for other functions");
            TransportError::new(address, operation, fault)
        };
        let show = || {
            let view = view()?.ok_or_else(|| {
                failed(Fault::Unsupported("VFIO does not allow mapping it".into()))
            })?;
            let align = (view.len() as u64).next_power_of_two().min(LARGEST);
            let mapping = space.map(user, &view, align).map_err(failed)?;
            Ok((mapping, view))
        };
        // Entries are pushed whole.
        let mut shown = lock(&self.0);
        let found = shown.iter().position(|(number, _)| *number == n);
        let at = match found {
            Some(at) => at,
            None => {
                let made: Shown<I> = show();
                // Memory and addresses may be free another time; what else the kernel refuses it refuses again.
                if let Err(error) = &made
                    && matches!(error.fault, Fault::Errno(libc::ENOMEM | libc::ENOSPC))
                {
                    return Err(error.clone());
                }
                shown.push((n, made));
                shown.len() - 1
            }
        };
        let (mapping, _) = shown[at].1.as_ref().map_err(Clone::clone)?;
        mapping.first(bytes).ok_or_else(|| {
            let why = Fault::Unsupported(format!("BAR{n} is smaller than {bytes:#x} bytes"));
            TransportError::new(address, format!("BAR{n} for other functions"), why)
        })
    }
}
