//! Memory that GPUs reach, and the page tables of their address spaces: what is mapped where, with which
//! rights.
//!
//! Source: open-gpu-kernel-modules 580.142, kernel-open/nvidia-uvm/uvm_map_external.c (external maps),
//! src/common/inc/swref/published/hopper/gh100/dev_mmu.h (what an entry holds).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::contents::Contents;

/// Where memory is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// On the GPU.
    Local,
    /// In the machine, given by the driver.
    System,
    /// Pages of the process, at that address.
    Process(u64),
}

/// Memory that was made or pinned: an object of RM, a duplicate of it and mappings share it.
#[derive(Debug)]
pub struct Memory {
    /// Tells memories apart.
    pub id: u64,
    /// The GPU that it was made for; local memory lies there.
    pub gpu: usize,
    /// Where it is.
    pub place: Place,
    /// How much, in whole pages.
    pub bytes: u64,
    /// The size of its pages.
    pub page: u64,
    /// Whether a GPU may write.
    pub writable: bool,
    /// Its bytes.
    pub contents: Contents,
}

/// What a mapping allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rights {
    /// Everything.
    ReadWriteAtomic,
    /// No atomics.
    ReadWrite,
    /// Reads.
    ReadOnly,
}

/// What an engine does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// Both at once.
    Atomic,
}

impl Rights {
    /// Whether an access is allowed.
    pub fn allow(self, access: Access) -> bool {
        match access {
            Access::Read => true,
            Access::Write => self != Rights::ReadOnly,
            Access::Atomic => self == Rights::ReadWriteAtomic,
        }
    }
}

/// Who has made a mapping, and takes it away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// RM_MAP_MEMORY_DMA, through that range of addresses.
    Rm(u32),
    /// UVM, in an external range.
    Uvm,
}

/// Entries of a page table in a row.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// How many bytes.
    pub bytes: u64,
    /// Of what.
    pub memory: Arc<Memory>,
    /// Where in it they begin.
    pub offset: u64,
    /// What is allowed.
    pub rights: Rights,
    /// The size of the GPU's pages.
    pub page: u64,
    /// Who has made it.
    pub owner: Owner,
}

/// Why the MMU has nothing for an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No entry.
    Unmapped,
    /// An entry that does not allow it.
    Denied(Rights),
}

/// Where an access goes: memory, the place in it, and bytes up to the end of the mapping.
pub type Target<'a> = (&'a Arc<Memory>, u64, u64);

/// An address space of a GPU.
#[derive(Clone, Debug)]
pub struct Space {
    /// Whose.
    pub gpu: usize,
    /// The first address.
    pub base: u64,
    /// The last one.
    pub last: u64,
    /// Whether UVM, and not RM, maps in it.
    pub external: bool,
    mappings: BTreeMap<u64, Mapping>,
}

impl Space {
    /// One with nothing in it.
    pub fn new(gpu: usize, base: u64, last: u64, external: bool) -> Space {
        Space {
            gpu,
            base,
            last,
            external,
            mappings: BTreeMap::new(),
        }
    }

    /// What lies in a range, in part or whole: first addresses and mappings.
    pub fn inside(&self, at: u64, bytes: u64) -> impl Iterator<Item = (u64, &Mapping)> {
        let end = at.saturating_add(bytes);
        let before = self.mappings.range(..end).rev();
        before
            .map(|(&first, mapping)| (first, mapping))
            .take_while(move |(first, mapping)| first + mapping.bytes > at)
    }

    /// Whether nothing lies in a range, and it is one of this space.
    pub fn is_free(&self, at: u64, bytes: u64) -> bool {
        let last = at.checked_add(bytes.saturating_sub(1));
        let fits = at >= self.base && last.is_some_and(|last| last <= self.last);
        fits && self.inside(at, bytes).next().is_none()
    }

    /// The first free place from an address on.
    pub fn place(&self, from: u64, bytes: u64, align: u64) -> Option<u64> {
        let mut at = from.max(self.base).checked_next_multiple_of(align)?;
        while !self.is_free(at, bytes) {
            let (first, mapping) = self.inside(at, bytes).next()?;
            at = (first + mapping.bytes).checked_next_multiple_of(align)?;
        }
        Some(at)
    }

    /// Enters a mapping at an address. Nothing is there.
    pub fn map(&mut self, at: u64, mapping: Mapping) {
        debug_assert!(self.inside(at, mapping.bytes).next().is_none());
        self.mappings.insert(at, mapping);
    }

    /// The mapping that begins at an address.
    pub fn at(&self, at: u64) -> Option<&Mapping> {
        self.mappings.get(&at)
    }

