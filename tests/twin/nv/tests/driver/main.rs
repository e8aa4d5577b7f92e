//! Clients on the twin: recorded ones, mistakes that have to be named, random ones.

#![allow(clippy::unwrap_used)] // A test may panic.

mod awaken;
mod bench;
mod channels;
mod contents;
mod doorbells;
mod events;
mod executed;
mod facts;
mod faults;
mod machine;
mod mistakes;
mod recorded;
mod recovery;
mod replay;
mod sensors;
mod trees;
mod uvm;
