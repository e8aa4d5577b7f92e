//! The registers of the hubs: where their apertures and tables are, invalidation, faults.

use std::sync::Arc;

use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::{Reg, gc, mmhub};
use drivers_spec::amd::packet::Gfx;
use twin::pci::Broken;
use twin::rule::{Journal, Proof, Rule};
use twin_shader::page::Access;

use super::discovery::Block;
use super::ih::Ih;
use super::registers::{At, Hook, hold};
use super::state::{State, put};
use super::tlb::{Hub, Of, REASONS, Reason, Settings};
use super::wait::{Looks, Wait};
use super::walk::Context;
use crate::mem::Physical;

/// Who invalidates has the semaphore.
pub static SEMAPHORE: Rule = Rule {
    name: "AMD-HUB-SEMAPHORE",
    text: "an invalidation of the MM hub is requested by the owner of the engine's semaphore, which is released afterwards",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gmc_v11_0.c, gmc_v11_0_flush_gpu_tlb: the acknowledge may be lost across power gating",
    proof: Proof::Sourced,
};

/// An engine reaches what its range has.
pub static RANGE: Rule = Rule {
    name: "AMD-HUB-RANGE",
    text: "the range of an invalidation engine is set to all addresses before it is used",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/gfxhub_v3_0.c, gfxhub_v3_0_program_invalidation",
    proof: Proof::Sourced,
};

