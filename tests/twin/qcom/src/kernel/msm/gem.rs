//! Memory: GEM_NEW, GEM_INFO, GEM_CPU_PREP, GEM_CPU_FINI, GEM_MADVISE, GEM_CLOSE.
//!
//! msm does nothing to the CPU's cache in CPU_PREP and CPU_FINI: CACHED memory is what the CPU sees until the program's
//! own instructions write it back, which are no call. Here CACHED memory is seen by the GPU when a submission is made
//! and by the CPU when CPU_PREP or WAIT_FENCE has waited for it, as if the program had done so.
//!
//! Source: Linux 6.12, drivers/gpu/drm/msm/msm_drv.c, `msm_ioctl_gem_new`, `msm_ioctl_gem_info`, `msm_ioctl_gem_madvise`;
//! msm_gem.c, `msm_gem_new_impl`, `msm_gem_cpu_prep`, `msm_gem_set_iova`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drivers_spec::amd::drm::GemClose;
use drivers_spec::qcom::msm::{
    Bo, GemCpuFini, GemCpuPrep, GemInfo, GemMadvise, GemNew, Prep, Timespec, info,
};
use hcq::sync::lock;
use twin::errno::{Errno, Result};
use twin::host::{PAGE, user};

use crate::kernel::Process;
use crate::kernel::state::{Shared, State};
use crate::memory::Object;

use super::Call;

/// Bytes of a name, with its zero: `name[32]` of msm_gem.h.
const NAME: u32 = 32;

/// Memory of a file.
pub(crate) struct Gem {
    pub(super) object: Arc<Object>,
    pub(super) flags: u32,
    imported: bool,
    pub(super) offset: u64,
    pub(super) address: Option<u64>,
    name: Vec<u8>,
    /// Submissions that use it: those that write, and those that read.
    pub(super) users: Vec<(u64, bool)>,
}

impl Gem {
    pub(super) fn new(object: Arc<Object>, flags: u32, imported: bool, offset: u64) -> Gem {
        Gem {
            object,
            flags,
            imported,
            offset,
            address: None,
            name: Vec::new(),
            users: Vec::new(),
        }
    }
}

/// Memory without a handle. It stays, at its address, until the submissions that use it are done: these hold it.
///
/// Source: Linux 6.12, drivers/gpu/drm/msm/msm_gem_submit.c, `submit_lookup_objects` and `msm_submit_retire`; msm_gem.c,
/// `msm_gem_close` does not wait, `msm_gem_free_object` takes the address away.
pub(crate) struct Closing {
    gem: Gem,
    space: Shared,
}

impl State {
    /// Lets closed memory go that no submission uses any more.
    pub(crate) fn close_gems(&mut self) {
        let all = std::mem::take(&mut self.closing);
        let is_busy = |one: &Closing| {
            let mut users = one.gem.users.iter();
            users.any(|(job, _)| self.live.contains(job))
        };
        let (busy, done): (Vec<Closing>, Vec<Closing>) = all.into_iter().partition(is_busy);
        self.closing = busy;
        for one in done {
            if let Some(at) = one.gem.address {
                lock(&one.space).remove(at);
            }
            drop(one.space);
            self.drop_gem(one.gem);
        }
    }
}

/// When a time of CLOCK_MONOTONIC is. `timeout_to_jiffies` of msm_drv.h.
pub(super) fn deadline(until: Timespec) -> Instant {
    let until = Duration::new(
        until.tv_sec.max(0) as u64,
        until.tv_nsec.clamp(0, 999_999_999) as u32,
    );
    let now = Duration::from_nanos(user::clock(libc::CLOCK_MONOTONIC));
    let left = until.saturating_sub(now);
    let most = Duration::from_secs(1 << 30);
    Instant::now() + left.min(most)
}

impl Process {
    pub(super) fn gem_new(&self, call: &mut Call<'_>) -> Result {
        let args: GemNew = *call.args()?;
        let Some(mut flags) = Bo::from_bits(args.flags) else {
            return self.fail(Errno::EINVAL, || format!("GEM_NEW flags {:#x}", args.flags));
        };
        if flags.contains(Bo::UNCACHED) {
            flags.remove(Bo::UNCACHED | Bo::CACHED);
            flags.insert(Bo::WC);
        }
        let mode = flags & (Bo::CACHED | Bo::WC | Bo::CACHED_COHERENT);
        let known = mode == Bo::CACHED
            || mode == Bo::WC
            || mode == Bo::CACHED_COHERENT && self.machine.config.chip.coherent;
        if !known || args.size == 0 {
            return self.fail(Errno::EINVAL, || {
                format!("GEM_NEW {:#x} bytes, {flags:?}", args.size)
            });
        }
        let bytes = args
            .size
            .checked_next_multiple_of(PAGE)
            .ok_or(Errno::EINVAL)?;
        let name = format!("memory of process {}", self.id);
        let object = self.machine.enter().zeros(bytes, name, mode == Bo::CACHED);
        let object =
            object.or_else(|errno| self.fail(errno, || format!("GEM_NEW {bytes:#x} bytes")))?;
        let handle = self.render(call)?.insert(object, flags.bits(), false);
        call.args::<GemNew>()?.handle = handle;
        Ok(())
    }

