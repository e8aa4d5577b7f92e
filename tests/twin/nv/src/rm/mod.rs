//! The resource manager: trees of objects, one for each client.
//!
//! - `alloc`: how an object comes to be: what is checked for every class;
//! - `memory`: memory and its mappings; `vaspace`: address spaces; [`channel`]: groups and channels;
//! - `control`, `system`, `facts`, `sensors`: what objects are asked; `event`: what they tell; `recovery`: channels that
//!   die.
//!
//! Source: open-gpu-kernel-modules 580.142, src/nvidia/src/libraries/resserv, src/nvidia/src/kernel/rmapi.

pub(crate) mod alloc;
pub mod channel;
pub(crate) mod control;
mod event;
pub(crate) mod facts;
pub(crate) mod memory;
pub(crate) mod recovery;
mod reservation;
mod sensors;
mod system;
pub(crate) mod vaspace;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drivers_spec::nv::{escape, status};
use twin::rule::{Proof, Rule};

use crate::config::Config;
use crate::errno::Result;
use crate::kernel::{Machine, Process, Wake};
use crate::space::{Memory, Owner, Space};
use crate::uvm;

use channel::{Channel, Group, Share};

pub(crate) use alloc::New;
pub(crate) use control::{bars, gpu_id, uuid};

static CLIENT: Rule = Rule {
    name: "RM-CLIENT",
    text: "a client exists and is used on the control file that created it, or on files registered with that file",
    source: "open-gpu-kernel-modules, src/nvidia/src/kernel/rmapi/client.c, rmclientValidate: pOSInfo",
    proof: Proof::Sourced,
};

pub(crate) static OBJECT: Rule = Rule {
    name: "RM-OBJECT",
    text: "a handle names an existing object",
    source: "open-gpu-kernel-modules, src/nvidia/src/libraries/resserv/src/rs_client.c, clientGetResourceRef",
    proof: Proof::Sourced,
};

/// The handle of the first client. RM's own are below.
const FIRST_CLIENT: u32 = 0xc1d0_0000;

/// The first handle that RM chooses in a client.
const FIRST_CHOSEN: u32 = 0xcaf0_0000;

/// What RM and UVM hold, on all GPUs.
pub struct State {
    pub(crate) clients: BTreeMap<u32, Client>,
    /// Address spaces by number.
    pub(crate) spaces: BTreeMap<u64, Arc<Space>>,
    /// Address spaces of UVM by number.
    pub(crate) uvm: BTreeMap<u64, uvm::Va>,
    /// Bytes of local memory in use, by GPU.
    pub(crate) used: Vec<u64>,
    events: event::Events,
    /// Channels that are gone since somebody asked.
    ended: Vec<(u32, u32)>,
    /// By GPU, the client and the subdevice that have reserved it.
    reserved: Vec<Option<(u32, u32)>>,
    /// By GPU, what it measures.
    sensors: Vec<sensors::Sensors>,
    next: u64,
}

/// A client: the root of a tree.
pub(crate) struct Client {
    /// The control file that it was made on.
    file: u64,
    /// The process that made it.
    pid: u32,
    objects: BTreeMap<u32, Object>,
    next: u32,
}

/// An object.
pub(crate) struct Object {
    pub(crate) parent: u32,
    pub(crate) class: u32,
    pub(crate) gpu: Option<usize>,
    pub(crate) kind: Kind,
    /// Objects that it does not outlive, beside its parent.
    pub(crate) needs: Vec<u32>,
}

/// What an object is.
pub(crate) enum Kind {
    /// A client, a subdevice, a debugger and others that hold nothing.
    Plain,
    /// A GPU for a client, with an address space of its own.
    Device(u64),
    Space(u64),
    Group(Group),
    Share(Share),
    Channel(Box<Channel>),
    Memory(Arc<Memory>),
    /// Addresses, which RM_MAP_MEMORY_DMA fills.
    Range(memory::Range),
    Event(event::Event),
}

/// A call of a process on a file.
pub(crate) struct Call<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) process: &'a Process,
    /// The file.
    pub(crate) file: u64,
    /// What `poll` on the file waits for.
    pub(crate) wake: &'a Arc<Wake>,
    /// The control file that the file stands for: itself, or the one it is registered with.
    pub(crate) control: u64,
}

impl State {
    pub(crate) fn new(config: &Config) -> State {
        State {
            clients: BTreeMap::new(),
            spaces: BTreeMap::new(),
            uvm: BTreeMap::new(),
            used: vec![0; config.chips.len()],
            events: event::Events::default(),
            ended: Vec::new(),
            reserved: reservation::at_first(config),
            sensors: config.chips.iter().map(|_| Default::default()).collect(),
            next: 1,
        }
    }

