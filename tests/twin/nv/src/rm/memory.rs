//! Memory: made, pinned, mapped for the CPU and, where RM owns the address space, for the GPU.
//!
//! Source: open-gpu-kernel-modules 580.142, src/nvidia/src/kernel/mem_mgr/{standard_mem,video_mem,
//! system_mem,virtual_mem}.c; rmapi/{mapping,mapping_cpu}.c; arch/nvalloc/unix/src/escape.c,
//! RmAllocOsDescriptor; kernel-open/nvidia/nv-usermap.c.

use std::sync::Arc;

use drivers_spec::nv::memory::{alloc_flags, alloc_memory_flags, attr, attr2, map_dma_flags};
use drivers_spec::nv::{class, escape, status};
use twin::rule::{Proof, Rule};

use crate::contents::Contents;
use crate::errno::{Failure, Result};
use crate::kernel::{DOORBELL_BYTES, Kind as FileKind, Mapped};
use crate::space::{Mapping, Memory, Owner, Place, Rights};

use super::alloc::{New, is_usermode};
use super::{Call, Kind, Object, State};

static MEMORY: Rule = Rule {
    name: "RM-MEMORY",
    text: "memory has a size, an owner, no internal flags and no range; local memory has location VIDMEM, system memory \
           another one; address ranges have their own classes",
    source: "open-gpu-kernel-modules, standard_mem.c, stdmemValidateParams; video_mem.c, system_mem.c",
    proof: Proof::Sourced,
};

static FULL: Rule = Rule {
    name: "RM-MEMORY-FULL",
    text: "allocations of local memory fit in the GPU's memory",
    source: "open-gpu-kernel-modules, video_mem.c, vidmemConstruct: NV_ERR_NO_MEMORY",
    proof: Proof::Sourced,
};

static PIN: Rule = Rule {
    name: "RM-OS-DESCRIPTOR",
    text: "memory of a process is pinned from the start of a page, with location PCI, mapping NO_MAP and coherency \
           CACHED, WRITE_BACK or UNCACHED, and all of it is mapped",
    source: "open-gpu-kernel-modules, escape.c, RmAllocOsDescriptor, RmCreateOsDescriptor",
    proof: Proof::Sourced,
};

static MAP: Rule = Rule {
    name: "RM-MAP-RANGE",
    text: "a mapped range is within the memory and not empty",
    source: "open-gpu-kernel-modules, mapping_cpu.c, memMap: NV_ERR_INVALID_BASE, NV_ERR_INVALID_LIMIT",
    proof: Proof::Sourced,
};

static MAP_FILE: Rule = Rule {
    name: "RM-MAP-FILE",
    text: "local memory and doorbells are mapped through a file of their GPU, system memory through a control file, \
           each file once",
    source: "open-gpu-kernel-modules, kernel-open/nvidia/nv-usermap.c, nv_add_mapping_context_to_file",
    proof: Proof::Sourced,
};

static DMA: Rule = Rule {
    name: "RM-MAP-DMA",
    text: "RM_MAP_MEMORY_DMA names a range of addresses (hDma) and an aligned, free address in it",
    source: "open-gpu-kernel-modules, virtual_mem.c, virtmemMapTo; mapping.c",
    proof: Proof::Sourced,
};

static DMA_EXTERNAL: Rule = Rule {
    name: "RM-MAP-DMA-EXTERNAL",
    text: "RM does not map memory in an externally owned address space",
    source: "open-gpu-kernel-modules, gpu_vaspace.c, gvaspaceAlloc: bIsExternallyOwned",
    proof: Proof::Sourced,
};

/// Addresses that RM maps in.
pub(crate) struct Range {
    /// Tells ranges apart.
    pub(crate) number: u32,
    /// The address space.
    pub(crate) space: u64,
    /// Its handle, if it has one.
    pub(super) over: Option<u32>,
    first: u64,
    last: u64,
}

/// The smallest page of a GPU.
const PAGE: u64 = 4096;

