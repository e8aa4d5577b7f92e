//! The ioctls of `/dev/kfd`: which there are, how their arguments are copied, how each can fail.
//!
//! Source: Linux 6.12, amdkfd/kfd_chardev.c, `kfd_ioctl`.

use drivers_spec::amd::kfd;
use hcq::transport::{Ioctl, IoctlOf};
use twin::rule::{Proof, Rule};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::config::Version;

use super::errno::{Errno, Result};
use super::files::Kind;
use super::{Process, drm};

static UNKNOWN: Rule = Rule {
    name: "KFD-UNKNOWN-IOCTL",
    text: "an ioctl is one that the kernel knows",
    source: "Linux, amdkfd/kfd_chardev.c, amdkfd_ioctls",
    proof: Proof::Sourced,
};

static KIND: Rule = Rule {
    name: "KFD-IOCTL-TYPE",
    text: "the type of a request on /dev/kfd is 'K'; the kernel checks the number only",
    source: "Linux, include/uapi/linux/kfd_ioctl.h, AMDKFD_IOCTL_BASE",
    proof: Proof::Sourced,
};

static BEYOND: Rule = Rule {
    name: "KFD-ARGUMENT-SIZE",
    text: "the part of an argument beyond the size that this kernel knows is zero: the kernel ignores it",
    source: "Linux, amdkfd/kfd_chardev.c, kfd_ioctl copies _IOC_SIZE bytes and uses those of its own struct",
    proof: Proof::Sourced,
};

/// From here on numbers are those of AMD's driver that is not in Linux: whoever asks finds out which of them
/// there is, and is no worse for it. Source: ROCT, linux/kfd_ioctl.h, "non-upstream ioctls".
const OUT_OF_TREE: u32 = 0x80;

/// What a call was given.
pub(super) struct Call<'a> {
    /// The argument, with what lies beyond the struct.
    pub(super) data: &'a mut [u8],
}

impl Call<'_> {
    /// The argument.
    pub(super) fn args<T: FromBytes + IntoBytes + KnownLayout>(&mut self) -> Result<&mut T> {
        // The buffer is at least as large as the struct and aligned to 8 bytes.
        T::mut_from_prefix(self.data)
            .map(|(args, _)| args)
            .map_err(|_| Errno::EINVAL)
    }

    /// What lies beyond a struct, as an array.
    pub(super) fn rest<T: FromBytes + IntoBytes + KnownLayout + Immutable>(
        &mut self,
        from: usize,
        count: usize,
    ) -> Result<&mut [T]> {
        let rest = self.data.get_mut(from..).ok_or(Errno::EINVAL)?;
        <[T]>::mut_from_prefix_with_elems(rest, count)
            .map(|(all, _)| all)
            .map_err(|_| Errno::EINVAL)
    }
}

type Handler = fn(&Process, &mut Call) -> Result;

/// An ioctl of `/dev/kfd`.
pub struct Entry {
    /// The ioctl.
    pub ioctl: Ioctl,
    /// Every errno that it can return, besides those of any ioctl: `EFAULT` for the argument itself,
    /// and `ENODEV` once a GPU has gone.
    pub errnos: &'static [Errno],
    handler: Handler,
}

const fn entry<T>(ioctl: IoctlOf<T>, errnos: &'static [Errno], handler: Handler) -> Entry {
    Entry {
        ioctl: ioctl.ioctl(),
        errnos,
        handler,
    }
}

const BUSY: Errno = Errno::EBUSY;
const EXIST: Errno = Errno::EEXIST;
const FAULT: Errno = Errno::EFAULT;
const INVAL: Errno = Errno::EINVAL;
const NODEV: Errno = Errno::ENODEV;
const NOMEM: Errno = Errno::ENOMEM;
const NOSPC: Errno = Errno::ENOSPC;
const PERM: Errno = Errno::EPERM;
const SRCH: Errno = Errno::ESRCH;

