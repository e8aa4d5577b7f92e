//! Entries of page tables, and the walk through them: four levels of directories, then tables of pages of 4 or 64 KiB; five of
//! version 3, from Hopper on, whose entries have what may be done with a page in one field, PCF.
//!
//! A directory entry of the last two levels may be that of a page itself, of 512 MiB or 2 MiB. One of the last level has two
//! tables: that of the large pages counts where it has an entry.
//!
//! Source: see the front page of the MMU; sparse entries: nvkm/subdev/mmu/vmmgp100.c, gp100_vmm_pgt_sparse, gp100_vmm_pd0_sparse.

use crate::pci::chip::Chip;
use crate::pci::memory::{Aperture, Place};
use crate::space::Rights;

/// Of the format of entries: NV_MMU_VER2 and NV_MMU_VER3.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::pci) enum Version {
    #[default]
    Two,
    Three,
}

impl Version {
    /// That of a chip.
    pub(in crate::pci) fn of(chip: &Chip) -> Version {
        match chip.fsp {
            None => Version::Two,
            Some(_) => Version::Three,
        }
    }

    /// How many bits addresses have.
    pub(in crate::pci) fn bits(self) -> u32 {
        match self {
            Version::Two => 49,
            Version::Three => 57,
        }
    }

    /// Levels of directories above the last one.
    pub(in crate::pci) fn upper(self) -> &'static [Level] {
        static ALL: [Level; 4] = [Level::Pde4, Level::Pde3, Level::Pde2, Level::Pde1];
        match self {
            Version::Two => &ALL[1..],
            Version::Three => &ALL,
        }
    }
}

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
    /// Of version 3 alone.
    Pde4,
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
            Level::Pde4 => 56,
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
            Level::Pde4 => (index & 1) * 8,
            // Of version 2 there are two bits.
            Level::Pde3 | Level::Pde2 | Level::Pde1 | Level::Small => (index & 0x1ff) * 8,
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
            Level::Pde4 => 6,
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

/// Without a valid entry, it says that the place is sparse: VOL of version 2, and of version 3 PCF SPARSE, of directories with or
/// without ATS.
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
    /// ENCRYPTED, of version 2.
    pub(in crate::pci) encrypted: bool,
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
        encrypted: false,
        entry,
    }
}

/// An address in units of `1 << shift`: of version 2 a field from bit `low` on, of version 3 at its own bits, up to 51.
fn address(version: Version, aperture: Aperture, entry: u64, (low, shift): (u32, u32)) -> Place {
    if version == Version::Three {
        let at = entry & ((1 << 52) - 1) & !((1 << shift) - 1);
        return Place { aperture, at };
    }
    let last = match aperture {
        Aperture::Vram => 32,
        Aperture::Host => 53,
    };
    let bits = last - low + 1;
    let at = (entry >> low & ((1 << bits) - 1)) << shift;
    Place { aperture, at }
}

/// Where entries have the address of tables, and of those of large pages.
const TABLE: (u32, u32) = (8, 12);
const BIG_TABLE: (u32, u32) = (4, 8);

/// The table that an entry of a directory leads to. Of version 3 its PCF is not looked at: without ATS, which is not modelled,
/// UVM allows it (uvm_hopper_mmu.c, pde_pcf: On non-ATS systems), and nouveau does not (vmmgh100.c).
fn directory(version: Version, entry: u64, field: (u32, u32)) -> Option<Place> {
    let aperture = match entry >> 1 & 3 {
        0 => return None,
        1 => Aperture::Vram,
        _ => Aperture::Host,
    };
    Some(address(version, aperture, entry, field))
}

/// The table that an entry of a level above the last one leads to.
pub(in crate::pci) fn next(version: Version, entry: u64) -> Option<Place> {
    match entry & 1 {
        0 => directory(version, entry, TABLE),
        _ => None,
    }
}

/// Where a table has the entry of an address.
pub(in crate::pci) fn entry(level: Level, table: Place, va: u64) -> Place {
    table.plus(level.offset(va))
}

/// PCF of an entry of version 3.
fn pcf(entry: u64) -> u64 {
    entry >> 3 & 0x1f
}

