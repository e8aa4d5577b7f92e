//! From linear programs to source text.

pub mod c;
pub mod llvm;

pub use c::CRenderer;
pub use llvm::LlvmRenderer;

use crate::error::Result;
use crate::lower::Program;
use crate::target::Target;

/// The language of a [`Source`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Language {
    /// LLVM assembly (textual intermediate representation).
    Llvm,
    /// C with the vector extensions of clang.
    C,
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
}