/// Every ioctl of `/dev/kfd`, with the errnos that it has.
pub static TABLE: &[Entry] = &[
    entry(kfd::GET_VERSION, &[], Process::get_version),
    entry(
        kfd::CREATE_QUEUE,
        &[INVAL, FAULT, SRCH, NOMEM, NOSPC, BUSY, Errno::ENOTSUPP],
        Process::create_queue,
    ),
    entry(
        kfd::DESTROY_QUEUE,
        &[INVAL, Errno::ETIME],
        Process::destroy_queue,
    ),
    entry(
        kfd::SET_MEMORY_POLICY,
        &[INVAL, SRCH],
        Process::set_memory_policy,
    ),
    entry(kfd::GET_CLOCK_COUNTERS, &[], Process::get_clock_counters),
    entry(
        kfd::GET_PROCESS_APERTURES,
        &[],
        Process::get_process_apertures,
    ),
    entry(kfd::UPDATE_QUEUE, &[INVAL, FAULT], Process::update_queue),
    entry(
        kfd::CREATE_EVENT,
        &[INVAL, NOMEM, NOSPC, NODEV, BUSY],
        Process::create_event,
    ),
    entry(kfd::DESTROY_EVENT, &[INVAL], Process::destroy_event),
    entry(kfd::SET_EVENT, &[INVAL], Process::set_event),
    entry(kfd::RESET_EVENT, &[INVAL], Process::reset_event),
    entry(
        kfd::WAIT_EVENTS,
        &[INVAL, FAULT, NOMEM, Errno::EIO, Errno::EINTR],
        Process::wait_events,
    ),
    entry(
        kfd::DBG_REGISTER_DEPRECATED,
        &[PERM],
        Process::not_permitted,
    ),
    entry(
        kfd::DBG_UNREGISTER_DEPRECATED,
        &[PERM],
        Process::not_permitted,
    ),
    entry(
        kfd::DBG_ADDRESS_WATCH_DEPRECATED,
        &[PERM],
        Process::not_permitted,
    ),
    entry(
        kfd::DBG_WAVE_CONTROL_DEPRECATED,
        &[PERM],
        Process::not_permitted,
    ),
    entry(
        kfd::SET_SCRATCH_BACKING_VA,
        &[INVAL, NODEV],
        Process::set_scratch_backing_va,
    ),
    entry(
        kfd::GET_TILE_CONFIG,
        &[INVAL, FAULT],
        Process::get_tile_config,
    ),
    entry(
        kfd::SET_TRAP_HANDLER,
        &[INVAL, SRCH],
        Process::set_trap_handler,
    ),
    entry(
        kfd::GET_PROCESS_APERTURES_NEW,
        &[FAULT, NOMEM],
        Process::get_process_apertures_new,
    ),
    entry(kfd::ACQUIRE_VM, &[INVAL, BUSY, NOMEM], Process::acquire_vm),
    entry(
        kfd::ALLOC_MEMORY_OF_GPU,
        &[INVAL, NOMEM, NODEV, FAULT, Errno::EADDRINUSE],
        Process::alloc_memory,
    ),
    entry(
        kfd::FREE_MEMORY_OF_GPU,
        &[INVAL, BUSY, PERM],
        Process::free_memory,
    ),
    entry(
        kfd::MAP_MEMORY_TO_GPU,
        &[INVAL, NOMEM, NODEV, FAULT],
        Process::map_memory,
    ),
    entry(
        kfd::UNMAP_MEMORY_FROM_GPU,
        &[INVAL, NOMEM, FAULT, BUSY],
        Process::unmap_memory,
    ),
    entry(
        kfd::SET_CU_MASK,
        &[INVAL, FAULT, NOMEM],
        Process::set_cu_mask,
    ),
    entry(
        kfd::GET_QUEUE_WAVE_STATE,
        &[INVAL, FAULT],
        Process::get_queue_wave_state,
    ),
    entry(
        kfd::GET_DMABUF_INFO,
        &[INVAL, NOMEM, FAULT, Errno::EBADF],
        Process::get_dmabuf_info,
    ),
    entry(
        kfd::IMPORT_DMABUF,
        &[INVAL, NOMEM, NODEV, FAULT, Errno::EBADF],
        Process::import_dmabuf,
    ),
    entry(
        kfd::ALLOC_QUEUE_GWS,
        &[INVAL, NODEV, BUSY],
        Process::alloc_queue_gws,
    ),
    entry(
        kfd::SMI_EVENTS,
        &[INVAL, NOMEM, Errno::EMFILE],
        Process::smi_events,
    ),
    entry(
        kfd::SVM,
        &[INVAL, NOMEM, FAULT, PERM, NODEV, Errno::EADDRINUSE],
        Process::svm,
    ),
    entry(kfd::SET_XNACK_MODE, &[PERM, BUSY], Process::set_xnack_mode),
    entry(kfd::CRIU_OP, &[Errno::EACCES], Process::criu),
    entry(kfd::AVAILABLE_MEMORY, &[INVAL], Process::available_memory),
    entry(
        kfd::EXPORT_DMABUF,
        &[INVAL, NOMEM, Errno::EMFILE],
        Process::export_dmabuf,
    ),
    entry(kfd::RUNTIME_ENABLE, &[BUSY, EXIST], Process::runtime_enable),
    entry(kfd::DBG_TRAP, &[INVAL, SRCH, PERM], Process::dbg_trap),
];

