//! GPU_COMMAND: submissions.
//!
//! Source: KGSL, kgsl.c, `_process_command_input`, `kgsl_ioctl_gpu_command`; kgsl_drawobj.c, `_verify_input_list`,
//! `kgsl_drawobj_cmd_add_cmdlist`, `drawobj_add_sync_timestamp`; adreno.c, `_verify_ib`; adreno_dispatch.c,
//! `adreno_dispatcher_queue_cmds`, `get_timestamp`, `drawctxt_queue_markerobj`.

use std::cmp::Ordering;
use std::time::{Duration, Instant};

use drivers_spec::qcom::kgsl::{
    Batch, CommandObject, CommandSyncpoint, Context as Flags, ContextTimestamp, Fence, GpuCommand,
    MAX_COMMANDS, MAX_IB_DWORDS, MAX_SYNCPOINTS, Object as ObjectFlags, compare, syncpoint,
};
use twin::errno::{Errno, Result};

use crate::cp::Ib;
use crate::kernel::files::{File, Kind};
use crate::kernel::jobs::{Dependency, Job, Owner, Policy};
use crate::kernel::state::State;
use crate::kernel::{Guard, Process};

use super::args;

/// `_context_drawqueue_size`, less the one that is never used.
const QUEUE: usize = 49;
/// `_context_queue_wait`.
const FULL: Duration = Duration::from_secs(10);
/// Bits of an address of the GPU.
const ADDRESSES: u64 = 1 << 48;

/// What a call asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Asked {
    sync: bool,
    commands: bool,
    marker: bool,
}

fn asked(args: &GpuCommand) -> Asked {
    let flags = Batch::from_bits_retain(args.flags);
    let (sync, commands) = (args.numsyncs > 0, args.numcmds > 0);
    if flags.contains(Batch::MARKER) {
        return Asked {
            sync: false,
            commands: false,
            marker: true,
        };
    }
    if flags.contains(Batch::SYNC) {
        return Asked {
            sync: true,
            commands: false,
            marker: false,
        };
    }
    Asked {
        sync,
        commands,
        marker: !sync && !commands,
    }
}

impl Process {
    pub(super) fn gpu_command(&self, file: &File, data: &mut [u8]) -> Result {
        let args: &mut GpuCommand = args(data)?;
        if args.numcmds > MAX_COMMANDS
            || args.numobjs > MAX_COMMANDS
            || args.numsyncs > MAX_SYNCPOINTS
        {
            let (cmds, objs, syncs) = (args.numcmds, args.numobjs, args.numsyncs);
            return self.fail(Errno::EINVAL, || {
                format!("{cmds} commands, {objs} objects, {syncs} sync points")
            });
        }
        let id = args.context_id;
        self.machine.enter().context(file, id)?;
        let asked = asked(args);
        let dependencies = match asked.sync {
            true => self.sync_points(id, args)?,
            false => Vec::new(),
        };
        let ibs = match asked.commands {
            true => self.commands(id, args)?,
            false => Vec::new(),
        };
        let state = self.machine.enter();
        let result = self.submit(state, id, args, asked, dependencies, ibs);
        self.machine.scheduler.wake();
        self.release_events();
        result
    }

    /// Reads a list: of no elements where all of it is zero, `EINVAL` where only some is.
    fn elements(&self, address: u64, bytes: u32, count: u32) -> Result<bool> {
        match (address == 0, bytes == 0, count == 0) {
            (true, true, true) => Ok(false),
            (false, false, false) => Ok(true),
            _ => self.fail(Errno::EINVAL, || {
                format!("a list of {count} elements of {bytes} bytes at {address:#x}")
            }),
        }
    }

