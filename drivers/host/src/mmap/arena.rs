//! Machine code of many programs in few mappings.
//!
//! A process may have 65,530 mappings, and a mapping with its guards is up to three. Code is therefore in arenas: each piece
//! has whole pages, which are writable while it is made and executable afterwards, never both; writable data of a
//! program follows its code. Unused pages, and the pages around an arena, have no access and no memory.
//! Neighbours of the same access are one mapping for the kernel.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use hcq::sync::lock;
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags};

use super::{MapError, hint, page_size};
use crate::range::Range;

/// Size of an arena that several programs share.
const ARENA: usize = 4 << 20;

/// The largest piece of a shared arena. Larger pieces, and pieces with data, have their own.
const LARGEST: usize = ARENA / 16;

/// The fill after code in its last page: traps.
const TRAP: u8 = if cfg!(target_arch = "x86_64") {
    0xcc
} else {
    0
};

/// Arenas of machine code.
#[derive(Debug, Default)]
pub struct CodeArenas(Mutex<Vec<Arena>>);

#[derive(Debug)]
struct Arena {
    range: Range,
    /// Free ranges of whole pages, by start; no two are adjacent.
    free: BTreeMap<usize, usize>,
}

impl Arena {
    /// An arena with room for `len` bytes, whole pages, between two pages without access.
    fn new(len: usize) -> Result<Arena, Errno> {
        let (none, private) = (ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE);
        let page = page_size();
        let all = len.checked_add(2 * page).ok_or(Errno::ENOMEM)?;
        let range = Range::aligned(all, page, 0, none, private)?;
        let free = BTreeMap::from([(page, len)]);
        Ok(Arena { range, free })
    }

    /// How much it has room for.
    fn room(&self) -> usize {
        self.range.len() - 2 * page_size()
    }

    /// The first free range of at least that many bytes.
    fn take(&mut self, len: usize) -> Option<usize> {
        let (&at, &room) = self.free.iter().find(|(_, room)| **room >= len)?;
        self.free.remove(&at);
        if room > len {
            self.free.insert(at + len, room - len);
        }
        Some(at)
    }

    fn give_back(&mut self, mut at: usize, mut len: usize) {
        if let Some(room) = self.free.remove(&(at + len)) {
            len += room;
        }
        if let Some((&before, &room)) = self.free.range(..at).next_back()
            && before + room == at
        {
            self.free.remove(&before);
            (at, len) = (before, len + room);
        }
        self.free.insert(at, len);
    }

    fn first(&self) -> usize {
        self.range.ptr().addr().get()
    }

    /// Changes the access to pages of a piece.
    ///
    /// # Safety
    /// The caller owns the piece and has no references into it that the access forbids.
    unsafe fn protect(&self, at: usize, len: usize, prot: ProtFlags) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        unsafe { self.range.protect(at, len, prot) }
    }
}

impl CodeArenas {
    /// Room for bytes of code and, from the next page on, of data; zeroed.
    ///
    /// # Errors
    /// [`MapError::Empty`], [`MapError::TooLarge`], or what mmap(2) or mprotect(2) answered.
    pub fn room(self: &Arc<Self>, code: usize, data: usize) -> Result<CodeRoom, MapError> {
        if code == 0 {
            return Err(MapError::Empty);
        }
        let page = page_size();
        let pages = code.checked_next_multiple_of(page);
        let whole = pages
            .and_then(|pages| pages.checked_add(data)?.checked_next_multiple_of(page))
            .ok_or(MapError::TooLarge { len: code })?;
        let is_alone = whole > LARGEST || data > 0;
        let mut arenas = self.lock();
        let known = arenas.iter_mut().enumerate().filter(|_| !is_alone);
        let found = known.fold(None, |found, (i, arena)| {
            found.or_else(|| Some((i, arena.take(whole)?)))
        });
        let (i, at) = match found {
            Some(found) => found,
            None => {
                let len = if is_alone { whole } else { ARENA };
                let mut arena = Arena::new(len).map_err(|errno| MapError::Map {
                    len,
                    source: errno.into(),
                    hint: hint(errno),
                })?;
                let at = arena.take(whole).unwrap_or_default();
                arenas.push(arena);
                (arenas.len() - 1, at)
            }
        };
        let arena = &arenas[i];
        let first = arena.range.ptr();
        let piece = Piece {
            // SAFETY: the piece is inside of the arena.
            start: unsafe { first.byte_add(at) },
            len: whole,
            arenas: self.clone(),
        };
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the piece has no other owner.
        let writable = unsafe { arena.protect(at, whole, access) };
        drop(arenas);
        match writable {
            Ok(()) => Ok(CodeRoom { piece, code, data }),
            Err(errno) => Err(piece.refused("read, write", errno)),
        }
    }

