//! What is done where a queue does not leave: what runs it is reset, which takes all of its queues. Those of other handles
//! are brought back to where they were; one that cannot be is told to who has it.
//!
//! Source: Linux, amdkfd/kfd_device_queue_manager.c, `reset_queues_cpsch` and `restore_process_queues_cpsch`: queues are
//! drained, the unit is reset, and what was good is mapped again.

use super::driver::Driver;
use super::queues::Live;
use super::running::Running;

/// Resets what runs the queue in a slot, because it does not leave. Other queues of its owner end with it. Who calls has
/// the card's turn: none of the others leaves meanwhile.
///
/// # Errors
/// It is still there: no queue of the unit runs any more then.
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
