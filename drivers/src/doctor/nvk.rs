//! NVIDIA GPUs through NVIDIA's kernel driver: the driver, UVM, the persistence daemon, then each GPU.

use drivers_nv::nvk::{Driver, Found, Unfit, Unusable, examine};
use drivers_spec::nv::abi::Branch;
use hcq::transport::errno::ENOENT;
use hcq::transport::{Fault, Machine};

use super::owner::Owner;
use super::{Row, Status, back_to_nvidia};

const DRIVER: &str = "nv.nvk";
const WHAT: &str = "NVIDIA GPUs through NVIDIA's kernel driver";
/// Memory across GPUs.
const UVM: &str = "/dev/nvidia-uvm";
/// Where the daemon that keeps GPUs awake has its socket.
const DAEMON: &str = "/run/nvidia-persistenced";
/// Where the kernel's reasons are.
const LOG: &str = "`sudo dmesg | grep -e NVRM -e Xid`";

/// The driver's rows, then one for each GPU. `owner` tells who may open a device file, where that is known; `card`
/// is whether the bus has a GPU of NVIDIA.
pub(super) fn rows(
    machine: &dyn Machine,
    owner: &dyn Fn(&str) -> Option<Owner>,
    card: bool,
) -> Vec<Row> {
    let survey = examine(machine);
    let found = &survey.gpus;
    let mut rows = Vec::new();
    match &survey.driver {
        Ok(driver) => {
            rows.push(running(driver, found));
            rows.push(uvm(machine, owner));
            rows.extend((!found.is_empty()).then(|| awake(machine)));
        }
        Err(Unusable::NoDriver) => rows.push(missing(card)),
        Err(why) => rows.push(refused(DRIVER.into(), String::new(), why, owner)),
    }
    rows.extend(found.iter().map(|found| gpu(machine, found, owner)));
    rows
}

/// A driver that answers.
fn running(driver: &Driver, found: &[Found]) -> Row {
    let usable = found.iter().filter(|gpu| gpu.unusable.is_none()).count();
    let flavour = match driver.open {
        Some(true) => " (open module)",
        Some(false) => " (closed module)",
        None => "",
    };
    let detail = format!(
        "/dev/nvidiactl: version {}{flavour}; {usable} of {} GPUs can be used ({WHAT})",
        driver.version,
        found.len()
    );
    let row = |status| Row::new(DRIVER, status, detail.clone());
    match (found.len(), usable) {
        (0, _) => row(Status::Warn).fix(format!(
            "see {LOG}: the driver found no GPU; GPUs before Turing need the closed module"
        )),
        (_, 0) => row(Status::Fail).fix("see the GPU rows below"),
        _ if !driver.known => row(Status::Warn).fix(format!(
            "unknown driver version, using the structs of branch {}; if calls fail, update Doorbell or install a driver \
             of branch {}",
            driver.branch,
            branches()
        )),
        _ if driver.open == Some(false) => row(Status::Warn).fix(
            "if the GPU does not start or reports memory faults, install the open module (nvidia-open, Turing and \
             newer); both are known problems of the closed one",
        ),
        _ => row(Status::Ok),
    }
}

fn branches() -> String {
    let all = Branch::ALL.map(|branch| branch.to_string());
    match all.split_last() {
        Some((last, first)) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => all.concat(),
    }
}

/// The second module of the driver.
fn uvm(machine: &dyn Machine, owner: &dyn Fn(&str) -> Option<Owner>) -> Row {
    let Err(error) = machine.open(UVM) else {
        return Row::new("nv.uvm", Status::Ok, UVM);
    };
    if error.fault == Fault::Errno(ENOENT) {
        let what = format!("{UVM}: no such file; memory is mapped by the resource manager only");
        return Row::new("nv.uvm", Status::Warn, what).fix(format!(
            "for memory shared by several GPUs: `sudo nvidia-modprobe -c 0 -u`; in a container, add --device {UVM}"
        ));
    }
    let why = Unusable::of_open(machine, error, UVM);
    refused("nv.uvm".into(), String::new(), &why, owner)
}

/// Whether GPUs stay awake while nobody uses them.
fn awake(machine: &dyn Machine) -> Row {
    const CHECK: &str = "nv.persistence";
    match machine.list(DAEMON) {
        Ok(_) => Row::new(CHECK, Status::Ok, format!("{DAEMON} exists")),
        Err(_) => {
            let what = format!(
                "{DAEMON}: missing; the driver powers down idle GPUs, and each program start takes 1 s or more"
            );
            Row::new(CHECK, Status::Warn, what).fix(
                "`sudo systemctl enable --now nvidia-persistenced` (on the host, not in a container)",
            )
        }
    }
}

/// There is no driver.
fn missing(card: bool) -> Row {
    const FILE: &str = "/dev/nvidiactl: no such file";
    if !card {
        return Row::new(DRIVER, Status::Absent, format!("{FILE} ({WHAT})"));
    }
    let what = format!("{FILE}: the module nvidia is not loaded ({WHAT})");
    Row::new(DRIVER, Status::Fail, what).fix(
        "`sudo modprobe nvidia`; if missing, install driver branch 535 or newer (nvidia-open or nvidia-driver); if it \
         fails, see `sudo dmesg | grep -e NVRM -e nvidia`",
    )
}

