//! [`Slot`]: a slot of the hardware, and the queue in it. Dropping it takes the queue out.

use std::sync::{Arc, OnceLock};

use hcq::Result;

use super::driver::Driver;
use super::queues::Live;
use super::recover;
use super::running::Running;

/// A slot, which is free again when it is dropped.
pub struct Slot<D: Driver> {
    card: Arc<Running<D>>,
    kind: D::Kind,
    number: u32,
    owner: u64,
    /// The queue, once it is whole.
    live: OnceLock<Arc<Live<D>>>,
    /// Whether it was taken out, once that was tried.
    stopped: OnceLock<bool>,
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
            stopped: OnceLock::new(),
        })
    }

    /// Its number among those of its kind.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Brings the queue in, while no other of the card comes or leaves: others know it from here on.
    ///
    /// # Errors
    /// Those of `load`; the drop takes out what has come so far.
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

    /// Takes the queue out for good; once is enough. Says whether nothing of it can write any more.
    pub fn stop(&self) -> bool {
        *self.stopped.get_or_init(|| self.end())
    }

    fn end(&self) -> bool {
        let (function, driver) = (self.card.function(), self.card.driver());
        let _turn = self.card.turn();
        if let Some(live) = self.live.get() {
            live.end();
        }
        // A card that is not there writes nothing.
        if function.has_left() {
            return true;
        }
        let out = driver.stop(self.kind, self.number);
        let done = out.and_then(|is_out| match is_out {
            true => Ok(()),
            false => recover::reset(&self.card, (self.kind, self.number), self.owner),
        });
        let Err(error) = done else {
            return true;
        };
        match function.soil() {
            true => tracing::debug!(target: "hcq::bare", %error, "a queue stays in its slot"),
            false => tracing::warn!(target: "hcq::bare", %error, "a queue stays in its slot"),
        }
        // It may go on, and reaches nothing of the host: behind a bridge it never does. What it writes of the card's memory
        // nobody else has: the next start is from cold.
        let reaches_host = function.pci().reaches_host();
        function.has_left() || !reaches_host || driver.cut_off().is_ok()
    }
}

impl<D: Driver> Drop for Slot<D> {
    fn drop(&mut self) {
        self.stop();
        self.card.leave(self.kind, self.number);
    }
}
