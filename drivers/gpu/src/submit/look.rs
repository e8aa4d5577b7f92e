//! The state of a queue: whether it is idle, what is in flight, how long without progress.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hcq::progress::{Asked, Silence, raising};
use hcq::transport::MonotonicClock;
use hcq::{Deadline, Error, Result};

use super::channel::{Channel, Host};
use super::decode::Packet;
use super::hardware::{Hardware, Submit};
use super::recent::{Recent, Submission};
use super::wait::{SLICE, Wait};
use crate::backend::Age;

impl<H: Hardware> Channel<H> {
    /// Whether everything submitted is known to be done.
    ///
    /// # Errors
    /// The loss of the device.
    pub fn is_idle(&self) -> Result<bool> {
        self.with(|host| self.settle(host))
    }

    fn settle(&self, host: &mut Host) -> Result<bool> {
        self.core.lost.check()?;
        self.take_over(host);
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
            // Before the check: later progress still counts.
            let mut left = silence.left(&MonotonicClock);
            let over = match left.is_zero() {
                true => silence.over(&MonotonicClock, || Some(self.silence())),
                false => None,
            };
            let (is_idle, wanted, seen) = self.with(|host| {
                let is_idle = self.settle(host)?;
                Ok((is_idle, host.marks.submissions(), host.marks.passed()))
            })?;
            if is_idle {
                return Ok(());
            }
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

    /// Runs `work` while the queue is idle and nothing is submitted to it.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the queue does not become idle; the loss of the device; the error of `work`.
    pub fn quiesce<T>(&self, work: impl FnOnce(&H) -> Result<T>) -> Result<T> {
        // Under the lock, so nothing is submitted.
        self.with(|host| {
            let mut wait = Wait::new(self.full_limit);
            while !self.settle(host)? {
                self.pause(host, &mut wait, |host| {
                    let what = format!("submissions to {} (waiting for idle)", self.unit());
                    (what, host.marks.submissions(), host.marks.passed())
                })?;
            }
            work(&self.hardware)
        })
    }

    /// The time without a change of its pointers and counters, as of the last checks.
    pub fn unmoved(&self) -> Duration {
        let timeline = self.timeline.signal().value().unwrap_or(0);
        let fences = self.fences.reached().unwrap_or(0);
        let (_, taken) = self.way().pointers();
        self.seen.note([timeline, fences, taken])
    }

    /// The time without progress here and in the queues that it waits for.
    pub(super) fn silence(&self) -> Duration {
        let timeline = self.timeline.signal().va().0;
        // A queue under construction has no other user.
        raising(timeline, &mut Asked::default()).unwrap_or_else(|| self.unmoved())
    }

    /// The same for the packets at the queue's position.
    pub fn stands(&self, marks: impl IntoIterator<Item = u64>) -> Duration {
        self.stood.note(marks)
    }

    /// Reads the last submissions and the number of reached fences; not during a submission.
    pub fn with_recent(&self, look: impl FnOnce(&Recent, [u64; 2])) {
        let done = self.try_with(|host| {
            look(&host.recent, host.marks.fences());
            Ok(())
        });
        if let Some(Err(error)) = done {
            tracing::debug!(%error, "last submission unknown");
        }
    }

    /// Positions between which there may be packets that are not done.
    pub fn in_flight(&self) -> Range<u64> {
        let known = self.try_with(|host| {
            // For a lost device, the last known state.
            let reached = self.reached(host);
            let reached = reached.unwrap_or_else(|_| self.reached_as_seen(host));
            Ok(host.marks.done_by(reached)..host.wptr)
        });
        match known {
            Some(Ok(range)) => self.held(range),
            // A thread is waiting for room.
            _ => self.held(self.done.load(Ordering::Relaxed)..self.way().submitted()),
        }
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

    /// Shows the packets between two positions: from the ring, or, if it cannot be read, from the last submissions.
    pub fn visit(&self, range: Range<u64>, see: &mut dyn FnMut(Packet)) {
        if let Some(ring) = self.way().ring() {
            let words = ring.words(range.clone());
            return self.hardware.visit(&self.core, &words, range.start, see);
        }
        self.with_recent(|recent, _| {
            for (_, one) in recent.all() {
                let place = self.place_of(one);
                if range.start <= place.start && place.end <= range.end {
                    self.hardware
                        .visit(&self.core, one.words(), place.start, see);
                }
            }
        });
    }
}
