//! [`CpuBackend`]: the CPUs of this machine as a backend: process memory, and sleep.
//!
//! Unsafe module, for one reason: a [`View`] is made of memory that a mapping owns.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use drivers_gpu::backend::{Age, Backend, Event, Exception, Facts, Memory, Request, Space};
use drivers_host::clock::monotonic_ns;
use drivers_host::mmap::{self, HUGE_PAGE, page_size};
use hcq::mem::view::View;
use hcq::mem::window::Window;
use hcq::sync::lock;
use hcq::{Costs, DeviceId, Error, GpuVa, Import, MemoryKind, Result};

use crate::ring::RingMemory;
use crate::runtime::{Mapped as MappedHere, Runtime};
use crate::waiters;

/// The machine as one device has it.
pub(crate) struct CpuBackend {
    id: DeviceId,
    facts: Facts,
    space: Arc<Space>,
    /// What windows are called.
    name: Arc<str>,
    mapped: Arc<Mutex<Mapped>>,
}

/// The memory of a device.
struct Mapped {
    /// Bytes that it may have, and has.
    total: u64,
    used: u64,
    /// By address.
    all: BTreeMap<u64, Weak<Mapping>>,
}

/// Memory between pages that trap.
struct Mapping(mmap::Memory);

impl Mapping {
    fn window(self: &Arc<Self>, name: &Arc<str>) -> Window {
        let (start, len): (NonNull<u8>, usize) = (self.0.ptr(), self.0.len());
        // SAFETY: the view keeps the mapping, which has these bytes for as long as it lives; nobody makes a reference to
        // the content.
        let view = unsafe { View::new(start, len, self.clone()) };
        Window::mapped(name.clone(), view)
    }
}

/// Takes memory from what its device has; views may use it for longer.
struct Owner {
    mapped: Arc<Mutex<Mapped>>,
    at: u64,
    counted: u64,
    /// Unmapped after its entry is gone: the next mapping may lie there.
    _mapping: Arc<Mapping>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let mut mapped = lock(&self.mapped);
        mapped.all.remove(&self.at);
        mapped.used -= self.counted;
    }
}

impl CpuBackend {
    /// Of a device that may have so many bytes.
    pub(crate) fn new(id: DeviceId, total: u64, costs: Costs) -> CpuBackend {
        let mapped = Mapped {
            total,
            used: 0,
            all: BTreeMap::new(),
        };
        CpuBackend {
            name: format!("memory of {id}").into(),
            facts: Facts {
                place: "this machine".into(),
                vram: 0,
                vram_windows: false,
                clock_hz: 1_000_000_000,
                costs,
                log: "segfault",
            },
            id,
            space: Arc::default(),
            mapped: Arc::new(Mutex::new(mapped)),
        }
    }

    /// What a queue's timeline wakes threads by.
    pub(crate) fn event_of(ring: &Arc<RingMemory>) -> Event {
        Event {
            id: 0,
            mailbox: None,
            owner: Box::new(ring.clone()),
        }
    }

    fn out_of_memory(&self, asked: u64, hint: String) -> Error {
        let mapped = lock(&self.mapped);
        Error::OutOfMemory {
            device: self.id.clone(),
            asked,
            free: mapped.total.saturating_sub(mapped.used),
            total: mapped.total,
            hint,
        }
    }
}

/// The ring of the queue that an event is of.
fn ring(event: &Event) -> Option<&Arc<RingMemory>> {
    event.owner.downcast_ref()
}

impl Backend for CpuBackend {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn name(&self) -> &'static str {
        "THREADS"
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn space(&self) -> &Arc<Space> {
        &self.space
    }

