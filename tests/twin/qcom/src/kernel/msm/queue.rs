//! Queues of submissions, and waits for their fences.
//!
//! Source: Linux 6.12, drivers/gpu/drm/msm/msm_submitqueue.c; msm_drv.c, `wait_fence`, `msm_ioctl_wait_fence`;
//! msm_gpu.h, `msm_gpu_convert_priority`.

use std::collections::BTreeMap;

use drivers_spec::qcom::msm::{SUBMITQUEUE_FAULTS, Submitqueue, SubmitqueueQuery, WaitFence};
use twin::errno::{Errno, Result};

use crate::kernel::Process;
use crate::kernel::jobs::Owner;
use crate::kernel::state::State;

use super::Call;
use super::drm::PRIORITIES;
use super::gem::{deadline, show};

/// `MSM_WAIT_FENCE_BOOST`.
const BOOST: u32 = 1;

/// A queue.
#[derive(Default)]
pub(crate) struct Queue {
    /// Hangs.
    pub(crate) faults: u32,
    /// The last fence.
    pub(crate) last: u32,
    /// Fences that are not signalled, with their submissions.
    pub(crate) fences: BTreeMap<u32, u64>,
    /// Those whose interrupt was lost: they are signalled with the next one.
    lost: Vec<u32>,
}

impl Queue {
    /// A submission is done. `lost`: its interrupt comes with the next one.
    pub(crate) fn retire(&mut self, fence: u32, lost: bool) {
        if lost {
            self.lost.push(fence);
            return;
        }
        self.fences.remove(&fence);
        for fence in std::mem::take(&mut self.lost) {
            self.fences.remove(&fence);
        }
    }
}

impl State {
    /// A render node is open: it has a queue, number 0.
    pub(crate) fn open_render(&mut self, file: u64) {
        self.queues.insert((file, 0), Queue::default());
    }
}

impl Process {
    pub(super) fn new_queue(&self, call: &mut Call<'_>) -> Result {
        let file = call.file.id;
        let args: &mut Submitqueue = call.args()?;
        if args.flags != 0 || args.prio >= PRIORITIES {
            let (flags, prio) = (args.flags, args.prio);
            return self.fail(Errno::EINVAL, || {
                format!("a queue of flags {flags:#x}, priority {prio}")
            });
        }
        // msm_submitqueue_create: no number is given twice.
        let next = {
            let mut render = self.render(call)?;
            render.queues += 1;
            render.queues
        };
        let mut state = self.machine.enter();
        state.queues.insert((file, next), Queue::default());
        call.args::<Submitqueue>()?.id = next;
        Ok(())
    }

    pub(super) fn close_queue(&self, call: &mut Call<'_>) -> Result {
        let file = call.file.id;
        let id: u32 = *call.args()?;
        // What it has submitted goes on: submissions hold it. msm_submitqueue_remove does not wait for them.
        let known = id > 0 && self.machine.enter().queues.remove(&(file, id)).is_some();
        match known {
            true => Ok(()),
            false => self.fail(Errno::ENOENT, || {
                format!("no queue {id}, or the default one")
            }),
        }
    }

    pub(super) fn query_queue(&self, call: &mut Call<'_>) -> Result {
        let file = call.file.id;
        let args: &mut SubmitqueueQuery = call.args()?;
        if args.pad != 0 {
            return Err(Errno::EINVAL);
        }
        let state = self.machine.enter();
        let queue = state.queues.get(&(file, args.id)).ok_or(Errno::ENOENT)?;
        if args.param != SUBMITQUEUE_FAULTS {
            let param = args.param;
            return self.fail(Errno::EINVAL, || format!("SUBMITQUEUE_QUERY {param}"));
        }
        let faults = queue.faults.to_le_bytes();
        if args.len == 0 {
            args.len = faults.len() as u32;
            return Ok(());
        }
        let room = (args.len as usize).min(faults.len());
        args.len = room as u32;
        self.caller.write(args.data, &faults[..room])
    }

    pub(super) fn wait_fence(&self, call: &mut Call<'_>) -> Result {
        let file = call.file.id;
        let args: WaitFence = *call.args()?;
        if args.flags & !BOOST != 0 {
            return self.fail(Errno::EINVAL, || {
                format!("WAIT_FENCE flags {:#x}", args.flags)
            });
        }
        let key = (file, args.queueid);
        let state = self.machine.enter();
        let queue = state.queues.get(&key).ok_or(Errno::ENOENT)?;
        // fence_after.
        if (args.fence.wrapping_sub(queue.last) as i32) > 0 {
            let last = queue.last;
            return self.fail(Errno::EINVAL, || format!("fence {} of {last}", args.fence));
        }
        let job = queue.fences.get(&args.fence).copied();
        let until = deadline(args.timeout);
        let (state, done) = self.machine.wait(state, Some(until), |state| {
            let done = match state.queues.get(&key) {
                Some(queue) => !queue.fences.contains_key(&args.fence),
                // It is closed meanwhile.
                None => job.is_none_or(|job| !state.live.contains(&job)),
            };
            done.then_some(())
        });
        drop(state);
        match done {
            Some(()) => {
                for gem in self.render(call)?.gems.values() {
                    show(&gem.object);
                }
                Ok(())
            }
            None => self.fail(Errno::ETIMEDOUT, || {
                format!("queue {}, fence {}", args.queueid, args.fence)
            }),
        }
    }

    /// A file is closed: what it has not begun is given up, what runs ends.
    pub(super) fn end_queues(&self, file: u64) {
        let mut state = self.machine.enter();
        // Also of queues that are closed.
        let own = |owner: Owner| owner.is_queue_of(file);
        state.drop_queued(own);
        let hang = std::time::Duration::from_millis(self.machine.config.timeout.saturating_mul(2));
        let until = Some(std::time::Instant::now() + hang);
        let (mut state, _) = self
            .machine
            .wait(state, until, |state| (!state.runs(own)).then_some(()));
        state.stop(own);
        state.queues.retain(|(of, _), _| *of != file);
    }
}
