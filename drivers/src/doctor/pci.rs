//! AMD GPUs over bare PCI: requirements for driving a card, stage by stage.
//!
//! A card's row names the first failing stage, the finding, and one fix. Machine-wide requirements have their own
//! rows, even without a card.

use drivers_host::pci::look::{self, Group};
use drivers_host::pci::pages::available;
use drivers_host::pci::{Files, Rights};
use drivers_spec::amd::cards;
use drivers_spec::pci::VENDOR_AMD;
use firmware_tools::amd::chip::{CHIPS, Chip, Edition};
use firmware_tools::{PACKAGES, search};
use hcq::transport::PciFunction;

use super::{Row, Status};
use crate::bus::is_gpu;

/// Who may see where memory lies. Source: Linux, include/uapi/linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
/// Who may lock memory without limit.
const CAP_IPC_LOCK: u32 = 14;
const VFIO: &str = "vfio-pci";
const GROUPS: &str = "/sys/kernel/iommu_groups";
/// What an IOMMU is good for, and where it is turned on.
const TURN_ON: &str =
    "enable it in the BIOS (Intel: intel_iommu=on) to use vfio-pci without root (`doorbell bind`)";
/// What a card's buffers and rings need at least, in bytes of locked memory.
const LOCKED: u64 = 256 << 20;

/// What a look at one thing gave: what was seen, and what to do about it.
enum Check {
    Passed(String),
    /// It goes, with less.
    Poorer(String, String),
    Stopped(String, String),
}

use Check::{Passed, Poorer, Stopped};

impl Check {
    /// A row of the machine's. Where no card needs it, nothing is wrong.
    fn row(self, check: &str, is_needed: bool) -> Row {
        let (status, seen, fix) = match self {
            Passed(seen) => (Status::Ok, seen, String::new()),
            Poorer(seen, fix) => (Status::Warn, seen, fix),
            Stopped(seen, fix) => (Status::Fail, seen, fix),
        };
        match is_needed || status == Status::Ok {
            true => Row::new(check, status, seen).fix(fix),
            false => Row::new(check, Status::Absent, seen),
        }
    }
}

/// A card, and the files by which the system tells of it.
struct Card<'a> {
    files: &'a dyn Files,
    function: &'a PciFunction,
    /// Folders that the person keeps firmware in.
    folders: &'a [String],
}

type Stage = (&'static str, fn(&Card<'_>) -> Check);

const STAGES: [Stage; 8] = [
    ("chip", |card| card.chip()),
    ("display", |card| card.display()),
    ("kernel driver", |card| card.driver()),
    ("rights", |card| card.rights()),
    ("windows", |card| card.windows()),
    ("addresses", |card| card.addresses()),
    ("memory", |card| card.memory()),
    ("firmware", |card| card.firmware()),
];

/// The rows of the machine, and one for each card. `folders` are looked through for firmware before the system's.
pub(super) fn rows(files: &dyn Files, functions: &[PciFunction], folders: &[String]) -> Vec<Row> {
    let cards: Vec<_> = functions
        .iter()
        .filter(|function| function.vendor == VENDOR_AMD && is_gpu(function))
        .collect();
    let is_needed = cards
        .iter()
        .any(|card| card.driver.as_deref() != Some("amdgpu"));
    let mut rows = vec![match cards.as_slice() {
        [] => {
            let text =
                "no AMD function under /sys/bus/pci/devices (AMD GPUs without a kernel driver)";
            Row::new("amd.pci", Status::Absent, text)
        }
        some => {
            let text = super::functions(some);
            Row::new("amd.pci", Status::Ok, text.join("; "))
        }
    }];
    rows.extend(cards.iter().enumerate().map(|(i, function)| {
        let card = Card {
            files,
            function,
            folders,
        };
        card.row(i)
    }));
    rows.push(rights(files).row("pci.rights", is_needed));
    rows.push(iommu(files));
    rows.push(memory(files).row("pci.memory", is_needed));
    rows.push(vfio(files));
    rows.push(firmware(files, folders));
    rows
}

/// The rows of simulated cards, which no system stands before: what they are, their windows, and their firmware.
pub(super) fn simulated(
    files: &dyn Files,
    functions: &[PciFunction],
    folders: &[String],
) -> Vec<Row> {
    let is_bare = |function: &&PciFunction| {
        function.vendor == VENDOR_AMD && is_gpu(function) && function.driver.is_none()
    };
    let cards = functions.iter().filter(is_bare);
    let row = |(number, function)| {
        let card = Card {
            files,
            function,
            folders,
        };
        let check = format!("amd.pci.{number}");
        let mut seen = vec![card.function.address.clone()];
        for stage in [card.chip(), Passed(card.window()), card.firmware_of(0)] {
            match stage {
                Passed(what) | Poorer(what, _) => seen.push(what),
                Stopped(what, fix) => {
                    seen.push(what);
                    return Row::new(check, Status::Fail, seen.join("; ")).fix(fix);
                }
            }
        }
        Row::new(check, Status::Ok, seen.join("; "))
    };
    cards.enumerate().map(row).collect()
}

