//! The page of a GPU that programs map to start work: one register of it is the doorbell.
//!
//! A program rings by a plain store, which is seen when somebody looks: of two rings between two looks only
//! the last leaves its token.
//!
//! Source: open-gpu-doc, classes/host/clc361.h; open-gpu-kernel-modules, usermode_api.c.

use std::sync::Arc;

use drivers_spec::nv::push::usermode;
use twin::host::Mapping;

/// Bytes of the page.
pub(crate) const BYTES: u64 = usermode::BYTES;

/// What the register holds while nobody has rung: no token has all bits. (Hardware reads as 0.)
const SILENT: u32 = u32::MAX;

/// The page of a GPU.
pub(super) struct Doorbell(Arc<Mapping>);

impl Doorbell {
    /// One that is silent.
    pub(super) fn new() -> Result<Doorbell, i32> {
        let doorbell = Doorbell(Arc::new(Mapping::new(BYTES)?));
        doorbell.take();
        Ok(doorbell)
    }

    /// What programs map.
    pub(super) fn page(&self) -> &Arc<Mapping> {
        &self.0
    }

    /// The token of the last ring since the last look.
    pub(super) fn take(&self) -> Option<u32> {
        let register = usermode::NOTIFY_CHANNEL_PENDING as usize;
        let token = self.0.swap32(register, SILENT);
        (token != SILENT).then_some(token)
    }
}
