//! Submitqueues of msm: the kernel numbers submissions by fences of the queue.
//!
//! A submission that hangs is dropped by the kernel, its fence is signalled all the same, and the queue counts a fault. Those
//! behind it do nothing ([`Order`]), so that their signals do not count for it. A kernel that has taken the address space away
//! refuses later submissions (EPIPE). The kernel takes a GPU that makes no progress for half a second for hung.
//!
//! Source: Linux, drivers/gpu/drm/msm/msm_gem_submit.c, `msm_ioctl_gem_submit`; msm_drv.c, `wait_fence`; msm_gpu.c,
//! `recover_worker`, `hangcheck_handler`; msm_submitqueue.c, `msm_submitqueue_query_faults`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use drivers_gpu::kernel::calls::is_gone;
use drivers_spec::qcom::msm::{
    self, GemSubmit, GemSubmitBo, GemSubmitCmd, PIPE_3D0, SUBMITQUEUE_FAULTS, Submit, Submitqueue,
    SubmitqueueQuery, Timespec, WaitFence, command, param,
};
use hcq::sync::lock;
use hcq::transport::access::by_clock;
use hcq::transport::errno::{EAGAIN, EDEADLK, EINTR, EINVAL, ENOENT, ENOMEM, EPIPE, ETIMEDOUT};
use hcq::transport::{Fault, Machine, MonotonicClock, TransportError};
use hcq::{Deadline, DeviceId, Error};
use nix::time::{ClockId, clock_gettime};
use zerocopy::IntoBytes;

use super::memory::{Memory, Process};
use super::order::{Order, ROOM};
use super::survey::{LOG, get};
use crate::backend::context::{ContextHandle, Failure, IndirectBuffer, Progress};
use crate::backend::few;
use crate::backend::heap::Object;
use crate::backend::retry::{ioctl, ioctl_with, until};
use crate::backend::unusable::of_call;
use crate::options::Options;

/// How often a queue is asked for its faults while threads sleep.
const ASK: Duration = Duration::from_millis(100);

/// How many fences are kept: more than are under way.
const KEPT: usize = Options::MOST_IN_FLIGHT as usize + 16;

/// A submitqueue.
pub(super) struct Queue {
    device: DeviceId,
    process: Arc<Process>,
    name: String,
    id: u32,
    /// Submissions so far.
    submitted: AtomicU64,
    /// Fences that are not known to be signalled, in their order: at most [`KEPT`].
    fences: Mutex<VecDeque<u32>>,
    order: Order,
    state: Mutex<State>,
    is_stopped: AtomicBool,
}

struct State {
    /// What is known of a fault; the first stays.
    fault: Option<String>,
    asked: Instant,
}

impl Queue {
    /// A new queue. `priority` is KGSL's: 1 to 15.
    ///
    /// # Errors
    /// The kernel's; nothing is left behind then.
    pub(super) fn new(
        machine: &dyn Machine,
        device: &DeviceId,
        process: &Arc<Process>,
        priority: u32,
    ) -> Result<Queue, TransportError> {
        let file = &*process.file;
        let order = Order::new(machine, process)?;
        // Older kernels have one priority and do not tell.
        let levels = get(file, param::PRIORITIES).unwrap_or(1).clamp(1, 256) as u32;
        let mut made = Submitqueue {
            prio: (priority.clamp(1, 15) - 1) * levels / 15,
            ..Default::default()
        };
        ioctl(file, msm::MSM_SUBMITQUEUE_NEW, &mut made)?;
        Ok(Queue {
            device: device.clone(),
            process: process.clone(),
            name: format!("submitqueue {}", made.id),
            id: made.id,
            submitted: AtomicU64::new(0),
            fences: Mutex::new(VecDeque::with_capacity(KEPT)),
            order,
            state: Mutex::new(State {
                fault: None,
                asked: Instant::now(),
            }),
            is_stopped: AtomicBool::new(false),
        })
    }

    /// A command, by the list of memory.
    fn command(
        &self,
        buffer: &IndirectBuffer,
        object: Option<&Arc<Memory>>,
        listed: &[GemSubmitBo],
    ) -> Result<GemSubmitCmd, Failure> {
        let command = object.and_then(|object| {
            let (handle, offset) = object.place_of(buffer.address);
            let index = listed.partition_point(|one| one.presumed < buffer.address - offset);
            let is_listed = listed.get(index).is_some_and(|one| one.handle == handle);
            let end = buffer.address - object.va() + u64::from(buffer.dwords) * 4;
            (is_listed && end <= object.bytes()).then_some(GemSubmitCmd {
                kind: command::BUF,
                submit_idx: index as u32,
                submit_offset: offset as u32,
                size: buffer.dwords * 4,
                ..Default::default()
            })
        });
        command.ok_or_else(|| {
            Failure::Refused(Error::Command {
                device: self.device.clone(),
                queue: self.name.clone(),
                command: "submission".into(),
                why: format!(
                    "indirect buffer of {} dwords at {:#x} is not in a live buffer of this device: keep the buffer until the \
                     submission is done",
                    buffer.dwords, buffer.address
                ),
            })
        })
    }