    fn host_share(&self) -> u64 {
        lock(&self.mapped).total
    }

    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        let Request {
            bytes, align, kind, ..
        } = *request;
        if align > HUGE_PAGE as u64 {
            let hint = format!("; alignment {align} is not a power of two up to {HUGE_PAGE}");
            return Err(self.out_of_memory(bytes, hint));
        }
        // From a huge page on a mapping is aligned to that, below only to a page.
        let least = match align > page_size() as u64 {
            true => HUGE_PAGE as u64,
            false => 1,
        };
        let size = bytes.max(least).next_multiple_of(page_size() as u64);
        // What a device needs for itself is not what may be allocated.
        let counted = match kind {
            MemoryKind::Device | MemoryKind::Host => size,
            MemoryKind::Control => 0,
        };
        let fits = {
            let mut mapped = lock(&self.mapped);
            let fits = counted <= mapped.total.saturating_sub(mapped.used);
            mapped.used += if fits { counted } else { 0 };
            fits
        };
        if !fits {
            return Err(self.out_of_memory(bytes, String::new()));
        }
        let made = usize::try_from(size).map_err(|e| e.to_string());
        let made = made.and_then(|size| mmap::Memory::guarded(size).map_err(|e| e.to_string()));
        let mapping = match made {
            Ok(memory) => Arc::new(Mapping(memory)),
            Err(error) => {
                lock(&self.mapped).used -= counted;
                return Err(self.out_of_memory(bytes, format!("; {error}")));
            }
        };
        let at = mapping.0.ptr().as_ptr() as u64;
        lock(&self.mapped).all.insert(at, Arc::downgrade(&mapping));
        Ok(Memory {
            va: GpuVa(at),
            bytes: size,
            window: Some(mapping.window(&self.name)),
            zeroed: true,
            owner: Box::new(Owner {
                mapped: self.mapped.clone(),
                at,
                counted,
                _mapping: mapping,
            }),
        })
    }

    fn import(&self, memory: &Import) -> Result<Memory> {
        let Import::Host(view) = memory else {
            return Err(hcq::cannot_import(&self.id, "the CPU", memory));
        };
        Ok(Memory {
            va: GpuVa(view.as_ptr().expose_provenance() as u64),
            bytes: view.len() as u64,
            window: Some(Window::mapped(self.name.clone(), view.clone())),
            zeroed: false,
            owner: Box::new(view.clone()),
        })
    }

    /// Queues have events of their own: nothing signals this one.
    fn event(&self) -> Result<Event> {
        Ok(Event {
            id: 0,
            mailbox: None,
            owner: Box::new(()),
        })
    }

    fn wake(&self, event: &Event) {
        if let Some(ring) = ring(event) {
            ring.doorbell().notify();
            ring.space().notify();
        }
        waiters::wake_all();
    }

    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        if limit.is_zero() {
            return Ok(None);
        }
        match event.and_then(ring) {
            Some(ring) => {
                ring.space().wait(limit, || ring.consumed() >= age.0);
                age.0 = ring.consumed() + 1;
            }
            None => std::thread::sleep(limit),
        }
        Ok(None)
    }

    fn sleep_for(
        &self,
        (at, value): (GpuVa, u64),
        reached: &dyn Fn() -> bool,
        _: Option<&Event>,
        _: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        if !limit.is_zero() {
            waiters::sleep(at.0, value, limit, reached);
        }
        Ok(None)
    }

    fn raised(&self, at: GpuVa, value: u64) {
        waiters::raised(at.0, value);
    }

    fn flush_vram(&self) -> Result<()> {
        Ok(())
    }

    /// Threads are looked at one by one: see [`crate::progress`].
    fn places(&self) -> Option<Vec<u64>> {
        Some(Vec::new())
    }

    fn ticks(&self) -> Result<u64> {
        Ok(monotonic_ns())
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        let mapped = lock(&self.mapped);
        let (start, mapping) = mapped.all.range(..=va).next_back()?;
        let window = mapping.upgrade()?.window(&self.name);
        (va - start < window.len()).then_some((window, va - start))
    }
}

/// The same, with a runtime that has memory of the device. All else is memory of the process.
pub(crate) struct RuntimeBackend {
    runtime: Arc<dyn Runtime>,
    facts: Facts,
    host: CpuBackend,
}

impl RuntimeBackend {
    /// Over a device of a runtime.
    pub(crate) fn new(runtime: &Arc<dyn Runtime>, costs: Costs) -> RuntimeBackend {
        let about = runtime.about();
        let host = CpuBackend::new(runtime.id().clone(), system_memory(), costs);
        RuntimeBackend {
            runtime: runtime.clone(),
            facts: Facts {
                place: about.place.clone(),
                vram: about.memory,
                ..host.facts.clone()
            },
            host,
        }
    }
}

impl Backend for RuntimeBackend {
    fn id(&self) -> &DeviceId {
        self.runtime.id()
    }

