//! Two formats of page tables that no card has, each with what real ones have: four levels with runs, as AMD's; five uneven
//! ones with pairs of 16 bytes, as NVIDIA's.

use drivers_gpu::bare::{Attr, Entry, Format};
use hcq::GpuVa;
use hcq::addr::{BusAddr, PhysAddr, VramAddr};
use hcq::mem::pages::{Leaf, Level, PteFormat};
use hcq::mem::window::Window;

/// A format, and the addresses that go with it.
pub trait Made: Format + Default + Sync + 'static {
    const START: GpuVa;
    const FIRST: u64;
    const LAST: u64;
    /// Whether hardware knows the root before there are tables; else it is told after.
    const ROOTED: bool;
}

const fn level(index_bits: u32, shift: u32, entry_bytes: u32, leaf: bool) -> Level {
    Level {
        index_bits,
        shift,
        entry_bytes,
        leaf,
    }
}

const RIGHTS: [&str; 3] = ["read", "written", "executed"];

fn rights(attr: Attr) -> u64 {
    1 | u64::from(attr.write) << 1 | u64::from(attr.execute) << 2
}

fn may(bits: u64) -> Vec<&'static str> {
    let all = RIGHTS.into_iter().enumerate();
    all.filter(|(i, _)| bits >> i & 1 == 1)
        .map(|(_, what)| what)
        .collect()
}

fn place(is_bus: bool, at: u64) -> PhysAddr {
    match is_bus {
        true => PhysAddr::Bus(BusAddr(at)),
        false => PhysAddr::Vram(VramAddr(at)),
    }
}

/// Four levels of nine bits. Valid 0, bus 1, rights 4:2, uncached 5, snooped 6, run 11:7, page 63.
#[derive(Default)]
pub struct Four;

const FOUR: [Level; 4] = [
    level(9, 39, 8, false),
    level(9, 30, 8, true),
    level(9, 21, 8, true),
    level(9, 12, 8, true),
];

impl Made for Four {
    const START: GpuVa = GpuVa(0x2000_0000_0000);
    const FIRST: u64 = Self::START.0;
    const LAST: u64 = 0x7fff_ffff_ffff;
    const ROOTED: bool = true;
}

impl PteFormat for Four {
    type Attr = Attr;

    fn levels(&self) -> &[Level] {
        &FOUR
    }

    fn max_run(&self, _: usize) -> u32 {
        12 + 31
    }

    fn encode_table(&self, _: usize, table: PhysAddr) -> u128 {
        (table.raw() | 1).into()
    }

    fn encode_leaf(&self, _: usize, leaf: Leaf<Attr>) -> u128 {
        let Leaf { to, attr, run } = leaf;
        let bus = u64::from(matches!(to, PhysAddr::Bus(_))) << 1;
        let cached = u64::from(attr.uncached) << 5 | u64::from(attr.snooped) << 6;
        let run = u64::from(run - 12) << 7;
        (to.raw() | 1 | bus | rights(attr) << 2 | cached | run | 1 << 63).into()
    }
}

impl Format for Four {
    fn name(&self, level: usize) -> &'static str {
        ["D2", "D1", "D0", "T"][level]
    }

    fn decode(&self, _: usize, entry: u128) -> Entry {
        let entry = entry as u64;
        let at = entry & 0x7fff_ffff_ffff_f000;
        match (entry & 1, entry >> 63) {
            (0, _) => Entry::None,
            (_, 0) => Entry::Table(place(false, at)),
            _ => Entry::Page(place(entry & 2 != 0, at), may(entry >> 2)),
        }
    }
}

/// Five levels of 2, 9, 9, 8 and 9 bits. Pages of 512 MiB, 2 MiB and 4 KiB; an entry of the fourth is a pair, whose upper half
/// leads to small pages. Page 0, aperture 2:1 (2: table or VRAM, 3: bus), rights 5:3, uncached 6, place 63:8 by 4 KiB.
#[derive(Default)]
pub struct Five;

const FIVE: [Level; 5] = [
    level(2, 47, 8, false),
    level(9, 38, 8, false),
    level(9, 29, 8, true),
    level(8, 21, 16, true),
    level(9, 12, 8, true),
];

const PAIRS: usize = 3;

impl Made for Five {
    const START: GpuVa = GpuVa(0);
    const FIRST: u64 = 0x1000_0000;
    const LAST: u64 = 0xff_ffff_ffff;
    const ROOTED: bool = false;
}

impl PteFormat for Five {
    type Attr = Attr;

    fn levels(&self) -> &[Level] {
        &FIVE
    }

    fn max_run(&self, level: usize) -> u32 {
        FIVE[level].shift
    }

    fn encode_table(&self, level: usize, table: PhysAddr) -> u128 {
        let half = u128::from(table.raw() >> 12 << 8 | 2 << 1);
        if level == PAIRS { half << 64 } else { half }
    }

    fn encode_leaf(&self, _: usize, leaf: Leaf<Attr>) -> u128 {
        let aperture = 2 | u64::from(matches!(leaf.to, PhysAddr::Bus(_)));
        let attr = rights(leaf.attr) << 3 | u64::from(leaf.attr.uncached) << 6;
        (leaf.to.raw() >> 12 << 8 | attr | aperture << 1 | 1).into()
    }
}

impl Format for Five {
    fn name(&self, level: usize) -> &'static str {
        ["P4", "P3", "P2", "P1", "P0"][level]
    }

    fn decode(&self, level: usize, entry: u128) -> Entry {
        let (low, high) = (entry as u64, (entry >> 64) as u64);
        if low & 1 == 1 {
            return Entry::Page(place(low & 2 != 0, low >> 8 << 12), may(low >> 3));
        }
        let half = if level == PAIRS { high } else { low };
        match half >> 1 & 3 {
            2 => Entry::Table(place(false, half >> 8 << 12)),
            _ => Entry::None,
        }
    }
}

/// Where hardware finds an address, and the size of the page: by what lies in VRAM alone.
pub fn walk<F: Made>(vram: &Window, root: u64, va: u64) -> Option<(PhysAddr, u64)> {
    let format = F::default();
    let at = va.checked_sub(F::START.0)?;
    let mut table = root;
    for (number, level) in format.levels().iter().enumerate() {
        let index = at >> level.shift & ((1 << level.index_bits) - 1);
        let place = table + index * u64::from(level.entry_bytes);
        let mut words = [0u64; 2];
        for (i, word) in words[..level.entry_bytes as usize / 8]
            .iter_mut()
            .enumerate()
        {
            *word = vram.read(place + 8 * i as u64).unwrap();
        }
        match format.decode(number, u128::from(words[1]) << 64 | u128::from(words[0])) {
            Entry::None => return None,
            Entry::Table(to) => table = to.raw(),
            Entry::Page(to, _) => {
                let page = 1 << level.shift;
                assert_eq!(to.raw() % page, 0, "a page lies aligned");
                return Some((to.add(at % page).unwrap(), page));
            }
        }
    }
    panic!("the last level leads to a table");
}
