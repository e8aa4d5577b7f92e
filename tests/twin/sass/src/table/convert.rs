//! From one type of number to another.

use super::float::round;
use super::{BOTH, LAST, NEW, OLD, Row, SECOND, alu, on, with};
use crate::Chip;

/// An integer's type, by its sign in one bit and its size in two.
macro_rules! int {
    ($bits:literal) => {
        concat!("{", $bits, " .U8|.S8|.U16|.S16|.U32||.U64|.S64}")
    };
}
/// Which types become which where neither has 64 bits: the result's in three bits, the source's in three more.
macro_rules! short {
    ($legal:literal) => {
        concat!(
            "F2F{80 |.FTZ}{75+3&84+3 ",
            $legal,
            "}{75+3 ?|.F16|.F32|?|.BF16}{84+3 ?|.F16|.F32|?|.BF16}",
            round!(),
            " R16=, <85>Bf-|, <85=0>Bf-|{60 |.H1}"
        )
    };
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    alu(0x110, SECOND, concat!("F2F<75+3=3>{84+3 |||?|}<75+3!3>{84+3 ?|?|?|}{80 |.FTZ}{75+3 ?|.F16|.F32|.F64|.BF16}{84+3 ?|.F16|.F32|.F64|.BF16}", round!(), " R16:{75+3 1|1|1|2|1}=, <85>Bf:{84+3 1|1|1|2|1}-|, <85=0>Bf-|{60 |.H1}")),
    on(alu(0x104, SECOND, short!("?|?|?|?|?|?|?|?|?|?||?|?|?|?|?|?||?|?|")), OLD),
    on(alu(0x104, SECOND, short!("?|?|?|?|?|?|?|?|?|?||?||?|?|?|?||?|?||?|?|?|?|?|?|?|?|?|?|?|?||")), NEW),
    alu(0x105, SECOND, "F2I{80 |.FTZ}{72&75+2 .U8|.S8|.U16|.S16|.U32|}{84+3 ?|.F16||?|.BF16}{78+2 |.FLOOR|.CEIL|.TRUNC}{77 |.NTZ} R16=, <85>Bf-|, <85=0>Bf-|{60 |.H1}"),
    alu(0x111, SECOND, concat!("F2I{80 |.FTZ}<84+3!3>{75+2 ?|?|?|}", int!("72&75+2"), "{84+3 ?|.F16||.F64|.BF16}{78+2 |.FLOOR|.CEIL|.TRUNC}{77 |.NTZ}", " R16:{76&75 1|1|1|2}=, <85>Bf:{84+3 1|1|1|2|1}-|, <85=0>Bf-|{60 |.H1}")),
    alu(0x106, SECOND, concat!("I2F{75+3 ?|.F16||?|.BF16}", "{74&84+2 .U8|.S8|.U16|.S16|.U32|}", round!(), " R16=, <85>Bx, <84+2=1>Bx{60+2 |.H1}, <84+2=0>Bx{60+2 |.B1|.B2|.B3}")),
    alu(0x112, SECOND, concat!("I2F{75+3 ?|.F16||.F64|.BF16}<75+3!3>{84+2 ?|?|?|}", int!("74&84+2"), round!(), " R16:{75+3 1|1|1|2|1}=, <85>Bx:{84+2 1|1|1|2}, <84+2=1>Bx{60+2 |.H1}, <84+2=0>Bx{60+2 |.B1|.B2|.B3}")),
    alu(0x107, SECOND, concat!("FRND{80 |.FTZ}{75+3&84+3 ?|?|?|?|?|?|?|?|?|.F16|?|?|?|?|?|?|?|?||?|?|?|?|?|?|?|?|?", "|?|?|?|?|?|?|?|?|.BF16}{78+2 |.FLOOR|.CEIL|.TRUNC} R16=, <85>Bf-|, <85=0>Bf-|{60 |.H1}")),
    alu(0x113, SECOND, "FRND{80 |.FTZ}{75+3 ?|?|?|.F64}{84+3 ?|?|?|}{78+2 |.FLOOR|.CEIL|.TRUNC} R16:2=, Bf:2-|"),
    on(alu(0x03e, LAST, "F2FP{75 |.RELU}{76 |.BF16}{78 .PACK_AB|.MERGE_C}{79+3 |?|?|.RZ} R16=, <78=0>A, Bx, <78>R64{72 |.H1}"), (Chip::Sm86, Chip::Sm86)),
    on(with(alu(0x03e, LAST, "F2FP{73 |?}{77 |.SATFINITE}{75 |.RELU}{76&86&87 .F16|.BF16|?|.TF32|.E5M2|.E4M3}.F32{78 .PACK_AB|.MERGE_C}{79+3 |?|?|.RZ} R16=, <78=0>A, Bx, <78>R64{72 |.H1}"), &[(90, 1, 0), (74, 1, 0)]), (Chip::Sm89, Chip::Sm90)),
    alu(0x043, SECOND, "F2IP{76+2 .U8|.S8|?|?}.F32{78+2 |?|?|.TRUNC}{74 |.NTZ}{75 |.RELU} R16=, A, B, R64{72 |.H1}"),
    alu(0x045, SECOND, "I2FP{75+3 ?|?|.F32}{74&84+2 ?|?|?|?|.U32|.S32}{78+2 |?|?|.RZ} R16=, Bx"),
    alu(0x038, SECOND, "I2I{76+2 .U8|.S8|.U16|.S16}.S32.SAT R16=, Bx"),
    on(alu(0x039, SECOND, "I2IP{76+2 .U8|.S8|.U16|.S16}.S32.SAT R16=, A, Bx, R64"), OLD),
    on(alu(0x039, BOTH, "I2IP{76+3 .U8|.S8|.U16|.S16}.S32{74+2 |.SAT|.SATRELU} R16=, A, Bx, R64{72+2 |.H1}"), NEW),
];
