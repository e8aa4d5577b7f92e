//! What vector instructions demand.

pub use crate::step::{ISA_RESERVED as RESERVED, VGPR_RANGE};

use crate::step::Stop;

/// The stop for an access beyond the VGPRs of a wave.
#[cold]
pub fn beyond(needed: usize, allocated: usize) -> Stop {
    Stop::Rule(
        &VGPR_RANGE,
        format!("v{} of a wave with {allocated} VGPRs", needed - 1),
    )
}

/// The stop for an encoding without meaning.
#[cold]
pub fn reserved(what: String) -> Stop {
    Stop::Rule(&RESERVED, what)
}
