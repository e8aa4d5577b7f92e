//! The facade over every driver: selecting, opening and examining devices.
#![forbid(unsafe_code)]

pub mod doctor;
pub mod env;
pub mod open;
pub mod select;

pub use open::{Present, Twin, open, open_with, present};
