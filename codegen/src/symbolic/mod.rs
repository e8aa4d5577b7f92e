//! Index arithmetic: the normal form of sums ([`sum`]) and its division ([`division`]), which the
//! scheduler uses over loops that are no graph yet; and over a graph the sums of its nodes, their
//! bounds, comparisons, guards.

pub mod bounds;
pub mod compare;
pub mod division;
pub mod divmod;
pub mod lin;
pub mod sum;
pub mod valid;

pub use bounds::{Bounds, bounds};
pub use lin::Lin;
pub use sum::Sum;
