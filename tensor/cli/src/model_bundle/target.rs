//! What code is compiled for, without a device.

use std::fmt;

use codegen::Backend;
use codegen::target::TargetKind;
use drivers::select::{self, DeviceKind};

use crate::open::{Error, Result};

/// A chip of a kind of device, as an example.
fn a_chip(kind: DeviceKind) -> Option<&'static str> {
    match kind {
        DeviceKind::Amd => Some("gfx1100"),
        DeviceKind::Nv => Some("sm_89"),
        DeviceKind::Qcom => Some("a630"),
        _ => None,
    }
}

/// A device to compile for, as in `DEV`: `CPU::aarch64`, `CPU:CLANG:x86-64-v3`, `AMD::gfx1100`, `NV:PTX:sm_89`, `QCOM::a630`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target(select::Target);

/// As in `DEV`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Target {
    /// Reads a target.
    ///
    /// # Errors
    /// A target that is not understood; a GPU without its chip; a kind of device that nothing is compiled for.
    pub fn parse(text: &str) -> Result<Target> {
        let refused = |why: String| Error::Recipe {
            asked: format!("--target {text}"),
            why,
        };
        let targets = select::parse_targets(&format!("--target {text}"), text)?;
        select::one_cpu(&format!("--target {text}"), &targets)?;
        let [target] = &targets[..] else {
            return Err(refused(
                "expected one target; repeat --target for more".into(),
            ));
        };
        match (target.device, &target.arch) {
            (DeviceKind::Cpu, _)
            | (DeviceKind::Amd | DeviceKind::Nv | DeviceKind::Qcom, Some(_)) => {
                Ok(Target(target.clone()))
            }
            (kind, _) => Err(refused(match a_chip(kind) {
                Some(chip) => format!(
                    "expected a chip, {}::{chip}; `doorbell devices` prints that of a device",
                    kind.name()
                ),
                None => format!(
                    "model bundles have no code for {}; expected CPU, AMD, NV or QCOM",
                    kind.name()
                ),
            })),
        }
    }

    /// The kind of device.
    pub fn device(&self) -> &'static str {
        self.0.device.name()
    }

    fn is_cpu(&self) -> bool {
        self.0.device == DeviceKind::Cpu
    }

    /// Threads that groups are made for; GPUs have their own units.
    pub(super) fn threads(&self, threads: usize) -> usize {
        if self.is_cpu() { threads } else { 0 }
    }

    /// The compiler. A processor without a name is this one.
    ///
    /// # Errors
    /// A missing compiler; a processor, chip or feature that is not known.
    pub fn backend(&self, threads: usize) -> Result<Backend> {
        let device = self.device();
        let name = match self.0.renderer {
            Some(renderer) => format!("{device}:{renderer}"),
            None => device.into(),
        };
        let here = std::env::consts::ARCH;
        let arch = self.0.arch.as_deref();
        let find = |arch: &str| {
            let found = Backend::find(&name, arch, self.threads(threads));
            found.map_err(|source| Error::NoCompiler {
                target: self.0.to_string(),
                source: Box::new(source),
            })
        };
        match arch {
            Some(arch) if self.is_cpu() => {
                let target = codegen::target::Target::cpu(arch, threads)?;
                Ok(find(here)?.targeting(target))
            }
            // `gfx90a:xnack+` is a chip with a mode; the modes are the device's.
            Some(arch) => find(arch.split([':', ',']).next().unwrap_or(arch)),
            None => find(here),
        }
    }

    /// The instruction set, as the device says it.
    pub(super) fn arch(&self, backend: &Backend) -> String {
        match backend.target.kind {
            TargetKind::Cpu => backend.target.arch.clone(),
            TargetKind::Gpu => backend.target.cpu.clone(),
        }
    }

    /// What a processor needs.
    pub(super) fn features(&self, backend: &Backend) -> String {
        match backend.target.kind {
            TargetKind::Cpu => backend.target.required_features().join(","),
            TargetKind::Gpu => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_named_as_in_dev() {
        for good in [
            "CPU",
            "CPU::aarch64",
            "CPU:CLANG:x86-64-v3",
            "AMD::gfx1100",
            "NV:PTX:sm_89",
            "TWINKFD+AMD::gfx1201",
            "QCOM::a630",
            "MSM+QCOM:IR3:a660",
        ] {
            assert!(Target::parse(good).is_ok(), "{good}");
        }
        for (wrong, said) in [
            ("AMD", "AMD::gfx1100"),
            ("NV", "NV::sm_89"),
            ("QCOM", "QCOM::a630"),
            ("METAL", "expected CPU, AMD, NV or QCOM"),
            ("CPU;CPU", "repeat --target"),
            ("CPU:3", "CPU without a number"),
            ("nothing", "expected"),
        ] {
            let error = Target::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let cpu = Target::parse("CPU:CLANG:riscv64").unwrap();
        assert!(cpu.backend(1).err().unwrap().to_string().contains("x86-64"));
    }
}
