//! [`Space`]: the address space as RM knows it: an object without page tables, and where the driver has them.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/device_ctrl.c and mem_mgr/gpu_vaspace.c
//! (`deviceCtrlCmdDmaSetPageDirectory_IMPL`, `gvaspaceExternalRootDirCommit_IMPL`): set once, before there are channels;
//! Linux, nouveau, gsp/rm/r535/vmm.c (`r535_mmu_vaspace_del`): unset before the object is freed.

use std::sync::Arc;

use drivers_spec::nv::abi::Struct;
use drivers_spec::nv::class;
use drivers_spec::nv::memory::vaspace_flags;
use drivers_spec::nv::pci_rm::{
    NO_PASID, SET_ALL_CHANNELS, SetPageDirectory, UnsetPageDirectory, function,
};
use hcq::addr::PhysAddr;

use crate::gsp::Messages;
use crate::rm::client::Object;
use crate::rm::device::Device;
use crate::rm::transport::{Result, Transport as _};

/// The subdevice, counted from 1.
const SUBDEVICE: u32 = 1;

/// An address space whose page tables are the driver's.
pub(super) struct Space {
    messages: Arc<Messages>,
    device: u32,
    object: Object,
}

impl Space {
    /// One whose page directory of so many entries is at `root`, in VRAM.
    ///
    /// # Errors
    /// [`super::CallError`](crate::rm::CallError).
    pub(super) fn new(
        messages: &Arc<Messages>,
        gpu: &Device,
        (root, entries): (PhysAddr, u32),
    ) -> Result<Space> {
        let params = class::VaspaceAlloc {
            flags: vaspace_flags::IS_EXTERNALLY_OWNED.put(1),
            ..Default::default()
        };
        let object = gpu.device.alloc(&class::FERMI_VASPACE_A, &params)?;
        let params = SetPageDirectory {
            h_client: gpu.client().handle(),
            h_device: gpu.device.handle(),
            pasid: NO_PASID,
            phys_address: root.raw(),
            num_entries: entries,
            flags: SET_ALL_CHANNELS,
            h_va_space: object.handle(),
            sub_device_id: SUBDEVICE,
            params_pasid: NO_PASID,
            ..Default::default()
        };
        let bytes = params.encode(messages.branch());
        messages.call("SET_PAGE_DIRECTORY", function::SET_PAGE_DIRECTORY, &bytes)?;
        Ok(Space {
            messages: messages.clone(),
            device: gpu.device.handle(),
            object,
        })
    }

    /// Its handle.
    pub(super) fn handle(&self) -> u32 {
        self.object.handle()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let params = UnsetPageDirectory {
            h_client: self.object.client().handle(),
            h_device: self.device,
            h_va_space: self.object.handle(),
            sub_device_id: SUBDEVICE,
        };
        let bytes = params.encode(self.messages.branch());
        let unset = function::UNSET_PAGE_DIRECTORY;
        let done = self.messages.call("UNSET_PAGE_DIRECTORY", unset, &bytes);
        if let Err(error) = done {
            tracing::warn!(target: "hcq::nv::pci", %error, "the address space keeps its page directory");
        }
    }
}
