//! AMD GPUs through KFD: the driver, then each GPU that it shows.

use drivers_amd::kfd::topology::NODES;
use drivers_amd::kfd::{Found, Unusable, survey};
use hcq::transport::Machine;

use super::owner::Owner;
use super::{Row, Status};

const DRIVER: &str = "amd.kfd";
const WHAT: &str = "AMD GPUs through the amdgpu kernel driver";

/// The driver's row, then one for each GPU. `owner` tells who may open a device file, where that is
/// known; `card` is whether the bus has a GPU of AMD.
pub(super) fn rows(
    machine: &dyn Machine,
    owner: &dyn Fn(&str) -> Option<Owner>,
    card: bool,
) -> Vec<Row> {
    let survey = survey(machine);
    let row = |status, detail: String| Row::new(DRIVER, status, detail);
    let driver = match &survey.driver {
        Ok((major, minor)) => {
            let found = survey.gpus.len();
            let usable = survey.usable().count();
            let detail = format!(
                "/dev/kfd: version {major}.{minor}; {usable} of {found} GPUs can be used ({WHAT})"
            );
            match (found, usable) {
                (0, _) => row(Status::Warn, detail)
                    .fix("see `sudo dmesg | grep -e kfd -e amdgpu`: amdgpu found no compute GPU"),
                (_, 0) => row(Status::Fail, detail).fix("see the GPU rows below"),
                _ => row(Status::Ok, detail),
            }
        }
        Err(Unusable::NoDriver { path }) => missing(machine, path, card),
        Err(why) => refused(DRIVER.into(), String::new(), why, owner),
    };
    let mut rows = vec![driver];
    let reachable = survey.driver.is_ok();
    rows.extend(survey.gpus.iter().map(|found| gpu(found, reachable, owner)));
    rows
}

/// There is no `/dev/kfd`: because nothing made it, or because it was not passed in.
fn missing(machine: &dyn Machine, path: &str, card: bool) -> Row {
    let loaded = machine.read("/sys/module/amdgpu/initstate").is_ok();
    let row = |status, text: &str| {
        Row::new(
            DRIVER,
            status,
            format!("{path}: no such file{text} ({WHAT})"),
        )
    };
    match (loaded, card) {
        (true, _) => row(Status::Fail, ", but the module amdgpu is loaded").fix(
            "in a container, add --device /dev/kfd --device /dev/dri; on a host, use a kernel with CONFIG_HSA_AMD",
        ),
        (false, true) => row(Status::Fail, ": the module amdgpu is not loaded").fix(
            "`sudo modprobe amdgpu`; if it fails, see `sudo dmesg | grep amdgpu`",
        ),
        (false, false) => row(Status::Absent, ""),
    }
}

fn gpu(found: &Found, reachable: bool, owner: &dyn Fn(&str) -> Option<Owner>) -> Row {
    let check = format!("{DRIVER}.{}", found.node);
    let Some(gpu) = &found.gpu else {
        if let Some(Unusable::Unreadable { node, error }) = &found.unusable {
            let row = Row::new(check, Status::Fail, format!("node {node}: {error}"));
            return row.fix("see `sudo dmesg | grep -e kfd -e amdgpu`; the other GPUs are usable");
        }
        let row = Row::new(
            check,
            Status::Fail,
            format!("node {}: hidden by a device cgroup", found.node),
        );
        return row.fix(
            "none if this GPU is assigned to others; in a container, add --device /dev/dri/renderD...; in a \
             job, request it from the scheduler",
        );
    };
    let gib = gpu.vram as f64 / (1u64 << 30) as f64;
    let name = match gpu.name.as_str() {
        // What the kernel calls every newer chip.
        "" | "ip discovery" => String::new(),
        name => format!(" ({name})"),
    };
    let arch = match gpu.arch() {
        arch if arch.is_empty() => "unknown chip".into(),
        arch => arch,
    };
    let what = format!(
        "{} {arch}{name}, {} units, {gib:.1} GiB",
        gpu.pci(),
        gpu.compute_units()
    );
    match &found.unusable {
        Some(why) => refused(check, what, why, owner),
        None if !reachable => {
            Row::new(check, Status::Fail, what).fix(format!("see {DRIVER}"))
        }
        None if !gpu.large_bar => Row::new(
            check,
            Status::Warn,
            format!("{what}, CPU access to a part only (small BAR)"),
        )
        .fix(
            "enable Above 4G Decoding and Resizable BAR in the BIOS; until then, copies go through system \
             memory",
        ),
        None => Row::new(check, Status::Ok, what),
    }
}

