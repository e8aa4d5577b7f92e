//! Adreno GPUs: through KGSL, the vendor's kernel driver, and through msm, that of Linux.

use drivers_qcom::backend::Unusable;
use drivers_qcom::{kgsl, msm};
use hcq::transport::Machine;

use super::owner::Owner;
use super::{Row, Status};

const KGSL: &str = "qcom.kgsl";
const MSM: &str = "qcom.msm";

/// A row for KGSL, one for msm, and one for each GPU of msm. `owner` tells who may open a device file, where that is known.
pub(super) fn rows(machine: &dyn Machine, owner: &dyn Fn(&str) -> Option<Owner>) -> Vec<Row> {
    let mut rows = vec![of_kgsl(machine, owner)];
    let found = msm::survey(machine);
    let usable = found.iter().filter(|gpu| gpu.chip.is_ok()).count();
    const WHAT: &str = "Adreno GPUs through the kernel driver msm";
    rows.push(match (found.len(), usable) {
        (0, _) => {
            let text = format!("no render node of msm in /dev/dri ({WHAT})");
            Row::new(MSM, Status::Absent, text)
        }
        (all, 0) => Row::new(
            MSM,
            Status::Fail,
            format!("0 of {all} GPUs can be used ({WHAT})"),
        )
        .fix("see the GPU rows below"),
        (all, usable) => Row::new(
            MSM,
            Status::Ok,
            format!("{usable} of {all} GPUs can be used ({WHAT})"),
        ),
    });
    rows.extend(found.iter().map(|gpu| {
        let check = format!("{MSM}.{}", gpu.index);
        match &gpu.chip {
            Ok((chip, id)) => {
                let text = format!(
                    "{}: Adreno {} (chip id {id:#010x})",
                    gpu.path,
                    number(chip.name)
                );
                Row::new(check, Status::Ok, text)
            }
            Err(why) => refused(&check, why, owner),
        }
    }));
    rows
}

fn of_kgsl(machine: &dyn Machine, owner: &dyn Fn(&str) -> Option<Owner>) -> Row {
    const WHAT: &str = "Adreno GPUs through KGSL";
    let path = kgsl::survey::FILE;
    match kgsl::survey(machine) {
        Ok(found) => {
            let (major, minor) = found.version;
            let (name, id) = (number(found.chip.name), found.chip_id);
            let text = format!(
                "{path}: Adreno {name} (chip id {id:#010x}), driver {major}.{minor} ({WHAT})"
            );
            Row::new(KGSL, Status::Ok, text)
        }
        Err(Unusable::NoDriver { .. }) => Row::new(
            KGSL,
            Status::Absent,
            format!("{path}: no such file ({WHAT})"),
        ),
        Err(why) => refused(KGSL, &why, owner),
    }
}

/// What the vendor calls a chip.
fn number(name: &str) -> &str {
    name.trim_start_matches('A')
}

/// A device file that cannot be used, or a GPU behind it.
fn refused(check: &str, why: &Unusable, owner: &dyn Fn(&str) -> Option<Owner>) -> Row {
    let (text, fix) = match why {
        Unusable::NoPermission { path } => match owner(path) {
            Some(owner) => {
                let group = owner.group.clone().unwrap_or(owner.gid.to_string());
                let text = format!("{path}: permission denied; {}", owner.shown());
                (
                    text,
                    format!("`sudo usermod -aG {group} $USER`, then log in again"),
                )
            }
            None => {
                let fix = format!(
                    "join its group (`ls -l {path}`; often video or render): `sudo usermod -aG video,render $USER`, then \
                     log in again"
                );
                (format!("{path}: permission denied"), fix)
            }
        },
        Unusable::Cgroup { path } => {
            let fix = format!(
                "start the container with --device {path}; for a systemd service, set DeviceAllow={path} rw"
            );
            (
                format!("{path}: operation not permitted, by a device cgroup"),
                fix,
            )
        }
        Unusable::Unsupported { path, why } => {
            let fix = "use DEV=CPU; README.md lists the supported devices";
            (format!("{path}: {why}"), fix.into())
        }
        Unusable::Dead { path, driver, .. } => {
            let fix = format!(
                "see `sudo dmesg | grep -e {driver} -e adreno`; install the firmware of the GPU if it is missing"
            );
            (format!("{path}: the driver cannot start the GPU"), fix)
        }
        other => (
            other.to_string(),
            "see `sudo dmesg | grep -e kgsl -e msm -e adreno`".into(),
        ),
    };
    Row::new(check, Status::Fail, text).fix(fix)
}

#[cfg(test)]
mod tests {
    use drivers_spec::qcom::chip;
    use hcq::transport::Fault;
    use hcq::transport::errno::ENODEV;

    use super::super::tests::bare;
    use super::*;

    #[test]
    fn a_machine_without_has_nothing_wrong() {
        let rows = rows(&*bare(), &|_| None);
        let seen: Vec<_> = rows
            .iter()
            .map(|row| (row.check.as_str(), row.status))
            .collect();
        assert_eq!(seen, [(KGSL, Status::Absent), (MSM, Status::Absent)]);
    }

    #[test]
    fn what_is_in_the_way_has_a_fix() {
        let path = || "/dev/kgsl-3d0".to_owned();
        let owner = |_: &str| {
            Some(Owner {
                mode: 0o660,
                gid: 44,
                group: Some("video".into()),
            })
        };
        let row = |why| refused(KGSL, &why, &owner);
        let closed = row(Unusable::NoPermission { path: path() });
        assert!(closed.fix.contains("-aG video"), "{closed:?}");
        let closed = row(Unusable::Cgroup { path: path() });
        assert!(closed.fix.contains("--device /dev/kgsl-3d0"), "{closed:?}");
        let dead = row(Unusable::Dead {
            path: path(),
            driver: "msm",
            error: Fault::Errno(ENODEV),
        });
        assert!(dead.fix.contains("firmware"), "{dead:?}");
        let newer = row(Unusable::Unsupported {
            path: path(),
            why: chip::find(0x0703_0001).unwrap_err(),
        });
        assert!(newer.detail.contains("Adreno 730"), "{newer:?}");
        assert!(
            [closed, dead, newer]
                .iter()
                .all(|row| row.status == Status::Fail)
        );
    }
}
