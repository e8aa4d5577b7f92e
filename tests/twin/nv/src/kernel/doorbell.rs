//! The page of a GPU that programs map to start work: one register of it is the doorbell.
//!
//! Source: open-gpu-doc, classes/host/clc361.h; open-gpu-kernel-modules, usermode_api.c.

use std::sync::Arc;

use twin::host::Mapping;

/// Bytes of the page.
pub(crate) const BYTES: u64 = 0x1_0000;

/// A page of registers, with no doorbell rung.
pub(super) fn page() -> Result<Arc<Mapping>, i32> {
    Ok(Arc::new(Mapping::new(BYTES)?))
}
