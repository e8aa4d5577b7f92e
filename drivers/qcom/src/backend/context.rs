//! [`ContextHandle`]: a context of a kernel driver. A submission is a call that names indirect buffers; the driver numbers
//! them and says how far it is.

use std::time::Duration;

use hcq::Error;
use hcq::transport::TransportError;

/// Packets in memory of the GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndirectBuffer {
    /// Where they are.
    pub address: u64,
    /// How many dwords.
    pub dwords: u32,
}

/// How a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Nothing is in flight.
    Idle,
    /// A submission has ended.
    Ended,
    /// None has, as far as is known.
    None,
}

/// Why a submission was not taken, or what is wrong with the context.
#[derive(Debug)]
pub enum Failure {
    /// The context is lost: a fault of the GPU, a reset, a driver that is gone.
    Lost(TransportError),
    /// The call was refused, and nothing has changed.
    Refused(Error),
}

/// A context. Dropping it ends it, if that was not done before.
pub trait ContextHandle: Send + Sync {
    /// Its name in messages.
    fn name(&self) -> &str;

    /// How many indirect buffers a submission may have. One of more is cut into several.
    fn most(&self) -> usize;

    /// Queues indirect buffers, at most [`ContextHandle::most`], as one submission.
    ///
    /// # Errors
    /// [`Failure`].
    fn submit(&self, buffers: &[IndirectBuffer]) -> Result<(), Failure>;

    /// Submissions that were queued, and those of them that have ended.
    ///
    /// # Errors
    /// The transport's.
    fn counts(&self) -> Result<(u64, u64), TransportError>;

    /// Sleeps until a submission ends, at most for `limit`. May return early.
    ///
    /// # Errors
    /// The transport's, where the driver does not answer.
    fn sleep(&self, limit: Duration) -> Result<Progress, TransportError>;

    /// What is known of a fault of the context, in words. `now`: asks the driver, else only unless that was a moment ago.
    ///
    /// # Errors
    /// The transport's.
    fn fault(&self, now: bool) -> Result<Option<String>, TransportError>;

    /// Ends the context, once. Whether nothing of it can run any more.
    fn stop(&self) -> bool;
}
