//! GPUs of Qualcomm, through KGSL or msm.

use std::sync::Arc;

use drivers_qcom::backend::{QcomBackend, Unusable};
use drivers_qcom::{Options, kgsl, msm, over};
use drivers_spec::qcom::chip::{Chip, by_name};
use hcq::{Device, DeviceId, Result};

use super::{Present, Twin, is_twin, keep, none};
use crate::env::Settings;
use crate::select::{DeviceKind, Target, Transport};

/// A GPU of a kernel driver.
struct Found {
    way: Transport,
    index: u32,
    place: String,
    chip: std::result::Result<&'static Chip, Unusable>,
}

/// The GPUs behind some of the kernel drivers; KGSL's goes first.
fn found(machine: &Twin, ways: &[Transport]) -> Vec<Found> {
    let mut all = Vec::new();
    if ways.contains(&Transport::Kgsl) {
        let chip = kgsl::survey(&**machine).map(|found| found.chip);
        // A machine without the driver has no GPU of it.
        if !matches!(chip, Err(Unusable::NoDriver { .. })) {
            all.push(Found {
                way: Transport::Kgsl,
                index: 0,
                place: kgsl::survey::FILE.into(),
                chip,
            });
        }
    }
    if ways.contains(&Transport::Msm) {
        all.extend(msm::survey(&**machine).into_iter().map(|found| Found {
            way: Transport::Msm,
            index: found.index,
            place: found.path,
            chip: found.chip.map(|(chip, _)| chip),
        }));
    }
    all
}

/// Opens the GPU that a target names: by KGSL where that is, else by msm.
pub(super) fn open(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    twin: Option<&Twin>,
) -> Result<Arc<dyn Device>> {
    let ways = [Transport::Kgsl, Transport::Msm];
    let machine = super::machine(target, &ways, "Qualcomm", (settings, twin))?;
    let asked = target.interface.map(|asked| asked.transport);
    let ways: Vec<_> = ways
        .into_iter()
        .filter(|way| asked.is_none_or(|asked| asked == *way))
        .collect();
    // `a630,...`: what follows is for the compiler.
    let wanted = target.arch.as_deref().and_then(|a| a.split(',').next());
    let all = found(&machine, &ways);
    let meant = |found: &&Found| index.is_none_or(|index| index == found.index);
    let (mut other, mut refused) = (Vec::new(), None);
    for found in all.iter().filter(meant) {
        match &found.chip {
            Err(why) => refused = refused.or(Some(why.clone().into_error(target.to_string()))),
            Ok(chip) if wanted.is_none_or(|wanted| by_name(wanted) == Some(*chip)) => {
                match gpu(&machine, is_twin(target), found, settings) {
                    Ok(device) => return Ok(device),
                    Err(error) => refused = refused.or(Some(error)),
                }
            }
            Ok(chip) => other.push(format!(
                "GPU {} is {}",
                found.index,
                chip.name.to_ascii_lowercase()
            )),
        }
    }
    Err(match (refused, wanted) {
        (Some(why), _) => why,
        (None, Some(wanted)) if !other.is_empty() => {
            none(target, format!("{}, expected {wanted}", other.join(", ")))
        }
        _ => none(target, not_there(&all, &ways)),
    })
}

/// Why there is no GPU that was asked for.
fn not_there(all: &[Found], ways: &[Transport]) -> String {
    match all.len() {
        0 => {
            let files: Vec<_> = ways
                .iter()
                .map(|way| match way {
                    Transport::Msm => "no render node of the kernel driver msm in /dev/dri",
                    _ => "no /dev/kgsl-3d0",
                })
                .collect();
            format!(
                "{} (`dmesg | grep -e kgsl -e msm`); use DEV=CPU",
                files.join(" and ")
            )
        }
        1 => "found one GPU, number 0".into(),
        several => format!("found GPUs 0 to {}", several - 1),
    }
}

/// What settings say of a device.
fn options(settings: &Settings) -> Options {
    let usual = Options::default();
    Options {
        ring_timeout: settings.wait_timeout,
        drain_timeout: settings.wait_timeout.min(usual.drain_timeout),
        priority: settings.qcom_priority.into(),
        full_power: settings.qcom_full_power,
        ..usual
    }
}

fn gpu(machine: &Twin, twin: bool, found: &Found, settings: &Settings) -> Result<Arc<dyn Device>> {
    let options = Options {
        coredumps: keep::coredumps(machine, twin, settings),
        ..options(settings)
    };
    let opened: Result<Arc<dyn QcomBackend>> = match found.way {
        Transport::Msm => msm::open(machine, found.index),
        _ => kgsl::open(machine, found.index, &options),
    };
    match opened.and_then(|backend| over(&backend, &options)) {
        Ok(device) => Ok(device),
        Err(error) => {
            let id = DeviceId::new("QCOM", found.index);
            let log = match found.way {
                Transport::Msm => "msm",
                _ => "kgsl",
            };
            let way = (found.way.name(), &*found.place, log);
            Err(keep::start(&options.coredumps, &id, way, error))
        }
    }
}

/// The GPUs of a machine.
pub(super) fn present(machine: &Twin, twin: bool, settings: &Settings) -> Vec<Present> {
    let all = found(machine, &[Transport::Kgsl, Transport::Msm]);
    let one = |found: &Found| {
        let arch = found
            .chip
            .as_ref()
            .ok()
            .map(|chip| chip.name.to_ascii_lowercase());
        let target = Target {
            interface: Some(found.way.interface(twin)),
            indices: Some(vec![found.index]),
            // Without it another twin would be made.
            arch: arch.filter(|_| twin),
            ..Target::any(DeviceKind::Qcom)
        };
        let device = match &found.chip {
            Err(why) => Err(why.clone().into_error(target.to_string())),
            Ok(_) => gpu(machine, twin, found, settings),
        };
        Present {
            target,
            place: found.place.clone(),
            device,
        }
    };
    all.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use hcq::Error;

    use super::*;

    #[test]
    fn an_empty_machine_says_where_was_looked() {
        for (ways, text) in [
            (&[Transport::Kgsl][..], "no /dev/kgsl-3d0 (`dmesg"),
            (
                &[Transport::Msm],
                "no render node of the kernel driver msm in /dev/dri (`dmesg",
            ),
            (
                &[Transport::Kgsl, Transport::Msm],
                "no /dev/kgsl-3d0 and no render node",
            ),
        ] {
            let why = not_there(&[], ways);
            assert!(
                why.starts_with(text) && why.ends_with("use DEV=CPU"),
                "{why}"
            );
        }
    }

    #[test]
    fn settings_reach_the_context() {
        let usual = options(&Settings::default());
        let drivers = Options::default();
        assert_eq!(
            (usual.priority, usual.full_power),
            (drivers.priority, drivers.full_power)
        );
        let env = [("QCOM_PRIORITY", "12"), ("QCOM_FULL_POWER", "0")];
        let set = options(&Settings::parse(env).unwrap());
        assert_eq!((set.priority, set.full_power), (12, false));
    }

    #[test]
    fn every_error_names_what_was_asked_for() {
        let target = Target::any(DeviceKind::Qcom);
        let Error::NoDevice { asked, why } = none(&target, not_there(&[], &[Transport::Kgsl]))
        else {
            panic!("another error");
        };
        assert_eq!(asked, "QCOM");
        assert!(why.contains("kgsl"), "{why}");
    }
}
