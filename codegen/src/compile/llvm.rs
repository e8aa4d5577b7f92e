//! LLVM in the process. Each compilation has a context of its own, so that threads compile side
//! by side.

use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetTriple,
};

use super::Compiler;
use crate::error::{Error, Result};
use crate::render::{Language, Source};
use crate::target::Target;

/// What runs before code generation. The text has vectors and tiles already: what is left is to
/// put accumulators in registers and to tidy index arithmetic; the vectorisers would only undo it.
const PASSES: &str =
    "mem2reg,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse";

/// Compiles LLVM assembly.
#[derive(Clone, Copy, Default, Debug)]
pub struct LlvmCompiler;

impl LlvmCompiler {
    /// The compiler.
    pub fn new() -> Self {
        LlvmCompiler
    }
}

/// Registers the targets. Not before something has to be compiled: it brings tens of megabytes of
/// the library into memory, which a process that finds all its kernels in the cache does not need.
fn register() {
    static INIT: Once = Once::new();
    INIT.call_once(|| LlvmTarget::initialize_all(&InitializationConfig::default()));
}

fn failed(s: &Source, stage: &'static str, message: impl ToString) -> Error {
    Error::Compile {
        compiler: "llvm",
        entry: s.entry.clone(),
        stage,
        message: message.to_string(),
    }
}

impl Compiler for LlvmCompiler {
    fn name(&self) -> &'static str {
        "llvm"
    }

    fn version(&self) -> String {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        format!("{major}.{minor}.{patch} {PASSES}")
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        register();
        if s.language != Language::Llvm {
            return Err(failed(
                s,
                "input",
                format!("{:?} source, expected LLVM assembly", s.language),
            ));
        }
        let context = Context::create();
        // The parser wants the text to end in a NUL byte, which it does not count.
        let mut bytes = s.text.clone().into_bytes();
        bytes.push(0);
        let buffer = MemoryBuffer::create_from_memory_range_copy(&bytes, "kernel");
        let module = context
            .create_module_from_ir(buffer)
            .map_err(|e| failed(s, "parse", e.to_string()))?;
        let triple = TargetTriple::create(&t.triple);
        let target =
            LlvmTarget::from_triple(&triple).map_err(|e| failed(s, "target", e.to_string()))?;
        let machine = target
            .create_target_machine(
                &triple,
                &t.cpu,
                &t.features,
                OptimizationLevel::Default,
                RelocMode::PIC,
                CodeModel::Small,
            )
            .ok_or_else(|| {
                failed(
                    s,
                    "target",
                    format!("no machine for {} {}", t.triple, t.cpu),
                )
            })?;
        module.set_data_layout(&machine.get_target_data().get_data_layout());
        module
            .run_passes(PASSES, &machine, PassBuilderOptions::create())
            .map_err(|e| failed(s, "passes", e.to_string()))?;
        let object = machine
            .write_to_memory_buffer(&module, FileType::Object)
            .map_err(|e| failed(s, "code generation", e.to_string()))?;
        Ok(object.as_slice().to_vec())
    }

    fn disassemble(&self, obj: &[u8]) -> Result<String> {
        super::clang::objdump(obj)
    }
}