/// The page of an entry.
fn page(version: Version, entry: u64, bytes: u64) -> Result<Leaf, Cause> {
    if entry & 1 == 0 {
        let is_sparse = match version {
            Version::Two => entry & VOL != 0,
            // SPARSE; others are NO_VALID_4KB_PAGE and MAPPING_NOWHERE.
            Version::Three => pcf(entry) == 1,
        };
        return match is_sparse {
            false => Err(Cause::Pte),
            true => Ok(sparse(bytes, entry)),
        };
    }
    let aperture = match entry >> 1 & 3 {
        0 => Aperture::Vram,
        1 => return Err(Cause::Aperture),
        _ => Aperture::Host,
    };
    // PCF: UNCACHED 0, PRIVILEGE 1, RO 2, NO_ATOMIC 3, ACD 4.
    let (read_only, no_atomics, privileged) = match version {
        Version::Two => (entry >> 6 & 1, entry >> 7 & 1, entry >> 5 & 1),
        Version::Three => {
            let pcf = pcf(entry);
            (pcf >> 2 & 1, pcf >> 3 & 1, pcf >> 1 & 1)
        }
    };
    let rights = match (read_only, no_atomics) {
        (1, _) => Rights::ReadOnly,
        (_, 1) => Rights::ReadWrite,
        _ => Rights::ReadWriteAtomic,
    };
    Ok(Leaf {
        place: Some(address(version, aperture, entry, TABLE)),
        bytes,
        rights,
        privileged: privileged != 0,
        kind: match version {
            Version::Two => (entry >> 56) as u32,
            Version::Three => (entry >> 8) as u32 & 0xf,
        },
        encrypted: version == Version::Two && entry >> 4 & 1 != 0,
        entry,
    })
}

/// Whether the small pages count where there is no large one. Otherwise the entry says that they are not looked at: PRIVILEGE of
/// version 2, NO_VALID_4KB_PAGE of version 3, which has MAPPING_NOWHERE, too.
///
/// Source: OGKM, nvidia-uvm/uvm_turing_mmu.c, unmapped_pte_turing, uvm_hopper_mmu.c, unmapped_pte_hopper.
fn leaves_to_small(version: Version, entry: u64) -> bool {
    match version {
        Version::Two => entry >> 5 & 1 == 0,
        Version::Three => pcf(entry) == 0,
    }
}

