//! Losses.

use super::Table;

pub(super) const OPS: Table = &[];
