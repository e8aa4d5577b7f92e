//! Queues, caches and their rules.
#![allow(clippy::unwrap_used)] // A test may panic.

mod caches;
mod golden_queues;
mod keys;
mod order;
mod queues;
mod rules;
mod stand;
