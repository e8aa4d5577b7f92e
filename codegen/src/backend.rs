//! What compiles kernels, and how it is asked to.

use std::sync::Arc;

use crate::cache::Cache;
use crate::compile::{ClangCompiler, ComgrCompiler, Compiler};
use crate::error::Result;
use crate::opt::Opt;
use crate::render::{CRenderer, HipRenderer, Renderer};
use crate::target::Target;

/// A target with the renderer and the compiler for it.
#[derive(Clone)]
pub struct Backend {
    /// The machine.
    pub target: Target,
    pub(crate) renderer: Arc<dyn Renderer>,
    pub(crate) compiler: Arc<dyn Compiler>,
}

impl Backend {
    /// Any combination.
    pub fn new(target: Target, renderer: Arc<dyn Renderer>, compiler: Arc<dyn Compiler>) -> Self {
        Backend {
            target,
            renderer,
            compiler,
        }
    }

    /// The host CPU through LLVM in this process.
    #[cfg(feature = "llvm")]
    pub fn cpu_llvm(cores: usize) -> Result<Backend> {
        Ok(Backend::new(
            Target::host(cores),
            Arc::new(crate::render::LlvmRenderer),
            Arc::new(crate::compile::LlvmCompiler::new()),
        ))
    }

    /// The host CPU through the clang program that is found first.
    pub fn cpu_clang(cores: usize) -> Result<Backend> {
        Ok(Self::with_clang(cores, ClangCompiler::find()?))
    }

    /// The host CPU through a certain clang program.
    pub fn with_clang(cores: usize, clang: ClangCompiler) -> Backend {
        Backend::new(Target::host(cores), Arc::new(CRenderer), Arc::new(clang))
    }

    /// An AMD GPU through LLVM in this process; `chip` as for [`Target::amd`].
    #[cfg(feature = "llvm")]
    pub fn amd_llvm(chip: &str) -> Result<Backend> {
        Ok(Backend::new(
            Target::amd(chip)?,
            Arc::new(crate::render::LlvmRenderer),
            Arc::new(crate::compile::LlvmCompiler::new()),
        ))
    }

    /// An AMD GPU through the clang program that is found first, which is given LLVM assembly.
    pub fn amd_clang(chip: &str) -> Result<Backend> {
        Ok(Backend::new(
            Target::amd(chip)?,
            Arc::new(crate::render::LlvmRenderer),
            Arc::new(ClangCompiler::find()?),
        ))
    }

    /// An AMD GPU through HIP C and the library of ROCm that compiles it.
    pub fn amd_hip(chip: &str) -> Result<Backend> {
        let target = Target::amd(chip)?;
        let compiler = Arc::new(ComgrCompiler::find(&target)?);
        Ok(Backend::new(target, Arc::new(HipRenderer), compiler))
    }

    /// Renderer and compiler with its version.
    pub fn describe(&self) -> String {
        format!(
            "{} {} {}",
            self.renderer.name(),
            self.compiler.name(),
            self.compiler.version()
        )
    }
}

/// What to do with a kernel.
#[derive(Clone, Default)]
pub struct Options {
    /// Leave the loops as they are.
    pub noopt: bool,
    /// These steps instead of the heuristics.
    pub opts: Option<Vec<Opt>>,
    /// Where compiled kernels are kept.
    pub cache: Option<Arc<Cache>>,
    /// Sums keep their order: the same bits in every run.
    pub deterministic: bool,
    /// Keeps every text of [`crate::build::Report`]. They are made by compiling, so kernels do not come from the
    /// cache as a whole, only their objects do.
    pub explain: bool,
    /// Number of threads that will run the groups on a CPU; 0 stands for the cores of the target.
    pub threads: usize,
}
