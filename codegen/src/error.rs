//! What can go wrong between a kernel and its machine code.

use std::path::PathBuf;

/// A failed step of [`crate::build::build`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel breaks a rule of the representation or of the lowering.
    #[error("kernel {kernel}: {what}; this is a fault of whatever made or rewrote the kernel")]
    Invalid {
        /// Name of the kernel.
        kernel: String,
        /// The rule and the node that breaks it.
        what: String,
    },
    /// An optimisation that was asked for does not apply.
    #[error(
        "kernel {kernel}: optimisation {opt} does not apply: {why}; leave it out or use another axis"
    )]
    Opt {
        /// Name of the kernel.
        kernel: String,
        /// The optimisation as text.
        opt: String,
        /// What is in the way.
        why: String,
    },
    /// The renderer has no spelling for something on this target.
    #[error("{renderer} cannot render {what} of kernel {kernel} for {target}")]
    Render {
        /// Name of the renderer.
        renderer: &'static str,
        /// Name of the kernel.
        kernel: String,
        /// The instruction.
        what: String,
        /// Architecture of the target.
        target: String,
    },
    /// A chip that there are no facts of.
    #[error("no facts about the chip {name}; there are of {known}")]
    NoTarget {
        /// Its name.
        name: String,
        /// The names that are known.
        known: String,
    },
    /// A back end that this program does not have.
    #[error(
        "this program has no back end {name}; of that device it has {known}{}",
        if cfg!(feature = "llvm") { "" } else { ", without its feature llvm" }
    )]
    NoBackend {
        /// The name that was asked for.
        name: String,
        /// The renderers of the device that are there.
        known: String,
    },
    /// The compiler rejected the source.
    #[error("{compiler} failed on {entry} ({stage}): {message}")]
    Compile {
        /// Name of the compiler.
        compiler: &'static str,
        /// Symbol that was being compiled.
        entry: String,
        /// Step of the compilation.
        stage: &'static str,
        /// What it said.
        message: String,
    },
    /// A compiler is not there or is not usable.
    #[error("compiler {compiler} is not usable: {message}; install it or choose another backend")]
    NoCompiler {
        /// Name or path of the compiler.
        compiler: String,
        /// What was tried and what happened.
        message: String,
    },
    /// The compile cache directory is not one to run code from.
    #[error(
        "compile cache {}: {what}. Kernels are compiled anew in every process; for a cache, name a folder of \
         this user's own with XDG_CACHE_HOME, or leave it out", path.display()
    )]
    CacheFolder {
        /// The directory.
        path: PathBuf,
        /// What was expected, and what was there.
        what: String,
    },
    /// The compile cache directory is not usable.
    #[error("compile cache {}: {action} failed: {source}; remove the directory or point the cache elsewhere", path.display())]
    Cache {
        /// File or directory.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// Result with the [`enum@Error`] of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
