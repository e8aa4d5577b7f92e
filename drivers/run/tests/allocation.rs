//! A run allocates nothing: not on the host's thread, and not on the threads of the device.
#![allow(clippy::unwrap_used)]

#[path = "small/mod.rs"]
mod small;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use doorbell_run::{Chain, Model, ModelBundle};
use hcq::Import;
use hcq::mem::view::View;

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

fn placed(file: Vec<u8>) -> Model {
    let bundle = ModelBundle::from_bytes("test.dbx", file).unwrap();
    Chain::parse("CPU").unwrap().place(&bundle).unwrap().model
}

/// What is allocated while this is done.
fn allocated(mut what: impl FnMut()) -> u64 {
    let before = CALLS.load(Ordering::Relaxed);
    what();
    CALLS.load(Ordering::Relaxed) - before
}

/// The least that so many rounds allocate, of some tries: a thread that has to sleep for the first time may allocate once.
fn per_round(mut round: impl FnMut()) -> u64 {
    (0..200).for_each(|_| round());
    let tries = (0..4).map(|_| allocated(|| (0..1000).for_each(|_| round())));
    tries.min().unwrap()
}

// One test: what another one allocates beside it would be counted as well.
#[test]
fn runs_do_not_allocate() {
    short_runs();
    bound_runs();
    long_runs();
}

/// A ring of buffers of the caller, one after the other.
fn bound_runs() {
    let mut model = placed(small::good());
    let ring = [(); 3].map(|()| {
        let view = View::alloc(4096, 4096).unwrap();
        model.device().import(&Import::Host(view)).unwrap()
    });
    let mut n = 0;
    let round = || {
        n += 1;
        model.bind_input("x", &ring[n % ring.len()]).unwrap();
        model.run(Duration::from_secs(60)).unwrap();
    };
    assert_eq!(per_round(round), 0);
}

fn short_runs() {
    let mut model = placed(small::good());
    let x = small::bytes(&[1; small::ROW as usize]);
    let mut y = vec![0; x.len()];
    let round = || {
        model.write_input("x", &x).unwrap();
        model.run(Duration::from_secs(60)).unwrap();
        model.read_output("y", &mut y).unwrap();
    };
    assert_eq!(per_round(round), 0);
}

/// A wait looks for progress after the 64th part of its limit.
fn long_runs() {
    const LIMIT: Duration = Duration::from_secs(30);
    const LONG: Duration = Duration::from_millis(700);
    let mut model = placed(small::file(small::SPIN, |_| ()));
    let x = model.input_memory("x").unwrap();
    // Kernels end when their input is not 0.
    let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while !ended.load(Ordering::Acquire) && start.elapsed() < 2 * LIMIT {
                if begun.swap(false, Ordering::AcqRel) {
                    std::thread::sleep(LONG);
                    x.write(0, 1u64).unwrap();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut round = || {
            x.write(0, 0u64).unwrap();
            let start = Instant::now();
            begun.store(true, Ordering::Release);
            model.run(LIMIT).unwrap();
            assert!(start.elapsed() >= LONG);
        };
        round();
        let calls = allocated(|| (0..3).for_each(|_| round()));
        ended.store(true, Ordering::Release);
        assert_eq!(calls, 0);
    });
}