    /// Bytes of code that is in use.
    pub fn used(&self) -> usize {
        let free = |arena: &Arena| arena.free.values().sum::<usize>();
        self.lock().iter().map(|a| a.room() - free(a)).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arena>> {
        // No code under the lock panics half-way.
        lock(&self.0)
    }
}

/// Allocated pages of an arena.
#[derive(Debug)]
struct Piece {
    start: NonNull<u8>,
    len: usize,
    arenas: Arc<CodeArenas>,
}

// SAFETY: the value owns the pages and accesses nothing in them.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Piece {
    /// Changes the access to its first `len` bytes, whole pages of it.
    ///
    /// # Safety
    /// No references into them exist that the access forbids.
    unsafe fn protect(&self, len: usize, prot: ProtFlags) -> Result<(), Errno> {
        let start = self.start.addr().get();
        let arenas = self.arenas.lock();
        let owner = arenas
            .iter()
            .find(|a| (a.first()..a.first() + a.range.len()).contains(&start));
        match owner {
            // SAFETY: the piece is ours; the caller's promise for the rest.
            Some(arena) => unsafe { arena.protect(start - arena.first(), len, prot) },
            None => Err(Errno::EFAULT),
        }
    }

    fn refused(&self, to: &'static str, errno: Errno) -> MapError {
        MapError::Protect {
            addr: self.start.addr().get(),
            len: self.len,
            to,
            source: errno.into(),
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let start = self.start.addr().get();
        let mut arenas = self.arenas.lock();
        let inside = |a: &Arena| (a.first()..a.first() + a.range.len()).contains(&start);
        let Some(i) = arenas.iter().position(inside) else {
            return;
        };
        let arena = &mut arenas[i];
        let at = start - arena.first();
        // SAFETY: the piece is ours and freed after this: no other code has an address in it.
        let closed = unsafe {
            let none = arena.protect(at, self.len, ProtFlags::PROT_NONE);
            none.and_then(|()| arena.range.forget(at, self.len))
        };
        // Pages whose access could not be removed are not reused.
        if closed.is_ok() {
            arena.give_back(at, self.len);
            let room = arena.room();
            let is_empty = arena.free.get(&page_size()) == Some(&room);
            // One of the usual size stays for the next kernel.
            if is_empty && (arenas.len() > 1 || room != ARENA) {
                arenas.swap_remove(i);
            }
        }
    }
}

/// Pages that will hold machine code: writable now, executable after [`CodeRoom::seal`], never both; and those of its data.
#[derive(Debug)]
pub struct CodeRoom {
    piece: Piece,
    code: usize,
    data: usize,
}

impl CodeRoom {
    /// Where the first byte is and will stay: relocations are computed against it.
    pub fn addr(&self) -> usize {
        self.piece.start.addr().get()
    }

