//! NVIDIA GPUs through NVIDIA's kernel driver: the driver, UVM, who keeps GPUs awake, then each GPU.

use drivers_nv::nvk::{Driver, Found, Unfit, Unusable, examine};
use drivers_spec::nv::abi::Branch;
use hcq::transport::{Fault, Machine};

use super::owner::Owner;
use super::{Row, Status};

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
            "it has no GPU: {LOG} says what it skipped, and why; GPUs before Turing are for its closed module"
        )),
        (_, 0) => row(Status::Fail).fix("see the rows of the GPUs"),
        _ if !driver.known => row(Status::Warn).fix(format!(
            "the structs of this version are not described here, those of branch {} are taken: should calls be \
             refused, use a newer version of this program, or a driver of branch {}",
            driver.branch,
            branches()
        )),
        _ if driver.open == Some(false) => row(Status::Warn).fix(
            "its calls are those of the open one, for which this is written, but with the closed one others saw GPUs \
             that do not start and faults of memory: should that happen, install the open one (nvidia-open; Turing \
             and newer)",
        ),
        _ => row(Status::Ok),
    }
}

fn branches() -> String {
    let all = Branch::ALL.map(|branch| branch.to_string());
    all.join(", ")
}

/// The second module of the driver.
fn uvm(machine: &dyn Machine, owner: &dyn Fn(&str) -> Option<Owner>) -> Row {
    let Err(error) = machine.open(UVM) else {
        return Row::new("nv.uvm", Status::Ok, UVM);
    };
    if error.fault == Fault::Errno(ENOENT) {
        let what = format!("{UVM}: no such file; memory is mapped by the resource manager alone");
        return Row::new("nv.uvm", Status::Warn, what).fix(format!(
            "for memory that several GPUs share: `sudo nvidia-modprobe -c 0 -u`; a container has to be given it: \
             --device {UVM}"
        ));
    }
    let why = Unusable::of_open(machine, error, UVM);
    refused("nv.uvm".into(), String::new(), &why, owner)
}

const ENOENT: i32 = 2;

/// Whether GPUs stay awake while nobody uses them.
fn awake(machine: &dyn Machine) -> Row {
    const CHECK: &str = "nv.persistence";
    match machine.list(DAEMON) {
        Ok(_) => Row::new(CHECK, Status::Ok, format!("{DAEMON} is there")),
        Err(_) => {
            let what = format!(
                "{DAEMON}: not there; the driver takes down a GPU that nobody uses, and each program waits for a \
                 second or more until it is up again"
            );
            Row::new(CHECK, Status::Warn, what).fix(
                "`sudo systemctl enable --now nvidia-persistenced`; nothing, if this is a container: it runs outside",
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
    let what = format!("{FILE}, since the module nvidia is not loaded ({WHAT})");
    Row::new(DRIVER, Status::Fail, what).fix(
        "`sudo modprobe nvidia`; if there is none, install NVIDIA's driver of branch 535 or newer (nvidia-open, or \
         nvidia-driver); if it does not load, `sudo dmesg | grep -e NVRM -e nvidia` says why",
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
    let fail = |text: String, fix: String| {
        let detail = match what.as_str() {
            "" => text,
            what => format!("{what}; {text}"),
        };
        Row::new(check, Status::Fail, detail).fix(fix)
    };
    match why {
        Unusable::NoFile { path, version } => fail(
            format!("{path}: no such file, though the module nvidia is loaded (version {version})"),
            format!(
                "`sudo nvidia-modprobe -c 0 -u` makes the files; a container has to be given them: --gpus all, or \
                 --device {path}; a GPU that is for somebody else needs nothing"
            ),
        ),
        Unusable::Foreign { place, driver } => fail(
            format!("/dev/nvidiactl: no such file; {place} belongs to {driver}"),
            match driver.as_str() {
                "nouveau" => "NVIDIA's driver has to have it: install that (nvidia-open, or nvidia-driver), keep \
                              nouveau away (`echo blacklist nouveau | sudo tee \
                              /etc/modprobe.d/blacklist-nouveau.conf`, then `sudo update-initramfs -u`), restart"
                    .into(),
                "vfio-pci" => format!(
                    "it is kept for a virtual machine: `echo {place} | sudo tee \
                     /sys/bus/pci/drivers/vfio-pci/unbind`, then `sudo modprobe nvidia`"
                ),
                other => format!(
                    "`echo {place} | sudo tee /sys/bus/pci/drivers/{other}/unbind`, then `sudo modprobe nvidia`"
                ),
            },
        ),
        Unusable::NoPermission { path } => {
            let Some(owner) = owner(path) else {
                return fail(
                    format!("{path}: permission denied"),
                    format!(
                        "join its group (`ls -l {path}`; often video or render): `sudo usermod -aG video,render \
                         $USER`, then log in again; a container needs the group's number: --group-add NUMBER"
                    ),
                );
            };
            let fix = match owner.group.as_deref() {
                // The module gives its files to everybody, unless it was told otherwise.
                Some("root") => "the module was told to keep its files for root: `grep -e DeviceFile \
                                        /proc/driver/nvidia/params`, /etc/modprobe.d (NVreg_DeviceFileMode=0666 is \
                                        usual)"
                    .into(),
                Some(name) => format!(
                    "`sudo usermod -aG {name} $USER`, then log in again; a container needs --group-add {}",
                    owner.gid
                ),
                None => format!(
                    "a container needs --group-add {}: its own names do not count",
                    owner.gid
                ),
            };
            fail(format!("{path}: permission denied; {}", owner.shown()), fix)
        }
        Unusable::Cgroup { path } => fail(
            format!("{path}: operation not permitted, by a device cgroup"),
            format!(
                "start the container with --gpus all, or --device {path}: a volume (-v) is not enough; a systemd \
                 service needs DeviceAllow={path} rw"
            ),
        ),
        Unusable::Dead { path, .. } => fail(
            format!("{path}: the driver cannot start this GPU"),
            format!("{LOG} says why; a GPU that is lost needs a reset (`sudo nvidia-smi -r`) or a restart"),
        ),
        Unusable::OldDriver { version } => fail(
            format!("/dev/nvidiactl: version {version}, expected 535.86 or newer"),
            format!("install a driver of branch {}", branches()),
        ),
        Unusable::Unfit(Unfit::Unsupported { chip, .. }) => fail(
            format!("no driver for {chip}"),
            "use DEV=CPU; there are drivers for Ampere to Blackwell".into(),
        ),
        Unusable::Unfit(Unfit::Divided { parts, .. }) => fail(
            format!("divided into {parts} partitions (MIG)"),
            "`sudo nvidia-smi -mig 0` makes it one again".into(),
        ),
        Unusable::Unfit(Unfit::Prohibited { .. }) => fail(
            "closed to programs that compute".into(),
            "`sudo nvidia-smi -c DEFAULT` opens it".into(),
        ),
        Unusable::Unfit(Unfit::Busy { .. }) => fail(
            "for one program at a time, and another one has it".into(),
            "wait for its end, or share the GPU: `sudo nvidia-smi -c DEFAULT`".into(),
        ),
        Unusable::Unfit(Unfit::Confidential { .. }) => fail(
            "confidential computing is on".into(),
            "switch it off (`nvidia-smi conf-compute`, or the host's settings)".into(),
        ),
        other => fail(other.to_string(), LOG.into()),
    }
}

#[cfg(test)]
mod tests;
