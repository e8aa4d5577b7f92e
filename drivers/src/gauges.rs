//! GPU gauges: memory, clocks, power, temperature, and users. Read from sysfs, procfs and our own locks; opens and
//! wakes no device: sensors of a suspended card are not read, since that may wake it. [`panel`](crate::panel) adds
//! values queried from drivers.
//!
//! | of | where | source |
//! |---|---|---|
//! | amdgpu | `mem_info_vram_*`, `gpu_busy_percent`, `hwmon` of the function | Linux, Documentation/gpu/amdgpu/thermal.rst |
//! | KFD | `/sys/class/kfd/kfd/proc/PID`: queues, VRAM of each GPU | Linux, amdkfd/kfd_process.c |
//! | NVIDIA | `/proc/driver/nvidia/gpus/ADDRESS/information`, `power` | NVIDIA's README, "The proc interface" |
//! | the bus | `current_link_speed`, `current_link_width` | Linux, Documentation/ABI/testing/sysfs-bus-pci |
//! | its sleep | `power/runtime_status` | Linux, Documentation/ABI/testing/sysfs-devices-power |
//! | cards without a kernel driver | `/run/lock/doorbell-ADDRESS.lock` | drivers/host |
//! | Adreno | see `adreno` | |

mod adreno;

use drivers_amd::kfd::topology::{self, Entry};
use drivers_host::pci::lock_path;
use hcq::transport::Machine;

use crate::bus::{OnBus, on_bus};
use crate::look::Metrics;

/// Processes with queues, by their numbers.
const KFD_PROCESSES: &str = "/sys/class/kfd/kfd/proc";

/// How a GPU is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It is on the bus.
    Pci,
    /// It is behind a bridge on USB, and known once that is open.
    Usb,
    /// It is a part of the processor.
    Soc,
}

/// A snapshot of a GPU. Unknown values are `None`.
#[derive(Clone, PartialEq, Debug)]
pub struct Gauges {
    /// Its identity and driver.
    pub card: OnBus,
    /// How it is reached.
    pub way: Way,
    /// Whether it is runtime-suspended by its driver.
    pub asleep: bool,
    /// Its name, where the driver knows one.
    pub model: Option<String>,
    /// Bytes of its memory in use.
    pub memory_used: Option<u64>,
    /// Bytes of its memory.
    pub memory_total: Option<u64>,
    /// Part of the time that its engines were at work, in percent.
    pub busy: Option<f64>,
    /// Of its edge, in degrees Celsius.
    pub celsius: Option<f64>,
    /// In watts.
    pub watts: Option<f64>,
    /// What it may take, in watts.
    pub watts_most: Option<f64>,
    /// The clock of its compute units, in MHz.
    pub core_mhz: Option<f64>,
    /// The clock of its memory, in MHz.
    pub memory_mhz: Option<f64>,
    /// Turns of its fan in a minute.
    pub fan_rpm: Option<f64>,
    /// Its link, `16.0 GT/s x16`.
    pub link: Option<String>,
    /// Processes that have it.
    pub users: Vec<User>,
    /// Whether its users are known.
    pub users_known: bool,
}

/// A process that has a GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// Its number.
    pub pid: u32,
    /// Its command, as far as that may be seen.
    pub command: String,
    /// Bytes of the GPU's memory that it has.
    pub memory: Option<u64>,
    /// Its queues on the GPU.
    pub queues: Option<u32>,
}

/// All GPUs of a machine, in the order of the bus; those on none last.
pub(crate) fn read(machine: &dyn Machine) -> Vec<Gauges> {
    let cards = on_bus(machine).into_iter();
    cards
        .map(|card| one(machine, card))
        .chain(adreno::read(machine))
        .collect()
}

impl Gauges {
    /// A card of which nothing else is known.
    pub(crate) fn of(card: OnBus, way: Way) -> Gauges {
        Gauges {
            card,
            way,
            asleep: false,
            model: None,
            memory_used: None,
            memory_total: None,
            busy: None,
            celsius: None,
            watts: None,
            watts_most: None,
            core_mhz: None,
            memory_mhz: None,
            fan_rpm: None,
            link: None,
            users: Vec::new(),
            users_known: false,
        }
    }

