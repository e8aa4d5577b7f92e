//! [`StagingQueue`]: copies between host memory and VRAM, and fills it, by a copy engine.
//!
//! Staging memory is host memory. If the GPU cannot access that, VRAM is used, which is slow for the host: all but
//! the smallest copies then go through the [relay](hcq::transport::relay).

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hcq::addr::BusAddr;
use hcq::sync::lock;
use hcq::transport::relay::{Leg, Mark, Relay, Start};
use hcq::transport::{Fault, TransportError};
use hcq::{Command, Compare, Deadline, Error, MemoryKind, Point, Result, Staging, Val, Width};

use crate::backend::Relayed;
use crate::core::Core;
use crate::memory::pool::{Piece, Pool};
use crate::submit::{Channel, Hardware};

/// Bytes of one copy.
const CHUNK: usize = 2 << 20;

/// How long a copy of a chunk, or a fill, may go without progress where queues wait for longer. A bus that moves less than
/// a MiB a second hangs.
const MOST: Duration = Duration::from_secs(30);

/// Bytes that do not go through a relay: it would take longer.
const FEW: usize = 512;

/// Parts of a copy through a relay that are submitted together: a ring of [`RELAY_RING`] has room for them twice.
const LEGS: usize = 100;

/// Bytes of the ring of a queue that copies through a relay.
pub const RELAY_RING: u64 = 16 << 10;

/// Copies between host memory and VRAM on a separate queue: a host read must not wait behind work that waits for the
/// host.
pub struct StagingQueue<H: Hardware> {
    core: Arc<Core>,
    channel: Arc<Channel<H>>,
    /// Two chunks of host memory.
    staging: Mutex<Staging<Piece>>,
    relay: Option<Relayed>,
    /// Of each wait.
    limit: Duration,
}

/// The direction of a copy through a relay.
#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

impl<H: Hardware> StagingQueue<H> {
    /// Uses a queue that has no other user: a copy queue, or a compute queue that copies.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], [`Error::Fault`].
    pub fn new(
        core: &Arc<Core>,
        pool: &Arc<Pool>,
        channel: Arc<Channel<H>>,
    ) -> Result<StagingQueue<H>> {
        let limit = MOST.min(channel.full_limit());
        let chunk = || pool.piece(MemoryKind::Host, CHUNK as u64, "the staging memory");
        let chunks = [chunk()?, chunk()?];
        Ok(StagingQueue {
            core: core.clone(),
            staging: Mutex::new(Staging::new(chunks, CHUNK, limit)),
            channel,
            relay: core.backend.relay()?,
            limit,
        })
    }

    /// The queue.
    pub fn channel(&self) -> &Arc<Channel<H>> {
        &self.channel
    }

    /// Copies to the host.
    ///
    /// # Errors
    /// [`hcq::Error::Timeout`], the loss of the device.
    pub fn read(&self, from: u64, into: &mut [u8]) -> Result<()> {
        if let Some(relay) = self.relay.as_ref().filter(|_| into.len() > FEW) {
            let group = relay.relay.parts()[1] * LEGS;
            for (part, at) in into.chunks_mut(group).zip((from..).step_by(group)) {
                self.relayed(relay, Way::Out, at, |by, start| by.receive(part, start))?;
            }
            return Ok(());
        }
        self.staging().read(
            into.len(),
            |chunk, range| {
                let from = from + range.start as u64;
                self.copy(chunk.va().0, from, range.len())
            },
            |chunk, range| {
                let read = chunk.shared()?.read_bytes(0, &mut into[range]);
                read.map_err(|e| self.broken(e))
            },
        )
    }

