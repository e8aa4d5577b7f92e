//! The uniform datapath: what is computed once for all lanes of a warp.

use super::{Row, UNIFORM, once, warp, with};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    warp(0x090, &[1, 4], "UIADD3<74>.X U16=, ?Q81=, ?Q84=, A-^74, Bs-^74, Cs-^74, <74>!90Q87, <74>!80Q77"),
    with(once(0x297, "UIADD3.64<74>.X U16:2=, ?Q81=, ?Q84=, -72^74U24:2, -63^74U32:2, -75^74U64:2, <74>!90Q87, <74>!80Q77"), UNIFORM),
    warp(0x0a4, &[1, 4], "UIMAD{73 .U32|}<74>.X{81+3 *} U16=, A, Bs, Cs-^74, <74>!90Q87"),
    warp(0x0a5, &[1, 4], "UIMAD.WIDE{73 .U32|}<74>.X U16:2=, ?Q81=, A, Bs, Cs:2-^74, <74>!90Q87"),
    warp(0x0a7, &[1, 4], "UIMAD.HI{73 .U32|}<74>.X U16=, ?Q81=, A, Bs, Cs:2-^74, <74>!90Q87"),
    warp(0x08c, &[1, 4], "UISETP{76+3 .F|.LT|.EQ|.LE|.GT|.NE|.GE|.T}{73 .U32|}{74+2 .AND|.OR|.XOR}{72 |.EX} Q81=, Q84=, A, Bs, !90Q87, <72>!71Q68"),
    warp(0x092, &[1, 4], "ULOP3.LUT{80 |.PAND} ?Q81=, U16=, A, Bx, Cx, x72+8, !90Q87"),
    warp(0x099, &[1, 4], "USHF{76 .L|.R}{75 |.W}{73+2 .S64|.U64|.S32|.U32}{80 |.HI} U16=, A, Bx, Cx"),
    warp(0x091, &[1, 4], "ULEA{80&74&73 |.HI|.X|.HI.X|?|.HI.SX32|?|.HI.X.SX32} U16=, ?Q81=, A-^74, Bx-^74, <80><73=0>U64, x75+5, <74>!90Q87"),
    warp(0x096, &[1, 4], "UPRMT{72 |?} U16=, A, Bx, Cx"),
    warp(0x087, &[1, 4], "USEL U16=, A, Bx, !90Q87"),
    warp(0x0be, &[1, 4], "UBREV U16=, Bx"),
    warp(0x0bd, &[1, 4], "UFLO{73 .U32|}{74 |.SH} U16=, ?Q81=, Bx~"),
    warp(0x0bf, &[1, 4], "UPOPC U16=, Bx~"),
    once(0x882, "UMOV U16=, x32+32"),
    with(once(0xc82, "UMOV U16=, U32"), UNIFORM),
    once(0xab9, "ULDC{73+3 .U8|.S8|.U16|.S16||.64} U16:{73+3 1|1|1|1|1|2}=, c"),
];
