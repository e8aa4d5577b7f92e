//! [`Handle`]: a handle of one queue; `BoundCommands`: packets that stay in device memory.

use std::ops::Range;
use std::sync::Arc;

use hcq::command_buffer::{Keep, Part, Patch, Section, place};
use hcq::mem::window::Window;
use hcq::queue::no_value;
use hcq::transport::TransportError;
use hcq::{
    Command, CommandBuffer, DeviceId, Error, IndirectBuffer, MemoryKind, Queue, QueueKind, Result,
    Signal, Timeline, Turn,
};

use crate::engine::Engine;
use crate::engine::load::Load;
use crate::memory::pool::Piece;
use crate::submit::{Channel, DATA_ALIGN};

/// A handle of one queue.
pub struct Handle<H: Load> {
    // Before the engine, which ends what queues have used.
    channel: Arc<Channel<H>>,
    engine: Arc<Engine<H>>,
}

impl<H: Load> Handle<H> {
    /// A handle of a queue of an engine.
    pub fn new(engine: Arc<Engine<H>>, channel: Arc<Channel<H>>) -> Handle<H> {
        Handle { channel, engine }
    }
}

impl<H: Load> Queue for Handle<H> {
    fn device(&self) -> &DeviceId {
        &self.engine.core.id
    }

    fn kind(&self) -> QueueKind {
        self.channel.kind()
    }

    fn index(&self) -> u32 {
        self.channel.index()
    }

    fn encode(&self, commands: &[Command<'_>], out: &mut CommandBuffer) -> Result<()> {
        self.channel.hardware().encode(commands, out)
    }

    #[inline]
    fn raise(&self, signal: &Signal, value: u64, out: &mut CommandBuffer) -> Result<()> {
        self.channel.hardware().raise(signal, value, out)
    }

    fn submit(&self, turn: &mut Turn<'_>) -> Result<()> {
        self.channel.submit(turn)
    }

    fn bind(&self, packets: CommandBuffer) -> Result<Box<dyn IndirectBuffer>> {
        self.engine.core.lost.check()?;
        let bound = BoundCommands::new(self.engine.clone(), self.channel.clone(), packets)?;
        Ok(Box::new(bound))
    }

    fn timeline(&self) -> &Timeline {
        self.channel.timeline()
    }
}

/// Packets in memory that the device reads.
///
/// Where the queue can ([`binds_words`](crate::submit::Hardware::binds_words)), it runs them from there, and gets only what names
/// them. Other queues get their words in the ring at each launch; what the words point to stays where it
/// is.
struct BoundCommands<H: Load> {
    // Before the engine, which ends what queues have used.
    channel: Arc<Channel<H>>,
    engine: Arc<Engine<H>>,
    /// What every submission starts with, and the words.
    words: Vec<u32>,
    data: Vec<u32>,
    /// Offsets are those in `words` and `data`.
    patches: Vec<Patch>,
    /// Words, if the device reads them here, then data; none if there are neither.
    memory: Option<(Window, Piece)>,
    /// Other objects that they refer to.
    keep: Vec<Keep>,
    data_at: usize,
    /// The packets that run the words; none if the words go to the ring themselves.
    launch: Vec<u32>,
    /// The values that are in place.
    values: Vec<u64>,
    /// How many values there have to be.
    slots: usize,
}

impl<H: Load> BoundCommands<H> {
    fn new(
        engine: Arc<Engine<H>>,
        channel: Arc<Channel<H>>,
        mut packets: CommandBuffer,
    ) -> Result<BoundCommands<H>> {
        packets.set_head(channel.begin());
        let indirect = channel.hardware().binds_words();
        let data_at = match indirect {
            true => (packets.words.len() * 4).next_multiple_of(DATA_ALIGN as usize),
            false => 0,
        };
        let bytes = (data_at + packets.data.len() * 4) as u64;
        let memory = match bytes {
            0 => None,
            bytes => {
                let what = format!("bound packets of {}", channel.unit());
                let piece = engine.pool.piece(MemoryKind::Control, bytes, &what)?;
                Some((piece.shared()?, piece))
            }
        };
        let base = memory.as_ref().map_or(0, |(_, piece)| piece.va().0);
        packets.relocate(base + data_at as u64);
        let mut launch = Vec::new();
        if indirect {
            channel.run(base, &packets.words, &mut launch);
        }
        let slots = packets.patches.iter().map(|p| usize::from(p.slot.0) + 1);
        let bound = BoundCommands {
            engine,
            channel,
            slots: slots.max().unwrap_or(0),
            words: packets.words,
            data: packets.data,
            patches: packets.patches,
            memory,
            keep: packets.keep,
            data_at,
            launch,
            values: Vec::new(),
        };
        let (words, data) = (0..bound.words.len() * 4, 0..bound.data.len() * 4);
        for (section, all) in [(Section::Words, words), (Section::Data, data)] {
            bound.write(section, all).map_err(|e| bound.broken(e))?;
        }
        Ok(bound)
    }

    /// Access to their memory failed.
    #[cold]
    fn broken(&self, error: TransportError) -> Error {
        self.engine.core.broken(self.channel.unit(), error)
    }

    /// Where in its memory the device reads a patched place, if that is mapped.
    #[inline]
    fn mapped(&self, patch: Patch) -> Option<u64> {
        let (window, _) = self.memory.as_ref()?;
        let start = match patch.section {
            // They go to the ring from the copy.
            Section::Words if self.launch.is_empty() => return None,
            Section::Words => 0,
            Section::Data => self.data_at as u64,
        };
        (!window.is_remote()).then_some(start + u64::from(patch.offset))
    }