    /// Takes away what begins at an address.
    pub fn unmap(&mut self, at: u64) -> Option<Mapping> {
        self.mappings.remove(&at)
    }

    /// Takes away what an owner has mapped in a range.
    pub fn unmap_all(&mut self, at: u64, bytes: u64, owner: Owner) {
        let found: Vec<u64> = self
            .inside(at, bytes)
            .filter(|(_, mapping)| mapping.owner == owner)
            .map(|(first, _)| first)
            .collect();
        for first in found {
            self.mappings.remove(&first);
        }
    }

    /// Takes away what UVM has mapped in a range, also of mappings that go on before or behind it.
    pub fn cut(&mut self, at: u64, bytes: u64) {
        let end = at + bytes;
        let uvm = |(first, mapping): (u64, &Mapping)| {
            (mapping.owner == Owner::Uvm).then(|| (first, mapping.clone()))
        };
        let found: Vec<(u64, Mapping)> = self.inside(at, bytes).filter_map(uvm).collect();
        for (first, mapping) in found {
            self.mappings.remove(&first);
            let last = first + mapping.bytes;
            if first < at {
                let bytes = at - first;
                let before = Mapping {
                    bytes,
                    ..mapping.clone()
                };
                self.mappings.insert(first, before);
            }
            if last > end {
                let (bytes, offset) = (last - end, mapping.offset + (end - first));
                let behind = Mapping {
                    bytes,
                    offset,
                    ..mapping
                };
                self.mappings.insert(end, behind);
            }
        }
    }

    /// Every mapping.
    pub fn mappings(&self) -> impl Iterator<Item = (u64, &Mapping)> {
        self.mappings.iter().map(|(&at, mapping)| (at, mapping))
    }

    /// What an engine finds at an address.
    ///
    /// # Errors
    /// Nothing is mapped, or not for that.
    pub fn translate(&self, at: u64, access: Access) -> Result<Target<'_>, Fault> {
        let found = self.inside(at, 1).next();
        let (first, mapping) = found.ok_or(Fault::Unmapped)?;
        if !mapping.rights.allow(access) || (access != Access::Read && !mapping.memory.writable) {
            return Err(Fault::Denied(mapping.rights));
        }
        let into = at - first;
        Ok((&mapping.memory, mapping.offset + into, mapping.bytes - into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(bytes: u64, rights: Rights) -> Mapping {
        let memory = Memory {
            id: 1,
            gpu: 0,
            place: Place::Local,
            bytes,
            page: 4096,
            writable: true,
            contents: Contents::default(),
        };
        Mapping {
            bytes,
            memory: Arc::new(memory),
            offset: 0x1000,
            rights,
            page: 4096,
            owner: Owner::Uvm,
        }
    }

    #[test]
    fn accesses_find_mappings_and_rights() {
        let mut space = Space::new(0, 0x1000, 0xf_ffff, true);
        assert!(!space.is_free(0, 0x1000) && !space.is_free(0xf_f000, 0x1001));
        space.map(0x4000, mapping(0x2000, Rights::ReadOnly));
        space.map(0x8000, mapping(0x1000, Rights::ReadWrite));
        let (_, offset, rest) = space.translate(0x5800, Access::Read).unwrap();
        assert_eq!((offset, rest), (0x2800, 0x800));
        let fault = |at, access| space.translate(at, access).map(drop).unwrap_err();
        let denied = Fault::Denied(Rights::ReadOnly);
        assert_eq!(fault(0x4000, Access::Write), denied);
        assert_eq!(fault(0x6000, Access::Read), Fault::Unmapped);
        assert_eq!(fault(0x3fff, Access::Read), Fault::Unmapped);
        let denied = Fault::Denied(Rights::ReadWrite);
        assert_eq!(fault(0x8000, Access::Atomic), denied);
        assert!(space.translate(0x8000, Access::Write).is_ok());
        assert_eq!(space.inside(0x5fff, 0x2002).count(), 2);
        assert_eq!(space.place(0, 0x3000, 0x1000), Some(0x1000));
        assert_eq!(space.place(0x4000, 0x3000, 0x1000), Some(0x9000));
        assert_eq!(space.place(0, 1 << 20, 0x1000), None);
        space.unmap_all(0, 0x10_0000, Owner::Rm(1));
        assert_eq!(space.mappings().count(), 2);
        space.cut(0x4800, 0x800);
        let left: Vec<_> = space
            .mappings()
            .map(|(at, m)| (at, m.bytes, m.offset))
            .collect();
        assert_eq!(
            left[..2],
            [(0x4000, 0x800, 0x1000), (0x5000, 0x1000, 0x2000)]
        );
        space.unmap_all(0, 0x10_0000, Owner::Uvm);
        assert_eq!(space.mappings().count(), 0);
    }
}
