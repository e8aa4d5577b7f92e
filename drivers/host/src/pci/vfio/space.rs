//! [`Space`]: addresses on the bus behind an IOMMU, which are those of a container, and memory that is mapped there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drivers_spec::vfio::IovaRange;
use hcq::addr::{BusAddr, BusRange, BusRanges, Domain};
use hcq::mem::tlsf::Tlsf;
use hcq::mem::view::View;
use hcq::transport::{Dma, Fault, TransportError};

use super::request::Descriptor;
use crate::range::page_size;
use crate::reserve::memory;

/// Below are addresses that other parts of a machine may mean by themselves.
const LOWEST: u64 = 1 << 20;
/// Every GPU that this is for sends addresses of 44 bits at least.
const HIGHEST: u64 = (1 << 44) - 1;

/// The addresses that functions of a container can be given.
pub(super) struct Space {
    /// Who has these addresses.
    pub(super) domain: Domain,
    free: Mutex<Tlsf>,
    /// First and last address of what it gives.
    given: (u64, u64),
    pub(super) container: Descriptor,
}

impl Space {
    /// The largest range that the IOMMU of a container translates.
    pub(super) fn of(container: Descriptor, address: &str) -> Result<Arc<Space>, TransportError> {
        let all = translated(&container)?;
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
            let why = format!("the IOMMU translates no addresses for it: {all:x?}");
            TransportError::new(address, "open", Fault::Unsupported(why))
        })?;
        Ok(Arc::new(Space {
            domain: Domain::unique(),
            free: Mutex::new(free),
            given,
            container,
        }))
    }

    /// Whether all that it gives is translated for each group that is in its container by now.
    ///
    /// Source: Linux, drivers/vfio/vfio_iommu_type1.c, vfio_iommu_type1_attach_group: what a group reserves is taken out of
    /// the ranges of a container.
    pub(super) fn is_translated(&self) -> Result<bool, TransportError> {
        let all = translated(&self.container)?;
        let (first, last) = self.given;
        Ok(all
            .iter()
            .any(|range| range.start <= first && last <= range.end))
    }

    fn free(&self) -> MutexGuard<'_, Tlsf> {
        // An allocator that was left by half gives fewer addresses, none twice.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Zeroed memory that the functions find in one range at a multiple of `align`. The group stays in the container as
    /// long as somebody has it.
    ///
    /// # Errors
    /// [`Fault::Errno`]: ENOMEM where there are no such addresses, no memory, or none that this process may lock.
    pub(super) fn dma(
        self: &Arc<Self>,
        group: &Arc<Descriptor>,
        bytes: u64,
        align: u64,
    ) -> Result<Dma, Fault> {
        let view = memory(bytes, page_size() as u64).map_err(|error| error.fault)?;
        let mapping = self.map(group, &view, align)?;
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
        group: &Arc<Descriptor>,
        view: &View,
        align: u64,
    ) -> Result<Mapping, Fault> {
        let bytes = view.len() as u64;
        let at = self.free().alloc(bytes, align.max(page_size() as u64));
        // As with memory: what is given back makes room.
        let at = at.map_err(|_| Fault::Errno(libc::ENOMEM))?;
        if let Err(error) = self.container.map_dma(view, at) {
            // Nobody was told of it.
            _ = self.free().free(at);
            return Err(error.fault);
        }
        Ok(Mapping {
            at,
            bytes,
            _group: group.clone(),
            space: self.clone(),
        })
    }
}

/// What an IOMMU translates for a container.
fn translated(container: &Descriptor) -> Result<Vec<IovaRange>, TransportError> {
    let ranges = container.ranges()?;
    // Kernels before 5.4 do not tell: what all IOMMUs translate, without the addresses of interrupts.
    let usual = IovaRange {
        start: LOWEST,
        end: 0xfedf_ffff,
    };
    Ok(match ranges.is_empty() {
        true => vec![usual],
        false => ranges,
    })
}

/// Memory that is mapped, until this is dropped.
pub(super) struct Mapping {
    at: u64,
    bytes: u64,
    _group: Arc<Descriptor>,
    space: Arc<Space>,
}

impl Mapping {
    /// Where functions of the container find it.
    fn ranges(&self) -> BusRanges {
        let addr = BusAddr(self.at);
        let bytes = self.bytes;
        BusRanges::new(self.space.domain, vec![BusRange { addr, bytes }])
    }

    /// Where they find its first bytes; none where there are fewer.
    pub(super) fn first(&self, bytes: u64) -> Option<BusRanges> {
        let addr = BusAddr(self.at);
        let range = BusRange { addr, bytes };
        (bytes <= self.bytes).then(|| BusRanges::new(self.space.domain, vec![range]))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let Mapping {
            space, at, bytes, ..
        } = self;
        match space.container.unmap_dma(*at, *bytes) {
            Ok(()) => _ = space.free().free(*at),
            // The pages stay pinned and the address taken: nothing else is ever found there.
            Err(error) => tracing::error!(target: "hcq::host", %error, at, bytes, "stays mapped"),
        }
    }
}
