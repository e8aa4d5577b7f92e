//! Errors of the queue layer.

use std::sync::Arc;
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
