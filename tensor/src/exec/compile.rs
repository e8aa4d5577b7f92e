//! From kernels to programs on a device: each structure is compiled once, several at a time.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use codegen::ir::Kernel;
use codegen::{Backend, Built, Stage, StageArg};
use hcq::{ArgKind, ArgLayout, Device, KernelImage, Program, Width};

use super::preparation::Ledger;
use super::profile::Observer;
use crate::error::{Error, Result};
use crate::schedule::order::Structure;

/// What an argument is to the device.
fn kind(arg: &StageArg) -> ArgKind {
    match arg {
        StageArg::Param(_) | StageArg::Scratch(_) => ArgKind::Buffer,
        StageArg::Var(_) | StageArg::Number(_) => ArgKind::Value(Width::W64),
    }
}

/// One launch of a compiled kernel.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The code on the device.
    pub program: Arc<Program>,
    /// What each argument is.
    pub args: Vec<StageArg>,
    /// Workgroups in x, y, z.
    pub grid: [u32; 3],
    /// Work-items per workgroup.
    pub block: [u32; 3],
}

/// A kernel on a device.
pub struct Compiled {
    /// Its launches, in order.
    pub launches: Vec<Launch>,
    /// What the compiler said.
    pub built: Built,
    /// Offset of each scratch block.
    pub scratch: Vec<u64>,
    /// Size of all of them.
    pub scratch_bytes: u64,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiled")
            .field("launches", &self.launches)
            .field("scratch_bytes", &self.scratch_bytes)
            .finish_non_exhaustive()
    }
}

/// Code on a device, by module and arguments.
type Programs = HashMap<([u8; 32], Vec<ArgKind>), Arc<Program>>;

/// Compiles for one device and keeps what it made.
pub struct Compiler {
    device: Arc<dyn Device>,
    backend: Backend,
    options: codegen::Options,
    threads: usize,
    known: Mutex<HashMap<Structure, Arc<Compiled>>>,
    programs: Mutex<Programs>,
    pub(super) ledger: Ledger,
}

impl Compiler {
    /// A compiler for a device; `threads` kernels at a time.
    pub fn new(
        device: Arc<dyn Device>,
        backend: Backend,
        mut options: codegen::Options,
        threads: usize,
    ) -> Compiler {
        options.modules.get_or_insert_default();
        Compiler {
            device,
            backend,
            options,
            threads: threads.max(1),
            known: Mutex::default(),
            programs: Mutex::default(),
            ledger: Ledger::default(),
        }
    }

    /// Kernels of different structure that were compiled so far.
    pub fn known(&self) -> usize {
        self.known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Forgets what was compiled, and returns it.
    pub(super) fn take(&mut self) -> HashMap<Structure, Arc<Compiled>> {
        let programs = self.programs.get_mut();
        programs.unwrap_or_else(PoisonError::into_inner).clear();
        let known = self.known.get_mut();
        std::mem::take(known.unwrap_or_else(PoisonError::into_inner))
    }

    /// The programs of all kernels, in order.
    ///
    /// # Errors
    /// The first kernel that the compiler or the device refuses.
    pub fn compile(
        &self,
        kernels: &[Kernel],
        observer: Option<&dyn Observer>,
    ) -> Result<Vec<Arc<Compiled>>> {
        let structures: Vec<Structure> = kernels.iter().map(Structure::of).collect();
        let missing: Vec<usize> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            (0..kernels.len())
                .filter(|&i| !known.contains_key(&structures[i]))
                .collect()
        };
        if !missing.is_empty() {
            let work = || self.build_all(kernels, &missing, observer);
            let built = self.ledger.timed(|p| &mut p.compiling, work);
            for (&i, built) in missing.iter().zip(built) {
                let built = built.map_err(|e| Error::Kernel {
                    kernel: kernels[i].name.clone(),
                    what: e.to_string(),
                })?;
                self.ledger.built(&built);
                let compiled = self.ledger.timed(|p| &mut p.load, || self.load(built))?;
                let compiled = Arc::new(compiled);
                if let Some(observer) = observer {
                    observer.compiled(&kernels[i].name, &compiled.built);
                }
                tracing::debug!(
                    kernel = kernels[i].name,
                    cached = compiled.built.report.cached,
                    stages = compiled.launches.len(),
                    "compiled"
                );
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                known.insert(structures[i].clone(), compiled);
            }
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let all = structures.iter().zip(kernels);
        all.map(|(structure, kernel)| {
            known.get(structure).cloned().ok_or_else(|| Error::Kernel {
                kernel: kernel.name.clone(),
                what: "was compiled and is not there; this is a fault of the compiler table".into(),
            })
        })
        .collect()
    }

    fn build_all(
        &self,
        kernels: &[Kernel],
        which: &[usize],
        observer: Option<&dyn Observer>,
    ) -> Vec<codegen::Result<Built>> {
        let next = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        let work = || {
            let mut out = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&kernel) = which.get(at) else {
                    return out;
                };
                let built = codegen::build(&kernels[kernel], &self.backend, &self.options);
                out.push((at, built));
                if let Some(observer) = observer {
                    observer.compiling(done.fetch_add(1, Ordering::Relaxed) + 1, which.len());
                }
            }
        };
        let threads = self.threads.min(which.len());
        let mut all: Vec<(usize, codegen::Result<Built>)> = Vec::new();
        if threads <= 1 {
            all = work();
        } else {
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                for worker in workers {
                    match worker.join() {
                        Ok(part) => all.extend(part),
                        Err(panic) => std::panic::resume_unwind(panic),
                    }
                }
            });
        }
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, built)| built).collect()
    }

    fn load(&self, built: Built) -> Result<Compiled> {
        let mut launches = Vec::with_capacity(built.stages.len());
        for stage in &built.stages {
            launches.push(Launch {
                program: self.program(stage)?,
                args: stage.args.clone(),
                grid: stage.grid,
                block: stage.block,
            });
        }
        let mut scratch = Vec::with_capacity(built.scratch.len());
        let mut scratch_bytes = 0u64;
        for spec in &built.scratch {
            scratch_bytes = scratch_bytes.next_multiple_of((spec.align as u64).max(64));
            scratch.push(scratch_bytes);
            scratch_bytes += spec.bytes as u64;
        }
        Ok(Compiled {
            launches,
            built,
            scratch,
            scratch_bytes,
        })
    }

    /// The code of a stage on the device. Stages of one module share it, under the name of the first one.
    fn program(&self, stage: &Stage) -> Result<Arc<Program>> {
        let kinds: Vec<ArgKind> = stage.args.iter().map(kind).collect();
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = programs.get(&(stage.module, kinds.clone())) {
            return Ok(program.clone());
        }
        let program = self.device.load(&KernelImage {
            name: stage.name.clone(),
            arch: self.device.info().arch.clone(),
            bytes: stage.object.clone(),
            entry: stage.entry.clone(),
            args: ArgLayout::new(kinds.iter().copied()),
            local_bytes: stage.local_bytes,
        })?;
        programs.insert((stage.module, kinds), program.clone());
        Ok(program)
    }
}
