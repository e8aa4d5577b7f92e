//! The chips that a machine can have: what RM tells of them.
//!
//! Which classes a generation has is of `drivers_spec::nv::chip`.
//!
//! Source: open-gpu-kernel-modules 580.142, src/common/sdk/nvidia/inc/ctrl/ctrl2080/{ctrl2080gr,ctrl2080mc,ctrl2080gpu}.h, class/*.h; numbers of
//! units: NVIDIA's architecture papers of GA102, AD102, H100 and Blackwell, for whole products.

use drivers_spec::nv::abi::{Branch, Call};
use drivers_spec::nv::chip::{self as spec, Arch, Facts};
use drivers_spec::nv::class;

/// A chip, in one product that has it.
#[derive(Debug)]
pub struct Chip {
    /// The name in configs.
    pub name: &'static str,
    /// What `nvidia-smi` calls the product.
    pub product: &'static str,
    /// The PCI device.
    pub device_id: u16,
    /// The PCI class: a display controller, for screens (0x030000) or not.
    pub pci_class: u32,
    /// `NV2080_CTRL_GR_INFO_INDEX_SM_VERSION`.
    pub sm_version: u32,
    /// The generation.
    pub arch: Arch,
    /// `NV2080_CTRL_MC_ARCH_INFO_ARCHITECTURE_*` and `IMPLEMENTATION_*`.
    pub id: (u32, u32),
    /// TPCs that are on, for each graphics cluster.
    pub tpcs: &'static [u32],
    /// TPCs of a whole cluster.
    pub tpcs_per_gpc: u32,
    /// Warps that an SM holds.
    pub warps_per_sm: u32,
    /// Memory, in MiB.
    pub vram_mib: u64,
    /// The window of the host to it, in MiB: all of it on cards for servers; on the others what it is
    /// where the firmware does not make it larger.
    pub bar1_mib: u64,
    /// The second level of caches, in KiB.
    pub l2_kib: u32,
    /// Bits of the bus of memory.
    pub bus_bits: u32,
    /// `NV2080_CTRL_FB_INFO_RAM_TYPE_*`.
    pub ram_type: u32,
    /// Copy engines.
    pub copy_engines: u32,
    /// The first branch that knows it.
    pub since: Branch,
}

/// SMs of a TPC, on all of them.
pub const SMS_PER_TPC: u32 = 2;

/// Every chip.
pub static CHIPS: [Chip; 5] = [
    Chip {
        name: "ga102",
        product: "NVIDIA GeForce RTX 3090",
        device_id: 0x2204,
        pci_class: 0x03_0000,
        sm_version: 0x806,
        arch: Arch::Ga10x,
        id: (0x170, 2),
        tpcs: &[6, 6, 6, 6, 6, 6, 5],
        tpcs_per_gpc: 6,
        warps_per_sm: 48,
        vram_mib: 24 << 10,
        bar1_mib: 256,
        l2_kib: 6 << 10,
        bus_bits: 384,
        ram_type: 0x12,
        copy_engines: 5,
        since: Branch::R535,
    },
    Chip {
        name: "ad102",
        product: "NVIDIA GeForce RTX 4090",
        device_id: 0x2684,
        pci_class: 0x03_0000,
        sm_version: 0x809,
        arch: Arch::Ad10x,
        id: (0x190, 2),
        tpcs: &[6, 6, 6, 6, 6, 6, 6, 6, 6, 5, 5],
        tpcs_per_gpc: 6,
        warps_per_sm: 48,
        vram_mib: 24 << 10,
        bar1_mib: 256,
        l2_kib: 72 << 10,
        bus_bits: 384,
        ram_type: 0x12,
        copy_engines: 5,
        since: Branch::R535,
    },
    Chip {
        name: "h100",
        product: "NVIDIA H100 80GB HBM3",
        device_id: 0x2330,
        pci_class: 0x03_0200,
        sm_version: 0x900,
        arch: Arch::Gh100,
        id: (0x180, 0),
        tpcs: &[8, 8, 8, 8, 8, 8, 9, 9],
        tpcs_per_gpc: 9,
        warps_per_sm: 64,
        vram_mib: 80 << 10,
        bar1_mib: 128 << 10,
        l2_kib: 50 << 10,
        bus_bits: 5120,
        ram_type: 0x14,
        copy_engines: 10,
        since: Branch::R535,
    },
    Chip {
        name: "h200",
        product: "NVIDIA H200",
        device_id: 0x2335,
        pci_class: 0x03_0200,
        sm_version: 0x900,
        arch: Arch::Gh100,
        id: (0x180, 0),
        tpcs: &[8, 8, 8, 8, 8, 8, 9, 9],
        tpcs_per_gpc: 9,
        warps_per_sm: 64,
        vram_mib: 141 << 10,
        bar1_mib: 256 << 10,
        l2_kib: 50 << 10,
        bus_bits: 6144,
        ram_type: 0x14,
        copy_engines: 10,
        since: Branch::R535,
    },
    Chip {
        name: "gb202",
        product: "NVIDIA GeForce RTX 5090",
        device_id: 0x2b85,
        pci_class: 0x03_0000,
        sm_version: 0xa04,
        arch: Arch::Gb20x,
        id: (0x1b0, 2),
        tpcs: &[8, 8, 7, 7, 7, 8, 8, 8, 8, 8, 8],
        tpcs_per_gpc: 8,
        warps_per_sm: 48,
        vram_mib: 32 << 10,
        bar1_mib: 256,
        l2_kib: 96 << 10,
        bus_bits: 512,
        ram_type: 0x15,
        copy_engines: 4,
        since: Branch::R570,
    },
];

