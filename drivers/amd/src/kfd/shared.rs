//! [`Shared`]: memory that several GPUs of the process reach.
//!
//! It is kept with the machine: a GPU that is opened later is given what the others have.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hcq::transport::{Machine, TransportError};

use super::memory::Memory;
use super::process::{Gpu, Process};

/// Which GPUs reach memory, beside the one that it is allocated on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    /// Those of the process that have a way to it.
    Peers,
    /// Every GPU of the process: it is no use otherwise.
    All,
}

/// Memory of the process that other GPUs reach as well.
#[derive(Default)]
pub(super) struct Shared(Mutex<Vec<(Weak<Memory>, Reach)>>);

impl Shared {
    /// That of a machine.
    pub(super) fn on(machine: &dyn Machine) -> Arc<Shared> {
        let Ok(shared) = machine
            .kept()
            .get_or_make(|| Ok::<_, Infallible>(Shared::default()));
        shared
    }

    /// Maps new memory for the other GPUs that should reach it, and remembers it for those that are
    /// opened later.
    ///
    /// # Errors
    /// The kernel's, for memory that every GPU must reach.
    pub(super) fn share(
        &self,
        process: &Process,
        memory: &Arc<Memory>,
        reach: Reach,
    ) -> Result<(), TransportError> {
        let mut shared = self.lock();
        // Looked at under the lock: a GPU that is opened after that finds the memory here.
        for gpu in process.gpus() {
            map_for(memory, &gpu, reach)?;
        }
        if shared.len() == shared.capacity() {
            shared.retain(|(memory, _)| memory.strong_count() > 0);
        }
        shared.push((Arc::downgrade(memory), reach));
        Ok(())
    }

    /// Maps for a GPU that was just opened what others share with it.
    ///
    /// # Errors
    /// As [`Shared::share`].
    pub(super) fn join(&self, gpu: &Gpu) -> Result<(), TransportError> {
        let shared = self.lock();
        let all = shared.iter();
        for (memory, reach) in all.filter_map(|(m, reach)| Some((m.upgrade()?, *reach))) {
            map_for(&memory, gpu, reach)?;
        }
        Ok(())
    }

    /// The memory with a device's address, and where in it the address is.
    pub(super) fn memory_at(&self, va: u64) -> Option<(Arc<Memory>, u64)> {
        // Upgraded outside of the lock: the last handle of one may be this one.
        let all: Vec<_> = self
            .lock()
            .iter()
            .filter_map(|(m, _)| m.upgrade())
            .collect();
        all.into_iter().find_map(|memory| {
            let offset = va.checked_sub(memory.va())?;
            (offset < memory.bytes()).then_some((memory, offset))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Weak<Memory>, Reach)>> {
        // Entries are pushed whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maps memory for another GPU that should reach it.
fn map_for(memory: &Memory, gpu: &Gpu, reach: Reach) -> Result<(), TransportError> {
    match reach {
        Reach::All => memory.map(gpu.id),
        Reach::Peers if !memory.reachable(gpu) => Ok(()),
        Reach::Peers => {
            // Copies between the two go through host memory then.
            if let Err(error) = memory.map(gpu.id) {
                tracing::debug!(%error, va = memory.va(), gpu = gpu.id, "not mapped for a peer");
            }
            Ok(())
        }
    }
}
