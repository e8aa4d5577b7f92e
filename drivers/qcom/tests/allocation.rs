//! A submission and a replay allocate nothing in the driver, and are one call of the kernel driver each.
#![allow(clippy::unwrap_used)] // A test may panic.

mod stand;
mod timed;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use drivers_qcom::{Options, kgsl, msm, over};
use hcq::graph::{GraphBuilder, Work};
use hcq::progress::{Asked, raising};
use hcq::transport::Machine;
use hcq::{Command, Device, MemoryKind, QueueKind, Span, Stream, Val};
use twin_qcom::machine::TwinMachine;

use stand::{at, soon};

/// Counts calls of the thread that asks for it, outside of calls of the twin.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    if !timed::is_inside() {
        // A thread that ends has none any more.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
    }
}

// SAFETY: hands everything on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn submissions_and_replays_allocate_nothing() {
    for config in ["chip=a630", "chip=a630,kernel=msm"] {
        let twin: Arc<dyn Machine> = TwinMachine::new(config).unwrap();
        let (machine, spent) = timed::timed(twin);
        let options = Options::default();
        let backend = match config.contains("msm") {
            true => msm::open(&machine, 0),
            false => kgsl::open(&machine, 0, &options),
        };
        let device = over(&backend.unwrap(), &options).unwrap();
        let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let program = device.load(&stand::many("a630")).unwrap();
        let data = stand::memory(&*device, MemoryKind::Device, 4096).unwrap();

        let mut builder = GraphBuilder::new();
        let shared: Arc<dyn Device> = device.clone();
        let lane = builder.lane(&shared, &compute);
        let slot = builder.slot().unwrap();
        let span = Span::at(data.va().0, data.bytes());
        for i in 0..123 {
            let work = Work::Exec {
                program: program.clone(),
                args: vec![at(&data), Val::Slot(slot, i)],
                grid: [1, 1, 1],
                block: [1, 1, 1],
            };
            builder.add(lane, "many", work, [span], [span]);
        }
        let mut graph = builder.build().unwrap();
        let gate = device.signal("gate").unwrap();
        // Each is made while nothing else is under way; waits are not counted, since they may ask.
        let (mut allocations, mut calls) = (Vec::new(), Vec::new());
        for round in 0..40 {
            let before = (COUNT.get(), spent.calls.load(Ordering::Relaxed));
            graph.replay(&[round], &[], soon()).unwrap();
            let replayed = (COUNT.get(), spent.calls.load(Ordering::Relaxed));
            graph.wait(soon()).unwrap();
            let args = [at(&data), Val::Const(round)];
            let exec = Command::Exec {
                program: &program,
                args: &args,
                grid: [1, 1, 1],
                block: [1, 1, 1],
            };
            let between = (COUNT.get(), spent.calls.load(Ordering::Relaxed));
            compute.submit(&[], &[exec]).unwrap();
            let submitted = (COUNT.get(), spent.calls.load(Ordering::Relaxed));
            compute.wait(soon()).unwrap();
            // One that waits for the host, which has got there.
            gate.set(round).unwrap();
            let wait = Command::Wait {
                signal: &gate,
                value: Val::Const(round),
            };
            let behind = (COUNT.get(), spent.calls.load(Ordering::Relaxed));
            compute.submit(&[], &[wait, exec]).unwrap();
            let waiting = (COUNT.get(), spent.calls.load(Ordering::Relaxed));
            compute.wait(soon()).unwrap();
            if round >= 20 {
                let of = |from: (u64, u64), to: (u64, u64)| (to.0 - from.0, to.1 - from.1);
                let all = [
                    of(before, replayed),
                    of(between, submitted),
                    of(behind, waiting),
                ];
                allocations.push(all.map(|counts| counts.0));
                calls.push(all.map(|counts| counts.1));
            }
        }
        assert_eq!(calls, [[1; 3]; 20], "{config}");
        let allocating = allocations.iter().filter(|counts| **counts != [0; 3]);
        assert!(allocating.count() <= 1, "{config}: {allocations:?}");
    }
}

/// A wait that has become long looks at the queue. What has no waits in it is not read back for that; what has some is, to where
/// an earlier look has left room: here a wait for the host that is over, or is not, before a launch that never ends.
#[test]
fn looks_at_a_long_run_allocate_nothing() {
    for (config, wait) in [
        ("chip=a630", None),
        ("chip=a630", Some(1)),
        ("chip=a630,kernel=msm", None),
        ("chip=a630,kernel=msm", Some(0)),
    ] {
        let config = format!("{config},timeout=1500,fault=hang:1");
        let twin: Arc<dyn Machine> = TwinMachine::new(&config).unwrap();
        let (machine, _) = timed::timed(twin);
        let options = Options::default();
        let backend = match config.contains("msm") {
            true => msm::open(&machine, 0),
            false => kgsl::open(&machine, 0, &options),
        };
        let device = over(&backend.unwrap(), &options).unwrap();
        let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let program = device.load(&stand::many("a630")).unwrap();
        let data = stand::memory(&*device, MemoryKind::Device, 4096).unwrap();
        let gate = device.signal("gate").unwrap();
        let waits = wait.map(|value| Command::Wait {
            signal: &gate,
            value: Val::Const(value),
        });
        let exec = Command::Exec {
            program: &program,
            args: &[at(&data), Val::Const(1)],
            grid: [1, 1, 1],
            block: [1, 1, 1],
        };
        // It never ends.
        let commands: Vec<Command<'_>> = waits.into_iter().chain([exec]).collect();
        compute.submit(&[], &commands).unwrap();
        let timeline = compute.queue().timeline().signal().va().0;
        let mut counts = Vec::with_capacity(10);
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(3));
            let before = COUNT.get();
            let silence = raising(timeline, &mut Asked::default());
            counts.push(COUNT.get() - before);
            assert!(silence.is_some(), "{config}: nothing is asked");
        }
        // The first look knows of none before, and the next one makes room.
        let from = if wait.is_some() { 4 } else { 0 };
        let allocating = counts[from..].iter().filter(|count| **count > 0);
        assert_eq!(allocating.count(), 0, "{config}, {wait:?}: {counts:?}");
    }
}
