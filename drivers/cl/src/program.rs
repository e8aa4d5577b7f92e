//! Kernels: built by the library on a thread of their own, since its calls have no deadline and compilers need a deep stack.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use hcq::sync::lock;
use hcq::{ArgField, ArgKind, KernelImage};

use crate::api::{Api, Handle, Object};

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
    /// How long a build may take.
    pub(crate) limit: Duration,
    /// The kernel whose build did not end in time.
    pub(crate) stuck: OnceLock<String>,
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
        let source = text(&image.bytes, "the image")?;
        let entry = text(image.entry.as_bytes(), "the entry")?;
        let options = text(self.options.as_bytes(), "the options")?;
        let (api, context, device) = (self.api.clone(), self.context.clone(), self.device);
        let (tell, told) = sync_channel(1);
        let run = move || {
            let built = api.program(&context, device, &source, &options);
            let built = built.and_then(|program| {
                let kernel = api.kernel(&program, &entry)?;
                let shape = api.shape(&kernel, device)?;
                Ok((program, kernel, shape))
            });
            // Nobody may listen any more.
            let _ = tell.send(built);
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
