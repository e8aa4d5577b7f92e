//! [`Channel`]: the host's side of one queue: room in the ring, arguments beside it, what may be used
//! again.
//!
//! The device tells how far it is by *marks*: signals of the driver's own that are put into the ring
//! now and then, not at each submission. Once a mark is reached, everything before it is done: its
//! words may be overwritten, its arguments and its indirect buffers used again. Read pointers are not
//! enough for that: they say what was fetched, and that of PM4 firmware promises nothing at all. SDMA
//! and AQL keep theirs well, so that room in the ring comes from it as well.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hcq::mem::bump::{Bump, BumpError};
use hcq::mem::view::{View, ViewError};
use hcq::packets::{Section, place};
use hcq::timeline::Point as Mark;
use hcq::transport::MonotonicClock;
use hcq::{Command, Deadline, Error, MemoryKind, Packets, QueueKind, Result, Scope, Signal};

use crate::core::{Core, memory_error, os};
use crate::encode::{Aql, DATA_ALIGN, Encoder, Interrupt, Pm4, Scratch, Sdma, Setup};
use crate::kfd::event::{Age, Event};
use crate::kfd::queue::{KernelQueue, Kind};
use crate::options::Options;
use crate::pool::{Piece, Pool};
use crate::signal::{self, new_signal};
use drivers_spec::amd::kfd::event_type;

/// Dwords of the ring that submissions leave free: room for a mark, also in a full ring, and for what
/// fills the end of an SDMA ring.
const SLACK: u64 = 64;

/// Marks under way at most. Each has a block of its own for what it points to.
const MARKS: u64 = 16;

/// Bytes of such a block.
const MARK_BYTES: u64 = 256;

/// A mark is due when this part of the ring, or of the arguments, was used since the last one.
const MARK_EVERY: u64 = 8;

/// How long a thread that waits for room sleeps at most before it looks again.
const SLICE: Duration = Duration::from_millis(1);

/// One queue.
pub(crate) struct Channel {
    // Destroyed first: nothing below is used by the hardware then.
    pub(crate) kernel: KernelQueue,
    pub(crate) core: Arc<Core>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) encoder: Encoder,
    kind: QueueKind,
    index: u32,
    timeline: Signal,
    event: Arc<Event>,
    /// The signal of marks, and the host's way to its value.
    progress: Signal,
    reached: View,
    /// What every submission starts with.
    begin: Vec<u32>,
    _begin_data: Piece,
    arguments: Piece,
    arguments_view: View,
    marks: Piece,
    marks_view: View,
    ring_dwords: u64,
    full_limit: Duration,
    host: Mutex<Host>,
}

struct Host {
    /// Dwords written since the queue was made.
    wptr: u64,
    /// Dwords that may be overwritten: what came before is taken.
    free: u64,
    /// `wptr` behind the last mark, and the values of the last mark and of the last one reached.
    marked: u64,
    issued: u64,
    reached: u64,
    /// `wptr` behind the last mark that was reached.
    done: u64,
    /// Marks under way, and `wptr` behind each.
    marks: VecDeque<(u64, u64)>,
    bump: Bump,
    /// Bytes of arguments since the last mark.
    unsealed: u64,
    /// What the device may still use, until a mark.
    retired: VecDeque<(u64, Retired)>,
    words: Vec<u32>,
    data: Vec<u32>,
    mark: Packets,
}

/// Memory that nobody but the device uses any more.
pub(crate) type Retired = Arc<Piece>;

/// Which queue to open.
pub(crate) struct Which {
    /// Kernels or copies.
    pub(crate) kind: QueueKind,
    /// The number among those of the kind.
    pub(crate) index: u32,
    /// What it takes.
    pub(crate) packets: Kind,
}

