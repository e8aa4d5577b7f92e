//! Renders linear programs as source text or machine code.

pub mod c;
mod factors;
mod images;
pub mod ir3;
pub mod llvm;
pub mod ptx;

pub use c::{CRenderer, CudaRenderer, HipRenderer, OpenClRenderer};
pub use ir3::Ir3Renderer;
pub use llvm::LlvmRenderer;
pub use ptx::PtxRenderer;

use std::sync::Arc;

use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, Unary};
use crate::lower::Program;
use crate::lower::decomp::{Caps, TypeSet};
use crate::resources::Resources;
use crate::target::{Target, TargetKind};

/// The language of a [`Source`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Language {
    /// LLVM assembly (textual intermediate representation).
    Llvm,
    /// C with the vector extensions of clang.
    C,
    /// HIP C++ for the device only, with the vector extensions of clang and without headers.
    Hip,
    /// CUDA C++ for the device only, without headers.
    Cuda,
    /// OpenCL C 1.2 with halves.
    OpenCl,
    /// NVIDIA's assembly language.
    Ptx,
}

/// The symbol of every kernel's entry point: the name of a kernel is not part of its code.
pub const ENTRY: &str = "kernel";

/// The same in OpenCL C, of which `kernel` is a word.
pub const CL_ENTRY: &str = "start";

/// Source text of one kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its language.
    pub language: Language,
    /// Symbol of the entry point.
    pub entry: String,
    /// The text.
    pub text: String,
}

/// Machine code of one kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Bytes for the device.
    pub bytes: Arc<[u8]>,
    /// Human-readable listing.
    pub listing: String,
    /// Its GPU resources.
    pub resources: Option<Resources>,
}

/// The output of an emitter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Code {
    /// For the compiler of the backend, or for the device if the backend has none.
    Text(Source),
    /// Machine code.
    Object(Object),
}

/// Emits programs for a target, as text or machine code.
pub trait Emitter: Send + Sync {
    /// Short name; part of the key of the compile cache.
    fn name(&self) -> &'static str;
    /// What it spells itself on a target; the rest comes decomposed.
    fn caps(&self, t: &Target) -> Caps;

    /// What of a machine it spells; all of it, unless it says otherwise.
    fn target(&self, t: Target) -> Target {
        t
    }
    /// The code of a program for a target. Pure: the same program and target give the same code.
    fn emit(&self, p: &Program, t: &Target) -> Result<Code>;
    /// What a device is given without a compiler, for people.
    fn disassemble(&self, object: &[u8]) -> Result<String> {
        Ok(String::from_utf8_lossy(object).into_owned())
    }
}

/// What both CPU renderers spell: everything but the functions that need a library, on all types
/// but the small floats, of which they only convert f16, and bf16 to f32.
fn cpu_caps(t: &Target) -> Caps {
    const BASE: Caps = Caps::NONE
        .with_unary(Unary::ALL, TypeSet::WIDE)
        .without_functions()
        .with_binary(Binary::ALL, TypeSet::WIDE)
        .with_binary(&[Binary::Pow], TypeSet::NONE)
        .with_binary(&[Binary::TruncMod, Binary::FloorMod], TypeSet::BITS)
        .with_fma(TypeSet::of(&[DType::F32, DType::F64]))
        .with_casts(TypeSet::WIDE, TypeSet::WIDE)
        .with_casts(TypeSet::of(&[DType::BF16]), TypeSet::of(&[DType::F32]));
    let caps = if t.f16_convert {
        BASE.with_half_casts()
    } else {
        BASE
    };
    Caps {
        atomics: t.atomics,
        stack: t.kind == TargetKind::Cpu,
        ..caps
    }
}

/// `cpu_caps` and, on AMD GPUs, what is an instruction on halves, and gives what `f32` rounded would
/// give: on vectors two at a time. Not the fused product, whose `f32` is rounded twice; and `bf16`
/// has matrix instructions only.
fn amd_caps(t: &Target) -> Caps {
    const HALVES: TypeSet = TypeSet::WIDE.and(TypeSet::of(&[DType::F16]));
    cpu_caps(t)
        .with_unary(Unary::ALL, HALVES)
        .without_functions()
        .with_unary(&[Unary::Recip, Unary::Sqrt], TypeSet::WIDE)
        .with_binary(
            &[
                Binary::Add,
                Binary::Sub,
                Binary::Mul,
                Binary::Max,
                Binary::Min,
                Binary::Lt,
                Binary::Eq,
                Binary::Ne,
            ],
            HALVES,
        )
}

/// `cpu_caps` and, on NVIDIA GPUs, arithmetic on halves, which gives what `f32` rounded would give, and 2^x of
/// `f32`, whose error is two units in the last place ("PTX ISA", `ex2`). Not its logarithm, which is that far off
/// in absolute terms only, so that it has few bits right near one.
fn nv_caps(t: &Target) -> Caps {
    const HALVES: TypeSet = TypeSet::WIDE.and(TypeSet::of(&[DType::F16]));
    const SINGLE: TypeSet = TypeSet::of(&[DType::F32]);
    cpu_caps(t)
        .with_unary(&[Unary::Neg, Unary::Abs], HALVES)
        .with_unary(&[Unary::Exp2], SINGLE)
        .with_binary(
            &[
                Binary::Add,
                Binary::Sub,
                Binary::Mul,
                Binary::Lt,
                Binary::Eq,
                Binary::Ne,
            ],
            HALVES,
        )
        .with_casts(SINGLE, TypeSet::of(&[DType::BF16]))
}