    /// Submits the first of indirect buffers, which calls the others, with the list of all memory of the process, in the order of
    /// addresses; returns the fence.
    fn call(
        &self,
        buffers: &[IndirectBuffer],
        objects: &[Option<Arc<Memory>>],
    ) -> Result<u32, Failure> {
        let mut submit = GemSubmit {
            flags: Submit::NO_IMPLICIT.bits() | PIPE_3D0,
            fence_fd: -1,
            queueid: self.id,
            ..Default::default()
        };
        let none = buffers.iter().map(|_| GemSubmitCmd::default());
        few::with(none, |commands| {
            // Held over the call: the kernel refuses a list with a handle that is closed meanwhile.
            let mut listed = lock(&self.process.listed);
            let pairs = buffers.iter().zip(objects);
            for (command, (buffer, object)) in commands.iter_mut().zip(pairs) {
                *command = self.command(buffer, object.as_ref(), &listed)?;
            }
            let file = &*self.process.file;
            let (first, _) = commands.split_at_mut(commands.len().min(1));
            let mut memory = [listed.as_mut_slice().as_mut_bytes(), first.as_mut_bytes()];
            match ioctl_with(file, msm::MSM_GEM_SUBMIT, &mut submit, &mut memory) {
                Ok(()) => Ok(submit.fence),
                // The address space is unusable after a fault (EPIPE), the queue is gone (ENOENT).
                Err(error)
                    if is_gone(&error)
                        || matches!(error.fault, Fault::Errno(EPIPE | EDEADLK | ENOENT)) =>
                {
                    Err(Failure::Lost(self.lost(error)))
                }
                Err(error) => {
                    let mut refused = of_call(&self.device, &error, LOG);
                    if let (Error::Os { hint, .. }, Fault::Errno(ENOMEM)) =
                        (&mut refused, &error.fault)
                    {
                        *hint = "Free memory of the machine and submit again".into();
                    }
                    Err(Failure::Refused(refused))
                }
            }
        })
    }

    /// The oldest fence that is not known to be signalled.
    fn oldest(&self) -> Option<u32> {
        lock(&self.fences).front().copied()
    }

    /// Notes that a fence is signalled. Another thread may have done so.
    fn end(&self, fence: u32) {
        let mut fences = lock(&self.fences);
        if fences.front() == Some(&fence) {
            fences.pop_front();
        }
    }

    /// Waits for a fence until `limit` is over.
    fn wait(&self, fence: u32, limit: Duration) -> Result<(), TransportError> {
        let mut wait = WaitFence {
            fence,
            timeout: after(limit),
            queueid: self.id,
            ..Default::default()
        };
        let mut request = msm::MSM_WAIT_FENCE.with(&mut wait, &mut []).waiting();
        self.process.file.ioctl(&mut request).map(drop)
    }

    /// Whether a call was refused because another thread has ended the queue meanwhile.
    fn has_ended(&self, error: &TransportError) -> bool {
        matches!(error.fault, Fault::Errno(EINVAL | ENOENT))
            && self.is_stopped.load(Ordering::Acquire)
    }

    /// Notes why a submission was refused for good, unless a hang is known; who is told of the error asks for it.
    fn lost(&self, error: TransportError) -> TransportError {
        if !is_gone(&error)
            && !self.has_ended(&error)
            && !self.fault(true).is_ok_and(|known| known.is_some())
        {
            let mut state = lock(&self.state);
            state.fault.get_or_insert_with(|| {
                format!(
                    "the kernel driver takes no submissions of {} any more, as after a hang or fault of the GPU ({}: {}). See \
                     `dmesg | grep {LOG}`",
                    self.name, error.operation, error.fault
                )
            });
        }
        error
    }

    /// Hangs that the queue has counted.
    fn hangs(&self) -> Result<u32, TransportError> {
        let mut hangs = 0u32;
        let mut query = SubmitqueueQuery {
            id: self.id,
            param: SUBMITQUEUE_FAULTS,
            ..Default::default()
        };
        let file = &*self.process.file;
        let mut memory = [hangs.as_mut_bytes()];
        ioctl_with(file, msm::MSM_SUBMITQUEUE_QUERY, &mut query, &mut memory)?;
        Ok(hangs)
    }
}

/// A moment of CLOCK_MONOTONIC: the kernel takes no other.
fn after(limit: Duration) -> Timespec {
    // clock_gettime(2) names two failures, a bad pointer and an unknown clock: neither can occur.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    let until = now + limit;
    Timespec {
        tv_sec: until.as_secs() as i64,
        tv_nsec: until.subsec_nanos().into(),
    }
}

