//! [`Channel`]: the host side of one queue: submissions, and reclaiming what they used.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
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
    /// Whether the ring gets references to words in memory instead of the words: it supports nothing else, or it is behind
    /// a USB cable, where a submission is one piece of memory and a few words.
    pub(super) by_name: bool,
    /// The position after completed words, for readers without the lock.
    pub(super) done: AtomicU64,
    /// For long waits.
    pub(super) seen: Seen,
    pub(super) stood: Seen,
    pub(super) aside: Aside,
    /// The last submissions and the number of reached fences, while the thread that has the lock looks for the cause of a loss.
    pub(super) lent: Mutex<Option<(Recent, [u64; 2])>>,
}

/// The host's state of a queue, under the timeline's lock.
pub(super) struct Host {
    /// The position after the submitted words.
    pub(super) wptr: u64,
    /// The position after the fetched words: in a ring these may be overwritten.
    pub(super) free: u64,
    pub(super) marks: Marks,
    /// A submission is being written: its resources belong to no complete submission yet.
    pub(super) is_inside: bool,
    pub(super) arguments: KernargRing,
    /// Resources that only the device still uses, until that number of submissions is complete.
    pub(super) retired: VecDeque<(u64, Keep)>,
    /// The same for memory that the device fetches itself, until it fetches nothing more of that number of submissions.
    pub(super) read: VecDeque<(u64, Keep)>,
    /// Released resources, to be dropped outside of the lock.
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
            lent: Mutex::default(),
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

    /// How long a submission waits for space without progress.
    pub(crate) fn full_limit(&self) -> Duration {
        self.full_limit
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

    /// Appends the queue's reference to a submission with its words at an address.
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

    /// Removes the queue from the hardware. Returns whether it can no longer write.
    pub fn stop(&self) -> bool {
        self.hardware.stop()
    }

    /// Cannot be where memory is mapped: offsets are inside of it.
    #[cold]
    pub(super) fn broken(&self, error: TransportError) -> Error {
        self.core.broken(self.unit(), error)
    }

    /// Runs `work` with the state under the timeline's lock.
    ///
    /// # Errors
    /// What `work` returns.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Host) -> Result<T>) -> Result<T> {
        self.timeline.check()?;
        // Positions move in one step, after everything that can fail.
        self.with_held(self.timeline.hold(), work)
    }

    /// The same if the lock is free.
    pub(super) fn try_with<T>(
        &self,
        work: impl FnOnce(&mut Host) -> Result<T>,
    ) -> Option<Result<T>> {
        let held = self.timeline.try_hold()?;
        Some(self.with_held(held, work))
    }

    pub(super) fn with_held<T>(
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
