//! The driver over bare PCI.

#![allow(clippy::unwrap_used)]

mod boot;
mod card;
mod discovery;
mod golden;
mod ih;
mod mock;
mod pages;
mod twin;
mod walk;
