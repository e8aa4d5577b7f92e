//! GPUs, their address spaces and their channels.
//!
//! Source: open-gpu-kernel-modules 580.142, kernel-open/nvidia-uvm/{uvm_va_space,uvm_user_channel}.c.

use drivers_spec::nv::{class, status, uvm};
use twin::rule::{Proof, Rule};

use crate::errno::Result;
use crate::rm::{self, State};
use crate::space::Owner;

use super::{GPU, Holder, MM, MULTI_PROCESS, On, PEER, Registered};

static EXTERNAL: Rule = Rule {
    name: "UVM-VASPACE-EXTERNAL",
    text: "an address space that UVM receives is externally owned (IS_EXTERNALLY_OWNED), belongs to that GPU, and to no \
           other file",
    source: "open-gpu-kernel-modules, nv_gpu_ops.c, nvGpuOpsDupAddressSpace; what follows for one that another file has is ours",
    proof: Proof::Sourced,
};

static CHANNEL: Rule = Rule {
    name: "UVM-CHANNEL",
    text: "a channel is registered once, in the address space that UVM has for its GPU",
    source: "open-gpu-kernel-modules, uvm_user_channel.c, uvm_register_channel: NV_ERR_INVALID_CHANNEL; nv_gpu_ops.c, nvGpuOpsVerifyChannel",
    proof: Proof::Sourced,
};

static WINDOW: Rule = Rule {
    name: "UVM-CHANNEL-WINDOW",
    text: "a graphics channel is registered with free addresses for its buffers, or with those of its group, below 2^40 \
           up to Ada",
    source: "open-gpu-kernel-modules, uvm_user_channel.c: max_channel_va; uvm_ada.c, uvm_hopper.c",
    proof: Proof::Sourced,
};

