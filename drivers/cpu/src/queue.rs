//! Queues: the host's side of the rings, and the threads on the other side.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use hcq::packets::{Keep, Part, Section};
use hcq::progress::{Asked, Silence};
use hcq::queue::no_value;
use hcq::ring::RingError;
use hcq::transport::MonotonicClock;
use hcq::{
    AllocSpec, Bound, Buffer, Command, Deadline, DeviceId, Error, MemoryKind, Packets, Queue,
    QueueKind, Result, Signal, Timeline,
};

use crate::encode::Encoder;
use crate::packet::{INDIRECT_WORDS, Listing, header, length, op};
use crate::processor::MAX_INDIRECT;
use crate::progress::Progress;
use crate::ring::{RingMemory, Writer};
use crate::shared::Shared;

/// The most that the host sleeps for room before it looks whether the device is lost.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// The host's side of one queue, kept until its processor has ended.
pub(crate) struct Channel {
    shared: Arc<Shared>,
    encoder: Encoder,
    kind: QueueKind,
    timeline: Timeline,
    host: Mutex<Host>,
    pub(crate) ring: Arc<RingMemory>,
    progress: Arc<Progress>,
    full_limit: Duration,
}

struct Host {
    writer: Writer,
    /// Indirect buffers without owner, with what their packets name, and the value of the timeline at which they are over.
    retired: VecDeque<(u64, Retired)>,
}

type Retired = (Buffer, Vec<Keep>);

impl Channel {
    pub(crate) fn new(
        shared: Arc<Shared>,
        encoder: Encoder,
        kind: QueueKind,
        timeline: Signal,
        writer: Writer,
        progress: Arc<Progress>,
        full_limit: Duration,
    ) -> Channel {
        let ring = writer.memory.clone();
        let timeline = Timeline::new(&shared.id, kind, 0, timeline);
        let host = Mutex::new(Host {
            writer,
            retired: VecDeque::new(),
        });
        Channel {
            shared,
            encoder,
            kind,
            timeline,
            host,
            ring,
            progress,
            full_limit,
        }
    }

    /// Submits whole packets, in pieces if the ring is smaller than all of them. Returns the
    /// pointer behind them.
    fn push(&self, words: &[u32]) -> Result<u64> {
        tracing::trace!(
            device = %self.shared.id,
            queue = %self.kind,
            "submit\n{}",
            Listing(words)
        );
        let mut host = self.lock();
        self.shared.lost.check()?;
        if !host.retired.is_empty() {
            drop(host);
            self.reclaim();
            host = self.lock();
        }
        let capacity = host.writer.capacity();
        if words.len() <= capacity {
            return self.push_piece(&mut host.writer, words);
        }
        // Checked before anything is written, so that nothing is submitted by half.
        let mut at = 0;
        while at < words.len() {
            let n = length(words[at]).max(1);
            if n > capacity {
                return Err(self.refused(format!(
                    "a packet of {n} words does not fit into the ring of {capacity}: open the \
                     device with a larger ring"
                )));
            }
            at += n;
        }
        let mut rest = words;
        let mut end = self.ring.submitted();
        while !rest.is_empty() {
            let mut piece = 0;
            while piece < rest.len() && piece + length(rest[piece]).max(1) <= capacity {
                piece += length(rest[piece]).max(1);
            }
            let (now, later) = rest.split_at(piece.min(rest.len()));
            end = match self.push_piece(&mut host.writer, now) {
                // Some pieces are on their way and cannot be taken back.
                Err(Error::Timeout { .. }) if rest.len() < words.len() => {
                    let what = "the ring stayed full in the middle of a submission";
                    return Err(self.shared.fault(self.encoder.unit(), what.into()));
                }
                other => other?,
            };
            rest = later;
        }
        Ok(end)
    }

    /// Lets go what is over.
    fn reclaim(&self) {
        let mut over = Vec::new();
        let mut host = self.lock();
        if host.retired.is_empty() {
            return;
        }
        // Of a device that is lost nothing is over: its threads may still run.
        let Ok(reached) = self.timeline.signal().value() else {
            return;
        };
        while host.retired.front().is_some_and(|r| r.0 <= reached) {
            over.extend(host.retired.pop_front());
        }
        // What is let go may use the queue.
        drop(host);
        drop(over);
    }

    /// Keeps something until the timeline has a value, or, if the device is lost, until its threads have ended.
    fn retire(&self, until: u64, what: Retired) {
        let is_over = self
            .timeline
            .signal()
            .value()
            .is_ok_and(|reached| reached >= until);
        if !is_over {
            self.lock().retired.push_back((until, what));
        }
    }

