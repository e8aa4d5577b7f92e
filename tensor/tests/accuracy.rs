//! How far results are from the true ones. Sums are compared with sums in `f64`, functions with values
//! of twice the digits. `-- --nocapture` prints the tables; `DOORBELL_PART=all` has sums of 1e8 numbers
//! and functions of four million `f32`.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "accuracy/activations.rs"]
mod activations;
#[path = "accuracy/double.rs"]
mod double;
#[path = "accuracy/functions.rs"]
mod functions;
#[path = "accuracy/products.rs"]
mod products;
#[path = "accuracy/sums.rs"]
mod sums;
