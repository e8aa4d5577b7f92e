//! Memory as the shader cores see it.

use crate::memory::gws::Gws;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

mod bus;
mod gather;

pub use bus::Bus;
pub(crate) use gather::{blend, lanes};

pub use twin::host::PAGE;

/// The path by which an access goes; each has caches of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Port {
    /// Vector memory.
    Vector,
    /// Scalar memory.
    Scalar,
    /// Instruction fetch.
    Inst,
    /// The command processor, through GL2.
    Cp,
    /// An SDMA engine.
    Sdma,
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes, or reads and writes (atomics).
    Write,
    /// Fetches instructions.
    Execute,
}

/// Why memory did not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// Nothing is mapped there.
    NotPresent,
    /// Mapped without the right to write.
    ReadOnly,
    /// Mapped without the right to execute.
    NoExecute,
    /// Mapped, and the GPU may not get there any more: it is on its way to a reset.
    Aborted,
}

/// An access that memory refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemFault {
    /// The address.
    pub va: u64,
    /// What was tried.
    pub access: Access,
    /// The path.
    pub port: Port,
    /// Why.
    pub kind: FaultKind,
}

impl fmt::Display for MemFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} of {:#x} through {:?}: {:?}",
            self.access, self.va, self.port, self.kind
        )
    }
}

/// The address space of one process on one GPU.
pub trait Memory: Sync {
    /// The page at `va`, which is a multiple of [`PAGE`], for accesses of this kind. A page that was
    /// asked for reading may not be written.
    ///
    /// # Errors
    /// Not mapped, or not with that right.
    fn page(&self, port: Port, va: u64, access: Access) -> Result<Page, MemFault>;

    /// A number that changes whenever a page that was handed out earlier must be asked for again (an
    /// unmap, an invalidated cache, a page that has become stale for a port). By default, never.
    fn epoch(&self) -> &AtomicU64 {
        static NEVER: AtomicU64 = AtomicU64::new(0);
        &NEVER
    }

    /// Comes before each access to a run of bytes that a page has [watched](Page::watching): `bytes`
    /// at `va`, which lie in one page. `own` is true where all of them are in the slot of scratch
    /// that the wave was started with.
    fn watched(&self, port: Port, va: u64, bytes: usize, access: Access, own: bool) {
        let _ = (port, va, bytes, access, own);
    }

    /// Whether an atomic of a shader core at `va` leaves the GPU: it is not done by a cache, nor in
    /// memory of the GPU itself.
    fn leaves(&self, va: u64) -> bool {
        let _ = va;
        false
    }

    /// The global wave sync of the GPU, where there is one.
    fn gws(&self) -> Option<&Gws> {
        None
    }

    /// An instruction invalidates the cache behind a port (`s_icache_inv`, `s_dcache_inv`,
    /// `buffer_gl0_inv`, `buffer_inv`, `global_inv`); at system scope also what GL2 holds of memory that is
    /// not coherent (`global_inv scope:SCOPE_SYS`).
    fn invalidate(&self, port: Port, system: bool) {
        let _ = (port, system);
    }

    /// An instruction writes GL2 back (`buffer_wbl2`, `global_wb`), for the whole system or else for
    /// the agent, which matters where an agent has several GL2s (CDNA3).
    fn write_back(&self, system: bool) {
        let _ = system;
    }
}

/// A page that memory handed out: a pointer to its bytes, and where to note what was written.
#[derive(Clone, Copy)]
pub struct Page {
    base: *mut u8,
    dirty: *mut u64,
    touched: *mut u64,
    watch: u64,
}

impl Page {
    /// Stands where there is no page yet; never accessed.
    const NONE: Self = Self {
        base: std::ptr::null_mut(),
        dirty: std::ptr::null_mut(),
        touched: std::ptr::null_mut(),
        watch: 0,
    };

    /// A page at `base`. Where `dirty` is given, a bit per byte is set there for what is written,
    /// after it is written and with release order.
    ///
    /// # Safety
    /// `base` points to [`PAGE`] bytes, readable, and writable where the page was asked for writing;
    /// `dirty` to 64 words; both aligned to 64 bytes, and alive until the launch that asked for them has
    /// ended, whatever is unmapped meanwhile. Both are only ever accessed through pointers and
    /// atomics, never behind a reference.
    pub unsafe fn new(base: *mut u8, dirty: Option<*mut u64>) -> Self {
        Self {
            base,
            dirty: dirty.unwrap_or(std::ptr::null_mut()),
            touched: std::ptr::null_mut(),
            watch: 0,
        }
    }

    /// The same page; for each run of 64 bytes that is read, a bit is set in `touched`.
    ///
    /// # Safety
    /// `touched` is aligned, alive until the launch that asked for the page has ended, and only ever
    /// accessed as an atomic.
    #[must_use]
    pub unsafe fn touching(self, touched: *mut u64) -> Self {
        Self { touched, ..self }
    }

    /// Where reads are noted, while something is left to be noted.
    fn notes(self) -> bool {
        // SAFETY: `touching` promises an aligned word that lives as long as the page.
        !self.touched.is_null()
            && unsafe { AtomicU64::from_ptr(self.touched) }.load(Ordering::Relaxed) != !0
    }

