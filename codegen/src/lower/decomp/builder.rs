//! Builds nodes for a target: each method decomposes operations that the target lacks.

use super::Caps;
use crate::dtype::DType;
use crate::ir::{Binary, Graph, Id, Op, ReduceOp, Unary, scalar};
use crate::symbolic::Bounds;

/// A graph being extended for one target.
pub struct Builder<'a> {
    /// The graph.
    pub g: &'a mut Graph,
    /// What the target has.
    pub caps: &'a Caps,
    /// Bounds, to leave out guards that are not needed.
    pub bounds: Bounds,
}

/// The floats that are computed with in `f32` where a target has no arithmetic of their own.
pub fn small_float(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16
    )
}

/// The integer type as wide as a float.
pub fn signed_bits(dtype: DType) -> DType {
    if dtype.bits() == 64 {
        DType::I64
    } else {
        DType::I32
    }
}

impl<'a> Builder<'a> {
    pub fn new(g: &'a mut Graph, caps: &'a Caps) -> Self {
        Builder {
            g,
            caps,
            bounds: Bounds::default(),
        }
    }

    pub fn through_f32(&self, op: Binary, dtype: DType) -> bool {
        small_float(dtype) && !self.caps.has_binary(op, dtype)
    }

    /// Whether a reduction or a scan keeps more digits than its type has.
    pub fn accumulates_in_f32(&self, op: ReduceOp, dtype: DType) -> bool {
        let rounds = small_float(dtype) && matches!(op, ReduceOp::Add | ReduceOp::Mul);
        rounds || self.through_f32(op.binary(), dtype)
    }

    /// The float constant nearest to `x`.
    pub fn float(&mut self, dtype: DType, x: f64) -> Id {
        self.g.bits(dtype, scalar::from_f64(dtype, x))
    }

    /// The integer constant `x`.
    pub fn int(&mut self, dtype: DType, x: i64) -> Id {
        self.g.bits(dtype, scalar::from_int(dtype, i128::from(x)))
    }

    pub fn add(&mut self, a: Id, b: Id) -> Id {
        self.g.binary(Binary::Add, a, b)
    }

    pub fn sub(&mut self, a: Id, b: Id) -> Id {
        self.g.binary(Binary::Sub, a, b)
    }

    pub fn mul(&mut self, a: Id, b: Id) -> Id {
        self.g.binary(Binary::Mul, a, b)
    }

    pub fn and(&mut self, a: Id, b: Id) -> Id {
        self.g.binary(Binary::And, a, b)
    }

    pub fn or(&mut self, a: Id, b: Id) -> Id {
        self.g.binary(Binary::Or, a, b)
    }

    pub fn less(&mut self, a: Id, b: Id) -> Id {
        self.g.binary(Binary::Lt, a, b)
    }

    pub fn equal(&mut self, a: Id, b: Id) -> Id {
        self.g.binary(Binary::Eq, a, b)
    }

    pub fn not(&mut self, a: Id) -> Id {
        self.g.unary(Unary::Not, a)
    }

    pub fn select(&mut self, c: Id, a: Id, b: Id) -> Id {
        self.g.select(c, a, b)
    }

    /// `a << k` for a constant below the width.
    pub fn shl(&mut self, a: Id, k: u32) -> Id {
        let k = self.int(self.g.dtype(a), i64::from(k));
        self.g.binary(Binary::Shl, a, k)
    }

    /// `a >> k` for a constant below the width.
    pub fn shr(&mut self, a: Id, k: u32) -> Id {
        let k = self.int(self.g.dtype(a), i64::from(k));
        self.g.binary(Binary::Shr, a, k)
    }

    pub fn bitcast(&mut self, a: Id, dtype: DType) -> Id {
        if self.g.dtype(a) == dtype {
            a
        } else {
            self.g.add(Op::Bitcast, dtype, &[a])
        }
    }

    /// a*b + c, fused if the target can.
    pub fn fma(&mut self, a: Id, b: Id, c: Id) -> Id {
        let dtype = self.g.dtype(a);
        if self.caps.fma.has(dtype) {
            return self.g.add(Op::Fma, dtype, &[a, b, c]);
        }
        if small_float(dtype) {
            let [a, b, c] = [a, b, c].map(|x| self.cast(x, DType::F32));
            let wide = self.fma(a, b, c);
            return self.cast(wide, dtype);
        }
        let product = self.binary(Binary::Mul, a, b);
        self.binary(Binary::Add, product, c)
    }

    /// `c[0] + x*(c[1] + x*(c[2] + ...))`.
    pub fn polynomial(&mut self, x: Id, coefficients: &[f64]) -> Id {
        let dtype = self.g.dtype(x);
        let mut sum: Option<Id> = None;
        for &c in coefficients.iter().rev() {
            let c = self.float(dtype, c);
            sum = Some(match sum {
                None => c,
                Some(s) => self.fma(s, x, c),
            });
        }
        sum.unwrap_or_else(|| self.float(dtype, 0.0))
    }

