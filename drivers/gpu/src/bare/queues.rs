//! [`Queues`]: the queues of a card, as its driver dequeues and restores them; [`Live`]: a live queue, as seen by
//! others of its engine.

use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use hcq::transport::TransportError;

/// The queues of a card: how one leaves the hardware, and comes back.
pub trait Queues: Send + Sync + Sized + 'static {
    /// What was in the way.
    type Cause: Display + From<TransportError>;
    /// What a queue takes. Kinds may share [`Slots`].
    type Kind: Copy + Send + Sync;
    /// What a queue that is alive is made of.
    type Queue: Send + Sync;
    /// How far a queue was, as the hardware counts.
    type At;

    /// The slots for queues of a kind.
    fn slots(&self, kind: Self::Kind) -> Slots;

    /// Takes a queue out for good, also one that was not whole; nothing is done to a slot that is empty. Says whether it is
    /// out: if not, [`Queues::reset`] ends it.
    ///
    /// # Errors
    /// It may run on, and no reset helps.
    fn stop(&self, kind: Self::Kind, number: u32) -> Result<bool, Self::Cause>;

    /// Takes a queue out that comes back, once what it does now is done.
    ///
    /// # Errors
    /// It does not leave.
    fn pause(&self, queue: &Live<Self>) -> Result<Self::At, Self::Cause>;

    /// Brings a queue back to where it was.
    ///
    /// # Errors
    /// What is in the way.
    fn resume(&self, queue: &Live<Self>, at: Self::At) -> Result<(), Self::Cause>;

    /// Rings again: what was rung while the queue was out has gone unheard.
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
    /// What it is made of.
    pub parts: Q::Queue,
    /// Why it runs no more, if a reset has taken it.
    down: OnceLock<String>,
    /// It is to leave for good: what it is made of may be gone.
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

    /// Says that it leaves for good. Who does holds the card's turn.
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