    /// Whether the SMU may be asked without a word to anybody: no kernel driver has the card, and no program of ours.
    pub(crate) fn is_free(&self) -> bool {
        self.card.taken().is_none() && self.users_known && self.users.is_empty()
    }

    /// With the SMU's measurements.
    pub(crate) fn measured(&mut self, by: &Metrics) {
        self.busy = Some(by.gfx_percent.into());
        self.celsius = Some(by.edge.unwrap_or(by.hotspot).into());
        self.watts = Some(by.socket_watts.into());
        self.core_mhz = by.gfx_mhz.map(f64::from);
        self.memory_mhz = Some(by.memory_mhz.into());
        self.fan_rpm = by.fan_rpm.map(f64::from);
    }
}

fn one(machine: &dyn Machine, card: OnBus) -> Gauges {
    let folder = format!("/sys/bus/pci/devices/{}", card.address);
    let text = |path: &str| machine.read(path).ok().map(|text| text.trim().to_owned());
    let number = |path: String| text(&path)?.parse::<f64>().ok();
    let bytes = |name: &str| text(&format!("{folder}/{name}"))?.parse().ok();
    // Sensors have a number of their own, which changes from boot to boot.
    let sensors = machine.list(&format!("{folder}/hwmon")).unwrap_or_default();
    let sensors = sensors.into_iter().find(|name| name.starts_with("hwmon"));
    let sensor = |name: &str, unit: f64| {
        let path = format!("{folder}/hwmon/{}/{name}", sensors.as_deref()?);
        Some(number(path)? / unit)
    };
    let width = text(&format!("{folder}/current_link_width"));
    let link = text(&format!("{folder}/current_link_speed")).map(|speed| {
        let speed = speed.trim_end_matches(" PCIe");
        match &width {
            Some(width) => format!("{speed} x{width}"),
            None => speed.into(),
        }
    });
    let (users, users_known) = users(machine, &card);
    let known = Gauges {
        model: model(machine, &card),
        link,
        users,
        users_known,
        ..Gauges::of(card, Way::Pci)
    };
    let status = text(&format!("{folder}/power/runtime_status"));
    if status.as_deref() == Some("suspended") {
        return Gauges {
            asleep: true,
            ..known
        };
    }
    Gauges {
        memory_used: bytes("mem_info_vram_used"),
        memory_total: bytes("mem_info_vram_total"),
        busy: number(format!("{folder}/gpu_busy_percent")),
        celsius: sensor("temp1_input", 1e3),
        // The mean of some time where there is one, else of this moment.
        watts: sensor("power1_average", 1e6).or_else(|| sensor("power1_input", 1e6)),
        watts_most: sensor("power1_cap", 1e6),
        core_mhz: sensor("freq1_input", 1e6),
        memory_mhz: sensor("freq2_input", 1e6),
        fan_rpm: sensor("fan1_input", 1.0),
        ..known
    }
}

