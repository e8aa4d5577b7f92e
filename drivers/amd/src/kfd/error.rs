//! What the kernel refuses, as errors of the device.

use drivers_gpu::backend::refused;
use drivers_gpu::kernel::calls::is_gone;
use hcq::transport::errno::{EBUSY, EINVAL, ENOMEM};
use hcq::transport::{Fault, Machine, TransportError};
use hcq::{DeviceId, Error};

use super::memory::MemoryError;
use super::process::Gpu;

/// What the system refused, as an error of the device.
pub(super) fn os(device: &DeviceId, error: TransportError) -> Error {
    if is_gone(&error) {
        return Error::Fault {
            device: device.clone(),
            unit: "GPU".into(),
            what: format!(
                "the device has left the bus, or the kernel driver gave up on it ({error}): see `dmesg | grep amdgpu`"
            ),
        };
    }
    let hint = match error.fault {
        Fault::Errno(ENOMEM) => "Free host memory or raise its limits (`ulimit -l`)",
        Fault::Errno(EBUSY) => {
            "Another process, or another GPU library in this process, may hold the device: `sudo fuser \
             -v /dev/kfd`"
        }
        Fault::Errno(EINVAL) => "The kernel may expect other sizes than this version: see `dmesg`",
        _ => "See `dmesg | grep -e amdgpu -e kfd`",
    };
    refused(device, &error, hint)
}

/// Why there is no memory or no queue, as an error of the device.
pub(super) fn memory_error(
    device: &DeviceId,
    machine: &dyn Machine,
    gpu: &Gpu,
    error: MemoryError,
) -> Error {
    let full = |asked, (free, total), hint| Error::OutOfMemory {
        device: device.clone(),
        asked,
        free,
        total,
        hint,
    };
    match error {
        MemoryError::Vram(asked, error) => full(
            asked,
            (gpu.available().unwrap_or(0), gpu.node.vram),
            format!("; {error}"),
        ),
        MemoryError::System(asked, error) => full(
            asked,
            gpu.system_memory(machine),
            format!(" of the system memory shared by all GPUs; {error}"),
        ),
        MemoryError::Queues(error) => match os(device, error.clone()) {
            Error::Os { .. } => refused(
                device,
                &error,
                "All queues of that kind may be in use: a GPU has few copy queues, shared by all processes. Close \
                 other devices and programs (`sudo fuser -v /dev/kfd`)",
            ),
            other => other,
        },
        MemoryError::Refused(error) => os(device, error),
    }
}
