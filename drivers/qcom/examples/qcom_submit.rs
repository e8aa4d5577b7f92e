//! Host time of a submission and of a replay, on the twin, without the time inside of its kernel driver and without what
//! reading the clock around it adds: what our side of the call costs.
//!
//! The queue is held by a gate while submissions are timed, so that the twin does not compete for the processor.
//! `cargo run --release -p drivers-qcom --example qcom_submit [CHIP] [kgsl|msm]` (`a630`, `a660`, ...).

// An example ends where it cannot go on.
#![allow(clippy::unwrap_used)]

#[path = "../tests/stand/mod.rs"]
mod stand;
#[path = "../tests/timed/mod.rs"]
mod timed;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use drivers_qcom::{Options, QcomDevice, kgsl, msm, over};
use hcq::graph::{Graph, GraphBuilder, Work};
use hcq::transport::Machine;
use hcq::{Buffer, Command, Device, MemoryKind, Program, QueueKind, Span, Stream, Val};
use stand::{at, memory, soon};
use twin_qcom::machine::TwinMachine;

/// Fewer than are under way at most, so that none waits for its place.
const SUBMISSIONS: u64 = 40;
const ROUNDS: u64 = 300;
/// Of a model of openpilot.
const KERNELS: u64 = 123;
const GRAPHS: usize = 20;

/// A captured chain of launches. The first so many store a value of the replay, the others a number.
fn chain(
    device: &Arc<QcomDevice>,
    compute: &Stream,
    program: &Arc<Program>,
    data: &Buffer,
    taking: u64,
) -> Graph {
    let mut builder = GraphBuilder::new();
    let shared: Arc<dyn Device> = device.clone();
    let lane = builder.lane(&shared, compute);
    let slot = builder.slot().unwrap();
    let span = Span::at(data.va().0, data.bytes());
    for i in 0..KERNELS {
        let value = match i < taking {
            true => Val::Slot(slot, i),
            false => Val::Const(i),
        };
        let work = Work::Exec {
            program: program.clone(),
            args: vec![at(data), value],
            grid: [1, 1, 1],
            block: [1, 1, 1],
        };
        builder.add(lane, "many", work, [span], [span]);
    }
    builder.build().unwrap()
}

fn main() {
    let mut words = std::env::args().skip(1);
    let chip = words.next().unwrap_or_else(|| "a630".into());
    let way = words.next().unwrap_or_else(|| "kgsl".into());
    let twin: Arc<dyn Machine> = TwinMachine::new(&format!("chip={chip},kernel={way}")).unwrap();
    let (machine, spent) = timed::timed(twin);
    let options = Options {
        in_flight: Options::MOST_IN_FLIGHT,
        ..Options::default()
    };
    let backend = match &*way {
        "msm" => msm::open(&machine, 0),
        _ => kgsl::open(&machine, 0, &options),
    };
    let device = over(&backend.unwrap(), &options).unwrap();
    let program = device.load(&stand::many(&chip)).unwrap();
    let data = memory(&*device, MemoryKind::Device, 4096).unwrap();
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let timing = timed::cost();
    // Best time of some work while the queue waits for a gate, behind which it is done; and its calls.
    let behind_a_gate = |work: &mut dyn FnMut(u64)| {
        let (mut best, mut calls) = (u64::MAX, 0);
        for round in 0..ROUNDS {
            let gate = device.signal("gate").unwrap();
            let wait = Command::Wait {
                signal: &gate,
                value: Val::Const(1),
            };
            compute.submit(&[], &[wait]).unwrap();
            let before = (
                spent.ns.load(Ordering::Relaxed),
                spent.calls.load(Ordering::Relaxed),
            );
            let start = Instant::now();
            work(round);
            let all = start.elapsed().as_nanos() as u64;
            let inside = spent.ns.load(Ordering::Relaxed) - before.0;
            calls = spent.calls.load(Ordering::Relaxed) - before.1;
            best = best.min(all.saturating_sub(inside + calls * timing));
            gate.set(1).unwrap();
            compute.wait(soon()).unwrap();
        }
        (best, calls)
    };

    let (best, calls) = behind_a_gate(&mut |round| {
        for i in 0..SUBMISSIONS {
            let args = [at(&data), Val::Const(round * SUBMISSIONS + i)];
            let exec = Command::Exec {
                program: &program,
                args: &args,
                grid: [1, 1, 1],
                block: [1, 1, 1],
            };
            compute.submit(&[], &[exec]).unwrap();
        }
    });
    assert_eq!(calls, SUBMISSIONS, "a submission is one call");
    println!(
        "{chip}: {} ns for encoding and submitting one launch (best of {ROUNDS} rounds of {SUBMISSIONS}, without the call)",
        best / SUBMISSIONS
    );

    let mut graphs = Vec::new();
    for (taking, which) in [(KERNELS, " that all take a value"), (1, "")] {
        graphs = (0..GRAPHS)
            .map(|_| chain(&device, &compute, &program, &data, taking))
            .collect();
        let (best, calls) = behind_a_gate(&mut |round| {
            for graph in &mut graphs {
                graph.replay(&[round], &[], soon()).unwrap();
            }
        });
        assert_eq!(calls, GRAPHS as u64, "a replay is one call");
        println!(
            "{chip}: {} ns for a replay of {KERNELS} kernels{which} (best of {ROUNDS} rounds of {GRAPHS}, without the call)",
            best / GRAPHS as u64
        );
    }

    // The host has slept meanwhile, and comes back to cold caches.
    let mut graph = graphs.pop().unwrap();
    let mut best = Duration::MAX;
    for round in 0..20 {
        let inside = spent.ns.load(Ordering::Relaxed);
        let start = Instant::now();
        graph.replay(&[round], &[], soon()).unwrap();
        let all = start.elapsed();
        let inside = spent.ns.load(Ordering::Relaxed) - inside;
        best = best.min(all.saturating_sub(Duration::from_nanos(inside)));
        graph.wait(soon()).unwrap();
    }
    println!(
        "{chip}: {} ns for a replay after a sleep (best of 20, without the call)",
        best.as_nanos()
    );
}
