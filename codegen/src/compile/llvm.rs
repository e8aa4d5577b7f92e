//! LLVM in the process. Each compilation has its own context, so threads compile in parallel.

use std::cell::RefCell;
use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine,
    TargetTriple,
};

use super::Compiler;
use crate::error::{Error, Result};
use crate::render::{Language, Source};
use crate::resources::Resources;
use crate::target::{Target, TargetKind};

/// What runs before code generation. The text has vectors and tiles already: what is left is to
/// put accumulators in registers and to tidy index arithmetic; the vectorisers would only undo it.
const PASSES: &str =
    "mem2reg,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),early-cse";

/// The same for GPUs, where code generation has fewer passes of its own (see [`level`]): what is
/// left of single elements becomes wide accesses.
const GPU_PASSES: &str = "mem2reg,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,\
    loop-mssa(licm),early-cse,load-store-vectorizer";

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

fn passes(t: &Target) -> &'static str {
    match t.kind {
        TargetKind::Cpu => PASSES,
        TargetKind::Gpu => GPU_PASSES,
    }
}

/// Straight-line strength reduction, re-association and the like take a fifth of the time and find
/// nothing to do in kernels: their addresses are computed once already.
fn level(t: &Target) -> OptimizationLevel {
    match t.kind {
        TargetKind::Cpu => OptimizationLevel::Default,
        TargetKind::Gpu => OptimizationLevel::Less,
    }
}

thread_local! {
    /// The machine of the last compilation on this thread: it has found out about its registers
    /// what would be found out again for every kernel.
    static LAST: RefCell<Option<(Target, TargetMachine)>> = const { RefCell::new(None) };
}

/// The machine for a target; it is not kept while it is used.
fn machine(s: &Source, t: &Target) -> Result<TargetMachine> {
    if let Some((_, machine)) = LAST.take().filter(|(last, _)| last == t) {
        return Ok(machine);
    }
    let triple = TargetTriple::create(&t.triple);
    let target =
        LlvmTarget::from_triple(&triple).map_err(|e| failed(s, "target", e.to_string()))?;
    let (reloc, model) = (RelocMode::PIC, CodeModel::Small);
    target
        .create_target_machine(&triple, &t.cpu, &t.features, level(t), reloc, model)
        .ok_or_else(|| {
            let message = format!(
                "LLVM has no target machine for {} (CPU {})",
                t.triple, t.cpu
            );
            failed(s, "target", message)
        })
}

fn keep(t: &Target, machine: TargetMachine) {
    LAST.set(Some((t.clone(), machine)));
}

/// Machine code, or the assembly of a target.
pub(super) fn compile(s: &Source, t: &Target, what: FileType) -> Result<Vec<u8>> {
    register();
    if s.language != Language::Llvm {
        return Err(failed(
            s,
            "input",
            format!("{:?} source, expected LLVM assembly", s.language),
        ));
    }
    let context = Context::create();
    // The parser reads one byte behind the text, which has to be NUL.
    let mut bytes = s.text.clone().into_bytes();
    bytes.push(0);
    // Not a copy: inkwell 0.11 never frees the buffer, which LLVM 22's parser leaves to its caller.
    let buffer = MemoryBuffer::create_from_memory_range(&bytes[..s.text.len()], "kernel");
    let module = context
        .create_module_from_ir(buffer)
        .map_err(|e| failed(s, "parse", e.to_string()))?;
    let (machine, passes) = (machine(s, t)?, passes(t));
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    module
        .run_passes(passes, &machine, PassBuilderOptions::create())
        .map_err(|e| failed(s, "passes", e.to_string()))?;
    let object = machine
        .write_to_memory_buffer(&module, what)
        .map_err(|e| failed(s, "code generation", e.to_string()))?;
    keep(t, machine);
    Ok(object.as_slice().to_vec())
}

impl Compiler for LlvmCompiler {
    fn name(&self) -> &'static str {
        "llvm"
    }

    fn version(&self) -> String {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        format!("{major}.{minor}.{patch} {PASSES} {GPU_PASSES}")
    }

    fn release(&self) -> String {
        let (major, minor, patch) = inkwell::support::get_llvm_version();
        format!("LLVM {major}.{minor}.{patch}")
    }

    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>> {
        compile(s, t, FileType::Object)
    }

    fn resources(&self, obj: &[u8], t: &Target, items: u32) -> Option<Resources> {
        Resources::of_amdhsa(obj, t, items)
    }

    fn disassemble(&self, obj: &[u8]) -> Result<String> {
        super::clang::objdump(obj)
    }
}
