//! A card behind PCI: a start of GSP by the order of the vendor's driver, in words of its own, and each mistake on the way.

#![allow(clippy::unwrap_used)] // A test may panic.

mod boot;
mod card;
mod falcons;
mod firmware;
mod fsp;
mod queues;
mod rig;
mod starts;
mod structures;
