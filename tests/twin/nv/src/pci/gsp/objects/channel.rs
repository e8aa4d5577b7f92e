//! Groups of channels, subcontexts, channels, and the objects that engines have in them.
//!
//! Source: OGKM, kernel_channel.c; kernel_channel_group_api.c; kernel_fifo.c, kfifoChidMgrAllocChid_IMPL; alloc/
//! alloc_channel.h, NVOS04_FLAGS; ampere/ga100/dev_ram.h; Linux, nvkm/engine/fifo/gv100.c, gv100_chan_ramfc_write (what firmware writes into an instance block);
//! nvkm/subdev/gsp/rm/r535/fifo.c.

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::class::{self, ChannelAlloc};
use drivers_spec::nv::push::userd;
use drivers_spec::nv::{control, status};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::context;
use super::memory::{self, Given};
use super::{Call, Kind, facts};
use crate::engines;
use crate::engines::host;
use crate::pci::memory::{Aperture, Place, long, word};
use crate::pci::mmu::window;
use crate::pci::runner::{Key, Live};
use crate::pci::state::State;
use crate::rm::{alloc, channel as rules};

static ID: Rule = Rule {
    name: "NV-CHANNEL-ID",
    text: "the client chooses the number of a channel: USERD_INDEX_PAGE_FIXED with USERD_INDEX_PAGE_VALUE, eight channels a page, and \
           USERD_INDEX_VALUE, without USERD_INDEX_FIXED; it is below 2048 and free on the runlist",
    source: "OGKM, kernel_fifo.c, kfifoChidMgrAllocChid_IMPL: ChID has already been chosen by CPU-RM; bForceUserdPage, ownerGranularity; \
             alloc/alloc_channel.h, NVOS04_FLAGS_CHANNEL_USERD_INDEX",
    proof: Proof::Sourced,
};

static TYPE: Rule = Rule {
    name: "NV-CHANNEL-TYPE",
    text: "the flags of a channel have CHANNEL_TYPE PHYSICAL; its ring has a power of two of entries and starts at a multiple of 8",
    source: "OGKM, kernel_channel.c, kchannelConstruct_IMPL: We only support physical channels; alloc/alloc_channel.h, gpFifoEntries",
    proof: Proof::Sourced,
};

static ROOT: Rule = Rule {
    name: "NV-CHANNEL-SPACE",
    text: "an address space has a page directory of the client before a channel is made in it",
    source: "OGKM, gpu_vaspace.c, gvaspaceExternalRootDirCommit_IMPL: create subcontext only after SetPageDirectory; Linux, \
             nvkm/subdev/gsp/rm/r535/vmm.c, r535_mmu_promote_vmm",
    proof: Proof::Sourced,
};

static BIND: Rule = Rule {
    name: "NV-CHANNEL-BIND",
    text: "a channel is bound to an engine of its runlist",
    source: "OGKM, kernel_channel.c, kchannelCtrlCmdBind_IMPL, kchannelBindToRunlist_IMPL; Linux, nvkm/subdev/gsp/rm/r535/fifo.c",
    proof: Proof::Sourced,
};

static METHODS: Rule = Rule {
    name: "NV-GROUP-METHOD-BUFFERS",
    text: "a group that a client makes is told of its method buffers once, before a channel is made in it: \
           INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS, one for each of two runqueues, as large as CE_GET_FAULT_METHOD_BUFFER_SIZE says, \
           in memory that is there, apart from each other, with alignment 1 and without an address of BAR 2; mthdbufMem of its \
           channels is one of them",
    source: "OGKM, kernel_channel_group_api.c, kchangrpapiConstruct_IMPL; kernel_channel_group.c, kchangrpInit_IMPL: One per runqueue; \
             g_kernel_fifo_nvoc.h, kfifoGetNumRunqueues",
    proof: Proof::Sourced,
};

/// Runqueues, and bytes of the parameters of INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS: descriptions of 32 bytes, addresses of BAR 2,
/// how many.
const RUNQUEUES: usize = 2;
const METHODS_BYTES: usize = 0x58;

