//! GPUs that a kernel driver has, whatever the driver: what a way to one needs beside the calls of its driver.
//!
//! Memory lies at an address that the host has chosen, which means the same to the host and to every GPU of the process.
//!
//! | file | idea |
//! |---|---|
//! | [`calls`] | calls that are made again |
//! | [`heap`] | where memory is to be, and at which address |
//! | [`memory`] | memory of a driver as what a way gives |
//! | [`presence`] | whether a GPU is still there |

pub mod calls;
pub mod heap;
pub mod memory;
pub mod presence;

pub use heap::{Heap, Place, Wanted};
pub use memory::KernelMemory;
pub use presence::Presence;
