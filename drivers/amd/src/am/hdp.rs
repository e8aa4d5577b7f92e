//! The host data path (HDP): host writes to VRAM through the BAR wait there until flushed.
//!
//! A flush is any write to a register that the bus interface also maps at [`shown`], for processes that may map
//! that page only.
//!
//! Source: Linux, drivers/gpu/drm/amd/amdgpu: hdp_v6_0.c and hdp_v7_0.c (`flush_hdp`), amdgpu_device.c (the read
//! after it), nbio_v4_3.c (`remap_hdp_registers`), soc21.c and nbio_v7_9.c (`MMIO_REG_HOLE_OFFSET`).

use drivers_spec::amd::mmio::{RCC_CONFIG_MEMSIZE, hdp as regs};
use drivers_spec::amd::packet::Gfx;
use hcq::mem::window::Window;
use hcq::reg::At;
use hcq::transport::TransportError;

use super::card::Card;
use super::error::Cause;

/// Where the flush register is shown, in bytes: a page that belongs to no block.
pub const fn shown(gfx: Gfx) -> u32 {
    match gfx {
        Gfx::Gfx9 => 0x1_a000,
        Gfx::Gfx10 | Gfx::Gfx11 | Gfx::Gfx12 => 0x7_f000,
    }
}

/// The flush, with the register's address resolved once: every submission uses it.
#[derive(Clone)]
pub struct Hdp {
    mmio: Window,
    flush: u64,
    /// A register whose read has no effect, but that writes before it have arrived.
    after: u64,
}

impl Hdp {
    /// The flush of a card. [`super::nbio::start`] maps the register.
    pub fn of(card: &Card) -> Hdp {
        let after = match RCC_CONFIG_MEMSIZE.at {
            At::Fixed(dword) => u64::from(dword) * 4,
            At::Rows(_) => 0,
        };
        Hdp {
            mmio: card.mmio().clone(),
            flush: shown(card.gfx()).into(),
            after,
        }
    }

    /// What the host has written to VRAM is there when it returns.
    ///
    /// # Errors
    /// The transport's.
    pub fn flush(&self) -> Result<(), TransportError> {
        self.mmio.ring(self.flush, 0u32)?;
        self.mmio.read::<u32>(self.after)?;
        Ok(())
    }

    /// Requests a flush, ordered after earlier and before later writes, without waiting for it.
    ///
    /// # Errors
    /// The transport's.
    pub fn post(&self) -> Result<(), TransportError> {
        self.mmio.store(self.flush, 0u32)
    }
}

/// Lets the block's memory for atomics sleep while it is unused.
///
/// # Errors
/// The register's.
pub fn gate_clocks(card: &Card) -> Result<(), Cause> {
    let hdp = card.registers(&card.blocks().hdp);
    let fields = [
        ("atomic_mem_power_ctrl_en", 1),
        ("atomic_mem_power_ds_en", 1),
    ];
    if card.gfx() != Gfx::Gfx9 {
        hdp.set(&regs::HDP_MEM_POWER_CTRL, &fields)?;
    }
    Ok(())
}
