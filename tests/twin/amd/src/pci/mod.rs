//! AMD GPUs behind PCI, without a kernel driver in front of them.
//!
//! - [`chip`]: the cards that can be chosen;
//! - [`discovery`]: the binary by which a card says what it is made of;
//! - [`card`]: a card on its bus, before a driver has started anything;
//! - [`rom`]: what lies in its expansion ROM.

pub mod card;
pub mod chip;
pub mod discovery;
mod registers;
pub mod rom;
mod vram;
