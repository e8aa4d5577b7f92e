//! [`AmdHardware`]: a queue of an AMD GPU, as [`drivers_gpu`] takes it.
//!
//! | file | idea |
//! |---|---|
//! | here | encoder and ring as one queue |
//! | [`ring`] | words to where the hardware takes them, and the doorbell |
//! | [`parts`] | what a queue is made of |
//! | [`scratch`] | the scratch memory of kernels |
//! | [`decode`] | packets read back, for messages and traces |

mod decode;
pub(crate) mod parts;
mod ring;
pub(crate) mod scratch;

use std::ops::Range;

use drivers_gpu::core::Core;
use drivers_gpu::engine::load::{Load, Loader};
use drivers_gpu::memory::pool::Piece;
use drivers_gpu::submit::Hardware;
use drivers_gpu::submit::decode::Packet;
use hcq::packets::Keep;
use hcq::transport::TransportError;
use hcq::{Command, KernelImage, Packets, Program, Result};

use self::ring::Ring;
use self::scratch::Scratches;
use crate::chip::{Chip, Language};
use crate::encode::{Encoder, MEET_BYTES, aql, pm4};

/// A queue of an AMD GPU.
pub struct AmdHardware {
    // Destroyed first: nothing below is used by the hardware then.
    ring: Ring,
    encoder: Encoder,
    chip: &'static Chip,
    /// What the XCCs of a PM4 queue meet at.
    meet: Option<Piece>,
}

impl Hardware for AmdHardware {
    const ENTRIES: bool = false;
    // An interrupt has the number of its event.
    const WAKES_ALL: bool = false;

    #[inline]
    fn encode(&self, commands: &[Command<'_>], out: &mut Packets) -> Result<()> {
        self.encoder.encode(commands, out)
    }

    fn begin(&self, out: &mut Packets) {
        self.encoder.begin(out);
    }

    #[inline]
    fn uses(&self, kept: &Keep) -> bool {
        self.encoder.uses(kept)
    }

    fn binds_words(&self) -> bool {
        self.encoder.binds_words()
    }

    fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>) {
        let mut at = 0;
        while at < words.len() {
            let piece = pm4::whole(&words[at..], pm4::INDIRECT_MAX).max(1);
            let address = address + at as u64 * 4;
            out.extend_from_slice(&pm4::indirect(address, piece as u32));
            at += piece;
        }
    }

    fn stop(&self) -> bool {
        self.ring.queue().handle.stop()
    }

    #[inline]
    fn is_remote(&self) -> bool {
        self.ring.is_remote()
    }

    #[inline]
    fn dwords(&self) -> u64 {
        self.ring.dwords()
    }

    #[inline]
    fn most(&self) -> usize {
        self.ring.most()
    }

    #[inline]
    fn missing(&self, used: u64, more: u64) -> u64 {
        self.ring.missing(used, more)
    }

    fn whole(&self, words: &[u32], room: usize) -> usize {
        self.ring.whole(words, room)
    }

    #[inline]
    fn write(&self, wptr: u64, words: &[u32]) -> Result<(u64, u64), TransportError> {
        self.ring.write(wptr, words)
    }

    #[inline]
    fn taken(&self) -> Result<Option<u64>, TransportError> {
        self.ring.taken()
    }

    fn published(&self) -> u64 {
        self.ring.published()
    }

    fn pointers(&self) -> (u64, u64) {
        self.ring.queue().raw_pointers()
    }

    fn fetched(&self) -> Option<u64> {
        Some(self.ring.fetched())
    }

    fn words(&self, range: Range<u64>) -> Vec<u32> {
        self.ring.words(range)
    }

    fn is_straight(&self, place: &Range<u64>) -> bool {
        // Packets of SDMA that do not fit in front of the end of the ring lie behind it.
        let dwords = self.ring.dwords();
        self.encoder.language() != Language::Sdma || place.start % dwords < place.end % dwords
    }

    fn is_left(&self, position: u64) -> bool {
        // The header of an AQL packet that was taken becomes INVALID.
        let is_header = position.is_multiple_of(aql::PACKET as u64);
        self.encoder.language() != Language::Aql || !is_header
    }

    fn decode(&self, core: &Core, words: &[u32], start: u64) -> Vec<Packet> {
        decode::decode(core, self.chip, self.encoder.language(), words, start)
    }

    fn is_own(&self, at: u64) -> bool {
        let meet = self.meet.as_ref().map(|meet| meet.va().0);
        meet.is_some_and(|meet| (meet..meet + MEET_BYTES).contains(&at))
    }
}

impl Load for AmdHardware {
    type Shared = Scratches;

    fn load(on: &Loader<'_, Self>, image: &KernelImage) -> Result<Program> {
        let chip = on.channel.hardware().chip;
        let (program, lane_bytes) = crate::program::load(on.core, on.pool, chip, image)?;
        on.shared.grow(on, lane_bytes, &program.name)?;
        Ok(program)
    }
}
