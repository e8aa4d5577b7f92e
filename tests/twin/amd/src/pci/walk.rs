//! Walks the page tables that a driver has written.

use std::sync::Arc;

use drivers_spec::amd::packet::Gfx;
use drivers_spec::amd::pte::{self, Entries};
use twin::rule::{Journal, Proof, Rule};

use crate::mem::{Mtype, Physical, Place, Rights};

/// Bits without a meaning are 0.
pub static RESERVED: Rule = Rule {
    name: "AMD-PTE-RESERVED",
    text: "a page table entry has only the bits of its kind: a directory entry its address, system, snooped and \
           fragment size; a page entry also the others",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gmc_v11_0.c and gmc_v12_0.c, \"PTE format\", \"PDE format\"",
    proof: Proof::Sourced,
};

/// From GFX12 on an entry of the last table says what it is.
pub static LEAF: Rule = Rule {
    name: "AMD-PTE-LEAF",
    text: "on GFX12, a valid entry of a last-level table has AMDGPU_PTE_IS_PTE",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_vm_pt.c, amdgpu_vm_pte_update_flags and gmc_v12_0.c, \"PTE format\": 63 P",
    proof: Proof::Sourced,
};

/// A fragment is what it says.
pub static FRAGMENT: Rule = Rule {
    name: "AMD-PTE-FRAGMENT",
    text: "the pages of a fragment are contiguous, aligned by address, and mapped alike",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_vm_pt.c, amdgpu_vm_pte_fragment: on the fragment field of a PTE",
    proof: Proof::Sourced,
};

/// An address space, as the registers of a hub have it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Context {
    /// Whether it is one.
    pub(super) enabled: bool,
    /// How many levels lie above the last.
    pub(super) depth: u32,
    /// With one more, by entries that say so.
    pub(super) further: bool,
    /// The entry that leads to the root.
    pub(super) root: u64,
    /// Its first address.
    pub(super) start: u64,
    /// Its last address.
    pub(super) last: u64,
}

/// Why an address is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// It is outside of the address space, or there is none.
    Range,
    /// A table is missing.
    Table,
    /// The page is not valid.
    Page,
}

/// A page that an address lies in, with those that are one with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Leaf {
    /// The first address of the run.
    pub(super) first: u64,
    /// Its bytes.
    pub(super) bytes: u64,
    /// Where its first byte is.
    pub(super) place: Place,
    /// May be read.
    pub(super) read: bool,
    /// What else may be done.
    pub(super) rights: Rights,
    /// How it is cached.
    pub(super) mtype: Mtype,
}

impl Leaf {
    /// Where an address of it is.
    pub(super) fn at(&self, va: u64) -> Place {
        self.place.plus(va - self.first)
    }
}

/// A walk, for one kind of chip.
pub(super) struct Walker<'a> {
    pub(super) gfx: Gfx,
    pub(super) physical: &'a Physical,
    pub(super) journal: &'a Journal,
    pub(super) who: &'a Arc<str>,
}

fn place(entry: u64) -> Place {
    let at = entry & pte::ADDRESS.mask();
    match pte::SYSTEM.get(entry) {
        0 => Place::Vram(at),
        _ => Place::Bus(at),
    }
}

