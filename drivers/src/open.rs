//! Opening what was selected.

use std::num::NonZeroUsize;
use std::sync::Arc;

use drivers_cpu::{Config, CpuDevice};
use hcq::{Device, Error, Result};

use crate::env::Settings;
use crate::select::{DeviceKind, Target};

/// What this version can do with a kind of device.
enum Support {
    /// Opens number `index`.
    Here(fn(&Target, u32, &Settings) -> Result<Arc<dyn Device>>),
    /// There is no driver yet; the text says what there would be.
    NotYet(&'static str),
}

/// The vendor table: every kind that can be selected.
fn support(kind: DeviceKind) -> Support {
    match kind {
        DeviceKind::Cpu => Support::Here(open_cpu),
        DeviceKind::Amd => Support::NotYet("AMD GPUs by KFD, PCI and USB"),
        DeviceKind::Nv => Support::NotYet("NVIDIA GPUs by their kernel module, PCI and USB"),
        DeviceKind::Qcom => Support::NotYet("Adreno GPUs by KGSL"),
        DeviceKind::Cuda => Support::NotYet("NVIDIA GPUs by the CUDA driver"),
        DeviceKind::Hip => Support::NotYet("AMD GPUs by the HIP runtime"),
        DeviceKind::Cl => Support::NotYet("OpenCL devices"),
        DeviceKind::Metal => Support::NotYet("Apple GPUs by Metal"),
        DeviceKind::WebGpu => Support::NotYet("GPUs by WebGPU"),
    }
}

/// Opens the device that a target names, with the default settings: see [`open_with`].
///
/// # Errors
/// As [`open_with`].
pub fn open(target: &Target) -> Result<Arc<dyn Device>> {
    open_with(target, &Settings::default())
}

/// Opens the device that a target names: the first of its kind, unless it gives an index.
///
/// # Errors
/// [`Error::NoDevice`] for a kind without driver in this version, for a simulated device, for
/// several indices, and for an architecture that the device does not have; else what the driver
/// says.
pub fn open_with(target: &Target, settings: &Settings) -> Result<Arc<dyn Device>> {
    if let Some(interface) = target.interface.filter(|i| i.twin) {
        let why = format!("{interface} is a twin, and twins are not in this version; use DEV=CPU");
        return Err(none(target, why));
    }
    let index = match target.indices.as_deref() {
        None | Some([]) => 0,
        Some([index]) => *index,
        Some(several) => {
            let n = several.len();
            return Err(none(
                target,
                format!("it names {n} devices, expected one; open them one by one"),
            ));
        }
    };
    match support(target.device) {
        Support::Here(open) => open(target, index, settings),
        Support::NotYet(what) => Err(none(
            target,
            format!("this version has no driver for {what}; use DEV=CPU"),
        )),
    }
}

/// Opens every device that this version has a driver for and that is present.
///
/// # Errors
/// What a driver says of a device that is there and does not open.
pub fn present(settings: &Settings) -> Result<Vec<Arc<dyn Device>>> {
    let kinds = DeviceKind::ALL.into_iter();
    kinds
        .filter_map(|kind| match support(kind) {
            Support::Here(open) => Some(open(&Target::any(kind), 0, settings)),
            Support::NotYet(_) => None,
        })
        .collect()
}

fn open_cpu(target: &Target, index: u32, settings: &Settings) -> Result<Arc<dyn Device>> {
    let here = std::env::consts::ARCH;
    // `x86_64,avx2,-avx512f`: what follows the first comma is for the compiler.
    let wanted = target.arch.as_deref().and_then(|a| a.split(',').next());
    if let Some(wanted) = wanted.filter(|&wanted| wanted != here) {
        return Err(none(
            target,
            format!("this machine is {here}, expected {wanted}"),
        ));
    }
    CpuDevice::open(Config {
        index,
        cores: settings.cpu_count.map_or(0, NonZeroUsize::get),
        ring_timeout: settings.wait_timeout,
        ..Config::default()
    })
}

fn none(target: &Target, why: String) -> Error {
    let asked = target.to_string();
    Error::NoDevice { asked, why }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::parse_targets;

    fn target(text: &str) -> Target {
        parse_targets("test", text).unwrap().remove(0)
    }

    #[test]
    fn the_cpu_opens_with_its_number_and_threads() {
        let settings = Settings {
            cpu_count: NonZeroUsize::new(3),
            ..Settings::default()
        };
        let device = open_with(&target("CPU"), &settings).unwrap();
        assert_eq!(device.info().id.to_string(), "CPU:0");
        assert_eq!(device.info().units, 3);
        let mut second = target("CPU");
        second.indices = Some(vec![2]);
        second.arch = Some(format!("{},avx2", std::env::consts::ARCH));
        let device = open(&second).unwrap();
        assert_eq!(device.info().id.to_string(), "CPU:2");
        assert_eq!(device.info().arch, std::env::consts::ARCH);
    }

    #[test]
    fn what_is_not_there_is_said() {
        for kind in DeviceKind::ALL {
            if kind == DeviceKind::Cpu {
                continue;
            }
            let error = open(&Target::any(kind)).unwrap_err();
            assert!(matches!(error, Error::NoDevice { .. }));
            let text = error.to_string();
            assert!(
                text.starts_with(&format!("no device for {}: ", kind.name())),
                "{text}"
            );
            assert!(text.contains("use DEV=CPU"), "{text}");
        }
        let text = open(&target("TWINKFD+AMD::gfx1100"))
            .unwrap_err()
            .to_string();
        assert!(text.contains("twins are not in this version"), "{text}");
        let mut several = target("CPU");
        several.indices = Some(vec![0, 1]);
        let text = open(&several).unwrap_err().to_string();
        assert!(text.contains("names 2 devices"), "{text}");
        let mut other = target("CPU");
        other.arch = Some("riscv64".into());
        let text = open(&other).unwrap_err().to_string();
        assert!(text.contains("expected riscv64"), "{text}");
    }
}
