//! Memory objects of KFD: allocated at an address that the host has reserved, mapped for GPUs, and
//! taken apart in the order that the kernel wants: unmap, free, give the addresses back.

use std::sync::{Arc, Mutex, MutexGuard};

use drivers_gpu::backend::shared::Shareable;
use drivers_gpu::backend::{Named, PAGE};
use drivers_gpu::kernel::calls::{again, is_gone};
use drivers_gpu::kernel::{Addresses, Heap, HeapRequest, KernelMemory};
use drivers_spec::amd::kfd::{
    self, Alloc, AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs, MapMemoryToGpuArgs,
    UnmapMemoryFromGpuArgs, mmap,
};
use hcq::mem::view::View;
use hcq::sync::lock;
use hcq::transport::errno::{ENODEV, ENOMEM};
use hcq::transport::{ANYWHERE, DevFile, Fault, Machine, Map, Prot, Reserved, TransportError};
use zerocopy::IntoBytes;

use super::call::Call;
use super::process::{Gpu, Process};

/// From this size on memory starts at a multiple of it, so that the GPU's page table holds it in
/// large pages.
const LARGE: u64 = 2 << 20;

/// What the kernel is asked for, for memory of a heap: it decides how the memory is cached.
///
/// Source of what flags do: Linux, amdgpu/amdgpu_amdkfd_gpuvm.c, `get_pte_flags`, and
/// gmc_v{9,10,11,12}_0.c, `get_vm_pte`.
fn flags(heap: Heap) -> Alloc {
    let all = Alloc::WRITABLE | Alloc::EXECUTABLE | Alloc::NO_SUBSTITUTE;
    match heap {
        Heap::VisibleVram => all | Alloc::VRAM | Alloc::PUBLIC,
        Heap::Vram => all | Alloc::VRAM,
        // GTT, not cached by the GPU, so that rings, pointers and signals need no invalidation.
        Heap::System => all | Alloc::GTT | Alloc::COHERENT | Alloc::UNCACHED | Alloc::PUBLIC,
        Heap::User => all | Alloc::USERPTR | Alloc::COHERENT | Alloc::UNCACHED,
    }
}

/// A memory object.
pub(super) struct Memory {
    process: Arc<Process>,
    gpu: Arc<Gpu>,
    handle: u64,
    heap: Heap,
    bytes: u64,
    /// `gpu_id` of the GPUs that have it mapped.
    mapped: Mutex<Vec<u32>>,
    /// Dropped while the addresses still belong to this memory.
    named: Option<Named>,
    /// The host's access.
    view: Option<View>,
    /// The addresses; none for memory of the host, which brings its own.
    reserved: Option<Reserved>,
    va: u64,
    /// The kernel frees it, with the process.
    kept: bool,
}

/// Why there is no memory.
#[derive(Debug)]
pub(super) enum MemoryError {
    /// The GPU has not enough free VRAM for that number of bytes.
    Vram(u64, TransportError),
    /// The host has not enough free memory for that number of bytes, or none that GPUs may use; 0 for the
    /// kernel's own memory.
    System(u64, TransportError),
    /// The GPU has no queue left.
    Queues(TransportError),
    /// Anything else.
    Refused(TransportError),
}

impl From<TransportError> for MemoryError {
    fn from(error: TransportError) -> Self {
        match error.fault {
            Fault::Errno(ENOMEM) => MemoryError::System(0, error),
            _ => MemoryError::Refused(error),
        }
    }
}

impl MemoryError {
    /// The error of a request for `bytes` bytes.
    fn of(error: TransportError, heap: Heap, bytes: u64) -> MemoryError {
        match MemoryError::from(error) {
            // Page tables of VRAM are VRAM.
            MemoryError::System(_, error) if heap.is_vram() => MemoryError::Vram(bytes, error),
            MemoryError::System(_, error) => MemoryError::System(bytes, error),
            other => other,
        }
    }
}