    /// The content: code, and data from the next page on.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let used = match self.data {
            0 => self.code,
            data => self.pages() + data,
        };
        // SAFETY: the piece is at least `used` initialised (zeroed) bytes, private to this value, and borrowed mutably
        // with it. Nothing executes it or lends its address before `seal`.
        unsafe { std::slice::from_raw_parts_mut(self.piece.start.as_ptr(), used) }
    }

    /// Bytes of the pages of code.
    fn pages(&self) -> usize {
        self.code.next_multiple_of(page_size())
    }

    /// Makes the code readable and executable, and nothing of it writable. The rest of its last page traps. Data stays
    /// readable and writable.
    ///
    /// # Errors
    /// [`MapError::Protect`] where the system forbids code made at run time.
    pub fn seal(self) -> Result<Code, MapError> {
        let pages = self.pages();
        let (piece, code) = (self.piece, self.code);
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_EXEC;
        // SAFETY: the rest of the last page of code is inside of the piece and writable still, and no data; no reference
        // into it exists: `bytes_mut` borrows `self`, which was moved here.
        let sealed = unsafe {
            let rest = piece.start.byte_add(code);
            rest.write_bytes(TRAP, pages - code);
            piece.protect(pages, access)
        };
        if let Err(errno) = sealed {
            return Err(piece.refused("read, execute", errno));
        }
        flush_instruction_cache(piece.start, pages);
        Ok(Code { piece })
    }
}

/// Machine code that can be run and not written, with its data; its pages are freed on drop.
#[derive(Debug)]
pub struct Code {
    piece: Piece,
}

impl Code {
    /// The first byte. The caller who calls into it must know the signature and keep this owner alive.
    pub fn ptr(&self) -> NonNull<u8> {
        self.piece.start
    }

    /// The size in bytes, whole pages.
    #[allow(clippy::len_without_is_empty)] // Empty code cannot be made.
    pub fn len(&self) -> usize {
        self.piece.len
    }
}

#[cfg(target_arch = "x86_64")]
fn flush_instruction_cache(_start: NonNull<u8>, _len: usize) {}

