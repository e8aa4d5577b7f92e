//! Engines over memory in software: what they do, and mistakes that have to be named.

#![allow(clippy::unwrap_used)] // A test may panic.

mod compute;
mod copies;
mod host;
mod kernel;
mod races;
mod ram;
mod rig;
