//! Powers. That of e is `2^n t (1 + q)`, where n is a multiple of 1/16, t the nearest number to 2 to the
//! power of its fraction, and 1 + q the rest, with what t is rounded by.

use super::{ALL, INTS, SINGLES, each, table};
use crate::lower::decomp::EXP2_F32;
use crate::render::llvm::Text;

/// (2^f - 1) / f for |f| <= 1/32, error of 2^f 2^-29.2.
const NEAR: [f32; 3] = [std::f32::consts::LN_2, 0.240_234_32, 0.055_502_35];

/// Adding 1.5 * 2^19 rounds to a multiple of 1/16, and leaves 16 times it in the low bits.
const MAGIC: f32 = 786_432.0;

/// 1/ln 2 in two parts.
const LOG2_E: [f32; 2] = [std::f32::consts::LOG2_E, 1.925_963e-8];

fn root(i: usize) -> f64 {
    (i as f64 / 16.0).exp2()
}

impl Text<'_> {
    /// 2^a, within 1 unit in the last place. What rounding leaves (`vreduceps`) is 0 for infinities, so
    /// that nothing has to be limited; that is cheaper than a table.
    pub(super) fn exp2(&mut self, a: &str) -> String {
        let name = "llvm.x86.avx512.mask.reduce.ps.512";
        let operand = [(SINGLES, a), ("i32", "8")];
        let f = self.call(name, SINGLES, &[&operand[..], &ALL].concat());
        let n = self.two("fsub", SINGLES, a, &f);
        let p = self.horner(&f, &EXP2_F32.map(|c| c as f32));
        self.scale(&p, &n)
    }

    /// e^a, within 1 unit in the last place.
    pub(super) fn exp(&mut self, a: &str) -> String {
        let scale = LOG2_E.map(each);
        let shifted = self.fused(a, &scale[0], &each(MAGIC));
        let n = self.two("fsub", SINGLES, &shifted, &each(MAGIC));
        let minus = self.let_(format!("fneg {SINGLES} {n}"));
        let f = self.fused(a, &scale[0], &minus);
        let f = self.fused(a, &scale[1], &f);
        // Of large numbers and those that are none, f is anything: without its highest bit of the exponent
        // it is below 2, where the polynomial is positive, and n decides.
        let raw = self.let_(format!("bitcast {SINGLES} {f} to {INTS}"));
        let raw = self.two("and", INTS, &raw, "splat (i32 -1073741825)");
        let f = self.let_(format!("bitcast {INTS} {raw} to {SINGLES}"));
        let index = self.let_(format!("bitcast {SINGLES} {shifted} to {INTS}"));
        let t = self.entry(&table(root), &index);
        let rest = table(|i| {
            let rounded = f64::from(root(i) as f32);
            (root(i) - rounded) / rounded
        });
        let rest = self.entry(&rest, &index);
        let q = self.horner(&f, &NEAR);
        let q = self.fused(&q, &f, &rest);
        let y = self.fused(&t, &q, &t);
        self.scale(&y, &n)
    }
}
