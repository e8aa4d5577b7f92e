//! [`Relay`]: memory between the host and a function without access to host memory, for copies faster than dword by
//! dword.
//!
//! The function copies between it and its own memory. It waits for a word that announces a part, and writes another
//! when done with it: a [`Leg`] names both. Submit the legs of a copy to the function, in order, before sending the
//! bytes.

use std::ops::ControlFlow;

use super::{BusRange, TransportError};
use crate::addr::BusAddr;

/// A word of 32 bits, and where the function finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// Its address, a multiple of 4.
    pub at: BusAddr,
    /// Its value.
    pub value: u32,
}

/// The function's work for a part of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg {
    /// It starts once this word has been written.
    pub ready: Mark,
    /// The part's address in the relay memory.
    pub at: BusAddr,
    /// Bytes of the part.
    pub bytes: usize,
    /// The word that it writes once the part is copied.
    pub done: Mark,
}

/// Gives the function the legs of a copy; `Break` where it could not.
pub type Start<'a> = dyn FnMut(&[Leg]) -> ControlFlow<()> + 'a;

/// See the front page.
pub trait Relay: Send + Sync {
    /// What the function has to reach: each starts and ends at a page of 4 KiB.
    fn ranges(&self) -> Vec<BusRange>;

    /// Bytes of a leg at most: from the host, and to it.
    fn parts(&self) -> [usize; 2];

    /// Sends bytes, until the function is done with all legs. Where `start` breaks off, nothing is sent.
    ///
    /// # Errors
    /// The transport's; [`Fault::TimedOut`](super::Fault::TimedOut) if the function is not done with a leg in time.
    fn send(&self, from: &[u8], start: &mut Start<'_>) -> Result<(), TransportError>;

    /// Takes bytes that the function sends; none where `start` breaks off.
    ///
    /// # Errors
    /// As [`Relay::send`].
    fn receive(&self, to: &mut [u8], start: &mut Start<'_>) -> Result<(), TransportError>;
}
