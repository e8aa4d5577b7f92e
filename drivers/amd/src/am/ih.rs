//! Interrupt rings (IH): event records of the blocks.
//!
//! Two rings in VRAM; the second takes interrupt storms. Nothing here waits for an interrupt: rings are read after
//! errors, during long waits, or on an interrupt. Pointers count bytes.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: ih_v6_0.c and ih_v7_0.c (`irq_init`, `enable_ring`, `get_wptr`).

use std::sync::{Arc, Mutex};

use drivers_spec::amd::ih::DWORDS;
use drivers_spec::amd::mmio::{Reg, osssys as regs};
use drivers_spec::amd::packet::{Gfx, Gfxs};
use hcq::reg::block::Registers;
use hcq::sync::lock;

use super::areas::{Area, IH_RING0, IH_RING1, IH_WPTR0};
use super::card::Card;
use super::error::Cause;
use super::hub::Hubs;

/// `mc_space`: the ring is at an address of VMID 0.
const MC_SPACE_VMID0: u32 = 4;
/// The client of faults of the memory hub, which come in storms.
const STORM_CLIENT: &str = "client18_is_storm_client";

/// A ring.
struct Ring {
    memory: Area,
    cntl: &'static Reg,
    base: &'static Reg,
    base_hi: &'static Reg,
    rptr: &'static Reg,
    wptr: &'static Reg,
    doorbell_rptr: &'static Reg,
    /// Fields that make it run.
    on: &'static [&'static str],
}

const RINGS: [Ring; 2] = [
    Ring {
        memory: IH_RING0,
        cntl: &regs::IH_RB_CNTL,
        base: &regs::IH_RB_BASE,
        base_hi: &regs::IH_RB_BASE_HI,
        rptr: &regs::IH_RB_RPTR,
        wptr: &regs::IH_RB_WPTR,
        doorbell_rptr: &regs::IH_DOORBELL_RPTR,
        on: &["rb_enable", "enable_intr"],
    },
    Ring {
        memory: IH_RING1,
        cntl: &regs::IH_RB_CNTL_RING1,
        base: &regs::IH_RB_BASE_RING1,
        base_hi: &regs::IH_RB_BASE_HI_RING1,
        rptr: &regs::IH_RB_RPTR_RING1,
        wptr: &regs::IH_RB_WPTR_RING1,
        doorbell_rptr: &regs::IH_DOORBELL_RPTR_RING1,
        on: &["rb_enable"],
    },
];

/// An entry of a ring: [`drivers_spec::amd::ih`].
pub type Entry = [u32; DWORDS];

const ENTRY: u64 = 4 * DWORDS as u64;

/// The rings of a card.
pub struct Interrupts {
    card: Arc<Card>,
    /// One reader at a time.
    turn: Mutex<()>,
}

impl Interrupts {
    /// Those that run already.
    pub fn attach(card: &Arc<Card>) -> Interrupts {
        Interrupts {
            card: card.clone(),
            turn: Mutex::new(()),
        }
    }

    /// Makes them run, with nothing in them.
    ///
    /// # Errors
    /// The registers'.
    pub fn start(card: &Arc<Card>, hubs: &Hubs) -> Result<Interrupts, Cause> {
        let ih = card.registers(&card.blocks().osssys);
        for ring in &RINGS {
            disable(ih, ring)?;
        }
        for (number, ring) in RINGS.iter().enumerate() {
            let first = number == 0;
            let at = hubs.mc(ring.memory.at);
            ih.write(ring.base, (at >> 8) as u32)?;
            ih.put(ring.base_hi, &[("addr", (at >> 40) as u32)])?;
            let dwords = ring.memory.bytes / 4;
            let both = [
                ("mc_space", MC_SPACE_VMID0),
                ("wptr_overflow_clear", 1),
                ("rb_size", dwords.ilog2()),
                ("mc_snoop", 1),
            ];
            let own: &[_] = match first {
                true => &[("wptr_overflow_enable", 1), ("rptr_rearm", 1)],
                false => &[("rb_full_drain_enable", 1)],
            };
            ih.put(ring.cntl, &[&both[..], own].concat())?;
            if first {
                let told = hubs.mc(IH_WPTR0.at);
                ih.write(&regs::IH_RB_WPTR_ADDR_LO, told as u32)?;
                ih.put(&regs::IH_RB_WPTR_ADDR_HI, &[("addr", (told >> 32) as u32)])?;
            }
            ih.write(ring.wptr, 0)?;
            ih.write(ring.rptr, 0)?;
            ih.put(ring.doorbell_rptr, &[("enable", 0)])?;
        }
        if card.gfx() != Gfx::Gfx9 {
            ih.set(&regs::IH_STORM_CLIENT_LIST_CNTL, &[(STORM_CLIENT, 1)])?;
            ih.set(&regs::IH_INT_FLOOD_CNTL, &[("flood_cntl_enable", 1)])?;
            ih.set(&regs::IH_MSI_STORM_CTRL, &[("delay", 3)])?;
        }
        for ring in &RINGS {
            turn(ih, ring, 1)?;
        }
        Ok(Interrupts::attach(card))
    }

    /// Entries since the last call. If a ring was full, the oldest entries are lost.
    ///
    /// # Errors
    /// The registers' and the window's.
    pub fn entries(&self) -> Result<Vec<Entry>, Cause> {
        let _turn = lock(&self.turn);
        let ih = self.card.registers(&self.card.blocks().osssys);
        let mut entries = Vec::new();
        for ring in &RINGS {
            self.drain(ih, ring, &mut entries)?;
        }
        Ok(entries)
    }

    fn drain(&self, ih: Ih<'_>, ring: &Ring, entries: &mut Vec<Entry>) -> Result<(), Cause> {
        let bytes = ring.memory.bytes;
        let inside = |bits: u32| u64::from(bits) & (bytes - 1) & !(ENTRY - 1);
        let written = ih.read(ring.wptr)?.bits();
        // No place in a ring: there is no card to have written entries.
        if written == u32::MAX {
            return Err(self.card.gone(ring.wptr.word.name));
        }
        let end = inside(written);
        let mut at = inside(ih.read(ring.rptr)?.bits());
        if written & 1 == 1 {
            // The oldest complete entry is after the newest one.
            at = inside(end as u32 + ENTRY as u32);
            tracing::debug!(target: "hcq::amd::ih", device = %self.card.device(), "IH ring overflow: interrupts lost");
            ih.set(ring.cntl, &[("wptr_overflow_clear", 1)])?;
            ih.set(ring.cntl, &[("wptr_overflow_clear", 0)])?;
        }
        if at == end {
            return Ok(());
        }
        while at != end {
            let mut entry = [0; DWORDS];
            self.card
                .vram()
                .read_words(ring.memory.at.0 + at, &mut entry)?;
            entries.push(entry);
            at = (at + ENTRY) % bytes;
        }
        ih.write(ring.rptr, end as u32)?;
        Ok(())
    }
}

/// The block's registers.
type Ih<'a> = Registers<'a, Gfxs>;

fn turn(ih: Ih<'_>, ring: &Ring, on: u32) -> Result<(), Cause> {
    let fields: Vec<_> = ring.on.iter().map(|field| (*field, on)).collect();
    ih.set(ring.cntl, &fields)?;
    Ok(())
}

fn disable(ih: Ih<'_>, ring: &Ring) -> Result<(), Cause> {
    turn(ih, ring, 0)?;
    ih.write(ring.rptr, 0)?;
    ih.write(ring.wptr, 0)?;
    Ok(())
}
