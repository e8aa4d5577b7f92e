//! [`Channel`]: one queue, for the host: submissions, and what may be used again after them.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use hcq::packets::Keep;
use hcq::progress::{Asked, Seen, Silence, raising};
use hcq::transport::{MonotonicClock, TransportError};
use hcq::{Deadline, Error, MemoryKind, Packets, QueueKind, Result, Timeline};
use tracing::Level;
use tracing::level_filters::LevelFilter;

use super::arguments::{Arguments, DATA_ALIGN, Room};
use super::decode::{Packet, sentence};
use super::fences::Fences;
use super::hardware::{Failed, Hardware, Submit};
use super::marks::Marks;
use super::parts::{Parts, prologue};
use super::recent::{Recent, Submission};
use super::wait::{SLICE, Wait};
use crate::core::Core;
use crate::interface::{Age, Event};
use crate::memory::pool::{Piece, Pool};

/// One queue.
pub struct Channel<H: Hardware> {
    // Destroyed first: nothing below is used by the hardware then.
    pub(super) hardware: H,
    pub(super) core: Arc<Core>,
    pub(super) pool: Arc<Pool>,
    pub(super) kind: QueueKind,
    pub(super) index: u32,
    pub(super) timeline: Timeline,
    pub(super) event: Arc<Event>,
    pub(super) fences: Fences,
    /// What every submission starts with: words, what names some, and the memory that they point to.
    pub(super) begin: Box<[u32]>,
    pub(super) names: Box<[u32]>,
    pub(super) _begin: Piece,
    pub(super) full_limit: Duration,
    /// Whether the ring gets what names words in memory, not the words: it takes nothing else, or lies at the other end
    /// of a cable, where a submission is one piece of memory and a few words more.
    pub(super) by_name: bool,
    /// The position behind what is known to be done, for who does not hold the lock.
    pub(super) done: AtomicU64,
    /// For who has waited long.
    pub(super) seen: Seen,
    pub(super) stood: Seen,
    pub(super) host: Mutex<Host>,
}

/// Where the host is with a queue.
pub(super) struct Host {
    /// The position behind what was submitted.
    pub(super) wptr: u64,
    /// The position behind what was taken: in a ring it may be overwritten.
    pub(super) free: u64,
    pub(super) marks: Marks,
    /// A submission is being written: what was taken for it belongs to none that is whole.
    pub(super) is_inside: bool,
    pub(super) arguments: Arguments,
    /// What nobody but the device uses any more, until so many submissions are over.
    pub(super) retired: VecDeque<(u64, Keep)>,
    /// The same of what the device reads by itself, until it reads nothing more of so many submissions.
    pub(super) read: VecDeque<(u64, Keep)>,
    /// What was let go, to be dropped outside of the lock.
    pub(super) freed: Vec<Keep>,
    pub(super) recent: Recent,
    // Kept, so that nothing is allocated.
    pub(super) entries: Vec<u32>,
    pub(super) fence: Packets,
}

impl<H: Hardware> Channel<H> {
    /// A queue of these parts.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`]; nothing is left behind then.
    pub fn new(core: &Arc<Core>, pool: &Arc<Pool>, parts: Parts<H>) -> Result<Channel<H>> {
        let (kind, index) = (parts.kind, parts.index);
        let name = format!("{kind} queue {index}");
        let fences = Fences::new(core, pool, parts.progress, &name)?;
        let begin = prologue(core, pool, &parts.hardware, &name)?;
        let arguments = Arguments::new(pool, parts.arguments.max(DATA_ALIGN), &name)?;
        let hardware = &parts.hardware;
        let by_name =
            hardware.names_words() || hardware.way().is_remote() && hardware.binds_words();
        Ok(Channel {
            by_name,
            hardware: parts.hardware,
            core: core.clone(),
            pool: pool.clone(),
            kind,
            index,
            timeline: Timeline::headed(&core.id, kind, index, parts.timeline, begin.words.clone()),
            event: parts.event,
            fences,
            begin: begin.words.into(),
            names: begin.names.into(),
            _begin: begin.memory,
            full_limit: parts.full_limit,
            done: AtomicU64::new(0),
            seen: Seen::default(),
            stood: Seen::default(),
            host: Mutex::new(Host {
                wptr: 0,
                free: 0,
                marks: Marks::new(),
                is_inside: false,
                arguments,
                retired: VecDeque::new(),
                read: VecDeque::new(),
                freed: Vec::new(),
                recent: Recent::default(),
                entries: Vec::new(),
                fence: Packets::new(),
            }),
        })
    }

