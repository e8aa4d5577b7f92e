//! Interrupt rings: where blocks tell the driver what happened.
//!
//! All entries go to ring 0: what would send some of them to ring 1 is not modelled.

use std::sync::{Arc, Mutex, MutexGuard};

use drivers_spec::amd::ih::DWORDS;
use drivers_spec::amd::mmio::{Reg, osssys};
use hcq::sync::lock;
use twin::pci::{Broken, Bus};
use twin::rule::{Journal, Proof, Rule};

use super::registers::{At, Hook, hold};
use super::state::{State, put};
use super::tlb::Hub;
use crate::mem::{Physical, Place};

/// A ring is set up before it runs.
pub static ENABLED: Rule = Rule {
    name: "AMD-IH-ENABLED",
    text: "the address and the size of an interrupt ring are written while rb_enable is 0",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/ih_v6_0.c, ih_v6_0_irq_init: disables the rings first",
    proof: Proof::Sourced,
};

/// Pointers count bytes.
pub static POINTER: Rule = Rule {
    name: "AMD-IH-POINTER",
    text: "pointers of an interrupt ring are in bytes, multiples of 32 (an entry), within the ring",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/ih_v6_0.c, ih_v6_0_set_rptr; amdgpu_ih.c, amdgpu_ih_decode_iv_helper: rptr += 32",
    proof: Proof::Sourced,
};

/// A ring is in a space that is known.
pub static SPACE: Rule = Rule {
    name: "AMD-IH-SPACE",
    text: "when an interrupt ring is enabled, its mc_space is 4 (an address of VMID 0) or 2 (a bus address), and its \
           mc_vmid is 0",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/ih_v6_0.c, ih_v6_0_rb_cntl",
    proof: Proof::Sourced,
};

/// The blocks' number among the clients of the MM hub: Linux, mmhub_v3_0.c, mmhub_client_ids_v3_0_0.
const CLIENT: u32 = 15;
const ENTRY: u32 = 4 * DWORDS as u32;

pub(super) const HOOKS: &[Hook] = &[
    Hook::write(&osssys::IH_RB_CNTL, control),
    Hook::write(&osssys::IH_RB_CNTL_RING1, control),
    Hook::write(&osssys::IH_RB_BASE, place),
    Hook::write(&osssys::IH_RB_BASE_HI, place),
    Hook::write(&osssys::IH_RB_BASE_RING1, place),
    Hook::write(&osssys::IH_RB_BASE_HI_RING1, place),
    Hook::both(&osssys::IH_RB_RPTR, read_rptr, write_rptr),
    Hook::both(&osssys::IH_RB_RPTR_RING1, read_rptr, write_rptr),
    Hook::both(&osssys::IH_RB_WPTR, read_wptr, write_wptr),
    Hook::both(&osssys::IH_RB_WPTR_RING1, read_wptr, write_wptr),
];

/// Registers of the two rings.
const CONTROL: [&Reg; 2] = [&osssys::IH_RB_CNTL, &osssys::IH_RB_CNTL_RING1];
const BASE: [[&Reg; 2]; 2] = [
    [&osssys::IH_RB_BASE, &osssys::IH_RB_BASE_HI],
    [&osssys::IH_RB_BASE_RING1, &osssys::IH_RB_BASE_HI_RING1],
];

#[derive(Clone, Copy, Default, Debug)]
struct Ring {
    enabled: bool,
    base: u64,
    bytes: u32,
    space: u32,
    /// Entries that nobody has read are written over, and that is told.
    overflows: bool,
    /// Where the write pointer is written to, too.
    told: Option<u64>,
    /// It interrupts.
    interrupts: bool,
    rptr: u32,
    wptr: u32,
    overflow: bool,
    /// The word of the last overflow was taken back, and the bit that does that is still set: there is none of another.
    /// Source: Linux, ih_v6_0.c, ih_v6_0_get_wptr: "Unset the CLEAR_OVERFLOW bit immediately so new overflow could be
    /// detected".
    deaf: bool,
}

impl Ring {
    fn wptr(&self) -> u32 {
        self.wptr | u32::from(self.overflow)
    }
}

/// The rings of a card.
pub struct Ih {
    hub: Arc<Hub>,
    physical: Arc<Physical>,
    bus: Arc<Bus>,
    journal: Arc<Journal>,
    rings: Mutex<[Ring; 2]>,
}