/// Counts local memory anew: duplicates and mappings may hold what a client has freed.
pub(crate) fn count(state: &mut State) {
    let mut seen = std::collections::BTreeMap::new();
    let objects = state.clients.values().flat_map(|c| c.objects.values());
    let owned = objects.filter_map(|object| match &object.kind {
        Kind::Memory(memory) => Some(memory),
        _ => None,
    });
    let mapped = state.spaces.values().flat_map(|space| space.mappings());
    for memory in owned.chain(mapped.map(|(_, mapping)| &mapping.memory)) {
        if memory.place == Place::Local {
            seen.insert(memory.id, (memory.gpu, memory.bytes));
        }
    }
    state.used.fill(0);
    for (gpu, bytes) in seen.into_values() {
        state.used[gpu] += bytes;
    }
}

/// New memory. What a GPU gives is cleared before.
fn zeros(bytes: u64) -> Result<Contents> {
    // The host has none left.
    Contents::zeros(bytes).map_err(|_| Failure::Status(status::NV_ERR_NO_MEMORY))
}

/// The size of pages that attributes ask for.
fn page_size(attr: u32, attr2: u32, bytes: u64, place: Place) -> u64 {
    let huge = match attr2::PAGE_SIZE_HUGE.get(attr2) {
        attr2::PAGE_SIZE_HUGE_512MB => 512 << 20,
        _ => 2 << 20,
    };
    match attr::PAGE_SIZE.get(attr) {
        attr::PAGE_SIZE_4KB => PAGE,
        attr::PAGE_SIZE_BIG => 64 << 10,
        attr::PAGE_SIZE_HUGE => huge,
        // What is left to RM: big pages where they are filled.
        _ if place != Place::Local => PAGE,
        _ if bytes >= 2 << 20 => 2 << 20,
        _ if bytes >= 64 << 10 => 64 << 10,
        _ => PAGE,
    }
}

