//! Images: resampling, grids, crops, blocks of pixels.

use super::Table;

pub(super) const OPS: Table = &[];
