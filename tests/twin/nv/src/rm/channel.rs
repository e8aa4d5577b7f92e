//! Groups of channels, subcontexts, channels, and the objects that engines have in them.
//!
//! Source: open-gpu-kernel-modules 580.142, src/nvidia/src/kernel/gpu/fifo/{kernel_channel,
//! kernel_channel_group_api,kernel_ctxshare}.c, arch/volta/kernel_channel_gv100.c,
//! arch/hopper/kernel_fifo_gh100.c.

use std::sync::Arc;

use drivers_spec::nv::{class, control, escape, query, status};
use twin::rule::{Proof, Rule};

use crate::engines::Error;
use crate::errno::Result;
use crate::space::{Memory, Place};

use super::alloc::{New, is_channel};
use super::{Call, Kind, State};

pub(crate) static GROUP: Rule = Rule {
    name: "RM-GROUP-ENGINE",
    text: "a channel group is created for an engine of the GPU",
    source: "open-gpu-kernel-modules, kernel_channel_group_api.c, kchangrpapiConstruct: RM_ENGINE_TYPE_IS_VALID",
    proof: Proof::Sourced,
};

pub(crate) static SPACE: Rule = Rule {
    name: "RM-CHANNEL-SPACE",
    text: "a channel has a context share or an address space, not both; in a group it has no address space of its own, \
           and outside of a group it has no context share",
    source: "open-gpu-kernel-modules, kernel_channel.c, kchannelConstruct",
    proof: Proof::Sourced,
};

pub(crate) static SHARE: Rule = Rule {
    name: "RM-CHANNEL-SHARE",
    text: "a context share belongs to the channel's group, and either all channels of a group have one or none has",
    source: "open-gpu-kernel-modules, kernel_channel.c, kchannelConstruct: bLegacyMode, NV_ERR_INVALID_OBJECT_PARENT",
    proof: Proof::Sourced,
};

pub(crate) static ENGINE: Rule = Rule {
    name: "RM-CHANNEL-ENGINE",
    text: "the engine of a channel, if given, is that of its group",
    source: "open-gpu-kernel-modules, kernel_channel.c, kchannelConstruct: NV2080_ENGINE_TYPE_IS_VALID",
    proof: Proof::Sourced,
};

static USERD: Rule = Rule {
    name: "RM-CHANNEL-USERD",
    text: "USERD is 512 bytes of memory at a multiple of 512: RM truncates other offsets and does not check the length",
    source: "open-gpu-kernel-modules, kernel_channel_gv100.c, kchannelCreateUserdMemDesc: userdShift; mem_desc.c, memdescCreateSubMem; dev_ram.h, NV_RAMUSERD",
    proof: Proof::Sourced,
};

static USERD_PLACE: Rule = Rule {
    name: "RM-CHANNEL-USERD-PLACE",
    text: "from Hopper on, USERD in system memory requires a ring in system memory",
    source: "open-gpu-kernel-modules, kernel_fifo_gh100.c, kfifoCheckChannelAllocAddrSpaces",
    proof: Proof::Sourced,
};

static RING: Rule = Rule {
    name: "RM-CHANNEL-RING",
    text: "the number of entries of a ring is a power of two; the ring starts at a multiple of 8 and is mapped when the \
           channel is created",
    source: "open-gpu-kernel-modules, alloc/alloc_channel.h, gpFifoEntries; open-gpu-doc, manuals/volta/gv100/dev_pbdma.ref.txt, NV_PPBDMA_GP_BASE; that it is mapped so early is ours",
    proof: Proof::Guess,
};

pub(crate) static OBJECT: Rule = Rule {
    name: "RM-ENGINE-OBJECT",
    text: "a compute object is created in a graphics channel, a copy object in a channel of graphics or of a copy \
           engine; its parameters, if any, name such an engine: RM does not check them",
    source: "open-gpu-kernel-modules, channel_descendant.c, chandesConstruct: gpuGetClassByEngineAndClassId; kernel_ce_context.c",
    proof: Proof::Sourced,
};

static BOUND: Rule = Rule {
    name: "RM-SCHEDULE-REGISTERED",
    text: "a graphics channel in an address space that UVM owns is registered with UVM before it is scheduled",
    source: "open-gpu-kernel-modules, kernel_channel.c, kchannelIsSchedulable: bIsContextBound",
    proof: Proof::Sourced,
};

/// A group of channels.
pub(crate) struct Group {
    pub(crate) engine: u32,
    space: u64,
    pub(super) over: Option<u32>,
}

/// A subcontext of a group.
pub(crate) struct Share {
    space: u64,
    pub(super) over: Option<u32>,
}

