//! Index arithmetic: the normal form of sums ([`sum`]) and its division ([`division`]), which the
//! scheduler uses over loops that are no graph yet; and over a graph the sums of its nodes, their
//! bounds, dependence on ranges, comparisons, guards.

pub mod bounds;
pub mod compare;
pub mod division;
pub mod divmod;
pub mod lin;
pub mod ranges;
pub mod sum;
pub mod valid;

pub use bounds::{Bounds, bounds};
pub use lin::Lin;
pub use ranges::{RangeSets, ranges_of};
pub use sum::Sum;