impl Channel {
    /// Opens a queue.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`]; nothing is left behind then.
    pub(crate) fn open(
        core: &Arc<Core>,
        pool: &Arc<Pool>,
        which: &Which,
        options: &Options,
    ) -> Result<Channel> {
        let Which {
            kind,
            index,
            packets,
        } = *which;
        let name = format!("{kind} queue {index}");
        let (ring, sizes) = match packets {
            Kind::Sdma => (options.copy_ring, None),
            Kind::Pm4 | Kind::Aql => (options.compute_ring, Some(core.queue_sizes()?)),
        };
        let ring = ring.clamp(4096, 1 << 30).next_power_of_two();
        let (machine, process, gpu) = (&*core.machine, &core.process, &core.gpu);
        let failed = |e| memory_error(&core.id, gpu, ring, e);
        let event = Event::new(machine, process, gpu, event_type::SIGNAL).map_err(failed)?;
        let event = Arc::new(event);
        let kernel = KernelQueue::new(machine, process, gpu, packets, ring, sizes.as_ref(), &name)
            .map_err(failed)?;
        let timeline = new_signal(core, pool, &format!("{name} timeline"), Some(event.clone()))?;
        let broken = |e: ViewError| broken(core, &name, e);
        let (reached, progress) = kernel.progress().map_err(broken)?;
        let progress = signal::over(core, &format!("{name} marks"), reached.clone(), progress);
        let setup = Setup {
            device: core.id.clone(),
            kind,
            index,
            chip: core.chip,
            xccs: match packets {
                Kind::Aql => gpu.node.units().xccs,
                Kind::Pm4 | Kind::Sdma => 1,
            },
            queue: kernel.pointers_va(),
            fence: kernel.fence_va(),
            interrupt: Some(Interrupt {
                signal: timeline.va(),
                mailbox: event.slot(),
                event: event.id(),
            }),
        };
        let encoder = match packets {
            Kind::Pm4 => Encoder::Pm4(Pm4::new(setup)),
            Kind::Aql => Encoder::Aql(Aql::new(setup)),
            Kind::Sdma => Encoder::Sdma(Sdma::new(setup)),
        };
        let view_of = |piece: &Piece| {
            piece.view().ok_or_else(|| Error::NoHostAccess {
                device: core.id.clone(),
                va: piece.va().0,
                has: "none",
                needs: "a mapping",
            })
        };
        let piece = |bytes, what: &str| {
            pool.piece(MemoryKind::Control, bytes, &format!("the {what} of {name}"))
        };
        // What an earlier submission has left is done before: submissions are in order.
        let mut begin = Packets::new();
        let order = Command::Barrier {
            scope: Scope::Queue,
        };
        encoder.encode(&[order], &mut begin)?;
        encoder.begin(&mut begin);
        let begin_data = piece((begin.data.len() as u64 * 4).max(DATA_ALIGN), "prologue")?;
        begin.relocate(begin_data.va().0);
        let begin_view = view_of(&begin_data)?;
        begin_view.write_words(0, &begin.data).map_err(broken)?;
        let argument_bytes = match packets {
            Kind::Sdma => DATA_ALIGN,
            Kind::Pm4 | Kind::Aql => options.kernargs.max(4096),
        };
        let arguments = piece(argument_bytes, "arguments")?;
        let marks = piece(MARKS * MARK_BYTES, "marks")?;
        let (arguments_view, marks_view) = (view_of(&arguments)?, view_of(&marks)?);
        Ok(Channel {
            ring_dwords: kernel.ring_bytes() / 4,
            kernel,
            core: core.clone(),
            pool: pool.clone(),
            encoder,
            kind,
            index,
            timeline,
            event,
            progress,
            reached,
            begin: begin.words,
            _begin_data: begin_data,
            arguments,
            arguments_view,
            marks,
            marks_view,
            full_limit: options.ring_timeout,
            host: Mutex::new(Host {
                wptr: 0,
                free: 0,
                marked: 0,
                issued: 0,
                reached: 0,
                done: 0,
                marks: VecDeque::with_capacity(MARKS as usize),
                bump: Bump::new(argument_bytes),
                unsealed: 0,
                retired: VecDeque::new(),
                words: Vec::new(),
                data: Vec::new(),
                mark: Packets::new(),
            }),
        })
    }

    /// Its kind.
    pub(crate) fn kind(&self) -> QueueKind {
        self.kind
    }

    /// Its number among those of its kind.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Its name in messages.
    pub(crate) fn unit(&self) -> String {
        format!("{} {}", self.kind, self.index)
    }

    /// The signal of its stream.
    pub(crate) fn timeline(&self) -> &Signal {
        &self.timeline
    }

    /// What every submission starts with.
    pub(crate) fn begin(&self) -> &[u32] {
        &self.begin
    }

    /// Wakes the threads that wait for its timeline.
    pub(crate) fn wake(&self) {
        self.event.set();
    }

