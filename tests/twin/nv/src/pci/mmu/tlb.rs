//! What the MMU remembers of page tables: each entry that it has used, until it is invalidated.
//!
//! Entries that lead nowhere are not remembered: it is for the other ones that drivers invalidate.
//!
//! Source: OGKM, kernel-open/nvidia-uvm/uvm_va_block.c: If the 2M PTE is already invalid, no TLB invalidate is needed; uvm_mmu.c: after
//! directories are written; src/nvidia/src/kernel/mem_mgr/gpu_vaspace.c, gvaspaceInvalidateTlb_IMPL.

use std::collections::{BTreeMap, BTreeSet};

use twin::rule::{Journal, Proof, Rule};

use super::table::{self, Cause, Leaf, Level, Version};
use crate::pci::chip::Chip;
use crate::pci::memory::{Aperture, Physical, Place};

static STALE: Rule = Rule {
    name: "NV-MMU-INVALIDATE",
    text: "an entry of page tables that the MMU has used is not changed, or is invalidated before it is used again: of its page \
           directory, with the levels that have changed",
    source: "OGKM, gpu_vaspace.c, gvaspaceInvalidateTlb_IMPL; kern_gmmu_tu102.c, kgmmuCommitTlbInvalidate_TU102; Linux, \
             nvkm/subdev/mmu/vmmtu102.c, tu102_vmm_flush; that entries are kept for so long is the worst case",
    proof: Proof::Sourced,
};

static ENTRY: Rule = Rule {
    name: "NV-MMU-ENTRY",
    text: "the entry of a page has an address that is a multiple of its size, in memory that is there and is not protected, \
           and ENCRYPTED 0",
    source: "OGKM, gp100/dev_mmu.h, NV_MMU_VER2_PTE: ADDRESS_SHIFT, ENCRYPTED; gh100/dev_mmu.h, NV_MMU_VER3_PTE; kern_gmmu_fmt_gp10x.c; \
             gsp_fw_wpr_meta.h: WPR2",
    proof: Proof::Sourced,
};

static KIND: Rule = Rule {
    name: "NV-MMU-KIND-NOT-MODELLED",
    text: "pages have the kind PITCH or GENERIC_MEMORY: others, with compression or depths, are not modelled",
    source: "this twin: src/pci/mmu/tlb.rs",
    proof: Proof::Twin,
};

/// `NV_MMU_PTE_KIND_*`, turing/tu102/dev_mmu.h.
const PITCH: u32 = 0;
const INVALID: u32 = 7;
const GENERIC_MEMORY: u32 = 6;
const LAST_KIND: u32 = 0xf;

/// An entry: of which directory, on which level, of which addresses.
type Key = (Place, Level, u64);

/// See the front page.
#[derive(Default)]
pub(in crate::pci) struct Tlb {
    version: Version,
    entries: BTreeMap<Key, u64>,
    /// Of which it was said that they are out of date, or wrong.
    told: BTreeSet<Key>,
}

impl Tlb {
    /// That of a chip.
    pub(in crate::pci) fn of(chip: &Chip) -> Tlb {
        Tlb {
            version: Version::of(chip),
            ..Tlb::default()
        }
    }

    /// The page of an address, by what is remembered.
    pub(in crate::pci) fn translate(
        &mut self,
        physical: &Physical,
        root: Place,
        va: u64,
        (who, journal): (&str, &Journal),
    ) -> Result<Leaf, Cause> {
        let (mut stale, mut last) = (None, Level::Pde3);
        let entries = &mut self.entries;
        let found = table::walk(self.version, root, va, &mut |level, place| {
            last = level;
            let key = (root, level, va >> level.shift());
            let now = physical.long(place, who);
            let Some(held) = entries.get(&key).copied() else {
                // Both halves of an entry of the last directory are kept together.
                let other = level.other_half(place);
                let other = other.and_then(|(other, at)| Some((other, physical.long(at, who)?)));
                let is_kept = |now: u64| {
                    level.keeps(now) || other.is_some_and(|(other, entry)| other.keeps(entry))
                };
                if let Some(now) = now.filter(|now| is_kept(*now)) {
                    entries.insert(key, now);
                }
                return now;
            };
            if now != Some(held) {
                stale.get_or_insert((key, held, now));
            }
            Some(held)
        });
        if let Some((key, held, now)) = stale
            && self.told.insert(key)
        {
            let now = now.map_or("gone".into(), |now| format!("{now:#x}"));
            let what = format!(
                "{who}: {va:#x} by the page directory at {root}: {:?} was {held:#x}, and is {now}",
                key.1
            );
            journal.broken(&STALE, what);
        }
        let leaf = found?;
        let key = (root, last, va >> last.shift());
        let what = || format!("{who}: {va:#x}, {:#x} bytes: {:#x}", leaf.bytes, leaf.entry);
        match leaf.kind {
            PITCH | GENERIC_MEMORY => {}
            INVALID => return Err(Cause::Kind),
            kind if kind > LAST_KIND => return Err(Cause::Kind),
            _ if self.told.insert(key) => {
                journal.broken(&KIND, what());
            }
            _ => {}
        }
        let Some(place) = leaf.place else {
            return Ok(leaf);
        };
        let is_there = place.aperture == Aperture::Host || physical.allows(place, leaf.bytes);
        let right = place.at.is_multiple_of(leaf.bytes) && is_there && !leaf.encrypted;
        if !right && self.told.insert(key) {
            journal.broken(&ENTRY, what());
        }
        match is_there {
            true => Ok(leaf),
            false => Err(Cause::Region),
        }
    }

    /// Forgets what was remembered of a directory, or of all that `of` takes: pages, and directories up to a level; all of
    /// them for level 0.
    pub(in crate::pci) fn invalidate(&mut self, of: impl Fn(Place) -> bool, level: u32) {
        let goes = |(root, at, _): &Key, entry: u64| {
            of(*root) && (level == 0 || at.is_leaf(entry) || at.cache_level() <= level)
        };
        self.entries.retain(|key, entry| !goes(key, *entry));
        self.told.retain(|(root, _, _)| !of(*root));
    }
}
