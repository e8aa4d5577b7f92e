//! A recording takes little more memory than its text, whatever that says.

#![allow(clippy::unwrap_used)] // A test may panic.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use drivers::trace::recording::Recording;

/// Counts the bytes that are held, and the most of them.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most memory that parsing some text takes, and that a tape of it takes.
fn most(text: &str) -> usize {
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let recording = Recording::parse(text).unwrap();
    drop(recording.tape());
    MOST.load(Ordering::Relaxed) - before
}

// One test: another one beside it would be counted as well.
#[test]
fn a_recording_takes_little_more_than_its_text() {
    let first = "# doorbell trace 1\n";
    let lines = 100_000;
    let short = format!("{first}{}", "+0 a now -> ok\n".repeat(lines));
    let long = format!("{first}+0 a now -> ok{}\n", " 0x0".repeat(4 << 20));
    let data = format!("{first}+0 a now -> ok data={}\n", "00".repeat(8 << 20));
    for (text, times) in [(&short, 48), (&long, 4), (&data, 2)] {
        let most = most(text);
        println!("{} bytes of text: {most} bytes", text.len());
        assert!(most < times * text.len() + (1 << 16), "{most}");
    }
    // A failure of many words is none, and no list of them is made.
    let failed = format!("{first}+0 a now -> failed{}\n", " x".repeat(8 << 20));
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    assert!(Recording::parse(&failed).is_err());
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most < 1 << 16, "{most}");
}
