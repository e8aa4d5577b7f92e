//! What firmware makes for a driver that builds address spaces and channels by RPC: objects whose memory the driver gives by
//! physical addresses.
//!
//! Clients, devices, subdevices and what else is asked stay with the RM behind the kernel driver's model ([`super::rm`]); objects
//! here hang below those.
//!
//! - `space`: address spaces and their page directories; [`channel`]: groups, channels and what engines have in them;
//! - `memory`: memory that is given; `context`: the buffers of graphics; `facts`: what a driver asks before; `recovery`: channels
//!   that die; `debugger`: what is known of it.
//!
//! Source: OGKM 570.144, src/nvidia/src/kernel/gpu/fifo/kernel_channel.c, where RMCFG_FEATURE_PLATFORM_GSP is set;
//! src/nvidia/src/kernel/mem_mgr/gpu_vaspace.c; Linux, drivers/gpu/drm/nouveau/nvkm/subdev/gsp/rm/r535/{fifo,vmm,gr}.c, a client that
//! runs on cards.

mod channel;
mod context;
mod debugger;
mod facts;
mod memory;
mod recovery;
mod space;

use std::collections::BTreeMap;

use drivers_spec::nv::abi::{Branch, Struct};
use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::{class, status};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::rm::{Answer, Rm, answered};
use crate::engines;
use crate::kernel::Machine;
use crate::pci::memory::word;
use crate::pci::runner::Key;
use crate::pci::state::State;
use crate::rm::alloc::{self, is_channel, is_engine, is_usermode};
use channel::{Channel, Group};
pub(super) use facts::{GSP_VECTOR, notification};
pub(super) use memory::{PAGES, pages};
pub(super) use recovery::died;
use space::Space;

static MODELLED: Rule = Rule {
    name: "NV-RPC-OBJECT-NOT-MODELLED",
    text: "below address spaces and channels, only objects of engines, context shares and channels are made",
    source: "this twin: src/pci/gsp/objects/mod.rs",
    proof: Proof::Twin,
};

/// Every object that is here.
#[derive(Default)]
pub(super) struct Objects {
    /// By client and handle.
    all: BTreeMap<(u32, u32), Object>,
    /// Whether there is an image of contexts of graphics.
    has_image: bool,
}

/// An object.
struct Object {
    parent: u32,
    class: u32,
    /// Objects that it does not outlive, beside its parent.
    needs: Vec<u32>,
    kind: Kind,
}

/// What it is.
enum Kind {
    Space(Space),
    Group(Group),
    /// A subcontext: the handle of its address space.
    Share(u32),
    Channel(Box<Channel>),
    Plain,
}

/// A call of a client.
struct Call<'a> {
    state: &'a mut State,
    machine: &'a Machine,
    branch: Branch,
    objects: &'a mut Objects,
    client: u32,
}

/// Whether objects of a class are made here.
fn is_own(class: u32) -> bool {
    let own = [
        class::FERMI_VASPACE_A,
        class::KEPLER_CHANNEL_GROUP_A,
        class::FERMI_CONTEXT_SHARE_A,
        class::GT200_DEBUGGER,
    ];
    let named = own.iter().any(|one| one.number == class);
    named || is_channel(class) || is_engine(class) || is_usermode(class) || is_graphics(class)
}

/// Whether a class is one of 3D, which firmware is asked for to make the first context (nouveau's golden channel).
fn is_graphics(class: u32) -> bool {
    class > 0xc000 && class & 0xff == 0x97
}

/// That of a chip: AMPERE_B, ADA_A, HOPPER_A, BLACKWELL_B (open-gpu-doc, classes/3d).
fn graphics(arch: Arch) -> u32 {
    match arch {
        Arch::Ga10x => 0xc797,
        Arch::Ad10x => 0xc997,
        Arch::Gh100 => 0xcb97,
        _ => 0xce97,
    }
}

fn call<'a>(state: &'a mut State, rm: &'a mut Rm, client: u32) -> Call<'a> {
    Call {
        state,
        branch: rm.notes.machine.branch(),
        machine: &rm.notes.machine,
        objects: &mut rm.objects,
        client,
    }
}

/// The parameters of a payload.
fn parameters(payload: &[u8], head: usize, size: u32) -> Result<&[u8], u32> {
    let found = payload.get(head..head + size as usize);
    found.ok_or(status::NV_ERR_INVALID_PARAM_STRUCT)
}

