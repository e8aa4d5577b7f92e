//! What AVX-512 does in one instruction and LLVM does not select by itself, for whole registers:
//! extrema with ordered zeros (`vrangeps`), and powers and logarithms of `f32`. For these a register
//! is a table of 16 values (`vpermps`), near which a polynomial of degree 3 or 5 is enough; scaling by
//! a power of two (`vscalefps`) and taking a number apart (`vgetexpps`, `vgetmantps`) include zeros,
//! infinities and subnormal numbers. That is half the work of the general forms in
//! [`crate::lower::decomp`].
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VRANGEPS, VPERMPS,
//! VSCALEFPS, VREDUCEPS, VGETEXPPS, VGETMANTPS and VFIXUPIMMPS.

mod exponential;
mod logarithm;

use super::Text;
use crate::dtype::DType;
use crate::ir::Unary;
use crate::lower::decomp::{Caps, TypeSet};
use crate::lower::program::Ty;
use crate::target::Target;

pub(super) fn has(t: &Target, names: &[&str]) -> bool {
    names.iter().all(|name| {
        t.features
            .split(',')
            .any(|f| f.strip_prefix('+') == Some(name))
    })
}

/// Whether there are such registers.
pub(super) fn native(t: &Target) -> bool {
    has(t, &["avx512f", "avx512dq", "avx512vl"])
}

/// The capabilities of `base` with those functions on `f32`.
pub(super) fn caps(base: Caps) -> Caps {
    debug_assert!(!FUNCTIONS.iter().any(|&f| base.has_unary(f, DType::F64)));
    base.with_unary(FUNCTIONS, TypeSet::of(&[DType::F32]))
}

/// The functions that are made of whole registers.
const FUNCTIONS: &[Unary] = &[
    Unary::Exp2,
    Unary::Exp,
    Unary::Log,
    Unary::Log2,
    Unary::Log10,
    Unary::Log1p,
];

/// One register.
const LANES: u32 = 16;
const SINGLES: &str = "<16 x float>";
const INTS: &str = "<16 x i32>";
/// No lane is masked, and the rounding is the current one.
const ALL: [(&str, &str); 3] = [(SINGLES, "zeroinitializer"), ("i16", "-1"), ("i32", "4")];

/// A number in every lane.
fn each(x: f32) -> String {
    let bits = crate::ir::scalar::from_f64(DType::F32, f64::from(x));
    format!("splat (float {})", super::literal(DType::F32, bits))
}

/// A number for each lane.
fn table(of: impl Fn(usize) -> f64) -> String {
    let entry = |i| {
        let bits = crate::ir::scalar::from_f64(DType::F32, of(i));
        format!("float {}", super::literal(DType::F32, bits))
    };
    let entries: Vec<String> = (0..LANES as usize).map(entry).collect();
    format!("<{}>", entries.join(", "))
}

