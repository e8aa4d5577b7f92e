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
    /// The device is lost for this handle; `cause` is the first fault.
    #[error("{device} is lost: {cause}. Open the device again; other GPUs are not affected")]
    DeviceLost {
        /// The device.
        device: DeviceId,
        /// The first fault.
        cause: Arc<Error>,
    },
    /// No progress within the deadline before a signal reached its value, or the work exceeded its limit.
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
        /// Why the wait ended.
        over: Over,
    },
    /// A kernel, packet processor or copy engine reported a fault.
    #[error("{device} {unit}: {what}")]
    Fault {
        /// The device.
        device: DeviceId,
        /// Queue, engine or block.
        unit: String,
        /// The hardware's report, decoded.
        what: String,
    },
    /// Not enough device memory.
    #[error(
        "{device} memory: asked for {asked} bytes, {free} of {total} are free{hint}. \
         Free buffers or use a smaller batch"
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
        /// Further detail, or empty.
        hint: String,
    },
    /// An access outside a buffer.
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
    /// The host cannot access this memory in the requested way.
    #[error("{device} buffer at {va:#x}: host access is {has}, expected {needs}")]
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
        /// The errno, if the system gave one.
        errno: Option<i32>,
        /// What to do.
        hint: Box<str>,
    },
    /// The device exists, but this process lacks permission.
    #[error("no permission for {asked}: {why}")]
    NoPermission {
        /// The selection.
        asked: String,
        /// What was refused, and what to do.
        why: String,
    },
    /// The device exists, but no driver here supports it.
    #[error("{asked} is not supported: {why}")]
    Unsupported {
        /// The selection.
        asked: String,
        /// What it is, and what is supported.
        why: String,
    },
    /// The device exists and is free, but it could not be started.
    #[error("{asked} is there but did not start: {why}")]
    NotStarted {
        /// The device.
        asked: String,
        /// What was done, and what came of it.
        why: String,
    },
    /// No device matches the selection.
    #[error("no device for {asked}: {why}")]
    NoDevice {
        /// The selection.
        asked: String,
        /// Where was searched, and what was found.
        why: String,
    },
}

fn why_over(over: &Over) -> String {
    match over {
        Over::Silent(silence) => format!(
            "No progress for {silence:?}: raise HCQDEV_WAIT_TIMEOUT_MS if the work may pause for longer; \
             otherwise the queue is hung"
        ),
        Over::Blind(silence) => format!(
            "No progress for {silence:?}: raise HCQDEV_WAIT_TIMEOUT_MS if one kernel may take longer (this device \
             cannot tell a long kernel from a hung one); otherwise the queue is hung"
        ),
        Over::Long(work) => format!(
            "Work limit of {work:?} exceeded, regardless of progress: raise or unset \
                         HCQDEV_WORK_TIMEOUT_MS if the work \
             is legitimately long"
        ),
    }
}

/// The result of queue operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;
