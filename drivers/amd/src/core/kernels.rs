//! [`Kernels`]: which addresses are whose code, for messages.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kernels that are loaded.
#[derive(Default)]
pub(crate) struct Kernels(Mutex<BTreeMap<u64, Place>>);

struct Place {
    end: u64,
    kernel: Kernel,
}

/// A loaded kernel.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) name: Arc<str>,
    /// Bytes of its arguments.
    pub(crate) argument_bytes: u32,
}

impl Kernels {
    /// Notes that the image of a kernel lies at `code`; forgotten with the returned value.
    pub(crate) fn register(self: &Arc<Self>, code: Range<u64>, kernel: Kernel) -> Registration {
        let place = Place {
            end: code.end,
            kernel,
        };
        self.lock().insert(code.start, place);
        Registration {
            kernels: self.clone(),
            start: code.start,
        }
    }

    /// The kernel whose image holds an address.
    pub(crate) fn at(&self, va: u64) -> Option<Kernel> {
        let kernels = self.lock();
        let (_, place) = kernels.range(..=va).next_back()?;
        (va < place.end).then(|| place.kernel.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Place>> {
        // Entries come and go whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the name of a kernel known.
pub(crate) struct Registration {
    kernels: Arc<Kernels>,
    start: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.kernels.lock().remove(&self.start);
    }
}
