//! [`Kernels`]: the code addresses of kernels, to explain faults.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::sync::lock;

/// The kernels that are loaded on a device.
#[derive(Debug, Default)]
pub struct Kernels(Mutex<BTreeMap<u64, Place>>);

#[derive(Debug)]
struct Place {
    end: u64,
    kernel: Kernel,
}

/// A loaded kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// Its name.
    pub name: Arc<str>,
    /// Bytes of its arguments.
    pub argument_bytes: u32,
}

impl Kernels {
    /// Registers the image of a kernel at `code`, until the returned value is dropped.
    pub fn register(self: &Arc<Self>, code: Range<u64>, kernel: Kernel) -> Registration {
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

    /// The kernel whose image contains an address, and the offset in it.
    pub fn at(&self, va: u64) -> Option<(Kernel, u64)> {
        let kernels = self.lock();
        let (start, place) = kernels.range(..=va).next_back()?;
        (va < place.end).then(|| (place.kernel.clone(), va - start))
    }

    /// All of them, with where their images lie.
    pub fn all(&self) -> Vec<(Range<u64>, Kernel)> {
        let kernels = self.lock();
        let all = kernels.iter();
        all.map(|(start, place)| (*start..place.end, place.kernel.clone()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Place>> {
        // Entries come and go whole.
        lock(&self.0)
    }
}

/// Keeps the name of a kernel known.
#[derive(Debug)]
pub struct Registration {
    kernels: Arc<Kernels>,
    start: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.kernels.lock().remove(&self.start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_kernel_while_that_is_registered() {
        let kernels = Arc::new(Kernels::default());
        let kernel = |name: &str| Kernel {
            name: name.into(),
            argument_bytes: 16,
        };
        let first = kernels.register(0x100..0x200, kernel("first"));
        let _second = kernels.register(0x200..0x280, kernel("second"));
        assert_eq!(kernels.at(0xff), None);
        assert_eq!(kernels.at(0x1ff), Some((kernel("first"), 0xff)));
        assert_eq!(kernels.at(0x200), Some((kernel("second"), 0)));
        assert_eq!(kernels.at(0x280), None);
        drop(first);
        assert_eq!(kernels.at(0x100), None);
    }
}
