//! What all drivers of DRM have, and facts of the GPU: VERSION, GET_CAP, PRIME, GET_PARAM, SET_PARAM.
//!
//! Source: Linux 6.12, drivers/gpu/drm/drm_ioctl.c, `drm_version`, `drm_getcap`; drm_prime.c; drivers/gpu/drm/msm/
//! msm_drv.c, `msm_ioctl_get_param`; adreno/adreno_gpu.c, `adreno_get_param`, `adreno_set_param`.

use std::sync::Arc;

use drivers_spec::amd::drm::{self, GetCap, PrimeHandle, Version};
use drivers_spec::qcom::msm::{self, param};
use twin::errno::{Errno, Result};

use crate::kernel::Process;
use crate::kernel::files::Kind;

use super::{ADDRESSES, Call};

/// What the driver calls itself: name, date, description. Linux 6.12, msm_drv.c.
const NAMES: [&str; 3] = ["msm", "20130625", "MSM Snapdragon DRM"];
/// `MSM_VERSION_MAJOR`, `_MINOR`, `_PATCHLEVEL`.
const VERSION: (i32, i32, i32) = (1, 12, 0);
/// `NR_SCHED_PRIORITIES` of msm_gpu.h, of each ring.
pub(super) const PRIORITIES: u32 = 3;
/// `MSM_PARAM_SYSPROF`, `MSM_PARAM_COMM`, `MSM_PARAM_CMDLINE`: set only.
const SYSPROF: u32 = 0x0b;
const COMM: u32 = 0x0c;
const CMDLINE: u32 = 0x0d;
/// `MSM_PARAM_RAYTRACING`, `MSM_PARAM_UBWC_SWIZZLE`, `MSM_PARAM_MACROTILE_MODE`.
const RAYTRACING: u32 = 0x11;
const UBWC_SWIZZLE: u32 = 0x12;
const MACROTILE_MODE: u32 = 0x13;
/// `DRM_CLOEXEC | DRM_RDWR`.
const PRIME_FLAGS: u32 = (libc::O_CLOEXEC | libc::O_RDWR) as u32;

impl Process {
    pub(super) fn drm_version(&self, call: &mut Call<'_>) -> Result {
        let args: &mut Version = call.args()?;
        (
            args.version_major,
            args.version_minor,
            args.version_patchlevel,
        ) = VERSION;
        for (text, address, length) in [
            (NAMES[0], args.name, &mut args.name_len),
            (NAMES[1], args.date, &mut args.date_len),
            (NAMES[2], args.desc, &mut args.desc_len),
        ] {
            let room = (*length as usize).min(text.len());
            *length = text.len() as u64;
            if address != 0 && room > 0 {
                self.caller.write(address, &text.as_bytes()[..room])?;
            }
        }
        Ok(())
    }

    pub(super) fn get_cap(&self, call: &mut Call<'_>) -> Result {
        let args: &mut GetCap = call.args()?;
        args.value = match args.capability {
            // Import and export.
            drm::CAP_PRIME => 3,
            drm::CAP_SYNCOBJ | drm::CAP_SYNCOBJ_TIMELINE => 1,
            other => return self.fail(Errno::EINVAL, || format!("capability {other:#x}")),
        };
        Ok(())
    }

    pub(super) fn export_gem(&self, call: &mut Call<'_>) -> Result {
        let args: PrimeHandle = *call.args()?;
        if args.flags & !PRIME_FLAGS != 0 {
            return self.fail(Errno::EINVAL, || format!("PRIME flags {:#x}", args.flags));
        }
        let object = self.render(call)?.gem(args.handle)?.object.clone();
        let fd = self.export(object)?;
        call.args::<PrimeHandle>()?.fd = fd;
        Ok(())
    }

