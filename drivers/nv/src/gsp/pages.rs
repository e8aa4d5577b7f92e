//! [`Format`]: entries of the page tables of the GPU's MMU: version 2 of Ampere and Ada, version 3 from Hopper on.
//!
//! Both have tables of 4 KiB pages, and larger pages of 2 MiB and 512 MiB, which an upper level holds in place of a table.
//! An entry of the level above the last is a pair, for tables of large (64 KiB) and of small pages: only the latter are
//! used. Memory may be executed wherever it may be read.
//!
//! Source: open-gpu-kernel-modules 570.144, src/common/inc/swref/published: pascal/gp100, turing/tu102, ampere/ga100,
//! hopper/gh100/dev_mmu.h (`NV_MMU_VER2_*`, `NV_MMU_VER3_*`, `NV_MMU_PTE_KIND_GENERIC_MEMORY`); kernel-open/nvidia-uvm/
//! {uvm_pascal_mmu,uvm_ampere_mmu,uvm_hopper_mmu}.c (levels, and which hold pages).

use drivers_gpu::bare::{self, Attr, Entry};
use drivers_spec::nv::chip::Arch;
use hcq::addr::{BusAddr, PhysAddr, VramAddr};
use hcq::mem::pages::{Leaf, Level, PteFormat};

/// Where memory is, in an entry that leads to a table.
const TABLE_VRAM: u64 = 1;
const TABLE_COHERENT: u64 = 2;
/// Where memory is, in an entry of a page.
const PAGE_VRAM: u64 = 0;
const PAGE_COHERENT: u64 = 2;
/// `NV_MMU_PTE_KIND_GENERIC_MEMORY`.
const GENERIC: u64 = 6;
/// What may be done with memory, in version 3: `REGULAR_RW_ATOMIC_CACHED_ACD`, and bits for read-only, privileged and
/// uncached.
const PCF: u64 = 0x10;
const PCF_READ_ONLY: u64 = 4;
const PCF_PRIVILEGED: u64 = 2;
const PCF_UNCACHED: u64 = 1;
/// How a table is read, in version 3: `VALID_CACHED_ATS_NOT_ALLOWED`.
const TABLE_PCF: u64 = 2;

/// The version of the MMU's formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Two,
    Three,
}

/// The entries of a generation.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    version: Version,
    levels: &'static [Level],
}

const fn level(index_bits: u32, shift: u32) -> Level {
    Level {
        index_bits,
        shift,
        entry_bytes: if shift == PAIRS { 16 } else { 8 },
        leaf: shift <= 29,
    }
}

/// What an entry of pairs covers, as a power of two.
const PAIRS: u32 = 21;

const VERSION_2: [Level; 5] = [
    level(2, 47),
    level(9, 38),
    level(9, 29),
    level(8, PAIRS),
    level(9, 12),
];
const VERSION_3: [Level; 6] = [
    level(1, 56),
    level(9, 47),
    level(9, 38),
    level(9, 29),
    level(8, PAIRS),
    level(9, 12),
];

/// The vendor's names of levels, the last one first.
const NAMES: [&str; 6] = ["PTE", "PDE0", "PDE1", "PDE2", "PDE3", "PDE4"];

impl Format {
    /// The entries of a generation.
    pub fn of(arch: Arch) -> Format {
        match arch >= Arch::Gh100 {
            false => Format {
                version: Version::Two,
                levels: &VERSION_2,
            },
            true => Format {
                version: Version::Three,
                levels: &VERSION_3,
            },
        }
    }

    fn has_pairs(&self, level: usize) -> bool {
        let level = self.levels.get(level);
        level.is_some_and(|level| level.entry_bytes == 16)
    }

    /// The bits of an address: both versions have it in units of 4 KiB.
    fn address(&self, to: PhysAddr) -> u64 {
        match self.version {
            Version::Two => to.raw() >> 12 << 8,
            Version::Three => to.raw() & 0x000f_ffff_ffff_f000,
        }
    }

