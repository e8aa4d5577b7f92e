//! KGSL.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use drivers_spec::qcom::kgsl::*;
use hcq::mem::view::View;
use hcq::transport::errno::{EDEADLK, EINVAL, ETIMEDOUT};
use hcq::transport::{DevFile, Fault, Ioctl, Map, Request, TransportError};
use zerocopy::{FromBytes, IntoBytes};

use super::{Memory, edit};

/// Bytes of every dma-buf.
pub const DMABUF_BYTES: u64 = 8192;

/// The kernel driver with its GPU.
#[derive(Default)]
pub struct Kgsl {
    pub memory: Memory,
    pub chip_id: u32,
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    objects: BTreeMap<u32, (u64, u64, View)>,
    next: u32,
    pub contexts: BTreeMap<u32, Context>,
    /// Power levels and cache operations that were asked for.
    pub levels: Vec<u32>,
    pub syncs: Vec<(u32, u64, u64)>,
    pub counters: i32,
    /// Addresses that were mapped, and how often.
    pub mapped: BTreeMap<u64, u32>,
}

#[derive(Default)]
pub struct Context {
    pub flags: u32,
    queued: u32,
    waiting: VecDeque<Vec<(u64, u32)>>,
    /// The GPU stands still.
    pub hangs: bool,
    /// The kernel has stopped it.
    pub is_invalid: bool,
    pub status: u32,
}

impl Context {
    fn retired(&self) -> u32 {
        match self.is_invalid {
            true => self.queued,
            false => self.queued - self.waiting.len() as u32,
        }
    }
}

impl Kgsl {
    pub fn new(chip_id: u32) -> Kgsl {
        Kgsl {
            chip_id,
            ..Kgsl::default()
        }
    }

    pub fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Lets the GPU run what it can.
    fn go(&self, state: &mut State) {
        for context in state.contexts.values_mut() {
            while let Some(first) = context.waiting.front().filter(|_| !context.hangs) {
                if !first
                    .iter()
                    .all(|&(at, dwords)| self.memory.run(at, dwords))
                {
                    break;
                }
                context.waiting.pop_front();
            }
        }
    }

    fn property(&self, request: &mut Request<'_, '_>) -> Result<(), i32> {
        let mut done = Ok(());
        edit::<Property>(request, |property, value| match property.kind {
            property::DEVICE_INFO => {
                let info = DevInfo {
                    chip_id: self.chip_id,
                    gmem_sizebytes: 1 << 20,
                    ..DevInfo::default()
                };
                value.copy_from_slice(info.as_bytes());
            }
            property::VERSION => value[..4].copy_from_slice(&3u32.to_ne_bytes()),
            property::GPU_RESET_STAT => {
                let id = u32::read_from_bytes(value).unwrap();
                match self.state().contexts.get_mut(&id) {
                    Some(context) => {
                        let status = std::mem::take(&mut context.status);
                        value.copy_from_slice(status.as_bytes());
                    }
                    None => done = Err(EINVAL),
                }
            }
            _ => done = Err(EINVAL),
        });
        done
    }

