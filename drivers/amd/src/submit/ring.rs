//! [`Ring`]: words to where the hardware takes them.

use hcq::mem::view::ViewError;

use crate::encode::{Format, aql};
use crate::kfd::queue::KernelQueue;

/// Dwords that submissions leave free: room for a mark, also in a full ring, and for what fills the
/// end of an SDMA ring.
const SLACK: u64 = 64;

/// The ring of a queue. Positions in it are counts of dwords since the queue was made; who calls
/// keeps them, and sees to it that there is room.
pub(crate) struct Ring {
    kernel: KernelQueue,
    format: Format,
    dwords: u64,
}

impl Ring {
    /// The ring of a queue whose packets are of a format.
    pub(crate) fn new(kernel: KernelQueue, format: Format) -> Ring {
        Ring {
            dwords: kernel.ring_bytes() / 4,
            kernel,
            format,
        }
    }

    /// The queue, as the kernel has made it.
    pub(crate) fn kernel(&self) -> &KernelQueue {
        &self.kernel
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
        self.format.whole(words, room)
    }

    /// Writes words for which there is room, and rings the doorbell. Returns the position behind them.
    pub(crate) fn write(&self, wptr: u64, words: &[u32]) -> Result<u64, ViewError> {
        let end = self.copy(wptr, words)?;
        self.kernel.publish(end)?;
        Ok(end)
    }

    fn copy(&self, wptr: u64, words: &[u32]) -> Result<u64, ViewError> {
        let ring = self.kernel.ring();
        let at = wptr % self.dwords;
        let to_end = (self.dwords - at) as usize;
        match self.format {
            Format::Aql => {
                const PACKET: usize = aql::PACKET;
                for (i, packet) in words.chunks_exact(PACKET).enumerate() {
                    let at = (at as usize + i * PACKET) % self.dwords as usize * 4;
                    ring.write_words(at + 4, &packet[1..])?;
                    // The header makes the packet valid.
                    ring.store_u32(at, packet[0])?;
                }
                Ok(wptr + words.len() as u64)
            }
            Format::Sdma(_) if words.len() > to_end => {
                // Packets do not straddle the end: zeros, which do nothing, fill it up.
                let fit = self.format.whole(words, to_end);
                let (first, second) = words.split_at(fit);
                ring.write_words(at as usize * 4, first)?;
                for i in fit..to_end {
                    ring.write((at as usize + i) * 4, 0u32)?;
                }
                ring.write_words(0, second)?;
                Ok(wptr + (to_end + second.len()) as u64)
            }
            Format::Pm4 | Format::Sdma(_) => {
                let (first, second) = words.split_at(words.len().min(to_end));
                ring.write_words(at as usize * 4, first)?;
                ring.write_words(0, second)?;
                Ok(wptr + words.len() as u64)
            }
        }
    }

    /// Behind what the device has taken, where it tells: the firmware of PM4 promises nothing.
    pub(crate) fn taken(&self) -> Result<Option<u64>, ViewError> {
        let raw = self.kernel.read_pointer()?;
        Ok(raw.map(|raw| self.position(raw)))
    }

    /// Behind what was written last, as the device was told; for who does not hold the queue's lock.
    pub(crate) fn published(&self) -> u64 {
        self.position(self.kernel.raw_pointers().0)
    }

    /// A pointer of the hardware as a position.
    fn position(&self, raw: u64) -> u64 {
        match self.format {
            Format::Pm4 => raw,
            Format::Aql => raw.saturating_mul(aql::PACKET as u64),
            Format::Sdma(_) => raw / 4,
        }
    }

    /// A dword of it, as long as it is not overwritten.
    pub(crate) fn word(&self, position: u64) -> Option<u32> {
        let at = position % self.dwords * 4;
        self.kernel.ring().read(at as usize).ok()
    }
}