/// A channel, as engines have to know it.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Its client, and its handle there.
    pub client: u32,
    /// See `client`.
    pub handle: u32,
    /// The group, if it is in one.
    pub group: Option<u32>,
    /// The GPU.
    pub gpu: usize,
    /// The class.
    pub class: u32,
    /// The engine.
    pub engine: u32,
    /// Its number on the runlist.
    pub id: u32,
    /// What the doorbell takes.
    pub token: u32,
    /// Where its ring is, for the GPU.
    pub ring: u64,
    /// Entries of the ring.
    pub entries: u32,
    /// Where USERD is.
    pub userd: Option<(Arc<Memory>, u64)>,
    /// Where errors are notified.
    pub notifier: Option<Arc<Memory>>,
    /// The number of its address space.
    pub space: u64,
    /// Whether UVM knows it.
    pub registered: bool,
    /// Whether the host runs it.
    pub scheduled: bool,
    /// What it died of.
    pub error: Option<Error>,
}

/// Bytes of the buffers that graphics needs for a channel. A number of this model's choice.
const BUFFERS: u64 = 32 << 20;

/// Bytes of USERD.
const USERD_BYTES: u64 = 512;

impl Call<'_> {
    /// KEPLER_CHANNEL_GROUP_A.
    pub(super) fn new_group(&self, state: &State, new: &New, gpu: usize) -> Result<Group> {
        let params = self.required::<class::ChannelGroupAlloc>(new)?;
        self.engine_of(gpu, params.engine_type)?;
        let (space, over) = self.space(state, new.client, new.parent, params.h_va_space)?;
        Ok(Group {
            engine: params.engine_type,
            space,
            over,
        })
    }

    fn engine_of(&self, gpu: usize, engine: u32) -> Result {
        let chip = self.machine.config.chips[gpu];
        if chip.engines().any(|one| one == engine) {
            return Ok(());
        }
        let what = format!("engine {engine:#x} of {}", chip.name);
        let invalid = status::NV_ERR_INVALID_ARGUMENT;
        self.machine.refuse(&GROUP, invalid, what)
    }

    /// FERMI_CONTEXT_SHARE_A.
    pub(super) fn new_share(&self, state: &State, new: &New) -> Result<Share> {
        let params = self.required::<class::CtxShareAlloc>(new)?;
        let device = self.object(state, new.client, new.parent)?.parent;
        let (space, over) = self.space(state, new.client, device, params.h_va_space)?;
        Ok(Share { space, over })
    }

    /// A channel, and what it needs to be there.
    pub(super) fn new_channel(
        &self,
        state: &mut State,
        new: &New,
        gpu: usize,
    ) -> Result<(Channel, Vec<u32>)> {
        let params = self.required::<class::ChannelAlloc>(new)?;
        let (share, own) = (params.h_context_share, params.h_va_space);
        let invalid = status::NV_ERR_INVALID_ARGUMENT;
        let refuse = |rule, status, what: String| self.machine.refuse(rule, status, what);
        if share != 0 && own != 0 {
            return refuse(&SPACE, invalid, "hContextShare and hVASpace".into());
        }
        let parent = self.object(state, new.client, new.parent)?;
        let mut needs = Vec::new();
        let (group, engine, space) = match &parent.kind {
            Kind::Group(_) if own != 0 => {
                return refuse(&SPACE, invalid, "hVASpace in a group".into());
            }
            Kind::Group(group) => {
                let space = self.space_in_group(state, new, share, group.space)?;
                (Some(new.parent), group.engine, space)
            }
            _ if share != 0 => {
                let what = "hContextShare outside of a group".into();
                return refuse(&SPACE, invalid, what);
            }
            _ => {
                self.engine_of(gpu, params.engine_type)?;
                let (space, over) = self.space(state, new.client, new.parent, own)?;
                needs.extend(over);
                (None, params.engine_type, space)
            }
        };
        needs.extend(Some(share).filter(|&share| share != 0));
        if params.engine_type != class::engine::NULL && params.engine_type != engine {
            let what = format!("engine {:#x} of {engine:#x}", params.engine_type);
            return refuse(&ENGINE, invalid, what);
        }
        let userd = self.userd(state, new, &params)?;
        let ring = self.ring(state, space, &params)?;
        let chip = self.machine.config.chips[gpu];
        let system = |place| place != Place::Local;
        if let (Some((userd, _)), Some(ring)) = (&userd, ring)
            && chip.userd_with_ring()
            && system(userd.place)
            && !system(ring)
        {
            let what = "USERD in system memory, a ring in local memory".into();
            return refuse(&USERD_PLACE, status::NV_ERR_NOT_SUPPORTED, what);
        }
        let notifier = match params.h_object_error {
            0 => None,
            handle => Some(self.memory(state, new.client, handle)?),
        };
        let runlist = chip.runlist(engine);
        let taken: Vec<u32> = state
            .channels()
            .filter(|one| one.gpu == gpu && chip.runlist(one.engine) == runlist)
            .map(|one| one.id)
            .collect();
        let id = (0..2048).find(|id| !taken.contains(id));
        let id = id.ok_or(crate::errno::Failure::Status(
            status::NV_ERR_INSUFFICIENT_RESOURCES,
        ))?;
        let channel = Channel {
            client: new.client,
            handle: new.handle,
            group,
            gpu,
            class: new.class,
            engine,
            id,
            token: id | runlist << 16 | chip.token_bits(),
            ring: params.gp_fifo_offset,
            entries: params.gp_fifo_entries,
            userd,
            notifier,
            space,
            registered: false,
            scheduled: false,
            error: None,
        };
        Ok((channel, needs))
    }

    /// The address space of a channel in a group.
    fn space_in_group(&self, state: &State, new: &New, share: u32, group: u64) -> Result<u64> {
        let invalid = status::NV_ERR_INVALID_ARGUMENT;
        let mut others = state.find(new.client, |object| {
            object.parent == new.parent && matches!(object.kind, Kind::Channel(_))
        });
        let with = |handle: u32| {
            let object = state.object(new.client, handle);
            object.is_some_and(|object| !object.needs.is_empty())
        };
        if let Some(other) = others.pop()
            && with(other) != (share != 0)
        {
            let what = format!("channel {other:#x} of the group does it the other way");
            return self.machine.refuse(&SHARE, invalid, what);
        }
        if share == 0 {
            return Ok(group);
        }
        let object = self.object(state, new.client, share)?;
        match &object.kind {
            Kind::Share(found) if object.parent == new.parent => Ok(found.space),
            Kind::Share(_) => {
                let what = format!("context share {share:#x} is that of another group");
                let invalid = status::NV_ERR_INVALID_OBJECT_PARENT;
                self.machine.refuse(&SHARE, invalid, what)
            }
            _ => self.no_object(new.client, share),
        }
    }

    /// USERD, which the client gives.
    fn userd(
        &self,
        state: &State,
        new: &New,
        params: &class::ChannelAlloc,
    ) -> Result<Option<(Arc<Memory>, u64)>> {
        let (handle, offset) = (params.h_userd_memory[0], params.userd_offset[0]);
        if handle == 0 {
            return Ok(None);
        }
        let memory = self.memory(state, new.client, handle)?;
        let end = offset.checked_add(USERD_BYTES);
        if !offset.is_multiple_of(USERD_BYTES) || end.is_none_or(|end| end > memory.bytes) {
            let what = format!("USERD at {offset:#x} of {:#x} bytes", memory.bytes);
            self.machine.broken(&USERD, what);
        }
        Ok(Some((memory, offset / USERD_BYTES * USERD_BYTES)))
    }

    /// Checks the ring, and says where it is.
    fn ring(
        &self,
        state: &State,
        space: u64,
        params: &class::ChannelAlloc,
    ) -> Result<Option<Place>> {
        let (at, entries) = (params.gp_fifo_offset, params.gp_fifo_entries);
        if !entries.is_power_of_two() || !at.is_multiple_of(8) {
            let what = format!("{entries} entries at {at:#x}");
            let invalid = status::NV_ERR_INVALID_ARGUMENT;
            return self.machine.refuse(&RING, invalid, what);
        }
        let space = state.spaces.get(&space);
        let bytes = u64::from(entries) * 8;
        let found = space.and_then(|space| {
            let target = space.translate(at, crate::space::Access::Read).ok();
            target.filter(|target| target.2 >= bytes)
        });
        if found.is_none() {
            let what = format!("{bytes:#x} bytes at {at:#x} are not mapped");
            self.machine.broken(&RING, what);
        }
        Ok(found.map(|(memory, _, _)| memory.place))
    }

    /// Compute or copies in a channel.
    pub(super) fn new_engine(&self, state: &State, new: &New, gpu: usize) -> Result {
        let Kind::Channel(channel) = &self.object(state, new.client, new.parent)?.kind else {
            return self.no_object(new.client, new.parent);
        };
        let graphics = channel.engine == class::engine::GRAPHICS;
        let chip = self.machine.config.chips[gpu];
        let what = format!(
            "class {:#x} in a channel of engine {:#x}",
            new.class, channel.engine
        );
        if new.class == chip.facts().compute.number {
            self.optional::<class::GrAlloc>(new)?;
            if !graphics {
                let invalid = status::NV_ERR_INVALID_CLASS;
                return self.machine.refuse(&OBJECT, invalid, what);
            }
        } else if let Some(params) = self.optional::<class::DmaCopyAlloc>(new)? {
            let asked = match params.version {
                0 => class::engine::COPY0 + params.engine_type,
                _ => params.engine_type,
            };
            let there = chip.engines().any(|engine| engine == asked);
            if !there || !(graphics || asked == channel.engine) {
                let what = format!("{what}, by its parameters {asked:#x}");
                self.machine.broken(&OBJECT, what);
            }
        }
        Ok(())
    }

    /// FIFO_GET_CHANNELLIST; what is no channel has the number of none.
    pub(super) fn channel_list(
        &self,
        state: &State,
        client: u32,
        params: &query::ChannelList,
    ) -> Result {
        if params.num_channels == 0 {
            return self.value("a list of 0 channels".into());
        }
        for i in 0..u64::from(params.num_channels) {
            let place = |list: u64| list.wrapping_add(i * 4);
            let mut handle = [0; 4];
            let memory = self.process.memory();
            memory.read(place(params.channel_handle_list), &mut handle)?;
            let handle = u32::from_le_bytes(handle);
            let id = match state.object(client, handle).map(|object| &object.kind) {
                Some(Kind::Channel(channel)) => channel.id,
                _ => u32::MAX,
            };
            memory.write(place(params.channel_list), &id.to_le_bytes())?;
        }
        Ok(())
    }

    /// GR_SET_CTXSW_PREEMPTION_MODE, of a channel or a group; the twin interrupts between instructions
    /// anyway.
    pub(super) fn preemption(
        &self,
        state: &State,
        client: u32,
        params: &query::PreemptionMode,
    ) -> Result {
        match self.object(state, client, params.h_channel)?.kind {
            Kind::Channel(_) | Kind::Group(_) => Ok(()),
            _ => self.no_object(client, params.h_channel),
        }
    }

    /// GR_GET_CTX_BUFFER_SIZE.
    pub(super) fn buffers(
        &self,
        state: &State,
        client: u32,
        params: &mut query::CtxBufferSize,
    ) -> Result {
        let object = self.object(state, client, params.h_channel)?;
        params.total_buffer_size = match &object.kind {
            Kind::Channel(channel) if channel.engine == class::engine::GRAPHICS => BUFFERS,
            Kind::Channel(_) => 0,
            _ => return self.no_object(client, params.h_channel),
        };
        Ok(())
    }

    /// GET_CLASS_ENGINEID, of an object in the channel that is asked.
    pub(super) fn class_engine(
        &self,
        state: &State,
        args: &escape::Control,
        params: &mut query::ClassEngineId,
    ) -> Result {
        let object = self.object(state, args.h_client, params.h_object)?;
        let channel = self.object(state, args.h_client, args.h_object)?;
        let (Kind::Channel(channel), true) = (&channel.kind, object.parent == args.h_object) else {
            return self.no_object(args.h_client, params.h_object);
        };
        (params.class_engine_id, params.class_id) = (object.class, object.class);
        params.engine_id = channel.engine;
        Ok(())
    }

    /// GPFIFO_SCHEDULE of a channel, or of every channel of a group.
    pub(super) fn schedule(
        &self,
        state: &mut State,
        client: u32,
        handle: u32,
        params: &control::GpfifoSchedule,
    ) -> Result {
        let object = self.object(state, client, handle)?;
        let channels = match is_channel(object.class) {
            true => vec![handle],
            false => state.find(client, |object| {
                object.parent == handle && matches!(object.kind, Kind::Channel(_))
            }),
        };
        for &handle in &channels {
            let Some(Kind::Channel(channel)) = state.object(client, handle).map(|o| &o.kind) else {
                continue;
            };
            let external = state.space_of(channel).is_some_and(|space| space.external);
            let graphics = channel.engine == class::engine::GRAPHICS;
            if external && graphics && !channel.registered {
                let what = format!("channel {handle:#x}");
                let invalid = status::NV_ERR_INVALID_STATE;
                return self.machine.refuse(&BOUND, invalid, what);
            }
        }
        for handle in channels {
            if let Some(channel) = state.channel_mut(client, handle) {
                channel.scheduled = params.enable != 0;
            }
        }
        Ok(())
    }
}
