//! [`NvHardware`]: an NVIDIA queue for [`drivers_gpu`]: a channel, whose ring entries point to push buffers in
//! memory.
//!
//! | file | idea |
//! |---|---|
//! | here | encoder and ring as one queue |
//! | [`ring`] | publishing entries to the hardware |
//! | [`parts`] | what a queue is made of |
//! | [`local`] | the local memory of kernels |
//! | [`decode`] | decoded push buffers, for messages and traces |

mod decode;
pub(crate) mod local;
pub(crate) mod parts;
mod ring;

use drivers_gpu::core::Core;
use drivers_gpu::engine::load::{Load, Loader};
use drivers_gpu::memory::pool::Piece;
use drivers_gpu::submit::Hardware;
use drivers_gpu::submit::decode::Packet;
use drivers_gpu::submit::ring::Ring;
use hcq::{Command, CommandBuffer, KernelImage, Program, Result, Scope};

use self::local::Locals;
use self::ring::NvRing;
use crate::encode::{Encoder, push};

/// A queue of an NVIDIA GPU.
pub struct NvHardware {
    // Destroyed first: nothing below is used by the hardware then.
    ring: Ring<NvRing>,
    encoder: Encoder,
    /// Where fences are counted.
    _progress: Piece,
}

impl Hardware for NvHardware {
    type Way = Ring<NvRing>;
    // The kernel driver reports interrupts per GPU.
    const WAKES_ALL: bool = true;

    #[inline]
    fn way(&self) -> &Ring<NvRing> {
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

    fn names_words(&self) -> bool {
        true
    }

    fn binds_words(&self) -> bool {
        true
    }

    #[inline]
    fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>) {
        let mut at = 0;
        while at < words.len() {
            let rest = &words[at..];
            let piece = push::packet_boundary(rest, push::SEGMENT_MAX).max(1);
            out.extend_from_slice(&push::entry(address + at as u64 * 4, piece as u32));
            at += piece;
        }
    }

    fn stop(&self) -> bool {
        self.ring.own().0.handle.stop()
    }

    fn decode(&self, core: &Core, words: &[u32], start: u64) -> Vec<Packet> {
        decode::decode(core, self.encoder.setup(), words, start)
    }
}

impl Load for NvHardware {
    type Shared = Locals;

    fn load(on: &Loader<'_, Self>, image: &KernelImage) -> Result<Program> {
        let (program, thread_bytes) = crate::program::load(
            on.core,
            on.pool,
            on.channel.hardware().encoder.setup(),
            image,
        )?;
        on.shared.grow(on, thread_bytes, &program.name)?;
        Ok(program)
    }
}
