//! NVIDIA GPUs over PCI, which no kernel driver has.

use std::sync::Arc;

use drivers_nv::Options;
use drivers_spec::pci::VENDOR_NVIDIA;
use hcq::{Device, DeviceId, Error, Result};

use super::{Twin, is_twin, keep, none, nv, pci};
use crate::bus::{OnBus, on_bus};
use crate::env::Settings;
use crate::select::Target;

/// Opens the GPU that a target names: the first free one that is it. What a GPU is, is told by opening it.
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
    let named = |number: usize| index.is_none_or(|index| index as usize == number);
    let found = all.iter().enumerate().filter(|(number, _)| named(*number));
    let mut found: Vec<(usize, &OnBus)> = found.collect();
    // Those that are free before those that a kernel driver has.
    found.sort_by_key(|(number, gpu)| (gpu.taken().is_some(), *number));
    let mut others = Vec::new();
    for (number, gpu) in found {
        if let Some(driver) = gpu.taken() {
            let (asked, address) = (target.to_string(), &gpu.address);
            others.push(format!("{address} ({}) is bound to {driver}", gpu.name));
            let others = others.join("; ");
            return Err(Error::NoPermission {
                asked,
                why: format!("{others}: use DEV=NV, or take it over (`doorbell bind {address}`)"),
            });
        }
        let device = opened(target, (number, gpu), settings, machine)?;
        match nv::wanted(target) {
            Some(wanted) if !nv::is(device.info(), wanted) => {
                let arch = &device.info().arch;
                others.push(format!("GPU {number} is {arch}, expected {wanted}"));
            }
            _ => return Ok(device),
        }
    }
    let why = match others.is_empty() {
        true => not_there(&all),
        false => others.join("; "),
    };
    Err(none(target, why))
}

fn opened(
    target: &Target,
    (number, gpu): (usize, &OnBus),
    settings: &Settings,
    machine: &Twin,
) -> Result<Arc<dyn Device>> {
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
    Ok(device)
}

/// Why no GPU is the one that was asked for.
fn not_there(all: &[OnBus]) -> String {
    let named = |(number, gpu): (usize, &OnBus)| format!("GPU {number} is at {}", gpu.address);
    match all {
        [] => "no NVIDIA GPU found on the bus (`lspci -d 10de:`); use DEV=CPU".into(),
        _ => {
            all.iter()
                .enumerate()
                .map(named)
                .collect::<Vec<_>>()
                .join(", ")
                + "; name one of them"
        }
    }
}