    /// The address in an entry.
    fn to(&self, entry: u64, is_vram: bool) -> PhysAddr {
        let raw = match (self.version, is_vram) {
            (Version::Two, true) => (entry >> 8 & 0x1ff_ffff) << 12,
            (Version::Two, false) => (entry >> 8 & 0x3fff_ffff_ffff) << 12,
            (Version::Three, _) => entry & 0x000f_ffff_ffff_f000,
        };
        match is_vram {
            true => PhysAddr::Vram(VramAddr(raw)),
            false => PhysAddr::Bus(BusAddr(raw)),
        }
    }
}

impl PteFormat for Format {
    type Attr = Attr;

    fn levels(&self) -> &[Level] {
        self.levels
    }

    fn max_run(&self, level: usize) -> u32 {
        self.levels.get(level).map_or(0, |level| level.shift)
    }

    fn encode_table(&self, level: usize, table: PhysAddr) -> u128 {
        let aperture = match table {
            PhysAddr::Vram(_) => TABLE_VRAM,
            PhysAddr::Bus(_) => TABLE_COHERENT,
        };
        let entry = match self.version {
            Version::Two => self.address(table) | aperture << 1,
            Version::Three => self.address(table) | TABLE_PCF << 3 | aperture << 1,
        };
        // Of a pair, the upper half is for small pages.
        match self.has_pairs(level) {
            true => u128::from(entry) << 64,
            false => entry.into(),
        }
    }

    fn encode_leaf(&self, _: usize, leaf: Leaf<Attr>) -> u128 {
        let aperture = match leaf.to {
            PhysAddr::Vram(_) => PAGE_VRAM,
            PhysAddr::Bus(_) => PAGE_COHERENT,
        };
        let (read_only, uncached) = (!leaf.attr.write, leaf.attr.uncached);
        let privileged = leaf.attr.privileged;
        let common = self.address(leaf.to) | aperture << 1 | 1;
        let entry = match self.version {
            Version::Two => {
                let bits = u64::from(read_only) << 6 | u64::from(privileged) << 5;
                common | GENERIC << 56 | bits | u64::from(uncached) << 3
            }
            Version::Three => {
                let mut pcf = PCF;
                pcf |= if read_only { PCF_READ_ONLY } else { 0 };
                pcf |= if privileged { PCF_PRIVILEGED } else { 0 };
                pcf |= if uncached { PCF_UNCACHED } else { 0 };
                common | GENERIC << 8 | pcf << 3
            }
        };
        entry.into()
    }
}

impl bare::Format for Format {
    fn name(&self, level: usize) -> &'static str {
        let from_end = self.levels.len().checked_sub(level + 1);
        let name = from_end.and_then(|index| NAMES.get(index));
        name.copied().unwrap_or_default()
    }

    fn decode(&self, level: usize, entry: u128) -> Entry {
        let low = entry as u64;
        if low & 1 == 1 {
            let is_vram = low >> 1 & 3 == PAGE_VRAM;
            let (read_only, privileged) = match self.version {
                Version::Two => (low >> 6 & 1 == 1, low >> 5 & 1 == 1),
                Version::Three => {
                    let pcf = low >> 3;
                    (pcf & PCF_READ_ONLY != 0, pcf & PCF_PRIVILEGED != 0)
                }
            };
            let mut may = vec!["read", "written", "executed"];
            may.retain(|what| !read_only || *what != "written");
            if privileged {
                may.push("by engines only");
            }
            return Entry::Page(self.to(low, is_vram), may);
        }
        let table = match self.has_pairs(level) {
            true => (entry >> 64) as u64,
            false => low,
        };
        match table >> 1 & 3 {
            _ if level + 1 == self.levels.len() => Entry::None,
            0 => Entry::None,
            aperture => Entry::Table(self.to(table, aperture == TABLE_VRAM)),
        }
    }
}

