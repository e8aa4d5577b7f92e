//! msm: the ioctls of a render node, those of the driver and those that all drivers of DRM have.
//!
//! Source: Linux 6.12, drivers/gpu/drm/msm/msm_drv.c, `msm_ioctls`; drivers/gpu/drm/drm_ioctl.c, `drm_ioctl`: what the
//! caller does not give is zero, and the argument is copied back whether or not the call succeeds.

mod drm;
pub(crate) mod gem;
pub(crate) mod queue;
mod submit;
pub(crate) mod syncobj;

use std::collections::BTreeMap;
use std::sync::Arc;

use drivers_spec::amd::drm as generic;
use drivers_spec::qcom::{msm, syncobj as calls};
use hcq::sync::lock;
use hcq::transport::Ioctl;
use twin::errno::{Errno, Result};
use twin::host::PAGE;
use twin::rule::{Proof, Rule};
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

use crate::memory::{Area, Object};

use super::Process;
use super::files::{File, Kind};
use super::state::{Shared, State};

use gem::Gem;

static UNKNOWN: Rule = Rule {
    name: "MSM-UNKNOWN-IOCTL",
    text: "an ioctl of a render node is one that compute clients use; others are not modelled",
    source: "this twin: src/kernel/msm/mod.rs",
    proof: Proof::Twin,
};

/// What Linux has had since: VM_BIND, PERFCNTR_CONFIG. Programs ask for it, and are told that there is no such call.
/// Source: Linux 7.2, include/uapi/drm/msm_drm.h; drm_ioctl.c, `drm_ioctl`: EINVAL behind the end of a driver's table.
const NEWER: [u32; 2] = [0x4d, 0x4e];

/// Bytes of the buffer for an argument.
const BUFFER: usize = 128;

/// What a call is about.
pub(crate) struct Call<'a> {
    file: &'a File,
    data: &'a mut [u8],
}

impl Call<'_> {
    fn args<T: FromBytes + IntoBytes + KnownLayout>(&mut self) -> Result<&mut T> {
        let args = T::mut_from_prefix(self.data);
        args.map(|(args, _)| args).map_err(|_| Errno::EINVAL)
    }
}