impl Ih {
    pub(super) fn new(
        hub: &Arc<Hub>,
        physical: &Arc<Physical>,
        bus: &Arc<Bus>,
        journal: &Arc<Journal>,
    ) -> Arc<Ih> {
        Arc::new(Ih {
            hub: hub.clone(),
            physical: physical.clone(),
            bus: bus.clone(),
            journal: journal.clone(),
            rings: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, [Ring; 2]> {
        // A panic in a model is a failed test already.
        lock(&self.rings)
    }

    pub(super) fn reset(&self) {
        *self.lock() = Default::default();
    }

    /// A block has something to tell. Lost where no ring runs.
    pub fn push(&self, entry: [u32; DWORDS]) {
        // An entry that faults has an entry of its own, for which there is no way either.
        let Ok(mut rings) = self.rings.try_lock() else {
            return;
        };
        let ring = &mut rings[0];
        if !ring.enabled || ring.bytes < 2 * ENTRY {
            return;
        }
        let bytes = entry.map(u32::to_le_bytes).concat();
        let is_written = self.write(ring, u64::from(ring.wptr), ring.base, &bytes);
        if !is_written {
            return;
        }
        let next = (ring.wptr + ENTRY) % ring.bytes;
        if next == ring.rptr {
            if !ring.overflows {
                return;
            }
            let event = "the interrupt ring is full: the oldest entry is written over";
            self.journal.event(event.to_owned());
            ring.overflow = !ring.deaf;
        }
        ring.wptr = next;
        if let Some(at) = ring.told {
            self.write(ring, 0, at, &ring.wptr().to_le_bytes());
        }
        let interrupts = ring.interrupts;
        drop(rings);
        if interrupts {
            self.bus.interrupt(0);
        }
    }

    fn write(&self, ring: &Ring, offset: u64, base: u64, data: &[u8]) -> bool {
        let at = base + offset;
        let written = match ring.space {
            4 => self.hub.write(CLIENT, at, data).is_ok(),
            2 => {
                let who = "the interrupt ring".into();
                self.physical.write(Place::Bus(at), data, &who).is_ok()
            }
            space => {
                let what = format!("an entry for space {space} at {at:#x}");
                self.journal.broken(&SPACE, what);
                false
            }
        };
        if !written {
            let event = format!("an entry of the interrupt ring at {at:#x} is lost");
            self.journal.event(event);
        }
        written
    }
}

/// The first ring runs, in memory that is in use by now.
pub(super) fn leave_running(state: &mut State) {
    let base = state.config.fb + 0x8000;
    let mut rings = state.ih.lock();
    rings[0] = Ring {
        enabled: true,
        base,
        bytes: 0x4000,
        space: 4,
        wptr: 0x1e0,
        rptr: 0x1e0,
        ..Ring::default()
    };
    drop(rings);
    let reg = &osssys::IH_RB_CNTL;
    let enabled = put(reg, state.gfx, 0, "rb_enable", 1);
    state.registers.set(reg, 0, enabled);
}

fn ring_of(at: At) -> usize {
    usize::from(at.reg.word.name.ends_with("RING1"))
}

fn control(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let number = ring_of(at);
    let old = state.registers.get(at.reg, at.instance);
    hold(state, at, value)?;
    let field = |name: &str| state.field_of(at.reg, value, name);
    let wide = |reg: &Reg| u64::from(state.registers.get(reg, 0));
    let [low, high] = BASE[number].map(wide);
    let told = wide(&osssys::IH_RB_WPTR_ADDR_LO) | wide(&osssys::IH_RB_WPTR_ADDR_HI) << 32;
    let enabled = field("rb_enable") == 1;
    let is_new = enabled && state.field_of(at.reg, old, "rb_enable") == 0;
    let clears = field("wptr_overflow_clear") == 1;
    let bytes = 4u32 << field("rb_size");
    let changes = state.field_of(at.reg, old, "rb_size") != field("rb_size")
        || state.field_of(at.reg, old, "mc_space") != field("mc_space");
    let mut rings = state.ih.lock();
    let ring = &mut rings[number];
    let was_enabled = ring.enabled;
    if is_new {
        ring.base = low << 8 | high << 40;
        ring.bytes = bytes;
        ring.space = field("mc_space");
    }
    ring.enabled = enabled;
    ring.overflows = field("wptr_overflow_enable") == 1;
    ring.interrupts = number == 0 && field("enable_intr") == 1;
    ring.told = (field("wptr_writeback_enable") == 1).then_some(told);
    ring.deaf = clears && (ring.deaf || ring.overflow);
    ring.overflow &= !clears;
    let broken = was_enabled && enabled && changes;
    drop(rings);
    let what = || format!("{} becomes {value:#x}", at.reg.word.name);
    match () {
        () if broken => Err((&ENABLED, what())),
        () if is_new && !is_known(&field) => Err((&SPACE, what())),
        () => Ok(()),
    }
}

/// Whether the space of a ring is one that is known, by the fields of its control register.
fn is_known(field: &impl Fn(&str) -> u32) -> bool {
    [2, 4].contains(&field("mc_space")) && field("mc_vmid") == 0
}

fn place(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    hold(state, at, value)?;
    let number = ring_of(at);
    match state.field(CONTROL[number], at.instance, "rb_enable") {
        0 => Ok(()),
        _ => Err((&ENABLED, format!("{} becomes {value:#x}", at.reg.word.name))),
    }
}

fn pointer(ring: &Ring, at: At, value: u32) -> Result<u32, Broken> {
    let inside = ring.bytes == 0 || value < ring.bytes;
    match value.is_multiple_of(ENTRY) && inside {
        true => Ok(value),
        false => Err((
            &POINTER,
            format!(
                "{} becomes {value:#x}, in a ring of {:#x} bytes",
                at.reg.word.name, ring.bytes
            ),
        )),
    }
}

fn read_rptr(state: &mut State, at: At) -> Result<u32, Broken> {
    Ok(state.ih.lock()[ring_of(at)].rptr)
}

fn write_rptr(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let mut rings = state.ih.lock();
    let ring = &mut rings[ring_of(at)];
    ring.rptr = pointer(ring, at, value)?;
    Ok(())
}

fn read_wptr(state: &mut State, at: At) -> Result<u32, Broken> {
    Ok(state.ih.lock()[ring_of(at)].wptr())
}

fn write_wptr(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let mut rings = state.ih.lock();
    let ring = &mut rings[ring_of(at)];
    ring.wptr = pointer(ring, at, value)?;
    Ok(())
}
