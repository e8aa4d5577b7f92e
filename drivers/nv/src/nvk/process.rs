//! [`Process`]: the GPUs of this process in one session, and their peer mappings. It lives as long as one of them is
//! open.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use drivers_gpu::backend::shared::Shared;
use drivers_spec::nv::status;
use hcq::sync::lock;
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
    /// Memory that several of them reach.
    pub(super) shared: Shared<Gpu, Memory>,
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
            .per_process()
            .get_or_make(|| Ok::<_, Infallible>(Slots::default()));
        // Set in one step, after everything that can fail.
        let mut slots = lock(&slots.0);
        let slot = &mut slots[usize::from(uvm)];
        if let Some(process) = slot.upgrade() {
            return Ok(process);
        }
        let process = Arc::new(Process {
            session: Session::new(machine, uvm)?,
            shared: Shared::default(),
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
        let is = |gpu: &Gpu| gpu.id == found.gpu_id;
        self.shared.open(is, |others| {
            let gpu = self.make(machine, found)?;
            for other in others {
                self.enable_peer_access(&gpu, other);
            }
            Ok(Arc::new(gpu))
        })
    }

    /// Enables peer access between two GPUs, if they support it.
    fn enable_peer_access(&self, gpu: &Gpu, other: &Gpu) {
        let Some(uvm) = &self.session.uvm else { return };
        // Of one that was open before, and had the same number.
        other.peers().retain(|id| *id != gpu.id);
        match uvm.enable_peers(gpu.uuid, other.uuid) {
            Ok(()) => {
                gpu.peers().push(other.id);
                other.peers().push(gpu.id);
            }
            // Copies between the two go through host memory then.
            Err(error) => tracing::debug!(%error, "two GPUs have no peer access"),
        }
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
}
