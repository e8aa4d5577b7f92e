//! Memory that is not KGSL's: of the program, or a dmabuf.
//!
//! Source: KGSL, kgsl.c, `kgsl_ioctl_map_user_mem`, `kgsl_ioctl_gpuobj_import`, `kgsl_setup_useraddr`, `memdesc_sg_virt`,
//! `kgsl_setup_dma_buf`.

use std::sync::Arc;

use drivers_spec::qcom::kgsl::{
    GpuobjImport, ImportDmaBuf, ImportUserAddress, MapUserMem, Memory, memory, user,
};
use twin::errno::{Errno, Result};
use twin::host::PAGE;

use crate::config::Version;
use crate::kernel::Process;
use crate::kernel::files::{File, Kind};
use crate::memory::Object;

use super::args;
use super::objects::Entry;

impl Process {
    /// Memory of the program for the GPU.
    fn import_address(&self, at: u64, bytes: u64, offset: u64, flags: u64) -> Result<u32> {
        let why = || format!("memory of the program at {at:#x}, {bytes:#x} bytes from {offset:#x}");
        if at == 0 || !at.is_multiple_of(PAGE) {
            return self.fail(Errno::EINVAL, why);
        }
        // Its pages are KGSL's own: the GPU has them already.
        if self.is_kgsl(at, bytes.max(1)) {
            return self.fail(Errno::EFAULT, why);
        }
        if bytes == 0 || offset != 0 || !bytes.is_multiple_of(PAGE) {
            return self.fail(Errno::EINVAL, why);
        }
        let write = flags & Memory::GPUREADONLY.bits() == 0;
        let pinned = match self.caller.pin(at, bytes, write) {
            Ok(pinned) => pinned,
            Err(errno) => return self.fail(errno, why),
        };
        let name = format!("memory of process {} at {at:#x}", self.id);
        let object = self.machine.enter().pinned(pinned, name);
        let shared = flags & Memory::USE_CPU_MAP.bits() != 0;
        let flags = flags | Process::user_flags(user::ADDR);
        self.add(object, flags, shared.then_some(at))
    }

    fn add(&self, object: Arc<Object>, flags: u64, at: Option<u64>) -> Result<u32> {
        // Larger ones are aligned so that large pages can be used.
        let align: u64 = match object.bytes {
            0x10_0000.. => 20,
            0x1_0000.. => 16,
            _ => (flags & memory::ALIGN_MASK) >> memory::ALIGN_SHIFT,
        };
        let flags = flags & !memory::ALIGN_MASK | align << memory::ALIGN_SHIFT;
        let mut objects = self.objects_of();
        let id = objects.insert(Entry::new(object, flags, false));
        if let Err(errno) = objects.place(id, at) {
            drop(objects);
            self.free_object(id);
            return self.fail(errno, || format!("an address for memory, {at:x?}"));
        }
        Ok(id)
    }

    /// A dmabuf for the GPU.
    fn import_dmabuf(&self, fd: i32, flags: u64) -> Result<u32> {
        let object = self.dmabuf(fd)?;
        // USE_CPU_MAP is not for it.
        let flags = flags & !Memory::USE_CPU_MAP.bits() | Process::user_flags(user::DMABUF);
        self.add(object, flags, None)
    }

    /// The memory of a descriptor: `EBADF`, or `EINVAL` where it is something else.
    pub(crate) fn dmabuf(&self, fd: i32) -> Result<Arc<Object>> {
        let file = match self.file(fd) {
            Ok(file) => file,
            Err(errno) => {
                let identity = self.caller.identity(fd).ok_or(errno)?;
                let state = self.machine.enter();
                let found = state
                    .exported
                    .get(&identity)
                    .and_then(std::sync::Weak::upgrade);
                return found.ok_or(Errno::EINVAL);
            }
        };
        match &file.kind {
            Kind::Dmabuf(object) => Ok(object.clone()),
            _ => self.fail(Errno::EINVAL, || format!("{fd} is no dmabuf")),
        }
    }

    pub(super) fn map_user_mem(&self, _: &File, data: &mut [u8]) -> Result {
        let args: &mut MapUserMem = args(data)?;
        let wanted = u64::from(args.flags);
        if wanted & Memory::SECURE.bits() != 0 {
            return self.fail(Errno::EOPNOTSUPP, || "secure memory".into());
        }
        let known = Memory::GPUREADONLY.bits()
            | Memory::USE_CPU_MAP.bits()
            | memory::TYPE_MASK
            | memory::ALIGN_MASK;
        let flags = wanted & (known | self.coherent());
        let id = match args.memtype {
            user::ADDR => self.import_address(args.hostptr, args.len, args.offset, flags)?,
            user::DMABUF if args.offset != 0 => {
                return self.fail(Errno::EINVAL, || {
                    format!("a dmabuf from {:#x} on", args.offset)
                });
            }
            user::DMABUF => self.import_dmabuf(args.fd, flags)?,
            kind => return self.fail(Errno::EOPNOTSUPP, || format!("memory of kind {kind}")),
        };
        let objects = self.objects_of();
        let entry = objects.find(id).ok_or(Errno::EINVAL)?;
        (args.flags, args.gpuaddr) = (entry.flags as u32, entry.address.unwrap_or(0));
        Ok(())
    }

    pub(super) fn gpuobj_import(&self, _: &File, data: &mut [u8]) -> Result {
        let args: &mut GpuobjImport = args(data)?;
        let known = Memory::GPUREADONLY.bits()
            | Memory::USE_CPU_MAP.bits()
            | Memory::SECURE.bits()
            | Memory::FORCE_32BIT.bits()
            | memory::TYPE_MASK
            | memory::ALIGN_MASK;
        let flags = args.flags & (known | self.coherent());
        if flags & Memory::SECURE.bits() != 0 || !Process::is_user(args.kind) {
            return self.fail(Errno::ENOTSUPP, || {
                format!("memory of kind {}, flags {flags:#x}", args.kind)
            });
        }
        let id = match args.kind {
            user::ADDR => {
                // Its length is that of the memory.
                let known = size_of::<ImportUserAddress>() as u64;
                let bytes = known.min(args.priv_len);
                let from: Result<ImportUserAddress> = self.get_sized(args.priv_address, bytes);
                let from = from.map_err(|errno| match self.version() {
                    Version::V4_9 => errno,
                    Version::V5_15 => Errno::EINVAL,
                })?;
                self.import_address(from.virtaddr, args.priv_len, 0, flags)?
            }
            _ => {
                let from: ImportDmaBuf = self.get_sized(args.priv_address, args.priv_len)?;
                if from.fd < 0 {
                    return self.fail(Errno::EINVAL, || format!("descriptor {}", from.fd));
                }
                self.import_dmabuf(from.fd, flags)?
            }
        };
        let objects = self.objects_of();
        let entry = objects.find(id).ok_or(Errno::EINVAL)?;
        (args.flags, args.id) = (entry.flags, id);
        Ok(())
    }
}
