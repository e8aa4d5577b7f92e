//! The buffers of graphics: what a channel, or a group, has to have before compute is made in it.
//!
//! Source: OGKM, ctrl/ctrl2080/ctrl2080gpu.h, NV2080_CTRL_CMD_GPU_PROMOTE_CTX; kernel_graphics_object.c, kgrobjPromoteContext_IMPL;
//! Linux, nvkm/subdev/gsp/rm/r535/gr.c, r535_gr_promote_ctx, r535_gr_oneinit.

use std::collections::BTreeMap;

use drivers_spec::nv::{class, status};
use twin::rule::{Proof, Rule};

use super::channel::Channel;
use super::{Call, Kind, facts, space};
use crate::pci::memory::{Aperture, Place, long, word};
use crate::pci::mmu::table::{self, Leaf, Version};

static BUFFERS: Rule = Rule {
    name: "NV-GR-CONTEXT-BUFFERS",
    text: "GPU_PROMOTE_CTX is for graphics, of a channel or a group, with up to 16 buffers that there are; one to be initialised has its \
           memory, zeros, as large as KGR_GET_CONTEXT_BUFFERS_INFO says; only such a one is not mapped; one that is has all of its \
           addresses mapped, to that memory, be it of an earlier call, and not where firmware has addresses for itself; MAIN is mapped \
           for privileged accesses alone",
    source: "OGKM, ctrl2080gpu.h: NV2080_CTRL_GPU_PROMOTE_CTX_BUFFER_ENTRY; kernel_graphics_context.c, \
             kgrctxAllocMainCtxBuffer_IMPL: MEMDESC_FLAGS_GPU_PRIVILEGED, \
             kgrctxPrepareInitializeCtxBuffer_IMPL, kgrctxPreparePromoteCtxBuffer_IMPL; gpu_vaspace.c, \
             gvaspaceReserveSplitVaSpace_IMPL; Linux, nvkm/subdev/gsp/rm/r535/gr.c, r535_gr_promote_ctx",
    proof: Proof::Sourced,
};

static CONTEXT: Rule = Rule {
    name: "NV-GR-CONTEXT",
    text: "before compute is made in a channel, its buffers are promoted (MAIN, PATCH, BUFFER_BUNDLE_CB, PAGEPOOL, ATTRIBUTE_CB, \
           RTV_CB_GLOBAL), and of these MAIN and PATCH have been initialised; where its address space is externally owned, \
           addresses may come later",
    source: "OGKM, kernel_graphics_object.c, kgrobjPromoteContext_IMPL; kernel_graphics_context.c, kgrctxPrepareInitializeCtxBuffer_IMPL: \
             the others are not initialised; Linux, nvkm/subdev/gsp/rm/r535/gr.c, r535_gr_oneinit and r535_gr_promote_ctx: the same",
    proof: Proof::Sourced,
};

static BOUND: Rule = Rule {
    name: "NV-GR-CONTEXT-BOUND",
    text: "a channel of graphics in an address space that is externally owned, whose context has memory, is scheduled when the \
           addresses of its buffers are promoted, too",
    source: "OGKM, kernel_channel.c, kchannelIsSchedulable_IMPL: Cannot schedule externally-owned channel with unbound allocations; \
             nv_gpu_ops.c, nvGpuOpsBindChannelResources",
    proof: Proof::Sourced,
};

static LEFT: Rule = Rule {
    name: "NV-GR-CONTEXT-UNMAPPED",
    text: "buffers whose addresses are promoted stay mapped until the last channel that has them is freed or stopped (STOP_CHANNEL): \
           of a group, the last one in their address space",
    source: "OGKM, kernel_graphics_context.c, kgrctxUnmapAssociatedCtxBuffers_IMPL: Only unmap once the last channel using this VAS has \
             gone; nvidia-uvm/uvm_user_channel.c, uvm_unregister_channel: Tell RM to kill the channel before we start unmapping its \
             allocations; nv_gpu_ops.c, nvGpuOpsStopChannel",
    proof: Proof::Sourced,
};

