//! GPUs of NVIDIA, through NVIDIA's kernel driver.

use std::sync::Arc;

use drivers_nv::nvk::{Found, Unusable, survey};
use hcq::{Device, Error, Result};

use super::{Present, Twin, none};
use crate::env::Settings;
use crate::select::{DeviceKind, Target, Transport};

/// Opens the GPU that a target names.
pub(super) fn open(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    twin: Option<&Twin>,
) -> Result<Arc<dyn Device>> {
    let machine = super::machine(target, Transport::Nvk, "NVIDIA", twin)?;
    let survey = survey(&*machine);
    survey.driver.map_err(|why| unusable(target, &why))?;
    let meant = |found: &&Found| index.is_none_or(|index| index == found.index);
    let candidates = || survey.gpus.iter().filter(meant);
    let usable = candidates().find(|found| found.unusable.is_none());
    match (
        usable,
        candidates().find_map(|found| found.unusable.as_ref()),
    ) {
        (Some(found), _) => gpu(&machine, target, found, settings),
        (None, Some(why)) => Err(unusable(target, why)),
        (None, None) => Err(none(target, not_there(&survey.gpus))),
    }
}

/// Why there is no GPU of a number.
fn not_there(gpus: &[Found]) -> String {
    match gpus.len() {
        0 => "the kernel driver has no GPU (`dmesg | grep NVRM`); use DEV=CPU".into(),
        1 => "there is one GPU, number 0".into(),
        several => format!("there are GPUs 0 to {}", several - 1),
    }
}

fn gpu(_: &Twin, target: &Target, found: &Found, _: &Settings) -> Result<Arc<dyn Device>> {
    let why = format!(
        "{} is there, and this version has no queues for it yet; use DEV=CPU",
        found.place
    );
    Err(none(target, why))
}

/// The GPUs of a machine.
pub(super) fn present(machine: &Twin, twin: bool, settings: &Settings) -> Vec<Present> {
    let survey = survey(&**machine);
    let one = |found: &Found| {
        let target = Target {
            interface: Some(Transport::Nvk.interface(twin)),
            indices: Some(vec![found.index]),
            ..Target::any(DeviceKind::Nv)
        };
        let device = match &found.unusable {
            Some(why) => Err(unusable(&target, why)),
            None => gpu(machine, &target, found, settings),
        };
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
    let (asked, text) = (target.to_string(), why.to_string());
    match why {
        Unusable::NoPermission { .. } | Unusable::Cgroup { .. } => {
            Error::NoPermission { asked, why: text }
        }
        Unusable::Unsupported { .. }
        | Unusable::OldDriver { .. }
        | Unusable::Divided { .. }
        | Unusable::Confidential { .. } => Error::Unsupported { asked, why: text },
        Unusable::NoDriver => none(
            target,
            format!("{text}. Without a card: DEV=TWINNVK+NV::ad102 is a simulated one"),
        ),
        _ => none(target, text),
    }
}