/// Walks from a root to the page of an address. `read` gives the entry at a place.
pub(in crate::pci) fn walk(
    version: Version,
    root: Place,
    va: u64,
    read: &mut dyn FnMut(Level, Place) -> Option<u64>,
) -> Result<Leaf, Cause> {
    if va >> version.bits() != 0 {
        return Err(Cause::VaLimit);
    }
    let mut at = |level: Level, table: Place| {
        let entry = read(level, table.plus(level.offset(va)));
        entry.ok_or(Cause::Region)
    };
    let mut table = root;
    for &level in version.upper() {
        let entry = at(level, table)?;
        if entry & 1 != 0 {
            return match level {
                Level::Pde1 => page(version, entry, 1 << level.shift()),
                _ => Err(Cause::PdeSize),
            };
        }
        table = match directory(version, entry, TABLE) {
            Some(table) => table,
            None if entry & VOL != 0 => return Ok(sparse(1 << level.shift(), entry)),
            None => return Err(Cause::Pde),
        };
    }
    let entry = at(Level::Pde0Big, table)?;
    if entry & 1 != 0 {
        return page(version, entry, 2 << 20);
    }
    let big = directory(version, entry, BIG_TABLE);
    let small = directory(version, at(Level::Pde0Small, table)?, TABLE);
    if big.is_none() && small.is_none() {
        return match entry & VOL {
            0 => Err(Cause::Pde),
            _ => Ok(sparse(2 << 20, entry)),
        };
    }
    if let Some(big) = big {
        let entry = at(Level::Big, big)?;
        let found = page(version, entry, 64 << 10);
        if found != Err(Cause::Pte) || small.is_none() || !leaves_to_small(version, entry) {
            return found;
        }
    }
    match small {
        Some(small) => page(version, at(Level::Small, small)?, 4 << 10),
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
            // Small pages that are not looked at, and such that are.
            (0x5110, 1 << 5),
            (0x6100, 0x9000 >> 12 << 8 | 1),
            (0x6180, 0xa000 >> 12 << 8 | 1),
        ]);
        let base = (1 << 47) | (2 << 38) | (3 << 29);
        let find = |va: u64| {
            walk(Version::Two, Place::vram(0x1000), va, &mut |_, place| {
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
        assert_eq!(find(base + (4 << 21) + 0x2_0000), Err(Cause::Pte));
        let other = find(base + (4 << 21) + 0x3_0000).unwrap();
        assert_eq!(other.place, Some(Place::vram(0xa000)));
        assert_eq!(find(base + (4 << 21) + 0x2000), Err(Cause::Aperture));
        assert_eq!(find(base + (4 << 21) + 0x3000), Err(Cause::Pte));
        assert_eq!(find(base + (7 << 21)), Err(Cause::Pde));
        assert_eq!(find(0), Err(Cause::Pde));
        assert_eq!(find(1 << 49), Err(Cause::VaLimit));
        memory.insert(0x1000, 1);
        let found = walk(Version::Two, Place::vram(0x1000), 0, &mut |_, place| {
            memory.get(&place.at).copied()
        });
        assert_eq!(found, Err(Cause::PdeSize));
    }

    #[test]
    fn a_walk_of_version_3_has_six_levels() {
        // PCF 7:3 of pages: regular, privileged, read-only, without atomics; of tables 5:3.
        let mut memory = BTreeMap::from([
            (0x1008, 0x2000 | 2 << 3 | 1 << 1),
            (0x2008, 0x3000 | 2 << 3 | 1 << 1),
            (0x3010, 0x4000 | 2 << 3 | 1 << 1),
            (0x4018, 0x5000 | 2 << 3 | 1 << 1),
            (0x4020, 0x4000_0000 | 0x14 << 3 | 2 << 1 | 1),
            (0x5040, 0x6100 | 2 << 3 | 1 << 1),
            (0x5048, 0x7000 | 2 << 3 | 1 << 1),
            (0x5050, 0x20_0000 | 6 << 8 | 0x10 << 3 | 1),
            (0x5060, 1 << 3),
            (0x6108, 0x7_0000 | 0x18 << 3 | 1),
            (0x7008, 0x9000 | 0x12 << 3 | 1),
            (0x7010, 1 << 3),
            (0x7018, 3 << 3),
            // NO_VALID_4KB_PAGE, MAPPING_NOWHERE and INVALID of large pages, with small ones below; a table that allows ATS.
            (0x6110, 3 << 3),
            (0x6118, 2 << 3),
            (0x7100, 0x9000 | 0x10 << 3 | 1),
            (0x7180, 0xa000 | 0x10 << 3 | 1),
            (0x7200, 0xb000 | 0x10 << 3 | 1),
            (0x1000, 0x2000 | 1 << 1),
        ]);
        let base = (1 << 56) | (1 << 47) | (2 << 38) | (3 << 29);
        let find = |va: u64| {
            walk(Version::Three, Place::vram(0x1000), va, &mut |_, place| {
                Some(memory.get(&place.at).copied().unwrap_or(0))
            })
        };
        let small = find(base + (4 << 21) + 0x1000).unwrap();
        assert_eq!(small.place, Some(Place::vram(0x9000)));
        assert!(small.privileged && small.bytes == 4096);
        let big = find(base + (4 << 21) + 0x1_0000).unwrap();
        assert_eq!((big.bytes, big.rights), (0x1_0000, Rights::ReadWrite));
        let huge = find(base + (5 << 21)).unwrap();
        assert_eq!((huge.place, huge.kind), (Some(Place::vram(0x20_0000)), 6));
        assert_eq!(find(base + (6 << 21)).unwrap().place, None);
        let largest = find(base + (1 << 29)).unwrap();
        assert_eq!((largest.bytes, largest.rights), (1 << 29, Rights::ReadOnly));
        assert_eq!(
            largest.place.map(|place| place.aperture),
            Some(Aperture::Host)
        );
        for at in [0x2_0000, 0x3_0000] {
            assert_eq!(find(base + (4 << 21) + at), Err(Cause::Pte), "{at:#x}");
        }
        let other = find(base + (4 << 21) + 0x4_0000).unwrap();
        assert_eq!(other.place, Some(Place::vram(0xb000)));
        let by_ats = find(base - (1 << 56) + (4 << 21) + 0x4_0000).unwrap();
        assert_eq!(by_ats, other);
        assert_eq!(find(base + (4 << 21) + 0x2000).unwrap().place, None);
        assert_eq!(find(base + (4 << 21) + 0x3000), Err(Cause::Pte));
        assert_eq!(find(0), Err(Cause::Pde));
        assert_eq!(find(1 << 57), Err(Cause::VaLimit));
        memory.insert(0x1000, 1);
        let found = walk(Version::Three, Place::vram(0x1000), 0, &mut |_, place| {
            memory.get(&place.at).copied()
        });
        assert_eq!(found, Err(Cause::PdeSize));
    }
}