type Handler = fn(&Process, &mut Call<'_>) -> Result;

struct Entry {
    /// Without its prefix.
    name: &'static str,
    nr: u32,
    size: usize,
    reads: bool,
    writes: bool,
    handler: Handler,
}

const fn entry(ioctl: Ioctl, name: &'static str, handler: Handler) -> Entry {
    Entry {
        name,
        nr: ioctl.nr(),
        size: ioctl.size(),
        reads: ioctl.reads(),
        writes: ioctl.writes(),
        handler,
    }
}

/// One that no table has, for reading and writing.
const fn own(nr: u32, size: usize, name: &'static str, handler: Handler) -> Entry {
    Entry {
        name,
        nr,
        size,
        reads: true,
        writes: true,
        handler,
    }
}

static TABLE: &[Entry] = &[
    entry(generic::VERSION.ioctl(), "VERSION", Process::drm_version),
    entry(generic::GEM_CLOSE.ioctl(), "GEM_CLOSE", Process::gem_close),
    entry(generic::GET_CAP.ioctl(), "GET_CAP", Process::get_cap),
    entry(
        generic::PRIME_HANDLE_TO_FD.ioctl(),
        "PRIME_HANDLE_TO_FD",
        Process::export_gem,
    ),
    entry(
        generic::PRIME_FD_TO_HANDLE.ioctl(),
        "PRIME_FD_TO_HANDLE",
        Process::import_gem,
    ),
    entry(
        msm::MSM_GET_PARAM.ioctl(),
        "MSM_GET_PARAM",
        Process::get_param,
    ),
    own(
        0x41,
        size_of::<msm::Param>(),
        "MSM_SET_PARAM",
        Process::set_param,
    ),
    entry(msm::MSM_GEM_NEW.ioctl(), "MSM_GEM_NEW", Process::gem_new),
    entry(msm::MSM_GEM_INFO.ioctl(), "MSM_GEM_INFO", Process::gem_info),
    entry(
        msm::MSM_GEM_CPU_PREP.ioctl(),
        "MSM_GEM_CPU_PREP",
        Process::cpu_prep,
    ),
    entry(
        msm::MSM_GEM_CPU_FINI.ioctl(),
        "MSM_GEM_CPU_FINI",
        Process::cpu_fini,
    ),
    entry(
        msm::MSM_GEM_SUBMIT.ioctl(),
        "MSM_GEM_SUBMIT",
        Process::gem_submit,
    ),
    entry(
        msm::MSM_WAIT_FENCE.ioctl(),
        "MSM_WAIT_FENCE",
        Process::wait_fence,
    ),
    entry(
        msm::MSM_GEM_MADVISE.ioctl(),
        "MSM_GEM_MADVISE",
        Process::madvise,
    ),
    entry(
        msm::MSM_SUBMITQUEUE_NEW.ioctl(),
        "MSM_SUBMITQUEUE_NEW",
        Process::new_queue,
    ),
    entry(
        msm::MSM_SUBMITQUEUE_CLOSE.ioctl(),
        "MSM_SUBMITQUEUE_CLOSE",
        Process::close_queue,
    ),
    entry(
        msm::MSM_SUBMITQUEUE_QUERY.ioctl(),
        "MSM_SUBMITQUEUE_QUERY",
        Process::query_queue,
    ),
    entry(
        calls::SYNCOBJ_CREATE.ioctl(),
        "SYNCOBJ_CREATE",
        Process::create_syncobj,
    ),
    entry(
        calls::SYNCOBJ_DESTROY.ioctl(),
        "SYNCOBJ_DESTROY",
        Process::destroy_syncobj,
    ),
    entry(
        calls::SYNCOBJ_HANDLE_TO_FD.ioctl(),
        "SYNCOBJ_HANDLE_TO_FD",
        Process::export_syncobj,
    ),
    entry(
        calls::SYNCOBJ_FD_TO_HANDLE.ioctl(),
        "SYNCOBJ_FD_TO_HANDLE",
        Process::import_syncobj,
    ),
    entry(
        calls::SYNCOBJ_WAIT.ioctl(),
        "SYNCOBJ_WAIT",
        Process::wait_syncobjs,
    ),
    entry(
        calls::SYNCOBJ_RESET.ioctl(),
        "SYNCOBJ_RESET",
        Process::reset_syncobjs,
    ),
    entry(
        calls::SYNCOBJ_SIGNAL.ioctl(),
        "SYNCOBJ_SIGNAL",
        Process::signal_syncobjs,
    ),
    entry(
        calls::SYNCOBJ_TIMELINE_WAIT.ioctl(),
        "SYNCOBJ_TIMELINE_WAIT",
        Process::wait_timelines,
    ),
    entry(
        calls::SYNCOBJ_QUERY.ioctl(),
        "SYNCOBJ_QUERY",
        Process::query_syncobjs,
    ),
    entry(
        calls::SYNCOBJ_TRANSFER.ioctl(),
        "SYNCOBJ_TRANSFER",
        Process::transfer_syncobj,
    ),
    entry(
        calls::SYNCOBJ_TIMELINE_SIGNAL.ioctl(),
        "SYNCOBJ_TIMELINE_SIGNAL",
        Process::signal_timelines,
    ),
];

/// The names without prefix.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|entry| entry.name)
}

/// `DRM_FILE_PAGE_OFFSET_START` of drm_vma_manager.h, in bytes: where offsets of memory begin.
const OFFSETS: u64 = 0x10_0000 * PAGE;
/// `ADRENO_VM_START`, and the end of the lower half of the address space. Linux, adreno_gpu.h; adreno_gpu.c,
/// `adreno_private_vm_size`: of an SMMU with 48 bits.
pub(crate) const ADDRESSES: (u64, u64) = (0x1_0000_0000, 1 << 48);

/// What an open render node has.
#[derive(Default)]
pub(crate) struct Render {
    gems: BTreeMap<u32, Gem>,
    space: Shared,
    syncobjs: BTreeMap<u32, syncobj::Shared>,
    /// Where the next memory is mapped from.
    next: u64,
    /// Queues that were made, besides the default one.
    queues: u32,
}

impl Render {
    fn gem(&mut self, handle: u32) -> Result<&mut Gem> {
        self.gems.get_mut(&handle).ok_or(Errno::ENOENT)
    }

    /// New memory of this file: its handle.
    fn insert(&mut self, object: Arc<Object>, flags: u32, imported: bool) -> u32 {
        let handle = (1..)
            .find(|handle| !self.gems.contains_key(handle))
            .unwrap_or(0);
        let offset = OFFSETS + self.next;
        self.next += object.bytes;
        self.gems
            .insert(handle, Gem::new(object, flags, imported, offset));
        handle
    }