    /// Its device.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The queue of the hardware.
    pub fn hardware(&self) -> &H {
        &self.hardware
    }

    /// How words reach it.
    #[inline]
    pub fn way(&self) -> &H::Way {
        self.hardware.way()
    }

    /// Its kind.
    pub fn kind(&self) -> QueueKind {
        self.kind
    }

    /// Its number among those of its kind.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its name in messages.
    pub fn unit(&self) -> String {
        format!("{} {}", self.kind, self.index)
    }

    /// What counts its submissions.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// What the words of every submission start with.
    pub fn begin(&self) -> &[u32] {
        &self.begin
    }

    /// Appends what the queue takes to run a submission whose words lie at an address.
    #[inline]
    pub fn run(&self, address: u64, words: &[u32], out: &mut Vec<u32>) {
        out.extend_from_slice(&self.names);
        self.hardware.run(address, words, out);
    }

    /// What its timeline wakes threads by.
    pub fn event(&self) -> &Arc<Event> {
        &self.event
    }

    /// Wakes the threads that wait for its timeline.
    pub fn wake(&self) {
        self.core.interface.wake(&self.event);
    }

    /// Submits packets, behind what every submission starts with: those of the timeline have it. `makes` is what they raise the timeline to; 0 for those of the driver's own.
    ///
    /// # Errors
    /// The loss of the device; [`Error::Timeout`] if the ring or the arguments stay full;
    /// [`Error::Command`] for a packet that is larger than the ring; what the queue refuses.
    pub fn submit(&self, packets: &mut Packets, makes: u64) -> Result<()> {
        self.submit_with(packets, &[], makes)
    }

    /// Submits words that are placed already, behind packets if there are any.
    ///
    /// # Errors
    /// As [`Channel::submit`].
    pub fn launch(&self, before: Option<&mut Packets>, words: &[u32], makes: u64) -> Result<()> {
        match before.filter(|before| before.words.len() > before.head()) {
            None => self.push(words, makes),
            Some(before) => self.submit_with(before, words, makes),
        }
    }

    fn submit_with(&self, packets: &mut Packets, behind: &[u32], makes: u64) -> Result<()> {
        let mut guard = self.lock();
        let host = &mut *guard;
        self.core.lost.check()?;
        if packets.head() < self.begin.len() {
            packets.set_head(&self.begin);
        }
        // Words that the queue only names lie before what they point to.
        let data_at = match self.by_name {
            true => (packets.words.len() as u64 * 4).next_multiple_of(DATA_ALIGN),
            false => 0,
        };
        let bytes = data_at + packets.data.len() as u64 * 4;
        let room = match bytes {
            0 => None,
            bytes => Some(self.room(host, bytes)?),
        };
        if let Some(room) = &room {
            packets.relocate(room.va() + data_at);
            self.place(host, room, data_at, packets)
                .map_err(|e| self.broken(e))?;
        }
        // What is in use is kept by who has it, and retired by him, behind these packets.
        let outgrown = packets.keep.iter().filter(|kept| !self.hardware.uses(kept));
        let this = host.marks.whole() + 1;
        host.retired
            .extend(outgrown.map(|kept| (this, kept.clone())));
        match &room {
            Some(room) if self.by_name => {
                let mut entries = std::mem::take(&mut host.entries);
                entries.clear();
                self.run(room.va(), &packets.words, &mut entries);
                entries.extend_from_slice(behind);
                let done = self.write_all(host, &entries, makes);
                host.entries = entries;
                done?;
            }
            _ => {
                packets.words.extend_from_slice(behind);
                self.write_all(host, &packets.words, makes)?;
            }
        }
        if let Some(room) = &room {
            host.arguments.prefetch(room, bytes);
        }
        Ok(())
    }

    /// Writes what a submission points to, and the words if the queue only names them.
    #[inline]
    fn place(
        &self,
        host: &Host,
        room: &Room,
        data_at: u64,
        packets: &Packets,
    ) -> Result<(), TransportError> {
        let (words, data) = (&packets.words, &packets.data);
        if self.by_name && self.way().is_remote() {
            // In one piece.
            let mut all = words.clone();
            if !data.is_empty() {
                all.resize(data_at as usize / 4, 0);
                all.extend_from_slice(data);
            }
            return host.arguments.write(room, 0, &all);
        }
        if !data.is_empty() {
            host.arguments.write(room, data_at, data)?;
        }
        match self.by_name {
            true => host.arguments.write(room, 0, words),
            false => Ok(()),
        }
    }