    fn sync_points(&self, id: u32, args: &GpuCommand) -> Result<Vec<Dependency>> {
        if !self.elements(args.synclist, args.syncsize, args.numsyncs)? {
            return self.fail(Errno::EINVAL, || "no sync points".into());
        }
        let mut all = Vec::new();
        for i in 0..u64::from(args.numsyncs) {
            let at = args.synclist + i * size_of::<CommandSyncpoint>() as u64;
            let point: CommandSyncpoint = self.get_sized(at, args.syncsize.into())?;
            match point.kind {
                syncpoint::TIMESTAMP => {
                    let of: ContextTimestamp = self.get_sized(point.priv_address, point.size)?;
                    all.push(self.sync_timestamp(id, of)?);
                }
                syncpoint::FENCE => {
                    let of: Fence = self.get_sized(point.priv_address, point.size)?;
                    let fence = self.file(of.fd).ok();
                    match fence.as_ref().map(|file| &file.kind) {
                        Some(Kind::SyncFile(job)) => all.push(Dependency::Job(*job)),
                        _ => return self.fail(Errno::EINVAL, || format!("{} is no fence", of.fd)),
                    }
                }
                kind => return self.fail(Errno::EINVAL, || format!("a sync point of kind {kind}")),
            }
        }
        Ok(all)
    }

    /// A timestamp of any context that there is; not one that was not queued yet.
    fn sync_timestamp(&self, _: u32, of: ContextTimestamp) -> Result<Dependency> {
        let state = self.machine.enter();
        let context = state.contexts.get(&of.context_id);
        let Some(context) = context.filter(|context| !context.detached) else {
            return self.fail(Errno::EINVAL, || format!("no context {}", of.context_id));
        };
        let later = compare(of.timestamp, context.queued) == Ordering::Greater;
        if later && !context.chooses() {
            return self.fail(Errno::EINVAL, || {
                format!("timestamp {} was not queued", of.timestamp)
            });
        }
        Ok(Dependency::Timestamp(of.context_id, of.timestamp))
    }

    fn commands(&self, id: u32, args: &GpuCommand) -> Result<Vec<Ib>> {
        let mut ibs = Vec::new();
        let kinds = ObjectFlags::IB | ObjectFlags::CTXTSWITCH_PREAMBLE | ObjectFlags::IB_PREAMBLE;
        let size = size_of::<CommandObject>() as u64;
        if self.elements(args.cmdlist, args.cmdsize, args.numcmds)? {
            for i in 0..u64::from(args.numcmds) {
                let one: CommandObject =
                    self.get_sized(args.cmdlist + i * size, args.cmdsize.into())?;
                if one.flags & kinds.bits() == 0 {
                    return self.fail(Errno::EINVAL, || {
                        format!("context {id}: a command of kind {:#x}", one.flags)
                    });
                }
                ibs.push(self.indirect_buffer(id, &one)?);
            }
        }
        if self.elements(args.objlist, args.objsize, args.numobjs)? {
            for i in 0..u64::from(args.numobjs) {
                let one: CommandObject =
                    self.get_sized(args.objlist + i * size, args.objsize.into())?;
                if one.flags & ObjectFlags::MEMOBJ.bits() == 0 {
                    return self.fail(Errno::EINVAL, || {
                        format!("context {id}: memory of kind {:#x}", one.flags)
                    });
                }
            }
        }
        Ok(ibs)
    }

    fn indirect_buffer(&self, id: u32, one: &CommandObject) -> Result<Ib> {
        let end = one.gpuaddr.checked_add(one.size);
        let dwords = one.size / 4;
        let fits = one.size > 0
            && dwords <= MAX_IB_DWORDS
            && one.gpuaddr > 0
            && one.gpuaddr.is_multiple_of(4)
            && end.is_some_and(|end| end <= ADDRESSES);
        if !fits {
            return self.fail(Errno::EINVAL, || {
                format!(
                    "context {id}: {:#x} bytes of commands at {:#x}",
                    one.size, one.gpuaddr
                )
            });
        }
        Ok(Ib {
            address: one.gpuaddr,
            dwords: dwords as u32,
        })
    }