    /// Gives memory an address of the GPU: that one, or one of the kernel's.
    fn place(&mut self, handle: u32, at: Option<u64>) -> Result<u64> {
        let gem = self.gems.get_mut(&handle).ok_or(Errno::ENOENT)?;
        if let Some(now) = gem.address {
            return match at {
                Some(at) if at != now => Err(Errno::EBUSY),
                _ => Ok(now),
            };
        }
        let mut space = lock(&self.space);
        let bytes = gem.object.bytes;
        let (from, to) = ADDRESSES;
        let at = at.or_else(|| space.free(from, to, bytes, PAGE));
        // drm_mm_insert_node_in_range.
        let at = at.ok_or(Errno::ENOSPC)?;
        let area = Area {
            bytes,
            object: gem.object.clone(),
            writable: gem.flags & msm::Bo::GPU_READONLY.bits() == 0,
            handle,
        };
        let inside = at >= from && at.checked_add(bytes).is_some_and(|end| end <= to);
        if !inside || !at.is_multiple_of(PAGE) || !space.insert(at, area) {
            return Err(Errno::ENOSPC);
        }
        gem.address = Some(at);
        Ok(at)
    }

    /// The memory that is mapped from an offset of the file, and from where on.
    pub(crate) fn mapped(&self, offset: u64, bytes: u64) -> Result<(Arc<Object>, u64)> {
        let gem = self.gems.values().find(|gem| {
            let inside = offset.checked_sub(gem.offset);
            inside.is_some_and(|inside| inside < gem.object.bytes)
        });
        let gem = gem.ok_or(Errno::EINVAL)?;
        let from = offset - gem.offset;
        match from + bytes <= gem.object.bytes {
            true => Ok((gem.object.clone(), from)),
            false => Err(Errno::EINVAL),
        }
    }

    pub(crate) fn objects(&self) -> Vec<String> {
        let gems = self.gems.iter();
        let gems =
            gems.map(|(handle, gem)| format!("handle {handle}: {:#x} bytes", gem.object.bytes));
        let syncobjs = self
            .syncobjs
            .keys()
            .map(|handle| format!("syncobj {handle}"));
        gems.chain(syncobjs).collect()
    }
}

impl Process {
    /// What a render node has.
    fn render<'a>(&self, call: &Call<'a>) -> Result<std::sync::MutexGuard<'a, Render>> {
        match &call.file.kind {
            Kind::Render(render) => Ok(lock(render)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// An ioctl of a render node.
    pub(crate) fn msm_ioctl(&self, file: &File, request: u32, argument: u64) -> Result {
        let nr = Ioctl::nr_of(request);
        let known = TABLE
            .iter()
            .find(|entry| entry.nr == nr && Ioctl::kind_of(request) == generic::KIND);
        let Some(entry) = known else {
            if Ioctl::kind_of(request) == generic::KIND && NEWER.contains(&nr) {
                return self.fail(Errno::EINVAL, || format!("ioctl {nr:#x} is newer"));
            }
            let what = format!("request {request:#010x}, number {nr:#x}");
            self.machine.broken(&UNKNOWN, what);
            return Err(Errno::EINVAL);
        };
        let given = Ioctl::size_of(request);
        let mut buffer = [0_u64; BUFFER / 8];
        let data = buffer.as_mut_bytes();
        if entry.reads && request & Ioctl::WRITE != 0 {
            let copied = given.min(entry.size);
            self.caller.read(argument, &mut data[..copied])?;
        }
        let mut call = Call { file, data };
        let done = self.machine.injector.call(entry.name);
        let done = done.and_then(|()| (entry.handler)(self, &mut call));
        let outcome = done.as_ref().err().map_or("0".into(), ToString::to_string);
        let note = format!("process {}: {} = {outcome}", self.id, entry.name);
        self.machine.journal.event(note);
        if entry.writes && request & Ioctl::READ != 0 {
            let copied = given.min(entry.size);
            self.caller.write(argument, &data[..copied])?;
        }
        done
    }

    /// A render node is closed.
    pub(crate) fn end_render(
        &self,
        file: u64,
        render: std::result::Result<Render, std::sync::PoisonError<Render>>,
    ) {
        let render = render.unwrap_or_else(std::sync::PoisonError::into_inner);
        self.end_queues(file);
        drop(render.space);
        let mut state = self.machine.enter();
        for (_, gem) in render.gems {
            state.drop_gem(gem);
        }
    }
}

impl State {
    /// The memory of a handle that has gone.
    fn drop_gem(&mut self, gem: Gem) {
        self.released(gem.object, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ioctl_of_the_table_has_a_handler() {
        for ioctl in msm::IOCTLS.iter().chain(calls::IOCTLS) {
            assert!(
                TABLE.iter().any(|entry| entry.nr == ioctl.nr()),
                "{}",
                ioctl.name
            );
        }
        assert!(TABLE.iter().all(|entry| entry.size <= BUFFER));
    }
}
