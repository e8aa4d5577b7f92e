//! Where what is known of a fault, a hang, or a start that failed goes.

use std::sync::Arc;

use drivers_bundle::schema::{Device, Kind};
use drivers_bundle::{Bundle, CoredumpWriter};
use hcq::{DeviceId, Error};

use super::Twin;
use crate::env::Settings;

/// The coredump writer of a device of a machine; none where coredumps are switched off.
pub(super) fn coredumps(
    machine: &Twin,
    twin: bool,
    settings: &Settings,
) -> Option<Arc<CoredumpWriter>> {
    let folder = settings.bundles.clone()?;
    let (timeout, said) = (settings.wait_timeout, settings.said.clone());
    let coredumps = CoredumpWriter::new(folder, timeout, said, machine.clone(), twin);
    Some(Arc::new(coredumps))
}

/// Interfaces by which a GPU is found, and free, before it is started.
const FOUND_BEFORE: [&str; 3] = ["PCI", "USB", "NVK"];

/// Keeps what is known of a device that could not be started; returns the error with where that is.
pub(super) fn start(
    coredumps: &Option<Arc<CoredumpWriter>>,
    id: &DeviceId,
    (interface, place, log): (&str, &str, &str),
    error: Error,
) -> Error {
    let error = match error {
        Error::NoDevice { asked, why } if FOUND_BEFORE.contains(&interface) => {
            Error::NotStarted { asked, why }
        }
        other => other,
    };
    // A kernel driver that refuses has said all there is.
    let is_start = match error {
        Error::Fault { .. } => true,
        Error::NotStarted { .. } => interface != "NVK",
        _ => false,
    };
    let Some(coredumps) = coredumps.as_ref().filter(|_| is_start) else {
        return error;
    };
    let bundle = Bundle {
        kind: Kind::Start,
        error: error.to_string(),
        device: Device {
            id: id.to_string(),
            interface: interface.into(),
            place: place.into(),
            log: log.into(),
            ..Device::default()
        },
        ..Bundle::default()
    };
    let note = match coredumps.keep(bundle) {
        Ok(path) => format!(" [doorbell explain {}]", path.display()),
        Err(why) => format!(" [no bundle: {why}]"),
    };
    match error {
        Error::NotStarted { asked, why } => Error::NotStarted {
            asked,
            why: why + &note,
        },
        Error::Fault { device, unit, what } => Error::Fault {
            device,
            unit,
            what: what + &note,
        },
        other => other,
    }
}
