//! NVIDIA GPUs over PCI, which no kernel driver has.

use std::sync::Arc;

use drivers_nv::Options;
use drivers_spec::pci::VENDOR_NVIDIA;
use hcq::{Device, DeviceId, Error, Result};

use super::{Twin, is_twin, keep, none, nv, pci};
use crate::bus::{OnBus, on_bus};
use crate::env::Settings;
use crate::select::Target;

/// Opens the GPU that a target names. Nothing else on the bus is touched.
pub(super) fn open(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    machine: &Twin,
) -> Result<Arc<dyn Device>> {
    let vendor = format!("{VENDOR_NVIDIA:04x}:");
    let all: Vec<_> = on_bus(&**machine)
        .into_iter()
        .filter(|gpu| gpu.id.starts_with(&vendor))
        .collect();
    let found = all.iter().enumerate();
    let found = found.filter(|(number, _)| index.is_none_or(|index| index as usize == *number));
    // One that is free before one that a kernel driver has.
    let Some((number, gpu)) = found.min_by_key(|(number, gpu)| (gpu.taken().is_some(), *number))
    else {
        return Err(none(target, not_there(&all)));
    };
    if let Some(driver) = gpu.taken() {
        let (asked, address) = (target.to_string(), &gpu.address);
        return Err(Error::NoPermission {
            asked,
            why: format!(
                "{driver} is bound to {address} ({}): use DEV=NV, or take it over (`doorbell bind {address}`)",
                gpu.name
            ),
        });
    }
    pci::wait_for(target, &gpu.address, settings)?;
    let options = Options {
        firmware: settings.firmware.clone(),
        coredumps: keep::coredumps(machine, is_twin(target), settings),
        ..nv::options(settings)
    };
    let id = DeviceId::new("NV", number as u32);
    let device = drivers_nv::open_pci(machine, &gpu.address, number as u32, &options);
    let device = device.map_err(|error| {
        let place = ("PCI", &*gpu.address, "vfio-pci");
        keep::start(&options.coredumps, &id, place, error)
    })?;
    // What a GPU is, is told by opening it.
    match nv::wanted(target) {
        Some(wanted) if !nv::is(device.info(), wanted) => {
            let arch = &device.info().arch;
            Err(none(
                target,
                format!("GPU {number} is {arch}, expected {wanted}"),
            ))
        }
        _ => Ok(device),
    }
}

/// Why no GPU is the one that was asked for.
fn not_there(all: &[OnBus]) -> String {
    let named = |(number, gpu): (usize, &OnBus)| format!("GPU {number} is at {}", gpu.address);
    match all {
        [] => "no NVIDIA GPU found on the bus (`lspci -d 10de:`); use DEV=CPU".into(),
        _ => all
            .iter()
            .enumerate()
            .map(named)
            .collect::<Vec<_>>()
            .join(", "),
    }
}
