//! The shader cores of Adreno 6xx as a strict executor.
//!
//! A command processor fills a [`launch::Launch`] and runs a grid of workgroups over a [`memory::Memory`].

#![forbid(unsafe_code)]

pub mod launch;
pub mod memory;