    /// Encodes and submits, for the driver itself.
    pub(crate) fn run(&self, commands: &[Command<'_>]) -> Result<()> {
        let mut packets = Packets::new();
        self.encoder.encode(commands, &mut packets)?;
        self.submit(&packets)
    }

    /// Writes packets to the ring, behind what every submission starts with, and rings the doorbell.
    ///
    /// # Errors
    /// The loss of the device; [`Error::Timeout`] if the ring or the arguments stay full;
    /// [`Error::Command`] for a packet that is larger than the ring.
    pub(crate) fn submit(&self, packets: &Packets) -> Result<()> {
        let mut guard = self.lock();
        let host = &mut *guard;
        self.core.lost.check()?;
        let base = match packets.data.is_empty() {
            true => 0,
            false => self.place_data(host, packets)?,
        };
        host.words.clear();
        host.words.extend_from_slice(&self.begin);
        host.words.extend_from_slice(&packets.words);
        let words = &mut host.words[self.begin.len()..];
        for reloc in packets
            .relocs
            .iter()
            .filter(|r| r.section == Section::Words)
        {
            place(words, reloc.offset, reloc.part, base + u64::from(reloc.add));
        }
        self.write_all(host)
    }

    /// Writes words to the ring as they are, and rings the doorbell.
    ///
    /// # Errors
    /// As [`Channel::submit`].
    pub(crate) fn push(&self, words: &[u32]) -> Result<()> {
        let mut guard = self.lock();
        let host = &mut *guard;
        self.core.lost.check()?;
        host.words.clear();
        host.words.extend_from_slice(words);
        self.write_all(host)
    }

    /// Keeps memory until everything that is in the ring now is done.
    pub(crate) fn retire(&self, memory: Retired) {
        let mut host = self.lock();
        let idle = host.marked == host.wptr && host.marks.is_empty();
        if idle || self.core.lost.is_lost() {
            return;
        }
        let mark = host.issued + 1;
        host.retired.push_back((mark, memory));
        // Else the next submission brings the mark.
        if let Err(error) = self.mark(&mut host) {
            tracing::debug!(%error, "memory is kept until the next mark");
        }
    }

    /// Copies the data block to where the device reads it. Returns its address.
    fn place_data(&self, host: &mut Host, packets: &Packets) -> Result<u64> {
        let bytes = packets.data.len() as u64 * 4;
        if bytes > host.bump.size() / 2 {
            return self.place_large(host, packets);
        }
        let mut wait = Wait::new(self);
        let offset = loop {
            match host.bump.alloc(bytes, DATA_ALIGN) {
                Ok(offset) => break offset,
                Err(BumpError::Full { size, free, .. }) => {
                    let what = format!("the arguments of {} ({size} bytes)", self.unit());
                    wait.look(self, host, &what, bytes, free)?;
                }
                // Cannot be: the size was compared.
                Err(error) => return Err(self.refused(error.to_string())),
            }
        };
        host.unsealed += bytes;
        let base = self.arguments.va().0 + offset;
        self.write_data(host, packets, &self.arguments_view, offset, base)?;
        Ok(base)
    }

    /// A data block of its own, for a submission that is larger than all others.
    fn place_large(&self, host: &mut Host, packets: &Packets) -> Result<u64> {
        let bytes = packets.data.len() as u64 * 4;
        let what = format!("the arguments of a large submission to {}", self.unit());
        let piece = Arc::new(self.pool.piece(MemoryKind::Control, bytes, &what)?);
        let base = piece.va().0;
        if let Some(view) = piece.view() {
            self.write_data(host, packets, &view, 0, base)?;
        }
        host.retired.push_back((host.issued + 1, piece));
        Ok(base)
    }

    fn write_data(
        &self,
        host: &mut Host,
        packets: &Packets,
        view: &View,
        offset: u64,
        base: u64,
    ) -> Result<()> {
        let mut data = &packets.data[..];
        let of_data = |r: &&hcq::packets::Reloc| r.section == Section::Data;
        if packets.relocs.iter().any(|r| of_data(&r)) {
            host.data.clear();
            host.data.extend_from_slice(data);
            for reloc in packets.relocs.iter().filter(of_data) {
                let value = base + u64::from(reloc.add);
                place(&mut host.data, reloc.offset, reloc.part, value);
            }
            data = &host.data;
        }
        view.write_words(offset as usize, data)
            .map_err(|e| broken(&self.core, &self.unit(), e))
    }

    /// Writes `host.words`: in one piece where they fit the ring, else cut between packets.
    fn write_all(&self, host: &mut Host) -> Result<()> {
        let words = std::mem::take(&mut host.words);
        let done = self.write_pieces(host, &words);
        host.words = words;
        done?;
        self.mark_if_due(host);
        Ok(())
    }

    fn write_pieces(&self, host: &mut Host, words: &[u32]) -> Result<()> {
        let most = (self.ring_dwords - 2 * SLACK) as usize;
        if words.len() <= most {
            self.make_room(host, words.len() as u64)?;
            return self.write(host, words);
        }
        let format = self.encoder.format();
        // Checked before anything is written, so that nothing is submitted by half.
        let mut rest = words;
        while !rest.is_empty() {
            let piece = format.whole(rest, most);
            if piece == 0 {
                return Err(self.refused(format!(
                    "a packet of more than {most} dwords does not fit into the ring of {}: open the \
                     device with a larger ring",
                    self.ring_dwords
                )));
            }
            rest = &rest[piece..];
        }
        rest = words;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(format.whole(rest, most));
            match self.make_room(host, now.len() as u64) {
                // Some pieces are on their way and cannot be taken back.
                Err(error @ Error::Timeout { .. }) if rest.len() < words.len() => {
                    return Err(self.core.lose(error));
                }
                done => done?,
            }
            self.write(host, now)?;
            rest = later;
        }
        Ok(())
    }

