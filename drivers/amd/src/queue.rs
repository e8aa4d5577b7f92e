//! [`AmdQueue`]: a handle of one queue; [`AmdBound`]: packets that stay in device memory.

use std::sync::Arc;

use hcq::mem::view::{View, ViewError};
use hcq::packets::{Keep, Part, Patch, Section, place};
use hcq::queue::no_value;
use hcq::{
    Bound, Command, DeviceId, Error, MemoryKind, Packets, Queue, QueueKind, Result, Timeline,
};

use crate::core::error::broken;
use crate::encode::{DATA_ALIGN, Format, pm4};
use crate::engine::Engine;
use crate::memory::pool::Piece;
use crate::submit::Channel;

/// A handle of one queue.
pub(crate) struct AmdQueue {
    // Before the engine, which ends what queues have used.
    channel: Arc<Channel>,
    engine: Arc<Engine>,
}

impl AmdQueue {
    pub(crate) fn new(engine: Arc<Engine>, channel: Arc<Channel>) -> AmdQueue {
        AmdQueue { channel, engine }
    }
}

impl Queue for AmdQueue {
    fn device(&self) -> &DeviceId {
        &self.engine.core.id
    }

    fn kind(&self) -> QueueKind {
        self.channel.kind()
    }

    fn index(&self) -> u32 {
        self.channel.index()
    }

    fn encode(&self, commands: &[Command<'_>], out: &mut Packets) -> Result<()> {
        self.channel.encoder().encode(commands, out)
    }

    fn submit(&self, packets: &Packets, _: u64) -> Result<()> {
        self.channel.submit(packets)
    }

    fn bind(&self, packets: Packets) -> Result<Box<dyn Bound>> {
        self.engine.core.lost.check()?;
        let bound = AmdBound::new(self.engine.clone(), self.channel.clone(), packets)?;
        Ok(Box::new(bound))
    }

    fn timeline(&self) -> &Timeline {
        self.channel.timeline()
    }
}

/// Packets in memory that the device reads.
///
/// A PM4 queue runs them from an indirect buffer, which one packet in the ring names. The other
/// queues get their words in the ring at each launch; what the words point to stays where it is.
struct AmdBound {
    // Before the engine, which ends what queues have used.
    channel: Arc<Channel>,
    engine: Arc<Engine>,
    /// What every submission starts with, and the words.
    words: Vec<u32>,
    data: Vec<u32>,
    /// Offsets are those in `words` and `data`.
    patches: Vec<Patch>,
    /// Words, if the device reads them here, then data.
    memory: Option<Piece>,
    /// What they name besides.
    keep: Vec<Keep>,
    view: Option<View>,
    data_at: usize,
    /// The packets that run the words; none if the words go to the ring themselves.
    launch: Vec<u32>,
    /// The values that are in place.
    values: Vec<u64>,
    /// How many values there have to be.
    slots: usize,
}

impl AmdBound {
    fn new(engine: Arc<Engine>, channel: Arc<Channel>, packets: Packets) -> Result<AmdBound> {
        let begin = channel.begin();
        let mut words = Vec::with_capacity(begin.len() + packets.words.len());
        words.extend_from_slice(begin);
        words.extend_from_slice(&packets.words);
        let shift = begin.len() as u32 * 4;
        let indirect = channel.encoder().binds_words();
        let data_at = match indirect {
            true => (words.len() * 4).next_multiple_of(DATA_ALIGN as usize),
            false => 0,
        };
        let bytes = (data_at + packets.data.len() * 4) as u64;
        let memory = match bytes {
            0 => None,
            bytes => {
                let what = format!("bound packets of {}", channel.unit());
                Some(engine.pool.piece(MemoryKind::Control, bytes, &what)?)
            }
        };
        let base = memory.as_ref().map_or(0, |memory| memory.va().0);
        let mut data = packets.data;
        for reloc in &packets.relocs {
            let (section, offset) = match reloc.section {
                Section::Words => (&mut words, reloc.offset + shift),
                Section::Data => (&mut data, reloc.offset),
            };
            let value = base + data_at as u64 + u64::from(reloc.add);
            place(section, offset, reloc.part, value);
        }
        let mut patches = packets.patches;
        for patch in &mut patches {
            if patch.section == Section::Words {
                patch.offset += shift;
            }
        }
        let view = memory.as_ref().and_then(|memory| memory.view());
        let mut launch = Vec::new();
        if indirect {
            let mut at = 0;
            while at < words.len() {
                let piece = Format::Pm4.whole(&words[at..], pm4::INDIRECT_MAX).max(1);
                let address = base + at as u64 * 4;
                launch.extend_from_slice(&pm4::indirect(address, piece as u32));
                at += piece;
            }
        }
        let slots = patches.iter().map(|p| usize::from(p.slot.0) + 1).max();
        let bound = AmdBound {
            engine,
            channel,
            words,
            data,
            patches,
            memory,
            keep: packets.keep,
            view,
            data_at,
            launch,
            values: Vec::new(),
            slots: slots.unwrap_or(0),
        };
        if let Some(view) = &bound.view {
            let written = || {
                if indirect {
                    view.write_words(0, &bound.words)?;
                }
                view.write_words(bound.data_at, &bound.data)
            };
            written().map_err(|e| bound.broken(e))?;
        }
        Ok(bound)
    }

    /// Cannot be: the memory was made for what is written.
    fn broken(&self, error: ViewError) -> Error {
        broken(&self.engine.core.id, self.channel.unit(), error)
    }

    /// Writes what a patch changes.
    fn put(&mut self, patch: Patch, value: u64) -> std::result::Result<(), ViewError> {
        let (section, at) = match patch.section {
            Section::Words => (&mut self.words, 0),
            Section::Data => (&mut self.data, self.data_at),
        };
        place(section, patch.offset, patch.part, value);
        let in_memory = patch.section == Section::Data || !self.launch.is_empty();
        if let (Some(view), true) = (&self.view, in_memory) {
            let first = patch.offset as usize / 4;
            let count = if patch.part == Part::Whole { 2 } else { 1 };
            view.write_words(at + patch.offset as usize, &section[first..first + count])?;
        }
        Ok(())
    }
}

impl Bound for AmdBound {
    fn patch(&mut self, values: &[u64]) -> Result<()> {
        self.engine.core.lost.check()?;
        if values.len() < self.slots {
            let missing = self.patches.iter().map(|p| p.slot.0);
            let missing = missing.filter(|&slot| usize::from(slot) >= values.len());
            return Err(no_value(missing.min().unwrap_or(0), values.len()));
        }
        // The first time every place is open.
        let open = self.values.is_empty();
        for i in 0..self.patches.len() {
            let patch = self.patches[i];
            let slot = usize::from(patch.slot.0);
            let value = values[slot];
            if !open && self.values[slot] == value {
                continue;
            }
            let value = value.wrapping_add(patch.add);
            self.put(patch, value).map_err(|e| self.broken(e))?;
        }
        self.values.clear();
        self.values.extend_from_slice(&values[..self.slots]);
        Ok(())
    }

    fn launch(&mut self, before: &Packets, _: u64) -> Result<()> {
        let words = match self.launch.is_empty() {
            true => &self.words,
            false => &self.launch,
        };
        self.channel.launch(before, words)
    }
}

impl Drop for AmdBound {
    fn drop(&mut self) {
        // The device may still read it.
        let (memory, keep) = (self.memory.take(), std::mem::take(&mut self.keep));
        if memory.is_some() || !keep.is_empty() {
            self.channel.retire(Arc::new((memory, keep)));
        }
    }
}
