//! Memory objects: allocated, mapped, freed.
//!
//! Source: KGSL, kgsl.c, `gpumem_alloc_entry`, `kgsl_ioctl_gpuobj_alloc`, `get_mmap_entry`, `kgsl_get_unmapped_area`,
//! `gpumem_free_entry`, `kgsl_ioctl_gpuobj_free`: an object lives on while the CPU has it mapped.

use std::collections::BTreeMap;
use std::sync::Arc;

use drivers_spec::qcom::kgsl::{
    ContextTimestamp, Fence, GpumemAllocId, GpumemFreeId, GpuobjAlloc, GpuobjFree, GpuobjInfo,
    Memory, SharedmemFree, free, memory, user,
};
use hcq::sync::lock;
use twin::errno::{Errno, Result};
use twin::host::PAGE;
use twin::process::Wanted;

use crate::config::Version;
use crate::kernel::Process;
use crate::kernel::files::{File, Kind};
use crate::kernel::state::{Shared, State};
use crate::memory::{Area, Object};

use super::args;

/// `KGSL_IOMMU_VA_BASE64` to `KGSL_IOMMU_VA_END64` of kgsl_iommu.h: addresses that the kernel gives.
const ADDRESSES: (u64, u64) = (0x40_0000_0000, 0x80_0000_0000);
/// Bytes of that window.
pub(super) const WINDOW: u64 = ADDRESSES.1 - ADDRESSES.0;
/// `KGSL_IOMMU_SVM_END32` lies below: addresses for FORCE_32BIT.
const LOW: (u64, u64) = (0x0030_0000, 0xf000_0000);
/// log2 of `KGSL_MAX_ALIGN`, 32 MiB.
const MOST_ALIGN: u64 = 25;

/// An object.
pub(crate) struct Entry {
    pub(super) object: Arc<Object>,
    /// [`Memory`], and its parts.
    pub(super) flags: u64,
    /// Where the GPU has it, once it has.
    pub(super) address: Option<u64>,
    /// Whether its memory is the kernel's.
    pub(super) allocated: bool,
    /// Where the program has it, if it is its memory.
    pub(super) program: Option<u64>,
    /// How often it is mapped; where, the last time.
    mapped: u32,
    seen: u64,
    /// It is about to be freed: nobody finds it any more.
    pending: bool,
}

impl Entry {
    pub(super) fn new(object: Arc<Object>, flags: u64, allocated: bool) -> Entry {
        Entry {
            object,
            flags,
            address: None,
            allocated,
            program: None,
            mapped: 0,
            seen: 0,
            pending: false,
        }
    }

    fn has(&self, flag: Memory) -> bool {
        self.flags & flag.bits() != 0
    }

    /// Where the CPU has it.
    fn at(&self) -> Option<u64> {
        self.program.or((self.mapped > 0).then_some(self.seen))
    }
}

/// The objects of a process, and its address space.
#[derive(Default)]
pub(crate) struct Objects {
    entries: BTreeMap<u32, Entry>,
    pub(crate) space: Shared,
}

impl Objects {
    /// One that is not about to be freed.
    pub(super) fn find(&self, id: u32) -> Option<&Entry> {
        self.entries.get(&id).filter(|entry| !entry.pending)
    }

    /// The number of the one that an address lies in.
    pub(super) fn at(&self, address: u64) -> Option<u32> {
        let found = self.entries.iter().find(|(_, entry)| {
            let bytes = entry.object.bytes;
            entry
                .address
                .is_some_and(|at| address >= at && address - at < bytes)
        });
        found.filter(|(_, entry)| !entry.pending).map(|(id, _)| *id)
    }

    /// Those that the CPU has in a range: which, and what part of each.
    pub(super) fn seen_in(&self, at: u64, bytes: u64) -> Vec<(&Entry, u64, u64)> {
        let end = at.saturating_add(bytes);
        let parts = self.entries.values().filter_map(|entry| {
            let first = entry.at()?;
            let (from, to) = (at.max(first), end.min(first + entry.object.bytes));
            (from < to).then(|| (entry, from - first, to - from))
        });
        parts.collect()
    }

    /// A new one, with the lowest number that is free.
    pub(super) fn insert(&mut self, entry: Entry) -> u32 {
        let id = (1..).find(|id| !self.entries.contains_key(id)).unwrap_or(0);
        self.entries.insert(id, entry);
        id
    }

