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

pub mod areas;
pub mod card;
pub mod discovery;
mod error;
pub mod pages;

pub use error::{AmError, Cause, Stage};
