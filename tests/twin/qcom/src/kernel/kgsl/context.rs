//! Contexts, and waits for their timestamps.
//!
//! Source: KGSL, adreno_drawctxt.c, `adreno_drawctxt_create`, `adreno_drawctxt_wait`, `adreno_drawctxt_detach`; kgsl.c,
//! `kgsl_context_init`, `kgsl_ioctl_drawctxt_destroy`; kgsl_events.c, `kgsl_add_event`; kgsl_device.h,
//! `kgsl_context_get_owner`: a context belongs to a file.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use drivers_spec::qcom::kgsl::{
    Context as Flags, DrawctxtCreate, DrawctxtDestroy, ReadTimestamp, WaitTimestamp, compare,
    context as parts, reset, timestamp,
};
use twin::errno::{Errno, Result};

use crate::config::Version;
use crate::kernel::Process;
use crate::kernel::files::File;
use crate::kernel::jobs::{Job, Owner};
use crate::kernel::recovery::Throttle;
use crate::kernel::state::State;

use super::args;

/// `KGSL_MEMSTORE_MAX` of kgsl.h: contexts that there is room for, 40 bytes each in 8 pages, less 6.
const MOST: u32 = 8 * 4096 / 40 - 6;
/// `KGSL_MAX_CONTEXTS_PER_PROC` of kgsl.h; not in kernels 4.9.
const MOST_OF_PROCESS: usize = 200;
/// How long a context waits for its work at its end.
const DETACH: Duration = Duration::from_secs(30);

/// A context.
pub(crate) struct Context {
    pub(crate) file: u64,
    pub(crate) process: u32,
    pub(crate) flags: u32,
    /// Of the last submission.
    pub(crate) queued: u32,
    /// Of the last one that has begun.
    pub(crate) started: u32,
    /// Of the last one that is done, as memory has it.
    retired: u32,
    /// The same, as the kernel has heard of it.
    heard: u32,
    pub(crate) invalid: bool,
    pub(crate) detached: bool,
    /// The next submission is told that an earlier one has faulted.
    pub(crate) fault: bool,
    /// A submission was left out, and none has come since.
    pub(crate) skipped: bool,
    pub(crate) reset_status: u32,
    /// Whether the power level is constrained, and to what.
    pub(crate) constraint: Option<u32>,
    throttle: Throttle,
}

impl Context {
    fn new(file: u64, process: u32, flags: u32) -> Context {
        Context {
            file,
            process,
            flags,
            queued: 0,
            started: 0,
            retired: 0,
            heard: 0,
            invalid: false,
            detached: false,
            fault: false,
            skipped: false,
            reset_status: reset::NO_ERROR,
            constraint: None,
            throttle: Throttle::default(),
        }
    }

    fn has(&self, flag: Flags) -> bool {
        self.flags & flag.bits() != 0
    }

    /// Whether the client chooses timestamps.
    pub(crate) fn chooses(&self) -> bool {
        self.has(Flags::USER_GENERATED_TS)
    }

    pub(crate) fn without_fault_tolerance(&self) -> bool {
        self.has(Flags::NO_FAULT_TOLERANCE)
    }

    pub(crate) fn invalidates_on_fault(&self) -> bool {
        self.has(Flags::INVALIDATE_ON_FAULT)
    }

    /// The ring of its priority. KGSL, adreno_dispatch.c: its priority by the number of rings.
    pub(crate) fn ring(&self, rings: usize) -> usize {
        let priority = (self.flags & parts::PRIORITY_MASK) >> parts::PRIORITY_SHIFT;
        (priority as usize / rings.max(1)).min(rings.saturating_sub(1))
    }

    /// Whether a timestamp is over, as the kernel has heard.
    pub(crate) fn has_retired(&self, timestamp: u32) -> bool {
        compare(self.heard, timestamp) != Ordering::Less
    }

