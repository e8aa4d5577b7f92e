//! The bus interface (NBIO, NBIF): the way of doorbells to engines, and where the host flushes its writes.
//!
//! A doorbell is a write to BAR 2. It goes to an engine if the aperture is open and one of sixteen ports (S2A) has
//! its range and the engine's number.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: nbio_v4_3.c and nbif_v6_3_1.c (`gc_doorbell_init`,
//! `sdma_doorbell_range`, `enable_doorbell_aperture`, `remap_hdp_registers`), soc21.c (`soc21_common_hw_init`).

use drivers_spec::amd::mmio::{Reg, nbio as regs};
use drivers_spec::amd::packet::Gfx;

use super::card::Card;
use super::error::Cause;
use super::hdp;

/// Dwords of doorbells that a copy engine has.
const SDMA_DOORBELLS: u32 = 20;
/// Where those of copy engines start, in dwords.
const SDMA_FIRST: u32 = 0x200;

/// Who is to have doorbells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// The command processor: all that nobody else has.
    Compute,
    /// So many copy engines.
    Copy {
        /// How many.
        engines: u32,
    },
}

/// Opens the way to doorbells, of which [`route`] makes some, and shows the flush register to the host.
///
/// # Errors
/// The registers'.
pub fn start(card: &Card) -> Result<(), Cause> {
    let nbio = card.registers(&card.blocks().nbif);
    // The sound of the card is a function of its own, and a reset of the card is one of it too.
    if card.gfx() != Gfx::Gfx9 {
        let strap = ("strap_no_soft_reset_dev0_f2", 0);
        nbio.set(&regs::RCC_DEV0_EPF2_STRAP2, &[strap])?;
    }
    let open = [("bif_doorbell_aper_en", 1)];
    nbio.put(&regs::RCC_DEV0_EPF0_RCC_DOORBELL_APER_EN, &open)?;
    nbio.write(&regs::BIF_BX0_REMAP_HDP_MEM_FLUSH_CNTL, hdp::FLUSH)?;
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

/// Makes a way for doorbells.
///
/// # Errors
/// The registers'.
pub fn route(card: &Card, route: Route) -> Result<(), Cause> {
    let nbio = card.registers(&card.blocks().nbif);
    let open = |port: &Port, offset: u32, size: u32| {
        let fields = [
            (port.enable, 1),
            port.awid,
            (port.offset, offset),
            (port.size, size),
            port.awaddr,
        ];
        nbio.put(port.register, &fields)
    };
    match route {
        // No range of its own: what no other port has.
        Route::Compute => CP.iter().try_for_each(|port| open(port, 0, 0))?,
        Route::Copy { engines } => open(&SDMA, SDMA_FIRST, engines * SDMA_DOORBELLS)?,
    }
    Ok(())
}
