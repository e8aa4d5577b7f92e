//! Host time of a submission and of a replay, on the twin: what our side of the ring costs.
//!
//! The queue is held by a gate while submissions are timed, so that the twin does not compete for the
//! processor. `cargo run --release -p drivers-amd --example submit [CHIP [pci]]`; with `pci` by our driver of the bare
//! card, whose doorbells are mapped as on one, with firmware that `scripts/fetch firmware` has fetched.

// An example ends where it cannot go on.
#![allow(clippy::unwrap_used)]

mod doorbells;
#[path = "../tests/stand/mod.rs"]
mod stand;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_amd::{AmdDevice, Options};
use hcq::graph::{Graph, GraphBuilder, Work};
use hcq::transport::Machine;
use hcq::{Buffer, Command, Device, MemoryKind, Program, QueueKind, Span, Stream, Val};
use stand::{at, memory, soon};
use twin_amd::pci::machine::PciMachine;

const SUBMISSIONS: u32 = 2000;
const ROUNDS: u32 = 20;
const KERNELS: u64 = 100;
const GRAPHS: usize = 20;

/// The card itself: its driver, and what holds its doorbells.
fn bare(chip: &str) -> (Arc<AmdDevice>, Arc<doorbells::Mapped>) {
    let firmware = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/firmware");
    let options = Options {
        firmware: vec![firmware.join("bookworm-backports")],
        ..Options::default()
    };
    let machine = doorbells::Mapped::new(PciMachine::new(&format!("chip={chip}")).unwrap());
    let shared: Arc<dyn Machine> = machine.clone();
    let address = &shared.pci_functions().unwrap()[0].address;
    let device = drivers_amd::open_pci(&shared, address, 0, &options).unwrap();
    (device, machine)
}

fn main() {
    let chip = std::env::args().nth(1).unwrap_or_else(|| "gfx1100".into());
    let over_pci = std::env::args().nth(2).is_some_and(|way| way == "pci");
    let (device, bells) = match over_pci {
        true => {
            let (device, bells) = bare(&chip);
            (device, Some(bells))
        }
        false => {
            let twin = stand::twin(&format!("chip={chip},vram=1G"));
            let options = Options::default();
            let device = drivers_amd::open(&stand::machine(&twin), 0, &options).unwrap();
            (device, None)
        }
    };
    let hold = |held| {
        if let Some(bells) = &bells {
            bells.hold(held);
        }
    };
    let step = device.load(&stand::kernel(&chip, "step", 2)).unwrap();
    let data = memory(&*device, MemoryKind::Device, 4096).unwrap();
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());

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
        for i in 0..SUBMISSIONS {
            let args = [at(&data), Val::Const((round * SUBMISSIONS + i).into())];
            let exec = Command::Exec {
                program: &step,
                args: &args,
                grid: [16, 1, 1],
                block: [1, 1, 1],
            };
            compute.submit(&[], &[exec]).unwrap();
        }
        best = best.min(start.elapsed());
        hold(false);
        gate.set(1).unwrap();
        compute.wait(soon()).unwrap();
    }
    println!(
        "{chip}: {} ns for encoding and submitting one launch (best of {ROUNDS} rounds of \
         {SUBMISSIONS})",
        best.as_nanos() / u128::from(SUBMISSIONS)
    );

    let mut graphs = Vec::new();
    for (taking, which) in [(KERNELS, " that all take a value"), (1, "")] {
        graphs = (0..GRAPHS)
            .map(|_| graph(&device, &compute, &step, &data, taking))
            .collect();
        let mut best = Duration::MAX;
        for round in 0..u64::from(ROUNDS) {
            let gate = device.signal("gate").unwrap();
            let wait = Command::Wait {
                signal: &gate,
                value: Val::Const(1),
            };
            compute.submit(&[], &[wait]).unwrap();
            hold(true);
            let start = Instant::now();
            for graph in &mut graphs {
                graph.replay(&[round], &[], soon()).unwrap();
            }
            best = best.min(start.elapsed());
            hold(false);
            gate.set(1).unwrap();
            compute.wait(soon()).unwrap();
        }
        println!(
            "{chip}: {} ns for a replay of {KERNELS} kernels{which} (best of {ROUNDS} rounds of {GRAPHS})",
            best.as_nanos() / GRAPHS as u128
        );
    }

    // The host has slept meanwhile, and comes back to cold caches.
    let mut graph = graphs.pop().unwrap();
    let mut best = Duration::MAX;
    for round in 0..200 {
        hold(true);
        let start = Instant::now();
        graph.replay(&[round], &[], soon()).unwrap();
        best = best.min(start.elapsed());
        hold(false);
        graph.wait(soon()).unwrap();
    }
    println!(
        "{chip}: {} ns for a replay after a sleep (best of 200)",
        best.as_nanos()
    );
}

/// A chain of kernels; the first `taking` take a value of the replay.
fn graph(
    device: &Arc<AmdDevice>,
    compute: &Stream,
    step: &Arc<Program>,
    data: &Buffer,
    taking: u64,
) -> Graph {
    let mut builder = GraphBuilder::new();
    let shared: Arc<dyn Device> = device.clone();
    let lane = builder.lane(&shared, compute);
    let slot = builder.slot().unwrap();
    let span = Span::at(data.va().0, data.bytes());
    for i in 0..KERNELS {
        let work = Work::Exec {
            program: step.clone(),
            args: vec![
                at(data),
                match i < taking {
                    true => Val::Slot(slot, i),
                    false => Val::Const(i),
                },
            ],
            grid: [16, 1, 1],
            block: [1, 1, 1],
        };
        builder.add(lane, "step", work, [span], [span]);
    }
    builder.build().unwrap()
}