fn gpu(machine: &dyn Machine, found: &Found, owner: &dyn Fn(&str) -> Option<Owner>) -> Row {
    let information = format!("/proc/driver/nvidia/gpus/{}/information", found.place);
    let text = machine.read(&information).unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("Model:"));
    let model = model.map_or(String::new(), |model| format!(" ({})", model.trim()));
    let check = format!("{DRIVER}.{}", found.index);
    let what = format!("{} 10de:{:04x}{model}", found.place, found.device_id);
    match &found.unusable {
        Some(why) => refused(check, what, why, owner),
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
    let (text, fix) = told(why, owner);
    let detail = match what.as_str() {
        "" => text,
        what => format!("{what}; {text}"),
    };
    Row::new(check, Status::Fail, detail).fix(fix)
}

/// What is wrong, and what helps.
fn told(why: &Unusable, owner: &dyn Fn(&str) -> Option<Owner>) -> (String, String) {
    match why {
        Unusable::NoFile { path, version } => (
            format!("{path}: no such file, but the module nvidia is loaded (version {version})"),
            format!(
                "`sudo nvidia-modprobe -c 0 -u`; in a container, add --gpus all or --device {path}; none if the GPU is \
                 assigned to others"
            ),
        ),
        Unusable::Foreign { place, driver } => (
            format!("/dev/nvidiactl: no such file; {place} is bound to {driver}"),
            match driver.as_str() {
                "nouveau" => "install NVIDIA's driver (nvidia-open or nvidia-driver), blacklist nouveau (`echo \
                              blacklist nouveau | sudo tee /etc/modprobe.d/blacklist-nouveau.conf`, then `sudo \
                              update-initramfs -u`) and reboot"
                    .into(),
                "vfio-pci" => format!(
                    "if no virtual machine needs it: {}",
                    back_to_nvidia(place)
                ),
                other => format!(
                    "`echo {place} | sudo tee /sys/bus/pci/drivers/{other}/unbind`, then `sudo modprobe nvidia`"
                ),
            },
        ),
        Unusable::NoPermission { path } => not_permitted(path, owner(path)),
        Unusable::Cgroup { path } => (
            format!("{path}: operation not permitted, by a device cgroup"),
            format!(
                "start the container with --gpus all or --device {path} (a volume is not enough); for a systemd \
                 service, set DeviceAllow={path} rw"
            ),
        ),
        Unusable::Dead { path, .. } => (
            format!("{path}: the driver cannot start this GPU"),
            format!("see {LOG}; if the GPU is lost, reset it (`sudo nvidia-smi -r`) or reboot"),
        ),
        Unusable::OldDriver { version } => (
            format!("/dev/nvidiactl: version {version}, expected 535.86 or newer"),
            format!("install a driver of branch {}", branches()),
        ),
        Unusable::Unfit(Unfit::Unsupported { chip, .. }) => (
            format!("no driver for {chip}"),
            "use DEV=CPU; supported are Ampere to Blackwell".into(),
        ),
        Unusable::Unfit(Unfit::Divided { parts, .. }) => (
            format!("split into {parts} MIG partitions"),
            "`sudo nvidia-smi -mig 0`".into(),
        ),
        Unusable::Unfit(Unfit::Prohibited { .. }) => (
            "in compute mode Prohibited".into(),
            "`sudo nvidia-smi -c DEFAULT`".into(),
        ),
        Unusable::Unfit(Unfit::Busy { .. }) => (
            "in an exclusive compute mode, and in use by another program".into(),
            "wait for that program, or share the GPU: `sudo nvidia-smi -c DEFAULT`".into(),
        ),
        Unusable::Unfit(Unfit::Confidential { .. }) => (
            "confidential computing is enabled".into(),
            "disable it (`nvidia-smi conf-compute`, or in the BIOS)".into(),
        ),
        other => (other.to_string(), LOG.into()),
    }
}

/// A device file that others may open: what is wrong, and what helps.
fn not_permitted(path: &str, owner: Option<Owner>) -> (String, String) {
    let Some(owner) = owner else {
        return (
            format!("{path}: permission denied"),
            format!(
                "join its group (`ls -l {path}`; often video or render): `sudo usermod -aG video,render \
                 $USER`, then log in again; in a container, add --group-add NUMBER"
            ),
        );
    };
    let fix = match owner.group.as_deref() {
        // The module gives its files to everybody, unless it was told otherwise.
        Some("root") => {
            "set NVreg_DeviceFileMode=0666 in /etc/modprobe.d: the module restricts its files to \
                         root (`grep -e DeviceFile /proc/driver/nvidia/params`)"
                .into()
        }
        Some(name) => format!(
            "`sudo usermod -aG {name} $USER`, then log in again; in a container, add --group-add {}",
            owner.gid
        ),
        None => format!(
            "in a container, add --group-add {} (the number, not a name)",
            owner.gid
        ),
    };
    (format!("{path}: permission denied; {}", owner.shown()), fix)
}

#[cfg(test)]
mod tests;
