//! KGSL, Qualcomm's kernel driver: `/dev/kgsl-3d0`. One GPU; memory and contexts belong to the process.
//!
//! | file | idea |
//! |---|---|
//! | [`mod@survey`] | the GPU, and why it cannot be used |
//! | `process` | the open file of the process, and its memory |
//! | `memory` | memory objects: made, mapped, synchronized with the caches of the CPU |
//! | `import` | memory of others |
//! | `context` | a context: submissions, waits, faults |
//! | [`open`] | all of them as a [`QcomBackend`] |
//!
//! Source: KGSL (qualcomm-linux/kgsl 27cf0e4), kgsl.c, adreno_drawctxt.c, adreno_dispatch.c, kgsl_events.c;
//! drivers/spec/src/qcom/kgsl.rs.

mod context;
mod import;
mod memory;
mod open;
mod process;
pub mod survey;

pub use open::open;
pub use survey::{Found, survey};

#[cfg(doc)]
use crate::backend::QcomBackend;
