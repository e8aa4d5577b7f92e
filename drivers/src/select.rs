//! Which devices to use: `DEV`, its older spellings, the command line and the caller.
//!
//! ```text
//! targets = target { ";" target }
//! target  = [ interface [ ":" indices ] "+" ] device [ ":" indices ] [ ":" [ renderer ] [ ":" arch ] ]
//! indices = range { "," range }          range = number [ "-" number ]
//! ```
//!
//! `DEV=AMD`, `DEV=PCI:0-3+AMD`, `DEV=NV:PTX`, `DEV=CPU:LLVM:x86_64,avx2,-avx512f`,
//! `DEV=TWINKFD+AMD::gfx1100` (a simulated device, never chosen unasked). Names are read in any
//! case; an architecture is taken as it is. Numbers stand in one of their two places:
//! `KFD:1+AMD` and `KFD+AMD:1` are the same.
//!
//! Precedence: the caller's choice, the command line, `DEV`, the older variables (`AMD=1`, `AMD_IFACE=PCI`, ...),
//! then autodetection. Pure: the environment is an argument.

mod legacy;
mod restrictions;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use self::legacy::Legacy;
use crate::env::KNOWN;

/// A kind of device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)] // The names say it.
pub enum DeviceKind {
    Cpu,
    Amd,
    Nv,
    Qcom,
    Cuda,
    Hip,
    Cl,
    Metal,
    WebGpu,
}

impl DeviceKind {
    /// All kinds, in the order errors list them.
    pub const ALL: [DeviceKind; 9] = [
        DeviceKind::Cpu,
        DeviceKind::Amd,
        DeviceKind::Nv,
        DeviceKind::Qcom,
        DeviceKind::Cuda,
        DeviceKind::Hip,
        DeviceKind::Cl,
        DeviceKind::Metal,
        DeviceKind::WebGpu,
    ];

    /// The name in `DEV`.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "CPU",
            DeviceKind::Amd => "AMD",
            DeviceKind::Nv => "NV",
            DeviceKind::Qcom => "QCOM",
            DeviceKind::Cuda => "CUDA",
            DeviceKind::Hip => "HIP",
            DeviceKind::Cl => "CL",
            DeviceKind::Metal => "METAL",
            DeviceKind::WebGpu => "WEBGPU",
        }
    }

    /// The ways to reach such a device; the first is the twin's when only "a twin" is asked for.
    pub const fn transports(self) -> &'static [Transport] {
        match self {
            DeviceKind::Amd => &[Transport::Kfd, Transport::Pci, Transport::Usb],
            DeviceKind::Nv => &[Transport::Nvk, Transport::Pci, Transport::Usb],
            DeviceKind::Qcom => &[Transport::Kgsl, Transport::Msm],
            _ => &[],
        }
    }

    /// The compilers that can be asked for by name.
    pub const fn renderers(self) -> &'static [&'static str] {
        match self {
            DeviceKind::Cpu => &["LLVM", "CLANG"],
            DeviceKind::Amd => &["LLVM", "CLANG", "HIP"],
            DeviceKind::Nv => &["CUDA", "PTX", "LLVM", "NAK"],
            DeviceKind::Cuda => &["CUDA", "PTX", "LLVM"],
            DeviceKind::Hip => &["LLVM", "CLANG", "HIP"],
            DeviceKind::Qcom => &["IR3", "CL"],
            DeviceKind::Cl => &["C"],
            _ => &[],
        }
    }
}

/// An interface to a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Transport {
    /// AMD's compute driver, `/dev/kfd`.
    Kfd,
    /// NVIDIA's kernel driver, `/dev/nvidiactl`.
    Nvk,
    /// Qualcomm's `/dev/kgsl-3d0`.
    Kgsl,
    /// The DRM driver of Linux for Qualcomm's GPUs, `/dev/dri/renderD*`.
    Msm,
    /// The PCI device itself, without a kernel driver.
    Pci,
    /// A PCI device behind a USB bridge.
    Usb,
}

