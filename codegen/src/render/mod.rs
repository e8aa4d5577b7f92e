//! From linear programs to source text.

pub mod c;
pub mod llvm;

pub use c::{CRenderer, HipRenderer};
pub use llvm::LlvmRenderer;

use crate::DType;
use crate::error::Result;
use crate::ir::{Binary, Unary};
use crate::lower::Program;
use crate::lower::decomp::Caps;
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

/// Spells out programs in some language.
pub trait Renderer: Send + Sync {
    /// Short name; part of the key of the compile cache.
    fn name(&self) -> &'static str;
    /// The source of a program for a target.
    fn render(&self, p: &Program, t: &Target) -> Result<Source>;
    /// What it spells itself on a target; the rest comes decomposed.
    fn caps(&self, t: &Target) -> Caps {
        cpu_caps(t)
    }
}

/// What both CPU renderers spell: everything but the functions that need a library, on all types
/// but the small floats, of which they only convert f16, and bf16 to f32.
fn cpu_caps(t: &Target) -> Caps {
    Caps {
        unary: |op, dtype| !matches!(op, Unary::Exp2 | Unary::Log2 | Unary::Sin) && computes(dtype),
        binary: |op, dtype| {
            let library = matches!(op, Binary::Pow)
                || (matches!(op, Binary::TruncMod | Binary::FloorMod) && dtype.is_float());
            !library && computes(dtype)
        },
        fma: |dtype| matches!(dtype, DType::F32 | DType::F64),
        cast: if t.f16_convert {
            |from, to| converts(from, to) || half(from, to)
        } else {
            converts
        },
    }
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
