//! GPUs of NVIDIA, through NVIDIA's kernel driver; those without one are in [`super::nv_pci`].

use std::sync::Arc;

use drivers_nv::Options;
use drivers_nv::nvk::{Found, Unfit, Unusable, survey};
use drivers_spec::nv::chip::CHIPS;
use hcq::{Device, DeviceId, DeviceInfo, Error, Result};

use super::{Present, Twin, asked, is_twin, keep, none};
use crate::env::Settings;
use crate::select::{DeviceKind, Target, Transport};

/// Opens the GPU that a target names.
pub(super) fn open(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    machine: &Twin,
) -> Result<Arc<dyn Device>> {
    let survey = survey(&**machine);
    survey.driver.map_err(|why| unusable(target, &why))?;
    let wanted = wanted(target);
    let meant = |found: &&Found| index.is_none_or(|index| index == found.index);
    let (mut other, mut refused) = (Vec::new(), None);
    for found in survey.gpus.iter().filter(meant) {
        match &found.unusable {
            Some(why) => refused = refused.or(Some(unusable(target, why))),
            // What a GPU is, is told by opening it.
            None => match gpu(machine, is_twin(target), found, settings) {
                Ok(device) if wanted.is_none_or(|wanted| is(device.info(), wanted)) => {
                    return Ok(device);
                }
                Ok(device) => other.push(format!("GPU {} is {}", found.index, device.info().arch)),
                Err(e) => refused = refused.or(Some(e)),
            },
        }
    }
    Err(match (refused, wanted) {
        (Some(why), _) => why,
        (None, Some(wanted)) if !other.is_empty() => {
            none(target, format!("{}, expected {wanted}", other.join(", ")))
        }
        _ => none(target, not_there(&survey.gpus)),
    })
}

/// What a GPU is to be. Of `ga102,...` what follows is for the compiler.
pub(super) fn wanted(target: &Target) -> Option<&str> {
    target.arch.as_deref().and_then(|a| a.split(',').next())
}

/// Whether a GPU is what was asked for: an instruction set (`sm_90`), a chip that has it (`gh100`), or a part of the
/// product's name (`h200`).
pub(super) fn is(info: &DeviceInfo, wanted: &str) -> bool {
    let chip = CHIPS.iter().find(|chip| chip.name == wanted);
    let product = info.name.to_ascii_lowercase();
    match chip {
        Some(chip) => info.arch == format!("sm_{}", chip.sm),
        None => info.arch == wanted || product.contains(&wanted.to_ascii_lowercase()),
    }
}

/// Why there is no GPU of a number.
fn not_there(gpus: &[Found]) -> String {
    match gpus.len() {
        0 => "the kernel driver found no GPU (`dmesg | grep NVRM`); use DEV=CPU".into(),
        1 => "found one GPU, number 0".into(),
        several => format!("found GPUs 0 to {}", several - 1),
    }
}

/// How devices are opened.
pub(super) fn options(settings: &Settings) -> Options {
    let usual = Options::default();
    Options {
        entries: settings.ring_words.map_or(usual.entries, |words| words / 2),
        ring_timeout: settings.wait_timeout,
        drain_timeout: settings.wait_timeout.min(usual.drain_timeout),
        ..usual
    }
}

fn gpu(machine: &Twin, twin: bool, found: &Found, settings: &Settings) -> Result<Arc<dyn Device>> {
    let options = Options {
        coredumps: keep::coredumps(machine, twin, settings),
        ..options(settings)
    };
    match drivers_nv::open(machine, found.index, &options) {
        Ok(device) => Ok(device),
        Err(error) => {
            let id = DeviceId::new("NV", found.index);
            let way = ("NVK", &*found.place, "-e NVRM -e Xid");
            Err(keep::start(&options.coredumps, &id, way, error))
        }
    }
}

/// The GPUs of a machine.
pub(super) fn present(machine: &Twin, twin: bool, settings: &Settings) -> Vec<Present> {
    let survey = survey(&**machine);
    let one = |found: &Found| {
        let mut target = Target {
            interface: Some(Transport::Nvk.interface(twin)),
            indices: Some(vec![found.index]),
            ..Target::any(DeviceKind::Nv)
        };
        let device = match &found.unusable {
            Some(why) => Err(unusable(&target, why)),
            None => gpu(machine, twin, found, settings),
        };
        // Without it another twin would be made.
        let arch = device
            .as_ref()
            .ok()
            .map(|device| device.info().arch.clone());
        target.arch = arch.filter(|_| twin);
        let place = found.place.clone();
        Present {
            target,
            place,
            device,
        }
    };
    survey.gpus.iter().map(one).collect()
}

/// The error of a target that cannot be used.
fn unusable(target: &Target, why: &Unusable) -> Error {
    let (asked, text) = (asked(target), why.to_string());
    match why {
        Unusable::NoPermission { .. }
        | Unusable::Cgroup { .. }
        | Unusable::Unfit(Unfit::Prohibited { .. } | Unfit::Busy { .. }) => {
            Error::NoPermission { asked, why: text }
        }
        Unusable::OldDriver { .. } | Unusable::Unfit(_) => Error::Unsupported { asked, why: text },
        Unusable::Dead { .. } => Error::NotStarted { asked, why: text },
        Unusable::NoDriver => none(
            target,
            format!("{text}. For a simulated card, use DEV=TWINNVK+NV::ad102"),
        ),
        _ => none(target, text),
    }
}
