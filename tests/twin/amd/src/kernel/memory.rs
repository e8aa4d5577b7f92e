//! Memory objects: ACQUIRE_VM, ALLOC, FREE, MAP, UNMAP.
//!
//! Source: Linux 6.12, amdkfd/kfd_chardev.c; amdgpu/amdgpu_amdkfd_gpuvm.c (flags, attachments, what is
//! busy).

use std::collections::BTreeMap;
use std::sync::Arc;

use drivers_spec::amd::kfd::{
    AcquireVmArgs, Alloc, AllocMemoryOfGpuArgs, FreeMemoryOfGpuArgs, GetAvailableMemoryArgs,
    MapMemoryToGpuArgs, UnmapMemoryFromGpuArgs, mmap,
};
use hcq::sync::lock;
use twin::rule::{Proof, Rule};
use twin_shader::isa::Gen;

use crate::config::{Bar, Version};
use crate::mem::{Kind as MemKind, Mapping, Mtype, Object, Rights};

use super::errno::{Errno, Result};
use super::files::{File, Kind};
use super::ioctl::Call;
use super::space::Space;
use super::{Kfd, Process};

static ACQUIRE: Rule = Rule {
    name: "KFD-ACQUIRE-VM",
    text: "a process calls ACQUIRE_VM on a GPU before it allocates, maps or creates queues there",
    source: "Linux, amdkfd/kfd_process.c, kfd_process_device_data_by_id and kfd_bind_process_to_device",
    proof: Proof::Sourced,
};

static TYPES: Rule = Rule {
    name: "KFD-ALLOC-TYPE",
    text: "exactly one type of memory is requested; of several the kernel uses the first",
    source: "Linux, amdgpu/amdgpu_amdkfd_gpuvm.c, amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu",
    proof: Proof::Sourced,
};

static FLAGS: Rule = Rule {
    name: "KFD-ALLOC-FLAGS",
    text: "the flags of an allocation are flags that the kernel knows; it ignores others",
    source: "Linux, include/uapi/linux/kfd_ioctl.h, KFD_IOC_ALLOC_MEM_FLAGS_*",
    proof: Proof::Sourced,
};

static DOUBLE: Rule = Rule {
    name: "KFD-AQL-QUEUE-MEM",
    text: "only gfx7 and gfx8 have their AQL rings mapped twice; elsewhere half of the memory is lost",
    source: "Linux, amdgpu/amdgpu_amdkfd_gpuvm.c, aql_queue; ROCr, amd_aql_queue.cpp",
    proof: Proof::Sourced,
};

static PINNED: Rule = Rule {
    name: "KFD-UNMAP-QUEUE-BUFFER",
    text: "buffers of a queue stay mapped until the queue is destroyed; Linux before 6.12 does not check it",
    source: "Linux, amdgpu/amdgpu_amdkfd_gpuvm.c, unmap_bo_from_gpuvm, queue_refcount",
    proof: Proof::Sourced,
};

static OTHER_GPU: Rule = Rule {
    name: "KFD-VM-GPU",
    text: "the render node passed to ACQUIRE_VM belongs to the same GPU",
    source: "ROCr, libhsakmt/src/fmm.c, acquire_vm",
    proof: Proof::Guess,
};

const PAGE: u64 = 4096;

/// What KFD knows of a process on a GPU (`struct kfd_process_device`).
#[derive(Default)]
pub(super) struct Device {
    /// The open render node whose address space the process took.
    pub(super) bound: Option<(Arc<File>, Arc<Space>)>,
    pub(super) bos: BTreeMap<u32, Bo>,
    /// The page of doorbells.
    pub(super) doorbells: Option<Arc<Mapping>>,
    /// SET_SCRATCH_BACKING_VA.
    pub(super) scratch: u64,
}

/// A memory object with a handle (`struct kgd_mem`).
#[derive(Clone)]
pub(super) struct Bo {
    pub(super) object: Arc<Object>,
    pub(super) va: u64,
    pub(super) flags: Alloc,
    pub(super) offset: u64,
    /// On which GPUs it is mapped.
    pub(super) mapped: Vec<usize>,
}

/// What a handle says: gpu_id and number.
pub(super) fn split(handle: u64) -> (u32, u32) {
    ((handle >> 32) as u32, handle as u32)
}

impl Kfd {
    /// The address space of a GPU, or none before ACQUIRE_VM.
    pub(super) fn space(&self, gpu: usize) -> Option<&Arc<Space>> {
        self.devices
            .get(gpu)?
            .bound
            .as_ref()
            .map(|(_, space)| space)
    }