    /// A submission is done. `lost`: its interrupt comes with the next one.
    pub(crate) fn retire(&mut self, job: &Job, lost: bool) {
        if compare(job.timestamp, self.retired) == Ordering::Greater {
            self.retired = job.timestamp;
        }
        if !lost {
            self.heard = self.retired;
        }
        self.fault |= job.recovered;
    }

    /// A marker is done, which is no submission.
    pub(crate) fn retire_marker(&mut self, timestamp: u32) {
        (self.started, self.retired, self.heard) = (timestamp, timestamp, timestamp);
    }

    /// All that was submitted counts as done.
    pub(crate) fn retire_all(&mut self) {
        self.retire_marker(self.queued);
    }

    /// Another fault; whether it is one too many.
    pub(crate) fn faults_too_fast(&mut self, now: u64, limit: (u64, u32)) -> bool {
        self.throttle.count(now, limit)
    }
}

impl State {
    /// A context of a file: one that is gone, or of another file, is none.
    pub(crate) fn context(&mut self, file: &File, id: u32) -> Result<&mut Context> {
        let context = self.contexts.get_mut(&id);
        context
            .filter(|context| context.file == file.id && !context.detached)
            .ok_or(Errno::EINVAL)
    }
}

/// Flags that each version knows.
fn known(version: Version) -> Flags {
    let old = Flags::PREAMBLE
        | Flags::NO_GMEM_ALLOC
        | Flags::PER_CONTEXT_TS
        | Flags::USER_GENERATED_TS
        | Flags::NO_FAULT_TOLERANCE
        | Flags::INVALIDATE_ON_FAULT
        | Flags::CTX_SWITCH
        | Flags::PWR_CONSTRAINT
        | Flags::IFH_NOP
        | Flags::SECURE
        | Flags::NO_SNAPSHOT;
    match version {
        Version::V4_9 => old,
        Version::V5_15 => old | Flags::LPAC | Flags::FAULT_INFO,
    }
}

impl Process {
    pub(super) fn create_context(&self, file: &File, data: &mut [u8]) -> Result {
        let args: &mut DrawctxtCreate = args(data)?;
        let fields = parts::PRIORITY_MASK | parts::TYPE_MASK | parts::PREEMPT_STYLE_MASK;
        let mut flags = args.flags & (known(self.version()).bits() | fields);
        let has = |flag: Flags| flags & flag.bits() != 0;
        if !has(Flags::PREAMBLE) || !has(Flags::NO_GMEM_ALLOC) {
            return self.fail(Errno::EINVAL, || {
                format!("DRAWCTXT_CREATE {flags:#x}: without PREAMBLE or NO_GMEM_ALLOC")
            });
        }
        if has(Flags::SECURE) || has(Flags::LPAC) {
            return self.fail(Errno::EOPNOTSUPP, || format!("DRAWCTXT_CREATE {flags:#x}"));
        }
        flags |= Flags::PER_CONTEXT_TS.bits();
        if flags & parts::PRIORITY_MASK == 0 {
            flags |= parts::PRIORITY_MEDIUM << parts::PRIORITY_SHIFT;
        }
        let mut state = self.machine.enter();
        let own = state
            .contexts
            .values()
            .filter(|context| context.process == self.id);
        let most = match self.version() {
            Version::V4_9 => usize::MAX,
            Version::V5_15 => MOST_OF_PROCESS,
        };
        let own = own.count();
        let id = (1..MOST).find(|id| !state.contexts.contains_key(id));
        let Some(id) = id.filter(|_| own <= most) else {
            return self.fail(Errno::ENOSPC, || format!("{own} contexts"));
        };
        state
            .contexts
            .insert(id, Context::new(file.id, self.id, flags));
        (args.flags, args.drawctxt_id) = (flags, id);
        Ok(())
    }

    pub(super) fn destroy_context(&self, file: &File, data: &mut [u8]) -> Result {
        let args: &mut DrawctxtDestroy = args(data)?;
        self.machine.enter().context(file, args.drawctxt_id)?;
        self.end_context(args.drawctxt_id);
        Ok(())
    }

