//! The driver over bare PCI.

#![allow(clippy::unwrap_used)]

mod boot;
mod card;
mod device;
mod discovery;
mod failures;
mod golden;
mod ih;
mod look;
mod mock;
mod mutations;
mod pages;
#[path = "../stand/mod.rs"]
mod stand;
mod twin;
mod walk;