#[cfg(not(target_arch = "x86_64"))]
fn flush_instruction_cache(start: NonNull<u8>, len: usize) {
    unsafe extern "C" {
        fn __clear_cache(start: *mut u8, end: *mut u8);
    }
    // SAFETY: the range is mapped and readable; the function of the compiler's runtime library
    // only issues cache maintenance.
    unsafe { __clear_cache(start.as_ptr(), start.as_ptr().byte_add(len)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mappings of this process that overlap some addresses: where they begin, and their access.
    fn mappings(of: std::ops::Range<usize>) -> Vec<(usize, String)> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let parsed = maps.lines().filter_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let from = usize::from_str_radix(from, 16).ok()?;
            let to = usize::from_str_radix(to, 16).ok()?;
            Some((from..to, rest[..4].to_owned()))
        });
        parsed
            .filter(|(at, _)| at.start < of.end && of.start < at.end)
            .map(|(at, access)| (at.start, access))
            .collect()
    }

    fn access(at: usize) -> String {
        mappings(at..at + 1).pop().unwrap().1
    }

    /// A function that returns a number.
    fn code(arenas: &Arc<CodeArenas>, number: u32, len: usize) -> Code {
        let mut room = arenas.room(len, 0).unwrap();
        // Asking the kernel takes long.
        let asks = number.is_multiple_of(100);
        assert!(!asks || access(room.addr()) == "rw-p");
        assert!(room.bytes_mut().iter().all(|&b| b == 0));
        if cfg!(target_arch = "x86_64") {
            // mov eax, number; ret
            room.bytes_mut()[0] = 0xb8;
            room.bytes_mut()[1..5].copy_from_slice(&number.to_le_bytes());
            room.bytes_mut()[5] = 0xc3;
        }
        let addr = room.addr();
        let code = room.seal().unwrap();
        assert_eq!(code.ptr().addr().get(), addr);
        assert!(!asks || access(addr) == "r-xp");
        code
    }

    fn returns(code: &Code, number: u32) {
        if cfg!(target_arch = "x86_64") {
            // SAFETY: `code` above wrote a function of this signature, and it outlives the call.
            let found = unsafe {
                let f: extern "C" fn() -> u32 = std::mem::transmute(code.ptr().as_ptr());
                f()
            };
            assert_eq!(found, number);
        }
    }

    #[test]
    fn many_pieces_are_few_mappings_and_freed_ones_come_again() {
        let arenas = Arc::new(CodeArenas::default());
        let mut all: Vec<Option<Code>> = (0..3000u32)
            .map(|i| Some(code(&arenas, i, 100 + i as usize % 5000)))
            .collect();
        for (i, code) in all.iter().enumerate() {
            returns(code.as_ref().unwrap(), i as u32);
        }
        let places: Vec<usize> = arenas.lock().iter().map(Arena::first).collect();
        let count = |places: &[usize]| -> usize {
            places
                .iter()
                .map(|&at| mappings(at..at + ARENA).len())
                .sum()
        };
        let bytes = arenas.used();
        assert!(places.len() <= bytes.div_ceil(ARENA) + 1, "{places:?}");
        assert!(count(&places) <= 3 * places.len(), "{}", count(&places));
        // Half of them go, and others come in their place.
        let gone = all[10].as_ref().unwrap().ptr();
        for code in all.iter_mut().step_by(2) {
            *code = None;
        }
        assert_eq!(access(gone.addr().get()), "---p");
        for i in (0..3000).step_by(2) {
            all[i] = Some(code(&arenas, 7000 + i as u32, 100 + i % 5000));
        }
        assert_eq!(arenas.used(), bytes);
        let now: Vec<usize> = arenas.lock().iter().map(Arena::first).collect();
        assert_eq!(now, places, "no new arena");
        assert!(count(&places) <= 3 * places.len(), "{}", count(&places));
        for (i, code) in all.iter().enumerate() {
            returns(
                code.as_ref().unwrap(),
                if i % 2 == 0 { 7000 } else { 0 } + i as u32,
            );
        }
        drop(all);
        assert_eq!(
            (arenas.used(), arenas.lock().len()),
            (0, 1),
            "one arena stays"
        );
    }

    #[test]
    fn what_is_behind_the_code_traps() {
        let arenas = Arc::new(CodeArenas::default());
        let code = code(&arenas, 1, 100);
        // SAFETY: readable for as long as `code` lives.
        let bytes = unsafe { std::slice::from_raw_parts(code.ptr().as_ptr(), code.len()) };
        assert!(bytes[100..].iter().all(|&b| b == TRAP));
        assert_eq!(code.len(), page_size());
    }

    #[test]
    fn large_code_and_what_has_data_lie_alone() {
        let (arenas, page) = (Arc::new(CodeArenas::default()), page_size());
        let _first = code(&arenas, 1, 100);
        let large = arenas.room(LARGEST + 1, 0).unwrap().seal().unwrap();
        let mut room = arenas.room(page, page + 10).unwrap();
        assert_eq!(room.bytes_mut().len(), 2 * page + 10);
        let with_data = room.seal().unwrap();
        assert_eq!((large.len(), with_data.len()), (LARGEST + page, 3 * page));
        assert_eq!(arenas.lock().len(), 3);
        let at = with_data.ptr().addr().get();
        let found: Vec<_> = (0..5).map(|i| access(at - page + i * page)).collect();
        assert_eq!(found, ["---p", "r-xp", "rw-p", "rw-p", "---p"]);
        drop((large, with_data));
        assert_eq!((arenas.used(), arenas.lock().len()), (page, 1));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        let arenas = Arc::new(CodeArenas::default());
        assert!(matches!(arenas.room(0, 0), Err(MapError::Empty)));
        for sizes in [(usize::MAX, 0), (1, usize::MAX), (usize::MAX - 4095, 4096)] {
            let large = arenas.room(sizes.0, sizes.1);
            assert!(
                matches!(large, Err(MapError::TooLarge { .. })),
                "{sizes:x?}"
            );
        }
        let large = arenas.room(usize::MAX / 4, 0);
        assert!(matches!(large, Err(MapError::Map { .. })));
        assert_eq!(arenas.used(), 0);
    }
}
