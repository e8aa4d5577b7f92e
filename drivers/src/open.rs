//! Opening what was selected.

mod cl;
mod keep;
mod nv;
mod nv_pci;
mod pci;
mod qcom;
mod runtime;
mod usb;

use std::num::NonZeroUsize;
use std::sync::Arc;

use drivers_amd::Language;
use drivers_amd::kfd::{self, Found, Survey, Unusable};
use drivers_cpu::{Config, CpuDevice};
use drivers_host::machine::Host;
use hcq::transport::Machine;
use hcq::{Device, DeviceId, Error, Result};

use crate::env::Settings;
use crate::select::{DeviceKind, Target, Transport};

/// What errors of devices that are not there end with, for who can use the CPU instead.
const USE_CPU: [&str; 2] = ["; use DEV=CPU", ", or use DEV=CPU"];

/// An error's text without the advice to use the CPU, for who cannot.
pub fn without_cpu(text: &str) -> &str {
    let found = USE_CPU.iter().find_map(|advice| text.strip_suffix(advice));
    found.unwrap_or(text)
}

/// A simulated machine, for targets that ask for a twin: made by the program, since no library
/// knows of any.
pub type Twin = Arc<dyn Machine>;

/// Opens number `index` of a kind; without one, the first that can be used.
type Open = fn(&Target, Option<u32>, &Settings, Option<&Twin>) -> Result<Arc<dyn Device>>;

