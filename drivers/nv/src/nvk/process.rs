//! [`Process`]: the GPUs of this process in one session, and what they have of each other. It is there as
//! long as one of them is open.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use drivers_spec::nv::status;
use hcq::transport::Machine;

use super::gpu::Gpu;
use super::memory::Memory;
use super::session::Session;
use super::survey::{Found, Unusable};

/// How often a GPU is tried that still ends, with a pause before each next time: a tenth of a second.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The GPUs of this process.
pub(super) struct Process {
    /// The driver's side of it.
    pub(super) session: Arc<Session>,
    shared: Mutex<Shared>,
}

/// What GPUs of the process have of each other.
#[derive(Default)]
struct Shared {
    gpus: Vec<Weak<Gpu>>,
    memory: Vec<Weak<Memory>>,
    /// Pairs that reach each other's memory, by number.
    peers: Vec<(u32, u32)>,
}

/// The processes that a machine keeps track of: with UVM, and without.
#[derive(Default)]
struct Slots(Mutex<[Weak<Process>; 2]>);

impl Process {
    /// The process on a machine; the same for every device that is opened on it, the same way.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(super) fn on(machine: &dyn Machine, uvm: bool) -> Result<Arc<Process>, Unusable> {
        let Ok(slots) = machine
            .kept()
            .get_or_make(|| Ok::<_, Infallible>(Slots::default()));
        // Set in one step, after everything that can fail.
        let mut slots = slots.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut slots[usize::from(uvm)];
        if let Some(process) = slot.upgrade() {
            return Ok(process);
        }
        let process = Arc::new(Process {
            session: Session::new(machine, uvm)?,
            shared: Mutex::default(),
        });
        *slot = Arc::downgrade(&process);
        Ok(process)
    }

    /// A GPU of the process, made when it is first asked for.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(super) fn gpu(
        self: &Arc<Self>,
        machine: &Arc<dyn Machine>,
        found: &Found,
    ) -> Result<Arc<Gpu>, Unusable> {
        let mut shared = self.lock();
        shared.gpus.retain(|gpu| gpu.strong_count() > 0);
        let mut open = shared.gpus.iter().filter_map(Weak::upgrade);
        if let Some(gpu) = open.find(|gpu| gpu.id == found.gpu_id) {
            return Ok(gpu);
        }
        let gpu = Arc::new(self.make(machine, found)?);
        shared
            .peers
            .retain(|pair| pair.0 != gpu.id && pair.1 != gpu.id);
        let others: Vec<_> = shared.gpus.iter().filter_map(Weak::upgrade).collect();
        for other in others {
            let Some(uvm) = &self.session.uvm else { break };
            match uvm.enable_peers(gpu.uuid, other.uuid) {
                Ok(()) => shared
                    .peers
                    .extend([(gpu.id, other.id), (other.id, gpu.id)]),
                // Copies between the two go through host memory then.
                Err(error) => tracing::debug!(%error, "two GPUs have no way to each other"),
            }
        }
        for memory in shared.memory.iter().filter_map(Weak::upgrade) {
            map_for(&memory, &gpu, &shared.peers)?;
        }
        shared.gpus.push(Arc::downgrade(&gpu));
        Ok(gpu)
    }

    /// Makes a GPU. One that was used until now may still be ending, in another thread: UVM has a GPU once.
    fn make(&self, machine: &Arc<dyn Machine>, found: &Found) -> Result<Gpu, Unusable> {
        let mut left = TRIES;
        loop {
            left -= 1;
            match Gpu::new(machine, &self.session, found) {
                Err(Unusable::Refused(error))
                    if error.is(status::NV_ERR_INVALID_DEVICE) && left > 0 =>
                {
                    std::thread::sleep(PAUSE);
                }
                made => return made,
            }
        }
    }

    /// Maps new memory for the other GPUs that can reach it, and remembers it for those that are opened
    /// later.
    ///
    /// # Errors
    /// The driver's, for memory that every GPU must reach.
    pub(super) fn share(&self, memory: &Arc<Memory>) -> Result<(), super::CallError> {
        let mut shared = self.lock();
        // Looked at under the lock: a GPU that is opened after that finds the memory here.
        for gpu in shared.gpus.iter().filter_map(Weak::upgrade) {
            if gpu.id != memory.gpu().id {
                map_for(memory, &gpu, &shared.peers)?;
            }
        }
        if shared.memory.len() == shared.memory.capacity() {
            shared.memory.retain(|memory| memory.strong_count() > 0);
        }
        shared.memory.push(Arc::downgrade(memory));
        Ok(())
    }

    /// Memory of the process with an address in it, and where in it the address is.
    pub(super) fn memory_at(&self, va: u64) -> Option<(Arc<Memory>, u64)> {
        // Upgraded outside of the lock: the last handle of one may be this one.
        let all: Vec<_> = self
            .lock()
            .memory
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        all.into_iter().find_map(|memory| {
            let offset = va.checked_sub(memory.va())?;
            (offset < memory.bytes()).then_some((memory, offset))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Entries are pushed whole.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maps memory for another GPU that can reach it.
fn map_for(
    memory: &Arc<Memory>,
    gpu: &Arc<Gpu>,
    peers: &[(u32, u32)],
) -> Result<(), super::CallError> {
    let owner = memory.gpu().id;
    match memory.is_local() {
        false => memory.map(gpu),
        true if !peers.contains(&(owner, gpu.id)) => Ok(()),
        true => {
            // Copies between the two go through host memory then.
            if let Err(error) = memory.map(gpu) {
                tracing::debug!(%error, va = memory.va(), "not mapped for a peer");
            }
            Ok(())
        }
    }
}
