//! Arithmetic and conversions.

use super::{Text, class, literal, number};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, Unary};
use crate::lower::Reg;

impl Text<'_> {
    /// A value of 32 bits as one of a narrower integer: what is above is its sign, or zeros.
    pub(super) fn narrowed(&mut self, name: &str, dtype: DType, wide: &str) {
        match dtype {
            DType::I8 => self.line(format!("cvt.s32.s8 {name}, {wide}")),
            DType::I16 => self.line(format!("cvt.s32.s16 {name}, {wide}")),
            DType::U8 | DType::F8E4M3 | DType::F8E5M2 => {
                self.line(format!("and.b32 {name}, {wide}, 0xff"));
            }
            DType::U16 => self.line(format!("and.b32 {name}, {wide}, 0xffff")),
            _ => self.line(format!("mov.b32 {name}, {wide}")),
        }
    }

    /// An instruction whose result may be too wide for its type.
    fn wrapping(&mut self, name: &str, dtype: DType, text: &str) {
        if dtype.size() >= 4 {
            return self.line(text.replacen("{}", name, 1));
        }
        let wide = self.let_("b32", text);
        self.narrowed(name, dtype, &wide);
    }

    pub(super) fn unary_of(&mut self, name: &str, dtype: DType, op: Unary, a: &str) -> Result<()> {
        let float = matches!(dtype, DType::F32 | DType::F64);
        let half = dtype == DType::F16;
        let signed = if dtype.size() == 8 { "s64" } else { "s32" };
        let bits = if dtype.size() == 8 { "b64" } else { "b32" };
        if dtype.is_float() && !float && !half {
            return self.unsupported(format!("{op:?} on {dtype}"));
        }
        let text = match op {
            Unary::Neg if dtype == DType::Bool => format!("mov.pred {{}}, {a}"),
            Unary::Not if dtype == DType::Bool => format!("not.pred {{}}, {a}"),
            Unary::Neg if half => format!("xor.b16 {{}}, {a}, 0x8000"),
            Unary::Abs if half => format!("and.b16 {{}}, {a}, 0x7fff"),
            Unary::Neg if float => format!("neg.{dtype} {{}}, {a}"),
            Unary::Abs if float => format!("abs.{dtype} {{}}, {a}"),
            Unary::Neg => format!("neg.{signed} {{}}, {a}"),
            Unary::Abs if dtype.is_signed() => format!("abs.{signed} {{}}, {a}"),
            Unary::Abs if dtype == DType::Bool => format!("mov.pred {{}}, {a}"),
            Unary::Abs => format!("mov.{bits} {{}}, {a}"),
            Unary::Not => format!("not.{bits} {{}}, {a}"),
            Unary::Recip if float => format!("rcp.rn.{dtype} {{}}, {a}"),
            Unary::Sqrt if float => format!("sqrt.rn.{dtype} {{}}, {a}"),
            Unary::Trunc if float => format!("cvt.rzi.{dtype}.{dtype} {{}}, {a}"),
            Unary::Floor if float => format!("cvt.rmi.{dtype}.{dtype} {{}}, {a}"),
            Unary::Ceil if float => format!("cvt.rpi.{dtype}.{dtype} {{}}, {a}"),
            Unary::RoundEven if float => format!("cvt.rni.{dtype}.{dtype} {{}}, {a}"),
            Unary::Exp2 if dtype == DType::F32 => format!("ex2.approx.f32 {{}}, {a}"),
            _ => return self.unsupported(format!("{op:?} on {dtype}")),
        };
        match dtype.is_int() {
            true => self.wrapping(name, dtype, &text),
            false => self.line(text.replacen("{}", name, 1)),
        }
        Ok(())
    }

    /// An operation on values of a type.
    pub(super) fn binary(
        &mut self,
        name: &str,
        dtype: DType,
        op: Binary,
        a: &str,
        b: &str,
    ) -> Result<()> {
        match dtype {
            DType::Bool => self.binary_of_truths(name, op, a, b),
            DType::F16 | DType::F32 | DType::F64 => self.binary_of_floats(name, dtype, op, a, b),
            t if t.is_int() => self.binary_of_integers(name, dtype, op, a, b),
            _ => self.unsupported(format!("{op:?} on {dtype}")),
        }
    }

    fn binary_of_truths(&mut self, name: &str, op: Binary, a: &str, b: &str) -> Result<()> {
        let op = match op {
            Binary::Add | Binary::Max | Binary::Or => "or",
            Binary::Mul | Binary::Min | Binary::And => "and",
            Binary::Sub | Binary::Xor | Binary::Ne => "xor",
            Binary::Eq => {
                let differ = self.let_("pred", &format!("xor.pred {{}}, {a}, {b}"));
                self.line(format!("not.pred {name}, {differ}"));
                return Ok(());
            }
            Binary::Lt => {
                let no = self.let_("pred", &format!("not.pred {{}}, {a}"));
                self.line(format!("and.pred {name}, {no}, {b}"));
                return Ok(());
            }
            _ => return self.unsupported(format!("{op:?} on bool")),
        };
        self.line(format!("{op}.pred {name}, {a}, {b}"));
        Ok(())
    }

    fn binary_of_floats(
        &mut self,
        name: &str,
        dtype: DType,
        op: Binary,
        a: &str,
        b: &str,
    ) -> Result<()> {
        if matches!(op, Binary::Max | Binary::Min) && dtype == DType::F64 {
            // Of a NaN and a number the instruction takes the number.
            let op = if op == Binary::Max { "max" } else { "min" };
            let most = self.let_("f64", &format!("{op}.f64 {{}}, {a}, {b}"));
            let sum = self.let_("f64", &format!("add.rn.f64 {{}}, {a}, {b}"));
            let nan = self.let_("pred", &format!("setp.nan.f64 {{}}, {a}, {b}"));
            self.line(format!("selp.f64 {name}, {sum}, {most}, {nan}"));
            return Ok(());
        }
        // Without a rounding, a product and a sum may become one.
        let op = match (op, dtype) {
            (Binary::Add, _) => "add.rn",
            (Binary::Sub, _) => "sub.rn",
            (Binary::Mul, _) => "mul.rn",
            (Binary::Lt, _) => "setp.lt",
            (Binary::Eq, _) => "setp.eq",
            (Binary::Ne, _) => "setp.neu",
            (Binary::FDiv, DType::F32 | DType::F64) => "div.rn",
            (Binary::Max, DType::F32) => "max.NaN",
            (Binary::Min, DType::F32) => "min.NaN",
            _ => return self.unsupported(format!("{op:?} on {dtype}")),
        };
        self.line(format!("{op}.{dtype} {name}, {a}, {b}"));
        Ok(())
    }

    fn binary_of_integers(
        &mut self,
        name: &str,
        dtype: DType,
        op: Binary,
        a: &str,
        b: &str,
    ) -> Result<()> {
        let ty = number(dtype);
        let bits = if dtype.size() == 8 { "b64" } else { "b32" };
        let text = match op {
            Binary::Add => format!("add.{ty} {{}}, {a}, {b}"),
            Binary::Sub => format!("sub.{ty} {{}}, {a}, {b}"),
            Binary::Mul => format!("mul.lo.{ty} {{}}, {a}, {b}"),
            Binary::Max => format!("max.{ty} {{}}, {a}, {b}"),
            Binary::Min => format!("min.{ty} {{}}, {a}, {b}"),
            Binary::And => format!("and.{bits} {{}}, {a}, {b}"),
            Binary::Or => format!("or.{bits} {{}}, {a}, {b}"),
            Binary::Xor => format!("xor.{bits} {{}}, {a}, {b}"),
            Binary::TruncDiv | Binary::TruncMod | Binary::FloorDiv | Binary::FloorMod => {
                let value = self.division(dtype, op, a, b);
                format!("mov.{bits} {{}}, {value}")
            }
            Binary::Lt => format!("setp.lt.{ty} {{}}, {a}, {b}"),
            Binary::Eq => format!("setp.eq.{ty} {{}}, {a}, {b}"),
            Binary::Ne => format!("setp.ne.{ty} {{}}, {a}, {b}"),
            Binary::Shl | Binary::Shr => {
                let count = self.count(dtype, b);
                match op {
                    Binary::Shl => format!("shl.{bits} {{}}, {a}, {count}"),
                    _ => format!("shr.{ty} {{}}, {a}, {count}"),
                }
            }
            _ => return self.unsupported(format!("{op:?} on {dtype}")),
        };
        match op {
            Binary::Lt | Binary::Eq | Binary::Ne => self.line(text.replacen("{}", name, 1)),
            _ => self.wrapping(name, dtype, &text),
        }
        Ok(())
    }

    /// A quotient or a remainder: 0 for a zero divisor, whatever the instruction makes of it.
    fn division(&mut self, dtype: DType, op: Binary, a: &str, b: &str) -> String {
        let (class, ty) = (class(dtype), number(dtype));
        let signed = dtype.is_signed();
        let quotient = matches!(op, Binary::TruncDiv | Binary::FloorDiv);
        let floors = signed && matches!(op, Binary::FloorDiv | Binary::FloorMod);
        // Digits are cut off. ptxas does not see that, and has all that it makes of places in fragments in registers.
        let power = self.constants.get(b).copied();
        let power = power.filter(|b| b.is_power_of_two() && b >> (dtype.bits() - 1) == 0);
        if let Some(power) = power.filter(|_| floors || !signed) {
            return match quotient {
                true => {
                    let digits = power.trailing_zeros();
                    self.let_(class, &format!("shr.{ty} {{}}, {a}, {digits}"))
                }
                false => self.let_(class, &format!("and.{class} {{}}, {a}, {}", power - 1)),
            };
        }
        let name = if quotient && !floors { "div" } else { "rem" };
        let mut value = self.let_(class, &format!("{name}.{ty} {{}}, {a}, {b}"));
        if floors {
            // A remainder whose sign is not that of the divisor is one too few.
            let some = self.let_("pred", &format!("setp.ne.{ty} {{}}, {value}, 0"));
            let differ = self.let_(class, &format!("xor.{class} {{}}, {value}, {b}"));
            let few = self.let_(
                "pred",
                &format!("setp.lt.and.{ty} {{}}, {differ}, 0, {some}"),
            );
            let rest = match quotient {
                true => self.let_(class, &format!("div.{ty} {{}}, {a}, {b}")),
                false => value,
            };
            let more = match quotient {
                true => self.let_(class, &format!("sub.{ty} {{}}, {rest}, 1")),
                false => self.let_(class, &format!("add.{ty} {{}}, {rest}, {b}")),
            };
            value = self.let_(class, &format!("selp.{class} {{}}, {more}, {rest}, {few}"));
        }
        let none = self.let_("pred", &format!("setp.eq.{ty} {{}}, {b}, 0"));
        self.let_(class, &format!("selp.{class} {{}}, 0, {value}, {none}"))
    }

    /// By how much is shifted: a number without sign, of which what is more than the width counts as the width.
    fn count(&mut self, dtype: DType, b: &str) -> String {
        match dtype.size() {
            8 => {
                let most = self.let_("b64", &format!("min.u64 {{}}, {b}, 64"));
                self.let_("b32", &format!("cvt.u32.u64 {{}}, {most}"))
            }
            4 => b.to_string(),
            // A negative one is as large as the type has it without its sign.
            _ if dtype.is_signed() => {
                let mask = u32::MAX >> (32 - dtype.bits());
                self.let_("b32", &format!("and.b32 {{}}, {b}, {mask:#x}"))
            }
            _ => b.to_string(),
        }
    }

    pub(super) fn cast(&mut self, dst: Reg, a: Reg) -> Result<()> {
        let (from, to) = (self.p.ty(a).dtype, self.p.ty(dst).dtype);
        let a = self.r(a);
        if from == to {
            self.name(dst, a);
            return Ok(());
        }
        let name = self.define(dst);
        let wide = |t: DType| matches!(t, DType::F32 | DType::F64);
        match (from, to) {
            (DType::Bool, t) if t.is_int() || wide(t) => {
                let one = crate::ir::scalar::constant(t, 1);
                let (one, zero) = (literal(t, one), literal(t, 0));
                self.line(format!("selp.{} {name}, {one}, {zero}, {a}", class(t)));
            }
            (f, DType::Bool) if wide(f) => {
                self.line(format!("setp.neu.{f} {name}, {a}, {}", literal(f, 0)));
            }
            (f, DType::Bool) if f.is_int() => {
                self.line(format!("setp.ne.{} {name}, {a}, 0", number(f)));
            }
            (f, t) if f.is_int() && t.is_int() => match (f.size(), t.size()) {
                (8, 8) => self.line(format!("mov.b64 {name}, {a}")),
                (_, 8) => {
                    let wide = if f.is_signed() { "s64" } else { "u64" };
                    self.line(format!("cvt.{wide}.{} {name}, {a}", number(f)));
                }
                (8, _) => {
                    let low = self.let_("b32", &format!("cvt.u32.u64 {{}}, {a}"));
                    self.narrowed(&name, t, &low);
                }
                _ => self.narrowed(&name, t, &a),
            },
            (f, t) if f.is_int() && wide(t) => {
                self.line(format!("cvt.rn.{t}.{} {name}, {a}", number(f)));
            }
            (f, t) if wide(f) && t.is_int() => self.integer_of(&name, f, t, &a),
            (DType::F32, DType::F64) => self.line(format!("cvt.f64.f32 {name}, {a}")),
            (DType::F64, DType::F32) => self.line(format!("cvt.rn.f32.f64 {name}, {a}")),
            (DType::F16, DType::F32) => self.line(format!("cvt.f32.f16 {name}, {a}")),
            (DType::F32, DType::F16) => self.line(format!("cvt.rn.f16.f32 {name}, {a}")),
            (DType::BF16, DType::F32) => {
                let zero = self.let_("b16", "mov.b16 {}, 0");
                self.line(format!("mov.b32 {name}, {{{zero}, {a}}}"));
            }
            (DType::F32, DType::BF16) => {
                let pair = self.let_("b32", &format!("cvt.rn.bf16x2.f32 {{}}, 0f00000000, {a}"));
                self.line(format!("cvt.u16.u32 {name}, {pair}"));
            }
            _ => return self.unsupported(format!("a cast from {from} to {to}")),
        }
        Ok(())
    }

    /// The instruction has the nearest integer of 32 or 64 bits; what it makes of a NaN differs.
    fn integer_of(&mut self, name: &str, from: DType, to: DType, a: &str) {
        let (class, ty) = (class(to), number(to));
        let mut value = self.let_(class, &format!("cvt.rzi.{ty}.{from} {{}}, {a}"));
        if to.size() < 4 {
            let (low, high) = crate::ir::scalar::int_limits(to);
            value = self.let_(class, &format!("min.{ty} {{}}, {value}, {high}"));
            value = self.let_(class, &format!("max.{ty} {{}}, {value}, {low}"));
        }
        let nan = self.let_("pred", &format!("setp.nan.{from} {{}}, {a}, {a}"));
        self.line(format!("selp.{class} {name}, 0, {value}, {nan}"));
    }

    pub(super) fn bitcast(&mut self, dst: Reg, a: Reg) -> Result<()> {
        let (from, to) = (self.p.ty(a).dtype, self.p.ty(dst).dtype);
        let a = self.r(a);
        let name = self.define(dst);
        match (class(from), class(to)) {
            (_, "pred") | ("pred", _) => {
                return self.unsupported(format!("the bits of {from} as {to}"));
            }
            ("b16", "b16") => self.line(format!("mov.b16 {name}, {a}")),
            ("b16", _) => {
                let wide = self.let_("b32", &format!("cvt.u32.u16 {{}}, {a}"));
                self.narrowed(&name, to, &wide);
            }
            (_, "b16") => self.line(format!("cvt.u16.u32 {name}, {a}")),
            _ if to.size() == 8 => self.line(format!("mov.b64 {name}, {a}")),
            _ if to.size() == 4 => self.line(format!("mov.b32 {name}, {a}")),
            _ => self.narrowed(&name, to, &a),
        }
        Ok(())
    }
}
