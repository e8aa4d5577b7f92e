//! Device memory: anonymous mappings, reused.
//!
//! Unsafe module, for one reason: a [`View`] is made of memory that an [`Allocation`] owns.
//!
//! Small buffers (signals, arguments, scalars) are cut from arenas of one huge page. Large ones are
//! mappings of their own between pages that trap, so a kernel that runs over the end of a tensor
//! faults instead of spoiling another. Freed mappings are kept, up to a budget, and given out
//! again: pages that the kernel has already backed cost no page faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drivers_host::mmap::{HUGE_PAGE, Memory, page_size};
use hcq::mem::cache::BufferCache;
use hcq::mem::tlsf::Tlsf;
use hcq::mem::view::View;
use hcq::mem::window::Window;
use hcq::{AllocSpec, Buffer, DeviceId, Error, GpuVa, HostAccess, LostState, MemoryStats, Result};
use std::ptr::NonNull;

/// Up to this size a buffer comes from an arena.
const SMALL: u64 = 64 << 10;

/// Size of an arena.
const ARENA: u64 = HUGE_PAGE as u64;

/// Smallest piece of an arena: a cache line, so that no two buffers share one.
const GRANULE: u64 = 64;

/// The memory of one device.
pub(crate) struct Pool {
    device: DeviceId,
    lost: Arc<LostState>,
    /// What windows are called.
    name: Arc<str>,
    state: Mutex<State>,
}

struct State {
    total: u64,
    used: u64,
    peak: u64,
    /// Freed large mappings by their exact size.
    cache: BufferCache<(), Memory>,
    /// By address.
    arenas: BTreeMap<u64, Arena>,
    /// Live buffers by address, for fault messages.
    live: BTreeMap<u64, u64>,
}

struct Arena {
    memory: Memory,
    tlsf: Tlsf,
}

/// The memory of one buffer.
enum Piece {
    /// `size` bytes at `start` of an arena.
    Small { start: NonNull<u8>, size: u64 },
    /// A mapping of its own.
    Large(Memory),
}

// SAFETY: a piece is an address range that its holder owns; nothing is accessed through it.
unsafe impl Send for Piece {}
// SAFETY: as above.
unsafe impl Sync for Piece {}

impl Piece {
    fn start(&self) -> NonNull<u8> {
        match self {
            Piece::Small { start, .. } => *start,
            Piece::Large(memory) => memory.ptr(),
        }
    }

    fn size(&self) -> u64 {
        match self {
            Piece::Small { size, .. } => *size,
            Piece::Large(memory) => memory.len() as u64,
        }
    }
}

impl Pool {
    /// A pool of at most `total` bytes, a quarter of which may be kept after a free.
    pub(crate) fn new(lost: &Arc<LostState>, device: DeviceId, total: u64) -> Arc<Pool> {
        let state = State {
            total,
            used: 0,
            peak: 0,
            cache: BufferCache::new(total / 4),
            arenas: BTreeMap::new(),
            live: BTreeMap::new(),
        };
        Arc::new(Pool {
            name: format!("memory of {device}").into(),
            lost: lost.clone(),
            device,
            state: Mutex::new(state),
        })
    }