/// A group of channels.
pub(super) struct Group {
    pub(super) engine: u32,
    /// The handle of its address space.
    pub(super) space: u32,
    pub(super) context: context::Context,
    /// Where methods are kept that have faulted.
    methods: Option<[Place; RUNQUEUES]>,
}

/// A channel.
pub(super) struct Channel {
    /// As engines have to know it.
    pub(super) made: rules::Channel,
    pub(super) runlist: u32,
    /// The handle of its address space.
    pub(super) space: u32,
    pub(super) instance: Place,
    pub(super) userd: Place,
    pub(super) notifier: Option<Place>,
    pub(super) context: context::Context,
    pub(super) is_dead: bool,
    /// By STOP_CHANNEL: its context is not used any more.
    pub(super) is_stopped: bool,
    /// By FIFO_DISABLE_CHANNELS, until it is enabled again, or scheduled.
    is_disabled: bool,
    has_runlist_doorbell: bool,
}

/// How many numbers a runlist has: NV_CHRAM_CHANNEL__SIZE_1.
const CHANNELS: u32 = 2048;

impl Channel {
    pub(super) fn key(&self) -> Key {
        (self.runlist, self.made.id)
    }

    /// What its doorbell takes: NV_VIRTUAL_FUNCTION_DOORBELL_VECTOR 11:0, RUNLIST_ID 22:16; of Blackwell of consumers
    /// RUNLIST_DOORBELL 30:30, ENABLE (blackwell/gb202/dev_vm.h; kernel_fifo_gb202.c).
    pub(super) fn doorbell(&self) -> u32 {
        let enable = u32::from(self.has_runlist_doorbell) << 30;
        enable | self.runlist << 16 | self.made.id
    }

    /// Whether it is on its runlist.
    pub(super) fn may_run(&self) -> bool {
        self.made.scheduled && !self.is_disabled
    }

    /// GPPut, as USERD has it now; none where it is no index.
    pub(super) fn put(&self, state: &State) -> Result<Option<u32>, Broken> {
        let mut word = [0; 4];
        let place = self.userd.plus(userd::GP_PUT);
        if !state.physical().read(place, &mut word, "the host, USERD") {
            return Ok(None);
        }
        let (put, entries) = (u32::from_le_bytes(word), self.made.entries);
        match put < entries {
            true => Ok(Some(put)),
            false => Err((&engines::PUT, format!("GPPut {put} of {entries} entries"))),
        }
    }
}

/// What firmware writes into an instance block.
fn instance(given: &Given, root: Place, params: &ChannelAlloc) -> Vec<(Place, u64)> {
    let target = match given.userd.aperture {
        Aperture::Vram => 0,
        Aperture::Host => 2,
    };
    let size = u64::from(params.gp_fifo_entries.ilog2()) << 48;
    let words = [
        (0x8, given.userd.at | target),
        (0x10, 0xface),
        (0x48, params.gp_fifo_offset | size),
        (window::DIRECTORY, window::base(root)),
    ];
    let placed = words.map(|(at, word)| (given.instance.plus(at), word));
    placed.into()
}