impl Card<'_> {
    fn row(&self, number: usize) -> Row {
        let check = format!("amd.pci.{number}");
        let mut seen = vec![self.function.address.clone()];
        let mut poorer = None;
        for (n, (name, look)) in (1..).zip(STAGES) {
            let stage = |what: &str| format!("stage {n} of {}, {name}: {what}", STAGES.len());
            match look(self) {
                Passed(what) => seen.push(what),
                Poorer(what, fix) => {
                    seen.push(what);
                    poorer.get_or_insert(fix);
                }
                Stopped(what, fix) => {
                    seen.push(stage(&what));
                    let detail = seen.join("; ");
                    // Nothing is wrong with a card that its own driver has.
                    return match self.function.driver.as_deref() {
                        Some("amdgpu") => Row::new(check, Status::Ok, format!("{detail}; {fix}")),
                        _ => Row::new(check, Status::Fail, detail).fix(fix),
                    };
                }
            }
        }
        seen.push(format!(
            "passed all {} stages before the start",
            STAGES.len()
        ));
        let detail = seen.join("; ");
        match poorer {
            Some(fix) => Row::new(check, Status::Warn, detail).fix(fix),
            None => Row::new(check, Status::Ok, format!("{detail}: DEV=PCI+AMD")),
        }
    }

    fn file(&self, name: &str) -> String {
        format!("/sys/bus/pci/devices/{}/{name}", self.function.address)
    }

    fn known(&self) -> Option<&'static cards::Card> {
        cards::of(self.function.device)
    }

    fn chip(&self) -> Check {
        let PciFunction { vendor, device, .. } = self.function;
        match self.known() {
            Some(card) => Passed(format!(
                "{vendor:04x}:{device:04x}, {} ({})",
                card.gfx, card.chip
            )),
            None => Stopped(
                format!("{vendor:04x}:{device:04x} is not supported without a kernel driver"),
                "use the kernel driver: `sudo modprobe amdgpu`, then DEV=AMD".into(),
            ),
        }
    }

    fn display(&self) -> Check {
        let address = &self.function.address;
        match look::display(self.files, address) {
            Some(how) if self.function.driver.is_some() => Stopped(
                how,
                format!(
                    "leave it to its kernel driver (DEV=AMD); to take it and its display, see `doorbell bind {address} \
                     --display --plan`"
                ),
            ),
            Some(how) => Passed(format!("no driver displays on it ({how})")),
            None => Passed("drives no display".into()),
        }
    }

    fn driver(&self) -> Check {
        let address = &self.function.address;
        match self.function.driver.as_deref() {
            None => Passed("no kernel driver bound".into()),
            Some(VFIO) => Passed(format!("bound to {VFIO}")),
            Some(driver) => Stopped(
                format!("bound to {driver}"),
                format!("to take it, see `doorbell bind {address} --plan`"),
            ),
        }
    }

    /// The IOMMU group, where VFIO has the card.
    fn group(&self) -> Option<Group> {
        look::group(self.files, &self.function.address)
    }

    fn is_vfio(&self) -> bool {
        self.function.driver.as_deref() == Some(VFIO)
    }

    fn rights(&self) -> Check {
        if self.is_vfio() {
            let Some(group) = self.group() else {
                return rights(self.files);
            };
            let path = group.node();
            return match self.files.may_write(&path) {
                Ok(()) => Passed(format!("{path} is accessible")),
                Err(error) => Stopped(
                    format!("{path}: {error}"),
                    format!("`sudo chown $USER {path}`, or run as root"),
                ),
            };
        }
        for name in ["config", "resource0", "resource2", "resource5"] {
            let path = self.file(name);
            if let Err(error) = self.files.may_write(&path) {
                return Stopped(format!("{path}: {error}"), AS_ROOT.into());
            }
        }
        rights(self.files)
    }

    /// The window of memory, without what the system says of it.
    fn window(&self) -> String {
        let vram = self.function.bars.iter().find(|bar| bar.number == 0);
        format!("BAR 0 has {} MiB", vram.map_or(0, |bar| bar.bytes >> 20))
    }

    fn windows(&self) -> Check {
        let bars = &self.function.bars;
        let missing = [0, 2, 5]
            .iter()
            .find(|n| bars.iter().all(|bar| bar.number != **n));
        if let Some(missing) = missing {
            return Stopped(
                format!("BAR {missing} has no address ({})", self.file("resource")),
                "enable Above 4G Decoding in the BIOS; see `sudo dmesg | grep BAR`".into(),
            );
        }
        let size = self.window();
        let address = &self.function.address;
        match look::sizes(self.files, address) {
            Some(sizes) if sizes.now < sizes.largest => Poorer(
                format!("{size} of up to {}", 1u64 << sizes.largest),
                format!(
                    "for faster copies, enable Resizable BAR in the BIOS, or run `doorbell bind {address} --resize`"
                ),
            ),
            _ => Passed(size),
        }
    }

    fn addresses(&self) -> Check {
        let address = &self.function.address;
        match self.group() {
            Some(group) if group.no_iommu => {
                Passed("VFIO without IOMMU: the card can write all of memory".into())
            }
            None => Passed("no IOMMU: bus addresses are physical".into()),
            Some(group) if self.is_vfio() => {
                Passed(format!("IOMMU group {} ({})", group.number, group.kind))
            }
            Some(group) if group.translates() => Stopped(
                format!(
                    "IOMMU group {} has type {}: bus addresses are not physical",
                    group.number, group.kind
                ),
                format!("`doorbell bind {address}`; or boot with iommu=pt to keep using sysfs"),
            ),
            Some(group) => Passed(format!(
                "IOMMU group {}: bus addresses are physical",
                group.number
            )),
        }
    }

    fn memory(&self) -> Check {
        match self.is_vfio() && self.group().is_some_and(|group| !group.no_iommu) {
            true => locked(self.files),
            false => huge(self.files),
        }
    }

    fn firmware(&self) -> Check {
        let revision = self.files.read(&self.file("revision")).unwrap_or_default();
        let revision = u8::from_str_radix(revision.trim().trim_start_matches("0x"), 16);
        self.firmware_of(revision.unwrap_or(0))
    }

    /// The files that a card of a revision needs.
    fn firmware_of(&self, revision: u8) -> Check {
        let gfx = self.known().map(|card| card.gfx);
        let Some(chip) = CHIPS.iter().find(|chip| Some(chip.gfx) == gfx) else {
            return Passed("firmware: unknown".into());
        };
        let edition = Edition::of(self.function.device, revision);
        let (there, missing) = firmware_of(self.files, self.folders, chip, edition);
        match missing.as_slice() {
            [] => Passed(format!("{} firmware files found", there.len())),
            missing => Stopped(
                format!("{} missing", missing.join(", ")),
                format!("{PACKAGES}; see `doorbell fw list --chip {}`", chip.gfx),
            ),
        }
    }
}

