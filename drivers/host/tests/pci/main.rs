//! PCI functions and the files that the system has for them.

#![allow(clippy::unwrap_used)]

mod function;
mod journal;