#[cfg(test)]
mod tests {
    use drivers_gpu::bare::Format as _;
    use hcq::GpuVa;
    use hcq::mem::pages::{Frame, PageTable, TableMemory};
    use hcq::mem::view::View;
    use hcq::mem::window::Window;

    use super::*;

    const READ_ONLY: Attr = Attr {
        write: false,
        ..Attr::LOCAL
    };

    fn leaf(to: PhysAddr, attr: Attr) -> Leaf<Attr> {
        Leaf { to, attr, run: 12 }
    }

    /// By the vendor's headers, field for field: the numbers are put together by hand.
    #[test]
    fn entries_are_those_of_the_vendors_headers() {
        let vram = PhysAddr::Vram(VramAddr(0x5_4321_f000));
        let host = PhysAddr::Bus(BusAddr(0x7f_8765_4000));
        let (two, three) = (Format::of(Arch::Ad10x), Format::of(Arch::Gh100));
        // VALID, KIND 63:56, ADDRESS_VID 32:8; APERTURE 2:1 and VOL 3 of the host's; READ_ONLY 6.
        assert_eq!(
            two.encode_leaf(4, leaf(vram, Attr::LOCAL)),
            0x0600_0000_5432_1f01
        );
        assert_eq!(
            two.encode_leaf(4, leaf(host, Attr::HOST)),
            0x0600_0007_f876_540d
        );
        assert_eq!(
            two.encode_leaf(4, leaf(vram, READ_ONLY)),
            0x0600_0000_5432_1f41
        );
        // VALID, PCF 7:3, KIND 11:8, ADDRESS 51:12. The low bits are those that were seen on H100: 0x681 and 0x68d.
        assert_eq!(three.encode_leaf(5, leaf(vram, Attr::LOCAL)), 0x5_4321_f681);
        assert_eq!(three.encode_leaf(5, leaf(host, Attr::HOST)), 0x7f_8765_468d);
        assert_eq!(three.encode_leaf(5, leaf(vram, READ_ONLY)), 0x5_4321_f6a1);
        // PRIVILEGE 5; of PCF, PRIVILEGE_RO_ATOMIC_CACHED_ACD.
        let private = Attr {
            privileged: true,
            ..READ_ONLY
        };
        assert_eq!(
            two.encode_leaf(4, leaf(vram, private)),
            0x0600_0000_5432_1f61
        );
        assert_eq!(three.encode_leaf(5, leaf(vram, private)), 0x5_4321_f6b1);
        for (format, level, entry) in [(two, 4, 0x0600_0000_5432_1f61), (three, 5, 0x5_4321_f6b1)] {
            let may = vec!["read", "executed", "by engines only"];
            assert_eq!(format.decode(level, entry), Entry::Page(vram, may));
        }
        // APERTURE 2:1 of a table; the small half of a pair.
        assert_eq!(two.encode_table(0, vram), 0x5432_1f02);
        assert_eq!(two.encode_table(3, host), 0x7_f876_5404 << 64);
        assert_eq!(three.encode_table(0, vram), 0x5_4321_f012);
        assert_eq!(three.encode_table(4, host), 0x7f_8765_4014 << 64);
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for arch in Arch::ALL {
            let format = Format::of(arch);
            let last = format.levels().len() - 1;
            for to in [
                PhysAddr::Vram(VramAddr(0x4000_0000)),
                PhysAddr::Bus(BusAddr(0x1_4000_0000)),
            ] {
                for (number, level) in format.levels().iter().enumerate() {
                    let none = format.decode(number, 0);
                    assert_eq!(none, Entry::None, "{}", format.name(number));
                    if number < last {
                        let entry = format.encode_table(number, to);
                        assert_eq!(format.decode(number, entry), Entry::Table(to));
                    }
                    if level.leaf {
                        let all = vec!["read", "written", "executed"];
                        let entry = format.encode_leaf(number, leaf(to, Attr::SHARED));
                        assert_eq!(format.decode(number, entry), Entry::Page(to, all));
                        let some = vec!["read", "executed"];
                        let entry = format.encode_leaf(number, leaf(to, READ_ONLY));
                        assert_eq!(format.decode(number, entry), Entry::Page(to, some));
                    }
                }
            }
            assert_eq!((format.name(last), format.name(last - 1)), ("PTE", "PDE0"));
        }
    }

