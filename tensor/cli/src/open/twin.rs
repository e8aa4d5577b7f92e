//! Simulated machines: what `DEV=TWINKFD+AMD::gfx1100`, `DEV=TWINPCI+AMD::gfx1201`,
//! `DEV=TWINUSB+AMD::gfx1201`, `DEV=TWINNVK+NV::sm_90`, `DEV=TWINPCI+NV::ad102` and `DEV=TWINKGSL+QCOM::a630` open.
//! One is made only when asked for.

use std::time::Duration;

use drivers::select::Target;

use super::Error;

#[cfg(feature = "twin")]
pub use simulated::Twin;

/// What has gone over a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfers {
    /// Transfers.
    pub transfers: u64,
    /// How often the host has waited for some.
    pub waits: u64,
    /// How long all of it took, at the rates of a bridge.
    pub time: Duration,
    /// Bytes a second that its bulk transfers carry at most.
    pub most: u64,
}

#[cfg(feature = "twin")]
mod simulated {
    use std::collections::HashMap;
    use std::sync::Arc;

    use drivers::select::{DeviceKind, Transport};
    use twin_amd::{Journal, Violation};

    use super::{Error, Target, Transfers};

    /// A simulated machine, and the one process of it that this program is.
    #[derive(Clone)]
    pub enum Twin {
        /// With AMD's GPUs and their kernel driver.
        Amd(Arc<twin_amd::machine::TwinMachine>),
        /// With AMD's GPUs alone.
        Pci(Arc<twin_amd::pci::machine::PciMachine>),
        /// With AMD's GPUs behind USB bridges.
        Usb(Arc<twin_amd::usb::UsbMachine>),
        /// With NVIDIA's.
        Nv(Arc<twin_nv::machine::TwinMachine>),
        /// With NVIDIA's GPUs alone.
        NvPci(Arc<twin_nv::pci::machine::PciMachine>),
        /// With Qualcomm's.
        Qcom(Arc<twin_qcom::machine::TwinMachine>),
    }

    /// Makes a machine from its config.
    type Make = fn(&str) -> Result<Twin, String>;

    impl Twin {
        /// The machine of a target, if it asks for one that there is. `config` is the variable
        /// TWIN; what the target says about the chip and the number of GPUs comes before it.
        pub(crate) fn of(target: &Target, config: Option<&str>) -> Result<Option<Twin>, Error> {
            let way = target.interface.filter(|way| way.twin);
            // AMD's has a DEBUG of its own: packets and instructions are not what DEBUG shows here. Our driver
            // flushes the HDP, and never reads back instead.
            let (make, mut text): (Make, _) = match (target.device, way.map(|way| way.transport)) {
                (DeviceKind::Amd, Some(Transport::Kfd)) => {
                    (Twin::amd, "debug=0,drain=never".to_owned())
                }
                (DeviceKind::Amd, Some(Transport::Pci)) => (Twin::pci, String::new()),
                (DeviceKind::Amd, Some(Transport::Usb)) => (Twin::usb, String::new()),
                (DeviceKind::Nv, Some(Transport::Nvk)) => (Twin::nv, String::new()),
                (DeviceKind::Nv, Some(Transport::Pci)) => (Twin::nv_pci, String::new()),
                (DeviceKind::Qcom, Some(Transport::Kgsl)) => {
                    (Twin::qcom, "debug=0,kernel=kgsl".to_owned())
                }
                (DeviceKind::Qcom, Some(Transport::Msm)) => {
                    (Twin::qcom, "debug=0,kernel=msm".to_owned())
                }
                _ => return Ok(None),
            };
            if let Some(chip) = target
                .arch
                .as_deref()
                .and_then(|a| a.split([':', ',']).next())
            {
                text += &format!(",chip={chip}");
            }
            if let Some(last) = target.indices.as_deref().and_then(|i| i.last()) {
                text += &format!(",gpus={}", last + 1);
            }
            if let Some(config) = config {
                text += &format!(",{config}");
            }
            let twin = make(text.trim_start_matches(',')).map_err(|why| {
                let with = config.map_or(String::new(), |config| format!(" with TWIN={config}"));
                let asked = format!("{target}{with}");
                Error::Twin { asked, why }
            })?;
            Ok(Some(twin))
        }

        fn amd(config: &str) -> Result<Twin, String> {
            twin_amd::machine::TwinMachine::new(config).map(Twin::Amd)
        }

