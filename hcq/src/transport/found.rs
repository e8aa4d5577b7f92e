//! What a machine shows of its buses: PCI functions and USB devices, as sysfs tells of them.
//!
//! Source: Linux, Documentation/ABI/testing/{sysfs-bus-pci,sysfs-bus-usb} and
//! Documentation/PCI/sysfs-pci.rst; the flags of `resource` are those of include/linux/ioport.h.

use super::errno::ENOENT;
use super::{Fault, TransportError};

/// `/sys/bus/pci/devices`.
const PCI: &str = "/sys/bus/pci/devices";
/// `/sys/kernel/iommu_groups`.
const IOMMU: &str = "/sys/kernel/iommu_groups";
/// `/sys/bus/usb/devices`.
const USB: &str = "/sys/bus/usb/devices";

/// `IORESOURCE_MEM`.
const RESOURCE_MEM: u64 = 0x200;
/// `IORESOURCE_PREFETCH`.
const RESOURCE_PREFETCH: u64 = 0x2000;

/// A base address register of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bar {
    /// Its number, 0 to 5.
    pub number: u8,
    /// Its first address on the host's bus.
    pub start: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// Reads have no side effect: it may be mapped write-combining.
    pub is_prefetchable: bool,
}

/// A PCI function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PciFunction {
    /// Its address, `dddd:bb:dd.f`.
    pub address: String,
    /// Its vendor ID.
    pub vendor: u16,
    /// Its device ID.
    pub device: u16,
    /// Its class code: base class, sub-class, interface.
    pub class: u32,
    /// Its BARs of memory.
    pub bars: Vec<Bar>,
    /// The kernel driver bound to it, if any.
    pub driver: Option<String>,
    /// Its NUMA node, if the machine has several.
    pub numa_node: Option<u32>,
    /// Its IOMMU group: functions that can only be assigned together.
    pub iommu_group: Option<u32>,
}

/// A USB device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsbDevice {
    /// Its port, `bus-port.port`; it is stable while the device is plugged in there.
    pub port: String,
    /// Its vendor ID.
    pub vendor: u16,
    /// Its product ID.
    pub product: u16,
    /// Its bus.
    pub bus: u8,
    /// Its number on the bus; it changes each time the device is plugged in.
    pub number: u8,
    /// Its speed in Mbit/s.
    pub speed: u32,
    /// Its product name.
    pub product_name: Option<String>,
    /// Its serial number, if it has one.
    pub serial: Option<String>,
}

type Read<'a> = &'a dyn Fn(&str) -> Result<String, TransportError>;
type List<'a> = &'a dyn Fn(&str) -> Result<Vec<String>, TransportError>;

/// The names in a folder, in order; none if it is not there.
fn names(list: List<'_>, path: &str) -> Result<Vec<String>, TransportError> {
    match list(path) {
        Err(error) if error.fault == Fault::Errno(ENOENT) => Ok(Vec::new()),
        listed => {
            let mut names = listed?;
            names.sort();
            Ok(names)
        }
    }
}

