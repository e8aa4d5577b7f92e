//! Errors of the queue layer, and the lost state that keeps the first cause.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::id::DeviceId;
use crate::progress::Over;

/// What can go wrong between a command and its packets, and between packets and the device.
///
/// `Clone`, because the first cause of a loss is handed out again by every later call.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device is lost for this handle; `cause` is what was seen first.
    #[error("{device} is lost: {cause}. Open the device again; other devices are not affected")]
    DeviceLost {
        /// The device.
        device: DeviceId,
        /// The first fault.
        cause: Arc<Error>,
    },
    /// Nothing moved for as long as a deadline allows, before a signal reached its value; or the work took longer than
    /// it may.
    #[error("{device} {what}: still {seen} after {after:?}, expected at least {wanted}. {}", why_over(.over))]
    Timeout {
        /// The device that should have signalled.
        device: DeviceId,
        /// Which signal or queue.
        what: String,
        /// The value waited for.
        wanted: u64,
        /// The last value seen.
        seen: u64,
        /// How long the wait lasted.
        after: Duration,
        /// Why it was over.
        over: Over,
    },
    /// A kernel, packet processor or copy engine reported a fault.
    #[error("{device} {unit}: {what}")]
    Fault {
        /// The device.
        device: DeviceId,
        /// Queue, engine or block.
        unit: String,
        /// What the hardware said, decoded.
        what: String,
    },
    /// Not enough device memory.
    #[error(
        "{device} memory: asked for {asked} bytes, {free} of {total} are free{hint}. \
         Free tensors or use a smaller batch"
    )]
    OutOfMemory {
        /// The device.
        device: DeviceId,
        /// Bytes asked for.
        asked: u64,
        /// Bytes free.
        free: u64,
        /// Bytes in all.
        total: u64,
        /// What more is known, or nothing.
        hint: String,
    },
    /// An access outside of a buffer.
    #[error(
        "{device} buffer at {va:#x}: {what} of {len} bytes at offset {offset} does not fit into \
         its {size} bytes"
    )]
    OutOfBounds {
        /// The device.
        device: DeviceId,
        /// Address of the buffer.
        va: u64,
        /// Read, write, copy...
        what: &'static str,
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
        /// Size of the buffer.
        size: u64,
    },
    /// The host cannot reach this memory in the way that was asked for.
    #[error("{device} buffer at {va:#x}: host access is {has}, {needs} is needed")]
    NoHostAccess {
        /// The device.
        device: DeviceId,
        /// Address of the buffer.
        va: u64,
        /// How the host reaches it.
        has: &'static str,
        /// What the caller needs.
        needs: &'static str,
    },
    /// A command that this queue cannot take.
    #[error("{device} {queue} queue: {command}: {why}")]
    Command {
        /// The device.
        device: DeviceId,
        /// The queue.
        queue: String,
        /// The command.
        command: String,
        /// What was expected, and what to do.
        why: String,
    },
    /// A program image that the device cannot load.
    #[error("{device} program {program}: {why}")]
    Program {
        /// The device.
        device: DeviceId,
        /// The name of the kernel.
        program: String,
        /// What was expected, and what was there.
        why: String,
    },
    /// A graph that cannot be built or replayed.
    #[error("graph: {0}")]
    Graph(String),
    /// The operating system refused.
    #[error("{device} {call}: {source_text}. {hint}")]
    Os {
        /// The device.
        device: DeviceId,
        /// The call, with its arguments.
        call: String,
        /// The system's text, with errno.
        source_text: String,
        /// The number, where the system said one.
        errno: Option<i32>,
        /// What to do.
        hint: Box<str>,
    },
    /// The device is there, and this process may not use it.
    #[error("no permission for {asked}: {why}")]
    NoPermission {
        /// The selection.
        asked: String,
        /// What was refused, and what to do.
        why: String,
    },
    /// The device is there, and nothing here drives it.
    #[error("{asked} is not supported: {why}")]
    Unsupported {
        /// The selection.
        asked: String,
        /// What it is, and what would do.
        why: String,
    },
    /// No device answers to the selection.
    #[error("no device for {asked}: {why}")]
    NoDevice {
        /// The selection.
        asked: String,
        /// What was looked at, and what was found.
        why: String,
    },
}

fn why_over(over: &Over) -> String {
    match over {
        Over::Silent(silence) => format!(
            "There was no progress for {silence:?}: the queue hangs, or raise HCQDEV_WAIT_TIMEOUT_MS if what it waits \
             for may be silent for longer"
        ),
        Over::Blind(silence) => format!(
            "There was no progress for {silence:?}: raise HCQDEV_WAIT_TIMEOUT_MS if one kernel may take longer, which \
             this device does not tell from a dead one, else the queue hangs"
        ),
        Over::Long(work) => format!(
            "Work may take no longer than {work:?}, whether it goes on or not: raise or unset HCQDEV_WORK_TIMEOUT_MS if it \
             may"
        ),
    }
}

/// The result of queue operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How many forks lie between this process and the one that was started.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// How many forks lie between this process and the one that was started, as far as
/// [`lose_all_by_fork`] was called. Who keeps what is not copied into a child (memory that devices
/// share, threads, open devices) remembers it, and leaves all that alone once it differs.
#[inline]
pub fn process_generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Says that this process is a fork of the one that opened what devices there are: all of them are lost
/// to it, and it may open others. Kernel drivers refuse a fork's calls, memory that devices share is not
/// copied into it, and threads of drivers are not there. Counts one up: it may be called between a fork
/// and its return.
pub fn lose_all_by_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Whether a device is lost. The first cause stays; later ones are dropped.
#[derive(Debug)]
pub struct LostState {
    device: DeviceId,
    /// That of the process which opened the device.
    generation: u32,
    cause: OnceLock<Arc<Error>>,
}

impl LostState {
    /// A device in good order.
    pub fn new(device: DeviceId) -> Self {
        LostState {
            device,
            generation: process_generation(),
            cause: OnceLock::new(),
        }
    }

    /// Marks the device lost. Returns the error that every later call gives: the first cause,
    /// which is this one only if none came before.
    pub fn lose(&self, cause: Error) -> Error {
        // A loss seen through another layer is not wrapped twice.
        let cause = match cause {
            Error::DeviceLost { cause, .. } => cause,
            other => Arc::new(other),
        };
        let first = self.cause.get_or_init(|| cause);
        Error::DeviceLost {
            device: self.device.clone(),
            cause: first.clone(),
        }
    }

    /// `Ok` while the device is in good order.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] with the first cause.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.is_lost() {
            true => Err(self.why()),
            false => Ok(()),
        }
    }

    #[cold]
    fn why(&self) -> Error {
        match self.cause.get() {
            None => self.lose(Error::Fault {
                device: self.device.clone(),
                unit: "process".into(),
                what:
                    "it was opened before a fork and belongs to the parent; a child opens its own"
                        .into(),
            }),
            Some(cause) => Error::DeviceLost {
                device: self.device.clone(),
                cause: cause.clone(),
            },
        }
    }

    /// True after [`LostState::lose`].
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.cause.get().is_some() || self.generation != process_generation()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_cause_is_kept() {
        let id = DeviceId::new("CPU", 0);
        let lost = LostState::new(id.clone());
        lost.check().unwrap();
        let fault = |what: &str| Error::Fault {
            device: id.clone(),
            unit: "compute 0".into(),
            what: what.into(),
        };
        lost.lose(fault("first"));
        let again = lost.lose(fault("second"));
        assert!(again.to_string().contains("first"), "{again}");
        assert!(lost.check().unwrap_err().to_string().contains("first"));
    }
}
