//! The dies of an MI300X: to which of them the bus interface sends a doorbell, and which XCCs hear it.

use drivers_spec::amd::mmio::{Reg, gc, nbio as regs};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::chip::{ENGINES_OF_DIE, XCCS_OF_DIE};
use super::nbio;
use super::state::State;

/// XCCs on other dies hear what the first one hears.
pub static FENCE: Rule = Rule {
    name: "AMD-DOORBELL-FENCE",
    text: "when a command processor of MI300X receives a doorbell, XCC_DOORBELL_FENCE of the first die has exactly the \
           bits of the missing XCCs, and that of each other die has SHUB_SLV_MODE",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/nbio_v7_9.c, nbio_v7_9_init_registers",
    proof: Proof::Sourced,
};

/// A copy engine is on a die.
pub static DIE: Rule = Rule {
    name: "AMD-DOORBELL-DIE",
    text: "a doorbell in the range of DOORBELL0_CTRL_ENTRY_1 + n belongs to copy engine n and is routed by S2A entry 1, \
           2, 5 or 6 of its die, which is enabled and has a size and the AWID, RANGE_OFFSET and AWADDR_31_28 of that \
           engine",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/nbio_v7_9.c, nbio_v7_9_sdma_doorbell_range",
    proof: Proof::Sourced,
};

/// The ranges of copy engines.
static RANGES: [&Reg; 16] = [
    &regs::DOORBELL0_CTRL_ENTRY_1,
    &regs::DOORBELL0_CTRL_ENTRY_2,
    &regs::DOORBELL0_CTRL_ENTRY_3,
    &regs::DOORBELL0_CTRL_ENTRY_4,
    &regs::DOORBELL0_CTRL_ENTRY_5,
    &regs::DOORBELL0_CTRL_ENTRY_6,
    &regs::DOORBELL0_CTRL_ENTRY_7,
    &regs::DOORBELL0_CTRL_ENTRY_8,
    &regs::DOORBELL0_CTRL_ENTRY_9,
    &regs::DOORBELL0_CTRL_ENTRY_10,
    &regs::DOORBELL0_CTRL_ENTRY_11,
    &regs::DOORBELL0_CTRL_ENTRY_12,
    &regs::DOORBELL0_CTRL_ENTRY_13,
    &regs::DOORBELL0_CTRL_ENTRY_14,
    &regs::DOORBELL0_CTRL_ENTRY_15,
    &regs::DOORBELL0_CTRL_ENTRY_16,
];

/// The way from a die to one of its copy engines.
struct Way {
    port: usize,
    awid: u32,
    awaddr: u32,
}

const fn way(port: usize, awid: u32, awaddr: u32) -> Way {
    Way { port, awid, awaddr }
}

const WAYS: [Way; ENGINES_OF_DIE as usize] = [
    way(1, 0xe, 1),
    way(2, 0x8, 2),
    way(5, 0x9, 8),
    way(6, 0xa, 9),
];

/// Who hears a doorbell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum To {
    /// A copy engine.
    Copy(u8),
    /// The command processors.
    Command,
}

/// Who hears the doorbell at a dword of BAR 2.
pub(super) fn route(state: &State, dword: u32) -> Result<To, Broken> {
    let has = |engine: usize| {
        let (reg, entry) = (RANGES[engine], engine + 1);
        let field = |what: &str| {
            let name = format!("bif_doorbell{entry}_range_{what}_entry");
            state.field(reg, 0, &name)
        };
        let first = field("offset");
        (first..first + field("size")).contains(&dword)
    };
    match (0..RANGES.len()).find(|engine| has(*engine)) {
        Some(engine) => leads(state, engine as u8).map(|()| To::Copy(engine as u8)),
        None => hear(state).map(|()| To::Command),
    }
}

/// Whether a die sends what it gets for an engine to it.
fn leads(state: &State, engine: u8) -> Result<(), Broken> {
    let (die, way) = (
        engine / ENGINES_OF_DIE,
        &WAYS[usize::from(engine % ENGINES_OF_DIE)],
    );
    let found = nbio::route(state, die, way.port);
    let leads = found.is_some_and(|found| {
        found.enabled
            && found.size != 0
            && (found.awid, found.offset, found.awaddr) == (way.awid, way.awid, way.awaddr)
    });
    match leads {
        true => Ok(()),
        false => {
            let port = way.port;
            let what = format!("engine {engine}: S2A entry {port} of die {die} is {found:?}");
            Err((&DIE, what))
        }
    }
}

/// Whether all XCCs hear doorbells.
fn hear(state: &State) -> Result<(), Broken> {
    let there = |xcc: &u8| state.registers.place(&gc::GRBM_GFX_CNTL, *xcc).is_some();
    let xccs = (0..8u8).filter(there);
    let missing = xccs.clone().fold(0xff, |bits, xcc| bits & !(1 << xcc));
    let fence = |die| state.registers.get(&regs::XCC_DOORBELL_FENCE, die);
    if fence(0) & 0xff != missing {
        let what = format!("{:#x}, where {missing:#x} are not there", fence(0));
        return Err((&FENCE, what));
    }
    let mut dies = xccs.map(|xcc| xcc / XCCS_OF_DIE).filter(|die| *die != 0);
    let deaf = dies.find(|die| state.field(&regs::XCC_DOORBELL_FENCE, *die, "shub_slv_mode") == 0);
    match deaf {
        Some(die) => Err((&FENCE, format!("die {die} has {:#x}", fence(die)))),
        None => Ok(()),
    }
}
