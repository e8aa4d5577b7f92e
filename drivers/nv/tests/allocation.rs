//! Submissions and replays in steady state allocate nothing on the host's thread.

#![allow(clippy::unwrap_used)] // A test may panic.

mod stand;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};

use drivers_nv::Options;
use hcq::{Command, Device, QueueKind, Scope, Stream, Val, Width};
use stand::{at, first, memory, soon};

/// Counts what the thread asks for: the twin's own threads do as they like.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    CALLS.with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: hands everything on to the system's allocator unchanged; the counter needs no memory and no destructor.
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

/// So many rounds until everything has the size that it keeps, then so many that are counted.
const ROUNDS: (u64, u64) = (300, 600);

/// So small that rings and blocks are used again, and fences come, before rounds are counted.
fn small() -> Options {
    Options {
        entries: 256,
        push_buffer: 64 << 10,
        ..Options::default()
    }
}

/// Runs rounds of work that is counted, each of which is waited for: who sleeps may be on the twin's own way.
fn steady(what: &str, mut work: impl FnMut(u64), mut wait: impl FnMut()) {
    let calls = || CALLS.with(Cell::get);
    assert!(calls() > 0, "nothing is counted");
    let mut made = 0;
    for n in 0..ROUNDS.0 + ROUNDS.1 {
        let before = calls();
        work(n);
        if n >= ROUNDS.0 {
            made += calls() - before;
        }
        wait();
    }
    assert_eq!(made, 0, "allocations in {} {what}", ROUNDS.1);
}

#[test]
fn submissions_do_not_allocate() {
    for (chip, sm) in stand::CHIPS {
        let (_twin, device) = stand::open(&format!("chip={chip}"), &small());
        let program = device.load(&first(sm)).unwrap();
        let (data, other) = (memory(&*device, 4096), memory(&*device, 4096));
        let stamp = device.signal("stamp").unwrap();
        let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
        let copies = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
        let work = |n| {
            let args = [at(&data), Val::Const(n), Val::Const(1)];
            let exec = Command::Exec {
                program: &program,
                args: &args,
                grid: [1, 1, 1],
                block: [64, 1, 1],
            };
            let queue = Scope::Queue;
            let commands = [
                exec,
                Command::Barrier { scope: queue },
                exec,
                Command::Timestamp { signal: &stamp },
                Command::Write {
                    at: Val::Const(other.va().0 + 2048),
                    value: Val::Const(n),
                    width: Width::W64,
                },
            ];
            let done = compute.submit(&[], &commands).unwrap();
            let copy = Command::Copy {
                dst: at(&other),
                src: at(&data),
                bytes: 512,
            };
            copies.submit(&[done], &[copy]).unwrap();
        };
        let wait = || copies.wait(soon()).unwrap();
        steady("rounds of two submissions", work, wait);
        let mut found = [0; 4];
        other.read(0, &mut found).unwrap();
        let last = (ROUNDS.0 + ROUNDS.1 - 1) as f32;
        assert_eq!(f32::from_le_bytes(found), last + 2.0, "{chip}");
    }
}

#[test]
fn replays_do_not_allocate() {
    let (_twin, device) = stand::open("chip=h100", &small());
    let program = device.load(&first(90)).unwrap();
    let data = memory(&*device, 4096);
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let graph = RefCell::new(stand::chain(&device, &compute, &program, &data, 10, 10));
    let work = |n| {
        let mut graph = graph.borrow_mut();
        graph.replay(&[n], &[], soon()).unwrap();
    };
    steady("replays", work, || graph.borrow_mut().wait(soon()).unwrap());
    let replays = ROUNDS.0 + ROUNDS.1;
    let mut found = [0; 4];
    data.read(0, &mut found).unwrap();
    assert_eq!(f32::from_le_bytes(found), (replays - 1) as f32 + 9.0 + 2.0);
}
