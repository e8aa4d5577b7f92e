//! Simulated machines: what `DEV=TWINKFD+AMD::gfx1100` opens. One is made only when asked for.

use drivers::select::Target;

use super::Error;

#[cfg(feature = "twin")]
pub use simulated::Twin;

#[cfg(feature = "twin")]
mod simulated {
    use std::collections::HashMap;
    use std::sync::Arc;

    use drivers::select::{DeviceKind, Transport};
    use twin_amd::machine::TwinMachine;

    use super::{Error, Target};

    /// A simulated machine, and the one process of it that this program is.
    #[derive(Clone)]
    pub struct Twin(Arc<TwinMachine>);

    impl Twin {
        /// The machine of a target, if it asks for one that there is. `config` is the variable
        /// TWIN; what the target says about the chip and the number of GPUs comes before it.
        pub(crate) fn of(target: &Target, config: Option<&str>) -> Result<Option<Twin>, Error> {
            let asked = target.interface.filter(|way| way.twin);
            if asked.map(|way| way.transport) != Some(Transport::Kfd)
                || target.device != DeviceKind::Amd
            {
                return Ok(None);
            }
            // Its DEBUG is its own: packets and instructions are not what DEBUG shows here.
            let mut text = "debug=0".to_owned();
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
            let machine = TwinMachine::new(&text).map_err(|e| {
                let with = config.map_or(String::new(), |config| format!(" with TWIN={config}"));
                Error::Twin {
                    asked: format!("{target}{with}"),
                    why: e.to_string(),
                }
            })?;
            Ok(Some(Twin(machine)))
        }

        /// Where devices are opened.
        pub fn machine(&self) -> drivers::Twin {
            self.0.clone()
        }

        /// The rules that were broken so far, each with what was seen first; none if all is well.
        pub fn report(&self) -> Option<String> {
            let violations = self.0.machine().journal.violations();
            let mut first = Vec::new();
            let mut times: HashMap<&str, usize> = HashMap::new();
            for violation in &violations {
                let count = times.entry(violation.rule.name).or_default();
                if *count == 0 {
                    first.push(violation);
                }
                *count += 1;
            }
            let one = |v: &&twin_amd::Violation| {
                let times = times.get(v.rule.name).unwrap_or(&0);
                format!("rule {}, broken {times} times, first: {v}\n", v.rule.name)
            };
            (!first.is_empty()).then(|| first.iter().map(one).collect())
        }

        /// What happened to it.
        #[cfg(test)]
        pub fn journal(&self) -> &twin_amd::Journal {
            &self.0.machine().journal
        }

        /// The chip, for messages.
        pub fn chip(&self) -> &'static str {
            self.0.machine().config.chip.name
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

    /// The chip, for messages.
    pub fn chip(&self) -> &'static str {
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
        for target in [
            "CPU",
            "AMD",
            "KFD+AMD::gfx1100",
            "TWINPCI+AMD",
            "TWINNVK+NV",
        ] {
            assert!(twin(target, Some("gpus=2")).unwrap().is_none(), "{target}");
        }
        assert_eq!(
            twin("TWINKFD+AMD", None).unwrap().unwrap().chip(),
            "gfx1100"
        );
        let twin = |t, c| twin(t, c).map(|twin| twin.unwrap());
        assert_eq!(
            twin("TWINKFD+AMD::gfx942", Some("xcc=1")).unwrap().chip(),
            "gfx942"
        );
        for (target, config, text) in [
            (
                "TWINKFD+AMD::gfx900",
                None,
                "no chip 'gfx900'; known: gfx1030",
            ),
            ("TWINKFD+AMD", Some("gpu=2"), "'gpu' is no key; keys: chip"),
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
