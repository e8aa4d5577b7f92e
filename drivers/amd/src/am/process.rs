//! [`Process`]: what the cards that this process has open share: their addresses, and memory that several of them
//! reach. It is kept with the machine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use drivers_gpu::interface::Space;
use hcq::mem::tlsf::Tlsf;
use hcq::mem::window::Window;
use hcq::transport::Machine;
use hcq::{DeviceId, Error, GpuVa};

use super::pages::{LAST, PAGE, START};
use super::running::Running;

/// What cards share.
pub(super) struct Process {
    /// Which addresses belong to what.
    pub(super) space: Arc<Space>,
    addresses: Mutex<Tlsf>,
    shared: Mutex<Shared>,
}

/// Memory that cards share, as they know of it.
pub(super) trait SharedMemory: Send + Sync {
    /// The address.
    fn va(&self) -> GpuVa;

    /// Its size in bytes, whole pages.
    fn bytes(&self) -> u64;

    /// The host's way to it.
    fn window(&self) -> Option<&Window>;

    /// Whether a card knows it.
    fn is_mapped_for(&self, card: &Arc<Running>) -> bool;

    /// Maps it for another card of the process, if there is a way from there.
    ///
    /// # Errors
    /// Those of the page tables, for memory that every card must reach.
    fn share(&self, card: &Arc<Running>) -> Result<(), Error>;
}

/// Cards that are open, and what they share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) cards: Vec<Weak<Running>>,
    pub(super) memories: Vec<Weak<dyn SharedMemory>>,
}

impl Process {
    /// That of a machine.
    ///
    /// # Errors
    /// [`Error::Os`]: cannot be, the addresses are as they should.
    pub(super) fn on(machine: &dyn Machine, device: &DeviceId) -> Result<Arc<Process>, Error> {
        machine.kept().get_or_make(|| {
            let all = (LAST.0 - START.0) & !(PAGE - 1);
            let addresses = Tlsf::new(START.0, all, PAGE);
            let addresses = addresses.map_err(|error| Error::Os {
                device: device.clone(),
                call: "addresses of the GPU".into(),
                source_text: error.to_string(),
                errno: None,
                hint: "This is a defect of the program".into(),
            })?;
            Ok(Process {
                space: Arc::default(),
                addresses: Mutex::new(addresses),
                shared: Mutex::default(),
            })
        })
    }

    /// Addresses for so many bytes, with a page behind them that stays without memory: whoever goes too far is told.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn addresses(
        &self,
        device: &DeviceId,
        bytes: u64,
        align: u64,
    ) -> Result<GpuVa, Error> {
        let mut addresses = lock(&self.addresses);
        let found = addresses.alloc(bytes.saturating_add(PAGE), align);
        found.map(GpuVa).map_err(|error| {
            let stats = addresses.stats();
            Error::OutOfMemory {
                device: device.clone(),
                asked: bytes,
                free: stats.free,
                total: stats.size,
                hint: format!(" of the addresses that GPUs of the process share ({error})"),
            }
        })
    }

    /// Gives addresses back.
    pub(super) fn give_back(&self, va: GpuVa) {
        // What was not given out is not taken back.
        let freed = lock(&self.addresses).free(va.0);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }

    /// What is shared, for as long as nobody else may change it.
    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    /// The memory with an address, and where in it the address is.
    pub(super) fn memory_at(&self, va: u64) -> Option<(Arc<dyn SharedMemory>, u64)> {
        // Upgraded outside of the lock: the last handle of one may be this one.
        let all: Vec<_> = self
            .shared()
            .memories
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        all.into_iter().find_map(|memory| {
            let offset = va.checked_sub(memory.va().0)?;
            (offset < memory.bytes()).then_some((memory, offset))
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one call of a collection.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
