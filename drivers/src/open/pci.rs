//! AMD GPUs over PCI, which no kernel driver has.

use std::sync::Arc;

use hcq::{Device, DeviceId, Error, Result};

use super::{Twin, amd_options, is_twin, keep, none};
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
    // `gfx1100,...`: what follows is for the compiler.
    let wanted = target
        .arch
        .as_deref()
        .and_then(|a| a.split([':', ',']).next());
    let all: Vec<_> = on_bus(&**machine)
        .into_iter()
        .filter(|gpu| gpu.arch.is_some())
        .collect();
    let meant = |(number, gpu): &(usize, &OnBus)| {
        index.is_none_or(|index| index as usize == *number)
            && wanted.is_none_or(|wanted| gpu.arch == Some(wanted))
    };
    let found = all.iter().enumerate().filter(meant);
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
                "the kernel driver {driver} has {address} ({}): use DEV=AMD, or take it over (`doorbell bind {address}`)",
                gpu.name
            ),
        });
    }
    let options = drivers_amd::Options {
        firmware: settings.firmware.clone(),
        reset: settings.amd_reset,
        keeper: keep::keeper(machine, is_twin(target), settings),
        ..amd_options(settings)
    };
    let id = DeviceId::new("AMD", number as u32);
    match drivers_amd::open_pci(machine, &gpu.address, number as u32, &options) {
        Ok(device) => Ok(device),
        Err(error) => Err(keep::start(
            &options.keeper,
            &id,
            ("PCI", &gpu.address, "amdgpu"),
            error,
        )),
    }
}

/// Why no GPU is the one that was asked for.
fn not_there(all: &[OnBus]) -> String {
    let named = |(number, gpu): (usize, &OnBus)| {
        let arch = gpu.arch.unwrap_or("a GPU");
        format!("GPU {number} is {arch} at {}", gpu.address)
    };
    match all {
        [] => "there is no AMD GPU on the bus that can be driven without a kernel driver (`lspci -d 1002:`); use DEV=CPU"
            .into(),
        _ => all.iter().enumerate().map(named).collect::<Vec<_>>().join(", "),
    }
}
