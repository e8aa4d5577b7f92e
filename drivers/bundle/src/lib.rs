//! Hang bundles: when a device hangs or faults, one file keeps all that is known of it, and says later, on any
//! machine, what the likely cause is.
//!
//! | module | idea |
//! |---|---|
//! | [`schema`] | what is in a bundle: the same for every way to a GPU, and for programs on simulated cards |
//! | [`keeper`] | the folder of bundles: nothing in it is overwritten, and there is an end to it |
//! | [`limits`] | how much a file may hold that came from elsewhere |
//! | `system` | what the machine tells of a device: versions, link, error counters |
//! | [`cause`] | from what was seen to the likely cause |
//!
//! A bundle is JSON, packed (gzip) where it is long. Readers take what they know and leave the rest; a change that
//! they could not read has another [`schema::SCHEMA`].
#![forbid(unsafe_code)]

pub mod cause;
pub mod keeper;
pub mod limits;
pub mod schema;
mod system;

pub use cause::{Explanation, PROGRAM, explain};
pub use keeper::{CoredumpWriter, ReadError};
pub use schema::{Bundle, Evidence, Hex};