    /// Waits until `dwords` fit.
    fn make_room(&self, host: &mut Host, dwords: u64) -> Result<()> {
        let mut wait = None;
        loop {
            let used = host.wptr - host.free;
            // What an SDMA ring is filled up with at its end is part of the slack.
            if used + dwords + SLACK <= self.ring_dwords {
                return Ok(());
            }
            self.reclaim(host)?;
            let used = host.wptr - host.free;
            if used + dwords + SLACK <= self.ring_dwords {
                return Ok(());
            }
            let free = self.ring_dwords - used;
            let what = format!("free dwords in the ring of {}", self.unit());
            let wait = wait.get_or_insert_with(|| Wait::new(self));
            wait.look(self, host, &what, dwords + SLACK, free)?;
        }
    }

    /// Writes words for which there is room, and rings the doorbell.
    fn write(&self, host: &mut Host, words: &[u32]) -> Result<()> {
        let end = self
            .copy(host.wptr, words)
            .and_then(|end| self.kernel.publish(end).map(|()| end))
            .map_err(|e| broken(&self.core, &self.unit(), e))?;
        host.wptr = end;
        Ok(())
    }

    /// Copies words into the ring from a position on. Returns the position behind them.
    fn copy(&self, wptr: u64, words: &[u32]) -> std::result::Result<u64, ViewError> {
        let ring = self.kernel.ring();
        let at = wptr % self.ring_dwords;
        let to_end = (self.ring_dwords - at) as usize;
        match &self.encoder {
            Encoder::Aql(_) => {
                const PACKET: usize = crate::encode::aql::PACKET;
                for (i, packet) in words.chunks_exact(PACKET).enumerate() {
                    let at = (at as usize + i * PACKET) % self.ring_dwords as usize * 4;
                    ring.write_words(at + 4, &packet[1..])?;
                    // The header makes the packet valid.
                    ring.store_u32(at, packet[0])?;
                }
                Ok(wptr + words.len() as u64)
            }
            Encoder::Sdma(_) if words.len() > to_end => {
                // Packets do not straddle the end: zeros, which do nothing, fill it up.
                let fit = self.encoder.format().whole(words, to_end);
                let (first, second) = words.split_at(fit);
                ring.write_words(at as usize * 4, first)?;
                for i in fit..to_end {
                    ring.write((at as usize + i) * 4, 0u32)?;
                }
                ring.write_words(0, second)?;
                Ok(wptr + (to_end + second.len()) as u64)
            }
            Encoder::Pm4(_) | Encoder::Sdma(_) => {
                let (first, second) = words.split_at(words.len().min(to_end));
                ring.write_words(at as usize * 4, first)?;
                ring.write_words(0, second)?;
                Ok(wptr + words.len() as u64)
            }
        }
    }

    fn mark_if_due(&self, host: &mut Host) {
        let ring = host.wptr - host.marked >= self.ring_dwords / MARK_EVERY;
        let arguments = host.unsealed >= host.bump.size() / MARK_EVERY;
        let retired = host
            .retired
            .back()
            .is_some_and(|(mark, _)| *mark > host.issued);
        if (ring || arguments || retired)
            && let Err(error) = self.mark(host)
        {
            tracing::debug!(%error, "the mark comes later");
        }
    }