/// A wait that has come to its end.
fn is_over(error: &TransportError) -> bool {
    matches!(error.fault, Fault::Errno(ETIMEDOUT | EINTR | EAGAIN))
}

impl ContextHandle for Queue {
    fn name(&self) -> &str {
        &self.name
    }

    fn most(&self) -> usize {
        ROOM
    }

    fn submit(&self, buffers: &[IndirectBuffer]) -> Result<(), Failure> {
        if buffers.len() > ROOM {
            return Err(Failure::Refused(Error::Command {
                device: self.device.clone(),
                queue: self.name.clone(),
                command: "submission".into(),
                why: format!(
                    "{} indirect buffers, expected at most {ROOM}: submit them in several parts",
                    buffers.len()
                ),
            }));
        }
        // One after the other: each depends on the one before.
        let mut fences = lock(&self.fences);
        let number = self.submitted.load(Ordering::Acquire) + 1;
        let guard = self.order.guard(number, buffers).map_err(Failure::Lost)?;
        let all = (0..1 + buffers.len()).map(|i| match i.checked_sub(1) {
            None => guard,
            Some(i) => buffers.get(i).copied().unwrap_or_default(),
        });
        let fence = few::with(all, |all| {
            // Kept over the call, and dropped when the list is free again: their drop takes it.
            let objects = all.iter().map(|one| self.process.heap.at(one.address));
            few::with(objects, |objects| self.call(all, objects))
        })?;
        // Nobody sleeps where signals come in time. Older ones than may be under way are over.
        while fences.len() >= KEPT {
            fences.pop_front();
        }
        fences.push_back(fence);
        self.submitted.store(number, Ordering::Release);
        Ok(())
    }

    fn counts(&self) -> Result<(u64, u64), TransportError> {
        // One fence after the other: the kernel tells of one.
        while let Some(fence) = self.oldest() {
            match by_clock(|| self.wait(fence, Duration::ZERO)) {
                Ok(()) => self.end(fence),
                Err(error) if is_over(&error) => break,
                Err(error) => return Err(error),
            }
        }
        let left = lock(&self.fences).len() as u64;
        let submitted = self.submitted.load(Ordering::Acquire);
        Ok((submitted, submitted.saturating_sub(left)))
    }

    fn sleep(&self, limit: Duration) -> Result<Progress, TransportError> {
        let Some(fence) = self.oldest() else {
            return Ok(Progress::Idle);
        };
        match by_clock(|| self.wait(fence, limit)) {
            Ok(()) => {
                self.end(fence);
                Ok(Progress::Ended)
            }
            Err(error) if is_over(&error) => Ok(Progress::None),
            Err(error) if self.has_ended(&error) => Ok(Progress::Idle),
            Err(error) => Err(error),
        }
    }

    fn fault(&self, now: bool) -> Result<Option<String>, TransportError> {
        {
            let mut state = lock(&self.state);
            if state.fault.is_some() {
                return Ok(state.fault.clone());
            }
            if self.is_stopped.load(Ordering::Acquire) || !now && state.asked.elapsed() < ASK {
                return Ok(None);
            }
            state.asked = Instant::now();
        }
        let hangs = match now {
            true => self.hangs(),
            false => by_clock(|| self.hangs()),
        };
        let hangs = match hangs {
            Err(error) if self.has_ended(&error) => return Ok(None),
            hangs => hangs?,
        };
        if hangs == 0 {
            return Ok(None);
        }
        let mut state = lock(&self.state);
        let known = state.fault.get_or_insert_with(|| {
            format!(
                "the kernel driver has dropped submissions of {} after a hang or fault of the GPU (hangs: {hangs}). A \
                 submission without progress for half a second counts as a hang. See `dmesg | grep {LOG}`",
                self.name
            )
        });
        Ok(Some(known.clone()))
    }

    fn stop(&self) -> bool {
        if self.is_stopped.swap(true, Ordering::AcqRel) {
            return true;
        }
        // Closing does not wait: what still runs could write.
        let last = lock(&self.fences).back().copied();
        let end = Deadline::after(STOP);
        let ended = last.map_or(Ok(()), |last| {
            until(end, || self.wait(last, end.remaining(&MonotonicClock)))
        });
        let mut id = self.id;
        let closed = ioctl(&*self.process.file, msm::MSM_SUBMITQUEUE_CLOSE, &mut id);
        for error in [closed.as_ref().err(), ended.as_ref().err()]
            .into_iter()
            .flatten()
        {
            tracing::warn!(%error, queue = self.name, "could not end the queue");
        }
        match (&ended, &closed) {
            (Ok(()), _) => true,
            (Err(error), _) => is_gone(error),
        }
    }
}

/// How long the end of a queue waits for what runs: longer than the kernel takes to find a hang and to recover.
const STOP: Duration = Duration::from_secs(5);

impl Drop for Queue {
    fn drop(&mut self) {
        self.stop();
    }
}
