//! The facade.
pub mod doctor;
