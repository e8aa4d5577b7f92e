//! [`Channel`]: the host side of one queue: submissions, and reclaiming what they used.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hcq::command_buffer::Keep;
use hcq::progress::Seen;
use hcq::timeline::Held;
use hcq::transport::TransportError;
use hcq::{CommandBuffer, Error, QueueKind, Result, Timeline};

use super::aside::Aside;
use super::fences::Fences;
use super::hardware::{Hardware, Submit};
use super::kernarg_ring::{DATA_ALIGN, KernargRing};
use super::marks::Marks;
use super::parts::{Parts, prologue};
use super::recent::Recent;
use crate::backend::Event;
use crate::core::Core;
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
    pub(super) aside: Aside,
}

/// Where the host is with a queue. It lies under the timeline's lock.
pub(super) struct Host {
    /// The position behind what was submitted.
    pub(super) wptr: u64,
    /// The position behind what was taken: in a ring it may be overwritten.
    pub(super) free: u64,
    pub(super) marks: Marks,
    /// A submission is being written: what was taken for it belongs to none that is whole.
    pub(super) is_inside: bool,
    pub(super) arguments: KernargRing,
    /// What nobody but the device uses any more, until so many submissions are over.
    pub(super) retired: VecDeque<(u64, Keep)>,
    /// The same of what the device reads by itself, until it reads nothing more of so many submissions.
    pub(super) read: VecDeque<(u64, Keep)>,
    /// What was let go, for who drops it outside of the lock.
    pub(super) freed: Vec<Keep>,
    pub(super) recent: Recent,
    // Kept, so that nothing is allocated.
    pub(super) entries: Vec<u32>,
    pub(super) fence: CommandBuffer,
}

impl Host {
    /// Of a queue to which nothing was submitted.
    fn new(arguments: KernargRing) -> Host {
        Host {
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
            fence: CommandBuffer::new(),
        }
    }
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
        let arguments = KernargRing::new(pool, parts.arguments.max(DATA_ALIGN), &name)?;
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
            timeline: Timeline::new(
                &core.id,
                kind,
                index,
                parts.timeline,
                begin.words.clone(),
                Box::new(Host::new(arguments)),
            ),
            event: parts.event,
            fences,
            begin: begin.words.into(),
            names: begin.names.into(),
            _begin: begin.memory,
            full_limit: parts.full_limit,
            done: AtomicU64::new(0),
            seen: Seen::default(),
            stood: Seen::default(),
            aside: Aside::default(),
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
        self.core.backend.wake(&self.event);
    }

    /// Takes the queue from the hardware. Says whether nothing of it can write any more.
    pub fn stop(&self) -> bool {
        self.hardware.stop()
    }

    /// Cannot be where memory is mapped: offsets are inside of it.
    #[cold]
    pub(super) fn broken(&self, error: TransportError) -> Error {
        self.core.broken(self.unit(), error)
    }

    /// Does something with what lies under the timeline's lock.
    ///
    /// # Errors
    /// What `work` returns.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Host) -> Result<T>) -> Result<T> {
        self.timeline.check()?;
        // Positions move in one step, after everything that can fail.
        self.with_held(self.timeline.hold(), work)
    }

    /// The same if nobody else holds it.
    pub(super) fn try_with<T>(
        &self,
        work: impl FnOnce(&mut Host) -> Result<T>,
    ) -> Option<Result<T>> {
        let held = self.timeline.try_hold()?;
        Some(self.with_held(held, work))
    }

    fn with_held<T>(
        &self,
        mut held: Held<'_>,
        work: impl FnOnce(&mut Host) -> Result<T>,
    ) -> Result<T> {
        let Some((host, freed)) = held.own::<Host>() else {
            return Err(self.refused("timeline of another driver".into()));
        };
        let done = work(host);
        freed.append(&mut host.freed);
        done
    }
}
