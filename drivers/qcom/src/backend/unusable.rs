//! [`Unusable`]: why a GPU cannot be used, and what to do.

use drivers_gpu::backend::refused;
use drivers_gpu::kernel::calls::is_gone;
use drivers_spec::qcom::chip::Unsupported;
use hcq::transport::errno::{EACCES, EBADF, EBUSY, EINVAL, ENODEV, ENOENT, ENOMEM, ENXIO, EPERM};
use hcq::transport::{Fault, TransportError};
use hcq::{DeviceId, Error};
use thiserror::Error as ThisError;

/// Why a GPU cannot be used, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum Unusable {
    /// There is no driver.
    #[error(
        "{path} does not exist: the kernel has no {driver} driver, or has found no Adreno GPU (`dmesg | grep {driver}`)"
    )]
    NoDriver {
        /// The file.
        path: String,
        /// `kgsl` or `msm`.
        driver: &'static str,
    },
    /// The file may not be opened.
    #[error(
        "{path}: permission denied: add the user to its group (`ls -l {path}`; usually video or render: `sudo usermod -aG \
         video,render $USER`, then log in again)"
    )]
    NoPermission {
        /// The file.
        path: String,
    },
    /// A device cgroup denies access to the file, whatever its mode.
    #[error(
        "{path}: operation not permitted, by a device cgroup: start the container with `--device {path}`"
    )]
    Cgroup {
        /// The file.
        path: String,
    },
    /// The GPU does not start: its firmware is missing, or it has hung.
    #[error(
        "{path}: the driver cannot start the GPU ({error}): see `dmesg | grep -e {driver} -e adreno`; is its firmware installed?"
    )]
    Dead {
        /// The file.
        path: String,
        /// `kgsl` or `msm`.
        driver: &'static str,
        /// What the system says.
        error: Fault,
    },
    /// There is no driver here for the chip.
    #[error("{path}: {why}; use DEV=CPU")]
    Unsupported {
        /// The file.
        path: String,
        /// Which chip.
        why: Unsupported,
    },
    /// A call was refused.
    #[error("{0}; see `dmesg`")]
    Refused(TransportError),
}

impl Unusable {
    /// What an error of opening `path` means, or of the first calls.
    pub fn of_open(error: TransportError, path: &str, driver: &'static str) -> Unusable {
        let path = path.to_owned();
        match error.fault {
            Fault::Errno(ENOENT) => Unusable::NoDriver { path, driver },
            Fault::Errno(EACCES) => Unusable::NoPermission { path },
            Fault::Errno(EPERM) => Unusable::Cgroup { path },
            Fault::Errno(ENXIO | ENODEV) => Unusable::Dead {
                path,
                driver,
                error: error.fault,
            },
            _ => Unusable::Refused(error),
        }
    }

    /// As an error of who has asked for it.
    pub fn into_error(self, asked: String) -> Error {
        let why = self.to_string();
        match self {
            Unusable::NoPermission { .. } | Unusable::Cgroup { .. } => {
                Error::NoPermission { asked, why }
            }
            Unusable::Unsupported { .. } => Error::Unsupported { asked, why },
            _ => Error::NoDevice { asked, why },
        }
    }
}

/// A refused call as an error of the device. `log`: where the kernel driver's reasons are.
pub fn of_call(device: &DeviceId, error: &TransportError, log: &str) -> Error {
    if is_gone(error) {
        return Error::Fault {
            device: device.clone(),
            unit: "GPU".into(),
            what: format!("the GPU is gone ({error}): see `dmesg | grep {log}`"),
        };
    }
    let hint = match error.fault {
        Fault::Errno(ENOMEM) => "Free memory of the machine: the GPU has no other".into(),
        Fault::Errno(EBUSY) => "Another thread frees this memory; try again".into(),
        _ => format!("See `dmesg | grep {log}`"),
    };
    refused(device, error, &hint)
}

/// What a refused import of a dma-buf means: the kernel says of a file of another kind that an argument is invalid.
pub fn of_dmabuf(fd: i32, error: TransportError) -> TransportError {
    match error.fault {
        Fault::Errno(EBADF | EINVAL) => TransportError {
            operation: format!(
                "{} of descriptor {fd}, expected that of a dma-buf (a memfd or a shared memory is none)",
                error.operation
            ),
            ..error
        },
        _ => error,
    }
}

/// The same of a call for `bytes` bytes of memory: where there are none, so that caches are given back.
pub fn of_memory(
    device: &DeviceId,
    error: &TransportError,
    (asked, total): (u64, u64),
    log: &str,
) -> Error {
    match error.fault {
        Fault::Errno(ENOMEM) => Error::OutOfMemory {
            device: device.clone(),
            asked,
            free: 0,
            total,
            hint: format!(" as the kernel driver reports; {error}"),
        },
        _ => of_call(device, error, log),
    }
}
