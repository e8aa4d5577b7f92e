//! What is done where a queue does not leave: the engine that runs it is reset, which takes all of its queues. Those of others
//! are brought back to where they were; one that cannot be is told to who has it.
//!
//! Source: Linux, amdkfd/kfd_device_queue_manager.c, `reset_queues_cpsch` and `restore_process_queues_cpsch`: queues are
//! drained, the unit is reset, and what was good is mapped again; amdgpu_amdkfd_gfx_v11.c, `hqd_sdma_destroy_v11` and
//! `hqd_sdma_load_v11`: the read pointer of a copy queue is kept.

use super::error::Cause;
use super::hqd::{self, Leave, Pointers};
use super::live::Live;
use super::running::Running;
use crate::chip::Language;

/// Takes a compute queue out of its slot, on all XCCs that have it. How far it was on each.
///
/// # Errors
/// [`Cause::Register`]: it does not leave.
pub(super) fn take_out(card: &Running, queue: &Live, how: Leave) -> Result<Vec<Pointers>, Cause> {
    let xccs = card.gfx().xccs();
    let images = queue.images.iter().filter_map(|(i, _)| xccs.get(*i));
    images
        .map(|xcc| hqd::unload(xcc, queue.number, how))
        .collect()
}

/// Brings a compute queue back to where it was.
///
/// # Errors
/// [`Cause::Register`].
pub(super) fn bring_back(card: &Running, queue: &Live, were: Vec<Pointers>) -> Result<(), Cause> {
    let xccs = card.gfx().xccs();
    for ((i, image), was) in queue.images.iter().zip(were) {
        if let Some(xcc) = xccs.get(*i) {
            hqd::load(xcc, queue.number, image, Some(was))?;
        }
    }
    Ok(())
}

/// Restarts the command processors, because of a queue that does not leave its slot. Other queues of its owner end with it.
///
/// # Errors
/// [`Cause::Register`]: it is still there. No queue of the card runs any more then.
pub(super) fn restart(card: &Running, hung: u32, owner: u64) -> Result<(), Cause> {
    let others = card.live(|one| one.language != Language::Sdma && one.owner != owner);
    let drained = others.into_iter().map(|one| {
        let were = take_out(card, &one, Leave::Drain);
        (one, were)
    });
    let drained: Vec<_> = drained.collect();
    let done = card.gfx().restart();
    for (one, were) in drained {
        match &done {
            Ok(()) => {
                let back = were.and_then(|were| {
                    bring_back(card, &one, were)?;
                    Ok(one.ring()?)
                });
                told(card, &one, hung, back);
            }
            Err(error) => one.take_down(hung, &error.to_string()),
        }
    }
    done
}

/// Resets a copy engine, because of a queue that it does not let go. Other queues of its owner there end with it.
///
/// # Errors
/// [`Cause::Register`].
pub(super) fn reset_engine(card: &Running, hung: u32, owner: u64) -> Result<(), Cause> {
    let engines = card.sdma();
    let same = |one: &Live| {
        one.language == Language::Sdma && one.owner != owner && engines.share(one.number, hung)
    };
    let paused: Vec<_> = card
        .live(same)
        .into_iter()
        .map(|one| {
            let was = engines.pause(one.number);
            (one, was)
        })
        .collect();
    engines.restart(hung)?;
    for (one, was) in paused {
        let back = was.and_then(|at| match &one.copies {
            Some(queue) => {
                engines.load(one.number, queue, at)?;
                Ok(one.ring()?)
            }
            None => Ok(()),
        });
        told(card, &one, hung, back);
    }
    Ok(())
}

fn told(card: &Running, one: &Live, hung: u32, back: Result<(), Cause>) {
    let device = card.card().device();
    let number = one.number;
    match back {
        Ok(()) => {
            tracing::info!(target: "hcq::amd", %device, hung, number, "a queue is back after a reset of its engine");
        }
        Err(error) => {
            tracing::warn!(target: "hcq::amd", %device, hung, number, %error, "a reset has taken a queue");
            one.take_down(hung, &error.to_string());
        }
    }
}
