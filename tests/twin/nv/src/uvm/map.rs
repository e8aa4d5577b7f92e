//! Ranges of addresses, and memory of RM in them.
//!
//! Source: open-gpu-kernel-modules 580.142, kernel-open/nvidia-uvm/{uvm_map_external,uvm_va_range}.c.

use std::collections::{BTreeMap, BTreeSet};

use drivers_spec::nv::chip::Arch;
use drivers_spec::nv::{abi, status, uvm};
use twin::rule::{Proof, Rule};

use crate::client::PAGE;
use crate::errno::Result;
use crate::rm;
use crate::space::{Mapping, Memory, Owner, Place, Rights};

use super::{GPU, On, PEER, Va};

pub(super) static OVERLAP: Rule = Rule {
    name: "UVM-RANGE-OVERLAP",
    text: "ranges do not overlap",
    source: "open-gpu-kernel-modules, uvm.h, UvmCreateExternalRange: NV_ERR_UVM_ADDRESS_IN_USE",
    proof: Proof::Sourced,
};

static FREE: Rule = Rule {
    name: "UVM-FREE",
    text: "a range is freed as a whole",
    source: "open-gpu-kernel-modules, uvm_free: NV_ERR_INVALID_ADDRESS",
    proof: Proof::Sourced,
};

pub(super) static MAP: Rule = Rule {
    name: "UVM-MAP",
    text: "a mapping is within one external range, for at least 1 GPU that has such addresses (below 2^47 up to Ada, \
           below 2^56 from Hopper on, as an x86 program has them), with valid types",
    source: "open-gpu-kernel-modules, uvm_map_external.c, uvm_map_external_allocation; uvm_gpu.c, uvm_gpu_can_address",
    proof: Proof::Sourced,
};

static MAP_LENGTH: Rule = Rule {
    name: "UVM-MAP-LENGTH",
    text: "offset and length are within the mapped memory and start at a page",
    source: "open-gpu-kernel-modules, nv_gpu_ops.c, nvGpuOpsBuildExternalAllocPtes; uvm_map_external.c, uvm_map_external_allocation_on_gpu: smallest_alignment",
    proof: Proof::Sourced,
};

/// What a type of mapping allows.
pub(super) fn rights(kind: u32) -> Option<Rights> {
    match kind {
        uvm::mapping::DEFAULT | uvm::mapping::READ_WRITE_ATOMIC => Some(Rights::ReadWriteAtomic),
        uvm::mapping::READ_WRITE => Some(Rights::ReadWrite),
        uvm::mapping::READ_ONLY => Some(Rights::ReadOnly),
        _ => None,
    }
}

