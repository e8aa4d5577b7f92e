//! msm, the DRM driver of Adreno GPUs in Linux: a render node. Every submission lists the memory that it may use.
//!
//! | file | idea |
//! |---|---|
//! | [`mod@survey`] | the GPUs, and why one cannot be used |
//! | `process` | the open file of the process, and its memory |
//! | `memory` | memory objects (GEM): made, imported, mapped |
//! | `queue` | a submitqueue: submissions, fences, faults |
//! | `order` | what keeps later submissions from running after one that was dropped |
//! | [`open`] | all of them as a [`QcomBackend`] |
//!
//! Source: Linux, drivers/gpu/drm/msm/msm_drv.c, msm_gem.c, msm_gem_submit.c, msm_submitqueue.c, adreno/adreno_gpu.c;
//! drivers/spec/src/qcom/msm.rs.

mod memory;
mod open;
mod order;
mod process;
mod queue;
pub mod survey;

pub use open::open;
pub use survey::{Found, survey};

#[cfg(doc)]
use crate::backend::QcomBackend;
