//! Prints how long our side of the start of a card takes, cold and warm: on the twin, less what passes inside of it, and less
//! the waits for it.
//!
//! `cargo run --release -p drivers-nv --example nv_boot`, with firmware that `scripts/fetch firmware` has fetched

use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drivers_nv::Options;
use hcq::sync::lock;
use hcq::transport::access::{Access, Answer};
use hcq::transport::tap::{Tap, Tapped};
use hcq::transport::{Clock, Fault, VirtualClock};
use twin_nv::pci::machine::PciMachine;

/// Adds up what accesses take on the other side, and waits for it.
#[derive(Default)]
struct Inside {
    nanoseconds: AtomicU64,
    accesses: AtomicU64,
    since: Mutex<Option<Instant>>,
}

impl Inside {
    fn add(&self, since: Instant) {
        let took = since.elapsed().as_nanos() as u64;
        self.nanoseconds.fetch_add(took, Relaxed);
    }

    fn taken(&self) -> (Duration, u64) {
        let nanoseconds = self.nanoseconds.swap(0, Relaxed);
        let accesses = self.accesses.swap(0, Relaxed);
        (Duration::from_nanos(nanoseconds), accesses)
    }
}

impl Tap for Inside {
    fn before(&self, _: &str, _: &mut Access) -> Option<Result<Answer, Fault>> {
        *lock(&self.since) = Some(Instant::now());
        None
    }

    fn after(&self, _: &str, _: &Access, _: &mut Result<Answer, Fault>) {
        let since = lock(&self.since).take();
        since.into_iter().for_each(|since| self.add(since));
        self.accesses.fetch_add(1, Relaxed);
    }
}

/// Time that passes when the card has nothing to do.
struct CardTime {
    twin: Arc<PciMachine>,
    inside: Arc<Inside>,
    clock: VirtualClock,
}

impl Clock for CardTime {
    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn sleep(&self, time: Duration) {
        let since = Instant::now();
        let is_idle = || self.twin.function(0).is_none_or(|card| card.is_idle());
        while !is_idle() {
            std::thread::yield_now();
        }
        self.inside.add(since);
        self.clock.sleep(time);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware");
    for chip in ["ga102", "ad102", "gh100", "gb202"] {
        let twin = PciMachine::new(&format!("chip={chip}"))?;
        for how in ["cold", "warm"] {
            let inside = Arc::new(Inside::default());
            let process = twin.again();
            let machine = Tapped::machine(process.clone(), inside.clone());
            let functions = machine.pci_functions()?;
            let card = functions.first().ok_or("there is a card")?;
            let options = Options {
                firmware: vec![root.join("nvidia-graphics")],
                ..Options::default()
            };
            let clock: Arc<dyn Clock> = Arc::new(CardTime {
                twin: process,
                inside: inside.clone(),
                clock: VirtualClock::new(),
            });
            inside.taken();
            let start = Instant::now();
            let backend = drivers_nv::pci::open(&machine, &card.address, 0, &clock, &options)?;
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
