//! Several devices in the order in which they are tried, for model bundles: `DEV='QCOM|CPU'`.

use doorbell_run::Chain;
use drivers::select::{SelectError, parse_chain};

use super::{Error, Result, Setup, Twin};

impl Setup {
    /// The setup that a choice of the caller, one of the command line and the environment make together.
    pub(super) fn read(
        api: Option<&str>,
        cli: Option<&str>,
        env: Vec<(String, String)>,
        simulated: bool,
    ) -> Result<Setup> {
        let dev = env.iter().find(|(name, _)| name == "DEV");
        let dev = dev.map(|(_, value)| value.clone());
        // The first that says something is followed.
        let asked = [
            ("the caller's choice", api),
            ("--dev", cli),
            ("DEV", dev.as_deref()),
        ];
        let said = |text: &Option<&str>| text.is_some_and(|text| !text.trim().is_empty());
        let followed = asked.iter().position(|(_, text)| said(text));
        let place = followed.and_then(|n| Some((n, asked[n].1?)));
        let several = |text: &str| text.contains(['|', ';']);
        let Some((place, text)) = place.filter(|(_, text)| several(text)) else {
            return Setup::one(api, cli, &env, simulated);
        };
        // Each is one device, and known.
        parse_chain(&format!("{}={text}", asked[place].0), text)?;
        let all = text.split('|').map(|part| {
            let part = Some(part.trim());
            match place {
                0 => Setup::one(part, cli, &env, simulated),
                1 => Setup::one(api, part, &env, simulated),
                _ => {
                    let mut env = env.clone();
                    let dev = env.iter_mut().find(|(name, _)| name == "DEV");
                    if let (Some((_, value)), Some(part)) = (dev, part) {
                        *value = part.to_owned();
                    }
                    Setup::one(api, cli, &env, simulated)
                }
            }
        });
        let mut all = all.collect::<Result<Vec<_>>>()?.into_iter();
        match all.next() {
            Some(first) => Ok(Setup {
                others: all.collect(),
                ..first
            }),
            None => Setup::one(api, cli, &env, simulated),
        }
    }

    /// This one, and what follows it in a chain.
    pub(super) fn each(&self) -> impl Iterator<Item = &Setup> {
        std::iter::once(self).chain(&self.others)
    }

    /// The selected devices in order, for a model bundle.
    pub fn chain(&self) -> Chain {
        let own = |one: &Setup| {
            let twin = one.twin.as_ref().map(Twin::machine);
            Chain::of(one.target(), one.settings.clone(), twin)
        };
        let others = self.others.iter().map(own);
        others.fold(own(self), Chain::or)
    }

    /// An error for what needs one device, where several are selected.
    pub(super) fn alone(&self) -> Result<()> {
        if self.others.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = self.each().map(|one| one.target().to_string()).collect();
        Err(Error::from(SelectError::Malformed {
            origin: "DEV".into(),
            expected: "one device",
            found: names.join("|"),
            hint: "several are for model bundles alone: `doorbell run FILE.dbx`",
        }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(cli: Option<&str>, dev: &str) -> Result<Setup> {
        Setup::read(None, cli, vec![("DEV".into(), dev.into())], true)
    }

    fn names(setup: &Setup) -> Vec<String> {
        setup.each().map(|one| one.target().to_string()).collect()
    }

    #[test]
    fn a_chain_has_its_devices_in_order() {
        assert_eq!(names(&read(None, "QCOM | CPU").unwrap()), ["QCOM", "CPU"]);
        let both = read(Some("NV|AMD|CPU"), "QCOM|CPU").unwrap();
        assert_eq!(names(&both), ["NV", "AMD", "CPU"]);
        assert_eq!(names(&read(Some("NV"), "QCOM|CPU").unwrap()), ["NV"]);
        for wrong in ["QCOM|", "QCOM|CPU;AMD", "QCOM|nothing"] {
            assert!(read(None, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn another_separator_is_refused_with_the_right_one() {
        for (cli, dev, origin) in [
            (None, "QCOM;CPU", "DEV=QCOM;CPU: "),
            (Some("NV;CPU"), "CPU", "--dev=NV;CPU: "),
        ] {
            let error = read(cli, dev).err().unwrap().to_string();
            assert!(error.starts_with(origin), "{error}");
            assert!(error.contains("separate them by |"), "{error}");
        }
        for dev in ["CPU:9", "QCOM|CPU:9"] {
            let error = read(None, dev).err().unwrap().to_string();
            assert!(error.contains("there is one CPU device"), "{error}");
        }
    }

    #[test]
    fn what_needs_one_device_refuses_a_chain() {
        let error = read(None, "CPU|NV").unwrap().open().err().unwrap();
        let said =
            "DEV: expected one device, found \"CPU|NV\"; several are for model bundles alone";
        assert!(error.to_string().starts_with(said), "{error}");
    }
}
