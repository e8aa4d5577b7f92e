//! Memory of the host for a card: it stays where it is, and its places on the bus do.

use hcq::addr::PhysAddr;
use hcq::transport::errno::{EAGAIN, ENOMEM, ENOSPC, EPERM};
use hcq::transport::{BusRange, Dma, Fault, TransportError};
use hcq::{DeviceId, Error};

use super::function::Function;
use super::mmu::{LARGE, PAGE};
use crate::backend::refused;

/// Memory of the host that stays where it is: in large pages, if it can be had.
pub(super) fn pinned(function: &Function, bytes: u64) -> Result<Dma, Error> {
    let pci = function.pci();
    let large = match bytes.is_multiple_of(LARGE) {
        true => pci.dma(bytes, LARGE).ok(),
        false => None,
    };
    let dma = match large {
        Some(dma) => Ok(dma),
        None => pci.dma(bytes, PAGE),
    };
    dma.map_err(|error| not_pinned(function.device(), bytes, error))
}

fn not_pinned(device: &DeviceId, bytes: u64, error: TransportError) -> Error {
    // VFIO: ENOSPC is no more mappings (`dma_entry_limit` of vfio_iommu_type1).
    match error.fault {
        Fault::Errno(ENOMEM | EAGAIN | ENOSPC) => Error::OutOfMemory {
            device: device.clone(),
            asked: bytes,
            free: 0,
            total: 0,
            hint: format!(" of host memory that can be mapped for cards: {error}"),
        },
        Fault::Errno(EPERM) => Error::NoPermission {
            asked: device.to_string(),
            why: format!(
                "{error}. This process may not lock memory: raise `ulimit -l`, or run as root"
            ),
        },
        _ => refused(
            device,
            &error,
            "Run `doorbell doctor` to check the requirements",
        ),
    }
}

/// The first bytes of ranges: the allocation may be larger than the request.
pub(super) fn cut(ranges: &[BusRange], bytes: u64) -> Vec<(PhysAddr, u64)> {
    let mut left = bytes;
    let fit = |range: &BusRange| {
        let bytes = range.bytes.min(left);
        left -= bytes;
        (bytes > 0).then_some((PhysAddr::Bus(range.addr), bytes))
    };
    ranges.iter().map_while(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcq::transport::errno::EINVAL;

    #[test]
    fn what_cannot_be_pinned_is_told_by_its_number() {
        let device = DeviceId::new("AMD", 0);
        let of = |errno| {
            let fault = Fault::Errno(errno);
            not_pinned(
                &device,
                4096,
                TransportError::new("0000:03:00.0", "map", fault),
            )
        };
        // Cached memory is freed then.
        for errno in [ENOMEM, EAGAIN] {
            assert!(matches!(of(errno), Error::OutOfMemory { asked: 4096, .. }));
        }
        let denied = of(EPERM);
        assert!(matches!(denied, Error::NoPermission { .. }));
        assert!(denied.to_string().contains("ulimit -l"), "{denied}");
        assert!(matches!(
            of(EINVAL),
            Error::Os {
                errno: Some(EINVAL),
                ..
            }
        ));
    }
}
