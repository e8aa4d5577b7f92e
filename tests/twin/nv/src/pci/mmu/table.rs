//! Entries of page tables, and the walk through them: four levels of directories, then tables of pages of 4 or 64 KiB.
//!
//! A directory entry of the last two levels may be that of a page itself, of 512 MiB or 2 MiB. One of the last level has two
//! tables: that of the large pages counts where it has an entry.
//!
//! Source: see the front page of the MMU; sparse entries: nvkm/subdev/mmu/vmmgp100.c, gp100_vmm_pgt_sparse, gp100_vmm_pd0_sparse.

use crate::pci::memory::{Aperture, Place};
use crate::space::Rights;

/// Why there is no translation: `NV_PFAULT_FAULT_TYPE_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pci) enum Cause {
    Pde = 0,
    PdeSize = 1,
    Pte = 2,
    VaLimit = 3,
    Privilege = 5,
    ReadOnly = 6,
    Aperture = 0xa,
    Kind = 0xc,
    Region = 0xd,
    Atomic = 0xf,
}

/// A level, from the root on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::pci) enum Level {
    Pde3,
    Pde2,
    Pde1,
    /// The half for large pages, and that for small ones.
    Pde0Big,
    Pde0Small,
    Big,
    Small,
}

impl Level {
    /// log2 of the bytes that an entry stands for.
    pub(in crate::pci) fn shift(self) -> u32 {
        match self {
            Level::Pde3 => 47,
            Level::Pde2 => 38,
            Level::Pde1 => 29,
            Level::Pde0Big | Level::Pde0Small => 21,
            Level::Big => 16,
            Level::Small => 12,
        }
    }

    /// Where an address has its entry in a table.
    fn offset(self, va: u64) -> u64 {
        let index = va >> self.shift();
        match self {
            Level::Pde3 => (index & 3) * 8,
            Level::Pde2 | Level::Pde1 | Level::Small => (index & 0x1ff) * 8,
            Level::Pde0Big => (index & 0xff) * 16,
            Level::Pde0Small => (index & 0xff) * 16 + 8,
            Level::Big => (index & 0x1f) * 8,
        }
    }

    /// Which of `NV_VIRTUAL_FUNCTION_PRIV_MMU_INVALIDATE_CACHE_LEVEL_*` takes its directories along, from that on.
    pub(in crate::pci) fn cache_level(self) -> u32 {
        match self {
            Level::Big | Level::Small => 1,
            Level::Pde0Big | Level::Pde0Small => 2,
            Level::Pde1 => 3,
            Level::Pde2 => 4,
            Level::Pde3 => 5,
        }
    }

    /// Whether the MMU keeps an entry: one that leads somewhere, or is sparse.
    pub(in crate::pci) fn keeps(self, entry: u64) -> bool {
        let leads = match self {
            Level::Big | Level::Small => entry & 1 != 0,
            Level::Pde0Small => entry & 6 != 0,
            _ => entry & 7 != 0,
        };
        leads || entry & VOL != 0
    }

    /// The other half of an entry of the last directory, and where it is.
    pub(in crate::pci) fn other_half(self, place: Place) -> Option<(Level, Place)> {
        match self {
            Level::Pde0Big => Some((Level::Pde0Small, place.plus(8))),
            Level::Pde0Small => {
                let at = place.at.saturating_sub(8);
                Some((Level::Pde0Big, Place { at, ..place }))
            }
            _ => None,
        }
    }

    /// Whether it is the entry of a page.
    pub(in crate::pci) fn is_leaf(self, entry: u64) -> bool {
        match self {
            Level::Big | Level::Small => true,
            Level::Pde0Big | Level::Pde1 => entry & 1 != 0,
            _ => false,
        }
    }
}

/// Without a valid entry, it says that the place is sparse.
const VOL: u64 = 1 << 3;

/// A page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pci) struct Leaf {
    /// Its first byte; none where it is sparse: reads give zeros, writes are lost.
    pub(in crate::pci) place: Option<Place>,
    pub(in crate::pci) bytes: u64,
    pub(in crate::pci) rights: Rights,
    pub(in crate::pci) privileged: bool,
    pub(in crate::pci) kind: u32,
    /// The entry itself.
    pub(in crate::pci) entry: u64,
}

/// What is sparse.
fn sparse(bytes: u64, entry: u64) -> Leaf {
    Leaf {
        place: None,
        bytes,
        rights: Rights::ReadWriteAtomic,
        privileged: false,
        kind: 0,
        entry,
    }
}

/// An address of a field from bit `low` on, in units of `1 << shift`.
fn address(aperture: Aperture, entry: u64, low: u32, shift: u32) -> Place {
    let last = match aperture {
        Aperture::Vram => 32,
        Aperture::Host => 53,
    };
    let bits = last - low + 1;
    let at = (entry >> low & ((1 << bits) - 1)) << shift;
    Place { aperture, at }
}

/// The table that an entry of a directory leads to.
fn directory(entry: u64, low: u32, shift: u32) -> Option<Place> {
    let aperture = match entry >> 1 & 3 {
        0 => return None,
        1 => Aperture::Vram,
        _ => Aperture::Host,
    };
    Some(address(aperture, entry, low, shift))
}

/// The table that an entry of a level above the last one leads to.
pub(in crate::pci) fn next(entry: u64) -> Option<Place> {
    match entry & 1 {
        0 => directory(entry, 8, 12),
        _ => None,
    }
}

/// Where a table has the entry of an address.
pub(in crate::pci) fn entry(level: Level, table: Place, va: u64) -> Place {
    table.plus(level.offset(va))
}

