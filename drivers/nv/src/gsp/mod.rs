//! An NVIDIA card without a kernel driver: GSP is started from the public firmware, and RM on it takes messages.
//!
//! Ampere and Ada are started by a booter, Hopper and Blackwell by their FSP. The card must not have a kernel driver; what
//! one has left there is reset.
//!
//! Each row uses those above it, and none below:
//!
//! | file | idea |
//! |---|---|
//! | `error` | the stages of a start, and why one failed |
//! | `card` | a card: which chip, its registers, the states that others have left it in |
//! | `flush` | the page that the card reads to flush its writes to the host |
//! | `falcon` | processors that run signed microcode: reset, load, run |
//! | `firmware`, `rom` | the files; the VBIOS, and FWSEC in it |
//! | `layout`, `memory` | where in VRAM the firmware goes; memory of the host for it |
//! | `event`, `queue` | what GSP tells; the rings of messages |
//! | `sequencer`, `rpc` | programs that the host runs for GSP; calls and answers |
//! | `info`, `transport` | what GSP is told first; RM's calls as messages |
//! | `ampere`, `fsp`, `hopper` | the start of each generation, and its undo |
//! | `boot` | the order of all that |
//! | [`pages`] | entries of page tables |

mod ampere;
mod boot;
mod card;
mod error;
mod event;
mod falcon;
mod firmware;
mod flush;
mod fsp;
mod hopper;
mod info;
mod layout;
mod memory;
pub mod pages;
mod queue;
mod rom;
mod rpc;
mod sequencer;
#[cfg(test)]
pub(crate) mod tests;
mod transport;

pub use boot::{Options, Started, start};
pub use card::Card;
pub use error::{Cause, GspError, Stage};
pub use event::Event;
pub(crate) use transport::Messages;

pub use crate::rm::CallError;
