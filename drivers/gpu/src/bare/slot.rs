//! [`Slot`]: a hardware queue slot (HQD) and the queue in it. Dropping it dequeues the queue.

use std::sync::{Arc, OnceLock};

use hcq::Result;

use super::driver::Driver;
use super::queues::Live;
use super::recover;
use super::running::{Reach, Running};

/// A slot, which is free again when it is dropped.
pub struct Slot<D: Driver> {
    card: Arc<Running<D>>,
    kind: D::Kind,
    number: u32,
    owner: u64,
    /// The queue, once it is whole.
    live: OnceLock<Arc<Live<D>>>,
    /// The outcome of its removal.
    ended: OnceLock<End>,
}

/// The outcome of the removal of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It has left.
    Out,
    /// It could not be dequeued, and reaches only the card's memory, which is kept for it.
    Stays,
    /// It could not be dequeued, and may write anywhere.
    Runs,
}

impl<D: Driver> Slot<D> {
    /// A slot for a queue of a handle, with nothing in it.
    ///
    /// # Errors
    /// [`hcq::Error::Os`]: all are taken.
    pub fn take(card: &Arc<Running<D>>, kind: D::Kind, owner: u64) -> Result<Slot<D>> {
        Ok(Slot {
            number: card.take(kind)?,
            card: card.clone(),
            kind,
            owner,
            live: OnceLock::new(),
            ended: OnceLock::new(),
        })
    }

    /// Its number among those of its kind.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Loads the queue, while no other queue of the card is loaded or removed; others see it from here on.
    ///
    /// # Errors
    /// Those of `load`; the drop removes a partly loaded queue.
    pub fn enter(&self, load: impl FnOnce() -> Result<D::Queue>) -> Result<()> {
        let _turn = self.card.turn();
        let live = Live::new(self.owner, (self.kind, self.number), load()?);
        self.card.enter(self.live.get_or_init(|| Arc::new(live)));
        Ok(())
    }

    /// Takes the queue out and gives it back.
    ///
    /// # Errors
    /// [`hcq::Error::Fault`].
    pub fn remap(&self) -> Result<()> {
        let Some(live) = self.live.get() else {
            return Ok(());
        };
        let driver = self.card.driver();
        let _turn = self.card.turn();
        let paused = driver.pause(live);
        let done = paused.and_then(|at| driver.resume(live, at));
        done.map_err(|e| self.card.function().broken("queue", e))
    }

    /// Removes the queue for good; later calls do nothing. Returns whether it can write at most to memory that its card
    /// keeps for it.
    pub fn stop(&self) -> bool {
        self.ended() != End::Runs
    }

    fn ended(&self) -> End {
        *self.ended.get_or_init(|| self.end())
    }

    fn end(&self) -> End {
        let (function, driver) = (self.card.function(), self.card.driver());
        let _turn = self.card.turn();
        if let Some(live) = self.live.get() {
            live.end();
        }
        // A card that is not there writes nothing.
        if function.has_left() {
            return End::Out;
        }
        // It was cut off because of another one.
        if function.pci().reaches_host() && self.card.stuck() == Some(Reach::Card) {
            return End::Stays;
        }
        let out = driver.stop(self.kind, self.number);
        let done = out.and_then(|is_out| match is_out {
            true => Ok(()),
            false => recover::reset(&self.card, (self.kind, self.number), self.owner),
        });
        let Err(error) = done else {
            return End::Out;
        };
        match function.mark_wedged() {
            true => tracing::debug!(target: "hcq::bare", %error, "failed to dequeue HQD"),
            false => tracing::warn!(target: "hcq::bare", %error, "failed to dequeue HQD"),
        }
        if function.has_left() {
            return End::Out;
        }
        let number = self.number;
        let why = format!("queue {number} could not be stopped, not even by a reset ({error})");
        // Behind a bridge, a queue uses the card's memory only.
        if !function.pci().reaches_host() {
            self.card.stick(Reach::Card, why);
            return End::Stays;
        }
        match driver.cut_off() {
            Ok(()) => {
                let what = "so the card's access to host memory was cut off";
                self.card.stick(Reach::Card, format!("{why}, {what}"));
                End::Stays
            }
            Err(error) => {
                let what = "and the card's access to host memory could not be cut off";
                self.card
                    .stick(Reach::Host, format!("{why}, {what} ({error})"));
                End::Runs
            }
        }
    }
}

impl<D: Driver> Drop for Slot<D> {
    fn drop(&mut self) {
        // A queue that was not removed keeps its slot until the next start of the card.
        if self.ended() == End::Out {
            self.card.leave(self.kind, self.number);
        }
    }
}
