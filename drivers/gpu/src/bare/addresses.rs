//! [`Addresses`]: the addresses that the cards of a process share, with their owners.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};

use hcq::mem::tlsf::Tlsf;
use hcq::sync::lock;
use hcq::{DeviceId, Error, GpuVa};

use super::mmu::PAGE;
use crate::backend::Space;

/// Addresses of a process.
pub struct Addresses {
    /// What belongs to what.
    pub space: Arc<Space>,
    free: Mutex<Tlsf>,
}

impl Addresses {
    /// All of a range.
    ///
    /// # Errors
    /// [`Error::Os`]: it has no whole pages.
    pub(super) fn new(device: &DeviceId, all: RangeInclusive<u64>) -> Result<Addresses, Error> {
        let bytes = (all.end() - all.start()) & !(PAGE - 1);
        let free = Tlsf::new(*all.start(), bytes, PAGE);
        let free = free.map_err(|error| Error::Os {
            device: device.clone(),
            call: "GPU address space".into(),
            source_text: error.to_string(),
            errno: None,
            hint: "This is a bug in Doorbell; report it".into(),
        })?;
        Ok(Addresses {
            space: Arc::default(),
            free: Mutex::new(free),
        })
    }

    /// Addresses for `bytes` bytes, followed by an unmapped guard page.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn take(&self, device: &DeviceId, bytes: u64, align: u64) -> Result<GpuVa, Error> {
        let mut free = self.lock();
        let found = free.alloc(bytes.saturating_add(PAGE), align);
        found.map(GpuVa).map_err(|error| {
            let stats = free.stats();
            Error::OutOfMemory {
                device: device.clone(),
                asked: bytes,
                free: stats.free,
                total: stats.size,
                hint: format!(" of the address space shared by the process's GPUs ({error})"),
            }
        })
    }

    /// Gives addresses back.
    pub(super) fn give_back(&self, va: GpuVa) {
        // Only allocated ranges are freed.
        let freed = self.lock().free(va.0);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }

    fn lock(&self) -> MutexGuard<'_, Tlsf> {
        // Each change is one call.
        lock(&self.free)
    }
}
