//! [`View`]: bounded, volatile access to memory that a device can read and write.
//!
//! One of the two modules of the crate with unsafe code; the other is [`barrier`](super::barrier). Its
//! laws:
//!
//! * No Rust reference to the bytes ever exists: a device may change them at any time, which a
//!   `&[u8]` promises cannot happen. Access is by value, element by element, volatile. The one
//!   exception is `AtomicU32`/`AtomicU64`, whose content is an `UnsafeCell` and promises nothing.
//! * So no type of the crate `volatile-register` is used: its `RW<T>` is read and written through a `&RW<T>` into the
//!   mapping. rustc no longer tells LLVM that memory behind a reference to an `UnsafeCell` may be read at any time
//!   (rust-lang/rust#98017), but the language does not promise that nothing reads there which the program did not ask
//!   for (rust-lang/unsafe-code-guidelines#411 and japaric/vcell#10, open), and reading a register may do something. A
//!   raw pointer, which a view has, allows no such reads.
//! * Every access is checked against the length, and against the alignment of the element.
//! * A view keeps its mapping alive through its owner.
//!
//! Volatile accesses are not ordered for the other side. Threads are ordered by the atomic methods
//! (acquire loads, release stores), devices by the fences of [`barrier`](super::barrier).
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use thiserror::Error;

/// Why an access to a [`View`] was refused. Nothing was read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ViewError {
    /// Part of the access is out of bounds.
    #[error("{bytes:#x} bytes at offset {offset:#x} are out of bounds of a view of {len:#x} bytes")]
    OutOfBounds {
        /// Byte offset of the access.
        offset: usize,
        /// Length of the access in bytes.
        bytes: usize,
        /// Length of the view in bytes.
        len: usize,
    },
    /// The address is not a multiple of the element size.
    #[error(
        "offset {offset:#x} (address ..{low:#05x}) of a view of {len:#x} bytes is not aligned to \
         its {align}-byte elements"
    )]
    Misaligned {
        /// Byte offset of the access.
        offset: usize,
        /// Length of the view in bytes.
        len: usize,
        /// Alignment the element needs, in bytes.
        align: usize,
        /// Low 12 bits of the address: they distinguish a bad offset from a bad base.
        low: usize,
    },
    /// A write to memory that is mapped for reads only.
    #[error(
        "write of {bytes:#x} bytes at offset {offset:#x} to a read-only mapping: map it for \
         writes too"
    )]
    ReadOnly {
        /// Byte offset of the access.
        offset: usize,
        /// Length of the access in bytes.
        bytes: usize,
    },
    /// [`View::alloc`] found no host memory.
    #[error("cannot allocate {len:#x} bytes of host memory aligned to {align:#x}")]
    NoMemory {
        /// Bytes asked for.
        len: usize,
        /// Alignment asked for.
        align: usize,
    },
}

mod sealed {
    pub trait Sealed {}
}

/// An unsigned integer that one bus access can carry: `u8`, `u16`, `u32`, `u64`.
pub trait Word: sealed::Sealed + Copy + Default + PartialEq + fmt::Debug + 'static {
    /// Size and alignment in bytes.
    const BYTES: usize;
    /// The value, zero-extended.
    fn to_u64(self) -> u64;
    /// The low bits of `value`.
    fn from_u64(value: u64) -> Self;
}

macro_rules! word {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Word for $t {
            const BYTES: usize = size_of::<$t>();
            #[inline]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }
            #[inline]
            fn from_u64(value: u64) -> Self {
                value as $t
            }
        }
    )*};
}
word!(u8, u16, u32, u64);

