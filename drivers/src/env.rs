//! The environment variables, as typed settings.
//!
//! Parsed once, from an iterator: nothing in this project reads the environment directly, so tests and embedders
//! control it.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

pub use drivers_amd::Recorded;

use crate::front::Front;

/// Every variable that has a meaning, here or in [`crate::select`], for "did you mean".
pub(crate) const KNOWN: &[&str] = &[
    "ALLOW_TF32",
    "AMD",
    "AMD_AQL",
    "AMD_CC",
    "AMD_HIP",
    "AMD_IFACE",
    "AMD_LLVM",
    "AMD_RESET",
    "BEAM",
    "CACHELEVEL",
    "CCACHE",
    "CL",
    "CPU",
    "CPU_CC",
    "CPU_CLANG",
    "CPU_CLANGJIT",
    "CPU_COUNT",
    "CPU_LLVM",
    "CUDA",
    "CUDA_PTX",
    "DEBUG",
    "DETERMINISTIC",
    "DEV",
    "HCQDEV_BUNDLES",
    "HCQDEV_FIRMWARE",
    "HCQDEV_PCI_WAIT",
    "HCQDEV_WAIT_TIMEOUT_MS",
    "HCQDEV_WORK_TIMEOUT_MS",
    "HCQ_STRICT_ENV",
    "HCQ_VISIBLE_DEVICES",
    "HIP",
    "JIT",
    "METAL",
    "MOCKGPU",
    "MOCKKFD",
    "MOCKNVK",
    "MOCKPCI",
    "MOCKUSB",
    "NO_COLOR",
    "NV",
    "NV_CC",
    "NV_CUDA",
    "NV_IFACE",
    "NV_LLVM",
    "NV_NAK",
    "NV_NVCC",
    "NV_NVRTC",
    "NV_PTX",
    "NV_WGMMA",
    "PROFILE",
    "QCOM",
    "QCOM_CC",
    "QCOM_CL",
    "QCOM_FULL_POWER",
    "QCOM_IMAGES",
    "QCOM_IR3",
    "QCOM_PRIORITY",
    "SUBNORMALS",
    "TWIN",
    "WEBGPU",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
];

/// A variable with an invalid value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{name}={value}: expected {expected}, found {value:?}; correct it or unset {name}")]
pub struct EnvError {
    /// The variable.
    pub name: &'static str,
    /// What it holds.
    pub value: String,
    /// What it may hold.
    pub expected: String,
}

/// Paths of the system, which may have any name, and what counts by being there: not UTF-8 is no mistake of a person there.
const ANY_BYTES: [&str; 3] = ["NO_COLOR", "XDG_CACHE_HOME", "XDG_STATE_HOME"];