impl On<'_> {
    pub(super) fn create_range(&self, args: &uvm::CreateExternalRange) -> Result {
        let (base, length) = (args.base, args.length);
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        self.check_range(base, length)?;
        if va.overlaps(base, length) {
            let what = format!("{length:#x} bytes at {base:#x}");
            let in_use = status::NV_ERR_UVM_ADDRESS_IN_USE;
            return self.refuse(&OVERLAP, in_use, what);
        }
        va.ranges.insert(base, length);
        Ok(())
    }

    /// Checks that a range lies in an external one.
    fn within(&self, va: &Va, base: u64, length: u64) -> Result {
        self.check_range(base, length)?;
        let range = va.ranges.range(..=base).next_back();
        if range.is_some_and(|(at, bytes)| base + length <= at + bytes) {
            return Ok(());
        }
        let what = format!("{length:#x} bytes at {base:#x} are not in one range");
        self.refuse(&MAP, status::NV_ERR_INVALID_ADDRESS, what)
    }

    pub(super) fn map(&self, args: &uvm::MapExternalAllocation) -> Result {
        let mut state = self.machine.state();
        let (base, length) = (args.base, args.length);
        let va = self.va(&mut state)?;
        self.within(va, base, length)?;
        let invalid = status::NV_ERR_INVALID_ARGUMENT;
        let most = match self.machine.branch() {
            abi::Branch::R535 => 32,
            _ => args.per_gpu_attributes.len() as u64,
        };
        if args.gpu_attributes_count == 0 || args.gpu_attributes_count > most {
            let what = format!("{} GPUs", args.gpu_attributes_count);
            return self.refuse(&MAP, invalid, what);
        }
        let count = args.gpu_attributes_count as usize;
        let mut wanted = Vec::new();
        for one in &args.per_gpu_attributes[..count] {
            let Some(rights) = rights(one.gpu_mapping_type) else {
                let what = format!("mapping type {}", one.gpu_mapping_type);
                return self.refuse(&MAP, invalid, what);
            };
            if one.gpu_caching_type > 2 {
                let what = format!("caching type {}", one.gpu_caching_type);
                return self.refuse(&MAP, invalid, what);
            }
            let (gpu, space) = self.gpu_with_space(va, one.gpu_uuid)?;
            let bits = match self.machine.config.chips[gpu].arch {
                arch if arch < Arch::Gh100 => 47,
                _ => 56,
            };
            if base + (length - 1) >= 1 << bits {
                let what = format!("{length:#x} bytes at {base:#x} on GPU {gpu}");
                return self.refuse(&MAP, status::NV_ERR_OUT_OF_RANGE, what);
            }
            wanted.push((gpu, space, rights));
        }
        let (gpus, peers) = (va.gpus.clone(), va.peers.clone());
        let found = state.object(args.h_client, args.h_memory);
        let Some(rm::Kind::Memory(memory)) = found.map(|object| &object.kind) else {
            let what = format!("{:#x} is no memory", args.h_memory);
            return self.refuse(&MAP, status::NV_ERR_OBJECT_NOT_FOUND, what);
        };
        let memory = memory.clone();
        for &(gpu, _, _) in &wanted {
            self.reach(&gpus, &peers, gpu, &memory)?;
        }
        let end = args.offset.checked_add(length);
        let wrong = match () {
            _ if !args.offset.is_multiple_of(PAGE) => Some(status::NV_ERR_INVALID_ADDRESS),
            _ if args.offset >= memory.bytes => Some(status::NV_ERR_INVALID_BASE),
            _ if end.is_none_or(|end| end > memory.bytes) => Some(status::NV_ERR_INVALID_LIMIT),
            _ => None,
        };
        if let Some(status) = wrong {
            let what = format!(
                "{length:#x} bytes from {:#x} of {:#x}",
                args.offset, memory.bytes
            );
            return self.refuse(&MAP_LENGTH, status, what);
        }
        let all = memory.page | base | length | args.offset;
        let page = 1 << all.trailing_zeros().min(29);
        for (_, space, rights) in wanted {
            let Some(space) = state.space_mut(space) else {
                continue;
            };
            space.cut(base, length);
            space.map(
                base,
                Mapping {
                    bytes: length,
                    memory: memory.clone(),
                    offset: args.offset,
                    rights,
                    page,
                    owner: Owner::Uvm,
                },
            );
        }
        Ok(())
    }

    /// Whether a GPU can have a memory mapped.
    fn reach(
        &self,
        gpus: &BTreeMap<usize, Option<u64>>,
        peers: &BTreeSet<(usize, usize)>,
        gpu: usize,
        memory: &Memory,
    ) -> Result {
        let owner = memory.gpu;
        if !gpus.contains_key(&owner) {
            let what = format!("memory of GPU {owner}, which is not registered");
            return self.refuse(&GPU, status::NV_ERR_INVALID_DEVICE, what);
        }
        let pair = (gpu.min(owner), gpu.max(owner));
        if memory.place == Place::Local && owner != gpu && !peers.contains(&pair) {
            let what = format!("local memory of GPU {owner} for GPU {gpu}");
            return self.refuse(&PEER, status::NV_ERR_INVALID_DEVICE, what);
        }
        Ok(())
    }

    pub(super) fn unmap(&self, args: &uvm::UnmapExternal) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        self.within(va, args.base, args.length)?;
        let gpu = self.gpu(va, args.gpu_uuid)?;
        let space = va.gpus.get(&gpu).copied().flatten();
        if let Some(space) = space.and_then(|space| state.space_mut(space)) {
            space.cut(args.base, args.length);
        }
        Ok(())
    }

    pub(super) fn free(&self, args: &uvm::Free) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        self.check_range(args.base, args.length)?;
        if !va.ranges().any(|range| range == (args.base, args.length)) {
            let what = format!("{:#x} bytes at {:#x}", args.length, args.base);
            return self.refuse(&FREE, status::NV_ERR_INVALID_ADDRESS, what);
        }
        va.ranges.remove(&args.base);
        va.pools.remove(&args.base);
        va.reflected.remove(&args.base);
        let spaces: Vec<u64> = va.gpus.values().flatten().copied().collect();
        for space in spaces {
            if let Some(space) = state.space_mut(space) {
                space.cut(args.base, args.length);
            }
        }
        Ok(())
    }
}