impl Transport {
    /// The name in `DEV`.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Kfd => "KFD",
            Transport::Nvk => "NVK",
            Transport::Kgsl => "KGSL",
            Transport::Msm => "MSM",
            Transport::Pci => "PCI",
            Transport::Usb => "USB",
        }
    }

    /// The interface that speaks it to hardware, or to a twin.
    pub const fn interface(self, twin: bool) -> Interface {
        Interface {
            transport: self,
            twin,
        }
    }
}

/// A transport, to hardware or to its simulated twin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interface {
    /// What is spoken.
    pub transport: Transport,
    /// To a simulated device.
    pub twin: bool,
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}",
            if self.twin { "TWIN" } else { "" },
            self.transport.name()
        )
    }
}

/// One target of a selection. What is `None` is chosen when the device is opened.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// What kind of device.
    pub device: DeviceKind,
    /// How to reach it.
    pub interface: Option<Interface>,
    /// Which of those there are, counted from 0, ascending; `None` for all.
    pub indices: Option<Vec<u32>>,
    /// Which compiler makes its code.
    pub renderer: Option<&'static str>,
    /// For which processor, such as `gfx1100` or `x86_64,avx2,-avx512f`.
    pub arch: Option<String>,
}

impl Target {
    /// Any device of a kind.
    pub fn any(device: DeviceKind) -> Target {
        Target {
            device,
            interface: None,
            indices: None,
            renderer: None,
            arch: None,
        }
    }
}

/// The canonical spelling, which parses to the same target.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indices = self.indices.as_deref().map(ranges).unwrap_or_default();
        match (self.interface, indices.is_empty()) {
            (Some(interface), true) => write!(f, "{interface}+")?,
            (Some(interface), false) => write!(f, "{interface}:{indices}+")?,
            (None, _) => {}
        }
        f.write_str(self.device.name())?;
        if self.interface.is_none() && !indices.is_empty() {
            write!(f, ":{indices}")?;
        }
        match (self.renderer, &self.arch) {
            (renderer, Some(arch)) => write!(f, ":{}:{arch}", renderer.unwrap_or_default()),
            (Some(renderer), None) => write!(f, ":{renderer}"),
            (None, None) => Ok(()),
        }
    }
}

/// Ascending numbers as `0-3,5`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let text = runs.filter_map(|run| match run {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    text.collect::<Vec<_>>().join(",")
}

/// Who made a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The program that uses the library.
    Api,
    /// `--dev` on the command line.
    Cli,
    /// The variable `DEV`.
    Dev,
    /// Variables of the older form.
    Legacy,
    /// Nobody: whatever is there is used.
    Autodetect,
}

/// The result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The targets in order; empty, with [`Source::Autodetect`], if none was selected.
    pub targets: Vec<Target>,
    /// Who asked.
    pub source: Source,
    /// What the user should know: old names with their new form, overridden or unknown variables.
    pub notes: Vec<String>,
    /// Notes for the user, such as ignored variables that restrict GPUs in other software.
    pub warnings: Vec<String>,
}

/// Why the choice cannot be followed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs)] // The texts say what the fields are.
pub enum SelectError {
    #[error("{origin}: expected {what} ({}), found {found:?}; {}", expected.join(", "), did_you_mean(nearest.as_deref()))]
    Unknown {
        origin: String,
        what: String,
        expected: Vec<String>,
        found: String,
        nearest: Option<String>,
    },
    #[error("{origin}: expected {expected}, found {found:?}; {hint}")]
    Malformed {
        origin: String,
        expected: &'static str,
        found: String,
        hint: &'static str,
    },
    #[error("{first} and {second} conflict in the {what}; keep one of them")]
    Conflict {
        first: String,
        second: String,
        what: &'static str,
    },
    #[error("{old}: old name, rejected by HCQ_STRICT_ENV=1; use {new}")]
    Strict { old: String, new: String },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    match nearest {
        Some(name) => format!("did you mean {name}?"),
        None => "choose one of these".to_string(),
    }
}

