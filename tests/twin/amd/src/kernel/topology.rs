//! The sysfs files of a machine: KFD's topology, and those of each GPU's PCI device.
//!
//! Names and order of properties: Linux 6.12, amdkfd/kfd_topology.c, `node_show` and its siblings; of
//! the IP discovery tree: amdgpu/amdgpu_discovery.c; of the rest: amdgpu/amdgpu_vram_mgr.c,
//! amdgpu/amdgpu_pm.c. Values of links and caches: amdkfd/kfd_crat.c.

use std::fmt::Write as _;

use twin_shader::isa::Gen;

use crate::chip::Chip;
use crate::config::{Bar, Config, Version};

use super::gauges::PROCESSES;
use super::tree::{Live, Node, Own, Sensor, Tree};

const NODES: &str = "/sys/devices/virtual/kfd/kfd/topology/nodes";
/// The render node of the first GPU.
pub const FIRST_MINOR: u32 = 128;
/// What the CPU sees of VRAM on a small BAR.
pub const SMALL_BAR: u64 = 256 << 20;

/// Where a GPU sits, and what the kernel calls it.
#[derive(Clone, Debug)]
pub struct Place {
    /// PCI bus.
    pub bus: u32,
    /// Minor number of the render node.
    pub minor: u32,
    /// The kernel's number for it: a hash of where it sits and what it is.
    pub gpu_id: u32,
    /// A number of its own.
    pub unique_id: u64,
}

/// AMD.
const VENDOR: u32 = 0x1002;
/// The board of AMD's own design, as vendor and device.
const SUBSYSTEM: (u32, u32) = (0x1002, 0x0e3b);

impl Place {
    /// Places for all GPUs.
    pub fn all(config: &Config) -> Vec<Self> {
        let mut places: Vec<Self> = Vec::new();
        for index in 0..config.gpus as u32 {
            // Each GPU is behind two bridges of its own.
            let bus = 3 * (index + 1);
            let mut gpu_id = gpu_id(config, bus);
            while gpu_id == 0 || places.iter().any(|place| place.gpu_id == gpu_id) {
                gpu_id = (gpu_id + 1) & 0xffff;
            }
            places.push(Self {
                bus,
                minor: FIRST_MINOR + index,
                gpu_id,
                unique_id: 0xa1fe_0b52_7d3c_0000 + u64::from(bus),
            });
        }
        places
    }

    /// `location_id`: bus, device and function.
    pub fn location(&self) -> u32 {
        self.bus << 8
    }

    /// The PCI address.
    pub fn pci(&self) -> String {
        format!("0000:{:02x}:00.0", self.bus)
    }
}

/// The kernel's hash. Source: Linux, amdkfd/kfd_topology.c, `kfd_generate_gpu_id`: eight words of
/// facts, until 6.9 by `hash_32` of each, then by crc16 of all.
fn gpu_id(config: &Config, bus: u32) -> u32 {
    let chip = config.chip;
    let words = [
        0,
        SUBSYSTEM.0 | SUBSYSTEM.1 << 16,
        0,
        u32::from(chip.device_id),
        bus,
        config.vram as u32,
        (config.vram >> 32) as u32,
        // The first XCC is number 0.
        chip.xccs << 16,
    ];
    if config.kernel < Version::Linux6_12 {
        return words
            .iter()
            .fold(0, |hash, word| hash ^ word.wrapping_mul(0x61c8_8647) >> 16);
    }
    let mut crc = 0u16;
    for byte in words.iter().flat_map(|word| word.to_le_bytes()) {
        crc ^= u16::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xa001
            } else {
                crc >> 1
            };
        }
    }
    u32::from(crc)
}

/// All files of a machine.
pub fn files(config: &Config, places: &[Place]) -> Tree {
    let mut tree = Tree::default();
    tree.add("/dev/kfd", Node::Own(Own::Kfd));
    tree.add(
        "/sys/class/kfd/kfd",
        Node::Link("/sys/devices/virtual/kfd/kfd".into()),
    );
    tree.add(PROCESSES, Node::Folder);
    let topology = "/sys/devices/virtual/kfd/kfd/topology";
    tree.text(&format!("{topology}/generation_id"), 1 + places.len());
    tree.text(
        &format!("{topology}/system_properties"),
        "platform_oem 2314885531223470915\nplatform_id 0\nplatform_rev 1",
    );
    tree.text("/sys/module/amdgpu/initstate", "live");
    tree.text("/sys/module/amdgpu/refcnt", 0);
    tree.add("/sys/module/amdgpu/holders", Node::Folder);
    tree.text(
        "/proc/modules",
        "amdgpu 19820544 0 - Live 0x0000000000000000",
    );
    tree.text("/sys/module/amdgpu/parameters/ppfeaturemask", "0xfff7bfff");
    tree.text("/sys/module/amdgpu/parameters/noretry", "-1");
    tree.text("/sys/module/amdgpu/parameters/cwsr_enable", "1");
    cpu_node(&mut tree, config, places);
    for (index, place) in places.iter().enumerate() {
        gpu_node(&mut tree, config, places, index);
        device(&mut tree, config, place, index);
    }
    tree
}