/// What NVIDIA's driver calls it.
fn model(machine: &dyn Machine, card: &OnBus) -> Option<String> {
    let path = format!("/proc/driver/nvidia/gpus/{}/information", card.address);
    let text = machine.read(&path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
    Some(line.trim().to_owned())
}

/// Who has a GPU, and whether that can be known.
fn users(machine: &dyn Machine, card: &OnBus) -> (Vec<User>, bool) {
    match card.driver.as_deref() {
        Some("amdgpu") => (of_kfd(machine, &card.address), true),
        None | Some("vfio-pci") => (of_lock(machine, &card.address).into_iter().collect(), true),
        Some(_) => (Vec::new(), false),
    }
}

/// The command of a process, as far as that may be seen.
pub(crate) fn command(machine: &dyn Machine, pid: u32) -> Option<String> {
    let text = machine.read(&format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = text.split('\0').filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        false => Some(words.join(" ")),
        // A thread of the kernel, or a process that is ending.
        true => machine
            .read(&format!("/proc/{pid}/comm"))
            .ok()
            .map(|name| name.trim().to_owned()),
    }
}

/// Processes that KFD has for a GPU.
fn of_kfd(machine: &dyn Machine, address: &str) -> Vec<User> {
    let nodes = topology::nodes(machine).unwrap_or_default();
    let gpu = nodes.iter().find_map(|entry| match entry {
        Entry::Gpu(node) if node.pci() == address => Some(node.gpu_id),
        _ => None,
    });
    let Some(gpu) = gpu else {
        return Vec::new();
    };
    let number = |path: String| machine.read(&path).ok()?.trim().parse::<u64>().ok();
    let mut pids: Vec<u32> = machine
        .list(KFD_PROCESSES)
        .unwrap_or_default()
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    pids.sort_unstable();
    let user = |pid: u32| {
        let folder = format!("{KFD_PROCESSES}/{pid}");
        // A process has the files of all GPUs, whichever it uses.
        let memory = number(format!("{folder}/vram_{gpu}"))?;
        let queues = machine
            .list(&format!("{folder}/queues"))
            .ok()
            .map(|queues| {
                let here = |queue: &&String| {
                    number(format!("{folder}/queues/{queue}/gpuid")) == Some(gpu.into())
                };
                queues.iter().filter(here).count() as u32
            });
        (memory > 0 || queues != Some(0)).then(|| User {
            pid,
            command: command(machine, pid).unwrap_or_else(|| "?".into()),
            memory: Some(memory),
            queues,
        })
    };
    pids.into_iter().filter_map(user).collect()
}

/// The program of ours that drives a card: `PID (COMMAND)` in its lock. The lock is the kernel's, and gone with the
/// program; the text stays.
fn of_lock(machine: &dyn Machine, address: &str) -> Option<User> {
    let text = machine.read(&lock_path(address)).ok()?;
    let (pid, rest) = text.trim().split_once(' ')?;
    let pid = pid.parse().ok()?;
    // A number may have gone to another program.
    let now = command(machine, pid)?;
    let was = rest.strip_prefix('(')?.strip_suffix(')')?;
    (now == was).then_some(User {
        pid,
        command: now,
        memory: None,
        queues: None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use drivers_host::machine::Host;
    use drivers_host::pci::System;

    use super::*;

    /// A machine of files: `PATH = TEXT`, one in a line.
    fn machine(root: &Path, files: &str) -> Vec<Gauges> {
        for line in files.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (path, text) = line.split_once(" =").unwrap();
            let path = root.join(path.trim_start_matches('/'));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text.trim().replace("\\n", "\n").replace("\\0", "\0")).unwrap();
        }
        read(&*Host::at(System::at(root)))
    }

    #[test]
    fn a_card_of_amdgpu_and_who_has_it() {
        let root = tempfile::tempdir().unwrap();
        let all = machine(
            root.path(),
            "/sys/bus/pci/devices/0000:03:00.0/resource = 
             /sys/bus/pci/devices/0000:03:00.0/vendor = 0x1002
             /sys/bus/pci/devices/0000:03:00.0/device = 0x744c
             /sys/bus/pci/devices/0000:03:00.0/class = 0x030000
             /sys/bus/pci/devices/0000:03:00.0/uevent = DRIVER=amdgpu\\n
             /sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total = 25753026560\\n
             /sys/bus/pci/devices/0000:03:00.0/mem_info_vram_used = 1073741824\\n
             /sys/bus/pci/devices/0000:03:00.0/gpu_busy_percent = 97\\n
             /sys/bus/pci/devices/0000:03:00.0/current_link_speed = 16.0 GT/s PCIe\\n
             /sys/bus/pci/devices/0000:03:00.0/current_link_width = 16\\n
             /sys/bus/pci/devices/0000:03:00.0/hwmon/hwmon4/temp1_input = 61000\\n
             /sys/bus/pci/devices/0000:03:00.0/hwmon/hwmon4/power1_average = 287000000\\n
             /sys/bus/pci/devices/0000:03:00.0/hwmon/hwmon4/power1_cap = 339000000\\n
             /sys/bus/pci/devices/0000:03:00.0/hwmon/hwmon4/freq1_input = 2371000000\\n
             /sys/bus/pci/devices/0000:03:00.0/hwmon/hwmon4/freq2_input = 1249000000\\n
             /sys/class/kfd/kfd/topology/nodes/1/gpu_id = 51234\\n
             /sys/class/kfd/kfd/topology/nodes/1/name = navi31\\n
             /sys/class/kfd/kfd/topology/nodes/1/properties = location_id 768\\ndomain 0\\n
             /sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties = heap_type 1\\n
             /sys/class/kfd/kfd/proc/4711/vram_51234 = 536870912\\n
             /sys/class/kfd/kfd/proc/4711/queues/0/gpuid = 51234\\n
             /sys/class/kfd/kfd/proc/4711/queues/1/gpuid = 51234\\n
             /sys/class/kfd/kfd/proc/4711/queues/2/gpuid = 7\\n
             /sys/class/kfd/kfd/proc/4712/vram_7 = 536870912\\n
             /proc/4711/cmdline = python3\\0train.py\\0",
        );
        let [card] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(
            (card.celsius, card.watts, card.watts_most),
            (Some(61.0), Some(287.0), Some(339.0))
        );
        assert_eq!(
            (card.core_mhz, card.memory_mhz),
            (Some(2371.0), Some(1249.0))
        );
        assert_eq!((card.memory_used, card.busy), (Some(1 << 30), Some(97.0)));
        assert_eq!(
            (card.link.as_deref(), card.fan_rpm),
            (Some("16.0 GT/s x16"), None)
        );
        let user = User {
            pid: 4711,
            command: "python3 train.py".into(),
            memory: Some(512 << 20),
            queues: Some(2),
        };
        assert_eq!(card.users, [user]);
    }

    #[test]
    fn the_sensors_of_a_card_that_sleeps_are_not_read() {
        let root = tempfile::tempdir().unwrap();
        let all = machine(
            root.path(),
            "/sys/bus/pci/devices/0000:03:00.0/resource = 
             /sys/bus/pci/devices/0000:03:00.0/vendor = 0x1002
             /sys/bus/pci/devices/0000:03:00.0/device = 0x744c
             /sys/bus/pci/devices/0000:03:00.0/class = 0x030000
             /sys/bus/pci/devices/0000:03:00.0/uevent = DRIVER=amdgpu\\n
             /sys/bus/pci/devices/0000:03:00.0/power/runtime_status = suspended\\n
             /sys/bus/pci/devices/0000:03:00.0/mem_info_vram_used = 1073741824\\n
             /sys/bus/pci/devices/0000:03:00.0/hwmon/hwmon4/temp1_input = 61000\\n",
        );
        assert!(all[0].asleep && all[0].users_known, "{all:?}");
        assert_eq!((all[0].celsius, all[0].memory_used), (None, None));
    }

    #[test]
    fn a_card_without_a_kernel_driver_belongs_to_who_has_its_lock() {
        let root = tempfile::tempdir().unwrap();
        let files = "/sys/bus/pci/devices/0000:03:00.0/resource = 
             /sys/bus/pci/devices/0000:03:00.0/vendor = 0x1002
             /sys/bus/pci/devices/0000:03:00.0/device = 0x744c
             /sys/bus/pci/devices/0000:03:00.0/class = 0x030000
             /run/lock/doorbell-0000:03:00.0.lock = 812 (doorbell demo)\\n";
        let gone = machine(root.path(), files);
        assert!(gone[0].users.is_empty() && gone[0].users_known, "{gone:?}");
        let there = machine(root.path(), "/proc/812/cmdline = doorbell\\0demo\\0");
        assert_eq!(there[0].users[0].command, "doorbell demo");
        let other = machine(root.path(), "/proc/812/cmdline = bash\\0");
        assert!(other[0].users.is_empty(), "{other:?}");
    }
}
