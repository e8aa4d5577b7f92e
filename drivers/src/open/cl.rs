//! Devices behind a vendor's OpenCL: a fallback, never chosen unasked.

use std::path::PathBuf;
use std::sync::Arc;

use drivers_cl::{Found, Options, survey};
use drivers_host::machine::Host;
use hcq::{Device, DeviceId, Result};

use super::{Present, Twin, keep, none};
use crate::env::Settings;
use crate::select::{DeviceKind, Target};

/// Opens the device that a target names; without a number, the first that can be used. GPUs come first.
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
    };
    let usable = meant().find(|found| found.unusable.is_none());
    match usable.or_else(|| meant().next()) {
        Some(found) => device(found, settings),
        None => Err(none(target, not_there(all.len()))),
    }
}

/// Why there is no device that was asked for.
fn not_there(all: usize) -> String {
    match all {
        0 => "the OpenCL library has no device: install a vendor's OpenCL (`clinfo -l` lists devices); use DEV=CPU"
            .into(),
        1 => "found one OpenCL device, number 0".into(),
        several => format!("found OpenCL devices 0 to {}", several - 1),
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
        for (all, text) in [(0, "no device"), (1, "number 0"), (3, "0 to 2")] {
            assert!(not_there(all).contains(text));
        }
        assert!(not_there(0).ends_with("; use DEV=CPU"));
    }
}