/// Lines of `name value`.
#[derive(Default)]
struct Properties(String);

impl Properties {
    fn set(mut self, name: &str, value: impl Into<u64>) -> Self {
        let _ = writeln!(self.0, "{name} {}", value.into());
        self
    }

    fn add(self, tree: &mut Tree, folder: &str) {
        tree.add(
            &format!("{folder}/properties"),
            Node::Text(self.0.into_bytes()),
        );
    }
}

/// A link between nodes. Types as in HSA: 2 is PCIe, 11 is XGMI.
fn link(from: u64, to: u64, xgmi: bool, weight: u64, flags: u64) -> Properties {
    Properties::default()
        .set("type", if xgmi { 11u64 } else { 2 })
        .set("version_major", 0u64)
        .set("version_minor", 0u64)
        .set("node_from", from)
        .set("node_to", to)
        .set("weight", weight)
        .set("min_latency", 0u64)
        .set("max_latency", 0u64)
        .set("min_bandwidth", if xgmi { 50_000u64 } else { 312 })
        .set("max_bandwidth", if xgmi { 50_000u64 } else { 31_504 })
        .set("recommended_transfer_size", 0u64)
        .set("recommended_sdma_engine_id_mask", 0u64)
        .set("flags", flags)
}

fn memory_bank(heap: u64, bytes: u64, width: u32, mhz: u32) -> Properties {
    Properties::default()
        .set("heap_type", heap)
        .set("size_in_bytes", bytes)
        .set("flags", 0u64)
        .set("width", width)
        .set("mem_clk_max", mhz)
}

fn cpu_node(tree: &mut Tree, config: &Config, places: &[Place]) {
    let node = format!("{NODES}/0");
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    tree.text(&format!("{node}/gpu_id"), 0);
    tree.text(&format!("{node}/name"), "");
    for folder in ["caches", "io_links", "mem_banks", "p2p_links", "perf"] {
        tree.add(&format!("{node}/{folder}"), Node::Folder);
    }
    let mut properties = Properties::default()
        .set("cpu_cores_count", cores)
        .set("simd_count", 0u64)
        .set("mem_banks_count", 1u64)
        .set("caches_count", 0u64)
        .set("io_links_count", places.len() as u64);
    for name in [
        "p2p_links_count",
        "cpu_core_id_base",
        "simd_id_base",
        "max_waves_per_simd",
        "lds_size_in_kb",
        "gds_size_in_kb",
        "num_gws",
        "wave_front_size",
        "array_count",
        "simd_arrays_per_engine",
        "cu_per_simd_array",
        "simd_per_cu",
        "max_slots_scratch_cu",
        "gfx_target_version",
        "vendor_id",
        "device_id",
        "location_id",
        "domain",
        "drm_render_minor",
        "hive_id",
        "num_sdma_engines",
        "num_sdma_xgmi_engines",
        "num_sdma_queues_per_engine",
        "num_cp_queues",
    ] {
        properties = properties.set(name, 0u64);
    }
    properties
        .set("max_engine_clk_ccompute", 4000u64)
        .add(tree, &node);
    memory_bank(0, config.gtt * 2, 64, 3200).add(tree, &format!("{node}/mem_banks/0"));
    for index in 0..places.len() as u64 {
        link(0, index + 1, false, 20, 13).add(tree, &format!("{node}/io_links/{index}"));
    }
}

