//! The CPU's cache: GPUMEM_SYNC_CACHE and GPUOBJ_SYNC, and the instructions of a program for it.
//!
//! Source: KGSL, kgsl.c, `_kgsl_gpumem_sync_cache`, `kgsl_ioctl_gpuobj_sync`; kgsl_sharedmem.c, `kgsl_cache_range_op`: of
//! 4.9 CodeLinaro's kernel/msm-4.9, of 5.15 qualcomm-linux/kgsl 27cf0e4.

use drivers_spec::qcom::kgsl::{
    CacheOp, GpumemSyncCache, GpuobjSync, GpuobjSyncObj, MAX_SYNC_OBJECTS,
};
use twin::errno::{Errno, Result};
use twin::host::PAGE;
use twin::rule::{Proof, Rule};

use crate::config::Version;
use crate::kernel::Process;
use crate::kernel::files::File;
use crate::memory::Object;
use crate::memory::cpu::{CpuCache, Lines};

use super::args;
use super::objects::is_cached;

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

static LEFT_OUT: Rule = Rule {
    name: "KGSL-SYNC-LEFT-OUT",
    text: "a list of GPUOBJ_SYNC has objects that are there: the kernel does not get behind one that is not",
    source: "KGSL, kgsl.c, kgsl_ioctl_gpuobj_sync: the pointer into the list moves on where an object was found",
    proof: Proof::Sourced,
};

/// From where to where the kernel goes for a range of an object: of its own memory, or of imported memory.
///
/// Source: `kgsl_cache_range_op`. 4.9 goes by lines. 5.15 goes by pages, with the masks of offset and size the wrong way
/// round: from the offset within its page on, by as many bytes more as there are before that page. Of its own memory it
/// takes the pages that begin there or behind, of imported memory whole pages from the first on.
fn reached(version: Version, is_own: bool, offset: u64, length: u64) -> (u64, u64) {
    let (inside, size) = (offset % PAGE, length + offset / PAGE * PAGE);
    match (version, is_own) {
        (Version::V4_9, _) => (offset, offset + length),
        (Version::V5_15, true) => (
            inside.next_multiple_of(PAGE),
            (inside + size).next_multiple_of(PAGE),
        ),
        (Version::V5_15, false) => (0, size.next_multiple_of(PAGE)),
    }
}

impl Process {
    fn sync(&self, id: u32, operation: CacheOp, offset: u64, length: u64) -> Result {
        let wanted = operation & (CacheOp::TO_GPU | CacheOp::FROM_GPU);
        if wanted.is_empty() {
            return self.fail(Errno::EINVAL, || format!("no operation: {operation:?}"));
        }
        let objects = self.objects_of();
        let entry = objects.find(id).ok_or(Errno::EINVAL)?;
        let object = entry.object.clone();
        let (cached, is_own) = (is_cached(entry.flags), entry.allocated);
        drop(objects);
        if !cached {
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
        if end.is_none() {
            return self.fail(Errno::ERANGE, || {
                format!("{length:#x} bytes from {offset:#x}")
            });
        }
        let version = self.version();
        let (at, end) = reached(version, is_own, offset, length);
        let part = (at, end.min(object.bytes).saturating_sub(at));
        // Of 4.9, `_fixup_cache_range_op`: on arm64 lines are cleaned before they are invalidated.
        let cleans = wanted.contains(CacheOp::TO_GPU) || version == Version::V4_9;
        let invalidates = wanted.contains(CacheOp::FROM_GPU);
        self.lines(&object, cpu, part, (cleans, invalidates));
        Ok(())
    }

    /// Cleans or invalidates lines of an object, in this order.
    fn lines(
        &self,
        object: &Object,
        cpu: &CpuCache,
        (at, bytes): (u64, u64),
        (cleans, invalidates): (bool, bool),
    ) {
        // Between two rounds: the GPU does not write meanwhile.
        let state = self.machine.enter();
        let said = |rule, lines: Lines| {
            if let Some(line) = lines.first() {
                let (count, name) = (lines.len(), &object.name);
                let what = format!("{name}: {count} lines, the first at {line:#x}");
                self.machine.broken(rule, what);
            }
        };
        if cleans {
            said(&OVERWRITTEN, cpu.clean(object.dram(), at, bytes));
        }
        if invalidates {
            said(&DROPPED, cpu.invalidate(object.dram(), at, bytes));
        }
        drop(state);
    }

    /// The program cleans lines of its memory by instructions of the CPU (DC CVAC). The twin does not see these: they are
    /// told to it.
    ///
    /// Source: Arm ARM (DDI 0487) D7.5.9: the lines that an address lies in.
    pub fn clean(&self, at: u64, bytes: u64) {
        self.maintain(at, bytes, false);
    }

    /// The same, and the CPU's cache forgets them (DC CIVAC).
    pub fn clean_and_invalidate(&self, at: u64, bytes: u64) {
        self.maintain(at, bytes, true);
    }

    fn maintain(&self, at: u64, bytes: u64, invalidates: bool) {
        let objects = self.objects_of();
        let seen = objects.seen_in(at, bytes).into_iter();
        let parts: Vec<_> = seen
            .map(|(entry, from, bytes)| (entry.object.clone(), from, bytes))
            .collect();
        drop(objects);
        for (object, from, bytes) in parts {
            if let Some(cpu) = object.cpu() {
                self.lines(&object, cpu, (from, bytes), (true, invalidates));
            }
        }
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
        for i in 0..args.count {
            // The kernel goes on by the size that it knows.
            let at = args.objs + u64::from(i) * size_of::<GpuobjSyncObj>() as u64;
            let one: GpuobjSyncObj = self.get_sized(at, args.obj_len.into())?;
            if self.objects_of().find(one.id).is_none() {
                // It reads this one again and again.
                let behind = args.count - i - 1;
                if behind > 0 {
                    let what = format!("no object {}, {behind} are behind it", one.id);
                    self.machine.broken(&LEFT_OUT, what);
                }
                break;
            }
            all.push(one);
        }
        for one in all {
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
