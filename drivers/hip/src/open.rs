//! [`open`]: a GPU as a device.

use std::sync::Arc;

use drivers_runtime::calls::Gpu;
use drivers_runtime::{About, Options, Refusal, Unusable};
use hcq::{Device, DeviceId, Result};

use crate::api::{NAMES, Used};
use crate::survey::{found, hip, unusable};

/// Opens the GPU of a number.
///
/// # Errors
/// [`hcq::Error::NoDevice`] without HIP or such a GPU; what the runtime refuses.
pub fn open(index: u32, options: &Options) -> Result<Arc<dyn Device>> {
    let id = DeviceId::new("HIP", index);
    let no = |why: Unusable| why.into_error(id.to_string());
    let refused = |refusal: Refusal| Unusable::Refused(refusal).into_error(id.to_string());
    let hip = hip().map_err(no)?;
    let found = found(&hip.api, index).map_err(refused)?;
    let used = Used {
        api: hip.api.clone(),
        device: index as i32,
        arch: found.arch.clone(),
    };
    let gpu = Gpu::new(hip.api.library(), NAMES, found.can_write, Box::new(used));
    let gpu = gpu.map_err(|why| no(unusable(why)))?;
    let about = About {
        id,
        interface: "HIP",
        ordinal: index,
        place: found.place,
        arch: found.arch,
        name: found.name,
        units: found.units,
        memory: found.memory,
        // Source: HIP, hip_module.cpp, hipModuleLaunchKernel: hipErrorInvalidConfiguration for more.
        items: u32::MAX.into(),
        log: "amdgpu",
    };
    drivers_runtime::open(&gpu, &hip.process, about, options)
}
