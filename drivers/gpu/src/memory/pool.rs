//! [`Pool`] and [`Piece`]: memory cut from memory objects of the interface, kept for reuse.
//!
//! A memory object costs several calls of a kernel and whole pages. Small buffers (signals,
//! arguments, scalars) are therefore cut from arenas; large ones are objects of their own, so that
//! what runs over their end faults, and are kept after a free, up to a budget.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use hcq::mem::cache::BufferCache;
use hcq::mem::tlsf::Tlsf;
use hcq::mem::window::Window;
use hcq::sync::lock;
use hcq::{AllocSpec, Error, GpuVa, MemoryKind, MemoryStats, Result};

use crate::backend::{Memory, PAGE, Request};
use crate::core::Core;

/// Up to this size a buffer comes from an arena.
const SMALL: u64 = 64 << 10;

/// Size of an arena: a large page of the GPU.
const ARENA: u64 = 2 << 20;

/// Smallest piece of an arena: a line of GL2, so that no two buffers share one, which host and GPU
/// may write at the same time.
const GRANULE: u64 = 128;

/// The largest alignment that can be asked for: the address space is reserved with as much slack.
const MAX_ALIGN: u64 = 1 << 30;

/// The memory of one device.
pub struct Pool {
    core: Arc<Core>,
    /// Bytes of device memory: VRAM, or the device's share of the host's memory.
    total: u64,
    state: Mutex<State>,
}

struct State {
    /// Bytes in live buffers of device memory.
    used: u64,
    peak: u64,
    /// Freed large objects by exact size.
    cache: BufferCache<MemoryKind, Arc<Memory>>,
    /// By kind and address.
    arenas: BTreeMap<(MemoryKind, u64), Arena>,
    /// The queues are gone.
    ended: bool,
}

struct Arena {
    memory: Arc<Memory>,
    tlsf: Tlsf,
}

/// The memory of one buffer.
pub struct Piece {
    pool: Arc<Pool>,
    memory: Arc<Memory>,
    va: u64,
    /// The number of its range.
    range: u64,
    /// Bytes that it takes of its object.
    size: u64,
    small: bool,
    kind: MemoryKind,
}

impl Piece {
    /// The address.
    pub fn va(&self) -> GpuVa {
        GpuVa(self.va)
    }

    /// The host's window, if there is one; otherwise the host copies.
    pub fn window(&self) -> Option<Window> {
        let offset = self.va - self.memory.va.0;
        self.memory.window.as_ref()?.sub(offset, self.size).ok()
    }

    /// The same, of memory that always has one.
    ///
    /// # Errors
    /// [`Error::NoHostAccess`], which cannot be.
    pub fn shared(&self) -> Result<Window> {
        self.window()
            .ok_or_else(|| self.pool.core.no_window(self.va()))
    }
}

impl Pool {
    /// The pool of a device; up to a quarter of its memory is cached after a free.
    pub fn new(core: &Arc<Core>) -> Arc<Pool> {
        let total = match core.facts().vram {
            0 => core.backend.host_share(),
            vram => vram,
        };
        let state = State {
            used: 0,
            peak: 0,
            cache: BufferCache::new(total / 4),
            arenas: BTreeMap::new(),
            ended: false,
        };
        Arc::new(Pool {
            core: core.clone(),
            total,
            state: Mutex::new(state),
        })
    }

    /// Memory for the driver itself. `what` is its name in messages.
    ///
    /// # Errors
    /// As [`Pool::take`].
    pub fn piece(self: &Arc<Self>, kind: MemoryKind, bytes: u64, what: &str) -> Result<Piece> {
        self.aligned(kind, bytes, 256, what)
    }

    /// The same at a multiple of `align`, a power of two.
    ///
    /// # Errors
    /// As [`Pool::take`].
    pub fn aligned(
        self: &Arc<Self>,
        kind: MemoryKind,
        bytes: u64,
        align: u64,
        what: &str,
    ) -> Result<Piece> {
        let spec = AllocSpec {
            bytes,
            align,
            kind,
            zeroed: false,
        };
        Ok(self.take(spec, what)?.0)
    }

