//! From one type of number to another.

use super::float::round;
use super::{BLACKWELL, BOTH, NEW, OLD, Row, SECOND, alu, on, one, with};
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

/// What a conversion to something smaller does with what is too large, or negative.
macro_rules! saturated {
    () => {
        "{77 |.SATFINITE}{75 |.RELU}"
    };
}
/// Floating-point numbers of eight bits and fewer.
macro_rules! small {
    () => {
        "{76&85+3 ?|?|?|.E2M1|?|?|.E2M3|.E3M2|.E5M2|.E4M3|?|?|.E8}"
    };
}
macro_rules! toward {
    () => {
        "{79+3 |?|.RP|.RZ}"
    };
}

/// The chips with numbers of eight bits.
const LATER: (Chip, Chip) = (Chip::Sm89, Chip::Sm120);

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    alu(0x110, SECOND, concat!("F2F<75+3=3>{84+3 |||?|}<75+3!3>{84+3 ?|?|?|}{80 |.FTZ}{75+3 ?|.F16|.F32|.F64|.BF16}{84+3 ?|.F16|.F32|.F64|.BF16}", round!(), " R16:{75+3 1|1|1|2|1}=, <85>Bf:{84+3 1|1|1|2|1}-|, <85=0>Bf-|{60 |.H1}")),
    on(alu(0x104, SECOND, short!("?|?|?|?|?|?|?|?|?|?||?|?|?|?|?|?||?|?|")), OLD),
    on(alu(0x104, SECOND, short!("?|?|?|?|?|?|?|?|?|?||?||?|?|?|?||?|?||?|?|?|?|?|?|?|?|?|?|?|?||")), NEW),
    alu(0x105, SECOND, "F2I{80 |.FTZ}{72&75+2 .U8|.S8|.U16|.S16|.U32|}{84+3 ?|.F16||?|.BF16}{78+2 |.FLOOR|.CEIL|.TRUNC}{77 |.NTZ} R16=, <85>Bf-|, <85=0>Bf-|{60 |.H1}"),
    alu(0x111, SECOND, concat!("F2I{80 |.FTZ}<84+3!3>{75+2 ?|?|?|}", int!("72&75+2"), "{84+3 ?|.F16||.F64|.BF16}{78+2 |.FLOOR|.CEIL|.TRUNC}{77 |.NTZ}", " R16:{76&75 1|1|1|2}=, <85>Bf:{84+3 1|1|1|2|1}-|, <85=0>Bf-|{60 |.H1}")),
    on(alu(0x106, SECOND, concat!("I2F{75+2 ?|.F16|}", "{74&84+2 .U8|.S8|.U16|.S16|.U32|}", round!(), " R16=, <85>Bx, <84+2=1>Bx{60+2 |.H1}, <84+2=0>Bx{60+2 |.B1|.B2|.B3}")), OLD),
    on(alu(0x106, SECOND, concat!("I2F{75+3 ?|.F16||?|.BF16}", "{74&84+2 .U8|.S8|.U16|.S16|.U32|}", round!(), " R16=, <85>Bx, <84+2=1>Bx{60+2 |.H1}, <84+2=0>Bx{60+2 |.B1|.B2|.B3}")), NEW),
    alu(0x112, SECOND, concat!("I2F{75+3 ?|.F16||.F64|.BF16}<75+3!3>{84+2 ?|?|?|}", int!("74&84+2"), round!(), " R16:{75+3 1|1|1|2|1}=, <85>Bx:{84+2 1|1|1|2}, <84+2=1>Bx{60+2 |.H1}, <84+2=0>Bx{60+2 |.B1|.B2|.B3}")),
    alu(0x107, SECOND, concat!("FRND{80 |.FTZ}{75+3&84+3 ?|?|?|?|?|?|?|?|?|.F16|?|?|?|?|?|?|?|?||?|?|?|?|?|?|?|?|?", "|?|?|?|?|?|?|?|?|.BF16}{78+2 |.FLOOR|.CEIL|.TRUNC} R16=, <85>Bf-|, <85=0>Bf-|{60 |.H1}")),
    alu(0x113, SECOND, "FRND{80 |.FTZ}{75+3 ?|?|?|.F64}{84+3 ?|?|?|}{78+2 |.FLOOR|.CEIL|.TRUNC} R16:2=, Bf:2-|"),
    on(alu(0x03e, BOTH, "F2FP{75 |.RELU}{76 |.BF16}{78 .PACK_AB|.MERGE_C}{79+3 |?|?|.RZ} R16=, <78=0>A, Bf, <78>C{72 |.H1}"), (Chip::Sm86, Chip::Sm86)),
    on(with(alu(0x03e, BOTH, concat!("F2FP", saturated!(), "{76&86&87 .F16|.BF16|?|.TF32|.E5M2|.E4M3}.F32{78 .PACK_AB|.MERGE_C}{79+3 |?|?|.RZ} R16=, <78=0>A, Bf, <78>C{72 |.H1}")), &[(89, 2, 0), (73, 2, 0)]), LATER),
    on(with(alu(0x03e, BOTH, concat!("F2FP", saturated!(), "{76&86+2 ?|?|?|?|.E5M2|.E4M3}", ".F32.PACK_AB_MERGE_C", "{79+3 |?|?|.RZ}", " R16=, A, Bf, C")), &[(89, 2, 2), (78, 1, 1)]), (Chip::Sm89, Chip::Sm90)),
    on(with(alu(0x03e, BOTH, concat!("F2FP", saturated!(), small!(), ".F32.PACK_AB_MERGE_C", toward!(), " R16=, A, Bf, C")), &[(89, 2, 2), (78, 1, 1)]), BLACKWELL),
    on(with(alu(0x03e, BOTH, concat!("F2FP", saturated!(), "{76&86+2 ?|?|?|?|.E5M2|.E4M3}", "{73&74 ?|.F16}.UNPACK_B_MERGE_C{24+8 *} R16=, Bx, C")), &[(89, 2, 2), (78, 1, 0)]), (Chip::Sm89, Chip::Sm90)),
    on(with(alu(0x03e, BOTH, concat!("F2FP", saturated!(), small!(), "{73&74&83 ?|.F16|?|?|?|.BF16}.UNPACK_B_MERGE_C{24+8 *} R16=, Bx, C")), &[(89, 2, 2), (78, 1, 0)]), BLACKWELL),
    on(with(alu(0x03e, SECOND, "F2FP{75 |.RELU}{76&85+3 .F16|.BF16}{73&74 ?|?|.E5M2|.E4M3}.UNPACK_B{24+8 *}{64+8 *} R16=, Bx{88 |.H1}"), &[(89, 2, 1), (78, 1, 0)]), (Chip::Sm89, Chip::Sm90)),
    on(with(alu(0x03e, SECOND, "F2FP{75 |.RELU}{76&85+3 .F16|.BF16}{73&74&82 ?|?|.E5M2|.E4M3|?|.E2M1|.E2M3|.E3M2}.UNPACK_B{24+8 *}{64+8 *} R16=, <73&74&82!5>Bx{88 |.H1}, <73&74&82=5>Bx{88 |.B2}"), &[(89, 2, 1), (78, 1, 0)]), BLACKWELL),
    on(with(alu(0x03e, SECOND, "F2FP{75 |.RELU}{76&85+3 ?|?|?|?|?|.TF32}.F32.PACK_B{24+8 *}{64+8 *}{79+3 |?|?|.RZ} R16=, Bf"), &[(89, 2, 1), (78, 1, 1)]), LATER),
    on(with(one(0xe3e, "F2FP{77 |.SATFINITE}{75 |.RELU}{76&85+3 ?|.BF16}{73&74&82 ?|?|.E5M2|.E4M3|?|.E2M1|.E2M3|.E3M2}.UNPACK_B R16=, <73&74&82!5>R64{88 |.H1}, <73&74&82=5>R64{88 |.B2}, f32+32{24 .H0|.H1}"), &[(89, 2, 1), (78, 1, 0)]), BLACKWELL),
    alu(0x043, SECOND, "F2IP{76+2 .U8|.S8|?|?}.F32{78+2 |?|?|.TRUNC}{74 |.NTZ}{75 |.RELU} R16=, A, B, R64{72 |.H1}"),
    alu(0x045, SECOND, "I2FP{75+3 ?|?|.F32}{74&84+2 ?|?|?|?|.U32|.S32}{78+2 |?|?|.RZ} R16=, Bx"),
    alu(0x038, SECOND, "I2I{76+2 .U8|.S8|.U16|.S16}.S32.SAT R16=, Bx"),
    on(alu(0x039, SECOND, "I2IP{76+2 .U8|.S8|.U16|.S16}.S32.SAT R16=, A, Bx, R64"), OLD),
    on(alu(0x039, BOTH, "I2IP{76+3 .U8|.S8|.U16|.S16}.S32{74+2 |.SAT|.SATRELU} R16=, A, Bx, R64{72+2 |.H1}"), NEW),
];