/// A bounded window onto memory that someone else may change at any time.
///
/// Cloning is cheap and shares the mapping. Two threads that write the same element race as two bus masters do:
/// elements are not torn, the order is unspecified.
#[derive(Clone)]
pub struct View {
    ptr: NonNull<u8>,
    len: usize,
    /// `len`, or 0 where nothing may be written: writes are checked against it as reads against `len`.
    writable: usize,
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the pointer is only used for volatile or atomic element accesses inside `len`, which the
// contract of `View::new` makes valid from every thread while `owner` lives; `owner` is Send+Sync.
unsafe impl Send for View {}
// SAFETY: as above; `&View` offers no access that the contract does not allow concurrently.
unsafe impl Sync for View {}

impl View {
    /// A view of the `len` bytes at `ptr`, kept mapped by `owner`.
    ///
    /// # Safety
    /// While `owner` lives: the `len` bytes at `ptr` are mapped for reads and writes, from every
    /// thread; no Rust reference to any of them exists except to atomics; and they are not more than
    /// `isize::MAX` bytes.
    pub unsafe fn new(ptr: NonNull<u8>, len: usize, owner: Arc<dyn Any + Send + Sync>) -> View {
        View {
            ptr,
            len,
            writable: len,
            owner,
        }
    }

    /// As [`View::new`], for a read-only mapping: writes are refused.
    ///
    /// # Safety
    /// As [`View::new`], without the writes.
    pub unsafe fn new_read_only(
        ptr: NonNull<u8>,
        len: usize,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> View {
        View {
            ptr,
            len,
            writable: 0,
            owner,
        }
    }

    /// Newly allocated zeroed host memory, `len` bytes aligned to `align`; freed with the last clone. For twins,
    /// replays and host-only buffers.
    ///
    /// # Errors
    /// [`ViewError::NoMemory`], also for an alignment that is not a power of two.
    pub fn alloc(len: usize, align: usize) -> Result<View, ViewError> {
        let refused = ViewError::NoMemory { len, align };
        let layout = Layout::from_size_align(len.max(1), align).map_err(|_| refused)?;
        // SAFETY: the layout has a size of at least one byte.
        let ptr = unsafe { std::alloc::alloc_zeroed(layout) };
        let ptr = NonNull::new(ptr).ok_or(refused)?;
        let owner = Arc::new(HostMemory { ptr, layout });
        // SAFETY: `owner` frees the allocation only when dropped and nobody else has the pointer;
        // a layout is never larger than isize::MAX.
        Ok(unsafe { View::new(ptr, len, owner) })
    }

    /// The same memory with an additional guard, dropped with the last clone, before the memory.
    #[must_use]
    pub fn with_guard(self, guard: impl Any + Send + Sync) -> View {
        // Fields are dropped in their order.
        let owner: Arc<dyn Any + Send + Sync> = Arc::new((guard, self.owner));
        View { owner, ..self }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the view has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The base address, for drivers and kernels that take addresses. It dangles once the last
    /// clone of this view is gone; dereferencing it is the caller's unsafe code.
    pub fn as_ptr(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The number of the mapping, by its owner: views that share it have the same one, and no two that live at a time have
    /// the same one else. An address alone does not tell: who unmaps memory may map other memory there.
    pub fn mapping(&self) -> usize {
        Arc::as_ptr(&self.owner).cast::<()>().addr()
    }

    /// The part of this view at `offset`, sharing its owner.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`].
    pub fn sub(&self, offset: usize, len: usize) -> Result<View, ViewError> {
        let ptr = self.span(offset, len)?;
        // `span` returned an address inside or one past the mapping, so it is never null.
        let ptr = NonNull::new(ptr).unwrap_or(self.ptr);
        Ok(View {
            ptr,
            len,
            writable: len.min(self.writable),
            owner: Arc::clone(&self.owner),
        })
    }

    /// Reads the element at `offset`, volatile.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`], [`ViewError::Misaligned`].
    #[inline]
    pub fn read<W: Word>(&self, offset: usize) -> Result<W, ViewError> {
        let ptr = self.element::<W>(offset, 1)?;
        // SAFETY: `element` checked bounds and alignment; the owner keeps it mapped.
        Ok(unsafe { ptr.read_volatile() })
    }

    /// Writes the element at `offset`, volatile.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`], [`ViewError::Misaligned`].
    #[inline]
    pub fn write<W: Word>(&self, offset: usize, value: W) -> Result<(), ViewError> {
        let ptr = self.target::<W>(offset, 1)?;
        // SAFETY: `element` checked bounds and alignment; the owner keeps it mapped.
        unsafe { ptr.write_volatile(value) };
        Ok(())
    }

    /// Writes consecutive elements from `offset` on, volatile, in ascending order, with one check
    /// for all: the path packets take into a ring. It is for memory: those that fill 64 bits between
    /// them go in one store.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`], [`ViewError::Misaligned`]; then nothing is written.
    #[inline]
    pub fn write_words<W: Word>(&self, offset: usize, words: &[W]) -> Result<(), ViewError> {
        let ptr = self.target::<W>(offset, words.len())?;
        // SAFETY: `target` checked bounds for `words.len()` elements, and the alignment; `words` does
        // not overlap a view (see the laws above).
        unsafe { store_up(words.as_ptr(), ptr, words.len()) };
        Ok(())
    }

    /// Prefetches a part of this view for writing, so that stores do not wait for memory or for the caches
    /// of readers. A hint: bytes outside of the view are ignored.
    #[inline]
    pub fn prefetch(&self, offset: usize, len: usize) {
        let Ok(start) = self.room(offset, len) else {
            return;
        };
        for line in (0..len).step_by(LINE) {
            // Inside, so that it is an address of the mapping.
            hint(start.wrapping_add(line));
        }
    }

    /// Reads consecutive elements from `offset` on, volatile, in ascending order.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`], [`ViewError::Misaligned`].
    #[inline]
    pub fn read_words<W: Word>(&self, offset: usize, words: &mut [W]) -> Result<(), ViewError> {
        let ptr = self.element::<W>(offset, words.len())?;
        for (i, word) in words.iter_mut().enumerate() {
            // SAFETY: `element` checked bounds for `words.len()` elements, and the alignment.
            *word = unsafe { ptr.add(i).read_volatile() };
        }
        Ok(())
    }

    /// Copies bytes out, from `offset` on; any alignment. Elements may be read in any width.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`].
    pub fn copy_to_slice(&self, offset: usize, to: &mut [u8]) -> Result<(), ViewError> {
        let from = self.span(offset, to.len())?;
        // SAFETY: `span` checked the source; `to` is a slice of its own, and no safe code can
        // have made one that overlaps a view.
        unsafe { copy_up(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes in, from `offset` on; any alignment. Elements may be written in any width.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`].
    pub fn copy_from_slice(&self, offset: usize, from: &[u8]) -> Result<(), ViewError> {
        let to = self.room(offset, from.len())?;
        // SAFETY: `span` checked the target; `from` does not overlap a view (see above).
        unsafe { copy_up(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// Sets `len` bytes from `offset` on to `value`.
    ///
    /// # Errors
    /// [`ViewError::OutOfBounds`].
    pub fn fill(&self, offset: usize, len: usize, value: u8) -> Result<(), ViewError> {
        let ptr = self.room(offset, len)?;
        let word = u64::from_ne_bytes([value; 8]);
        let mut at = 0;
        while at < len {
            // SAFETY: `at` (and `at + 7` for the wide store, which is aligned) is below `len`.
            unsafe {
                let p = ptr.add(at);
                if (p as usize).is_multiple_of(8) && len - at >= 8 {
                    p.cast::<u64>().write_volatile(word);
                    at += 8;
                } else {
                    p.write_volatile(value);
                    at += 1;
                }
            }
        }
        Ok(())
    }

    /// Address of `bytes` bytes at `offset`, if they all lie inside.
    #[inline]
    fn span(&self, offset: usize, bytes: usize) -> Result<*mut u8, ViewError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.len => {
                // SAFETY: offset <= len, and the mapping has `len` bytes, at most isize::MAX.
                Ok(unsafe { self.ptr.as_ptr().add(offset) })
            }
            _ => Err(ViewError::OutOfBounds {
                offset,
                bytes,
                len: self.len,
            }),
        }
    }

    /// Address of `bytes` bytes at `offset`, if they all may be written.
    #[inline]
    fn room(&self, offset: usize, bytes: usize) -> Result<*mut u8, ViewError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.writable => self.span(offset, bytes),
            _ => Err(self.no_room(offset, bytes)),
        }
    }

    #[cold]
    fn no_room(&self, offset: usize, bytes: usize) -> ViewError {
        match self.span(offset, bytes) {
            Ok(_) => ViewError::ReadOnly { offset, bytes },
            Err(error) => error,
        }
    }

    /// Address of `count` elements at `offset`, if they lie inside and are aligned.
    #[inline]
    fn element<W: Word>(&self, offset: usize, count: usize) -> Result<*mut W, ViewError> {
        let ptr = self.span(offset, count.saturating_mul(W::BYTES))?;
        self.aligned(ptr, offset)
    }

    /// As [`View::element`], of what may be written.
    #[inline]
    fn target<W: Word>(&self, offset: usize, count: usize) -> Result<*mut W, ViewError> {
        let ptr = self.room(offset, count.saturating_mul(W::BYTES))?;
        self.aligned(ptr, offset)
    }

    #[inline]
    fn aligned<W: Word>(&self, ptr: *mut u8, offset: usize) -> Result<*mut W, ViewError> {
        let address = ptr as usize;
        if !address.is_multiple_of(W::BYTES) {
            let (len, align, low) = (self.len, W::BYTES, address & 0xfff);
            return Err(ViewError::Misaligned {
                offset,
                len,
                align,
                low,
            });
        }
        Ok(ptr.cast())
    }
}

macro_rules! atomics {
    ($word:ty, $atomic:ty, $load:ident, $store:ident, $add:ident, $cas:ident) => {
        impl View {
            /// Loads the word at `offset` with acquire ordering.
            ///
            /// # Errors
            /// [`ViewError::OutOfBounds`], [`ViewError::Misaligned`].
            #[inline]
            pub fn $load(&self, offset: usize) -> Result<$word, ViewError> {
                let ptr = self.element::<$word>(offset, 1)?;
                // SAFETY: checked and mapped; `View` never gives out a plain reference to it.
                Ok(unsafe { <$atomic>::from_ptr(ptr) }.load(Ordering::Acquire))
            }

            /// Stores the word at `offset` with release: all earlier writes are visible first.
            ///
            /// # Errors
            /// [`ViewError::OutOfBounds`], [`ViewError::Misaligned`].
            #[inline]
            pub fn $store(&self, offset: usize, value: $word) -> Result<(), ViewError> {
                let ptr = self.target::<$word>(offset, 1)?;
                // SAFETY: as for the load.
                unsafe { <$atomic>::from_ptr(ptr) }.store(value, Ordering::Release);
                Ok(())
            }

            /// Adds to the word at `offset` (wrapping, acquire and release); returns the old value.
            ///
            /// # Errors
            /// [`ViewError::OutOfBounds`], [`ViewError::Misaligned`].
            #[inline]
            pub fn $add(&self, offset: usize, value: $word) -> Result<$word, ViewError> {
                let ptr = self.target::<$word>(offset, 1)?;
                // SAFETY: as for the load.
                Ok(unsafe { <$atomic>::from_ptr(ptr) }.fetch_add(value, Ordering::AcqRel))
            }

            /// Replaces `old` by `new` at `offset` (acquire and release). The inner result is the
            /// old value if it was replaced, else the value that was there.
            ///
            /// # Errors
            /// [`ViewError::OutOfBounds`], [`ViewError::Misaligned`].
            #[inline]
            pub fn $cas(
                &self,
                offset: usize,
                old: $word,
                new: $word,
            ) -> Result<Result<$word, $word>, ViewError> {
                let ptr = self.target::<$word>(offset, 1)?;
                // SAFETY: as for the load.
                let word = unsafe { <$atomic>::from_ptr(ptr) };
                Ok(word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire))
            }
        }
    };
}
atomics!(
    u32,
    AtomicU32,
    load_u32,
    store_u32,
    fetch_add_u32,
    compare_exchange_u32
);
atomics!(
    u64,
    AtomicU64,
    load_u64,
    store_u64,
    fetch_add_u64,
    compare_exchange_u64
);

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View({:p}, {:#x} bytes)", self.ptr, self.len)
    }
}

/// Bytes that caches fetch at once.
const LINE: usize = 64;

/// Prefetches a cache line for writing, on CPUs that support it.
#[inline]
fn hint(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint; it touches no register, no flag and no memory of ours, and never faults.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = at;
}

/// Copies upwards, volatile, in 64-bit elements where both sides are aligned alike.
///
/// # Safety
/// `len` bytes are readable at `from` and writable at `to`; the two do not overlap.
unsafe fn copy_up(from: *const u8, to: *mut u8, len: usize) {
    let alike = (from as usize ^ to as usize).is_multiple_of(8);
    let mut at = 0;
    while at < len {
        // SAFETY: `at`, and `at + 7` for the wide access, stay below `len`; wide ones are aligned.
        unsafe {
            let (f, t) = (from.add(at), to.add(at));
            if alike && (f as usize).is_multiple_of(8) && len - at >= 8 {
                t.cast::<u64>()
                    .write_volatile(f.cast::<u64>().read_volatile());
                at += 8;
            } else {
                t.write_volatile(f.read_volatile());
                at += 1;
            }
        }
    }
}

/// Stores elements upwards, volatile, in 64-bit stores where `to` is aligned for them: half as many as
/// of the words that packets are made of, and no element is torn. Not in wider ones: their loads would cover words that were
/// stored one by one just before, and wait until these have left the processor's store buffer.
///
/// # Safety
/// `count` elements are readable at `from`, which only this thread uses, and writable at `to`; both are
/// aligned to an element, and do not overlap.
#[inline]
unsafe fn store_up<W: Word>(from: *const W, to: *mut W, count: usize) {
    let each = 8 / W::BYTES;
    // Elements have a size that divides 8, and `to` is a multiple of it.
    let head = ((to as usize).wrapping_neg() % 8 / W::BYTES).min(count);
    let wide = (count - head) / each;
    let one = |i: usize| {
        // SAFETY: `i` is below `count`.
        unsafe { to.add(i).write_volatile(from.add(i).read()) };
    };
    (0..head).for_each(one);
    for i in 0..wide {
        let at = head + i * each;
        // SAFETY: `at + each` is at most `count`; `to` is a multiple of 8 from `head` on.
        unsafe {
            let word = from.add(at).cast::<u64>().read_unaligned();
            to.add(at).cast::<u64>().write_volatile(word);
        }
    }
    (head + wide * each..count).for_each(one);
}

/// Owner of the memory behind [`View::alloc`].
struct HostMemory {
    ptr: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the pointer is only used to free the memory, once, in `drop`.
unsafe impl Send for HostMemory {}
// SAFETY: `&HostMemory` offers nothing.
unsafe impl Sync for HostMemory {}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `View::alloc` with this layout; the last owner is going.
        unsafe { std::alloc::dealloc(self.ptr.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_goes_before_the_memory_with_the_last_clone() {
        struct Guard(View, Arc<AtomicU64>);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.1.store(self.0.read(0).unwrap(), Ordering::SeqCst);
            }
        }
        let seen = Arc::new(AtomicU64::new(0));
        let view = View::alloc(8, 8).unwrap();
        let guarded = view.clone().with_guard(Guard(view, seen.clone()));
        let part = guarded.sub(0, 8).unwrap();
        drop(guarded);
        part.write(0, 7u64).unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), 0);
        drop(part);
        assert_eq!(seen.load(Ordering::SeqCst), 7);
    }

    #[test]
    fn a_mapping_is_told_by_its_owner() {
        let view = View::alloc(16, 16).unwrap();
        let part = view.sub(8, 8).unwrap();
        assert_eq!(view.mapping(), part.mapping());
        // The same bytes, by another owner.
        let other = view.clone().with_guard(());
        assert_eq!(view.as_ptr(), other.as_ptr());
        assert_ne!(view.mapping(), other.mapping());
    }

    #[test]
    fn every_width_reads_what_was_written() {
        let view = View::alloc(32, 64).unwrap();
        view.write(0, 0x11u8).unwrap();
        view.write(2, 0x2233u16).unwrap();
        view.write(4, 0x4455_6677u32).unwrap();
        view.write(8, 0x8899_aabb_ccdd_eeffu64).unwrap();
        assert_eq!(view.read::<u8>(0), Ok(0x11));
        assert_eq!(view.read::<u16>(2), Ok(0x2233));
        assert_eq!(view.read::<u32>(4), Ok(0x4455_6677));
        assert_eq!(view.read::<u64>(8), Ok(0x8899_aabb_ccdd_eeff));
        assert_eq!(view.read::<u32>(16), Ok(0), "memory starts zeroed");
    }

    #[test]
    fn bounds_and_alignment_are_errors_with_numbers() {
        let view = View::alloc(16, 64).unwrap();
        assert_eq!(
            view.read::<u32>(13),
            Err(ViewError::OutOfBounds {
                offset: 13,
                bytes: 4,
                len: 16
            })
        );
        assert_eq!(
            view.write(2, 0u32),
            Err(ViewError::Misaligned {
                offset: 2,
                len: 16,
                align: 4,
                low: 2 | (view.as_ptr() as usize & 0xfc0)
            })
        );
        assert!(view.read::<u8>(usize::MAX).is_err());
        assert!(view.write_words(8, &[0u32; 3]).is_err());
        assert!(view.copy_to_slice(10, &mut [0; 7]).is_err());
        assert!(view.fill(16, 1, 0).is_err());
        assert!(view.fill(16, 0, 0).is_ok());
        let text = view.read::<u64>(12).unwrap_err().to_string();
        assert_eq!(
            text,
            "0x8 bytes at offset 0xc are out of bounds of a view of 0x10 bytes"
        );
        assert_eq!(
            View::alloc(8, 3).unwrap_err(),
            ViewError::NoMemory { len: 8, align: 3 }
        );
    }

    #[test]
    fn sub_views_share_memory_and_keep_it_alive() {
        let sub = {
            let view = View::alloc(64, 64).unwrap();
            view.write(20, 7u32).unwrap();
            view.sub(16, 8).unwrap()
        };
        assert_eq!(sub.read::<u32>(4), Ok(7));
        assert!(sub.read::<u32>(8).is_err());
        assert!(sub.sub(4, 5).is_err());
        assert_eq!(sub.sub(8, 0).unwrap().len(), 0);
    }

    #[test]
    fn what_is_mapped_for_reads_is_never_written() {
        let memory = View::alloc(64, 64).unwrap();
        memory.write(8, 7u64).unwrap();
        let ptr = NonNull::new(memory.as_ptr()).unwrap();
        // SAFETY: the memory is the owner's, which the view keeps.
        let whole = unsafe { View::new_read_only(ptr, 64, Arc::new(memory.clone())) };
        let view = whole.sub(8, 32).unwrap();
        let refused = |bytes| Err(ViewError::ReadOnly { offset: 0, bytes });
        assert_eq!(view.write(0, 1u32), refused(4));
        assert_eq!(view.write_words(0, &[1u16; 3]), refused(6));
        assert_eq!(view.copy_from_slice(0, &[1; 5]), refused(5));
        assert_eq!(view.fill(0, 3, 1), refused(3));
        assert_eq!(view.store_u32(0, 1), refused(4));
        assert!(view.store_u64(0, 1).is_err() && view.fetch_add_u64(0, 1).is_err());
        assert!(view.compare_exchange_u32(0, 7, 1).is_err());
        assert!(matches!(
            view.write(32, 1u8),
            Err(ViewError::OutOfBounds { .. })
        ));
        assert_eq!((view.read::<u64>(0), view.load_u64(0)), (Ok(7), Ok(7)));
    }

    #[test]
    fn the_owner_lives_as_long_as_any_clone() {
        let owner = Arc::new(());
        let memory = View::alloc(8, 8).unwrap();
        let ptr = NonNull::new(memory.as_ptr()).unwrap();
        // SAFETY: `memory` outlives the view in this test.
        let view = unsafe { View::new(ptr, 8, owner.clone()) };
        let sub = view.sub(4, 4).unwrap();
        drop(view);
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(sub);
        assert_eq!(Arc::strong_count(&owner), 1);
    }

    #[test]
    fn bulk_copies_at_every_alignment() {
        let view = View::alloc(64, 64).unwrap();
        let source: Vec<u8> = (1..=40).collect();
        for offset in 0..9 {
            for len in 0..source.len() {
                view.fill(0, 64, 0xaa).unwrap();
                view.copy_from_slice(offset, &source[..len]).unwrap();
                let mut all = [0; 64];
                view.copy_to_slice(0, &mut all).unwrap();
                assert_eq!(&all[offset..offset + len], &source[..len]);
                assert!(
                    all[..offset]
                        .iter()
                        .chain(&all[offset + len..])
                        .all(|&b| b == 0xaa)
                );
            }
        }
    }

    #[test]
    fn atomics_count_across_threads() {
        let view = View::alloc(16, 8).unwrap();
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..100 {
                        view.fetch_add_u32(0, 1).unwrap();
                        view.fetch_add_u64(8, 2).unwrap();
                    }
                });
            }
        });
        assert_eq!(view.load_u32(0), Ok(400));
        assert_eq!(view.load_u64(8), Ok(800));
        assert_eq!(view.compare_exchange_u64(8, 800, 1), Ok(Ok(800)));
        assert_eq!(view.compare_exchange_u64(8, 800, 2), Ok(Err(1)));
        view.store_u32(0, 9).unwrap();
        assert_eq!(view.compare_exchange_u32(0, 9, 10), Ok(Ok(9)));
        view.store_u64(8, u64::MAX).unwrap();
        assert_eq!(view.fetch_add_u64(8, 1), Ok(u64::MAX));
        assert!(view.load_u64(4).is_err(), "misaligned");
    }

    #[test]
    fn words_have_one_check_and_ascending_order() {
        let view = View::alloc(16, 8).unwrap();
        view.write_words(4, &[1u32, 2, 3]).unwrap();
        let mut words = [0u32; 4];
        view.read_words(0, &mut words).unwrap();
        assert_eq!(words, [0, 1, 2, 3]);
        view.write_words(8, &[u64::MAX]).unwrap();
        assert_eq!(view.read::<u32>(12), Ok(u32::MAX));
        assert!(view.write_words(2, &[1u32]).is_err());
    }

    #[test]
    fn a_prefetch_changes_nothing_and_refuses_nothing() {
        let view = View::alloc(200, 8).unwrap();
        view.write(192, 7u64).unwrap();
        for (offset, len) in [(0, 200), (192, 8), (192, 9), (usize::MAX, 2), (200, 0)] {
            view.prefetch(offset, len);
        }
        assert_eq!(view.read::<u64>(192), Ok(7));
    }

    #[test]
    fn words_go_to_their_places_and_to_no_others() {
        // Places of all alignments, and counts below and above a wide store.
        fn check<W: Word>(value: u64) {
            let words: Vec<W> = (1..40).map(|i| W::from_u64(value * i)).collect();
            for start in 0..9 {
                for count in 0..words.len() {
                    let view = View::alloc(64 * W::BYTES, 8).unwrap();
                    let view = view.sub(W::BYTES, 63 * W::BYTES).unwrap();
                    view.write_words(start * W::BYTES, &words[..count]).unwrap();
                    let mut found = vec![W::default(); 63];
                    view.read_words(0, &mut found).unwrap();
                    assert_eq!(found[start..start + count], words[..count]);
                    found.drain(start..start + count);
                    assert!(found.iter().all(|word| *word == W::default()));
                }
            }
        }
        check::<u8>(1);
        check::<u16>(0x0101);
        check::<u32>(0x0101_0101);
        check::<u64>(0x0101_0101_0101_0101);
    }
}
