//! What the kernel driver refuses, as errors of the device.

use drivers_gpu::backend::refused;
use drivers_gpu::kernel::calls::is_gone;
use drivers_spec::nv::status;
use hcq::transport::errno::{EINVAL, ENOMEM};
use hcq::transport::{Fault, TransportError};
use hcq::{DeviceId, Error};

use super::gpu::Gpu;
use super::memory::MemoryError;
use super::survey::Unusable;
use crate::rm::CallError;
use crate::rm::facts::Unfit;
use crate::rm::transport::is_lost;

/// Where to find more details of the driver.
const LOG: &str = "See `dmesg | grep -e NVRM -e Xid`";

/// Converts a refused call to an error of the device.
pub(super) fn of_call(device: &DeviceId, error: CallError) -> Error {
    match error {
        CallError::System(error) => of_system(device, error),
        CallError::Status { file, call, status } => of_status(device, (file, call), status),
        silent @ CallError::Unanswered { .. } => Error::Fault {
            device: device.clone(),
            unit: "GSP".into(),
            what: silent.to_string(),
        },
        absent @ CallError::Absent { .. } => Error::Os {
            device: device.clone(),
            call: "NVIDIA's kernel driver".into(),
            source_text: absent.to_string(),
            errno: None,
            hint: "Update the driver".into(),
        },
    }
}

/// A GPU that has left.
pub(super) fn gone(device: &DeviceId, what: &str) -> Error {
    Error::Fault {
        device: device.clone(),
        unit: "GPU".into(),
        what: format!("the GPU is gone ({what}): see `dmesg | grep -e NVRM -e Xid`"),
    }
}

fn of_system(device: &DeviceId, error: TransportError) -> Error {
    if is_gone(&error) {
        return gone(device, &error.to_string());
    }
    let hint = match error.fault {
        Fault::Errno(ENOMEM) => "Free host memory or raise its limits (`ulimit -v`, `ulimit -l`)",
        // Of an escape whose size the driver does not know.
        Fault::Errno(EINVAL) => {
            "The driver may expect other structs than this version: compare its version \
             (`cat /proc/driver/nvidia/version`); a sandbox (gVisor) does not forward all calls"
        }
        _ => LOG,
    };
    refused(device, &error, hint)
}

fn of_status(device: &DeviceId, (file, call): (String, String), number: u32) -> Error {
    let name = status::status_name(number).unwrap_or("unknown");
    let told = format!("expected NV_OK, found status {number:#x} ({name})");
    if is_lost(number) {
        return gone(device, &format!("{file}: {call}: {told}"));
    }
    Error::Os {
        device: device.clone(),
        call: format!("{file}: {call}"),
        source_text: told,
        errno: None,
        hint: hint(number).into(),
    }
}

/// What to do about a status.
fn hint(number: u32) -> &'static str {
    match number {
        status::NV_ERR_INVALID_PARAM_STRUCT => {
            "The driver expects other structs than this version: compare its version (`cat \
             /proc/driver/nvidia/version`)"
        }
        status::NV_ERR_INSUFFICIENT_PERMISSIONS => {
            "Another user or container may hold the GPU, or it is in an exclusive compute mode (`nvidia-smi -q -d \
             COMPUTE`)"
        }
        status::NV_ERR_NO_MEMORY | status::NV_ERR_INSUFFICIENT_RESOURCES => {
            "The driver has none left: close other programs on the GPU (`nvidia-smi`)"
        }
        status::NV_ERR_NOT_READY | status::NV_ERR_INVALID_STATE => {
            "The GPU may still be starting or resetting; with NVSwitch, start the fabric manager (`sudo systemctl start \
             nvidia-fabricmanager`)"
        }
        status::NV_ERR_TIMEOUT | status::NV_ERR_RESET_REQUIRED => {
            "The GPU does not answer: see `dmesg | grep -e NVRM -e Xid`, or reset it (`sudo nvidia-smi -r`)"
        }
        _ => LOG,
    }
}

/// Why there is no memory or no channel, as an error of the device.
pub(super) fn of_memory(device: &DeviceId, gpu: &Gpu, error: MemoryError) -> Error {
    let full = |asked, free, total, hint| Error::OutOfMemory {
        device: device.clone(),
        asked,
        free,
        total,
        hint,
    };
    match error {
        MemoryError::Local(asked, error) => {
            let free = gpu.rm.free_memory().unwrap_or(0);
            full(asked, free, gpu.facts.vram, format!("; {error}"))
        }
        MemoryError::System(asked, error) => full(
            asked,
            0,
            0,
            format!(" of the system memory available to GPUs, as reported by the driver; {error}"),
        ),
        MemoryError::Refused(error) => of_call(device, error),
    }
}

/// Why a GPU cannot be opened, as an error of who asked for it.
pub(super) fn of_open(asked: &DeviceId, why: &Unusable) -> Error {
    let (asked, text) = (asked.to_string(), why.to_string());
    match why {
        Unusable::NoPermission { .. }
        | Unusable::Cgroup { .. }
        | Unusable::Unfit(Unfit::Prohibited { .. } | Unfit::Busy { .. }) => {
            Error::NoPermission { asked, why: text }
        }
        Unusable::Unfit(_) => Error::Unsupported { asked, why: text },
        _ => Error::NoDevice { asked, why: text },
    }
}
