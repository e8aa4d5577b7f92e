//! [`AmdHardware`]: a queue of an AMD GPU, for [`drivers_gpu`].
//!
//! | file | idea |
//! |---|---|
//! | here | encoder and ring as one queue |
//! | [`ring`] | the layout of packets in a ring, and the doorbell |
//! | [`parts`] | the parts of a queue |
//! | [`scratch`] | the scratch memory of kernels |
//! | [`decode`] | packets read back, for messages and traces |

mod decode;
pub(crate) mod parts;
mod ring;
pub(crate) mod scratch;

use drivers_gpu::core::Core;
use drivers_gpu::engine::load::{Load, Loader};
use drivers_gpu::memory::pool::Piece;
use drivers_gpu::submit::Hardware;
use drivers_gpu::submit::decode::Packet;
use drivers_gpu::submit::ring::Ring;
use hcq::command_buffer::Keep;
use hcq::{Command, CommandBuffer, KernelImage, Program, Result, Scope};

use self::ring::AmdRing;
use self::scratch::Scratches;
use crate::chip::Chip;
use crate::encode::{Encoder, XCC_BARRIER_BYTES, pm4};

/// A queue of an AMD GPU.
pub struct AmdHardware {
    // Destroyed first: nothing below is used by the hardware then.
    ring: Ring<AmdRing>,
    encoder: Encoder,
    chip: &'static Chip,
    /// What the XCCs of a PM4 queue meet at.
    xcc_barrier: Option<Piece>,
}

impl Hardware for AmdHardware {
    type Way = Ring<AmdRing>;
    // An interrupt has the number of its event.
    const WAKES_ALL: bool = false;

    #[inline]
    fn way(&self) -> &Ring<AmdRing> {
        &self.ring
    }

    #[inline]
    fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        self.encoder.encode(commands, out)
    }

    fn begin(&self, out: &mut CommandBuffer) -> Result<()> {
        // Submissions are in order.
        let order = Command::Barrier {
            scope: Scope::Queue,
        };
        self.encoder.encode(&[order], out)?;
        self.encoder.begin(out);
        Ok(())
    }

    #[inline]
    fn uses(&self, kept: &Keep) -> bool {
        self.encoder.uses(kept)
    }

    fn names_words(&self) -> bool {
        self.encoder.names_words()
    }

    fn binds_words(&self) -> bool {
        self.encoder.binds_words()
    }

    fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>) {
        let mut at = 0;
        while at < words.len() {
            let piece = pm4::packet_boundary(&words[at..], pm4::INDIRECT_MAX).max(1);
            let address = address + at as u64 * 4;
            out.extend_from_slice(&pm4::indirect(address, piece as u32));
            at += piece;
        }
    }

    fn stop(&self) -> bool {
        self.ring.own().queue().handle.stop()
    }

    fn decode(&self, core: &Core, words: &[u32], start: u64) -> Vec<Packet> {
        decode::decode(core, self.chip, self.encoder.language(), words, start)
    }

    fn is_own(&self, at: u64) -> bool {
        let xcc_barrier = self
            .xcc_barrier
            .as_ref()
            .map(|xcc_barrier| xcc_barrier.va().0);
        xcc_barrier
            .is_some_and(|xcc_barrier| (xcc_barrier..xcc_barrier + XCC_BARRIER_BYTES).contains(&at))
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
