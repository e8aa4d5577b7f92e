//! Which device runs a bundle: the first of a chain that can.

use std::sync::Arc;

use drivers::Twin;
use drivers::env::{Settings, texts};
use drivers::open::without_cpu;
use drivers::select::{DeviceKind, SelectError, Target, Transport, one_cpu, parse_chain};
use hcq::{Device, DeviceInfo};

use crate::bundle::ModelBundle;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::plan::TargetPlan;
use crate::processor;

/// The kinds of devices that bundles may have code for: what `doorbell compile` takes as a target.
const KINDS: [DeviceKind; 4] = [
    DeviceKind::Cpu,
    DeviceKind::Amd,
    DeviceKind::Nv,
    DeviceKind::Qcom,
];

/// Devices in the order in which they are tried.
#[derive(Clone)]
pub struct Chain(Vec<Choice>);

/// One of them, with the settings of its driver.
#[derive(Clone)]
struct Choice {
    target: Target,
    settings: Settings,
    twin: Option<Twin>,
    /// Who has asked makes machines for targets that ask for one.
    simulates: bool,
}

/// A model on the device that was chosen.
pub struct Placement {
    /// The model.
    pub model: Model,
    /// Why it is not on the first device of the chain: one text for each that was left out.
    pub notes: Vec<String>,
}

impl Chain {
    /// Targets in the form of `DEV`, separated by `|`: `QCOM|CPU`. The other variables are those of the environment. A program may
    /// have several CPU devices, each with threads of its own: `CPU:1`.
    ///
    /// # Errors
    /// A target or a variable that is not understood.
    pub fn parse(text: &str) -> Result<Chain> {
        Chain::with(text, Settings::parse(texts(std::env::vars_os())?)?)
    }

    /// The chain of the variable `DEV`; the CPU without it.
    ///
    /// # Errors
    /// As [`Chain::parse`]; a number of the CPU, of which a person has one.
    pub fn from_env() -> Result<Chain> {
        let variables = texts(std::env::vars_os())?;
        let dev = variables.iter().find(|(name, _)| name == "DEV");
        let dev = dev.map_or("", |(_, value)| value.trim());
        let settings = Settings::parse(variables.iter().map(|(k, v)| (k, v)))?;
        let dev = if dev.is_empty() { "CPU" } else { dev };
        let origin = format!("DEV={dev}");
        let targets = parse_chain(&origin, dev).map_err(of_bundles)?;
        one_cpu(&origin, &targets)?;
        Ok(Chain::among(targets, &settings))
    }

    /// A chain with these settings.
    ///
    /// # Errors
    /// A target that is not understood.
    pub fn with(text: &str, settings: Settings) -> Result<Chain> {
        let targets = parse_chain("devices", text).map_err(of_bundles)?;
        Ok(Chain::among(targets, &settings))
    }

    /// Devices of this machine, with the same settings.
    fn among(targets: Vec<Target>, settings: &Settings) -> Chain {
        let choices = targets.into_iter().map(|target| Choice {
            target,
            settings: settings.clone(),
            twin: None,
            simulates: false,
        });
        Chain(choices.collect())
    }

    /// One target with the settings and the machine that a program has for it.
    pub fn of(target: Target, settings: Settings, twin: Option<Twin>) -> Chain {
        Chain(vec![Choice {
            target,
            settings,
            twin,
            simulates: true,
        }])
    }

    /// The same, and then those of another chain.
    #[must_use]
    pub fn or(mut self, other: Chain) -> Chain {
        self.0.extend(other.0);
        self
    }