/// What this version can do with a kind of device.
enum Support {
    /// Opens it.
    Here(Open),
    /// No driver yet; the text describes the missing support.
    NotYet(&'static str),
}

/// The vendor table: every kind that can be selected.
fn support(kind: DeviceKind) -> Support {
    match kind {
        DeviceKind::Cpu => Support::Here(open_cpu),
        DeviceKind::Amd => Support::Here(open_amd),
        DeviceKind::Nv => Support::Here(open_nv),
        DeviceKind::Qcom => Support::Here(qcom::open),
        DeviceKind::Cuda => Support::Here(runtime::open_cuda),
        DeviceKind::Hip => Support::Here(runtime::open_hip),
        DeviceKind::Cl => Support::Here(cl::open),
        DeviceKind::Metal => Support::NotYet("Metal"),
        DeviceKind::WebGpu => Support::NotYet("WebGPU"),
    }
}

/// Opens the device that a target names, with the default settings and no twin: see [`open_with`].
///
/// # Errors
/// As [`open_with`].
pub fn open(target: &Target) -> Result<Arc<dyn Device>> {
    open_with(target, &Settings::default(), None)
}

/// Opens the device that a target names: without an index, the first of its kind that can be used and
/// has the architecture which the target names, if it names one. `twin` is the machine of targets that ask for a simulated device, and of no others.
///
/// # Errors
/// [`Error::Unsupported`] for a chip that no driver knows; [`Error::NoDevice`] for a kind without driver in this version, for a simulated device without
/// `twin`, for several indices, for what is not there, and for an architecture that the device does
/// not have; [`Error::NoPermission`] and [`Error::Unsupported`] for what is there and cannot be
/// used; [`Error::NotStarted`] for what is there and free, and does not start; else what the driver says.
pub fn open_with(
    target: &Target,
    settings: &Settings,
    twin: Option<&Twin>,
) -> Result<Arc<dyn Device>> {
    known_chip(target)?;
    let index = match target.indices.as_deref() {
        None | Some([]) => None,
        Some([index]) => Some(*index),
        Some(several) => {
            let n = several.len();
            return Err(none(
                target,
                format!("{n} devices selected, expected one; open them one by one"),
            ));
        }
    };
    match support(target.device) {
        Support::Here(open) => open(target, index, settings, twin),
        Support::NotYet(what) => Err(none(
            target,
            format!("this version has no driver for {what}; use DEV=CPU"),
        )),
    }
}

/// Refuses a chip that no driver here knows, wherever it may be.
///
/// # Errors
/// [`Error::Unsupported`], with those that are supported.
pub fn known_chip(target: &Target) -> Result<()> {
    let arch = target.arch.as_deref().unwrap_or_default();
    // Of `gfx90a:xnack+` and `a630,...` what follows is for the compiler.
    let chip = arch.split([':', ',']).next().unwrap_or_default();
    let mut known: Vec<String> = match target.device {
        _ if chip.is_empty() => return Ok(()),
        DeviceKind::Amd => drivers_amd::chip::CHIPS
            .iter()
            .map(|known| known.name.into())
            .collect(),
        // Other names of chips are known, too; one of each is listed.
        DeviceKind::Qcom if drivers_spec::qcom::chip::by_name(chip).is_some() => return Ok(()),
        DeviceKind::Qcom => drivers_spec::qcom::chip::CHIPS
            .iter()
            .map(drivers_qcom::backend::arch)
            .collect(),
        // A chip or a part of a product's name as well: what has it is known once it is open.
        DeviceKind::Nv if chip.starts_with("sm_") => drivers_spec::nv::chip::CHIPS
            .iter()
            .map(|known| format!("sm_{}", known.sm))
            .collect(),
        _ => return Ok(()),
    };
    if known.iter().any(|known| known.eq_ignore_ascii_case(chip)) {
        return Ok(());
    }
    // Several chips of NVIDIA have one instruction set.
    known.dedup();
    Err(Error::Unsupported {
        asked: target.to_string(),
        why: format!(
            "expected one of {}, found {chip}; correct it, or leave out the chip to use the one that is there",
            known.join(", ")
        ),
    })
}

/// A device that is there.
pub struct Present {
    /// What opens it; without a number where none does.
    pub target: Target,
    /// Where it is, for people: a place on PCI.
    pub place: String,
    /// The device, or why it cannot be used.
    pub device: Result<Arc<dyn Device>>,
}

/// Opens every supported device; those of `twin` last. Opening starts GPUs without a kernel driver: of these, only
/// simulated ones behind USB bridges are included, and none on the bus.
pub fn present(settings: &Settings, twin: Option<&Twin>) -> Vec<Present> {
    let target = Target::any(DeviceKind::Cpu);
    let mut all = vec![Present {
        device: open_cpu(&target, None, settings, None),
        place: String::new(),
        target,
    }];
    all.extend(cl::present(settings));
    let host: Twin = Host::get();
    let machines = [(Some(&host), false), (twin, true)];
    for (machine, simulated) in machines {
        let Some(machine) = machine else { continue };
        all.extend(present_amd(machine, simulated, settings));
        all.extend(nv::present(machine, simulated, settings));
        all.extend(qcom::present(machine, simulated, settings));
        if simulated {
            all.extend(usb::present(machine, settings));
        }
    }
    all.extend(runtime::present(settings));
    all
}

fn open_cpu(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    _: Option<&Twin>,
) -> Result<Arc<dyn Device>> {
    let here = std::env::consts::ARCH;
    // `x86_64,avx2,-avx512f`: what follows the first comma is for the compiler.
    let wanted = target.arch.as_deref().and_then(|a| a.split(',').next());
    if let Some(wanted) = wanted.filter(|&wanted| wanted != here) {
        return Err(none(
            target,
            format!("this machine is {here}, expected {wanted}"),
        ));
    }
    let usual = Config::default();
    CpuDevice::open(Config {
        index: index.unwrap_or(0),
        ring_words: settings.ring_words.unwrap_or(usual.ring_words),
        cores: settings.cpu_count.map_or(0, NonZeroUsize::get),
        ring_timeout: settings.wait_timeout,
        subnormals: settings.subnormals,
        ..usual
    })
}

fn open_amd(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    twin: Option<&Twin>,
) -> Result<Arc<dyn Device>> {
    let ways = [Transport::Kfd, Transport::Pci, Transport::Usb];
    let machine = machine(target, &ways, "AMD", (settings, twin))?;
    match target.interface.map(|way| way.transport) {
        Some(Transport::Pci) => return pci::open(target, index, settings, &machine),
        Some(Transport::Usb) => return usb::open(target, index, settings, &machine),
        _ => {}
    }
    let survey = kfd::survey(&*machine);
    let index = choose(target, &survey, index)?;
    amd(&machine, is_twin(target), index, settings)
}

fn open_nv(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    twin: Option<&Twin>,
) -> Result<Arc<dyn Device>> {
    let ways = [Transport::Nvk, Transport::Pci];
    let machine = machine(target, &ways, "NVIDIA", (settings, twin))?;
    match target.interface.map(|way| way.transport) {
        Some(Transport::Pci) => nv_pci::open(target, index, settings, &machine),
        _ => nv::open(target, index, settings, &machine),
    }
}

/// The machine of a target whose GPUs are reached in these ways: this one, or a simulated one.
fn machine(
    target: &Target,
    ways: &[Transport],
    vendor: &str,
    (settings, twin): (&Settings, Option<&Twin>),
) -> Result<Twin> {
    let first = ways.first().map(|way| way.interface(false));
    let Some(asked) = target
        .interface
        .or(first)
        .filter(|asked| ways.contains(&asked.transport))
    else {
        let device = target.device.name();
        let names: Vec<_> = ways.iter().map(|way| way.name()).collect();
        let names = names.join(" and ");
        let name = ways.first().map_or("", |way| way.name());
        return Err(none(
            target,
            format!(
                "{vendor} GPUs are supported by {names} only; use DEV={name}+{device}, or use DEV=CPU"
            ),
        ));
    };
    let front = settings.front.as_ref();
    if let Some(front) = front.filter(|front| front.is_alone()) {
        return Ok(front.of(|| Host::get()));
    }
    let before = |machine: Twin| match front {
        Some(front) => front.of(|| machine),
        None => machine,
    };
    if !asked.twin {
        return Ok(before(Host::get()));
    }
    twin.cloned().map(before).ok_or_else(|| {
        none(
            target,
            "built without simulated cards. Enable the feature twin of the crate doorbell \
             (--features twin), or use DEV=CPU"
                .into(),
        )
    })
}

/// The AMD chip that is asked for: of `gfx90a:xnack+` and `gfx1100,...` what follows is for the compiler.
fn amd_chip(target: &Target) -> Option<&str> {
    target.arch.as_deref()?.split([':', ',']).next()
}

/// The number of the GPU that a target means, of those of a machine.
fn choose(target: &Target, survey: &Survey, index: Option<u32>) -> Result<u32> {
    if let Err(why) = &survey.driver {
        return Err(unusable(target, why));
    }
    let wanted = amd_chip(target);
    let numbered: Vec<_> = survey
        .gpus
        .iter()
        .filter_map(|gpu| Some((gpu.index?, gpu.chip?.name, gpu.unusable.as_ref())))
        .collect();
    let meant = |(i, arch, _): &&(u32, &str, Option<&Unusable>)| {
        index.is_none_or(|index| index == *i) && wanted.is_none_or(|wanted| wanted == *arch)
    };
    let candidates = || numbered.iter().filter(meant);
    let usable = candidates().find(|(_, _, unusable)| unusable.is_none());
    match (usable, candidates().next()) {
        (Some((number, ..)), _) => Ok(*number),
        (None, Some((_, _, Some(why)))) => Err(unusable(target, why)),
        _ => Err(not_there(target, survey, &numbered, index, wanted)),
    }
}

/// Why no GPU is the one that a target means. `numbered`: number and architecture of those that there
/// are.
fn not_there(
    target: &Target,
    survey: &Survey,
    numbered: &[(u32, &str, Option<&Unusable>)],
    index: Option<u32>,
    wanted: Option<&str>,
) -> Error {
    // What is there and has no number is there because of something.
    let first = survey.gpus.iter().find_map(|gpu| gpu.unusable.as_ref());
    let without = survey.gpus.iter().find(|found| {
        let arch = found.gpu.as_ref().map(|gpu| gpu.arch());
        found.index.is_none() && index.is_none() && arch.is_some() && arch.as_deref() == wanted
    });
    if let Some(why) = without.and_then(|found| found.unusable.as_ref()) {
        return unusable(target, why);
    }
    let named = |(i, arch, _): &(u32, &str, Option<&Unusable>)| format!("GPU {i} is {arch}");
    let there = || numbered.iter().map(named).collect::<Vec<_>>().join(", ");
    let at = index.and_then(|index| numbered.iter().find(|(i, ..)| *i == index));
    let why = match (numbered, first, at, wanted) {
        ([], Some(why), ..) => return unusable(target, why),
        ([], None, ..) => {
            "the kernel driver found no compute GPU (`dmesg | grep kfd`); use DEV=CPU".into()
        }
        (_, _, Some(at), Some(wanted)) => format!("{}, expected {wanted}", named(at)),
        (_, _, None, Some(wanted)) if index.is_none() => {
            format!("{}, expected {wanted}", there())
        }
        ([_], ..) => "found one GPU, number 0".into(),
        (several, ..) => format!("found GPUs 0 to {}", several.len() - 1),
    };
    none(target, why)
}

/// Whether a target asks for a simulated device.
fn is_twin(target: &Target) -> bool {
    target.interface.is_some_and(|way| way.twin)
}

/// A GPU through KFD.
fn amd(
    machine: &Arc<dyn Machine>,
    twin: bool,
    index: u32,
    settings: &Settings,
) -> Result<Arc<dyn Device>> {
    let options = drivers_amd::Options {
        coredumps: keep::coredumps(machine, twin, settings),
        ..amd_options(settings)
    };
    match drivers_amd::open(machine, index, &options) {
        Ok(device) => Ok(device),
        Err(error) => {
            let id = DeviceId::new("AMD", index);
            Err(keep::start(
                &options.coredumps,
                &id,
                ("KFD", "", "amdgpu"),
                error,
            ))
        }
    }
}

fn amd_options(settings: &Settings) -> drivers_amd::Options {
    let usual = drivers_amd::Options::default();
    let ring = |usual| {
        settings
            .ring_words
            .map_or(usual, |words| u64::from(words) * 4)
    };
    drivers_amd::Options {
        compute_ring: ring(usual.compute_ring),
        copy_ring: ring(usual.copy_ring),
        ring_timeout: settings.wait_timeout,
        drain_timeout: settings.wait_timeout.min(usual.drain_timeout),
        compute: settings.amd_aql.map(|aql| match aql {
            true => Language::Aql,
            false => Language::Pm4,
        }),
        recorded: settings.amd_recorded,
        ..usual
    }
}

/// The GPUs of a machine's KFD.
fn present_amd(machine: &Arc<dyn Machine>, twin: bool, settings: &Settings) -> Vec<Present> {
    let target = |found: &Found| Target {
        interface: Some(Transport::Kfd.interface(twin)),
        indices: found.index.map(|index| vec![index]),
        // Without it another twin would be made.
        arch: found.gpu.as_ref().filter(|_| twin).map(|gpu| gpu.arch()),
        ..Target::any(DeviceKind::Amd)
    };
    let survey = kfd::survey(&**machine);
    let one = |found: &Found| {
        let target = target(found);
        let gpu = found.gpu.as_ref();
        let place = gpu.map_or(format!("node {}", found.node), |gpu| gpu.pci());
        let reason = survey.driver.as_ref().err().or(found.unusable.as_ref());
        let device = match (reason, found.index) {
            (Some(why), _) => Err(unusable(&target, why)),
            (None, Some(index)) => amd(machine, twin, index, settings),
            (None, None) => Err(none(&target, "the GPU has no number".into())),
        };
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
        Unusable::NoPermission { .. } | Unusable::Cgroup { .. } | Unusable::Hidden { .. } => {
            Error::NoPermission { asked, why: text }
        }
        Unusable::Unsupported { .. } | Unusable::OldKernel { .. } | Unusable::Incomplete { .. } => {
            Error::Unsupported { asked, why: text }
        }
        Unusable::Gone { .. } => Error::NotStarted { asked, why: text },
        Unusable::NoDriver { .. } => none(
            target,
            format!("{text}. For a simulated card, use DEV=TWINKFD+AMD::gfx1100"),
        ),
        _ => none(target, text),
    }
}

fn none(target: &Target, why: String) -> Error {
    let asked = asked(target);
    Error::NoDevice { asked, why }
}

/// What a target asks for, for errors: each interface counts its GPUs from 0.
fn asked(target: &Target) -> String {
    let numbers = target.indices.as_ref().map_or(0, Vec::len);
    match (target.interface, target.device.transports().first()) {
        (None, Some(first)) if numbers > 0 => {
            let full = Target {
                interface: Some(first.interface(false)),
                ..target.clone()
            };
            format!("{target} (that is {full}: each interface counts its GPUs from 0)")
        }
        _ => target.to_string(),
    }
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
        let device = open_with(&target("CPU"), &settings, None).unwrap();
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
    fn a_chip_without_a_driver_is_unsupported_wherever_it_is() {
        for (text, listed) in [
            ("QCOM::a740", "a630"),
            ("QCOM::a63", "a630"),
            ("MSM+QCOM::a730,x", "a702"),
            ("AMD::gfx9999", "gfx1100"),
            ("PCI+AMD::gfx900:xnack+", "gfx1201"),
            ("NV::sm_75", "sm_80, sm_86, sm_90, sm_89, sm_100, sm_120"),
        ] {
            let error = open(&target(text)).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            let error = error.to_string();
            assert!(
                error.starts_with(&format!("{text} is not supported: expected one of ")),
                "{error}"
            );
            assert!(error.contains(listed), "{error}");
        }
        for text in [
            "QCOM::A630",
            "QCOM::a642l",
            "AMD::gfx942:xnack-",
            "NV::sm_90",
            "NV::h200",
            "CPU::riscv64",
        ] {
            assert!(known_chip(&target(text)).is_ok(), "{text}");
        }
    }

    #[test]
    fn who_cannot_use_the_cpu_is_not_told_to() {
        let error = qcom::open(&target("QCOM"), Some(99), &Settings::default(), None);
        let text = error.unwrap_err().to_string();
        assert!(!without_cpu(&text).contains("DEV=CPU"), "{text}");
        let text = open(&target("USB+NV")).unwrap_err().to_string();
        assert!(text.len() > without_cpu(&text).len(), "{text}");
    }

    #[test]
    fn what_is_not_there_is_said() {
        for kind in DeviceKind::ALL {
            let here = [
                DeviceKind::Cpu,
                DeviceKind::Amd,
                DeviceKind::Nv,
                DeviceKind::Qcom,
                DeviceKind::Cuda,
                DeviceKind::Hip,
                DeviceKind::Cl,
            ];
            if here.contains(&kind) {
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
        assert!(text.contains("--features twin"), "{text}");
        let text = open(&target("USB+NV")).unwrap_err().to_string();
        assert!(text.contains("by NVK and PCI only"), "{text}");
        let text = open(&target("TWINNVK+NV::gh100")).unwrap_err().to_string();
        assert!(text.contains("--features twin"), "{text}");
        let text = open(&target("TWINKGSL+QCOM::a630"))
            .unwrap_err()
            .to_string();
        assert!(text.contains("--features twin"), "{text}");
        for (kind, other) in [("CUDA", "DEV=NV"), ("HIP", "DEV=AMD")] {
            // A machine that has the runtime may have no GPU of it.
            if let Err(error) = open(&target(kind)) {
                let text = error.to_string();
                let is_installed = !text.contains("is not installed");
                assert!(is_installed || text.contains(other), "{text}");
            }
        }
        let text = open(&target("CUDA:0-1")).unwrap_err().to_string();
        assert!(text.contains("2 devices selected"), "{text}");
        let mut several = target("CPU");
        several.indices = Some(vec![0, 1]);
        let text = open(&several).unwrap_err().to_string();
        assert!(text.contains("2 devices selected"), "{text}");
        let error = none(&target("AMD:1"), "why".into()).to_string();
        assert_eq!(
            error,
            "no device for AMD:1 (that is KFD:1+AMD: each interface counts its GPUs from 0): why"
        );
        let error = none(&target("CPU:1"), "why".into()).to_string();
        assert_eq!(error, "no device for CPU:1: why");
        let mut other = target("CPU");
        other.arch = Some("riscv64".into());
        let text = open(&other).unwrap_err().to_string();
        assert!(text.contains("expected riscv64"), "{text}");
    }
}