    /// Notes that `bytes` at `offset` are read.
    #[inline(always)]
    fn touch(self, offset: usize, bytes: usize) {
        if !self.touched.is_null() {
            self.touch_runs(runs(offset, bytes));
        }
    }

    /// Notes that these runs are read, of a page that notes it.
    fn touch_runs(self, runs: u64) {
        // SAFETY: as in `notes`; who calls this has seen that there is one.
        let touched = unsafe { AtomicU64::from_ptr(self.touched) };
        if touched.load(Ordering::Relaxed) & runs != runs {
            touched.fetch_or(runs, Ordering::Relaxed);
        }
    }

    /// The same page; memory wants to hear of each access to the runs of 64 bytes in `runs`, a bit
    /// for each, before it happens ([`Memory::watched`]).
    #[must_use]
    pub fn watching(self, runs: u64) -> Self {
        Self {
            watch: runs,
            ..self
        }
    }

    /// The runs that memory watches.
    pub fn watch(self) -> u64 {
        self.watch
    }

    /// Where the `T` at `offset` is; `offset` is cut to its alignment and to the page, which costs
    /// less than a check. Callers pass offsets that this leaves alone.
    fn at<T>(self, offset: usize) -> *mut T {
        debug_assert!(offset.is_multiple_of(size_of::<T>()) && offset < PAGE as usize);
        let offset = offset & (PAGE as usize - size_of::<T>());
        self.base.wrapping_add(offset).cast()
    }

    fn load<T: Word>(self, offset: usize) -> T {
        // SAFETY: `at` stays inside the page and aligned; `new` promises that it is alive.
        unsafe { T::load(self.at(offset)) }
    }

    /// Stores without noting it. Private, as is [`Page::update`]: only [`Bus`] calls them, with pages
    /// that it asked for writing.
    fn store<T: Word>(self, offset: usize, value: T) {
        // SAFETY: `at` stays inside the page and aligned; `new` promises that it is alive and
        // writable.
        unsafe { T::store(self.at(offset), value) }
    }

    /// One atomic read, change and write; returns what was there.
    fn update<T: Word>(self, offset: usize, new: impl Fn(T) -> T) -> T {
        // SAFETY: as for `store`.
        let old = unsafe { T::update(self.at(offset), new) };
        self.mark(offset, size_of::<T>());
        old
    }

    /// Notes that `bytes` at `offset` were written.
    fn mark(self, offset: usize, bytes: usize) {
        let mut at = offset;
        let end = (offset + bytes).min(PAGE as usize);
        while at < end {
            let stop = ((at | 63) + 1).min(end);
            self.mark_word(at / 64, (!0 >> (64 - (stop - at))) << (at % 64));
            at = stop;
        }
    }

    fn mark_word(self, word: usize, bits: u64) {
        if !self.dirty.is_null() {
            let at = self.dirty.wrapping_add(word & 63);
            // SAFETY: `new` promises 64 aligned words that live as long as the page; the index is
            // below 64.
            unsafe { AtomicU64::from_ptr(at) }.fetch_or(bits, Ordering::Release);
        }
    }
}

/// A bit for each run of 64 bytes that `bytes` at `offset` of a page lie in.
#[inline(always)]
pub(crate) fn runs(offset: usize, bytes: usize) -> u64 {
    let first = offset / 64 & 63;
    let last = ((offset + bytes - 1) / 64).min(63);
    (!0 >> (63 - (last - first))) << first
}

/// An integer that memory holds: 8, 16, 32 or 64 bits.
pub trait Word: Copy + Eq + From<u8> + Into<u64> + sealed::Sealed {
    /// The low bits of `value`.
    fn cut(value: u64) -> Self;

    /// An atomic load.
    ///
    /// # Safety
    /// `at` is aligned, alive, and only ever accessed atomically or by the client.
    unsafe fn load(at: *mut Self) -> Self;

    /// An atomic store.
    ///
    /// # Safety
    /// As for [`Word::load`], and writable.
    unsafe fn store(at: *mut Self, value: Self);

    /// An atomic read, change and write; returns what was there.
    ///
    /// # Safety
    /// As for [`Word::store`].
    unsafe fn update(at: *mut Self, new: impl Fn(Self) -> Self) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! word {
    ($($int:ty: $atomic:ty),*) => {$(
        impl sealed::Sealed for $int {}

        impl Word for $int {
            fn cut(value: u64) -> Self {
                value as $int
            }

            unsafe fn load(at: *mut Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { <$atomic>::from_ptr(at) }.load(Ordering::Acquire)
            }

            unsafe fn store(at: *mut Self, value: Self) {
                // SAFETY: the caller's promise.
                unsafe { <$atomic>::from_ptr(at) }.store(value, Ordering::Release)
            }

            unsafe fn update(at: *mut Self, new: impl Fn(Self) -> Self) -> Self {
                // SAFETY: the caller's promise.
                let cell = unsafe { <$atomic>::from_ptr(at) };
                let mut old = cell.load(Ordering::Relaxed);
                loop {
                    let next = new(old);
                    match cell.compare_exchange_weak(
                        old,
                        next,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    ) {
                        Ok(_) => return old,
                        Err(seen) => old = seen,
                    }
                }
            }
        }
    )*};
}

word!(u8: AtomicU8, u16: AtomicU16, u32: AtomicU32, u64: AtomicU64);

#[cfg(test)]
pub(crate) mod tests;