    /// The doorbells of the process on a GPU.
    pub(super) fn doorbells(&mut self, gpu: usize) -> Result<Arc<Mapping>> {
        let device = self.devices.get_mut(gpu).ok_or(Errno::EINVAL)?;
        if let Some(page) = &device.doorbells {
            return Ok(page.clone());
        }
        let page = Arc::new(Mapping::new(mmap::DOORBELL_BYTES)?);
        device.doorbells = Some(page.clone());
        Ok(page)
    }

    pub(super) fn bo(&self, gpu: usize, number: u32) -> Option<&Bo> {
        self.devices.get(gpu)?.bos.get(&number)
    }
}

impl Process {
    /// The GPU of a `gpu_id`, or `EINVAL`.
    pub(super) fn gpu(&self, gpu_id: u32) -> Result<usize> {
        match self.machine.gpu_of(gpu_id) {
            Some(gpu) if self.machine.gone(gpu) => {
                self.fail(Errno::ENODEV, || format!("GPU {gpu_id:#x} has gone"))
            }
            Some(gpu) => Ok(gpu),
            None => self.fail(Errno::EINVAL, || format!("no GPU has gpu_id {gpu_id:#x}")),
        }
    }

    /// The address space on a GPU, or that errno where ACQUIRE_VM has not been called.
    pub(super) fn bound(&self, kfd: &Kfd, gpu: usize, errno: Errno) -> Result<Arc<Space>> {
        match kfd.space(gpu) {
            Some(space) => Ok(space.clone()),
            None => self.refuse(&ACQUIRE, errno, format!("no ACQUIRE_VM on GPU {gpu} yet")),
        }
    }

    pub(super) fn acquire_vm(&self, call: &mut Call) -> Result {
        let args: &mut AcquireVmArgs = call.args()?;
        let Ok(file) = self.file(args.drm_fd as i32) else {
            return self.fail(Errno::EINVAL, || {
                format!("drm_fd {} is not open", args.drm_fd)
            });
        };
        let gpu = self.gpu(args.gpu_id)?;
        let mut kfd = self.kfd();
        let device = &mut kfd.devices[gpu];
        if let Some((bound, _)) = &device.bound {
            return if bound.id == file.id {
                Ok(())
            } else {
                self.fail(Errno::EBUSY, || {
                    "another open file of the render node is bound already".into()
                })
            };
        }
        let Kind::Render(render) = &file.kind else {
            return self.fail(Errno::EINVAL, || format!("{} is no render node", file.path));
        };
        if render.gpu != gpu {
            self.broken(&OTHER_GPU, format!("{} for GPU {gpu}", file.path));
            return Err(Errno::EINVAL);
        }
        let mut taken = lock(&render.space.taken);
        if *taken {
            return self.fail(Errno::EINVAL, || {
                "that address space is another process's".into()
            });
        }
        *taken = true;
        let space = render.space.clone();
        drop(taken);
        device.bound = Some((file, space));
        Ok(())
    }

    pub(super) fn available_memory(&self, call: &mut Call) -> Result {
        let args: &mut GetAvailableMemoryArgs = call.args()?;
        let gpu = self.gpu(args.gpu_id)?;
        // VRAM_AVAILABLITY_ALIGN.
        args.available = self.machine.nodes[gpu].gmc.vram.available() & !((2 << 20) - 1);
        Ok(())
    }

    /// How many bytes there will be. Flags that mean nothing together, or nothing at all, are told.
    fn checked_size(&self, flags: Alloc, size: u64) -> Result<u64> {
        if (flags & Alloc::TYPES).iter().count() > 1 {
            self.broken(&TYPES, format!("ALLOC_MEMORY_OF_GPU with {flags:?}"));
        }
        let unknown = flags.difference(Alloc::all());
        if !unknown.is_empty() {
            self.broken(
                &FLAGS,
                format!("ALLOC_MEMORY_OF_GPU with unknown {unknown:?} of {flags:?}"),
            );
        }
        let mut bytes = size;
        if flags.contains(Alloc::AQL_QUEUE_MEM) {
            self.broken(
                &DOUBLE,
                format!("ALLOC_MEMORY_OF_GPU of {size:#x} bytes with AQL_QUEUE_MEM"),
            );
            bytes >>= 1;
        }
        if flags.contains(Alloc::DOORBELL) && size != mmap::DOORBELL_BYTES {
            return self.fail(Errno::EINVAL, || {
                format!("doorbells have 0x2000 bytes, not {size:#x}")
            });
        }
        if flags & (Alloc::DOORBELL | Alloc::MMIO_REMAP) == Alloc::MMIO_REMAP && size != PAGE {
            return self.fail(Errno::EINVAL, || {
                format!("MMIO_REMAP has 0x1000 bytes, not {size:#x}")
            });
        }
        Ok(bytes)
    }

