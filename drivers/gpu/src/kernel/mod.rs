//! GPUs behind a kernel driver: the driver-independent part of their interface.
//!
//! The host chooses memory addresses, which are the same for the host and every GPU of the process.
//!
//! | file | idea |
//! |---|---|
//! | [`calls`] | retried calls |
//! | [`heap`] | placement and addresses of memory |
//! | [`memory`] | driver memory as backend memory |
//! | [`presence`] | whether a GPU is still there |

pub mod calls;
pub mod heap;
pub mod memory;
pub mod presence;

pub use heap::{Addresses, Heap, HeapRequest};
pub use memory::KernelMemory;
pub use presence::Presence;