fn gpu_node(tree: &mut Tree, config: &Config, places: &[Place], index: usize) {
    let (chip, place) = (config.chip, &places[index]);
    let number = index as u64 + 1;
    let node = format!("{NODES}/{number}");
    tree.text(&format!("{node}/gpu_id"), place.gpu_id);
    tree.text(&format!("{node}/name"), chip.node_name);
    for folder in ["caches", "io_links", "mem_banks", "p2p_links", "perf"] {
        tree.add(&format!("{node}/{folder}"), Node::Folder);
    }
    link(number, 0, false, 20, 1).add(tree, &format!("{node}/io_links/0"));
    let (mut io_links, mut p2p_links) = (1u64, 0u64);
    for peer in (1..=places.len() as u64).filter(|&peer| peer != number) {
        if chip.xgmi {
            link(number, peer, true, 15, 1).add(tree, &format!("{node}/io_links/{io_links}"));
            io_links += 1;
        } else if config.bar == Bar::Large {
            // Peers reach VRAM through the BAR: only a large one.
            link(number, peer, false, 40, 1).add(tree, &format!("{node}/p2p_links/{p2p_links}"));
            p2p_links += 1;
        }
    }
    // heap_type 1 is VRAM that the CPU sees, 2 is VRAM that it does not.
    let heap = if config.bar == Bar::Large { 1 } else { 2 };
    memory_bank(heap, config.vram, chip.vram_bits, chip.memory_mhz)
        .add(tree, &format!("{node}/mem_banks/0"));
    let caches = caches(tree, &node, chip);
    let sizes = chip.queue_sizes();
    let mut properties = Properties::default()
        .set("cpu_cores_count", 0u64)
        .set("simd_count", chip.all_cus() * chip.simds)
        .set("mem_banks_count", 1u64)
        .set("caches_count", caches)
        .set("io_links_count", io_links)
        .set("p2p_links_count", p2p_links)
        .set("cpu_core_id_base", 0u64)
        .set("simd_id_base", 0x8000_1000u64 + 0x100 * index as u64)
        .set("max_waves_per_simd", chip.waves)
        .set("lds_size_in_kb", chip.lds_kib)
        .set("gds_size_in_kb", 0u64)
        .set("num_gws", 64u64)
        .set("wave_front_size", chip.wave_front_size())
        .set("array_count", chip.engines * chip.arrays * chip.xccs)
        .set("simd_arrays_per_engine", chip.arrays)
        .set("cu_per_simd_array", chip.cus_per_array)
        .set("simd_per_cu", chip.simds)
        .set("max_slots_scratch_cu", chip.scratch_slots)
        .set(
            "gfx_target_version",
            config.target.unwrap_or(chip.target_version),
        )
        .set("vendor_id", VENDOR)
        .set("device_id", chip.device_id)
        .set("location_id", place.location())
        .set("domain", 0u64)
        .set("drm_render_minor", place.minor)
        .set("hive_id", if chip.xgmi { 0x5a17_c0de_0001u64 } else { 0 })
        .set("num_sdma_engines", chip.sdma_engines)
        .set("num_sdma_xgmi_engines", chip.sdma_xgmi_engines)
        .set(
            "num_sdma_queues_per_engine",
            chip.sdma_queues - chip.sdma_reserved,
        )
        .set("num_cp_queues", chip.cp_queues);
    if config.kernel >= Version::Linux6_12 {
        // Published since Linux 6.12 or a little later; clients that do not know them skip them.
        properties = properties
            .set("cwsr_size", sizes.context)
            .set("ctl_stack_size", sizes.ctl_stack);
    }
    properties
        .set("max_engine_clk_fcompute", chip.engine_mhz)
        .set("local_mem_size", 0u64)
        .set("fw_version", chip.mec_firmware)
        .set("capability", chip.capability)
        .set("debug_prop", chip.debug_prop)
        .set("sdma_fw_version", chip.sdma_firmware)
        .set("unique_id", place.unique_id)
        .set("num_xcc", chip.xccs)
        .set("max_engine_clk_ccompute", 4000u64)
        .add(tree, &node);
}

/// A kind of cache: KiB, level, line in bytes, type (1 data, 2 instructions, 8 of a CU), and how many
/// compute units share one.
struct Cache {
    kib: u32,
    level: u64,
    line: u64,
    kind: u64,
    shared: u32,
}

