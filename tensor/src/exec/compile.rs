//! Compiles kernels to programs on a device, several at a time; each structure once (or twice, see `known`).

use hashbrown::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use codegen::ir::Kernel;
use codegen::target::TargetKind;
use codegen::{Backend, Built, Stage, StageArg};
use hcq::sync::{lock, unpoisoned};
use hcq::{ArgKind, ArgLayout, Device, KernelImage, Program, Width};

pub use super::compiled::{Compiled, Launch};
use super::known::{Choice, Key, Known};
use super::preparation::Ledger;
use super::profile::Observer;
use crate::error::{Error, Result};
use crate::schedule::Instance;
use crate::schedule::order::Structure;

/// Stack of a thread that compiles, in bytes: LLVM goes down expressions as deep as they are.
const STACK: usize = 32 << 20;

/// Lowers the priority of this thread, which compiles and ends: replays of other threads go first. It cannot be
/// raised again without a privilege, so it must not be a thread of the user.
fn yield_to_others() {
    // A third of the processor beside a thread of a device, so that programs that load the machine do not hold it up.
    #[cfg(target_os = "linux")]
    match rustix::process::nice(5) {
        Ok(nice) => super::slice::long(nice),
        Err(error) => {
            tracing::debug!("cannot lower the priority of compile threads: {error}");
        }
    }
}

/// What an argument is to the device.
pub(crate) fn kind(arg: &StageArg) -> ArgKind {
    match arg {
        StageArg::Param(_) | StageArg::Scratch(_) => ArgKind::Buffer,
        StageArg::Var(_) | StageArg::Number(_) => ArgKind::Value(Width::W64),
    }
}

/// Code on a device that a kernel has, by module and arguments.
#[derive(Default)]
struct Programs {
    table: HashMap<([u8; 32], Vec<ArgKind>), Weak<Program>>,
    /// Entries at which those that nobody has any more are taken out.
    sweep: usize,
}

/// Compiles kernels for one device and caches them.
pub struct Compiler {
    device: Arc<dyn Device>,
    backend: Backend,
    options: codegen::Options,
    threads: usize,
    known: Mutex<Known>,
    programs: Mutex<Programs>,
    pub(super) ledger: Ledger,
}

impl Compiler {
    /// A compiler for a device; `threads` kernels at a time. It caches unused kernels of at most `most` bytes.
    pub fn new(
        device: Arc<dyn Device>,
        backend: Backend,
        mut options: codegen::Options,
        threads: usize,
        most: u64,
    ) -> Compiler {
        options.modules.get_or_insert_default();
        Compiler {
            device,
            backend,
            options,
            threads: threads.max(1),
            known: Mutex::new(Known::new(most)),
            programs: Mutex::default(),
            ledger: Ledger::default(),
        }
    }

    /// The kind of device that it compiles for.
    pub(crate) fn kind(&self) -> TargetKind {
        self.backend.target.kind
    }

    /// Whether the device computes in `f64`.
    pub fn has_doubles(&self) -> bool {
        self.backend.target.native.contains(&codegen::DType::F64)
    }

    /// Number of cached kernels.
    pub fn known(&self) -> usize {
        self.table().len()
    }