impl Call<'_> {
    fn runlist(&self, engine: u32, rule: &'static Rule) -> Result<u32, u32> {
        let chip = self.state.config.chip.twin;
        match facts::engines(chip).any(|one| one == engine) {
            true => Ok(chip.runlist(engine)),
            false => {
                let what = format!("engine {engine:#x} of {}", chip.name);
                self.refuse(rule, status::NV_ERR_INVALID_ARGUMENT, what)
            }
        }
    }

    /// KEPLER_CHANNEL_GROUP_A.
    pub(super) fn new_group(&self, given: &[u8]) -> Result<Group, u32> {
        let params = self.decode::<class::ChannelGroupAlloc>(given, &alloc::SIZE)?;
        self.runlist(params.engine_type, &rules::GROUP)?;
        self.space(params.h_va_space)?;
        Ok(Group {
            engine: params.engine_type,
            space: params.h_va_space,
            context: context::Context::default(),
            methods: None,
        })
    }

    /// INTERNAL_PROMOTE_FAULT_METHOD_BUFFERS, of a group.
    pub(super) fn promote_methods(&mut self, handle: u32, given: &[u8]) -> Result<(), u32> {
        self.of_class(handle, class::KEPLER_CHANNEL_GROUP_A.number)?;
        self.has_size(given, METHODS_BYTES)?;
        let invalid = status::NV_ERR_INVALID_ARGUMENT;
        let count = word(given, 0x50);
        if count as usize != RUNQUEUES {
            let what = format!("{count} buffers of group {handle:#x}");
            return self.refuse(&METHODS, invalid, what);
        }
        let (one, other) = (self.methods_at(given, 0)?, self.methods_at(given, 0x20)?);
        let bytes = u64::from(memory::METHOD_BUFFER);
        let apart = one.at.abs_diff(other.at) >= bytes || one.aperture != other.aperture;
        let object = self.objects.all.get_mut(&(self.client, handle));
        let Some(Kind::Group(group)) = object.map(|object| &mut object.kind) else {
            return Err(status::NV_ERR_INVALID_OBJECT);
        };
        if !apart || group.methods.is_some() {
            let what = format!("group {handle:#x}: {one} and {other}, or once more");
            return self.refuse(&METHODS, invalid, what);
        }
        group.methods = Some([one, other]);
        Ok(())
    }

    /// A description of a method buffer: `NV2080_CTRL_INTERNAL_MEMDESC_INFO`.
    fn methods_at(&self, given: &[u8], at: usize) -> Result<Place, u32> {
        let (base, size) = (long(given, at), long(given, at + 8));
        let place = Place {
            aperture: match word(given, at + 0x18) {
                2 => Aperture::Vram,
                _ => Aperture::Host,
            },
            at: base,
        };
        let (alignment, cached) = (long(given, at + 0x10), word(given, at + 0x1c));
        // bar2Addr, behind both descriptions: of vGPU alone.
        let second = long(given, 0x40 + at / 4);
        let is_known = matches!(word(given, at + 0x18), 1 | 2) && alignment == 1 && cached <= 2;
        let is_there = base != 0 && self.state.physical().allows(place, size);
        let is_right = is_known && second == 0 && size >= u64::from(memory::METHOD_BUFFER);
        match is_right && is_there {
            true => Ok(place),
            false => {
                let what = format!(
                    "{size:#x} bytes at {place}, alignment {alignment:#x}, cpuCacheAttrib {cached:#x}, bar2Addr {second:#x}"
                );
                self.refuse(&METHODS, status::NV_ERR_INVALID_ARGUMENT, what)
            }
        }
    }

    /// Whether a new channel's method buffer is one of its group, if it has one.
    fn has_methods(&self, parent: u32, params: &ChannelAlloc) -> Result<(), u32> {
        let group = match self.objects.get(self.client, parent).map(|one| &one.kind) {
            Some(Kind::Group(group)) => group,
            _ => return Ok(()),
        };
        let base = params.mthdbuf_mem.base;
        match &group.methods {
            Some(all) if all.iter().any(|one| one.at == base) => Ok(()),
            all => {
                let what = format!("mthdbufMem at {base:#x}, group {parent:#x} has {all:x?}");
                self.refuse(&METHODS, status::NV_ERR_INVALID_STATE, what)
            }
        }
    }

    /// FERMI_CONTEXT_SHARE_A: the handle of its address space.
    pub(super) fn new_share(&self, given: &[u8]) -> Result<u32, u32> {
        let params = self.decode::<class::CtxShareAlloc>(given, &alloc::SIZE)?;
        self.space(params.h_va_space)?;
        Ok(params.h_va_space)
    }

    /// Engine and address space of a new channel, and what it does not outlive.
    fn surroundings(
        &self,
        parent: u32,
        params: &ChannelAlloc,
    ) -> Result<(u32, u32, Vec<u32>), u32> {
        let (share, own) = (params.h_context_share, params.h_va_space);
        let invalid = status::NV_ERR_INVALID_ARGUMENT;
        let group = match self.objects.get(self.client, parent).map(|one| &one.kind) {
            Some(Kind::Group(group)) => Some(group),
            _ => None,
        };
        let together = share != 0 && own != 0;
        if together || group.is_some() && own != 0 || group.is_none() && share != 0 {
            let what = format!("hContextShare {share:#x}, hVASpace {own:#x}");
            return self.refuse(&rules::SPACE, invalid, what);
        }
        let Some(group) = group else {
            return Ok((params.engine_type, own, vec![own]));
        };
        let mut others = self.objects.channels();
        let differs = others.any(|other| {
            let is_mate = other.made.client == self.client && other.made.group == Some(parent);
            is_mate && other.made.registered != (share != 0)
        });
        if differs {
            let what = format!("hContextShare {share:#x}: another channel does it the other way");
            return self.refuse(&rules::SHARE, invalid, what);
        }
        if params.engine_type != class::engine::NULL && params.engine_type != group.engine {
            let what = format!("engine {:#x} of {:#x}", params.engine_type, group.engine);
            return self.refuse(&rules::ENGINE, invalid, what);
        }
        if share == 0 {
            return Ok((group.engine, group.space, vec![group.space]));
        }
        match self.objects.get(self.client, share) {
            Some(object) if object.parent == parent => match object.kind {
                Kind::Share(space) => Ok((group.engine, space, vec![share, space])),
                _ => self.refuse(&rules::SHARE, invalid, format!("{share:#x} is none")),
            },
            _ => {
                let what = format!("{share:#x} is no context share of the group");
                self.refuse(&rules::SHARE, status::NV_ERR_INVALID_OBJECT_PARENT, what)
            }
        }
    }

    /// The number of a new channel.
    fn id(&self, runlist: u32, flags: u32) -> Result<u32, u32> {
        let (index, page) = (flags >> 8 & 7, flags >> 12 & 0x1ff);
        let is_taken = |id: u32| {
            let mut channels = self.objects.channels();
            channels.any(|other| other.key() == (runlist, id))
        };
        let id = page * 8 + index;
        let what = format!("flags {flags:#x}, channel {id} of runlist {runlist}");
        match (flags >> 21 & 1, flags >> 11 & 1) {
            (1, 0) if id < CHANNELS && !is_taken(id) => Ok(id),
            (1, 0) if id < CHANNELS => self.refuse(&ID, status::NV_ERR_NO_MEMORY, what),
            (1, 0) => self.refuse(&ID, status::NV_ERR_INVALID_PARAMETER, what),
            (1, _) => self.refuse(&ID, status::NV_ERR_INVALID_STATE, what),
            _ => {
                self.state.journal.broken(&ID, what);
                let free = (0..CHANNELS).find(|id| !is_taken(*id));
                free.ok_or(status::NV_ERR_NO_MEMORY)
            }
        }
    }

    /// A channel, and what it does not outlive.
    pub(super) fn new_channel(
        &mut self,
        parent: u32,
        handle: u32,
        class: u32,
        given: &[u8],
    ) -> Result<(Channel, Vec<u32>), u32> {
        let params = self.decode::<ChannelAlloc>(given, &alloc::SIZE)?;
        let entries = params.gp_fifo_entries;
        if params.flags & 3 != 0 {
            let what = format!("flags {:#x}", params.flags);
            return self.refuse(&TYPE, status::NV_ERR_NOT_SUPPORTED, what);
        }
        if !entries.is_power_of_two() || !params.gp_fifo_offset.is_multiple_of(8) {
            let what = format!("{entries} entries at {:#x}", params.gp_fifo_offset);
            return self.refuse(&TYPE, status::NV_ERR_INVALID_ARGUMENT, what);
        }
        let (engine, space, needs) = self.surroundings(parent, &params)?;
        let runlist = self.runlist(engine, &rules::ENGINE)?;
        let Some(root) = self.space(space)?.root else {
            let what = format!("address space {space:#x}");
            return self.refuse(&ROOT, status::NV_ERR_INVALID_STATE, what);
        };
        let chip = self.state.config.chip.twin;
        let copies = facts::engines(chip)
            .any(|one| one != class::engine::GRAPHICS && chip.runlist(one) == runlist);
        let memory = self.given(&params, copies)?;
        self.has_methods(parent, &params)?;
        let id = self.id(runlist, params.flags)?;
        let is_own = self.objects.get(self.client, parent).is_some();
        let made = rules::Channel {
            client: self.client,
            handle,
            group: is_own.then_some(parent),
            gpu: 0,
            class,
            engine,
            id,
            // What firmware says of it: see `token`.
            token: id,
            ring: params.gp_fifo_offset,
            entries,
            userd: None,
            notifier: None,
            // Page directories tell address spaces apart.
            space: root.at,
            // Here: whether it has a context share.
            registered: params.h_context_share != 0,
            scheduled: false,
            error: None,
        };
        let words = instance(&memory, root, &params);
        let physical = self.state.physical();
        for (place, word) in &words {
            physical.write(*place, &word.to_le_bytes(), "GSP, an instance block");
        }
        let live = Live {
            engine: made.engine,
            channel: host::Channel::new(&made, chip),
            physical,
            tlb: self.state.tlb.clone(),
            root,
            userd: memory.userd,
            instance: words,
            put: 0,
            active: false,
            dead: false,
        };
        self.state.runner.add((runlist, id), live);
        let channel = Channel {
            made,
            runlist,
            space,
            instance: memory.instance,
            userd: memory.userd,
            notifier: memory.notifier,
            context: context::Context::default(),
            is_dead: false,
            is_stopped: false,
            is_disabled: false,
            has_runlist_doorbell: chip.arch == Arch::Gb20x,
        };
        Ok((channel, needs))
    }

    /// A channel ends.
    pub(super) fn end(&mut self, channel: &Channel) {
        let may_run = channel.may_run();
        self.state.runner.remove(channel.key(), may_run);
    }

    /// The channels of a handle: itself, or those of a group.
    fn channels_of(&mut self, handle: u32) -> Result<Vec<&mut Channel>, u32> {
        self.class_of(handle)?;
        let client = self.client;
        let all = self.objects.channels_mut();
        let own = all.filter(|channel| {
            let made = &channel.made;
            made.client == client && (made.handle == handle || made.group == Some(handle))
        });
        Ok(own.collect())
    }

    /// BIND.
    pub(super) fn bind(&mut self, handle: u32, given: &[u8]) -> Result<(), u32> {
        self.has_size(given, 4)?;
        let runlist = self.runlist(word(given, 0), &BIND)?;
        let channels = self.channels_of(handle)?;
        let other = channels
            .iter()
            .find(|channel| channel.runlist != runlist)
            .map(|channel| channel.runlist);
        match other {
            None => Ok(()),
            Some(other) => {
                let what = format!("an engine of runlist {runlist}, a channel of {other}");
                self.refuse(&BIND, status::NV_ERR_INVALID_ARGUMENT, what)
            }
        }
    }

    /// GPFIFO_SCHEDULE.
    pub(super) fn schedule(&mut self, handle: u32, given: &[u8]) -> Result<(), u32> {
        let rule = &crate::rm::control::SIZE;
        let params = self.decode::<control::GpfifoSchedule>(given, rule)?;
        let enable = params.enable != 0;
        let all = self.channels_of(handle)?;
        let keys: Vec<_> = all.iter().map(|one| one.made.handle).collect();
        for key in keys.into_iter().filter(|_| enable) {
            let object = self.objects.get(self.client, key);
            if let Some(channel) = object.and_then(super::Object::channel) {
                self.is_bound(channel)?;
            }
        }
        for channel in self.channels_of(handle)? {
            channel.made.scheduled = enable;
            if enable {
                (channel.is_stopped, channel.is_disabled) = (false, false);
            }
        }
        Ok(())
    }

    /// FIFO_DISABLE_CHANNELS, of a subdevice: channels of any client.
    pub(super) fn disable(&mut self, subdevice: u32, given: &[u8]) -> Result<(), u32> {
        self.of_class(subdevice, class::NV20_SUBDEVICE_0.number)?;
        let rule = &crate::rm::control::SIZE;
        let params = self.decode::<control::DisableChannels>(given, rule)?;
        let count = params.num_channels as usize;
        let named = params.h_client_list.iter().zip(&params.h_channel_list);
        if count > params.h_channel_list.len() {
            let what = format!("{count} channels");
            let invalid = status::NV_ERR_INVALID_ARGUMENT;
            return self.refuse(&crate::rm::control::VALUE, invalid, what);
        }
        for (client, handle) in named.take(count) {
            let meant = |one: &&mut Channel| {
                let made = &one.made;
                (made.client, made.handle) == (*client, *handle)
            };
            let Some(channel) = self.objects.channels_mut().find(meant) else {
                let what = format!("there is no channel {handle:#x} of client {client:#x}");
                let none = status::NV_ERR_OBJECT_NOT_FOUND;
                return self.refuse(&crate::rm::OBJECT, none, what);
            };
            channel.is_disabled = params.disable != 0;
        }
        Ok(())
    }

    /// STOP_CHANNEL.
    pub(super) fn stop(&mut self, handle: u32, given: &[u8]) -> Result<(), u32> {
        self.has_size(given, 1)?;
        let mut stopped = Vec::new();
        for channel in self.channels_of(handle)? {
            (channel.made.scheduled, channel.is_stopped) = (false, true);
            stopped.push(channel.made.handle);
        }
        stopped.into_iter().for_each(|one| self.leave_context(one));
        Ok(())
    }

    /// GPFIFO_GET_WORK_SUBMIT_TOKEN: firmware has its own tokens, without a runlist (tinygrad adds it, Linux makes tokens itself).
    pub(super) fn token(&mut self, handle: u32, given: &mut [u8]) -> Result<(), u32> {
        self.has_size(given, 4)?;
        let tokens: Vec<u32> = self
            .channels_of(handle)?
            .iter()
            .map(|channel| channel.made.token)
            .collect();
        let token = tokens.first().ok_or(status::NV_ERR_INVALID_OBJECT)?;
        given.copy_from_slice(&token.to_le_bytes());
        Ok(())
    }

    /// Compute, 3D or copies in a channel.
    pub(super) fn new_engine(&self, parent: u32, class: u32, given: &[u8]) -> Result<(), u32> {
        let object = self.objects.get(self.client, parent);
        let Some(channel) = object.and_then(super::Object::channel) else {
            return Err(status::NV_ERR_INVALID_OBJECT_PARENT);
        };
        let chip = self.state.config.chip.twin;
        let engine = channel.made.engine;
        let what = format!("class {class:#x} in a channel of engine {engine:#x}");
        if class == chip.facts().copy.number {
            if given.is_empty() {
                return Ok(());
            }
            let params = self.decode::<class::DmaCopyAlloc>(given, &alloc::SIZE)?;
            let asked = match params.version {
                0 => class::engine::COPY0 + params.engine_type,
                _ => params.engine_type,
            };
            let is_there = facts::engines(chip).any(|one| one == asked);
            if !is_there || chip.runlist(asked) != channel.runlist {
                let what = format!("{what}, by its parameters {asked:#x}");
                return self.refuse(&rules::OBJECT, status::NV_ERR_INVALID_ARGUMENT, what);
            }
            return Ok(());
        }
        if engine != class::engine::GRAPHICS {
            return self.refuse(&rules::OBJECT, status::NV_ERR_INVALID_CLASS, what);
        }
        if !given.is_empty() {
            self.decode::<class::GrAlloc>(given, &alloc::SIZE)?;
        }
        self.has_context(channel)?;
        match class == chip.facts().compute.number {
            true => self.has_image(channel),
            false => Ok(()),
        }
    }

    /// The context of a channel: its own, or its group's.
    pub(super) fn context_of<'a>(&'a self, channel: &'a Channel) -> &'a context::Context {
        let group = channel.made.group;
        let object = group.and_then(|group| self.objects.get(self.client, group));
        match object.map(|object| &object.kind) {
            Some(Kind::Group(group)) => &group.context,
            _ => &channel.context,
        }
    }
}