/// The most like `found` among the candidates, if any is like it at all.
fn nearest<'a>(found: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.to_ascii_uppercase();
    candidates
        .map(|c| (strsim::damerau_levenshtein(&found, c), c))
        .filter(|(distance, c)| *distance <= (c.len() / 2).clamp(1, 3))
        .min()
        .map(|(_, c)| c)
}

/// Looks a name up, or says which would have been right.
fn lookup<T: Copy>(
    origin: &str,
    what: &str,
    found: &str,
    table: &[(&str, T)],
) -> Result<T, SelectError> {
    let hit = table
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(found));
    hit.map(|(_, value)| *value)
        .ok_or_else(|| SelectError::Unknown {
            origin: origin.to_string(),
            what: what.to_string(),
            expected: table.iter().map(|(name, _)| name.to_string()).collect(),
            found: found.to_string(),
            nearest: nearest(found, table.iter().map(|(name, _)| *name)).map(str::to_string),
        })
}

/// Decides. `api` and `cli` are strings in the form of `DEV`; `env` is the environment.
///
/// # Errors
/// A value that is not understood, two that contradict each other at the same rank, or an old name
/// when `HCQ_STRICT_ENV=1`.
pub fn select<K: AsRef<str>, V: AsRef<str>>(
    api: Option<&str>,
    cli: Option<&str>,
    env: impl IntoIterator<Item = (K, V)>,
) -> Result<Selection, SelectError> {
    let env: BTreeMap<String, String> = env
        .into_iter()
        .map(|(name, value)| (name.as_ref().to_string(), value.as_ref().trim().to_string()))
        .collect();
    let given = |name: &str| {
        env.get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    };
    let legacy = Legacy::read(&env)?;
    let mut notes = Vec::new();

    let asked = [
        (Source::Api, "the caller's choice", api),
        (Source::Cli, "--dev", cli),
        (Source::Dev, "DEV", given("DEV")),
    ];
    let mut asked = asked.into_iter().filter_map(|(source, name, text)| {
        let text = text.map(str::trim).filter(|text| !text.is_empty())?;
        Some((source, format!("{name}={text}"), text))
    });
    let (source, origin, mut targets) = match asked.next() {
        Some((source, origin, text)) => {
            let targets = parse_targets(&origin, text)?;
            // A program may open several, each with threads of its own.
            if source != Source::Api {
                one_cpu(&origin, &targets)?;
            }
            (source, origin, targets)
        }
        None => {
            let devices = legacy.devices()?;
            let origin = legacy.used(&devices).join(" ");
            let source = if devices.is_empty() {
                Source::Autodetect
            } else {
                Source::Legacy
            };
            (
                source,
                origin,
                devices.iter().map(|d| Target::any(*d)).collect(),
            )
        }
    };
    for (_, weaker, _) in asked {
        notes.push(format!("{weaker} is ignored: {origin} takes precedence"));
    }
    if source != Source::Legacy {
        for (device, weaker) in &legacy.devices {
            if targets.iter().any(|target| target.device == *device) {
                continue;
            }
            // Two variables of the environment are of one person at one time: that is a mistake.
            if source == Source::Dev {
                let (first, second) = (origin, weaker.clone());
                return Err(SelectError::Conflict {
                    first,
                    second,
                    what: "device",
                });
            }
            notes.push(format!("{weaker} is ignored: {origin} takes precedence"));
        }
    }
    for target in &mut targets {
        legacy.refine(target, source, &origin, &mut notes)?;
    }
    if !legacy.names.is_empty() {
        let old = legacy.names.join(" ");
        let new = legacy.modern(&legacy.meant(&targets, source)?);
        if given("HCQ_STRICT_ENV").is_some_and(|value| value != "0") {
            return Err(SelectError::Strict { old, new });
        }
        notes.push(format!("{old}: old name; use {new}"));
    }
    notes.extend(unknown_names(env.keys().map(String::as_str)));
    let warnings = restrictions::not_followed(&targets, given);
    Ok(Selection {
        targets,
        source,
        notes,
        warnings,
    })
}

