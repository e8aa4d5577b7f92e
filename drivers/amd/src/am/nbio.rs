//! The bus interface (NBIO, NBIF): doorbell routing to engines, and the host's flush register.
//!
//! A doorbell is a write to BAR 2. It goes to an engine if the aperture is open and one of sixteen ports (S2A) has
//! its range and the engine's number.
//!
//! On MI300 the command processors of all XCCs receive doorbells without a range; copy engines are on several dies, each
//! with its own ports.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: nbio_v4_3.c and nbif_v6_3_1.c (`gc_doorbell_init`,
//! `sdma_doorbell_range`, `enable_doorbell_aperture`, `remap_hdp_registers`), soc21.c (`soc21_common_hw_init`);
//! nbio_v7_9.c (the same, and `init_registers`).

use drivers_spec::amd::discovery as ip;
use drivers_spec::amd::mmio::{Reg, nbio as regs};
use drivers_spec::amd::packet::{Gfx, Gfxs};
use hcq::reg::block::Registers;

use super::card::{Card, ENGINES_OF_DIE};
use super::discovery::DiscoveryError;
use super::error::Cause;
use super::hdp;

/// Dwords of doorbells that a copy engine has.
const SDMA_DOORBELLS: u32 = 20;
/// Where those of copy engines start, in dwords.
const SDMA_FIRST: u32 = 0x200;
/// XCCs of MI300, there or not.
const XCCS: u32 = 0xff;
/// What the monitor of interrupts leaves out, and functions that may ring: all. As the vendor's driver has them.
const MONITOR_MASK: u32 = 0x7ff;
const MAY_RING: u32 = 0xf_ffff;

/// The target of doorbells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route<'a> {
    /// The command processor: all doorbells without another target.
    Compute,
    /// Copy engines, by their numbers.
    Copy(&'a [u8]),
}

/// Opens the doorbell aperture, which [`route`] divides, and maps the flush register for the host.
///
/// # Errors
/// The registers'.
pub fn start(card: &Card) -> Result<(), Cause> {
    let nbio = card.registers(&card.blocks().nbif);
    match card.gfx() {
        Gfx::Gfx9 => dies(card)?,
        // The sound of the card is a function of its own, and a reset of the card is one of it too.
        _ => {
            let strap = ("strap_no_soft_reset_dev0_f2", 0);
            nbio.set(&regs::RCC_DEV0_EPF2_STRAP2, &[strap])?;
        }
    }
    let open = [("bif_doorbell_aper_en", 1)];
    nbio.put(&regs::RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN, &open)?;
    nbio.write(
        &regs::BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL,
        hdp::shown(card.gfx()),
    )?;
    Ok(())
}

/// Enables doorbells on the XCCs of all dies, and excludes missing XCCs from the fence.
fn dies(card: &Card) -> Result<(), Cause> {
    let nbio = card.registers(&card.blocks().nbif);
    let there = card.discovery().working(ip::GC);
    let there = there.fold(0, |bits, xcc| bits | 1 << xcc.instance);
    nbio.write(&regs::XCC_DOORBELL_FENCE, XCCS & !there)?;
    nbio.write(&regs::BIFC_GFX_INT_MONITOR_MASK, MONITOR_MASK)?;
    for (_, die) in card.blocks().dies.range(1..) {
        let die = card.registers(die);
        die.put(&regs::XCC_DOORBELL_FENCE, &[("shub_slv_mode", 1)])?;
    }
    nbio.write(&regs::BIFC_DOORBELL_ACCESS_EN_PF, MAY_RING)?;
    Ok(())
}

