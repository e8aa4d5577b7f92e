//! The driver over bare PCI.

#![allow(clippy::unwrap_used)]

mod card;
mod discovery;
mod pages;
mod walk;
