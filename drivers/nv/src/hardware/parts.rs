//! What a queue is made of, in the order of making.

use std::sync::Arc;

use drivers_gpu::core::Core;
use drivers_gpu::memory::pool::Pool;
use drivers_gpu::memory::signal::new_timeline;
use drivers_gpu::submit::ring::Ring;
use drivers_gpu::submit::{Channel, Hardware, Parts};
use hcq::{CommandBuffer, Error, MemoryKind, QueueKind, Result};

use super::NvHardware;
use super::ring::{LEAST, NvRing};
use crate::backend::{ChannelKind, ChannelRequest, NvBackend};
use crate::encode::limits::Limits;
use crate::encode::{Encoder, Setup, Windows};
use crate::options::Options;

/// Bytes that a copy queue has beside its ring: its push buffers are short.
const COPIES: u64 = 256 << 10;

/// Entries of a ring at most: 1 GiB of push buffers, if each has but 16 KiB.
const MOST: u32 = 1 << 16;

/// Opens a queue: its kind, its number among those of the kind, and which copy engine it is of, if it copies.
///
/// # Errors
/// [`Error::OutOfMemory`], [`Error::Os`]; nothing is left behind then.
pub(crate) fn open(
    core: &Arc<Core>,
    backend: &Arc<dyn NvBackend>,
    pool: &Arc<Pool>,
    (kind, index, engine): (QueueKind, u32, u32),
    options: &Options,
) -> Result<Channel<NvHardware>> {
    let name = format!("{kind} queue {index}");
    let chip = backend.gpu().chip;
    let limits = Limits::of(chip.sm).ok_or_else(|| Error::NoDevice {
        asked: core.id.to_string(),
        why: format!("unsupported: no limits known for sm_{}", chip.sm),
    })?;
    let (of, arguments) = match kind {
        QueueKind::Compute => (ChannelKind::Compute, options.push_buffer.max(4096)),
        QueueKind::Copy => (ChannelKind::Copy(engine), COPIES),
    };
    let request = ChannelRequest {
        kind: of,
        entries: options.entries.clamp(LEAST, MOST).next_power_of_two(),
        name: &name,
    };
    let event = Arc::new(pool.make(|| core.backend.event())?);
    let channel = pool.make(|| backend.channel(&request))?;
    let timeline = new_timeline(core, pool, &format!("{name} timeline"), &event)?;
    let progress = pool.piece(MemoryKind::Control, 16, &format!("the progress of {name}"))?;
    let counted = (progress.shared()?, progress.va());
    let zeroed = counted.0.fill(0, 16, 0);
    zeroed.map_err(|e| core.broken(&*name, e))?;
    let setup = Setup {
        device: core.id.clone(),
        kind,
        index,
        arch: chip.arch,
        limits,
        windows: Windows::DEFAULT,
        interrupt: Some(timeline.va()),
    };
    let hardware = NvHardware {
        ring: Ring::new(NvRing(channel)),
        encoder: Encoder::new(setup),
        _progress: progress,
    };
    let mut opening = CommandBuffer::new();
    hardware.encoder.open(&mut opening);
    let channel = Channel::new(
        core,
        pool,
        Parts {
            hardware,
            kind,
            index,
            event,
            timeline,
            progress: counted,
            arguments,
            full_limit: options.ring_timeout,
        },
    )?;
    start(core, pool, &channel, &opening.words, &name)?;
    Ok(channel)
}

/// Runs what a channel begins with, before what every submission starts with.
fn start(
    core: &Arc<Core>,
    pool: &Arc<Pool>,
    channel: &Channel<NvHardware>,
    words: &[u32],
    name: &str,
) -> Result<()> {
    let bytes = words.len() as u64 * 4;
    let piece = pool.piece(
        MemoryKind::Control,
        bytes,
        &format!("the first words of {name}"),
    )?;
    let written = piece.shared()?.write_words(0, words);
    written.map_err(|e| core.broken(name, e))?;
    let mut entries = Vec::new();
    channel.hardware().run(piece.va().0, words, &mut entries);
    channel.launch_own(&entries)?;
    channel.retire(Arc::new(piece));
    Ok(())
}
