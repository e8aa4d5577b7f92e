//! Pools of semaphores: system memory that every GPU of an address space has at one address, and the CPU
//! by mmap at the same.
//!
//! Source: open-gpu-kernel-modules 550.163.01, kernel-open/nvidia-uvm/{uvm_va_space,uvm_va_range,uvm}.c:
//! uvm_api_alloc_semaphore_pool, uvm_mmap.

use std::sync::Arc;

use drivers_spec::nv::{abi, status, uvm};
use twin::rule::{Proof, Rule};

use crate::client::{PAGE, Wanted};
use crate::contents::Contents;
use crate::errno::{Failure, Result};
use crate::kernel::{File, Process, Uvm};
use crate::rm::State;
use crate::space::{Mapping, Memory, Owner, Place, Rights};

use super::map::{MAP, OVERLAP, rights};
use super::{NOT_MODELLED, On};

static MMAP: Rule = Rule {
    name: "UVM-MMAP",
    text: "an initialized file of UVM is mapped at the address that equals its offset, shared, for reads and writes; a \
           semaphore pool as a whole",
    source: "open-gpu-kernel-modules, uvm.c, uvm_mmap: vm_pgoff, VM_SHARED|VM_READ|VM_WRITE, UVM_VA_RANGE_TYPE_SEMAPHORE_POOL",
    proof: Proof::Sourced,
};

impl On<'_> {
    pub(super) fn new_pool(&self, args: &uvm::AllocSemaphorePool) -> Result {
        let mut state = self.machine.state();
        let (base, length) = (args.base, args.length);
        let va = self.va(&mut state)?;
        self.check_range(base, length)?;
        let most = match self.machine.branch() {
            abi::Branch::R535 => 32,
            _ => args.per_gpu_attributes.len() as u64,
        };
        let invalid = status::NV_ERR_INVALID_ARGUMENT;
        if args.gpu_attributes_count > most {
            let what = format!("{} GPUs", args.gpu_attributes_count);
            return self.refuse(&MAP, invalid, what);
        }
        if va.overlaps(base, length) {
            let what = format!("{length:#x} bytes at {base:#x}");
            let in_use = status::NV_ERR_UVM_ADDRESS_IN_USE;
            return self.refuse(&OVERLAP, in_use, what);
        }
        let mut allowed = Vec::new();
        for one in &args.per_gpu_attributes[..args.gpu_attributes_count as usize] {
            let Some(rights) = rights(one.gpu_mapping_type) else {
                let what = format!("mapping type {}", one.gpu_mapping_type);
                return self.refuse(&MAP, invalid, what);
            };
            allowed.push((self.gpu(va, one.gpu_uuid)?, rights));
        }
        let no_memory = Failure::Status(status::NV_ERR_NO_MEMORY);
        let contents = Contents::zeros(length).map_err(|_| no_memory)?;
        let memory = Arc::new(Memory {
            id: state.number(),
            gpu: 0,
            place: Place::System,
            bytes: length,
            page: PAGE,
            writable: true,
            contents,
        });
        let va = self.va(&mut state)?;
        let pool = Pool { memory, allowed };
        let spaces: Vec<(usize, u64)> = va.spaces().collect();
        va.pools.insert(base, pool.clone());
        for (gpu, space) in spaces {
            pool.map(&mut state, base, gpu, space);
        }
        Ok(())
    }
}

impl On<'_> {
    /// MAP_DYNAMIC_PARALLELISM_REGION: addresses at which the GPU's scheduler of grids takes writes itself.
    /// Nothing is mapped: an access of an engine there is a fault, since such writes are not modelled.
    pub(super) fn reflect(&self, args: &uvm::MapDynamicParallelismRegion) -> Result {
        let mut state = self.machine.state();
        let (base, length) = (args.base, args.length);
        let va = self.va(&mut state)?;
        self.check_range(base, length)?;
        self.gpu_with_space(va, args.gpu_uuid)?;
        if va.overlaps(base, length) {
            let what = format!("{length:#x} bytes at {base:#x}");
            let in_use = status::NV_ERR_UVM_ADDRESS_IN_USE;
            return self.refuse(&OVERLAP, in_use, what);
        }
        va.reflected.insert(base, length);
        Ok(())
    }
}

/// A pool.
#[derive(Clone)]
pub(super) struct Pool {
    pub(super) memory: Arc<Memory>,
    /// What GPUs that were named may do; others may do everything.
    allowed: Vec<(usize, Rights)>,
}

impl Pool {
    /// Maps it in the address space of a GPU.
    pub(super) fn map(&self, state: &mut State, base: u64, gpu: usize, space: u64) {
        let named = self.allowed.iter().find(|one| one.0 == gpu);
        let rights = named.map_or(Rights::ReadWriteAtomic, |one| one.1);
        if let Some(space) = state.space_mut(space) {
            let mapping = Mapping {
                bytes: self.memory.bytes,
                memory: self.memory.clone(),
                offset: 0,
                rights,
                page: PAGE,
                owner: Owner::Uvm,
            };
            space.map(base, mapping);
        }
    }
}

impl Process {
    /// The pool that an mmap of a file of UVM maps.
    pub(crate) fn pool(&self, file: &File, wanted: &Wanted, offset: u64) -> Result<Arc<Memory>> {
        let machine = self.machine();
        let (at, bytes) = (wanted.address, wanted.bytes);
        let wrong = |what: &str| {
            let what = format!("{bytes:#x} bytes at {at:#x}: {what}");
            machine.reject(&MMAP, libc::EINVAL, what)
        };
        let number = match &*file.uvm() {
            Uvm::Space(number) => *number,
            _ => return wrong("the file is not initialized"),
        };
        let both = libc::PROT_READ | libc::PROT_WRITE;
        if at != offset || wanted.flags & libc::MAP_FIXED == 0 {
            return wrong("not at its offset");
        }
        if wanted.flags & libc::MAP_SHARED == 0 || wanted.protection & both != both {
            return wrong("not shared, for reads and writes");
        }
        let state = machine.state();
        let pools = state.uvm.get(&number).map(|va| &va.pools);
        match pools.and_then(|pools| pools.get(&at)) {
            Some(pool) if pool.memory.bytes == bytes => Ok(pool.memory.clone()),
            Some(_) => wrong("not the whole pool"),
            None => {
                drop(state);
                let what = format!("mmap of {bytes:#x} bytes of managed memory");
                machine.reject(&NOT_MODELLED, libc::EINVAL, what)
            }
        }
    }
}
