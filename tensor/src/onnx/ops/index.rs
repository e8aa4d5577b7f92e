//! Picking elements by number, and putting them back.

use super::Table;

pub(super) const OPS: Table = &[];