    /// Gives an object an address of the GPU: that one, or one of the kernel's.
    pub(super) fn place(&mut self, id: u32, at: Option<u64>) -> Result<u64> {
        let entry = self.entries.get_mut(&id).ok_or(Errno::EINVAL)?;
        let mut space = lock(&self.space);
        let align =
            1 << ((entry.flags & memory::ALIGN_MASK) >> memory::ALIGN_SHIFT).min(MOST_ALIGN);
        let (from, to) = if entry.has(Memory::FORCE_32BIT) {
            LOW
        } else {
            ADDRESSES
        };
        let bytes = entry.object.bytes;
        let at = at.or_else(|| space.free(from, to, bytes, PAGE.max(align)));
        let at = at.ok_or(Errno::ENOMEM)?;
        let area = Area {
            bytes,
            object: entry.object.clone(),
            writable: !entry.has(Memory::GPUREADONLY),
            handle: id,
        };
        if !space.insert(at, area) {
            return Err(Errno::ENOMEM);
        }
        entry.address = Some(at);
        Ok(at)
    }

    /// Takes an object away for good.
    fn remove(&mut self, id: u32) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        if let Some(at) = entry.address {
            lock(&self.space).remove(at);
        }
        Some(entry)
    }

    pub(crate) fn text(&self) -> Vec<String> {
        let all = self.entries.iter();
        all.map(|(id, entry)| format!("object {id}: {:#x} bytes", entry.object.bytes))
            .collect()
    }
}

impl State {
    /// The memory of an object that has gone.
    fn drop_entry(&mut self, entry: Entry) {
        self.released(entry.object, entry.allocated);
    }
}

/// Whether the CPU caches memory of these flags. `kgsl_cachemode_is_cached` of kgsl_sharedmem.h.
pub(super) fn is_cached(flags: u64) -> bool {
    !matches!(cache_mode(flags), memory::UNCACHED | memory::WRITECOMBINE)
}

/// Flags with another alignment, as a power of two.
pub(super) fn with_align(flags: u64, align: u64) -> u64 {
    flags & !memory::ALIGN_MASK | align << memory::ALIGN_SHIFT
}

/// The cache mode of flags.
pub(super) fn cache_mode(flags: u64) -> u64 {
    (flags & memory::CACHEMODE_MASK) >> memory::CACHEMODE_SHIFT
}

/// Flags with another cache mode.
fn with_cache_mode(flags: u64, mode: u64) -> u64 {
    flags & !memory::CACHEMODE_MASK | mode << memory::CACHEMODE_SHIFT
}

impl Process {
    /// Allocates an object: its number.
    fn allocate(&self, size: u64, flags: u64) -> Result<u32> {
        let known =
            (Memory::GPUREADONLY | Memory::USE_CPU_MAP | Memory::SECURE | Memory::FORCE_32BIT)
                .bits();
        let mut flags = flags
            & (known
                | memory::CACHEMODE_MASK
                | memory::TYPE_MASK
                | memory::ALIGN_MASK
                | self.coherent());
        if flags & Memory::SECURE.bits() != 0 {
            return self.fail(Errno::EOPNOTSUPP, || "secure memory".into());
        }
        let align = (flags & memory::ALIGN_MASK) >> memory::ALIGN_SHIFT;
        flags = with_align(flags, align.min(MOST_ALIGN));
        if size == 0 || size > u64::from(u32::MAX) {
            return self.fail(Errno::EINVAL, || format!("an object of {size:#x} bytes"));
        }
        if cache_mode(flags) == memory::WRITETHROUGH {
            flags = with_cache_mode(flags, memory::WRITEBACK);
        }
        flags = self.kept(flags);
        let bytes = size.next_multiple_of(PAGE);
        let cached =
            cache_mode(flags) == memory::WRITEBACK && flags & Memory::IOCOHERENT.bits() == 0;
        let name = format!("an object of process {}", self.id);
        let object = match self.machine.enter().zeros(bytes, name, cached) {
            Ok(object) => object,
            Err(errno) => return self.fail(errno, || format!("an object of {size:#x} bytes")),
        };
        let mut objects = self.objects_of();
        let id = objects.insert(Entry::new(object, flags, true));
        if flags & Memory::USE_CPU_MAP.bits() == 0 {
            objects.place(id, None)?;
        }
        Ok(id)
    }

    /// IOCOHERENT, where there is such. KGSL 5.15, kgsl_sharedmem.c, `kgsl_memdesc_init`; adreno-gpulist.h: every chip
    /// here has ADRENO_IOCOHERENT. Kernels 4.9 of SDM845 are taken to have none: a guess.
    pub(super) fn coherent(&self) -> u64 {
        match self.version() {
            Version::V4_9 => 0,
            Version::V5_15 => Memory::IOCOHERENT.bits(),
        }
    }

