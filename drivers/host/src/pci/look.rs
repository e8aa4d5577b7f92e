//! System information about a function, beyond [`hcq::transport::PciFunction`]. Read-only.

use super::files::{Files, folder};

const GROUPS: &str = "/sys/kernel/iommu_groups";

/// The driver by which the kernel gives functions to processes.
pub(super) const VFIO: &str = "vfio-pci";

/// The full address of a function: `03:00.0` is in domain 0. None for text that is no address.
pub fn address(text: &str) -> Option<String> {
    let text = match text.matches(':').count() {
        1 => format!("0000:{text}"),
        _ => text.to_owned(),
    };
    let (domain, rest) = text.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let is_hex = |part: &str, len| part.len() == len && u32::from_str_radix(part, 16).is_ok();
    // A domain is longer behind some bridges (VMD).
    let is_domain = (4..=8).contains(&domain.len()) && is_hex(domain, domain.len());
    let is_function = function.len() == 1 && ("0"..="7").contains(&function);
    let whole = is_domain && is_hex(bus, 2) && is_hex(device, 2) && is_function;
    (whole && !text.contains('+')).then(|| text.to_lowercase())
}

/// The kernel driver that has a function.
pub fn driver(files: &dyn Files, address: &str) -> Option<String> {
    let text = files.read(&format!("{}/uevent", folder(address))).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("DRIVER="));
    line.map(str::to_owned)
}

/// Why a function is considered to drive a display; `None` if it does not.
pub fn display(files: &dyn Files, address: &str) -> Option<String> {
    let folder = folder(address);
    let text = |path: String| files.read(&path).unwrap_or_default();
    if text(format!("{folder}/boot_vga")).trim() == "1" {
        return Some("boot display: boot_vga".into());
    }
    let drm = format!("{folder}/drm");
    for card in files.list(&drm).unwrap_or_default() {
        for connector in files.list(&format!("{drm}/{card}")).unwrap_or_default() {
            let enabled = text(format!("{drm}/{card}/{connector}/enabled"));
            if enabled.trim() == "enabled" {
                return Some(format!("{connector} is on"));
            }
        }
    }
    None
}

/// Sizes of BAR 0, each as an index: 2 to that many MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// What it has.
    pub now: u32,
    /// The largest that the function can have.
    pub largest: u32,
}

/// The sizes of BAR 0; none where it cannot be resized.
pub fn sizes(files: &dyn Files, address: &str) -> Option<Sizes> {
    let folder = folder(address);
    let able = files.read(&format!("{folder}/resource0_resize")).ok()?;
    let able = u64::from_str_radix(able.trim(), 16).ok()?;
    let largest = able.checked_ilog2()?;
    let resources = files.read(&format!("{folder}/resource")).ok()?;
    let mut line = resources.lines().next()?.split_whitespace().map(|number| {
        let digits = number.strip_prefix("0x").unwrap_or(number);
        u64::from_str_radix(digits, 16).ok()
    });
    let (start, end) = (line.next()??, line.next()??);
    let bytes = end.checked_sub(start)?.checked_add(1)?;
    let now = (bytes >> 20).checked_ilog2()?;
    Some(Sizes { now, largest })
}

/// An IOMMU group: functions that can only be given away together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// Its number, as the system names it.
    pub number: String,
    /// How addresses are translated: `identity` where they stay as they are, else `DMA`, `DMA-FQ`...
    pub kind: String,
    /// Its functions.
    pub members: Vec<String>,
    /// Whether it is one that VFIO has made for a function without IOMMU.
    pub no_iommu: bool,
}

impl Group {
    /// Whether addresses on the bus are others than physical ones.
    pub fn translates(&self) -> bool {
        self.kind != "identity" && !self.no_iommu
    }

    /// Its VFIO device file.
    pub fn node(&self) -> String {
        let kind = if self.no_iommu { "noiommu-" } else { "" };
        format!("/dev/vfio/{kind}{}", self.number)
    }
}

/// The IOMMU group of a function; none where no IOMMU is at work.
pub fn group(files: &dyn Files, address: &str) -> Option<Group> {
    let groups = files.list(GROUPS).unwrap_or_default();
    groups.into_iter().find_map(|number| {
        let members = files.list(&format!("{GROUPS}/{number}/devices")).ok()?;
        let is_here = members.iter().any(|member| member == address);
        let kind = files.read(&format!("{GROUPS}/{number}/type"));
        let kind = kind.unwrap_or_else(|_| "unknown".into());
        // Source: Linux, drivers/vfio/group.c, vfio_noiommu_group_alloc.
        let name = files.read(&format!("{GROUPS}/{number}/name"));
        let no_iommu = name.is_ok_and(|name| name.trim() == "vfio-noiommu");
        is_here.then(|| Group {
            no_iommu,
            number,
            kind: kind.trim().into(),
            members,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_whole_or_not_at_all() {
        for (text, expected) in [
            ("0000:03:00.0", Some("0000:03:00.0")),
            ("0A:1f.7", Some("0000:0a:1f.7")),
            ("10000:e1:00.0", Some("10000:e1:00.0")),
            ("03:00.8", None),
            ("03:00", None),
            ("../../x:00.0", None),
            ("0000:+3:00.0", None),
            ("0000:03:00.0/..", None),
            ("", None),
        ] {
            assert_eq!(address(text).as_deref(), expected, "{text}");
        }
    }
}
