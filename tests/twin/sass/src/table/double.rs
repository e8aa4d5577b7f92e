//! Doubles.

use super::float::{compare, round};
use super::{BOTH, LAST, Row, SECOND, alu};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    alu(0x029, LAST, concat!("DADD", round!(), " R16:2=, A:2-|, Cd:2-|")),
    alu(0x028, SECOND, concat!("DMUL", round!(), " R16:2=, A:2-|, Bd:2-|")),
    alu(0x02b, BOTH, concat!("DFMA", round!(), " R16:2=, A:2-|, Bd:2-|, Cd:2-|")),
    alu(0x02a, LAST, concat!("DSETP", compare!(".MIN", ".MAX"), "{74+2 .AND|.OR|.XOR} P81=, P84=, A:2-|, Bd:2-|, !90P87")),
];
