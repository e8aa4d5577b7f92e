//! Memory that leaves a process: EXPORT_DMABUF, IMPORT_DMABUF, GET_DMABUF_INFO.
//!
//! Source: Linux 6.12, amdkfd/kfd_chardev.c; amdgpu/amdgpu_amdkfd_gpuvm.c; amdgpu/amdgpu_dma_buf.c.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use drivers_spec::amd::kfd::{Alloc, ExportDmabufArgs, GetDmabufInfoArgs, ImportDmabufArgs};
use hcq::sync::lock;
use twin::host::Identity;

use crate::mem::Object;

use super::Process;
use super::errno::{Errno, Result};
use super::files::{Dmabuf, Kind};
use super::ioctl::Call;
use super::memory::{Bo, split};

/// Memory that was exported, for as long as somebody has it.
pub(super) struct Export {
    gpu: usize,
    object: Weak<Object>,
    flags: Alloc,
    offset: u64,
}

/// All of it, by the file of the host that stands for it.
pub(super) type Exported = BTreeMap<Identity, Export>;

impl Export {
    fn of(dmabuf: &Dmabuf) -> Export {
        Export {
            gpu: dmabuf.gpu,
            object: Arc::downgrade(&dmabuf.object),
            flags: dmabuf.flags,
            offset: dmabuf.offset,
        }
    }

    fn memory(&self) -> Option<Dmabuf> {
        Some(Dmabuf {
            gpu: self.gpu,
            object: self.object.upgrade()?,
            flags: self.flags,
            offset: self.offset,
        })
    }
}

impl Process {
    pub(super) fn export_dmabuf(&self, call: &mut Call) -> Result {
        let args: &mut ExportDmabufArgs = call.args()?;
        let (gpu_id, number) = split(args.handle);
        let gpu = self.gpu(gpu_id)?;
        let Some(bo) = self.kfd().bo(gpu, number).cloned() else {
            return self.fail(Errno::EINVAL, || {
                format!("no memory has handle {:#x}", args.handle)
            });
        };
        // amdgpu_gem_prime_export refuses memory of the client.
        if !bo.flags.intersects(Alloc::VRAM | Alloc::GTT) {
            return self.fail(Errno::EPERM, || "only VRAM and GTT can be exported".into());
        }
        let dmabuf = Dmabuf {
            gpu,
            object: bo.object,
            flags: bo.flags,
            offset: bo.offset,
        };
        args.dmabuf_fd = self.export(dmabuf)? as u32;
        Ok(())
    }

    /// A descriptor of that memory.
    pub(super) fn export(&self, dmabuf: Dmabuf) -> Result<i32> {
        let (seen, _) = dmabuf.object.seen(0);
        let number = self.caller.descriptor(seen.file())?;
        if let Some(identity) = seen.identity() {
            let mut exported = lock(&self.machine.exported);
            exported.retain(|_, one| one.object.strong_count() > 0);
            exported.insert(identity, Export::of(&dmabuf));
        }
        self.install_as("dmabuf", Kind::Dmabuf(dmabuf), number)
    }

    /// The memory of a descriptor, perhaps one of another process that this one was handed: `EBADF`, or
    /// `EINVAL` where it is something else.
    pub(super) fn dmabuf(&self, fd: i32) -> Result<Dmabuf> {
        let file = match self.file(fd) {
            Ok(file) => file,
            Err(errno) => {
                let identity = self.caller.identity(fd).ok_or(errno)?;
                let exported = lock(&self.machine.exported);
                let found = exported.get(&identity).and_then(Export::memory);
                return found.ok_or(Errno::EINVAL);
            }
        };
        match &file.kind {
            Kind::Dmabuf(dmabuf) => Ok(dmabuf.clone()),
            _ => self.fail(Errno::EINVAL, || format!("{fd} is no dmabuf")),
        }
    }

    pub(super) fn import_dmabuf(&self, call: &mut Call) -> Result {
        let args: &mut ImportDmabufArgs = call.args()?;
        let gpu = self.gpu(args.gpu_id)?;
        let mut kfd = self.kfd();
        self.bound(&kfd, gpu, Errno::ENODEV)?;
        let dmabuf = self.dmabuf(args.dmabuf_fd as i32)?;
        if dmabuf.gpu != gpu {
            return self.fail(Errno::EINVAL, || {
                format!("that memory is of GPU {}", dmabuf.gpu)
            });
        }
        let device = &mut kfd.devices[gpu];
        let number = (0..).find(|n| !device.bos.contains_key(n)).unwrap_or(0);
        let file = device.bound.as_ref().map_or(0, |(file, _)| file.id);
        lock(&self.machine.nodes[gpu].areas).share(dmabuf.offset, file);
        let flags = dmabuf.flags & Alloc::TYPES | Alloc::WRITABLE | Alloc::EXECUTABLE;
        device.bos.insert(
            number,
            Bo {
                object: dmabuf.object,
                va: args.va_addr,
                flags,
                offset: dmabuf.offset,
                mapped: Vec::new(),
            },
        );
        args.handle = u64::from(args.gpu_id) << 32 | u64::from(number);
        Ok(())
    }

    pub(super) fn get_dmabuf_info(&self, call: &mut Call) -> Result {
        let args: &mut GetDmabufInfoArgs = call.args()?;
        let dmabuf = self.dmabuf(args.dmabuf_fd as i32)?;
        args.size = dmabuf.object.bytes;
        // No metadata: only graphics drivers set some.
        args.metadata_size = 0;
        args.gpu_id = self.machine.nodes[dmabuf.gpu].place.gpu_id;
        args.flags = (dmabuf.flags & (Alloc::VRAM | Alloc::GTT | Alloc::PUBLIC)).bits();
        Ok(())
    }
}