/// The environment of a process as texts, without what is not UTF-8.
///
/// # Errors
/// A variable that has a meaning and is not UTF-8: it would count as unset.
pub fn texts(
    vars: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, EnvError> {
    let mut all = Vec::new();
    for (name, value) in vars {
        let Ok(name) = name.into_string() else {
            continue;
        };
        let value = match value.into_string() {
            Ok(value) => value,
            Err(value) => match KNOWN.iter().find(|known| **known == name) {
                Some(&name) if !ANY_BYTES.contains(&name) => {
                    return Err(EnvError {
                        name,
                        value: value.to_string_lossy().into_owned(),
                        expected: "UTF-8".into(),
                    });
                }
                _ => continue,
            },
        };
        all.push((name, value));
    }
    Ok(all)
}

/// Settings from the environment. An empty variable counts as unset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `DEBUG`, 0 to 7: verbosity on stderr. Default 0.
    pub debug: u8,
    /// `BEAM`: the width of a search for kernel variants, which this version does not have; 0 unless set.
    pub beam: u32,
    /// `JIT`: 1 (the default) captures and replays. 0 (off) and 2 (capture without batching) are read, and
    /// have no effect yet.
    pub jit: u8,
    /// `PROFILE`: record timestamps of every kernel and copy.
    pub profile: bool,
    /// `HCQDEV_WAIT_TIMEOUT_MS`: time without progress after which an awaited device counts as hung. Work that makes
    /// progress has no limit. Default 30 seconds.
    pub wait_timeout: Duration,
    /// `HCQDEV_WORK_TIMEOUT_MS`: maximum wait for work, regardless of progress. Default unlimited.
    pub work_timeout: Option<Duration>,
    /// `CACHELEVEL`: 0 no disk cache, 1 (the default) compiled kernels; 2 searches, too, which do not exist yet.
    pub cache_level: u8,
    /// `CCACHE`: use the cache of compiled kernels. On unless 0.
    pub compile_cache: bool,
    /// `$XDG_CACHE_HOME/doorbell`, or `$HOME/.cache/doorbell`; `None` if neither is set. As the
    /// XDG specification says, a relative `XDG_CACHE_HOME` is ignored.
    pub cache_dir: Option<PathBuf>,
    /// `NO_COLOR` is set to anything (<https://no-color.org>).
    pub no_color: bool,
    /// `DETERMINISTIC`: GPUs add floats in memory in a fixed order, so that every run gives the same bits.
    pub deterministic: bool,
    /// `ALLOW_TF32`: multiply 32-bit floats on NVIDIA tensor cores, with operands rounded to 10 mantissa bits.
    pub allow_tf32: bool,
    /// `NV_WGMMA`: use wgmma and TMA on Hopper. Set it to 0 to debug them; products then use the Ampere path.
    pub nv_wgmma: bool,
    /// `AMD_AQL`: compute queues of AMD GPUs use AQL packets (1) or PM4 packets (0). Default by chip.
    pub amd_aql: Option<bool>,
    /// `AMD_RESET`: AMD GPUs without a kernel driver are reset before they are started, in whatever state they are
    /// found.
    pub amd_reset: bool,
    /// AMD packets to encode as another, hardware-proven driver does; not a variable. Default none.
    pub amd_recorded: Recorded,
    /// `QCOM_PRIORITY`: the priority of Adreno's queue among those of all programs, 1 (the highest) to 15. Default 8.
    pub qcom_priority: u8,
    /// `QCOM_FULL_POWER`: whether KGSL is asked for the highest clock while a device is open. On unless 0.
    pub qcom_full_power: bool,
    /// `QCOM_IMAGES`: whether kernels for Adreno may read buffers as images, through the texture cache. On unless 0.
    pub qcom_images: bool,
    /// `HCQDEV_FIRMWARE`: folders with firmware, separated as in `PATH`, before those of the system.
    pub firmware: Vec<PathBuf>,
    /// `HCQDEV_BUNDLES`: the folder that gets a file with all that is known when a device faults or hangs, 0 for none.
    /// `$XDG_STATE_HOME/doorbell`, or `$HOME/.local/state/doorbell`, unless set.
    pub bundles: Option<PathBuf>,
    /// The variables that were set, of those that have a meaning here, for these files.
    pub said: Vec<[String; 2]>,
    /// `HCQDEV_PCI_WAIT`: how long a program waits for a card without a kernel driver that another program has, in
    /// seconds. 0 unless set: that is an error then, which names the program.
    pub pci_wait: Duration,
    /// The tap or replacement for the machine of opened devices; not a variable.
    pub front: Option<Front>,
    /// Approximate ring size in words, for tests that fill rings; not a variable. Default chosen by the driver.
    pub ring_words: Option<u32>,
    /// `CPU_COUNT`: how many threads the CPU device uses; `None` for all that it may.
    pub cpu_count: Option<NonZeroUsize>,
    /// `SUBNORMALS`: CPU kernels compute with subnormal numbers. By default they are flushed to zero, also in model
    /// weights: they are noise and a hundred times slower.
    pub subnormals: bool,
    /// `TWIN`: config string of the simulated machine, if selected, such as `gpus=2,seed=7` (tests/twin/README.md).
    pub twin: Option<String>,
    /// `HCQ_STRICT_ENV`: old names of variables are errors.
    pub strict_env: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            debug: 0,
            beam: 0,
            jit: 1,
            profile: false,
            wait_timeout: Duration::from_millis(30_000),
            work_timeout: None,
            cache_level: 1,
            compile_cache: true,
            cache_dir: None,
            no_color: false,
            deterministic: false,
            allow_tf32: false,
            nv_wgmma: true,
            amd_aql: None,
            amd_reset: false,
            amd_recorded: Recorded::default(),
            qcom_priority: 8,
            qcom_full_power: true,
            qcom_images: true,
            firmware: Vec::new(),
            bundles: None,
            said: Vec::new(),
            pci_wait: Duration::ZERO,
            front: None,
            ring_words: None,
            cpu_count: None,
            subnormals: false,
            twin: None,
            strict_env: false,
        }
    }
}