fn caches(tree: &mut Tree, node: &str, chip: &Chip) -> u64 {
    let rdna = chip.wave_front_size() == 32;
    let (line, pair) = (if rdna { 128 } else { 64 }, 2);
    let of_cu = |kib, level, line, kind, shared| Cache {
        kib,
        level,
        line,
        kind,
        shared,
    };
    let mut kinds = vec![
        of_cu(chip.tcp_kib(), 1, line, 9, 1),
        of_cu(if rdna { 32 } else { 64 }, 1, 64, 10, pair),
        of_cu(16, 1, 64, 9, pair),
    ];
    if chip.gl1_kib() > 0 {
        // The kernel calls it another cache of level 1.
        kinds.push(of_cu(chip.gl1_kib(), 1, line, 9, chip.cus_per_array));
    }
    kinds.push(of_cu(chip.l2_kib, 2, line, 9, chip.cus));
    if chip.l3_kib > 0 {
        kinds.push(of_cu(chip.l3_kib, 3, 64, 9, chip.all_cus()));
    }
    let mut number = 0;
    for Cache {
        kib,
        level,
        line,
        kind,
        shared,
    } in kinds
    {
        for first in (0..chip.all_cus()).step_by(shared as usize) {
            let map: Vec<_> = (0..shared.min(chip.all_cus() - first))
                .map(|_| "1")
                .collect();
            let folder = format!("{node}/caches/{number}");
            let mut text = Properties::default()
                .set("processor_id_low", 0x8000_1000u64 + u64::from(first))
                .set("level", level)
                .set("size", kib)
                .set("cache_line_size", line)
                .set("cache_lines_per_tag", 1u64)
                .set("association", 16u64)
                .set("latency", 1u64)
                .set("type", kind);
            let _ = writeln!(text.0, "sibling_map {}", map.join(","));
            text.add(tree, &folder);
            number += 1;
        }
    }
    number
}

/// Register bases of a block, dwords. Source: the `*_BASE__INST0_SEG*` of Linux,
/// drivers/gpu/drm/amd/include (navi10_ip_offset.h, vega20_ip_offset.h and their successors).
fn bases(hardware_id: u32, chip: &Chip) -> &'static [u32] {
    let rdna = chip.wave_front_size() == 32;
    match (hardware_id, rdna) {
        (108, true) => &[0, 0x14, 0xd20, 0x10400, 0x241_b000, 0x404_0000],
        (108, false) => &[0, 0x14, 0xd20, 0x10400],
        (_, true) => &[0x1260, 0xa000, 0x1c000, 0x240_2c00],
        (42, false) => &[0x1260],
        (_, false) => &[0x2000, 0xa000],
    }
}

/// The windows of a card: VRAM, doorbells, registers. Where they are is of this model's choice.
fn resource(index: usize, visible: u64) -> String {
    const WINDOW: u64 = 1 << 40;
    let prefetched = 0x14_220c;
    let rows = [
        (visible.next_power_of_two(), prefetched),
        (0, 0),
        (256 << 20, prefetched),
        (0, 0),
        (0, 0),
        (1 << 20, 0x4_0200),
    ];
    let mut start = WINDOW * (index as u64 + 1);
    let lines = rows.map(|(bytes, flags)| match bytes {
        0 => format!("{0:#018x} {0:#018x} {0:#018x}", 0),
        _ => {
            start = start.next_multiple_of(bytes) + bytes;
            format!("{:#018x} {:#018x} {flags:#018x}", start - bytes, start - 1)
        }
    });
    lines.join("\n")
}

/// What amdgpu shows of a card's sensors. Server cards have no fan of their own.
fn sensors(tree: &mut Tree, config: &Config, device: &str, index: usize) {
    let live = |sensor| Node::Own(Own::Live(Live::Sensor(index, sensor)));
    tree.add(&format!("{device}/gpu_busy_percent"), live(Sensor::Busy));
    let hwmon = format!("{device}/hwmon/hwmon{}", index + 3);
    tree.text(&format!("{hwmon}/name"), "amdgpu");
    tree.text(&format!("{hwmon}/power1_cap"), 339_000_000);
    for (name, sensor) in [
        ("temp1_input", Sensor::Edge),
        ("power1_average", Sensor::Power),
        ("freq1_input", Sensor::Shaders),
        ("freq2_input", Sensor::Memory),
        ("fan1_input", Sensor::Fan),
    ] {
        if sensor != Sensor::Fan || config.chip.generation != Gen::Cdna3 {
            tree.add(&format!("{hwmon}/{name}"), live(sensor));
        }
    }
}