    /// Flags as the kernel keeps them. KGSL 5.15, kgsl_sharedmem.c, `kgsl_memdesc_init`: memory that the CPU does not
    /// cache is not coherent, and is aligned to a page at least.
    pub(super) fn kept(&self, flags: u64) -> u64 {
        if self.version() == Version::V4_9 {
            return flags;
        }
        let flags = match is_cached(flags) {
            true => flags,
            false => flags & !Memory::IOCOHERENT.bits(),
        };
        let align = (flags & memory::ALIGN_MASK) >> memory::ALIGN_SHIFT;
        with_align(flags, align.max(PAGE.ilog2().into()))
    }

    pub(super) fn gpuobj_alloc(&self, _: &File, data: &mut [u8]) -> Result {
        let args: &mut GpuobjAlloc = args(data)?;
        let id = self.allocate(args.size, args.flags)?;
        let objects = self.objects_of();
        let entry = objects.find(id).ok_or(Errno::EINVAL)?;
        (args.size, args.mmapsize) = (entry.object.bytes, entry.object.bytes);
        (args.flags, args.id) = (entry.flags, id);
        Ok(())
    }

    pub(super) fn gpumem_alloc_id(&self, _: &File, data: &mut [u8]) -> Result {
        let args: &mut GpumemAllocId = args(data)?;
        let id = self.allocate(args.size, args.flags.into())?;
        let objects = self.objects_of();
        let entry = objects.find(id).ok_or(Errno::EINVAL)?;
        (args.size, args.mmapsize) = (entry.object.bytes, entry.object.bytes);
        (args.flags, args.id) = (entry.flags as u32, id);
        args.gpuaddr = entry.address.unwrap_or(0);
        Ok(())
    }

    pub(super) fn gpuobj_info(&self, _: &File, data: &mut [u8]) -> Result {
        let args: &mut GpuobjInfo = args(data)?;
        let objects = self.objects_of();
        let Some(entry) = objects.find(args.id) else {
            return self.fail(Errno::EINVAL, || format!("no object {}", args.id));
        };
        let bytes = entry.object.bytes;
        (args.gpuaddr, args.flags) = (entry.address.unwrap_or(0), entry.flags);
        (args.size, args.va_len, args.va_addr) = (bytes, bytes, entry.seen);
        Ok(())
    }

    /// Maps an object into the process: by its number in the offset, or by the address of the GPU.
    pub(crate) fn map_object(
        &self,
        wanted: Wanted,
        offset: u64,
    ) -> Result<(u64, Arc<Object>, u32)> {
        let mut objects = self.objects_of();
        let by_number = u32::try_from(offset / PAGE).ok();
        let by_number = by_number.filter(|id| objects.find(*id).is_some());
        let id = by_number
            .or_else(|| objects.at(offset))
            .ok_or(Errno::EINVAL)?;
        let entry = objects.entries.get_mut(&id).ok_or(Errno::EINVAL)?;
        if !entry.allocated {
            return Err(Errno::EINVAL);
        }
        let shared = entry.has(Memory::USE_CPU_MAP);
        let again = match self.version() {
            Version::V4_9 => entry.mapped > 0,
            Version::V5_15 => shared && entry.address.is_some(),
        };
        if self.version() == Version::V4_9 && again {
            return Err(Errno::EBUSY);
        }
        if wanted.bytes != entry.object.bytes {
            return Err(Errno::ERANGE);
        }
        if again {
            return Err(Errno::EBUSY);
        }
        let object = entry.object.clone();
        let at = self.caller.map(wanted, object.seen(), 0)?;
        if shared
            && entry.address.is_none()
            && let Err(errno) = objects.place(id, Some(at))
        {
            // Nobody has it mapped there.
            let _ = self.caller.unmap(at, wanted.bytes);
            return Err(errno);
        }
        if let Some(entry) = objects.entries.get_mut(&id) {
            entry.mapped += 1;
            entry.seen = at;
        }
        Ok((at, object, id))
    }

    /// An object is mapped once less.
    pub(crate) fn unmapped_object(&self, id: u32) {
        let mut objects = self.objects_of();
        let Some(entry) = objects.entries.get_mut(&id) else {
            return;
        };
        entry.mapped = entry.mapped.saturating_sub(1);
        if entry.mapped == 0 {
            entry.seen = 0;
            if entry.pending {
                self.drop_object(objects, id);
            }
        }
    }

    fn drop_object(&self, mut objects: std::sync::MutexGuard<'_, Objects>, id: u32) {
        let entry = objects.remove(id);
        drop(objects);
        if let Some(entry) = entry {
            self.machine.enter().drop_entry(entry);
        }
    }

