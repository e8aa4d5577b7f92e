//! Loads, stores, atomics.

use super::{BEFORE, BLACKWELL, HOPPER, NEW, OLD, Row, UNIFORM, on, one, with};

/// What the first-level cache shall do with the line.
macro_rules! evict {
    () => {
        "{84+3 .EF||.EL|.LU|.EU|.NA}"
    };
}
/// How much is moved, and in how many registers.
macro_rules! size {
    () => {
        "{73+3 .U8|.S8|.U16|.S16||.64|.128}"
    };
}
macro_rules! registers {
    () => {
        ":{73+3 1|1|1|1|1|2|4}"
    };
}
/// How much the second-level cache shall fetch beside.
macro_rules! ahead {
    ($bit:literal) => {
        concat!("{", $bit, "+2 |.LTC64B|.LTC128B|.LTC256B}")
    };
}
/// Who sees it, and when.
macro_rules! order {
    ($fourth:literal) => {
        concat!(
            "{77+4 |.CONSTANT.PRIVATE|.CONSTANT.CTA|.CONSTANT.CTA.PRIVATE|",
            $fourth,
            "|.STRONG.SM|.STRONG.GPU.PRIVATE|.STRONG.GPU|.MMIO.GPU|.CONSTANT.SM|.STRONG.SYS",
            "|.CONSTANT.SM.PRIVATE|.MMIO.SYS|.CONSTANT.VC|.CONSTANT.VC.PRIVATE|.CONSTANT.GPU}"
        )
    };
}
/// The same of Blackwell's stores.
macro_rules! store_order {
    () => {
        concat!(
            "{77+4 |.CONSTANT.PRIVATE|.CONSTANT.CTA|.CONSTANT.CTA.PRIVATE|.STRONG.SM.PRIVATE|.STRONG.SM",
            "|.STRONG.GPU.PRIVATE|.STRONG.GPU|.MMIO.GPU|.CONSTANT.SM|.STRONG.SYS|.CONSTANT.SM.PRIVATE|.MMIO.SYS",
            "|.SYS.ORDERED|.STRONG.SYS.ORDERED|.MMIO.SYS.ORDERED}"
        )
    };
}
/// The same of a copy into shared memory.
macro_rules! shared_order {
    () => {
        concat!(
            "{77+4 |.CONSTANT.PRIVATE|.CONSTANT.CTA|.CONSTANT.CTA.PRIVATE|.CONSTANT|.MMIO.CTA|.GPU.PRIVATE",
            "|.MMIO.CTA.PRIVATE|.MMIO.SM|.CONSTANT.SM|.MMIO.VC|.CONSTANT.SM.PRIVATE|.MMIO.GPU|.CONSTANT.VC",
            "|.CONSTANT.VC.PRIVATE|.CONSTANT.GPU}"
        )
    };
}
/// What an atomic does to integers.
macro_rules! integers {
    () => {
        "{87+4 .ADD|.MIN|.MAX|.INC|.DEC|.AND|.OR|.XOR|.EXCH}"
    };
}
macro_rules! floats {
    () => {
        concat!(
            "{73+4 .F16x2.RN|.F16x4.RN|.F16x8.RN|.BF16x2.RN|.BF16x4.RN|.BF16x8.RN|?|?|?|.F32.FTZ.RN",
            "|.F32x2.FTZ.RN|.F32x4.FTZ.RN|.F32.RN|.F32x2.RN|.F32x4.RN|.F64.RN}"
        )
    };
}
macro_rules! float_registers {
    () => {
        ":{73+4 1|2|4|1|2|4|1|1|1|1|2|4|1|2|4|2}"
    };
}
macro_rules! integer_size {
    () => {
        "{73+3 |.S32|.64|.S64|.128}"
    };
}
macro_rules! integer_registers {
    () => {
        ":{73+3 1|1|2|2|4}"
    };
}
/// What Ampere's atomics work on.
macro_rules! old_size {
    () => {
        "{73+3 |.S32|.64|.F32.FTZ.RN|.F16x2.RN|.S64|.F64.RN}"
    };
}
macro_rules! old_registers {
    () => {
        ":{73+3 1|1|2|1|1|2|2}"
    };
}
macro_rules! words {
    () => {
        "{73+3 .32|.S32|.64|.S64}"
    };
}
macro_rules! word_registers {
    () => {
        ":{73+3 1|1|2|2}"
    };
}
/// What a load from several GPUs adds up.
macro_rules! reduced_floats {
    () => {
        concat!(
            "{73+4 .F16x2.RN|.F16x4.RN|.F16x8.RN|.BF16x2.RN|.BF16x4.RN|.BF16x8.RN|?|?|?|?|?|?",
            "|.F32.RN|.F32x2.RN|.F32x4.RN|.F64.RN}"
        )
    };
}
/// What all of a system see.
macro_rules! everywhere {
    () => {
        "{77+4 ?|?|?|?|?|?|?|?|?|?|.STRONG.SYS}"
    };
}
/// An address with a uniform register, and the same of atomics.
macro_rules! at {
    ($uniform:literal) => {
        concat!("[R24 U", $uniform, " @91 D76 W90 O40+24]")
    };
}
macro_rules! reduced {
    () => {
        "[R24 U64 @91 D71 W90 O40+24]"
    };
}
macro_rules! atomic {
    () => {
        "[R24 U64 @91 D71 W70 O40+24]"
    };
}
/// The same on Blackwell, where uniform registers have eight bits.
macro_rules! late_reduced {
    () => {
        "[R24 U64 @91 D81 W90 O40+24]"
    };
}
macro_rules! late_atomic {
    ($descriptor:literal) => {
        concat!("[R24 U64 @91 D", $descriptor, " W63 O40+23]")
    };
}
/// Whether the second-level cache shall keep what of 32 bytes is loaded or stored.
macro_rules! second_level {
    () => {
        "{81+2 .EFL2|.ENL2|.ELL2}"
    };
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    one(0x381, concat!("LDG{72 |.E}", evict!(), ahead!("68"), size!(), order!(".CONSTANT"), " ?P81=, R16", registers!(), "=, [R24 O40+24], ?!67p64")),
    with(one(0x981, concat!("LDG{72 ?|.E}{76&90 |?||}", evict!(), ahead!("68"), size!(), order!(".CONSTANT"), " ?P81=, R16", registers!(), "=, ", at!("32"), ", ?!67p64")), UNIFORM),
    with(one(0x980, concat!("LD{72 ?|.E}{76&90 |?||}{81+3 *}", evict!(), ahead!("68"), size!(), order!(".CONSTANT"), " R16", registers!(), "=, ", at!("32"), ", ?!67p64")), UNIFORM),
    with(one(0x980, concat!("LD{72 |.E}{81+3 *}", evict!(), ahead!("68"), size!(), order!(".CONSTANT"), " R16", registers!(), "=, ", "[R24 O32+32]", ", ?!67p64")), &[(90, 2, 0)]),
    on(with(one(0x97e, concat!("LDG{72 *}.E", evict!(), second_level!(), ahead!("73"), "{75 ?|}.256", order!(".CONSTANT"), " R64:4=, R16:4=, [R24 U32 @91 D76 W91 O40+17*32], <57+7&72!255>x57+7&72, ?!90p87")), UNIFORM), BLACKWELL),
    on(one(0x386, concat!("STG{72 |.E}", evict!(), size!(), order!(".STRONG.SM.PRIVATE"), " [R24 O40+24], R32", registers!())), BEFORE),
    on(one(0x386, concat!("STG{72 |.E}", evict!(), size!(), store_order!(), " [R24 O40+24], R32", registers!())), BLACKWELL),
    on(with(one(0x986, concat!("STG{72 ?|.E}{76&90 |?||}", evict!(), size!(), order!(".STRONG.SM.PRIVATE"), " ", at!("64"), ", R32", registers!())), UNIFORM), BEFORE),
    on(with(one(0x986, concat!("STG{72 ?|.E}{76&90 |?||}", evict!(), size!(), store_order!(), " ", at!("64"), ", R32", registers!())), UNIFORM), BLACKWELL),
    on(with(one(0x97f, concat!("STG{72 *}.E", evict!(), second_level!(), "{75 ?|}.256", store_order!(), " [R24 U64 @91 D76 W91 O40+19*32], R32:4, R16:4, <59+5&88+3!255>x59+5&88+3")), UNIFORM), BLACKWELL),
    one(0x385, concat!("ST{72 |.E}", evict!(), size!(), order!(".STRONG.SM.PRIVATE"), " [R24 O32+32], R64", registers!())),
    with(one(0x985, concat!("ST{72 ?|.E}{76&90 |?||}", evict!(), size!(), order!(".STRONG.SM.PRIVATE"), " ", at!("64"), ", R32", registers!())), UNIFORM),
    one(0x984, concat!("LDS", size!(), " R16", registers!(), "=, [R24 U32 @91 X78 O40+24]")),
    one(0x388, concat!("STS", size!(), " [R24 X78 O40+24], R32", registers!())),
    with(one(0x988, concat!("STS", size!(), " [R24 U64 @91 X78 O40+24], R32", registers!())), UNIFORM),
    one(0x983, concat!("LDL", evict!(), size!(), " R16", registers!(), "=, [R24 U32 @91 O40+24]")),
    one(0x387, concat!("STL", evict!(), size!(), " [R24 O40+24], R32", registers!())),
    one(0x987, concat!("STL", evict!(), size!(), " [R24 U64 @91 O40+24], R32", registers!())),
    one(0xb82, concat!("LDC", "{73+3 .U8|.S8|.U16|.S16||.64}", "{78+2 |.IL|.IS|.ISL} R16", registers!(), "=, c24")),
    on(with(one(0x98a, concat!("ATOM{72 ?|.E}{71&70 |?||}", integers!(), evict!(), old_size!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", old_registers!(), "=, ", atomic!(), ", R32", old_registers!())), UNIFORM), OLD),
    on(with(one(0x98a, concat!("ATOM{72 ?|.E}{71&70 |?||}", integers!(), evict!(), integer_size!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", integer_registers!(), "=, ", atomic!(), ", R32", integer_registers!())), UNIFORM), HOPPER),
    on(with(one(0x98a, concat!("ATOM{72 ?|.E}{76&63 |?||}", integers!(), evict!(), integer_size!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", integer_registers!(), "=, ", late_atomic!("76"), ", R32", integer_registers!())), UNIFORM), BLACKWELL),
    on(with(one(0x9a8, concat!("ATOMG{72 ?|.E}{71&70 |?||}", integers!(), evict!(), old_size!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", old_registers!(), "=, ", atomic!(), ", R32", old_registers!())), UNIFORM), OLD),
    on(with(one(0x9a8, concat!("ATOMG{72 ?|.E}{71&70 |?||}", "{87+4 .ADD|.MIN|.MAX|.INC|.DEC|.AND|.OR|.XOR|.EXCH|.SAFEADD}", evict!(), integer_size!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", integer_registers!(), "=, ", atomic!(), ", R32", integer_registers!())), UNIFORM), HOPPER),
    on(with(one(0x9a8, concat!("ATOMG{72 ?|.E}{76&63 |?||}", "{87+4 .ADD|.MIN|.MAX|.INC|.DEC|.AND|.OR|.XOR|.EXCH|.SAFEADD}", evict!(), integer_size!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", integer_registers!(), "=, ", late_atomic!("76"), ", R32", integer_registers!())), UNIFORM), BLACKWELL),
    on(one(0x98e, concat!("RED{72 ?|.E}{70 *}<91>{71&90 |?||}{87+3 .ADD|.MIN|.MAX|.INC|.DEC|.AND|.OR|.XOR}", evict!(), old_size!(), order!(".STRONG.SM.PRIVATE"), " ", reduced!(), ", R32", old_registers!())), OLD),
    on(one(0x98e, concat!("REDG{72 ?|.E}{70 *}<91>{71&90 |?||}{87+3 .ADD|.MIN|.MAX|.INC|.DEC|.AND|.OR|.XOR}", evict!(), "{73+3 |.S32|.64|.S64}", order!(".STRONG.SM.PRIVATE"), " ", reduced!(), ", R32", integer_registers!())), HOPPER),
    on(one(0x98e, concat!("REDG{72 ?|.E}<91>{81&90 |?||}{87+3 .ADD|.MIN|.MAX|.INC|.DEC|.AND|.OR|.XOR}", evict!(), "{73+3 |.S32|.64|.S64}", order!(".STRONG.SM.PRIVATE"), " ", late_reduced!(), ", R32", integer_registers!())), BLACKWELL),
    on(with(one(0x9a2, concat!("ATOM{72 ?|.E}{71&70 |?||}{88+2 .ADD|.MIN|.MAX}{87 |?}", evict!(), floats!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", float_registers!(), "=, ", atomic!(), ", R32", float_registers!())), UNIFORM), HOPPER),
    on(with(one(0x9a2, concat!("ATOM{72 ?|.E}{90&63 |?||}{88+2 .ADD|.MIN|.MAX}{87 |?}", evict!(), floats!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", float_registers!(), "=, ", late_atomic!("90"), ", R32", float_registers!())), UNIFORM), BLACKWELL),
    on(with(one(0x9a3, concat!("ATOMG{72 ?|.E}{71&70 |?||}{88+2 .ADD|.MIN|.MAX}{87 |?}", evict!(), floats!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", float_registers!(), "=, ", atomic!(), ", R32", float_registers!())), UNIFORM), HOPPER),
    on(with(one(0x9a3, concat!("ATOMG{72 ?|.E}{90&63 |?||}{88+2 .ADD|.MIN|.MAX}{87 |?}", evict!(), floats!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", float_registers!(), "=, ", late_atomic!("90"), ", R32", float_registers!())), UNIFORM), BLACKWELL),
    on(one(0x9a6, concat!("REDG{72 ?|.E}{70 *}<91>{71&90 |?||}{88+2 .ADD|.MIN|.MAX}{87 |?}", evict!(), floats!(), order!(".STRONG.SM.PRIVATE"), " ", reduced!(), ", R32", float_registers!())), HOPPER),
    on(one(0x9a6, concat!("REDG{72 ?|.E}<91>{81&90 |?||}{88+2 .ADD|.MIN|.MAX}{87 |?}", evict!(), floats!(), order!(".STRONG.SM.PRIVATE"), " ", late_reduced!(), ", R32", float_registers!())), BLACKWELL),
    on(one(0x38a, concat!("ATOM{72 |.E}", integers!(), evict!(), old_size!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", old_registers!(), "=, [R24 O40+24], R32", old_registers!())), OLD),
    on(one(0x38a, concat!("ATOM{72 |.E}", integers!(), evict!(), integer_size!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", integer_registers!(), "=, [R24 O40+24], R32", integer_registers!())), NEW),
    on(one(0x3a8, concat!("ATOMG{72 |.E}", integers!(), evict!(), old_size!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", old_registers!(), "=, [R24 O40+24], R32", old_registers!())), OLD),
    on(one(0x3a8, concat!("ATOMG{72 |.E}", integers!(), evict!(), integer_size!(), order!(".STRONG.SM.PRIVATE"), " P81=, R16", integer_registers!(), "=, [R24 O40+24], R32", integer_registers!())), NEW),
    on(one(0x38b, concat!("ATOM{72 |.E}{87+2 .CAS|.CAST|.CAS|.CAST.SPIN}", evict!(), "{73+3 |.S32|.64}", order!(".STRONG.SM.PRIVATE"), " P81=, R16", integer_registers!(), "=, [R24 O40+24], R32", integer_registers!(), ", R64", integer_registers!())), OLD),
    on(one(0x38b, concat!("ATOM{72 |.E}{87+2 .CAS|.CAST|.CAS|.CAST.SPIN}", evict!(), "{73+3 |.S32|.64|?|.128}", order!(".STRONG.SM.PRIVATE"), " P81=, R16", integer_registers!(), "=, [R24 O40+24], R32", integer_registers!(), ", R64", integer_registers!())), NEW),
    on(one(0x3a9, concat!("ATOMG{72 |.E}.CAS{87+2 *}", evict!(), "{73+3 |.S32|.64}", order!(".STRONG.SM.PRIVATE"), " P81=, R16", integer_registers!(), "=, [R24 O40+24], R32", integer_registers!(), ", R64", integer_registers!())), OLD),
    on(one(0x3a9, concat!("ATOMG{72 |.E}.CAS{87+2 *}", evict!(), "{73+3 |.S32|.64|?|.128}", order!(".STRONG.SM.PRIVATE"), " P81=, R16", integer_registers!(), "=, [R24 O40+24], R32", integer_registers!(), ", R64", integer_registers!())), NEW),
    on(with(one(0xf8c, "ATOMS.POPC.INC.32 R16=, [R24 U64 @91 X78 O40+24]"), &[(87, 4, 10), (91, 1, 1)]), OLD),
    on(with(one(0xf8c, "ATOMS.ARRIVE{73+3 ?|?|.64} R16:2=, [R24 U64 @91 X78 O40+24]"), &[(87, 4, 9), (91, 1, 1)]), OLD),
    on(with(one(0xf8c, "ATOMS.POPC.INC.32 R16=, [R24 U64 @91 X78 O40+24]"), &[(87, 4, 11), (91, 1, 1)]), NEW),
    on(one(0x38c, concat!("ATOMS", integers!(), "{73+3 |.S32|.64}", " R16", integer_registers!(), "=, [R24 X78 O40+24], R32", integer_registers!())), OLD),
    on(one(0x38c, concat!("ATOMS", integers!(), "{73+3 |.S32|.64|?|.128}", " R16", integer_registers!(), "=, [R24 X78 O40+24], R32", integer_registers!())), NEW),
    on(with(one(0x98c, concat!("ATOMS", integers!(), "{73+3 |.S32|.64}", " R16", integer_registers!(), "=, [R24 U64 @91 X78 O40+24], R32", integer_registers!())), UNIFORM), OLD),
    on(with(one(0x98c, concat!("ATOMS", integers!(), "{73+3 |.S32|.64|?|.128}", " R16", integer_registers!(), "=, [R24 U64 @91 X78 O40+24], R32", integer_registers!())), UNIFORM), NEW),
    on(one(0x38d, concat!("ATOMS{87+2 .CAS|.CAST|.CAS|.CAST.SPIN}", "{73+3 |.S32|.64}", " R16", integer_registers!(), "=, [R24 X78 O40+24], R32", integer_registers!(), ", R64", integer_registers!())), OLD),
    on(one(0x38d, concat!("ATOMS{87+2 .CAS|.CAST|.CAS|.CAST.SPIN}", "{73+3 |.S32|.64|?|.128}", " R16", integer_registers!(), "=, [R24 X78 O40+24], R32", integer_registers!(), ", R64", integer_registers!())), NEW),
    on(one(0x58d, concat!("ATOMS{87+2 ?|.CAST|?|.CAST.SPIN}", "{73+3 |.S32|.64|?|.128}", " P81=, [R24 X78 O40+24], R32", integer_registers!(), ", R64", integer_registers!())), BLACKWELL),
    on(with(one(0x540, "CCTL.E.C.LDCU{87+4 ?|?|?|.IV}{86 |.DEEP} [U24 O32+32]"), &[(91, 1, 1), (78, 3, 2)]), BLACKWELL),
    one(0x98f, concat!(
        "CCTL<87+4!4><87+4!6><87+4!7><87+4!8>{72 |.E}{78+3 |.U|.C|.I}{87+4 .PF1|.PF2|.WB|.IV|.IVALL|.RS|.IVALLP|.WBALL|.WBALLP|.PML2|.DML2|.RML2} ",
        "<87+4!4><87+4!6><87+4!7><87+4!8>[R24 O32+32]"
    )),
    one(0x9af, "LDGDEPBAR"),
    on(with(one(0xfae, concat!(
        "LDGSTS.E{81 .BYPASS|}", evict!(), "{71+2 |.LTC64B|.LTC128B|.LTC256B}{73+3 ?|?|?|?||.64|.128}{82 |.ZFILL}",
        shared_order!(), "{76&70 |?||} [R16 O44+20], [R24 U64 @91 D76 W70 O32+12], ?!90P87"
    )), UNIFORM), BEFORE),
    on(with(one(0xfae, concat!(
        "LDGSTS.E{83 ?|}{81 .BYPASS|}", evict!(), "{72+2 |.LTC64B|.LTC128B|.LTC256B}{74+2 |.64|.128}{82 |.ZFILL}",
        shared_order!(), " [R16 O44+20], [R24 U64 @91 D76 W83 O32+12], ?!90P87"
    )), UNIFORM), BLACKWELL),
    on(with(one(0xdae, concat!(
        "LDGSTS.E{70 ?|}{81 .BYPASS|}", evict!(), "{71+2 |.LTC64B|.LTC128B|.LTC256B}{73+3 ?|?|?|?||.64|.128}{82 |.ZFILL}",
        shared_order!(), " [R16 U64 O44+20], [R24 E64 D76 W70 O32+12], ?!90P87"
    )), UNIFORM), BEFORE),
    on(with(one(0xdae, concat!(
        "LDGSTS.E{83 ?|}{81 .BYPASS|}", evict!(), "{72+2 |.LTC64B|.LTC128B|.LTC256B}{74+2 |.64|.128}{82 |.ZFILL}",
        shared_order!(), " [R16 U64 O44+20], [R24 E64 D76 W83 O32+12], ?!90P87"
    )), UNIFORM), BLACKWELL),
    on(one(0x83b, "LDSM.16{75+3 |?}{78+2 .M88|.MT88|.M816|.M832}{72+2 |.2|.4} R16:{72+2 1|2|4}=, [R24 U32 @91 O40+24]"), BEFORE),
    on(one(0x83b, "LDSM{75+3 .16|?|?|?|?|.U4x16P64TO8|.U6x16P32TO8|.8}{78+3 .M88|.MT88|.M816|.M832|.MT1616}{72+2 |.2|.4} <78+3!4>R16:{72+2 1|2|4}=, <78+3=4>R16:{72+2 2|4}=, [R24 U32 @91 O40+24]"), BLACKWELL),
    one(0x844, "STSM.16{75 |?}{78 .M88|.MT88}{72+2 |.2|.4} [R24 U64 @91 O40+24], R32:{72+2 1|2|4}"),
    on(one(0x23a, "MOVM.16{75+3 |?}{78+2 .MT88|.M832|.M864} R16=, R24"), BEFORE),
    on(one(0x23a, "MOVM{75+3 .16|.U4TO8}{78+2 .MT88|.M832|.M864} R16=, R24"), BLACKWELL),
    on(one(0x3aa, "QSPC{72 |.E}{73+2 .G|.L|.S} P81=, R16=, [R24 O40+24]"), OLD),
    on(one(0x3aa, "QSPC{72 |.E}{73+2 .G|.L|.S|.D} P81=, R16=, [R24 O40+24]"), NEW),
    on(with(one(0x9aa, "QSPC{72 ?|.E}{73+2 .G|.L|.S} P81=, R16=, [R24 U32 W90 O40+24]"), UNIFORM), OLD),
    on(with(one(0x9aa, "QSPC{72 ?|.E}{73+2 .G|.L|.S|.D} P81=, R16=, [R24 U32 W90 O40+24]"), UNIFORM), NEW),
    // Memory of several GPUs at one address.
    on(with(one(0x9a4, concat!("LDGMC{72 ?|.E}{71&70 |?||}{87+4 .ADD|.MIN|.MAX|?|?|.AND|.OR|.XOR}", words!(), everywhere!(), " R16", word_registers!(), "=, [R24 U64 D71 W70 O40+24]")), UNIFORM), HOPPER),
    on(with(one(0x9a4, concat!("LDGMC{72 ?|.E}{82&81 |?||}{87+4 .ADD|.MIN|.MAX|?|?|.AND|.OR|.XOR}", words!(), everywhere!(), " R16", word_registers!(), "=, [R24 U64 D82 W81 O40+24]")), UNIFORM), BLACKWELL),
    on(with(one(0x9a5, concat!("LDGMC{72 ?|.E}{71&70 |?||}{88+2 .ADD|.MIN|.MAX|.F32ADD}{87 |?}", reduced_floats!(), everywhere!(), " R16", float_registers!(), "=, [R24 U64 D71 W70 O40+24]")), UNIFORM), HOPPER),
    on(with(one(0x9a5, concat!("LDGMC{72 ?|.E}{82&81 |?||}{88+2 .ADD|.MIN|.MAX|.F32ADD}{87 |?}", reduced_floats!(), everywhere!(), " R16", float_registers!(), "=, [R24 U64 D82 W81 O40+24]")), UNIFORM), BLACKWELL),
    // Into the shared memory of another block, whose barrier is told; the base is a pair of addresses.
    on(with(one(0xdbd, "STAS{73+3 ?|?|?|?||.64|.128}{77+4 } [R24 V64 W90 O40+24], R32:{73+3 1|1|1|1|1|2|4}"), UNIFORM), NEW),
    on(with(one(0xdbe, "REDAS{87+4 .ADD|.MIN|.MAX|.INC|.DEC|.AND|.OR|.XOR}{73+3 |.S32|.64}{77+4 } [R24 V64 W72 O40+24], R32:{73+3 1|1|2}"), UNIFORM), NEW),
];
