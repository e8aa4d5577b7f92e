//! UVM: one address space across GPUs, into which memory of RM is mapped.
//!
//! - `register`: GPUs, their address spaces and channels; `map`: ranges, and memory in them.
//!
//! Source: open-gpu-kernel-modules 580.142, kernel-open/nvidia-uvm/{uvm,uvm_va_space,uvm_map_external,
//! uvm_user_channel}.c, uvm_api.h.

mod group;
mod map;
mod pool;
mod register;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use drivers_spec::nv::abi::{self, Struct};
use drivers_spec::nv::{status, uvm};
use twin::rule::{Proof, Rule};

use crate::client::PAGE;
use crate::errno::{Failure, Result};
use crate::kernel::{File, Machine, Process, Uvm};
use crate::rm::{self, State};
use crate::space::Owner;

static COMMAND: Rule = Rule {
    name: "UVM-COMMAND",
    text: "the branch has the UVM command",
    source: "open-gpu-kernel-modules, uvm.c, uvm_ioctl",
    proof: Proof::Sourced,
};

static NOT_MODELLED: Rule = Rule {
    name: "UVM-NOT-MODELLED",
    text: "the twin models the UVM command; managed memory is not modelled",
    source: "this twin: src/uvm/mod.rs",
    proof: Proof::Twin,
};

static INITIALIZE: Rule = Rule {
    name: "UVM-INITIALIZE",
    text: "a file of UVM is initialized once, with valid flags, before any other command",
    source: "open-gpu-kernel-modules, uvm_api.h, UVM_ROUTE_CMD_STACK_INIT_CHECK; uvm.c, uvm_api_initialize",
    proof: Proof::Sourced,
};

static MM: Rule = Rule {
    name: "UVM-MM",
    text: "a second file holds the memory of the process (MM_INITIALIZE with the first one), once, before address spaces are registered, and stays open",
    source: "open-gpu-kernel-modules, uvm.c, uvm_api_mm_initialize; uvm_va_space.c, uvm_va_space_register_gpu_va_space: NV_ERR_PAGE_TABLE_NOT_AVAIL",
    proof: Proof::Sourced,
};

static GPU: Rule = Rule {
    name: "UVM-GPU",
    text: "a GPU is registered once by its UUID before it is used, and has an address space registered before anything is mapped or run there",
    source: "open-gpu-kernel-modules, uvm_va_space.c, uvm_va_space_register_gpu, check_gpu_va_space: NV_ERR_INVALID_DEVICE",
    proof: Proof::Sourced,
};

static RANGE: Rule = Rule {
    name: "UVM-RANGE",
    text: "a range has a nonzero address and a length, both multiples of 4 KiB, and does not wrap",
    source: "open-gpu-kernel-modules, uvm_api.h, uvm_api_range_invalid_aligned",
    proof: Proof::Sourced,
};

static PEER: Rule = Rule {
    name: "UVM-PEER",
    text: "peer access of two GPUs is enabled once, before one maps local memory of the other",
    source: "open-gpu-kernel-modules, uvm_map_external.c, set_ext_gpu_map_location; uvm_va_space.c, uvm_api_enable_peer_access",
    proof: Proof::Sourced,
};

/// An address space across GPUs: a file.
pub(crate) struct Va {
    flags: u64,
    memory: Holder,
    /// GPUs, with the address space of each.
    gpus: BTreeMap<usize, Option<u64>>,
    /// External ranges: first address and length.
    ranges: BTreeMap<u64, u64>,
    peers: BTreeSet<(usize, usize)>,
    channels: Vec<Registered>,
    /// Groups of ranges of managed memory, of which there is none.
    groups: BTreeSet<u64>,
    /// Pools of semaphores, by address.
    pools: BTreeMap<u64, pool::Pool>,
    /// Addresses of the scheduler of grids: first address and length.
    reflected: BTreeMap<u64, u64>,
}

/// Who holds the memory of the process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    Nobody,
    File,
    /// The file has been closed: nothing new can begin.
    Gone,
}

/// A channel, with the addresses for its buffers.
struct Registered {
    client: u32,
    handle: u32,
    /// Client and handle of its group.
    group: Option<(u32, u32)>,
    gpu: usize,
    base: u64,
    length: u64,
}

/// What INITIALIZE may be asked: that no memory of the process is held (several processes).
const MULTI_PROCESS: u64 = 2;

