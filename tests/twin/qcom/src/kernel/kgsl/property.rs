//! DEVICE_GETPROPERTY and SETPROPERTY.
//!
//! Source: KGSL, kgsl.c, `kgsl_ioctl_device_getproperty`; adreno.c, `adreno_getproperty`, `adreno_setproperty`,
//! `adreno_set_constraint`. Kernels 4.9 want exactly the size of a value; later ones copy what fits.

use drivers_spec::qcom::kgsl::{
    Constraint, ConstraintPwrLevel, DevInfo, GpuModel, Property, Version as DriverVersion,
    constraint, property, reset,
};
use twin::errno::{Errno, Result};
use twin::rule::{Proof, Rule};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::config::Version;
use crate::kernel::Process;
use crate::kernel::files::File;

use super::args;

static NOT_MODELLED: Rule = Rule {
    name: "KGSL-PROPERTY-NOT-MODELLED",
    text: "firmware versions, bandwidth compression and generic memory are not modelled: they depend on the device",
    source: "this twin: src/kernel/kgsl/property.rs",
    proof: Proof::Twin,
};

/// `ADRENO_UCHE_GMEM_BASE` of adreno.h: where shaders see on-chip memory.
const GMEM: u64 = 0x10_0000;
/// `KGSL_VERSION_MAJOR`, `KGSL_VERSION_MINOR` of kgsl.h.
const DRIVER: (u32, u32) = (3, 14);
/// Of the device: `device_3d0` of adreno.c.
const DEVICE: (u32, u32) = (3, 1);
/// `KGSL_CONSTRAINT_PWR_MAXLEVELS`.
const LEVELS: u32 = 2;
impl Process {
    pub(super) fn get_property(&self, file: &File, data: &mut [u8]) -> Result {
        let args: Property = *args(data)?;
        let chip = self.machine.config.chip;
        let old = self.version() == Version::V4_9;
        match args.kind {
            property::DEVICE_INFO => self.answer(
                &args,
                &DevInfo {
                    device_id: 1,
                    chip_id: chip.id,
                    mmu_enabled: 1,
                    gmem_gpubaseaddr: if old { GMEM } else { 0 },
                    gmem_sizebytes: chip.spec().gmem.into(),
                    ..DevInfo::default()
                },
            ),
            property::VERSION => {
                let version = DriverVersion {
                    drv_major: DRIVER.0,
                    drv_minor: DRIVER.1,
                    dev_major: DEVICE.0,
                    dev_minor: DEVICE.1,
                };
                self.answer(&args, &version)
            }
            property::GPU_RESET_STAT => self.reset_status(file, &args),
            property::UCHE_GMEM_VADDR => self.answer(&args, &GMEM),
            property::HIGHEST_BANK_BIT => self.answer(&args, &chip.bank_bit),
            property::DEVICE_BITNESS => self.answer(&args, &48_u32),
            property::SPEED_BIN if !old => self.answer(&args, &0_u32),
            property::GPU_MODEL if !old => {
                let mut model = GpuModel::default();
                let name = chip.model.as_bytes();
                model.gpu_model[..name.len()].copy_from_slice(name);
                self.answer(&args, &model)
            }
            property::GPU_VA64_SIZE if !old => self.answer(&args, &super::objects::WINDOW),
            property::UCODE_VERSION | property::UBWC_MODE | property::SP_GENERIC_MEM => {
                let what = format!("property {:#x}", args.kind);
                self.machine.broken(&NOT_MODELLED, what);
                Err(Errno::EINVAL)
            }
            kind => {
                let errno = if old { Errno::EINVAL } else { Errno::ENODEV };
                self.fail(errno, || format!("property {kind:#x}"))
            }
        }
    }

    /// Writes a value, if there is room for it.
    fn answer<T: IntoBytes + Immutable>(&self, args: &Property, value: &T) -> Result {
        let value = value.as_bytes();
        let (room, wanted) = (args.sizebytes, value.len() as u64);
        if self.version() == Version::V4_9 && room != wanted {
            return self.fail(Errno::EINVAL, || {
                format!("property {:#x}: {room} bytes, expected {wanted}", args.kind)
            });
        }
        self.caller
            .write(args.value, &value[..wanted.min(room) as usize])
    }

    fn reset_status(&self, file: &File, args: &Property) -> Result {
        if args.sizebytes != 4 {
            return self.fail(Errno::EINVAL, || {
                format!("{} bytes, expected 4", args.sizebytes)
            });
        }
        let id: u32 = self.caller.get(args.value)?;
        let mut state = self.machine.enter();
        let context = state.context(file, id)?;
        self.caller.put(args.value, &context.reset_status)?;
        context.reset_status = reset::NO_ERROR;
        Ok(())
    }

    pub(super) fn set_property(&self, file: &File, data: &mut [u8]) -> Result {
        let args: Property = *args(data)?;
        match args.kind {
            property::PWR_CONSTRAINT => {
                let wanted: Constraint = self.exactly(&args)?;
                let level = match wanted.kind {
                    constraint::NONE => None,
                    constraint::PWRLEVEL => Some(self.level(&wanted)?),
                    kind => return self.fail(Errno::EINVAL, || format!("constraint {kind}")),
                };
                let mut state = self.machine.enter();
                state.context(file, wanted.context_id)?.constraint = level;
                Ok(())
            }
            // Whether power is managed: the clock of the twin knows nothing of it.
            property::PWRCTRL => self.exactly::<u32>(&args).map(drop),
            kind => {
                let old = self.version() == Version::V4_9;
                let errno = if old { Errno::EINVAL } else { Errno::ENODEV };
                self.fail(errno, || format!("property {kind:#x}"))
            }
        }
    }

    fn level(&self, wanted: &Constraint) -> Result<u32> {
        let size = size_of::<ConstraintPwrLevel>() as u64;
        if wanted.size != size {
            return self.fail(Errno::EINVAL, || {
                format!("{} bytes, expected {size}", wanted.size)
            });
        }
        let level: ConstraintPwrLevel = self.caller.get(wanted.data)?;
        if level.level >= LEVELS {
            return self.fail(Errno::EINVAL, || format!("power level {}", level.level));
        }
        Ok(level.level)
    }

    /// A value whose size has to be that.
    fn exactly<T: FromBytes + IntoBytes>(&self, args: &Property) -> Result<T> {
        let wanted = size_of::<T>() as u64;
        if args.sizebytes != wanted {
            return self.fail(Errno::EINVAL, || {
                format!(
                    "property {:#x}: {} bytes, expected {wanted}",
                    args.kind, args.sizebytes
                )
            });
        }
        self.caller.get(args.value)
    }
}
