//! Integers, logic, selection.

use super::{BOTH, Row, SECOND, alu, on, one};
use crate::Chip;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    alu(0x010, BOTH, "IADD3<74>.X R16=, ?P81=, ?P84=, A-^74, Bs-^74, Cs-^74, <74>!90P87, <74>!80P77"),
    alu(0x024, BOTH, "IMAD{73 .U32|}<74>.X{81+3 *} R16=, A, Bs, Cs-^74, <74>!90P87"),
    alu(0x025, BOTH, "IMAD.WIDE{73 .U32|}<74>.X R16:2=, ?P81=, A, Bs, Cs:2-^74, <74>!90P87"),
    alu(0x027, BOTH, "IMAD.HI{73 .U32|}<74>.X R16=, ?P81=, A, Bs, Cs:2-^74, <74>!90P87"),
    alu(0x00c, SECOND, "ISETP{76+3 .F|.LT|.EQ|.LE|.GT|.NE|.GE|.T}{73 .U32|}{74+2 .AND|.OR|.XOR}{72 |.EX} P81=, P84=, A, Bs, !90P87, <72>!71P68"),
    alu(0x012, BOTH, "LOP3.LUT{80 |.PAND} ?P81=, R16=, A, Bx, Cx, x72+8, !90P87"),
    alu(0x019, BOTH, "SHF{76 .L|.R}{75 |.W}{73+2 .S64|.U64|.S32|.U32}{80 |.HI} R16=, A, Bx, Cx"),
    alu(0x011, SECOND, "LEA{80&74&73 |.HI|.X|.HI.X|?|.HI.SX32|?|.HI.X.SX32} R16=, ?P81=, A-^74, Bx-^74, <80><73=0>R64, x75+5, <74>!90P87"),
    alu(0x016, BOTH, "PRMT{72+3 |.F4E|.B4E|.RC8|.ECL|.ECR|.RC16} R16=, A, Bx, Cx"),
    alu(0x007, SECOND, "SEL R16=, A, Bx, !90P87"),
    alu(0x002, SECOND, "MOV R16=, Bx, <72+4!15>x72+4"),
    alu(0x013, SECOND, "IABS R16=, Bx"),
    alu(0x109, SECOND, "POPC R16=, Bx~"),
    alu(0x100, SECOND, "FLO{73 .U32|}{74 |.SH} R16=, ?P81=, Bx~"),
    alu(0x101, SECOND, "BREV R16=, Bx"),
    alu(0x01a, SECOND, "SGXT{75 |.W}{73 .U32|} R16=, A, Bx"),
    alu(0x01b, SECOND, "BMSK{75 |.W} R16=, A, Bx"),
    alu(0x026, SECOND, "IDP{76+2 .4A|.2A.LO|?|.2A.HI}<76=0>{73 .U8|.S8}<76>{73 .U16|.S16}{74 .U8|.S8} R16=, A, Bx, Cx-"),
    alu(0x036, SECOND, "VIADD{73 |.16x2} R16=, A, Bx-"),
    alu(0x017, SECOND, "IMNMX{73 .U32|} R16=, A, Bs, !90P87"),
    alu(0x048, SECOND, "VIMNMX{72+2 .U32||.U16x2|.S16x2}{76 |.RELU}{81+3 ?|?|?|?|?|?|?|}{84+3 *} R16=, A, Bs, !90P87"),
    alu(0x046, BOTH, "VIADDMNMX{72+2 .U32||.U16x2|.S16x2}{76 |.RELU} R16=, A, Bx-, Cx, !90P87"),
    alu(0x014, BOTH, "VABSDIFF{73 .U32|} R16=, ?P81=, A, Bx, Cx"),
    alu(0x003, SECOND, "P2R{76+2 |.B1|.B2|.B3} R16=, \"PR\", A, Bx"),
    alu(0x004, SECOND, "R2P \"PR\", A{76+2 |.B1|.B2|.B3}, Bx"),
    one(0x81c, "PLOP3.LUT P81=, P84=, !90P87, !80P77, <67=0>!71P68, <67>!71Q68, x64+3&72+5, x16+8"),
    alu(0x01f, SECOND, "PLOP3.LUT P81=, P84=, A{127 .SIGN}, Bx{127 .SIGN}, R64{127 .SIGN}, x72+8, x16+8"),
    on(alu(0x00f, SECOND, "VIMNMX3{72+2 .U32||.U16x2|.S16x2}{76 |.RELU} R16=, A, Bs, R64, !90P87"), (Chip::Sm90, Chip::Sm90)),
];
