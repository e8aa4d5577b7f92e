//! Singles.

use super::{BOTH, LAST, NEW, OLD, Row, SECOND, alu, on};

/// How a comparison of floating-point numbers is called.
macro_rules! compare {
    ($first:literal, $last:literal) => {
        concat!(
            "{76+4 ",
            $first,
            "|.LT|.EQ|.LE|.GT|.NE|.GE|.NUM|.NAN|.LTU|.EQU|.LEU|.GTU|.NEU|.GEU|",
            $last,
            "}"
        )
    };
}
pub(super) use compare;

/// How a result is rounded.
macro_rules! round {
    () => {
        "{78+2 |.RM|.RP|.RZ}"
    };
}
pub(super) use round;

/// What the unit for special functions computes.
macro_rules! function {
    () => {
        "{74+4 .COS|.SIN|.EX2|.LG2|.RCP|.RSQ|.RCP64H|.RSQ64H|.SQRT|.TANH}"
    };
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    alu(0x021, LAST, concat!("FADD{80 |.FTZ}", round!(), "{77 |.SAT} R16=, A-|, Bf-|")),
    alu(0x020, SECOND, concat!("FMUL{76&80 |.FMZ|.FTZ|?}{84+3 ?|.D8|.D4|.D2||.M2|.M4|.M8}", round!(), "{77 |.SAT} R16=, A-|, Bf-|")),
    alu(0x023, BOTH, concat!("FFMA{76&80 |.FMZ|.FTZ|?}", round!(), "{77 |.SAT} R16=, A-|, Bf-|, Cf-|")),
    alu(0x00b, SECOND, concat!("FSETP", compare!(".F", ".T"), "{80 |.FTZ}{74+2 .AND|.OR|.XOR} P81=, P84=, A-|, Bf-|, !90P87")),
    alu(0x00a, SECOND, concat!("FSET.BF", compare!(".F", ".T"), "{80 |.FTZ}{74+2 .AND|.OR|.XOR} R16=, A-|, Bf-|, !90P87")),
    alu(0x008, SECOND, "FSEL{80 |.FTZ} R16=, A-|, Bf-|, !90P87"),
    alu(0x009, SECOND, "FMNMX{80 |.FTZ}{81 |.NAN}{82 |.XORSIGN} R16=, A-|, Bf-|, !90P87"),
    alu(0x102, SECOND, "FCHK P81=, A-|, Bf-|"),
    on(alu(0x108, &[1, 5, 6], concat!(
        "MUFU", function!(), "<74+4!6><74+4!7>{72+2 |.F16|.BF16}<74+4=6>{72+2 |?}<74+4=7>{72+2 |?} ",
        "R16=, <72+2=0>B-|, <72+2!0>B-|{60 |.H1}"
    )), NEW),
    on(alu(0x108, &[1, 5, 6], concat!(
        "MUFU", function!(), "<74+4!6><74+4!7>{72+2 |?|.F16}<74+4=6>{72+2 |?}<74+4=7>{72+2 |?} ",
        "R16=, <72+2=0>B-|, <72+2!0>B-|{60 |.H1}"
    )), OLD),
    alu(0x108, &[4], concat!("MUFU", function!(), "{72+2 |?} R16=, <74+4!6><74+4!7>Bf, <74+4=6>Bd, <74+4=7>Bd")),
];
