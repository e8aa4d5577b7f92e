//! System files about a device. Missing files are left out: they depend on the kernel and the interface.
//!
//! Source: Linux, Documentation/ABI/testing/sysfs-bus-pci (link, power) and sysfs-bus-pci-devices-aer_stats;
//! Documentation/ABI/stable/sysfs-bus-usb and testing/sysfs-bus-usb;
//! amdgpu/amdgpu_ucode.c, `fw_version`; NVIDIA, kernel-open/nvidia/nv-procfs.c.

use hcq::transport::Machine;

use crate::schema::Firmware;

/// Files of the system.
const SYSTEM: [&str; 4] = [
    "/proc/sys/kernel/osrelease",
    "/sys/module/amdgpu/version",
    "/sys/module/nvidia/version",
    "/proc/driver/nvidia/version",
];

/// Files of a PCI function.
const FUNCTION: [&str; 15] = [
    "vendor",
    "device",
    "revision",
    "subsystem_vendor",
    "subsystem_device",
    "enable",
    "power_state",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "aer_dev_correctable",
    "aer_dev_nonfatal",
    "aer_dev_fatal",
    "vbios_version",
];

/// Files of a USB device.
const BRIDGE: [&str; 8] = [
    "idVendor",
    "idProduct",
    "product",
    "speed",
    "rx_lanes",
    "tx_lanes",
    "urbnum",
    "power/runtime_status",
];

/// Where a function is.
fn function(place: &str) -> String {
    format!("/sys/bus/pci/devices/{place}")
}

/// Files, with what they say.
pub(crate) fn files(machine: &dyn Machine, place: &str) -> Vec<[String; 2]> {
    let of_function = FUNCTION.map(|name| format!("{}/{name}", function(place)));
    let of_bridge = BRIDGE.map(|name| format!("/sys/bus/usb/devices/{place}/{name}"));
    let all = SYSTEM.iter().map(|path| (*path).to_owned());
    let read = |path: String| {
        let text = machine.read(&path).ok()?;
        Some([path, text.trim_end().to_owned()])
    };
    all.chain(of_function)
        .chain(of_bridge)
        .filter_map(read)
        .collect()
}

/// Versions of firmware, which a kernel driver tells.
pub(crate) fn firmware(machine: &dyn Machine, place: &str) -> Vec<Firmware> {
    let folder = format!("{}/fw_version", function(place));
    let mut names = machine.list(&folder).unwrap_or_default();
    names.sort();
    let read = |name: String| {
        let version = machine.read(&format!("{folder}/{name}")).ok()?;
        Some(Firmware {
            name,
            version: Some(version.trim().to_owned()),
            sha256: None,
        })
    };
    names.into_iter().filter_map(read).collect()
}