/// The blocks of a chip.
fn discovery(tree: &mut Tree, chip: &Chip, device: &str) {
    for (hardware_id, name, version, instances) in [
        (11, "GC", chip.gc, chip.xccs),
        (42, "SDMA0", chip.sdma, chip.sdma_engines.max(1)),
        (108, "NBIF", chip.nbif, 1),
    ] {
        let die = format!("{device}/ip_discovery/die/0");
        tree.add(
            &format!("{die}/{name}"),
            Node::Link(hardware_id.to_string()),
        );
        for instance in 0..instances {
            let folder = format!("{die}/{hardware_id}/{instance}");
            for (part, value) in ["major", "minor", "revision"].iter().zip(version) {
                tree.text(&format!("{folder}/{part}"), value);
            }
            let bases = bases(hardware_id, chip);
            let lines: Vec<_> = bases.iter().map(|base| format!("0x{base:08X}")).collect();
            tree.text(&format!("{folder}/base_addr"), lines.join("\n"));
            tree.text(&format!("{folder}/num_base_addresses"), bases.len());
            tree.text(&format!("{folder}/hw_id"), hardware_id);
            tree.text(&format!("{folder}/num_instance"), instance);
            tree.text(&format!("{folder}/harvest"), "0x0");
        }
    }
    tree.text(&format!("{device}/ip_discovery/die/num_dies"), 1);
}

