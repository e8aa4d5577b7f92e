//! [`Ring`]: entries to where the hardware takes them.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use hcq::transport::TransportError;

use crate::interface::HardwareChannel;

/// Dwords of an entry.
pub(super) const ENTRY: usize = 2;

/// Dwords that submissions leave free: room for a fence, also in a full ring; and one entry at least, since
/// a ring whose pointers are equal is empty.
const SLACK: u64 = 64;

/// The smallest ring, in entries.
pub(super) const LEAST: u32 = 256;

/// The ring of a channel. Positions in it are counts of dwords since it was made; who calls keeps them, and
/// sees to it that there is room.
pub(super) struct Ring {
    channel: HardwareChannel,
    dwords: u64,
    /// Behind what the GPU was told of.
    published: AtomicU64,
}

impl Ring {
    /// The ring of a channel, in which there is nothing.
    pub(super) fn new(channel: HardwareChannel) -> Ring {
        Ring {
            dwords: u64::from(channel.entries()) * ENTRY as u64,
            published: AtomicU64::new(0),
            channel,
        }
    }

    /// Whether looking at it is a transfer that is waited for.
    pub(super) fn is_remote(&self) -> bool {
        self.channel.ring.is_remote()
    }

    /// Its size.
    pub(super) fn dwords(&self) -> u64 {
        self.dwords
    }

    /// Dwords that are written at once at most.
    pub(super) fn most(&self) -> usize {
        (self.dwords - 2 * SLACK) as usize
    }

    /// Dwords that are missing so that so many more fit; 0 if they do.
    pub(super) fn missing(&self, used: u64, more: u64) -> u64 {
        (used + more + SLACK).saturating_sub(self.dwords)
    }

    /// Writes entries for which there is room, and rings the doorbell. Returns the position behind them,
    /// and the entry that the GPU was told of.
    pub(super) fn write(&self, wptr: u64, words: &[u32]) -> Result<(u64, u64), TransportError> {
        let ring = &self.channel.ring;
        let at = wptr % self.dwords;
        let (first, second) = words.split_at(words.len().min((self.dwords - at) as usize));
        ring.write_words(at * 4, first)?;
        if !second.is_empty() {
            ring.write_words(0, second)?;
        }
        let end = wptr + words.len() as u64;
        let put = end % self.dwords / ENTRY as u64;
        self.published.store(end, Ordering::Relaxed);
        self.channel.publish(put as u32)?;
        Ok((end, put))
    }

    /// Behind what was written last; for who does not hold the queue's lock.
    pub(super) fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// Both pointers in entries, that of the host and that of the GPU: for messages.
    pub(super) fn pointers(&self) -> (u64, u64) {
        let put = self.published() % self.dwords / ENTRY as u64;
        let get = self.channel.get().map_or(u64::MAX, u64::from);
        (put, get)
    }

    /// Behind what the GPU says it has fetched: GPGet counts around the ring.
    pub(super) fn fetched(&self) -> Option<u64> {
        let get = u64::from(self.channel.get().ok()?) * ENTRY as u64;
        let published = self.published();
        let behind = (published % self.dwords + self.dwords).checked_sub(get)? % self.dwords;
        published.checked_sub(behind)
    }

    /// Dwords of it, as long as they are not overwritten; empty where they cannot be read.
    pub(super) fn words(&self, range: Range<u64>) -> Vec<u32> {
        let mut words = vec![0; range.end.saturating_sub(range.start).min(self.dwords) as usize];
        let at = range.start % self.dwords;
        let cut = words.len().min((self.dwords - at) as usize);
        let (first, second) = words.split_at_mut(cut);
        let ring = &self.channel.ring;
        let read = |at: u64, words: &mut [u32]| match words.is_empty() {
            true => Ok(()),
            false => ring.read_words(at, words),
        };
        match read(at * 4, first).and_then(|()| read(0, second)) {
            Ok(()) => words,
            Err(_) => Vec::new(),
        }
    }
}
