//! GEM_SUBMIT.
//!
//! Source: Linux, drivers/gpu/drm/msm/msm_gem_submit.c, `msm_ioctl_gem_submit`, `submit_lookup_objects`,
//! `submit_lookup_cmds`: the order of its checks; adreno/adreno_gpu.c: relocations are for A4xx and older only.

use std::collections::BTreeSet;

use drivers_spec::qcom::msm::{
    GemSubmit, GemSubmitBo, GemSubmitCmd, GemSubmitSyncobj, PIPE_3D0, Submit, SubmitBo, command,
};
use twin::errno::{Errno, Result};

use crate::cp::Ib;
use crate::kernel::Process;
use crate::kernel::files::Kind;
use crate::kernel::jobs::{Dependency, Job, Owner, Policy};

use super::gem::clean;
use super::syncobj::Point;
use super::{Call, Render, syncobj};

/// The pipe in flags.
const PIPE: u32 = 0xffff;
/// `MSM_SUBMIT_SYNCOBJ_RESET`.
const RESET: u32 = 1;

/// What a submission signals.
type Signals = Vec<(syncobj::Shared, u64)>;

/// Memory of a submission: handle, and whether it is written.
type Bos = Vec<(u32, bool)>;

impl Process {
    pub(super) fn gem_submit(&self, call: &mut Call<'_>) -> Result {
        let file = call.file.id;
        let args: GemSubmit = *call.args()?;
        let flags = Submit::from_bits_retain(args.flags & !PIPE);
        let known = Submit::from_bits(args.flags & !PIPE).is_some();
        // SUDO is for kernels that are built for it.
        if args.pad != 0 || args.flags & PIPE != PIPE_3D0 || !known || flags.contains(Submit::SUDO)
        {
            return self.fail(Errno::EINVAL, || {
                format!("GEM_SUBMIT flags {:#x}", args.flags)
            });
        }
        let key = (file, args.queueid);
        if !self.machine.enter().queues.contains_key(&key) {
            return self.fail(Errno::ENOENT, || format!("no queue {}", args.queueid));
        }
        let mut dependencies = Vec::new();
        if flags.contains(Submit::FENCE_FD_IN) {
            dependencies.push(self.fence_of(args.fence_fd)?);
        }
        let mut resets = Vec::new();
        if flags.contains(Submit::SYNCOBJ_IN) {
            self.wait_for(call, &args, &mut dependencies, &mut resets)?;
        }
        let signals = match flags.contains(Submit::SYNCOBJ_OUT) {
            true => self.signals(call, &args)?,
            false => Signals::new(),
        };
        let mut render = self.render(call)?;
        let bos = self.bos(&mut render, &args)?;
        if !flags.contains(Submit::NO_IMPLICIT) {
            self.implicit(&mut render, &args, &bos, &mut dependencies)?;
        }
        let ibs = self.ibs(&mut render, &args, &bos)?;
        let space = render.space.clone();
        let mut state = self.machine.enter();
        let queue = state.queues.get(&key).ok_or(Errno::ENOENT)?;
        let chosen = flags.contains(Submit::FENCE_SN_IN);
        let fence = match chosen {
            true if args.fence == 0 || queue.fences.contains_key(&args.fence) => {
                return self.fail(Errno::EINVAL, || format!("fence {} is taken", args.fence));
            }
            true => args.fence,
            // Of the positive numbers of 31 bits.
            false => queue.last % i32::MAX as u32 + 1,
        };
        let id = state.job();
        for (handle, write) in &bos {
            let gem = render.gem(*handle)?;
            gem.users.retain(|(job, _)| state.live.contains(job));
            gem.users.push((id, *write));
            clean(&gem.object);
        }
        drop(render);
        if let Some(queue) = state.queues.get_mut(&key) {
            queue.last = fence;
            queue.fences.insert(fence, id);
        }
        state.queue(Job {
            id,
            process: self.id,
            owner: Owner::Queue(file, args.queueid),
            timestamp: fence,
            ring: 0,
            space,
            ibs,
            dependencies,
            listed: Some(
                bos.iter()
                    .map(|(handle, _)| *handle)
                    .collect::<BTreeSet<u32>>(),
            ),
            policy: Policy::default(),
            recovered: false,
            number: 0,
        });
        drop(state);
        resets
            .into_iter()
            .for_each(|syncobj| syncobj::reset(&syncobj));
        for (syncobj, point) in signals {
            syncobj::set(&syncobj, point, Point::Job(id));
        }
        let fd = match flags.contains(Submit::FENCE_FD_OUT) {
            true => {
                let number = self.caller.descriptor(None)?;
                Some(self.install(Kind::SyncFile(id), number)?)
            }
            false => None,
        };
        let answer: &mut GemSubmit = call.args()?;
        answer.fence = fence;
        answer.fence_fd = fd.unwrap_or(args.fence_fd);
        self.machine.scheduler.wake();
        Ok(())
    }

    fn fence_of(&self, fd: i32) -> Result<Dependency> {
        let file = self.file(fd).ok();
        match file.as_ref().map(|file| &file.kind) {
            Some(Kind::SyncFile(job)) => Ok(Dependency::Job(*job)),
            _ => self.fail(Errno::EINVAL, || format!("{fd} is no fence")),
        }
    }

    /// Syncobjs of a list; elements may be shorter or longer than ours.
    fn syncobjs_of(&self, address: u64, count: u32, stride: u32) -> Result<Vec<GemSubmitSyncobj>> {
        let known = size_of::<GemSubmitSyncobj>();
        let copied = known.min(stride as usize);
        let mut all = Vec::new();
        for i in 0..u64::from(count) {
            let mut bytes = [0; size_of::<GemSubmitSyncobj>()];
            self.caller
                .read(address + i * u64::from(stride), &mut bytes[..copied])?;
            let one = zerocopy::FromBytes::read_from_bytes(&bytes[..]);
            all.push(one.map_err(|_| Errno::EINVAL)?);
        }
        Ok(all)
    }