/// Parses the value of `DEV`; `origin` names it in errors.
///
/// # Errors
/// [`SelectError::Unknown`] or [`SelectError::Malformed`].
pub fn parse_targets(origin: &str, text: &str) -> Result<Vec<Target>, SelectError> {
    text.split(';')
        .map(|target| parse_target(origin, target.trim()))
        .collect()
}

/// Parses devices in the order in which they are tried, separated by `|`; `origin` names them in errors.
///
/// # Errors
/// As [`parse_targets`]; another separator. [`one_cpu`] is for what a person asks for.
pub fn parse_chain(origin: &str, text: &str) -> Result<Vec<Target>, SelectError> {
    if text.contains(';') {
        return Err(SelectError::Malformed {
            origin: origin.to_string(),
            expected: "one device, or several with | between them in the order in which they are tried",
            found: text.to_string(),
            hint: "separate them by |, in quotes: DEV='QCOM|CPU'",
        });
    }
    text.split('|')
        .map(|target| parse_target(origin, target.trim()))
        .collect()
}

/// Refuses the number of a CPU that a person asks for: there is one.
///
/// # Errors
/// [`SelectError::Malformed`].
pub fn one_cpu(origin: &str, targets: &[Target]) -> Result<(), SelectError> {
    let numbered = |target: &&Target| {
        target.device == DeviceKind::Cpu && !matches!(target.indices.as_deref(), None | Some([0]))
    };
    match targets.iter().find(numbered) {
        Some(target) => Err(SelectError::Malformed {
            origin: origin.to_string(),
            expected: "CPU without a number, since there is one CPU device",
            found: target.to_string(),
            hint: "leave out the number; CPU_COUNT=N sets its number of threads",
        }),
        None => Ok(()),
    }
}

fn parse_target(origin: &str, text: &str) -> Result<Target, SelectError> {
    // An architecture may contain '+' (`gfx90a:xnack+`), but only behind two colons.
    let split = text
        .split_once('+')
        .filter(|(head, _)| head.matches(':').count() <= 1);
    let (head, body) = split.map_or((None, text), |(head, body)| (Some(head), body));
    let (name, mut rest) = cut(body);
    let device_table = DeviceKind::ALL.map(|d| (d.name(), d));
    let device = lookup(origin, "a device", name, &device_table)?;
    let mut target = Target::any(device);
    if let Some(head) = head {
        let (interface, indices) = head
            .split_once(':')
            .map_or((head, None), |(i, n)| (i, Some(n)));
        // `:0-1+CPU` names devices without saying how they are reached.
        if !(interface.is_empty() && indices.is_some()) {
            target.interface = Some(parse_interface(origin, device, interface)?);
        }
        target.indices = indices
            .map(|text| parse_indices(origin, text))
            .transpose()?;
    }
    // No compiler has a name that starts with a digit.
    if let Some(text) = rest.filter(|text| text.starts_with(|c: char| c.is_ascii_digit())) {
        let (numbers, after) = cut(text);
        if target.indices.is_some() {
            return Err(SelectError::Malformed {
                origin: origin.to_string(),
                expected: "device numbers in one place",
                found: body.to_string(),
                hint: "keep those before the '+'",
            });
        }
        target.indices = Some(parse_indices(origin, numbers)?);
        rest = after;
    }
    let (renderer, arch) = rest.map_or(("", None), cut);
    if !renderer.is_empty() {
        target.renderer = Some(parse_renderer(origin, device, renderer)?);
    }
    if let Some(arch) = arch {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.+,:".contains(c);
        if arch.split(',').any(str::is_empty) || !arch.chars().all(plain) {
            return Err(SelectError::Malformed {
                origin: origin.to_string(),
                expected: "an architecture of letters, digits and _-.+: with commas between \
                           non-empty parts",
                found: arch.to_string(),
                hint: "for example AMD::gfx1100 or CPU:LLVM:x86_64,avx2,-avx512f",
            });
        }
        target.arch = Some(arch.to_string());
    }
    Ok(target)
}

