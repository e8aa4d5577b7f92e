//! AMD GPUs over PCI, which no kernel driver has.

use std::sync::Arc;
use std::time::Duration;

use drivers_host::pci::{Lock, System};
use hcq::{Device, DeviceId, Error, Result};

use super::{Twin, amd_options, is_twin, keep, none};
use crate::bus::{OnBus, on_bus};
use crate::env::Settings;
use crate::select::Target;

/// Opens the GPU that a target names. Nothing else on the bus is touched, but cards that a killed
/// program had with it.
pub(super) fn open(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    machine: &Twin,
) -> Result<Arc<dyn Device>> {
    let wanted = super::amd_chip(target);
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
                "{driver} is bound to {address} ({}): use DEV=AMD, or take it over (`doorbell bind {address}`)",
                gpu.name
            ),
        });
    }
    wait_for(target, &gpu.address, settings)?;
    let options = drivers_amd::Options {
        firmware: settings.firmware.clone(),
        reset: settings.amd_reset,
        coredumps: keep::coredumps(machine, is_twin(target), settings),
        ..amd_options(settings)
    };
    let id = DeviceId::new("AMD", number as u32);
    match drivers_amd::open_pci(machine, &gpu.address, number as u32, &options) {
        Ok(device) => Ok(device),
        Err(error) => Err(keep::start(
            &options.coredumps,
            &id,
            ("PCI", &gpu.address, "amdgpu"),
            error,
        )),
    }
}

/// Waits until no other program has a card, if that is asked for.
pub(super) fn wait_for(target: &Target, address: &str, settings: &Settings) -> Result<()> {
    let is_real = target.interface.is_some_and(|way| !way.twin);
    match is_real && !settings.pci_wait.is_zero() {
        true => wait(&System::this(), target, address, settings.pci_wait),
        false => Ok(()),
    }
}

/// Waits until no other program has a card.
fn wait(system: &System, target: &Target, address: &str, limit: Duration) -> Result<()> {
    // Opening it takes the lock again, and says who has come in between.
    let lock = Lock::take(system, address, limit);
    lock.map(drop)
        .map_err(|error| none(target, error.to_string()))
}

/// Why no GPU is the one that was asked for.
fn not_there(all: &[OnBus]) -> String {
    let named = |(number, gpu): (usize, &OnBus)| {
        let arch = gpu.arch.unwrap_or("a GPU");
        format!("GPU {number} is {arch} at {}", gpu.address)
    };
    match all {
        [] => "no AMD GPU supported without a kernel driver found (`lspci -d 1002:`); use DEV=CPU"
            .into(),
        _ => all
            .iter()
            .enumerate()
            .map(named)
            .collect::<Vec<_>>()
            .join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::parse_targets;

    #[test]
    fn a_card_that_another_program_has_is_waited_for_or_names_it() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("run/lock")).unwrap();
        let system = System::at(root.path());
        let target = &parse_targets("test", "PCI+AMD").unwrap()[0];
        let wait = |ms| wait(&system, target, "0000:03:00.0", Duration::from_millis(ms));
        let held = Lock::take(&system, "0000:03:00.0", Duration::ZERO).unwrap();
        let error = wait(20).unwrap_err();
        assert!(matches!(error, Error::NoDevice { .. }), "{error}");
        let who = format!("process {} (", std::process::id());
        assert!(error.to_string().contains(&who), "{error}");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| wait(60_000));
            drop(held);
            waits.join().unwrap().unwrap();
        });
    }
}
