//! Pairs of halves, and of bfloat16.

use super::float::compare;
use super::{BEFORE, BOTH, LAST, NEW, OLD, Row, SECOND, alu, on};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    on(alu(0x030, LAST, "HADD2{85&78 |.BF16_V2|.F32}{80 |.FTZ}{77 |.SAT} R16=, <78=0>A-|%, <78>A-%, <85=0>Bh-|%, <85>Bb-|%"), NEW),
    on(alu(0x030, LAST, "HADD2{85 *}{78 |.F32}{80 |.FTZ}{77 |.SAT} R16=, <78=0>A-|%, <78>A-%, Bh-|%"), OLD),
    on(alu(0x032, SECOND, "HMUL2{85 |.BF16_V2}{76&80 |.FMZ|.FTZ}{77 |.SAT} R16=, A-|%, <85=0>Bh-|%, <85>Bb-|%"), NEW),
    on(alu(0x032, SECOND, "HMUL2{85 *}{76&80 |.FMZ|.FTZ}{77 |.SAT} R16=, A-|%, Bh-|%"), OLD),
    on(alu(0x031, BOTH, concat!("HFMA2{85 |.BF16_V2}{76&80 |.FMZ|.FTZ|.OOB}{79&77 |.RELU|.SAT} R16=, A-|%, ", "<85=0>Bh-|%s, <85>Bb-|%s, <85=0>Ch-|%, <85>Cb-|%, <79>?!90P87")), NEW),
    on(alu(0x031, BOTH, concat!("HFMA2{85 |.BF16_V2}{76&80 |.FMZ|.FTZ}{79&77 |.RELU|.SAT} R16=, A-|%, ", "<85=0>Bh-|%s, <85>Bb-|%s, <85=0>Ch-|%, <85>Cb-|%, <79>?!90P87")), OLD),
    on(alu(0x035, BOTH, concat!("HFMA2.MMA{85 |.BF16_V2}{76&80 |.FMZ|.FTZ}{79&77 |.RELU|.SAT} R16=, A-|#, ", "<85=0>Bh-|#, <85>Bb-|#, <85=0>Ch-|#, <85>Cb-|#, <79>?!90P87")), BEFORE),
    on(alu(0x033, LAST, concat!("HSET2{64+2 |?|.BF16_V2}{71 |.BF}", compare!(".F", ".T"), "{80 |.FTZ}{69+2 .AND|.OR|.XOR} ", "R16=, A-|%, <65=0>Bh-|%, <65>Bb-|%, !90P87")), NEW),
    on(alu(0x033, LAST, concat!("HSET2{64+2 *}{71 |.BF}", compare!(".F", ".T"), "{80 |.FTZ}{69+2 .AND|.OR|.XOR} ", "R16=, A-|%, Bh-|%, !90P87")), OLD),
    on(alu(0x034, LAST, concat!("HSETP2{64+2 |?|.BF16_V2}", compare!(".F", ".T"), "{71 |.H_AND}{80 |.FTZ}{69+2 .AND|.OR|.XOR} ", "P81=, P84=, A-|%, <65=0>Bh-|%, <65>Bb-|%, !90P87")), NEW),
    on(alu(0x034, LAST, concat!("HSETP2{64+2 *}", compare!(".F", ".T"), "{71 |.H_AND}{80 |.FTZ}{69+2 .AND|.OR|.XOR} ", "P81=, P84=, A-|%, Bh-|%, !90P87")), OLD),
    alu(0x040, SECOND, concat!("HMNMX2{85 |.BF16_V2}{80 |.FTZ}{81 |.NAN}{82 |.XORSIGN} R16=, A-|%, ", "<85=0>Bh-|%, <85>Bb-|%, !90P87")),
];
