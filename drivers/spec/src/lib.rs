//! Facts of vendors and standards as data: offsets, layouts, identifiers, each with its source.
//!
//! No behaviour, no I/O. Drivers and their twins share these tables and nothing else, so a wrong
//! number here is wrong for both: layouts are asserted, and compared with other sources in tests.
#![forbid(unsafe_code)]

pub mod amd;
pub mod pci;
pub mod usb;