    pub(super) fn gem_close(&self, call: &mut Call<'_>) -> Result {
        let args: GemClose = *call.args()?;
        let mut render = self.render(call)?;
        let Some(gem) = render.gems.remove(&args.handle) else {
            return self.fail(Errno::EINVAL, || format!("no handle {}", args.handle));
        };
        let space = render.space.clone();
        drop(render);
        let mut state = self.machine.enter();
        state.closing.push(Closing { gem, space });
        state.close_gems();
        Ok(())
    }

    pub(super) fn gem_info(&self, call: &mut Call<'_>) -> Result {
        let args: GemInfo = *call.args()?;
        let by_value = matches!(
            args.info,
            info::GET_OFFSET | info::GET_IOVA | info::SET_IOVA | info::GET_FLAGS
        );
        let known = by_value || matches!(args.info, info::SET_NAME | info::GET_NAME);
        if args.pad != 0 || !known || by_value && args.len != 0 {
            return self.fail(Errno::EINVAL, || {
                format!("GEM_INFO {}, {} bytes", args.info, args.len)
            });
        }
        let mut render = self.render(call)?;
        let gem = render.gem(args.handle)?;
        let value = match args.info {
            info::GET_OFFSET => gem.offset,
            info::GET_FLAGS if gem.imported => return Err(Errno::EINVAL),
            info::GET_FLAGS => gem.flags.into(),
            info::GET_IOVA => render.place(args.handle, None)?,
            info::SET_IOVA => {
                self.set_address(&mut render, &args)?;
                args.value
            }
            info::SET_NAME => {
                if args.len >= NAME {
                    return Err(Errno::EINVAL);
                }
                let mut name = vec![0; args.len as usize];
                self.caller.read(args.value, &mut name)?;
                gem.name = name;
                args.value
            }
            _ => {
                let room = (args.len as usize).min(gem.name.len());
                self.caller.write(args.value, &gem.name[..room])?;
                let length = gem.name.len() as u32;
                drop(render);
                call.args::<GemInfo>()?.len = length;
                return Ok(());
            }
        };
        drop(render);
        call.args::<GemInfo>()?.value = value;
        Ok(())
    }

    /// An address of the program's choice; 0 takes it away.
    fn set_address(&self, render: &mut super::Render, args: &GemInfo) -> Result {
        if args.value != 0 {
            let placed = render.place(args.handle, Some(args.value)).map(drop);
            return placed
                .or_else(|errno| self.fail(errno, || format!("SET_IOVA {:#x}", args.value)));
        }
        let space = render.space.clone();
        let gem = render.gem(args.handle)?;
        let state = self.machine.enter();
        if gem.users.iter().any(|(job, _)| state.live.contains(job)) {
            return self.fail(Errno::EBUSY, || format!("handle {} is in use", args.handle));
        }
        if let Some(at) = gem.address.take() {
            lock(&space).remove(at);
        }
        Ok(())
    }

    pub(super) fn cpu_prep(&self, call: &mut Call<'_>) -> Result {
        let args: GemCpuPrep = *call.args()?;
        let Some(wanted) = Prep::from_bits(args.op) else {
            return self.fail(Errno::EINVAL, || format!("GEM_CPU_PREP {:#x}", args.op));
        };
        let mut render = self.render(call)?;
        let gem = render.gem(args.handle)?;
        // Who reads waits for those that write; who writes waits for all.
        let write = wanted.contains(Prep::WRITE);
        let users: Vec<u64> = gem
            .users
            .iter()
            .filter(|(_, writes)| write || *writes)
            .map(|(job, _)| *job)
            .collect();
        let object = gem.object.clone();
        drop(render);
        let now = wanted.contains(Prep::NOSYNC);
        let until = if now {
            Instant::now()
        } else {
            deadline(args.timeout)
        };
        let (state, done) = self
            .machine
            .wait(self.machine.enter(), Some(until), |state| {
                let busy = users.iter().any(|job| state.live.contains(job));
                (!busy).then_some(())
            });
        drop(state);
        match (done, now) {
            (Some(()), _) => {
                show(&object);
                Ok(())
            }
            (None, true) => Err(Errno::EBUSY),
            (None, false) => self.fail(Errno::ETIMEDOUT, || format!("handle {}", args.handle)),
        }
    }

    pub(super) fn cpu_fini(&self, call: &mut Call<'_>) -> Result {
        let args: GemCpuFini = *call.args()?;
        self.render(call)?.gem(args.handle).map(drop)
    }

    pub(super) fn madvise(&self, call: &mut Call<'_>) -> Result {
        let args: GemMadvise = *call.args()?;
        // WILLNEED, DONTNEED.
        if args.madv > 1 {
            return self.fail(Errno::EINVAL, || format!("GEM_MADVISE {}", args.madv));
        }
        self.render(call)?.gem(args.handle)?;
        // Nothing is ever taken away here.
        call.args::<GemMadvise>()?.retained = 1;
        Ok(())
    }
}

/// What the GPU has written comes into the CPU's sight.
pub(super) fn show(object: &Object) {
    if let Some(cpu) = object.cpu() {
        cpu.clean(object.dram(), 0, object.bytes);
        cpu.invalidate(object.dram(), 0, object.bytes);
    }
}

/// What the CPU has written goes to memory.
pub(super) fn clean(object: &Object) {
    if let Some(cpu) = object.cpu() {
        cpu.clean(object.dram(), 0, object.bytes);
    }
}
