//! [`Queues`]: the queues of a card, as its driver dequeues and restores them; [`Live`]: a live queue, as seen by
//! others of its engine.

use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use hcq::transport::TransportError;

/// The queues of a card: how one is removed from the hardware and restored.
pub trait Queues: Send + Sync + Sized + 'static {
    /// What was in the way.
    type Cause: Display + From<TransportError>;
    /// What a queue takes. Kinds may share [`Slots`].
    type Kind: Copy + Send + Sync;
    /// What a queue that is alive is made of.
    type Queue: Send + Sync;
    /// The position of a queue in the hardware's units.
    type At;

    /// The slots for queues of a kind.
    fn slots(&self, kind: Self::Kind) -> Slots;

    /// Removes a queue for good, also a partly created one; an empty slot is ignored. Returns whether it is
    /// removed: if not, [`Queues::reset`] ends it.
    ///
    /// # Errors
    /// It may still run, and a reset does not help.
    fn stop(&self, kind: Self::Kind, number: u32) -> Result<bool, Self::Cause>;

    /// Removes a queue temporarily, after its current work.
    ///
    /// # Errors
    /// It cannot be removed.
    fn pause(&self, queue: &Live<Self>) -> Result<Self::At, Self::Cause>;

    /// Restores a queue at its position.
    ///
    /// # Errors
    /// What is in the way.
    fn resume(&self, queue: &Live<Self>, at: Self::At) -> Result<(), Self::Cause>;

    /// Writes the doorbell again: doorbells are lost while the queue is removed.
    ///
    /// # Errors
    /// What is in the way.
    fn ring(&self, queue: &Live<Self>) -> Result<(), Self::Cause>;

    /// Whether a reset for the queue in a slot takes another queue.
    fn is_reset_with(&self, queue: &Live<Self>, slot: (Self::Kind, u32)) -> bool;

    /// Resets what runs the queue in a slot, which has no queue then.
    ///
    /// # Errors
    /// It does not start again: no queue of it runs any more.
    fn reset(&self, slot: (Self::Kind, u32)) -> Result<(), Self::Cause>;
}

/// Slots of the hardware for queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slots {
    /// Whose they are, in messages: `copy queues`.
    pub of: &'static str,
    /// How many there are.
    pub count: u32,
}

/// A queue that is alive.
pub struct Live<Q: Queues> {
    /// The number of the handle that has it.
    pub owner: u64,
    /// What it takes.
    pub kind: Q::Kind,
    /// Its slot.
    pub number: u32,
    /// Its parts.
    pub parts: Q::Queue,
    /// Why it runs no more, if a reset has taken it.
    down: OnceLock<String>,
    /// It is being removed for good: its parts may be freed already.
    ended: AtomicBool,
}

impl<Q: Queues> Live<Q> {
    /// A queue in a slot.
    pub(super) fn new(owner: u64, (kind, number): (Q::Kind, u32), parts: Q::Queue) -> Live<Q> {
        Live {
            owner,
            kind,
            number,
            parts,
            down: OnceLock::new(),
            ended: AtomicBool::new(false),
        }
    }

    /// Why it runs no more, if a reset has taken it.
    pub fn down(&self) -> Option<&str> {
        self.down.get().map(String::as_str)
    }

    /// Marks it as being removed for good. The caller holds the card's turn.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Notes that a reset for another queue has taken it.
    pub(super) fn take_down(&self, hung: u32, why: &str) {
        let text = format!(
            "lost in an engine reset: queue {hung} of another handle of this card did not stop, and this queue could \
             not be restored after the reset ({why}). Open the device again"
        );
        // Once is enough.
        _ = self.down.set(text);
    }
}