    /// A number that nothing else has.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Every channel.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        let objects = self.clients.values().flat_map(|c| c.objects.values());
        objects.filter_map(|object| match &object.kind {
            Kind::Channel(channel) => Some(&**channel),
            _ => None,
        })
    }

    /// Client and handle of the channels that are gone since the last time.
    pub(crate) fn take_ended(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.ended)
    }

    /// The address space of a channel.
    pub fn space_of(&self, channel: &Channel) -> Option<&Arc<Space>> {
        self.spaces.get(&channel.space)
    }

    /// An address space that is about to change. Who has looked at it keeps what he saw.
    pub(crate) fn space_mut(&mut self, number: u64) -> Option<&mut Space> {
        self.spaces.get_mut(&number).map(Arc::make_mut)
    }

    /// The handles of every object of every client, with those of their clients.
    pub fn handles(&self) -> Vec<(u32, u32)> {
        let all = self.clients.iter();
        all.flat_map(|(&client, c)| c.objects.keys().map(move |&object| (client, object)))
            .collect()
    }

    /// Client, handle and class of what belongs to clients that were made on some files.
    pub(crate) fn objects_of(&self, files: &BTreeSet<u64>) -> Vec<(u32, u32, u32)> {
        let clients = self
            .clients
            .iter()
            .filter(|(_, client)| files.contains(&client.file));
        let all = clients.flat_map(|(&client, one)| {
            let objects = one.objects.iter();
            objects.map(move |(&handle, object)| (client, handle, object.class))
        });
        all.collect()
    }

    /// Whether nothing is held: no client, no address space, nothing of UVM.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.spaces.is_empty() && self.uvm.is_empty()
    }

    /// Bytes of local memory in use on a GPU.
    pub fn local_in_use(&self, gpu: usize) -> u64 {
        self.used[gpu]
    }

    /// An object, if it is there.
    pub(crate) fn object(&self, client: u32, handle: u32) -> Option<&Object> {
        self.clients.get(&client)?.objects.get(&handle)
    }

    pub(crate) fn object_mut(&mut self, client: u32, handle: u32) -> Option<&mut Object> {
        self.clients.get_mut(&client)?.objects.get_mut(&handle)
    }

    pub(crate) fn channel_mut(&mut self, client: u32, handle: u32) -> Option<&mut Channel> {
        match &mut self.object_mut(client, handle)?.kind {
            Kind::Channel(channel) => Some(channel),
            _ => None,
        }
    }

    /// Handles of a client whose objects fit, in order.
    pub(crate) fn find(&self, client: u32, fits: impl Fn(&Object) -> bool) -> Vec<u32> {
        let objects = self.clients.get(&client).into_iter();
        let all = objects.flat_map(|c| c.objects.iter());
        all.filter(|(_, object)| fits(object))
            .map(|(&handle, _)| handle)
            .collect()
    }

    /// Frees an object with all that hangs on it: what is below, and what needs it.
    pub(crate) fn free(&mut self, client: u32, handle: u32) {
        let hangs = |object: &Object| object.parent == handle || object.needs.contains(&handle);
        while let Some(&below) = self.find(client, hangs).iter().find(|&&h| h != handle) {
            self.free(client, below);
        }
        let objects = self.clients.get_mut(&client).map(|c| &mut c.objects);
        if let Some(object) = objects.and_then(|objects| objects.remove(&handle)) {
            self.end(client, handle, object);
        }
        if client == handle {
            self.clients.remove(&client);
        }
    }

    /// What the end of one object means for others.
    fn end(&mut self, client: u32, handle: u32, object: Object) {
        self.events.forget(client, handle);
        self.unreserve(client, handle);
        self.unwanted(client, handle);
        match object.kind {
            Kind::Device(_) | Kind::Space(_) => self.sweep(),
            Kind::Range(range) => {
                if let Some(space) = self.space_mut(range.space) {
                    space.unmap_all(0, u64::MAX, Owner::Rm(range.number));
                }
            }
            Kind::Memory(memory) => {
                for space in self.spaces.values_mut().map(Arc::make_mut) {
                    let of_it = |owner| matches!(owner, Owner::Rm(_));
                    let found = space.mappings().filter(|(_, mapping)| {
                        mapping.memory.id == memory.id && of_it(mapping.owner)
                    });
                    let found: Vec<u64> = found.map(|(at, _)| at).collect();
                    for at in found {
                        space.unmap(at);
                    }
                }
                memory::count(self);
            }
            Kind::Channel(_) => {
                self.ended.push((client, handle));
                uvm::forget_channel(self, client, handle);
            }
            Kind::Plain | Kind::Group(_) | Kind::Share(_) | Kind::Event(_) => {}
        }
    }

    /// Drops address spaces that neither an object nor UVM has.
    pub(crate) fn sweep(&mut self) {
        let objects = self.clients.values().flat_map(|c| c.objects.values());
        let held: Vec<u64> = objects
            .filter_map(|object| match object.kind {
                Kind::Device(space) | Kind::Space(space) => Some(space),
                _ => None,
            })
            .collect();
        let all: Vec<u64> = self.spaces.keys().copied().collect();
        for space in all {
            if !held.contains(&space) && !self.held_by_uvm(space) {
                self.spaces.remove(&space);
            }
        }
        memory::count(self);
    }

    /// Frees the clients and events that were made on a file.
    pub(crate) fn free_clients_of(&mut self, file: u64) {
        self.events.forget_file(file);
        for client in self.clients_of(&[file]) {
            self.free(client, client);
        }
    }

    /// The clients of files.
    pub(crate) fn clients_of(&self, files: &[u64]) -> Vec<u32> {
        let all = self.clients.iter();
        let own = all.filter(|(_, client)| files.contains(&client.file));
        own.map(|(&handle, _)| handle).collect()
    }
}

