//! The files that the machine has: devices, and the texts beside them.
//!
//! Source: open-gpu-kernel-modules 580.142, kernel-open/nvidia/nv-procfs.c, kernel-open/common/inc/nv.h
//! (numbers of devices); Linux, Documentation/ABI/testing/sysfs-bus-pci.

use std::collections::BTreeMap;

use crate::chip::Chip;
use crate::config::Config;
use crate::errno::Errno;
use crate::rm::bars;

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A folder.
    Folder,
    /// What is read.
    Text(Vec<u8>),
    /// `/dev/nvidiactl`.
    Ctl,
    /// `/dev/nvidiaN`.
    Gpu(usize),
    /// `/dev/nvidia-uvm`.
    Uvm,
}

impl Node {
    /// The numbers of a device.
    pub fn device(&self) -> Option<(u32, u32)> {
        match *self {
            Node::Folder | Node::Text(_) => None,
            Node::Ctl => Some((MAJOR, 255)),
            Node::Gpu(gpu) => Some((MAJOR, gpu as u32)),
            Node::Uvm => Some((UVM_MAJOR, 0)),
        }
    }
}

/// `NV_MAJOR_DEVICE_NUMBER`.
const MAJOR: u32 = 195;
/// The kernel chooses it; `/proc/devices` tells.
const UVM_MAJOR: u32 = 235;

/// NVIDIA's module.
const NVIDIA: &str = "nvidia";

/// All files, by path.
pub(super) struct Tree(BTreeMap<String, Node>);

/// The bus that a GPU has to itself.
pub(crate) fn bus(gpu: usize) -> u8 {
    gpu as u8 + 1
}

/// Where a GPU is on PCI.
fn place(gpu: usize) -> String {
    format!("0000:{:02x}:00.0", bus(gpu))
}

/// The BARs of a GPU: registers, memory.
fn resource(chip: &Chip, gpu: usize) -> String {
    let mut lines = String::new();
    let flags = [RESOURCE_MEM, RESOURCE_MEM | RESOURCE_PREFETCH];
    for ((start, bytes), flags) in bars(chip, gpu).into_iter().zip(flags) {
        let end = start + bytes - 1;
        lines += &format!("{start:#018x} {end:#018x} {flags:#018x}\n");
    }
    lines
}

/// `IORESOURCE_MEM`, `IORESOURCE_PREFETCH` of Linux.
const RESOURCE_MEM: u64 = 0x200;
const RESOURCE_PREFETCH: u64 = 0x2000;

impl Tree {
    pub(super) fn new(config: &Config) -> Tree {
        let mut tree = Tree(BTreeMap::new());
        if config.module.bound() == Some(NVIDIA) {
            tree.driver(config);
        }
        for (gpu, chip) in config.chips.iter().enumerate() {
            let place = place(gpu);
            let pci = format!("/sys/bus/pci/devices/{place}");
            tree.text(&format!("{pci}/vendor"), "0x10de\n".into());
            let device = format!("{:#06x}\n", chip.device_id);
            tree.text(&format!("{pci}/device"), device);
            let class = format!("{:#08x}\n", chip.pci_class);
            tree.text(&format!("{pci}/class"), class);
            tree.text(&format!("{pci}/numa_node"), "-1\n".into());
            tree.text(&format!("{pci}/resource"), resource(chip, gpu));
            let bound = config.module.bound();
            let driver = bound.map_or(String::new(), |name| format!("DRIVER={name}\n"));
            let uevent = format!("{driver}PCI_SLOT_NAME={place}\n");
            tree.text(&format!("{pci}/uevent"), uevent);
        }
        if let Some(name) = config.module.bound() {
            tree.text(&format!("/sys/module/{name}/initstate"), "live\n".into());
        }
        let gone = |path: &str| config.refused(path) == Some(Errno(libc::ENOENT));
        tree.0.retain(|path, _| !gone(path));
        tree
    }

    /// What the driver adds to the machine.
    fn driver(&mut self, config: &Config) {
        self.add("/dev/nvidiactl", Node::Ctl);
        self.add("/dev/nvidia-uvm", Node::Uvm);
        let (title, version) = (config.module.title(), &config.driver);
        self.text(
            "/proc/driver/nvidia/version",
            format!("NVRM version: {title}  {version}  Release Build\n"),
        );
        self.text("/sys/module/nvidia/version", format!("{version}\n"));
        // The daemon that keeps GPUs awake.
        self.add("/run/nvidia-persistenced", Node::Folder);
        self.text(
            "/proc/devices",
            "Character devices:\n195 nvidia\n195 nvidiactl\n235 nvidia-uvm\n".into(),
        );
        for (gpu, chip) in config.chips.iter().enumerate() {
            self.add(&format!("/dev/nvidia{gpu}"), Node::Gpu(gpu));
            let place = place(gpu);
            let information = format!(
                "Model: \t\t {}\nBus Type: \t PCIe\nBus Location: \t {place}\nDevice Minor: \t {gpu}\n",
                chip.product
            );
            self.text(
                &format!("/proc/driver/nvidia/gpus/{place}/information"),
                information,
            );
        }
    }

    fn text(&mut self, path: &str, text: String) {
        self.add(path, Node::Text(text.into_bytes()));
    }

    fn add(&mut self, path: &str, node: Node) {
        let mut end = path.len();
        while let Some(slash) = path[..end].rfind('/').filter(|&slash| slash > 0) {
            end = slash;
            self.0.entry(path[..end].into()).or_insert(Node::Folder);
        }
        self.0.insert(path.into(), node);
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(path, node)| (path.as_str(), node))
    }

    pub(super) fn find(&self, path: &str) -> Option<&Node> {
        self.0.get(path.trim_end_matches('/'))
    }

    /// The names in a folder.
    pub(super) fn list(&self, folder: &str) -> Vec<String> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let below = self.0.range(prefix.clone()..);
        let inside = below.take_while(|(path, _)| path.starts_with(&prefix));
        let names = inside.map(|(path, _)| &path[prefix.len()..]);
        names
            .filter(|name| !name.contains('/'))
            .map(str::to_owned)
            .collect()
    }
}
