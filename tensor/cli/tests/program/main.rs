//! The program `doorbell`.
#![allow(clippy::unwrap_used)] // A test may panic.

#[cfg(feature = "twin")]
mod amd;
#[cfg(feature = "twin")]
mod bringup;
#[cfg(target_os = "linux")]
mod cl;
mod cli;
mod dbx;
#[cfg(feature = "twin")]
mod exec;
mod models;
#[cfg(feature = "twin")]
mod nv;
#[cfg(feature = "twin")]
mod openpilot;
#[cfg(feature = "twin")]
mod pages;
mod place;
#[cfg(feature = "twin")]
mod qcom;
#[cfg(feature = "twin")]
mod trace;
