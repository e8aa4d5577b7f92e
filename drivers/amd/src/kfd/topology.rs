//! The nodes of KFD's topology in sysfs.
//!
//! Source of names and meanings: Linux, amdkfd/kfd_topology.c, `node_show`; amdkfd/kfd_crat.c for
//! types of memory banks and links.

use std::collections::BTreeMap;

use hcq::transport::errno::{EACCES, EPERM};
use hcq::transport::{Fault, Machine, TransportError};

use crate::chip::{Units, target_name};

/// The folder of the topology.
pub const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";

/// Memory banks that are VRAM: seen by the CPU (`HSA_MEM_HEAP_TYPE_FB_PUBLIC`), or not
/// (`..._FB_PRIVATE`).
const HEAPS_OF_VRAM: [u64; 2] = [1, 2];

/// `HSA_IOLINKTYPE_PCIEXPRESS` and `HSA_IOLINK_TYPE_XGMI`.
const LINKS_BETWEEN_GPUS: [u64; 2] = [2, 11];

/// EPERM of a device cgroup, EACCES of the files' modes or a security module.
const NOT_FOR_US: [Fault; 2] = [Fault::Errno(EPERM), Fault::Errno(EACCES)];

/// A GPU of the topology.
#[derive(Clone, Debug)]
pub struct Node {
    /// The number of the node; CPUs have numbers as well.
    pub number: u32,
    /// The kernel's number for the GPU, in ioctls.
    pub gpu_id: u32,
    /// The kernel's name of the chip, or `ip discovery`.
    pub name: String,
    /// Bytes of VRAM.
    pub vram: u64,
    /// Whether the CPU can access all VRAM through a large BAR; also true without VRAM.
    pub large_bar: bool,
    /// Nodes of GPUs that a link reaches, over PCIe or XGMI.
    pub peers: Vec<u32>,
    properties: BTreeMap<String, u64>,
}

impl Node {
    /// A line of the node's `properties`; 0 where this kernel has none.
    pub fn property(&self, name: &str) -> u64 {
        self.properties.get(name).copied().unwrap_or(0)
    }

    /// A line of the node's `properties` in 32 bits.
    pub fn number_of(&self, name: &str) -> u32 {
        u32::try_from(self.property(name)).unwrap_or(u32::MAX)
    }

    /// `major * 10000 + minor * 100 + step`.
    pub fn target_version(&self) -> u32 {
        self.number_of("gfx_target_version")
    }

    /// LLVM's name of that version: `gfx90a`, `gfx1100`; empty where the topology does not tell it.
    pub fn arch(&self) -> String {
        match self.target_version() {
            0 => String::new(),
            version => target_name(version),
        }
    }

    /// The first property that opening needs and that `properties` lacks, or has as 0, which
    /// no GPU has.
    pub fn lacks(&self) -> Option<&'static str> {
        const NEEDED: [&str; 4] = [
            "gfx_target_version",
            "drm_render_minor",
            "simd_count",
            "simd_per_cu",
        ];
        NEEDED.into_iter().find(|name| self.property(name) == 0)
    }

    /// Its units. Kernels that do not tell the XCCs have GPUs with one.
    pub fn units(&self) -> Units {
        Units {
            simds: self.number_of("simd_count"),
            simds_per_cu: self.number_of("simd_per_cu"),
            xccs: self.number_of("num_xcc").max(1),
            arrays: self.number_of("array_count"),
            arrays_per_engine: self.number_of("simd_arrays_per_engine"),
            scratch_slots: self.number_of("max_slots_scratch_cu"),
            lds_kib: self.number_of("lds_size_in_kb"),
        }
    }

    /// Compute units that work, of all XCCs.
    pub fn compute_units(&self) -> u32 {
        self.number_of("simd_count") / self.number_of("simd_per_cu").max(1)
    }

    /// Queues that its SDMA engines have for processes, those for XGMI not counted.
    pub fn copy_queues(&self) -> u32 {
        self.number_of("num_sdma_engines")
            .saturating_mul(self.number_of("num_sdma_queues_per_engine"))
    }

    /// Where it sits on PCI: `0000:03:00.0`.
    pub fn pci(&self) -> String {
        let (location, domain) = (self.number_of("location_id"), self.number_of("domain"));
        format!(
            "{domain:04x}:{:02x}:{:02x}.{:x}",
            location >> 8 & 0xff,
            location >> 3 & 0x1f,
            location & 7
        )
    }

    /// Its render node.
    pub fn render(&self) -> String {
        format!("/dev/dri/renderD{}", self.number_of("drm_render_minor"))
    }
}

