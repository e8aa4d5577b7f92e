//! What is kept of devices that could not be started.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use drivers::env::Settings;
use drivers::select::parse_targets;
use drivers_bundle::{Bundle, explain};
use twin_amd::pci::machine::PciMachine;
use twin_amd::usb::UsbMachine;
use twin_nv::machine::TwinMachine;

/// What is told of a target that cannot be started on a machine.
fn told(target: &str, machine: drivers::Twin) -> Bundle {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings {
        bundles: Some(folder.path().join("state")),
        firmware: vec![root.join("../target/firmware/bookworm-backports")],
        said: vec![["DEV".into(), target.into()]],
        ..Settings::default()
    };
    let asked = parse_targets("test", target).unwrap().remove(0);
    let error = drivers::open_with(&asked, &settings, Some(&machine));
    let error = error.unwrap_err().to_string();
    let (_, path) = error
        .split_once("[doorbell explain ")
        .unwrap_or_else(|| panic!("{error}"));
    let bundle = Bundle::read(Path::new(path.split(']').next().unwrap())).unwrap();
    assert!(bundle.system.simulated);
    assert_eq!(bundle.system.environment, [["DEV", target]]);
    bundle
}

#[test]
fn a_start_that_stops_is_kept_with_its_stage() {
    let (amd, usb, nv) = ("TWINPCI+AMD", "TWINUSB+AMD", "TWINNVK+NV");
    for (target, config, cause) in [
        (amd, "chip=gfx1201,never=invalidation", "hub-silent"),
        (amd, "chip=gfx1100,gone=200", "device-gone"),
        (nv, "chip=h100,fault=gone", "device-gone"),
        (usb, "chip=gfx1201,never=invalidation", "hub-silent"),
        (usb, "chip=gfx1201,retries=100000", "card-silent"),
        (usb, "chip=gfx1100,hops=2,trouble=stall:700", "usb-transfer"),
        (usb, "chip=gfx1200,trouble=unplug:900", "device-gone"),
    ] {
        let (machine, interface): (drivers::Twin, _) = match target {
            _ if target == amd => (PciMachine::new(config).unwrap(), "PCI"),
            _ if target == usb => (UsbMachine::new(config).unwrap(), "USB"),
            _ => (TwinMachine::new(config).unwrap(), "NVK"),
        };
        let bundle = told(target, machine);
        let found = explain(&bundle);
        assert_eq!(found.cause, cause, "{config}: {found}");
        assert_eq!(bundle.device.interface, interface);
    }
}
