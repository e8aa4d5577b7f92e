//! Every state of KFD, made by a twin: what the doctor says, and what opening the GPU says.

use std::fmt::Write;
use std::sync::Arc;

use twin_amd::machine::TwinMachine;

use super::*;
use crate::env::Settings;
use crate::select::parse_targets;
use crate::{Twin, open_with};

const STATES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../tests/golden/amd/kfd-states.txt"
);

/// A state: its name, the twin's config, who owns the device files, whether the bus has a GPU.
type State = (&'static str, &'static str, Owners, bool);

/// Who owns the device files.
#[derive(Clone, Copy)]
enum Owners {
    /// The system does not tell.
    Unknown,
    /// A group with that name and number.
    Group(&'static str, u32),
    /// A group that the container has no name for.
    Nameless(u32),
}

const NODES: &str = "/sys/devices/virtual/kfd/kfd/topology/nodes";

fn states() -> Vec<State> {
    use Owners::{Group, Nameless, Unknown};
    let nothing = "gpus=0,fault=path:/dev/kfd:ENOENT;path:/sys/devices/virtual/kfd:ENOENT;\
                   path:/sys/module/amdgpu:ENOENT";
    vec![
        ("one GPU", "", Unknown, true),
        ("a GPU as eight", "chip=gfx942,xcc=1,gpus=8", Unknown, true),
        ("no card, no driver", nothing, Unknown, false),
        ("a card, no driver", nothing, Unknown, true),
        (
            "a container without the node",
            "fault=path:/dev/kfd:ENOENT",
            Unknown,
            true,
        ),
        (
            "a container without the render node",
            "fault=path:/dev/dri/renderD128:ENOENT",
            Unknown,
            true,
        ),
        (
            "not in the group",
            "fault=path:/dev/kfd:EACCES",
            Group("render", 105),
            true,
        ),
        (
            "not in the group, whose number is all that a container knows",
            "fault=path:/dev/kfd:EACCES",
            Nameless(992),
            true,
        ),
        (
            "a node that no rule gave to a group",
            "fault=path:/dev/kfd:EACCES",
            Group("root", 0),
            true,
        ),
        (
            "not in the group, and nobody knows which",
            "fault=path:/dev/kfd:EACCES",
            Unknown,
            true,
        ),
        (
            "not in the group of the render node",
            "fault=path:/dev/dri/renderD128:EACCES",
            Group("video", 44),
            true,
        ),
        (
            "a node that was mounted into a container",
            "fault=path:/dev/kfd:EPERM",
            Group("render", 105),
            true,
        ),
        (
            "a GPU that a cgroup hides",
            &*format!("gpus=2,fault=path:{NODES}/1:EPERM").leak(),
            Unknown,
            true,
        ),
        (
            "every GPU is hidden",
            &*format!("fault=path:{NODES}/1:EPERM").leak(),
            Unknown,
            true,
        ),
        (
            "a container without sysfs",
            "fault=path:/sys/devices/virtual/kfd:ENOENT",
            Unknown,
            true,
        ),
        (
            "a node that does not read, and a good one",
            &*format!("gpus=2,fault=path:{NODES}/1/properties:EIO").leak(),
            Unknown,
            true,
        ),
        ("a node that tells no chip", "target=0", Unknown, true),
        (
            "a busy GPU, and one that is not",
            "gpus=2,fault=path:/dev/dri/renderD128:EBUSY",
            Unknown,
            true,
        ),
        ("a card without driver here", "target=90006", Unknown, true),
        ("no GPU that computes", "gpus=0", Unknown, true),
        ("an old kernel", "kfd=1.6", Unknown, true),
        ("another interface", "kfd=2.0", Unknown, true),
        ("a small BAR", "bar=small", Unknown, true),
        (
            "a busy GPU",
            "fault=path:/dev/dri/renderD128:EBUSY",
            Unknown,
            true,
        ),
        (
            "a GPU whose address space another client took",
            "fault=ioctl:ACQUIRE_VM:EBUSY",
            Unknown,
            true,
        ),
        (
            "a GPU that is gone",
            "fault=path:/dev/dri/renderD128:ENODEV",
            Unknown,
            true,
        ),
        (
            "something else",
            "fault=path:/dev/kfd:EMFILE",
            Unknown,
            true,
        ),
    ]
}

fn describe(out: &mut String, (name, config, owners, card): State) {
    let machine: Twin = TwinMachine::new(&format!("debug=0,{config}")).unwrap();
    let owner = |_: &str| match owners {
        Owners::Unknown => None,
        Owners::Group(name, gid) => Some(Owner {
            mode: 0o660,
            gid,
            group: Some(name.into()),
        }),
        Owners::Nameless(gid) => Some(Owner {
            mode: 0o660,
            gid,
            group: None,
        }),
    };
    writeln!(out, "== {name}: {config}").unwrap();
    for row in rows(&*machine, &owner, card) {
        let status = row.status.name();
        writeln!(out, "{:<11} {status:<11} {}", row.check, row.detail).unwrap();
        assert_eq!(
            row.fix.is_empty(),
            matches!(row.status, Status::Ok | Status::Absent),
            "{row:?}"
        );
        if !row.fix.is_empty() {
            writeln!(out, "  fix: {}", row.fix).unwrap();
        }
    }
    let target = parse_targets("test", "TWINKFD+AMD").unwrap().remove(0);
    let opened = open_with(&target, &Settings::default(), Some(&Arc::clone(&machine)));
    match opened {
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