/// What reading a node found.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A GPU.
    Gpu(Node),
    /// A node that this process may not look at (a device cgroup): it is someone else's.
    Hidden {
        /// The number of the node.
        number: u32,
    },
    /// A node with unreadable or invalid files.
    Broken {
        /// The number of the node.
        number: u32,
        /// The file, and the error.
        error: TransportError,
    },
}

/// Every GPU, in node order, without CPUs. An unreadable node does not affect the others.
///
/// # Errors
/// The topology cannot be listed.
pub fn nodes(machine: &dyn Machine) -> Result<Vec<Entry>, TransportError> {
    let mut numbers: Vec<u32> = machine
        .list(NODES)?
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    numbers.sort_unstable();
    let entry = |number| match node(machine, number, &format!("{NODES}/{number}")) {
        Ok(node) => node.map(Entry::Gpu),
        Err(error) if NOT_FOR_US.contains(&error.fault) => Some(Entry::Hidden { number }),
        Err(error) => Some(Entry::Broken { number, error }),
    };
    Ok(numbers.into_iter().filter_map(entry).collect())
}

fn node(machine: &dyn Machine, number: u32, folder: &str) -> Result<Option<Node>, TransportError> {
    let path = format!("{folder}/gpu_id");
    let text = machine.read(&path)?;
    let gpu_id: u32 = text.trim().parse().map_err(|_| {
        let found: String = text.trim().chars().take(40).collect();
        let why = format!("expected a decimal number, found {found:?}");
        TransportError::new(path, "read", Fault::Unsupported(why))
    })?;
    if gpu_id == 0 {
        return Ok(None);
    }
    let properties = properties(&machine.read(&format!("{folder}/properties"))?);
    let banks = entries(machine, &format!("{folder}/mem_banks"))?;
    let of_vram = |bank: &&BTreeMap<String, u64>| {
        bank.get("heap_type")
            .is_some_and(|heap| HEAPS_OF_VRAM.contains(heap))
    };
    let vram = banks
        .iter()
        .filter(of_vram)
        .filter_map(|bank| bank.get("size_in_bytes"))
        .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
    let large_bar = banks
        .iter()
        .filter(of_vram)
        .all(|bank| bank.get("heap_type") == Some(&1));
    let mut peers = Vec::new();
    for kind in ["io_links", "p2p_links"] {
        // Kernels before 6.0 know no p2p_links. Without links all goes through host memory.
        let links = entries(machine, &format!("{folder}/{kind}"));
        for link in links.unwrap_or_default() {
            let (kind, to) = (link.get("type"), link.get("node_to"));
            if let (Some(kind), Some(&to)) = (kind, to)
                && LINKS_BETWEEN_GPUS.contains(kind)
                && let Ok(to) = u32::try_from(to)
            {
                peers.push(to);
            }
        }
    }
    // For people; newer kernels say `ip discovery` of every chip.
    let name = machine.read(&format!("{folder}/name")).unwrap_or_default();
    Ok(Some(Node {
        number,
        gpu_id,
        name: name.trim().into(),
        vram,
        large_bar,
        peers,
        properties,
    }))
}

/// Lines of `name value`. Lines that are not so (`sibling_map`) are left out.
fn properties(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((name.into(), value.trim().parse().ok()?))
        })
        .collect()
}

/// The properties of every entry of a folder, in order.
fn entries(
    machine: &dyn Machine,
    folder: &str,
) -> Result<Vec<BTreeMap<String, u64>>, TransportError> {
    let names = machine.list(folder)?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|n| n.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
        .iter()
        .map(|n| {
            let text = machine.read(&format!("{folder}/{n}/properties"))?;
            Ok(properties(&text))
        })
        .collect()
}
