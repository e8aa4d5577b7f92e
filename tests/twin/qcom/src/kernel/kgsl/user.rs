//! Memory that is not KGSL's: of the program, or a dmabuf.
//!
//! Source: KGSL, kgsl.c, `kgsl_ioctl_map_user_mem`, `kgsl_ioctl_gpuobj_import`, `kgsl_setup_useraddr`, `memdesc_sg_virt`
//! (which flushes the CPU's cache), `kgsl_setup_dma_buf`.

use std::sync::Arc;

use drivers_spec::qcom::kgsl::{
    GpuobjImport, ImportDmaBuf, ImportUserAddress, MapUserMem, Memory, memory, user,
};
use twin::errno::{Errno, Result};
use twin::host::PAGE;
use twin::rule::{Proof, Rule};

use crate::config::Version;
use crate::kernel::Process;
use crate::kernel::files::{File, Kind};
use crate::memory::Object;

use super::args;
use super::objects::{Entry, with_align};

static OVERLAP: Rule = Rule {
    name: "KGSL-IMPORT-OVERLAP",
    text: "where the CPU's cache lies before pages of the program (pages=cached), a page is imported once at a time",
    source: "this twin: each import has its own memory behind the cache",
    proof: Proof::Twin,
};

/// From how many bytes on memory is aligned so that large pages can be used, and to which power of two.
type Steps = &'static [(u64, u64)];

/// `kgsl_ioctl_gpuobj_import`.
const IMPORT: Steps = &[(1 << 20, 20), (1 << 16, 16)];
/// `kgsl_ioctl_map_user_mem`: the last one is `SZ_64`, where `SZ_64K` is meant.
const MAP: Steps = &[(1 << 21, 21), (1 << 20, 20), (1 << 16, 6)];

impl Process {
    /// Memory of the program for the GPU.
    fn import_address(
        &self,
        (at, bytes): (u64, u64),
        offset: u64,
        flags: u64,
        steps: Steps,
    ) -> Result<u32> {
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
        let coherent = flags & Memory::IOCOHERENT.bits() != 0;
        let cached = self.machine.config.cached_pages && !coherent;
        let objects = self.objects_of();
        let seen = objects.seen_in(at, bytes);
        let overlaps = seen.iter().any(|(entry, ..)| entry.program.is_some());
        drop(seen);
        drop(objects);
        if cached && overlaps {
            self.machine.broken(&OVERLAP, name.clone());
        }
        let object = self.machine.enter().pinned(pinned, name, cached);
        let object = object.or_else(|errno| self.fail(errno, why))?;
        let shared = flags & Memory::USE_CPU_MAP.bits() != 0;
        let flags = flags | Process::user_flags(user::ADDR);
        let mut entry = Entry::new(object, flags, false);
        entry.program = Some(at);
        self.add(entry, shared.then_some(at), steps)
    }

    fn add(&self, mut entry: Entry, at: Option<u64>, steps: Steps) -> Result<u32> {
        let bytes = entry.object.bytes;
        if let Some((_, align)) = steps.iter().find(|(least, _)| bytes >= *least) {
            entry.flags = with_align(entry.flags, *align);
        }
        let mut objects = self.objects_of();
        let id = objects.insert(entry);
        if let Err(errno) = objects.place(id, at) {
            drop(objects);
            self.free_object(id);
            return self.fail(errno, || format!("an address for memory, {at:x?}"));
        }
        Ok(id)
    }

    /// A dmabuf for the GPU.
    fn import_dmabuf(&self, fd: i32, flags: u64, steps: Steps) -> Result<u32> {
        let object = self.dmabuf(fd)?;
        // USE_CPU_MAP is not for it.
        let flags = flags & !Memory::USE_CPU_MAP.bits() | Process::user_flags(user::DMABUF);
        self.add(Entry::new(object, flags, false), None, steps)
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
        // No cache mode: it counts as write-combined.
        let flags = self.kept(wanted & (known | self.coherent()));
        let id = match args.memtype {
            user::ADDR => self.import_address((args.hostptr, args.len), args.offset, flags, MAP)?,
            user::DMABUF if args.offset != 0 => {
                return self.fail(Errno::EINVAL, || {
                    format!("a dmabuf from {:#x} on", args.offset)
                });
            }
            user::DMABUF => self.import_dmabuf(args.fd, flags, MAP)?,
            kind => return self.fail(Errno::EOPNOTSUPP, || format!("memory of kind {kind}")),
        };
        let objects = self.objects_of();
        let entry = objects.find(id).ok_or(Errno::EINVAL)?;
        (args.flags, args.gpuaddr) = (entry.flags as u32, entry.address.unwrap_or(0));
        Ok(())
    }

    /// What the kernel keeps of flags of GPUOBJ_IMPORT.
    ///
    /// Source: KGSL, kgsl.c: of 4.9 `kgsl_ioctl_gpuobj_import`; of 5.15 `_gpuobj_map_useraddr` and `_gpuobj_map_dma_buf`,
    /// where dma-bufs count as cached.
    fn import_flags(&self, kind: u32, flags: u64) -> u64 {
        let all = Memory::GPUREADONLY.bits() | Memory::FORCE_32BIT.bits() | memory::TYPE_MASK;
        let (shared, secure) = (Memory::USE_CPU_MAP.bits(), Memory::SECURE.bits());
        match (self.version(), kind) {
            (Version::V4_9, _) => flags & (all | shared | secure | memory::ALIGN_MASK),
            (Version::V5_15, user::ADDR) => {
                flags & (all | shared | memory::CACHEMODE_MASK | self.coherent())
            }
            (Version::V5_15, _) => {
                let cached = memory::WRITEBACK << memory::CACHEMODE_SHIFT;
                flags & (all | secure | memory::ALIGN_MASK | self.coherent()) | cached
            }
        }
    }

    pub(super) fn gpuobj_import(&self, _: &File, data: &mut [u8]) -> Result {
        let args: &mut GpuobjImport = args(data)?;
        let flags = self.kept(self.import_flags(args.kind, args.flags));
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
                self.import_address((from.virtaddr, args.priv_len), 0, flags, IMPORT)?
            }
            _ => {
                let from: ImportDmaBuf = self.get_sized(args.priv_address, args.priv_len)?;
                if from.fd < 0 {
                    return self.fail(Errno::EINVAL, || format!("descriptor {}", from.fd));
                }
                self.import_dmabuf(from.fd, flags, IMPORT)?
            }
        };
        let objects = self.objects_of();
        let entry = objects.find(id).ok_or(Errno::EINVAL)?;
        (args.flags, args.id) = (entry.flags, id);
        Ok(())
    }
}