    /// Waits for room in the queue of a context.
    fn room<'a>(&'a self, state: Guard<'a>, id: u32, count: usize) -> Result<Guard<'a>> {
        let full = |state: &State| {
            let queued = state
                .queued
                .iter()
                .filter(|job| job.owner == Owner::Context(id));
            queued.count() + count > QUEUE
        };
        if !full(&state) {
            return Ok(state);
        }
        // Shorter where the config has it be.
        let limit = FULL.min(Duration::from_millis(
            self.machine.config.timeout.saturating_mul(5),
        ));
        let deadline = Some(Instant::now() + limit);
        let (state, done) = self.machine.wait(state, deadline, |state| {
            let invalid = state
                .contexts
                .get(&id)
                .is_none_or(|context| context.invalid);
            (invalid || !full(state)).then_some(())
        });
        match done {
            Some(()) => Ok(state),
            None => self.fail(Errno::ETIMEDOUT, || {
                format!("context {id}: its queue is full")
            }),
        }
    }

    fn submit<'a>(
        &'a self,
        state: Guard<'a>,
        id: u32,
        args: &mut GpuCommand,
        asked: Asked,
        dependencies: Vec<Dependency>,
        ibs: Vec<Ib>,
    ) -> Result {
        let count = usize::from(asked.sync) + usize::from(asked.commands || asked.marker);
        let context = state.contexts.get(&id).ok_or(Errno::EINVAL)?;
        if context.invalid {
            return self.fail(Errno::EDEADLK, || format!("context {id} is invalid"));
        }
        let mut state = self.room(state, id, count)?;
        let rings = state.rings.len();
        let context = state.contexts.get_mut(&id).ok_or(Errno::ENOENT)?;
        if context.invalid {
            return self.fail(Errno::EDEADLK, || format!("context {id} is invalid"));
        }
        if context.detached {
            return self.fail(Errno::ENOENT, || format!("context {id} has gone"));
        }
        let only_sync = asked.sync && !asked.commands && !asked.marker;
        if context.chooses()
            && !only_sync
            && compare(context.queued, args.timestamp) != Ordering::Less
        {
            let (last, wanted) = (context.queued, args.timestamp);
            return self.fail(Errno::ERANGE, || {
                format!("timestamp {wanted} is not after {last}")
            });
        }
        if only_sync {
            args.timestamp = 0;
        } else {
            let last = context.queued;
            context.queued = match context.chooses() {
                true => args.timestamp,
                false => context.queued.wrapping_add(1),
            };
            args.timestamp = context.queued;
            // A marker behind nothing is over at once.
            if asked.marker && !asked.sync && context.has_retired(last) {
                context.retire_marker(args.timestamp);
                return Self::told(&mut state, id);
            }
        }
        let context = state.contexts.get_mut(&id).ok_or(Errno::ENOENT)?;
        let usual = !context.without_fault_tolerance() && !context.invalidates_on_fault();
        let mut policy = Policy {
            replay: !context.without_fault_tolerance(),
            skip: usual,
            throttle: usual,
            disable: context.without_fault_tolerance(),
        };
        let recovered = std::mem::take(&mut context.skipped);
        if recovered {
            (policy.skip, policy.replay) = (false, false);
        }
        let nothing = context.flags & Flags::IFH_NOP.bits() != 0;
        let ring = context.ring(rings);
        // Sync points alone hold back what comes behind them, and have no timestamp of their own.
        let timestamp = context.queued;
        let job = Job {
            id: state.job(),
            process: self.id,
            owner: Owner::Context(id),
            timestamp,
            ring,
            space: self.objects_of().space.clone(),
            ibs: if nothing { Vec::new() } else { ibs },
            dependencies,
            listed: None,
            policy,
            recovered,
            number: 0,
        };
        state.queue(job);
        Self::told(&mut state, id)
    }

    /// A context is told once that an earlier submission has faulted; this one is queued all the same.
    fn told(state: &mut State, id: u32) -> Result {
        let context = state.contexts.get_mut(&id);
        match context.is_some_and(|context| std::mem::take(&mut context.fault)) {
            true => Err(Errno::EPROTO),
            false => Ok(()),
        }
    }
}
