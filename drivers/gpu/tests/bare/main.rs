//! Cards without a kernel driver, with formats of page tables and hardware that nobody has made: what holds here holds for
//! whoever adds a vendor.
#![allow(clippy::unwrap_used)] // A test may panic.

mod card;
mod formats;
mod memory;
mod queues;