    /// Loads a bundle on the first device that can run it.
    ///
    /// # Errors
    /// A damaged file, whose other targets are not tried then; [`Error::NoDevice`] with the reason of each device. Of a chain of
    /// one device, its error alone.
    pub fn place(&self, bundle: &ModelBundle) -> Result<Placement> {
        let mut notes = Vec::new();
        for choice in &self.0 {
            match choice.try_one(bundle) {
                Ok(model) => {
                    let device = model.device().info();
                    if !notes.is_empty() {
                        notes.push(format!("runs on {} ({}) instead", device.id, device.name));
                    }
                    return Ok(Placement { model, notes });
                }
                Err(e) if self.0.len() == 1 || is_of_the_file(&e) => return Err(e),
                Err(e) => notes.push(self.note(&choice.target, &e)),
            }
        }
        let names: Vec<String> = self.0.iter().map(|one| one.target.to_string()).collect();
        Err(Error::NoDevice {
            asked: names.join("|"),
            file: bundle.name().into(),
            reasons: notes,
        })
    }
}

impl Chain {
    /// Why a device was left out: without its name once more, nor advice to use the CPU where it is tried, too.
    fn note(&self, target: &Target, error: &Error) -> String {
        let full = error.to_string();
        let cpu = |one: &Choice| one.target.device == DeviceKind::Cpu;
        let text = match self.0.iter().any(cpu) {
            true => without_cpu(&full),
            false => full.as_str(),
        };
        let name = format!("{target}: ");
        let mut rests = ["", "no device for ", "no permission for "]
            .into_iter()
            .filter_map(|before| text.strip_prefix(before));
        match rests.any(|rest| rest.starts_with(&name)) {
            true => text.to_owned(),
            false => format!("{name}{text}"),
        }
    }
}

/// How a program is run on the simulated device of a target, if one can stand in for the files of its kernel driver.
fn exec(target: &Target) -> String {
    let kernel = match target.interface.map(|way| way.transport) {
        Some(Transport::Kfd | Transport::Nvk | Transport::Kgsl) => "",
        Some(Transport::Msm) => ",kernel=msm",
        Some(Transport::Pci | Transport::Usb) | None => return String::new(),
    };
    // NVIDIA's architectures are none of its chips.
    let arch = target.arch.as_deref();
    let chip = arch.filter(|_| target.device != DeviceKind::Nv);
    format!(
        ", and `DEV={} doorbell twin exec --twin chip={}{kernel} -- PROGRAM` runs a program with this library on one",
        target.device.name(),
        chip.unwrap_or("CHIP"),
    )
}

/// Of the kinds of devices that are expected, those that run bundles.
fn of_bundles(mut error: SelectError) -> SelectError {
    if let SelectError::Unknown {
        expected, nearest, ..
    } = &mut error
    {
        let other = |name: &str| {
            let kind = DeviceKind::ALL.into_iter().find(|kind| kind.name() == name);
            kind.is_some_and(|kind| !KINDS.contains(&kind))
        };
        expected.retain(|name| !other(name));
        if nearest.as_deref().is_some_and(other) {
            *nearest = None;
        }
    }
    error
}

/// Refuses a device that no bundle has code for.
fn has_code(target: &Target) -> Result<()> {
    if KINDS.contains(&target.device) {
        return Ok(());
    }
    let names = KINDS.map(DeviceKind::name).join(", ");
    Err(Error::from(hcq::Error::Unsupported {
        asked: target.to_string(),
        why: format!("model bundles have code for {names} alone; use DEV=CPU"),
    }))
}

impl Choice {
    fn try_one(&self, bundle: &ModelBundle) -> Result<Model> {
        let target = &self.target;
        if !self.simulates && target.interface.is_some_and(|way| way.twin) {
            return Err(Error::Simulated {
                asked: target.to_string(),
                device: target.device.name(),
                exec: exec(target),
            });
        }
        // Before advice to compile for it.
        has_code(target)?;
        drivers::open::known_chip(target)?;
        let kind = target.device.name();
        let mut codes = bundle.targets().iter().filter(|plan| plan.device == kind);
        if codes.next().is_none() {
            return Err(Error::NoCode {
                file: bundle.name().into(),
                asked: match &target.arch {
                    Some(arch) => format!("{kind}::{arch}"),
                    None => kind.into(),
                },
                has: listed(bundle.targets().iter()),
                fix: match (&target.arch, target.device) {
                    (Some(arch), _) => format!("{kind}::{arch}"),
                    (None, DeviceKind::Cpu) => kind.into(),
                    // Nothing is compiled for a GPU without its chip.
                    (None, _) => format!("{kind}::CHIP, the chip of the GPU"),
                },
            });
        }
        let device = drivers::open_with(target, &self.settings, self.twin.as_ref());
        self.on(bundle, device.map_err(|e| unopened(e, bundle))?, kind)
    }

