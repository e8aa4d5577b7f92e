//! The ioctls that need little: versions, clocks, apertures, events' front, policies, debuggers.
//!
//! Source: Linux 6.12, amdkfd/kfd_chardev.c; amdkfd/kfd_flat_memory.c for apertures.

use std::sync::atomic::Ordering;

use drivers_spec::amd::kfd::{
    CreateEventArgs, DbgTrapArgs, DestroyEventArgs, GetClockCountersArgs, GetProcessAperturesArgs,
    GetProcessAperturesNewArgs, GetTileConfigArgs, GetVersionArgs, NUM_OF_SUPPORTED_GPUS,
    ProcessDeviceApertures, ResetEventArgs, RuntimeEnableArgs, RuntimeMode, SetEventArgs,
    SetMemoryPolicyArgs, SetScratchBackingVaArgs, SetTrapHandlerArgs, SetXnackModeArgs,
    SmiEventsArgs, WaitEventsArgs, cache_policy, dbg_trap, event_type,
};
use twin::rule::{Proof, Rule};
use twin_shader::isa::Gen;
use zerocopy::IntoBytes;

use crate::config::Version;
use crate::mem::Kind as MemKind;

use super::errno::{Errno, Result};
use super::files::Kind;
use super::ioctl::Call;
use super::{Process, user};

static EVENT_TYPE: Rule = Rule {
    name: "KFD-EVENT-TYPE",
    text: "an event has a type that is signalled: SIGNAL, DEBUG, MEMORY, HW_EXCEPTION; events of other types never occur",
    source: "Linux, amdkfd/kfd_events.c, kfd_event_create",
    proof: Proof::Sourced,
};

static EVENT_PAGE: Rule = Rule {
    name: "KFD-EVENT-PAGE-SIZE",
    text: "the event page has room for 4096 slots: the kernel fills 32 KiB, also of smaller memory",
    source: "Linux, amdkfd/kfd_events.c, kfd_event_page_set",
    proof: Proof::Sourced,
};

static MODELLED: Rule = Rule {
    name: "KFD-NOT-MODELLED",
    text: "the debugger is not modelled: DBG_TRAP always fails",
    source: "this twin",
    proof: Proof::Twin,
};

/// LDS and scratch, by the upper 16 bits of flat addresses.
const LDS_BASE: u64 = 1 << 48;
const SCRATCH_BASE: u64 = 2 << 48;
const APERTURE: u64 = 0xffff_ffff;
/// `SVM_USER_BASE`: what lies below is the kernel's.
const GPUVM_BASE: u64 = 0x100_0000;
/// 47 bits, as user space has.
const GPUVM_LIMIT: u64 = (1 << 47) - 1;

impl Process {
    pub(super) fn get_version(&self, call: &mut Call) -> Result {
        let args: &mut GetVersionArgs = call.args()?;
        let of_kernel = match self.machine.config.kernel {
            Version::Linux6_8 => (1, 15),
            Version::Linux6_12 => (1, 17),
        };
        let version = self.machine.config.kfd.unwrap_or(of_kernel);
        (args.major_version, args.minor_version) = version;
        Ok(())
    }

    pub(super) fn get_clock_counters(&self, call: &mut Call) -> Result {
        let args: &mut GetClockCountersArgs = call.args()?;
        // A node without a GPU has no clock, and that is no error.
        let node = self
            .machine
            .gpu_of(args.gpu_id)
            .and_then(|gpu| self.machine.nodes.get(gpu));
        args.gpu_clock_counter = node.map_or(0, |node| node.gpu.clock());
        args.cpu_clock_counter = user::clock(libc::CLOCK_MONOTONIC_RAW);
        args.system_clock_counter = user::clock(libc::CLOCK_BOOTTIME);
        args.system_clock_freq = 1_000_000_000;
        Ok(())
    }

    fn apertures(&self) -> Vec<ProcessDeviceApertures> {
        let of_gpu = |gpu_id| ProcessDeviceApertures {
            lds_base: LDS_BASE,
            lds_limit: LDS_BASE | APERTURE,
            scratch_base: SCRATCH_BASE,
            scratch_limit: SCRATCH_BASE | APERTURE,
            gpuvm_base: GPUVM_BASE,
            gpuvm_limit: GPUVM_LIMIT,
            gpu_id,
            pad: 0,
        };
        self.machine.gpu_ids().into_iter().map(of_gpu).collect()
    }