    /// Copies from the host.
    ///
    /// # Errors
    /// As [`StagingQueue::read`].
    pub fn write(&self, to: u64, from: &[u8]) -> Result<()> {
        if let Some(relay) = self.relay.as_ref().filter(|_| from.len() > FEW) {
            let group = relay.relay.parts()[0] * LEGS;
            let mut last = None;
            for (part, at) in from.chunks(group).zip((to..).step_by(group)) {
                last = self.relayed(relay, Way::In, at, |by, start| by.send(part, start))?;
            }
            return last.map_or(Ok(()), |last| last.wait(Deadline::after(self.limit)));
        }
        let done = self.staging().write(
            from.len(),
            |chunk, range| {
                let written = chunk.shared()?.write_bytes(0, &from[range]);
                written.map_err(|e| self.broken(e))
            },
            |chunk, range| {
                let to = to + range.start as u64;
                self.copy(to, chunk.va().0, range.len())
            },
        )?;
        done.map_or(Ok(()), |done| done.wait(Deadline::after(self.limit)))
    }

    /// Fills device memory, see [`crate::core::queues::Copies::fill`].
    ///
    /// # Errors
    /// As [`StagingQueue::read`].
    pub fn fill(&self, at: u64, value: u32, bytes: u64) -> Result<()> {
        let at = Val::Const(at);
        let done = self.submit(&[Command::Fill { at, value, bytes }])?;
        done.wait(Deadline::after(self.limit))
    }

    /// Copies through a relay: the engine gets its commands first, and waits for the bytes.
    fn relayed(
        &self,
        relay: &Relayed,
        way: Way,
        at: u64,
        run: impl FnOnce(&dyn Relay, &mut Start<'_>) -> std::result::Result<(), TransportError>,
    ) -> Result<Option<Point>> {
        let mut told = Ok(None);
        // Its parts are those of the relay, in order.
        let _turn = self.staging();
        let done = run(&*relay.relay, &mut |legs| {
            told = self.tell(relay, way, at, legs).map(Some);
            match told {
                Ok(_) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        if let Err(error) = done {
            // The GPU may have stopped, and know why.
            if let Fault::TimedOut(_) = error.fault {
                self.core.look()?;
            }
            return Err(self.broken(error));
        }
        told
    }

    /// Submits what the engine does for a copy through a relay.
    fn tell(&self, relay: &Relayed, way: Way, at: u64, legs: &[Leg]) -> Result<Point> {
        let va = |at: BusAddr| {
            let why = Fault::Unsupported("the GPU cannot access it there".into());
            let error = || TransportError::new("relay", format!("{:#x}", at.0), why);
            let va = relay.va(at).ok_or_else(error);
            va.map(|va| va.0).map_err(|e| self.broken(e))
        };
        let mut commands = Vec::with_capacity(3 * legs.len());
        let mut at = at;
        for leg in legs {
            let Mark { at: ready, value } = leg.ready;
            commands.push(Command::Poll {
                at: Val::Const(va(ready)?),
                mask: u32::MAX.into(),
                value: Val::Const(value.into()),
                compare: Compare::Equal,
                width: Width::W32,
            });
            let (near, far) = (Val::Const(va(leg.at)?), Val::Const(at));
            let (dst, src) = match way {
                Way::In => (far, near),
                Way::Out => (near, far),
            };
            let bytes = leg.bytes as u64;
            commands.push(Command::Copy { dst, src, bytes });
            commands.push(Command::Write {
                at: Val::Const(va(leg.done.at)?),
                value: Val::Const(leg.done.value.into()),
                width: Width::W32,
            });
            at += bytes;
        }
        self.submit(&commands)
    }

    fn copy(&self, dst: u64, src: u64, bytes: usize) -> Result<Point> {
        self.submit(&[Command::Copy {
            dst: Val::Const(dst),
            src: Val::Const(src),
            bytes: bytes as u64,
        }])
    }

    fn submit(&self, commands: &[Command<'_>]) -> Result<Point> {
        let timeline = self.channel.timeline();
        timeline.submit(|turn| {
            let done = Command::Signal {
                signal: timeline.signal(),
                value: Val::Const(turn.signal_value()),
            };
            self.channel.hardware().encode(commands, turn.packets())?;
            self.channel.hardware().encode(&[done], turn.packets())?;
            self.channel.submit(turn)
        })
    }

    fn staging(&self) -> MutexGuard<'_, Staging<Piece>> {
        // A panic leaves the pieces, each with the copy that it is part of.
        lock(&self.staging)
    }

    fn broken(&self, error: TransportError) -> Error {
        self.core.broken("host access", error)
    }
}
