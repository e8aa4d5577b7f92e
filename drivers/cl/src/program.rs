//! Kernels: built by the library on a thread of their own, since its calls have no deadline and compilers need a deep stack.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use hcq::sync::lock;
use hcq::{ArgField, ArgKind, KernelImage};

use crate::api::{Api, Called, Handle, Object};
use crate::cache::Cache;

/// Bytes of the stack of a build: compilers call themselves.
const STACK: usize = 16 << 20;

/// A kernel of a device.
pub(crate) struct Kernel {
    /// Locked from the first argument to the launch: the library keeps arguments in the object.
    pub(crate) object: Mutex<Object>,
    /// The program that it is of.
    _program: Object,
    pub(crate) fields: Vec<ArgField>,
    /// Work-items of a group.
    pub(crate) items: u32,
}

/// What kernels are built with.
pub(crate) struct Builder {
    pub(crate) api: Arc<Api>,
    pub(crate) context: Arc<Object>,
    pub(crate) device: Handle,
    pub(crate) options: &'static str,
    /// Where built programs are kept; none if nowhere.
    pub(crate) cache: Option<Arc<Cache>>,
    /// How long a build may take.
    pub(crate) limit: Duration,
    /// The kernel whose build did not end in time.
    pub(crate) stuck: OnceLock<String>,
}

/// A built program, a kernel of it, and its [shape](Api::shape).
type Built = (Object, Object, (u64, [u64; 3], u64));

/// What a thread builds.
struct Job {
    api: Arc<Api>,
    context: Arc<Object>,
    device: Handle,
    source: CString,
    entry: CString,
    options: CString,
    cache: Option<Arc<Cache>>,
}

impl Job {
    fn run(&self) -> Called<Built> {
        let (api, source) = (&self.api, self.source.as_bytes());
        let cache = self.cache.as_deref();
        let known = cache.map(|cache| (cache, cache.key(source, self.options.as_bytes())));
        let found = known
            .as_ref()
            .and_then(|(cache, key)| cache.get(key, source));
        if let Some(binary) = found {
            let program = api.program_of_binary(&self.context, self.device, &binary, &self.options);
            // What a driver does not take of its own is built again; so is what has lost the size of its groups.
            if let Ok(built) = program.and_then(|program| self.kernel(program))
                && built.2.1 != [0; 3]
            {
                return Ok(built);
            }
        }
        let program = api.program(&self.context, self.device, &self.source, &self.options)?;
        if let Some((cache, key)) = &known
            && let Ok(binary) = api.binary(&program)
        {
            cache.put(key, source, &binary);
        }
        self.kernel(program)
    }

    fn kernel(&self, program: Object) -> Called<Built> {
        let kernel = self.api.kernel(&program, &self.entry)?;
        let shape = self.api.shape(&kernel, self.device)?;
        Ok((program, kernel, shape))
    }
}

/// Parameters of the kernel for an argument: of a buffer the object and the offset.
fn parameters(kind: ArgKind) -> u64 {
    match kind {
        ArgKind::Buffer => 2,
        ArgKind::Value(_) => 1,
    }
}

impl Builder {
    /// Builds a kernel.
    ///
    /// # Errors
    /// Why not, with the compiler's log.
    pub(crate) fn build(&self, image: &KernelImage) -> Result<Kernel, String> {
        if let Some(kernel) = self.stuck.get() {
            return Err(format!(
                "the build of {kernel} did not end in time, and the library is not called again: start the program again"
            ));
        }
        let text = |bytes: &[u8], what| {
            CString::new(bytes).map_err(|e| format!("{what}: {e}; expected OpenCL C"))
        };
        let job = Job {
            api: self.api.clone(),
            context: self.context.clone(),
            device: self.device,
            source: text(&image.bytes, "the image")?,
            entry: text(image.entry.as_bytes(), "the entry")?,
            options: text(self.options.as_bytes(), "the options")?,
            cache: self.cache.clone(),
        };
        let (tell, told) = sync_channel(1);
        let run = move || {
            // Nobody may listen any more.
            let _ = tell.send(job.run());
        };
        let thread = thread::Builder::new().name("opencl build".into());
        let started = thread.stack_size(STACK).spawn(run);
        started.map_err(|e| format!("cannot start a thread for clBuildProgram: {e}"))?;
        let built = match told.recv_timeout(self.limit) {
            Ok(built) => built.map_err(|failed| failed.to_string())?,
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.stuck.set(image.name.clone());
                let limit = self.limit;
                return Err(format!(
                    "clBuildProgram has not ended after {limit:?}, and is not waited for: later builds are refused"
                ));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err("the thread of clBuildProgram has ended without a result".into());
            }
        };
        let (program, object, (count, group, most)) = built;
        let wanted: u64 = image.args.fields.iter().map(|f| parameters(f.kind)).sum();
        if count != wanted {
            return Err(format!(
                "the kernel {} has {count} parameters, expected {wanted}: object and offset of each buffer, and each number",
                image.entry
            ));
        }
        let [items, 1, 1] = group else {
            return Err(format!(
                "the kernel {} was built for groups of {group:?}, expected reqd_work_group_size(N, 1, 1)",
                image.entry
            ));
        };
        if items > most {
            return Err(format!(
                "groups of {items} work-items, the device has at most {most} for this kernel (CL_KERNEL_WORK_GROUP_SIZE)"
            ));
        }
        Ok(Kernel {
            object: Mutex::new(object),
            _program: program,
            fields: image.args.fields.clone(),
            items: u32::try_from(items).map_err(|e| e.to_string())?,
        })
    }
}

/// What a device and its queues have in common.
pub(crate) struct Shared {
    pub(crate) api: Arc<Api>,
    pub(crate) builder: Builder,
    /// By the number that packets have.
    kernels: Mutex<BTreeMap<u64, Arc<Kernel>>>,
}

impl Shared {
    pub(crate) fn new(builder: Builder) -> Shared {
        Shared {
            api: builder.api.clone(),
            builder,
            kernels: Mutex::default(),
        }
    }

    pub(crate) fn context(&self) -> Handle {
        self.builder.context.handle()
    }

    pub(crate) fn kernel(&self, entry: u64) -> Option<Arc<Kernel>> {
        lock(&self.kernels).get(&entry).cloned()
    }

    pub(crate) fn insert(&self, entry: u64, kernel: Kernel) {
        lock(&self.kernels).insert(entry, Arc::new(kernel));
    }

    pub(crate) fn remove(&self, entry: u64) {
        // Dropped outside of the lock.
        let kernel = lock(&self.kernels).remove(&entry);
        drop(kernel);
    }
}
