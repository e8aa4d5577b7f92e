//! Twins: software models of devices, strict where hardware would be silent.
//!
//! A twin is written from the facts of vendors and standards, never from our driver, and shares
//! only the tables of `drivers-spec` with it. An access that the source does not allow breaks a
//! [`rule::Rule`]: the access fails, and the report names the rule, its source, what was done, and
//! the last events before it. No rule is loosened to let a driver pass.
//!
//! Today: [`rule`], what every model needs, [`fires`], what its tests need, and [`pci`], a PCI function to put register models
//! behind.
#![forbid(unsafe_code)]

pub mod fires;
pub mod pci;
pub mod rule;