    /// Source: msm_syncobj.c, `msm_syncobj_parse_deps`.
    fn wait_for(
        &self,
        call: &Call<'_>,
        args: &GemSubmit,
        dependencies: &mut Vec<Dependency>,
        resets: &mut Vec<syncobj::Shared>,
    ) -> Result {
        let list = self.syncobjs_of(args.in_syncobjs, args.nr_in_syncobjs, args.syncobj_stride)?;
        for one in list {
            if one.flags & !RESET != 0 {
                return self.fail(Errno::EINVAL, || format!("syncobj flags {:#x}", one.flags));
            }
            let found = self.render(call)?.syncobjs.get(&one.handle).cloned();
            let syncobj = found.ok_or(Errno::ENOENT)?;
            match syncobj::find(&syncobj, one.point) {
                Some(Point::Job(job)) => dependencies.push(Dependency::Job(job)),
                Some(Point::Signalled) => {}
                None => {
                    return self.fail(Errno::EINVAL, || {
                        format!("syncobj {} has no fence", one.handle)
                    });
                }
            }
            if one.flags & RESET != 0 {
                resets.push(syncobj);
            }
        }
        Ok(())
    }

    /// Source: msm_syncobj.c, `msm_syncobj_parse_post_deps`.
    fn signals(&self, call: &Call<'_>, args: &GemSubmit) -> Result<Signals> {
        let list =
            self.syncobjs_of(args.out_syncobjs, args.nr_out_syncobjs, args.syncobj_stride)?;
        let mut signals = Signals::new();
        for one in list {
            let found = self.render(call)?.syncobjs.get(&one.handle).cloned();
            match found.filter(|_| one.flags == 0) {
                Some(syncobj) => signals.push((syncobj, one.point)),
                None => {
                    return self.fail(Errno::EINVAL, || {
                        format!("syncobj {}, flags {:#x}", one.handle, one.flags)
                    });
                }
            }
        }
        Ok(signals)
    }

    fn bos(&self, render: &mut Render, args: &GemSubmit) -> Result<Bos> {
        let list: Vec<GemSubmitBo> = self.caller.get_all(args.bos, args.nr_bos as usize)?;
        let mut bos = Bos::new();
        for one in list {
            let flags = SubmitBo::from_bits(one.flags);
            let used = SubmitBo::READ | SubmitBo::WRITE;
            let Some(flags) = flags.filter(|flags| flags.intersects(used)) else {
                return self.fail(Errno::EINVAL, || {
                    format!("memory with flags {:#x}", one.flags)
                });
            };
            let again = bos.iter().any(|(handle, _)| *handle == one.handle);
            if again || render.gem(one.handle).is_err() {
                return self.fail(Errno::EINVAL, || {
                    format!("handle {}, twice: {again}", one.handle)
                });
            }
            render.place(one.handle, None)?;
            bos.push((one.handle, flags.contains(SubmitBo::WRITE)));
        }
        Ok(bos)
    }

    /// Fences of memory: who writes waits for all, who reads waits for those that write.
    fn implicit(
        &self,
        render: &mut Render,
        args: &GemSubmit,
        bos: &Bos,
        dependencies: &mut Vec<Dependency>,
    ) -> Result {
        let list: Vec<GemSubmitBo> = self.caller.get_all(args.bos, args.nr_bos as usize)?;
        for ((handle, write), one) in bos.iter().zip(list) {
            if one.flags & SubmitBo::NO_IMPLICIT.bits() != 0 {
                continue;
            }
            let users = &render.gem(*handle)?.users;
            let before = users.iter().filter(|(_, writes)| *write || *writes);
            dependencies.extend(before.map(|(job, _)| Dependency::Job(*job)));
        }
        Ok(())
    }

    fn ibs(&self, render: &mut Render, args: &GemSubmit, bos: &Bos) -> Result<Vec<Ib>> {
        let list: Vec<GemSubmitCmd> = self.caller.get_all(args.cmds, args.nr_cmds as usize)?;
        for one in &list {
            let known = matches!(
                one.kind,
                command::BUF | command::IB_TARGET_BUF | command::CTX_RESTORE_BUF
            );
            if !known || !one.size.is_multiple_of(4) {
                return self.fail(Errno::EINVAL, || {
                    format!("commands of kind {}, {:#x} bytes", one.kind, one.size)
                });
            }
        }
        let mut ibs = Vec::new();
        for one in list {
            let Some((handle, _)) = bos.get(one.submit_idx as usize) else {
                return self.fail(Errno::EINVAL, || {
                    format!("memory {} of {}", one.submit_idx, bos.len())
                });
            };
            let gem = render.gem(*handle)?;
            let end = u64::from(one.size) + u64::from(one.submit_offset / 4 * 4);
            if one.size == 0 || end > gem.object.bytes {
                return self.fail(Errno::EINVAL, || {
                    format!(
                        "{:#x} bytes of commands at {:#x}",
                        one.size, one.submit_offset
                    )
                });
            }
            if one.nr_relocs != 0 {
                return self.fail(Errno::EINVAL, || "relocations".into());
            }
            let address = gem.address.ok_or(Errno::EINVAL)? + u64::from(one.submit_offset / 4 * 4);
            // CTX_RESTORE_BUF runs after a switch: the first of a queue's commands always may.
            if one.kind != command::IB_TARGET_BUF {
                ibs.push(Ib {
                    address,
                    dwords: one.size / 4,
                });
            }
        }
        Ok(ibs)
    }
}