impl Memory {
    /// Allocates and maps for its own GPU.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    pub(super) fn new(
        machine: &dyn Machine,
        process: &Arc<Process>,
        gpu: &Arc<Gpu>,
        wanted: &HeapRequest<'_>,
    ) -> Result<Memory, MemoryError> {
        let file = match wanted.heap {
            Heap::VisibleVram | Heap::System => Some(&*gpu.render),
            Heap::Vram | Heap::User => None,
        };
        Memory::make(machine, (process, gpu), wanted, flags(wanted.heap), file)
    }

    /// The page of registers that flush the HDP.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    pub(super) fn registers(
        machine: &dyn Machine,
        process: &Arc<Process>,
        gpu: &Arc<Gpu>,
    ) -> Result<Memory, MemoryError> {
        let wanted = HeapRequest {
            bytes: PAGE,
            align: PAGE,
            heap: Heap::System,
            what: "the registers of the HDP",
        };
        let flags = Alloc::MMIO_REMAP | Alloc::WRITABLE | Alloc::COHERENT;
        let file = Some(&*process.kfd);
        Memory::make(machine, (process, gpu), &wanted, flags, file)
    }

    /// `file` maps it for the host.
    fn make(
        machine: &dyn Machine,
        (process, gpu): (&Arc<Process>, &Arc<Gpu>),
        wanted: &HeapRequest<'_>,
        flags: Alloc,
        file: Option<&dyn DevFile>,
    ) -> Result<Memory, MemoryError> {
        let heap = wanted.heap;
        let bytes = wanted.bytes.max(1).checked_next_multiple_of(PAGE);
        let bytes = bytes.unwrap_or(u64::MAX);
        let align = wanted.align.max(if bytes >= LARGE { LARGE } else { PAGE });
        let failed = |error| MemoryError::of(error, heap, bytes);
        // Addresses are the host's, whatever memory they get.
        let host = |error| MemoryError::of(error, Heap::User, bytes);
        let place = Addresses::new(machine, heap, (bytes, align), ANYWHERE).map_err(host)?;
        let Addresses { va, reserved, own } = place;
        let mut args = AllocMemoryOfGpuArgs {
            va_addr: va,
            size: bytes,
            mmap_offset: if own.is_some() { va } else { 0 },
            gpu_id: gpu.id,
            flags: flags.bits(),
            ..AllocMemoryOfGpuArgs::default()
        };
        let made = process.kfd.call(kfd::ALLOC_MEMORY_OF_GPU, &mut args);
        made.map_err(failed)?;
        // From here on the drop releases the parts.
        let mut memory = Memory {
            process: process.clone(),
            gpu: gpu.clone(),
            handle: args.handle,
            heap,
            bytes,
            mapped: Mutex::default(),
            view: own,
            named: None,
            reserved,
            va,
            kept: false,
        };
        if let Some(file) = file {
            let map = Map {
                offset: args.mmap_offset,
                len: bytes as usize,
                prot: Prot::ReadWrite,
                at: Some(va),
            };
            memory.view = Some(file.mmap(map).map_err(host)?);
        }
        memory.map(gpu.id).map_err(failed)?;
        memory.named = Some(Named::new(&process.space, va, bytes, wanted.what));
        Ok(memory)
    }

    /// The handle.
    pub(super) fn handle(&self) -> u64 {
        self.handle
    }

    /// Leaves the object to the kernel, which frees it with the process. Its
    /// addresses stay reserved until then.
    pub(super) fn keep(mut self) -> (Option<Reserved>, Option<View>) {
        self.kept = true;
        if let Some(named) = self.named.take() {
            named.keep();
        }
        (self.reserved.take(), self.view.take())
    }

    /// Maps it for a GPU, if it is not yet.
    ///
    /// # Errors
    /// The kernel's: the GPU cannot access it, or has no memory for page tables.
    pub(super) fn map(&self, gpu_id: u32) -> Result<(), TransportError> {
        let mut mapped = self.lock();
        if mapped.contains(&gpu_id) {
            return Ok(());
        }
        let (done, is_mapped) = map_handle(&*self.process.kfd, self.handle, gpu_id);
        if is_mapped {
            mapped.push(gpu_id);
        }
        done
    }

    fn unmap(&self) -> Result<(), TransportError> {
        let mut mapped = self.lock();
        if mapped.is_empty() {
            return Ok(());
        }
        let mut args = UnmapMemoryFromGpuArgs {
            handle: self.handle,
            ..UnmapMemoryFromGpuArgs::default()
        };
        // A failed call reports how many are mapped; the next call continues from there.
        again(|| {
            let memory = &mut [mapped.as_mut_bytes()];
            let ioctl = kfd::UNMAP_MEMORY_FROM_GPU;
            self.process.kfd.call_with(ioctl, &mut args, memory)
        })?;
        mapped.clear();
        Ok(())
    }

    fn free(&self) -> Result<(), TransportError> {
        self.unmap()?;
        let mut args = FreeMemoryOfGpuArgs {
            handle: self.handle,
        };
        again(|| self.process.kfd.call(kfd::FREE_MEMORY_OF_GPU, &mut args))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u32>> {
        // Changed in single steps.
        lock(&self.mapped)
    }
}

impl Shareable<Gpu> for Memory {
    type Error = TransportError;

    fn va(&self) -> u64 {
        self.va
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn is_mapped_for(&self, gpu: &Arc<Gpu>) -> bool {
        self.lock().contains(&gpu.id)
    }

    fn share(&self, gpu: &Arc<Gpu>) -> Result<(), TransportError> {
        if !self.heap.is_vram() || gpu.id == self.gpu.id {
            return match self.map(gpu.id) {
                // Another one that has left uses nothing any more.
                Err(error) if gpu.id != self.gpu.id && is_gone(&error) => Ok(()),
                mapped => mapped,
            };
        }
        if gpu.node.peers.contains(&self.gpu.node.number)
            && let Err(error) = self.map(gpu.id)
        {
            // Copies between the two go through host memory then.
            tracing::debug!(%error, va = self.va, gpu = gpu.id, "not mapped for a peer");
        }
        Ok(())
    }
}

impl KernelMemory<Gpu> for Memory {
    fn heap(&self) -> Heap {
        self.heap
    }

    fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }
}

/// Maps the memory of a handle for a GPU. Returns whether it is mapped: a call that fails late
/// (it waits for page table updates) may have mapped it.
pub(super) fn map_handle(
    file: &dyn DevFile,
    handle: u64,
    gpu_id: u32,
) -> (Result<(), TransportError>, bool) {
    let mut args = MapMemoryToGpuArgs {
        handle,
        ..MapMemoryToGpuArgs::default()
    };
    let mut ids = [gpu_id];
    let memory = &mut [ids.as_mut_bytes()];
    let done = file.call_with(kfd::MAP_MEMORY_TO_GPU, &mut args, memory);
    let is_mapped = done.is_ok() || args.n_success == 1;
    (done, is_mapped)
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if let Err(error) = self.free() {
            let (va, bytes) = (self.va, self.bytes);
            match error.fault {
                // With the GPU all of its memory has gone.
                Fault::Errno(ENODEV) => tracing::debug!(%error, va, bytes, "not freed"),
                _ => tracing::warn!(%error, va, bytes, "could not free memory"),
            }
            // The GPU may still have it mapped: these addresses are not reused.
            std::mem::forget(self.reserved.take());
            std::mem::forget(self.view.take());
        }
    }
}

const _: () = assert!(mmap::DOORBELL_BYTES.is_multiple_of(PAGE));
