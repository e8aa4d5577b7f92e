//! [`Engine`]: the running queues of a device; ends them when the last handle is gone.
//!
//! | file | idea |
//! |---|---|
//! | `staging` | the driver's own queue for host copies |
//! | [`load`] | vendor part of loading a kernel |
//! | [`grown`] | per-thread memory of kernels |
//! | `inflight` | packets in flight, read back from the ring |
//! | `report` | the same in words |

pub mod grown;
mod inflight;
pub mod load;
mod report;
mod staging;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use drivers_bundle::schema::Queue;
use hcq::progress::{self, Asked, Silence};
use hcq::sync::lock;
use hcq::transport::MonotonicClock;
use hcq::{Deadline, Error, KernelImage, Program, QueueKind, Result};

use self::load::{Load, Loader};
pub use self::staging::RELAY_RING;
use self::staging::StagingQueue;
use crate::backend::space::RunnableWork;
use crate::backend::verdict::Handle;
use crate::backend::{Age, Exception, PAGE_BITS};
use crate::core::Core;
use crate::core::queues::{Copies, Queues, Suspects};
use crate::memory::pool::Pool;
use crate::submit::{Channel, evidence};

/// Queues at the same waits for this long are considered stuck.
const STUCK: Duration = Duration::from_millis(50);

/// How long a look at queues that drain lasts.
const SLICE: Duration = Duration::from_millis(1);

/// How long the end of a device waits for threads that look at its queues, and how often.
const LOOKS: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_micros(50);

/// Opens the queue of the driver's own, which copies: a copy queue, or a compute queue where there is no other.
type Open<H> = Box<dyn Fn() -> Result<Channel<H>> + Send + Sync>;

/// The queues of a device, owned by its handles: they end with the last one.
pub struct Engine<H: Load> {
    /// The device.
    pub core: Arc<Core>,
    /// Its memory.
    pub pool: Arc<Pool>,
    drain_timeout: Duration,
    inner: Arc<Inner<H>>,
}

/// The same as others see them, who look for a moment, maybe in a thread of the queues' own. They neither keep the device
/// open nor end it.
struct Inner<H: Load> {
    core: Arc<Core>,
    pool: Arc<Pool>,
    channels: Vec<Arc<Channel<H>>>,
    /// Made when the host first needs it.
    staging: Mutex<Option<Arc<StagingQueue<H>>>>,
    open: Open<H>,
    shared: H::Shared,
    /// Nothing of the queues can write any more.
    is_stopped: AtomicBool,
}

impl<H: Load> Engine<H> {
    /// The engine of these queues. `open` makes a queue of the driver's own that copies, once the host needs
    /// one: never where all memory is the host's; the end of the device waits for work that still runs until nothing has moved for `drain_timeout`.
    pub fn new(
        core: &Arc<Core>,
        pool: &Arc<Pool>,
        channels: Vec<Channel<H>>,
        open: Open<H>,
        shared: H::Shared,
        drain_timeout: Duration,
    ) -> Arc<Engine<H>> {
        let inner = Arc::new(Inner {
            core: core.clone(),
            pool: pool.clone(),
            channels: channels.into_iter().map(Arc::new).collect(),
            staging: Mutex::default(),
            open,
            shared,
            is_stopped: AtomicBool::new(false),
        });
        let work: Arc<dyn RunnableWork> = inner.clone();
        core.backend
            .space()
            .watch_runnable_work(Arc::downgrade(&work));
        let watched: Arc<dyn progress::Queues> = inner.clone();
        progress::watch(Arc::downgrade(&watched));
        let queues: Arc<dyn Queues> = inner.clone();
        let engine = Arc::new(Engine {
            core: core.clone(),
            pool: pool.clone(),
            drain_timeout,
            inner,
        });
        core.set_queues(
            Arc::downgrade(&queues),
            Arc::downgrade(&engine) as Weak<dyn Copies>,
        );
        engine
    }

    /// A queue.
    pub fn channel(&self, kind: QueueKind, index: u32) -> Option<&Arc<Channel<H>>> {
        let is = |c: &&Arc<Channel<H>>| c.kind() == kind && c.index() == index;
        self.inner.channels.iter().find(is)
    }

