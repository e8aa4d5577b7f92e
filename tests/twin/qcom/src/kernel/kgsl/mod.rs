//! KGSL: the ioctls of `/dev/kgsl-3d0`, and how their arguments are copied.
//!
//! Source: KGSL of Linux 4.9 (AICP/kernel_oneplus_sdm845, drivers/gpu/msm/kgsl.c) and of 5.15 (qualcomm-linux/kgsl
//! 27cf0e4), kgsl_ioctl.c, `kgsl_ioctl_helper`: a request is found by its number; as many bytes are copied as both sides
//! know, and copied back only where the call succeeds.

mod command;
pub(crate) mod context;
pub(crate) mod counters;
pub(crate) mod objects;
mod property;
mod sync;
mod user;

use drivers_spec::qcom::kgsl;
use hcq::transport::{Ioctl, IoctlOf};
use twin::errno::{Errno, Result};
use twin::rule::{Proof, Rule};
use zerocopy::{FromBytes, IntoBytes, KnownLayout};

use crate::config::{Kernel, Version};

use super::Process;
use super::files::File;

static UNKNOWN: Rule = Rule {
    name: "KGSL-UNKNOWN-IOCTL",
    text: "an ioctl of KGSL is one that compute clients use; others are not modelled",
    source: "this twin: drivers_spec::qcom::kgsl",
    proof: Proof::Twin,
};

static KIND: Rule = Rule {
    name: "KGSL-IOCTL-TYPE",
    text: "the type of a request on /dev/kgsl-3d0 is 9, and it has the direction and the size of its struct; the kernel \
           looks at the number and copies what both sides know",
    source: "KGSL, kgsl_ioctl.c, kgsl_ioctl_helper, kgsl_ioctl_copy_in",
    proof: Proof::Sourced,
};

/// Bytes of the buffer that the kernel has on its stack.
const BUFFER: usize = 128;

type Handler = fn(&Process, &File, &mut [u8]) -> Result;

struct Entry {
    ioctl: Ioctl,
    handler: Handler,
}

const fn entry<T>(ioctl: IoctlOf<T>, handler: Handler) -> Entry {
    Entry {
        ioctl: ioctl.ioctl(),
        handler,
    }
}

static TABLE: &[Entry] = &[
    entry(kgsl::DEVICE_GETPROPERTY, Process::get_property),
    entry(kgsl::DEVICE_WAITTIMESTAMP_CTXTID, Process::wait_timestamp),
    entry(kgsl::DRAWCTXT_CREATE, Process::create_context),
    entry(kgsl::DRAWCTXT_DESTROY, Process::destroy_context),
    entry(kgsl::MAP_USER_MEM, Process::map_user_mem),
    entry(
        kgsl::CMDSTREAM_READTIMESTAMP_CTXTID,
        Process::read_timestamp,
    ),
    entry(kgsl::SHAREDMEM_FREE, Process::free_by_address),
    entry(kgsl::SETPROPERTY, Process::set_property),
    entry(kgsl::GPUMEM_ALLOC_ID, Process::gpumem_alloc_id),
    entry(kgsl::GPUMEM_FREE_ID, Process::free_by_id),
    entry(kgsl::GPUMEM_SYNC_CACHE, Process::sync_cache),
    entry(kgsl::PERFCOUNTER_GET, Process::get_counter),
    entry(kgsl::PERFCOUNTER_PUT, Process::put_counter),
    entry(kgsl::PERFCOUNTER_READ, Process::read_counters),
    entry(kgsl::GPUOBJ_ALLOC, Process::gpuobj_alloc),
    entry(kgsl::GPUOBJ_FREE, Process::gpuobj_free),
    entry(kgsl::GPUOBJ_INFO, Process::gpuobj_info),
    entry(kgsl::GPUOBJ_IMPORT, Process::gpuobj_import),
    entry(kgsl::GPUOBJ_SYNC, Process::gpuobj_sync),
    entry(kgsl::GPU_COMMAND, Process::gpu_command),
];

