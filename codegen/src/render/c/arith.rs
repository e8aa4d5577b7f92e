//! Arithmetic and conversions.

use super::{Dialect, Text, arithmetic_float, convertible, integer, scalar};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, Unary};
use crate::lower::{Reg, Ty};

impl Text<'_> {
    pub(super) fn unary(&mut self, dst: Reg, op: Unary, a: Reg) -> Result<()> {
        let ty = self.of(dst);
        let t = self.ty(ty);
        let a = self.r(a);
        let float = arithmetic_float(ty.dtype);
        let unsigned = integer(ty.dtype.bits(), false);
        if !op.row().types.has(ty.dtype) || ty.dtype.is_float() && !float {
            return self.unsupported(format!("{op:?} on {}", ty.dtype));
        }
        let value = match op {
            Unary::Neg if float => format!("-{a}"),
            Unary::Neg if ty.dtype == DType::Bool => a,
            Unary::Neg => {
                let u = self.bits(&a, &unsigned, ty.lanes);
                let ut = self.wide(&unsigned, ty.lanes);
                self.bits(&format!("({ut})(0 - {u})"), scalar(ty.dtype), ty.lanes)
            }
            Unary::Not if ty.dtype == DType::Bool => format!("({t})({a} ^ ({t})(1))"),
            Unary::Not => format!("({t})(~{a})"),
            Unary::Abs if float => self.function("abs", ty.dtype, &a),
            Unary::Abs if ty.dtype.is_signed() => {
                let u = self.bits(&a, &unsigned, ty.lanes);
                let ut = self.wide(&unsigned, ty.lanes);
                let neg = self.bits(&format!("({ut})(0 - {u})"), scalar(ty.dtype), ty.lanes);
                let below = self.compare(ty.lanes, &format!("{a} < 0"));
                self.select(&below, ty, &neg, &a)
            }
            Unary::Abs => a,
            Unary::Recip => format!("({t})(1) / {a}"),
            Unary::Sqrt if self.dialect == Dialect::Hip => {
                let f = if ty.dtype == DType::F32 { "f" } else { "" };
                self.lanewise(dst, &format!("__builtin_sqrt{f}({a}[{{i}}])"));
                return Ok(());
            }
            Unary::Sqrt => self.function("sqrt", ty.dtype, &a),
            Unary::Trunc => self.function("trunc", ty.dtype, &a),
            Unary::Floor => self.function("floor", ty.dtype, &a),
            Unary::Ceil => self.function("ceil", ty.dtype, &a),
            Unary::RoundEven => self.function("roundeven", ty.dtype, &a),
            Unary::Exp2 if self.dialect == Dialect::Cuda && ty.dtype == DType::F32 => {
                self.function("exp2", ty.dtype, &a)
            }
            // Functions are decomposed.
            _ => {
                return self.unsupported(format!("{op:?} on {}", ty.dtype));
            }
        };
        self.define(dst, value);
        Ok(())
    }

    /// A function of floats that is an instruction.
    fn function(&self, name: &str, dtype: DType, a: &str) -> String {
        match self.dialect {
            Dialect::Cuda => super::cuda::function(name, dtype, a),
            Dialect::OpenCl => super::opencl::function(name, a),
            Dialect::C | Dialect::Hip => format!("__builtin_elementwise_{name}({a})"),
        }
    }

    /// Sums of products of bytes.
    pub(super) fn dot(&mut self, dst: Reg, a: Reg, b: Reg, c: Reg) {
        let part = |byte: u32| {
            let (a, b) = (
                format!("(u32){}[{{i}}]", self.r(a)),
                format!("(u32){}[{{i}}]", self.r(b)),
            );
            let (down, up) = (8 * byte, 24 - 8 * byte);
            format!("({a} >> {down} & 255u) * (u32)((i32)({b} << {up}) >> 24)")
        };
        let sum: Vec<String> = (0..4).map(part).collect();
        let each = format!("(i32)((u32){}[{{i}}] + {})", self.r(c), sum.join(" + "));
        self.lanewise(dst, &each);
    }

    pub(super) fn fma(&mut self, dst: Reg, a: Reg, b: Reg, c: Reg) -> Result<()> {
        let ty = self.of(dst);
        if !matches!(ty.dtype, DType::F32 | DType::F64) {
            return self.unsupported(format!("multiply-add of {}", ty.dtype));
        }
        let has = self.t.arch == "aarch64" || self.t.features.contains("+fma");
        let [a, b, c] = [a, b, c].map(|r| self.r(r));
        let f = if ty.dtype == DType::F32 { "f" } else { "" };
        if self.dialect == Dialect::Cuda {
            self.define(dst, format!("__fma{f}_rn({a}, {b}, {c})"));
        } else if self.t.is_cl() {
            self.define(dst, format!("fma({a}, {b}, {c})"));
        } else if self.dialect == Dialect::OpenCl {
            // Sums of products only ([`crate::lower::decomp::Caps::mad`]).
            self.define(dst, format!("mad({a}, {b}, {c})"));
        } else if self.dialect == Dialect::Hip {
            // Compilers of older ROCm have no builtin for vectors.
            let each = format!("__builtin_fma{f}({a}[{{i}}], {b}[{{i}}], {c}[{{i}}])");
            self.lanewise(dst, &each);
        } else if has && ty.lanes > 1 {
            self.define(dst, format!("__builtin_elementwise_fma({a}, {b}, {c})"));
        } else if has {
            self.define(dst, format!("__builtin_fma{f}({a}, {b}, {c})"));
        } else {
            self.define(dst, format!("{a} * {b} + {c}"));
        }
        Ok(())
    }

    /// An operation in unsigned arithmetic.
    fn wrapping(&mut self, ty: Ty, a: &str, sign: &str, b: &str) -> String {
        let unsigned = integer(ty.dtype.bits(), false);
        // Narrow types would be widened to int, whose overflow is another one.
        let ut = self.wide(&unsigned, ty.lanes);
        let (x, y) = (
            self.bits(a, &unsigned, ty.lanes),
            self.bits(b, &unsigned, ty.lanes),
        );
        let e = if ty.lanes == 1 && ty.dtype.bits() < 32 {
            format!("({ut})((u32){x} {sign} (u32){y})")
        } else {
            format!("({ut})({x} {sign} {y})")
        };
        self.bits(&e, scalar(ty.dtype), ty.lanes)
    }

    pub(super) fn expression(
        &mut self,
        ty: Ty,
        op: Binary,
        a: &str,
        b: &str,
    ) -> Result<Option<String>> {
        let t = self.ty(ty);
        let float = arithmetic_float(ty.dtype);
        let bool_ = ty.dtype == DType::Bool;
        if ty.dtype.is_float() && !float {
            return self.unsupported(format!("{op:?} on {}", ty.dtype));
        }
        Ok(Some(match op {
            Binary::Add if float => format!("{a} + {b}"),
            Binary::Sub if float => format!("{a} - {b}"),
            Binary::Mul if float => format!("{a} * {b}"),
            Binary::FDiv if float => format!("{a} / {b}"),
            Binary::Add | Binary::Max | Binary::Or if bool_ => format!("({t})({a} | {b})"),
            Binary::Mul | Binary::Min | Binary::And if bool_ => format!("({t})({a} & {b})"),
            Binary::Sub if bool_ => format!("({t})({a} ^ {b})"),
            Binary::Add => self.wrapping(ty, a, "+", b),
            Binary::Sub => self.wrapping(ty, a, "-", b),
            Binary::Mul => self.wrapping(ty, a, "*", b),
            Binary::And if !float => format!("({t})({a} & {b})"),
            Binary::Or if !float => format!("({t})({a} | {b})"),
            Binary::Xor if !float => format!("({t})({a} ^ {b})"),
            Binary::Lt => self.compare(ty.lanes, &format!("{a} < {b}")),
            Binary::Eq => self.compare(ty.lanes, &format!("{a} == {b}")),
            Binary::Ne => self.compare(ty.lanes, &format!("{a} != {b}")),
            Binary::Max | Binary::Min
                if !float || self.dialect == Dialect::Cuda && ty.dtype == DType::F32 =>
            {
                let name = if op == Binary::Max { "max" } else { "min" };
                match self.dialect {
                    Dialect::Cuda | Dialect::OpenCl => super::cuda::extremum(name, ty.dtype, a, b),
                    Dialect::C | Dialect::Hip => format!("__builtin_elementwise_{name}({a}, {b})"),
                }
            }
            Binary::Max | Binary::Min => self.extremum(ty, op, a, b),
            Binary::Shl | Binary::Shr if !float && !bool_ => self.shift(ty, op, a, b),
            Binary::FloorDiv | Binary::FloorMod | Binary::TruncDiv | Binary::TruncMod
                if !float && !bool_ =>
            {
                return Ok(None);
            }
            _ => return self.unsupported(format!("{op:?} on {}", ty.dtype)),
        }))
    }

    /// The larger of two floats, or the smaller one. Of equal ones (zeros) the bits decide that the sign is the one
    /// that IEEE 754 wants; a NaN of either side stays.
    fn extremum(&mut self, ty: Ty, op: Binary, a: &str, b: &str) -> String {
        let unsigned = integer(ty.dtype.bits(), false);
        let (x, y) = (
            self.bits(a, &unsigned, ty.lanes),
            self.bits(b, &unsigned, ty.lanes),
        );
        let (order, merge) = if op == Binary::Max {
            (">", "&")
        } else {
            ("<", "|")
        };
        let ut = self.wide(&unsigned, ty.lanes);
        let zero = self.bits(
            &format!("({ut})({x} {merge} {y})"),
            scalar(ty.dtype),
            ty.lanes,
        );
        let first = self.compare(ty.lanes, &format!("{a} {order} {b}"));
        let equal = self.compare(ty.lanes, &format!("{a} == {b}"));
        let nan = self.compare(ty.lanes, &format!("{a} != {a}"));
        let rest = self.select(&equal, ty, &zero, b);
        let rest = self.select(&first, ty, a, &rest);
        self.select(&nan, ty, a, &rest)
    }

    /// A shift. C defines it for counts below the width only.
    fn shift(&mut self, ty: Ty, op: Binary, a: &str, b: &str) -> String {
        let t = self.ty(ty);
        let bits = u64::from(ty.dtype.bits());
        let unsigned = integer(ty.dtype.bits(), false);
        let ut = self.wide(&unsigned, ty.lanes);
        let count = self.bits(b, &unsigned, ty.lanes);
        let u = Ty {
            dtype: match bits {
                8 => DType::U8,
                16 => DType::U16,
                32 => DType::U32,
                _ => DType::U64,
            },
            lanes: ty.lanes,
        };
        let fits = self.compare(ty.lanes, &format!("{count} < ({ut})({bits})"));
        if op == Binary::Shr && ty.dtype.is_signed() {
            let last = format!("({ut})({})", bits - 1);
            let n = self.select(&fits, u, &count, &last);
            let n = self.bits(&format!("({ut})({n})"), scalar(ty.dtype), ty.lanes);
            format!("({t})({a} >> {n})")
        } else {
            let zero = format!("({ut})(0)");
            let n = self.select(&fits, u, &count, &zero);
            let x = self.bits(a, &unsigned, ty.lanes);
            let sign = if op == Binary::Shl { "<<" } else { ">>" };
            let shifted = format!("({ut})({x} {sign} {n})");
            let all = self.select(&fits, u, &shifted, &zero);
            self.bits(&format!("({ut})({all})"), scalar(ty.dtype), ty.lanes)
        }
    }

    pub(super) fn binary(&mut self, dst: Reg, ty: Ty, op: Binary, a: &str, b: &str) -> Result<()> {
        if let Some(value) = self.expression(ty, op, a, b)? {
            self.define(dst, value);
            return Ok(());
        }
        // Division, lane by lane: 0 for a zero divisor, MIN / -1 wraps.
        let s = scalar(ty.dtype);
        let (x, y) = (format!("{a}[{{i}}]"), format!("{b}[{{i}}]"));
        let each = if ty.dtype.is_signed() {
            // Quotients without a branch: clang 21 makes one of two, on 0 and on -1, that is wrong on AMD GPUs.
            let u = integer(ty.dtype.bits().max(32), false);
            let divisor = format!("({y} == 0 || {y} == -1 ? 1 : {y})");
            let sign = format!("({u})({y} == 0 ? 0 : {y} == -1 ? -1 : 1)");
            match op {
                Binary::TruncDiv => format!("({s})(({u})({x} / {divisor}) * {sign})"),
                Binary::TruncMod => {
                    format!("{y} == 0 || {y} == -1 ? 0 : ({s})({x} % {y})")
                }
                Binary::FloorDiv => format!(
                    "({s})(({u})({x} / {divisor} - ({x} % {divisor} != 0 && (({x} ^ {y}) < 0))) * {sign})"
                ),
                _ => format!(
                    "{y} == 0 || {y} == -1 ? 0 : \
                     ({s})({x} % {y} + ({x} % {y} != 0 && (({x} ^ {y}) < 0) ? {y} : 0))"
                ),
            }
        } else {
            let sign = if matches!(op, Binary::TruncDiv | Binary::FloorDiv) {
                '/'
            } else {
                '%'
            };
            format!("{y} == 0 ? 0 : ({s})({x} {sign} {y})")
        };
        self.lanewise(dst, &each);
        Ok(())
    }

    pub(super) fn cast(&mut self, dst: Reg, a: Reg) -> Result<()> {
        let (to, from) = (self.of(dst), self.of(a));
        let (f, d) = (from.dtype, to.dtype);
        let a = self.r(a);
        let refuse = |s: &Self| s.unsupported(format!("a cast from {f} to {d}"));
        let value = if f == d {
            a
        } else if d == DType::Bool {
            if f.is_float() && !arithmetic_float(f) {
                return refuse(self);
            }
            self.compare(to.lanes, &format!("{a} != 0"))
        } else if f == DType::BF16 && d == DType::F32 {
            let wide = self.convert(&a, "u32", from.lanes);
            self.bits(&format!("({wide} << 16)"), "f32", from.lanes)
        } else if f == DType::F32 && d == DType::BF16 && self.dialect == Dialect::Cuda {
            format!("to_bf16({a})")
        } else if !convertible(f, d, self.t) {
            return refuse(self);
        } else if self.t.is_cl() && (f == DType::F16 || d == DType::F16) {
            self.cast_half(d, &a)
        } else if f.is_float() && !d.is_float() {
            let (min, max) = crate::ir::scalar::int_limits(d);
            // The bounds as floats: the upper one rounds up to a power of two, which saturates.
            // Without a suffix they are doubles, which OpenCL may not have.
            let suffix = match self.dialect {
                Dialect::OpenCl => "f",
                _ => "",
            };
            let low = format!("({}){:?}{suffix}", scalar(f), min as f64);
            let high = format!("({}){:?}{suffix}", scalar(f), (max + 1) as f64);
            let s = scalar(d);
            let top = self.literal(d, max as u64);
            let bottom = self.literal(d, min as u64);
            let x = format!("{a}[{{i}}]");
            let each = format!(
                "{x} != {x} ? 0 : {x} >= {high} ? {top} : {x} <= {low} ? {bottom} : ({s})({x})"
            );
            self.lanewise(dst, &each);
            return Ok(());
        } else {
            self.convert(&a, scalar(d), to.lanes)
        };
        self.define(dst, value);
        Ok(())
    }
}
