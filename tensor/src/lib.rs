//! tensor
#![deny(unsafe_code)]

pub mod io;