fn device(tree: &mut Tree, config: &Config, place: &Place, index: usize) {
    let (chip, minor) = (config.chip, place.minor);
    let device = format!("/sys/devices/pci0000:00/{}", place.pci());
    let visible = match config.bar {
        Bar::Large => config.vram,
        Bar::Small => config.vram.min(SMALL_BAR),
    };
    for (name, value) in [
        ("vendor", VENDOR),
        ("device", u32::from(chip.device_id)),
        ("subsystem_vendor", SUBSYSTEM.0),
        ("subsystem_device", SUBSYSTEM.1),
    ] {
        tree.text(&format!("{device}/{name}"), format_args!("{value:#06x}"));
    }
    tree.text(
        &format!("{device}/revision"),
        format_args!("{:#04x}", chip.pci_revision),
    );
    tree.text(&format!("{device}/class"), "0x030000");
    tree.text(&format!("{device}/numa_node"), -1);
    tree.text(
        &format!("{device}/unique_id"),
        format_args!("{:016x}", place.unique_id),
    );
    tree.text(
        &format!("{device}/power_dpm_force_performance_level"),
        "profile_standard",
    );
    tree.text(&format!("{device}/mem_info_vram_total"), config.vram);
    tree.add(
        &format!("{device}/mem_info_vram_used"),
        Node::Own(Own::Live(Live::VramUsed(index))),
    );
    tree.text(&format!("{device}/mem_info_vis_vram_total"), visible);
    tree.text(&format!("{device}/mem_info_gtt_total"), config.gtt);
    tree.add(
        &format!("{device}/mem_info_gtt_used"),
        Node::Own(Own::Live(Live::GttUsed)),
    );
    sensors(tree, config, &device, index);
    tree.text(&format!("{device}/resource"), resource(index, visible));
    tree.text(&format!("{device}/current_link_speed"), "16.0 GT/s PCIe");
    tree.text(&format!("{device}/current_link_width"), 16);
    // Of cards that have partitions (amdgpu_gfx.c, amdgpu_gfx_sysfs_xcp_init: an xcp_mgr).
    if chip.wave_front_size() == 64 {
        tree.text(
            &format!("{device}/current_compute_partition"),
            match chip.xccs {
                8 => "SPX",
                4 => "DPX",
                2 => "QPX",
                _ => "CPX",
            },
        );
    }
    let text = format!(
        "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:{:04X}\nPCI_SUBSYS_ID={:04X}:{:04X}\nPCI_SLOT_NAME={}",
        chip.device_id,
        SUBSYSTEM.0,
        SUBSYSTEM.1,
        place.pci(),
    );
    tree.text(&format!("{device}/uevent"), text);
    discovery(tree, chip, &device);
    for name in [
        format!("renderD{minor}"),
        format!("card{}", minor - FIRST_MINOR),
    ] {
        let folder = format!("{device}/drm/{name}");
        tree.add(&format!("{folder}/device"), Node::Link(device.clone()));
        tree.add(&format!("/sys/class/drm/{name}"), Node::Link(folder));
    }
    tree.add(
        &format!("/sys/bus/pci/devices/{}", place.pci()),
        Node::Link(device.clone()),
    );
    tree.add(
        &format!("/sys/bus/pci/drivers/amdgpu/{}", place.pci()),
        Node::Link(device.clone()),
    );
    tree.add(
        &format!("/sys/dev/char/226:{minor}/device"),
        Node::Link(device),
    );
    tree.add(
        &format!("/dev/dri/renderD{minor}"),
        Node::Own(Own::Render(index)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(tree: &Tree, path: &str) -> String {
        match tree.find(path) {
            Some(Node::Text(text)) => String::from_utf8(text.clone()).unwrap(),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn a_gfx1100_looks_like_one() {
        let config = Config::parse("gpus=6").unwrap();
        let places = Place::all(&config);
        let tree = files(&config, &places);
        assert_eq!(tree.list("/sys/class/kfd/kfd/topology/nodes").len(), 7);
        let node = "/sys/devices/virtual/kfd/kfd/topology/nodes/1";
        let properties = text(&tree, &format!("{node}/properties"));
        for line in [
            "simd_count 192",
            "caches_count 206",
            "io_links_count 1",
            "p2p_links_count 5",
            "array_count 12",
            "cu_per_simd_array 8",
            "gfx_target_version 110000",
            "device_id 29772",
            "num_sdma_queues_per_engine 6",
            "drm_render_minor 128",
            "num_xcc 1",
        ] {
            assert!(
                properties.lines().any(|l| l == line),
                "{line} in {properties}"
            );
        }
        assert_eq!(tree.list(&format!("{node}/caches")).len(), 206);
        let gpu_id: u32 = text(&tree, &format!("{node}/gpu_id"))
            .trim()
            .parse()
            .unwrap();
        assert_eq!(gpu_id, places[0].gpu_id);
        assert!(gpu_id > 256);
        let die = "/sys/class/drm/renderD128/device/ip_discovery/die/0";
        assert_eq!(text(&tree, &format!("{die}/11/0/major")), "11\n");
        assert_eq!(text(&tree, &format!("{die}/NBIF/0/minor")), "3\n");
        assert!(
            text(&tree, &format!("{die}/11/0/base_addr")).starts_with("0x00001260\n0x0000A000\n")
        );
        assert_eq!(
            tree.find("/dev/dri/renderD133"),
            Some(&Node::Own(Own::Render(5)))
        );
    }

    /// As amdkfd/kfd_crat.c lists them (`sienna_cichlid_cache_info`, and from the facts of the chip).
    #[test]
    fn caches_are_the_kernels() {
        let caches = |config: &str| {
            let config = Config::parse(config).unwrap();
            let places = Place::all(&config);
            let tree = files(&config, &places);
            let folder = "/sys/devices/virtual/kfd/kfd/topology/nodes/1/caches";
            let field = |text: &str, name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap().trim().parse::<u32>().unwrap()
            };
            let mut found: Vec<_> = (0..tree.list(folder).len())
                .map(|i| text(&tree, &format!("{folder}/{i}/properties")))
                .map(|text| ["level", "size", "type"].map(|name| field(&text, name)))
                .collect();
            found.dedup();
            found
        };
        assert_eq!(
            caches("chip=gfx1030"),
            [
                [1, 16, 9],
                [1, 32, 10],
                [1, 16, 9],
                [1, 128, 9],
                [2, 4096, 9],
                [3, 128 << 10, 9]
            ]
        );
        assert_eq!(
            caches("chip=gfx1100")[3..],
            [[1, 256, 9], [2, 6144, 9], [3, 96 << 10, 9]]
        );
        assert_eq!(caches("chip=gfx942,xcc=1").last(), Some(&[3, 256 << 10, 9]));
    }

    #[test]
    fn crc16_is_the_kernels() {
        // The check value of CRC-16/ARC, which is Linux' crc16.
        let mut crc = 0u16;
        for byte in b"123456789" {
            crc ^= u16::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 {
                    crc >> 1 ^ 0xa001
                } else {
                    crc >> 1
                };
            }
        }
        assert_eq!(crc, 0xbb3d);
        let ids = |text| {
            Place::all(&Config::parse(text).unwrap())
                .iter()
                .map(|p| p.gpu_id)
                .collect::<Vec<_>>()
        };
        let (new, old) = (ids("gpus=16"), ids("gpus=16,kernel=6.8"));
        assert_ne!(new, old);
        for ids in [new, old] {
            assert!(ids.iter().all(|&id| id > 0 && id <= 0xffff));
            let mut unique = ids.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), 16);
        }
    }
}
