//! Ensembles of decision trees: all rows go down all trees at once, a level at a time.

use super::Table;
pub(super) const OPS: Table = &[];
