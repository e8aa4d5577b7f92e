//! [`QcomHardware`]: a queue of an Adreno GPU for [`drivers_gpu`]: a context, whose calls name packets in memory.
//!
//! | file | idea |
//! |---|---|
//! | here | encoder and context as one queue |
//! | [`way`] | submissions as calls |
//! | [`parts`] | what a queue is made of |
//! | [`private`] | the private memory of kernels |
//! | [`decode`] | packets read back, for messages and traces |

mod decode;
pub(crate) mod parts;
pub(crate) mod private;
mod way;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use drivers_gpu::core::Core;
use drivers_gpu::engine::load::{Load, Loader};
use drivers_gpu::memory::pool::Piece;
use drivers_gpu::submit::Hardware;
use drivers_gpu::submit::decode::Packet;
use drivers_spec::qcom::kgsl::MAX_IB_DWORDS;
use hcq::command_buffer::Keep;
use hcq::sync::lock;
use hcq::{Command, CommandBuffer, KernelImage, Program, Result};

use self::decode::Room;
use self::private::Privates;
use self::way::Calls;
use crate::encode::Encoder;
use crate::encode::packet::{halves, packet_boundary};

/// A queue of an Adreno GPU.
pub struct QcomHardware {
    // Ended first: nothing below is used by the hardware then.
    calls: Calls,
    encoder: Encoder,
    /// Whether something encoded waits for memory, or raises a signal on the way.
    waits: AtomicBool,
    /// For packets that are read back.
    room: Mutex<Room>,
    /// Where fences are counted; what flushes write; border colours; the driver's kernels.
    _memory: [Arc<Piece>; 2],
}

impl Hardware for QcomHardware {
    type Way = Calls;
    // Whatever ends in the context wakes who sleeps on its event.
    const WAKES_ALL: bool = true;

    #[inline]
    fn way(&self) -> &Calls {
        &self.calls
    }

    #[inline]
    fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        // The signal at the end of a submission comes alone.
        let is_alone = commands.len() == 1;
        let waits = |one: &Command<'_>| match one {
            Command::Wait { .. } | Command::Poll { .. } => true,
            Command::Signal { .. } => !is_alone,
            _ => false,
        };
        if !self.waits.load(Ordering::Relaxed) && commands.iter().any(waits) {
            self.waits.store(true, Ordering::Relaxed);
        }
        self.encoder.encode(commands, out)
    }

    fn begin(&self, out: &mut CommandBuffer) -> Result<()> {
        self.encoder.begin(out);
        Ok(())
    }

    fn uses(&self, kept: &Keep) -> bool {
        self.encoder.uses(kept)
    }

    fn names_words(&self) -> bool {
        true
    }

    fn binds_words(&self) -> bool {
        true
    }

    fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>) {
        let mut at = 0;
        while at < words.len() {
            let rest = &words[at..];
            // Packets are only looked at where they must be cut.
            let piece = match rest.len() <= MAX_IB_DWORDS as usize {
                true => rest.len(),
                false => packet_boundary(rest, MAX_IB_DWORDS as usize).max(1),
            };
            let [low, high] = halves(address + at as u64 * 4);
            out.extend_from_slice(&[low, high, piece as u32]);
            at += piece;
        }
    }

    fn stop(&self) -> bool {
        self.calls.context().stop()
    }

    fn never_waits(&self) -> bool {
        !self.waits.load(Ordering::Relaxed)
    }

    fn decode(&self, core: &Core, words: &[u32], start: u64) -> Vec<Packet> {
        let mut found = Vec::new();
        self.visit(core, words, start, &mut |packet| found.push(packet));
        found
    }

    fn visit(&self, core: &Core, words: &[u32], start: u64, see: &mut dyn FnMut(Packet)) {
        let mut room = lock(&self.room);
        decode::visit(core, &self.encoder, (words, start), &mut room, see);
    }

    fn report(&self) -> Option<String> {
        let context = self.calls.context();
        let (made, ended) = context.counts().ok()?;
        let name = context.name();
        match made == ended {
            true => Some(String::new()),
            false => Some(format!("{name}: {ended} of {made} submissions have ended")),
        }
    }
}

impl Load for QcomHardware {
    type Shared = Privates;

    fn load(on: &Loader<'_, Self>, image: &KernelImage) -> Result<Program> {
        let chip = on.channel.hardware().encoder.setup().chip;
        let (program, fiber_bytes) = crate::program::load(on.core, on.pool, chip, image)?;
        on.shared.grow(on, fiber_bytes, &program.name)?;
        Ok(program)
    }
}