/// What stands before the first colon, and what behind it.
fn cut(text: &str) -> (&str, Option<&str>) {
    text.split_once(':')
        .map_or((text, None), |(head, tail)| (head, Some(tail)))
}

fn parse_interface(origin: &str, device: DeviceKind, text: &str) -> Result<Interface, SelectError> {
    let upper = text.to_ascii_uppercase();
    // MOCK is what twins are called elsewhere.
    let twin = upper
        .strip_prefix("TWIN")
        .or_else(|| upper.strip_prefix("MOCK"));
    let names: Vec<(String, Interface)> = [false, true]
        .into_iter()
        .flat_map(|twin| {
            device
                .transports()
                .iter()
                .map(move |&t| Interface { transport: t, twin })
        })
        .map(|interface| (interface.to_string(), interface))
        .collect();
    if names.is_empty() {
        return Err(SelectError::Malformed {
            origin: origin.to_string(),
            expected: "no interface, since this device has only one",
            found: format!("{text}+{}", device.name()),
            hint: "leave out the interface and the '+'",
        });
    }
    let table: Vec<(&str, Interface)> = names.iter().map(|(n, i)| (n.as_str(), *i)).collect();
    let wanted = twin.map_or_else(|| upper.clone(), |rest| format!("TWIN{rest}"));
    lookup(
        origin,
        &format!("an interface of {}", device.name()),
        &wanted,
        &table,
    )
}

fn parse_renderer(
    origin: &str,
    device: DeviceKind,
    text: &str,
) -> Result<&'static str, SelectError> {
    let mut table: Vec<(&str, &'static str)> = device.renderers().iter().map(|&r| (r, r)).collect();
    if table.is_empty() {
        return Err(SelectError::Malformed {
            origin: origin.to_string(),
            expected: "no renderer, since this device has only one",
            found: format!("{}:{text}", device.name()),
            hint: "leave out the renderer",
        });
    }
    if device == DeviceKind::Cpu && text.eq_ignore_ascii_case("CLANGJIT") {
        table.push(("CLANGJIT", "CLANG"));
    }
    lookup(
        origin,
        &format!("a renderer of {}", device.name()),
        text,
        &table,
    )
}

/// The highest index that is understood: more devices than any machine has.
const MAX_INDEX: u32 = 1023;

fn parse_indices(origin: &str, text: &str) -> Result<Vec<u32>, SelectError> {
    let malformed = || SelectError::Malformed {
        origin: origin.to_string(),
        expected: "device numbers from 0 to 1023 as a list of ascending ranges",
        found: text.to_string(),
        hint: "for example 0, 0-3 or 0,2-3",
    };
    let mut indices = BTreeSet::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&n| n <= MAX_INDEX);
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Err(malformed());
        };
        if first > last {
            return Err(malformed());
        }
        indices.extend(first..=last);
    }
    Ok(indices.into_iter().collect())
}

/// Variables that look like ours and are not. Vendors have many with `NV_` and `AMD_`, so these
/// are only mentioned when they are nearly one of ours.
fn unknown_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut notes = Vec::new();
    for name in names.filter(|name| !KNOWN.contains(name)) {
        let ours = name.starts_with("HCQ_") || name.starts_with("AM_");
        let vendor = ["NV_", "AMD_", "CPU_", "QCOM_"]
            .iter()
            .any(|p| name.starts_with(p));
        if !ours && !vendor {
            continue;
        }
        let near = KNOWN
            .iter()
            .map(|known| (strsim::damerau_levenshtein(name, known), *known))
            .filter(|(distance, _)| *distance <= if ours { 3 } else { 2 })
            .min();
        match near {
            Some((_, known)) => {
                notes.push(format!("unknown variable {name}; did you mean {known}?"))
            }
            None if ours => notes.push(format!("unknown variable {name} has no effect")),
            None => {}
        }
    }
    notes
}

#[cfg(test)]
mod tests;
