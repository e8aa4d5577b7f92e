//! Recordings of a driver's accesses: every access to registers and configuration space and every call of a device
//! file, in order, with result and time.
//!
//! | file | idea |
//! |---|---|
//! | [`recording`] | the file: a line of text for each access, which [`hcq::transport::replay`] takes as it is |
//! | [`names`] | what a line means: registers, fields and ioctls by the vendor's names, and the stage they belong to |
//! | [`chips`] | the chips that a recording is of |
//! | [`amdgpu`] | the log of the vendor's kernel driver (its tracepoints), as accesses |
//! | [`diff`] | two recordings side by side, stage by stage |

pub mod amdgpu;
pub mod chips;
pub mod diff;
mod messages;
pub mod names;
pub mod recording;
