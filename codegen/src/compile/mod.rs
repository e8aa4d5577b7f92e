//! From source text to relocatable objects.

pub mod clang;
#[expect(
    unsafe_code,
    reason = "calls into a library that is loaded when it is there"
)]
pub mod comgr;
mod cuda;
#[expect(
    unsafe_code,
    reason = "calls into a library that is loaded when it is there"
)]
pub mod jitlink;
#[expect(unsafe_code, reason = "loads a library that is there")]
mod library;
#[cfg(feature = "llvm")]
pub mod llvm;
#[cfg(feature = "llvm")]
pub mod nvptx;
#[expect(
    unsafe_code,
    reason = "calls into a library that is loaded when it is there"
)]
pub mod nvrtc;
#[expect(
    unsafe_code,
    reason = "calls into a library that is loaded when it is there"
)]
pub mod opencl;
pub mod ptxas;

pub use clang::ClangCompiler;
pub use comgr::ComgrCompiler;
pub use cuda::Toolkits;
pub use jitlink::JitLinkCompiler;
#[cfg(feature = "llvm")]
pub use llvm::LlvmCompiler;
#[cfg(feature = "llvm")]
pub use nvptx::NvptxCompiler;
pub use nvrtc::NvrtcCompiler;
pub use opencl::OpenClCompiler;
pub use ptxas::PtxasCompiler;

use crate::error::Result;
use crate::render::Source;
use crate::resources::Resources;
use crate::target::Target;

/// Turns source into machine code. Pure: the same source and target give the same object.
pub trait Compiler: Send + Sync {
    /// Short name; part of the key of the compile cache.
    fn name(&self) -> &'static str;
    /// Version of the compiler; part of the key of the compile cache.
    fn version(&self) -> String;
    /// Name and version for people, without the options that [`Compiler::version`] may have.
    fn release(&self) -> String {
        format!("{} {}", self.name(), self.version())
    }
    /// A relocatable ELF object with the entry point of the source.
    fn compile(&self, s: &Source, t: &Target) -> Result<Vec<u8>>;
    /// What an object of a target takes of a GPU, with so many work-items in a group.
    fn resources(&self, obj: &[u8], t: &Target, items: u32) -> Option<Resources>;
    /// The instructions of an object as text.
    fn disassemble(&self, obj: &[u8]) -> Result<String>;
}
