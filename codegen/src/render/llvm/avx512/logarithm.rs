//! Logarithms: of `x = 2^k m` with m in 1..2 the logarithm is that of 2 k times, that of 1/r for a short r
//! near 1/m, which comes from a table, and `ln(1 + t)` for `t = m r - 1`, which is exact. The first two are
//! kept in two parts, of which the first ones have few digits and add up exactly.
//!
//! For m near 2, r is 1/2: there k is -1 where x is near 1, and the parts cancel.

use super::{ALL, INTS, SINGLES, each, table};
use crate::render::llvm::Text;

/// (ln(1 + t) - t) / t^2 for -1/32 <= t <= 1/16, error of the logarithm 2^-28.3.
const NEAR: [f32; 4] = [-0.5, 0.333_344_3, -0.250_072_75, 0.188_653_07];

/// 128 r for the sixteenths of 1..2.
const INVERSES: [u8; 16] = [
    128, 117, 111, 105, 100, 95, 91, 87, 84, 80, 77, 74, 72, 69, 67, 64,
];

fn inverse(i: usize) -> f64 {
    f64::from(INVERSES[i]) / 128.0
}

/// A number as one with 16 digits after the point, not above it, and the rest.
fn parts(x: f64) -> [f64; 2] {
    let high = (x * 65536.0).floor() / 65536.0;
    [high, x - high]
}

/// A number taken apart.
struct Apart {
    k: String,
    /// Which sixteenth.
    index: String,
    r: String,
    t: String,
    /// (ln(1 + t) - t) / t^2, and t^2.
    q: String,
    square: String,
}

impl Text<'_> {
    /// ln a, within 1 unit in the last place.
    pub(super) fn log(&mut self, a: &str) -> String {
        let of = self.taken_apart(a);
        let [high, low] = self.whole_log(&of, f64::ln);
        let rest = self.fused(&of.square, &of.q, &low);
        let rest = self.two("fadd", SINGLES, &of.t, &rest);
        self.two("fadd", SINGLES, &high, &rest)
    }

    /// log2 a, within 2 units in the last place.
    pub(super) fn log2(&mut self, a: &str) -> String {
        self.log_of_base(a, f64::log2)
    }

    /// log10 a, within 2 units in the last place.
    pub(super) fn log10(&mut self, a: &str) -> String {
        self.log_of_base(a, f64::log10)
    }

    fn log_of_base(&mut self, a: &str, log: fn(f64) -> f64) -> String {
        let of = self.taken_apart(a);
        let [high, low] = self.whole_log(&of, log);
        let ln = self.fused(&of.square, &of.q, &of.t);
        let rest = self.fused(&ln, &each(log(std::f64::consts::E) as f32), &low);
        self.two("fadd", SINGLES, &high, &rest)
    }

    /// ln(1 + a), within 2 units in the last place.
    pub(super) fn log1p(&mut self, a: &str) -> String {
        let one = each(1.0);
        let sum = self.two("fadd", SINGLES, a, &one);
        // What the sum is rounded by: the larger of both goes away first.
        let above = self.two("fcmp ogt", SINGLES, a, &one);
        let pick = |this: &mut Self, x: &str, y: &str| {
            this.let_(format!(
                "select <16 x i1> {above}, {SINGLES} {x}, {SINGLES} {y}"
            ))
        };
        let (large, small) = (pick(self, a, &one), pick(self, &one, a));
        let used = self.two("fsub", SINGLES, &sum, &large);
        let lost = self.two("fsub", SINGLES, &small, &used);
        let of = self.taken_apart(&sum);
        let [high, low] = self.whole_log(&of, f64::ln);
        let rest = self.fused(&of.square, &of.q, &low);
        let down = self.let_(format!("fneg {SINGLES} {}", of.k));
        let lost = self.scale(&lost, &down);
        // It counts r / (1 + t), nearly r (1 - t).
        let minus = self.let_(format!("fneg {SINGLES} {}", of.t));
        let slope = self.fused(&minus, &of.r, &of.r);
        let rest = self.fused(&lost, &slope, &rest);
        let rest = self.two("fadd", SINGLES, &of.t, &rest);
        let y = self.two("fadd", SINGLES, &high, &rest);
        // What was lost is no number at the ends: there, -infinity for zero (4), infinity for itself (5).
        let ends = "splat (i32 5243904)";
        let name = "llvm.x86.avx512.mask.fixupimm.ps.512";
        let operands = [
            (SINGLES, y.as_str()),
            (SINGLES, &sum),
            (INTS, ends),
            ("i32", "0"),
        ];
        let y = self.call(name, SINGLES, &[&operands[..], &ALL[1..]].concat());
        // The result has the sign of a, and that of zero, too.
        let [y, sign] =
            [y.as_str(), a].map(|x| self.let_(format!("bitcast {SINGLES} {x} to {INTS}")));
        let sign = self.two("and", INTS, &sign, "splat (i32 -2147483648)");
        let y = self.two("or", INTS, &y, &sign);
        self.let_(format!("bitcast {INTS} {y} to {SINGLES}"))
    }

    fn taken_apart(&mut self, a: &str) -> Apart {
        let name = "llvm.x86.avx512.mask.getexp.ps.512";
        let k = self.call(name, SINGLES, &[&[(SINGLES, a)], &ALL[..]].concat());
        // In 1..2, not a number for those below zero, 1 for both zeros.
        let operands = [(SINGLES, a), ("i32", "12")];
        let name = "llvm.x86.avx512.mask.getmant.ps.512";
        let m = self.call(name, SINGLES, &[&operands[..], &ALL].concat());
        let raw = self.let_(format!("bitcast {SINGLES} {m} to {INTS}"));
        let index = self.two("lshr", INTS, &raw, "splat (i32 19)");
        let r = self.entry(&table(inverse), &index);
        let t = self.fused(&m, &r, &each(-1.0));
        let q = self.horner(&t, &NEAR);
        let square = self.two("fmul", SINGLES, &t, &t);
        Apart {
            k,
            index,
            r,
            t,
            q,
            square,
        }
    }

    /// The logarithm of 2^k / r, in two parts.
    fn whole_log(&mut self, of: &Apart, log: fn(f64) -> f64) -> [String; 2] {
        let two = parts(log(2.0));
        [0, 1].map(|part| {
            let entries = table(|i| parts(-log(inverse(i)))[part]);
            let entry = self.entry(&entries, &of.index);
            match two[part] {
                // Infinities times zero are no numbers.
                0.0 => entry,
                1.0 => self.two("fadd", SINGLES, &of.k, &entry),
                two => self.fused(&of.k, &each(two as f32), &entry),
            }
        })
    }
}
