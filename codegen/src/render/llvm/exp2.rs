//! 2^x on `f32` where the target scales by a power of two in one instruction (AVX-512's
//! `vscalefps`, which LLVM selects for `llvm.ldexp`): half of the operations of the general form in
//! [`crate::lower::decomp`], with the same polynomial.

use super::Text;
use crate::DType;
use crate::ir::{Binary, Unary};
use crate::lower::decomp::{Caps, EXP2_F32};
use crate::lower::program::Ty;
use crate::target::Target;

/// Whether `llvm.ldexp` on vectors is an instruction; elsewhere it is a call per lane.
pub(super) fn native(t: &Target) -> bool {
    let has = |name: &str| t.features.split(',').any(|f| f == name);
    has("+avx512f") && has("+avx512vl")
}

/// The capabilities of `base` with `Exp2` on `f32`.
pub(super) fn caps(base: Caps) -> Caps {
    debug_assert!(!(base.unary)(Unary::Exp2, DType::F64));
    Caps {
        unary: |op, dtype| match (op, dtype) {
            (Unary::Exp2, DType::F32) => true,
            (Unary::Exp2 | Unary::Log2 | Unary::Sin, _) => false,
            _ => super::super::computes(dtype),
        },
        ..base
    }
}

/// Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
const MAGIC: f32 = 12_582_912.0;

impl Text<'_> {
    /// 2^a, within 1 unit in the last place.
    pub(super) fn exp2(&mut self, ty: Ty, a: &str) -> crate::Result<String> {
        let float = |this: &Self, x: f32| this.constant(ty, u64::from(x.to_bits()));
        let mask = super::vector("i1", ty.lanes);
        let t = super::spelled(ty);
        // Beyond these the result is 0 or infinity anyway; the comparisons let NaN pass.
        let (least, most) = (float(self, -160.0), float(self, 130.0));
        let under = self.two("fcmp olt", &t, a, &least);
        let x = self.let_(format!("select {mask} {under}, {t} {least}, {t} {a}"));
        let over = self.two("fcmp olt", &t, &most, &x);
        let x = self.let_(format!("select {mask} {over}, {t} {most}, {t} {x}"));
        let magic = float(self, MAGIC);
        let shifted = self.binary(ty, Binary::Add, &x, &magic)?;
        let n = self.binary(ty, Binary::Sub, &shifted, &magic)?;
        let f = self.binary(ty, Binary::Sub, &x, &n)?;
        let mut p = float(self, EXP2_F32[EXP2_F32.len() - 1] as f32);
        for &c in EXP2_F32[..EXP2_F32.len() - 1].iter().rev() {
            let c = float(self, c as f32);
            let e = super::scalar(ty.dtype);
            p = self.intrinsic("fma", e, ty.lanes, &[(&t, &p), (&t, &f), (&t, &c)]);
        }
        let ints = super::vector("i32", ty.lanes);
        let raw = self.let_(format!("bitcast {t} {shifted} to {ints}"));
        let bias = self.splat_constant("i32", ty.lanes, &MAGIC.to_bits().to_string());
        let n = self.two("sub", &ints, &raw, &bias);
        let name = match ty.lanes {
            1 => "llvm.ldexp.f32.i32".to_string(),
            lanes => format!("llvm.ldexp.v{lanes}f32.v{lanes}i32"),
        };
        Ok(self.call(&name, &t, &[(&t, &p), (&ints, &n)]))
    }
}
