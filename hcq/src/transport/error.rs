//! How a transport fails.

use std::time::Duration;

use thiserror::Error;

use crate::mem::view::ViewError;
use crate::wait::Timeout;

/// A transport operation failed: on which device, doing what, and how.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{device}: {operation}: {fault}")]
pub struct TransportError {
    /// PCI address, device file or USB port.
    pub device: String,
    /// What was attempted, with its numbers; an ioctl by its vendor name.
    pub operation: String,
    /// What went wrong.
    pub fault: Fault,
}

impl TransportError {
    /// An error of `device` while doing `operation`.
    pub fn new(device: impl Into<String>, operation: impl Into<String>, fault: Fault) -> Self {
        TransportError {
            device: device.into(),
            operation: operation.into(),
            fault,
        }
    }
}

/// The ways a transport fails.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The operating system refused, with this errno.
    #[error("{}", errno_text(*.0))]
    Errno(i32),
    /// No answer in time.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// The device has left: off the bus, unplugged, or reset under us. It must be opened again.
    #[error("the device is gone; reconnect it and open it again")]
    Gone,
    /// A USB endpoint stalled.
    #[error("endpoint stalled")]
    Stall,
    /// Fewer bytes moved than were needed.
    #[error("moved {moved:#x} of {wanted:#x} bytes")]
    Short {
        /// Bytes that should have moved.
        wanted: usize,
        /// Bytes that did.
        moved: usize,
    },
    /// A bridge answers, but the device behind it does not, or answers wrongly.
    #[error("the bridge answers, the device behind it does not: {0}")]
    Beyond(String),
    /// Outside of the window or view, or misaligned.
    #[error(transparent)]
    View(ViewError),
    /// This transport does not support the operation.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The access differs from the recorded one.
    #[error("trace line {line}: expected `{expected}`, seen `{seen}`")]
    Replay {
        /// Line of the trace, from 1; one past the last if the trace has ended.
        line: usize,
        /// What the trace has there.
        expected: String,
        /// What was attempted instead.
        seen: String,
    },
}

impl Fault {
    /// The error number of the operating system.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Fault::Errno(errno) => Some(*errno),
            _ => None,
        }
    }
}

impl From<Timeout> for Fault {
    fn from(timeout: Timeout) -> Fault {
        Fault::TimedOut(timeout.waited)
    }
}

/// The errno with its name: numbers and names that Linux has on every architecture we run on.
fn errno_text(errno: i32) -> String {
    let name = match errno {
        1 => "EPERM: operation not permitted",
        2 => "ENOENT: no such file or object",
        4 => "EINTR: interrupted",
        5 => "EIO: input/output error",
        6 => "ENXIO: no such device or address",
        9 => "EBADF: bad file descriptor",
        11 => "EAGAIN: try again",
        12 => "ENOMEM: out of memory",
        13 => "EACCES: permission denied; is the user in the groups render and video?",
        14 => "EFAULT: bad address",
        16 => "EBUSY: device or resource busy; does another process or driver hold it?",
        17 => "EEXIST: already exists",
        19 => "ENODEV: no such device",
        22 => "EINVAL: invalid argument",
        23 => "ENFILE: too many open files in the system",
        24 => "EMFILE: too many open files; raise `ulimit -n`",
        25 => "ENOTTY: ioctl not supported by this file",
        28 => "ENOSPC: no space left",
        32 => "EPIPE: broken pipe or stalled endpoint",
        35 => "EDEADLK: the context hung and was reset",
        62 => "ETIME: timer expired",
        71 => "EPROTO: protocol error",
        95 => "EOPNOTSUPP: not supported",
        110 => "ETIMEDOUT: timed out",
        _ => return format!("errno {errno}"),
    };
    format!("errno {errno} ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_device_operation_and_cause() {
        let error =
            TransportError::new("/dev/kfd", "ioctl AMDKFD_IOC_GET_VERSION", Fault::Errno(16));
        assert_eq!(
            error.to_string(),
            "/dev/kfd: ioctl AMDKFD_IOC_GET_VERSION: errno 16 (EBUSY: device or resource busy; \
             does another process or driver hold it?)"
        );
        assert_eq!(Fault::Errno(12345).to_string(), "errno 12345");
        let short = Fault::Short {
            wanted: 512,
            moved: 13,
        };
        assert_eq!(short.to_string(), "moved 0xd of 0x200 bytes");
    }
}