    /// Tables one after the other in made-up VRAM.
    struct Vram {
        window: Window,
        next: u64,
    }

    impl TableMemory for Vram {
        fn alloc(&mut self, bytes: u64) -> Result<Frame, hcq::Error> {
            let at = self.next.next_multiple_of(bytes.max(4096));
            self.next = at + bytes;
            Ok(Frame {
                at: PhysAddr::Vram(VramAddr(at)),
                window: self.window.sub(at, bytes).unwrap(),
            })
        }
        fn free(&mut self, _: Frame) {}
    }

    /// Walks as the MMU does, by the shifts and widths of its manual.
    fn walk(window: &Window, root: u64, version: u32, va: u64) -> Option<u64> {
        let quad = |at: u64| window.read::<u64>(at).unwrap();
        let levels: &[(u32, u32)] = match version {
            2 => &[(47, 2), (38, 9), (29, 9), (21, 8), (12, 9)],
            _ => &[(56, 1), (47, 9), (38, 9), (29, 9), (21, 8), (12, 9)],
        };
        let mut table = root;
        for &(shift, bits) in levels {
            let index = va >> shift & ((1 << bits) - 1);
            let pair = shift == 21;
            let entry = quad(table + index * if pair { 16 } else { 8 });
            let address = |entry: u64| match version {
                2 => (entry >> 8 & 0x1ff_ffff) << 12,
                _ => entry & 0xff_ffff_f000,
            };
            if entry & 1 == 1 {
                return Some(address(entry) + (va & ((1 << shift) - 1)));
            }
            let next = if pair {
                quad(table + index * 16 + 8)
            } else {
                entry
            };
            if next >> 1 & 3 != 1 {
                return None;
            }
            table = address(next);
        }
        None
    }

    #[test]
    fn a_walk_finds_pages_of_every_size() {
        for (version, arch) in [(2, Arch::Ga10x), (3, Arch::Gb20x)] {
            let view = View::alloc(1 << 20, 4096).unwrap();
            let window = Window::mapped("VRAM", view);
            let memory = Vram {
                window: window.clone(),
                next: 0,
            };
            let mut table = PageTable::new(Format::of(arch), memory, GpuVa(0)).unwrap();
            let root = table.root().raw();
            let big = 0x20_0000_0000u64;
            // 512 MiB, 2 MiB, and a few pages of 4 KiB; the rest of a GiB.
            let pieces = [(
                PhysAddr::Vram(VramAddr(0x4000_0000)),
                (1 << 29) + (2 << 20) + 0x3000,
            )];
            table.map(GpuVa(big), &pieces, Attr::LOCAL).unwrap();
            for at in [
                0,
                0x1234,
                (1 << 29) + 0x1f_fff8,
                (1 << 29) + (2 << 20) + 0x2ff8,
            ] {
                let found = walk(&window, root, version, big + at);
                assert_eq!(found, Some(0x4000_0000 + at), "version {version}, {at:#x}");
            }
            for at in [big - 8, big + (1 << 29) + (2 << 20) + 0x3000, 0] {
                assert_eq!(
                    walk(&window, root, version, at),
                    None,
                    "version {version}, {at:#x}"
                );
            }
            let retired = table.unmap(GpuVa(big), 1 << 29).unwrap();
            assert_eq!(walk(&window, root, version, big), None);
            assert!(walk(&window, root, version, big + (1 << 29)).is_some());
            table.release(retired);
        }
    }
}
