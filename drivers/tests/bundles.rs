//! What is kept of devices that could not be started.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use drivers::env::Settings;
use drivers::select::parse_targets;
use drivers_bundle::{Bundle, explain};
use twin_amd::pci::machine::PciMachine;
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
    let (amd, nv) = ("TWINPCI+AMD", "TWINNVK+NV");
    for (target, config, cause) in [
        (amd, "chip=gfx1201,never=invalidation", "hub-silent"),
        (amd, "chip=gfx1100,gone=200", "device-gone"),
        (nv, "chip=h100,fault=gone", "device-gone"),
    ] {
        let machine: drivers::Twin = match target == amd {
            true => PciMachine::new(config).unwrap(),
            false => TwinMachine::new(config).unwrap(),
        };
        let bundle = told(target, machine);
        let found = explain(&bundle);
        assert_eq!(found.cause, cause, "{config}: {found}");
        let interface = if target == amd { "PCI" } else { "NVK" };
        assert_eq!(bundle.device.interface, interface);
    }
}