impl On<'_> {
    pub(super) fn register_gpu(&self, args: &mut uvm::RegisterGpu) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        let Some(gpu) = self.by_uuid(args.gpu_uuid) else {
            let what = format!("no GPU has UUID {:02x?}", args.gpu_uuid);
            return self.refuse(&GPU, status::NV_ERR_GPU_UUID_NOT_FOUND, what);
        };
        if va.gpus.contains_key(&gpu) {
            let what = format!("GPU {gpu} is registered");
            return self.refuse(&GPU, status::NV_ERR_INVALID_DEVICE, what);
        }
        va.gpus.insert(gpu, None);
        args.numa_enabled = 0;
        args.numa_node_id = -1;
        Ok(())
    }

    pub(super) fn unregister_gpu(&self, args: &uvm::UnregisterGpu) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        let gpu = self.gpu(va, args.gpu_uuid)?;
        let space = va.gpus.remove(&gpu).flatten();
        va.peers.retain(|&(a, b)| a != gpu && b != gpu);
        drop_space(&mut state, space);
        Ok(())
    }

    pub(super) fn register_space(&self, args: &uvm::RegisterGpuVaspace) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        let gpu = self.gpu(va, args.gpu_uuid)?;
        if va.flags & MULTI_PROCESS == 0 && va.memory != Holder::File {
            let missing = status::NV_ERR_PAGE_TABLE_NOT_AVAIL;
            return self.refuse(&MM, missing, "no file holds it".into());
        }
        if va.gpus.get(&gpu).copied().flatten().is_some() {
            let what = format!("GPU {gpu} has an address space registered");
            return self.refuse(&GPU, status::NV_ERR_INVALID_DEVICE, what);
        }
        let wrong = |status: u32| {
            let what = format!("address space {:#x}", args.h_va_space);
            self.refuse(&EXTERNAL, status, what)
        };
        let Some(found) = state.object(args.h_client, args.h_va_space) else {
            return wrong(status::NV_ERR_OBJECT_NOT_FOUND);
        };
        let (of, rm::Kind::Space(number)) = (found.gpu, &found.kind) else {
            return wrong(status::NV_ERR_INVALID_OBJECT);
        };
        let number = *number;
        if of != Some(gpu) {
            return wrong(status::NV_ERR_OTHER_DEVICE_FOUND);
        }
        let external = state
            .spaces
            .get(&number)
            .is_some_and(|space| space.external);
        if !external || state.held_by_uvm(number) {
            return wrong(status::NV_ERR_INVALID_FLAGS);
        }
        let va = self.va(&mut state)?;
        va.gpus.insert(gpu, Some(number));
        for (base, pool) in va.pools.clone() {
            pool.map(&mut state, base, gpu, number);
        }
        Ok(())
    }

    pub(super) fn unregister_space(&self, args: &uvm::UnregisterGpuVaspace) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        let (gpu, space) = self.gpu_with_space(va, args.gpu_uuid)?;
        va.gpus.insert(gpu, None);
        va.channels.retain(|one| one.gpu != gpu);
        drop_space(&mut state, Some(space));
        Ok(())
    }

    pub(super) fn register_channel(&self, args: &uvm::RegisterChannel) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        let (gpu, space) = self.gpu_with_space(va, args.gpu_uuid)?;
        let (base, length) = (args.base, args.length);
        let found = state.object(args.h_client, args.h_channel);
        let Some(rm::Kind::Channel(channel)) = found.map(|object| &object.kind) else {
            let what = format!("{:#x} is no channel", args.h_channel);
            return self.refuse(&CHANNEL, status::NV_ERR_INVALID_OBJECT_HANDLE, what);
        };
        if channel.gpu != gpu || channel.space != space {
            let what = format!("channel {:#x} runs in another one", args.h_channel);
            let status = match channel.gpu == gpu {
                true => status::NV_ERR_INVALID_CHANNEL,
                false => status::NV_ERR_OTHER_DEVICE_FOUND,
            };
            return self.refuse(&CHANNEL, status, what);
        }
        // Channels of copy engines have no buffers.
        let buffers = channel.engine == class::engine::GRAPHICS;
        let group = channel.group.map(|group| (args.h_client, group));
        if channel.registered {
            let what = format!("channel {:#x} is registered", args.h_channel);
            return self.refuse(&CHANNEL, status::NV_ERR_INVALID_CHANNEL, what);
        }
        if buffers {
            self.check_range(base, length)?;
            let bits = self.machine.config.chips[gpu].facts().va_bits;
            let what = format!("{length:#x} bytes at {base:#x}");
            if base + (length - 1) >= 1 << bits {
                return self.refuse(&WINDOW, status::NV_ERR_OUT_OF_RANGE, what);
            }
            if self.va(&mut state)?.overlaps_window(base, length, group) {
                let in_use = status::NV_ERR_UVM_ADDRESS_IN_USE;
                return self.refuse(&WINDOW, in_use, what);
            }
        }
        self.va(&mut state)?.channels.push(Registered {
            client: args.h_client,
            handle: args.h_channel,
            group,
            gpu,
            base,
            length: if buffers { length } else { 0 },
        });
        if let Some(channel) = state.channel_mut(args.h_client, args.h_channel) {
            channel.registered = true;
        }
        Ok(())
    }

    pub(super) fn unregister_channel(&self, args: &uvm::UnregisterChannel) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        let before = va.channels.len();
        let this = (args.h_client, args.h_channel);
        va.channels.retain(|one| (one.client, one.handle) != this);
        if va.channels.len() == before {
            let what = format!("channel {:#x} is not registered", args.h_channel);
            return self.refuse(&CHANNEL, status::NV_ERR_INVALID_CHANNEL, what);
        }
        if let Some(channel) = state.channel_mut(args.h_client, args.h_channel) {
            channel.registered = false;
            channel.scheduled = false;
        }
        Ok(())
    }

    pub(super) fn peers(&self, a: [u8; 16], b: [u8; 16], enable: bool) -> Result {
        let mut state = self.machine.state();
        let va = self.va(&mut state)?;
        let (a, b) = (self.gpu(va, a)?, self.gpu(va, b)?);
        let pair = (a.min(b), a.max(b));
        let done = match enable {
            true => a != b && va.peers.insert(pair),
            false => va.peers.remove(&pair),
        };
        if done {
            return Ok(());
        }
        let what = format!("GPUs {a} and {b}, enable {enable}");
        self.refuse(&PEER, status::NV_ERR_INVALID_DEVICE, what)
    }
}

/// UVM lets an address space go.
fn drop_space(state: &mut State, space: Option<u64>) {
    if let Some(space) = space.and_then(|space| state.space_mut(space)) {
        space.unmap_all(0, u64::MAX, Owner::Uvm);
    }
    state.sweep();
}
