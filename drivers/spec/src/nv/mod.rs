//! NVIDIA GPUs, as the open kernel modules and the headers of their classes describe them.
//!
//! A driver talks to the resource manager (RM) by [`escape`]s, which make objects of a [`class`] and ask
//! [`control`]s of them, and to [`uvm`], which maps memory. What both take differs from branch to branch
//! of the driver: [`abi`].

pub mod abi;
pub mod class;
pub mod control;
pub mod escape;
pub mod memory;
pub mod status;
pub mod uvm;
mod words;
