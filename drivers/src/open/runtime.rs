//! GPUs through a vendor's runtime: CUDA and HIP, each where its library is.

use std::sync::Arc;

use drivers_host::machine::Host;
use drivers_runtime::{Found, Options, Survey, Unusable};
use hcq::{Device, Error, Result};

use super::{Present, Twin, keep, none};
use crate::env::Settings;
use crate::select::{DeviceKind, Target};

/// A runtime.
struct Runtime {
    kind: DeviceKind,
    /// What drives the same GPUs without it.
    instead: &'static str,
    survey: fn() -> std::result::Result<Survey, Unusable>,
    open: fn(u32, &Options) -> Result<Arc<dyn Device>>,
}

const CUDA: Runtime = Runtime {
    kind: DeviceKind::Cuda,
    instead: "NV",
    survey: drivers_cuda::survey,
    open: drivers_cuda::open,
};

const HIP: Runtime = Runtime {
    kind: DeviceKind::Hip,
    instead: "AMD",
    survey: drivers_hip::survey,
    open: drivers_hip::open,
};

pub(super) fn open_cuda(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    _: Option<&Twin>,
) -> Result<Arc<dyn Device>> {
    open(&CUDA, target, index, settings)
}

pub(super) fn open_hip(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    _: Option<&Twin>,
) -> Result<Arc<dyn Device>> {
    open(&HIP, target, index, settings)
}

/// Opens the GPU that a target names.
fn open(
    runtime: &Runtime,
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
) -> Result<Arc<dyn Device>> {
    let (name, instead) = (runtime.kind.name(), runtime.instead);
    if target.interface.is_some() {
        let why =
            format!("{name} has no interfaces; use DEV={name}, DEV={instead}, or use DEV=CPU");
        return Err(none(target, why));
    }
    let survey = (runtime.survey)().map_err(|why| why.into_error(target.to_string()))?;
    // `gfx1100,...`: what follows is for the compiler.
    let wanted = target.arch.as_deref().and_then(|a| a.split(',').next());
    let meant = |found: &&Found| index.is_none_or(|index| index == found.index);
    let (mut other, mut refused): (Vec<String>, Option<Error>) = (Vec::new(), None);
    for found in survey.gpus.iter().filter(meant) {
        if wanted.is_some_and(|wanted| !is(found, wanted)) {
            other.push(format!("GPU {} is {}", found.index, found.arch));
            continue;
        }
        match (runtime.open)(found.index, &options(settings)) {
            Ok(device) => return Ok(device),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(match (refused, wanted) {
        (Some(why), _) => why,
        (None, Some(wanted)) if !other.is_empty() => {
            none(target, format!("{}, expected {wanted}", other.join(", ")))
        }
        _ => none(target, not_there(&survey, runtime)),
    })
}

/// Whether a GPU is what was asked for: an instruction set, or a part of the product's name.
fn is(found: &Found, wanted: &str) -> bool {
    let arch = found.arch.split(':').next().unwrap_or_default();
    let product = found.name.to_ascii_lowercase();
    wanted == found.arch || wanted == arch || product.contains(&wanted.to_ascii_lowercase())
}

/// Why there is no GPU of a number.
fn not_there(survey: &Survey, runtime: &Runtime) -> String {
    let (version, instead) = (&survey.version, runtime.instead);
    match survey.gpus.len() {
        0 => format!("{version} finds no GPU; use DEV={instead}, or use DEV=CPU"),
        1 => "found one GPU, number 0".into(),
        several => format!("found GPUs 0 to {}", several - 1),
    }
}

/// How devices are opened. A place is a submission, of which the smallest have about eight words.
fn options(settings: &Settings) -> Options {
    let usual = Options::default();
    let host: Twin = Host::get();
    Options {
        in_flight: settings
            .ring_words
            .map_or(usual.in_flight, |words| (words / 8).max(4)),
        ring_timeout: settings.wait_timeout,
        drain_timeout: settings.wait_timeout.min(usual.drain_timeout),
        coredumps: keep::coredumps(&host, false, settings),
        ..usual
    }
}

/// The GPUs of the runtimes that are installed.
pub(super) fn present(settings: &Settings) -> Vec<Present> {
    let mut all = Vec::new();
    for runtime in [CUDA, HIP] {
        // Why one cannot be used is the doctor's to say.
        let Ok(survey) = (runtime.survey)() else {
            continue;
        };
        all.extend(survey.gpus.iter().map(|found| Present {
            target: Target {
                indices: Some(vec![found.index]),
                ..Target::any(runtime.kind)
            },
            place: found.place.clone(),
            device: (runtime.open)(found.index, &options(settings)),
        }));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(index: u32, arch: &str, name: &str) -> Found {
        Found {
            index,
            place: "0000:03:00.0".into(),
            name: name.into(),
            arch: arch.into(),
            units: 1,
            memory: 1 << 30,
            can_write: true,
        }
    }

    /// A runtime of two GPUs, none of which opens.
    fn two() -> Runtime {
        Runtime {
            survey: || {
                Ok(Survey {
                    version: "CUDA 12.4".into(),
                    library: "libcuda.so.1",
                    gpus: vec![
                        found(0, "sm_86", "NVIDIA GeForce RTX 3090"),
                        found(1, "sm_89", "NVIDIA GeForce RTX 4090"),
                    ],
                })
            },
            open: |index, _| {
                Err(Error::NoDevice {
                    asked: format!("CUDA:{index}"),
                    why: "it is asleep".into(),
                })
            },
            ..CUDA
        }
    }

    fn refused(runtime: &Runtime, index: Option<u32>, arch: &str) -> String {
        let target = Target {
            arch: (!arch.is_empty()).then(|| arch.into()),
            ..Target::any(DeviceKind::Cuda)
        };
        let opened = open(runtime, &target, index, &Settings::default());
        opened.unwrap_err().to_string()
    }

    #[test]
    fn the_gpu_that_is_meant_is_opened() {
        let asleep = |index| format!("no device for CUDA:{index}: it is asleep");
        assert_eq!(refused(&two(), None, ""), asleep(0));
        assert_eq!(refused(&two(), None, "sm_89"), asleep(1));
        assert_eq!(refused(&two(), None, "4090"), asleep(1));
        assert_eq!(refused(&two(), Some(1), "sm_89,x"), asleep(1));
        let text = refused(&two(), None, "sm_90");
        assert!(
            text.contains("GPU 0 is sm_86, GPU 1 is sm_89, expected sm_90"),
            "{text}"
        );
        assert!(refused(&two(), Some(2), "").contains("found GPUs 0 to 1"));
        let none = Runtime {
            survey: || {
                Ok(Survey {
                    version: "CUDA 12.4".into(),
                    library: "libcuda.so.1",
                    gpus: Vec::new(),
                })
            },
            ..CUDA
        };
        let text = refused(&none, None, "");
        assert!(
            text.contains("CUDA 12.4 finds no GPU; use DEV=NV, or use DEV=CPU"),
            "{text}"
        );
    }
}