    /// One-operand arithmetic.
    pub fn unary(&mut self, op: Unary, a: Id) -> Id {
        let dtype = self.g.dtype(a);
        if self.caps.has_unary(op, dtype) {
            return self.g.unary(op, a);
        }
        if small_float(dtype) {
            let wide = self.cast(a, DType::F32);
            let wide = self.unary(op, wide);
            return self.cast(wide, dtype);
        }
        match op {
            Unary::Exp2 => self.exp2(a),
            Unary::Log2 => self.log2(a),
            Unary::Sin => self.sin(a),
            Unary::Exp => self.exp(a),
            Unary::Expm1 => self.expm1(a),
            Unary::Log => self.ln(a),
            Unary::Log10 => self.log10(a),
            Unary::Log1p => self.log1p(a),
            Unary::Cos => self.cos(a),
            Unary::Tan => self.tan(a),
            Unary::Asin => self.asin(a),
            Unary::Acos => self.acos(a),
            Unary::Atan => self.atan(a),
            Unary::Sinh => self.sinh(a),
            Unary::Cosh => self.cosh(a),
            Unary::Tanh => self.tanh(a),
            Unary::Asinh => self.asinh(a),
            Unary::Acosh => self.acosh(a),
            Unary::Atanh => self.atanh(a),
            Unary::Erf => self.erf(a),
            Unary::Erfc => self.erfc(a),
            Unary::Recip => {
                let one = self.float(dtype, 1.0);
                self.g.binary(Binary::FDiv, one, a)
            }
            Unary::Abs if dtype.is_signed() => {
                let zero = self.int(dtype, 0);
                let (negative, minus) = (self.less(a, zero), self.g.unary(Unary::Neg, a));
                self.select(negative, minus, a)
            }
            Unary::Abs if !dtype.is_float() => a,
            Unary::Abs
            | Unary::Neg
            | Unary::Not
            | Unary::Sqrt
            | Unary::Trunc
            | Unary::Floor
            | Unary::Ceil
            | Unary::RoundEven => self.g.unary(op, a),
        }
    }

    /// Two-operand arithmetic.
    pub fn binary(&mut self, op: Binary, x: Id, y: Id) -> Id {
        let dtype = self.g.dtype(x);
        if self.caps.has_binary(op, dtype) {
            return self.g.binary(op, x, y);
        }
        if small_float(dtype) {
            let (x, y) = (self.cast(x, DType::F32), self.cast(y, DType::F32));
            let wide = self.binary(op, x, y);
            return if op.is_compare() {
                wide
            } else {
                self.cast(wide, dtype)
            };
        }
        match op {
            Binary::Max | Binary::Min => self.extremum(op, x, y),
            Binary::Pow => self.pow(x, y),
            Binary::Shl | Binary::Shr => self.shift(op, x, y),
            Binary::FloorDiv | Binary::FloorMod => self.floor_division(op, x, y),
            Binary::TruncMod if dtype.is_float() => self.float_remainder(x, y),
            Binary::TruncDiv | Binary::TruncMod => self.trunc_division(op, x, y),
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::FDiv
            | Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::Lt
            | Binary::Eq
            | Binary::Ne => self.g.binary(op, x, y),
        }
    }

    /// IEEE maximum and minimum by comparisons. For equal operands, which differ in the sign of
    /// zero at most, the bits are joined: "and" gives +0, "or" gives -0.
    fn extremum(&mut self, op: Binary, x: Id, y: Id) -> Id {
        let dtype = self.g.dtype(x);
        let (x_below, y_below) = (self.less(x, y), self.less(y, x));
        let (if_x_below, if_y_below) = if op == Binary::Max { (y, x) } else { (x, y) };
        if !dtype.is_float() {
            return self.select(x_below, if_x_below, if_y_below);
        }
        let bits = signed_bits(dtype);
        let (xb, yb) = (self.bitcast(x, bits), self.bitcast(y, bits));
        let joined = if op == Binary::Max {
            self.and(xb, yb)
        } else {
            self.or(xb, yb)
        };
        let joined = self.bitcast(joined, dtype);
        let (equal, nan) = (self.equal(x, y), self.add(x, y));
        let rest = self.select(equal, joined, nan);
        let rest = self.select(y_below, if_y_below, rest);
        self.select(x_below, if_x_below, rest)
    }

    /// Shifts whose count may reach the width.
    fn shift(&mut self, op: Binary, x: Id, count: Id) -> Id {
        let dtype = self.g.dtype(x);
        let width = i64::from(dtype.bits());
        if self
            .bounds
            .of(self.g, count)
            .is_some_and(|(lo, hi)| lo >= 0 && hi < width)
        {
            return self.g.binary(op, x, count);
        }
        let mask = self.int(dtype, width - 1);
        let low = self.and(count, mask);
        let fits = self.equal(low, count);
        if op == Binary::Shr && dtype.is_signed() {
            let count = self.select(fits, count, mask);
            return self.g.binary(op, x, count);
        }
        let shifted = self.g.binary(op, x, low);
        let zero = self.int(dtype, 0);
        self.select(fits, shifted, zero)
    }
}
