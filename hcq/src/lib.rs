//! hcq

#![deny(unsafe_code)]

pub mod addr;
pub mod mem;
pub mod reg;
pub mod ring;
mod sync;
pub mod timeline;
pub mod transport;
pub mod wait;