/// GSP_RM_ALLOC.
pub(super) fn alloc(state: &mut State, rm: &mut Rm, payload: &[u8]) -> Answer {
    let [client, parent, handle, class, size] = [0, 4, 8, 12, 20].map(|at| word(payload, at));
    let given = parameters(payload, 0x20, size)?;
    let has = |handle: u32| rm.objects.all.contains_key(&(client, handle));
    if !is_own(class) && !has(parent) && !has(handle) {
        return rm.alloc(payload);
    }
    let mut call = call(state, rm, client);
    let result = call.alloc([parent, handle, class], given);
    answered(payload, 16, result.err().unwrap_or(status::NV_OK))
}

/// GSP_RM_CONTROL.
pub(super) fn control(state: &mut State, rm: &mut Rm, payload: &[u8]) -> Answer {
    let [client, object, cmd, size] = [0, 4, 8, 16].map(|at| word(payload, at));
    let mut given = parameters(payload, 0x18, size)?.to_vec();
    let is_here = rm.objects.all.contains_key(&(client, object));
    if !is_here && !facts::KNOWN.contains(&cmd) {
        return rm.control(payload);
    }
    let mut call = call(state, rm, client);
    let result = call.control(object, cmd, &mut given);
    let mut back = answered(payload, 12, result.err().unwrap_or(status::NV_OK))?;
    back[0x18..0x18 + given.len()].copy_from_slice(&given);
    Ok(back)
}

/// FREE.
pub(super) fn free(state: &mut State, rm: &mut Rm, payload: &[u8]) -> Answer {
    let [client, handle] = [0, 8].map(|at| word(payload, at));
    let is_here = rm.objects.all.contains_key(&(client, handle));
    let answer = match is_here {
        true => answered(payload, 12, status::NV_OK),
        false => rm.free(payload),
    };
    let mut call = call(state, rm, client);
    if is_here {
        call.free(handle);
    }
    call.sweep();
    answer
}

/// SET_PAGE_DIRECTORY, whose parameters are those of the control behind a head.
pub(super) fn set_page_directory(state: &mut State, rm: &mut Rm, payload: &[u8]) -> Answer {
    let mut call = call(state, rm, word(payload, 0));
    let given = parameters(payload, 0x10, 0x20)?;
    call.set_page_directory(word(payload, 4), given)?;
    Ok(payload.to_vec())
}

/// ALLOC_MEMORY.
pub(super) fn alloc_memory(state: &mut State, rm: &mut Rm, payload: &[u8]) -> Answer {
    let mut call = call(state, rm, word(payload, 0));
    call.alloc_memory(payload)?;
    Ok(payload.to_vec())
}

/// UNSET_PAGE_DIRECTORY.
pub(super) fn unset_page_directory(state: &mut State, rm: &mut Rm, payload: &[u8]) -> Answer {
    let mut call = call(state, rm, word(payload, 0));
    call.unset_page_directory(word(payload, 8))?;
    Ok(payload.to_vec())
}

/// A doorbell was rung: the channel that is meant, if it runs, and GPPut.
pub(super) fn rung(
    objects: &Objects,
    state: &State,
    token: u32,
) -> Result<Option<(Key, u32)>, Broken> {
    let channels = objects.all.values().filter_map(Object::channel);
    let mut meant = channels.filter(|channel| channel.doorbell() == token);
    let Some(channel) = meant.next() else {
        return Err((&engines::TOKEN, format!("token {token:#x}")));
    };
    if channel.is_dead {
        return Ok(None);
    }
    if !channel.may_run() {
        let what = format!("channel {:#x}", channel.made.handle);
        return Err((&engines::SCHEDULED, what));
    }
    Ok(channel.put(state)?.map(|put| (channel.key(), put)))
}

impl Object {
    fn channel(&self) -> Option<&Channel> {
        match &self.kind {
            Kind::Channel(channel) => Some(channel),
            _ => None,
        }
    }
}

impl Objects {
    fn get(&self, client: u32, handle: u32) -> Option<&Object> {
        self.all.get(&(client, handle))
    }

    fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.all.values().filter_map(Object::channel)
    }

    fn channels_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.all
            .values_mut()
            .filter_map(|object| match &mut object.kind {
                Kind::Channel(channel) => Some(&mut **channel),
                _ => None,
            })
    }
}

