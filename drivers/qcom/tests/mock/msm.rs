//! msm.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use drivers_spec::amd::drm;
use drivers_spec::qcom::msm::*;
use hcq::mem::view::View;
use hcq::transport::errno::{EINVAL, ENOENT, ETIMEDOUT};
use hcq::transport::{DevFile, Fault, Ioctl, Map, Request, TransportError};
use zerocopy::{FromBytes, IntoBytes};

use super::{Memory, edit};

/// The kernel driver with its GPU.
#[derive(Default)]
pub struct Msm {
    pub memory: Memory,
    pub chip_id: u64,
    /// Whether the GPU sees the caches of the CPU.
    pub is_coherent: bool,
    state: Mutex<State>,
}

#[derive(Default)]
pub struct State {
    objects: BTreeMap<u32, (u64, View)>,
    next: u32,
    pub queues: BTreeMap<u32, Queue>,
    /// Flags of memory that was made.
    pub made: Vec<u32>,
}

#[derive(Default)]
pub struct Queue {
    pub priority: u32,
    queued: u32,
    waiting: VecDeque<(u32, Vec<(u64, u32)>)>,
    pub hangs: bool,
    pub faults: u32,
}

impl Msm {
    pub fn new(chip_id: u64) -> Msm {
        Msm {
            chip_id,
            ..Msm::default()
        }
    }

    pub fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn go(&self, state: &mut State) {
        for queue in state.queues.values_mut() {
            while let Some((_, first)) = queue.waiting.front().filter(|_| !queue.hangs) {
                if !first
                    .iter()
                    .all(|&(at, dwords)| self.memory.run(at, dwords))
                {
                    break;
                }
                queue.waiting.pop_front();
            }
        }
    }

    fn call(&self, request: &mut Request<'_, '_>) -> Result<(), i32> {
        let ioctl = request.ioctl();
        let is = |what: Ioctl| what.request == ioctl.request;
        let mut done = Ok(());
        let mut guard = self.state();
        let state = &mut *guard;
        if is(drm::VERSION.ioctl()) {
            edit::<drm::Version>(request, |version, name| {
                (version.version_major, version.name_len) = (1, 3);
                name[..3].copy_from_slice(b"msm");
            });
        } else if is(MSM_GET_PARAM.ioctl()) {
            edit::<Param>(request, |asked, _| {
                assert_eq!(asked.pipe, PIPE_3D0);
                asked.value = match asked.param {
                    param::CHIP_ID => self.chip_id,
                    param::PRIORITIES => 3,
                    param::TIMESTAMP => 1234,
                    _ => {
                        done = Err(EINVAL);
                        0
                    }
                };
            });
        } else if is(MSM_GEM_NEW.ioctl()) {
            edit::<GemNew>(request, |new, _| {
                if new.flags == Bo::CACHED_COHERENT.bits() && !self.is_coherent {
                    done = Err(EINVAL);
                    return;
                }
                state.made.push(new.flags);
                let (at, view) = self.memory.add(new.size, 4096);
                state.next += 1;
                new.handle = state.next;
                state.objects.insert(state.next, (at, view));
            });
        } else if is(by_value::MSM_GEM_INFO.ioctl()) {
            edit::<by_value::GemInfo>(request, |asked, _| {
                let (at, _) = state.objects[&asked.handle];
                asked.value = match asked.info {
                    info::GET_IOVA => at,
                    info::GET_OFFSET => u64::from(asked.handle) << 32,
                    _ => panic!("info {}", asked.info),
                };
            });
        } else if is(drm::GEM_CLOSE.ioctl()) {
            edit::<drm::GemClose>(request, |close, _| {
                match state.objects.remove(&close.handle) {
                    Some((at, _)) => self.memory.remove(at),
                    None => done = Err(EINVAL),
                }
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
        if is(MSM_SUBMITQUEUE_NEW.ioctl()) {
            edit::<Submitqueue>(request, |queue, _| {
                state.next += 1;
                queue.id = state.next;
                let priority = queue.prio;
                state.queues.insert(
                    state.next,
                    Queue {
                        priority,
                        ..Queue::default()
                    },
                );
            });
        } else if is(MSM_SUBMITQUEUE_CLOSE.ioctl()) {
            edit::<u32>(request, |id, _| {
                if state.queues.remove(id).is_none() {
                    done = Err(ENOENT);
                }
            });
        } else if is(MSM_SUBMITQUEUE_QUERY.ioctl()) {
            edit::<SubmitqueueQuery>(request, |query, value| {
                value.copy_from_slice(state.queues[&query.id].faults.as_bytes());
            });
        } else if is(MSM_GEM_SUBMIT.ioctl()) {
            let objects = &state.objects;
            let queues = &mut state.queues;
            edit::<GemSubmit>(request, |submit, rest| {
                let boxes = (rest.len() - rest.len() % 8) / 8;
                assert!(boxes > 0);
                // As many commands as fit behind the memory: sizes are 16 and 32 bytes.
                let all = objects.len() * size_of::<GemSubmitBo>();
                let (listed, commands) = rest.split_at(all);
                let listed: Vec<_> = listed
                    .chunks_exact(size_of::<GemSubmitBo>())
                    .map(|bytes| GemSubmitBo::read_from_bytes(bytes).unwrap())
                    .collect();
                assert!(
                    listed
                        .iter()
                        .all(|one| objects[&one.handle].0 == one.presumed)
                );
                let buffer = |bytes: &[u8]| {
                    let command = GemSubmitCmd::read_from_bytes(bytes).unwrap();
                    let (at, view) = &objects[&listed[command.submit_idx as usize].handle];
                    assert!((command.submit_offset + command.size) as usize <= view.len());
                    (at + u64::from(command.submit_offset), command.size / 4)
                };
                let commands = commands.chunks_exact(size_of::<GemSubmitCmd>()).map(buffer);
                let queue = queues.get_mut(&submit.queueid).unwrap();
                queue.queued += 1;
                queue.waiting.push_back((queue.queued, commands.collect()));
                submit.fence = queue.queued;
            });
            self.go(state);
        } else if is(MSM_WAIT_FENCE.ioctl()) {
            assert!(request.is_wait(), "who waits has a deadline");
            self.go(state);
            edit::<WaitFence>(request, |wait, _| {
                let queue = &state.queues[&wait.queueid];
                let is_there = queue.waiting.iter().any(|(fence, _)| *fence == wait.fence);
                done = match is_there {
                    true if wait.fence > queue.queued => Err(EINVAL),
                    true => Err(ETIMEDOUT),
                    false => Ok(()),
                };
            });
        } else {
            panic!("{} is not asked for", request.ioctl().name);
        }
        done
    }
}

impl DevFile for Msm {
    fn name(&self) -> &str {
        "/dev/dri/renderD128"
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
        let (_, view) = &state.objects[&((map.offset >> 32) as u32)];
        assert_eq!(map.len, view.len());
        Ok(view.clone())
    }
}
