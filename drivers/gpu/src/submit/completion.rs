//! Objects kept by a queue, released once its timeline has passed the end of the submission that used them
//! ([`super::marks`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hcq::Result;
use hcq::command_buffer::Keep;

use super::channel::{Channel, Host};
use super::hardware::{Hardware, Submit};
use super::marks::Reached;
use crate::memory::pool::Piece;

/// A mark is due when this part of the ring, or of the arguments, was used since the last one.
const MARK_EVERY: u64 = 8;

impl<H: Hardware> Channel<H> {
    /// Keeps something until everything that is in the ring now is done, or, if the device is lost, until it is stopped.
    pub fn retire(&self, what: Keep) {
        self.retire_with(what, None);
    }

    /// The same with memory of words that the device fetches itself.
    pub fn retire_with(&self, what: Keep, words: Option<Piece>) {
        // A fork may have inherited a lock that no thread releases; the memory belongs to the parent.
        if self.core.lost.is_inherited() {
            std::mem::forget((what, words));
            return;
        }
        // Who lets go may hold the queue: he is in a submission.
        self.aside.put(what, words);
        let done = self.try_with(|host| {
            self.take_over(host);
            Ok(())
        });
        if let Some(Err(error)) = done {
            tracing::debug!(%error, "could not reclaim ring space");
        }
    }

    /// Keeps resources that were released while the queue was locked. Not during a submission: its own resources may be
    /// among them, and they belong to no complete submission yet.
    pub(super) fn take_over(&self, host: &mut Host) {
        if self.aside.is_there() {
            for (what, words) in self.aside.take() {
                self.retire_in(host, what, words);
            }
        }
    }

    fn retire_in(&self, host: &mut Host, what: Keep, words: Option<Piece>) {
        // What the host has seen needs no look.
        host.marks.mark();
        self.let_go(host, self.reached_as_seen(host));
        let looks = !host.marks.is_idle(host.wptr) && !self.way().is_remote();
        if looks && let Err(error) = self.reclaim(host) {
            tracing::debug!(%error, "could not reclaim ring space");
        }
        let submission = host.marks.submissions();
        if let Some(words) = words
            && submission > host.marks.read()
        {
            host.read.push_back((submission, Arc::new(words)));
        }
        if host.marks.is_idle(host.wptr) {
            host.freed.push(what);
            return;
        }
        host.retired.push_back((submission, what));
        // Else the next submission brings the mark.
        if let Err(error) = self.mark(host) {
            tracing::debug!(%error, "could not submit a fence: freed memory is kept until the next one");
        }
    }

    /// Frees resources of completed packets.
    pub fn reclaim_retired(&self) {
        // The owner of the lock frees them itself.
        let done = self.try_with(|host| {
            self.take_over(host);
            self.mark(host)?;
            self.reclaim(host)
        });
        if let Some(Err(error)) = done {
            tracing::debug!(%error, "could not reclaim ring space");
        }
    }

    #[inline]
    pub(super) fn mark_if_due(&self, host: &mut Host) {
        let ring = host.marks.unmarked(host.wptr) >= self.way().size() / MARK_EVERY;
        let arguments = host.arguments.wants_mark(MARK_EVERY);
        let retired = host
            .retired
            .back()
            .is_some_and(|(submission, _)| !host.marks.covers(*submission));
        if (ring || arguments || retired)
            && let Err(error) = self.mark(host)
        {
            tracing::debug!(%error, "fence delayed");
        }
    }

    /// Adds a mark after all words in the ring: by the timeline, or by a fence where the timeline does not cover them.
    pub(super) fn mark(&self, host: &mut Host) -> Result<()> {
        host.marks.mark();
        // Also where the last words of the last submission are waited for.
        let is_read = host.marks.read() == host.marks.submissions();
        if host.marks.unmarked(host.wptr) > 0 || host.marks.is_empty() && !is_read {
            self.fence(host)?;
        }
        if !host.is_inside {
            host.arguments.seal(host.marks.submissions());
        }
        Ok(())
    }

    /// Adds a fence after all words in the ring. If it had to wait, none is added: submissions
    /// leave room for one fence, and there is a block for each possible fence.
    fn fence(&self, host: &mut Host) -> Result<()> {
        // A lost device gets no doorbells.
        self.core.lost.check()?;
        let Some(fence) = host.marks.next_fence() else {
            return Ok(());
        };
        let mut packets = std::mem::take(&mut host.fence);
        let done = self
            .fences
            .encode(fence, &self.hardware, &mut packets)
            .and_then(|()| {
                let placed = self.fences.place(fence, &self.hardware, &mut packets);
                placed.map_err(|e| self.broken(e))?;
                let (used, more) = (host.wptr - host.free, packets.words.len());
                let fits = host.marks.is_empty() || self.way().missing(used, more) == 0;
                if fits {
                    self.write(host, &packets.words)?;
                    host.marks.fence(host.wptr);
                }
                Ok(())
            });
        host.fence = packets;
        done
    }

    /// How far the device is.
    #[inline]
    pub(super) fn reached(&self, host: &Host) -> Result<Reached> {
        Ok(Reached {
            timeline: self.timeline.signal().value()?,
            // Each look costs a transfer where memory is remote.
            fence: match host.marks.has_fences() {
                true => self.fences.reached().map_err(|e| self.broken(e))?,
                false => host.marks.fences()[1],
            },
        })
    }

    /// The same as the host has seen it, without a look.
    pub(super) fn reached_as_seen(&self, host: &Host) -> Reached {
        Reached {
            timeline: self.timeline.signal().seen(),
            fence: host.marks.fences()[1],
        }
    }

    /// Takes back what timeline, fences and read pointer say is done.
    pub(super) fn reclaim(&self, host: &mut Host) -> Result<()> {
        let reached = self.reached(host)?;
        self.let_go(host, reached);
        if let Some(taken) = self.way().taken().map_err(|e| self.broken(e))?
            && taken <= host.wptr
        {
            host.free = host.free.max(taken);
        }
        Ok(())
    }

    /// Releases resources of completed work, given the device's progress.
    pub(super) fn let_go(&self, host: &mut Host, reached: Reached) {
        let done = host.marks.advance(reached);
        self.done.store(done, Ordering::Relaxed);
        let (passed, read) = (host.marks.passed(), host.marks.read());
        host.free = host.free.max(done);
        host.arguments.reclaim(read);
        for (kept, over) in [(&mut host.retired, passed), (&mut host.read, read)] {
            while let Some((submission, _)) = kept.front()
                && *submission <= over
            {
                let over = kept.pop_front();
                host.freed.extend(over.map(|(_, what)| what));
            }
        }
    }
}