impl Walker<'_> {
    /// The run of pages that an address lies in; what is wrong with the entries is reported.
    pub(super) fn walk(&self, context: &Context, va: u64) -> Result<Leaf, Stop> {
        let (level, entry) = self.find(context, va, true)?;
        self.check(level, entry, va);
        let page = self.leaf(context, level, entry, va);
        let run = (pte::FRAGMENT.get(entry) + 12).min(47);
        let bytes = 1 << run;
        if bytes <= page.bytes {
            return Ok(page);
        }
        let offset = va - context.start;
        let first = context.start + (offset & !(bytes - 1));
        let expected = Leaf {
            first,
            bytes,
            place: match page.place {
                Place::Vram(at) => Place::Vram(at.wrapping_sub(page.first - first)),
                Place::Bus(at) => Place::Bus(at.wrapping_sub(page.first - first)),
            },
            ..page
        };
        for va in [first, first + bytes - 1] {
            let found = self.find(context, va, false);
            let same = found.is_ok_and(|(level, entry)| {
                let other = self.leaf(context, level, entry, va);
                other.at(va) == expected.at(va)
                    && (other.read, other.rights, other.mtype)
                        == (page.read, page.rights, page.mtype)
            });
            if !same {
                let who = self.who;
                let what = format!(
                    "{who}: the entry of {:#x} is one of {bytes:#x} bytes from {first:#x} on, {va:#x} is not in line",
                    page.first
                );
                self.journal.broken(&FRAGMENT, what);
                return Ok(page);
            }
        }
        Ok(expected)
    }

    /// The same, of that page alone, and silently.
    pub(super) fn look(&self, context: &Context, va: u64) -> Result<Leaf, Stop> {
        let (level, entry) = self.find(context, va, false)?;
        Ok(self.leaf(context, level, entry, va))
    }

    fn entries(&self) -> &'static Entries {
        pte::entries(self.gfx)
    }

    fn leaf(&self, context: &Context, level: usize, entry: u64, va: u64) -> Leaf {
        let bytes = 1u64 << pte::SHIFTS[level];
        let mtype = self.entries().mtype.get(entry);
        Leaf {
            first: context.start + ((va - context.start) & !(bytes - 1)),
            bytes,
            place: place(entry),
            read: pte::READABLE.get(entry) == 1,
            rights: Rights {
                write: pte::WRITEABLE.get(entry) == 1,
                execute: pte::EXECUTABLE.get(entry) == 1,
            },
            mtype: match (mtype, self.gfx) {
                (pte::MTYPE_DEFAULT, _) => Mtype::Nc,
                (pte::MTYPE_RW_GFX9, Gfx::Gfx9) => Mtype::Rw,
                (pte::MTYPE_CC_GFX9, Gfx::Gfx9) => Mtype::Cc,
                // Write-combined is uncached for who reads.
                _ => Mtype::Uc,
            },
        }
    }

    /// The entry that maps an address, and its level. What is wrong with those that lead to it is told where asked for.
    fn find(&self, context: &Context, va: u64, tells: bool) -> Result<(usize, u64), Stop> {
        if !context.enabled || va < context.start || va > context.last {
            return Err(Stop::Range);
        }
        let steps = context.depth as usize + usize::from(context.further);
        let first = pte::PTB.checked_sub(steps).ok_or(Stop::Range)?;
        let mut entry = context.root;
        let offset = va - context.start;
        for (level, shift) in pte::SHIFTS.iter().enumerate().skip(first) {
            if pte::VALID.get(entry) == 0 {
                return Err(Stop::Table);
            }
            let mask = (1 << pte::INDEX_BITS) - 1;
            // The first table takes what is left of the address.
            let index = match level == first {
                true => offset >> shift,
                false => offset >> shift & mask,
            };
            let at = place(entry).plus(index * 8);
            entry = self
                .physical
                .read64(at, self.who)
                .map_err(|_| Stop::Table)?;
            let valid = pte::VALID.get(entry) == 1;
            if level == pte::PTB {
                return valid.then_some((level, entry)).ok_or(Stop::Page);
            }
            if valid && self.entries().is_leaf(level, entry) {
                return Ok((level, entry));
            }
            if valid && tells {
                self.check_table(level, entry, va);
            }
        }
        Err(Stop::Table)
    }

    fn check_table(&self, level: usize, entry: u64, va: u64) {
        let entries = self.entries();
        let kept = [pte::VALID, pte::SYSTEM, pte::SNOOPED, pte::ADDRESS];
        let cut = match level {
            pte::PDB1 => entries.block.mask(),
            pte::PDB0 => entries.further.map_or(0, |further| further.mask()),
            _ => 0,
        };
        let known = kept.iter().fold(cut, |known, bits| known | bits.mask());
        self.refuse("table", entry & !known, entry, va);
    }

    fn check(&self, level: usize, entry: u64, va: u64) {
        let entries = self.entries();
        if level == pte::PTB && entries.leaf_in_ptb && entries.leaf.get(entry) == 0 {
            let what = format!("{}: the entry of {va:#x} is {entry:#x}", self.who);
            self.journal.broken(&LEAF, what);
        }
        let leaf = match level == pte::PTB && !entries.leaf_in_ptb {
            true => 0,
            false => entries.leaf.mask(),
        };
        let kept = [
            pte::VALID,
            pte::SYSTEM,
            pte::SNOOPED,
            pte::TMZ,
            pte::EXECUTABLE,
            pte::READABLE,
            pte::WRITEABLE,
            pte::FRAGMENT,
            pte::ADDRESS,
            entries.mtype,
            entries.prt,
        ];
        let known = kept.iter().fold(leaf, |known, bits| known | bits.mask());
        self.refuse("page", entry & !known, entry, va);
    }

    fn refuse(&self, kind: &str, bits: u64, entry: u64, va: u64) {
        if bits != 0 {
            let who = self.who;
            let what = format!(
                "{who}: the entry of {va:#x} for a {kind} is {entry:#x}, with {bits:#x}, which is nothing"
            );
            self.journal.broken(&RESERVED, what);
        }
    }
}
