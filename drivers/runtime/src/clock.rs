//! [`Clock`]: the time of a GPU, by timed events; [`Stamps`]: the timestamps of a stream.
//!
//! A runtime tells the time between two events as a 32-bit float of milliseconds, and no absolute one. So times count from
//! an event that is over, the base, of which there is one for all streams of a device. It is replaced by a later one every second, which counts from it:
//! over a second a float tells a tenth of a microsecond. The unit is nanoseconds.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use drivers_host::clock::monotonic_ns;
use hcq::Deadline;
use hcq::sync::lock;
use hcq::transport::MonotonicClock;

use crate::calls::{Event, Gpu, Stream};
use crate::refusal::{Answer, Refusal};

/// How long a base is used.
const BASE_NS: u64 = 1_000_000_000;

/// How long an event of a stream without work may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Looks without sleeping, and the sleep between two looks after them.
const LOOKS: u32 = 1000;
const SLICE: Duration = Duration::from_micros(50);

/// The time of a GPU.
pub(crate) struct Clock {
    gpu: Arc<Gpu>,
    /// Without work.
    stream: Stream,
    base: Mutex<Option<Base>>,
}

struct Base {
    event: Event,
    /// Its time.
    ns: u64,
    /// When it was made, on the host's clock.
    made: u64,
}

impl Base {
    /// The time of an event that is over: it may be an earlier one.
    fn of(&self, event: &Event) -> Answer<u64> {
        let ms = f64::from(event.since(&self.event)?);
        Ok(self.ns.saturating_add_signed((ms * 1e6) as i64))
    }
}

impl Clock {
    /// The clock of a GPU.
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Answer<Clock> {
        Ok(Clock {
            gpu: gpu.clone(),
            stream: gpu.stream()?,
            base: Mutex::default(),
        })
    }

    /// The time now.
    pub(crate) fn now(&self) -> Answer<u64> {
        let mut base = lock(&self.base);
        self.renew(&mut base)
    }

    /// Sees to it that there is a base, and not an old one: before an event is recorded.
    pub(crate) fn start(&self) -> Answer<()> {
        let mut base = lock(&self.base);
        let is_new = |base: &Base| monotonic_ns() < base.made + BASE_NS;
        if base.as_ref().is_some_and(is_new) {
            return Ok(());
        }
        match (self.renew(&mut base), &mut *base) {
            // A GPU that is kept busy by others: the old one does, less exactly.
            (Err(refusal), Some(old)) if refusal.code == 0 => {
                old.made = monotonic_ns();
                Ok(())
            }
            (renewed, _) => renewed.map(drop),
        }
    }

    /// The time of an event that is over, and was recorded after [`Clock::start`].
    fn of(&self, event: &Event) -> Answer<u64> {
        match &*lock(&self.base) {
            Some(base) => base.of(event),
            None => Ok(0),
        }
    }

    /// Makes a base of this moment, and gives its time.
    fn renew(&self, base: &mut Option<Base>) -> Answer<u64> {
        let event = self.gpu.event()?;
        self.stream.record(&event)?;
        let soon = Deadline::after(LIMIT);
        let mut looks = 0;
        while !event.is_past()? {
            if soon.expired(&MonotonicClock) {
                return Err(late());
            }
            match looks < LOOKS {
                true => std::thread::yield_now(),
                false => std::thread::sleep(SLICE),
            }
            looks += 1;
        }
        let made = monotonic_ns();
        let ns = match base {
            // The first one: any number does, and this one is easy to read beside the host's.
            None => made,
            Some(old) => old.of(&event)?.max(old.ns),
        };
        *base = Some(Base { event, ns, made });
        Ok(ns)
    }
}

#[cold]
fn late() -> Refusal {
    Refusal::own(
        "clock",
        format!("an event of a stream without work was not over after {LIMIT:?}"),
        "The GPU hangs, or another program keeps it busy",
    )
}

/// The timestamps of a stream.
pub(crate) struct Stamps {
    gpu: Arc<Gpu>,
    clock: Arc<Clock>,
    /// Recorded, with the address of the signal.
    pending: Vec<(Event, u64)>,
    /// To be recorded again.
    spare: Vec<Event>,
    /// The last one: none is earlier.
    last: u64,
}

impl Stamps {
    pub(crate) fn new(gpu: &Arc<Gpu>, clock: &Arc<Clock>) -> Stamps {
        Stamps {
            gpu: gpu.clone(),
            clock: clock.clone(),
            pending: Vec::new(),
            spare: Vec::new(),
            last: 0,
        }
    }

    /// Records the time of a signal.
    pub(crate) fn record(&mut self, stream: &Stream, at: u64) -> Answer<()> {
        self.clock.start()?;
        let event = match self.spare.pop() {
            Some(event) => event,
            None => self.gpu.event()?,
        };
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
            // Events that the runtime cannot tell apart are a nanosecond apart: what was between them took time.
            self.last = self.clock.of(&event)?.max(self.last + 1);
            told(at, self.last);
            self.spare.push(event);
        }
        Ok(())
    }
}
