//! BAR 2: a store there reaches a queue by way of the bus interface, which knows which doorbells are whose, and of
//! the command processor or the copy engine, which know their queues.

use std::collections::BTreeMap;

use drivers_spec::amd::mmio::gc;
use drivers_spec::amd::packet::Gfx;
use hcq::mem::window::AccessWidth;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::dies::{self, To};
use super::nbio::{self, Route};
use super::state::State;
use super::{hqd, mes, sdma};

/// The BAR answers once it is told to.
pub static APERTURE: Rule = Rule {
    name: "AMD-DOORBELL-APERTURE",
    text: "doorbells are written while BIF_DOORBELL_APER_EN is set; otherwise they are lost",
    source: "Linux, nbio_v4_3.c, nbio_v4_3_enable_doorbell_aperture",
    proof: Proof::Sourced,
};

/// The bus interface sends doorbells on.
pub static ROUTE: Rule = Rule {
    name: "AMD-DOORBELL-ROUTE",
    text: "a doorbell is in the range of an enabled S2A entry: entries 0 and 3 for the command processors, entry 2 with \
           a range for the copy engines; otherwise it is lost",
    source: "Linux, nbio_v4_3.c, nbio_v4_3_gc_doorbell_init, nbio_v4_3_sdma_doorbell_range",
    proof: Proof::Sourced,
};

/// A doorbell is a queue's.
pub static NOBODY: Rule = Rule {
    name: "AMD-DOORBELL-NOBODY",
    text: "a doorbell belongs to an active queue on the block to which its S2A entry routes it",
    source: "Linux, gfx_v11_0.c and sdma_v6_0.c: CP_HQD_PQ_DOORBELL_CONTROL and SDMA0_QUEUE0_DOORBELL_OFFSET say which",
    proof: Proof::Sourced,
};

/// The selection is shared by everything that uses it.
pub static SELECTION: Rule = Rule {
    name: "GFX-SELECT-BACK",
    text: "GRBM_GFX_CNTL is reset to 0 before a doorbell is written",
    source: "Linux, gfx_v11_0.c: soc21_grbm_select(adev, 0, 0, 0, 0) ends each use, under srbm_mutex, which no doorbell takes",
    proof: Proof::Sourced,
};

/// Halves are two.
pub static HALVES: Rule = Rule {
    name: "AMD-DOORBELL-HALVES",
    text: "on a host without 64-bit stores, the low half of a doorbell is written before the high half, with no other \
           doorbell in between",
    source: "tinygrad, runtime/support/usb.py, pcie_mem_write: 8 bytes of a doorbell are two packets of a dword each",
    proof: Proof::Observed,
};

/// Doorbells that come in halves.
#[derive(Default)]
pub(super) struct Halves {
    /// What each held last.
    bells: BTreeMap<u64, u64>,
    /// The one whose low half has come.
    open: Option<u64>,
}

impl Halves {
    /// What a doorbell holds once half of it has come: the queue sees it at once. Whether it was that half's turn.
    fn take(&mut self, offset: u64, half: u32) -> (u64, bool) {
        let (bell, is_high) = (offset & !7, offset & 4 != 0);
        let held = self.bells.entry(bell).or_default();
        let shift = if is_high { 32 } else { 0 };
        *held = *held & !(u64::from(u32::MAX) << shift) | u64::from(half) << shift;
        let turn = self.open == is_high.then_some(bell);
        self.open = (!is_high).then_some(bell);
        (*held, turn)
    }
}

/// `AWID` of copy engines, and of the command processors. Source: Linux, nbio_v4_3.c.
const COPY: u32 = 0xe;
const COMMAND: [u32; 2] = [3, 6];

/// Ports of the bus interface.
const PORTS: usize = 16;

/// Where a doorbell goes: the narrowest range that has it.
fn route(state: &State, dword: u32) -> Option<Route> {
    let has = |route: &Route| {
        let inside = (route.offset..route.offset + route.size).contains(&dword);
        route.enabled && (route.size == 0 || inside)
    };
    let routes = (0..PORTS).filter_map(|port| nbio::route(state, 0, port));
    routes
        .filter(has)
        .min_by_key(|route| route.size.wrapping_sub(1))
}

/// Whether somebody hears the doorbell at a dword of BAR 2.
fn is_heard(state: &mut State, dword: u32) -> Result<bool, Broken> {
    let bell = (u64::from(dword) * 4) & !7;
    if state.gfx == Gfx::Gfx9 {
        return match dies::route(state, dword)? {
            To::Copy(engine) => sdma::is_rung(state, bell, Some(engine)),
            To::Command => hqd::ring(state, bell),
        };
    }
    let Some(route) = route(state, dword) else {
        return Err((&ROUTE, "none has it".into()));
    };
    match route.awid {
        COPY => sdma::is_rung(state, bell, None),
        awid if COMMAND.contains(&awid) => hqd::ring(state, bell),
        _ => Ok(false),
    }
}

/// A store to BAR 2.
pub(super) fn ring(
    state: &mut State,
    offset: u64,
    width: AccessWidth,
    value: u64,
) -> Result<(), Broken> {
    state.drain();
    let what = format!("byte {offset:#x} is rung with {value:#x}");
    if !nbio::aperture_enabled(state) {
        return Err((&APERTURE, what));
    }
    let heard = is_heard(state, (offset / 4) as u32);
    if !heard.map_err(|(rule, why)| (rule, format!("{what}: {why}")))? {
        return Err((&NOBODY, what));
    }
    for xcc in 0..state.graphics.xccs.len() as u8 {
        let selected = state.registers.get(&gc::GRBM_GFX_CNTL, xcc);
        let selector = state.graphics.xccs[usize::from(xcc)].selector;
        if selected != 0 && selector == Some(std::thread::current().id()) {
            let what = format!("{what} while GRBM_GFX_CNTL of XCC {xcc} is {selected:#x}");
            state.journal.broken(&SELECTION, what);
        }
    }
    let (offset, width, value) = if state.config.halves && width == AccessWidth::W32 {
        let (whole, turn) = state.halves.take(offset, value as u32);
        if !turn {
            state.journal.broken(&HALVES, what);
        }
        (offset & !7, AccessWidth::W64, whole)
    } else {
        (offset, width, value)
    };
    state.engines.ring(offset, width, value);
    mes::ring(state, offset, value)
}
