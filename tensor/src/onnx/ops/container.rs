//! Sequences and optionals.

use super::Table;

pub(super) const OPS: Table = &[];