    /// Memory of the client.
    fn pinned(&self, address: u64, bytes: u64, write: bool) -> Result<MemKind> {
        if address == 0 {
            return self.fail(Errno::EINVAL, || {
                "USERPTR without an address in mmap_offset".into()
            });
        }
        let whole = bytes.checked_next_multiple_of(PAGE).unwrap_or(0);
        match self.caller.pin(address, whole, write) {
            Ok(pages) => {
                let pages = Arc::new(pages);
                Ok(MemKind::Userptr { address, pages })
            }
            Err(errno) => self.fail(errno, || {
                format!("{bytes:#x} bytes of the client at {address:#x}")
            }),
        }
    }

    pub(super) fn alloc_memory(&self, call: &mut Call) -> Result {
        let args: &mut AllocMemoryOfGpuArgs = call.args()?;
        let (va, size) = (args.va_addr, args.size);
        let flags = Alloc::from_bits_retain(args.flags);
        if size == 0 {
            return self.fail(Errno::EINVAL, || "size 0".into());
        }
        let mut kfd = self.kfd();
        let no_va = va == 0 && flags.contains(Alloc::VRAM);
        let user_range = (flags.contains(Alloc::USERPTR)).then_some(args.mmap_offset);
        for start in (!no_va).then_some(va).into_iter().chain(user_range) {
            if kfd.svm.overlaps(start, size) {
                return self.fail(Errno::EADDRINUSE, || {
                    format!("{start:#x} is registered with SVM")
                });
            }
        }
        let gpu = self.gpu(args.gpu_id)?;
        let node = &self.machine.nodes[gpu];
        let small = self.machine.config.bar == Bar::Small;
        if flags.contains(Alloc::PUBLIC | Alloc::VRAM) && small {
            return self.fail(Errno::EINVAL, || "PUBLIC VRAM needs a large BAR".into());
        }
        self.bound(&kfd, gpu, Errno::ENODEV)?;
        let bytes = self.checked_size(flags, size)?;
        let (kind, name) = if flags.contains(Alloc::VRAM) {
            let public = flags.contains(Alloc::PUBLIC);
            (MemKind::Vram { public }, "VRAM")
        } else if flags.contains(Alloc::GTT) {
            (MemKind::Gtt, "GTT")
        } else if flags.contains(Alloc::USERPTR) {
            let write = flags.contains(Alloc::WRITABLE);
            (self.pinned(args.mmap_offset, bytes, write)?, "userptr")
        } else if flags.contains(Alloc::DOORBELL) {
            (MemKind::Doorbell(kfd.doorbells(gpu)?), "doorbells")
        } else if flags.contains(Alloc::MMIO_REMAP) {
            (MemKind::MmioRemap, "MMIO")
        } else {
            return self.fail(Errno::EINVAL, || format!("{flags:?} has no type of memory"));
        };
        let device = &mut kfd.devices[gpu];
        let number = (0..).find(|n| !device.bos.contains_key(n)).unwrap_or(0);
        let name = format!("{name} of GPU {gpu}, handle {number}, at {va:#x}");
        let object = match Object::new(&node.gmc, &self.machine.system, kind, bytes, &name) {
            Ok(object) => object,
            Err(errno) => return self.fail(errno.into(), || format!("{name}: {bytes:#x} bytes")),
        };
        let file = device.bound.as_ref().map_or(0, |(file, _)| file.id);
        let offset = lock(&node.areas).add(&object, file);
        device.bos.insert(
            number,
            Bo {
                object,
                va,
                flags,
                offset,
                mapped: Vec::new(),
            },
        );
        args.handle = u64::from(args.gpu_id) << 32 | u64::from(number);
        args.mmap_offset = if flags.contains(Alloc::MMIO_REMAP) {
            mmap::MMIO | u64::from(args.gpu_id) << mmap::GPU_ID_SHIFT
        } else {
            offset
        };
        Ok(())
    }

