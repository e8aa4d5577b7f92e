//! drivers
#![forbid(unsafe_code)]

pub mod env;
pub mod select;
