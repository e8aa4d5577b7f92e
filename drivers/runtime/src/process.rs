//! [`Process`]: what a runtime's devices share in this process: which addresses there are, and who reaches whose memory.
//!
//! The runtimes have one address space for the host and all GPUs, and take an address that they do not know for memory of the
//! process: a copy there would be done by the host, anywhere. So calls are made for addresses only that are in this list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};

use drivers_gpu::backend::Space;
use hcq::mem::view::View;
use hcq::mem::window::Window;
use hcq::sync::lock;

use crate::calls::{Allocation, Function, Gpu};
use crate::refusal::Answer;

/// What devices of one runtime share.
#[derive(Default)]
pub struct Process {
    space: Arc<Space>,
    places: Mutex<Places>,
    gpus: Mutex<Gpus>,
    kernels: Mutex<Kernels>,
    registered: Mutex<Vec<Registered>>,
}

/// Memory that devices have, by its address and a number. Places may be parts of each other: memory can be imported twice, or
/// as a part.
#[derive(Default)]
struct Places {
    next: u64,
    all: BTreeMap<(u64, u64), Place>,
}

impl Places {
    /// All that an address is in.
    fn at(&self, va: u64) -> impl Iterator<Item = (u64, &Place)> {
        let before = self.all.range(..=(va, u64::MAX)).rev();
        let inside = before.filter(move |(_, place)| va < place.end);
        inside.map(|(&(at, _), place)| (at, place))
    }
}

/// Memory that some device has.
struct Place {
    end: u64,
    /// The GPU whose memory it is; none for the host's.
    gpu: Option<u32>,
    window: Weak<Window>,
}

/// Pages of the process that the runtime has as memory.
struct Registered {
    at: u64,
    end: u64,
    /// [`View::mapping`]: other pages may be mapped there later.
    mapping: usize,
    allocation: Weak<Allocation>,
}

#[derive(Default)]
struct Gpus {
    open: Vec<(u32, Weak<Gpu>)>,
    /// Those that reach the memory of the second.
    joined: BTreeSet<(u32, u32)>,
}

#[derive(Default)]
struct Kernels {
    next: u64,
    all: BTreeMap<u64, Weak<Function>>,
}

/// Numbers of kernels are no addresses of memory, and look like none.
const FIRST_KERNEL: u64 = 1 << 62;

/// From one kernel to the next.
pub(crate) const KERNEL_STEP: u64 = 16;

/// Notes memory until it is dropped.
pub(crate) struct Noted {
    process: Arc<Process>,
    /// Its address and its number.
    key: (u64, u64),
}

impl Drop for Noted {
    fn drop(&mut self) {
        lock(&self.process.places).all.remove(&self.key);
    }
}

impl Process {
    /// The addresses, for messages.
    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// Notes memory: of a GPU, or of the host with its window.
    pub(crate) fn note(
        self: &Arc<Self>,
        (at, bytes): (u64, u64),
        gpu: Option<u32>,
        window: Weak<Window>,
    ) -> Noted {
        let end = at + bytes;
        let mut places = lock(&self.places);
        places.next += 1;
        let key = (at, places.next);
        places.all.insert(key, Place { end, gpu, window });
        drop(places);
        Noted {
            process: self.clone(),
            key,
        }
    }

    /// Whether memory of one allocation is at these bytes.
    pub(crate) fn has(&self, at: u64, bytes: u64) -> bool {
        let end = at.checked_add(bytes);
        end.is_some_and(|end| lock(&self.places).at(at).any(|(_, place)| end <= place.end))
    }