impl Text<'_> {
    /// A function of `f32`, if it is one of [`FUNCTIONS`].
    pub(super) fn of_registers(&mut self, ty: Ty, op: Unary, a: &str) -> Option<String> {
        let of: fn(&mut Self, &str) -> String = match op {
            Unary::Exp2 => Self::exp2,
            Unary::Exp => Self::exp,
            Unary::Log => Self::log,
            Unary::Log2 => Self::log2,
            Unary::Log10 => Self::log10,
            Unary::Log1p => Self::log1p,
            _ => return None,
        };
        (ty.dtype == DType::F32 && native(self.t)).then(|| self.whole(ty.lanes, a, of))
    }

    /// Applies a function of one register to any number of lanes.
    fn whole(&mut self, lanes: u32, a: &str, of: fn(&mut Self, &str) -> String) -> String {
        let t = super::vector("float", lanes);
        if lanes == LANES {
            return of(self, a);
        }
        if lanes == 1 {
            let wide = format!("insertelement {SINGLES} poison, float {a}, i64 0");
            let wide = self.let_(wide);
            let y = of(self, &wide);
            return self.let_(format!("extractelement {SINGLES} {y}, i64 0"));
        }
        if lanes < LANES {
            let wide = self.shuffled(&t, [a, "poison"], 0..LANES.min(2 * lanes), LANES);
            let y = of(self, &wide);
            return self.shuffled(SINGLES, [&y, "poison"], 0..lanes, lanes);
        }
        let half = lanes / 2;
        debug_assert!(lanes == 2 * half, "lanes come in powers of two");
        let parts = [0..half, half..lanes].map(|from| {
            let part = self.shuffled(&t, [a, "poison"], from, half);
            self.whole(half, &part, of)
        });
        let t = super::vector("float", half);
        self.shuffled(&t, [&parts[0], &parts[1]], 0..lanes, lanes)
    }

    /// Lanes of two vectors, and others that do not matter up to `count`.
    fn shuffled(
        &mut self,
        t: &str,
        [a, b]: [&str; 2],
        from: std::ops::Range<u32>,
        count: u32,
    ) -> String {
        let mut indices: Vec<String> = from.map(|i| format!("i32 {i}")).collect();
        indices.resize(count as usize, "i32 poison".to_string());
        let indices = indices.join(", ");
        self.let_(format!(
            "shufflevector {t} {a}, {t} {b}, <{count} x i32> <{indices}>"
        ))
    }

    fn fused(&mut self, a: &str, b: &str, c: &str) -> String {
        let args = [(SINGLES, a), (SINGLES, b), (SINGLES, c)];
        self.intrinsic("fma", "float", LANES, &args)
    }

    /// `c[0] + x (c[1] + x (c[2] + ...))`.
    fn horner(&mut self, x: &str, c: &[f32]) -> String {
        let Some((last, rest)) = c.split_last() else {
            return each(0.0);
        };
        rest.iter()
            .rev()
            .fold(each(*last), |sum, &c| self.fused(&sum, x, &each(c)))
    }

    /// The entry of a table for the low four bits of each lane.
    fn entry(&mut self, table: &str, index: &str) -> String {
        let name = "llvm.x86.avx512.permvar.sf.512";
        self.call(name, SINGLES, &[(SINGLES, table), (INTS, index)])
    }

    /// `y` times 2 to the power n, rounded down.
    fn scale(&mut self, y: &str, n: &str) -> String {
        let name = "llvm.x86.avx512.mask.scalef.ps.512";
        let operands = [(SINGLES, y), (SINGLES, n)];
        self.call(name, SINGLES, &[&operands[..], &ALL].concat())
    }

    /// The larger (or smaller) of two floats with the law's treatment of zeros and NaN, if one
    /// register holds the lanes.
    pub(super) fn extremum(&mut self, ty: Ty, max: bool, a: &str, b: &str) -> Option<String> {
        let (name, mask) = match (ty.dtype, ty.lanes) {
            (DType::F32, 16) => ("llvm.x86.avx512.mask.range.ps.512", "i16"),
            (DType::F64, 8) => ("llvm.x86.avx512.mask.range.pd.512", "i8"),
            _ => return None,
        };
        if !has(self.t, &["avx512f", "avx512dq"]) {
            return None;
        }
        let t = super::spelled(ty);
        // Bits 1:0 choose the smaller (0) or the larger (1), bits 3:2 = 1 keep its sign.
        let select = if max { "5" } else { "4" };
        let args = [
            (t.as_str(), a),
            (&t, b),
            ("i32", select),
            (&t, "zeroinitializer"),
            (mask, "-1"),
            ("i32", "4"),
        ];
        let ordered = self.call(name, &t, &args);
        // The instruction prefers the number to NaN; the law wants NaN, which the sum is then.
        let unordered = self.two("fcmp uno", &t, a, b);
        let nan = self.two("fadd", &t, a, b);
        Some(self.pick(ty, &unordered, &nan, &ordered))
    }
}