    /// Submits words as they are.
    ///
    /// # Errors
    /// As [`Channel::submit`].
    fn push(&self, words: &[u32], makes: u64) -> Result<()> {
        let mut host = self.lock();
        self.core.lost.check()?;
        self.write_all(&mut host, words, makes)
    }

    /// Room for what a submission points to.
    fn room(&self, host: &mut Host, bytes: u64) -> Result<Room> {
        let size = host.arguments.size();
        if bytes > size / 2 {
            return self.large_room(host, bytes);
        }
        let mut wait = None;
        loop {
            match host.arguments.take(bytes) {
                Ok(room) => return Ok(room),
                Err(full) => {
                    let wait = wait.get_or_insert_with(|| Wait::new(self.full_limit));
                    self.pause(host, wait, |_| {
                        let what = format!("the arguments of {} ({size} bytes)", self.unit());
                        (what, bytes, full.free)
                    })?;
                }
            }
        }
    }

    /// Room of its own, for a submission that is larger than all others.
    fn large_room(&self, host: &mut Host, bytes: u64) -> Result<Room> {
        let what = format!("the arguments of a large submission to {}", self.unit());
        let piece = self.pool.piece(MemoryKind::Control, bytes, &what)?;
        let room = Room::of(&piece)?;
        host.read
            .push_back((host.marks.whole() + 1, Arc::new(piece)));
        Ok(room)
    }

    /// Submits words: in one piece where they fit, else cut between packets.
    #[inline]
    fn write_all(&self, host: &mut Host, words: &[u32], makes: u64) -> Result<()> {
        host.is_inside = true;
        let done = self.write_pieces(host, words);
        host.is_inside = false;
        let doorbell = done?;
        host.marks.submitted(makes, host.wptr);
        host.recent.note(words, makes, host.wptr, doorbell);
        if LevelFilter::current() >= Level::DEBUG {
            self.trace(words, makes, host.wptr, doorbell);
        }
        self.mark_if_due(host);
        // A look at remote memory is waited for: there it is when room is missing.
        let has_none = host.retired.is_empty() && host.read.is_empty();
        match has_none || self.way().is_remote() {
            true => Ok(()),
            false => self.reclaim(host),
        }
    }

    /// Says what was submitted.
    #[cold]
    fn trace(&self, words: &[u32], makes: u64, wptr: u64, doorbell: u64) {
        let (kind, index) = (self.kind, self.index);
        tracing::debug!(
            device = %self.core.id,
            queue = %format_args!("{kind} {index}"),
            makes,
            dwords = words.len(),
            wptr,
            doorbell,
            "submitted"
        );
        if tracing::enabled!(Level::TRACE) {
            for packet in self.hardware.decode(&self.core, words, 0) {
                let what = sentence(&self.core, &packet.doing);
                tracing::trace!(queue = %format_args!("{kind} {index}"), dword = packet.position, "{what}");
            }
        }
    }

