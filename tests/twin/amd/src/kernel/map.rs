//! mmap and munmap.
//!
//! Source: Linux 6.12, amdkfd/kfd_chardev.c, `kfd_mmap`; amdkfd/kfd_doorbell.c, `kfd_doorbell_mmap`;
//! drm_gem.c, `drm_gem_mmap`; amdgpu/amdgpu_gem.c, `amdgpu_gem_object_mmap`;
//! amdgpu/amdgpu_amdkfd_gpuvm.c, `amdgpu_amdkfd_evict_userptr`.

use drivers_spec::amd::kfd::mmap;
use hcq::sync::lock;
use twin::process::Wanted;
use twin::rule::{Proof, Rule};

use crate::mem::Kind as MemKind;

use super::errno::{Errno, Result};
use super::files::{File, Kind, Render};
use super::{Process, user};

static USERPTR: Rule = Rule {
    name: "KFD-USERPTR-UNMAPPED",
    text: "memory of the client that is mapped on GPUs stays mapped on the CPU until it is freed; otherwise the kernel \
           driver stops all queues of the process and unmaps it",
    source: "Linux, amdgpu/amdgpu_amdkfd_gpuvm.c, amdgpu_amdkfd_evict_userptr",
    proof: Proof::Sourced,
};

static PRIVATE: Rule = Rule {
    name: "KFD-MMAP-SHARED",
    text: "memory of a GPU is mapped MAP_SHARED: a private copy is not seen by the GPU",
    source: "mmap(2), MAP_PRIVATE",
    proof: Proof::Sourced,
};

const PAGE: u64 = 4096;

impl Process {
    /// mmap of a file of the twin. Returns the address.
    ///
    /// # Errors
    /// As the kernel's.
    pub fn mmap(
        &self,
        address: u64,
        bytes: u64,
        protection: i32,
        flags: i32,
        fd: i32,
        offset: u64,
    ) -> Result<u64> {
        let file = self.file(fd)?;
        let wanted = Wanted {
            address,
            bytes: bytes
                .checked_next_multiple_of(PAGE)
                .filter(|&b| b > 0)
                .ok_or(Errno::EINVAL)?,
            protection,
            flags,
        };
        let result = self
            .machine
            .injector
            .mmap()
            .and_then(|()| match &file.kind {
                Kind::Kfd => self.mmap_kfd(wanted, offset),
                Kind::Render(render) => self.mmap_render(&file, render, wanted, offset),
                _ => Err(Errno::ENODEV),
            });
        let what = || {
            format!(
                "mmap of {} at offset {offset:#x}, {bytes:#x} bytes",
                file.path
            )
        };
        match result {
            Ok(at) => self.note(|| format!("{} = {at:#x}", what())),
            Err(errno) => self.note(|| format!("{} = {errno}", what())),
        }
        if result.is_ok()
            && flags & libc::MAP_TYPE == libc::MAP_PRIVATE
            && protection != libc::PROT_NONE
        {
            self.broken(&PRIVATE, what());
        }
        result
    }

    fn mmap_kfd(&self, wanted: Wanted, offset: u64) -> Result<u64> {
        let bytes = wanted.bytes;
        let gpu_id = mmap::gpu_id(offset);
        let gpu = self.machine.gpu_of(gpu_id);
        let device = || match gpu {
            Some(gpu) if !self.machine.gone(gpu) => Ok(gpu),
            _ => self.fail(Errno::ENODEV, || {
                format!("the offset names gpu_id {gpu_id:#x}")
            }),
        };
        match offset & mmap::TYPE_MASK {
            mmap::DOORBELL => {
                let gpu = device()?;
                if bytes != mmap::DOORBELL_BYTES {
                    return self.fail(Errno::EINVAL, || {
                        format!("doorbells are mapped with 0x2000 bytes, not {bytes:#x}")
                    });
                }
                let page = self.kfd().doorbells(gpu)?;
                self.caller.map(wanted, &page, 0)
            }
            mmap::EVENTS => self.events.map_page(&*self.caller, wanted),
            mmap::MMIO => {
                let gpu = device()?;
                if bytes != PAGE {
                    return self.fail(Errno::EINVAL, || {
                        format!("the page of registers is mapped with 0x1000 bytes, not {bytes:#x}")
                    });
                }
                let page = &self.machine.nodes[gpu].gmc.remap;
                self.caller.map(wanted, page, 0)
            }
            // Reserved memory is for the trap handler of APUs.
            _ => {
                device()?;
                self.fail(Errno::EINVAL, || "only APUs have reserved memory".into())
            }
        }
    }

    fn mmap_render(
        &self,
        file: &File,
        render: &Render,
        wanted: Wanted,
        offset: u64,
    ) -> Result<u64> {
        if self.machine.gone(render.gpu) {
            return Err(Errno::ENODEV);
        }
        let area = lock(&self.machine.nodes[render.gpu].areas)
            .find(offset)
            .cloned();
        let Some(area) = area.filter(|area| wanted.bytes <= area.object.bytes) else {
            return self.fail(Errno::EINVAL, || {
                "no memory of that size starts at that offset: it is the mmap_offset that ALLOC returned".into()
            });
        };
        if !area.allowed.contains(&file.id) {
            return self.fail(Errno::EACCES, || "that memory is another file's".into());
        }
        match area.object.kind {
            MemKind::Vram { .. } | MemKind::Gtt => {
                let (seen, protection) = area.object.seen(wanted.protection);
                let wanted = Wanted {
                    protection,
                    ..wanted
                };
                self.caller.map(wanted, seen, 0)
            }
            MemKind::Userptr { .. } => self.fail(Errno::EPERM, || {
                "memory of the client is mapped already".into()
            }),
            MemKind::Doorbell(_) | MemKind::MmioRemap => self.fail(Errno::EINVAL, || {
                "registers are mapped through /dev/kfd".into()
            }),
        }
    }

    /// munmap, of anything that the client has.
    ///
    /// # Errors
    /// As the system's.
    pub fn munmap(&self, address: u64, bytes: u64) -> Result {
        let bytes = bytes
            .checked_next_multiple_of(PAGE)
            .filter(|&b| b > 0)
            .ok_or(Errno::EINVAL)?;
        if !address.is_multiple_of(PAGE) || !user::accessible(address, bytes) {
            return Err(Errno::EINVAL);
        }
        let mut kfd = self.kfd();
        for (gpu, va) in self.userptrs(&kfd, address, bytes) {
            self.broken(
                &USERPTR,
                format!("munmap of {address:#x}, {bytes:#x} bytes; GPU {gpu} has it at {va:#x}"),
            );
            if let Some(space) = kfd.space(gpu) {
                // The pages are gone; the object keeps its mapping in the books until UNMAP.
                if let Some((start, map)) = space.find(va) {
                    let _ = space.vm.unmap(start, map.bytes);
                }
            }
        }
        self.svm_unmapped(&mut kfd, address, bytes);
        drop(kfd);
        self.caller.unmap(address, bytes)
    }
}