/// A device file that cannot be used, or a GPU behind it.
fn refused(
    check: String,
    what: String,
    why: &Unusable,
    owner: &dyn Fn(&str) -> Option<Owner>,
) -> Row {
    let fail = |text: String, fix: String| {
        let detail = match what.as_str() {
            "" => text,
            what => format!("{what}; {text}"),
        };
        Row::new(check, Status::Fail, detail).fix(fix)
    };
    match why {
        Unusable::NoPermission { path } => {
            let Some(owner) = owner(path) else {
                return fail(
                    format!("{path}: permission denied"),
                    format!(
                        "join its group (`ls -l {path}`; most often render): `sudo usermod -aG \
                         render $USER`, then log in again; a container needs the group's number: \
                         --group-add NUMBER"
                    ),
                );
            };
            let (gid, group) = (owner.gid, owner.group.as_deref());
            fail(
                format!("{path}: permission denied; {}", owner.shown()),
                match group {
                    // The owner of a file that nobody has given to a group.
                    Some("root") => format!(
                        "add a udev rule (KERNEL==\"kfd\", GROUP=\"render\", MODE=\"0660\"): only root may open it; \
                          in a container, add --group-add with the group of {path} on the host"
                    ),
                    Some(name) => format!(
                        "`sudo usermod -aG {name} $USER`, then log in again; in a container, add --group-add {gid}"
                    ),
                    None => {
                        format!("in a container, add --group-add {gid} (the number, not a name)")
                    }
                },
            )
        }
        Unusable::Cgroup { path } => fail(
            format!("{path}: operation not permitted, by a device cgroup"),
            format!(
                "start the container with --device {path} (a volume is not enough); for a systemd service, \
                 set DeviceAllow={path} rw"
            ),
        ),
        Unusable::NoRenderNode { path } => fail(
            format!("{path}: no such file"),
            format!("in a container, add --device {path}"),
        ),
        Unusable::NoTopology => fail(
            format!("/dev/kfd exists, {NODES} does not"),
            "in a container or sandbox, mount the host's sysfs: -v /sys:/sys:ro".into(),
        ),
        Unusable::Incomplete { node, lacks } => fail(
            format!("{NODES}/{node}/properties has no {lacks}"),
            "use Linux 5.19 or later (`uname -r`) and the host's sysfs".into(),
        ),
        Unusable::Unsupported { arch, supported } => fail(
            format!("no driver for {arch}"),
            format!("use DEV=CPU; supported are {supported}"),
        ),
        Unusable::OldKernel { have, need } => fail(
            format!(
                "/dev/kfd: version {}.{} of the interface, expected {}.{} or a later {}.x",
                have.0, have.1, need.0, need.1, need.0
            ),
            match have.0 > need.0 {
                true => "update Doorbell: it is too old for this kernel".into(),
                false => "use Linux 5.19 or later (`uname -r`)".into(),
            },
        ),
        Unusable::Busy { path } => fail(
            format!("{path}: busy"),
            format!("stop the process with exclusive access (`sudo fuser -v {path}`)"),
        ),
        Unusable::Gone { path } => fail(
            format!("{path}: the GPU is gone"),
            "see `sudo dmesg | grep amdgpu`; reboot if it stays gone".into(),
        ),
        other => fail(
            other.to_string(),
            "`sudo dmesg | grep -e kfd -e amdgpu`".into(),
        ),
    }
}

#[cfg(test)]
mod tests;
