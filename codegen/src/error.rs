//! Errors of compiling kernels.

use std::path::PathBuf;

/// A failed step of [`crate::build::build`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel breaks a rule of the representation or of the lowering.
    #[error("kernel {kernel}: {what}; this is a bug in Doorbell, please report it")]
    Invalid {
        /// Name of the kernel.
        kernel: String,
        /// The rule and the node that breaks it.
        what: String,
    },
    /// The kernel is larger than the chip or the compiler allows.
    #[error(
        "kernel {kernel} exceeds a limit of {of}: {what}; realize an intermediate value to split it, or choose \
         smaller tiles"
    )]
    Limit {
        /// Name of the kernel.
        kernel: String,
        /// The chip, or `the compiler`.
        of: String,
        /// What there is too much of, and how much is possible.
        what: String,
    },
    /// An optimisation that was asked for does not apply.
    #[error(
        "kernel {kernel}: optimisation {opt} does not apply: {why}; omit it or use another axis"
    )]
    Opt {
        /// Name of the kernel.
        kernel: String,
        /// The optimisation as text.
        opt: String,
        /// The reason.
        why: String,
    },
    /// The renderer cannot express an instruction for this target.
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
    /// An unknown chip.
    #[error("unknown chip {name}; known: {known}")]
    NoTarget {
        /// Its name.
        name: String,
        /// The known names.
        known: String,
    },
    /// A backend that is unknown, or not compiled in.
    #[error(
        "no backend {name}; available for this device: {known}{}",
        if cfg!(feature = "llvm") { "" } else { " (built without the feature llvm)" }
    )]
    NoBackend {
        /// The requested name.
        name: String,
        /// The available renderers of the device.
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
        /// Its output.
        message: String,
    },
    /// A compiler is missing or unusable. The text has several lines: the problem, what to do, where it was
    /// looked for.
    #[error("{compiler} {message}{}", help(.fix, .looked_in))]
    NoCompiler {
        /// Name or path of the compiler.
        compiler: String,
        /// What it needs or what failed, in one line that continues its name.
        message: String,
        /// What to do, then the alternatives.
        fix: &'static [&'static str],
        /// Where it was looked for; may be empty.
        looked_in: String,
    },
    /// The compile cache directory is not safe to run code from.
    #[error(
        "compile cache {}: {what}. Kernels are not cached between processes; point XDG_CACHE_HOME to a folder \
         that only this user can write, or unset it", path.display()
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

/// Lines with what to do about a missing compiler.
fn help(fix: &[&str], looked_in: &str) -> String {
    let labels = std::iter::once("fix: ").chain(std::iter::repeat("or:  "));
    let mut lines: String = labels
        .zip(fix)
        .map(|(label, text)| format!("\n  {label}{text}"))
        .collect();
    if !looked_in.is_empty() {
        lines += &format!("\n  looked in: {looked_in}");
    }
    lines
}

/// Result with the [`enum@Error`] of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
