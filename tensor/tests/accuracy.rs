//! How far results are from the true ones. Sums are compared with sums in `f64`, functions with values
//! of twice the digits. `-- --nocapture` prints the tables.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "accuracy/sums.rs"]
mod sums;
