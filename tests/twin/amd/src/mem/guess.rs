//! Scalar loads that get what is old, and an atomic operation at the same address that finds that out.
//!
//! LLVM makes atomic operations that hardware lacks of a loop of compare and swap. The first guess of what is
//! there is a plain load (AtomicExpandPass), by the scalar cache where the address is that of all lanes. Where
//! it is old, the swap fails, and the loop goes on with what is there: no harm. So a stale scalar load of a
//! launch is told at the end of it, and not at all if an atomic operation followed at its address.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use hcq::sync::lock;
use twin_shader::page::PAGE;

/// How many are kept; more are no guesses.
const MOST: usize = 1024;

/// What launches have read so far, by object, address in the process, and how it is told.
#[derive(Default)]
pub(crate) struct Guesses {
    count: AtomicUsize,
    all: Mutex<BTreeMap<(u64, u64), String>>,
}

impl Guesses {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(u64, u64), String>> {
        // Nothing in here panics while it holds the lock.
        lock(&self.all)
    }

    /// A scalar load at `va` of an object was stale. Gives the text back where that can be no guess any more.
    pub(crate) fn add(&self, object: u64, va: u64, text: String) -> Option<String> {
        let mut all = self.all();
        if all.len() >= MOST {
            return Some(text);
        }
        all.insert((object, va), text);
        self.count.store(all.len(), Ordering::Release);
        None
    }

    /// The runs of 64 bytes of the page at `va` that have some.
    pub(crate) fn runs(&self, object: u64, va: u64) -> u64 {
        if self.count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let page = va & !(PAGE - 1);
        let all = self.all();
        let here = all.range((object, page)..(object, page + PAGE));
        here.fold(0, |runs, ((_, va), _)| runs | 1 << (va % PAGE / 64))
    }

    /// An atomic operation at these addresses of an object.
    pub(crate) fn prove(&self, object: u64, addresses: Range<u64>) {
        let mut all = self.all();
        all.retain(|&(of, va), _| of != object || !addresses.contains(&va));
        self.count.store(all.len(), Ordering::Release);
    }

    /// The launch has ended: what was no guess, the lowest address of each object.
    pub(crate) fn take(&self) -> Vec<(u64, u64, String)> {
        let mut all = std::mem::take(&mut *self.all())
            .into_iter()
            .map(|((object, va), text)| (object, va, text))
            .collect::<Vec<_>>();
        self.count.store(0, Ordering::Release);
        all.dedup_by_key(|(object, ..)| *object);
        all
    }
}
