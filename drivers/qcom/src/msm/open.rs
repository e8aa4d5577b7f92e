//! [`open`]: a GPU through msm.

use std::sync::Arc;

use drivers_gpu::backend::{Memory as Given, Request, Space};
use drivers_spec::qcom::msm::param;
use hcq::mem::window::Window;
use hcq::transport::{Machine, TransportError};
use hcq::{DeviceId, Error, Import, Result};

use super::memory::{Memory, Process};
use super::queue::Queue;
use super::survey::{self, LOG, get};
use crate::VENDOR;
use crate::backend::driver::{Driver, Opened};
use crate::backend::{ContextHandle, QcomBackend, Unusable};

/// Opens GPU number `index` of a machine ([`survey::Found::index`]).
///
/// # Errors
/// [`Error::NoDevice`], [`Error::NoPermission`] or [`Error::Unsupported`] with the reason if it cannot be used, see
/// [`Unusable`].
pub fn open(machine: &Arc<dyn Machine>, index: u32) -> Result<Arc<dyn QcomBackend>> {
    let id = DeviceId::new(VENDOR, index);
    let all = survey::survey(&**machine);
    let count = all.len();
    let found = all.into_iter().find(|found| found.index == index);
    let found = found.ok_or_else(|| Error::NoDevice {
        asked: id.to_string(),
        why: match count {
            0 => "no render node in /dev/dri is one of the kernel driver msm (`dmesg | grep msm`)"
                .into(),
            1 => "msm has one GPU, number 0".into(),
            n => format!("msm has {n} GPUs, numbers 0 to {}", n - 1),
        },
    })?;
    let failed = |why: Unusable| why.into_error(id.to_string());
    let (chip, chip_id) = found.chip.map_err(failed)?;
    let process = Process::on(&**machine, &found.path).map_err(failed)?;
    let driver = Msm {
        machine: machine.clone(),
        process,
    };
    let gpu = (&*found.path, chip, chip_id);
    Ok(Opened::backend(&**machine, id, driver, gpu))
}

/// msm as a driver.
struct Msm {
    machine: Arc<dyn Machine>,
    process: Arc<Process>,
}

impl Driver for Msm {
    const NAME: &'static str = "MSM";
    const LOG: &'static str = LOG;
    const DUMPS: &'static str = "/sys/class/devcoredump";

    fn space(&self) -> &Arc<Space> {
        &self.process.space
    }

    fn memory(&self, request: &Request<'_>) -> Result<Given, TransportError> {
        Ok(Memory::new(&*self.machine, &self.process, request)?.given())
    }

    fn import(&self, memory: &Import) -> Result<Given, TransportError> {
        Ok(Memory::import(&*self.machine, &self.process, memory)?.given())
    }

    fn context(
        &self,
        device: &DeviceId,
        priority: u32,
    ) -> Result<Arc<dyn ContextHandle>, TransportError> {
        Ok(Arc::new(Queue::new(
            &*self.machine,
            device,
            &self.process,
            priority,
        )?))
    }

    fn ticks(&self) -> Result<u64, TransportError> {
        get(&*self.process.file, param::TIMESTAMP)
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        self.process.heap.window_at(va)
    }
}
