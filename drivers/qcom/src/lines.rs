//! [`CacheLines`]: the CPU's cache before memory that no kernel driver maintains it for.

use std::fmt;

use hcq::mem::barrier;
use hcq::mem::view::View;

/// Maintains the lines of the CPU's cache before pages of the process. Where the GPU is a simulated one, so is this cache.
pub trait CacheLines: fmt::Debug + Send + Sync {
    /// What the cache has of a view goes to memory.
    fn clean(&self, view: &View);

    /// The same, and the cache forgets it.
    fn clean_and_invalidate(&self, view: &View);
}

/// The cache of the CPU that the program runs on, by its instructions.
#[derive(Debug)]
pub(crate) struct ThisCpu;

impl CacheLines for ThisCpu {
    fn clean(&self, view: &View) {
        barrier::clean(view);
    }

    fn clean_and_invalidate(&self, view: &View) {
        barrier::clean_and_invalidate(view);
    }
}
