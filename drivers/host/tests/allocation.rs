//! A call of a device file that succeeds allocates nothing: a submission is one, and a wait is many.
#![allow(clippy::unwrap_used)] // A test may panic.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use drivers_host::machine::Host;
use hcq::transport::{Ioctl, Request};

/// Counts allocations of the thread.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has none any more.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
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

/// The number of a terminal, of Linux, include/uapi/asm-generic/ioctls.h.
const TIOCGPTN: Ioctl = Ioctl::new("TIOCGPTN", Ioctl::READ, b'T', 0x30, 4);

#[test]
fn a_call_that_succeeds_allocates_nothing() {
    let terminal = Host::get().open("/dev/ptmx").unwrap();
    let mut number = [0xff; 4];
    for round in 0..3 {
        let before = COUNT.get();
        // SAFETY: it writes the four bytes of its argument, which has no address in it.
        let mut request = unsafe { Request::raw(TIOCGPTN, &mut number) };
        let done = terminal.ioctl(&mut request);
        assert_eq!((done, COUNT.get() - before), (Ok(0), 0), "{round}");
    }
    assert_ne!(number, [0xff; 4]);
    // One that fails says which it was.
    let other = Ioctl::new("OTHER", Ioctl::READ, b'K', 1, 4);
    // SAFETY: a terminal does not know it.
    let mut request = unsafe { Request::raw(other, &mut number) };
    let error = terminal.ioctl(&mut request).unwrap_err();
    assert_eq!(error.operation, "ioctl OTHER");
}