static IMAGE: Rule = Rule {
    name: "NV-GR-IMAGE-SPACE",
    text: "the first object of 3D, by which firmware makes the image of all contexts, is made in an address space that is not \
           externally owned, and has a page directory by COPY_SERVER_RESERVED_PDES",
    source: "OGKM, kernel_graphics.c, kgraphicsCreateGoldenImageChannel_IMPL: FERMI_VASPACE_A without IS_EXTERNALLY_OWNED; Linux, \
             nvkm/subdev/gsp/rm/r535/gr.c, r535_gr_oneinit, vmm.c, r535_mmu_vaspace_new",
    proof: Proof::Sourced,
};

static FIRST: Rule = Rule {
    name: "NV-GR-IMAGE",
    text: "before compute is made in a channel there is an image of all contexts: an object of 3D was made once (see NV-GR-IMAGE-SPACE)",
    source: "OGKM, kernel_graphics.c, kgraphicsCreateGoldenImageChannel_IMPL: the host's driver has it made before all other channels; \
             Linux, nvkm/subdev/gsp/rm/r535/gr.c, r535_gr_oneinit: the same. That firmware refuses compute without one is not said",
    proof: Proof::Guess,
};

/// Which buffers there are, `NV2080_CTRL_GPU_PROMOTE_CTX_BUFFER_ID_*`.
#[derive(Default)]
pub(super) struct Context {
    /// Promoted with addresses: the handle of the address space, which one, where these begin.
    mapped: BTreeMap<(u32, u16), u64>,
    /// Initialised, and where they are.
    filled: BTreeMap<u16, Place>,
}

const MAIN: u16 = 0;
const PATCH: u16 = 2;
/// Those without which compute is not made: MAIN, PATCH, BUFFER_BUNDLE_CB, PAGEPOOL, ATTRIBUTE_CB, RTV_CB_GLOBAL.
const NEEDED: [u16; 6] = [MAIN, PATCH, 3, 4, 5, 6];
/// The last one.
const LAST: u16 = 12;
/// Bytes of the parameters, and where entries are.
const BYTES: usize = 0x230;
const ENTRIES: usize = 0x30;
const ENTRY: usize = 0x20;
const MOST: u32 = 16;

/// An entry.
struct Entry {
    id: u16,
    place: Place,
    va: u64,
    bytes: u64,
    initialise: bool,
    mapped: bool,
}

impl Entry {
    fn new(bytes: &[u8]) -> Entry {
        Entry {
            place: Place {
                aperture: match word(bytes, 0x18) & 3 {
                    0 => Aperture::Vram,
                    _ => Aperture::Host,
                },
                at: long(bytes, 0),
            },
            va: long(bytes, 8),
            bytes: long(bytes, 0x10),
            id: word(bytes, 0x1c) as u16,
            initialise: bytes[0x1e] != 0,
            mapped: bytes[0x1f] == 0,
        }
    }
}

