//! The first step: finds the device without writing to it.

use crate::Front;
use drivers::doctor::{Places, Row, Status, examine, examine_twin};
use drivers::select::{DeviceKind, Transport};
use drivers_host::cpuinfo::CpuInfo;
use drivers_host::machine::Host;
use drivers_host::pci::System;

use super::climb::{Climb, Outcome};
use crate::program::error::Error;

/// Runs the checks of `doorbell doctor` for the selected interface.
pub fn probe(climb: &mut Climb) -> Result<Outcome, Error> {
    let front = climb.setup.settings().front.as_ref();
    if front.is_some_and(Front::is_alone) {
        return Ok(Outcome::Skipped(
            "not possible from a recording, which contains the device only".into(),
        ));
    }
    let target = climb.setup.target();
    let check = match (target.device, target.interface.map(|way| way.transport)) {
        (DeviceKind::Cpu, _) => "cpu",
        (DeviceKind::Amd, Some(Transport::Pci)) => "amd.pci",
        (DeviceKind::Amd, Some(Transport::Usb)) => "amd.usb",
        (DeviceKind::Amd, _) => "amd.kfd",
        (DeviceKind::Nv, Some(Transport::Pci)) => "nv.pci",
        (DeviceKind::Nv, _) => "nv.nvk",
        (DeviceKind::Qcom, Some(Transport::Msm)) => "qcom.msm",
        (DeviceKind::Qcom, _) => "qcom.kgsl",
        (other, _) => {
            let why = format!("there is no check for {} devices", other.name());
            return Ok(Outcome::Skipped(why));
        }
    };
    let firmware = climb.setup.settings().firmware.iter();
    let places = Places {
        firmware: firmware.map(|path| path.display().to_string()).collect(),
    };
    let system = System::this();
    let (rows, prefix) = match climb.setup.twin() {
        Some(twin) => (examine_twin(&*twin.machine(), &system, &places), "twin."),
        None => {
            let cpu = CpuInfo::read();
            (examine(&system, &*Host::get(), &cpu, &places), "")
        }
    };
    let check = format!("{prefix}{check}");
    let mut found = of_way(&rows, &check);
    // Its first row is of all cards on the bus: one that a kernel driver has does not matter if another one is free.
    if check.ends_with("nv.pci") && found.len() > 1 {
        found.retain(|row| row.check != check);
    }
    judge(&check, &found)
}

/// The rows of an interface and its devices.
fn of_way<'a>(rows: &'a [Row], check: &str) -> Vec<&'a Row> {
    let below = |row: &&Row| {
        row.check
            .strip_prefix(check)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    rows.iter().filter(below).collect()
}

/// Fails if the interface, or all of its devices, are unusable.
fn judge(check: &str, rows: &[&Row]) -> Result<Outcome, Error> {
    let closed = |row: &&&Row| matches!(row.status, Status::Fail | Status::Absent);
    let (way, devices): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.check == check);
    let open = devices.iter().any(|row| !closed(&row));
    let bad = match way.iter().find(closed) {
        Some(row) => Some(row),
        None if open => None,
        None => devices.first(),
    };
    match (bad, rows) {
        (Some(row), _) => Err(Error::Unusable {
            check: row.check.clone(),
            what: row.detail.clone(),
            fix: row.fix.clone(),
        }),
        (None, []) => Err(Error::Unusable {
            check: check.into(),
            what: "no such device".into(),
            fix: String::new(),
        }),
        (None, rows) => Ok(Outcome::Passed(
            rows.iter()
                .map(|row| format!("{} {}: {}", row.check, row.status.name(), row.detail))
                .collect(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(check: &str, status: Status) -> Row {
        Row {
            check: check.into(),
            status,
            detail: format!("{check} was seen"),
            fix: "mend it".into(),
        }
    }

    #[test]
    fn one_open_device_is_enough_and_a_closed_driver_too_much() {
        let names =
            |rows: &[Row]| judge("amd.kfd", &of_way(rows, "amd.kfd")).map_err(|e| e.to_string());
        let (ok, fail) = (Status::Ok, Status::Fail);
        let other = row("amd.kfdx", fail);
        let rows = [
            row("amd.kfd", ok),
            row("amd.kfd.1", fail),
            row("amd.kfd.2", Status::Warn),
            other,
        ];
        let Ok(Outcome::Passed(seen)) = names(&rows) else {
            panic!("it passes");
        };
        assert_eq!(seen.len(), 3, "{seen:?}");
        for (rows, text) in [
            (vec![], "amd.kfd: no such device"),
            (
                vec![row("amd.kfd", Status::Absent)],
                "amd.kfd: amd.kfd was seen",
            ),
            (
                vec![row("amd.kfd", ok), row("amd.kfd.1", fail)],
                "amd.kfd.1: amd.kfd.1 was seen",
            ),
        ] {
            assert_eq!(names(&rows).err().as_deref(), Some(text));
        }
        assert!(names(&[row("amd.kfd", ok)]).is_ok(), "a row for all");
    }
}
