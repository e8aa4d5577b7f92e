//! How a transport fails.

use std::time::Duration;

use thiserror::Error;

use super::errno;
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
    #[error("{}", errno::text(*.0))]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_device_operation_and_cause() {
        let error = TransportError::new(
            "/dev/kfd",
            "ioctl AMDKFD_IOC_GET_VERSION",
            Fault::Errno(errno::EBUSY),
        );
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