    fn call(&self, request: &mut Request<'_, '_>) -> Result<(), i32> {
        let ioctl = request.ioctl();
        let is = |what: Ioctl| what.request == ioctl.request;
        let mut done = Ok(());
        if is(DEVICE_GETPROPERTY.ioctl()) {
            return self.property(request);
        }
        let mut guard = self.state();
        let state = &mut *guard;
        if is(SETPROPERTY.ioctl()) {
            edit::<Property>(request, |property, value| {
                assert_eq!(property.kind, property::PWR_CONSTRAINT);
                let wanted = Constraint::read_from_bytes(value).unwrap();
                assert_eq!((wanted.kind, wanted.size), (constraint::PWRLEVEL, 4));
                assert!(state.contexts.contains_key(&wanted.context_id) && wanted.data != 0);
                state.levels.push(wanted.kind);
            });
        } else if is(DRAWCTXT_CREATE.ioctl()) {
            edit::<DrawctxtCreate>(request, |create, _| {
                state.next += 1;
                create.drawctxt_id = state.next;
                let context = Context {
                    flags: create.flags,
                    ..Context::default()
                };
                state.contexts.insert(state.next, context);
            });
        } else if is(DRAWCTXT_DESTROY.ioctl()) {
            edit::<DrawctxtDestroy>(request, |destroy, _| {
                if state.contexts.remove(&destroy.drawctxt_id).is_none() {
                    done = Err(EINVAL);
                }
            });
        } else if is(GPUOBJ_ALLOC.ioctl()) {
            edit::<GpuobjAlloc>(request, |alloc, _| {
                let align = (alloc.flags & memory::ALIGN_MASK) >> memory::ALIGN_SHIFT;
                let (at, view) = self.memory.add(alloc.size, 1 << align);
                state.next += 1;
                (alloc.id, alloc.mmapsize) = (state.next, alloc.size);
                state.objects.insert(state.next, (at, alloc.size, view));
            });
        } else if is(GPUOBJ_INFO.ioctl()) {
            edit::<GpuobjInfo>(request, |info, _| {
                let (at, bytes, _) = &state.objects[&info.id];
                (info.gpuaddr, info.size) = (*at, *bytes);
            });
        } else if is(GPUOBJ_FREE.ioctl()) {
            edit::<GpuobjFree>(request, |free, _| match state.objects.remove(&free.id) {
                Some((at, ..)) => self.memory.remove(at),
                None => done = Err(EINVAL),
            });
        } else if is(GPUMEM_SYNC_CACHE.ioctl()) {
            edit::<GpumemSyncCache>(request, |sync, _| {
                assert!(sync.id != 0, "pages of the process have no cache mode");
                // Kernels leave out the first page of a range that begins inside of it.
                assert!(sync.offset.is_multiple_of(PAGE) && sync.length.is_multiple_of(PAGE));
                state.syncs.push((sync.op, sync.offset, sync.length));
            });
        } else if is(by_descriptor::GPUOBJ_IMPORT.ioctl()) {
            edit::<GpuobjImport>(request, |import, fd| {
                assert_eq!((import.kind, import.priv_len), (user::DMABUF, 4));
                assert!(i32::read_from_bytes(fd).unwrap() >= 0);
                let (at, view) = self.memory.add(DMABUF_BYTES, 4096);
                state.next += 1;
                import.id = state.next;
                state.objects.insert(state.next, (at, DMABUF_BYTES, view));
            });
        } else if is(MAP_USER_MEM.ioctl()) {
            edit::<MapUserMem>(request, |map, _| {
                assert_eq!((map.memtype, map.flags), (user::ADDR, 0));
                *state.mapped.entry(map.hostptr).or_default() += 1;
                map.gpuaddr = map.hostptr + 1;
            });
        } else if is(SHAREDMEM_FREE.ioctl()) {
            edit::<SharedmemFree>(request, |free, _| {
                let count = state.mapped.get_mut(&(free.gpuaddr - 1)).unwrap();
                *count -= 1;
            });
        } else if is(PERFCOUNTER_GET.ioctl()) {
            state.counters += 1;
        } else if is(PERFCOUNTER_PUT.ioctl()) {
            state.counters -= 1;
        } else if is(PERFCOUNTER_READ.ioctl()) {
            edit::<PerfcounterRead>(request, |_, group| {
                let mut read = PerfcounterReadGroup::read_from_bytes(group).unwrap();
                read.value = 1234;
                group.copy_from_slice(read.as_bytes());
            });
        } else {
            done = self.submission(request, state, &is);
        }
        done
    }

    fn submission(
        &self,
        request: &mut Request<'_, '_>,
        state: &mut State,
        is: &dyn Fn(Ioctl) -> bool,
    ) -> Result<(), i32> {
        let mut done = Ok(());
        if is(GPU_COMMAND.ioctl()) {
            edit::<GpuCommand>(request, |command, objects| {
                let context = state.contexts.get_mut(&command.context_id).unwrap();
                if context.is_invalid {
                    done = Err(EDEADLK);
                    return;
                }
                let objects = objects.chunks_exact(size_of::<CommandObject>());
                let buffer = |bytes: &[u8]| {
                    let object = CommandObject::read_from_bytes(bytes).unwrap();
                    assert_eq!(object.flags, Object::IB.bits());
                    assert!(object.size > 0 && object.size.is_multiple_of(4));
                    (object.gpuaddr, object.size as u32 / 4)
                };
                context.waiting.push_back(objects.map(buffer).collect());
                context.queued += 1;
                command.timestamp = context.queued;
            });
            self.go(state);
        } else if is(CMDSTREAM_READTIMESTAMP_CTXTID.ioctl()) {
            self.go(state);
            edit::<ReadTimestamp>(request, |read, _| {
                assert_eq!(read.kind, timestamp::RETIRED);
                read.timestamp = state.contexts[&read.context_id].retired();
            });
        } else if is(DEVICE_WAITTIMESTAMP_CTXTID.ioctl()) {
            assert!(request.is_wait(), "its limit starts anew with each call");
            self.go(state);
            edit::<WaitTimestamp>(request, |wait, _| {
                assert!(wait.timeout > 0, "a wait has an end");
                let context = &state.contexts[&wait.context_id];
                done = match () {
                    () if context.is_invalid => Err(EDEADLK),
                    () if wait.timestamp > context.queued => Err(EINVAL),
                    () if context.retired() >= wait.timestamp => Ok(()),
                    () => Err(ETIMEDOUT),
                };
            });
        } else {
            panic!("{} is not asked for", request.ioctl().name);
        }
        done
    }
}

impl DevFile for Kgsl {
    fn name(&self) -> &str {
        "/dev/kgsl-3d0"
    }

    fn ioctl(&self, request: &mut Request<'_, '_>) -> Result<i32, TransportError> {
        let operation = format!("ioctl {}", request.ioctl().name);
        match self.call(request) {
            Ok(()) => Ok(0),
            Err(errno) => {
                if errno == ETIMEDOUT {
                    std::thread::sleep(Duration::from_micros(100));
                }
                Err(TransportError::new(
                    self.name(),
                    operation,
                    Fault::Errno(errno),
                ))
            }
        }
    }

    fn mmap(&self, map: Map) -> Result<View, TransportError> {
        let state = self.state();
        let (_, bytes, view) = &state.objects[&((map.offset / PAGE) as u32)];
        assert_eq!(map.len as u64, *bytes);
        Ok(view.clone())
    }
}
