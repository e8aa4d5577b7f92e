//! Signals: Fourier transforms and windows.

use super::Table;

pub(super) const OPS: Table = &[];
