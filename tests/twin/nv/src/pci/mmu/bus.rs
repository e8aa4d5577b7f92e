//! What the engines of a channel see: its address space, by the page tables that a driver has written.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use hcq::sync::lock;
use twin::rule::Journal;

use super::table::{Cause, Leaf};
use super::tlb::Tlb;
use crate::engines::bus::{Bus, Fault};
use crate::pci::memory::{Physical, Place};
use crate::space::{self, Access, Rights};

/// The smallest page.
const PAGE: u64 = 4096;

/// An address space, for a turn of a channel: what it has used once in it, it has as it was then.
pub(in crate::pci) struct Translated {
    physical: Physical,
    tlb: Arc<Mutex<Tlb>>,
    journal: Arc<Journal>,
    root: Place,
    who: Arc<str>,
    seen: RwLock<HashMap<u64, Leaf>>,
    /// Why there was nothing, by address.
    causes: Mutex<BTreeMap<u64, Cause>>,
}

impl Translated {
    pub(in crate::pci) fn new(
        physical: Physical,
        tlb: Arc<Mutex<Tlb>>,
        journal: Arc<Journal>,
        root: Place,
        who: Arc<str>,
    ) -> Translated {
        Translated {
            physical,
            tlb,
            journal,
            root,
            who,
            seen: RwLock::default(),
            causes: Mutex::default(),
        }
    }

    /// Why there was nothing at an address.
    pub(in crate::pci) fn cause(&self, va: u64) -> Option<Cause> {
        lock(&self.causes).get(&va).copied()
    }

    fn leaf(&self, va: u64) -> Result<Leaf, Cause> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaf) = seen.get(&(va / PAGE)) {
            return Ok(*leaf);
        }
        drop(seen);
        let who = (&*self.who, &*self.journal);
        let leaf = lock(&self.tlb).translate(&self.physical, self.root, va, who)?;
        let seen = self.seen.write();
        seen.unwrap_or_else(PoisonError::into_inner)
            .insert(va / PAGE, leaf);
        Ok(leaf)
    }

    /// The page of an address, if the access is allowed.
    fn find(&self, va: u64, access: Access) -> Result<Leaf, Fault> {
        let fault = |cause: Cause, why: space::Fault| {
            lock(&self.causes).insert(va, cause);
            Fault { va, access, why }
        };
        let unmapped = |cause| fault(cause, space::Fault::Unmapped);
        let leaf = self.leaf(va).map_err(unmapped)?;
        match leaf.rights {
            // Kernels and copies are those of programs: their engines have no privileges.
            _ if leaf.privileged => Err(unmapped(Cause::Privilege)),
            rights if rights.allow(access) => Ok(leaf),
            Rights::ReadOnly => Err(fault(
                Cause::ReadOnly,
                space::Fault::Denied(Rights::ReadOnly),
            )),
            rights => Err(fault(Cause::Atomic, space::Fault::Denied(rights))),
        }
    }

    /// Calls `each` with every piece of a range: where it is, none where it is sparse, and the bytes of the range.
    fn pieces(
        &self,
        at: u64,
        bytes: usize,
        access: Access,
        mut each: impl FnMut(Option<Place>, Range<usize>) -> bool,
    ) -> Result<(), Fault> {
        let mut done = 0;
        while done < bytes {
            let va = at.wrapping_add(done as u64);
            let leaf = self.find(va, access)?;
            let inside = va % leaf.bytes;
            let length = (leaf.bytes - inside).min((bytes - done) as u64) as usize;
            let place = leaf.place.map(|place| place.plus(inside));
            if !each(place, done..done + length) {
                lock(&self.causes).insert(va, Cause::Region);
                let why = space::Fault::Unmapped;
                return Err(Fault { va, access, why });
            }
            done += length;
        }
        Ok(())
    }
}

impl Bus for Translated {
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        self.pieces(at, out.len(), Access::Read, |place, part| {
            let out = &mut out[part];
            match place {
                Some(place) => self.physical.read(place, out, &self.who),
                None => {
                    out.fill(0);
                    true
                }
            }
        })
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<(), Fault> {
        // All or nothing.
        self.pieces(at, data.len(), Access::Write, |_, _| true)?;
        self.pieces(at, data.len(), Access::Write, |place, part| {
            place.is_none_or(|place| self.physical.write(place, &data[part], &self.who))
        })
    }

    fn update(
        &self,
        at: u64,
        held: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Fault> {
        self.pieces(at, held.len(), Access::Atomic, |place, part| {
            // Aligned, so in one page, and in one piece.
            let held = &mut held[part];
            match place {
                Some(place) => self.physical.update(place, held, change, &self.who),
                None => {
                    held.fill(0);
                    true
                }
            }
        })
    }
}

/// Memory from a place on, which no page table rules: USERD.
pub(in crate::pci) struct Plain {
    pub(in crate::pci) physical: Physical,
    pub(in crate::pci) from: Place,
    pub(in crate::pci) who: Arc<str>,
}

impl Plain {
    fn done(done: bool, va: u64, access: Access) -> Result<(), Fault> {
        let why = space::Fault::Unmapped;
        done.then_some(()).ok_or(Fault { va, access, why })
    }
}

impl Bus for Plain {
    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), Fault> {
        let done = self.physical.read(self.from.plus(at), out, &self.who);
        Plain::done(done, at, Access::Read)
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<(), Fault> {
        let done = self.physical.write(self.from.plus(at), data, &self.who);
        Plain::done(done, at, Access::Write)
    }

    fn update(
        &self,
        at: u64,
        held: &mut [u8],
        change: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Fault> {
        let place = self.from.plus(at);
        let done = self.physical.update(place, held, change, &self.who);
        Plain::done(done, at, Access::Atomic)
    }
}
