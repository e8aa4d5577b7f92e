//! Host time of a submission and of a replay, on the twin: what our side of the ring costs.
//!
//! The queue is held by a gate while submissions are timed, so that the twin does not compete for the
//! processor. `cargo run --release -p drivers-nv --example nv_submit [CHIP [pci]]` (`ga102`, `h100`, `gb202`); with `pci` by
//! our driver of a card without a kernel driver, whose pointers and doorbells are mapped as on one, with firmware that
//! `scripts/fetch firmware` has fetched.

// An example ends where it cannot go on.
#![allow(clippy::unwrap_used)]

mod mapped;
#[path = "../tests/stand/mod.rs"]
mod stand;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_nv::backend::NvBackend;
use drivers_nv::{NvDevice, Options};
use hcq::transport::{Clock, Machine, MonotonicClock};
use hcq::{Command, Device, QueueKind, Stream, Val};
use mapped::Mapped;
use stand::{at, memory, soon};
use twin_nv::pci::machine::PciMachine;

const SUBMISSIONS: u64 = 2000;
const ROUNDS: u64 = 20;
const KERNELS: u64 = 100;
const GRAPHS: usize = 20;

/// The card itself: its driver, and what holds its doorbells.
fn bare(chip: &str) -> (Arc<NvDevice>, Arc<Mapped>) {
    let firmware = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware");
    let options = Options {
        firmware: vec![firmware.join("nvidia-graphics")],
        ..Options::default()
    };
    let machine: Arc<dyn Machine> = PciMachine::new(&format!("chip={chip}")).unwrap();
    let address = &machine.pci_functions().unwrap()[0].address;
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let card = drivers_nv::pci::open(&machine, address, 0, &clock, &options).unwrap();
    let mapped = Mapped::over(card);
    let backend: Arc<dyn NvBackend> = mapped.clone();
    (drivers_nv::over(&backend, &options).unwrap(), mapped)
}

fn main() {
    let chip = std::env::args().nth(1).unwrap_or_else(|| "h100".into());
    let (_, sm) = stand::CHIPS
        .into_iter()
        .find(|(name, _)| *name == chip)
        .expect("ga102, h100 or gb202");
    let over_pci = std::env::args().nth(2).is_some_and(|way| way == "pci");
    let (card, kernel) = match over_pci {
        true => (Some(bare(&chip)), None),
        false => (
            None,
            Some(stand::open(&format!("chip={chip}"), &Options::default())),
        ),
    };
    let device = match (&card, &kernel) {
        (Some((device, _)), _) | (_, Some((_, device))) => device.clone(),
        (None, None) => return,
    };
    let hold = |held| card.iter().for_each(|(_, bells)| bells.hold(held));
    let program = device.load(&stand::first(sm)).unwrap();
    let data = memory(&*device, 4096);
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    // Best time of some work while the queue waits for a gate, behind which it is done.
    let behind_a_gate = |work: &mut dyn FnMut(u64)| {
        let mut best = Duration::MAX;
        for round in 0..ROUNDS {
            let gate = device.signal("gate").unwrap();
            let wait = Command::Wait {
                signal: &gate,
                value: Val::Const(1),
            };
            compute.submit(&[], &[wait]).unwrap();
            hold(true);
            let start = Instant::now();
            work(round);
            best = best.min(start.elapsed());
            hold(false);
            gate.set(1).unwrap();
            compute.wait(soon()).unwrap();
        }
        best.as_nanos()
    };

    let best = behind_a_gate(&mut |round| {
        for i in 0..SUBMISSIONS {
            let args = [
                at(&data),
                Val::Const(round * SUBMISSIONS + i),
                Val::Const(1),
            ];
            let exec = Command::Exec {
                program: &program,
                args: &args,
                grid: [1, 1, 1],
                block: [1, 1, 1],
            };
            compute.submit(&[], &[exec]).unwrap();
        }
    });
    println!(
        "{chip}: {} ns for encoding and submitting one launch (best of {ROUNDS} rounds of \
         {SUBMISSIONS})",
        best / u128::from(SUBMISSIONS)
    );

    let mut graphs = Vec::new();
    for (taking, which) in [(KERNELS, " that all take a value"), (1, "")] {
        graphs = (0..GRAPHS)
            .map(|_| stand::chain(&device, &compute, &program, &data, KERNELS, taking))
            .collect();
        let best = behind_a_gate(&mut |round| {
            for graph in &mut graphs {
                graph.replay(&[round], &[], soon()).unwrap();
            }
        });
        println!(
            "{chip}: {} ns for a replay of {KERNELS} kernels{which} (best of {ROUNDS} rounds of {GRAPHS})",
            best / GRAPHS as u128
        );
    }

    // The host has slept meanwhile, and comes back to cold caches.
    let mut graph = graphs.pop().unwrap();
    let mut best = Duration::MAX;
    for round in 0..20 {
        hold(true);
        let start = Instant::now();
        graph.replay(&[round], &[], soon()).unwrap();
        best = best.min(start.elapsed());
        hold(false);
        graph.wait(soon()).unwrap();
    }
    println!(
        "{chip}: {} ns for a replay after a sleep (best of 20)",
        best.as_nanos()
    );
}
