//! Device memory: anonymous mappings, reused.
//!
//! Unsafe module, for one reason: a [`View`] is made from a mapping that an [`Allocation`] owns.
//!
//! Every allocation lies between pages that trap, so a kernel that runs over the end of a buffer
//! faults instead of spoiling another. Freed mappings are kept, up to a budget, and given out
//! again: a page that the kernel has already backed costs no page faults.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drivers_host::mmap::{HUGE_PAGE, Memory, page_size};
use hcq::mem::view::View;
use hcq::{AllocSpec, Buffer, DeviceId, Error, GpuVa, HostAccess, MemoryStats, Result};

/// A cached mapping serves requests down to this part of its size.
const LEAST_USE: f64 = 0.75;

/// The memory of one device.
pub(crate) struct Pool {
    device: DeviceId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stats: MemoryStats,
    /// The most that may be kept.
    budget: u64,
    /// Freed mappings by size; the number is their age.
    cache: BTreeMap<(u64, u64), Memory>,
    /// Size and age of the cached mappings, oldest first; may name ones that are gone.
    ages: VecDeque<(u64, u64)>,
    clock: u64,
    /// Live buffers by address, for fault messages.
    live: BTreeMap<u64, u64>,
}

impl Pool {
    /// A pool of at most `total` bytes, a quarter of which may be kept after a free.
    pub(crate) fn new(device: DeviceId, total: u64) -> Arc<Pool> {
        let mut state = State::default();
        state.stats.total = total;
        state.budget = total / 4;
        Arc::new(Pool {
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
        let (memory, fresh) = self.take(spec)?;
        let start = memory.ptr();
        let mapped = memory.len() as u64;
        {
            let mut state = self.lock();
            state.stats.used += mapped;
            state.stats.peak = state.stats.peak.max(state.stats.used);
            state.live.insert(start.as_ptr() as u64, spec.bytes);
        }
        let owner = Arc::new(Allocation {
            pool: self.clone(),
            memory: Some(memory),
        });
        // SAFETY: `owner` holds the mapping of at least `bytes` bytes and gives it back only when
        // the last view is gone; nobody makes a reference to its content.
        let view = unsafe { View::new(start, spec.bytes as usize, owner) };
        if spec.zeroed && !fresh {
            // The view has this length.
            let _ = view.fill(0, spec.bytes as usize, 0);
        }
        let va = GpuVa(start.as_ptr() as u64);
        let host = HostAccess::Direct(view);
        Ok(Buffer::new(
            self.device.clone(),
            va,
            spec.bytes,
            host,
            Box::new(()),
        ))
    }

    /// A mapping for a request, and whether it is fresh from the kernel and so zeroed.
    fn take(&self, spec: AllocSpec) -> Result<(Memory, bool)> {
        let page = page_size() as u64;
        let wide = spec.align > page;
        // A mapping from 2 MiB on is aligned to that, a smaller one to a page.
        let least = if wide { HUGE_PAGE as u64 } else { 1 };
        let size = spec
            .bytes
            .max(least)
            .checked_next_multiple_of(page)
            .filter(|&size| size <= isize::MAX as u64);
        let Some(size) = size else {
            return Err(self.out_of_memory(spec.bytes, String::new()));
        };
        let evicted = {
            let mut state = self.lock();
            if let Some(memory) = state.reuse(size) {
                return Ok((memory, false));
            }
            let room = state.stats.total.saturating_sub(state.stats.used);
            if size > room {
                drop(state);
                return Err(self.out_of_memory(spec.bytes, String::new()));
            }
            state.evict(room - size)
        };
        // Unmapped outside of the lock.
        drop(evicted);
        let mapped = Memory::guarded(size as usize).or_else(|_| {
            // The system is short: give it back what we only keep.
            let evicted = self.lock().evict(0);
            drop(evicted);
            Memory::guarded(size as usize)
        });
        match mapped {
            Ok(memory) => Ok((memory, true)),
            Err(error) => Err(self.out_of_memory(spec.bytes, format!("; {error}"))),
        }
    }

    /// Bytes in use and free.
    pub(crate) fn stats(&self) -> MemoryStats {
        self.lock().stats
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

    fn give_back(&self, memory: Memory) {
        let evicted = {
            let mut state = self.lock();
            let size = memory.len() as u64;
            state.live.remove(&(memory.ptr().as_ptr() as u64));
            state.stats.used -= size;
            state.keep(memory)
        };
        drop(evicted);
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

impl State {
    /// The smallest cached mapping that fits without much waste.
    fn reuse(&mut self, size: u64) -> Option<Memory> {
        let (&key, _) = self.cache.range((size, 0)..).next()?;
        if (size as f64) < key.0 as f64 * LEAST_USE {
            return None;
        }
        self.stats.cached -= key.0;
        self.cache.remove(&key)
    }

    /// Keeps a mapping; returns what has to go for it.
    fn keep(&mut self, memory: Memory) -> Vec<Memory> {
        let key = (memory.len() as u64, self.clock);
        self.clock += 1;
        self.stats.cached += key.0;
        self.cache.insert(key, memory);
        self.ages.push_back(key);
        let room = self.stats.total.saturating_sub(self.stats.used);
        self.evict(self.budget.min(room))
    }

    /// Takes the oldest mappings out until at most `keep` bytes are cached.
    fn evict(&mut self, keep: u64) -> Vec<Memory> {
        let mut gone = Vec::new();
        while self.stats.cached > keep {
            let Some(key) = self.ages.pop_front() else {
                break;
            };
            if let Some(memory) = self.cache.remove(&key) {
                self.stats.cached -= key.0;
                gone.push(memory);
            }
        }
        // Names of mappings that were reused since pile up in front of long-lived ones.
        if self.ages.len() > 2 * self.cache.len() + 64 {
            self.ages.retain(|key| self.cache.contains_key(key));
        }
        gone
    }
}

/// One mapping in use; goes back to its pool when dropped.
struct Allocation {
    pool: Arc<Pool>,
    memory: Option<Memory>,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.pool.give_back(memory);
        }
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
        Pool::new(DeviceId::new("CPU", 0), total)
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
        let clone = a.slice(5, 10).unwrap();
        drop(a);
        assert_eq!(
            pool.stats().used,
            3 << 20,
            "a slice keeps the whole allocation"
        );
        drop(clone);
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
        assert!(
            text.contains("asked for 4194304 bytes, 3145728 of 8388608 are free"),
            "{text}"
        );
        assert!(pool.alloc(AllocSpec::device(u64::MAX)).is_err());
        assert!(pool.alloc(AllocSpec::device(i64::MAX as u64)).is_err());
        assert!(pool.alloc(spec(1, 3, false)).is_err());
        assert!(pool.alloc(spec(1, 4 << 20, false)).is_err());
        drop(a);
        // The cache gives way: 8 MiB fit although freed memory was kept.
        let all = pool.alloc(AllocSpec::device(8 << 20)).unwrap();
        assert_eq!(pool.stats().cached, 0);
        drop(all);
        assert!(pool.stats().cached <= 2 << 20, "the budget is a quarter");
    }

    #[test]
    fn alignment_and_emptiness() {
        let pool = pool(64 << 20);
        for align in [1, 64, 4096, 1 << 16, 1 << 21] {
            let buffer = pool.alloc(spec(100, align, false)).unwrap();
            assert!(buffer.va().is_aligned(align));
        }
        let empty = pool.alloc(AllocSpec::device(0)).unwrap();
        assert!(empty.read(0, &mut []).is_ok());
        assert!(empty.read(0, &mut [0]).is_err());
    }

    #[test]
    fn addresses_are_located() {
        let pool = pool(64 << 20);
        let buffer = pool.alloc(AllocSpec::device(1000)).unwrap();
        let va = buffer.va().0;
        assert!(pool.locate(va + 10).starts_with("offset 10 of the buffer"));
        assert!(pool.locate(va + 1000).starts_with("0 bytes past the end"));
        assert!(pool.locate(va - 3).starts_with("3 bytes before the buffer"));
        assert_eq!(pool.locate(16), "near no buffer of this device");
        drop(buffer);
        assert_eq!(pool.locate(va), "near no buffer of this device");
    }
}
