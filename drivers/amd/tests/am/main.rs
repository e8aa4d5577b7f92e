//! The driver over bare PCI.

#![allow(clippy::unwrap_used)]

mod boot;
mod card;
mod discovery;
mod golden;
mod mock;
mod pages;
mod walk;