/// The prefix of the names.
const PREFIX: &str = "AMDKFD_IOC_";

impl Entry {
    /// The name without its prefix.
    pub fn name(&self) -> &'static str {
        self.ioctl
            .name
            .strip_prefix(PREFIX)
            .unwrap_or(self.ioctl.name)
    }
}

/// The name of an ioctl of KFD or of a render node, as fault injection knows it.
pub fn name(wanted: &str) -> Option<&'static str> {
    let of_kfd = TABLE.iter().map(Entry::name);
    of_kfd.chain(drm::names()).find(|name| *name == wanted)
}

impl Process {
    /// An ioctl.
    ///
    /// # Errors
    /// As the kernel's.
    pub fn ioctl(&self, fd: i32, request: u32, argument: u64) -> Result {
        let file = self.file(fd)?;
        match &file.kind {
            Kind::Kfd => self.kfd_ioctl(&file.path, request, argument),
            Kind::Render(render) => self.drm_ioctl(&file, render, request, argument),
            _ => Err(Errno::ENOTTY),
        }
    }

    fn kfd_ioctl(&self, path: &str, request: u32, argument: u64) -> Result {
        let nr = Ioctl::nr_of(request);
        let Some(entry) = TABLE.iter().find(|entry| entry.ioctl.nr() == nr) else {
            if nr >= OUT_OF_TREE {
                return self.fail(Errno::ENOTTY, || {
                    format!("number {nr:#x} is one of AMD's own kernel driver, not of this one")
                });
            }
            self.broken(
                &UNKNOWN,
                format!("request {request:#010x}, number {nr:#x}, on {path}"),
            );
            return Err(Errno::ENOTTY);
        };
        if Ioctl::kind_of(request) != kfd::KIND {
            self.broken(
                &KIND,
                format!("request {request:#010x}, taken as {}", entry.name()),
            );
        }
        let all_gone = (0..self.machine.nodes.len()).all(|gpu| self.machine.gone(gpu));
        let unplugged = all_gone && nr != kfd::GET_VERSION.nr();
        let result = self.call(entry.ioctl, Ioctl::size_of(request), argument, |data| {
            if unplugged {
                return self.fail(Errno::ENODEV, || {
                    format!("{}: the GPU has gone", entry.name())
                });
            }
            if let Err(errno) = self.machine.injector.ioctl(entry.name()) {
                // A queue that does not stop is removed all the same (kfd_process_queue_manager.c,
                // pqm_destroy_queue).
                if nr == kfd::DESTROY_QUEUE.nr() && errno == Errno::ETIME {
                    let _ = (entry.handler)(self, &mut Call { data });
                }
                return Err(errno);
            }
            let known = entry.ioctl.size();
            let variable = nr == kfd::SVM.nr();
            if !variable && data.iter().skip(known).any(|&byte| byte != 0) {
                let bytes = data.len();
                self.broken(
                    &BEYOND,
                    format!(
                        "{} with {bytes} bytes, of which {known} are known",
                        entry.name()
                    ),
                );
            }
            (entry.handler)(self, &mut Call { data })
        });
        match result {
            Err(errno) => self.note(|| format!("{} = {errno}", entry.name())),
            // Waits come by the thousand and say little.
            Ok(()) if nr != kfd::WAIT_EVENTS.nr() => self.note(|| format!("{} = 0", entry.name())),
            Ok(()) => {}
        }
        result
    }

    /// Copies an argument in, calls, and copies it out: as many bytes as the client's request says; what
    /// is missing is zero.
    pub(super) fn call(
        &self,
        ioctl: Ioctl,
        bytes: usize,
        argument: u64,
        handler: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result {
        let room = bytes.max(ioctl.size());
        let mut buffer = vec![0u64; room.div_ceil(8)];
        let data = &mut buffer.as_mut_bytes()[..room];
        if ioctl.reads() {
            self.caller.read(argument, &mut data[..bytes])?;
        }
        let result = handler(data);
        if ioctl.writes() {
            self.caller.write(argument, &data[..bytes])?;
        }
        result
    }

    /// Whether the kernel is at least that one.
    pub(super) fn kernel(&self, version: Version) -> bool {
        self.machine.config.kernel >= version
    }
}
