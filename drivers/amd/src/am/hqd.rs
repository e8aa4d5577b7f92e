//! Slots of the hardware for compute queues (HQD): a queue comes alive in one, and leaves it.
//!
//! No firmware schedules them here: a queue keeps its HQD as long as it exists.
//!
//! Source: Linux, amdgpu/gfx_v11_0.c, `gfx_v11_0_kiq_init_register`; gfx_v12_0.c, the same; amdgpu_gfx.c and
//! gfx_v9_4_3.c for how queues are taken out.

use std::time::Duration;

use drivers_spec::amd::mmio::gc;
use drivers_spec::amd::packet::{Gfx, Gfxs};
use hcq::reg::block::Registers;
use hcq::reg::error::RegError;
use hcq::transport::Clock;
use hcq::wait::Deadline;

use super::error::Cause;
use super::mqd::Mqd;
use super::xcc::{Bank, Xcc};

/// Queues of the first pipe, which are all that are used here.
///
/// Source: Linux, gfx_v9_4_3.c, gfx_v11_0.c, gfx_v12_0.c: `num_queue_per_pipe`.
pub(super) const fn queues(gfx: Gfx) -> u32 {
    match gfx {
        Gfx::Gfx9 | Gfx::Gfx10 => 8,
        Gfx::Gfx11 | Gfx::Gfx12 => 4,
    }
}

/// Timeout for a dequeue: a reset of waves takes far less.
const LEAVE: Duration = Duration::from_secs(1);

/// How a queue leaves its slot: `CP_HQD_DEQUEUE_REQUEST`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leave {
    /// Once its waves are done.
    Drain = 1,
    /// Its waves are ended.
    Reset = 2,
}

/// The position of a queue in the hardware's units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pointers {
    /// Its read pointer.
    pub(super) rptr: u32,
    /// Its write pointer.
    pub(super) wptr: u64,
}

const fn bank(queue: u32) -> Bank {
    Bank {
        me: 1,
        pipe: 0,
        queue,
        vmid: 0,
    }
}

/// Activates a queue in a slot from its image; an earlier queue there is ended.
///
/// # Errors
/// [`Cause::Register`].
pub(super) fn load(xcc: &Xcc, queue: u32, mqd: &Mqd, at: Option<Pointers>) -> Result<(), Cause> {
    let clock = &**xcc.card().clock();
    Ok(xcc.with(bank(queue), |slot| {
        take_out(&slot, clock, Leave::Reset)?;
        mqd.load(&slot)?;
        if let Some(Pointers { rptr, wptr }) = at {
            slot.write(&gc::CP_HQD_PQ_RPTR, rptr)?;
            slot.write(&gc::CP_HQD_PQ_WPTR_LO, wptr as u32)?;
            slot.write(&gc::CP_HQD_PQ_WPTR_HI, (wptr >> 32) as u32)?;
        }
        slot.put(&gc::CP_HQD_ACTIVE, &[("active", 1)])
    })?)
}

/// Dequeues a queue and returns its position; an empty slot is ignored.
///
/// # Errors
/// [`Cause::Register`]; with [`hcq::reg::error::RegFault::Timeout`] if the dequeue fails.
pub(super) fn unload(xcc: &Xcc, queue: u32, how: Leave) -> Result<Pointers, Cause> {
    let clock = &**xcc.card().clock();
    Ok(xcc.with(bank(queue), |slot| take_out(&slot, clock, how))?)
}

fn take_out(
    slot: &Registers<'_, Gfxs>,
    clock: &dyn Clock,
    how: Leave,
) -> Result<Pointers, RegError> {
    let word = |reg| slot.read(reg).map(|value| value.bits());
    if slot.field(&gc::CP_HQD_ACTIVE, "active")? == 1 {
        slot.put(&gc::CP_HQD_DEQUEUE_REQUEST, &[("dequeue_req", how as u32)])?;
        if how == Leave::Reset {
            // Waves that wait for something that does not come.
            slot.put(&gc::SPI_COMPUTE_QUEUE_RESET, &[("reset", 1)])?;
        }
        let what = "the HQD to dequeue";
        let deadline = Deadline::on(clock, LEAVE);
        slot.poll(&gc::CP_HQD_ACTIVE, clock, deadline, what, |value| {
            value.bits() & 1 == 0
        })?;
    }
    let (low, high) = (word(&gc::CP_HQD_PQ_WPTR_LO)?, word(&gc::CP_HQD_PQ_WPTR_HI)?);
    let pointers = Pointers {
        rptr: word(&gc::CP_HQD_PQ_RPTR)?,
        wptr: u64::from(low) | u64::from(high) << 32,
    };
    // Nothing that rings its doorbell wakes it again.
    slot.put(&gc::CP_HQD_PQ_DOORBELL_CONTROL, &[])?;
    slot.put(&gc::CP_HQD_DEQUEUE_REQUEST, &[])?;
    Ok(pointers)
}
