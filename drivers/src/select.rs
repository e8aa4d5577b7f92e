//! Which devices to use: `DEV`, its older spellings, the command line and the caller.
//!
//! ```text
//! targets = target { ";" target }
//! target  = [ interface [ ":" indices ] "+" ] device [ ":" [ renderer ] [ ":" arch ] ]
//! indices = range { "," range }          range = number [ "-" number ]
//! ```
//!
//! `DEV=AMD`, `DEV=PCI:0-3+AMD`, `DEV=NV:PTX`, `DEV=CPU:LLVM:x86_64,avx2,-avx512f`,
//! `DEV=TWINKFD+AMD::gfx1100` (a simulated device, never chosen unasked). Names are read in any
//! case; an architecture is taken as it is.
//!
//! The caller's choice comes before the command line's, that before `DEV`, that before the older
//! variables (`AMD=1`, `AMD_IFACE=PCI`, ...), and with none of them the devices are looked for.
//! Pure: the environment is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

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
            DeviceKind::Qcom => &[Transport::Kgsl],
            _ => &[],
        }
    }

    /// The compilers that can be asked for by name.
    pub const fn renderers(self) -> &'static [&'static str] {
        match self {
            DeviceKind::Cpu => &["LLVM", "CLANG"],
            DeviceKind::Amd => &["LLVM", "HIP"],
            DeviceKind::Nv => &["PTX", "NAK"],
            DeviceKind::Cuda => &["PTX"],
            DeviceKind::Qcom => &["IR3"],
            _ => &[],
        }
    }
}

