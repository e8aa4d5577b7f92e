//! [`Queues`]: what the parts below the queues want of them.

use drivers_bundle::schema::Queue;
use hcq::Result;

/// The queues of an open device, as memory, signals and faults see them. Their owner implements it
/// (the engine); who is below finds them by [`super::Core::queues`] while they are there. Who looks through it holds no
/// handle: the device may end meanwhile, in the thread that lets go of the last one.
pub trait Queues: Send + Sync {
    /// Wakes every thread that waits for a timeline.
    fn wake(&self);

    /// Frees what is kept for packets that are done.
    fn reclaim(&self);

    /// Where each queue stands that has something to do; empty if none has.
    fn report(&self) -> String;

    /// Whether one of them may be inside of a kernel.
    fn runs(&self) -> bool;

    /// What is in flight, with regard to a page that could not be reached.
    fn suspects(&self, page: u64) -> Suspects;

    /// Where each queue stands, what is in flight, and what was submitted last, for a bundle.
    fn evidence(&self) -> Vec<Queue>;
}

/// Copies of the host's, by a queue of the driver's own. Who holds it holds the device: it is a handle meanwhile.
pub trait Copies: Send + Sync {
    /// Copies device memory at an address to the host.
    ///
    /// # Errors
    /// [`hcq::Error::OutOfMemory`] for the way there, [`hcq::Error::Timeout`], the loss of the device.
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
    /// Launches that do not; none are looked for behind a guilty one.
    pub others: Vec<(String, String)>,
}
