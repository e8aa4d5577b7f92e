//! A run allocates nothing: not on the host's thread, and not on the threads of the device.
#![allow(clippy::unwrap_used)]

#[path = "small/mod.rs"]
mod small;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use doorbell_run::{Chain, ModelBundle};

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
fn runs_do_not_allocate() {
    let bundle = ModelBundle::from_bytes("test.dbx", small::good()).unwrap();
    let mut model = Chain::parse("CPU").unwrap().place(&bundle).unwrap().model;
    let x = small::bytes(&[1; small::ROW as usize]);
    let mut y = vec![0; x.len()];
    let mut round = || {
        model.write_input("x", &x).unwrap();
        model.run(Duration::from_secs(60)).unwrap();
        model.read_output("y", &mut y).unwrap();
    };
    (0..200).for_each(|_| round());
    // On a busy machine a wait asks the device for its progress, and that allocates.
    let mut allocating = 0;
    for _ in 0..2000 {
        let before = CALLS.load(Ordering::Relaxed);
        round();
        allocating += u32::from(CALLS.load(Ordering::Relaxed) != before);
    }
    assert!(allocating <= 20, "{allocating} of 2000 runs allocate");
}