    /// A new buffer.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn alloc(self: &Arc<Self>, spec: AllocSpec) -> Result<Buffer> {
        if !spec.align.is_power_of_two() || spec.align > HUGE_PAGE as u64 {
            let align = spec.align;
            let hint = format!("; alignment {align} is not a power of two up to {HUGE_PAGE}");
            return Err(self.out_of_memory(spec.bytes, hint));
        }
        let small = spec.bytes <= SMALL && spec.align <= SMALL;
        let (piece, fresh) = match small {
            true => (self.take_small(spec)?, false),
            false => self.take_large(spec)?,
        };
        let start = piece.start();
        {
            let mut state = self.lock();
            state.used += piece.size();
            state.peak = state.peak.max(state.used);
            state.live.insert(start.as_ptr() as u64, spec.bytes);
        }
        let owner = Arc::new(Allocation {
            pool: self.clone(),
            piece: Some(piece),
        });
        // SAFETY: `owner` holds at least `bytes` bytes, mapped for as long as it lives, and gives
        // them back only when the last view is gone; nobody makes a reference to the content.
        let view = unsafe { View::new(start, spec.bytes as usize, owner) };
        if spec.zeroed && !fresh {
            // The view has this length.
            let _ = view.fill(0, spec.bytes as usize, 0);
        }
        let va = GpuVa(start.as_ptr() as u64);
        let host = HostAccess::Window(Window::mapped(self.name.clone(), view));
        let device = self.device.clone();
        Ok(Buffer::new(device, va, spec.bytes, host, Box::new(())))
    }

    fn take_small(&self, spec: AllocSpec) -> Result<Piece> {
        let size = spec.bytes.max(1);
        let mut state = self.lock();
        for (&base, arena) in &mut state.arenas {
            if let Ok(at) = arena.tlsf.alloc(size, spec.align) {
                return Ok(arena.piece(base, at));
            }
        }
        // Another arena, made under the lock: it is rare, and mapping is lazy.
        if state.used + ARENA > state.total {
            drop(state);
            return Err(self.out_of_memory(spec.bytes, String::new()));
        }
        let made = Memory::new(ARENA as usize).map_err(|e| e.to_string());
        let made = made.and_then(|memory| {
            let base = memory.ptr().as_ptr() as u64;
            let mut tlsf = Tlsf::new(base, ARENA, GRANULE).map_err(|e| e.to_string())?;
            let at = tlsf.alloc(size, spec.align).map_err(|e| e.to_string())?;
            Ok((base, at, Arena { memory, tlsf }))
        });
        match made {
            Ok((base, at, arena)) => {
                let piece = arena.piece(base, at);
                state.arenas.insert(base, arena);
                Ok(piece)
            }
            Err(error) => {
                drop(state);
                Err(self.out_of_memory(spec.bytes, format!("; {error}")))
            }
        }
    }

    /// A mapping, and whether it is fresh from the kernel and so zeroed.
    fn take_large(&self, spec: AllocSpec) -> Result<(Piece, bool)> {
        // From a huge page on a mapping is aligned to that, below only to a page.
        let least = match spec.align > page_size() as u64 {
            true => HUGE_PAGE as u64,
            false => 1,
        };
        let Some(size) = rounded(spec.bytes.max(least)) else {
            return Err(self.out_of_memory(spec.bytes, String::new()));
        };
        let evicted = {
            let mut state = self.lock();
            if let Some(memory) = state.cache.take(size, ()) {
                return Ok((Piece::Large(memory), false));
            }
            let room = state.total.saturating_sub(state.used);
            if size > room {
                drop(state);
                return Err(self.out_of_memory(spec.bytes, String::new()));
            }
            state.cache.shrink_to(room - size)
        };
        // Unmapped outside of the lock.
        drop(evicted);
        let mapped = Memory::guarded(size as usize).or_else(|_| {
            // The system is short: give it back what we only keep.
            let evicted = self.lock().cache.shrink_to(0);
            drop(evicted);
            Memory::guarded(size as usize)
        });
        match mapped {
            Ok(memory) => Ok((Piece::Large(memory), true)),
            Err(error) => Err(self.out_of_memory(spec.bytes, format!("; {error}"))),
        }
    }

    /// Bytes in use and free.
    pub(crate) fn stats(&self) -> MemoryStats {
        let state = self.lock();
        let idle: u64 = state.arenas.values().map(|a| a.tlsf.stats().free).sum();
        MemoryStats {
            used: state.used,
            cached: state.cache.bytes() + idle,
            peak: state.peak,
            total: state.total,
        }
    }

    /// Where an address lies relative to the live buffers, in words.
    pub(crate) fn locate(&self, address: u64) -> String {
        let state = self.lock();
        let below = state.live.range(..=address).next_back();
        let above = state.live.range(address..).next();
        if let Some((start, bytes)) = below {
            let offset = address - start;
            if offset < *bytes {
                return format!("offset {offset} of the buffer {start:#x}+{bytes:#x}");
            }
            let past = offset - bytes;
            let nearer = above.is_none_or(|(next, _)| past <= next - address);
            if nearer && past < 1 << 30 {
                return format!("{past} bytes past the end of the buffer {start:#x}+{bytes:#x}");
            }
        }
        match above {
            Some((start, bytes)) if start - address < 1 << 30 => {
                let before = start - address;
                format!("{before} bytes before the buffer {start:#x}+{bytes:#x}")
            }
            _ => "near no buffer of this device".into(),
        }
    }

    fn give_back(&self, piece: Piece) {
        let start = piece.start().as_ptr() as u64;
        let mut gone = Vec::new();
        let mut empty = None;
        {
            let mut state = self.lock();
            state.live.remove(&start);
            state.used -= piece.size();
            match piece {
                Piece::Large(memory) => {
                    let size = memory.len() as u64;
                    gone = state.cache.put(size, (), memory);
                }
                Piece::Small { .. } => {
                    let arenas = state.arenas.len();
                    if let Some((&base, arena)) = state.arenas.range_mut(..=start).next_back() {
                        // It was allocated there.
                        let _ = arena.tlsf.free(start);
                        if arenas > 1 && arena.tlsf.stats().used == 0 {
                            empty = state.arenas.remove(&base);
                        }
                    }
                }
            }
        }
        // Unmapped outside of the lock.
        drop((gone, empty));
    }

    fn out_of_memory(&self, asked: u64, hint: String) -> Error {
        let stats = self.stats();
        Error::OutOfMemory {
            device: self.device.clone(),
            asked,
            free: stats.total.saturating_sub(stats.used),
            total: stats.total,
            hint,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arena {
    /// The allocation at address `at` of an arena that begins at `base`.
    fn piece(&self, base: u64, at: u64) -> Piece {
        // SAFETY: the allocator gave an address of the range that it manages: the arena's.
        let start = unsafe { self.memory.ptr().add((at - base) as usize) };
        let size = self.tlsf.size_of(at).unwrap_or(GRANULE);
        Piece::Small { start, size }
    }
}

/// The size of the mapping for a large buffer: whole pages, and an eighth of its power of two, so
/// that buffers of nearly the same size reuse each other's mappings.
fn rounded(bytes: u64) -> Option<u64> {
    let step = (1u64 << bytes.max(1).ilog2() >> 3).max(page_size() as u64);
    let size = bytes.checked_next_multiple_of(step)?;
    (size <= isize::MAX as u64 / 2).then_some(size)
}

/// Memory in use; goes back to its pool when dropped.
struct Allocation {
    pool: Arc<Pool>,
    piece: Option<Piece>,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let Some(piece) = self.piece.take() else {
            return;
        };
        if self.pool.lost.runs_on() {
            // A thread of the device may still be in a kernel that uses it: it goes back once all have ended.
            let pool = self.pool.clone();
            let piece = Some(piece);
            self.pool.lost.keep(Box::new(Allocation { pool, piece }));
            return;
        }
        self.pool.give_back(piece);
    }
}

/// Bytes that this machine lets the process use: its memory, or the limit of the control group.
pub(crate) fn system_memory() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let total = read("/proc/meminfo")
        .lines()
        .find_map(|line| {
            let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?;
            kib.trim().parse::<u64>().ok()
        })
        .map(|kib| kib << 10);
    let group = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .find_map(|path| read(path).trim().parse::<u64>().ok());
    // Where /proc is hidden, an address-space-sized limit leaves the answer to mmap.
    let total = total.unwrap_or(1 << 46);
    group.map_or(total, |group| group.min(total))
}

