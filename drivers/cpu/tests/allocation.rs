//! A submission in steady state allocates nothing: not on the host's thread, and not on the
//! threads of the device.
#![allow(clippy::unwrap_used)]

mod cc;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use drivers_cpu::{Config, CpuDevice};
use hcq::graph::{GraphBuilder, Work};
use hcq::{
    AllocSpec, Command, CommandBuffer, Deadline, QueueKind, Scope, Slot, Span, Stream, Val, Width,
};

/// Counts calls.
struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands everything on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

// One test: another one beside it would be counted as well.
#[test]
fn submissions_and_replays_do_not_allocate() {
    let device = CpuDevice::open(Config {
        cores: 2,
        ..Config::default()
    })
    .unwrap();
    let source = "typedef unsigned long u64; void kernel(const u64 *a, u64 b, u64 e) {
                    for (u64 i = b; i < e; i++) ((u64 *)a[0])[i] += a[1]; }";
    let program = device.load(&cc::image(source, 2)).unwrap();
    let data = device.alloc(AllocSpec::device(8 * 64)).unwrap();
    let other = device.alloc(AllocSpec::device(8 * 64)).unwrap();
    let stamp = device.signal("stamp").unwrap();
    let compute = Stream::new(device.queue(QueueKind::Compute, 0).unwrap());
    let copy = Stream::new(device.queue(QueueKind::Copy, 0).unwrap());
    let deadline = || Deadline::after(Duration::from_secs(60));

    let slots = [Val::Slot(Slot(0), 0), Val::Slot(Slot(1), 0)];
    let launch = Command::Exec {
        program: &program,
        args: &slots,
        grid: [8, 1, 1],
        block: [1, 1, 1],
    };
    let signal = Command::Signal {
        signal: compute.queue().timeline().signal(),
        value: Val::Slot(Slot(2), 0),
    };
    let mut packets = CommandBuffer::new();
    compute
        .queue()
        .encode(&[launch, signal], &mut packets)
        .unwrap();
    let mut bound = compute.queue().bind(packets).unwrap();

    // Over two lanes, of which one waits for the other.
    let mut builder = GraphBuilder::new();
    let kernels = builder.lane(&(device.clone() as _), &compute);
    let copies = builder.lane(&(device.clone() as _), &copy);
    let (from, add) = (builder.slot().unwrap(), builder.slot().unwrap());
    let span = |slot| Span::new(Val::Slot(slot, 0), 512);
    let exec = Work::Exec {
        program: program.clone(),
        args: vec![Val::Slot(from, 0), Val::Slot(add, 0)],
        grid: [8, 1, 1],
        block: [1, 1, 1],
    };
    builder.add(kernels, "exec", exec, [span(from)], [span(from)]);
    let into = Val::Const(other.va().0);
    let copied = Work::Copy {
        dst: into,
        src: Val::Slot(from, 0),
        bytes: 512,
    };
    let touched = [Span::new(into, 512)];
    builder.add(copies, "copy", copied, [span(from)], touched);
    let mut graph = builder.build().unwrap();

    let mut round = |n: u64| {
        let args = [Val::Const(data.va().0), Val::Const(n)];
        let exec = |groups| Command::Exec {
            program: &program,
            args: &args,
            grid: [groups, 1, 1],
            block: [1, 1, 1],
        };
        let commands = [
            exec(1),
            Command::Barrier {
                scope: Scope::Queue,
            },
            exec(64),
            Command::Timestamp { signal: &stamp },
            Command::Write {
                at: Val::Const(data.va().0),
                value: Val::Const(n),
                width: Width::W64,
            },
        ];
        let done = compute.submit(&[], &commands).unwrap();
        let copied = Command::Copy {
            dst: Val::Const(other.va().0),
            src: Val::Const(data.va().0),
            bytes: 512,
        };
        let copied = copy.submit(&[done], &[copied]).unwrap();
        let values = |signal_value| [other.va().0, n, signal_value];
        let replayed = compute
            .launch(std::slice::from_ref(&copied), &mut *bound, values)
            .unwrap();
        let values = [data.va().0, n];
        graph
            .replay(&values, std::slice::from_ref(&replayed), deadline())
            .unwrap();
        copied.wait(deadline()).unwrap();
        replayed.wait(deadline()).unwrap();
    };
    for n in 0..200 {
        round(n);
    }
    let before = CALLS.load(Ordering::Relaxed);
    for n in 0..2000 {
        round(n);
    }
    let calls = CALLS.load(Ordering::Relaxed) - before;
    assert_eq!(
        calls, 0,
        "allocations in 2000 rounds of three submissions and a replay over two lanes"
    );
}