    pub(super) fn free_memory(&self, call: &mut Call) -> Result {
        let handle = call.args::<FreeMemoryOfGpuArgs>()?.handle;
        let mut kfd = self.kfd();
        if self.events.is_page(handle) {
            return self.fail(Errno::EPERM, || {
                "the event page lives as long as the process".into()
            });
        }
        let (gpu_id, number) = split(handle);
        let gpu = self.gpu(gpu_id)?;
        let Some(bo) = kfd.bo(gpu, number) else {
            return self.fail(Errno::EINVAL, || {
                format!("no memory has handle {handle:#x}")
            });
        };
        if !bo.mapped.is_empty() {
            let (gpus, va) = (bo.mapped.clone(), bo.va);
            return self.fail(Errno::EBUSY, || {
                format!("{va:#x} is still mapped on GPUs {gpus:?}")
            });
        }
        if let Some(bo) = kfd.devices[gpu].bos.remove(&number) {
            lock(&self.machine.nodes[gpu].areas).remove(bo.offset);
        }
        Ok(())
    }

    /// The gpu_ids that MAP and UNMAP were given.
    fn device_ids(&self, array: u64, n_devices: u32, n_success: u32) -> Result<Vec<u32>> {
        if n_devices == 0 || n_success > n_devices {
            return self.fail(Errno::EINVAL, || {
                format!("{n_devices} devices, of which {n_success} done")
            });
        }
        match self.caller.get_all(array, n_devices as usize) {
            Ok(ids) => Ok(ids),
            Err(errno) => self.fail(errno, || format!("{n_devices} device ids at {array:#x}")),
        }
    }

    pub(super) fn map_memory(&self, call: &mut Call) -> Result {
        let args: &mut MapMemoryToGpuArgs = call.args()?;
        let ids = self.device_ids(args.device_ids_array_ptr, args.n_devices, args.n_success)?;
        let mut kfd = self.kfd();
        let (gpu_id, number) = split(args.handle);
        let gpu = self.gpu(gpu_id)?;
        self.bound(&kfd, gpu, Errno::ENODEV)?;
        let Some(bo) = kfd.bo(gpu, number).cloned() else {
            return self.fail(Errno::ENOMEM, || {
                format!("no memory has handle {:#x}", args.handle)
            });
        };
        for &id in &ids[args.n_success as usize..] {
            let peer = self.gpu(id)?;
            let space = self.bound(&kfd, peer, Errno::ENODEV)?;
            let mapped = kfd
                .bo(gpu, number)
                .is_some_and(|bo| bo.mapped.contains(&peer));
            if !mapped {
                self.attach(&space, &bo, gpu, peer)?;
                if let Some(bo) = kfd.devices[gpu].bos.get_mut(&number) {
                    bo.mapped.push(peer);
                }
            }
            args.n_success += 1;
        }
        Ok(())
    }

    fn attach(&self, space: &Space, bo: &Bo, gpu: usize, peer: usize) -> Result {
        let config = &self.machine.config;
        let device_memory = Alloc::VRAM | Alloc::DOORBELL | Alloc::MMIO_REMAP;
        let reachable =
            config.bar == Bar::Large || config.chip.xgmi && bo.flags.contains(Alloc::VRAM);
        if peer != gpu && bo.flags.intersects(device_memory) && !reachable {
            return self.fail(Errno::EINVAL, || {
                format!("GPU {peer} cannot reach VRAM of GPU {gpu}: the BAR is small")
            });
        }
        let rights = Rights {
            write: bo.flags.contains(Alloc::WRITABLE),
            execute: bo.flags.contains(Alloc::EXECUTABLE),
        };
        let mtype = mtype(config.chip.generation, bo.flags, peer == gpu);
        let bytes = bo.object.bytes;
        match space.map(bo.va, &bo.object, 0, bytes, rights, mtype) {
            Ok(()) => Ok(()),
            Err(errno) => self.fail(errno, || {
                let (va, end) = (bo.va, bo.va.wrapping_add(bytes));
                match space.find(va).or_else(|| space.find(end.wrapping_sub(1))) {
                    Some((start, map)) => format!(
                        "{va:#x} to {end:#x} overlaps {start:#x} to {:#x} ({})",
                        start + map.bytes,
                        map.object.name
                    ),
                    None => format!(
                        "{va:#x} to {end:#x} cannot be mapped: not 0, whole pages, below 2^47"
                    ),
                }
            }),
        }
    }