    /// The end of a context: what has not begun is given up, what runs is waited for.
    fn end_context(&self, id: u32) {
        let owner = Owner::Context(id);
        let mut state = self.machine.enter();
        if let Some(context) = state.contexts.get_mut(&id) {
            context.detached = true;
        }
        let own = |one: Owner| one == owner;
        state.drop_queued(own);
        let deadline = Instant::now() + DETACH.min(self.patience());
        let done = |state: &mut State| (!state.runs(own)).then_some(());
        let (mut state, done) = self.machine.wait(state, Some(deadline), done);
        if done.is_none() {
            // ADRENO_CTX_DETATCH_TIMEOUT_FAULT.
            state.stop(own);
            state.core.reset();
            state.resets += 1;
            let what = format!("context {id} ends and does not stop; the GPU is reset");
            self.machine.journal.reset(what);
        }
        state.contexts.remove(&id);
        drop(state);
        self.release_events();
        self.machine.tell();
    }

    /// How long the kernel waits for what does not end: less where the config has it give up sooner.
    fn patience(&self) -> Duration {
        // Ten times what is a hang: 30 s of 2 s.
        Duration::from_millis(self.machine.config.timeout.saturating_mul(15))
    }

    /// The contexts of a file that is closed.
    pub(crate) fn end_contexts(&self, file: u64) {
        let state = self.machine.enter();
        let own = state
            .contexts
            .iter()
            .filter(|(_, context)| context.file == file);
        let own: Vec<u32> = own.map(|(id, _)| *id).collect();
        drop(state);
        own.into_iter().for_each(|id| self.end_context(id));
    }

    pub(super) fn wait_timestamp(&self, file: &File, data: &mut [u8]) -> Result {
        let args: WaitTimestamp = *args(data)?;
        let (id, timestamp) = (args.context_id, args.timestamp);
        let mut state = self.machine.enter();
        let context = state.context(file, id)?;
        if context.invalid {
            return self.fail(Errno::EDEADLK, || format!("context {id} is invalid"));
        }
        let later = compare(timestamp, context.queued) == Ordering::Greater;
        if later && !context.chooses() {
            return self.fail(Errno::EINVAL, || {
                format!("context {id}: a wait for timestamp {timestamp}, which was not queued")
            });
        }
        // `msecs_to_jiffies`: what is negative as a number with a sign is forever, as 0 is.
        let forever = args.timeout == 0 || args.timeout > i32::MAX as u32;
        let deadline =
            (!forever).then(|| Instant::now() + Duration::from_millis(args.timeout.into()));
        let done = |state: &mut State| match state.contexts.get(&id) {
            None => Some(Err(Errno::ENOENT)),
            Some(context) if context.detached => Some(Err(Errno::ENOENT)),
            Some(context) if context.invalid => Some(Err(Errno::EDEADLK)),
            Some(context) => context.has_retired(timestamp).then_some(Ok(())),
        };
        let (state, done) = self.machine.wait(state, deadline, done);
        drop(state);
        self.release_events();
        match done {
            Some(Ok(())) => Ok(()),
            Some(Err(errno)) => self.fail(errno, || format!("context {id}, timestamp {timestamp}")),
            None => self.fail(Errno::ETIMEDOUT, || {
                format!("context {id}, timestamp {timestamp}")
            }),
        }
    }

    pub(super) fn read_timestamp(&self, file: &File, data: &mut [u8]) -> Result {
        let args: &mut ReadTimestamp = args(data)?;
        let mut state = self.machine.enter();
        let context = state.context(file, args.context_id)?;
        args.timestamp = match args.kind {
            timestamp::CONSUMED => context.started,
            timestamp::RETIRED => context.retired,
            timestamp::QUEUED => context.queued,
            kind => return self.fail(Errno::EINVAL, || format!("timestamp of kind {kind}")),
        };
        Ok(())
    }
}