impl Va {
    /// Every range and pool: first address and length.
    fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self.ranges.iter().chain(&self.reflected);
        let external = all.map(|(&at, &bytes)| (at, bytes));
        external.chain(self.pools.iter().map(|(&at, pool)| (at, pool.memory.bytes)))
    }

    /// What it holds, as text.
    pub(crate) fn objects(&self) -> Vec<String> {
        let gpus = self.gpus.iter().map(|(gpu, space)| {
            let with = if space.is_some() {
                ", with an address space"
            } else {
                ""
            };
            format!("UVM: GPU {gpu}{with}")
        });
        let ranges = self.ranges();
        let ranges = ranges.map(|(at, bytes)| format!("UVM: range of {bytes:#x} bytes at {at:#x}"));
        let channels = self.channels.iter();
        let channels = channels
            .map(|one| format!("UVM: channel {:#x} of client {:#x}", one.handle, one.client));
        let peers = self
            .peers
            .iter()
            .map(|(a, b)| format!("UVM: GPUs {a} and {b} are peers"));
        let groups = self
            .groups
            .iter()
            .map(|group| format!("UVM: group {group} of ranges"));
        gpus.chain(ranges)
            .chain(channels)
            .chain(peers)
            .chain(groups)
            .collect()
    }

    /// GPUs that have an address space here, with that.
    fn spaces(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let all = self.gpus.iter();
        all.filter_map(|(&gpu, space)| Some((gpu, (*space)?)))
    }

    fn overlaps(&self, base: u64, length: u64) -> bool {
        let hits = |at: u64, bytes: u64| at < base + length && base < at + bytes;
        let mut windows = self.channels.iter();
        self.ranges().any(|(at, bytes)| hits(at, bytes))
            || windows.any(|one| hits(one.base, one.length))
    }

    /// The same for buffers of a channel, which the channels of a group share
    /// (uvm_user_channel.c, find_existing_shared_user_range).
    fn overlaps_window(&self, base: u64, length: u64, group: Option<(u32, u32)>) -> bool {
        let hits = |at: u64, bytes: u64| at < base + length && base < at + bytes;
        let shared = |one: &Registered| group.is_some() && one.group == group;
        let mut windows = self.channels.iter().filter(|one| !shared(one));
        self.ranges().any(|(at, bytes)| hits(at, bytes))
            || windows.any(|one| hits(one.base, one.length))
    }
}

/// A channel has been freed: it is registered no more.
pub(crate) fn forget_channel(state: &mut State, client: u32, handle: u32) {
    for va in state.uvm.values_mut() {
        va.channels
            .retain(|one| (one.client, one.handle) != (client, handle));
    }
}

impl State {
    /// The file of an address space is closed.
    pub(crate) fn end_uvm(&mut self, space: u64) {
        let Some(va) = self.uvm.remove(&space) else {
            return;
        };
        for &space in va.gpus.values().flatten() {
            if let Some(space) = self.space_mut(space) {
                space.unmap_all(0, u64::MAX, Owner::Uvm);
            }
        }
        for one in va.channels {
            if let Some(channel) = self.channel_mut(one.client, one.handle) {
                channel.registered = false;
                channel.scheduled = false;
            }
        }
        self.sweep();
    }

    /// The file that holds the memory of the process is closed.
    pub(crate) fn end_uvm_memory(&mut self, space: u64) {
        if let Some(va) = self.uvm.get_mut(&space) {
            va.memory = Holder::Gone;
        }
    }

    /// Whether UVM has an address space of RM.
    pub(crate) fn held_by_uvm(&self, space: u64) -> bool {
        let mut all = self.uvm.values();
        all.any(|va| va.gpus.values().flatten().any(|&one| one == space))
    }
}

/// A struct of UVM, with where its status is.
trait Answered: Struct {
    fn status(&mut self) -> &mut u32;
}

macro_rules! answered {
    ($($ty:ident)*) => {$(
        impl Answered for uvm::$ty {
            fn status(&mut self) -> &mut u32 {
                &mut self.rm_status
            }
        }
    )*};
}

answered! {
    Initialize MmInitialize RegisterGpu UnregisterGpu RegisterGpuVaspace UnregisterGpuVaspace
    RegisterChannel UnregisterChannel EnablePeerAccess DisablePeerAccess CreateExternalRange
    MapExternalAllocation UnmapExternal Free ValidateVaRange PageableMemAccess CreateRangeGroup
    DestroyRangeGroup AllocSemaphorePool MapDynamicParallelismRegion
}

