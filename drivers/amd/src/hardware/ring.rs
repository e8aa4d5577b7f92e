//! [`AmdRing`]: the layout of each language's packets in a ring, and the doorbell.

use std::ops::Range;

use drivers_gpu::submit::ring::{OwnRing, Ring};
use drivers_spec::amd::packet::Gfx;
use hcq::mem::window::Window;
use hcq::transport::TransportError;

use crate::backend::HardwareQueue;
use crate::chip::Language;
use crate::encode::aql;

/// The ring of a queue, as its interface has made it.
pub struct AmdRing {
    queue: HardwareQueue,
    gfx: Gfx,
}

impl AmdRing {
    /// The ring of a queue of a generation of chips.
    pub(crate) fn new(queue: HardwareQueue, gfx: Gfx) -> AmdRing {
        AmdRing { queue, gfx }
    }

    /// The queue.
    pub(crate) fn queue(&self) -> &HardwareQueue {
        &self.queue
    }

    /// A pointer of the hardware as a position.
    fn position(&self, raw: u64) -> u64 {
        match self.queue.language {
            Language::Pm4 => raw,
            Language::Aql => raw.saturating_mul(aql::PACKET as u64),
            Language::Sdma => raw / 4,
        }
    }
}

impl OwnRing for AmdRing {
    #[inline]
    fn window(&self) -> &Window {
        &self.queue.ring
    }

    fn packet_boundary(&self, words: &[u32], room: usize) -> usize {
        self.queue.language.packet_boundary(self.gfx, words, room)
    }

    #[inline]
    fn place(ring: &Ring<Self>, at: u64, words: &[u32]) -> Result<u64, TransportError> {
        match ring.own().queue.language {
            Language::Pm4 => ring.put(at, words),
            Language::Aql => place_aql(ring, at, words),
            Language::Sdma => place_sdma(ring, at, words),
        }
    }

    #[inline]
    fn publish(&self, end: u64) -> Result<u64, TransportError> {
        self.queue.publish(end)
    }

    #[inline]
    fn taken(&self) -> Result<Option<u64>, TransportError> {
        // The firmware of PM4 promises nothing.
        let raw = self.queue.read_pointer()?;
        Ok(raw.map(|raw| self.position(raw)))
    }

    fn pointers(&self, _: u64) -> (u64, u64) {
        self.queue.raw_pointers()
    }

    fn fetched(&self, _: u64) -> Option<u64> {
        Some(self.position(self.queue.raw_pointers().1))
    }

    fn is_straight(ring: &Ring<Self>, place: &Range<u64>) -> bool {
        // SDMA packets that do not fit before the end of the ring start at its beginning.
        let wraps = ring.index(place.start) >= ring.index(place.end);
        ring.own().queue.language != Language::Sdma || !wraps
    }

    fn is_left(&self, position: u64) -> bool {
        // The header of an AQL packet that was taken becomes INVALID.
        let is_header = position.is_multiple_of(aql::PACKET as u64);
        self.queue.language != Language::Aql || !is_header
    }
}

/// The headers make packets valid: each is written after the rest of its packet, and the first one last.
fn place_aql(ring: &Ring<AmdRing>, at: u64, words: &[u32]) -> Result<u64, TransportError> {
    const PACKET: usize = aql::PACKET;
    let window = ring.own().window();
    let place = |i: usize| ring.index(at + (i * PACKET) as u64) * 4;
    for (i, packet) in words.chunks_exact(PACKET).enumerate() {
        window.write_words(place(i) + 4, &packet[1..])?;
    }
    for (i, packet) in words.chunks_exact(PACKET).enumerate() {
        match i {
            0 => window.store(place(i), packet[0])?,
            _ => window.write(place(i), packet[0])?,
        }
    }
    Ok(at + words.len() as u64)
}

/// Packets do not straddle the end: zeros, which do nothing, fill it up.
fn place_sdma(ring: &Ring<AmdRing>, at: u64, words: &[u32]) -> Result<u64, TransportError> {
    let to_end = ring.to_end(at);
    if words.len() <= to_end {
        return ring.put(at, words);
    }
    let fit = ring.own().packet_boundary(words, to_end);
    let (first, second) = words.split_at(fit);
    let window = ring.own().window();
    window.write_words(ring.index(at) * 4, first)?;
    let rest = (to_end - fit) as u64 * 4;
    window.fill(ring.index(at) * 4 + fit as u64 * 4, rest, 0)?;
    window.write_words(0, second)?;
    Ok(at + (to_end + second.len()) as u64)
}
