//! AMD GPUs behind USB bridges.

use std::sync::Arc;

use drivers_asm24::{Bridged, machine};
use hcq::transport::{Clock, MonotonicClock, UsbDevice};
use hcq::{Device, DeviceId, Error, Result};

use super::{Present, Twin, amd_options, is_twin, keep, none};
use crate::env::Settings;
use crate::select::{DeviceKind, Target, Transport};

/// Opens the GPU behind the bridge that a target names, the first one if it names none.
pub(super) fn open(
    target: &Target,
    index: Option<u32>,
    settings: &Settings,
    machine: &Twin,
) -> Result<Arc<dyn Device>> {
    let bridges = machine::bridges(&**machine).map_err(|e| none(target, e.to_string()))?;
    let number = index.unwrap_or(0);
    let Some(bridge) = bridges.get(number as usize) else {
        return Err(none(target, not_there(&bridges)));
    };
    let clock: Arc<dyn Clock> = Arc::new(MonotonicClock);
    let through = Bridged::over(machine, &clock);
    let options = drivers_amd::Options {
        firmware: settings.firmware.clone(),
        reset: settings.amd_reset,
        coredumps: keep::coredumps(machine, is_twin(target), settings),
        ..amd_options(settings)
    };
    let started = drivers_amd::open_pci(&through, &bridge.port, number, &options);
    let device: Arc<dyn Device> = started.map_err(|error| {
        let (id, way) = (DeviceId::new("AMD", number), ("USB", &*bridge.port, "usb"));
        keep::start(&options.coredumps, &id, way, error)
    })?;
    // What is behind a bridge is known once it runs.
    let wanted = super::amd_chip(target);
    let seen = &device.info().arch;
    match wanted {
        Some(wanted) if wanted != seen => Err(Error::NoDevice {
            asked: target.to_string(),
            why: format!(
                "the GPU behind the bridge in port {} is {seen}, expected {wanted}",
                bridge.port
            ),
        }),
        _ => Ok(device),
    }
}

/// The GPUs behind the bridges of a simulated machine: those of this one are opened only by who asks for one, since that
/// gives them power.
pub(super) fn present(machine: &Twin, settings: &Settings) -> Vec<Present> {
    let bridges = machine::bridges(&**machine).unwrap_or_default();
    let one = |(number, bridge): (u32, &UsbDevice)| {
        let target = Target {
            interface: Some(Transport::Usb.interface(true)),
            indices: Some(vec![number]),
            ..Target::any(DeviceKind::Amd)
        };
        let device = open(&target, Some(number), settings, machine);
        let arch = device
            .as_ref()
            .ok()
            .map(|device| device.info().arch.clone());
        Present {
            // Without it another twin would be made.
            target: Target { arch, ..target },
            place: bridge.port.clone(),
            device,
        }
    };
    (0..).zip(&bridges).map(one).collect()
}

/// Why there is no bridge of the number that was asked for.
fn not_there(bridges: &[UsbDevice]) -> String {
    match bridges {
        [] => "no ASM24xx bridge on USB (`lsusb -d add1:0001`): check that the enclosure has power and that its \
               cable carries USB 3; use DEV=CPU"
            .into(),
        some => {
            let ports: Vec<_> = some.iter().map(|bridge| &*bridge.port).collect();
            format!("found bridges in the ports {}, counted from 0", ports.join(", "))
        }
    }
}
