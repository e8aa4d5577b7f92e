//! [`open`]: a GPU as a device.

use std::sync::Arc;

use drivers_runtime::calls::Gpu;
use drivers_runtime::{About, Options, Refusal, Unusable};
use hcq::{Device, DeviceId, Error, Result};

use crate::api::{Attribute, NAMES};
use crate::survey::{cuda, found, unusable};

/// Opens the GPU of a number, with its primary context.
///
/// # Errors
/// [`Error::NoDevice`] without CUDA or such a GPU; [`Error::Unsupported`] for a GPU without the addresses of the host; what the
/// runtime refuses.
pub fn open(index: u32, options: &Options) -> Result<Arc<dyn Device>> {
    let id = DeviceId::new("CUDA", index);
    let no = |why: Unusable| why.into_error(id.to_string());
    let refused = |refusal: Refusal| Unusable::Refused(refusal).into_error(id.to_string());
    let cuda = cuda().map_err(no)?;
    let found = found(&cuda.api, index).map_err(refused)?;
    let gpu = cuda.api.device(index).map_err(refused)?;
    if gpu.attribute(Attribute::UnifiedAddressing) == 0 {
        return Err(Error::Unsupported {
            asked: id.to_string(),
            why: format!(
                "{} at {} has other addresses than the host (no unified addressing), expected 64-bit Linux; use DEV=NV, or DEV=CPU",
                found.name, found.place
            ),
        });
    }
    let context = gpu.context().map_err(|refusal| refusal.error(&id))?;
    let gpu = Gpu::new(
        cuda.api.library(),
        NAMES,
        found.can_write,
        Box::new(context),
    );
    let gpu = gpu.map_err(|why| no(unusable(why)))?;
    let about = About {
        id,
        interface: "CUDA",
        ordinal: index,
        place: found.place,
        arch: found.arch,
        name: found.name,
        units: found.units,
        memory: found.memory,
        items: u64::MAX,
        log: "-e NVRM -e Xid",
    };
    drivers_runtime::open(&gpu, &cuda.process, about, options)
}
