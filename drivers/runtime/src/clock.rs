//! [`Stamps`]: timestamps of a stream, by timed events.
//!
//! A runtime tells the time between two events as a 32-bit float of milliseconds, and no absolute one. So one event is met by the thread and
//! gets the host's clock; others count from it. It is made anew every second: over that a float tells a tenth of a
//! microsecond. The clock of the device is the host's monotonic one, in nanoseconds.

use std::sync::Arc;

use drivers_host::clock::monotonic_ns;

use crate::calls::{Event, Gpu, Stream};
use crate::refusal::Answer;

/// How long an anchor is used.
const ANCHOR_NS: u64 = 1_000_000_000;

/// An event with its time.
struct Anchor {
    event: Event,
    ns: u64,
}

/// The timestamps of a stream.
pub(crate) struct Stamps {
    gpu: Arc<Gpu>,
    anchor: Option<Anchor>,
    /// Recorded, with the address of the signal.
    pending: Vec<(Event, u64)>,
    /// To be recorded again.
    spare: Vec<Event>,
    /// The last one: none is earlier.
    last: u64,
}

impl Stamps {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Stamps {
        Stamps {
            gpu: gpu.clone(),
            anchor: None,
            pending: Vec::new(),
            spare: Vec::new(),
            last: 0,
        }
    }

    fn event(&mut self) -> Answer<Event> {
        match self.spare.pop() {
            Some(event) => Ok(event),
            None => self.gpu.event(),
        }
    }

    /// An event to be met now, if the anchor is none or old.
    pub(crate) fn new_anchor(&mut self, stream: &Stream) -> Answer<Option<Event>> {
        let is_new = self
            .anchor
            .as_ref()
            .is_some_and(|anchor| monotonic_ns() < anchor.ns + ANCHOR_NS);
        if is_new || !self.pending.is_empty() {
            return Ok(None);
        }
        let event = self.event()?;
        stream.record(&event)?;
        Ok(Some(event))
    }

    /// The event is over just now.
    pub(crate) fn set_anchor(&mut self, event: Event) {
        let ns = monotonic_ns();
        let old = self.anchor.replace(Anchor { event, ns });
        self.spare.extend(old.map(|old| old.event));
    }

    /// Records the time of a signal.
    pub(crate) fn record(&mut self, stream: &Stream, at: u64) -> Answer<()> {
        let event = self.event()?;
        stream.record(&event)?;
        self.pending.push((event, at));
        Ok(())
    }

    /// Whether some are recorded and not told.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The last event that is recorded.
    pub(crate) fn last_event(&self) -> Option<&Event> {
        self.pending.last().map(|(event, _)| event)
    }

    /// Tells the times of all recorded events, which are over.
    pub(crate) fn tell(&mut self, mut told: impl FnMut(u64, u64)) -> Answer<()> {
        for (event, at) in self.pending.drain(..) {
            if let Some(anchor) = &self.anchor {
                let ms = f64::from(event.since(&anchor.event)?).max(0.0);
                self.last = self.last.max(anchor.ns + (ms * 1e6) as u64);
            }
            told(at, self.last);
            self.spare.push(event);
        }
        Ok(())
    }
}