    fn push_piece(&self, writer: &mut Writer, words: &[u32]) -> Result<u64> {
        let mut silence = None;
        loop {
            let consumed = self.ring.consumed();
            let (needed, free) = match writer.push(words) {
                Ok(end) => return Ok(end),
                Err(RingError::Full { needed, free, .. }) => (needed, free),
                // Cannot be: sizes were checked, and both pointers are ours.
                Err(error) => return Err(self.refused(error.to_string())),
            };
            let silence =
                silence.get_or_insert_with(|| Silence::new(Deadline::after(self.full_limit)));
            self.shared.lost.check()?;
            let left = self.pause(silence, || {
                let what = format!("free words in the ring of queue {}", self.encoder.unit());
                (what, needed, free)
            })?;
            self.ring.space.wait(left.min(LONGEST_SLEEP), || {
                self.ring.consumed() != consumed || self.shared.lost.is_lost()
            });
        }
    }

    /// Blocks until everything submitted so far is done.
    pub(crate) fn synchronize(&self, deadline: Deadline) -> Result<()> {
        let target = self.ring.submitted();
        let mut silence = Silence::new(deadline);
        loop {
            self.shared.lost.check()?;
            let seen = self.ring.consumed();
            if seen >= target {
                self.reclaim();
                return Ok(());
            }
            let left = self.pause(&mut silence, || {
                let what = format!("read pointer of queue {}", self.encoder.unit());
                (what, target, seen)
            })?;
            self.ring.space.wait(left.min(LONGEST_SLEEP), || {
                self.ring.consumed() >= target || self.shared.lost.is_lost()
            });
        }
    }

    /// How long a wait for this queue may sleep; `missing` names what it waits for, with how much of it is wanted and
    /// was seen.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the queue is silent for too long.
    fn pause(
        &self,
        silence: &mut Silence,
        missing: impl FnOnce() -> (String, u64, u64),
    ) -> Result<Duration> {
        let left = silence.left(&MonotonicClock);
        if !left.is_zero() {
            return Ok(left);
        }
        let silent = || Some(self.progress.silence(&mut Asked::default()));
        let Some(over) = silence.over(&MonotonicClock, silent) else {
            return Ok(silence.left(&MonotonicClock));
        };
        let (what, wanted, seen) = missing();
        Err(Error::Timeout {
            device: self.shared.id.clone(),
            what: format!("{what} ({})", self.shared.report()),
            wanted,
            seen,
            after: silence.elapsed(&MonotonicClock),
            over,
        })
    }

    /// Packets of this encoder have neither data nor relocations, and patch only their words.
    fn check(&self, packets: &Packets) -> Result<()> {
        let fits = |offset: u32, part: Part| {
            let words = if part == Part::Whole { 2 } else { 1 };
            offset.is_multiple_of(4) && offset as usize / 4 + words <= packets.words.len()
        };
        let own = packets.data.is_empty()
            && packets.relocs.is_empty()
            && packets
                .patches
                .iter()
                .all(|p| p.section == Section::Words && fits(p.offset, p.part));
        match own {
            true => Ok(()),
            false => Err(self.refused(
                "packets with a data block, relocations or patches outside of the words: pass \
                 what this queue has encoded"
                    .into(),
            )),
        }
    }

