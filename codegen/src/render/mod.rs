//! From linear programs to what a compiler or a device takes: text, or machine code.

pub mod c;
pub mod llvm;

pub use c::{CRenderer, HipRenderer};
pub use llvm::LlvmRenderer;

use std::sync::Arc;

use crate::DType;
use crate::error::Result;
use crate::ir::{Binary, Unary};
use crate::lower::Program;
use crate::lower::decomp::Caps;
use crate::resources::Resources;
use crate::target::Target;

/// The language of a [`Source`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Language {
    /// LLVM assembly (textual intermediate representation).
    Llvm,
    /// C with the vector extensions of clang.
    C,
    /// HIP C++ for the device only, with the vector extensions of clang and without headers.
    Hip,
}

/// The symbol of every kernel's entry point: what a kernel is called is no part of its code.
pub const ENTRY: &str = "kernel";

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
    /// What the device is given.
    pub bytes: Arc<[u8]>,
    /// The same for people.
    pub listing: String,
    /// What it takes of a GPU.
    pub resources: Option<Resources>,
}

/// What an emitter makes of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Code {
    /// For the compiler of the back end; the device itself takes it if there is none.
    Text(Source),
    /// Nothing is left to be compiled.
    Object(Object),
}

/// Spells out programs for a target: as text, or as machine code.
pub trait Emitter: Send + Sync {
    /// Short name; part of the key of the compile cache.
    fn name(&self) -> &'static str;
    /// What it spells itself on a target; the rest comes decomposed.
    fn caps(&self, t: &Target) -> Caps;
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
    Caps {
        unary: |op, dtype| !op.is_function() && computes(dtype),
        binary,
        fma: |dtype| matches!(dtype, DType::F32 | DType::F64),
        cast: if t.f16_convert {
            |from, to| converts(from, to) || half(from, to)
        } else {
            converts
        },
        atomics: t.atomics,
    }
}

/// `cpu_caps` and, on AMD GPUs, what is an instruction on halves, and gives what `f32` rounded would
/// give: on vectors two at a time. Not the fused product, whose `f32` is rounded twice; and `bf16`
/// has matrix instructions only.
fn amd_caps(t: &Target) -> Caps {
    Caps {
        unary: |op, dtype| match op {
            _ if op.is_function() => false,
            Unary::Recip | Unary::Sqrt => computes(dtype),
            _ => computes(dtype) || dtype == DType::F16,
        },
        binary: |op, dtype| {
            let half = matches!(
                op,
                Binary::Add
                    | Binary::Sub
                    | Binary::Mul
                    | Binary::Max
                    | Binary::Min
                    | Binary::Lt
                    | Binary::Eq
                    | Binary::Ne
            );
            binary(op, dtype) || half && dtype == DType::F16
        },
        ..cpu_caps(t)
    }
}

fn binary(op: Binary, dtype: DType) -> bool {
    let library = matches!(op, Binary::Pow)
        || (matches!(op, Binary::TruncMod | Binary::FloorMod) && dtype.is_float());
    !library && computes(dtype)
}

fn computes(dtype: DType) -> bool {
    !dtype.is_float() || matches!(dtype, DType::F32 | DType::F64)
}

fn converts(from: DType, to: DType) -> bool {
    (computes(from) && computes(to)) || (from == DType::BF16 && to == DType::F32)
}

fn half(from: DType, to: DType) -> bool {
    matches!(
        (from, to),
        (DType::F16, DType::F32) | (DType::F32, DType::F16)
    )
}
