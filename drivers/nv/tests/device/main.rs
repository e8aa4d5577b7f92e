//! The device as its users have it, on the twin: under load, at its limits, with what goes wrong.

#![allow(clippy::unwrap_used)] // A test may panic.

mod bundles;
#[path = "../../../amd/tests/object/damage.rs"]
mod damage;
mod faults;
mod flaky;
mod fork;
mod hostile;
#[path = "../../../amd/tests/stand/bundles.rs"]
mod keeping;
mod leaks;
mod mistakes;
mod object;
mod objects;
mod peers;
mod refusals;
mod sandbox;
mod signals;
mod sizes;
mod stand;
mod stress;
