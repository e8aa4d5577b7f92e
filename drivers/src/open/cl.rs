//! Devices behind a vendor's OpenCL: a fallback, never chosen unasked.

use std::path::PathBuf;
use std::sync::Arc;

use drivers_cl::{Found, Options, survey};
use drivers_host::machine::Host;
use hcq::{Device, DeviceId, Result};

use super::{Present, Twin, keep, none};
use crate::env::Settings;
use crate::select::{DeviceKind, Target};

/// Opens the device that a target names; without a number, the first that can be used and is what the target says. GPUs
/// come first.
pub(super) fn open(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    _: Option<&Twin>,
) -> Result<Arc<dyn Device>> {
    let all = survey(None).map_err(|e| none(target, format!("{e}, or use DEV=CPU")))?;
    let meant = || {
        all.iter()
            .filter(|found| index.is_none_or(|index| index == found.index))
            .filter(|found| is(&found.arch(), &found.name, target.arch.as_deref()))
    };
    let usable = meant().find(|found| found.unusable.is_none());
    match usable.or_else(|| meant().next()) {
        Some(found) => device(found, settings),
        None => {
            let named = |found: &Found| format!("device {} is {}", found.index, found.name);
            let all: Vec<String> = all.iter().map(named).collect();
            Err(none(target, not_there(&all)))
        }
    }
}

/// Whether a device is what was asked for: what its kernels are compiled for, or a part of its name.
fn is(arch: &str, name: &str, wanted: Option<&str>) -> bool {
    let contains = |wanted: &str| {
        let (name, wanted) = (name.to_ascii_lowercase(), wanted.to_ascii_lowercase());
        name.contains(&wanted)
    };
    wanted.is_none_or(|wanted| wanted == arch || contains(wanted))
}

/// Why there is no device that was asked for: those that there are.
fn not_there(all: &[String]) -> String {
    match all {
        [] => "the OpenCL library has no device: install a vendor's OpenCL (`clinfo -l` lists devices); use DEV=CPU"
            .into(),
        all => format!("found by OpenCL: {}", all.join(", ")),
    }
}

/// Where built programs are kept.
fn cache(settings: &Settings) -> Option<PathBuf> {
    let is_on = settings.compile_cache && settings.cache_level > 0;
    let folder = settings.cache_dir.as_ref().filter(|_| is_on)?;
    Some(folder.join("opencl"))
}

fn device(found: &Found, settings: &Settings) -> Result<Arc<dyn Device>> {
    let usual = Options::default();
    let host: Twin = Host::get();
    let options = Options {
        ring_words: settings.ring_words.unwrap_or(usual.ring_words),
        ring_timeout: settings.wait_timeout,
        drain_timeout: settings.wait_timeout.min(usual.drain_timeout),
        cache: cache(settings),
        coredumps: keep::coredumps(&host, false, settings),
        ..usual
    };
    drivers_cl::open(found, &options).map_err(|error| {
        let id = DeviceId::new("CL", found.index);
        let place = found.place();
        keep::start(&options.coredumps, &id, ("OPENCL", &*place, ""), error)
    })
}

/// The devices of this machine's OpenCL, if it has one.
pub(super) fn present(settings: &Settings) -> Vec<Present> {
    let all = survey(None).unwrap_or_default();
    let one = |found: &Found| Present {
        target: Target {
            indices: Some(vec![found.index]),
            ..Target::any(DeviceKind::Cl)
        },
        place: found.place(),
        device: device(found, settings),
    };
    all.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said() {
        assert!(not_there(&[]).ends_with(
            "no device: install a vendor's OpenCL (`clinfo -l` lists devices); use DEV=CPU"
        ));
        let all = ["device 0 is A", "device 1 is B"].map(String::from);
        assert_eq!(
            not_there(&all),
            "found by OpenCL: device 0 is A, device 1 is B"
        );
    }

    #[test]
    fn a_device_is_asked_for_by_a_part_of_its_name() {
        let (arch, name) = ("cl:local=1,items=1,wave=8", "Intel(R) Arc(TM) Graphics");
        for wanted in [None, Some(arch), Some("arc"), Some("Intel")] {
            assert!(is(arch, name, wanted));
        }
        assert!(!is(arch, name, Some("gfx1100")));
    }
}
