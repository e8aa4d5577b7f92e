//! A card without a kernel driver as an interface: RM runs on its GSP, and this driver has the part that NVIDIA's kernel
//! driver has otherwise: VRAM, page tables, the memory of channels and of graphics contexts.
//!
//! The start of GSP is [`crate::gsp`]; what is the same for all cards without a kernel driver is
//! [`drivers_gpu::bare`]. Each row uses those above it, and none below:
//!
//! | file | idea |
//! |---|---|
//! | `told`, `areas` | what RM tells of the card first; VRAM layout |
//! | `pramin` | VRAM through registers |
//! | `mmu` | TLB invalidation, flushes |
//! | `fixed`, `bar1` | page tables in an area; VRAM through its own window |
//! | `internal`, `engines` | RM's own client; engines and their runlists |
//! | `space` | address spaces, as RM knows them |
//! | `context` | buffers of graphics contexts, and the first context |
//! | `channel`, `fault` | a channel; why one died |
//! | `refused` | errors of calls |
//! | `running`, `first` | a started card; its first context |
//! | `queue` | channels for submission |
//! | [`open`] | all of it as an [`NvBackend`] |

mod areas;
mod bar1;
mod channel;
mod context;
mod engines;
mod fault;
mod first;
mod fixed;
mod internal;
mod mmu;
mod open;
mod pramin;
mod queue;
mod refused;
mod running;
mod space;
#[cfg(test)]
mod tests;
mod told;

pub use open::open;

#[cfg(doc)]
use crate::backend::NvBackend;
