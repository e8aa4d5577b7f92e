//! Attention.

use super::Table;

pub(super) const OPS: Table = &[];
pub(super) const MICROSOFT: Table = &[];