    /// Puts a mark behind everything that is in the ring. Nothing happens while as many as can be are
    /// under way: one of them is waited for first.
    fn mark(&self, host: &mut Host) -> Result<()> {
        if host.marks.len() as u64 >= MARKS {
            self.reclaim(host)?;
            if host.marks.len() as u64 >= MARKS {
                return Ok(());
            }
        }
        let value = host.issued + 1;
        let mut packets = std::mem::take(&mut host.mark);
        packets.clear();
        let command = Command::Signal {
            signal: &self.progress,
            value: value.into(),
        };
        let done = self
            .encoder
            .encode(&[command], &mut packets)
            .and_then(|()| self.write_mark(host, &mut packets, value));
        host.mark = packets;
        done?;
        host.marks.push_back((value, host.wptr));
        host.issued = value;
        host.marked = host.wptr;
        host.bump.seal(Mark(value));
        host.unsealed = 0;
        Ok(())
    }

    fn write_mark(&self, host: &mut Host, packets: &mut Packets, value: u64) -> Result<()> {
        let slot = value % MARKS * MARK_BYTES;
        packets.relocate(self.marks.va().0 + slot);
        self.marks_view
            .write_words(slot as usize, &packets.data)
            .map_err(|e| broken(&self.core, &self.unit(), e))?;
        self.write(host, &packets.words)
    }

    /// Takes back what marks and read pointer say is done.
    fn reclaim(&self, host: &mut Host) -> Result<()> {
        let broken = |e| broken(&self.core, &self.unit(), e);
        let reached = self.reached.load_u64(0).map_err(broken)?.min(host.issued);
        while let Some(&(value, end)) = host.marks.front()
            && value <= reached
        {
            host.free = host.free.max(end);
            host.done = end;
            host.marks.pop_front();
        }
        host.reached = host.reached.max(reached);
        host.bump.reclaim(Mark(host.reached));
        while host
            .retired
            .front()
            .is_some_and(|(mark, _)| *mark <= host.reached)
        {
            host.retired.pop_front();
        }
        if let Some(raw) = self.kernel.read_pointer().map_err(broken)? {
            let taken = match self.encoder {
                Encoder::Aql(_) => raw.saturating_mul(crate::encode::aql::PACKET as u64),
                Encoder::Pm4(_) | Encoder::Sdma(_) => raw / 4,
            };
            if taken <= host.wptr {
                host.free = host.free.max(taken);
            }
        }
        Ok(())
    }

