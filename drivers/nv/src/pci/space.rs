//! [`Space`]: the address space as RM knows it: an object without page tables, and where the driver has them. [`managed`]:
//! one of RM's, of which it is told the upper tables: it has some of the addresses for itself, and writes their entries.
//!
//! Source: open-gpu-kernel-modules 570.144, src/nvidia/src/kernel/gpu/mem_mgr/dma.c and mem_mgr/gpu_vaspace.c
//! (`deviceCtrlCmdDmaSetPageDirectory_IMPL`, `gvaspaceExternalRootDirCommit_IMPL`): set once, before there are channels;
//! Linux, nouveau, gsp/rm/r535/vmm.c (`r535_mmu_vaspace_del`: unset before the object is freed; `r535_mmu_vaspace_new`);
//! gpu_vaspace.c (`gvaspaceCopyServerReservedPdes_IMPL`, `_gvaspacePopulatePDEentries`).

use std::sync::Arc;

use drivers_spec::nv::abi::Struct;
use drivers_spec::nv::class;
use drivers_spec::nv::memory::vaspace_flags;
use drivers_spec::nv::pci_rm::{
    CopyReservedPdes, NO_PASID, NV90F1_CTRL_CMD_VASPACE_COPY_SERVER_RESERVED_PDES, PAGE_LEVELS,
    PageLevel, RESERVED_BYTES, RESERVED_SHIFT, RESERVED_START, SET_ALL_CHANNELS, SetPageDirectory,
    UnsetPageDirectory, function,
};
use hcq::addr::PhysAddr;

use crate::gsp::Messages;
use crate::rm::client::Object;
use crate::rm::device::{Device, Mapper};
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

/// An address space of RM's, whose upper page tables are the given ones, from the root on: those that lead to RM's own
/// addresses.
///
/// # Errors
/// [`super::CallError`](crate::rm::CallError).
pub(super) fn managed(gpu: &Device, levels: &[PageLevel]) -> Result<Object> {
    let object = gpu.space(Mapper::Rm)?;
    let mut params = CopyReservedPdes {
        page_size: 1 << RESERVED_SHIFT,
        virt_addr_lo: RESERVED_START,
        virt_addr_hi: RESERVED_START + RESERVED_BYTES - 1,
        num_levels_to_copy: levels.len().min(PAGE_LEVELS) as u32,
        ..Default::default()
    };
    let places = params.levels.iter_mut();
    places.zip(levels).for_each(|(to, from)| *to = *from);
    let told = NV90F1_CTRL_CMD_VASPACE_COPY_SERVER_RESERVED_PDES;
    object.control(&told, &mut params)?;
    Ok(object)
}
