//! The device that DEV names, as the suite of queues wants it: opened again and again, with rings of the size that
//! the case has in mind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use conformance::{Kernel, Subject};
use doorbell::{Error, Setup};
use drivers::select::DeviceKind;
use hcq::{ArgLayout, Device, KernelImage};

use crate::kernels;

/// The device that DEV names.
pub struct Selected {
    /// How it is chosen; a simulated machine is that of this value.
    pub setup: Setup,
    arch: String,
    object: Arc<[u8]>,
    /// A queue was left at a wait.
    waits: AtomicBool,
}

impl Selected {
    /// The device, with its kernels. A simulated machine has that many GPUs.
    ///
    /// # Errors
    /// It does not open; there are no kernels for it.
    pub fn new() -> Result<Selected, Error> {
        let setup = Setup::from_env()?;
        let arch = setup.device()?.info().arch.clone();
        let object = kernels::object(&arch)?;
        Ok(Selected {
            setup,
            arch,
            object,
            waits: AtomicBool::new(false),
        })
    }

    /// Whether the case has left a queue at a wait that nothing ends, and said so.
    pub fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// A kernel by its name.
    pub fn image(&self, entry: &str, args: ArgLayout) -> KernelImage {
        KernelImage {
            name: entry.into(),
            arch: self.arch.clone(),
            bytes: self.object.clone(),
            entry: entry.into(),
            args,
            local_bytes: 0,
        }
    }
}

impl Subject for Selected {
    fn open(&self, index: u32, ring_words: u32) -> hcq::Result<Arc<dyn Device>> {
        let mut settings = self.setup.settings().clone();
        settings.ring_words = Some(ring_words);
        settings.wait_timeout = Duration::from_millis(match ring_words {
            // The case that fills it, and waits for its end.
            64 => 50,
            _ => 60_000,
        });
        let mut target = self.setup.target();
        target.indices = Some(vec![index]);
        let machine = self.setup.twin().map(|twin| twin.machine());
        drivers::open_with(&target, &settings, machine.as_ref())
    }

    fn kernel(&self, kernel: Kernel) -> KernelImage {
        let entry = match kernel {
            Kernel::Add => "add",
            Kernel::Step => "step",
            Kernel::Store => "store",
        };
        self.image(entry, kernel.args())
    }

    fn faults_have_addresses(&self) -> bool {
        // A runtime tells of a kernel's fault and no more.
        !matches!(
            self.setup.target().device,
            DeviceKind::Cuda | DeviceKind::Hip
        )
    }

    fn waits_for_ever(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }
}