impl Call<'_> {
    /// Fails with a status, for a reason that has a name.
    fn refuse<T>(&self, rule: &'static Rule, status: u32, what: String) -> Result<T, u32> {
        self.state.journal.broken(rule, what);
        Err(status)
    }

    /// The class of an object, here or there.
    fn class_of(&self, handle: u32) -> Result<u32, u32> {
        if let Some(object) = self.objects.get(self.client, handle) {
            return Ok(object.class);
        }
        let state = self.machine.state();
        let found = state.object(self.client, handle).map(|found| found.class);
        drop(state);
        match found {
            Some(class) => Ok(class),
            None => {
                let what = format!(
                    "there is no object {handle:#x} in client {:#x}",
                    self.client
                );
                let none = status::NV_ERR_OBJECT_NOT_FOUND;
                self.refuse(&crate::rm::OBJECT, none, what)
            }
        }
    }

    /// An object of a class that has a number.
    fn of_class(&self, handle: u32, class: u32) -> Result<(), u32> {
        match self.class_of(handle)? {
            found if found == class => Ok(()),
            found => {
                let what = format!("object {handle:#x} is of class {found:#x}, not {class:#x}");
                self.refuse(
                    &crate::rm::control::CLASS,
                    status::NV_ERR_NOT_SUPPORTED,
                    what,
                )
            }
        }
    }

    /// Parameters of a struct.
    fn decode<T: Struct>(&self, given: &[u8], rule: &'static Rule) -> Result<T, u32> {
        T::decode(self.branch, given).or_else(|wrong| {
            let invalid = status::NV_ERR_INVALID_PARAM_STRUCT;
            self.refuse(rule, invalid, wrong.to_string())
        })
    }

    /// Whether parameters have a size.
    fn has_size(&self, given: &[u8], size: usize) -> Result<(), u32> {
        match given.len() == size {
            true => Ok(()),
            false => {
                let what = format!("{:#x} bytes, expected {size:#x}", given.len());
                let invalid = status::NV_ERR_INVALID_PARAM_STRUCT;
                self.refuse(&crate::rm::control::SIZE, invalid, what)
            }
        }
    }

    /// Whether a class may be made below a parent.
    fn below(&self, class: u32, parent: u32) -> Result<(), u32> {
        let found = self.class_of(parent)?;
        let is = |one: drivers_spec::nv::abi::Call| found == one.number;
        let fits = match class {
            _ if class == class::FERMI_CONTEXT_SHARE_A.number => is(class::KEPLER_CHANNEL_GROUP_A),
            _ if is_engine(class) || is_graphics(class) => is_channel(found),
            _ if is_channel(class) => is(class::NV01_DEVICE_0) || is(class::KEPLER_CHANNEL_GROUP_A),
            _ if is_usermode(class) => is(class::NV20_SUBDEVICE_0),
            _ => is(class::NV01_DEVICE_0),
        };
        match fits {
            true => Ok(()),
            false => {
                let what = format!("class {class:#x} below class {found:#x}");
                let invalid = status::NV_ERR_INVALID_OBJECT_PARENT;
                self.refuse(&alloc::PARENT, invalid, what)
            }
        }
    }

    /// Whether a handle names nothing yet.
    fn is_free(&self, handle: u32) -> Result<(), u32> {
        let taken = self.objects.get(self.client, handle).is_some()
            || self.machine.state().object(self.client, handle).is_some();
        match taken || handle == 0 {
            false => Ok(()),
            true => {
                let what = format!("handle {handle:#x} is taken, or none");
                let duplicate = status::NV_ERR_INSERT_DUPLICATE_NAME;
                self.refuse(&alloc::HANDLE, duplicate, what)
            }
        }
    }

    fn alloc(&mut self, [parent, handle, class]: [u32; 3], given: &[u8]) -> Result<(), u32> {
        let chip = self.state.config.chip.twin;
        if !is_own(class) {
            let what = format!("class {class:#x} {handle:#x} below {parent:#x}");
            let unsupported = status::NV_ERR_NOT_SUPPORTED;
            return self.refuse(&MODELLED, unsupported, what);
        }
        if !chip.has_class(class) && class != graphics(chip.arch) {
            let what = format!("{} has no class {class:#x}", chip.name);
            let invalid = status::NV_ERR_INVALID_CLASS;
            return self.refuse(&alloc::CLASS, invalid, what);
        }
        self.below(class, parent)?;
        self.is_free(handle)?;
        let (kind, needs) = match class {
            _ if class == class::FERMI_VASPACE_A.number => {
                (Kind::Space(self.new_space(given)?), Vec::new())
            }
            _ if class == class::KEPLER_CHANNEL_GROUP_A.number => {
                let group = self.new_group(given)?;
                let needs = vec![group.space];
                (Kind::Group(group), needs)
            }
            _ if class == class::FERMI_CONTEXT_SHARE_A.number => {
                let space = self.new_share(given)?;
                (Kind::Share(space), vec![space])
            }
            _ if class == class::GT200_DEBUGGER.number => {
                let compute = self.new_debugger(given)?;
                (Kind::Plain, vec![compute])
            }
            _ if is_channel(class) => {
                let (channel, needs) = self.new_channel(parent, handle, class, given)?;
                (Kind::Channel(Box::new(channel)), needs)
            }
            _ if is_engine(class) || is_graphics(class) => {
                self.new_engine(parent, class, given)?;
                if is_graphics(class) {
                    self.make_image(parent)?;
                }
                (Kind::Plain, Vec::new())
            }
            _ => (Kind::Plain, Vec::new()),
        };
        let object = Object {
            parent,
            class,
            needs,
            kind,
        };
        self.objects.all.insert((self.client, handle), object);
        Ok(())
    }

    fn control(&mut self, object: u32, cmd: u32, given: &mut [u8]) -> Result<(), u32> {
        use drivers_spec::nv::control as named;
        let is = |one: drivers_spec::nv::abi::Call| one.number == cmd;
        match cmd {
            facts::COPY_SERVER_RESERVED_PDES => self.copy_reserved(object, given),
            facts::SET_PAGE_DIRECTORY => self.set_page_directory(object, given),
            facts::UNSET_PAGE_DIRECTORY => {
                self.of_class(object, class::NV01_DEVICE_0.number)?;
                self.has_size(given, 8)?;
                self.unset_page_directory(word(given, 0))
            }
            facts::PROMOTE_CTX => self.promote(object, given),
            facts::PROMOTE_METHODS => self.promote_methods(object, given),
            _ if is(named::NVA06F_CTRL_CMD_BIND) || is(named::NVA06C_CTRL_CMD_BIND) => {
                self.bind(object, given)
            }
            _ if is(named::NVA06F_CTRL_CMD_GPFIFO_SCHEDULE)
                || is(named::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE) =>
            {
                self.schedule(object, given)
            }
            _ if is(named::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN) => {
                self.token(object, given)
            }
            _ if is(named::NV906F_CTRL_CMD_GET_MMU_FAULT_INFO) => self.mmu_fault(object, given),
            _ if is(named::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES) => {
                self.sm_states(object, given)
            }
            _ if is(named::NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES) => {
                self.clear_sm_states(object, given)
            }
            facts::STOP_CHANNEL => self.stop(object, given),
            facts::DISABLE_CHANNELS => self.disable(object, given),
            _ => self.fact(object, cmd, given),
        }
    }

    /// Frees an object with all that hangs on it.
    fn free(&mut self, handle: u32) {
        let client = self.client;
        let hangs = |(key, object): (&(u32, u32), &Object)| {
            let on = object.parent == handle || object.needs.contains(&handle);
            (key.0 == client && on).then_some(key.1)
        };
        while let Some(below) = self.objects.all.iter().find_map(hangs) {
            self.free(below);
        }
        self.leave_context(handle);
        let freed = self.objects.all.remove(&(client, handle));
        if let Some(Kind::Channel(channel)) = freed.map(|one| one.kind) {
            self.end(&channel);
        }
    }

    /// Frees what hung on objects that are not here and are gone.
    fn sweep(&mut self) {
        loop {
            let state = self.machine.state();
            let lost = self.objects.all.iter().find_map(|(key, object)| {
                let parent = object.parent;
                let there = self.objects.get(key.0, parent).is_some()
                    || state.object(key.0, parent).is_some();
                (!there).then_some(*key)
            });
            drop(state);
            let Some((client, handle)) = lost else {
                return;
            };
            self.client = client;
            self.free(handle);
        }
    }
}
