//! The GPU without a kernel driver: through its PCI function, on the bus or behind a USB bridge.
//!
//! The vendor-neutral part is [`drivers_gpu::bare`]: addresses and page tables, memory and its sharing, queue slots,
//! recovery of stuck queues, delivery of exceptions. Here are the blocks of AMD chips, and their implementation of
//! that layer's traits.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`discovery`] | which blocks the chip has, and where their registers are |
//! | [`pages`] | entries of page tables |
//! | [`areas`] | VRAM layout |
//! | [`error`](AmError) | start stages and their errors |
//! | [`card`] | a card before the start: BARs, blocks, registers |
//! | [`hdp`], [`nbio`] | flushing host writes to VRAM; routing doorbells to engines |
//! | [`fault`], [`hub`] | faulting accesses; address translation and TLB invalidation |
//! | [`ih`] | interrupt records of the blocks |
//! | [`firmware`] | the card's firmware files |
//! | [`metrics`] | measurements of a card |
//! | [`psp`], [`smu`] | the security processor, which loads firmware, and power management |
//! | [`boot`] | the start with all of these in order: cold, warm, after a reset; and the stop |
//! | `xcc`, `gfx` | the registers of a graphics block, and its start: from here on there are queues |
//! | `mqd`, `hqd` | a compute queue in memory (MQD), and in its slot (HQD) |
//! | `sdma` | copy engines and their queues |
//! | `clock` | the counter of timestamp packets |
//! | `exception` | exceptions of a running card |
//! | `waves` | program counters of shader waves |
//! | `evidence` | diagnostic state after a failure |
//! | `running` | a started card with its engines |
//! | `slots` | mapping and unmapping queues |
//! | `queue` | queues for submission |
//! | `backend` | [`open`]: all of it as an [`AmdBackend`] |
//! | [`look`] | queries of a card without starting it |

pub mod areas;
mod backend;
pub mod boot;
pub mod card;
mod clock;
pub mod discovery;
mod error;
mod evidence;
mod exception;
pub mod fault;
pub mod firmware;
mod gfx;
pub mod hdp;
mod hqd;
pub mod hub;
pub mod ih;
pub mod look;
pub mod metrics;
mod mqd;
pub mod nbio;
pub mod pages;
pub mod psp;
mod queue;
mod running;
mod sdma;
mod slots;
pub mod smu;
mod waves;
mod xcc;

pub use backend::open;
pub use error::{AmError, Cause, Stage};

#[cfg(doc)]
use crate::backend::AmdBackend;