impl Process {
    /// An ioctl on `/dev/nvidia-uvm`: the request is the command.
    pub(crate) fn uvm(&self, file: &Arc<File>, request: u32, at: u64) -> Result {
        let machine = self.machine();
        let Some(call) = abi::find(uvm::COMMANDS, machine.branch(), request) else {
            let what = format!("command {request:#x}");
            return machine.reject(&COMMAND, libc::EINVAL, what);
        };
        let (name, is) = (call.name, |one: abi::Call| one.number == call.number);
        machine
            .journal
            .event(format!("process {}: {name}", self.id()));
        if is(uvm::INITIALIZE) {
            return self.respond(name, at, |args| self.initialize(file, args));
        }
        if is(uvm::MM_INITIALIZE) {
            return self.respond(name, at, |args| self.mm_initialize(file, args));
        }
        if is(uvm::DEINITIALIZE) {
            return machine.inject(name);
        }
        let number = match &*file.uvm() {
            Uvm::Space(number) => Some(*number),
            _ => None,
        };
        let on = On { machine, number };
        match call.number {
            _ if is(uvm::REGISTER_GPU) => self.respond(name, at, |a| on.register_gpu(a)),
            _ if is(uvm::UNREGISTER_GPU) => self.respond(name, at, |a| on.unregister_gpu(a)),
            _ if is(uvm::REGISTER_GPU_VASPACE) => {
                self.respond(name, at, |args| on.register_space(args))
            }
            _ if is(uvm::UNREGISTER_GPU_VASPACE) => {
                self.respond(name, at, |args| on.unregister_space(args))
            }
            _ if is(uvm::REGISTER_CHANNEL) => {
                self.respond(name, at, |args| on.register_channel(args))
            }
            _ if is(uvm::UNREGISTER_CHANNEL) => {
                self.respond(name, at, |args| on.unregister_channel(args))
            }
            _ if is(uvm::ENABLE_PEER_ACCESS) => {
                self.respond(name, at, |args: &mut uvm::EnablePeerAccess| {
                    on.peers(args.gpu_uuid_a, args.gpu_uuid_b, true)
                })
            }
            _ if is(uvm::DISABLE_PEER_ACCESS) => {
                self.respond(name, at, |args: &mut uvm::DisablePeerAccess| {
                    on.peers(args.gpu_uuid_a, args.gpu_uuid_b, false)
                })
            }
            _ if is(uvm::CREATE_EXTERNAL_RANGE) => {
                self.respond(name, at, |args| on.create_range(args))
            }
            _ if is(uvm::CREATE_RANGE_GROUP) => self.respond(name, at, |args| on.new_group(args)),
            _ if is(uvm::DESTROY_RANGE_GROUP) => self.respond(name, at, |args| on.end_group(args)),
            _ if is(uvm::MAP_DYNAMIC_PARALLELISM_REGION) => {
                self.respond(name, at, |args| on.reflect(args))
            }
            _ if is(uvm::ALLOC_SEMAPHORE_POOL) => self.respond(name, at, |args| on.new_pool(args)),
            _ if is(uvm::MAP_EXTERNAL_ALLOCATION) => self.respond(name, at, |a| on.map(a)),
            _ if is(uvm::UNMAP_EXTERNAL) => self.respond(name, at, |args| on.unmap(args)),
            _ if is(uvm::FREE) => self.respond(name, at, |args| on.free(args)),
            _ if is(uvm::VALIDATE_VA_RANGE) => {
                self.respond(name, at, |args: &mut uvm::ValidateVaRange| {
                    on.check_range(args.base, args.length)
                })
            }
            _ if is(uvm::PAGEABLE_MEM_ACCESS) => {
                self.respond(name, at, |args: &mut uvm::PageableMemAccess| {
                    args.pageable_mem_access = 0;
                    Ok(())
                })
            }
            _ => machine.reject(&NOT_MODELLED, libc::EINVAL, name.to_string()),
        }
    }

    /// A command that answers with a status.
    fn respond<T: Answered>(
        &self,
        name: &str,
        at: u64,
        run: impl FnOnce(&mut T) -> Result,
    ) -> Result {
        let mut args = self.get::<T>(at)?;
        let done = match self.machine().inject(name) {
            Ok(()) => run(&mut args),
            failed => failed,
        };
        *args.status() = match done {
            Ok(()) => status::NV_OK,
            Err(Failure::Status(status)) => status,
            Err(Failure::Errno(errno)) => return Err(errno.into()),
        };
        self.put(at, &args)
    }

