//! The GPU without a kernel driver: over its PCI function, by what the blocks of the chip offer.
//!
//! Each row uses those above it, and none below:
//!
//! | module | idea |
//! |---|---|
//! | [`discovery`] | which blocks the chip has, and where their registers are |
//! | [`pages`] | entries of page tables, and where their tables lie |
//! | [`areas`] | what lies where in VRAM |
//! | [`error`](AmError) | how far a card came, and what was in the way |
//! | [`card`] | a card before anything is started: windows, blocks, registers |
//! | [`hdp`], [`nbio`] | what the host writes to VRAM arrives; doorbells reach engines |
//! | [`fault`], [`hub`] | what an access fell over; addresses to places in memory, and what forgets them |
//! | [`ih`] | what blocks leave word of |
//! | [`firmware`] | which files the card needs |
//! | [`psp`], [`smu`] | the processor that loads all others, and the one that gives them power |
//! | [`boot`] | all of these in their order: cold, warm, after a reset; and the end |

pub mod areas;
pub mod boot;
pub mod card;
pub mod discovery;
mod error;
pub mod fault;
pub mod firmware;
pub mod hdp;
pub mod hub;
pub mod ih;
pub mod nbio;
pub mod pages;
pub mod psp;
pub mod smu;

pub use error::{AmError, Cause, Stage};