    fn name(&self) -> &'static str {
        self.runtime.about().interface
    }

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn space(&self) -> &Arc<Space> {
        self.host.space()
    }

    fn memory(&self, request: &Request<'_>) -> Result<Memory> {
        if request.kind == MemoryKind::Device {
            let size = request.bytes.max(1).next_multiple_of(page_size() as u64);
            let made = self.runtime.memory(size, request.align)?;
            return Ok(Memory {
                va: GpuVa(made.va),
                bytes: made.bytes,
                window: None,
                zeroed: false,
                owner: made.owner,
            });
        }
        let memory = self.host.memory(request)?;
        let mapped = MappedHere::new(memory.va.0, memory.bytes);
        Ok(Memory {
            // Its entry is gone before the mapping is.
            owner: Box::new((mapped, memory.owner)),
            ..memory
        })
    }

    fn import(&self, memory: &Import) -> Result<Memory> {
        let Import::Host(_) = memory else {
            return Err(hcq::cannot_import(self.id(), self.name(), memory));
        };
        self.host.import(memory)
    }

    fn event(&self) -> Result<Event> {
        self.host.event()
    }

    fn wake(&self, event: &Event) {
        self.host.wake(event);
    }

    fn sleep(
        &self,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        self.host.sleep(event, age, limit)
    }

    fn sleep_for(
        &self,
        signal: (GpuVa, u64),
        reached: &dyn Fn() -> bool,
        event: Option<&Event>,
        age: &mut Age,
        limit: Duration,
    ) -> Result<Option<Exception>> {
        self.host.sleep_for(signal, reached, event, age, limit)
    }

    fn raised(&self, at: GpuVa, value: u64) {
        self.host.raised(at, value);
    }

    fn flush_vram(&self) -> Result<()> {
        Ok(())
    }

    fn ticks(&self) -> Result<u64> {
        self.host.ticks()
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        self.host.window_at(va)
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
    use drivers_gpu::core::Core;
    use drivers_gpu::memory::buffer;
    use drivers_gpu::memory::pool::Pool;
    use hcq::{AllocSpec, Buffer};

    use super::*;

    struct Rig(Arc<Core>, Arc<Pool>);

    impl Rig {
        fn new(total: u64) -> Rig {
            let costs = Costs {
                batch: 1,
                in_flight: 1,
            };
            let backend = CpuBackend::new(DeviceId::new("CPU", 0), total, costs);
            let core = Arc::new(Core::new(Arc::new(backend), None));
            let pool = Pool::new(&core);
            Rig(core, pool)
        }

        fn alloc(&self, spec: AllocSpec) -> Result<Buffer> {
            buffer::alloc(&self.0, &self.1, spec)
        }
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
    fn memory_is_not_unmapped_before_its_entry_is_gone() {
        let Rig(core, _) = Rig::new(64 << 20);
        let request = Request {
            bytes: 4096,
            align: 1,
            kind: MemoryKind::Device,
            what: "",
        };
        let Memory {
            va, window, owner, ..
        } = core.backend.memory(&request).unwrap();
        drop(window);
        assert!(core.backend.window_at(va.0).is_some());
        drop(owner);
        assert!(core.backend.window_at(va.0).is_none());
    }

    #[test]
    fn memory_is_reused_and_accounted_for() {
        let rig = Rig::new(64 << 20);
        let a = rig.alloc(AllocSpec::device(3 << 20)).unwrap();
        let va = a.va();
        a.write(0, &[7; 64]).unwrap();
        let stats = rig.1.stats();
        assert_eq!((stats.used, stats.cached), (3 << 20, 0));
        let slice = a.slice(5, 10).unwrap();
        drop(a);
        assert_eq!(rig.1.stats().used, 3 << 20, "a slice keeps it all");
        drop(slice);
        let stats = rig.1.stats();
        assert_eq!(
            (stats.used, stats.cached, stats.peak),
            (0, 3 << 20, 3 << 20)
        );
        let b = rig.alloc(spec((3 << 20) - 5, 64, true)).unwrap();
        assert_eq!(b.va(), va, "the freed mapping came back");
        let mut bytes = [1; 64];
        b.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 64], "zeroed on demand");
        // A view keeps the mapping out of reuse as well.
        let view = b.view().unwrap();
        drop(b);
        let c = rig.alloc(AllocSpec::device(3 << 20)).unwrap();
        assert_ne!(c.va(), va);
        drop(view);
        assert_eq!(rig.1.stats().cached, 3 << 20);
    }

    #[test]
    fn running_out_names_the_numbers_and_leaves_the_pool_whole() {
        let rig = Rig::new(8 << 20);
        let a = rig.alloc(AllocSpec::device(5 << 20)).unwrap();
        let error = rig.alloc(AllocSpec::device(4 << 20)).unwrap_err();
        let text = error.to_string();
        let expected = "asked for 4194304 bytes, 3145728 of 8388608 are free";
        assert!(text.contains(expected), "{text}");
        for bytes in [u64::MAX, i64::MAX as u64, 1 << 62] {
            assert!(rig.alloc(AllocSpec::device(bytes)).is_err());
        }
        assert!(rig.alloc(spec(1, 3, false)).is_err());
        assert!(rig.alloc(spec(1, 4 << 20, false)).is_err());
        drop(a);
        // The cache gives way: 8 MiB fit although freed memory was kept.
        let all = rig.alloc(AllocSpec::device(8 << 20)).unwrap();
        assert_eq!(rig.1.stats().cached, 0);
        let error = rig.alloc(AllocSpec::device(16)).unwrap_err();
        assert!(
            error.to_string().contains("0 of 8388608 are free"),
            "{error}"
        );
        drop(all);
        assert!(rig.1.stats().cached <= 2 << 20, "the budget is a quarter");
    }

    #[test]
    fn small_buffers_share_arenas_and_leave_them() {
        let rig = Rig::new(64 << 20);
        let buffers: Vec<_> = (1..3000u64)
            .map(|i| rig.alloc(spec(i, 64, true)).unwrap())
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
        let stats = rig.1.stats();
        assert_eq!((stats.used, stats.cached), (0, 0));
    }

    #[test]
    fn alignment_and_emptiness() {
        let rig = Rig::new(64 << 20);
        for bytes in [1, 100, 100_000, 3 << 20] {
            for align in [1, 64, 4096, 1 << 16, 1 << 17, 1 << 21] {
                let buffer = rig.alloc(spec(bytes, align, false)).unwrap();
                assert!(buffer.va().is_aligned(align), "{bytes} at {align}");
                buffer.write(bytes - 1, &[1]).unwrap();
            }
        }
        let empty = rig.alloc(AllocSpec::device(0)).unwrap();
        assert!(empty.read(0, &mut []).is_ok());
        assert!(empty.read(0, &mut [0]).is_err());
    }
}