    fn table(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    /// Compiled kernels that are no longer kept, and that nobody will submit again.
    pub(super) fn retired(&self) -> Vec<Arc<Compiled>> {
        self.table().retired()
    }

    /// Forgets what was compiled, and returns it.
    pub(super) fn take(&mut self) -> Vec<Arc<Compiled>> {
        let known = self.known.get_mut();
        unpoisoned(known).take()
    }

    /// The programs of all kernels, in order. With `constant`, numbers are compiled in as constants, for code that
    /// runs often.
    ///
    /// # Errors
    /// The first kernel that the compiler or the device refuses.
    pub fn compile(
        &self,
        kernels: &[Instance],
        constant: bool,
        observer: Option<&dyn Observer>,
    ) -> Result<Vec<Arc<Compiled>>> {
        let mut found: HashMap<Key, Arc<Compiled>> = HashMap::new();
        let mut missing: Vec<(Key, Kernel)> = Vec::new();
        let keys: Vec<Key> = {
            let mut known = self.table();
            let mut keys = Vec::with_capacity(kernels.len());
            let mut seen: HashSet<Key> = HashSet::new();
            for Instance { kernel, values } in kernels {
                let Choice { key, constants } =
                    known.choose(Structure::of(kernel), values, constant);
                if seen.insert(key.clone()) {
                    match known.get(&key) {
                        Some(compiled) => {
                            found.insert(key.clone(), compiled);
                        }
                        None => missing.push((key.clone(), kernel.bound(&constants))),
                    }
                }
                keys.push(key);
            }
            keys
        };
        if !missing.is_empty() {
            let kernels: Vec<&Kernel> = missing.iter().map(|(_, kernel)| kernel).collect();
            let work = || {
                let (backend, options) = (&self.backend, &self.options);
                build_all(&kernels, backend, options, self.threads, observer)
            };
            let built = self.ledger.timed(|p| &mut p.compiling, work);
            for ((key, kernel), built) in missing.into_iter().zip(built) {
                let built = built.map_err(|e| Error::Kernel {
                    kernel: kernel.name.clone(),
                    what: e.to_string(),
                })?;
                self.ledger.built(&built);
                let compiled = self.ledger.timed(|p| &mut p.load, || self.load(built))?;
                let compiled = Arc::new(compiled);
                if let Some(observer) = observer {
                    observer.compiled(&kernel.name, &compiled.built);
                }
                tracing::debug!(
                    kernel = kernel.name,
                    cached = compiled.built.report.cached,
                    stages = compiled.launches.len(),
                    arguments = kernel.vars,
                    "compiled"
                );
                self.table().insert(key.clone(), compiled.clone());
                found.insert(key, compiled);
            }
        }
        let all = keys.iter().zip(kernels);
        all.map(|(key, instance)| {
            found.get(key).cloned().ok_or_else(|| Error::Kernel {
                kernel: instance.kernel.name.clone(),
                what: "was compiled, but is missing from the kernel table; this is a bug".into(),
            })
        })
        .collect()
    }

    fn load(&self, built: Built) -> Result<Compiled> {
        Compiled::of(built, |stage| self.program(stage))
    }

    /// The code of a stage on the device. Stages of one module share it, under the name of the first one.
    fn program(&self, stage: &Stage) -> Result<Arc<Program>> {
        let kinds: Vec<ArgKind> = stage.args.iter().map(kind).collect();
        let mut programs = lock(&self.programs);
        let known = programs.table.get(&(stage.module, kinds.clone()));
        if let Some(program) = known.and_then(Weak::upgrade) {
            return Ok(program);
        }
        let program = self.device.load(&KernelImage {
            name: stage.name.clone(),
            arch: self.device.info().arch.clone(),
            bytes: stage.object.clone(),
            entry: stage.entry.clone(),
            args: ArgLayout::new(kinds.iter().copied()),
            local_bytes: stage.local_bytes,
        })?;
        if programs.table.len() >= programs.sweep {
            programs
                .table
                .retain(|_, program| program.strong_count() > 0);
            programs.sweep = 64 + 2 * programs.table.len();
        }
        let weak = Arc::downgrade(&program);
        programs.table.insert((stage.module, kinds), weak);
        Ok(program)
    }
}

/// Compiles kernels, so many at the same time.
pub(crate) fn build_all(
    kernels: &[&Kernel],
    backend: &Backend,
    options: &codegen::Options,
    threads: usize,
    observer: Option<&dyn Observer>,
) -> Vec<codegen::Result<Built>> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let work = || {
        let mut out = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(kernel) = kernels.get(at) else {
                return out;
            };
            let built = codegen::build(kernel, backend, options);
            out.push((at, built));
            if let Some(observer) = observer {
                observer.compiling(done.fetch_add(1, Ordering::Relaxed) + 1, kernels.len());
            }
        }
    };
    let threads = threads.min(kernels.len());
    let mut all: Vec<(usize, codegen::Result<Built>)> = Vec::new();
    std::thread::scope(|scope| {
        let start = || {
            let thread = std::thread::Builder::new().name("compile".into());
            thread.stack_size(STACK).spawn_scoped(scope, || {
                yield_to_others();
                work()
            })
        };
        let started: Vec<_> = (0..threads).map_while(|_| start().ok()).collect();
        if started.is_empty() {
            // The system has no thread to give.
            all = work();
        }
        for thread in started {
            match thread.join() {
                Ok(part) => all.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, built)| built).collect()
}