    /// Fetches a place into the caches.
    #[inline]
    fn prefetch(&self, patch: Patch) {
        if let (Some(at), Some((window, _))) = (self.mapped(patch), &self.memory) {
            window.prefetch(at, 4);
        }
    }

    /// Writes a value to where the device reads it, if that is a store or two: memory that is mapped. The
    /// host's copy is left as it is then, but for words of which the value is a part.
    #[inline]
    fn store(&mut self, patch: Patch, value: u64) -> std::result::Result<bool, TransportError> {
        let Some(at) = self.mapped(patch) else {
            return Ok(false);
        };
        let Some((window, _)) = &self.memory else {
            return Ok(false);
        };
        let words = match patch.section {
            Section::Words => &mut self.words,
            Section::Data => &mut self.data,
        };
        match patch.part {
            // One store, which is twice as fast as the words.
            Part::Whole if at.is_multiple_of(8) => window.write(at, value)?,
            Part::Whole => window.write_words(at, &[value as u32, (value >> 32) as u32])?,
            Part::Low => window.write(at, value as u32)?,
            Part::High => window.write(at, (value >> 32) as u32)?,
            Part::Field { .. } => {
                place(words, patch.offset, patch.part, value);
                window.write(at, words[patch.offset as usize / 4])?;
            }
        }
        Ok(true)
    }

    /// Writes a part of a section to where the device reads it.
    fn write(
        &self,
        section: Section,
        part: Range<usize>,
    ) -> std::result::Result<(), TransportError> {
        let Some((window, _)) = &self.memory else {
            // Words that go to the ring, and no data.
            return Ok(());
        };
        let (words, at) = match section {
            Section::Words if self.launch.is_empty() => return Ok(()),
            Section::Words => (&self.words, 0),
            Section::Data => (&self.data, self.data_at),
        };
        let dwords = &words[part.start / 4..part.end / 4];
        match dwords.is_empty() {
            true => Ok(()),
            false => window.write_words((at + part.start) as u64, dwords),
        }
    }
}

/// Gaps of up to this many bytes between two changed places are rewritten: an extra store is cheaper
/// than an extra piece of a transfer.
const NEAR: usize = 64;

/// The same at the other end of a cable, where a piece more is one wait more.
const NEAR_BY_CABLE: usize = 4096;

/// Number of places that are prefetched before they are written: in a large graph each is in its own cache line.
const AHEAD: usize = 16;

impl<H: Load> IndirectBuffer for BoundCommands<H> {
    fn patch(&mut self, values: &[u64]) -> Result<()> {
        self.engine.core.lost.check()?;
        if values.len() < self.slots {
            let missing = self.patches.iter().map(|p| p.slot.0);
            let missing = missing.filter(|&slot| usize::from(slot) >= values.len());
            return Err(no_value(missing.min().unwrap_or(0), values.len()));
        }
        // The first time every place is open.
        let open = self.values.is_empty();
        let near = match &self.memory {
            Some((window, _)) if window.is_remote() => NEAR_BY_CABLE,
            _ => NEAR,
        };
        // Changes of words and data that are not written yet; places are mostly in order.
        let mut dirty = [0..0, 0..0];
        let changes = |known: &[u64], patch: Patch| {
            let slot = usize::from(patch.slot.0);
            open || known[slot] != values[slot]
        };
        for i in 0..self.patches.len() {
            if let Some(&later) = self.patches.get(i + AHEAD)
                && changes(&self.values, later)
            {
                self.prefetch(later);
            }
            let patch = self.patches[i];
            if !changes(&self.values, patch) {
                continue;
            }
            let value = values[usize::from(patch.slot.0)].wrapping_add(patch.add);
            if self.store(patch, value).map_err(|e| self.broken(e))? {
                continue;
            }
            let (words, dirty) = match patch.section {
                Section::Words => (&mut self.words, &mut dirty[0]),
                Section::Data => (&mut self.data, &mut dirty[1]),
            };
            place(words, patch.offset, patch.part, value);
            let start = patch.offset as usize;
            let end = start + if patch.part == Part::Whole { 8 } else { 4 };
            if dirty.start == dirty.end {
                *dirty = start..end;
            } else if dirty.start <= start && start <= dirty.end + near {
                dirty.end = dirty.end.max(end);
            } else {
                let before = std::mem::replace(dirty, start..end);
                self.write(patch.section, before)
                    .map_err(|e| self.broken(e))?;
            }
        }
        let [words, data] = dirty;
        for (section, rest) in [(Section::Words, words), (Section::Data, data)] {
            if !rest.is_empty() {
                self.write(section, rest).map_err(|e| self.broken(e))?;
            }
        }
        self.values.clear();
        self.values.extend_from_slice(&values[..self.slots]);
        Ok(())
    }

    fn launch(&mut self, turn: &mut Turn<'_>) -> Result<()> {
        let words = match self.launch.is_empty() {
            true => &self.words,
            false => &self.launch,
        };
        self.channel.launch(turn, words)
    }
}

impl<H: Load> Drop for BoundCommands<H> {
    fn drop(&mut self) {
        // The device may still read it.
        let (memory, keep) = (self.memory.take(), std::mem::take(&mut self.keep));
        if memory.is_some() || !keep.is_empty() {
            let memory = memory.map(|(_, piece)| piece);
            self.channel.retire_with(Arc::new(keep), memory);
        }
    }
}
