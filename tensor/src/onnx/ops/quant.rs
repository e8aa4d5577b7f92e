//! Quantisation: numbers that stand for others by a scale and a zero point.

use super::Table;

pub(super) const OPS: Table = &[];
pub(super) const MICROSOFT: Table = &[];