    /// The host's window of an address, and the offset in it.
    pub(crate) fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        let places = lock(&self.places);
        let found = places
            .at(va)
            .find_map(|(at, place)| Some((place.window.upgrade()?, va - at)));
        drop(places);
        // It may be the last one: it is let go outside of the lock.
        found.map(|(window, offset)| ((*window).clone(), offset))
    }

    /// Pages of the process as memory of the runtime: those that it has already, or `register` makes it so. It refuses pages that it
    /// has.
    pub(crate) fn registered(
        &self,
        view: &View,
        register: impl FnOnce() -> Answer<Allocation>,
    ) -> Answer<Arc<Allocation>> {
        let (at, mapping) = (view.as_ptr().addr() as u64, view.mapping());
        let end = at + view.len() as u64;
        // Held until the new one is known.
        let mut all = lock(&self.registered);
        all.retain(|one| one.allocation.strong_count() > 0);
        let is_inside =
            |one: &&Registered| one.mapping == mapping && one.at <= at && end <= one.end;
        let known = all.iter().find(is_inside);
        if let Some(known) = known.and_then(|one| one.allocation.upgrade()) {
            return Ok(known);
        }
        let allocation = Arc::new(register()?);
        all.push(Registered {
            at,
            end,
            mapping,
            allocation: Arc::downgrade(&allocation),
        });
        Ok(allocation)
    }

    /// Notes a GPU, and lets it and those that are open reach each other's memory where they can.
    pub(crate) fn enter(&self, ordinal: u32, gpu: &Arc<Gpu>) {
        let mut gpus = lock(&self.gpus);
        gpus.open.retain(|(_, gpu)| gpu.strong_count() > 0);
        if gpus.open.iter().all(|(other, _)| *other != ordinal) {
            // Who is opened anew starts with nothing.
            let other = |pair: &(u32, u32)| pair.0 != ordinal && pair.1 != ordinal;
            gpus.joined.retain(other);
        }
        let open: Vec<_> = gpus
            .open
            .iter()
            .filter_map(|(other, gpu)| Some((*other, gpu.upgrade()?)))
            .collect();
        for (other, there) in open {
            if other == ordinal {
                continue;
            }
            for (from, to, of, whose) in
                [(ordinal, other, gpu, &there), (other, ordinal, &there, gpu)]
            {
                if of.vendor().join(whose.vendor()) {
                    gpus.joined.insert((from, to));
                }
            }
        }
        gpus.open.push((ordinal, Arc::downgrade(gpu)));
    }

    /// Whether kernels of a GPU reach an address.
    pub(crate) fn reaches(&self, ordinal: u32, va: u64) -> bool {
        let places = lock(&self.places);
        let whose: Vec<_> = places.at(va).map(|(_, place)| place.gpu).collect();
        drop(places);
        whose.into_iter().any(|whose| {
            whose.is_none_or(|whose| {
                whose == ordinal || lock(&self.gpus).joined.contains(&(ordinal, whose))
            })
        })
    }

    /// Gives a kernel a number, for as long as it is loaded.
    pub(crate) fn name(&self, kernel: &Arc<Function>) -> u64 {
        let mut kernels = lock(&self.kernels);
        kernels.all.retain(|_, kernel| kernel.strong_count() > 0);
        let number = FIRST_KERNEL + kernels.next * KERNEL_STEP;
        kernels.next += 1;
        kernels.all.insert(number, Arc::downgrade(kernel));
        number
    }

    /// The kernel of a number.
    pub(crate) fn kernel(&self, number: u64) -> Option<Arc<Function>> {
        lock(&self.kernels).all.get(&number)?.upgrade()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_known_while_it_is_noted() {
        let process = Arc::new(Process::default());
        let view = View::alloc(64, 8).unwrap();
        let window = Arc::new(Window::mapped("memory", view));
        let host = process.note((0x1000, 64), None, Arc::downgrade(&window));
        let device = process.note((0x2000, 0x100), Some(1), Weak::new());
        assert!(process.has(0x1000, 64) && process.has(0x103f, 1) && process.has(0x20ff, 1));
        assert!(!process.has(0x1001, 64) && !process.has(0x1040, 0) && !process.has(0xfff, 1));
        assert!(!process.has(0x2000, u64::MAX));
        let (there, offset) = process.window_at(0x1010).unwrap();
        assert_eq!((there.len(), offset), (64, 0x10));
        assert!(process.window_at(0x2000).is_none() && process.window_at(0x1040).is_none());
        assert!(process.reaches(0, 0x1000) && process.reaches(1, 0x2000));
        assert!(!process.reaches(0, 0x2000) && !process.reaches(0, 0x3000));
        // A part of it, and all of it once more.
        let part = process.note((0x2080, 0x10), Some(1), Weak::new());
        let again = process.note((0x2000, 0x100), Some(1), Weak::new());
        assert!(process.has(0x2080, 0x20) && process.has(0x2090, 1));
        drop(again);
        assert!(process.has(0x2000, 0x100) && process.has(0x20ff, 1));
        drop(device);
        assert!(!process.has(0x2000, 1) && !process.has(0x2090, 1) && process.has(0x208f, 1));
        drop(part);
        assert!(!process.has(0x2080, 1));
        drop((host, window, there));
        assert!(process.window_at(0x1000).is_none());
    }
}
