//! A device of OpenCL as a [`Runtime`].

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use drivers_bundle::CoredumpWriter;
use drivers_cpu::RuntimeConfig;
use drivers_cpu::runtime::{About, Allocated, Loaded, Runtime, Work};
use hcq::{Device, DeviceId, Error, KernelImage, QueueKind, Result};

use crate::cache::Cache;
use crate::memory::{Block, reserve};
use crate::program::{Builder, Shared};
use crate::queue::ClQueue;
use crate::status::Failed;
use crate::survey::Found;

/// How to open a device.
#[derive(Clone)]
pub struct Options {
    /// Words of the ring of each queue.
    pub ring_words: u32,
    /// How long a submission waits for room in a full ring while nothing moves.
    pub ring_timeout: Duration,
    /// How long the end of the device waits for work while nothing moves.
    pub drain_timeout: Duration,
    /// How long the build of a kernel may take.
    pub build_limit: Duration,
    /// Bytes that may be allocated; 0 for what the device has.
    pub memory: u64,
    /// The number of the device in messages, where it is another than that among those of the library.
    pub index: Option<u32>,
    /// The folder of built programs; none if they are not kept.
    pub cache: Option<PathBuf>,
    /// Where bundles go; none if nothing is kept.
    pub coredumps: Option<Arc<CoredumpWriter>>,
}

impl Default for Options {
    fn default() -> Self {
        let usual = RuntimeConfig::default();
        Options {
            ring_words: usual.ring_words,
            ring_timeout: usual.ring_timeout,
            drain_timeout: usual.drain_timeout,
            build_limit: Duration::from_secs(300),
            memory: 0,
            index: None,
            cache: None,
            coredumps: None,
        }
    }
}

struct ClRuntime {
    id: DeviceId,
    about: About,
    /// Bytes of one buffer at most.
    most: u64,
    used: Arc<AtomicU64>,
    shared: Arc<Shared>,
}

/// Memory of a buffer.
struct Owner {
    used: Arc<AtomicU64>,
    bytes: u64,
    _block: Arc<Block>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A kernel's place among those of its device.
struct Entry {
    shared: Arc<Shared>,
    entry: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.shared.remove(self.entry);
    }
}

/// Opens a device.
///
/// # Errors
/// [`Error::Unsupported`] for one that cannot be used; [`Error::Fault`] for what the library refuses; as
/// [`drivers_cpu::open_runtime`].
pub fn open(found: &Found, options: &Options) -> Result<Arc<dyn Device>> {
    let id = DeviceId::new("CL", options.index.unwrap_or(found.index));
    if let Some(why) = &found.unusable {
        return Err(Error::Unsupported {
            asked: format!("{id} ({}, {})", found.name, found.place()),
            why: why.clone(),
        });
    }
    let refused = |failed: Failed| Error::Fault {
        device: id.clone(),
        unit: "open".into(),
        what: format!(
            "{failed} for {} of {}; run `clinfo`, and see `dmesg`",
            found.name,
            found.library().display()
        ),
    };
    let context = found.api.context(found.platform_handle, found.handle);
    let context = Arc::new(context.map_err(refused)?);
    let facts = &found.facts;
    let memory = match options.memory {
        0 => facts.memory,
        bytes => bytes.min(facts.memory),
    };
    let builder = Builder {
        api: found.api.clone(),
        context,
        device: found.handle,
        options: facts.options(),
        cache: options.cache.clone().map(|folder| {
            let device = format!("{}; {}; {}", found.name, found.place(), facts.arch());
            Arc::new(Cache::new(folder, device))
        }),
        limit: options.build_limit,
        stuck: OnceLock::new(),
    };
    let runtime = ClRuntime {
        id: id.clone(),
        about: About {
            interface: "OPENCL",
            place: found.place(),
            arch: facts.arch(),
            name: found.name.clone(),
            units: facts.units,
            memory,
            subnormals: facts.denorm,
        },
        most: facts.most,
        used: Arc::default(),
        shared: Arc::new(Shared::new(builder)),
    };
    let config = RuntimeConfig {
        ring_words: options.ring_words,
        ring_timeout: options.ring_timeout,
        drain_timeout: options.drain_timeout,
        coredumps: options.coredumps.clone(),
    };
    drivers_cpu::open_runtime(Arc::new(runtime), config)
}

impl ClRuntime {
    fn out_of_memory(&self, asked: u64, hint: String) -> Error {
        let total = self.about.memory;
        Error::OutOfMemory {
            device: self.id.clone(),
            asked,
            free: total.saturating_sub(self.used.load(Ordering::Relaxed)),
            total,
            hint,
        }
    }
}

impl Runtime for ClRuntime {
    fn id(&self) -> &DeviceId {
        &self.id
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn memory(&self, bytes: u64, align: u64) -> Result<Allocated> {
        if bytes > self.most {
            let most = self.most;
            let hint = format!("; one buffer has at most {most} (CL_DEVICE_MAX_MEM_ALLOC_SIZE)");
            return Err(self.out_of_memory(bytes, hint));
        }
        let total = self.about.memory;
        let fits = |used: u64| used.checked_add(bytes).filter(|used| *used <= total);
        let (relaxed, used) = (Ordering::Relaxed, &self.used);
        if used.fetch_update(relaxed, relaxed, fits).is_err() {
            return Err(self.out_of_memory(bytes, String::new()));
        }
        let give_back = |error| {
            used.fetch_sub(bytes, relaxed);
            error
        };
        let range = reserve(bytes, align).ok_or_else(|| {
            give_back(self.out_of_memory(bytes, "; no addresses are left".into()))
        })?;
        let size = usize::try_from(bytes)
            .map_err(|e| give_back(self.out_of_memory(bytes, format!("; {e}"))))?;
        let made = self.shared.api.memory(&self.shared.builder.context, size);
        let object = made.map_err(|failed| {
            give_back(match failed.is_memory() {
                true => self.out_of_memory(bytes, format!("; {failed}")),
                false => self.failed("memory", failed.to_string()),
            })
        })?;
        let va = range.start;
        let block = Block::new(range, object, self.shared.context());
        Ok(Allocated {
            va,
            bytes,
            owner: Box::new(Owner {
                used: self.used.clone(),
                bytes,
                _block: block,
            }),
        })
    }

    fn load(&self, image: &KernelImage) -> std::result::Result<Loaded, String> {
        let kernel = self.shared.builder.build(image)?;
        let entry = reserve(1, 1).ok_or("no addresses are left")?.start;
        let items = kernel.items;
        self.shared.insert(entry, kernel);
        Ok(Loaded {
            entry,
            items,
            owner: Box::new(Entry {
                shared: self.shared.clone(),
                entry,
            }),
        })
    }

    fn queue(&self, kind: QueueKind, index: u32) -> Result<Box<dyn Work>> {
        let Builder {
            api,
            context,
            device,
            ..
        } = &self.shared.builder;
        let queue = api.queue(context, *device);
        let queue =
            queue.map_err(|failed| self.failed(&format!("{kind} {index}"), failed.to_string()))?;
        Ok(Box::new(ClQueue::new(self.shared.clone(), queue)))
    }
}
