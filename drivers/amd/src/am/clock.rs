//! [`Counter`]: the counter of timestamp packets: from GFX11 on one for all blocks, on MI300 that of an XCC, which
//! latches its value on request.
//!
//! Source: Linux, amdgpu/gfx_v11_0.c, gfx_v12_0.c and gfx_v9_4_3.c, `get_gpu_clock_counter`.

use std::sync::{Arc, Mutex};

use drivers_spec::amd::mmio::{self, gc};
use drivers_spec::amd::packet::Gfx;
use hcq::sync::lock;

use super::card::Card;
use super::discovery::DiscoveryError;
use super::error::Cause;

/// The counter of a card.
pub(super) struct Counter {
    card: Arc<Card>,
    /// One reader at a time.
    turn: Mutex<()>,
}

impl Counter {
    /// That of a card.
    pub(super) fn of(card: &Arc<Card>) -> Counter {
        Counter {
            card: card.clone(),
            turn: Mutex::default(),
        }
    }

    /// Its value, in ticks of 10 ns.
    ///
    /// # Errors
    /// [`Cause::Register`].
    pub(super) fn now(&self) -> Result<u64, Cause> {
        match self.card.gfx() {
            Gfx::Gfx9 => self.held(),
            _ => self.running(),
        }
    }

    fn held(&self) -> Result<u64, Cause> {
        let _turn = lock(&self.turn);
        let first = self.card.blocks().gc.first();
        let first = first.ok_or_else(|| DiscoveryError::Missing { what: "GC".into() })?;
        let gc = self.card.registers(first);
        gc.put(&gc::RLC_CAPTURE_GPU_CLOCK_COUNT, &[("capture", 1)])?;
        let low = gc.read(&gc::RLC_GPU_CLOCK_COUNT_LSB)?.bits();
        let high = gc.read(&gc::RLC_GPU_CLOCK_COUNT_MSB)?.bits();
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    fn running(&self) -> Result<u64, Cause> {
        let any = self.card.registers(&self.card.blocks().nbif);
        let read = |reg| Ok::<_, Cause>(u64::from(any.read(reg)?.bits()));
        loop {
            let high = read(&mmio::GOLDEN_TSC_COUNT_UPPER)?;
            let low = read(&mmio::GOLDEN_TSC_COUNT_LOWER)?;
            // The halves are of one moment.
            if read(&mmio::GOLDEN_TSC_COUNT_UPPER)? == high {
                return Ok(high << 32 | low);
            }
        }
    }
}