/// The page of an entry.
fn page(entry: u64, bytes: u64) -> Result<Leaf, Cause> {
    if entry & 1 == 0 {
        return match entry & VOL {
            0 => Err(Cause::Pte),
            _ => Ok(sparse(bytes, entry)),
        };
    }
    let aperture = match entry >> 1 & 3 {
        0 => Aperture::Vram,
        1 => return Err(Cause::Aperture),
        _ => Aperture::Host,
    };
    let rights = match (entry >> 6 & 1, entry >> 7 & 1) {
        (1, _) => Rights::ReadOnly,
        (_, 1) => Rights::ReadWrite,
        _ => Rights::ReadWriteAtomic,
    };
    Ok(Leaf {
        place: Some(address(aperture, entry, 8, 12)),
        bytes,
        rights,
        privileged: entry >> 5 & 1 != 0,
        kind: (entry >> 56) as u32,
        entry,
    })
}

/// Walks from a root to the page of an address. `read` gives the entry at a place.
pub(in crate::pci) fn walk(
    root: Place,
    va: u64,
    read: &mut dyn FnMut(Level, Place) -> Option<u64>,
) -> Result<Leaf, Cause> {
    if va >> 49 != 0 {
        return Err(Cause::VaLimit);
    }
    let mut at = |level: Level, table: Place| {
        let entry = read(level, table.plus(level.offset(va)));
        entry.ok_or(Cause::Region)
    };
    let mut table = root;
    for level in [Level::Pde3, Level::Pde2, Level::Pde1] {
        let entry = at(level, table)?;
        if entry & 1 != 0 {
            return match level {
                Level::Pde1 => page(entry, 1 << level.shift()),
                _ => Err(Cause::PdeSize),
            };
        }
        table = match directory(entry, 8, 12) {
            Some(table) => table,
            None if entry & VOL != 0 => return Ok(sparse(1 << level.shift(), entry)),
            None => return Err(Cause::Pde),
        };
    }
    let entry = at(Level::Pde0Big, table)?;
    if entry & 1 != 0 {
        return page(entry, 2 << 20);
    }
    let big = directory(entry, 4, 8);
    let small = directory(at(Level::Pde0Small, table)?, 8, 12);
    if big.is_none() && small.is_none() {
        return match entry & VOL {
            0 => Err(Cause::Pde),
            _ => Ok(sparse(2 << 20, entry)),
        };
    }
    if let Some(big) = big {
        let found = page(at(Level::Big, big)?, 64 << 10);
        if found != Err(Cause::Pte) || small.is_none() {
            return found;
        }
    }
    match small {
        Some(small) => page(at(Level::Small, small)?, 4 << 10),
        None => Err(Cause::Pte),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn vram(at: u64) -> u64 {
        at >> 12 << 8 | 1 << 1
    }

    #[test]
    fn a_walk_finds_pages_of_every_size() {
        let mut memory = BTreeMap::from([
            (0x1008, vram(0x2000)),
            (0x2010, vram(0x3000)),
            (0x3018, vram(0x4000)),
            // 512 MiB, read only, in memory of the host.
            (0x3020, 0x4000_0000 >> 12 << 8 | 1 | 2 << 1 | 1 << 6),
            // Both tables; a page of 2 MiB; a sparse place.
            (0x4040, 0x5100 >> 8 << 4 | 1 << 1),
            (0x4048, vram(0x6000)),
            (0x4050, 0x20_0000 >> 12 << 8 | 1 | 6 << 56),
            (0x4060, VOL),
            (0x5108, 0x7_0000 >> 12 << 8 | 1 | 1 << 7),
            (0x6008, 0x9000 >> 12 << 8 | 1 | 1 << 5),
            (0x6010, 1 | 1 << 1),
        ]);
        let base = (1 << 47) | (2 << 38) | (3 << 29);
        let find = |va: u64| {
            walk(Place::vram(0x1000), va, &mut |_, place| {
                Some(memory.get(&place.at).copied().unwrap_or(0))
            })
        };
        let small = find(base + (4 << 21) + 0x1000).unwrap();
        assert_eq!(small.place, Some(Place::vram(0x9000)));
        assert!(small.privileged && small.bytes == 4096);
        let big = find(base + (4 << 21) + 0x1_0000).unwrap();
        assert_eq!(big.place, Some(Place::vram(0x7_0000)));
        assert_eq!((big.bytes, big.rights), (0x1_0000, Rights::ReadWrite));
        let huge = find(base + (5 << 21)).unwrap();
        assert_eq!((huge.place, huge.kind), (Some(Place::vram(0x20_0000)), 6));
        assert_eq!(find(base + (6 << 21)).unwrap().place, None);
        let largest = find(base + (1 << 29)).unwrap();
        let place = Place {
            aperture: Aperture::Host,
            at: 0x4000_0000,
        };
        assert_eq!(largest.place, Some(place));
        assert_eq!((largest.bytes, largest.rights), (1 << 29, Rights::ReadOnly));
        assert_eq!(find(base + (4 << 21) + 0x2000), Err(Cause::Aperture));
        assert_eq!(find(base + (4 << 21) + 0x3000), Err(Cause::Pte));
        assert_eq!(find(base + (7 << 21)), Err(Cause::Pde));
        assert_eq!(find(0), Err(Cause::Pde));
        assert_eq!(find(1 << 49), Err(Cause::VaLimit));
        memory.insert(0x1000, 1);
        let found = walk(Place::vram(0x1000), 0, &mut |_, place| {
            memory.get(&place.at).copied()
        });
        assert_eq!(found, Err(Cause::PdeSize));
    }
}
