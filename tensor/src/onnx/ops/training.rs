//! Optimizer steps, as the training preview of the format has them.

use super::Table;

pub(super) const OPS: Table = &[];