    fn on(&self, bundle: &ModelBundle, device: Arc<dyn Device>, kind: &str) -> Result<Model> {
        let n = choose(bundle, kind, device.info())?;
        Model::load(bundle, n, device, self.settings.wait_timeout)
    }
}

/// A device that is not here, of a file that has no code for the CPU either.
fn unopened(error: hcq::Error, bundle: &ModelBundle) -> Error {
    let cpu = DeviceKind::Cpu.name();
    let runs_on_cpu = bundle.targets().iter().any(|plan| plan.device == cpu);
    match error {
        error @ (hcq::Error::NoDevice { .. } | hcq::Error::Unsupported { .. }) if !runs_on_cpu => {
            Error::Alone {
                file: bundle.name().into(),
                has: listed(bundle.targets().iter()),
                source: Box::new(error),
            }
        }
        error => error.into(),
    }
}

/// Errors that another device would not change.
fn is_of_the_file(error: &Error) -> bool {
    matches!(
        error,
        Error::Io { .. } | Error::Foreign { .. } | Error::Version { .. } | Error::Damaged { .. }
    )
}

fn listed<'p>(plans: impl Iterator<Item = &'p TargetPlan>) -> String {
    let names: Vec<String> = plans.map(TargetPlan::name).collect();
    match names.is_empty() {
        true => "nothing".into(),
        false => names.join(" and "),
    }
}

/// The target of a bundle for a device; of several, the one that asks for most.
fn choose(bundle: &ModelBundle, kind: &str, info: &DeviceInfo) -> Result<usize> {
    let is_cpu = kind == DeviceKind::Cpu.name();
    let targets = || bundle.targets().iter().enumerate();
    let of_kind = || targets().filter(|(_, plan)| plan.device == kind);
    let arch = of_kind().filter(|(_, plan)| plan.arch == info.arch);
    let fit = arch.filter(|(_, p)| !is_cpu || processor::missing(&p.features).is_empty());
    let best = fit.max_by_key(|(_, plan)| processor::features(&plan.features).count());
    best.map(|(n, _)| n).ok_or_else(|| {
        let mut lacks = String::new();
        for (_, plan) in of_kind().filter(|(_, plan)| is_cpu && plan.arch == info.arch) {
            let missing = processor::missing(&plan.features);
            lacks = format!(" without {}", missing.join(", "));
        }
        Error::Chip {
            device: info.id.to_string(),
            file: bundle.name().into(),
            expected: listed(of_kind().map(|(_, plan)| plan)),
            found: format!("{}{lacks}", info.arch),
            fix: format!("{kind}::{}", info.arch),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_read_in_order() {
        let chain = |text| Chain::with(text, Settings::default());
        let two = chain("QCOM | CPU").unwrap().or(chain("NV").unwrap());
        let names: Vec<String> = two.0.iter().map(|one| one.target.to_string()).collect();
        assert_eq!(names, ["QCOM", "CPU", "NV"]);
        // A program may open several.
        assert!(chain("QCOM|CPU:1").is_ok());
        for wrong in ["QCOM|", "CPU;AMD", "no such device"] {
            assert!(chain(wrong).is_err(), "{wrong}");
        }
        // What runs no bundle is not offered.
        assert_eq!(
            chain("").err().unwrap().to_string(),
            "devices: expected a device (CPU, AMD, NV, QCOM), found \"\"; choose one of these"
        );
    }
}
