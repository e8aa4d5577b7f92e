//! Copies of whole tiles, which Hopper does beside its warps.

use super::{BLACKWELL, HOPPER, NEW, OLD, Row, UNIFORM, on, once, one, with};

/// How many dimensions the tensor has.
macro_rules! dimensions {
    () => {
        "{79+3 .1D|.2D|.3D|.4D|.5D}"
    };
}

/// How far copies reach.
macro_rules! reach {
    () => {
        "{77+4 |?|?|?|?|.STRONG.SM|?|.STRONG.GPU|?|?|.STRONG.SYS}"
    };
}

/// The columns of a product of 64 rows.
macro_rules! columns {
    () => {
        concat!(
            ".64x{53+5 8|16|24|32|40|48|56|64|72|80|88|96|104|112|120|128|136|144|152|160|168|176|184|192|200|208",
            "|216|224|232|240|248|256}"
        )
    };
}
/// The same of integers.
macro_rules! integer_columns {
    () => {
        concat!(
            ".64x{53+6 8|?|?|16|?|?|24|?|?|32|?|?|48|?|?|64|?|?|80|?|?|96|?|?|112|?|?|128|?|?",
            "|144|?|?|160|?|?|176|?|?|192|?|?|208|?|?|224|?|?|240|?|?|256}"
        )
    };
}
macro_rules! integer_sums {
    () => {
        concat!(
            ":{53+6 4|?|?|8|?|?|12|?|?|16|?|?|24|?|?|32|?|?|40|?|?|48|?|?|56|?|?|64|?|?|72",
            "|?|?|80|?|?|88|?|?|96|?|?|104|?|?|112|?|?|120|?|?|128}"
        )
    };
}
/// Registers of its sums: of singles or words, and of halves.
macro_rules! sums {
    ($at:literal) => {
        concat!(
            "<75>R", $at, ":{53+5 4|8|12|16|20|24|28|32|36|40|44|48|52|56|60|64|68|72|76|80|84|88|92|96|100|104|108|112",
            "|116|120|124|128}"
        )
    };
}
macro_rules! half_sums {
    ($at:literal) => {
        concat!(
            "<75=0>R", $at, ":{53+5 2|4|6|8|10|12|14|16|18|20|22|24|26|28|30|32|34|36|38|40|42|44|46|48|50|52|54|56|58",
            "|60|62|64}"
        )
    };
}
/// The scoreboard of products, if any.
macro_rules! board {
    () => {
        "<84+3!7>{84+3 }"
    };
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    on(with(once(0x3b5, concat!("UTMASTG", dimensions!(), "{82 |.IM2COL} [U32], [U24], <76>D40")), UNIFORM), NEW),
    on(with(once(0x3b6, concat!(
        "UTMAREDG", dimensions!(), "{82 |.IM2COL}{87+3 .ADD|.MIN|.MAX|.INC|.DEC|.AND|.OR|.XOR} [U32], [U24], <76>D40"
    )), UNIFORM), NEW),
    on(with(once(0x3b4, concat!("UTMALDG", dimensions!(), "{82 |.IM2COL}{75 |.MULTICAST} [U32], [U24], U64, <76>D40")), UNIFORM), NEW),
    on(with(once(0x5b4, concat!("UTMALDG", dimensions!(), " [U32], [U24], <76>D40")), UNIFORM), NEW),
    on(with(once(0x3b8, concat!("UTMAPF.L2", dimensions!(), "{82 ?|.IM2COL} [U32], [U24], U64, <76>D40")), UNIFORM), NEW),
    on(with(once(0x5b8, concat!("UTMAPF.L2", dimensions!(), " [U32], [U24], <76>D40")), UNIFORM), NEW),
    on(with(once(0x3ba, concat!(
        "UBLKCP{73 .G|.S}{74 .G|.S}{75 |.MULTICAST}{81+2 |.LTC64B|.LTC128B|.LTC256B}{83 |.SEQUENCED}", reach!(), " [U32], [U24], U64, <76>D40"
    )), UNIFORM), NEW),
    on(with(once(0x3bb, concat!(
        "UBLKRED{73 .G|.S}{74 ?|.S}{87+3 .ADD|.MIN|.MAX|.INC|.DEC|.AND|.OR|.XOR}",
        "{81+4 |.S32|.U64|.S64|.F16.RN|.F32.RN|.F32.FTZ.RN|.F64.RN|.BF16.RN}", reach!(), " [U32], [U24], U64, <76>D40"
    )), UNIFORM), NEW),
    on(with(once(0x3bc, "UBLKPF.L2 [U24], U64, <76>D40"), UNIFORM), NEW),
    on(once(0x9b7, "UTMACMDFLUSH"), NEW),
    on(with(once(0x9b9, "UTMACCTL{82 .IV|.PF} [U24]"), UNIFORM), NEW),
    // Barriers in shared memory that also count bytes.
    on(with(one(0x5a7, "SYNCS.PHASECHK.TRANS64{72 |.TRYWAIT} P81=, [R24 U64 O40+24], R32"), &[(91, 1, 1), (70, 2, 1)]), HOPPER),
    on(with(one(0x9a7, "SYNCS.ARRIVE.TRANS64{73+2 |.TMASK|.RED}{75 |.OPTOUT}{84+3 |.A1T0|.A0T1|.A0TR|.A0TX|.ART0} R16:{73+2 2|2|1}=, [R24 U64 O40+24], R32"), &[(91, 1, 1), (70, 2, 0)]), HOPPER),
    on(with(one(0x5a7, "SYNCS.PHASECHK.TRANS64{72 |.TRYWAIT} P81=, [R24 U64 O40+24], R32"), &[(91, 1, 1), (76, 2, 1)]), BLACKWELL),
    on(with(one(0x9a7, "SYNCS.ARRIVE.TRANS64{73+2 |.TMASK|.RED}{75 |.OPTOUT}{84+3 |.A1T0|.A0T1|.A0TR|.A0TX|.ART0} R16:{73+2 2|2|1}=, [R24 U64 O40+24], R32"), &[(91, 1, 1), (76, 2, 0)]), BLACKWELL),
    on(with(once(0x5b2, "SYNCS.EXCH.64 U16:2=, [U24 O40+24], U32:2"), &[(91, 1, 1), (72, 2, 1)]), NEW),
    on(with(once(0x9b2, "SYNCS.LD.64 U16:2=, [U24 O40+24]"), &[(91, 1, 1), (72, 2, 0)]), NEW),
    on(with(one(0x5b1, "SYNCS.LD.64{74 |.WATCH} R16:2=, [R24 U64 O40+24]"), &[(91, 1, 1), (73, 1, 1)]), NEW),
    on(with(one(0x9b1, "SYNCS.CCTL{72 .IV|.WB} [R24 U64 O40+24]"), &[(91, 1, 1), (73, 1, 0)]), NEW),
    on(with(one(0x9b1, "SYNCS.CCTL.IVALL"), &[(91, 1, 0), (73, 1, 0)]), NEW),
    on(with(one(0x9b0, "ARRIVES.LDGSTSBAR.64 [R24 U64 O40+24]"), &[(91, 1, 1), (70, 6, 40)]), OLD),
    on(with(one(0x9b0, "ARRIVES.LDGSTSBAR.64{70+2 |.ARVCNT|.TRANSCNT} [R24 U64 O40+24]"), &[(91, 1, 1), (72, 4, 10)]), HOPPER),
    on(with(one(0x9b0, "ARRIVES.LDGSTSBAR.64{76+2 |.ARVCNT|.TRANSCNT} [R24 U64 O40+24]"), &[(91, 1, 1), (72, 4, 10)]), BLACKWELL),
    // Products by four warps together.
    on(with(one(0x9c5, "WARPGROUP.ARRIVE"), &[(79, 2, 0)]), HOPPER),
    on(with(one(0x9c5, "WARPGROUP.DEPBAR{47 ?|.LE}{84+3 } \"gsb0\", x72+3"), &[(79, 2, 2)]), HOPPER),
    on(with(one(0x9f1, concat!(
        "IGMMA", integer_columns!(), "x32{76+2 .U8|.S8}{82+2 .U8|.S8}{75 |.SAT}", board!(), " R16", integer_sums!(), "=, [U24 G], R64",
        integer_sums!(), ", ?!90q87, <84+3!7>\"gsb0\""
    )), &[(91, 1, 1), (73, 1, 0)]), HOPPER),
    on(with(one(0xdf1, concat!(
        "IGMMA", integer_columns!(), "x32{76+2 .U8|.S8}{82+2 .U8|.S8}{75 |.SAT}", board!(), " R16", integer_sums!(), "=, R24:4, [U32 G], R64",
        integer_sums!(), ", ?!90q87, <84+3!7>\"gsb0\""
    )), &[(91, 1, 1), (73, 1, 0)]), HOPPER),
    on(with(one(0x9f3, concat!(
        "QGMMA", columns!(), "{58 x32|?}{75 .F16|.F32}{76 .E4M3|.E5M2}{77 .E4M3|.E5M2}", board!(), " ", sums!("16"), "=, ",
        half_sums!("16"), "=, [U24 G]{72&63 |.negA|.negB|.negA.negB}, ", sums!("64"), ", ", half_sums!("64"), ", ?!90q87, <84+3!7>\"gsb0\""
    )), &[(91, 1, 1), (73, 1, 0)]), HOPPER),
    on(with(one(0xdf3, concat!(
        "QGMMA", columns!(), "{58 x32|?}{75 .F16|.F32}{76 .E4M3|.E5M2}{77 .E4M3|.E5M2}", board!(), " ", sums!("16"), "=, ",
        half_sums!("16"), "=, -72R24:4, [U32 G]{63 |.negB}, ", sums!("64"), ", ", half_sums!("64"), ", ?!90q87, <84+3!7>\"gsb0\""
    )), &[(91, 1, 1), (73, 1, 0)]), HOPPER),
    on(with(one(0x9f0, concat!(
        "HGMMA", columns!(), "{58 x16|x8}{75 .F16|.F32}{76+2 |.BF16|.TF32}", board!(), " ",
        sums!("16"), "=, ", half_sums!("16"), "=, [U24 G]{72&63&61&62 |.negA|.negB|.negA.negB|.tnspA|.negA.tnspA|.negB.tnspA",
        "|.negA.negB.tnspA|.tnspB|.negA.tnspB|.negB.tnspB|.negA.negB.tnspB|.tnspA.tnspB|.negA.tnspA.tnspB",
        "|.negB.tnspA.tnspB|.negA.negB.tnspA.tnspB}, ", sums!("64"), ", ", half_sums!("64"), ", ?!90q87, <84+3!7>\"gsb0\""
    )), &[(91, 1, 1), (73, 1, 0)]), HOPPER),
    on(with(one(0xdf0, concat!(
        "HGMMA", columns!(), "{58 x16|x8}{75 .F16|.F32}{76+2 |.BF16|.TF32}", board!(), " ",
        sums!("16"), "=, ", half_sums!("16"), "=, -72R24:4, [U32 G]{63&62 |.negB|.tnspB|.negB.tnspB}, ",
        sums!("64"), ", ", half_sums!("64"), ", ?!90q87, <84+3!7>\"gsb0\""
    )), &[(91, 1, 1), (73, 1, 0)]), HOPPER),
];