impl Settings {
    /// Parses this project's variables and ignores the rest; of duplicates, the last one counts.
    ///
    /// # Errors
    /// The first variable that does not hold what it must.
    pub fn parse<K: AsRef<str>, V: AsRef<str>>(
        env: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Settings, EnvError> {
        let mut s = Settings::default();
        let (mut xdg, mut state, mut home, mut bundles) = (None, None, None, None);
        for (name, value) in env {
            let (name, value) = (name.as_ref(), value.as_ref().trim());
            if value.is_empty() {
                continue;
            }
            if KNOWN.contains(&name) {
                s.said.retain(|[known, _]| known != name);
                s.said.push([name.to_owned(), value.to_owned()]);
            }
            match name {
                "DEBUG" => s.debug = number("DEBUG", value, 0, 7)? as u8,
                "BEAM" => s.beam = number("BEAM", value, 0, 10_000)? as u32,
                "JIT" => s.jit = number("JIT", value, 0, 2)? as u8,
                "PROFILE" => s.profile = flag("PROFILE", value)?,
                "HCQDEV_WAIT_TIMEOUT_MS" => {
                    let ms = number("HCQDEV_WAIT_TIMEOUT_MS", value, 1, 86_400_000)?;
                    s.wait_timeout = Duration::from_millis(ms);
                }
                "HCQDEV_WORK_TIMEOUT_MS" => {
                    let ms = number("HCQDEV_WORK_TIMEOUT_MS", value, 1, 86_400_000)?;
                    s.work_timeout = Some(Duration::from_millis(ms));
                }
                "CACHELEVEL" => s.cache_level = number("CACHELEVEL", value, 0, 2)? as u8,
                "CCACHE" => s.compile_cache = flag("CCACHE", value)?,
                "DETERMINISTIC" => s.deterministic = flag("DETERMINISTIC", value)?,
                "ALLOW_TF32" => s.allow_tf32 = flag("ALLOW_TF32", value)?,
                "NV_WGMMA" => s.nv_wgmma = flag("NV_WGMMA", value)?,
                "AMD_AQL" => s.amd_aql = Some(flag("AMD_AQL", value)?),
                "AMD_RESET" => s.amd_reset = flag("AMD_RESET", value)?,
                "QCOM_PRIORITY" => s.qcom_priority = number("QCOM_PRIORITY", value, 1, 15)? as u8,
                "QCOM_FULL_POWER" => s.qcom_full_power = flag("QCOM_FULL_POWER", value)?,
                "QCOM_IMAGES" => s.qcom_images = flag("QCOM_IMAGES", value)?,
                "HCQDEV_FIRMWARE" => s.firmware = std::env::split_paths(value).collect(),
                "HCQDEV_BUNDLES" => bundles = Some(PathBuf::from(value)),
                "HCQDEV_PCI_WAIT" => {
                    let seconds = number("HCQDEV_PCI_WAIT", value, 0, 86_400)?;
                    s.pci_wait = Duration::from_secs(seconds);
                }
                "CPU_COUNT" => {
                    let count = number("CPU_COUNT", value, 1, 4096)?;
                    s.cpu_count = NonZeroUsize::new(count as usize);
                }
                "SUBNORMALS" => s.subnormals = flag("SUBNORMALS", value)?,
                "TWIN" => s.twin = Some(value.to_string()),
                "HCQ_STRICT_ENV" => s.strict_env = flag("HCQ_STRICT_ENV", value)?,
                "NO_COLOR" => s.no_color = true,
                "XDG_CACHE_HOME" => xdg = Some(PathBuf::from(value)),
                "XDG_STATE_HOME" => state = Some(PathBuf::from(value)),
                "HOME" => home = Some(PathBuf::from(value)),
                _ => {}
            }
        }
        let cache = xdg.filter(|path| path.is_absolute());
        let cache = cache.or_else(|| Some(home.as_ref()?.join(".cache")));
        s.cache_dir = cache.map(|path| path.join("doorbell"));
        let state = state.filter(|path| path.is_absolute());
        let state = state.or_else(|| Some(home?.join(".local/state")));
        let usual = || state.map(|path| path.join("doorbell"));
        s.bundles = match bundles {
            Some(none) if none.as_os_str() == "0" => None,
            Some(folder) => Some(folder),
            None => usual(),
        };
        s.said.sort();
        Ok(s)
    }

    /// Settings that have no effect in this version, as sentences.
    pub fn without_effect(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut note = |name: &str, value: u64, why: &str| {
            all.push(format!("{name}={value} has no effect: {why}; unset {name}"));
        };
        if self.beam > 0 {
            let why = "this version selects kernel variants by heuristics, without a search";
            note("BEAM", self.beam.into(), why);
        }
        match self.jit {
            0 => note("JIT", 0, "this version always captures"),
            2 => note("JIT", 2, "this version always batches captured work"),
            _ => {}
        }
        if self.cache_level == 2 {
            let why = "no searches to cache; compiled kernels are cached as with 1";
            note("CACHELEVEL", 2, why);
        }
        all
    }
}

/// A decimal number within bounds.
fn number(name: &'static str, value: &str, min: u64, max: u64) -> Result<u64, EnvError> {
    let parsed = value.parse().ok().filter(|n| (min..=max).contains(n));
    parsed.ok_or_else(|| EnvError {
        name,
        value: value.to_string(),
        expected: format!("a number from {min} to {max}"),
    })
}

/// 0 or 1; larger numbers are levels that only this project's ancestors had, and mean "on".
fn flag(name: &'static str, value: &str) -> Result<bool, EnvError> {
    match value.parse::<u8>() {
        Ok(level) => Ok(level > 0),
        Err(_) => Err(EnvError {
            name,
            value: value.to_string(),
            expected: "0 (off) or 1 (on)".to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(env: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::parse(env.iter().copied()).map_err(|e| e.to_string())
    }

    #[test]
    fn unset_and_empty_variables_give_the_defaults() {
        assert_eq!(parse(&[]).unwrap(), Settings::default());
        let empty: Vec<(&str, &str)> = KNOWN.iter().map(|name| (*name, "")).collect();
        assert_eq!(parse(&empty).unwrap(), Settings::default());
        assert_eq!(Settings::default().wait_timeout, Duration::from_secs(30));
    }

    #[test]
    fn a_variable_of_ours_is_text() {
        use std::os::unix::ffi::OsStringExt;
        let odd = || OsString::from_vec(b"CPU\xff".to_vec());
        let read = |name: &str| texts([(name.into(), odd()), ("DEBUG".into(), "1".into())]);
        let error = read("DEV").unwrap_err().to_string();
        assert_eq!(
            error,
            "DEV=CPU\u{fffd}: expected UTF-8, found \"CPU\u{fffd}\"; correct it or unset DEV"
        );
        // Those of others, and folders of the system.
        for name in ["PATH", "HOME", "XDG_CACHE_HOME"] {
            assert_eq!(read(name), Ok(vec![("DEBUG".into(), "1".into())]));
        }
        let named = texts([(odd(), "x".into())]);
        assert_eq!(named, Ok(vec![]));
    }

    #[test]
    fn every_setting_is_read() {
        let settings = parse(&[
            ("DEBUG", "4"),
            ("BEAM", "8"),
            ("JIT", "2"),
            ("PROFILE", "1"),
            ("HCQDEV_WAIT_TIMEOUT_MS", "250"),
            ("HCQDEV_WORK_TIMEOUT_MS", "4000"),
            ("CACHELEVEL", "2"),
            ("CCACHE", "0"),
            ("CPU_COUNT", " 3 "),
            ("SUBNORMALS", "1"),
            ("DETERMINISTIC", "1"),
            ("ALLOW_TF32", "1"),
            ("NV_WGMMA", "0"),
            ("AMD_AQL", "0"),
            ("AMD_RESET", "1"),
            ("QCOM_PRIORITY", "12"),
            ("QCOM_FULL_POWER", "0"),
            ("QCOM_IMAGES", "0"),
            ("HCQDEV_FIRMWARE", "/opt/firmware:/srv"),
            ("HCQDEV_PCI_WAIT", "7"),
            ("TWIN", "gpus=2"),
            ("HCQ_STRICT_ENV", "1"),
            ("NO_COLOR", "yes"),
            ("XDG_CACHE_HOME", "/var/cache"),
            ("HOME", "/home/me"),
            ("PATH", "not ours"),
            ("HCQDEV_BUNDLES", "/var/bundles"),
        ]);
        let settings = settings.map(|settings| {
            let names: Vec<_> = settings.said.iter().map(|[name, _]| &**name).collect();
            assert_eq!(names.len(), 25, "{names:?}");
            assert_eq!(names[0], "ALLOW_TF32");
            Settings {
                said: Vec::new(),
                ..settings
            }
        });
        let expected = Settings {
            debug: 4,
            beam: 8,
            jit: 2,
            profile: true,
            wait_timeout: Duration::from_millis(250),
            work_timeout: Some(Duration::from_secs(4)),
            cache_level: 2,
            compile_cache: false,
            cache_dir: Some("/var/cache/doorbell".into()),
            no_color: true,
            deterministic: true,
            allow_tf32: true,
            nv_wgmma: false,
            amd_aql: Some(false),
            amd_reset: true,
            amd_recorded: Recorded::default(),
            qcom_priority: 12,
            qcom_full_power: false,
            qcom_images: false,
            firmware: vec!["/opt/firmware".into(), "/srv".into()],
            bundles: Some("/var/bundles".into()),
            said: Vec::new(),
            pci_wait: Duration::from_secs(7),
            front: None,
            ring_words: None,
            cpu_count: NonZeroUsize::new(3),
            subnormals: true,
            twin: Some("gpus=2".into()),
            strict_env: true,
        };
        assert_eq!(settings.unwrap(), expected);
    }

    #[test]
    fn what_is_read_and_does_nothing_says_so() {
        let said = |env: &[(&str, &str)]| parse(env).unwrap().without_effect();
        let quiet: &[(&str, &str)] = &[("BEAM", "0"), ("JIT", "1"), ("CACHELEVEL", "1")];
        assert_eq!(said(&[]), Vec::<String>::new());
        assert_eq!(said(quiet), Vec::<String>::new());
        let all = said(&[("BEAM", "8"), ("JIT", "0"), ("CACHELEVEL", "2")]);
        assert_eq!(
            all,
            [
                "BEAM=8 has no effect: this version selects kernel variants by heuristics, without a \
                 search; unset BEAM",
                "JIT=0 has no effect: this version always captures; unset JIT",
                "CACHELEVEL=2 has no effect: no searches to cache; compiled kernels are cached as \
                 with 1; unset CACHELEVEL",
            ]
        );
        assert_eq!(said(&[("JIT", "2")]).len(), 1);
    }

    #[test]
    fn the_cache_folder_follows_the_xdg_rules() {
        let dir = |env: &[(&str, &str)]| parse(env).unwrap().cache_dir;
        let home = Some(PathBuf::from("/h/.cache/doorbell"));
        assert_eq!(dir(&[("HOME", "/h")]), home);
        assert_eq!(dir(&[("HOME", "/h"), ("XDG_CACHE_HOME", "relative")]), home);
        assert_eq!(dir(&[("XDG_CACHE_HOME", "relative")]), None);
    }

    #[test]
    fn bundles_go_where_state_is() {
        let dir = |env: &[(&str, &str)]| parse(env).unwrap().bundles;
        let home = ("HOME", "/h");
        assert_eq!(dir(&[home]), Some("/h/.local/state/doorbell".into()));
        let state = dir(&[home, ("XDG_STATE_HOME", "/s")]);
        assert_eq!(state, Some("/s/doorbell".into()));
        assert_eq!(
            dir(&[home, ("HCQDEV_BUNDLES", "here")]),
            Some("here".into())
        );
        assert_eq!(dir(&[home, ("HCQDEV_BUNDLES", "0")]), None);
        assert_eq!(dir(&[("XDG_STATE_HOME", "relative")]), None);
    }

    #[test]
    fn what_is_malformed_is_named() {
        for (name, value, text) in [
            (
                "DEBUG",
                "8",
                "DEBUG=8: expected a number from 0 to 7, found \"8\"; correct it or unset DEBUG",
            ),
            (
                "DEBUG",
                "-1",
                "DEBUG=-1: expected a number from 0 to 7, found \"-1\"; correct it or unset DEBUG",
            ),
            (
                "BEAM",
                "1e3",
                "BEAM=1e3: expected a number from 0 to 10000, found \"1e3\"; correct it or unset \
                 BEAM",
            ),
            (
                "JIT",
                "3",
                "JIT=3: expected a number from 0 to 2, found \"3\"; correct it or unset JIT",
            ),
            (
                "PROFILE",
                "on",
                "PROFILE=on: expected 0 (off) or 1 (on), found \"on\"; correct it or unset PROFILE",
            ),
            (
                "HCQDEV_WAIT_TIMEOUT_MS",
                "0",
                "HCQDEV_WAIT_TIMEOUT_MS=0: expected a number from 1 to 86400000, found \"0\"; \
                 correct it or unset HCQDEV_WAIT_TIMEOUT_MS",
            ),
            (
                "QCOM_PRIORITY",
                "0",
                "QCOM_PRIORITY=0: expected a number from 1 to 15, found \"0\"; correct it or unset \
                 QCOM_PRIORITY",
            ),
            (
                "QCOM_PRIORITY",
                "16",
                "QCOM_PRIORITY=16: expected a number from 1 to 15, found \"16\"; correct it or unset \
                 QCOM_PRIORITY",
            ),
            (
                "CPU_COUNT",
                "99999999999999999999",
                "CPU_COUNT=99999999999999999999: expected a number from 1 to 4096, found \
                 \"99999999999999999999\"; correct it or unset CPU_COUNT",
            ),
            (
                "CACHELEVEL",
                "two",
                "CACHELEVEL=two: expected a number from 0 to 2, found \"two\"; correct it or unset \
                 CACHELEVEL",
            ),
        ] {
            assert_eq!(parse(&[(name, value)]).unwrap_err(), text);
        }
    }

    #[test]
    fn the_list_of_names_is_sorted_and_distinct() {
        assert!(KNOWN.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
