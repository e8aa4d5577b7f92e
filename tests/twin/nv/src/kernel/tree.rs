//! The files that the machine has: devices, and the texts beside them.
//!
//! Source: open-gpu-kernel-modules 580.142, kernel-open/nvidia/nv-procfs.c, kernel-open/common/inc/nv.h
//! (numbers of devices); Linux, Documentation/ABI/testing/sysfs-bus-pci.

use twin::tree::Device;

use crate::chip::Chip;
use crate::config::Config;
use crate::errno::Errno;
use crate::rm::bars;

/// What a path is.
pub type Node = twin::tree::Node<Own>;

/// All files.
pub(super) type Tree = twin::tree::Nodes<Own>;

/// A device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// `/dev/nvidiactl`.
    Ctl,
    /// `/dev/nvidiaN`.
    Gpu(usize),
    /// `/dev/nvidia-uvm`.
    Uvm,
}

impl Own {
    /// With the numbers that the system knows it by.
    pub fn device(self) -> twin::tree::Node {
        let (major, minor) = match self {
            Own::Ctl => (MAJOR, 255),
            Own::Gpu(gpu) => (MAJOR, gpu as u32),
            Own::Uvm => (UVM_MAJOR, 0),
        };
        twin::tree::Node::Own(Device { major, minor })
    }
}

/// `NV_MAJOR_DEVICE_NUMBER`.
const MAJOR: u32 = 195;
/// The kernel chooses it; `/proc/devices` tells.
const UVM_MAJOR: u32 = 235;

/// NVIDIA's module.
const NVIDIA: &str = "nvidia";

/// The bus that a GPU has to itself.
pub(crate) fn bus(gpu: usize) -> u8 {
    gpu as u8 + 1
}

/// Where a GPU is on PCI.
fn place(gpu: usize) -> String {
    format!("0000:{:02x}:00.0", bus(gpu))
}

/// The BARs of a GPU: registers, memory.
fn resource(chip: &Chip, gpu: usize) -> Vec<String> {
    let flags = [RESOURCE_MEM, RESOURCE_MEM | RESOURCE_PREFETCH];
    let bars = bars(chip, gpu).into_iter().zip(flags);
    let line = |((start, bytes), flags): ((u64, u64), u64)| {
        let end = start + bytes - 1;
        format!("{start:#018x} {end:#018x} {flags:#018x}")
    };
    bars.map(line).collect()
}

/// `IORESOURCE_MEM`, `IORESOURCE_PREFETCH` of Linux.
const RESOURCE_MEM: u64 = 0x200;
const RESOURCE_PREFETCH: u64 = 0x2000;

/// All files of a machine.
pub(super) fn files(config: &Config) -> Tree {
    let mut tree = Tree::default();
    if config.module.bound() == Some(NVIDIA) {
        driver(&mut tree, config);
    }
    for (gpu, chip) in config.chips.iter().enumerate() {
        let place = place(gpu);
        let pci = format!("/sys/bus/pci/devices/{place}");
        let device = format_args!("{:#06x}", chip.device_id);
        let class = format_args!("{:#08x}", chip.pci_class);
        tree.text(&format!("{pci}/vendor"), "0x10de");
        tree.text(&format!("{pci}/device"), device);
        tree.text(&format!("{pci}/class"), class);
        tree.text(&format!("{pci}/numa_node"), "-1");
        tree.text(&format!("{pci}/resource"), resource(chip, gpu).join("\n"));
        let bound = config.module.bound();
        let driver = bound.map_or(String::new(), |name| format!("DRIVER={name}\n"));
        let uevent = format_args!("{driver}PCI_SLOT_NAME={place}");
        tree.text(&format!("{pci}/uevent"), uevent);
    }
    if let Some(name) = config.module.bound() {
        tree.text(&format!("/sys/module/{name}/initstate"), "live");
    }
    tree.retain(|path| config.refused(path) != Some(Errno::ENOENT));
    tree
}

/// What the driver adds to the machine.
fn driver(tree: &mut Tree, config: &Config) {
    tree.add("/dev/nvidiactl", Node::Own(Own::Ctl));
    tree.add("/dev/nvidia-uvm", Node::Own(Own::Uvm));
    let (title, version) = (config.module.title(), &config.driver);
    tree.text(
        "/proc/driver/nvidia/version",
        format_args!("NVRM version: {title}  {version}  Release Build"),
    );
    tree.text("/sys/module/nvidia/version", version);
    // The daemon that keeps GPUs awake.
    tree.add("/run/nvidia-persistenced", Node::Folder);
    tree.text(
        "/proc/devices",
        "Character devices:\n195 nvidia\n195 nvidiactl\n235 nvidia-uvm",
    );
    for (gpu, chip) in config.chips.iter().enumerate() {
        tree.add(&format!("/dev/nvidia{gpu}"), Node::Own(Own::Gpu(gpu)));
        let place = place(gpu);
        let product = chip.product;
        tree.text(
            &format!("/proc/driver/nvidia/gpus/{place}/information"),
            format_args!(
                "Model: \t\t {product}\nBus Type: \t PCIe\nBus Location: \t {place}\nDevice Minor: \t {gpu}"
            ),
        );
    }
}