    /// Memory, and whether it is known to be zeros. Without a name it is that of a user.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`].
    pub fn take(self: &Arc<Self>, spec: AllocSpec, what: &str) -> Result<(Piece, bool)> {
        let AllocSpec {
            bytes, align, kind, ..
        } = spec;
        if !align.is_power_of_two() || align > MAX_ALIGN {
            let hint = format!("; alignment {align} is not a power of two up to {MAX_ALIGN}");
            return Err(self.out_of_memory(bytes, hint));
        }
        if bytes > self.limit(kind) {
            return Err(self.out_of_memory(bytes, String::new()));
        }
        let small = bytes <= SMALL && align <= SMALL;
        let (memory, va, size, fresh) = match small {
            true => {
                let (memory, va, size) = self.take_small(bytes.max(1), align, kind)?;
                (memory, va, size, false)
            }
            false => {
                let (memory, fresh) = self.take_large(bytes, align, kind)?;
                let (va, size) = (memory.va.0, memory.bytes);
                (memory, va, size, fresh)
            }
        };
        let name = match (what, kind) {
            ("", MemoryKind::Device) => "device memory",
            ("", MemoryKind::Host) => "host memory",
            ("", MemoryKind::Control) => "control memory",
            (what, _) => what,
        };
        let range = self.core.ranges().insert(va, bytes.max(1), name);
        if kind == MemoryKind::Device {
            let mut state = self.lock();
            state.used += size;
            state.peak = state.peak.max(state.used);
        }
        let zeroed = fresh && memory.zeroed;
        let piece = Piece {
            pool: self.clone(),
            memory,
            va,
            range,
            size,
            small,
            kind,
        };
        Ok((piece, zeroed))
    }

    fn take_small(
        &self,
        bytes: u64,
        align: u64,
        kind: MemoryKind,
    ) -> Result<(Arc<Memory>, u64, u64)> {
        let of = (kind, 0)..=(kind, u64::MAX);
        let found = {
            let mut state = self.lock();
            let mut arenas = state.arenas.range_mut(of);
            arenas.find_map(|(_, arena)| arena.take(bytes, align))
        };
        if let Some(found) = found {
            return Ok(found);
        }
        // Another arena, made outside of the lock: its memory may have to be freed somewhere else first.
        let memory = self.object(ARENA, ARENA, kind)?;
        let tlsf = Tlsf::new(memory.va.0, ARENA, GRANULE);
        let mut arena = Arena {
            tlsf: tlsf.map_err(|e| self.out_of_memory(bytes, format!("; {e}")))?,
            memory,
        };
        let Some(found) = arena.take(bytes, align) else {
            return Err(self.out_of_memory(bytes, "; the arena is full".into()));
        };
        let key = (kind, arena.memory.va.0);
        self.lock().arenas.insert(key, arena);
        Ok(found)
    }

    /// An object, and whether it is fresh from the kernel.
    fn take_large(&self, bytes: u64, align: u64, kind: MemoryKind) -> Result<(Arc<Memory>, bool)> {
        let Some(size) = rounded(bytes) else {
            return Err(self.out_of_memory(bytes, String::new()));
        };
        let cached = self.lock().cache.take(size, kind);
        if let Some(memory) = cached {
            if memory.va.0.is_multiple_of(align) {
                return Ok((memory, false));
            }
            // Dropped outside of the lock.
            let evicted = self.lock().cache.put(size, kind, memory);
            drop(evicted);
        }
        Ok((self.object(size, align, kind)?, true))
    }

    /// Creates an object of the backend. If memory runs out, cached memory and resources of completed packets
    /// are freed, and the call is repeated once.
    ///
    /// # Errors
    /// What `make` returns.
    pub fn make<T>(&self, make: impl Fn() -> Result<T>) -> Result<T> {
        match make() {
            Err(Error::OutOfMemory { .. }) => {
                if let Some(queues) = self.core.queues() {
                    queues.reclaim();
                }
                let evicted = self.lock().cache.shrink_to(0);
                drop(evicted);
                make()
            }
            made => made,
        }
    }

