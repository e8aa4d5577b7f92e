//! Recovery from a queue that cannot be removed: its unit is reset, which ends all of its queues. The queues of other handles
//! are restored at their positions; if that fails, their owner gets an error.
//!
//! Source: Linux, amdkfd/kfd_device_queue_manager.c, `reset_queues_cpsch` and `restore_process_queues_cpsch`: queues are
//! drained, the unit is reset, and the good queues are mapped again.

use super::driver::Driver;
use super::queues::Live;
use super::running::Running;

/// Resets the unit of a queue that cannot be removed. Other queues of its owner end with it. The caller holds
/// the card's turn: no other queue is removed at the same time.
///
/// # Errors
/// The queue is still active: no queue of the unit runs any more.
pub(super) fn reset<D: Driver>(
    card: &Running<D>,
    slot: (D::Kind, u32),
    owner: u64,
) -> Result<(), D::Cause> {
    let driver = card.driver();
    let others = card.live(|one| one.owner != owner && driver.is_reset_with(one, slot));
    let paused: Vec<_> = others
        .into_iter()
        .map(|one| {
            let at = driver.pause(&one);
            (one, at)
        })
        .collect();
    let done = driver.reset(slot);
    for (one, at) in paused {
        let back = match &done {
            Ok(()) => at
                .and_then(|at| {
                    driver.resume(&one, at)?;
                    driver.ring(&one)
                })
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        told(card, &one, slot.1, back);
    }
    done
}

fn told<D: Driver>(card: &Running<D>, one: &Live<D>, hung: u32, back: Result<(), String>) {
    let (device, number) = (card.function().device(), one.number);
    match back {
        Ok(()) => {
            tracing::info!(target: "hcq::bare", %device, hung, number, "queue restored after an engine reset");
        }
        Err(error) => {
            tracing::warn!(target: "hcq::bare", %device, hung, number, %error, "queue lost in an engine reset");
            one.take_down(hung, &error);
        }
    }
}
