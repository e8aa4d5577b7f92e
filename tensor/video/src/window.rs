//! [`Window`]: the part of a picture that is shown.

use crate::bits::Bits;
use crate::error::Result;

/// Offsets from the edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "edges")]
pub struct Window {
    pub left: u32,
    pub right: u32,
    pub top: u32,
    pub bottom: u32,
}

/// Luma samples of a side, at most: level 6.2 has 35,651,584 samples a picture, and a side at most the root of eight times that.
pub(crate) const SIDE: u32 = 16888;

impl Window {
    pub(crate) fn parse(bits: &mut Bits<'_>, names: [&'static str; 4]) -> Result<Window> {
        Ok(Window {
            left: bits.ue(SIDE, names[0])?,
            right: bits.ue(SIDE, names[1])?,
            top: bits.ue(SIDE, names[2])?,
            bottom: bits.ue(SIDE, names[3])?,
        })
    }
}