/// Classes that every chip has.
const SHARED: &[Call] = &[
    class::NV01_EVENT,
    class::NV01_EVENT_OS_EVENT,
    class::NV01_MEMORY_SYSTEM,
    class::NV01_MEMORY_LOCAL_USER,
    class::NV01_MEMORY_VIRTUAL,
    class::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
    class::NV01_DEVICE_0,
    class::NV20_SUBDEVICE_0,
    class::NV50_MEMORY_VIRTUAL,
    class::NV2081_BINAPI,
    class::RM_USER_SHARED_DATA,
    class::GT200_DEBUGGER,
    class::FERMI_CONTEXT_SHARE_A,
    class::FERMI_VASPACE_A,
    class::KEPLER_CHANNEL_GROUP_A,
];

impl Chip {
    /// Partitions of memory, each with two caches of four slices. Of this model's choice: 64 bits of the bus for each, at most 12.
    pub fn partitions(&self) -> u32 {
        (self.bus_bits / 64).min(12)
    }

    /// The chip of that name: as here, as the vendor calls it (`gh100`), or as compilers do (`sm_90`), where the
    /// first one counts.
    pub fn by_name(name: &str) -> Option<&'static Chip> {
        let named = |chip: &&Chip| {
            let mut spec = spec::CHIPS.iter().filter(|one| one.id == chip.id);
            chip.name == name
                || spec.any(|one| one.name == name || format!("sm_{}", one.sm) == name)
        };
        CHIPS.iter().find(named)
    }

    /// What compilers call its instruction set: `sm_90`.
    pub fn target(&self) -> String {
        spec::sm_of(self.sm_version).map_or(String::new(), |sm| format!("sm_{sm}"))
    }

    /// What its generation has.
    pub fn facts(&self) -> &'static Facts {
        self.arch.facts()
    }

    /// From Hopper on, USERD in system memory goes with rings in system memory only.
    pub fn userd_with_ring(&self) -> bool {
        self.arch >= Arch::Gh100
    }

    /// A bit that tokens have beside those of channel and runlist.
    pub fn token_bits(&self) -> u32 {
        match self.arch {
            Arch::Gb20x => 1 << 30,
            _ => 0,
        }
    }

    /// Bytes of memory.
    pub fn vram(&self) -> u64 {
        self.vram_mib << 20
    }

    /// Every class that the chip has, of those that are modelled.
    pub fn classes(&self) -> impl Iterator<Item = Call> + '_ {
        let facts = self.facts();
        let own = [facts.channel, facts.compute, facts.copy, facts.usermode];
        let lists = facts.older.iter().chain(SHARED);
        own.into_iter().chain(lists.copied())
    }

    /// Whether it has a class.
    pub fn has_class(&self, number: u32) -> bool {
        self.classes().any(|call| call.number == number)
    }

    /// The engines that channels can be made for: graphics, then copies.
    pub fn engines(&self) -> impl Iterator<Item = u32> {
        let copies = self.copy_engines;
        std::iter::once(class::engine::GRAPHICS)
            .chain((0..copies).map(|engine| class::engine::COPY0 + engine))
    }

    /// The runlist of an engine. A number of this model's choice: cards differ. Graphics shares its
    /// runlist with the first two copy engines.
    pub fn runlist(&self, engine: u32) -> u32 {
        match engine.checked_sub(class::engine::COPY0) {
            Some(copy) if copy >= 2 => copy - 1,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_have_what_products_have() {
        let sms = |name: &str| {
            let chip = Chip::by_name(name).unwrap();
            chip.tpcs.iter().sum::<u32>() * SMS_PER_TPC
        };
        let all = ["ga102", "ad102", "h100", "h200", "gb202"].map(sms);
        assert_eq!(all, [82, 128, 132, 132, 170]);
        let names =
            ["gh100", "sm_90", "sm_86", "sm_120"].map(|name| Chip::by_name(name).unwrap().name);
        assert_eq!(names, ["h100", "h100", "ga102", "gb202"]);
        for chip in &CHIPS {
            assert_eq!(
                Chip::by_name(&chip.target()).unwrap().target(),
                chip.target()
            );
            assert!(chip.tpcs.iter().all(|&on| on <= chip.tpcs_per_gpc));
            assert!(chip.has_class(chip.facts().compute.number) && !chip.has_class(0x1234));
            assert!(
                spec::CHIPS
                    .iter()
                    .any(|one| one.id == chip.id && one.arch == chip.arch)
            );
            let mut engines: Vec<u32> = chip.engines().collect();
            engines.dedup();
            assert_eq!(engines.len() as u32, 1 + chip.copy_engines);
        }
    }
}
