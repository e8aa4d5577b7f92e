//! [`Process`]: the open file of this process and what it has of the GPU. It lives as long as a device or memory of it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, Weak};

use drivers_gpu::backend::Space;
use hcq::sync::lock;
use hcq::transport::{DevFile, Machine};

use super::survey::{self, Found};
use crate::backend::Unusable;
use crate::backend::heap::{Heap, Object};

/// KGSL's side of this process.
pub(super) struct Process<M> {
    /// The file.
    pub(super) file: Arc<dyn DevFile>,
    /// The GPU behind it.
    pub(super) found: Found,
    /// The names of its addresses.
    pub(super) space: Arc<Space>,
    /// Its memory.
    pub(super) heap: Heap<M>,
    /// Pages of the process that were imported.
    pub(super) imported: Mutex<Vec<Imported<M>>>,
}

/// Pages by their address, their bytes and the number of their mapping, and what they are mapped as. That keeps the mapping, so
/// that nobody else has its number.
pub(super) type Imported<M> = ((u64, u64, usize), Weak<M>);

struct Slot<M>(Mutex<Weak<Process<M>>>);

impl<M: Object + 'static> Process<M> {
    /// The process on a machine; the same for every device that is opened on it.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(super) fn on(machine: &dyn Machine) -> Result<Arc<Process<M>>, Unusable> {
        let Ok(slot) = machine
            .per_process()
            .get_or_make(|| Ok::<_, Infallible>(Slot::<M>(Mutex::default())));
        // Set in one step, after everything that can fail.
        let mut slot = lock(&slot.0);
        if let Some(process) = slot.upgrade() {
            return Ok(process);
        }
        let (file, found) = survey::look(machine)?;
        let process = Arc::new(Process {
            file,
            found,
            space: Arc::default(),
            heap: Heap::default(),
            imported: Mutex::default(),
        });
        *slot = Arc::downgrade(&process);
        Ok(process)
    }
}
