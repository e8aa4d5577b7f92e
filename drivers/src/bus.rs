//! All GPUs on the bus, whatever driver is bound: those that can be taken over, and unsupported ones.

use drivers_spec::amd::cards;
use drivers_spec::pci::{CLASS_ACCELERATOR, CLASS_DISPLAY, VENDOR_AMD, VENDOR_NVIDIA};
use hcq::transport::{Machine, PciFunction};

/// A GPU on the bus. It is not opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OnBus {
    /// Where, `dddd:bb:dd.f`.
    pub address: String,
    /// Vendor and device, as `lspci -n` has them: `1002:7550`.
    pub id: String,
    /// The kernel driver bound to it.
    pub driver: Option<String>,
    /// Its compilation target, as far as known from its PCI ID.
    pub arch: Option<&'static str>,
    /// What it is.
    pub name: String,
}

impl OnBus {
    /// The kernel driver that keeps it from programs: vfio-pci has it for them.
    pub fn taken(&self) -> Option<&str> {
        self.driver
            .as_deref()
            .filter(|driver| *driver != "vfio-pci")
    }

    /// The kind of device (`DEV=PCI+AMD`) that opens it without its kernel driver; none if nothing does. Of GPUs of NVIDIA
    /// it opens some ([`NVIDIA_CARDS`]): which chip one has, only its registers tell.
    pub fn kind(&self) -> Option<&'static str> {
        let is_nvidia = self.id.starts_with(&format!("{VENDOR_NVIDIA:04x}:"));
        match self.arch {
            Some(_) => Some("AMD"),
            None => is_nvidia.then_some("NV"),
        }
    }
}

/// The GPUs of NVIDIA that open without their kernel driver.
pub const NVIDIA_CARDS: &str = "RTX 30, 40, 50 or Hopper";

/// The GPUs of AMD and NVIDIA on a machine's bus; none where the bus cannot be listed.
pub fn on_bus(machine: &dyn Machine) -> Vec<OnBus> {
    let functions = machine.pci_functions().unwrap_or_default();
    functions
        .into_iter()
        .filter(is_gpu)
        .filter_map(one)
        .collect()
}

/// Whether a function is a display controller or a processing accelerator.
///
/// Source: PCI Code and ID Assignment, base classes 03h and 12h.
pub(crate) fn is_gpu(function: &PciFunction) -> bool {
    [CLASS_DISPLAY, CLASS_ACCELERATOR].contains(&((function.class >> 16) as u8))
}

fn one(function: PciFunction) -> Option<OnBus> {
    let (vendor, device) = (function.vendor, function.device);
    let card = cards::of(device).filter(|_| vendor == VENDOR_AMD);
    let name = match (vendor, card) {
        (_, Some(card)) => format!("AMD {}", card.chip),
        (VENDOR_AMD, None) => "AMD GPU".into(),
        (VENDOR_NVIDIA, _) => "NVIDIA GPU".into(),
        _ => return None,
    };
    Some(OnBus {
        address: function.address,
        id: format!("{vendor:04x}:{device:04x}"),
        driver: function.driver,
        arch: card.map(|card| card.gfx),
        name,
    })
}

#[cfg(test)]
mod tests {
    use drivers_host::machine::Host;
    use drivers_host::pci::System;

    use super::*;

    #[test]
    fn gpus_are_listed_with_what_has_them() {
        let root = tempfile::tempdir().unwrap();
        let function = |address: &str, files: &[(&str, &str)]| {
            let folder = root.path().join("sys/bus/pci/devices").join(address);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("resource"), "").unwrap();
            for (name, text) in files {
                std::fs::write(folder.join(name), text).unwrap();
            }
        };
        let gpu = |vendor, device| {
            [
                ("vendor", vendor),
                ("device", device),
                ("class", "0x030000"),
            ]
        };
        function("0000:03:00.0", &gpu("0x1002", "0x744c"));
        let driver = [("uevent", "DRIVER=amdgpu\n")];
        function("0000:03:00.0", &driver);
        function("0000:04:00.0", &gpu("0x10de", "0x2684"));
        function("0000:05:00.0", &gpu("0x8086", "0x56a0"));
        let bridge = [
            ("vendor", "0x1002"),
            ("device", "0x1478"),
            ("class", "0x060400"),
        ];
        function("0000:01:00.0", &bridge);
        let found = on_bus(&*Host::at(System::at(root.path())));
        let [amd, nvidia] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (amd.address.as_str(), amd.id.as_str()),
            ("0000:03:00.0", "1002:744c")
        );
        assert_eq!(
            (amd.arch, amd.driver.as_deref()),
            (Some("gfx1100"), Some("amdgpu"))
        );
        assert_eq!(
            (nvidia.name.as_str(), &nvidia.driver),
            ("NVIDIA GPU", &None)
        );
        assert_eq!((amd.taken(), nvidia.taken()), (Some("amdgpu"), None));
        assert_eq!((amd.kind(), nvidia.kind()), (Some("AMD"), Some("NV")));
        let given = OnBus {
            driver: Some("vfio-pci".into()),
            ..amd.clone()
        };
        assert_eq!(given.taken(), None);
    }
}
