//! Hang bundles: when a device hangs or faults, one file records its state; later, on any machine, it explains the
//! likely cause.
//!
//! | module | idea |
//! |---|---|
//! | [`schema`] | the format of a bundle: the same for every interface, and for programs on simulated cards |
//! | [`coredump`] | the folder of bundles: never overwrites, limited in number |
//! | [`limits`] | size limits for untrusted files |
//! | `system` | system information about a device: versions, link, error counters |
//! | [`cause`] | from evidence to the likely cause |
//!
//! A bundle is JSON, gzipped if long. Readers ignore unknown fields; incompatible changes get a new
//! [`schema::SCHEMA`].
#![forbid(unsafe_code)]

pub mod cause;
pub mod coredump;
pub mod limits;
pub mod schema;
mod system;

pub use cause::{Explanation, PROGRAM, explain};
pub use coredump::{CoredumpWriter, ReadError};
pub use schema::{Bundle, Evidence, Hex};