fn hex(text: &str) -> Option<u64> {
    let text = text.trim();
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// The PCI functions, by what reads files and lists folders; none where there is no such bus. One that leaves while
/// it is read is none.
///
/// # Errors
/// [`Fault::Errno`], with the path.
pub fn pci_functions(read: Read<'_>, list: List<'_>) -> Result<Vec<PciFunction>, TransportError> {
    let mut groups = Vec::new();
    for group in names(list, IOMMU)? {
        let members = names(list, &format!("{IOMMU}/{group}/devices"))?;
        groups.extend(group.parse().ok().map(|group: u32| (group, members)));
    }
    let one = |address: String| {
        let text = |name: &str| read(&format!("{PCI}/{address}/{name}")).ok();
        let number = |name: &str| text(name).as_deref().and_then(hex);
        let resources = text("resource")?;
        let group = groups
            .iter()
            .find(|(_, members)| members.contains(&address));
        Some(PciFunction {
            vendor: number("vendor")?.try_into().ok()?,
            device: number("device")?.try_into().ok()?,
            class: number("class")?.try_into().ok()?,
            bars: bars(&resources),
            driver: text("uevent").and_then(|text| {
                let line = text.lines().find_map(|line| line.strip_prefix("DRIVER="));
                line.map(str::to_owned)
            }),
            // -1 where there is one node.
            numa_node: text("numa_node").and_then(|text| text.trim().parse().ok()),
            iommu_group: group.map(|(group, _)| *group),
            address,
        })
    };
    Ok(names(list, PCI)?.into_iter().filter_map(one).collect())
}

/// Lines of first address, last address, flags; the first six are the BARs, with zeros for those that
/// are not there and for the upper halves of 64-bit ones.
fn bars(resources: &str) -> Vec<Bar> {
    let bar = |(number, line): (u8, &str)| {
        let mut numbers = line.split(' ').map(hex);
        let (start, end, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
        (flags & RESOURCE_MEM != 0 && end >= start).then(|| Bar {
            number,
            start,
            bytes: (end - start).saturating_add(1),
            is_prefetchable: flags & RESOURCE_PREFETCH != 0,
        })
    };
    (0..6).zip(resources.lines()).filter_map(bar).collect()
}

pub(super) fn usb_devices(
    read: Read<'_>,
    list: List<'_>,
) -> Result<Vec<UsbDevice>, TransportError> {
    let one = |port: String| {
        // Interfaces have a colon, hubs of the host a name of their own.
        if port.contains(':') || !port.contains('-') {
            return None;
        }
        let text = |name: &str| {
            Some(
                read(&format!("{USB}/{port}/{name}"))
                    .ok()?
                    .trim()
                    .to_owned(),
            )
        };
        let id = |name: &str| hex(&text(name)?)?.try_into().ok();
        Some(UsbDevice {
            vendor: id("idVendor")?,
            product: id("idProduct")?,
            bus: text("busnum")?.parse().ok()?,
            number: text("devnum")?.parse().ok()?,
            speed: text("speed")?.parse().ok()?,
            product_name: text("product"),
            serial: text("serial"),
            port,
        })
    };
    Ok(names(list, USB)?.into_iter().filter_map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::super::errno::EACCES;
    use super::*;
    use std::collections::BTreeMap;

    const GPU: &str = "/sys/bus/pci/devices/0000:03:00.0";

    fn files() -> BTreeMap<String, &'static str> {
        let pci = [
            ("vendor", "0x1002\n"),
            ("device", "0x744c\n"),
            ("class", "0x030000\n"),
            ("uevent", "DRIVER=amdgpu\nPCI_CLASS=30000\n"),
            ("numa_node", "-1\n"),
            (
                "resource",
                "0x0000007800000000 0x00000079ffffffff 0x000000000014220c\n\
                 0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                 0x000000007a000000 0x000000007a0fffff 0x000000000014220c\n\
                 0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                 0x000000000000f000 0x000000000000f0ff 0x0000000000040101\n\
                 0x00000000fce00000 0x00000000fcefffff 0x0000000000040200\n\
                 0x00000000fcf00000 0x00000000fcf1ffff 0x0000000000046200\n",
            ),
        ];
        let pci = pci.map(|(name, text)| (format!("{GPU}/{name}"), text));
        // Leaves while it is read.
        let half = [(
            "/sys/bus/pci/devices/0000:04:00.0/vendor".into(),
            "0x10de\n",
        )];
        let groups = [(format!("{IOMMU}/17/devices/0000:03:00.0"), "")];
        let usb = [
            ("2-1.4/idVendor", "174c\n"),
            ("2-1.4/idProduct", "2463\n"),
            ("2-1.4/busnum", "2\n"),
            ("2-1.4/devnum", "9\n"),
            ("2-1.4/speed", "10000\n"),
            ("2-1.4:1.0/bInterfaceClass", "08\n"),
            ("usb2/idVendor", "1d6b\n"),
        ];
        let usb = usb.map(|(name, text)| (format!("{USB}/{name}"), text));
        pci.into_iter()
            .chain(half)
            .chain(groups)
            .chain(usb)
            .collect()
    }

    fn missing(path: &str) -> TransportError {
        TransportError::new(path, "read", Fault::Errno(ENOENT))
    }

    fn list(
        files: &BTreeMap<String, &'static str>,
        path: &str,
    ) -> Result<Vec<String>, TransportError> {
        let path = format!("{path}/");
        let inside = files.keys().filter_map(|name| name.strip_prefix(&path));
        let mut names: Vec<_> = inside.filter_map(|rest| rest.split('/').next()).collect();
        names.dedup();
        match names.is_empty() {
            true => Err(missing(&path)),
            false => Ok(names.into_iter().rev().map(str::to_owned).collect()),
        }
    }

    #[test]
    fn functions_and_devices_are_what_sysfs_says() {
        let files = files();
        let read = |path: &str| files.get(path).map(|s| s.to_string()).ok_or(missing(path));
        let list = |path: &str| list(&files, path);
        let bar = |number, start, bytes, is_prefetchable| Bar {
            number,
            start,
            bytes,
            is_prefetchable,
        };
        let gpu = PciFunction {
            address: "0000:03:00.0".into(),
            vendor: 0x1002,
            device: 0x744c,
            class: 0x03_0000,
            bars: vec![
                bar(0, 0x78_0000_0000, 8 << 30, true),
                bar(2, 0x7a00_0000, 1 << 20, true),
                bar(5, 0xfce0_0000, 1 << 20, false),
            ],
            driver: Some("amdgpu".into()),
            numa_node: None,
            iommu_group: Some(17),
        };
        assert_eq!(pci_functions(&read, &list), Ok(vec![gpu]));
        let bridge = UsbDevice {
            port: "2-1.4".into(),
            vendor: 0x174c,
            product: 0x2463,
            bus: 2,
            number: 9,
            speed: 10_000,
            product_name: None,
            serial: None,
        };
        assert_eq!(usb_devices(&read, &list), Ok(vec![bridge]));
    }

    #[test]
    fn a_machine_without_buses_has_nothing_and_one_that_refuses_is_an_error() {
        let none = |path: &str| Err(missing(path));
        let text = |path: &str| Err(missing(path));
        assert_eq!(pci_functions(&text, &none), Ok(vec![]));
        assert_eq!(usb_devices(&text, &none), Ok(vec![]));
        let refused = |path: &str| Err(TransportError::new(path, "list", Fault::Errno(EACCES)));
        assert!(pci_functions(&text, &refused).is_err());
        assert!(usb_devices(&text, &refused).is_err());
    }
}
