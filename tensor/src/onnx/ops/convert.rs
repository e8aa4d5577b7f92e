//! Conversions between element types.

use super::Table;

pub(super) const OPS: Table = &[];
