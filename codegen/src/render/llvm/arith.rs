//! Arithmetic and conversions.

use super::{Text, mangled, scalar, spelled, vector};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, ReduceOp, Unary};
use crate::lower::{Arg, Reg, Ty};

impl Text<'_> {
    pub(super) fn fma(&mut self, ty: Ty, a: &str, b: &str, c: &str) -> Result<String> {
        let element = scalar(ty.dtype);
        let t = spelled(ty);
        let has = self.gpu() || self.t.arch == "aarch64" || self.t.features.contains("+fma");
        if matches!(ty.dtype, DType::F32 | DType::F64) && has {
            return Ok(self.intrinsic("fma", element, ty.lanes, &[(&t, a), (&t, b), (&t, c)]));
        }
        let product = self.binary(ty, Binary::Mul, a, b)?;
        self.binary(ty, Binary::Add, &product, c)
    }

    pub(super) fn unary(&mut self, ty: Ty, op: Unary, a: Reg) -> Result<String> {
        let a = self.v(a);
        let t = spelled(ty);
        let e = scalar(ty.dtype);
        let float = arithmetic_float(ty.dtype);
        let takes = op.row().types.has(ty.dtype);
        if !takes || ty.dtype.is_float() && !float {
            return self.unsupported(format!("{op:?} on {}", ty.dtype));
        }
        Ok(match op {
            Unary::Neg if float => self.let_(format!("fneg {t} {a}")),
            Unary::Neg => self.let_(format!("sub {t} {}, {a}", self.constant(ty, 0))),
            Unary::Not => self.let_(format!("xor {t} {a}, {}", self.constant(ty, u64::MAX))),
            Unary::Abs if float => self.intrinsic("fabs", e, ty.lanes, &[(&t, &a)]),
            Unary::Abs if ty.dtype.is_signed() => {
                self.intrinsic("abs", e, ty.lanes, &[(&t, &a), ("i1", "false")])
            }
            Unary::Abs => a,
            Unary::Recip => {
                let one = self.constant(ty, crate::ir::scalar::identity(ReduceOp::Mul, ty.dtype));
                self.let_(format!("fdiv {t} {one}, {a}"))
            }
            Unary::Sqrt => self.intrinsic("sqrt", e, ty.lanes, &[(&t, &a)]),
            Unary::Trunc => self.intrinsic("trunc", e, ty.lanes, &[(&t, &a)]),
            Unary::Floor => self.intrinsic("floor", e, ty.lanes, &[(&t, &a)]),
            Unary::Ceil => self.intrinsic("ceil", e, ty.lanes, &[(&t, &a)]),
            Unary::RoundEven => self.intrinsic("roundeven", e, ty.lanes, &[(&t, &a)]),
            Unary::Exp2 | Unary::Log2 if ty.dtype == DType::F32 && self.gpu() => {
                let name = if op == Unary::Exp2 { "exp2" } else { "log2" };
                self.intrinsic(name, e, ty.lanes, &[(&t, &a)])
            }
            _ => match self.of_registers(ty, op, &a) {
                Some(y) => y,
                // Other functions are decomposed.
                None => return self.unsupported(format!("{op:?} on {}", ty.dtype)),
            },
        })
    }

    /// An instruction on two operands of one type.
    pub(super) fn two(&mut self, name: &str, t: &str, a: &str, b: &str) -> String {
        self.let_(format!("{name} {t} {a}, {b}"))
    }

    pub(super) fn pick(&mut self, ty: Ty, cond: &str, a: &str, b: &str) -> String {
        let t = spelled(ty);
        let c = vector("i1", ty.lanes);
        self.let_(format!("select {c} {cond}, {t} {a}, {t} {b}"))
    }

    pub(super) fn binary(&mut self, ty: Ty, op: Binary, a: &str, b: &str) -> Result<String> {
        let t = spelled(ty);
        let e = scalar(ty.dtype);
        let float = arithmetic_float(ty.dtype);
        let signed = ty.dtype.is_signed();
        let bool_ = ty.dtype == DType::Bool;
        if ty.dtype.is_float() && !float {
            return self.unsupported(format!("{op:?} on {}", ty.dtype));
        }
        let name = match op {
            Binary::Add if float => "fadd",
            Binary::Add if bool_ => "or",
            Binary::Add => "add",
            Binary::Sub if float => "fsub",
            Binary::Sub => "sub",
            Binary::Mul if float => "fmul",
            Binary::Mul if bool_ => "and",
            Binary::Mul => "mul",
            Binary::FDiv if float => "fdiv",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::Max if bool_ => "or",
            Binary::Min if bool_ => "and",
            Binary::Lt if float => "fcmp olt",
            Binary::Eq if float => "fcmp oeq",
            Binary::Ne if float => "fcmp une",
            Binary::Lt if signed => "icmp slt",
            Binary::Lt => "icmp ult",
            Binary::Eq => "icmp eq",
            Binary::Ne => "icmp ne",
            Binary::Max | Binary::Min => {
                let max = op == Binary::Max;
                if let Some(one) = self.extremum(ty, max, a, b) {
                    return Ok(one);
                }
                let name = match (float, signed, max) {
                    (true, _, true) => "maximum",
                    (true, _, false) => "minimum",
                    (_, true, true) => "smax",
                    (_, true, false) => "smin",
                    (_, false, true) => "umax",
                    (_, false, false) => "umin",
                };
                return Ok(self.intrinsic(name, e, ty.lanes, &[(&t, a), (&t, b)]));
            }
            Binary::FloorDiv | Binary::FloorMod | Binary::TruncDiv | Binary::TruncMod
                if !float && !bool_ =>
            {
                return Ok(self.divide(ty, op, a, b));
            }
            Binary::Shl | Binary::Shr if !float && !bool_ => return Ok(self.shift(ty, op, a, b)),
            _ => return self.unsupported(format!("{op:?} on {}", ty.dtype)),
        };
        Ok(self.two(name, &t, a, b))
    }

    fn shift(&mut self, ty: Ty, op: Binary, a: &str, b: &str) -> String {
        let t = spelled(ty);
        let width = u64::from(ty.dtype.bits());
        let limit = self.constant(ty, width);
        if op == Binary::Shr && ty.dtype.is_signed() {
            let last = self.constant(ty, width - 1);
            let e = scalar(ty.dtype);
            let count = self.intrinsic("umin", e, ty.lanes, &[(&t, b), (&t, &last)]);
            return self.two("ashr", &t, a, &count);
        }
        let zero = self.constant(ty, 0);
        let fits = self.two("icmp ult", &t, b, &limit);
        let count = match self.t.is_nv() && width == 64 {
            // LLVM 22 takes a shift of PTX for the whole, which counts by the lower 32 bits.
            true => {
                let last = self.constant(ty, width - 1);
                self.two("and", &t, b, &last)
            }
            false => self.pick(ty, &fits, b, &zero),
        };
        let name = if op == Binary::Shl { "shl" } else { "lshr" };
        let shifted = self.two(name, &t, a, &count);
        self.pick(ty, &fits, &shifted, &zero)
    }

    /// An argument for a number; only positive ones divide.
    fn is_number(&self, text: &str) -> bool {
        let arg = text.strip_prefix("%arg").and_then(|n| n.parse().ok());
        matches!(
            arg.and_then(|n: usize| self.p.args.get(n)),
            Some(Arg::Number { value: 1.. })
        )
    }

    /// Integer division that gives 0 for a zero divisor and wraps for `MIN / -1`.
    fn divide(&mut self, ty: Ty, op: Binary, a: &str, b: &str) -> String {
        let t = spelled(ty);
        let signed = ty.dtype.is_signed();
        let (zero, one) = (self.constant(ty, 0), self.constant(ty, 1));
        let known = known_divisor(b);
        let floor = matches!(op, Binary::FloorDiv | Binary::FloorMod);
        let remainder = matches!(op, Binary::FloorMod | Binary::TruncMod);
        if let Some(k) = known.filter(|&k| k > 0 && k.count_ones() == 1 && (floor || !signed)) {
            let (name, operand) = match (remainder, signed) {
                (true, _) => ("and", k - 1),
                (false, true) => ("ashr", i64::from(k.trailing_zeros())),
                (false, false) => ("lshr", i64::from(k.trailing_zeros())),
            };
            let operand = self.constant(ty, operand as u64);
            return self.two(name, &t, a, &operand);
        }
        let safe = known.is_some_and(|k| k > 0) || self.is_number(b);
        let (mut divisor, mut is_zero, mut is_minus) = (b.to_string(), None, None);
        if !safe {
            let z = self.two("icmp eq", &t, b, &zero);
            divisor = self.pick(ty, &z, &one, &divisor);
            is_zero = Some(z);
            if signed {
                let minus = self.constant(ty, u64::MAX);
                let m = self.two("icmp eq", &t, b, &minus);
                divisor = self.pick(ty, &m, &one, &divisor);
                is_minus = Some(m);
            }
        }
        let (div, rem) = if signed {
            ("sdiv", "srem")
        } else {
            ("udiv", "urem")
        };
        // With divisor 1 in place of 0 and -1 the remainder is right in both cases.
        let r = if remainder || (floor && signed) {
            self.two(rem, &t, a, &divisor)
        } else {
            String::new()
        };
        let adjust = if floor && signed {
            let some = self.two("icmp ne", &t, &r, &zero);
            let mixed = self.two("xor", &t, &r, &divisor);
            let negative = self.two("icmp slt", &t, &mixed, &zero);
            let c = vector("i1", ty.lanes);
            Some(self.two("and", &c, &some, &negative))
        } else {
            None
        };
        if remainder {
            return match adjust {
                Some(adjust) => {
                    let extra = self.pick(ty, &adjust, &divisor, &zero);
                    self.two("add", &t, &r, &extra)
                }
                None => r,
            };
        }
        let mut q = self.two(div, &t, a, &divisor);
        if let Some(adjust) = adjust {
            let extra = self.pick(ty, &adjust, &one, &zero);
            q = self.two("sub", &t, &q, &extra);
        }
        if let Some(m) = is_minus {
            let negated = self.two("sub", &t, &zero, a);
            q = self.pick(ty, &m, &negated, &q);
        }
        if let Some(z) = is_zero {
            q = self.pick(ty, &z, &zero, &q);
        }
        q
    }

    pub(super) fn cast(&mut self, to: Ty, a: Reg) -> Result<String> {
        let from = self.p.ty(a);
        let a = self.v(a);
        let (ft, tt) = (spelled(from), spelled(to));
        let (f, d) = (from.dtype, to.dtype);
        let refuse = |s: &Self| s.unsupported(format!("a cast from {f} to {d}"));
        if f == d {
            return Ok(a);
        }
        if d == DType::Bool {
            if f.is_float() && !arithmetic_float(f) {
                return refuse(self);
            }
            let zero = self.constant(from, 0);
            let name = if f.is_float() { "fcmp une" } else { "icmp ne" };
            return Ok(self.two(name, &ft, &a, &zero));
        }
        if f == DType::BF16 && d == DType::F32 {
            let wide = vector("i32", from.lanes);
            let bits = self.let_(format!("zext {ft} {a} to {wide}"));
            let shift = self.splat_constant("i32", from.lanes, "16");
            let bits = self.two("shl", &wide, &bits, &shift);
            return Ok(self.let_(format!("bitcast {wide} {bits} to {tt}")));
        }
        if f == DType::F32 && d == DType::BF16 && self.t.is_nv() {
            return Ok(self.brain(from, &a));
        }
        let narrow = |d| matches!(d, DType::F8E4M3 | DType::F8E5M2);
        let single = (narrow(f) && d == DType::F32) || (f == DType::F32 && narrow(d));
        if single && self.t.f8_convert {
            return Ok(self.convert_f8(from, to, &a));
        }
        let float = |t: DType| t.is_float();
        if (float(f) && !arithmetic_float(f)) || (float(d) && !arithmetic_float(d)) {
            return refuse(self);
        }
        let half = f == DType::F16 || d == DType::F16;
        if half && !(self.t.f16_convert && (f == DType::F32 || d == DType::F32)) {
            return refuse(self);
        }
        let name = match (float(f), float(d)) {
            (true, true) => {
                if d.size() > f.size() {
                    "fpext"
                } else {
                    "fptrunc"
                }
            }
            (true, false) => {
                let name = if d.is_signed() {
                    "fptosi.sat"
                } else {
                    "fptoui.sat"
                };
                let full = format!(
                    "llvm.{name}.{}.{}",
                    mangled(scalar(d), to.lanes),
                    mangled(scalar(f), from.lanes)
                );
                return Ok(self.call(&full, &tt, &[(&ft, &a)]));
            }
            (false, true) => {
                if f.is_signed() {
                    "sitofp"
                } else {
                    "uitofp"
                }
            }
            (false, false) => {
                if f != DType::Bool && d.size() == f.size() {
                    return Ok(a);
                } else if f != DType::Bool && d.size() < f.size() {
                    "trunc"
                } else if f.is_signed() {
                    "sext"
                } else {
                    "zext"
                }
            }
        };
        Ok(self.let_(format!("{name} {ft} {a} to {tt}")))
    }
}

/// Types with arithmetic in the text; the others are bits that come decomposed.
fn arithmetic_float(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::F32 | DType::F64)
}

/// The value of an integer literal, also of one that is splatted.
fn known_divisor(text: &str) -> Option<i64> {
    let inner = match text.strip_prefix("splat (") {
        Some(rest) => rest.strip_suffix(')')?.split_once(' ')?.1,
        None => text,
    };
    inner.parse().ok()
}
