//! [`open`]: the GPU through KGSL.

use std::sync::{Arc, Mutex};

use drivers_gpu::backend::{Memory as Given, Request, Space};
use drivers_spec::qcom::kgsl::{
    self, PerfcounterGet, PerfcounterPut, PerfcounterRead, PerfcounterReadGroup, perfcounter_group,
};
use hcq::mem::window::Window;
use hcq::sync::lock;
use hcq::transport::{Machine, TransportError};
use hcq::{DeviceId, Error, Import, Result};
use zerocopy::IntoBytes;

use super::context::Context;
use super::memory::{Memory, Process};
use super::survey::{FILE, LOG};
use crate::VENDOR;
use crate::backend::driver::{Driver, Opened};
use crate::backend::retry::{ioctl, ioctl_with};
use crate::backend::{ContextHandle, QcomBackend};
use crate::lines::CacheLines;
use crate::options::Options;

/// Opens the GPU of a machine, number 0.
///
/// # Errors
/// [`Error::NoDevice`], [`Error::NoPermission`] or [`Error::Unsupported`] with the reason if it cannot be used, see
/// [`crate::backend::Unusable`].
pub fn open(
    machine: &Arc<dyn Machine>,
    index: u32,
    options: &Options,
) -> Result<Arc<dyn QcomBackend>> {
    let id = DeviceId::new(VENDOR, index);
    if index != 0 {
        return Err(Error::NoDevice {
            asked: id.to_string(),
            why: "KGSL has one GPU, number 0".into(),
        });
    }
    let process = Process::on(&**machine).map_err(|why| why.into_error(id.to_string()))?;
    let gpu = (FILE, process.found.chip, process.found.chip_id);
    let driver = Kgsl {
        machine: machine.clone(),
        process,
        full_power: options.full_power,
        lines: options.lines.clone(),
        has_counter: Mutex::new(false),
    };
    Ok(Opened::backend(&**machine, id, driver, gpu))
}

/// KGSL as a driver.
struct Kgsl {
    machine: Arc<dyn Machine>,
    process: Arc<Process>,
    full_power: bool,
    lines: Arc<dyn CacheLines>,
    /// Whether the counter that is always on is reserved.
    has_counter: Mutex<bool>,
}

/// The counter of its group: KGSL, adreno_a6xx_perfcounter.c, `a6xx_perfcounters_alwayson` has one, which reads the
/// register that packets read.
const COUNTER: u32 = 0;

impl Driver for Kgsl {
    const NAME: &'static str = "KGSL";
    const LOG: &'static str = LOG;
    const DUMPS: &'static str = "/sys/class/kgsl/kgsl-3d0/snapshot";

    fn space(&self) -> &Arc<Space> {
        &self.process.space
    }

    fn memory(&self, request: &Request<'_>) -> Result<Given, TransportError> {
        Ok(Memory::new(&*self.machine, &self.process, request)?.given())
    }

    fn import(&self, memory: &Import) -> Result<Given, TransportError> {
        Ok(Memory::import(&self.process, memory, &self.lines)?.given())
    }

    fn context(
        &self,
        device: &DeviceId,
        priority: u32,
    ) -> Result<Arc<dyn ContextHandle>, TransportError> {
        let made = Context::new(device, &self.process, priority, self.full_power)?;
        Ok(Arc::new(made))
    }

    fn ticks(&self) -> Result<u64, TransportError> {
        let file = &*self.process.file;
        let mut has_counter = lock(&self.has_counter);
        if !*has_counter {
            let mut get = PerfcounterGet {
                groupid: perfcounter_group::ALWAYSON,
                countable: COUNTER,
                ..Default::default()
            };
            ioctl(file, kgsl::PERFCOUNTER_GET, &mut get)?;
            *has_counter = true;
        }
        let mut group = PerfcounterReadGroup {
            groupid: perfcounter_group::ALWAYSON,
            countable: COUNTER,
            ..Default::default()
        };
        let mut read = PerfcounterRead::default();
        let mut memory = [group.as_mut_bytes()];
        ioctl_with(file, kgsl::PERFCOUNTER_READ, &mut read, &mut memory)?;
        Ok(group.value)
    }

    fn window_at(&self, va: u64) -> Option<(Window, u64)> {
        self.process.heap.window_at(va)
    }
}

impl Drop for Kgsl {
    fn drop(&mut self) {
        if !*lock(&self.has_counter) {
            return;
        }
        let mut put = PerfcounterPut {
            groupid: perfcounter_group::ALWAYSON,
            countable: COUNTER,
            ..Default::default()
        };
        if let Err(error) = ioctl(&*self.process.file, kgsl::PERFCOUNTER_PUT, &mut put) {
            tracing::debug!(%error, "could not release the always-on counter: it stays reserved until the file is closed");
        }
    }
}
