//! What AVX-512 does in one instruction and LLVM does not select by itself, for whole registers:
//! scaling by a power of two (`vscalefps`) what rounding leaves (`vreduceps`), which halves 2^x
//! against the general form in [`crate::lower::decomp`] with the same polynomial, and extrema with
//! ordered zeros (`vrangeps`).
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, VSCALEFPS,
//! VREDUCEPS and VRANGEPS.

use super::Text;
use crate::DType;
use crate::ir::Unary;
use crate::lower::decomp::{Caps, EXP_F32, EXP2_F32, LN_2_F32, TypeSet};
use crate::lower::program::Ty;
use crate::target::Target;

pub(super) fn has(t: &Target, names: &[&str]) -> bool {
    names.iter().all(|name| {
        t.features
            .split(',')
            .any(|f| f.strip_prefix('+') == Some(name))
    })
}

/// Whether `llvm.ldexp` on vectors is an instruction; elsewhere it is a call per lane.
pub(super) fn native(t: &Target) -> bool {
    has(t, &["avx512f", "avx512vl"])
}

/// The capabilities of `base` with `Exp2` and `Exp` on `f32`.
pub(super) fn caps(base: Caps) -> Caps {
    debug_assert!(!base.has_unary(Unary::Exp2, DType::F64));
    base.with_unary(&[Unary::Exp2, Unary::Exp], TypeSet::of(&[DType::F32]))
}

/// Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
const MAGIC: f32 = 12_582_912.0;

impl Text<'_> {
    /// 2^a, within 1 unit in the last place.
    pub(super) fn exp2(&mut self, ty: Ty, a: &str) -> String {
        let t = super::spelled(ty);
        if ty.lanes == 16 && has(self.t, &["avx512dq"]) {
            // What is left of the operand after rounding to even, 0 for infinities; the scaling
            // does what is right for them, and NaN passes through all of it.
            let all = [(t.as_str(), "zeroinitializer"), ("i16", "-1"), ("i32", "4")];
            let operand = [(t.as_str(), a), ("i32", "8")];
            let name = "llvm.x86.avx512.mask.reduce.ps.512";
            let f = self.call(name, &t, &[&operand[..], &all].concat());
            let n = self.two("fsub", &t, a, &f);
            let p = self.exp2_polynomial(ty, &f);
            let operands = [(t.as_str(), p.as_str()), (&t, &n)];
            let name = "llvm.x86.avx512.mask.scalef.ps.512";
            return self.call(name, &t, &[&operands[..], &all].concat());
        }
        let float = |this: &Self, x: f32| this.constant(ty, u64::from(x.to_bits()));
        let mask = super::vector("i1", ty.lanes);
        // Beyond these the result is 0 or infinity anyway; the comparisons let NaN pass.
        let (least, most) = (float(self, -160.0), float(self, 130.0));
        let under = self.two("fcmp olt", &t, a, &least);
        let x = self.let_(format!("select {mask} {under}, {t} {least}, {t} {a}"));
        let over = self.two("fcmp olt", &t, &most, &x);
        let x = self.let_(format!("select {mask} {over}, {t} {most}, {t} {x}"));
        let magic = float(self, MAGIC);
        let shifted = self.two("fadd", &t, &x, &magic);
        let n = self.two("fsub", &t, &shifted, &magic);
        let f = self.two("fsub", &t, &x, &n);
        let p = self.exp2_polynomial(ty, &f);
        let ints = super::vector("i32", ty.lanes);
        let raw = self.let_(format!("bitcast {t} {shifted} to {ints}"));
        let bias = self.splat_constant("i32", ty.lanes, &MAGIC.to_bits().to_string());
        let n = self.two("sub", &ints, &raw, &bias);
        let name = match ty.lanes {
            1 => "llvm.ldexp.f32.i32".to_string(),
            lanes => format!("llvm.ldexp.v{lanes}f32.v{lanes}i32"),
        };
        self.call(&name, &t, &[(&t, &p), (&ints, &n)])
    }

    /// e^a, within 1 unit in the last place: multiples of ln 2 are taken away in two parts, of which the
    /// first is exact.
    pub(super) fn exp(&mut self, ty: Ty, a: &str) -> String {
        let t = super::spelled(ty);
        let float = |this: &Self, x: f32| this.constant(ty, u64::from(x.to_bits()));
        let mask = super::vector("i1", ty.lanes);
        // Beyond these the result is 0 or infinity anyway; the comparisons let NaN pass.
        let (least, most) = (float(self, -105.0), float(self, 89.0));
        let under = self.two("fcmp olt", &t, a, &least);
        let x = self.let_(format!("select {mask} {under}, {t} {least}, {t} {a}"));
        let over = self.two("fcmp olt", &t, &most, &x);
        let x = self.let_(format!("select {mask} {over}, {t} {most}, {t} {x}"));
        let scale = float(self, std::f32::consts::LOG2_E);
        let parts = LN_2_F32.map(|part| float(self, -part as f32));
        let e = super::scalar(ty.dtype);
        let power = self.two("fmul", &t, &x, &scale);
        let n = self.intrinsic("roundeven", e, ty.lanes, &[(&t, &power)]);
        // What is left of x, exactly but for the last part.
        let r = parts.iter().fold(x, |r, part| {
            self.intrinsic("fma", e, ty.lanes, &[(&t, &n), (&t, part), (&t, &r)])
        });
        let coefficients = EXP_F32.map(|c| float(self, c as f32));
        let (highest, rest) = (&coefficients[4], &coefficients[..4]);
        let q = rest.iter().rev().fold(highest.clone(), |q, c| {
            self.intrinsic("fma", e, ty.lanes, &[(&t, &q), (&t, &r), (&t, c)])
        });
        let square = self.two("fmul", &t, &r, &r);
        let part = self.intrinsic("fma", e, ty.lanes, &[(&t, &square), (&t, &q), (&t, &r)]);
        let one = float(self, 1.0);
        let p = self.two("fadd", &t, &one, &part);
        if ty.lanes == 16 {
            let all = [(t.as_str(), "zeroinitializer"), ("i16", "-1"), ("i32", "4")];
            let operands = [(t.as_str(), p.as_str()), (&t, &n)];
            let name = "llvm.x86.avx512.mask.scalef.ps.512";
            return self.call(name, &t, &[&operands[..], &all].concat());
        }
        let ints = super::vector("i32", ty.lanes);
        let n = self.let_(format!("fptosi {t} {n} to {ints}"));
        let name = match ty.lanes {
            1 => "llvm.ldexp.f32.i32".to_string(),
            lanes => format!("llvm.ldexp.v{lanes}f32.v{lanes}i32"),
        };
        self.call(&name, &t, &[(&t, &p), (&ints, &n)])
    }

    /// 2^f for |f| <= 1/2.
    fn exp2_polynomial(&mut self, ty: Ty, f: &str) -> String {
        let t = super::spelled(ty);
        let coefficients = EXP2_F32.map(|c| self.constant(ty, u64::from((c as f32).to_bits())));
        let (highest, rest) = (
            &coefficients[EXP2_F32.len() - 1],
            &coefficients[..EXP2_F32.len() - 1],
        );
        rest.iter().rev().fold(highest.clone(), |p, c| {
            self.intrinsic(
                "fma",
                super::scalar(ty.dtype),
                ty.lanes,
                &[(&t, &p), (&t, f), (&t, c)],
            )
        })
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