    /// Puts a compiled kernel into device memory.
    ///
    /// # Errors
    /// See [`Load::load`].
    pub fn load(&self, image: &KernelImage) -> Result<Program> {
        let Some(channel) = self.channel(QueueKind::Compute, 0) else {
            return Err(self.core.closed());
        };
        let on = Loader {
            core: &self.core,
            pool: &self.pool,
            channel,
            shared: &self.inner.shared,
        };
        H::load(&on, image)
    }

    /// What copies between host memory and VRAM.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`].
    fn staging(&self) -> Result<Arc<StagingQueue<H>>> {
        let mut staging = self.inner.staging();
        if let Some(staging) = &*staging {
            return Ok(staging.clone());
        }
        let channel = Arc::new((self.inner.open)()?);
        let made = Arc::new(StagingQueue::new(&self.core, &self.pool, channel)?);
        *staging = Some(made.clone());
        Ok(made)
    }

    /// Blocks until everything submitted so far is done.
    ///
    /// # Errors
    /// [`Error::Timeout`], or the loss of the device.
    pub fn synchronize(&self, deadline: Deadline) -> Result<()> {
        self.inner.channels.iter().try_for_each(|channel| {
            let done = channel.synchronize(deadline);
            done.map_err(|mut error| {
                if let Error::Timeout { what, .. } = &mut error {
                    *what += &format!(" ({})", report::report(channel));
                }
                self.core.overdue(error)
            })
        })
    }

    /// Waits for submitted work as long as it can progress. Returns whether all is complete.
    fn drain(&self) -> bool {
        if self.core.lost.is_lost() {
            return true;
        }
        let mut silence = Silence::new(Deadline::after(self.drain_timeout));
        let mut age = Age::NEW;
        let mut stuck: Option<(Vec<u64>, Deadline)> = None;
        let space = self.core.backend.space();
        loop {
            let mut busy = Vec::new();
            for channel in &self.inner.channels {
                match channel.is_idle() {
                    Ok(true) => {}
                    Ok(false) => busy.push(channel),
                    // Lost: nothing runs any more.
                    Err(_) => return true,
                }
            }
            if busy.is_empty() {
                return true;
            }
            // A kernel that never ends must not keep the device: only pointers count.
            let unmoved = || busy.iter().map(|channel| channel.unmoved()).min();
            if silence.left(&MonotonicClock).is_zero()
                && silence.over(&MonotonicClock, unmoved).is_some()
            {
                return false;
            }
            // Every queue is blocked by a wait that no earlier packet ends: only another device or the
            // host could, and the host has no handle left to do so.
            let at: Option<Vec<u64>> = busy.iter().map(|c| inflight::held(c)).collect();
            // Another device with runnable work may end the wait.
            let at = at.filter(|_| !space.has_runnable_work());
            stuck = match (at, stuck) {
                (Some(at), Some((same, since))) if at == same => {
                    if since.expired(&MonotonicClock) {
                        return false;
                    }
                    Some((same, since))
                }
                (Some(at), _) => Some((at, Deadline::after(STUCK))),
                (None, _) => None,
            };
            if self.core.sleep(None, &mut age, SLICE).is_err() {
                return true;
            }
        }
    }
}

impl<H: Load> Inner<H> {
    /// The driver's own queue, if it exists. While it is being created the lock is held: it has no state to report yet.
    fn own(&self) -> Option<Arc<Channel<H>>> {
        let made = self.staging.try_lock().ok()?;
        Some(made.as_ref()?.channel().clone())
    }

    fn staging(&self) -> MutexGuard<'_, Option<Arc<StagingQueue<H>>>> {
        lock(&self.staging)
    }
}

impl<H: Load> Handle for Inner<H> {
    fn number(&self) -> u64 {
        self.core.number
    }

    fn place(&self) -> &str {
        &self.core.facts().place
    }

    fn names(&self, exception: &Exception) -> bool {
        let at = match exception {
            Exception::Memory(fault) => Some(fault.va),
            Exception::Refused(refused) => refused.at,
            Exception::Reset(_) => None,
        };
        at.is_some_and(|va| self.suspects(va & !PAGE_BITS).guilty.is_some())
    }

    fn is_busy(&self) -> bool {
        let own = self.own();
        let mut all = self.channels.iter().chain(&own);
        all.any(|channel| !inflight::packets(channel).is_empty())
    }
}

