//! The GPU without a kernel driver: over its PCI function, on the bus or behind a bridge of USB, by what the blocks of the chip offer.
//!
//! What is the same for every card without a kernel driver, whoever made it, is [`drivers_gpu::bare`]: addresses and page
//! tables, memory and who shares it, slots of queues, the end of one that does not leave, what went wrong and who hears of
//! it. Here are the blocks of AMD's chips, and what that layer asks of them.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`discovery`] | which blocks the chip has, and where their registers are |
//! | [`pages`] | entries of page tables |
//! | [`areas`] | what lies where in VRAM |
//! | [`error`](AmError) | how far a card came, and what was in the way |
//! | [`card`] | a card before anything is started: windows, blocks, registers |
//! | [`hdp`], [`nbio`] | what the host writes to VRAM arrives; doorbells reach engines |
//! | [`fault`], [`hub`] | what an access fell over; addresses to places in memory, and what forgets them |
//! | [`ih`] | what blocks leave word of |
//! | [`firmware`] | which files the card needs |
//! | [`metrics`] | what a card measures of itself |
//! | [`psp`], [`smu`] | the processor that loads all others, and the one that gives them power |
//! | [`boot`] | all of these in their order: cold, warm, after a reset; and the end |
//! | `xcc`, `gfx` | the registers of a graphics block, and its start: from here on there are queues |
//! | `mqd`, `hqd` | a compute queue as memory, and in its slot |
//! | `sdma` | copy engines and their queues |
//! | `clock` | the counter by which packets take times |
//! | `exception` | what goes wrong while a card runs |
//! | `waves` | what waves of shaders are at |
//! | `evidence` | what can be read of a card when something has gone wrong |
//! | `running` | a card that is started, with its engines |
//! | `slots` | queues in their slots, and out of them |
//! | `queue` | queues, as whoever submits has them |
//! | `backend` | [`open`]: all of it as an [`AmdBackend`] |
//! | [`look`] | what is asked of a card without starting it |

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
