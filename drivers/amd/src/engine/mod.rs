//! [`Engine`]: the running queues of a device; ends them when the last handle is gone.
//!
//! | file | idea |
//! |---|---|
//! | [`staging`] | the queue of the driver's own, which copies for the host |
//! | [`scratch`] | the scratch memory of kernels |
//! | [`inflight`] | what a queue may be doing, read back from its ring |
//! | [`report`] | the same in words |

mod inflight;

mod report;
mod scratch;
mod staging;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hcq::transport::MonotonicClock;
use hcq::{Deadline, Error, QueueKind, Result};

use self::scratch::Held;
use self::staging::StagingQueue;
use crate::chip::{Chip, Language};
use crate::interface::AmdInterface;
use crate::options::Options;
use crate::submit::{Channel, QueueSpec};
use drivers_gpu::core::Core;
use drivers_gpu::core::queues::{Queues, Suspects};
use drivers_gpu::interface::Age;
use drivers_gpu::interface::space::Moves;
use drivers_gpu::memory::pool::Pool;

/// How long queues must stand at the same waits before they are taken to be stuck there.
const STUCK: Duration = Duration::from_millis(50);

/// How long a look at queues that drain lasts.
const SLICE: Duration = Duration::from_millis(1);

/// The queues of a device.
pub(crate) struct Engine {
    pub(crate) core: Arc<Core>,
    pub(crate) chip: &'static Chip,
    interface: Arc<dyn AmdInterface>,
    pub(crate) pool: Arc<Pool>,
    options: Options,
    channels: Vec<Arc<Channel>>,
    /// Made when the host first needs it.
    staging: Mutex<Option<Arc<StagingQueue>>>,
    scratch: Held,
}

impl Engine {
    /// Opens one compute queue and the copy queues.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`].
    pub(crate) fn open(
        core: &Arc<Core>,
        interface: &Arc<dyn AmdInterface>,
        pool: &Arc<Pool>,
        compute: Language,
        options: &Options,
        copies: u32,
    ) -> Result<Arc<Engine>> {
        let mut channels = Vec::new();
        let compute = QueueSpec {
            kind: QueueKind::Compute,
            index: 0,
            language: compute,
        };
        let copies = (0..copies).map(|index| QueueSpec {
            kind: QueueKind::Copy,
            index,
            language: Language::Sdma,
        });
        for spec in std::iter::once(compute).chain(copies) {
            channels.push(Arc::new(Channel::open(
                core, interface, pool, &spec, options,
            )?));
        }
        let engine = Arc::new(Engine {
            core: core.clone(),
            chip: interface.gpu().chip,
            interface: interface.clone(),
            pool: pool.clone(),
            options: options.clone(),
            channels,
            staging: Mutex::default(),
            scratch: Held::default(),
        });
        core.set_queues(Arc::downgrade(&engine) as Weak<dyn Queues>);
        let moves: Arc<dyn Moves> = engine.clone();
        core.interface.space().watch_moves(Arc::downgrade(&moves));
        Ok(engine)
    }

    /// A queue.
    pub(crate) fn channel(&self, kind: QueueKind, index: u32) -> Option<&Arc<Channel>> {
        let is = |c: &&Arc<Channel>| c.kind() == kind && c.index() == index;
        self.channels.iter().find(is)
    }

    /// Makes kernels have `lane_bytes` of scratch for each lane at least. `program` is who wants them.
    ///
    /// # Errors
    /// See [`Held::grow`].
    pub(crate) fn need_scratch(&self, lane_bytes: u32, program: &str) -> Result<()> {
        match self.channel(QueueKind::Compute, 0) {
            Some(channel) => {
                let (core, pool) = (&self.core, &self.pool);
                let gpu = self.interface.gpu();
                self.scratch
                    .grow(core, gpu, pool, channel, lane_bytes, program)
            }
            None => Ok(()),
        }
    }

    /// What copies between host memory and VRAM.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`].
    fn staging(&self) -> Result<Arc<StagingQueue>> {
        let mut staging = self.staging_slot();
        if let Some(staging) = &*staging {
            return Ok(staging.clone());
        }
        let spec = QueueSpec {
            kind: QueueKind::Copy,
            index: self.channels.len() as u32 - 1,
            language: Language::Sdma,
        };
        let options = Options {
            copy_ring: 0,
            ..self.options.clone()
        };
        let channel = Channel::open(&self.core, &self.interface, &self.pool, &spec, &options)?;
        let made = Arc::new(StagingQueue::new(
            &self.core,
            &self.pool,
            Arc::new(channel),
        )?);
        *staging = Some(made.clone());
        Ok(made)
    }

    fn staging_slot(&self) -> MutexGuard<'_, Option<Arc<StagingQueue>>> {
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks until everything submitted so far is done.
    ///
    /// # Errors
    /// [`Error::Timeout`], or the loss of the device.
    pub(crate) fn synchronize(&self, deadline: Deadline) -> Result<()> {
        self.channels.iter().try_for_each(|channel| {
            let done = channel.synchronize(deadline);
            done.map_err(|mut error| {
                if let Error::Timeout { what, .. } = &mut error {
                    *what += &format!(" ({})", report::report(channel));
                }
                error
            })
        })
    }

    /// Waits for what was submitted, as long as something can come of it. Says whether all is done.
    fn drain(&self) -> bool {
        let deadline = Deadline::after(self.options.drain_timeout);
        let mut age = Age::NEW;
        let mut stuck: Option<(Vec<u64>, Deadline)> = None;
        let space = self.core.interface.space();
        let mut ending = space.end();
        loop {
            let mut busy = Vec::new();
            for channel in &self.channels {
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
            if deadline.expired(&MonotonicClock) {
                return false;
            }
            // Every queue stands at a wait that nothing before it ends: only another device or the
            // host could, and the host has no handle left to do so.
            let at: Option<Vec<u64>> = busy
                .iter()
                .map(|c| inflight::blocked(c).filter(|b| b.1).map(|b| b.0.position))
                .collect();
            ending.set(at.is_none());
            // Another device that works may get to what is waited for.
            let at = at.filter(|_| !space.moves());
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

impl Moves for Engine {
    fn moves(&self) -> bool {
        let moves = |c: &Arc<Channel>| {
            let waits = inflight::blocked(c).is_some_and(|b| b.1);
            matches!(c.is_idle(), Ok(false)) && !waits
        };
        self.channels.iter().any(moves)
    }
}

impl Queues for Engine {
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
        let lines = self.channels.iter().filter_map(|channel| {
            let range = channel.in_flight();
            (!range.is_empty()).then(|| format!("{}: {}", channel.unit(), report::report(channel)))
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    fn suspects(&self, page: u64) -> Suspects {
        let staging = self.staging_slot().as_ref().map(|m| m.channel().clone());
        report::suspects(self.channels.iter().chain(&staging).map(|c| &**c), page)
    }

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

impl Drop for Engine {
    fn drop(&mut self) {
        if !self.drain() {
            let report = self.report();
            let error = self.core.closed();
            tracing::warn!(device = %self.core.id, report, "closed while queues still wait");
            // Nobody waits for ever for what is given up.
            self.core.lost.lose(match error {
                Error::Fault { device, unit, what } => Error::Fault {
                    device,
                    unit,
                    what: format!("{what}; {report}"),
                },
                other => other,
            });
        }
        // The queues are destroyed before what they use is freed.
        self.channels.clear();
        *self.staging_slot() = None;
        self.pool.end();
    }
}
