//! [`survey`]: the GPUs that HIP has.

use std::sync::{Arc, OnceLock};

use drivers_runtime::{Found, NoLibrary, Process, Refusal, Survey, Unusable};

use crate::api::Api;

/// What to do without the library.
const FIX: &str = "It comes with ROCm: on Debian `apt-get install libamdhip64-5`. \
                   DEV=AMD works without it, or use DEV=CPU";

/// HIP in this process.
pub(crate) struct Hip {
    pub(crate) api: Arc<Api>,
    pub(crate) process: Arc<Process>,
}

/// What is wrong with the library.
pub(crate) fn unusable(why: NoLibrary) -> Unusable {
    Unusable::Library { why, fix: FIX }
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

/// Starts the library, once.
pub(crate) fn hip() -> Result<&'static Hip, Unusable> {
    static HIP: OnceLock<Result<Hip, Unusable>> = OnceLock::new();
    let hip = HIP.get_or_init(|| {
        let api = api()?;
        api.init().map_err(Unusable::Refused)?;
        Ok(Hip {
            api: api.clone(),
            process: Arc::default(),
        })
    });
    hip.as_ref().map_err(Clone::clone)
}

/// Asks HIP for its GPUs: loads the library and starts it.
///
/// # Errors
/// [`Unusable`].
pub fn survey() -> Result<Survey, Unusable> {
    of(&hip()?.api).map_err(Unusable::Refused)
}

fn of(api: &Arc<Api>) -> Result<Survey, Refusal> {
    let version = api.version()?;
    let mut gpus = Vec::new();
    for index in 0..api.count()? {
        gpus.push(found(api, index)?);
    }
    Ok(Survey {
        // 60443484 is 6.4.43484.
        version: format!("HIP {}.{}", version / 10_000_000, version / 100_000 % 100),
        library: api.library().name(),
        gpus,
    })
}

/// A GPU by its number.
pub(crate) fn found(api: &Arc<Api>, index: u32) -> Result<Found, Refusal> {
    Ok(Found {
        index,
        place: api.place(index)?,
        name: api.name(index)?,
        arch: api.arch(index)?,
        units: api.units(index)?,
        memory: api.memory(index)?,
        // It would launch a kernel for each value: the thread of the queue writes them.
        can_write: false,
    })
}
