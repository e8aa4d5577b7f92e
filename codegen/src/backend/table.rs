//! The backends, one row each. A new one needs a row, an emitter, a compiler if necessary, and a target
//! description.

use std::sync::Arc;

use super::Backend;
use crate::compile::{
    ClangCompiler, ComgrCompiler, Compiler, NvrtcCompiler, OpenClCompiler, Toolkits, ptxas,
};
#[cfg(feature = "llvm")]
use crate::compile::{LlvmCompiler, NvptxCompiler};
use crate::error::Result;
use crate::render::{
    CRenderer, CudaRenderer, Emitter, HipRenderer, Ir3Renderer, LlvmRenderer, OpenClRenderer,
    PtxRenderer,
};
use crate::target::Target;

/// A compiler, if one is needed, or why it is not available.
pub type Found = Result<Option<Arc<dyn Compiler>>>;

/// One backend of a device.
pub struct Row {
    /// The device, as in `DEV`.
    pub device: &'static str,
    /// The renderer, as in `DEV`.
    pub renderer: &'static str,
    /// Returns the target for an instruction set and a number of units.
    pub target: fn(&str, usize) -> Result<Target>,
    /// Creates the emitter.
    pub emitter: fn() -> Arc<dyn Emitter>,
    /// Finds the compiler of the emitted source; `None` if the device takes the source.
    pub compiler: fn(&Target) -> Found,
    /// How to install the compiler.
    pub fix: &'static str,
}

impl Row {
    /// The backend for a machine.
    ///
    /// # Errors
    /// Missing tools, or an unknown instruction set.
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
        fix: "optional, only for DEV=AMD:HIP: install ROCm or libamd-comgr3",
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
        fix: "needs the assembler of DEV=NV:PTX",
    },
    // The same for CUDA's driver interface, which compiles PTX itself where there is no assembler.
    Row {
        device: "CUDA",
        renderer: "CUDA",
        target: Target::nv,
        emitter: || Arc::new(CudaRenderer),
        compiler: |target| found(NvrtcCompiler::find(target)?),
        fix: "optional, only for DEV=CUDA:CUDA: pip install nvidia-cuda-nvrtc of the driver's CUDA, or install a CUDA toolkit and set CUDA_PATH",
    },
    Row {
        device: "CUDA",
        renderer: "PTX",
        target: Target::nv,
        emitter: || Arc::new(PtxRenderer),
        compiler: |_| Ok(ptxas::assembler(&Toolkits::of_this_system()).ok()),
        fix: "nothing to install",
    },
    #[cfg(feature = "llvm")]
    Row {
        device: "CUDA",
        renderer: "LLVM",
        target: Target::nv,
        emitter: || Arc::new(LlvmRenderer),
        compiler: |_| found(NvptxCompiler::of(&Toolkits::of_this_system())?),
        fix: "optional, only for DEV=CUDA:LLVM: needs the assembler of DEV=NV:PTX",
    },
    // HIP's own library links what is made as for DEV=AMD.
    #[cfg(feature = "llvm")]
    Row {
        device: "HIP",
        renderer: "LLVM",
        target: amd,
        emitter: || Arc::new(LlvmRenderer),
        compiler: |_| found(LlvmCompiler::new()),
        fix: "build with LLVM 22, see scripts/setup",
    },
    Row {
        device: "HIP",
        renderer: "CLANG",
        target: amd,
        emitter: || Arc::new(LlvmRenderer),
        compiler: |_| found(ClangCompiler::find()?),
        fix: "optional: apt-get install clang-22",
    },
    Row {
        device: "HIP",
        renderer: "HIP",
        target: amd,
        emitter: || Arc::new(HipRenderer),
        compiler: |target| found(ComgrCompiler::find(target)?),
        fix: "optional, only for DEV=HIP:HIP: install ROCm or libamd-comgr3",
    },
    // It makes machine code itself.
    Row {
        device: "QCOM",
        renderer: "IR3",
        target: Target::qcom,
        emitter: || Arc::new(Ir3Renderer),
        compiler: |_| Ok(None),
        fix: "nothing to install",
    },
    Row {
        device: "QCOM",
        renderer: "CL",
        target: Target::qcom,
        emitter: || Arc::new(OpenClRenderer),
        compiler: |target| found(OpenClCompiler::find(target)?),
        fix: "optional, only for DEV=QCOM:CL: the board vendor's OpenCL library",
    },
    // Its OpenCL compiles the source.
    Row {
        device: "CL",
        renderer: "C",
        target: Target::cl,
        emitter: || Arc::new(OpenClRenderer),
        compiler: |_| Ok(None),
        fix: "nothing to install",
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
