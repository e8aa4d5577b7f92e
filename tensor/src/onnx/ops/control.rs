//! Control flow: subgraphs that run once, several times, or not at all.

use super::Table;

pub(super) const OPS: Table = &[];
