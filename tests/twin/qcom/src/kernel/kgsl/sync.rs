//! The CPU's cache: GPUMEM_SYNC_CACHE and GPUOBJ_SYNC.
//!
//! Source: KGSL, kgsl.c, `_kgsl_gpumem_sync_cache`, `kgsl_ioctl_gpuobj_sync`; kgsl_sharedmem.c, `kgsl_cache_range_op`:
//! whole pages.

use drivers_spec::qcom::kgsl::{
    CacheOp, GpumemSyncCache, GpuobjSync, GpuobjSyncObj, MAX_SYNC_OBJECTS, memory,
};
use twin::errno::{Errno, Result};
use twin::host::PAGE;
use twin::rule::{Proof, Rule};

use crate::kernel::Process;
use crate::kernel::files::File;
use crate::memory::cpu::Lines;

use super::args;
use super::objects::cache_mode;

static OVERWRITTEN: Rule = Rule {
    name: "CPU-CACHE-OVERWRITES",
    text: "a line that the CPU cleans (TO_GPU) has nothing that the GPU has written since the CPU invalidated it",
    source: "KGSL, kgsl.c, _kgsl_gpumem_sync_cache: a clean writes whole lines back",
    proof: Proof::Sourced,
};

static DROPPED: Rule = Rule {
    name: "CPU-CACHE-DROPS",
    text: "a line that the CPU invalidates (FROM_GPU) has nothing that the CPU has written since it cleaned it",
    source: "KGSL, kgsl.c, _kgsl_gpumem_sync_cache: an invalidation drops lines",
    proof: Proof::Sourced,
};

impl Process {
    fn sync(&self, id: u32, operation: CacheOp, offset: u64, length: u64) -> Result {
        let wanted = operation & (CacheOp::TO_GPU | CacheOp::FROM_GPU);
        if wanted.is_empty() {
            return self.fail(Errno::EINVAL, || format!("no operation: {operation:?}"));
        }
        let objects = self.objects_of();
        let entry = objects.find(id).ok_or(Errno::EINVAL)?;
        let object = entry.object.clone();
        let mode = cache_mode(entry.flags);
        drop(objects);
        if mode == memory::UNCACHED || mode == memory::WRITECOMBINE {
            return Ok(());
        }
        let (offset, length) = match operation.contains(CacheOp::RANGE) {
            true => (offset, length),
            false => (0, object.bytes),
        };
        // Not where the GPU sees the cache.
        let Some(cpu) = object.cpu() else {
            return Ok(());
        };
        if length == 0 || length > u32::MAX.into() {
            return self.fail(Errno::EINVAL, || format!("{length:#x} bytes"));
        }
        let end = offset
            .checked_add(length)
            .filter(|&end| end <= object.bytes);
        let Some(end) = end else {
            return self.fail(Errno::ERANGE, || {
                format!("{length:#x} bytes from {offset:#x}")
            });
        };
        let (at, end) = (offset / PAGE * PAGE, end.next_multiple_of(PAGE));
        // Between two rounds: the GPU does not write meanwhile.
        let state = self.machine.enter();
        let said = |rule, lines: Lines| {
            if let Some(line) = lines.first() {
                let what = format!("object {id}, {} lines, the first at {line:#x}", lines.len());
                self.machine.broken(rule, what);
            }
        };
        if wanted.contains(CacheOp::TO_GPU) {
            said(&OVERWRITTEN, cpu.clean(object.dram(), at, end - at));
        }
        if wanted.contains(CacheOp::FROM_GPU) {
            said(&DROPPED, cpu.invalidate(object.dram(), at, end - at));
        }
        drop(state);
        Ok(())
    }

    pub(super) fn sync_cache(&self, _: &File, data: &mut [u8]) -> Result {
        let args: GpumemSyncCache = *args(data)?;
        let objects = self.objects_of();
        let id = match (args.id, args.gpuaddr) {
            (0, 0) => None,
            (0, address) => objects.at(address),
            (id, _) => objects.find(id).map(|_| id),
        };
        drop(objects);
        let Some(id) = id else {
            return self.fail(Errno::EINVAL, || {
                format!("no object {} at {:#x}", args.id, args.gpuaddr)
            });
        };
        self.sync(
            id,
            CacheOp::from_bits_retain(args.op),
            args.offset,
            args.length,
        )
    }

    pub(super) fn gpuobj_sync(&self, _: &File, data: &mut [u8]) -> Result {
        let args: GpuobjSync = *args(data)?;
        if args.count == 0 || args.count > MAX_SYNC_OBJECTS {
            return self.fail(Errno::EINVAL, || format!("{} objects", args.count));
        }
        let mut all: Vec<GpuobjSyncObj> = Vec::new();
        for i in 0..u64::from(args.count) {
            // The kernel goes on by the size that it knows.
            let at = args.objs + i * size_of::<GpuobjSyncObj>() as u64;
            all.push(self.get_sized(at, args.obj_len.into())?);
        }
        for one in all {
            if self.objects_of().find(one.id).is_none() {
                continue;
            }
            self.sync(
                one.id,
                CacheOp::from_bits_retain(one.op),
                one.offset,
                one.length,
            )?;
        }
        Ok(())
    }
}