const AS_ROOT: &str = "run as root; or, with an IOMMU, `doorbell bind ADDRESS`: VFIO needs access to /dev/vfio/GROUP \
                       only";

/// Whether this process has a capability; none where the system does not tell.
fn has(files: &dyn Files, capability: u32) -> Option<bool> {
    let status = files.read("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    let all = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(all >> capability & 1 == 1)
}

/// Whether this process may drive a card by sysfs.
fn rights(files: &dyn Files) -> Check {
    const LOCKDOWN: &str = "/sys/kernel/security/lockdown";
    let lockdown = files.read(LOCKDOWN).unwrap_or_default();
    if let Some(how) = ["[integrity]", "[confidentiality]"]
        .iter()
        .find(|how| lockdown.contains(*how))
    {
        return Stopped(
            format!("{LOCKDOWN}: {how}: programs may not map BARs"),
            "use the kernel driver (DEV=AMD), or disable Secure Boot".into(),
        );
    }
    match has(files, CAP_SYS_ADMIN) {
        Some(true) => Passed("CAP_SYS_ADMIN, no lockdown".into()),
        Some(false) => Stopped(
            "no CAP_SYS_ADMIN: the kernel hides physical addresses".into(),
            AS_ROOT.into(),
        ),
        None => Stopped("/proc/self/status: not readable".into(), AS_ROOT.into()),
    }
}

/// The memory of cards on this machine: as they are taken, behind an IOMMU or without.
fn memory(files: &dyn Files) -> Check {
    match files.list(GROUPS).is_ok_and(|groups| !groups.is_empty()) {
        true => locked(files),
        false => huge(files),
    }
}

/// Memory that a card reaches by its physical addresses.
fn huge(files: &dyn Files) -> Check {
    match available(files) {
        Ok(seen) => Passed(seen),
        Err(missing) => Stopped(missing.seen, missing.fix.into()),
    }
}

/// Memory that VFIO pins.
fn locked(files: &dyn Files) -> Check {
    let limits = files.read("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"));
    let limit = line.and_then(|line| line.split_whitespace().next());
    let is_free = has(files, CAP_IPC_LOCK) == Some(true);
    match limit {
        _ if is_free => Passed("no limit on locked memory".into()),
        Some("unlimited") => Passed("no limit on locked memory".into()),
        Some(limit) if limit.parse().is_ok_and(|limit: u64| limit >= LOCKED) => {
            Passed(format!("up to {limit} bytes can be locked"))
        }
        Some(limit) => Stopped(
            format!("at most {limit} bytes can be locked"),
            "run as root what `doorbell setup --print pci` prints (memlock), then log in again; for a service, set \
             LimitMEMLOCK=infinity"
                .into(),
        ),
        None => Stopped(
            "/proc/self/limits: not readable".into(),
            "mount /proc".into(),
        ),
    }
}

