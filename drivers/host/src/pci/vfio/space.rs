//! [`Space`]: addresses on the bus behind an IOMMU, and memory that is mapped there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drivers_spec::vfio::IovaRange;
use hcq::addr::BusAddr;
use hcq::mem::tlsf::Tlsf;
use hcq::transport::{BusRange, Dma, Fault, TransportError};

use super::request::Descriptor;
use crate::range::page_size;
use crate::reserve::memory;

/// Below are addresses that other parts of a machine may mean by themselves.
const LOWEST: u64 = 1 << 20;
/// Every GPU that this is for sends addresses of 44 bits at least.
const HIGHEST: u64 = (1 << 44) - 1;

/// The addresses that a function can be given. The group is in the container as long as something is mapped.
pub(super) struct Space {
    free: Mutex<Tlsf>,
    _group: Arc<Descriptor>,
    container: Descriptor,
}

impl Space {
    /// The largest range that the IOMMU of a container translates.
    pub(super) fn of(
        container: Descriptor,
        group: Arc<Descriptor>,
        address: &str,
    ) -> Result<Arc<Space>, TransportError> {
        let ranges = container.ranges()?;
        // Kernels before 5.4 do not tell: what all IOMMUs translate, without the addresses of interrupts.
        let usual = IovaRange {
            start: LOWEST,
            end: 0xfedf_ffff,
        };
        let cut = |range: &IovaRange| {
            let (start, end) = (range.start.max(LOWEST), range.end.min(HIGHEST));
            let bytes = end.checked_sub(start)?.checked_add(1)?;
            Some((start, bytes))
        };
        let all = match ranges.is_empty() {
            true => vec![usual],
            false => ranges,
        };
        let page = page_size() as u64;
        let largest = all.iter().filter_map(cut).max_by_key(|(_, bytes)| *bytes);
        let free = largest.and_then(|(start, bytes)| {
            let first = start.next_multiple_of(page);
            let bytes = (start + bytes).checked_sub(first)? & !(page - 1);
            Tlsf::new(first, bytes, page).ok()
        });
        let free = free.ok_or_else(|| {
            let why = format!("the IOMMU translates no addresses for it: {all:x?}");
            TransportError::new(address, "open", Fault::Unsupported(why))
        })?;
        Ok(Arc::new(Space {
            free: Mutex::new(free),
            _group: group,
            container,
        }))
    }

    fn free(&self) -> MutexGuard<'_, Tlsf> {
        // An allocator that was left by half gives fewer addresses, none twice.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Zeroed memory that the function finds in one range at a multiple of `align`.
    ///
    /// # Errors
    /// [`Fault::Errno`]: ENOMEM where there are no such addresses, no memory, or none that this process may lock.
    pub(super) fn dma(self: &Arc<Self>, bytes: u64, align: u64) -> Result<Dma, Fault> {
        let page = page_size() as u64;
        let view = memory(bytes, page).map_err(|error| error.fault)?;
        let bytes = view.len() as u64;
        let at = self.free().alloc(bytes, align.max(page));
        // As with memory: what is given back makes room.
        let at = at.map_err(|_| Fault::Errno(libc::ENOMEM))?;
        if let Err(error) = self.container.map_dma(&view, at) {
            // Nobody was told of it.
            _ = self.free().free(at);
            return Err(error.fault);
        }
        let space = self.clone();
        let view = view.with_guard(Mapping { space, at, bytes });
        let addr = BusAddr(at);
        Ok(Dma {
            view,
            ranges: vec![BusRange { addr, bytes }],
        })
    }
}

/// Memory that is mapped, until this is dropped.
struct Mapping {
    space: Arc<Space>,
    at: u64,
    bytes: u64,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let Mapping { space, at, bytes } = self;
        match space.container.unmap_dma(*at, *bytes) {
            Ok(()) => _ = space.free().free(*at),
            // The pages stay pinned and the address taken: nothing else is ever found there.
            Err(error) => tracing::error!(target: "hcq::host", %error, at, bytes, "stays mapped"),
        }
    }
}
