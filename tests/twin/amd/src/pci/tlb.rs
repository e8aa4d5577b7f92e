//! A hub: the way of the blocks of a card to memory, by the apertures and page tables of its address spaces.
//!
//! A TLB keeps what was found. What it keeps and memory no longer says is what accesses go on to get, and breaks
//! `AMD-HUB-STALE-TLB`. What was not there is not kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use drivers_spec::amd::ih as iv;
use drivers_spec::amd::packet::Gfx;
use hcq::sync::lock;
use twin::rule::{Journal, Proof, Rule};
use twin_shader::page::{Access, FaultKind, MemFault, Port};

use super::ih::Ih;
use super::walk::{Context, Leaf, Stop, Walker};
use crate::mem::{Mtype, Physical, Place, Rights, Translation};

/// Tables have changed and nobody has said so.
pub static STALE: Rule = Rule {
    name: "AMD-HUB-STALE-TLB",
    text: "a hub is invalidated (all of L1, L2 and PDEs, by an engine whose range is all addresses) between a change of \
           a valid entry and an access through it",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_vm.c, amdgpu_vm_update_range with flush_tlb; amdgpu_vm_bo_update: not where nothing valid was",
    proof: Proof::Sourced,
};

/// The hub is set up first.
pub static OFF: Rule = Rule {
    name: "AMD-HUB-OFF",
    text: "a hub's L1 TLB is enabled and its system aperture is set before a block accesses memory through the hub",
    source: "Linux, drivers/gpu/drm/amd/amdgpu: the block GMC is started before IH and PSP (amdgpu_discovery.c, order of blocks); that nothing answers before is a guess",
    proof: Proof::Guess,
};

/// The aperture shows memory.
pub static APERTURE: Rule = Rule {
    name: "AMD-HUB-APERTURE",
    text: "within the system aperture, VMID 0 accesses VRAM only, from FB_LOCATION_BASE to FB_LOCATION_TOP",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gfxhub_v3_0.c, gfxhub_v3_0_init_system_aperture_regs: what is not goes to a default page",
    proof: Proof::Sourced,
};

/// Which hub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Of {
    /// Of the graphics block.
    Gc,
    /// Of all others.
    Mm,
}

/// What the registers of a hub say.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Settings {
    /// Whether it does anything.
    pub(super) l1: bool,
    /// The first and the last address of VRAM.
    pub(super) fb: (u64, u64),
    /// The first and the last address that VMID 0 has without tables.
    pub(super) aperture: (u64, u64),
    /// The address space of VMID 0.
    pub(super) context: Context,
    /// Whether a fault interrupts, by [`Reason`].
    pub(super) interrupts: [bool; REASONS],
}

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    /// Outside of the address space.
    Range,
    /// A table is missing.
    Table,
    /// The page is not valid.
    Valid,
    /// It must not be read.
    Read,
    /// It must not be written.
    Write,
    /// Nothing of it must be run.
    Execute,
}

/// How many [`Reason`]s there are.
pub(super) const REASONS: usize = 6;

/// A fault as the status registers have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Seen {
    /// The address.
    pub(super) va: u64,
    /// Whose.
    pub(super) vmid: u32,
    /// The block: a number that the vendor's drivers have names for.
    pub(super) client: u32,
    /// What it tried.
    pub(super) access: Access,
    /// What was in the way.
    pub(super) reason: Reason,
    /// There were others after it.
    pub(super) more: bool,
}

struct Cached {
    leaf: Leaf,
    /// Told that it is stale.
    told: bool,
}

#[derive(Default)]
struct Inner {
    settings: Settings,
    /// By the first address.
    tlb: BTreeMap<u64, Cached>,
    seen: Option<Seen>,
}

/// A hub of a card.
pub struct Hub {
    of: Of,
    gfx: Gfx,
    who: Arc<str>,
    physical: Arc<Physical>,
    journal: Arc<Journal>,
    inner: Mutex<Inner>,
    ih: OnceLock<Weak<Ih>>,
}

impl Hub {
    pub(super) fn new(
        of: Of,
        instance: usize,
        gfx: Gfx,
        physical: &Arc<Physical>,
        journal: &Arc<Journal>,
    ) -> Arc<Hub> {
        let name = match of {
            Of::Gc => "GC",
            Of::Mm => "MM",
        };
        Arc::new(Hub {
            of,
            gfx,
            who: format!("the {name} hub {instance}").into(),
            physical: physical.clone(),
            journal: journal.clone(),
            inner: Mutex::default(),
            ih: OnceLock::new(),
        })
    }