/// What cards see where: on this machine as a whole.
fn iommu(files: &dyn Files) -> Row {
    let row = |status, text: String| Row::new("pci.iommu", status, text);
    let groups = match files.list(GROUPS) {
        Ok(groups) if !groups.is_empty() => groups,
        _ => {
            return row(
                Status::Absent,
                format!("{GROUPS}: no IOMMU, bus addresses are physical; {TURN_ON}"),
            );
        }
    };
    let kind = |group: &String| files.read(&format!("{GROUPS}/{group}/type"));
    let mut kinds: Vec<_> = groups.iter().filter_map(|group| kind(group).ok()).collect();
    kinds
        .iter_mut()
        .for_each(|kind| *kind = kind.trim().to_owned());
    kinds.sort();
    kinds.dedup();
    let meaning = match kinds.iter().all(|kind| kind == "identity") {
        true => "bus addresses are physical: sysfs and VFIO both work",
        false => "for groups of another type than identity, use VFIO: sysfs does not work",
    };
    let count = groups.len();
    row(
        Status::Ok,
        format!(
            "{count} groups under {GROUPS}, types: {}; {meaning}",
            kinds.join(", ")
        ),
    )
}

fn vfio(files: &dyn Files) -> Row {
    const NODE: &str = "/dev/vfio/vfio";
    let row = |status, text: String| Row::new("pci.vfio", status, text);
    let has_driver = files.list(&format!("/sys/bus/pci/drivers/{VFIO}")).is_ok();
    let driver = match has_driver {
        true => format!("{VFIO} is loaded"),
        false => format!("{VFIO} is not loaded (`modprobe {VFIO}`)"),
    };
    match files.rights(NODE) {
        Ok(Rights { mode, .. }) => {
            let status = if has_driver {
                Status::Ok
            } else {
                Status::Absent
            };
            row(status, format!("{NODE}: mode {mode:04o}; {driver}"))
        }
        Err(error) => row(Status::Absent, format!("{NODE}: {error}; {driver}")),
    }
}

/// The files of a chip's boot: those that are there, and those that are not.
fn firmware_of(
    files: &dyn Files,
    folders: &[String],
    chip: &Chip,
    edition: Edition,
) -> (Vec<String>, Vec<String>) {
    let system = search::SYSTEM
        .iter()
        .map(|folder| format!("{folder}/{}", search::FOLDER));
    let own = folders
        .iter()
        .flat_map(|folder| [folder.clone(), format!("{folder}/{}", search::FOLDER)]);
    let all = own
        .chain(system)
        .filter_map(|folder| files.list(&folder).ok());
    let all: Vec<String> = all.flatten().collect();
    let is_there = |file: &String| {
        let mut names = search::PACKINGS
            .iter()
            .map(|packing| format!("{file}{packing}"));
        names.any(|name| all.contains(&name))
    };
    chip.blocks
        .boot_files(edition)
        .into_iter()
        .partition(is_there)
}

/// What of all chips' firmware is on this machine.
fn firmware(files: &dyn Files, folders: &[String]) -> Row {
    let mut found = 0;
    let chips: Vec<_> = CHIPS
        .iter()
        .map(|chip| {
            let (there, missing) = firmware_of(files, folders, chip, Edition::Usual);
            found += there.len();
            format!(
                "{} {} of {}",
                chip.gfx,
                there.len(),
                there.len() + missing.len()
            )
        })
        .collect();
    let status = if found > 0 {
        Status::Ok
    } else {
        Status::Absent
    };
    let detail = format!(
        "firmware for starts without a kernel driver: {} (see `doorbell fw list`)",
        chips.join(", ")
    );
    Row::new("amd.firmware", status, detail)
}

#[cfg(test)]
mod tests;
