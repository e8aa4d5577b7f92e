//! [`Engine`]: the running queues of a device; ends them when the last handle is gone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hcq::transport::MonotonicClock;
use hcq::{Deadline, Error, QueueKind, Result};

use crate::channel::{Channel, Which};
use crate::core::Core;
use crate::inflight;
use crate::kfd::event::Age;
use crate::kfd::queue::Kind;
use crate::options::Options;
use crate::pool::Pool;
use crate::staging::Mover;

/// How long queues must stand at the same waits before they are taken to be stuck there.
const STUCK: Duration = Duration::from_millis(50);

/// How long a look at queues that drain lasts.
const SLICE: Duration = Duration::from_millis(1);

/// The queues of a device.
pub(crate) struct Engine {
    pub(crate) core: Arc<Core>,
    pub(crate) pool: Arc<Pool>,
    options: Options,
    channels: Vec<Arc<Channel>>,
    /// Made when the host first needs it.
    mover: Mutex<Option<Arc<Mover>>>,
}

impl Engine {
    /// Opens one compute queue and the copy queues.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`].
    pub(crate) fn open(
        core: &Arc<Core>,
        pool: &Arc<Pool>,
        compute: Kind,
        options: &Options,
        copies: u32,
    ) -> Result<Arc<Engine>> {
        let mut channels = Vec::new();
        let compute = Which {
            kind: QueueKind::Compute,
            index: 0,
            packets: compute,
        };
        let copies = (0..copies).map(|index| Which {
            kind: QueueKind::Copy,
            index,
            packets: Kind::Sdma,
        });
        for which in std::iter::once(compute).chain(copies) {
            channels.push(Arc::new(Channel::open(core, pool, &which, options)?));
        }
        let engine = Arc::new(Engine {
            core: core.clone(),
            pool: pool.clone(),
            options: options.clone(),
            channels,
            mover: Mutex::default(),
        });
        core.set_engine(&engine);
        Ok(engine)
    }

    /// A queue.
    pub(crate) fn channel(&self, kind: QueueKind, index: u32) -> Option<&Arc<Channel>> {
        let is = |c: &&Arc<Channel>| c.kind() == kind && c.index() == index;
        self.channels.iter().find(is)
    }

    /// All queues, that of the driver itself included.
    pub(crate) fn channels(&self) -> Vec<Arc<Channel>> {
        let mut all = self.channels.clone();
        all.extend(self.mover_slot().as_ref().map(|m| m.channel().clone()));
        all
    }

    /// What copies between host memory and VRAM.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Os`].
    pub(crate) fn mover(&self) -> Result<Arc<Mover>> {
        let mut mover = self.mover_slot();
        if let Some(mover) = &*mover {
            return Ok(mover.clone());
        }
        let which = Which {
            kind: QueueKind::Copy,
            index: self.channels.len() as u32 - 1,
            packets: Kind::Sdma,
        };
        let options = Options {
            copy_ring: 0,
            ..self.options.clone()
        };
        let channel = Channel::open(&self.core, &self.pool, &which, &options)?;
        let made = Arc::new(Mover::new(&self.core, Arc::new(channel))?);
        *mover = Some(made.clone());
        Ok(made)
    }

    fn mover_slot(&self) -> MutexGuard<'_, Option<Arc<Mover>>> {
        self.mover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes every thread that waits for a timeline.
    pub(crate) fn wake(&self) {
        for channel in &self.channels {
            channel.wake();
        }
    }

    /// Where each queue stands that has something to do; empty if none has.
    pub(crate) fn report(&self) -> String {
        let lines = self.channels.iter().filter_map(|c| {
            let range = c.in_flight();
            (!range.is_empty()).then(|| format!("{}: {}", c.unit(), c.report()))
        });
        lines.collect::<Vec<_>>().join("; ")
    }

    /// Blocks until everything submitted so far is done.
    ///
    /// # Errors
    /// [`Error::Timeout`], or the loss of the device.
    pub(crate) fn synchronize(&self, deadline: Deadline) -> Result<()> {
        self.channels
            .iter()
            .try_for_each(|channel| channel.synchronize(deadline))
    }

    /// Waits for what was submitted, as long as something can come of it. Says whether all is done.
    fn drain(&self) -> bool {
        let deadline = Deadline::after(self.options.drain_timeout);
        let mut age = Age::NEW;
        let mut stuck: Option<(Vec<u64>, Deadline)> = None;
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

impl Channel {
    /// Where it stands: pointers, and the packet that it waits at or runs.
    pub(crate) fn report(&self) -> String {
        let (wptr, rptr) = self.kernel.raw_pointers();
        let mut text = format!("wptr {wptr:#x}, rptr {rptr:#x}");
        let packets = inflight::packets(self);
        let at = match inflight::blocked(self) {
            Some((packet, true)) => Some(packet),
            _ => packets.first().cloned(),
        };
        if let Some(packet) = at {
            text += &format!(
                ", at dword {:#x} of the ring: {}",
                packet.position * 4 % self.kernel.ring_bytes() / 4,
                self.tell(&packet)
            );
        }
        text
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
        *self.mover_slot() = None;
        self.pool.end();
    }
}