    /// Returns what the doorbell was given last.
    fn write_pieces(&self, host: &mut Host, words: &[u32]) -> Result<u64> {
        let most = self.way().most();
        if words.len() <= most {
            self.make_room(host, words.len())?;
            return self.write(host, words);
        }
        // Checked before anything is written, so that nothing is submitted by half.
        let mut rest = words;
        while !rest.is_empty() {
            let piece = self.way().whole(rest, most);
            if piece == 0 {
                return Err(self.refused(format!(
                    "a packet of more than {most} dwords does not fit into the ring of {}: open the \
                     device with a larger ring",
                    self.way().size()
                )));
            }
            rest = &rest[piece..];
        }
        rest = words;
        let mut doorbell = 0;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.way().whole(rest, most));
            let room = self.make_room(host, now.len());
            doorbell = match room.and_then(|()| self.write(host, now)) {
                // Some pieces are on their way and cannot be taken back.
                Err(error) if rest.len() < words.len() => return Err(self.core.lose(error)),
                done => done?,
            };
            rest = later;
        }
        Ok(doorbell)
    }

    /// Waits until so many words fit.
    #[inline]
    fn make_room(&self, host: &mut Host, words: usize) -> Result<()> {
        match self.way().missing(host.wptr - host.free, words) {
            0 => Ok(()),
            _ => self.wait_for_room(host, words),
        }
    }

    #[cold]
    fn wait_for_room(&self, host: &mut Host, words: usize) -> Result<()> {
        let mut wait = None;
        loop {
            self.reclaim(host)?;
            let missing = self.way().missing(host.wptr - host.free, words);
            if missing == 0 {
                return Ok(());
            }
            let wait = wait.get_or_insert_with(|| Wait::new(self.full_limit));
            self.pause(host, wait, |host| {
                let free = self.way().size() - (host.wptr - host.free);
                let mut what = format!("free {} of {}", <H::Way>::UNIT, self.unit());
                if let Some(known) = self.hardware.report() {
                    what += &format!(" ({known})");
                }
                (what, free + missing, free)
            })?;
        }
    }

    /// Waits a little for the device, and takes back what is done.
    fn pause(
        &self,
        host: &mut Host,
        wait: &mut Wait,
        missing: impl FnOnce(&Host) -> (String, u64, u64),
    ) -> Result<()> {
        if host.marks.is_empty() {
            self.mark(host)?;
        }
        wait.pause(&self.core, &self.event, || self.silence(), || missing(host))?;
        self.reclaim(host)
    }

    /// Hands over words for which there is room. Returns what the device was told.
    #[inline]
    pub(super) fn write(&self, host: &mut Host, words: &[u32]) -> Result<u64> {
        let done = self.way().submit(host.wptr, words);
        let done = done.map_err(|e| self.failed(e))?;
        host.wptr = done.end;
        Ok(done.told)
    }

    /// Takes the queue from the hardware. Says whether nothing of it can write any more.
    pub fn stop(&self) -> bool {
        self.hardware.stop()
    }

    /// Whether everything submitted is known to be done.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn is_idle(&self) -> Result<bool> {
        let mut host = self.lock();
        self.settle(&mut host)
    }

    fn settle(&self, host: &mut Host) -> Result<bool> {
        self.core.lost.check()?;
        if host.marks.unmarked(host.wptr) > 0 {
            self.mark(host)?;
        }
        self.reclaim(host)?;
        Ok(host.marks.is_idle(host.wptr))
    }

    /// Blocks until everything submitted so far is done.
    ///
    /// # Errors
    /// [`Error::Timeout`], or the loss of the device.
    pub fn synchronize(&self, deadline: Deadline) -> Result<()> {
        let mut age = Age::NEW;
        let mut silence = Silence::new(deadline);
        loop {
            // Before the look: what happens meanwhile still counts.
            let mut left = silence.left(&MonotonicClock);
            let over = match left.is_zero() {
                true => silence.over(&MonotonicClock, || Some(self.silence())),
                false => None,
            };
            let (wanted, seen) = {
                let mut host = self.lock();
                if self.settle(&mut host)? {
                    return Ok(());
                }
                (host.marks.whole(), host.marks.passed())
            };
            if let Some(over) = over {
                return Err(Error::Timeout {
                    device: self.core.id.clone(),
                    what: format!("submissions to {}", self.unit()),
                    wanted,
                    seen,
                    after: silence.elapsed(&MonotonicClock),
                    over,
                });
            }
            if left.is_zero() {
                left = silence.left(&MonotonicClock);
            }
            self.core
                .sleep(Some(&self.event), &mut age, left.min(SLICE))?;
        }
    }

    /// Does something while the queue is at rest, and nothing is submitted to it.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the queue does not come to rest; the loss of the device; what `work` returns.
    pub fn at_rest<T>(&self, work: impl FnOnce(&H) -> Result<T>) -> Result<T> {
        // Locked: nothing is submitted meanwhile.
        let mut host = self.lock();
        let mut wait = Wait::new(self.full_limit);
        while !self.settle(&mut host)? {
            self.pause(&mut host, &mut wait, |host| {
                let what = format!("submissions to {}, which has to come to rest", self.unit());
                (what, host.marks.whole(), host.marks.passed())
            })?;
        }
        work(&self.hardware)
    }

    /// For how long none of its pointers and counters has moved, as far as anybody has looked.
    pub fn unmoved(&self) -> Duration {
        let timeline = self.timeline.signal().value().unwrap_or(0);
        let fences = self.fences.reached().unwrap_or(0);
        let (_, taken) = self.way().pointers();
        self.seen.note(&[timeline, fences, taken])
    }

    /// For how long nothing has moved here, nor in what it waits for.
    fn silence(&self) -> Duration {
        let timeline = self.timeline.signal().va().0;
        // Nobody else knows a queue that is being made.
        raising(timeline, &mut Asked::default()).unwrap_or_else(|| self.unmoved())
    }

    /// The same for what was found where the queue stands.
    pub fn stands(&self, marks: &[u64]) -> Duration {
        self.stood.note(marks)
    }

    /// Looks at what was submitted last, and at how many fences were and are reached; not while somebody submits.
    pub fn with_recent(&self, look: impl FnOnce(&Recent, [u64; 2])) {
        let host = match self.host.try_lock() {
            Ok(host) => host,
            Err(TryLockError::Poisoned(host)) => host.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        look(&host.recent, host.marks.fences());
    }

    /// Positions between which there may be packets that are not done.
    pub fn in_flight(&self) -> Range<u64> {
        let host = match self.host.try_lock() {
            Ok(host) => host,
            Err(TryLockError::Poisoned(host)) => host.into_inner(),
            // A thread waits for room meanwhile.
            Err(TryLockError::WouldBlock) => {
                return self.held(self.done.load(Ordering::Relaxed)..self.way().submitted());
            }
        };
        // Of a device that is lost, what was seen.
        let reached = self.reached(&host);
        let reached = reached.unwrap_or_else(|_| self.reached_as_seen(&host));
        self.held(host.marks.done_by(reached)..host.wptr)
    }

    /// The part of a range that a ring holds: what the read pointer has passed may be overwritten,
    /// but it need not be done.
    fn held(&self, range: Range<u64>) -> Range<u64> {
        range.start.max(range.end.saturating_sub(self.way().size()))..range.end
    }

    /// Where a submission is: its words in a ring, or its call.
    pub(super) fn place_of(&self, one: &Submission) -> Range<u64> {
        let long = match self.way().ring() {
            Some(_) => one.dwords.into(),
            None => 1,
        };
        one.end.saturating_sub(long)..one.end
    }

    /// What stands between two positions: as the ring has it, or, where none can be read, as it was submitted last.
    pub fn packets(&self, range: Range<u64>) -> Vec<Packet> {
        let decode = |words: &[u32], start| self.hardware.decode(&self.core, words, start);
        if let Some(ring) = self.way().ring() {
            return decode(&ring.words(range.clone()), range.start);
        }
        let mut found = Vec::new();
        self.with_recent(|recent, _| {
            for (_, one) in recent.all() {
                let place = self.place_of(one);
                if range.start <= place.start && place.end <= range.end {
                    found.extend(decode(one.words(), place.start));
                }
            }
        });
        found
    }

    fn refused(&self, why: String) -> Error {
        Error::Command {
            device: self.core.id.clone(),
            queue: self.unit(),
            command: "submission".into(),
            why,
        }
    }

    #[cold]
    fn failed(&self, failed: Failed) -> Error {
        match failed {
            Failed::Broken(error) => self.broken(error),
            Failed::Refused(error) => error,
        }
    }

    /// Cannot be where memory is mapped: offsets are inside of it.
    #[cold]
    pub(super) fn broken(&self, error: TransportError) -> Error {
        self.core.broken(self.unit(), error)
    }

    #[inline]
    pub(super) fn lock(&self) -> Locked<'_> {
        // Positions move in one step, after everything that can fail.
        Locked::of(self.host.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The right to use a queue. What was let go meanwhile is dropped after it: it may use the queue.
pub(super) struct Locked<'a> {
    host: MutexGuard<'a, Host>,
    freed: Vec<Keep>,
}

impl<'a> Locked<'a> {
    #[inline]
    pub(super) fn of(host: MutexGuard<'a, Host>) -> Locked<'a> {
        let freed = Vec::new();
        Locked { host, freed }
    }
}

impl Deref for Locked<'_> {
    type Target = Host;

    #[inline]
    fn deref(&self) -> &Host {
        &self.host
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Host {
        &mut self.host
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.freed = std::mem::take(&mut self.host.freed);
    }
}