    pub(super) fn tell(&self, ih: &Arc<Ih>) {
        // Once, by who makes both.
        _ = self.ih.set(Arc::downgrade(ih));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in a model is a failed test already.
        lock(&self.inner)
    }

    fn walker(&self) -> Walker<'_> {
        Walker {
            gfx: self.gfx,
            physical: &self.physical,
            journal: &self.journal,
            who: &self.who,
        }
    }

    /// What the registers say has changed; the TLB keeps what it has.
    pub(super) fn set(&self, settings: Settings) {
        self.lock().settings = settings;
        self.ask_again();
    }

    /// Forgets what it has of VMIDs, by their bits.
    pub(super) fn invalidate(&self, vmids: u32) {
        if vmids & 1 == 1 {
            self.lock().tlb.clear();
            self.ask_again();
        }
    }

    /// What waves have found is looked for again, on all XCCs.
    fn ask_again(&self) {
        for xcc in self.physical.gmc.package() {
            xcc.next_epoch();
        }
    }

    /// All of it starts anew.
    pub(super) fn reset(&self) {
        *self.lock() = Inner::default();
    }

    /// What an address of an address space is.
    ///
    /// # Errors
    /// Why it is nothing.
    pub fn translate(&self, vmid: u32, va: u64, access: Access) -> Result<Translation, FaultKind> {
        let mut inner = self.lock();
        let leaf = self.leaf(&mut inner, vmid, va);
        match leaf.map(|leaf| (leaf, allows(&leaf, access))) {
            Ok((leaf, Ok(()))) => Ok(Translation {
                place: leaf.at(va),
                rights: leaf.rights,
                mtype: leaf.mtype,
            }),
            Ok((_, Err(Reason::Write))) => Err(FaultKind::ReadOnly),
            Ok((_, Err(Reason::Execute))) => Err(FaultKind::NoExecute),
            Ok(_) | Err(_) => Err(FaultKind::NotPresent),
        }
    }

    fn leaf(&self, inner: &mut Inner, vmid: u32, va: u64) -> Result<Leaf, Stop> {
        let Settings {
            l1,
            fb,
            aperture,
            context,
            ..
        } = inner.settings;
        if !l1 {
            let what = format!("{}: an access to {va:#x}", self.who);
            self.journal.broken(&OFF, what);
            return Err(Stop::Range);
        }
        if vmid != 0 {
            // Only VMID 0 is modelled: others have no tables.
            return Err(Stop::Range);
        }
        if (aperture.0..=aperture.1).contains(&va) {
            if !(fb.0..=fb.1).contains(&va) {
                let what = format!("{}: an access to {va:#x}", self.who);
                self.journal.broken(&APERTURE, what);
                return Err(Stop::Range);
            }
            return Ok(Leaf {
                first: fb.0,
                bytes: fb.1 - fb.0 + 1,
                place: Place::Vram(0),
                read: true,
                rights: Rights {
                    write: true,
                    execute: true,
                },
                // `MTYPE` of MX_L1_TLB_CNTL.
                mtype: Mtype::Uc,
            });
        }
        let walker = self.walker();
        if let Some((first, cached)) = inner.tlb.range_mut(..=va).next_back()
            && va - first < cached.leaf.bytes
        {
            let now = walker.look(&context, va);
            let old = cached.leaf;
            let same = now.is_ok_and(|now| {
                (now.at(va), now.read, now.rights, now.mtype)
                    == (old.at(va), old.read, old.rights, old.mtype)
            });
            if !same && !cached.told {
                cached.told = true;
                let now = match now {
                    Ok(now) => format!("{} now", now.at(va)),
                    Err(_) => "nothing now".to_owned(),
                };
                let what = format!("{}: {va:#x} was {}, is {now}", self.who, old.at(va));
                self.journal.broken(&STALE, what);
            }
            return Ok(old);
        }
        let leaf = walker.walk(&context, va)?;
        let (first, end) = (leaf.first, leaf.first.saturating_add(leaf.bytes));
        let inside: Vec<u64> = inner.tlb.range(first..end).map(|(at, _)| *at).collect();
        for at in inside {
            inner.tlb.remove(&at);
        }
        inner.tlb.insert(first, Cached { leaf, told: false });
        Ok(leaf)
    }

    /// A block reads through it.
    pub(super) fn read(&self, client: u32, va: u64, out: &mut [u8]) -> Result<(), FaultKind> {
        let bytes = out.len() as u64;
        self.pieces(client, va, bytes, Access::Read, |place, part| {
            let who: Arc<str> = format!("client {client} of {}", self.who).into();
            let read = self.physical.read(place, &mut out[part], &who);
            read.map_err(|_| FaultKind::NotPresent)
        })
    }

    /// A block writes through it.
    pub(super) fn write(&self, client: u32, va: u64, data: &[u8]) -> Result<(), FaultKind> {
        let bytes = data.len() as u64;
        self.pieces(client, va, bytes, Access::Write, |place, part| {
            let who: Arc<str> = format!("client {client} of {}", self.who).into();
            let written = self.physical.write(place, &data[part], &who);
            written.map_err(|_| FaultKind::NotPresent)
        })
    }

    fn pieces(
        &self,
        client: u32,
        va: u64,
        bytes: u64,
        access: Access,
        mut each: impl FnMut(Place, std::ops::Range<usize>) -> Result<(), FaultKind>,
    ) -> Result<(), FaultKind> {
        let mut done = 0;
        while done < bytes {
            let va = va.wrapping_add(done);
            let piece = (4096 - va % 4096).min(bytes - done);
            let part = done as usize..(done + piece) as usize;
            let placed = self.translate(0, va, access);
            placed
                .and_then(|translation| each(translation.place, part))
                .inspect_err(|_| self.record(0, client, va, access))?;
            done += piece;
        }
        Ok(())
    }

    /// An engine's access was refused: the status registers say so until they are cleared, and it interrupts.
    pub fn fault(&self, vmid: u32, fault: &MemFault) {
        // Names of clients: Linux, gfxhub_v3_0.c, gfxhub_client_ids.
        let client = match fault.port {
            Port::Vector => 0x8,
            Port::Scalar => 0xa,
            Port::Inst => 0x9,
            Port::Cp => 0x5,
            Port::Sdma => 0xd,
        };
        self.record(vmid, client, fault.va, fault.access);
    }

    fn record(&self, vmid: u32, client: u32, va: u64, access: Access) {
        let mut inner = self.lock();
        let reason = match self.leaf(&mut inner, vmid, va) {
            Ok(leaf) => allows(&leaf, access).err().unwrap_or(Reason::Valid),
            Err(Stop::Range) => Reason::Range,
            Err(Stop::Table) => Reason::Table,
            Err(Stop::Page) => Reason::Valid,
        };
        let seen = Seen {
            va,
            vmid,
            client,
            access,
            reason,
            more: false,
        };
        match &mut inner.seen {
            Some(first) => first.more = true,
            none => *none = Some(seen),
        }
        let interrupts = inner.settings.interrupts[reason as usize];
        drop(inner);
        let ih = self.ih.get().and_then(Weak::upgrade).filter(|_| interrupts);
        if let Some(ih) = ih {
            ih.push(self.entry(&seen));
        }
    }

    fn entry(&self, seen: &Seen) -> [u32; iv::DWORDS] {
        let (client, hub) = match self.of {
            Of::Gc if self.gfx == Gfx::Gfx9 => (iv::client9::UTCL2, 0),
            Of::Gc => (iv::client::GFX, 0),
            Of::Mm => (iv::client::VMC, 1),
        };
        let how = match seen.access {
            Access::Read => iv::fault::READ,
            Access::Write => iv::fault::WRITE,
            Access::Execute => iv::fault::EXECUTE,
        };
        let mut entry = [0; iv::DWORDS];
        entry[0] = iv::CLIENT_ID.put(client)
            | iv::SOURCE_ID.put(iv::source::UTCL2_FAULT)
            | iv::VMID.put(seen.vmid)
            | iv::VMID_SRC.put(hub);
        entry[iv::CONTEXT] = (seen.va >> 12) as u32;
        entry[iv::CONTEXT + 1] = (seen.va >> 44) as u32 & iv::fault::ADDRESS_HIGH | how;
        entry
    }

    /// The fault that the status registers have.
    pub(super) fn seen(&self) -> Option<Seen> {
        self.lock().seen
    }

    /// The status registers are cleared.
    pub(super) fn clear(&self) {
        self.lock().seen = None;
    }
}

fn allows(leaf: &Leaf, access: Access) -> Result<(), Reason> {
    match access {
        Access::Read if !leaf.read => Err(Reason::Read),
        Access::Write if !leaf.rights.write => Err(Reason::Write),
        Access::Execute if !leaf.rights.execute => Err(Reason::Execute),
        _ => Ok(()),
    }
}
