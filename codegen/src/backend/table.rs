//! The back ends of this program, a row each: another one is a row here, its emitter, its compiler if it has one,
//! and the facts of its target.

use std::sync::Arc;

use super::Backend;
use crate::compile::{ClangCompiler, ComgrCompiler, Compiler, NvrtcCompiler, Toolkits, ptxas};
#[cfg(feature = "llvm")]
use crate::compile::{LlvmCompiler, NvptxCompiler};
use crate::error::Result;
use crate::render::{CRenderer, CudaRenderer, Emitter, HipRenderer, LlvmRenderer, PtxRenderer};
use crate::target::Target;

/// A compiler, if one is needed, or why it cannot be had.
pub type Found = Result<Option<Arc<dyn Compiler>>>;

/// How code for a kind of device is made.
pub struct Row {
    /// The device, as in `DEV`.
    pub device: &'static str,
    /// The way, as in `DEV`.
    pub renderer: &'static str,
    /// The facts of a machine, by its instruction set and its units.
    pub target: fn(&str, usize) -> Result<Target>,
    /// What spells programs out.
    pub emitter: fn() -> Arc<dyn Emitter>,
    /// Looks for the compiler of what the emitter writes; `None` where the device takes that as it is.
    pub compiler: fn(&Target) -> Found,
    /// What to do where the compiler is not there.
    pub fix: &'static str,
}

impl Row {
    /// The back end for a machine.
    ///
    /// # Errors
    /// Its tools are not there, or the instruction set is unknown.
    pub fn open(&self, arch: &str, units: usize) -> Result<Backend> {
        let target = (self.target)(arch, units)?;
        let compiler = (self.compiler)(&target)?;
        Ok(Backend::new(target, (self.emitter)(), compiler))
    }
}

/// The best one of each device comes first.
pub const TABLE: &[Row] = &[
    #[cfg(feature = "llvm")]
    Row {
        device: "CPU",
        renderer: "LLVM",
        target: cpu,
        emitter: || Arc::new(LlvmRenderer),
        compiler: |_| found(LlvmCompiler::new()),
        fix: "build with LLVM 22, see scripts/setup",
    },
    Row {
        device: "CPU",
        renderer: "CLANG",
        target: cpu,
        emitter: || Arc::new(CRenderer),
        compiler: |_| found(ClangCompiler::find()?),
        fix: "optional: apt-get install clang-22",
    },
    #[cfg(feature = "llvm")]
    Row {
        device: "AMD",
        renderer: "LLVM",
        target: amd,
        emitter: || Arc::new(LlvmRenderer),
        compiler: |_| found(LlvmCompiler::new()),
        fix: "build with LLVM 22, see scripts/setup",
    },
    // It is given LLVM assembly, too.
    Row {
        device: "AMD",
        renderer: "CLANG",
        target: amd,
        emitter: || Arc::new(LlvmRenderer),
        compiler: |_| found(ClangCompiler::find()?),
        fix: "optional: apt-get install clang-22",
    },
    Row {
        device: "AMD",
        renderer: "HIP",
        target: amd,
        emitter: || Arc::new(HipRenderer),
        compiler: |target| found(ComgrCompiler::find(target)?),
        fix: "optional, for DEV=AMD:HIP: GPUs are compiled for by LLVM",
    },
    Row {
        device: "NV",
        renderer: "CUDA",
        target: Target::nv,
        emitter: || Arc::new(CudaRenderer),
        compiler: |target| found(NvrtcCompiler::find(target)?),
        fix: "pip install nvidia-cuda-nvrtc, or install a CUDA toolkit and set CUDA_PATH",
    },
    Row {
        device: "NV",
        renderer: "PTX",
        target: Target::nv,
        emitter: || Arc::new(PtxRenderer),
        compiler: |_| Ok(Some(ptxas::assembler(&Toolkits::of_this_system())?)),
        fix: "pip install nvidia-nvjitlink, or install a CUDA toolkit and set CUDA_PATH",
    },
    #[cfg(feature = "llvm")]
    Row {
        device: "NV",
        renderer: "LLVM",
        target: Target::nv,
        emitter: || Arc::new(LlvmRenderer),
        compiler: |_| found(NvptxCompiler::of(&Toolkits::of_this_system())?),
        fix: "its PTX is assembled as that of DEV=NV:PTX",
    },
];

fn cpu(_: &str, units: usize) -> Result<Target> {
    Ok(Target::host(units))
}

fn amd(arch: &str, _: usize) -> Result<Target> {
    Target::amd(arch)
}

fn found(compiler: impl Compiler + 'static) -> Found {
    Ok(Some(Arc::new(compiler)))
}