    fn object(&self, bytes: u64, align: u64, kind: MemoryKind) -> Result<Arc<Memory>> {
        let request = Request {
            bytes,
            align,
            kind,
            what: "",
        };
        self.make(|| self.core.memory(&request).map(Arc::new))
    }

    /// Called when no queue runs any more: resources for queues and cached memory are freed.
    pub fn end(&self) {
        let freed = {
            let mut state = self.lock();
            state.ended = true;
            state.cache.shrink_to(0)
        };
        // Freed outside of the lock.
        drop(freed);
    }

    /// Bytes in use and free.
    pub fn stats(&self) -> MemoryStats {
        let state = self.lock();
        MemoryStats {
            used: state.used,
            cached: state.cache.bytes(),
            peak: state.peak,
            total: self.total,
        }
    }

    /// The most that a kind of memory can have.
    fn limit(&self, kind: MemoryKind) -> u64 {
        match kind {
            MemoryKind::Device => self.total,
            // What the kernel lets GPUs have of the host's memory is its business.
            MemoryKind::Host | MemoryKind::Control => 1 << 46,
        }
    }

    fn out_of_memory(&self, asked: u64, hint: String) -> Error {
        let stats = self.stats();
        Error::OutOfMemory {
            device: self.core.id.clone(),
            asked,
            free: stats.total.saturating_sub(stats.used),
            total: stats.total,
            hint,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counters and collections change together, in steps that do not panic.
        lock(&self.state)
    }
}

impl Arena {
    fn take(&mut self, bytes: u64, align: u64) -> Option<(Arc<Memory>, u64, u64)> {
        let va = self.tlsf.alloc(bytes, align).ok()?;
        let size = self.tlsf.size_of(va)?;
        Some((self.memory.clone(), va, size))
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let lost = &self.pool.core.lost;
        if lost.is_inherited() {
            // It belongs to the parent, and a fork may have inherited locks that no thread releases.
            std::mem::forget((self.pool.clone(), self.memory.clone()));
            return;
        }
        if lost.runs_on() {
            // Its queues may still use it: it is freed once they are gone.
            lost.keep(Box::new(Piece {
                pool: self.pool.clone(),
                memory: self.memory.clone(),
                ..*self
            }));
            return;
        }
        self.pool.core.ranges().remove(self.va, self.range);
        let freed = {
            let mut state = self.pool.lock();
            if self.kind == MemoryKind::Device {
                state.used -= self.size;
            }
            if self.small {
                let key = (self.kind, self.memory.va.0);
                let mut empty = false;
                if let Some(arena) = state.arenas.get_mut(&key) {
                    // It was handed out by this arena.
                    let _ = arena.tlsf.free(self.va);
                    empty = arena.tlsf.stats().used == 0;
                }
                // The last arena of a kind stays for the next buffer.
                let of = (key.0, 0)..=(key.0, u64::MAX);
                let others = state.arenas.range(of).count() > 1;
                let gone = (empty && others).then(|| state.arenas.remove(&key));
                gone.flatten().map(|arena| vec![arena.memory])
            } else if state.ended {
                None
            } else {
                let (size, memory) = (self.size, self.memory.clone());
                Some(state.cache.put(size, self.kind, memory))
            }
        };
        // Freed outside of the lock.
        drop(freed);
    }
}

/// Sizes of large buffers: multiples of an eighth of their power of two, so that freed ones fit
/// again, with a page at least.
fn rounded(bytes: u64) -> Option<u64> {
    let step = (bytes.checked_next_power_of_two()? / 16).max(PAGE);
    bytes.checked_next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_sizes_are_few() {
        assert_eq!(rounded(1), Some(4096));
        assert_eq!(rounded(65537), Some(73728));
        assert_eq!(rounded(10 << 20), Some(10 << 20));
        assert_eq!(rounded((10 << 20) + 1), Some(11 << 20));
        assert_eq!(rounded(u64::MAX), None);
        for bytes in (1..1 << 22).step_by(4099) {
            let size = rounded(bytes).unwrap();
            assert!(size >= bytes && size - bytes <= (bytes / 8).max(4096));
        }
    }
}
