//! [`Ring`]: words to where the hardware takes them.

use std::ops::Range;

use drivers_spec::amd::packet::Gfx;
use hcq::mem::window::Window;
use hcq::transport::TransportError;

use crate::chip::Language;
use crate::encode::aql;
use crate::interface::HardwareQueue;

/// Dwords that submissions leave free: room for a fence, also in a full ring, and for what fills the
/// end of an SDMA ring.
const SLACK: u64 = 64;

/// The ring of a queue. Positions in it are counts of dwords since the queue was made; who calls
/// keeps them, and sees to it that there is room.
pub(crate) struct Ring {
    queue: HardwareQueue,
    gfx: Gfx,
    dwords: u64,
}

impl Ring {
    /// The ring of a queue of a generation of chips.
    pub(crate) fn new(queue: HardwareQueue, gfx: Gfx) -> Ring {
        Ring {
            dwords: queue.ring.len() / 4,
            queue,
            gfx,
        }
    }

    /// The queue, as its interface has made it.
    pub(crate) fn queue(&self) -> &HardwareQueue {
        &self.queue
    }

    /// Whether looking at it is a transfer that is waited for.
    pub(crate) fn is_remote(&self) -> bool {
        self.queue.ring.is_remote()
    }

    /// Its size.
    pub(crate) fn dwords(&self) -> u64 {
        self.dwords
    }

    /// Dwords that are written at once at most.
    pub(crate) fn most(&self) -> usize {
        (self.dwords - 2 * SLACK) as usize
    }

    /// Dwords that are missing so that so many more fit; 0 if they do.
    pub(crate) fn missing(&self, used: u64, more: u64) -> u64 {
        (used + more + SLACK).saturating_sub(self.dwords)
    }

    /// How many of the first words are whole packets and fit `room`.
    pub(crate) fn whole(&self, words: &[u32], room: usize) -> usize {
        self.queue.language.whole(self.gfx, words, room)
    }

    /// Writes words for which there is room, and rings the doorbell. Returns the position behind them,
    /// and what the doorbell was given.
    pub(crate) fn write(&self, wptr: u64, words: &[u32]) -> Result<(u64, u64), TransportError> {
        let end = self.copy(wptr, words)?;
        let bell = self.queue.publish(end)?;
        Ok((end, bell))
    }

    fn copy(&self, wptr: u64, words: &[u32]) -> Result<u64, TransportError> {
        let ring = &self.queue.ring;
        let at = wptr % self.dwords;
        let to_end = (self.dwords - at) as usize;
        match self.queue.language {
            Language::Aql => {
                const PACKET: usize = aql::PACKET;
                let place = |i: usize| (at + (i * PACKET) as u64) % self.dwords * 4;
                for (i, packet) in words.chunks_exact(PACKET).enumerate() {
                    ring.write_words(place(i) + 4, &packet[1..])?;
                }
                // The headers make the packets valid: after all of what they head.
                for (i, packet) in words.chunks_exact(PACKET).enumerate() {
                    match i {
                        0 => ring.store(place(i), packet[0])?,
                        _ => ring.write(place(i), packet[0])?,
                    }
                }
                Ok(wptr + words.len() as u64)
            }
            Language::Sdma if words.len() > to_end => {
                // Packets do not straddle the end: zeros, which do nothing, fill it up.
                let fit = self.whole(words, to_end);
                let (first, second) = words.split_at(fit);
                ring.write_words(at * 4, first)?;
                ring.fill((at + fit as u64) * 4, (to_end - fit) as u64 * 4, 0)?;
                ring.write_words(0, second)?;
                Ok(wptr + (to_end + second.len()) as u64)
            }
            Language::Pm4 | Language::Sdma => {
                let (first, second) = words.split_at(words.len().min(to_end));
                ring.write_words(at * 4, first)?;
                if !second.is_empty() {
                    ring.write_words(0, second)?;
                }
                Ok(wptr + words.len() as u64)
            }
        }
    }

    /// Behind what the device has taken, where it tells: the firmware of PM4 promises nothing.
    pub(crate) fn taken(&self) -> Result<Option<u64>, TransportError> {
        let raw = self.queue.read_pointer()?;
        Ok(raw.map(|raw| self.position(raw)))
    }

    /// Behind what was written last, as the device was told; for who does not hold the queue's lock.
    pub(crate) fn published(&self) -> u64 {
        self.position(self.queue.raw_pointers().0)
    }

    /// Behind what the device says it has fetched.
    pub(crate) fn fetched(&self) -> u64 {
        self.position(self.queue.raw_pointers().1)
    }

    /// A pointer of the hardware as a position.
    fn position(&self, raw: u64) -> u64 {
        match self.queue.language {
            Language::Pm4 => raw,
            Language::Aql => raw.saturating_mul(aql::PACKET as u64),
            Language::Sdma => raw / 4,
        }
    }

    /// Dwords of it, as long as they are not overwritten; empty where they cannot be read.
    pub(crate) fn words(&self, range: Range<u64>) -> Vec<u32> {
        let mut words = vec![0; range.end.saturating_sub(range.start).min(self.dwords) as usize];
        let at = range.start % self.dwords;
        let to_end = (self.dwords - at) as usize;
        let cut = to_end.min(words.len());
        let (first, second) = words.split_at_mut(cut);
        let read = |window: &Window, at: u64, words: &mut [u32]| match words.is_empty() {
            true => Ok(()),
            false => window.read_words(at, words),
        };
        let ring = &self.queue.ring;
        let done = read(ring, at * 4, first).and_then(|()| read(ring, 0, second));
        match done {
            Ok(()) => words,
            Err(_) => Vec::new(),
        }
    }
}
