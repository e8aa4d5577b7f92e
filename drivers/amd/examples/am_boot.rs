//! Prints how long our side of the start of a card takes, cold, warm and after a reset: on the twin, less what passes
//! inside of it. Waits are counted by a clock of their own, not slept.
//!
//! `cargo run --release -p drivers-amd --example am_boot`, with firmware that `scripts/fetch firmware` has fetched

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drivers_amd::Options;
use hcq::sync::lock;
use hcq::transport::access::{Access, Answer};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Clock, Fault, Machine, VirtualClock};
use twin_amd::pci::machine::PciMachine;

/// Adds up what accesses take on the other side.
#[derive(Default)]
struct Inside {
    nanoseconds: AtomicU64,
    accesses: AtomicU64,
    since: Mutex<Option<Instant>>,
}

impl Inside {
    fn since(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        lock(&self.since)
    }

    fn taken(&self) -> (Duration, u64) {
        let nanoseconds = self.nanoseconds.swap(0, Relaxed);
        let accesses = self.accesses.swap(0, Relaxed);
        (Duration::from_nanos(nanoseconds), accesses)
    }
}

impl Tap for Inside {
    fn before(&self, _: &str, _: &mut Access) -> Option<Result<Answer, Fault>> {
        *self.since() = Some(Instant::now());
        None
    }

    fn after(&self, _: &str, _: &Access, _: &mut Result<Answer, Fault>) {
        if let Some(since) = self.since().take() {
            let took = since.elapsed().as_nanos() as u64;
            self.nanoseconds.fetch_add(took, Relaxed);
        }
        self.accesses.fetch_add(1, Relaxed);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware");
    for chip in ["gfx1100", "gfx1102", "gfx1200", "gfx1201"] {
        let twin = PciMachine::new(&format!("chip={chip}"))?;
        for (how, reset) in [("cold", false), ("warm", false), ("after a reset", true)] {
            let inside = Arc::new(Inside::default());
            let machine: Arc<dyn Machine> = twin.again();
            let machine = Tapped::machine(machine, inside.clone());
            let functions = machine.pci_functions()?;
            let card = functions.first().ok_or("there is a card")?;
            let options = Options {
                firmware: vec![root.join("bookworm-backports")],
                reset,
                ..Options::default()
            };
            let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new());
            inside.taken();
            let start = Instant::now();
            let backend = drivers_amd::am::open(&machine, &card.address, 0, &clock, &options)?;
            let all = start.elapsed();
            let (inside, accesses) = inside.taken();
            drop(backend);
            let ours = all.saturating_sub(inside);
            println!(
                "{chip}, {how}: {:.1} ms of our own, {accesses} accesses, {:.1} ms inside of the card",
                ours.as_secs_f64() * 1e3,
                inside.as_secs_f64() * 1e3,
            );
        }
        if let Some(broken) = twin.journal().violations().first() {
            return Err(broken.to_string().into());
        }
    }
    Ok(())
}
