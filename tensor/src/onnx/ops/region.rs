//! Regions of interest: pooled, filtered, deformed.

use super::Table;

pub(super) const OPS: Table = &[];