impl Call<'_> {
    /// GPU_PROMOTE_CTX, of a subdevice.
    pub(super) fn promote(&mut self, subdevice: u32, given: &[u8]) -> Result<(), u32> {
        self.of_class(subdevice, class::NV20_SUBDEVICE_0.number)?;
        self.has_size(given, BYTES)?;
        let [engine, client, handle, count] = [0, 0xc, 0x10, 0x28].map(|at| word(given, at));
        let wrong = |what: String| {
            let invalid = status::NV_ERR_INVALID_ARGUMENT;
            self.refuse(&BUFFERS, invalid, what)
        };
        if engine != class::engine::GRAPHICS || count > MOST || count == 0 {
            return wrong(format!("{count} buffers for engine {engine:#x}"));
        }
        let object = self.objects.get(client, handle).map(|object| &object.kind);
        // Channels of a group have one context.
        let (space, group) = match object {
            Some(Kind::Channel(channel)) => (channel.space, channel.made.group),
            Some(Kind::Group(group)) => (group.space, None),
            _ => return wrong(format!("{handle:#x} of client {client:#x} is no channel")),
        };
        let holder = (client, group.unwrap_or(handle));
        let (root, is_external) = match self.objects.get(client, space).map(|object| &object.kind) {
            Some(Kind::Space(space)) => (space.root, space.external),
            _ => (None, true),
        };
        let entries: Vec<Entry> = (0..count as usize)
            .map(|i| Entry::new(&given[ENTRIES + ENTRY * i..][..ENTRY]))
            .collect();
        for entry in &entries {
            let before = self
                .context_at(holder)
                .and_then(|one| one.filled.get(&entry.id));
            if entry.mapped && !is_external && space::RESERVED_VA.contains(&entry.va) {
                return wrong(format!("buffer {} at {:#x}", entry.id, entry.va));
            }
            if let Err(why) = self.is_right(entry, root, before.copied()) {
                return wrong(format!("buffer {}: {why}", entry.id));
            }
        }
        let physical = self.state.physical();
        for entry in &entries {
            if entry.initialise {
                // It is firmware's from now on, and not zeros any more.
                physical.write(entry.place, &[0x5a; 64], "GSP, a buffer of graphics");
            }
        }
        let object = self.objects.all.get_mut(&holder);
        let context = match object.map(|object| &mut object.kind) {
            Some(Kind::Channel(channel)) => &mut channel.context,
            Some(Kind::Group(group)) => &mut group.context,
            _ => return Ok(()),
        };
        let mapped = entries.iter().filter(|one| one.mapped);
        let mapped = mapped.map(|one| ((space, one.id), one.va));
        context.mapped.extend(mapped);
        let filled = entries.iter().filter(|one| one.initialise);
        context.filled.extend(filled.map(|one| (one.id, one.place)));
        Ok(())
    }

    /// The context of a group, or of a channel.
    fn context_at(&self, (client, handle): (u32, u32)) -> Option<&Context> {
        match self.objects.get(client, handle).map(|object| &object.kind) {
            Some(Kind::Channel(channel)) => Some(&channel.context),
            Some(Kind::Group(group)) => Some(&group.context),
            _ => None,
        }
    }

    /// Whether a buffer is as it should be; `before` is where it was when it was initialised, by an earlier call.
    fn is_right(
        &self,
        entry: &Entry,
        root: Option<Place>,
        before: Option<Place>,
    ) -> Result<(), String> {
        if entry.id > LAST {
            return Err("there is none".into());
        }
        if !entry.mapped && !entry.initialise {
            return Err("neither mapped nor initialised".into());
        }
        let least = facts::buffer(entry.id);
        let physical = self.state.physical();
        if entry.initialise {
            let mut found = vec![0; least as usize];
            let there = entry.bytes >= least
                && entry.place.at.is_multiple_of(0x1000)
                && physical.allows(entry.place, entry.bytes)
                && physical.read(entry.place, &mut found, "GSP, a buffer of graphics");
            if !there {
                let (bytes, place) = (entry.bytes, entry.place);
                return Err(format!(
                    "{bytes:#x} bytes at {place}, {least:#x} are needed"
                ));
            }
            if let Some(at) = found.iter().position(|byte| *byte != 0) {
                return Err(format!("byte {at:#x} is not 0"));
            }
        }
        if !entry.mapped {
            return Ok(());
        }
        let root = root.ok_or("the address space has no page directory")?;
        let meant = match entry.initialise {
            true => Some(entry.place),
            false => before,
        };
        self.pages(
            root,
            entry.va..entry.va.saturating_add(least),
            |va, leaf| {
                if entry.id == MAIN && !leaf.privileged {
                    return Err(format!("{va:#x} is mapped for everybody"));
                }
                let at = leaf.place.map(|place| place.plus(va % leaf.bytes));
                match meant.map(|meant| meant.plus(va - entry.va)) {
                    Some(meant) if at != Some(meant) => {
                        Err(format!("{va:#x} is mapped to {at:x?}, not {meant}"))
                    }
                    _ => Ok(()),
                }
            },
        )
    }

    /// Calls `each` with the first address of each page of a range, until one is not mapped or `each` fails.
    fn pages(
        &self,
        root: Place,
        range: std::ops::Range<u64>,
        each: impl Fn(u64, &Leaf) -> Result<(), String>,
    ) -> Result<(), String> {
        let physical = self.state.physical();
        let version = Version::of(self.state.config.chip);
        let mut va = range.start;
        loop {
            let found = table::walk(version, root, va, &mut |_, place| {
                physical.long(place, "GSP, page tables")
            });
            let leaf = found.map_err(|cause| format!("{va:#x} is not mapped: {cause:?}"))?;
            each(va, &leaf)?;
            va = va.saturating_add(leaf.bytes - va % leaf.bytes);
            if va >= range.end {
                return Ok(());
            }
        }
    }

    /// Whether compute can be made in a channel.
    pub(super) fn has_context(&self, channel: &Channel) -> Result<(), u32> {
        let context = self.context_of(channel);
        let is_external = self.space(channel.space)?.external;
        let lacks = NEEDED.iter().find(|id| {
            let is_filled = context.filled.contains_key(*id) || ![MAIN, PATCH].contains(*id);
            let is_mapped = context.mapped.contains_key(&(channel.space, **id)) || is_external;
            !is_mapped || !is_filled
        });
        match lacks {
            None => Ok(()),
            Some(id) => {
                let what = format!("channel {:#x} lacks buffer {id}", channel.made.handle);
                self.refuse(&CONTEXT, status::NV_ERR_INVALID_STATE, what)
            }
        }
    }

    /// Whether a channel can be scheduled.
    pub(super) fn is_bound(&self, channel: &Channel) -> Result<(), u32> {
        let context = self.context_of(channel);
        if channel.made.engine != class::engine::GRAPHICS
            || context.filled.is_empty()
            || !self.space(channel.space)?.external
        {
            return Ok(());
        }
        let is_mapped = |id: u16| context.mapped.contains_key(&(channel.space, id));
        match NEEDED.iter().find(|id| !is_mapped(**id)) {
            None => Ok(()),
            Some(id) => {
                let what = format!("channel {:#x}: buffer {id}", channel.made.handle);
                self.refuse(&BOUND, status::NV_ERR_INVALID_STATE, what)
            }
        }
    }

    /// Whether there is an image of all contexts, with which another one begins.
    pub(super) fn has_image(&self, channel: &Channel) -> Result<(), u32> {
        match self.objects.has_image {
            true => Ok(()),
            false => {
                let what = format!("channel {:#x}", channel.made.handle);
                self.refuse(&FIRST, status::NV_ERR_INVALID_STATE, what)
            }
        }
    }

    /// What makes the image of all contexts, if there is none.
    pub(super) fn make_image(&mut self, channel: u32) -> Result<(), u32> {
        let channel = self.objects.get(self.client, channel);
        let Some(channel) = channel.and_then(super::Object::channel) else {
            return Err(status::NV_ERR_INVALID_OBJECT_PARENT);
        };
        let space = self.space(channel.space)?;
        if !self.objects.has_image && (space.external || !space.is_split) {
            let what = format!("channel {:#x}", channel.made.handle);
            return self.refuse(&IMAGE, status::NV_ERR_INVALID_STATE, what);
        }
        self.objects.has_image = true;
        Ok(())
    }

    /// A channel leaves its context. If no other one of its group has that in the same address space, the buffers are not used
    /// any more: until now they are mapped.
    pub(super) fn leave_context(&mut self, handle: u32) {
        let client = self.client;
        let object = self.objects.get(client, handle);
        let Some(channel) = object.and_then(super::Object::channel) else {
            return;
        };
        let (group, space) = (channel.made.group, channel.space);
        let has = |one: &Channel| {
            let made = &one.made;
            let is_mate = made.client == client && made.group == group && made.handle != handle;
            group.is_some() && is_mate && one.space == space && !one.is_stopped
        };
        if self.objects.channels().any(has) {
            return;
        }
        let found = self.objects.get(client, space).map(|object| &object.kind);
        let root = match found {
            Some(Kind::Space(space)) => space.root,
            _ => None,
        };
        let mapped = self.forget_mapped((client, group.unwrap_or(handle)), space);
        let Some(root) = root else {
            return;
        };
        for (id, va) in mapped {
            let range = va..va.saturating_add(facts::buffer(id));
            if let Err(why) = self.pages(root, range, |_, _| Ok(())) {
                let what = format!("channel {handle:#x}: buffer {id}: {why}");
                self.state.journal.broken(&LEFT, what);
            }
        }
    }

    /// Takes the addresses that a context has in an address space: of which buffer, and where.
    fn forget_mapped(&mut self, holder: (u32, u32), space: u32) -> Vec<(u16, u64)> {
        let object = self.objects.all.get_mut(&holder);
        let context = match object.map(|object| &mut object.kind) {
            Some(Kind::Channel(channel)) => &mut channel.context,
            Some(Kind::Group(group)) => &mut group.context,
            _ => return Vec::new(),
        };
        let here = context.mapped.iter().filter(|(key, _)| key.0 == space);
        let here = here.map(|((_, id), va)| (*id, *va)).collect();
        context.mapped.retain(|key, _| key.0 != space);
        here
    }
}