impl<H: Load> RunnableWork for Inner<H> {
    fn has_runnable_work(&self) -> bool {
        let is_runnable =
            |c: &Arc<Channel<H>>| matches!(c.is_idle(), Ok(false)) && inflight::held(c).is_none();
        self.channels.iter().any(is_runnable)
    }
}

impl<H: Load> progress::Queues for Inner<H> {
    fn raising(&self, at: u64, asked: &mut Asked) -> Option<Duration> {
        // Rings of the parent are not mapped here.
        if self.core.lost.is_inherited() {
            return None;
        }
        let own = self.own();
        let channels = self.channels.iter().chain(&own);
        let raising = channels.filter(|channel| inflight::raises(channel, at));
        raising
            .map(|channel| inflight::silence(channel, asked))
            .min()
    }
}

impl<H: Load> Queues for Inner<H> {
    fn wake(&self) {
        for channel in &self.channels {
            channel.wake();
        }
    }

    fn reclaim(&self) {
        for channel in &self.channels {
            channel.reclaim_retired();
        }
    }

    fn report(&self) -> String {
        let lines = self.channels.iter().map(|channel| report::line(channel));
        let lines = lines.filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join("; ")
    }

    fn runs(&self) -> bool {
        self.channels.iter().any(|channel| inflight::runs(channel))
    }

    fn suspects(&self, page: u64) -> Suspects {
        let own = self.own();
        report::suspects(self.channels.iter().chain(&own).map(|c| &**c), page)
    }

    fn evidence(&self) -> Vec<Queue> {
        let own = self.own();
        let channels = self.channels.iter().chain(&own);
        channels.map(|channel| evidence::queue(channel)).collect()
    }
}

impl<H: Load> Copies for Engine<H> {
    fn read(&self, va: u64, into: &mut [u8]) -> Result<()> {
        self.staging()?.read(va, into)
    }

    fn write(&self, va: u64, from: &[u8]) -> Result<()> {
        self.staging()?.write(va, from)
    }

    fn fill(&self, va: u64, value: u32, bytes: u64) -> Result<()> {
        self.staging()?.fill(va, value, bytes)
    }
}

impl<H: Load> Drop for Engine<H> {
    fn drop(&mut self) {
        let (core, inner) = (&self.core, &self.inner);
        // The queues and their resources belong to the parent: a fork has inherited locks that no thread releases, and would take
        // queues of the parent's out of the hardware.
        if core.lost.is_inherited() {
            std::mem::forget(inner.clone());
            return;
        }
        if !self.drain() {
            let report = inner.report();
            let error = core.closed();
            tracing::warn!(device = %core.id, report, "closed while queues still wait");
            // Waiters of dropped work must end.
            core.lost.lose(match error {
                Error::Fault { device, unit, what } => Error::Fault {
                    device,
                    unit,
                    what: format!("{what}; {report}"),
                },
                other => other,
            });
        }
        let own = inner.staging().as_ref().map(|made| made.channel().clone());
        let queues = inner.channels.iter().chain(&own);
        let running = queues.filter(|channel| !channel.stop());
        let running: Vec<_> = running.map(|channel| channel.unit()).collect();
        inner
            .is_stopped
            .store(running.is_empty(), Ordering::Release);
        if !running.is_empty() {
            let unit = running.join(", ");
            tracing::warn!(device = %core.id, unit, "could not stop queues: leaking their memory");
            core.lost.lose(Error::Fault {
                device: core.id.clone(),
                unit,
                what: "could not be stopped and may still write memory".into(),
            });
        }
        drop(own);
        // Who looks lets go soon. All is freed when this returns, unless one of them takes very long: it frees it then.
        let soon = Deadline::after(LOOKS);
        while Arc::strong_count(inner) > 1 && !soon.expired(&MonotonicClock) {
            std::thread::sleep(GLANCE);
        }
    }
}

impl<H: Load> Drop for Inner<H> {
    fn drop(&mut self) {
        // The queues are destroyed before their resources are freed.
        drop(self.staging().take());
        self.channels.clear();
        if self.is_stopped.load(Ordering::Acquire) {
            self.core.lost.stop();
            self.pool.end();
        }
    }
}