impl Call<'_> {
    /// NV01_MEMORY_LOCAL_USER and NV01_MEMORY_SYSTEM by RM_ALLOC.
    pub(super) fn new_memory(
        &self,
        state: &mut State,
        new: &New,
        gpu: usize,
    ) -> Result<Arc<Memory>> {
        let mut params = self.required::<class::MemoryAlloc>(new)?;
        let place = match new.class == class::NV01_MEMORY_SYSTEM.number {
            true => Place::System,
            false => Place::Local,
        };
        let vidmem = attr::LOCATION.get(params.attr) == attr::LOCATION_VIDMEM;
        let addresses = alloc_flags::VIRTUAL.get(params.flags) != 0;
        let begin_end = alloc_flags::USE_BEGIN_END.get(params.flags) != 0;
        let range = params.range_lo != 0 || params.range_hi != 0;
        let (invalid, what) = match () {
            _ if params.internalflags != 0 => (
                status::NV_ERR_INVALID_ARGUMENT,
                format!("internalflags {:#x}", params.internalflags),
            ),
            _ if params.size == 0 => (status::NV_ERR_INVALID_ARGUMENT, "size 0".into()),
            _ if matches!(params.owner, 0 | u32::MAX) => (
                status::NV_ERR_INVALID_OWNER,
                format!("owner {:#x}", params.owner),
            ),
            _ if range && !begin_end => (
                status::NV_ERR_INVALID_ARGUMENT,
                format!("range {:#x} to {:#x}", params.range_lo, params.range_hi),
            ),
            _ if vidmem != (place == Place::Local) || addresses => (
                status::NV_ERR_INVALID_ARGUMENT,
                format!("attr {:#x}, flags {:#x}", params.attr, params.flags),
            ),
            _ => (status::NV_OK, String::new()),
        };
        if invalid != status::NV_OK {
            return self.machine.refuse(&MEMORY, invalid, what);
        }
        let page = page_size(params.attr, params.attr2, params.size, place);
        let Some(bytes) = params.size.checked_next_multiple_of(page) else {
            let what = format!("{:#x} bytes", params.size);
            let invalid = status::NV_ERR_INVALID_ARGUMENT;
            return self.machine.refuse(&MEMORY, invalid, what);
        };
        if place == Place::Local {
            count(state);
            let (used, all) = (state.used[gpu], self.machine.config.chips[gpu].vram());
            if used.checked_add(bytes).is_none_or(|after| after > all) {
                let what = format!("{bytes:#x} bytes, {used:#x} of {all:#x} are in use");
                return self.machine.refuse(&FULL, status::NV_ERR_NO_MEMORY, what);
            }
            state.used[gpu] += bytes;
        }
        params.size = bytes;
        params.limit = bytes - 1;
        params.alignment = params.alignment.max(page);
        self.process.put(new.params, &params)?;
        let read_only = attr2::PROTECTION_USER.get(params.attr2);
        let contents = zeros(bytes)?;
        Ok(Arc::new(Memory {
            id: state.number(),
            gpu,
            place,
            bytes,
            page,
            writable: read_only != attr2::PROTECTION_USER_READ_ONLY,
            contents,
        }))
    }

    /// NV01_MEMORY_VIRTUAL and NV50_MEMORY_VIRTUAL.
    pub(super) fn new_range(&self, state: &mut State, new: &New) -> Result<Range> {
        let old = new.class == class::NV01_MEMORY_VIRTUAL.number;
        let (handle, first, last) = if old {
            let params = self.required::<class::MemoryVirtualAlloc>(new)?;
            (params.h_va_space, params.offset, params.limit)
        } else {
            let params = self.required::<class::MemoryAlloc>(new)?;
            if alloc_flags::VIRTUAL.get(params.flags) == 0 || params.size == 0 {
                let what = format!("flags {:#x}, {:#x} bytes", params.flags, params.size);
                let invalid = status::NV_ERR_INVALID_ARGUMENT;
                return self.machine.refuse(&MEMORY, invalid, what);
            }
            (params.h_va_space, 0, 0)
        };
        let (number, over) = self.space(state, new.client, new.parent, handle)?;
        let Some(space) = state.spaces.get(&number) else {
            return self.no_object(new.client, handle);
        };
        let last = match last {
            0 => space.last,
            last => last.min(space.last),
        };
        let first = first.max(space.base);
        if first > last {
            let what = format!("addresses {first:#x} to {last:#x}");
            let invalid = status::NV_ERR_INVALID_ARGUMENT;
            return self.machine.refuse(&MEMORY, invalid, what);
        }
        Ok(Range {
            number: state.number() as u32,
            space: number,
            over,
            first,
            last,
        })
    }

    /// RM_ALLOC_MEMORY.
    pub(crate) fn alloc_memory(&self, args: &mut escape::AllocMemoryWithFd) -> Result {
        let params = &mut args.params;
        let os = params.h_class == class::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR.number;
        let flags = params.flags;
        let wrong = |status: u32, what: String| self.machine.refuse(&PIN, status, what);
        let coherency = alloc_memory_flags::COHERENCY.get(flags);
        if os {
            let location = alloc_memory_flags::LOCATION.get(flags);
            let mapping = alloc_memory_flags::MAPPING.get(flags);
            if location != alloc_memory_flags::LOCATION_PCI
                || mapping != alloc_memory_flags::MAPPING_NO_MAP
                || !matches!(
                    coherency,
                    alloc_memory_flags::COHERENCY_UNCACHED
                        | alloc_memory_flags::COHERENCY_CACHED
                        | alloc_memory_flags::COHERENCY_WRITE_BACK
                )
            {
                let invalid = status::NV_ERR_INVALID_FLAGS;
                return wrong(invalid, format!("flags {flags:#x}"));
            }
            if !params.p_memory.is_multiple_of(PAGE) {
                let unsupported = status::NV_ERR_NOT_SUPPORTED;
                return wrong(unsupported, format!("memory at {:#x}", params.p_memory));
            }
        } else if params.h_class != class::NV01_MEMORY_SYSTEM.number {
            let what = format!("class {:#x} by RM_ALLOC_MEMORY", params.h_class);
            let invalid = status::NV_ERR_INVALID_CLASS;
            return self.machine.refuse(&MEMORY, invalid, what);
        }
        let bytes = params.limit.wrapping_add(1).checked_next_multiple_of(PAGE);
        let Some(bytes) = bytes.filter(|&bytes| bytes > 0) else {
            let what = format!("limit {:#x}", params.limit);
            let invalid = status::NV_ERR_INVALID_LIMIT;
            return self.machine.refuse(&MEMORY, invalid, what);
        };
        let writable = alloc_memory_flags::ALLOC_DEVICE_READ_ONLY.get(flags) == 0;
        let contents = if os {
            let memory = self.process.memory();
            match memory.pin(params.p_memory, bytes, writable) {
                Ok(pages) => pages,
                Err(_) => {
                    let what = format!("{bytes:#x} bytes at {:#x}", params.p_memory);
                    return wrong(status::NV_ERR_INVALID_ADDRESS, what);
                }
            }
        } else {
            zeros(bytes)?
        };
        let mut state = self.machine.state();
        self.client(&state, params.h_root)?;
        let mut new = New {
            client: params.h_root,
            parent: params.h_object_parent,
            handle: params.h_object_new,
            class: params.h_class,
            params: 0,
            size: 0,
        };
        self.placed(&mut state, &mut new)?;
        let gpu = self.object(&state, new.client, new.parent)?.gpu;
        let memory = Arc::new(Memory {
            id: state.number(),
            gpu: gpu.unwrap_or_default(),
            place: match os {
                true => Place::Process(params.p_memory),
                false => Place::System,
            },
            bytes,
            page: PAGE,
            writable,
            contents,
        });
        let mapped = alloc_memory_flags::MAPPING.get(flags) != alloc_memory_flags::MAPPING_NO_MAP;
        if !os && mapped {
            let what = Mapped::Memory(memory.clone(), 0);
            self.mapped_by(args.fd, &FileKind::Ctl, what, bytes)?;
        }
        let object = Object {
            parent: new.parent,
            class: new.class,
            gpu,
            kind: Kind::Memory(memory),
            needs: Vec::new(),
        };
        self.insert(&mut state, new.client, new.handle, object);
        params.h_object_new = new.handle;
        Ok(())
    }

    /// RM_MAP_MEMORY: says what the next mmap of a file maps.
    pub(crate) fn map_memory(&self, args: &escape::MapMemoryWithFd) -> Result {
        let params = &args.params;
        let state = self.machine.state();
        self.client(&state, params.h_client)?;
        let device = self.object(&state, params.h_client, params.h_device)?;
        let object = self.object(&state, params.h_client, params.h_memory)?;
        let gpu = object.gpu.or(device.gpu).unwrap_or_default();
        let (what, bytes, kind) = match &object.kind {
            Kind::Memory(memory) => {
                let kind = match memory.place {
                    Place::Local => FileKind::Gpu(memory.gpu),
                    _ => FileKind::Ctl,
                };
                let what = Mapped::Memory(memory.clone(), params.offset);
                (what, memory.bytes, kind)
            }
            Kind::Plain if is_usermode(object.class) => {
                (Mapped::Doorbell(gpu), DOORBELL_BYTES, FileKind::Gpu(gpu))
            }
            _ => return self.no_object(params.h_client, params.h_memory),
        };
        let asked = format!(
            "{:#x} bytes from {:#x} of {bytes:#x}",
            params.length, params.offset
        );
        if params.offset >= bytes {
            let invalid = status::NV_ERR_INVALID_BASE;
            return self.machine.refuse(&MAP, invalid, asked);
        }
        let end = params.offset.checked_add(params.length);
        if params.length == 0 || end.is_none_or(|end| end > bytes) {
            let invalid = status::NV_ERR_INVALID_LIMIT;
            return self.machine.refuse(&MAP, invalid, asked);
        }
        self.mapped_by(args.fd, &kind, what, params.length)
    }

    /// Notes what a file maps next.
    fn mapped_by(&self, fd: i32, kind: &FileKind, what: Mapped, bytes: u64) -> Result {
        let file = self.process.file(fd).ok();
        let Some(file) = file.filter(|file| file.kind == *kind) else {
            let what = format!("descriptor {fd}, expected a file {kind:?}");
            let invalid = status::NV_ERR_INVALID_ARGUMENT;
            return self.machine.refuse(&MAP_FILE, invalid, what);
        };
        let mut context = file.context();
        if context.is_some() {
            let what = format!("descriptor {fd} has mapped before");
            let in_use = status::NV_ERR_STATE_IN_USE;
            return self.machine.refuse(&MAP_FILE, in_use, what);
        }
        *context = Some((what, bytes));
        Ok(())
    }

    /// RM_MAP_MEMORY_DMA.
    pub(crate) fn map_dma(&self, args: &mut escape::MapMemoryDma) -> Result {
        let mut state = self.machine.state();
        self.client(&state, args.h_client)?;
        let memory = self.memory(&state, args.h_client, args.h_memory)?;
        let invalid = status::NV_ERR_INVALID_OBJECT_HANDLE;
        let Kind::Range(range) = &self.object(&state, args.h_client, args.h_dma)?.kind else {
            let what = format!("hDma {:#x} is no range of addresses", args.h_dma);
            return self.machine.refuse(&DMA, invalid, what);
        };
        let (number, first, last) = (range.number, range.first, range.last);
        let space = range.space;
        let Some(space) = state.space_mut(space) else {
            return self.no_object(args.h_client, args.h_dma);
        };
        if space.external {
            let what = format!("range {:#x}", args.h_dma);
            let unsupported = status::NV_ERR_NOT_SUPPORTED;
            return self.machine.refuse(&DMA_EXTERNAL, unsupported, what);
        }
        let end = args.offset.checked_add(args.length);
        if args.length == 0 || end.is_none_or(|end| end > memory.bytes) {
            let what = format!("{:#x} bytes from {:#x}", args.length, args.offset);
            let invalid = status::NV_ERR_INVALID_BASE;
            return self.machine.refuse(&MAP, invalid, what);
        }
        let bytes = args.length.next_multiple_of(PAGE);
        let fixed = map_dma_flags::DMA_OFFSET_FIXED.get(args.flags) != 0;
        let at = match fixed {
            true => Some(args.dma_offset)
                .filter(|at| at.is_multiple_of(PAGE) && *at >= first && space.is_free(*at, bytes)),
            false => space.place(first, bytes, memory.page),
        };
        let Some(at) = at.filter(|at| at + (bytes - 1) <= last) else {
            let what = format!("{bytes:#x} bytes at {:#x} are not free", args.dma_offset);
            let no_memory = status::NV_ERR_NO_MEMORY;
            return self.machine.refuse(&DMA, no_memory, what);
        };
        let rights = match map_dma_flags::ACCESS.get(args.flags) {
            map_dma_flags::ACCESS_READ_ONLY => Rights::ReadOnly,
            _ => Rights::ReadWriteAtomic,
        };
        let page = memory.page;
        space.map(
            at,
            Mapping {
                bytes,
                memory,
                offset: args.offset,
                rights,
                page,
                owner: Owner::Rm(number),
            },
        );
        args.dma_offset = at;
        Ok(())
    }

    /// RM_UNMAP_MEMORY_DMA.
    pub(crate) fn unmap_dma(&self, args: &escape::UnmapMemoryDma) -> Result {
        let mut state = self.machine.state();
        self.client(&state, args.h_client)?;
        let Kind::Range(range) = &self.object(&state, args.h_client, args.h_dma)?.kind else {
            return self.no_object(args.h_client, args.h_dma);
        };
        let (owner, space) = (Owner::Rm(range.number), range.space);
        let space = state.space_mut(space);
        let found = space.filter(|space| {
            let mapping = space.at(args.dma_offset);
            mapping.is_some_and(|mapping| mapping.owner == owner)
        });
        match found {
            Some(space) => {
                space.unmap(args.dma_offset);
                Ok(())
            }
            None => {
                let what = format!("nothing begins at {:#x}", args.dma_offset);
                let missing = status::NV_ERR_INVALID_OBJECT_HANDLE;
                self.machine.refuse(&DMA, missing, what)
            }
        }
    }
}
