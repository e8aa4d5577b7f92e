//! Facts of vendors and standards as data: offsets, layouts, identifiers, each with its source.
//!
//! No behaviour but reading what a format holds, and saying it by its names ([`fields`]), and no I/O. Drivers and their twins share these tables and nothing else, so a wrong
//! number here is wrong for both: layouts are asserted, and compared with other sources in tests.
//! Dwords of packets and registers are described as [`hcq::reg`] has it.
//!
//! The one claim that types take on trust is which fields of an ioctl's argument are addresses: see
//! [`hcq::transport::IoctlOf::new`] and [`nv::ioctl`].
#![deny(unsafe_code)]

// Here, since every crate that asks the kernel for something is built after this one: no other error comes before.
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little"
)))]
compile_error!("Doorbell runs on Linux with 64-bit little-endian processors only");

pub mod amd;
pub mod asm24;
pub mod fields;
pub mod nv;
pub mod pci;
pub mod qcom;
pub mod usb;
pub mod vfio;
