//! [`Process`]: the open file of a GPU in this process, and its memory. It lives as long as a device or memory of it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, Weak};

use drivers_gpu::backend::Space;
use drivers_spec::qcom::msm::{GemSubmitBo, SubmitBo};
use hcq::sync::lock;
use hcq::transport::{DevFile, Machine};

use super::survey;
use crate::backend::Unusable;
use crate::backend::heap::{Heap, Object};

/// The kernel driver's side of this process.
pub(super) struct Process<M> {
    /// The render node.
    pub(super) path: String,
    /// The file; its address space is that of all queues.
    pub(super) file: Arc<dyn DevFile>,
    /// The names of its addresses.
    pub(super) space: Arc<Space>,
    /// Its memory.
    pub(super) heap: Heap<M>,
    /// What every submission lists: all memory, in the order of its addresses. Held while memory comes and goes.
    pub(super) listed: Mutex<Vec<GemSubmitBo>>,
    /// Dma-bufs that were imported, by handle.
    pub(super) imported: Mutex<BTreeMap<u32, Weak<M>>>,
}

struct Slots<M>(Mutex<Vec<Weak<Process<M>>>>);

impl<M: Object + 'static> Process<M> {
    /// The process on a machine; the same for every device that is opened on a node.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(super) fn on(machine: &dyn Machine, path: &str) -> Result<Arc<Process<M>>, Unusable> {
        let Ok(slots) = machine
            .per_process()
            .get_or_make(|| Ok::<_, Infallible>(Slots::<M>(Mutex::default())));
        // Others wait until it is there, or not.
        let mut slots = lock(&slots.0);
        slots.retain(|slot| slot.strong_count() > 0);
        let open = slots
            .iter()
            .filter_map(Weak::upgrade)
            .find(|one| one.path == path);
        if let Some(process) = open {
            return Ok(process);
        }
        let process = Arc::new(Process {
            path: path.into(),
            file: survey::open(machine, path)?,
            space: Arc::default(),
            heap: Heap::default(),
            listed: Mutex::default(),
            imported: Mutex::default(),
        });
        slots.push(Arc::downgrade(&process));
        Ok(process)
    }

    /// Lists an object in later submissions.
    pub(super) fn list(&self, handle: u32, va: u64) {
        let entry = GemSubmitBo {
            flags: (SubmitBo::READ | SubmitBo::WRITE).bits(),
            handle,
            presumed: va,
        };
        let mut listed = lock(&self.listed);
        let at = listed.partition_point(|one| one.presumed < va);
        listed.insert(at, entry);
    }

    /// Takes an object from the list; what ends it runs before others submit.
    pub(super) fn unlist(&self, handle: u32, end: impl FnOnce()) {
        let mut listed = lock(&self.listed);
        listed.retain(|one| one.handle != handle);
        end();
    }
}