    fn initialize(&self, file: &File, args: &uvm::Initialize) -> Result {
        let machine = self.machine();
        let mut state = machine.state();
        let mut now = file.uvm();
        let invalid = status::NV_ERR_INVALID_ARGUMENT;
        match &*now {
            Uvm::New if args.flags & !3 == 0 => {
                let number = state.number();
                let va = Va {
                    flags: args.flags,
                    memory: Holder::Nobody,
                    gpus: BTreeMap::new(),
                    ranges: BTreeMap::new(),
                    peers: BTreeSet::new(),
                    channels: Vec::new(),
                    groups: BTreeSet::new(),
                    pools: BTreeMap::new(),
                    reflected: BTreeMap::new(),
                };
                state.uvm.insert(number, va);
                *now = Uvm::Space(number);
                Ok(())
            }
            Uvm::Space(number) if state.uvm.get(number).map(|va| va.flags) == Some(args.flags) => {
                Ok(())
            }
            _ => {
                let what = format!("flags {:#x}", args.flags);
                machine.refuse(&INITIALIZE, invalid, what)
            }
        }
    }

    fn mm_initialize(&self, file: &Arc<File>, args: &uvm::MmInitialize) -> Result {
        let machine = self.machine();
        let refuse = |status, what: &str| machine.refuse(&MM, status, what.to_string());
        let invalid = status::NV_ERR_INVALID_ARGUMENT;
        let first = self.file(args.uvm_fd).ok();
        let first = first.filter(|first| !Arc::ptr_eq(first, file));
        let Some((first, number)) = first.and_then(|first| {
            let number = match &*first.uvm() {
                Uvm::Space(number) => Some(*number),
                _ => None,
            };
            Some((first, number?))
        }) else {
            return refuse(invalid, "uvmFd is no initialized file of UVM");
        };
        let mut state = machine.state();
        let Some(va) = state.uvm.get_mut(&number) else {
            return refuse(invalid, "uvmFd has no address space");
        };
        if va.flags & MULTI_PROCESS != 0 {
            return Err(Failure::Status(status::NV_WARN_NOTHING_TO_DO));
        }
        match va.memory {
            Holder::File => return refuse(status::NV_ERR_INVALID_STATE, "a file holds it"),
            Holder::Gone => {
                let gone = status::NV_ERR_PAGE_TABLE_NOT_AVAIL;
                return refuse(gone, "the file that held it was closed");
            }
            Holder::Nobody => {}
        }
        let mut now = file.uvm();
        if !matches!(*now, Uvm::New) {
            return refuse(status::NV_ERR_INVALID_STATE, "the file is initialized");
        }
        va.memory = Holder::File;
        *now = Uvm::Memory(number, first);
        Ok(())
    }
}

/// A command on an address space, if the file has one.
struct On<'a> {
    machine: &'a Machine,
    number: Option<u64>,
}

impl On<'_> {
    fn refuse<T>(&self, rule: &'static Rule, status: u32, what: String) -> Result<T> {
        self.machine.refuse(rule, status, what)
    }

    /// The address space of the file.
    fn va<'s>(&self, state: &'s mut State) -> Result<&'s mut Va> {
        match self.number.and_then(|number| state.uvm.get_mut(&number)) {
            Some(va) => Ok(va),
            None => {
                let illegal = status::NV_ERR_ILLEGAL_ACTION;
                self.refuse(&INITIALIZE, illegal, "the file is not initialized".into())
            }
        }
    }

    /// The GPU of a UUID.
    fn by_uuid(&self, uuid: [u8; 16]) -> Option<usize> {
        let mut all = 0..self.machine.config.chips.len();
        all.find(|&gpu| rm::uuid(self.machine, gpu) == uuid)
    }

    /// A GPU that is registered.
    fn gpu(&self, va: &Va, uuid: [u8; 16]) -> Result<usize> {
        let found = self.by_uuid(uuid).filter(|gpu| va.gpus.contains_key(gpu));
        match found {
            Some(gpu) => Ok(gpu),
            None => {
                let what = format!("UUID {uuid:02x?} is not registered");
                self.refuse(&GPU, status::NV_ERR_INVALID_DEVICE, what)
            }
        }
    }

    /// A GPU that has an address space here, and which.
    fn gpu_with_space(&self, va: &Va, uuid: [u8; 16]) -> Result<(usize, u64)> {
        let gpu = self.gpu(va, uuid)?;
        match va.gpus.get(&gpu).copied().flatten() {
            Some(space) => Ok((gpu, space)),
            None => {
                let what = format!("GPU {gpu} has no address space registered");
                self.refuse(&GPU, status::NV_ERR_INVALID_DEVICE, what)
            }
        }
    }

    fn check_range(&self, base: u64, length: u64) -> Result {
        let whole = base.is_multiple_of(PAGE) && length.is_multiple_of(PAGE);
        if whole && base != 0 && length != 0 && base.checked_add(length).is_some() {
            return Ok(());
        }
        let what = format!("{length:#x} bytes at {base:#x}");
        self.refuse(&RANGE, status::NV_ERR_INVALID_ADDRESS, what)
    }
}