    /// Frees an object now, or as soon as the CPU has it mapped no more.
    pub(crate) fn free_object(&self, id: u32) {
        let mut objects = self.objects_of();
        let Some(entry) = objects.entries.get_mut(&id) else {
            return;
        };
        entry.pending = true;
        if entry.mapped == 0 {
            self.drop_object(objects, id);
        }
    }

    /// `EINVAL` where there is none, `EBUSY` where it is about to be freed.
    fn freeable(&self, id: u32) -> Result {
        let objects = self.objects_of();
        match objects.entries.get(&id) {
            // It is found no more.
            Some(entry) if entry.pending => Err(Errno::EINVAL),
            Some(_) => Ok(()),
            None => self.fail(Errno::EINVAL, || format!("no object {id}")),
        }
    }

    pub(super) fn free_by_id(&self, _: &File, data: &mut [u8]) -> Result {
        let args: GpumemFreeId = *args(data)?;
        self.freeable(args.id)?;
        self.free_object(args.id);
        Ok(())
    }

    pub(super) fn free_by_address(&self, _: &File, data: &mut [u8]) -> Result {
        let args: SharedmemFree = *args(data)?;
        let found = self.objects_of().at(args.gpuaddr);
        let Some(id) = found else {
            return self.fail(Errno::EINVAL, || {
                format!("no object at {:#x}", args.gpuaddr)
            });
        };
        self.free_object(id);
        Ok(())
    }

    pub(super) fn gpuobj_free(&self, file: &File, data: &mut [u8]) -> Result {
        let args: GpuobjFree = *args(data)?;
        self.freeable(args.id)?;
        if args.flags & free::ON_EVENT == 0 {
            self.free_object(args.id);
            return Ok(());
        }
        match args.kind {
            free::TIMESTAMP => self.free_on_timestamp(file, &args),
            free::FENCE => self.free_on_fence(&args),
            kind => self.fail(Errno::EINVAL, || format!("an event of kind {kind}")),
        }
    }

    fn free_on_timestamp(&self, file: &File, args: &GpuobjFree) -> Result {
        let event: ContextTimestamp = self.get_sized(args.priv_address, args.len.into())?;
        let mut state = self.machine.enter();
        let context = state.context(file, event.context_id)?;
        let later = drivers_spec::qcom::kgsl::compare(event.timestamp, context.queued)
            == std::cmp::Ordering::Greater;
        if later && !context.chooses() {
            return self.fail(Errno::EINVAL, || {
                format!("timestamp {} was not queued", event.timestamp)
            });
        }
        state
            .frees
            .push((self.id, args.id, event.context_id, event.timestamp));
        drop(state);
        if let Some(entry) = self.objects_of().entries.get_mut(&args.id) {
            entry.pending = true;
        }
        self.release_events();
        Ok(())
    }

    fn free_on_fence(&self, args: &GpuobjFree) -> Result {
        let event: Fence = self.get_sized(args.priv_address, args.len.into())?;
        let fence = self.file(event.fd).ok().filter(|_| event.fd >= 0);
        let Some(Kind::SyncFile(job)) = fence.as_ref().map(|file| &file.kind) else {
            return self.fail(Errno::EINVAL, || format!("{} is no fence", event.fd));
        };
        let job = *job;
        let (state, _) = self.machine.wait(self.machine.enter(), None, |state| {
            (!state.live.contains(&job)).then_some(())
        });
        drop(state);
        self.free_object(args.id);
        Ok(())
    }

    /// Frees what has waited for timestamps that are over.
    pub(super) fn release_events(&self) {
        let mut state = self.machine.enter();
        let frees = std::mem::take(&mut state.frees);
        let (due, left): (Vec<_>, Vec<_>) =
            frees
                .into_iter()
                .partition(|(process, _, context, timestamp)| {
                    let context = state.contexts.get(context);
                    *process == self.id
                        && context.is_none_or(|context| context.has_retired(*timestamp))
                });
        state.frees = left;
        drop(state);
        due.into_iter().for_each(|(_, id, ..)| self.free_object(id));
    }

    /// The last file of KGSL is closed: all objects are gone.
    pub(crate) fn free_all(&self) {
        let objects = std::mem::take(&mut *self.objects_of());
        let mut state = self.machine.enter();
        state.frees.retain(|(process, ..)| *process != self.id);
        drop(objects.space);
        for (_, entry) in objects.entries {
            state.drop_entry(entry);
        }
    }

    /// Kinds of memory of programs, as flags have them.
    pub(super) fn user_flags(kind: u32) -> u64 {
        u64::from(kind + 1) << memory::USERMEM_SHIFT
    }

    /// Whether a kind of memory of programs is known.
    pub(super) fn is_user(kind: u32) -> bool {
        kind == user::ADDR || kind == user::DMABUF
    }
}
