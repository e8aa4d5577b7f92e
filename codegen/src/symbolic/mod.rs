//! Index arithmetic: linear normal form, bounds, dependence on ranges, division, guards.

pub mod bounds;
pub mod compare;
pub mod divmod;
pub mod lin;
pub mod ranges;
pub mod valid;

pub use bounds::{Bounds, bounds};
pub use lin::Lin;
pub use ranges::{RangeSets, ranges_of};
