//! [`Queues`]: what the parts below the queues want of them.

use drivers_bundle::schema::Queue;
use hcq::Result;

/// The queues of an open device, as memory, signals and faults see them. Their owner implements it
/// (the engine); lower layers find them by [`super::Core::queues`] while they exist. Such a reference is not a
/// handle: the device may end at the same time, in the thread that drops the last handle.
pub trait Queues: Send + Sync {
    /// Wakes every thread that waits for a timeline.
    fn wake(&self);

    /// Frees resources of completed packets.
    fn reclaim(&self);

    /// The position of each busy queue; empty if all are idle.
    fn report(&self) -> String;

    /// Whether one of them may be inside of a kernel.
    fn runs(&self) -> bool;

    /// The work in flight that may have accessed a faulting page.
    fn suspects(&self, page: u64) -> Suspects;

    /// The position of each queue, the work in flight, and the last submissions, for a bundle.
    fn evidence(&self) -> Vec<Queue>;
}

/// Copies for the host, by a queue of the driver. It keeps the device open, as a handle does.
pub trait Copies: Send + Sync {
    /// Copies device memory at an address to the host.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`] for the staging buffers, [`hcq::Error::Timeout`], the loss of the device.
    fn read(&self, va: u64, into: &mut [u8]) -> Result<()>;

    /// Copies from the host to device memory at an address.
    ///
    /// # Errors
    /// As [`Copies::read`].
    fn write(&self, va: u64, from: &[u8]) -> Result<()>;

    /// Fills device memory at an address with a word; both address and bytes are multiples of 4.
    ///
    /// # Errors
    /// As [`Copies::read`].
    fn fill(&self, va: u64, value: u32, bytes: u64) -> Result<()>;
}

/// Packets in flight, as parts of sentences, each with its queue.
#[derive(Default)]
pub struct Suspects {
    /// The first that names an address of the page.
    pub guilty: Option<(String, String)>,
    /// Others that may be it; none after one that is blamed.
    pub others: Vec<(String, String)>,
}

impl Suspects {
    /// One more, unless it is there.
    pub(crate) fn other(&mut self, unit: String, what: String) {
        let other = (unit, what);
        if !self.others.contains(&other) {
            self.others.push(other);
        }
    }
}
