//! AMD GPUs behind USB bridges.

use std::sync::Arc;

use drivers_asm24::{Bridged, machine};
use hcq::transport::{Clock, MonotonicClock, UsbDevice};
use hcq::{Device, Error, Result};

use super::{Twin, amd_options, none};
use crate::env::Settings;
use crate::select::Target;

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
        ..amd_options(settings)
    };
    let device: Arc<dyn Device> = drivers_amd::open_pci(&through, &bridge.port, number, &options)?;
    // What is behind a bridge is known once it runs.
    let wanted = target
        .arch
        .as_deref()
        .and_then(|a| a.split([':', ',']).next());
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

/// Why there is no bridge of the number that was asked for.
fn not_there(bridges: &[UsbDevice]) -> String {
    match bridges {
        [] => "there is no ASM24xx bridge on USB (`lsusb -d add1:0001`): see that the enclosure has power and that its \
               cable carries USB 3; use DEV=CPU"
            .into(),
        some => {
            let ports: Vec<_> = some.iter().map(|bridge| &*bridge.port).collect();
            format!("there are bridges in the ports {}, counted from 0", ports.join(", "))
        }
    }
}
