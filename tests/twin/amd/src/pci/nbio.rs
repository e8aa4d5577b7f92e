//! The bus interface: pairs of registers that reach what the BARs do not show, flushes of the HDP, and which
//! doorbells go where.

use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::nbio::{
    self, BIF_BX_PF0_RSMU_DATA, BIF_BX_PF0_RSMU_INDEX, BIF_BX0_PCIE_DATA2, BIF_BX0_PCIE_INDEX2,
    BIF_BX0_PCIE_INDEX2_HI,
};
use drivers_spec::amd::mmio::{self, Reg};
use drivers_spec::amd::packet::Gfx;
use twin::pci::Broken;
use twin::rule::{Proof, Rule};

use super::card::REGISTER;
use super::discovery::Block;
use super::registers::{At, Hook, held, hold};
use super::state::State;

/// The index says that it means VRAM.
pub static MM_INDEX: Rule = Rule {
    name: "AMD-PCI-MM-INDEX",
    text: "MM_DATA accesses a dword of VRAM only if bit 31 of MM_INDEX is set and the address is a multiple of 4",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, amdgpu_device_mm_access",
    proof: Proof::Sourced,
};

/// A register that no block answers for lets the bus wait.
pub static REMAP: Rule = Rule {
    name: "AMD-HDP-REMAP",
    text: "REMAP_HDP_MEM_FLUSH_CNTL names a dword of BAR 5 that is no register, such as the page at 0x7f000; on MI300X, \
           where an XCC has that page, the page at 0x1a000 is free",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu.h, MMIO_REG_HOLE_OFFSET; nbio_v4_3.c, nbio_v4_3_remap_hdp_registers; nbio_v7_9.c, MMIO_REG_HOLE_OFFSET",
    proof: Proof::Sourced,
};

/// Dies are chosen by the part of an address that most accesses do not write.
pub static INDEX_HI: Rule = Rule {
    name: "AMD-PCI-INDEX-HI",
    text: "PCIE_INDEX2_HI is written after PCIE_INDEX2 for a register of another die, and 0 again after the access",
    source: "Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_device.c, amdgpu_device_indirect_wreg_ext: clear the high bits",
    proof: Proof::Sourced,
};

/// What the register that remaps has after power came.
///
/// Linux, include/asic_reg/nbio/nbio_{2_3,6_1,7_0}_default.h; for the versions here a guess.
const REMAP_DEFAULT: u32 = 0x385c;

pub(super) const HOOKS: &[Hook] = &[
    Hook::both(&mmio::MM_DATA, read_indexed, write_indexed),
    Hook::both(&BIF_BX_PF0_RSMU_DATA, read_beyond, write_beyond),
    Hook::write(&BIF_BX0_PCIE_INDEX2, choose),
    Hook::both(&BIF_BX0_PCIE_DATA2, read_extended, write_extended),
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

/// Where the doorbells of a port of a die go.
pub(super) fn route(state: &State, die: u8, port: usize) -> Option<Route> {
    let reg = PORTS.get(port)?;
    let field = |what: &str| state.field(reg, die, &format!("s2a_doorbell_port{port}_{what}"));
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

/// The part of a dword's address that says on which die of MI300X the bus interface is; none for the first.
///
/// Source: Linux, aqua_vanjaram.c, `aqua_vanjaram_encode_ext_smn_addressing`.
pub(super) fn die(block: &Block) -> u64 {
    match (block.hw_id, u64::from(block.instance)) {
        (_, 0) => 0,
        (ip::NBIF, die) => (1 << 34 | die << 32) >> 2,
        _ => 0,
    }
}

fn choose(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let high = state.registers.get(&BIF_BX0_PCIE_INDEX2_HI, at.instance);
    if high != 0 {
        let what = format!("PCIE_INDEX2 is {value:#x} while PCIE_INDEX2_HI is {high:#x}");
        return Err((&INDEX_HI, what));
    }
    hold(state, at, value)
}

/// The dword that PCIE_INDEX2 means: a pair that only MI300X is used with here.
fn extended(state: &State, at: At) -> u64 {
    let get = |reg| u64::from(state.registers.get(reg, at.instance));
    (get(&BIF_BX0_PCIE_INDEX2) | get(&BIF_BX0_PCIE_INDEX2_HI) << 32) / 4
}

fn read_extended(state: &mut State, at: At) -> Result<u32, Broken> {
    match (state.gfx, extended(state, at)) {
        (Gfx::Gfx9, dword) if dword != at.dword => state.read(dword),
        _ => held(state, at),
    }
}

fn write_extended(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    match (state.gfx, extended(state, at)) {
        (Gfx::Gfx9, dword) if dword != at.dword => state.write(dword, value),
        _ => hold(state, at, value),
    }
}

/// Whether a dword belongs to an XCC of MI300X, which have the same places of each 64 Ki dwords.
///
/// Source: Linux, gfx_v9_4_3.c, `XCC_REG_RANGE_0_LOW` to `XCC_REG_RANGE_1_HIGH`.
fn is_of_xcc(dword: u32) -> bool {
    let normal = dword & 0xffff;
    (0x2000..0x3400).contains(&normal) || normal >= 0xa000
}

fn remap(state: &mut State, at: At, value: u32) -> Result<(), Broken> {
    let address = state.field_of(at.reg, value, "address");
    if state.gfx == Gfx::Gfx9 && is_of_xcc(address) {
        return Err((&REMAP, format!("{value:#x}, which is of an XCC")));
    }
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