/// The name of an ioctl without its prefix.
pub(crate) fn name(ioctl: &Ioctl) -> &'static str {
    ioctl.name.strip_prefix("IOCTL_KGSL_").unwrap_or(ioctl.name)
}

/// An argument.
fn args<T: FromBytes + IntoBytes + KnownLayout>(data: &mut [u8]) -> Result<&mut T> {
    // The buffer is larger than any struct, and aligned to 8 bytes.
    let args = T::mut_from_prefix(data);
    args.map(|(args, _)| args).map_err(|_| Errno::EINVAL)
}

impl Process {
    /// The version of KGSL.
    fn version(&self) -> Version {
        match self.machine.config.kernel {
            Kernel::Kgsl(version) => version,
            Kernel::Msm => Version::V5_15,
        }
    }

    /// An ioctl of KGSL.
    pub(crate) fn kgsl_ioctl(&self, file: &File, request: u32, argument: u64) -> Result {
        let nr = Ioctl::nr_of(request);
        let Some(entry) = TABLE.iter().find(|entry| entry.ioctl.nr() == nr) else {
            let what = format!("request {request:#010x}, number {nr:#x}");
            self.machine.broken(&UNKNOWN, what);
            return Err(Errno::ENOTTY);
        };
        let (ioctl, name) = (entry.ioctl, name(&entry.ioctl));
        if request != ioctl.request {
            let what = format!(
                "{name}: request {request:#010x}, expected {:#010x}",
                ioctl.request
            );
            self.machine.broken(&KIND, what);
        }
        let done = self.call(ioctl, request, argument, |data| {
            self.machine.injector.call(name)?;
            (entry.handler)(self, file, data)
        });
        let outcome = done.as_ref().err().map_or("0".into(), ToString::to_string);
        let note = format!("process {}: {name} = {outcome}", self.id);
        self.machine.journal.event(note);
        done
    }

    fn call(
        &self,
        ioctl: Ioctl,
        request: u32,
        argument: u64,
        call: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result {
        let copied = ioctl.size().min(Ioctl::size_of(request));
        let mut buffer = [0_u64; BUFFER / 8];
        let data = buffer.as_mut_bytes();
        if ioctl.reads() && request & Ioctl::WRITE != 0 {
            self.caller.read(argument, &mut data[..copied])?;
        }
        call(data)?;
        if ioctl.writes() && request & Ioctl::READ != 0 {
            self.caller.write(argument, &data[..copied])?;
        }
        Ok(())
    }

    /// Copies a struct whose size the caller gives: as much as both sides know.
    fn get_sized<T: FromBytes + IntoBytes>(&self, address: u64, bytes: u64) -> Result<T> {
        let mut value = T::new_zeroed();
        let known = value.as_mut_bytes();
        let copied = known
            .len()
            .min(usize::try_from(bytes).unwrap_or(usize::MAX));
        match self.version() {
            // `_copy_from_user` of kgsl_device.h.
            Version::V4_9 if copied == 0 => return Err(Errno::EINVAL),
            Version::V4_9 => {}
            // `copy_struct_from_user`: what lies beyond has to be zero.
            Version::V5_15 => {
                let beyond = bytes.saturating_sub(known.len() as u64).min(4096);
                let mut rest = vec![0; beyond as usize];
                self.caller.read(address + copied as u64, &mut rest)?;
                if rest.iter().any(|byte| *byte != 0) {
                    return Err(Errno::EFAULT);
                }
            }
        }
        self.caller.read(address, &mut known[..copied])?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ioctl_of_the_table_has_a_handler() {
        let numbers = |all: &mut dyn Iterator<Item = u32>| {
            let mut numbers: Vec<u32> = all.collect();
            numbers.sort_unstable();
            numbers
        };
        let known = numbers(&mut kgsl::IOCTLS.iter().map(|ioctl| ioctl.nr()));
        assert_eq!(
            numbers(&mut TABLE.iter().map(|entry| entry.ioctl.nr())),
            known
        );
        assert!(kgsl::IOCTLS.iter().all(|ioctl| ioctl.size() <= BUFFER));
    }
}
