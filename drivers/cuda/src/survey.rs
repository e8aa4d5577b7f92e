//! [`survey`]: the GPUs that CUDA has.

use std::sync::{Arc, OnceLock};

use drivers_runtime::{Found, NoLibrary, Process, Refusal, Survey, Unusable};

use crate::api::{Api, Attribute};

/// What to do without the library.
const FIX: &str = "It comes with NVIDIA's driver: on Debian `apt-get install libcuda1`, in a container `--gpus all`. \
                   DEV=NV works without it, or use DEV=CPU";

/// CUDA in this process.
pub(crate) struct Cuda {
    pub(crate) api: Arc<Api>,
    pub(crate) process: Arc<Process>,
}

/// Loads the library, once.
fn api() -> Result<&'static Arc<Api>, Unusable> {
    static API: OnceLock<Result<Arc<Api>, Unusable>> = OnceLock::new();
    let api = API.get_or_init(|| Api::load().map_err(unusable));
    api.as_ref().map_err(Clone::clone)
}

/// Whether the library loads, and the name of its file. Nothing is started.
///
/// # Errors
/// [`Unusable::Library`].
pub fn library() -> Result<&'static str, Unusable> {
    Ok(api()?.library().name())
}

/// What is wrong with the library.
pub(crate) fn unusable(why: NoLibrary) -> Unusable {
    Unusable::Library { why, fix: FIX }
}

/// Starts the library, once.
pub(crate) fn cuda() -> Result<&'static Cuda, Unusable> {
    static CUDA: OnceLock<Result<Cuda, Unusable>> = OnceLock::new();
    let cuda = CUDA.get_or_init(|| {
        let api = api()?;
        api.init().map_err(Unusable::Refused)?;
        Ok(Cuda {
            api: api.clone(),
            process: Arc::default(),
        })
    });
    cuda.as_ref().map_err(Clone::clone)
}

/// Asks CUDA for its GPUs: loads the library and starts it, and makes no context.
///
/// # Errors
/// [`Unusable`].
pub fn survey() -> Result<Survey, Unusable> {
    of(&cuda()?.api).map_err(Unusable::Refused)
}

fn of(api: &Arc<Api>) -> Result<Survey, Refusal> {
    let version = api.version()?;
    let mut gpus = Vec::new();
    for index in 0..api.count()? {
        gpus.push(found(api, index)?);
    }
    Ok(Survey {
        // 12040 is 12.4.
        version: format!("CUDA {}.{}", version / 1000, version % 1000 / 10),
        library: api.library().name(),
        gpus,
    })
}

/// A GPU by its number.
pub(crate) fn found(api: &Arc<Api>, index: u32) -> Result<Found, Refusal> {
    let gpu = api.device(index)?;
    let major = gpu.attribute(Attribute::Major);
    let minor = gpu.attribute(Attribute::Minor);
    Ok(Found {
        index,
        place: gpu.place()?,
        name: gpu.name()?,
        arch: format!("sm_{major}{minor}"),
        units: gpu.attribute(Attribute::Multiprocessors),
        memory: gpu.memory()?,
        can_write: gpu.attribute(Attribute::StreamWrites) != 0,
    })
}