    fn refused(&self, why: String) -> Error {
        Error::Command {
            device: self.shared.id.clone(),
            queue: self.encoder.unit(),
            command: "submission".into(),
            why,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Host> {
        // The ring's pointers move in one step, after everything that can fail.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running queues of a device; ends them when the last handle is gone.
pub(crate) struct Engine {
    pub(crate) shared: Arc<Shared>,
    pub(crate) channels: Vec<Channel>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    /// That of the process that has the threads.
    pub(crate) generation: u32,
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.generation != hcq::process_generation() {
            // A fork has none of the threads: neither to join nor to let go.
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.shared.close();
        for channel in &self.channels {
            channel.ring.doorbell.notify();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.shared.lost.stop();
    }
}

/// A handle of one queue.
pub(crate) struct CpuQueue {
    engine: Arc<Engine>,
    channel: usize,
}

impl CpuQueue {
    /// The queue of channel number `channel`, which exists.
    pub(crate) fn new(engine: Arc<Engine>, channel: usize) -> CpuQueue {
        CpuQueue { engine, channel }
    }

    fn channel(&self) -> &Channel {
        &self.engine.channels[self.channel]
    }
}

impl Queue for CpuQueue {
    fn device(&self) -> &DeviceId {
        &self.engine.shared.id
    }

    fn kind(&self) -> QueueKind {
        self.channel().kind
    }

    fn index(&self) -> u32 {
        0
    }

    fn encode(&self, commands: &[Command<'_>], out: &mut Packets) -> Result<()> {
        self.channel().encoder.encode(commands, out)
    }

    fn submit(&self, packets: &mut Packets, _: u64) -> Result<()> {
        let channel = self.channel();
        if !packets.data.is_empty() || !packets.relocs.is_empty() {
            channel.check(packets)?;
        }
        channel.push(&packets.words).map(|_| ())
    }

    fn bind(&self, packets: Packets) -> Result<Box<dyn Bound>> {
        let channel = self.channel();
        channel.shared.lost.check()?;
        channel.check(&packets)?;
        if packets.words.len() > MAX_INDIRECT as usize {
            let n = packets.words.len();
            return Err(channel.refused(format!(
                "{n} words to bind, at most {MAX_INDIRECT} are possible: split the graph"
            )));
        }
        let buffer = channel.shared.pool.alloc(AllocSpec {
            bytes: packets.words.len() as u64 * 4,
            align: 64,
            kind: MemoryKind::Control,
            zeroed: false,
        })?;
        let mut bound = CpuBound {
            engine: self.engine.clone(),
            channel: self.channel,
            buffer: Some(buffer),
            packets,
            words: Vec::new(),
            launched: 0,
        };
        bound.write(0, bound.packets.words.len())?;
        Ok(Box::new(bound))
    }

    fn timeline(&self) -> &Timeline {
        &self.channel().timeline
    }
}

/// Packets in memory that one INDIRECT packet per launch names.
struct CpuBound {
    engine: Arc<Engine>,
    channel: usize,
    /// `Some` until dropped.
    buffer: Option<Buffer>,
    packets: Packets,
    /// The words of a launch; kept, so that nothing is allocated.
    words: Vec<u32>,
    /// What the last launch makes the timeline.
    launched: u64,
}

impl CpuBound {
    /// Writes words of the packets to where the processor reads them.
    fn write(&mut self, at: usize, count: usize) -> Result<()> {
        let Some(buffer) = &self.buffer else {
            return Ok(());
        };
        let words = &self.packets.words[at..at + count];
        let (offset, bytes) = (at as u64 * 4, count as u64 * 4);
        let written = match buffer.host() {
            hcq::HostAccess::Window(window) => window.write_words(offset, words).is_ok(),
            _ => false,
        };
        match written {
            true => Ok(()),
            false => Err(Error::OutOfBounds {
                device: self.engine.shared.id.clone(),
                va: buffer.va().0,
                what: "patch",
                offset,
                len: bytes,
                size: buffer.bytes(),
            }),
        }
    }
}

impl Bound for CpuBound {
    fn patch(&mut self, values: &[u64]) -> Result<()> {
        self.engine.shared.lost.check()?;
        self.packets
            .patch(values)
            .map_err(|slot| no_value(slot.0, values.len()))?;
        for i in 0..self.packets.patches.len() {
            let patch = self.packets.patches[i];
            let words = if patch.part == Part::Whole { 2 } else { 1 };
            self.write(patch.offset as usize / 4, words)?;
        }
        Ok(())
    }

    fn launch(&mut self, before: Option<&mut Packets>, makes: u64) -> Result<()> {
        let Some(buffer) = &self.buffer else {
            return Ok(());
        };
        let channel = &self.engine.channels[self.channel];
        let va = buffer.va();
        self.words.clear();
        if let Some(before) = before {
            channel.check(before)?;
            self.words.extend_from_slice(&before.words);
        }
        self.words.extend_from_slice(&[
            header(op::INDIRECT, INDIRECT_WORDS),
            va.lo(),
            va.hi(),
            self.packets.words.len() as u32,
        ]);
        channel.push(&self.words)?;
        self.launched = makes;
        Ok(())
    }
}

impl Drop for CpuBound {
    fn drop(&mut self) {
        // The processor may still read it: it goes once that is over.
        if let Some(buffer) = self.buffer.take() {
            let what = (buffer, std::mem::take(&mut self.packets.keep));
            let channel = &self.engine.channels[self.channel];
            channel.retire(self.launched, what);
        }
    }
}
