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
use crate::pci::mmu::table::{self, Version};

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
    text: "buffers whose addresses are promoted stay mapped until their group is freed, or their channel, if it has none",
    source: "OGKM, kernel_graphics_context.c, kgrctxUnmapAssociatedCtxBuffers_IMPL: they are unmapped with the context, which is the \
             group's",
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

/// Which buffers there are, `NV2080_CTRL_GPU_PROMOTE_CTX_BUFFER_ID_*`.
#[derive(Default)]
pub(super) struct Context {
    /// Promoted with addresses, and where these begin.
    mapped: BTreeMap<u16, u64>,
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
        context.mapped.extend(mapped.map(|one| (one.id, one.va)));
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
        let version = Version::of(self.state.config.chip);
        let mut done = 0;
        while done < least {
            let va = entry.va.saturating_add(done);
            let found = table::walk(version, root, va, &mut |_, place| {
                physical.long(place, "GSP, page tables")
            });
            let leaf = found.map_err(|cause| format!("{va:#x} is not mapped: {cause:?}"))?;
            if entry.id == MAIN && !leaf.privileged {
                return Err(format!("{va:#x} is mapped for everybody"));
            }
            let at = leaf.place.map(|place| place.plus(va % leaf.bytes));
            if let Some(meant) = meant
                && at != Some(meant.plus(done))
            {
                return Err(format!("{va:#x} is mapped to {at:x?}, not {meant}"));
            }
            done += leaf.bytes - va % leaf.bytes;
        }
        Ok(())
    }

    /// Whether compute can be made in a channel.
    pub(super) fn has_context(&self, channel: &Channel) -> Result<(), u32> {
        let context = self.context_of(channel);
        let is_external = self.space(channel.space)?.external;
        let lacks = NEEDED.iter().find(|id| {
            let is_filled = context.filled.contains_key(*id) || ![MAIN, PATCH].contains(*id);
            let is_mapped = context.mapped.contains_key(*id) || is_external;
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
        match NEEDED.iter().find(|id| !context.mapped.contains_key(*id)) {
            None => Ok(()),
            Some(id) => {
                let what = format!("channel {:#x}: buffer {id}", channel.made.handle);
                self.refuse(&BOUND, status::NV_ERR_INVALID_STATE, what)
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

    /// A context ends, in an address space: its buffers are still there.
    pub(super) fn end_context(&self, handle: u32, space: u32, context: &Context) {
        let object = self.objects.get(self.client, space);
        let Some(Kind::Space(space)) = object.map(|object| &object.kind) else {
            return;
        };
        let Some(root) = space.root else {
            return;
        };
        let physical = self.state.physical();
        let version = Version::of(self.state.config.chip);
        for (id, va) in &context.mapped {
            let found = table::walk(version, root, *va, &mut |_, place| {
                physical.long(place, "GSP, page tables")
            });
            if let Err(cause) = found {
                let what = format!("{handle:#x}: buffer {id} at {va:#x}: {cause:?}");
                self.state.journal.broken(&LEFT, what);
            }
        }
    }
}