/// A way to reach a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Transport {
    /// AMD's compute driver, `/dev/kfd`.
    Kfd,
    /// NVIDIA's open kernel module.
    Nvk,
    /// Qualcomm's `/dev/kgsl-3d0`.
    Kgsl,
    /// The PCI device itself, with no driver of its own in the kernel.
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
            Transport::Pci => "PCI",
            Transport::Usb => "USB",
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
            (None, false) => write!(f, ":{indices}+")?,
            (None, true) => {}
        }
        f.write_str(self.device.name())?;
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
    /// The targets in their order; empty, with [`Source::Autodetect`], when nobody asked.
    pub targets: Vec<Target>,
    /// Who asked.
    pub source: Source,
    /// What the user should know: old names with their new form, overridden or unknown variables.
    pub notes: Vec<String>,
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
    #[error("{first} and {second} contradict each other about the {what}; keep one of them")]
    Conflict {
        first: String,
        second: String,
        what: &'static str,
    },
    #[error("{old}: old names are refused because HCQ_STRICT_ENV=1 is set; write {new}")]
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
        notes.push(format!("{weaker} is not followed: {origin} comes first"));
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
            notes.push(format!("{weaker} is not followed: {origin} comes first"));
        }
    }
    for target in &mut targets {
        legacy.refine(target, source, &origin, &mut notes)?;
    }
    if !legacy.names.is_empty() {
        let old = legacy.names.join(" ");
        let new = legacy.modern(&targets);
        if given("HCQ_STRICT_ENV").is_some_and(|value| value != "0") {
            return Err(SelectError::Strict { old, new });
        }
        notes.push(format!("{old}: an old name; write {new}"));
    }
    notes.extend(unknown_names(env.keys().map(String::as_str)));
    Ok(Selection {
        targets,
        source,
        notes,
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

fn parse_target(origin: &str, text: &str) -> Result<Target, SelectError> {
    // An architecture may contain '+' (`gfx90a:xnack+`), but only behind two colons.
    let split = text
        .split_once('+')
        .filter(|(head, _)| head.matches(':').count() <= 1);
    let (head, body) = split.map_or((None, text), |(head, body)| (Some(head), body));
    let mut parts = body.splitn(3, ':');
    let device_table = DeviceKind::ALL.map(|d| (d.name(), d));
    let device = lookup(
        origin,
        "a device",
        parts.next().unwrap_or_default(),
        &device_table,
    )?;
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
    if let Some(renderer) = parts.next().filter(|text| !text.is_empty()) {
        target.renderer = Some(parse_renderer(origin, device, renderer)?);
    }
    if let Some(arch) = parts.next() {
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
            expected: "a device with more than one interface before which one is named",
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
            expected: "a device with more than one renderer before one is named",
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

/// The older variables for a compiler, with what they ask for.
const RENDERERS: [(&str, DeviceKind, &str); 9] = [
    ("AMD_HIP", DeviceKind::Amd, "HIP"),
    ("AMD_LLVM", DeviceKind::Amd, "LLVM"),
    ("CPU_CLANG", DeviceKind::Cpu, "CLANG"),
    ("CPU_CLANGJIT", DeviceKind::Cpu, "CLANG"),
    ("CPU_LLVM", DeviceKind::Cpu, "LLVM"),
    ("CUDA_PTX", DeviceKind::Cuda, "PTX"),
    ("NV_NAK", DeviceKind::Nv, "NAK"),
    ("NV_PTX", DeviceKind::Nv, "PTX"),
    ("QCOM_IR3", DeviceKind::Qcom, "IR3"),
];

/// The older variables for a simulated device; `MOCKGPU` takes any device's first transport.
const TWINS: [(&str, DeviceKind, Option<Transport>); 5] = [
    ("MOCKGPU", DeviceKind::Amd, None),
    ("MOCKKFD", DeviceKind::Amd, Some(Transport::Kfd)),
    ("MOCKNVK", DeviceKind::Nv, Some(Transport::Nvk)),
    ("MOCKPCI", DeviceKind::Amd, Some(Transport::Pci)),
    ("MOCKUSB", DeviceKind::Amd, Some(Transport::Usb)),
];

/// The processor of a twin that was asked for by an old name, which has no place to say it.
const TWIN_ARCH: &str = "gfx1100";

/// What the older variables say.
#[derive(Default)]
struct Legacy {
    /// `NAME=value` of every one that is set.
    names: Vec<String>,
    devices: Vec<(DeviceKind, String)>,
    interfaces: Vec<(DeviceKind, Interface, String)>,
    renderers: Vec<(DeviceKind, &'static str, String)>,
    twin: Option<(DeviceKind, Option<Transport>, String)>,
    indices: Option<(Vec<u32>, String)>,
}

impl Legacy {
    fn read(env: &BTreeMap<String, String>) -> Result<Legacy, SelectError> {
        let mut legacy = Legacy::default();
        let given = |name: &str| {
            let value = env.get(name).filter(|value| !value.is_empty())?;
            Some((format!("{name}={value}"), value.as_str()))
        };
        let on = |name: &str| match given(name) {
            None => Ok(None),
            Some((_, "0")) => Ok(None),
            Some((origin, "1")) => Ok(Some(origin)),
            Some((origin, value)) => Err(SelectError::Malformed {
                origin,
                expected: "0 or 1",
                found: value.to_string(),
                hint: "unset it if it belongs to another program, and use DEV",
            }),
        };
        for device in DeviceKind::ALL {
            if let Some(origin) = on(device.name())? {
                legacy.devices.push((device, origin));
            }
        }
        for (name, device) in [("AMD_IFACE", DeviceKind::Amd), ("NV_IFACE", DeviceKind::Nv)] {
            if let Some((origin, value)) = given(name) {
                let interface = parse_interface(&origin, device, value)?;
                legacy.interfaces.push((device, interface, origin));
            }
        }
        for (name, device, renderer) in RENDERERS {
            let Some(origin) = on(name)? else { continue };
            let other = legacy
                .renderers
                .iter()
                .find(|(d, r, _)| *d == device && *r != renderer);
            if let Some((_, _, first)) = other {
                let first = first.clone();
                return Err(SelectError::Conflict {
                    first,
                    second: origin,
                    what: "renderer",
                });
            }
            legacy.renderers.push((device, renderer, origin));
        }
        for (name, device, transport) in TWINS {
            let Some(origin) = on(name)? else { continue };
            if let Some((_, _, first)) = &legacy.twin {
                let first = first.clone();
                return Err(SelectError::Conflict {
                    first,
                    second: origin,
                    what: "twin",
                });
            }
            legacy.twin = Some((device, transport, origin));
        }
        if let Some((origin, value)) = given("HCQ_VISIBLE_DEVICES") {
            legacy.indices = Some((parse_indices(&origin, value)?, origin));
        }
        let devices = legacy.devices.iter().map(|d| &d.1);
        let interfaces = legacy.interfaces.iter().map(|i| &i.2);
        let renderers = legacy.renderers.iter().map(|r| &r.2);
        let twin = legacy.twin.iter().map(|t| &t.2);
        let indices = legacy.indices.iter().map(|i| &i.1);
        let all = devices
            .chain(interfaces)
            .chain(renderers)
            .chain(twin)
            .chain(indices);
        legacy.names = all.cloned().collect();
        Ok(legacy)
    }

    /// The device that is asked for: at most one, as it always was.
    fn devices(&self) -> Result<Vec<DeviceKind>, SelectError> {
        match self.devices.as_slice() {
            [] => Ok(self.twin.iter().map(|(device, ..)| *device).collect()),
            [(device, _)] => Ok(vec![*device]),
            [(_, first), (_, second), ..] => Err(SelectError::Conflict {
                first: first.clone(),
                second: second.clone(),
                what: "device",
            }),
        }
    }

    /// The variables that chose these devices, for messages.
    fn used(&self, devices: &[DeviceKind]) -> Vec<String> {
        let named = self
            .devices
            .iter()
            .filter(|(device, _)| devices.contains(device));
        let named: Vec<String> = named.map(|(_, origin)| origin.clone()).collect();
        if named.is_empty() {
            self.twin.iter().map(|t| t.2.clone()).collect()
        } else {
            named
        }
    }

    /// Fills in what a target leaves open. Where the target says something else, the caller and
    /// the command line come first, and `DEV` contradicts.
    fn refine(
        &self,
        target: &mut Target,
        source: Source,
        origin: &str,
        notes: &mut Vec<String>,
    ) -> Result<(), SelectError> {
        let mut clash = |weaker: &str, what: &'static str| {
            if matches!(source, Source::Api | Source::Cli) {
                notes.push(format!("{weaker} is not followed: {origin} comes first"));
                return Ok(());
            }
            let (first, second) = (origin.to_string(), weaker.to_string());
            Err(SelectError::Conflict {
                first,
                second,
                what,
            })
        };
        let device = target.device;
        let interface = self.interfaces.iter().find(|(d, ..)| *d == device);
        let mut wanted = interface.map(|(_, interface, origin)| (*interface, origin.clone()));
        let first = device.transports().first();
        if let (Some((_, transport, twin)), Some(&first)) = (&self.twin, first) {
            let named = wanted.as_ref().map(|(interface, _)| interface.transport);
            let transport = match (*transport, named) {
                (Some(t), Some(named)) if t != named => {
                    let first = wanted.map(|w| w.1).unwrap_or_default();
                    let second = twin.clone();
                    return Err(SelectError::Conflict {
                        first,
                        second,
                        what: "interface",
                    });
                }
                (Some(t), _) | (None, Some(t)) => t,
                (None, None) => target.interface.map_or(first, |i| i.transport),
            };
            if !device.transports().contains(&transport) {
                let (first, second) = (origin.to_string(), twin.clone());
                return Err(SelectError::Conflict {
                    first,
                    second,
                    what: "interface",
                });
            }
            wanted = Some((
                Interface {
                    transport,
                    twin: true,
                },
                twin.clone(),
            ));
            if device == DeviceKind::Amd && target.arch.is_none() {
                target.arch = Some(TWIN_ARCH.to_string());
            }
        }
        match (target.interface, wanted) {
            (Some(has), Some((wants, weaker))) if has != wants => clash(&weaker, "interface")?,
            (None, Some((wants, _))) => target.interface = Some(wants),
            _ => {}
        }
        if let Some((_, wants, weaker)) = self.renderers.iter().find(|(d, ..)| *d == device) {
            match target.renderer {
                Some(has) if has != *wants => clash(weaker, "renderer")?,
                _ => target.renderer = Some(wants),
            }
        }
        // The CPU is one device, of which nobody means the second.
        if let Some((wants, weaker)) = self.indices.as_ref().filter(|_| device != DeviceKind::Cpu) {
            match &target.indices {
                Some(has) if has != wants => clash(weaker, "device numbers")?,
                _ => target.indices = Some(wants.clone()),
            }
        }
        Ok(())
    }

    /// The value of `DEV` that says the same, for the note about old names.
    fn modern(&self, targets: &[Target]) -> String {
        if !targets.is_empty() {
            let targets: Vec<String> = targets.iter().map(Target::to_string).collect();
            let value = targets.join(";");
            // A shell takes ';' for the end of the command.
            return if value.contains(';') {
                format!("DEV='{value}'")
            } else {
                format!("DEV={value}")
            };
        }
        // They narrow a device down that nobody chose.
        let interface = self
            .interfaces
            .first()
            .map(|(device, interface, _)| Target {
                interface: Some(*interface),
                ..Target::any(*device)
            });
        let renderer = self.renderers.first().map(|(device, renderer, _)| Target {
            renderer: Some(renderer),
            ..Target::any(*device)
        });
        let mut target = interface
            .or(renderer)
            .unwrap_or(Target::any(DeviceKind::Amd));
        target.indices = self.indices.as_ref().map(|(indices, _)| indices.clone());
        format!("for example DEV={target}, since no device is chosen and nothing follows from it")
    }
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
            Some((_, known)) => notes.push(format!("{name} is not known; did you mean {known}?")),
            None if ours => notes.push(format!("{name} is not known and has no effect")),
            None => {}
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(api: &str, cli: &str, env: &[(&str, &str)]) -> Result<Selection, String> {
        let some = |text: &'static str| text;
        let _ = some;
        let option = |text: &str| (!text.is_empty()).then(|| text.to_string());
        select(
            option(api).as_deref(),
            option(cli).as_deref(),
            env.iter().copied(),
        )
        .map_err(|e| e.to_string())
    }

    fn spelled(selection: &Selection) -> String {
        selection
            .targets
            .iter()
            .map(Target::to_string)
            .collect::<Vec<_>>()
            .join(";")
    }

    #[test]
    fn the_grammar_and_its_canonical_spelling() {
        for (text, canonical) in [
            ("CPU", "CPU"),
            ("cpu", "CPU"),
            ("AMD", "AMD"),
            ("PCI+AMD", "PCI+AMD"),
            ("usb+amd", "USB+AMD"),
            ("PCI:0-3+AMD", "PCI:0-3+AMD"),
            ("PCI:3,1,0,1+AMD", "PCI:0-1,3+AMD"),
            ("KFD:7+AMD::gfx1100", "KFD:7+AMD::gfx1100"),
            (":0-1+NV:PTX", ":0-1+NV:PTX"),
            ("NV:ptx:sm_90", "NV:PTX:sm_90"),
            ("NVK+NV:NAK", "NVK+NV:NAK"),
            (
                "CPU:LLVM:x86_64,znver2,avx2,-avx512f",
                "CPU:LLVM:x86_64,znver2,avx2,-avx512f",
            ),
            ("CPU:LLVM:x86_64,+avx2", "CPU:LLVM:x86_64,+avx2"),
            ("AMD::gfx90a:xnack+", "AMD::gfx90a:xnack+"),
            ("CPU:CLANGJIT", "CPU:CLANG"),
            ("QCOM:IR3:a630", "QCOM:IR3:a630"),
            ("KGSL+QCOM", "KGSL+QCOM"),
            ("TWINKFD+AMD::gfx1100", "TWINKFD+AMD::gfx1100"),
            ("MOCKPCI+AMD", "TWINPCI+AMD"),
            ("MOCKNVK+NV", "TWINNVK+NV"),
            ("PCI+AMD; CPU ;WEBGPU", "PCI+AMD;CPU;WEBGPU"),
        ] {
            let targets = parse_targets("DEV", text).unwrap();
            let again = targets
                .iter()
                .map(Target::to_string)
                .collect::<Vec<_>>()
                .join(";");
            assert_eq!(again, canonical, "{text}");
            assert_eq!(parse_targets("DEV", &again).unwrap(), targets, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named_with_the_nearest() {
        for (text, error) in [
            (
                "AMX",
                "DEV=AMX: expected a device (CPU, AMD, NV, QCOM, CUDA, HIP, CL, METAL, WEBGPU), \
                 found \"AMX\"; did you mean AMD?",
            ),
            (
                "CPU;",
                "DEV=CPU;: expected a device (CPU, AMD, NV, QCOM, CUDA, HIP, CL, METAL, WEBGPU), \
                 found \"\"; choose one of these",
            ),
            (
                "PCIE+AMD",
                "DEV=PCIE+AMD: expected an interface of AMD (KFD, PCI, USB, TWINKFD, TWINPCI, \
                 TWINUSB), found \"PCIE\"; did you mean PCI?",
            ),
            (
                "NVK+AMD",
                "DEV=NVK+AMD: expected an interface of AMD (KFD, PCI, USB, TWINKFD, TWINPCI, \
                 TWINUSB), found \"NVK\"; choose one of these",
            ),
            (
                "MOCKPIC+NV",
                "DEV=MOCKPIC+NV: expected an interface of NV (NVK, PCI, USB, TWINNVK, TWINPCI, \
                 TWINUSB), found \"TWINPIC\"; did you mean TWINPCI?",
            ),
            (
                "PCI+CPU",
                "DEV=PCI+CPU: expected a device with more than one interface before which one is \
                 named, found \"PCI+CPU\"; leave out the interface and the '+'",
            ),
            (
                "NV:PTZ",
                "DEV=NV:PTZ: expected a renderer of NV (PTX, NAK), found \"PTZ\"; did you mean PTX?",
            ),
            (
                "METAL:X",
                "DEV=METAL:X: expected a device with more than one renderer before one is named, \
                 found \"METAL:X\"; leave out the renderer",
            ),
            (
                "PCI:3-0+AMD",
                "DEV=PCI:3-0+AMD: expected device numbers from 0 to 1023 as a list of ascending \
                 ranges, found \"3-0\"; for example 0, 0-3 or 0,2-3",
            ),
            (
                "AMD::gfx 9",
                "DEV=AMD::gfx 9: expected an architecture of letters, digits and _-.+: with commas \
                 between non-empty parts, found \"gfx 9\"; for example AMD::gfx1100 or \
                 CPU:LLVM:x86_64,avx2,-avx512f",
            ),
        ] {
            assert_eq!(run("", "", &[("DEV", text)]).unwrap_err(), error);
        }
        for indices in ["", "a", "0-", "-1", "0,,1", "1024", "0-4294967295", "0-1-2"] {
            assert!(
                run("", "", &[("DEV", &format!("PCI:{indices}+AMD"))]).is_err(),
                "{indices}"
            );
        }
        for arch in ["", ",", "a,", "a;b:c,,", "\u{e9}"] {
            assert!(
                parse_target("DEV", &format!("AMD::{arch}")).is_err(),
                "{arch}"
            );
        }
    }

    #[test]
    fn precedence() {
        let env = [("DEV", "AMD")];
        for (api, cli, env, source, targets, notes) in [
            ("", "", &[][..], Source::Autodetect, "", &[][..]),
            ("", "", &[("DEV", "")], Source::Autodetect, "", &[]),
            ("", "", &env, Source::Dev, "AMD", &[]),
            (
                "",
                "CPU",
                &env,
                Source::Cli,
                "CPU",
                &["DEV=AMD is not followed: --dev=CPU comes first"],
            ),
            (
                "NV",
                "CPU",
                &env,
                Source::Api,
                "NV",
                &[
                    "--dev=CPU is not followed: the caller's choice=NV comes first",
                    "DEV=AMD is not followed: the caller's choice=NV comes first",
                ],
            ),
            (
                "",
                "CPU",
                &[("NV", "1")],
                Source::Cli,
                "CPU",
                &[
                    "NV=1 is not followed: --dev=CPU comes first",
                    "NV=1: an old name; write DEV=CPU",
                ],
            ),
        ] {
            let selection = run(api, cli, env).unwrap();
            assert_eq!(
                (
                    selection.source,
                    spelled(&selection).as_str(),
                    selection.notes.as_slice()
                ),
                (
                    source,
                    targets,
                    notes
                        .iter()
                        .map(|n| n.to_string())
                        .collect::<Vec<_>>()
                        .as_slice()
                )
            );
        }
    }

    #[test]
    fn old_names_and_their_new_form() {
        for (env, new) in [
            (&[("CPU", "1")][..], "CPU"),
            (&[("AMD", "1")], "AMD"),
            (&[("AMD", "1"), ("NV", "0"), ("CUDA", "")], "AMD"),
            (&[("QCOM", "1"), ("QCOM_IR3", "1")], "QCOM:IR3"),
            (&[("METAL", "1")], "METAL"),
            (&[("WEBGPU", "1")], "WEBGPU"),
            (&[("CL", "1")], "CL"),
            (&[("HIP", "1")], "HIP"),
            (&[("AMD", "1"), ("AMD_IFACE", "pci")], "PCI+AMD"),
            (
                &[("AMD", "1"), ("AMD_IFACE", "USB"), ("AMD_LLVM", "1")],
                "USB+AMD:LLVM",
            ),
            (&[("AMD", "1"), ("AMD_HIP", "1")], "AMD:HIP"),
            (
                &[("NV", "1"), ("NV_IFACE", "NVK"), ("NV_NAK", "1")],
                "NVK+NV:NAK",
            ),
            (&[("NV", "1"), ("NV_PTX", "1")], "NV:PTX"),
            (&[("CUDA", "1"), ("CUDA_PTX", "1")], "CUDA:PTX"),
            (&[("CPU", "1"), ("CPU_LLVM", "1")], "CPU:LLVM"),
            (
                &[("CPU", "1"), ("CPU_CLANG", "1"), ("CPU_CLANGJIT", "1")],
                "CPU:CLANG",
            ),
            (
                &[("AMD", "1"), ("HCQ_VISIBLE_DEVICES", "0-2,5")],
                ":0-2,5+AMD",
            ),
            (&[("CPU", "1"), ("HCQ_VISIBLE_DEVICES", "0-2")], "CPU"),
            (&[("MOCKGPU", "1")], "TWINKFD+AMD::gfx1100"),
            (&[("MOCKKFD", "1")], "TWINKFD+AMD::gfx1100"),
            (&[("MOCKPCI", "1")], "TWINPCI+AMD::gfx1100"),
            (&[("MOCKUSB", "1")], "TWINUSB+AMD::gfx1100"),
            (&[("MOCKNVK", "1")], "TWINNVK+NV"),
            (&[("MOCKGPU", "1"), ("NV", "1")], "TWINNVK+NV"),
            (&[("MOCKPCI", "1"), ("NV", "1")], "TWINPCI+NV"),
            (
                &[("MOCKGPU", "1"), ("AMD", "1"), ("AMD_IFACE", "PCI")],
                "TWINPCI+AMD::gfx1100",
            ),
        ] {
            let selection = run("", "", env).unwrap();
            assert_eq!(spelled(&selection), new, "{env:?}");
            assert_eq!(selection.source, Source::Legacy);
            let note = selection.notes.last().unwrap();
            assert!(
                note.ends_with(&format!(": an old name; write DEV={new}")),
                "{note}"
            );
            // The new form alone says the same, without a note.
            let modern = run("", "", &[("DEV", new)]).unwrap();
            assert_eq!((modern.targets, modern.notes), (selection.targets, vec![]));
        }
    }

    #[test]
    fn old_names_fill_in_what_new_ones_leave_open() {
        let env = [("DEV", "AMD;CPU"), ("AMD_IFACE", "PCI"), ("CPU_LLVM", "1")];
        let selection = run("", "", &env).unwrap();
        assert_eq!(selection.source, Source::Dev);
        assert_eq!(spelled(&selection), "PCI+AMD;CPU:LLVM");
        assert_eq!(
            selection.notes,
            ["AMD_IFACE=PCI CPU_LLVM=1: an old name; write DEV='PCI+AMD;CPU:LLVM'"]
        );
        let same = run(
            "",
            "",
            &[("DEV", "PCI+AMD"), ("AMD", "1"), ("AMD_IFACE", "PCI")],
        )
        .unwrap();
        assert_eq!(spelled(&same), "PCI+AMD");
        let cli = run("", "KFD+AMD", &[("AMD_IFACE", "PCI")]).unwrap();
        assert_eq!(spelled(&cli), "KFD+AMD");
        assert_eq!(
            cli.notes[0],
            "AMD_IFACE=PCI is not followed: --dev=KFD+AMD comes first"
        );
    }

    #[test]
    fn a_qualifier_without_a_device_changes_nothing_and_says_so() {
        let selection = run(
            "",
            "",
            &[("AMD_IFACE", "PCI"), ("HCQ_VISIBLE_DEVICES", "1")],
        )
        .unwrap();
        assert_eq!(selection.source, Source::Autodetect);
        assert_eq!(
            selection.notes,
            [
                "AMD_IFACE=PCI HCQ_VISIBLE_DEVICES=1: an old name; write for example DEV=PCI:1+AMD, \
              since no device is chosen and nothing follows from it"
            ]
        );
    }

    #[test]
    fn contradictions_name_both_sources() {
        let text = |first: &str, second: &str, what: &str| {
            format!("{first} and {second} contradict each other about the {what}; keep one of them")
        };
        for (env, error) in [
            (
                &[("CPU", "1"), ("AMD", "1")][..],
                text("CPU=1", "AMD=1", "device"),
            ),
            (
                &[("DEV", "CPU"), ("AMD", "1")],
                text("DEV=CPU", "AMD=1", "device"),
            ),
            (
                &[("DEV", "KFD+AMD"), ("AMD_IFACE", "PCI")],
                text("DEV=KFD+AMD", "AMD_IFACE=PCI", "interface"),
            ),
            (
                &[("NV_PTX", "1"), ("NV_NAK", "1")],
                text("NV_NAK=1", "NV_PTX=1", "renderer"),
            ),
            (
                &[("DEV", "NV:NAK"), ("NV_PTX", "1")],
                text("DEV=NV:NAK", "NV_PTX=1", "renderer"),
            ),
            (
                &[("DEV", "PCI:0+AMD"), ("HCQ_VISIBLE_DEVICES", "1")],
                text("DEV=PCI:0+AMD", "HCQ_VISIBLE_DEVICES=1", "device numbers"),
            ),
            (
                &[("MOCKPCI", "1"), ("MOCKUSB", "1")],
                text("MOCKPCI=1", "MOCKUSB=1", "twin"),
            ),
            (
                &[("AMD", "1"), ("AMD_IFACE", "PCI"), ("MOCKUSB", "1")],
                text("AMD_IFACE=PCI", "MOCKUSB=1", "interface"),
            ),
            (
                &[("NV", "1"), ("MOCKKFD", "1")],
                text("NV=1", "MOCKKFD=1", "interface"),
            ),
            (
                &[("DEV", "PCI+AMD"), ("MOCKGPU", "1")],
                text("DEV=PCI+AMD", "MOCKGPU=1", "interface"),
            ),
        ] {
            assert_eq!(run("", "", env).unwrap_err(), error);
        }
    }

    #[test]
    fn old_names_with_odd_values() {
        for (name, value, error) in [
            (
                "CUDA",
                "/usr/local/cuda",
                "CUDA=/usr/local/cuda: expected 0 or 1, found \"/usr/local/cuda\"; unset it if it \
                 belongs to another program, and use DEV",
            ),
            (
                "AMD_IFACE",
                "KDF",
                "AMD_IFACE=KDF: expected an interface of AMD (KFD, PCI, USB, TWINKFD, TWINPCI, \
                 TWINUSB), found \"KDF\"; did you mean KFD?",
            ),
            (
                "HCQ_VISIBLE_DEVICES",
                "all",
                "HCQ_VISIBLE_DEVICES=all: expected device numbers from 0 to 1023 as a list of \
                 ascending ranges, found \"all\"; for example 0, 0-3 or 0,2-3",
            ),
        ] {
            assert_eq!(run("", "", &[(name, value)]).unwrap_err(), error);
        }
    }

    #[test]
    fn strict_mode_refuses_old_names_and_shows_the_new() {
        let env = [("HCQ_STRICT_ENV", "1"), ("AMD", "1"), ("AMD_IFACE", "PCI")];
        assert_eq!(
            run("", "", &env).unwrap_err(),
            "AMD=1 AMD_IFACE=PCI: old names are refused because HCQ_STRICT_ENV=1 is set; write \
             DEV=PCI+AMD"
        );
        assert!(run("", "", &[("HCQ_STRICT_ENV", "0"), ("AMD", "1")]).is_ok());
        assert!(run("", "", &[("HCQ_STRICT_ENV", "1"), ("DEV", "AMD")]).is_ok());
    }

    #[test]
    fn near_misses_are_mentioned_and_other_peoples_variables_are_not() {
        let env: Vec<(&str, &str)> = [
            "AMD_IFCAE",
            "AM_RESTE",
            "CPU_LVM",
            "CUDA_VISIBLE_DEVICES",
            "HCQ_VISIBLE_DEVICE",
            "HCQ_WHATEVER",
            "NV_GPU",
            "NV_LIBNCCL_PACKAGE",
            "AMD_SERIALIZE_KERNEL",
            "NVIDIA_VISIBLE_DEVICES",
            "NV_IFACES",
            "ROCM_PATH",
        ]
        .map(|name| (name, "1"))
        .into();
        assert_eq!(
            run("", "", &env).unwrap().notes,
            [
                "AMD_IFCAE is not known; did you mean AMD_IFACE?",
                "AM_RESTE is not known and has no effect",
                "CPU_LVM is not known; did you mean CPU_LLVM?",
                "HCQ_VISIBLE_DEVICE is not known; did you mean HCQ_VISIBLE_DEVICES?",
                "HCQ_WHATEVER is not known and has no effect",
                "NV_IFACES is not known; did you mean NV_IFACE?",
            ]
        );
    }
}