    pub(super) fn unmap_memory(&self, call: &mut Call) -> Result {
        let args: &mut UnmapMemoryFromGpuArgs = call.args()?;
        let ids = self.device_ids(args.device_ids_array_ptr, args.n_devices, args.n_success)?;
        let mut kfd = self.kfd();
        let (gpu_id, number) = split(args.handle);
        let gpu = self.gpu(gpu_id)?;
        let Some(va) = kfd.bo(gpu, number).map(|bo| bo.va) else {
            return self.fail(Errno::ENOMEM, || {
                format!("no memory has handle {:#x}", args.handle)
            });
        };
        for &id in &ids[args.n_success as usize..] {
            let peer = self.gpu(id)?;
            let at = kfd
                .bo(gpu, number)
                .and_then(|bo| bo.mapped.iter().position(|&m| m == peer));
            let (Some(at), Some(space)) = (at, kfd.space(peer).cloned()) else {
                return self.fail(Errno::EINVAL, || {
                    format!("{va:#x} is not mapped on GPU {peer}")
                });
            };
            let pins = space.find(va).map_or(0, |(_, map)| map.pins);
            if pins > 0 {
                if self.kernel(Version::Linux6_12) {
                    let what = format!("UNMAP_MEMORY_FROM_GPU of {va:#x}, used by {pins} queues");
                    return self.refuse(&PINNED, Errno::EBUSY, what);
                }
                self.broken(
                    &PINNED,
                    format!("UNMAP_MEMORY_FROM_GPU of {va:#x}, used by {pins} queues"),
                );
            }
            space.unmap(va)?;
            if let Some(bo) = kfd.devices[gpu].bos.get_mut(&number) {
                bo.mapped.remove(at);
            }
            args.n_success += 1;
        }
        Ok(())
    }

    /// Frees everything that the process has, as its end does.
    pub(super) fn free_all(&self, kfd: &mut Kfd) {
        for device in &kfd.devices {
            if let Some((_, space)) = &device.bound {
                let mapped: Vec<u64> = lock(&space.maps).keys().copied().collect();
                for va in mapped {
                    let _ = space.unmap(va);
                }
            }
        }
        for (gpu, device) in kfd.devices.iter_mut().enumerate() {
            for bo in std::mem::take(&mut device.bos).into_values() {
                lock(&self.machine.nodes[gpu].areas).remove(bo.offset);
            }
            device.bound = None;
            device.doorbells = None;
        }
    }

    /// The memory behind a handle.
    pub(super) fn object_of(&self, kfd: &Kfd, handle: u64) -> Option<Arc<Object>> {
        let (gpu_id, number) = split(handle);
        let gpu = self.machine.gpu_of(gpu_id)?;
        kfd.bo(gpu, number).map(|bo| bo.object.clone())
    }

    /// Where USERPTR memory that overlaps a range of the client is mapped, as GPU and address.
    pub(super) fn userptrs(&self, kfd: &Kfd, start: u64, bytes: u64) -> Vec<(usize, u64)> {
        let end = start.saturating_add(bytes);
        let mut found = Vec::new();
        for bo in kfd.devices.iter().flat_map(|device| device.bos.values()) {
            if let MemKind::Userptr { address, .. } = bo.object.kind
                && address < end
                && start < address + bo.object.bytes
            {
                found.extend(bo.mapped.iter().map(|&gpu| (gpu, bo.va)));
            }
        }
        found
    }
}

/// How memory is cached. Source: Linux 6.12, amdgpu/gmc_v9_0.c, gmc_v10_0.c, gmc_v11_0.c, gmc_v12_0.c,
/// `get_vm_pte` and what it calls.
pub(super) fn mtype(generation: Gen, flags: Alloc, local: bool) -> Mtype {
    let vram = flags.contains(Alloc::VRAM);
    if flags.intersects(Alloc::DOORBELL | Alloc::MMIO_REMAP) {
        return Mtype::Uc;
    }
    let shared = flags.intersects(Alloc::COHERENT | Alloc::EXT_COHERENT | Alloc::UNCACHED);
    match generation {
        Gen::Rdna2 | Gen::Rdna3 if shared => Mtype::Uc,
        Gen::Rdna2 | Gen::Rdna3 => Mtype::Nc,
        // All system memory and memory of peers is cached, against a bug of the hardware.
        Gen::Rdna4 if !vram || !local => Mtype::Nc,
        Gen::Rdna4 if shared => Mtype::Uc,
        Gen::Rdna4 => Mtype::Nc,
        Gen::Cdna3 if flags.contains(Alloc::UNCACHED) || !vram => Mtype::Uc,
        Gen::Cdna3 if flags.contains(Alloc::EXT_COHERENT) => {
            if local {
                Mtype::Cc
            } else {
                Mtype::Uc
            }
        }
        Gen::Cdna3 if local => Mtype::Rw,
        Gen::Cdna3 => Mtype::Nc,
    }
}
