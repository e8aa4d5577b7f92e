//! Interrupts of a card: messages, each an event of the machine that waits for it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard};

use hcq::sync::lock;
use twin::pci::Bus;

/// The events of the machine by the number of the message.
#[derive(Clone, Default)]
pub struct Messages(Arc<Mutex<BTreeMap<u32, File>>>);

impl Messages {
    /// Those of a card: its interrupts come here.
    pub fn of(bus: &Bus) -> Messages {
        let messages = Messages::default();
        let sent = messages.clone();
        bus.on_interrupt(Arc::new(move |number| sent.send(number)));
        messages
    }

    /// The machine waits for these, from a number on; or, if there are none, for no message any more.
    pub fn set(&self, first: u32, events: Vec<File>) {
        let mut all = self.lock();
        if events.is_empty() {
            all.clear();
        }
        all.extend((first..).zip(events));
    }

    fn send(&self, number: u32) {
        if let Some(mut event) = self.lock().get(&number) {
            // An event that counts: it takes any number of these, and a machine that has gone hears none.
            _ = event.write(&1u64.to_ne_bytes());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, File>> {
        // Entries are inserted and removed whole.
        lock(&self.0)
    }
}
