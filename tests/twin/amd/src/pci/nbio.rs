//! The bus interface: pairs of registers that reach what the BARs do not show, flushes of the HDP, and which
//! doorbells go where.

use drivers_spec::amd::mmio::nbio::{self, BIF_BX_PF0_RSMU_DATA, BIF_BX_PF0_RSMU_INDEX};
use drivers_spec::amd::mmio::{self, Reg};
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::card::REGISTER;
use super::registers::{At, Hook, hold};
use super::state::State;

/// The index says that it means VRAM.
pub static MM_INDEX: Rule = Rule {
    name: "AMD-PCI-MM-INDEX",
    text: "MM_DATA is a dword of VRAM once MM_INDEX has bit 31 set, above an address that is a multiple of 4",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, amdgpu_device_mm_access",
    proof: Proof::Sourced,
};

/// A register that no block answers for lets the bus wait.
pub static REMAP: Rule = Rule {
    name: "AMD-HDP-REMAP",
    text: "REMAP_HDP_MEM_FLUSH_CNTL names a dword of BAR 5 that no other register has, such as the page at 0x7f000",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu.h, MMIO_REG_HOLE_OFFSET; nbio_v4_3.c, nbio_v4_3_remap_hdp_registers",
    proof: Proof::Sourced,
};

/// What the register that remaps has after power came.
///
/// Linux, include/asic_reg/nbio/nbio_{2_3,6_1,7_0}_default.h; for the versions here a guess.
const REMAP_DEFAULT: u32 = 0x385c;

pub(super) const HOOKS: &[Hook] = &[
    Hook::both(&mmio::MM_DATA, read_indexed, write_indexed),
    Hook::both(&BIF_BX_PF0_RSMU_DATA, read_beyond, write_beyond),
    Hook::write(&nbio::BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL, remap),
    Hook::write(&nbio::BIF_BX_PF0_GPU_HDP_FLUSH_REQ, flush),
];

/// Where doorbells of a port go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Route {
    /// Whether they go anywhere.
    pub(super) enabled: bool,
    /// The first dword of BAR 2.
    pub(super) offset: u32,
    /// How many dwords; 0 for all.
    pub(super) size: u32,
    /// To whom.
    pub(super) awid: u32,
    /// Bits 31:28 of the address there.
    pub(super) awaddr: u32,
}

/// The doorbell ports, and whether they can be rung.
const PORTS: [&Reg; 16] = [
    &nbio::S2A_DOORBELL_ENTRY_0_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_1_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_2_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_3_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_4_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_5_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_6_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_7_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_8_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_9_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_10_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_11_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_12_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_13_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_14_CTRL,
    &nbio::S2A_DOORBELL_ENTRY_15_CTRL,
];

/// Whether BAR 2 answers.
pub(super) fn aperture_enabled(state: &State) -> bool {
    let reg = &nbio::RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN;
    state.field(reg, 0, "bif_doorbell_aper_en") == 1
}

/// Where the doorbells of a port go.
pub(super) fn route(state: &State, port: usize) -> Option<Route> {
    let reg = PORTS.get(port)?;
    let field = |what: &str| state.field(reg, 0, &format!("s2a_doorbell_port{port}_{what}"));
    Some(Route {
        enabled: field("enable") == 1,
        offset: field("range_offset"),
        size: field("range_size"),
        awid: field("awid"),
        awaddr: field("awaddr_31_28_value"),
    })
}

/// Registers as they are when power has come.
pub(super) fn power_on(state: &mut State) {
    let reg = &nbio::BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL;
    state.registers.set(reg, 0, REMAP_DEFAULT);
}

/// Whether a dword of BAR 5 is that which flushes the HDP.
pub(super) fn is_flush(state: &State, dword: u64) -> bool {
    let reg = &nbio::BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL;
    u64::from(state.field(reg, 0, "address")) == dword
}

/// The byte of VRAM that the index means.
fn indexed(state: &State) -> Result<u64, Broken> {
    let index = state.registers.get(&mmio::MM_INDEX, 0);
    let high = state.registers.get(&mmio::MM_INDEX_HI, 0);
    if index >> 31 == 0 || index & 3 != 0 {
        return Err((&MM_INDEX, format!("MM_DATA while MM_INDEX is {index:#x}")));
    }
    Ok(u64::from(index & !(1 << 31)) | u64::from(high) << 31)
}

fn read_indexed(state: &mut State, _: At) -> Result<u32, Broken> {
    let at = indexed(state)?;
    let mut word = [0; 4];
    state.vram_read(at, &mut word)?;
    Ok(u32::from_le_bytes(word))
}

fn write_indexed(state: &mut State, _: At, value: u32) -> Result<(), Broken> {
    let at = indexed(state)?;
    state.vram_write(at, &value.to_le_bytes())
}

/// The dword that the pair means whose data register is `data`.
fn beyond(state: &State, data: At) -> Result<u64, Broken> {
    let at = state.registers.get(&BIF_BX_PF0_RSMU_INDEX, data.instance);
    match u64::from(at / 4) {
        same if same == data.dword => Err((&REGISTER, format!("dword {same:#x}, by itself"))),
        other => Ok(other),
    }
}

fn read_beyond(state: &mut State, at: At) -> Result<u32, Broken> {
    let other = beyond(state, at)?;
    state.read(other)
}

fn write_beyond(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let other = beyond(state, at)?;
    state.write(other, value)
}

fn remap(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let address = state.field_of(at.reg, value, "address");
    if let Some(taken) = state.registers.slot(address.into()) {
        let name = taken.at.reg.word.name;
        return Err((&REMAP, format!("{value:#x}, where {name} is")));
    }
    hold(state, at, value)
}

fn flush(state: &mut State, _: At, value: u32) -> Result<(), Broken> {
    state.physical.hdp_flush("GPU_HDP_FLUSH_REQ");
    let reg = &nbio::BIF_BX_PF0_GPU_HDP_FLUSH_DONE;
    state.registers.set(reg, 0, value);
    Ok(())
}