    pub(super) fn get_process_apertures(&self, call: &mut Call) -> Result {
        let args: &mut GetProcessAperturesArgs = call.args()?;
        let mut count = 0;
        for (to, from) in args.process_apertures.iter_mut().zip(self.apertures()) {
            *to = from;
            count += 1;
        }
        debug_assert!(count as usize <= NUM_OF_SUPPORTED_GPUS);
        args.num_of_nodes = count;
        Ok(())
    }

    pub(super) fn get_process_apertures_new(&self, call: &mut Call) -> Result {
        let args: &mut GetProcessAperturesNewArgs = call.args()?;
        let mut all = self.apertures();
        if args.num_of_nodes == 0 {
            args.num_of_nodes = all.len() as u32;
            return Ok(());
        }
        all.truncate(args.num_of_nodes as usize);
        args.num_of_nodes = all.len() as u32;
        self.caller
            .write(args.kfd_process_device_apertures_ptr, all.as_bytes())
    }

    pub(super) fn create_event(&self, call: &mut Call) -> Result {
        let args: &mut CreateEventArgs = call.args()?;
        let handle = args.event_page_offset;
        if handle != 0 {
            if self.events.has_page() {
                return self.fail(Errno::EINVAL, || "the event page is set already".into());
            }
            let gpu = self.gpu((handle >> 32) as u32)?;
            let kfd = self.kfd();
            self.bound(&kfd, gpu, Errno::ENODEV)?;
            let Some(object) = self.object_of(&kfd, handle) else {
                return self.fail(Errno::EINVAL, || {
                    format!("no memory has handle {handle:#x}")
                });
            };
            if matches!(object.kind, MemKind::Userptr { .. }) {
                return self.fail(Errno::EINVAL, || {
                    "memory of the client cannot be the event page".into()
                });
            }
            if object.bytes < 0x8000 {
                self.broken(
                    &EVENT_PAGE,
                    format!("an event page of {:#x} bytes", object.bytes),
                );
            }
            self.events.set_page(object, handle)?;
        }
        if !matches!(
            args.event_type,
            event_type::SIGNAL
                | event_type::DEBUG_EVENT
                | event_type::MEMORY
                | event_type::HW_EXCEPTION
        ) {
            self.broken(
                &EVENT_TYPE,
                format!("CREATE_EVENT of type {}", args.event_type),
            );
        }
        self.events.create(args)
    }

    pub(super) fn destroy_event(&self, call: &mut Call) -> Result {
        self.events
            .destroy(call.args::<DestroyEventArgs>()?.event_id)
    }

    pub(super) fn set_event(&self, call: &mut Call) -> Result {
        self.events.set(call.args::<SetEventArgs>()?.event_id, true)
    }

    pub(super) fn reset_event(&self, call: &mut Call) -> Result {
        self.events
            .set(call.args::<ResetEventArgs>()?.event_id, false)
    }

    pub(super) fn wait_events(&self, call: &mut Call) -> Result {
        let args: &mut WaitEventsArgs = call.args()?;
        // Ages came with 1.14: every kernel here has them.
        self.events.wait(&*self.caller, args, true)
    }

    pub(super) fn not_permitted(&self, _: &mut Call) -> Result {
        Err(Errno::EPERM)
    }

    pub(super) fn set_memory_policy(&self, call: &mut Call) -> Result {
        let args: SetMemoryPolicyArgs = *call.args()?;
        let known = [cache_policy::COHERENT, cache_policy::NONCOHERENT];
        if !known.contains(&args.default_policy) || !known.contains(&args.alternate_policy) {
            return self.fail(Errno::EINVAL, || {
                format!(
                    "policies {} and {}",
                    args.default_policy, args.alternate_policy
                )
            });
        }
        let gpu = self.gpu(args.gpu_id)?;
        // Only gfx7 and gfx8 look at them.
        self.bound(&self.kfd(), gpu, Errno::ESRCH).map(drop)
    }