        fn pci(config: &str) -> Result<Twin, String> {
            twin_amd::pci::machine::PciMachine::new(config).map(Twin::Pci)
        }

        fn usb(config: &str) -> Result<Twin, String> {
            twin_amd::usb::UsbMachine::new(config).map(Twin::Usb)
        }

        fn nv(config: &str) -> Result<Twin, String> {
            twin_nv::machine::TwinMachine::new(config).map(Twin::Nv)
        }

        fn nv_pci(config: &str) -> Result<Twin, String> {
            twin_nv::pci::machine::PciMachine::new(config).map(Twin::NvPci)
        }

        fn qcom(config: &str) -> Result<Twin, String> {
            twin_qcom::machine::TwinMachine::new(config).map(Twin::Qcom)
        }

        /// Where devices are opened.
        pub fn machine(&self) -> drivers::Twin {
            match self {
                Twin::Amd(machine) => machine.clone(),
                Twin::Pci(machine) => machine.clone(),
                Twin::Usb(machine) => machine.clone(),
                Twin::Nv(machine) => machine.clone(),
                Twin::NvPci(machine) => machine.clone(),
                Twin::Qcom(machine) => machine.clone(),
            }
        }

        /// The rules violated so far, each with its first case; none if there are none.
        pub fn report(&self) -> Option<String> {
            let violations = self.journal().violations();
            let mut first = Vec::new();
            let mut times: HashMap<&str, usize> = HashMap::new();
            for violation in &violations {
                let count = times.entry(violation.rule.name).or_default();
                if *count == 0 {
                    first.push(violation);
                }
                *count += 1;
            }
            let one = |v: &&Violation| {
                let times = times.get(v.rule.name).unwrap_or(&0);
                format!("rule {}, broken {times} times, first: {v}\n", v.rule.name)
            };
            (!first.is_empty()).then(|| first.iter().map(one).collect())
        }

        /// What happened to it.
        pub(super) fn journal(&self) -> &Journal {
            match self {
                Twin::Amd(machine) => machine.journal(),
                Twin::Pci(machine) => machine.journal(),
                Twin::Usb(machine) => machine.journal(),
                Twin::Nv(machine) => machine.journal(),
                Twin::NvPci(machine) => machine.journal(),
                Twin::Qcom(machine) => machine.journal(),
            }
        }

        /// What has gone over the cable of the first bridge, if there is one.
        pub fn transfers(&self) -> Option<Transfers> {
            let Twin::Usb(machine) = self else {
                return None;
            };
            let bridge = machine.bridge(0)?;
            let counts = bridge.counts();
            Some(Transfers {
                transfers: counts.control + counts.bulk,
                waits: counts.round_trips,
                time: bridge.now(),
                most: bridge.rates().copy,
            })
        }

        /// The chip (the first one), for messages.
        pub fn chip(&self) -> &'static str {
            match self {
                Twin::Amd(machine) => machine.machine().config.chip.name,
                Twin::Pci(machine) => machine.chip(),
                Twin::Usb(machine) => machine.chip(),
                Twin::Nv(machine) => machine
                    .machine()
                    .config
                    .chips
                    .first()
                    .map_or("GPU", |chip| chip.name),
                Twin::NvPci(machine) => machine.chip().name,
                Twin::Qcom(machine) => machine.machine().config.chip.name,
            }
        }

        /// What its code is compiled for: that of the first GPU.
        pub fn arch(&self) -> String {
            match self {
                Twin::Amd(machine) => machine.machine().config.chip.name.into(),
                Twin::Pci(machine) => machine.chip().into(),
                Twin::Usb(machine) => machine.chip().into(),
                Twin::Nv(machine) => {
                    let chip = machine.machine().config.chips.first();
                    chip.map_or(String::new(), |chip| chip.target())
                }
                Twin::NvPci(machine) => machine.chip().twin.target(),
                Twin::Qcom(machine) => machine.machine().config.chip.name.into(),
            }
        }
    }
}

/// Without the feature there is none, and opening says how to get it.
#[cfg(not(feature = "twin"))]
#[derive(Clone)]
pub enum Twin {}

#[cfg(not(feature = "twin"))]
impl Twin {
    pub(crate) fn of(_: &Target, _: Option<&str>) -> Result<Option<Twin>, Error> {
        Ok(None)
    }

    /// Where devices are opened.
    pub fn machine(&self) -> drivers::Twin {
        match *self {}
    }