/// One port: its register, the names of its fields, who it leads to.
struct Port {
    register: &'static Reg,
    enable: &'static str,
    awid: (&'static str, u32),
    awaddr: (&'static str, u32),
    offset: &'static str,
    size: &'static str,
}

macro_rules! port {
    ($number:literal, $register:ident, $awid:literal, $awaddr:literal) => {
        Port {
            register: &regs::$register,
            enable: concat!("s2a_doorbell_port", $number, "_enable"),
            awid: (concat!("s2a_doorbell_port", $number, "_awid"), $awid),
            awaddr: (
                concat!("s2a_doorbell_port", $number, "_awaddr_31_28_value"),
                $awaddr,
            ),
            offset: concat!("s2a_doorbell_port", $number, "_range_offset"),
            size: concat!("s2a_doorbell_port", $number, "_range_size"),
        }
    };
}

const CP: [Port; 2] = [
    port!("0", S2A_DOORBELL_ENTRY_0_CTRL, 0x3, 0x3),
    port!("3", S2A_DOORBELL_ENTRY_3_CTRL, 0x6, 0x3),
];
const SDMA: Port = port!("2", S2A_DOORBELL_ENTRY_2_CTRL, 0xe, 0x3);
/// The ports of a die of MI300, by copy engine. The number of an engine gives its first port.
const SDMA_OF_DIE: [Port; ENGINES_OF_DIE as usize] = [
    port!("1", S2A_DOORBELL_ENTRY_1_CTRL, 0xe, 0x1),
    port!("2", S2A_DOORBELL_ENTRY_2_CTRL, 0x8, 0x2),
    port!("5", S2A_DOORBELL_ENTRY_5_CTRL, 0x9, 0x8),
    port!("6", S2A_DOORBELL_ENTRY_6_CTRL, 0xa, 0x9),
];

impl Port {
    fn open(&self, nbio: Registers<'_, Gfxs>, offset: u32, size: u32) -> Result<(), Cause> {
        let fields = [
            (self.enable, 1),
            self.awid,
            (self.offset, offset),
            (self.size, size),
            self.awaddr,
        ];
        Ok(nbio.put(self.register, &fields)?)
    }
}

/// Routes doorbells to a target.
///
/// # Errors
/// The registers'.
pub fn route(card: &Card, route: Route<'_>) -> Result<(), Cause> {
    let nbio = card.registers(&card.blocks().nbif);
    match (route, card.gfx()) {
        // All XCCs receive doorbells without another target.
        (Route::Compute, Gfx::Gfx9) => Ok(()),
        // No range of its own: what no other port has.
        (Route::Compute, _) => CP.iter().try_for_each(|port| port.open(nbio, 0, 0)),
        (Route::Copy(engines), Gfx::Gfx9) => {
            let mut engines = engines.iter().zip(0..);
            engines.try_for_each(|(engine, nth)| to_die(card, *engine, nth))
        }
        (Route::Copy(engines), _) => {
            SDMA.open(nbio, SDMA_FIRST, engines.len() as u32 * SDMA_DOORBELLS)
        }
    }
}

/// Routes doorbells to the `nth` working copy engine of MI300: to its die, and from there to the engine.
fn to_die(card: &Card, engine: u8, nth: u32) -> Result<(), Cause> {
    let nbio = card.registers(&card.blocks().nbif);
    // Doorbells have eight bytes: half as many of them as dwords.
    let first = SDMA_FIRST + nth * SDMA_DOORBELLS;
    let range = [
        ("bif_doorbell1_range_offset_entry", first),
        ("bif_doorbell1_range_size_entry", SDMA_DOORBELLS),
    ];
    nbio.step(engine.into())
        .put(&regs::DOORBELL0_CTRL_ENTRY_1, &range)?;
    let die = engine / ENGINES_OF_DIE;
    let found = card.blocks().dies.get(&die);
    let die = found.ok_or_else(|| DiscoveryError::Missing {
        what: format!("NBIF of die {die} (copy engine {engine})"),
    })?;
    let port = &SDMA_OF_DIE[usize::from(engine % ENGINES_OF_DIE)];
    let (_, number) = port.awid;
    port.open(card.registers(die), number, SDMA_DOORBELLS)
}
