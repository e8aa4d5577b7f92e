//! [`Calls`]: submissions as calls of a context. Words are triples that name indirect buffers; positions count calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use drivers_gpu::submit::Submit;
use drivers_gpu::submit::hardware::{Failed, Submitted};
use hcq::transport::TransportError;

use crate::backend::{ContextHandle, Failure, IndirectBuffer, few};

/// Words that name an indirect buffer: the halves of its address, its dwords.
pub(super) const NAME: usize = 3;

/// The calls of a context.
pub struct Calls {
    context: Arc<dyn ContextHandle>,
    places: u64,
    made: AtomicU64,
}

impl Calls {
    /// Of a new context, of which so many may be under way.
    pub(super) fn new(context: Arc<dyn ContextHandle>, places: u32) -> Calls {
        Calls {
            context,
            places: places.into(),
            made: AtomicU64::new(0),
        }
    }

    /// The context.
    pub(super) fn context(&self) -> &dyn ContextHandle {
        &*self.context
    }
}

/// The indirect buffers that words name.
pub(super) fn buffers(words: &[u32]) -> impl ExactSizeIterator<Item = IndirectBuffer> {
    let (names, _) = words.as_chunks::<NAME>();
    names.iter().map(|&[low, high, dwords]| IndirectBuffer {
        address: u64::from(low) | u64::from(high) << 32,
        dwords,
    })
}

impl Submit for Calls {
    const UNIT: &'static str = "places for submissions";

    fn size(&self) -> u64 {
        self.places
    }

    fn most(&self) -> usize {
        self.context.most() * NAME
    }

    fn packet_boundary(&self, words: &[u32], room: usize) -> usize {
        words.len().min(room) / NAME * NAME
    }

    fn missing(&self, used: u64, _: usize) -> u64 {
        (used + 1).saturating_sub(self.places)
    }

    fn submit(&self, at: u64, words: &[u32]) -> Result<Submitted, Failed> {
        match few::with(buffers(words), |named| self.context.submit(named)) {
            Ok(()) => {
                let end = at + 1;
                self.made.store(end, Ordering::Release);
                Ok(Submitted { end, told: end })
            }
            Err(Failure::Lost(error)) => Err(Failed::Broken(error)),
            Err(Failure::Refused(error)) => Err(Failed::Refused(error)),
        }
    }

    fn taken(&self) -> Result<Option<u64>, TransportError> {
        // The timeline tells the same without a call.
        Ok(None)
    }

    fn submitted(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    fn pointers(&self) -> (u64, u64) {
        let made = self.submitted();
        let ended = self.context.counts().map_or(u64::MAX, |(_, ended)| ended);
        (made, ended)
    }
}