    pub(super) fn set_scratch_backing_va(&self, call: &mut Call) -> Result {
        let args: SetScratchBackingVaArgs = *call.args()?;
        let gpu = self.gpu(args.gpu_id)?;
        let mut kfd = self.kfd();
        self.bound(&kfd, gpu, Errno::ENODEV)?;
        kfd.devices[gpu].scratch = args.va_addr;
        Ok(())
    }

    pub(super) fn set_trap_handler(&self, call: &mut Call) -> Result {
        let args: SetTrapHandlerArgs = *call.args()?;
        let gpu = self.gpu(args.gpu_id)?;
        let kfd = self.kfd();
        let space = self.bound(&kfd, gpu, Errno::ESRCH)?;
        space.vm.set_trap(args.tba_addr, args.tma_addr);
        Ok(())
    }

    pub(super) fn get_tile_config(&self, call: &mut Call) -> Result {
        let args: &mut GetTileConfigArgs = call.args()?;
        self.gpu(args.gpu_id)?;
        // Chips from gfx9 on have no tables: they are zero.
        args.gb_addr_config = self.machine.config.chip.gb_addr_config();
        (args.num_banks, args.num_ranks) = (16, 1);
        for (count, most, address) in [
            (&mut args.num_tile_configs, 32, args.tile_config_ptr),
            (
                &mut args.num_macro_tile_configs,
                16,
                args.macro_tile_config_ptr,
            ),
        ] {
            *count = (*count).min(most);
            if let Err(errno) = self.caller.write(address, &vec![0; *count as usize * 4]) {
                *count = 0;
                return Err(errno);
            }
        }
        Ok(())
    }

    pub(super) fn smi_events(&self, call: &mut Call) -> Result {
        let args: &mut SmiEventsArgs = call.args()?;
        self.gpu(args.gpuid)?;
        args.anon_fd = self.install_as("smi", Kind::Smi, self.caller.descriptor(None)?)? as u32;
        Ok(())
    }

    pub(super) fn set_xnack_mode(&self, call: &mut Call) -> Result {
        let args: &mut SetXnackModeArgs = call.args()?;
        let mut kfd = self.kfd();
        if args.xnack_enabled < 0 {
            args.xnack_enabled = kfd.xnack.into();
            return Ok(());
        }
        if !kfd.queues.is_empty() {
            return self.fail(Errno::EBUSY, || "the process has queues".into());
        }
        // Only CDNA can retry page faults while waves wait.
        let wanted = args.xnack_enabled != 0;
        if wanted && self.machine.config.chip.generation != Gen::Cdna3 {
            return self.fail(Errno::EPERM, || "this GPU cannot retry page faults".into());
        }
        kfd.xnack = wanted;
        Ok(())
    }

    pub(super) fn criu(&self, _: &mut Call) -> Result {
        self.fail(Errno::EACCES, || {
            "the process lacks CAP_CHECKPOINT_RESTORE".into()
        })
    }

    pub(super) fn runtime_enable(&self, call: &mut Call) -> Result {
        let args: &mut RuntimeEnableArgs = call.args()?;
        let kfd = self.kfd();
        let mode = RuntimeMode::from_bits_retain(args.mode_mask);
        let enable = mode.contains(RuntimeMode::ENABLE);
        if enable && self.runtime.load(Ordering::Relaxed) {
            return self.fail(Errno::EBUSY, || "enabled already".into());
        }
        if enable && !kfd.queues.is_empty() {
            return self.fail(Errno::EEXIST, || "the process has queues".into());
        }
        self.runtime.store(enable, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn dbg_trap(&self, call: &mut Call) -> Result {
        let args: DbgTrapArgs = *call.args()?;
        if !user::process_exists(args.pid) {
            return self.fail(Errno::ESRCH, || format!("no process {}", args.pid));
        }
        if args.pid != self.caller.pid() {
            // Not one that has opened /dev/kfd of this machine.
            return self.fail(Errno::ESRCH, || format!("process {} has no GPUs", args.pid));
        }
        if args.op > dbg_trap::LAST || args.op != dbg_trap::ENABLE {
            return self.fail(Errno::EINVAL, || {
                format!("operation {} without ENABLE", args.op)
            });
        }
        self.broken(&MODELLED, "DBG_TRAP ENABLE".into());
        Err(Errno::EPERM)
    }
}
