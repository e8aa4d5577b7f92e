//! Copies of whole tiles, which Hopper does beside its warps.

use super::{NEW, Row, UNIFORM, on, once, with};

/// How many dimensions the tensor has.
macro_rules! dimensions {
    () => {
        "{79+3 .1D|.2D|.3D|.4D|.5D}"
    };
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    on(with(once(0x3b5, concat!("UTMASTG", dimensions!(), "{82 |.IM2COL} [U32], [U24]")), UNIFORM), NEW),
    on(with(once(0x3b6, concat!(
        "UTMAREDG", dimensions!(), "{82 |.IM2COL}{87+3 .ADD|.MIN|.MAX|.INC|.DEC|.AND|.OR|.XOR} [U32], [U24]"
    )), UNIFORM), NEW),
    on(with(once(0x3b4, concat!("UTMALDG", dimensions!(), "{82 |.IM2COL}{75 ?|.MULTICAST} [U32], [U24], U64")), UNIFORM), NEW),
    on(once(0x9b7, "UTMACMDFLUSH"), NEW),
    on(with(once(0x9b9, "UTMACCTL{82 .IV|.PF} [U24]"), UNIFORM), NEW),
];