    /// The rules that were broken so far.
    pub fn report(&self) -> Option<String> {
        match *self {}
    }

    /// What has gone over the cable of the first bridge.
    pub fn transfers(&self) -> Option<Transfers> {
        match *self {}
    }

    /// The chip, for messages.
    pub fn chip(&self) -> &'static str {
        match *self {}
    }

    /// What its code is compiled for.
    pub fn arch(&self) -> String {
        match *self {}
    }
}

#[cfg(all(test, feature = "twin"))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use drivers::select::parse_targets;
    use twin_amd::{Proof, Rule};

    use super::*;

    static RULE: Rule = Rule {
        name: "TEST-BELL",
        text: "the bell is rung last",
        source: "this test",
        proof: Proof::Guess,
    };

    fn twin(target: &str, config: Option<&str>) -> Result<Option<Twin>, Error> {
        Twin::of(&parse_targets("test", target).unwrap()[0], config)
    }

    #[test]
    fn only_a_target_that_asks_gets_a_machine() {
        for target in ["CPU", "AMD", "KFD+AMD::gfx1100", "TWINUSB+NV"] {
            assert!(twin(target, Some("gpus=2")).unwrap().is_none(), "{target}");
        }
        for (target, chip) in [
            ("TWINKFD+AMD", "gfx1100"),
            ("TWINPCI+AMD", "gfx1100"),
            ("TWINPCI:1+AMD::gfx1201", "gfx1201"),
            ("TWINUSB+AMD::gfx1201", "gfx1201"),
            ("TWINKGSL+QCOM", "a630"),
            ("TWINKGSL+QCOM::a650", "a650"),
            ("TWINMSM+QCOM::a643", "a643"),
            ("TWINKGSL+QCOM::a642l", "a643"),
        ] {
            let twin = twin(target, Some("seed=3")).unwrap().unwrap();
            assert_eq!((twin.chip(), &*twin.arch()), (chip, chip), "{target}");
        }
        let twin = |t, c| twin(t, c).map(|twin| twin.unwrap());
        assert_eq!(
            twin("TWINKFD+AMD::gfx942", Some("xcc=1")).unwrap().chip(),
            "gfx942"
        );
        for (target, config, chip, arch) in [
            ("TWINNVK+NV", None, "ad102", "sm_89"),
            ("TWINNVK+NV::gh100", Some("driver=570"), "h100", "sm_90"),
            ("TWINNVK:1+NV:PTX:sm_86", None, "ga102", "sm_86"),
            ("TWINNVK+NV::sm_120", None, "gb202", "sm_120"),
            ("TWINPCI+NV", None, "ad102", "sm_89"),
            ("TWINPCI:1+NV::ga102", Some("looks=1"), "ga102", "sm_86"),
            ("TWINPCI+NV::gh100", None, "gh100", "sm_90"),
            ("TWINPCI+NV::gb202", None, "gb202", "sm_120"),
        ] {
            let twin = twin(target, config).unwrap();
            assert_eq!((twin.chip(), &*twin.arch()), (chip, arch), "{target}");
        }
        for (target, config, text) in [
            (
                "TWINKFD+AMD::gfx900",
                None,
                "no chip 'gfx900'; known: gfx1030",
            ),
            ("TWINKFD+AMD", Some("gpu=2"), "'gpu' is no key; keys: chip"),
            (
                "TWINPCI+AMD::gfx1030",
                None,
                "no chip 'gfx1030'; known behind PCI: gfx1100",
            ),
            ("TWINNVK+NV::sm_75", None, "expected ga102, ad102"),
            ("TWINPCI+NV::h200", None, "known behind PCI: ga102, ad102"),
            ("TWINKGSL+QCOM::a740", None, "expected a618, a619"),
        ] {
            let error = twin(target, config).err().unwrap();
            assert!(matches!(error, Error::Twin { .. }), "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn each_broken_rule_is_told_once_with_its_number() {
        let twin = twin("TWINKFD+AMD::gfx1100", None).unwrap().unwrap();
        assert_eq!(twin.report(), None);
        for i in 1..=3 {
            twin.journal().broken(&RULE, format!("ring {i}"));
        }
        let report = twin.report().unwrap();
        let start = "rule TEST-BELL, broken 3 times, first: ";
        assert!(report.starts_with(start), "{report}");
        assert!(report.contains("Seen: ring 1"), "{report}");
        assert!(!report.contains("ring 2"), "{report}");
    }
}
