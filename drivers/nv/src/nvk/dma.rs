//! [`Mapping`]: memory mapped by RM for a GPU, in an address space managed by RM: the fallback without UVM.
//!
//! Addresses are an object of their own, made at the address that is wanted; memory is mapped there then.
//!
//! Source: open-gpu-kernel-modules, src/nvidia/src/kernel/mem_mgr/virtual_mem.c; gpu/mem_mgr/dma.c,
//! `dmaAllocMap`: a fixed offset is an absolute address.

use std::sync::Arc;

use drivers_spec::nv::ioctl::Argument;
use drivers_spec::nv::memory::{alloc_flags, attr, map_dma_flags};
use drivers_spec::nv::{class, escape};

use super::call::call;
use super::gpu::Gpu;
use super::ioctls::Ioctls;
use crate::rm::client::Object;
use crate::rm::transport::{Result, again};

/// A mapping for one GPU; unmapped on drop.
pub(super) struct Mapping {
    files: Arc<Ioctls>,
    args: escape::UnmapMemoryDma,
    /// The addresses; none once they are left to the driver.
    range: Option<Object>,
}

impl Mapping {
    /// Maps memory for a GPU, at an address.
    ///
    /// # Errors
    /// [`super::CallError`].
    pub(super) fn new(gpu: &Gpu, memory: u32, (at, bytes): (u64, u64)) -> Result<Mapping> {
        let (client, device) = (gpu.session.rm.handle(), gpu.rm.device.handle());
        let params = class::MemoryAlloc {
            owner: client,
            flags: alloc_flags::VIRTUAL.put(1)
                | alloc_flags::FIXED_ADDRESS_ALLOCATE.put(1)
                | alloc_flags::IGNORE_BANK_PLACEMENT.put(1),
            attr: attr::LOCATION.put(attr::LOCATION_PCI)
                | attr::PHYSICALITY.put(attr::PHYSICALITY_NONCONTIGUOUS),
            size: bytes,
            offset: at,
            h_va_space: gpu.space.handle(),
            ..Default::default()
        };
        let range = gpu.rm.device.alloc(&class::NV50_MEMORY_VIRTUAL, &params)?;
        let args = escape::MapMemoryDma {
            h_client: client,
            h_device: device,
            h_dma: range.handle(),
            h_memory: memory,
            length: bytes,
            flags: map_dma_flags::DMA_OFFSET_FIXED.put(map_dma_flags::DMA_OFFSET_FIXED_TRUE),
            dma_offset: at,
            ..Default::default()
        };
        let map = escape::RM_MAP_MEMORY_DMA;
        let files = &gpu.session.files;
        call::<escape::MapMemoryDma>(&*files.control, files.branch, map.name, || {
            Argument::escape(&map, files.branch, &args)
        })?;
        Ok(Mapping {
            files: files.clone(),
            args: escape::UnmapMemoryDma {
                h_client: client,
                h_device: device,
                h_dma: range.handle(),
                h_memory: memory,
                dma_offset: at,
                ..Default::default()
            },
            range: Some(range),
        })
    }

    /// Leaves it alone: the driver has freed it, with the GPU.
    pub(super) fn forget(mut self) {
        if let Some(range) = self.range.take() {
            range.forget();
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.range.is_none() {
            return;
        }
        let unmap = escape::RM_UNMAP_MEMORY_DMA;
        again("a mapping of RM", || {
            let (file, branch) = (&*self.files.control, self.files.branch);
            let done = call::<escape::UnmapMemoryDma>(file, branch, unmap.name, || {
                Argument::escape(&unmap, branch, &self.args)
            });
            done.map(drop)
        });
    }
}