    /// Whether everything submitted is known to be done; puts a mark behind it if there is none.
    ///
    /// # Errors
    /// The loss of the device.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        let mut host = self.lock();
        self.settle(&mut host)
    }

    fn settle(&self, host: &mut Host) -> Result<bool> {
        self.core.lost.check()?;
        if host.marked < host.wptr {
            self.mark(host)?;
        }
        self.reclaim(host)?;
        Ok(host.marked == host.wptr && host.reached == host.issued)
    }

    /// Blocks until everything submitted so far is done.
    ///
    /// # Errors
    /// [`Error::Timeout`], or the loss of the device.
    pub(crate) fn synchronize(&self, deadline: Deadline) -> Result<()> {
        let mut age = Age::NEW;
        loop {
            // Before the look: what happens at the deadline still counts.
            let left = deadline.remaining(&MonotonicClock);
            let (wanted, seen) = {
                let mut host = self.lock();
                if self.settle(&mut host)? {
                    return Ok(());
                }
                (host.issued, host.reached)
            };
            if left.is_zero() {
                return Err(Error::Timeout {
                    device: self.core.id.clone(),
                    what: format!("marks of {} ({})", self.unit(), self.report()),
                    wanted,
                    seen,
                    after: deadline.elapsed(&MonotonicClock),
                });
            }
            self.core
                .sleep(Some(&self.event), &mut age, left.min(SLICE))?;
        }
    }

    /// Tells the command processor of an AQL queue where scratch is. It has a copy of what it is told,
    /// which it reads when the queue is mapped; so the queue is idle meanwhile, and mapped anew.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the queue does not come to rest, [`Error::Os`], the loss of the device.
    pub(crate) fn set_queue_scratch(&self, scratch: &Scratch) -> Result<()> {
        use drivers_spec::amd::aql::queue::{
            COMPUTE_TMPRING_SIZE, SCRATCH_BACKING_MEMORY_LOCATION, SCRATCH_RESOURCE_DESCRIPTOR,
            SCRATCH_WAVE64_LANE_BYTE_SIZE,
        };
        // Locked: nothing is submitted meanwhile.
        let mut host = self.lock();
        let mut wait = Wait::new(self);
        while !self.settle(&mut host)? {
            let what = format!("marks of {}, which has to come to rest", self.unit());
            let (wanted, seen) = (host.issued, host.reached);
            wait.look(self, &mut host, &what, wanted, seen)?;
        }
        let base = scratch.base;
        let resource = scratch.resource(self.core.chip, false).unwrap_or_default();
        let fields: [(usize, &[u32]); 4] = [
            (COMPUTE_TMPRING_SIZE, &[scratch.tmpring]),
            (SCRATCH_RESOURCE_DESCRIPTOR, &resource),
            (SCRATCH_BACKING_MEMORY_LOCATION, &[base.lo(), base.hi()]),
            (SCRATCH_WAVE64_LANE_BYTE_SIZE, &[scratch.lane_bytes]),
        ];
        for (at, words) in fields {
            self.kernel
                .set_field(at, words)
                .map_err(|e| broken(&self.core, &self.unit(), e))?;
        }
        self.kernel.remap().map_err(|e| os(&self.core.id, e))
    }

    /// Positions between which there may be packets that are not done, in dwords.
    pub(crate) fn in_flight(&self) -> std::ops::Range<u64> {
        let host = match self.host.try_lock() {
            Ok(host) => host,
            Err(std::sync::TryLockError::Poisoned(host)) => host.into_inner(),
            // A thread waits for room meanwhile: all of the ring then.
            Err(std::sync::TryLockError::WouldBlock) => {
                let (wptr, _) = self.kernel.raw_pointers();
                let wptr = match self.encoder {
                    Encoder::Pm4(_) => wptr,
                    Encoder::Aql(_) => wptr * crate::encode::aql::PACKET as u64,
                    Encoder::Sdma(_) => wptr / 4,
                };
                return wptr..wptr;
            }
        };
        let reached = self.reached.load_u64(0).unwrap_or(0);
        let done = host.marks.iter().rev().find(|(value, _)| *value <= reached);
        let done = done.map_or(host.done, |&(_, end)| end);
        // What the read pointer has passed may be overwritten, but it need not be done.
        done.max(host.wptr.saturating_sub(self.ring_dwords))..host.wptr
    }

    fn refused(&self, why: String) -> Error {
        Error::Command {
            device: self.core.id.clone(),
            queue: self.unit(),
            command: "submission".into(),
            why,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Host> {
        // Positions move in one step, after everything that can fail.
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait for room.
struct Wait {
    deadline: Deadline,
    age: Age,
    looks: u32,
}

/// Looks without sleeping.
const LOOKS: u32 = 50;

impl Wait {
    fn new(channel: &Channel) -> Wait {
        Wait {
            deadline: Deadline::after(channel.full_limit),
            age: Age::NEW,
            looks: 0,
        }
    }

    /// Waits a little, and takes back what is done.
    fn look(
        &mut self,
        channel: &Channel,
        host: &mut Host,
        what: &str,
        wanted: u64,
        seen: u64,
    ) -> Result<()> {
        let left = self.deadline.remaining(&MonotonicClock);
        if left.is_zero() {
            return Err(Error::Timeout {
                device: channel.core.id.clone(),
                what: what.into(),
                wanted,
                seen,
                after: self.deadline.elapsed(&MonotonicClock),
            });
        }
        if host.marks.is_empty() && host.marked < host.wptr {
            channel.mark(host)?;
        }
        self.looks += 1;
        if self.looks < LOOKS {
            channel.core.lost.check()?;
            std::thread::yield_now();
        } else {
            let limit = left.min(SLICE);
            channel
                .core
                .sleep(Some(&channel.event), &mut self.age, limit)?;
        }
        channel.reclaim(host)
    }
}

/// Cannot be: offsets are inside of what was mapped.
fn broken(core: &Core, unit: &str, error: ViewError) -> Error {
    Error::Fault {
        device: core.id.clone(),
        unit: unit.into(),
        what: error.to_string(),
    }
}