#[cfg(test)]
mod tests {
    use hcq::MemoryKind;

    use super::*;

    fn pool(total: u64) -> Arc<Pool> {
        let id = DeviceId::new("CPU", 0);
        Pool::new(&Arc::new(LostState::new(id.clone())), id, total)
    }

    fn spec(bytes: u64, align: u64, zeroed: bool) -> AllocSpec {
        let kind = MemoryKind::Device;
        AllocSpec {
            bytes,
            align,
            kind,
            zeroed,
        }
    }

    #[test]
    fn memory_is_reused_and_accounted_for() {
        let pool = pool(64 << 20);
        let a = pool.alloc(AllocSpec::device(3 << 20)).unwrap();
        let va = a.va();
        a.write(0, &[7; 64]).unwrap();
        let stats = pool.stats();
        assert_eq!((stats.used, stats.cached), (3 << 20, 0));
        let slice = a.slice(5, 10).unwrap();
        drop(a);
        assert_eq!(pool.stats().used, 3 << 20, "a slice keeps it all");
        drop(slice);
        let stats = pool.stats();
        assert_eq!(
            (stats.used, stats.cached, stats.peak),
            (0, 3 << 20, 3 << 20)
        );
        let b = pool.alloc(spec((3 << 20) - 5, 64, true)).unwrap();
        assert_eq!(b.va(), va, "the freed mapping came back");
        let mut bytes = [1; 64];
        b.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 64], "zeroed on demand");
        // A view keeps the mapping out of reuse as well.
        let view = b.view().unwrap();
        drop(b);
        let c = pool.alloc(AllocSpec::device(3 << 20)).unwrap();
        assert_ne!(c.va(), va);
        drop(view);
        assert_eq!(pool.stats().cached, 3 << 20);
    }

    #[test]
    fn running_out_names_the_numbers_and_leaves_the_pool_whole() {
        let pool = pool(8 << 20);
        let a = pool.alloc(AllocSpec::device(5 << 20)).unwrap();
        let error = pool.alloc(AllocSpec::device(4 << 20)).unwrap_err();
        let text = error.to_string();
        let expected = "asked for 4194304 bytes, 3145728 of 8388608 are free";
        assert!(text.contains(expected), "{text}");
        for bytes in [u64::MAX, i64::MAX as u64, 1 << 62] {
            assert!(pool.alloc(AllocSpec::device(bytes)).is_err());
        }
        assert!(pool.alloc(spec(1, 3, false)).is_err());
        assert!(pool.alloc(spec(1, 4 << 20, false)).is_err());
        drop(a);
        // The cache gives way: 8 MiB fit although freed memory was kept.
        let all = pool.alloc(AllocSpec::device(8 << 20)).unwrap();
        assert_eq!(pool.stats().cached, 0);
        let error = pool.alloc(AllocSpec::device(16)).unwrap_err();
        assert!(
            error.to_string().contains("0 of 8388608 are free"),
            "{error}"
        );
        drop(all);
        assert!(pool.stats().cached <= 2 << 20, "the budget is a quarter");
    }

    #[test]
    fn small_buffers_share_arenas_and_leave_them() {
        let pool = pool(64 << 20);
        let buffers: Vec<_> = (1..3000u64)
            .map(|i| pool.alloc(spec(i, 64, true)).unwrap())
            .collect();
        for (i, buffer) in buffers.iter().enumerate() {
            buffer.write(0, &vec![i as u8; i + 1]).unwrap();
        }
        for (i, buffer) in buffers.iter().enumerate() {
            let mut bytes = vec![0; i + 1];
            buffer.read(0, &mut bytes).unwrap();
            assert!(bytes.iter().all(|&b| b == i as u8), "buffer {i} is its own");
        }
        drop(buffers);
        let stats = pool.stats();
        assert_eq!((stats.used, stats.cached), (0, ARENA), "one arena stays");
    }

    #[test]
    fn alignment_and_emptiness() {
        let pool = pool(64 << 20);
        for bytes in [1, 100, 100_000, 3 << 20] {
            for align in [1, 64, 4096, 1 << 16, 1 << 17, 1 << 21] {
                let buffer = pool.alloc(spec(bytes, align, false)).unwrap();
                assert!(buffer.va().is_aligned(align), "{bytes} at {align}");
                buffer.write(bytes - 1, &[1]).unwrap();
            }
        }
        let empty = pool.alloc(AllocSpec::device(0)).unwrap();
        assert!(empty.read(0, &mut []).is_ok());
        assert!(empty.read(0, &mut [0]).is_err());
    }

    #[test]
    fn addresses_are_located() {
        let pool = pool(64 << 20);
        let buffer = pool.alloc(AllocSpec::device(100_000)).unwrap();
        let va = buffer.va().0;
        assert!(pool.locate(va + 10).starts_with("offset 10 of the buffer"));
        assert!(
            pool.locate(va + 100_000)
                .starts_with("0 bytes past the end")
        );
        assert!(pool.locate(va - 3).starts_with("3 bytes before the buffer"));
        assert_eq!(pool.locate(16), "near no buffer of this device");
        drop(buffer);
        assert_eq!(pool.locate(va), "near no buffer of this device");
    }
}
