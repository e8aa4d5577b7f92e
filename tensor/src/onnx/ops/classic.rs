//! Classic machine learning, as far as it works on tensors and strings.

use super::Table;

pub(super) const OPS: Table = &[];