    /// A descriptor of memory.
    pub(crate) fn export(&self, object: Arc<crate::memory::Object>) -> Result<i32> {
        let number = self.caller.descriptor(object.seen().file())?;
        if let Some(identity) = object.seen().identity() {
            let mut state = self.machine.enter();
            state.exported.retain(|_, one| one.strong_count() > 0);
            state.exported.insert(identity, Arc::downgrade(&object));
        }
        self.install(Kind::Dmabuf(object), number)
    }

    pub(super) fn import_gem(&self, call: &mut Call<'_>) -> Result {
        let args: PrimeHandle = *call.args()?;
        let object = self.dmabuf(args.fd)?;
        let mut render = self.render(call)?;
        // A file has one handle for memory.
        let known = render
            .gems
            .iter()
            .find(|(_, gem)| Arc::ptr_eq(&gem.object, &object));
        let handle = match known.map(|(handle, _)| *handle) {
            Some(handle) => handle,
            None => render.insert(object, msm::Bo::WC.bits(), true),
        };
        drop(render);
        call.args::<PrimeHandle>()?.handle = handle;
        Ok(())
    }

    pub(super) fn get_param(&self, call: &mut Call<'_>) -> Result {
        let file = call.file.id;
        let args: &mut msm::Param = call.args()?;
        if args.pipe != msm::PIPE_3D0 || args.pad != 0 || args.len != 0 {
            let (pipe, len) = (args.pipe, args.len);
            return self.fail(Errno::EINVAL, || {
                format!("GET_PARAM: pipe {pipe:#x}, {len} bytes")
            });
        }
        let chip = self.machine.config.chip;
        let mut state = self.machine.enter();
        args.value = match args.param {
            param::GPU_ID => chip.gpu_id().into(),
            param::GMEM_SIZE => chip.spec().gmem.into(),
            // No speed bin.
            param::CHIP_ID => u64::from(chip.id) | 0xffff << 32,
            param::MAX_FREQ => u64::from(chip.mhz[0]) * 1_000_000,
            param::TIMESTAMP => state.core.ticks(),
            // Not of A650 and later. a6xx: adreno_is_a650_family and so on.
            param::GMEM_BASE => match chip.name {
                "a650" | "a660" | "a643" | "a690" => 0,
                _ => 0x10_0000,
            },
            param::PRIORITIES => PRIORITIES.into(),
            param::FAULTS => {
                let own = state.queues.iter().filter(|((of, _), _)| *of == file);
                let own: u64 = own.map(|(_, queue)| u64::from(queue.faults)).sum();
                u64::from(state.resets) + own
            }
            param::SUSPENDS => 0,
            param::VA_START => ADDRESSES.0,
            param::VA_SIZE => ADDRESSES.1 - ADDRESSES.0,
            param::HIGHEST_BANK_BIT => chip.bank_bit.into(),
            // From A740 on.
            RAYTRACING => 0,
            // a6xx_gpu.c, a6xx_calc_ubwc_config.
            UBWC_SWIZZLE => chip.tiling().levels.into(),
            MACROTILE_MODE => chip.tiling().eight_channels.into(),
            other => return self.fail(Errno::EINVAL, || format!("GET_PARAM {other:#x}")),
        };
        Ok(())
    }

    pub(super) fn set_param(&self, call: &mut Call<'_>) -> Result {
        let args: msm::Param = *call.args()?;
        if args.pipe != msm::PIPE_3D0 || args.pad != 0 {
            return self.fail(Errno::EINVAL, || {
                format!("SET_PARAM: pipe {:#x}", args.pipe)
            });
        }
        match args.param {
            // Names of the program, for dumps.
            COMM | CMDLINE if args.len > 4096 => {
                self.fail(Errno::EINVAL, || format!("a name of {} bytes", args.len))
            }
            COMM | CMDLINE => {
                let mut name = vec![0; args.len as usize];
                self.caller.read(args.value, &mut name)
            }
            // CAP_SYS_ADMIN.
            SYSPROF => self.fail(Errno::EPERM, || "SYSPROF needs a capability".into()),
            other => self.fail(Errno::EINVAL, || format!("SET_PARAM {other:#x}")),
        }
    }
}
