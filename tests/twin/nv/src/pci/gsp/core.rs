//! The time of GSP's RISC-V core: a thread on which its firmware runs, when a register tells it to.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use hcq::sync::lock;

use crate::pci::state::State;

/// What wakes the firmware. With it the thread ends.
pub(in crate::pci) struct Core {
    wake: Sender<()>,
    busy: Arc<AtomicUsize>,
}

/// The other end, before it has a thread.
pub(in crate::pci) struct Work {
    woken: Receiver<()>,
    busy: Arc<AtomicUsize>,
}

impl Core {
    pub(in crate::pci) fn new() -> (Core, Work) {
        let (wake, woken) = mpsc::channel();
        let busy = Arc::new(AtomicUsize::new(0));
        let work = Work {
            woken,
            busy: busy.clone(),
        };
        (Core { wake, busy }, work)
    }

    /// How often it was woken and has not looked yet.
    pub(in crate::pci) fn busy(&self) -> Arc<AtomicUsize> {
        self.busy.clone()
    }

    /// There may be something to do.
    pub(in crate::pci) fn wake(&self) {
        self.busy.fetch_add(1, Ordering::AcqRel);
        if self.wake.send(()).is_err() {
            self.busy.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Work {
    /// Runs the firmware of a card for as long as the card is there.
    ///
    /// # Errors
    /// The host has no thread left.
    pub(in crate::pci) fn start(self, state: &Arc<Mutex<State>>) -> io::Result<()> {
        let state = Arc::downgrade(state);
        let run = move || {
            while self.woken.recv().is_ok() {
                let Some(state) = state.upgrade() else {
                    return;
                };
                super::run(&mut lock(&state));
                self.busy.fetch_sub(1, Ordering::AcqRel);
            }
        };
        let thread = thread::Builder::new().name("twin-nv-gsp".into());
        thread.spawn(run).map(drop)
    }
}
