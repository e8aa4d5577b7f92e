//! Every state of NVIDIA's driver, made by a twin: what the doctor says, and what opening the GPU says.

use std::fmt::Write;

use twin_nv::machine::TwinMachine;

use super::*;
use crate::env::Settings;
use crate::select::parse_targets;
use crate::{Twin, open_with};

const STATES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/golden/nv/nvk-states.txt"
);

/// The group that a device file has: name and number.
type Group = Option<(Option<&'static str>, u32)>;

/// A state: its name, the twin's config, the group of the device files where that is known.
fn states() -> Vec<(&'static str, &'static str, Group)> {
    vec![
        ("one GPU", "", None),
        ("two GPUs", "chip=ga102+gb202,driver=570", None),
        ("the oldest driver", "chip=h100,driver=535", None),
        ("a card, no driver", "module=none", None),
        ("nouveau has the card", "module=nouveau", None),
        ("kept for a virtual machine", "module=vfio-pci", None),
        ("another driver", "module=nvidia_vgpu", None),
        ("the closed module", "module=closed,driver=550", None),
        ("a driver that nobody knows", "says=590.48.01", None),
        (
            "one between those that are known",
            "driver=550,says=560.35.03",
            None,
        ),
        ("a driver of old", "driver=535,says=470.256.02", None),
        ("no version at all", "says=what", None),
        ("no card behind the driver", "gpus=0", None),
        (
            "a container without the files",
            "fault=path:/dev/nvidiactl:ENOENT;path:/dev/nvidia-uvm:ENOENT;path:/dev/nvidia0:ENOENT",
            None,
        ),
        (
            "a container with one of two GPUs",
            "chip=h100,gpus=2,fault=path:/dev/nvidia0:ENOENT",
            None,
        ),
        ("without UVM", "fault=path:/dev/nvidia-uvm:ENOENT", None),
        (
            "UVM is not for us",
            "fault=path:/dev/nvidia-uvm:EACCES",
            None,
        ),
        (
            "not in the group",
            "fault=path:/dev/nvidiactl:EACCES",
            Some((Some("video"), 44)),
        ),
        (
            "files for root alone",
            "fault=path:/dev/nvidiactl:EACCES",
            Some((Some("root"), 0)),
        ),
        (
            "a group that the container has no name for",
            "fault=path:/dev/nvidiactl:EACCES",
            Some((None, 992)),
        ),
        (
            "nobody knows which group",
            "fault=path:/dev/nvidia0:EACCES",
            None,
        ),
        (
            "a file that was mounted into a container",
            "fault=path:/dev/nvidia0:EPERM",
            None,
        ),
        (
            "a GPU that does not start",
            "fault=path:/dev/nvidia0:EIO",
            None,
        ),
        (
            "a GPU that is not there",
            "fault=path:/dev/nvidia0:ENODEV",
            None,
        ),
        (
            "nobody keeps it awake",
            "fault=path:/run/nvidia-persistenced:ENOENT",
            None,
        ),
        (
            "a version that is refused",
            "fault=call:CHECK_VERSION_STR:EINVAL",
            None,
        ),
        ("no list of GPUs", "fault=call:CARD_INFO:EINVAL", None),
        ("divided into partitions", "mig=3", None),
        ("encrypted", "chip=h100,confidential=on", None),
        ("for no program", "compute=prohibited", None),
        ("for one program at a time", "compute=exclusive", None),
        ("another program has it", "compute=taken", None),
        ("something else", "fault=path:/dev/nvidiactl:EMFILE", None),
    ]
}

fn describe(out: &mut String, (name, config, group): (&str, &str, Group)) {
    let machine: Twin = TwinMachine::new(config).unwrap();
    let owner = |_: &str| {
        group.map(|(name, gid)| Owner {
            mode: 0o660,
            gid,
            group: name.map(str::to_owned),
        })
    };
    writeln!(out, "== {name}: {config}").unwrap();
    for row in rows(&*machine, &owner, true) {
        let status = row.status.name();
        writeln!(out, "{:<14} {status:<11} {}", row.check, row.detail).unwrap();
        assert_eq!(row.fix.is_empty(), row.status == Status::Ok, "{row:?}");
        if !row.fix.is_empty() {
            writeln!(out, "  fix: {}", row.fix).unwrap();
        }
    }
    // A new process: what was refused once shall be refused again.
    let machine: Twin = TwinMachine::new(config).unwrap();
    let target = parse_targets("test", "TWINNVK+NV").unwrap().remove(0);
    match open_with(&target, &Settings::default(), Some(&machine)) {
        Ok(device) => writeln!(out, "opens as {} {}", device.info().id, device.info().arch),
        Err(error) => writeln!(out, "open: {error}"),
    }
    .unwrap();
    out.push('\n');
}

#[test]
fn every_state_has_its_text() {
    let mut found = String::new();
    for state in states() {
        describe(&mut found, state);
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(STATES, &found).unwrap();
    }
    let wanted = std::fs::read_to_string(STATES).unwrap_or_default();
    let wanted: Vec<&str> = wanted.split("\n\n").collect();
    let found: Vec<&str> = found.split("\n\n").collect();
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(
            found, wanted,
            "{STATES}; run with UPDATE=1 if it should read so"
        );
    }
    assert_eq!(found.len(), wanted.len());
}

#[test]
fn without_card_and_driver_nothing_is_wrong() {
    let machine = TwinMachine::new("gpus=0,module=none").unwrap();
    let rows = rows(&*machine, &|_| None, false);
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].status, &*rows[0].fix), (Status::Absent, ""));
}
