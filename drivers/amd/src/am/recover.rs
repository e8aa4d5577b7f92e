//! What is done where a queue does not leave: the engine that runs it is reset, which takes all of its queues. Those of others
//! are brought back to where they were; one that cannot be is told to who has it.
//!
//! Source: Linux, amdkfd/kfd_device_queue_manager.c, `reset_queues_cpsch` and `restore_process_queues_cpsch`: queues are
//! drained, the unit is reset, and what was good is mapped again; amdgpu_amdkfd_gfx_v11.c, `hqd_sdma_destroy_v11` and
//! `hqd_sdma_load_v11`: the read pointer of a copy queue is kept.

use std::sync::{Arc, OnceLock};

use hcq::mem::window::Window;
use hcq::transport::TransportError;

use super::error::Cause;
use super::hqd::{self, Leave, Pointers};
use super::mqd::Mqd;
use super::running::Running;
use super::sdma;
use crate::chip::Language;
use crate::interface::queue::WPTR;

/// A queue that is alive, as others of its engine know it.
pub(super) struct Live {
    /// The number of the handle that has it.
    pub(super) owner: u64,
    /// What it takes.
    pub(super) language: Language,
    /// Its slot.
    pub(super) number: u32,
    /// The image of each XCC that has it, with the XCC's number.
    pub(super) images: Vec<(usize, Arc<Mqd>)>,
    /// What it is made of, if it copies.
    pub(super) copies: Option<sdma::Queue>,
    /// Its page of pointers.
    pub(super) control: Window,
    /// Its doorbells.
    pub(super) doorbells: Vec<Window>,
    /// Why it runs no more, if a reset has taken it.
    down: OnceLock<String>,
}

impl Live {
    /// A queue of these parts.
    pub(super) fn new(
        owner: u64,
        (language, number): (Language, u32),
        images: Vec<(usize, Arc<Mqd>)>,
        copies: Option<sdma::Queue>,
        control: Window,
        doorbells: Vec<Window>,
    ) -> Arc<Live> {
        Arc::new(Live {
            owner,
            language,
            number,
            images,
            copies,
            control,
            doorbells,
            down: OnceLock::new(),
        })
    }

    /// Why it runs no more, if a reset has taken it.
    pub(super) fn down(&self) -> Option<&str> {
        self.down.get().map(String::as_str)
    }

    fn take_down(&self, hung: u32, why: &str) {
        let text = format!(
            "a reset has taken this queue, which had done nothing wrong: queue {hung} of the same engine, of another handle \
             of this card, did not stop, and this one could not be brought back ({why}). Open the device again"
        );
        // Once is enough.
        _ = self.down.set(text);
    }

    /// Rings again: what was rung while it was out of its slot has gone unheard.
    fn ring(&self) -> Result<(), TransportError> {
        let written: u64 = self.control.load(WPTR)?;
        let bell = match self.language {
            Language::Pm4 | Language::Sdma => written,
            // The index of the last packet.
            Language::Aql => match written.checked_sub(1) {
                Some(last) => last,
                None => return Ok(()),
            },
        };
        self.doorbells
            .iter()
            .try_for_each(|doorbell| doorbell.ring(0, bell))
    }
}

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