/// The registers of a hub, by what they are for.
struct Names {
    fb_base: &'static Reg,
    fb_top: &'static Reg,
    aperture_low: &'static Reg,
    aperture_high: &'static Reg,
    l1: &'static Reg,
    context: &'static Reg,
    base: [&'static Reg; 2],
    start: [&'static Reg; 2],
    end: [&'static Reg; 2],
    range: [&'static Reg; 2],
}

static GC: Names = Names {
    fb_base: &gc::GCMC_VM_FB_LOCATION_BASE,
    fb_top: &gc::GCMC_VM_FB_LOCATION_TOP,
    aperture_low: &gc::GCMC_VM_SYSTEM_APERTURE_LOW_ADDR,
    aperture_high: &gc::GCMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
    l1: &gc::GCMC_VM_MX_L1_TLB_CNTL,
    context: &gc::GCVM_CONTEXT0_CNTL,
    base: [
        &gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
        &gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32,
    ],
    start: [
        &gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
        &gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32,
    ],
    end: [
        &gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
        &gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32,
    ],
    range: [
        &gc::GCVM_INVALIDATE_ENG17_ADDR_RANGE_LO32,
        &gc::GCVM_INVALIDATE_ENG17_ADDR_RANGE_HI32,
    ],
};

static MM: Names = Names {
    fb_base: &mmhub::MMMC_VM_FB_LOCATION_BASE,
    fb_top: &mmhub::MMMC_VM_FB_LOCATION_TOP,
    aperture_low: &mmhub::MMMC_VM_SYSTEM_APERTURE_LOW_ADDR,
    aperture_high: &mmhub::MMMC_VM_SYSTEM_APERTURE_HIGH_ADDR,
    l1: &mmhub::MMMC_VM_MX_L1_TLB_CNTL,
    context: &mmhub::MMVM_CONTEXT0_CNTL,
    base: [
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32,
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32,
    ],
    start: [
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32,
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32,
    ],
    end: [
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
        &mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32,
    ],
    range: [
        &mmhub::MMVM_INVALIDATE_ENG17_ADDR_RANGE_LO32,
        &mmhub::MMVM_INVALIDATE_ENG17_ADDR_RANGE_HI32,
    ],
};

pub(super) const HOOKS: &[Hook] = &[
    Hook::write(&gc::GCMC_VM_FB_LOCATION_BASE, set),
    Hook::write(&gc::GCMC_VM_FB_LOCATION_TOP, set),
    Hook::write(&gc::GCMC_VM_SYSTEM_APERTURE_LOW_ADDR, set),
    Hook::write(&gc::GCMC_VM_SYSTEM_APERTURE_HIGH_ADDR, set),
    Hook::write(&gc::GCMC_VM_MX_L1_TLB_CNTL, set),
    Hook::write(&gc::GCVM_CONTEXT0_CNTL, set),
    Hook::write(&gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, set),
    Hook::write(&gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32, set),
    Hook::write(&gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, set),
    Hook::write(&gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32, set),
    Hook::write(&gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, set),
    Hook::write(&gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32, set),
    Hook::write(&gc::GCVM_INVALIDATE_ENG17_REQ, request),
    Hook::read(&gc::GCVM_INVALIDATE_ENG17_ACK, acknowledge),
    Hook::both(&gc::GCVM_INVALIDATE_ENG17_SEM, take, give),
    Hook::write(&gc::GCVM_L2_PROTECTION_FAULT_CNTL, control),
    Hook::read(&gc::GCVM_L2_PROTECTION_FAULT_STATUS, status),
    Hook::read(&gc::GCVM_L2_PROTECTION_FAULT_STATUS_LO32, status),
    Hook::read(&gc::GCVM_L2_PROTECTION_FAULT_ADDR_LO32, address_low),
    Hook::read(&gc::GCVM_L2_PROTECTION_FAULT_ADDR_HI32, address_high),
    Hook::write(&mmhub::MMMC_VM_FB_LOCATION_BASE, set),
    Hook::write(&mmhub::MMMC_VM_FB_LOCATION_TOP, set),
    Hook::write(&mmhub::MMMC_VM_SYSTEM_APERTURE_LOW_ADDR, set),
    Hook::write(&mmhub::MMMC_VM_SYSTEM_APERTURE_HIGH_ADDR, set),
    Hook::write(&mmhub::MMMC_VM_MX_L1_TLB_CNTL, set),
    Hook::write(&mmhub::MMVM_CONTEXT0_CNTL, set),
    Hook::write(&mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, set),
    Hook::write(&mmhub::MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32, set),
    Hook::write(&mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, set),
    Hook::write(&mmhub::MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32, set),
    Hook::write(&mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32, set),
    Hook::write(&mmhub::MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32, set),
    Hook::write(&mmhub::MMVM_INVALIDATE_ENG17_REQ, request),
    Hook::read(&mmhub::MMVM_INVALIDATE_ENG17_ACK, acknowledge),
    Hook::both(&mmhub::MMVM_INVALIDATE_ENG17_SEM, take, give),
    Hook::write(&mmhub::MMVM_L2_PROTECTION_FAULT_CNTL, control),
    Hook::read(&mmhub::MMVM_L2_PROTECTION_FAULT_STATUS, status),
    Hook::read(&mmhub::MMVM_L2_PROTECTION_FAULT_STATUS_LO32, status),
    Hook::read(&mmhub::MMVM_L2_PROTECTION_FAULT_ADDR_LO32, address_low),
    Hook::read(&mmhub::MMVM_L2_PROTECTION_FAULT_ADDR_HI32, address_high),
];

/// A hub with the state of its invalidation engine.
struct Side {
    instance: u8,
    hub: Arc<Hub>,
    /// Somebody has the semaphore.
    is_taken: bool,
    free: Looks,
    /// VMIDs that an invalidation was asked for.
    asked: u32,
    done: Looks,
}

/// The hubs of a card.
pub(super) struct Hubs {
    gc: Vec<Side>,
    mm: Vec<Side>,
}

impl Hubs {
    pub(super) fn new(
        blocks: &[Block],
        gfx: Gfx,
        physical: &Arc<Physical>,
        journal: &Arc<Journal>,
    ) -> Hubs {
        let all = |hw_id: u16, of: Of| {
            let blocks = blocks.iter().filter(|block| block.hw_id == hw_id);
            let sides = blocks.enumerate().map(|(i, block)| Side {
                instance: block.instance,
                hub: Hub::new(of, i, gfx, physical, journal),
                is_taken: false,
                free: Looks::default(),
                asked: 0,
                done: Looks::default(),
            });
            sides.collect()
        };
        Hubs {
            gc: all(ip::GC, Of::Gc),
            mm: all(ip::MMHUB, Of::Mm),
        }
    }

    /// A hub of all others.
    ///
    /// # Panics
    /// The chip has no such block: the model is wrong then.
    pub(super) fn mm(&self, die: usize) -> &Arc<Hub> {
        &self.mm[die].hub
    }

    /// The hub of a graphics block, where the chip has that.
    pub(super) fn gc(&self, xcc: usize) -> Option<&Arc<Hub>> {
        self.gc.get(xcc).map(|side| &side.hub)
    }

    /// All of them: of graphics blocks, and of all others.
    pub(super) fn all(&self) -> (Vec<Arc<Hub>>, Vec<Arc<Hub>>) {
        let hubs = |sides: &[Side]| sides.iter().map(|side| side.hub.clone()).collect();
        (hubs(&self.gc), hubs(&self.mm))
    }

    pub(super) fn tell(&self, ih: &Arc<Ih>) {
        for side in self.gc.iter().chain(&self.mm) {
            side.hub.tell(ih);
        }
    }

    pub(super) fn reset(&mut self) {
        for side in self.gc.iter_mut().chain(&mut self.mm) {
            side.hub.reset();
            side.is_taken = false;
            side.asked = 0;
            (side.free, side.done) = Default::default();
        }
    }

    fn side(&mut self, at: At) -> Option<&mut Side> {
        let sides = match is_gc(at) {
            true => &mut self.gc,
            false => &mut self.mm,
        };
        sides.iter_mut().find(|side| side.instance == at.instance)
    }
}

fn is_gc(at: At) -> bool {
    at.reg.word.name.starts_with("GC")
}

fn names(at: At) -> &'static Names {
    if is_gc(at) { &GC } else { &MM }
}

/// Where VRAM is, which the card's own firmware has set.
pub(super) fn power_on(state: &mut State) {
    let fb = state.config.fb;
    let last = fb + state.physical.vram_bytes() - 1;
    for names in [&GC, &MM] {
        for instance in 0..8 {
            let registers = &mut state.registers;
            registers.set(names.fb_base, instance, (fb >> 24) as u32);
            registers.set(names.fb_top, instance, (last >> 24) as u32);
        }
    }
}

/// Set up, for tables that are not there any more.
pub(super) fn leave_running(state: &mut State) {
    let (gfx, fb) = (state.gfx, state.config.fb);
    let last = fb + state.physical.vram_bytes() - 1;
    for names in [&GC, &MM] {
        for instance in 0..8 {
            let registers = &mut state.registers;
            registers.set(names.aperture_low, instance, (fb >> 18) as u32);
            registers.set(names.aperture_high, instance, (last >> 18) as u32);
            let l1 = put(names.l1, gfx, 0, "enable_l1_tlb", 1);
            registers.set(names.l1, instance, l1);
            let context = put(names.context, gfx, 0, "enable_context", 1);
            registers.set(names.context, instance, context);
            registers.set(names.base[0], instance, 0x30_0001);
        }
    }
    for reg in [&gc::GCVM_CONTEXT0_CNTL, &mmhub::MMVM_CONTEXT0_CNTL] {
        for at in state.registers.all(reg) {
            let settings = settings(state, at);
            if let Some(side) = state.hubs.side(at) {
                side.hub.set(settings);
            }
        }
    }
}

fn pair(state: &State, regs: [&Reg; 2], instance: u8) -> u64 {
    let [low, high] = regs.map(|reg| u64::from(state.registers.get(reg, instance)));
    low | high << 32
}

/// What the registers of a hub say.
fn settings(state: &State, at: At) -> Settings {
    let names = names(at);
    let field = |reg: &Reg, name: &str| state.field(reg, at.instance, name);
    let wide = |reg: &Reg, name: &str| u64::from(field(reg, name));
    let context = |name: &str| field(names.context, name);
    let interrupt = |what: &str| {
        let name = format!("{what}_protection_fault_enable_interrupt");
        context(&name) == 1
    };
    let further = drivers_spec::amd::pte::entries(state.gfx).further.is_some();
    let base = pair(state, names.base, at.instance);
    Settings {
        l1: field(names.l1, "enable_l1_tlb") == 1,
        fb: (
            wide(names.fb_base, "fb_base") << 24,
            wide(names.fb_top, "fb_top") << 24 | 0xff_ffff,
        ),
        aperture: (
            wide(names.aperture_low, "logical_addr") << 18,
            wide(names.aperture_high, "logical_addr") << 18 | 0x3_ffff,
        ),
        context: Context {
            enabled: context("enable_context") == 1,
            depth: context("page_table_depth"),
            further: further && context("page_table_block_size") != 0,
            root: base,
            start: pair(state, names.start, at.instance) << 12,
            last: pair(state, names.end, at.instance) << 12 | 0xfff,
        },
        interrupts: ["range", "pde0", "valid", "read", "write", "execute"].map(interrupt),
    }
}

fn set(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    hold(state, at, value)?;
    let settings = settings(state, at);
    if let Some(side) = state.hubs.side(at) {
        side.hub.set(settings);
    }
    Ok(())
}

fn take(state: &mut State, at: At) -> Result<u32, Broken> {
    let Some(side) = state.hubs.side(at) else {
        return Ok(0);
    };
    let free = !side.is_taken && side.free.look();
    side.is_taken |= free;
    Ok(free.into())
}

fn give(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    if value & 1 == 0 {
        let free = state.waits(Wait::Semaphore);
        if let Some(side) = state.hubs.side(at) {
            side.is_taken = false;
            side.free = free;
        }
    }
    Ok(())
}

fn request(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    hold(state, at, value)?;
    let field = |name: &str| state.field_of(at.reg, value, name);
    let vmids = field("per_vmid_invalidate_req");
    let whole = [
        "invalidate_l2_ptes",
        "invalidate_l2_pde0",
        "invalidate_l2_pde1",
        "invalidate_l2_pde2",
        "invalidate_l1_ptes",
    ];
    let whole = whole.iter().all(|name| field(name) == 1);
    let clears = field("clear_protection_fault_status_addr") == 1;
    let range = pair(state, names(at).range, at.instance);
    let done = state.waits(Wait::Invalidation);
    let is_gfx9 = state.gfx == Gfx::Gfx9;
    let Some(side) = state.hubs.side(at) else {
        return Ok(());
    };
    side.asked |= vmids;
    side.done = done;
    if clears {
        side.hub.clear();
    }
    if range == 0x1f_ffff_ffff && whole {
        side.hub.invalidate(vmids);
    }
    if range != 0x1f_ffff_ffff {
        return Err((&RANGE, format!("a request while it is {range:#x}")));
    }
    // gmc_v9_0.c, gmc_v9_0_use_invalidate_semaphore: not where the graphics block is 9.4.3.
    match is_gc(at) || is_gfx9 || side.is_taken {
        true => Ok(()),
        false => Err((&SEMAPHORE, format!("a request of {value:#x} without it"))),
    }
}

fn acknowledge(state: &mut State, at: At) -> Result<u32, Broken> {
    let side = state.hubs.side(at);
    Ok(
        side.map_or(0, |side| match side.asked != 0 && side.done.look() {
            true => side.asked,
            false => 0,
        }),
    )
}

fn control(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let clears = state.field_of(at.reg, value, "clear_protection_fault_status_addr") == 1;
    if let Some(side) = state.hubs.side(at).filter(|_| clears) {
        side.hub.clear();
    }
    hold(state, at, value)
}

fn seen(state: &mut State, at: At) -> Option<super::tlb::Seen> {
    state.hubs.side(at).and_then(|side| side.hub.seen())
}

/// Which bits of permissions and errors go with which fault: as logs of the vendor's driver show them.
fn status(state: &mut State, at: At) -> Result<u32, Broken> {
    let Some(seen) = seen(state, at) else {
        return Ok(0);
    };
    const { assert!(REASONS == Reason::Execute as usize + 1) };
    let tried = match seen.access {
        Access::Read => 2,
        Access::Write => 4,
        Access::Execute => 8,
    };
    let (permission, walker) = match seen.reason {
        // Which error of the walker it is when a table is missing is a guess.
        Reason::Range | Reason::Table => (1 | tried, 1),
        Reason::Valid => (1 | tried, 0),
        Reason::Read | Reason::Write | Reason::Execute => (tried, 0),
    };
    let fields = [
        ("more_faults", u32::from(seen.more)),
        ("walker_error", walker),
        ("permission_faults", permission),
        ("cid", seen.client),
        ("rw", u32::from(seen.access == Access::Write)),
        ("vmid", seen.vmid),
    ];
    let gfx = state.gfx;
    let all = fields.iter().fold(0, |value, (name, field)| {
        put(at.reg, gfx, value, name, *field)
    });
    Ok(all)
}

fn address_low(state: &mut State, at: At) -> Result<u32, Broken> {
    Ok(seen(state, at).map_or(0, |seen| (seen.va >> 12) as u32))
}

fn address_high(state: &mut State, at: At) -> Result<u32, Broken> {
    Ok(seen(state, at).map_or(0, |seen| (seen.va >> 44) as u32))
}