impl Call<'_> {
    /// A client that this file may use.
    pub(crate) fn client(&self, state: &State, client: u32) -> Result {
        let what = match state.clients.get(&client) {
            Some(found) if found.file == self.control => return Ok(()),
            Some(_) => format!("client {client:#x} is that of another control file"),
            None => format!("there is no client {client:#x}"),
        };
        self.machine
            .refuse(&CLIENT, status::NV_ERR_INVALID_CLIENT, what)
    }

    /// An object of a client.
    pub(crate) fn object<'s>(
        &self,
        state: &'s State,
        client: u32,
        handle: u32,
    ) -> Result<&'s Object> {
        match state.object(client, handle) {
            Some(object) => Ok(object),
            None => self.no_object(client, handle),
        }
    }

    /// Says that an object is not there, or not what it should be.
    pub(crate) fn no_object<T>(&self, client: u32, handle: u32) -> Result<T> {
        let what = format!("there is no object {handle:#x} of that kind in client {client:#x}");
        self.machine
            .refuse(&OBJECT, status::NV_ERR_OBJECT_NOT_FOUND, what)
    }

    /// Memory of a client.
    pub(crate) fn memory(&self, state: &State, client: u32, handle: u32) -> Result<Arc<Memory>> {
        match &self.object(state, client, handle)?.kind {
            Kind::Memory(memory) => Ok(memory.clone()),
            _ => self.no_object(client, handle),
        }
    }

    /// RM_UNMAP_MEMORY, of what `munmap` takes away.
    pub(crate) fn memory_is_there(&self, client: u32, handle: u32) -> Result {
        let state = self.machine.state();
        self.client(&state, client)?;
        self.object(&state, client, handle).map(drop)
    }

    /// RM_UPDATE_DEVICE_MAPPING_INFO: a mapping is at another address now; RM has it by the old one.
    pub(crate) fn moved(&self, args: &escape::UpdateDeviceMappingInfo) -> Result {
        let state = self.machine.state();
        self.client(&state, args.h_client)?;
        self.object(&state, args.h_client, args.h_device)?;
        self.object(&state, args.h_client, args.h_memory).map(drop)
    }

    /// RM_DUP_OBJECT, of memory: the same memory with another handle, in this client or another one of the
    /// process.
    pub(crate) fn dup(&self, args: &mut escape::DupObject) -> Result {
        let mut state = self.machine.state();
        self.client(&state, args.h_client)?;
        let memory = self.memory(&state, args.h_client_src, args.h_object_src)?;
        let source = self.object(&state, args.h_client_src, args.h_object_src)?;
        let mut new = New {
            client: args.h_client,
            parent: args.h_parent,
            handle: args.h_object,
            class: source.class,
            params: 0,
            size: 0,
        };
        self.placed(&mut state, &mut new)?;
        let object = Object {
            parent: new.parent,
            class: new.class,
            gpu: self.object(&state, new.client, new.parent)?.gpu,
            kind: Kind::Memory(memory),
            needs: Vec::new(),
        };
        self.insert(&mut state, new.client, new.handle, object);
        args.h_object = new.handle;
        Ok(())
    }

    /// RM_FREE.
    pub(crate) fn free(&self, client: u32, handle: u32) -> Result {
        let mut state = self.machine.state();
        self.client(&state, client)?;
        self.object(&state, client, handle)?;
        state.free(client, handle);
        Ok(())
    }
}
