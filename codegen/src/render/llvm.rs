//! LLVM assembly. It is text, so that it can be read, compared and cached without LLVM; the
//! compiler parses it in well under a millisecond.
//!
//! The entry point is `void f(ptr args, i64 begin, i64 end)`: `args[i]` is the address or the
//! value of argument `i`; groups `begin..end` are run.

mod avx512;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Language, Renderer, Source};
use crate::DType;
use crate::error::{Error, Result};
use crate::ir::{Binary, ReduceOp, StoreMode, Unary};
use crate::lower::decomp::Caps;
use crate::lower::{Access, Arg, Inst, Mem, Program, Reg, Ty};
use crate::target::Target;

/// Renders LLVM assembly for CPUs.
#[derive(Clone, Copy, Default, Debug)]
pub struct LlvmRenderer;

impl Renderer for LlvmRenderer {
    fn name(&self) -> &'static str {
        "llvm"
    }

    fn caps(&self, t: &Target) -> Caps {
        let caps = super::cpu_caps(t);
        if avx512::native(t) {
            avx512::caps(caps)
        } else {
            caps
        }
    }

    fn render(&self, p: &Program, t: &Target) -> Result<Source> {
        let mut text = Text {
            p,
            t,
            body: String::new(),
            values: vec![String::new(); p.regs.len()],
            declared: BTreeSet::new(),
            label: "entry".into(),
            temps: 0,
            opened: Vec::new(),
            loops: 0,
        };
        text.function()?;
        let mut out = format!("target triple = \"{}\"\n\n", t.triple);
        for line in &text.declared {
            let _ = writeln!(out, "declare {line}");
        }
        let _ = writeln!(
            out,
            "\ndefine void @{}(ptr noalias readonly %args, i64 %begin, i64 %end) #0 {{\nentry:",
            p.name
        );
        out.push_str(&text.body);
        let _ = write!(
            out,
            "  ret void\n}}\n\nattributes #0 = {{ nounwind \"target-cpu\"=\"{}\" \
             \"target-features\"=\"{}\" \"prefer-vector-width\"=\"{}\" }}\n",
            t.cpu,
            t.features,
            t.vector_bytes * 8
        );
        Ok(Source {
            language: Language::Llvm,
            entry: p.name.clone(),
            text: out,
        })
    }
}

enum Open {
    Loop {
        id: usize,
        next: String,
        extent: String,
    },
    Once {
        id: usize,
    },
}

struct Text<'a> {
    p: &'a Program,
    t: &'a Target,
    body: String,
    values: Vec<String>,
    declared: BTreeSet<String>,
    label: String,
    temps: usize,
    opened: Vec<Open>,
    loops: usize,
}

fn scalar(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "i1",
        DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => "i8",
        // bfloat16 is moved as its bits; its arithmetic is done in f32.
        DType::I16 | DType::U16 | DType::BF16 => "i16",
        DType::I32 | DType::U32 => "i32",
        DType::I64 | DType::U64 => "i64",
        DType::F16 => "half",
        DType::F32 => "float",
        DType::F64 => "double",
    }
}

fn spelled(ty: Ty) -> String {
    vector(scalar(ty.dtype), ty.lanes)
}

fn vector(element: &str, lanes: u32) -> String {
    if lanes == 1 {
        element.to_string()
    } else {
        format!("<{lanes} x {element}>")
    }
}

/// The type as it appears in names of intrinsics.
fn mangled(element: &str, lanes: u32) -> String {
    let e = match element {
        "half" => "f16",
        "float" => "f32",
        "double" => "f64",
        "ptr" => "p0",
        other => other,
    };
    if lanes == 1 {
        e.to_string()
    } else {
        format!("v{lanes}{e}")
    }
}

fn memory_type(dtype: DType) -> &'static str {
    if dtype == DType::Bool {
        "i8"
    } else {
        scalar(dtype)
    }
}

fn literal(dtype: DType, bits: u64) -> String {
    match dtype {
        DType::Bool => if bits & 1 == 1 { "true" } else { "false" }.into(),
        DType::F16 => format!("0xH{:04X}", bits as u16),
        DType::F32 => format!(
            "0x{:016X}",
            f64::from(f32::from_bits(bits as u32)).to_bits()
        ),
        DType::F64 => format!("0x{bits:016X}"),
        DType::I64 | DType::U64 => format!("{}", bits as i64),
        _ => {
            let shift = 64 - dtype.bits();
            format!("{}", ((bits << shift) as i64) >> shift)
        }
    }
}

impl Text<'_> {
    fn unsupported<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::Render {
            renderer: "llvm",
            kernel: self.p.name.clone(),
            what: what.into(),
            target: self.t.arch.clone(),
        })
    }

    fn line(&mut self, text: impl AsRef<str>) {
        self.body.push_str("  ");
        self.body.push_str(text.as_ref());
        self.body.push('\n');
    }

    /// A new temporary with the value of an expression.
    fn let_(&mut self, expression: impl AsRef<str>) -> String {
        let name = format!("%t{}", self.temps);
        self.temps += 1;
        self.line(format!("{name} = {}", expression.as_ref()));
        name
    }

    fn start(&mut self, label: &str) {
        let _ = writeln!(self.body, "{label}:");
        self.label = label.to_string();
    }

    fn v(&self, reg: Reg) -> String {
        self.values[reg.0 as usize].clone()
    }

    fn set(&mut self, dst: Reg, value: String) {
        self.values[dst.0 as usize] = value;
    }

    fn constant(&self, ty: Ty, bits: u64) -> String {
        let one = literal(ty.dtype, bits);
        self.splat_constant(scalar(ty.dtype), ty.lanes, &one)
    }

    fn splat_constant(&self, element: &str, lanes: u32, one: &str) -> String {
        if lanes == 1 {
            one.to_string()
        } else {
            format!("splat ({element} {one})")
        }
    }

    fn splat(&mut self, element: &str, lanes: u32, value: &str) -> String {
        if lanes == 1 {
            return value.to_string();
        }
        if !value.starts_with('%') {
            return self.splat_constant(element, lanes, value);
        }
        let v = vector(element, lanes);
        let first = self.let_(format!(
            "insertelement {v} poison, {element} {value}, i64 0"
        ));
        self.let_(format!(
            "shufflevector {v} {first}, {v} poison, <{lanes} x i32> zeroinitializer"
        ))
    }

    /// Calls an intrinsic whose name is mangled by one type.
    fn intrinsic(
        &mut self,
        name: &str,
        element: &str,
        lanes: u32,
        args: &[(&str, &str)],
    ) -> String {
        let result = vector(element, lanes);
        let full = format!("llvm.{name}.{}", mangled(element, lanes));
        self.call(&full, &result, args)
    }

    fn call(&mut self, name: &str, result: &str, args: &[(&str, &str)]) -> String {
        let types: Vec<&str> = args
            .iter()
            .map(|(t, _)| t.split(" align").next().unwrap_or(t))
            .collect();
        self.declared
            .insert(format!("{result} @{name}({})", plain(&types)));
        let list: Vec<String> = args.iter().map(|(t, v)| format!("{t} {v}")).collect();
        let call = format!("call {result} @{name}({})", list.join(", "));
        if result == "void" {
            self.line(call);
            String::new()
        } else {
            self.let_(call)
        }
    }

    fn function(&mut self) -> Result<()> {
        if self.p.items != 1 {
            return self.unsupported(format!("a group of {} work-items", self.p.items));
        }
        for (i, arg) in self.p.args.iter().enumerate() {
            self.line(format!("%slot{i} = getelementptr i64, ptr %args, i64 {i}"));
            let ty = match arg {
                Arg::Buffer { .. } => "ptr",
                Arg::Var { .. } => "i64",
            };
            self.line(format!("%arg{i} = load {ty}, ptr %slot{i}, align 8"));
        }
        for (i, acc) in self.p.accs.iter().enumerate() {
            self.line(format!("%acc{i} = alloca {}", spelled(*acc)));
        }
        for (i, (dtype, len)) in self.p.locals.iter().enumerate() {
            self.line(format!(
                "%local{i} = alloca [{len} x {}], align 64",
                memory_type(*dtype)
            ));
        }
        // Where a scalar access is switched off, it goes here instead.
        self.line("%nowhere = alloca i64, align 8");
        self.line("store i64 0, ptr %nowhere, align 8");
        for inst in &self.p.insts {
            self.inst(inst)?;
        }
        Ok(())
    }

    fn inst(&mut self, inst: &Inst) -> Result<()> {
        match inst {
            Inst::Const { dst, bits } => {
                let value = self.constant(self.p.ty(*dst), *bits);
                self.set(*dst, value);
            }
            Inst::Var { dst, arg } => self.set(*dst, format!("%arg{arg}")),
            Inst::Lanes { dst } => {
                let n = self.p.ty(*dst).lanes;
                let list: Vec<String> = (0..n).map(|i| format!("i64 {i}")).collect();
                self.set(
                    *dst,
                    if n == 1 {
                        "0".into()
                    } else {
                        format!("<{}>", list.join(", "))
                    },
                );
            }
            Inst::Mask { dst, count } => {
                let n = self.p.ty(*dst).lanes;
                let count = self.v(*count);
                let count = self.intrinsic(
                    "smin",
                    "i64",
                    1,
                    &[("i64", &count), ("i64", &n.to_string())],
                );
                let count = self.intrinsic("smax", "i64", 1, &[("i64", &count), ("i64", "0")]);
                let small = self.let_(format!("trunc i64 {count} to i32"));
                let wide = self.splat("i32", n, &small);
                let list: Vec<String> = (0..n).map(|i| format!("i32 {i}")).collect();
                let iota = if n == 1 {
                    "0".into()
                } else {
                    format!("<{}>", list.join(", "))
                };
                let value = self.let_(format!("icmp slt {} {iota}, {wide}", vector("i32", n)));
                self.set(*dst, value);
            }
            Inst::Item { dst } => self.set(*dst, "0".into()),
            Inst::Splat { dst, a } => {
                let ty = self.p.ty(*dst);
                let a = self.v(*a);
                let value = self.splat(scalar(ty.dtype), ty.lanes, &a);
                self.set(*dst, value);
            }
            Inst::Unary { dst, op, a } => {
                let value = self.unary(self.p.ty(*dst), *op, *a)?;
                self.set(*dst, value);
            }
            Inst::Binary { dst, op, a, b } => {
                let (ty, a, b) = (self.p.ty(*a), self.v(*a), self.v(*b));
                let value = self.binary(ty, *op, &a, &b)?;
                self.set(*dst, value);
            }
            Inst::Select { dst, cond, a, b } => {
                let ty = spelled(self.p.ty(*dst));
                let c = spelled(self.p.ty(*cond));
                let value = self.let_(format!(
                    "select {c} {}, {ty} {}, {ty} {}",
                    self.v(*cond),
                    self.v(*a),
                    self.v(*b)
                ));
                self.set(*dst, value);
            }
            Inst::Fma { dst, a, b, c } => {
                let ty = self.p.ty(*dst);
                let (a, b, c) = (self.v(*a), self.v(*b), self.v(*c));
                let value = self.fma(ty, &a, &b, &c)?;
                self.set(*dst, value);
            }
            Inst::Cast { dst, a } => {
                let value = self.cast(self.p.ty(*dst), *a)?;
                self.set(*dst, value);
            }
            Inst::Bitcast { dst, a } => {
                let (to, from) = (spelled(self.p.ty(*dst)), spelled(self.p.ty(*a)));
                let value = if to == from {
                    self.v(*a)
                } else {
                    self.let_(format!("bitcast {from} {} to {to}", self.v(*a)))
                };
                self.set(*dst, value);
            }
            Inst::Load {
                dst,
                mem,
                index,
                access,
                gate,
            } => {
                let value = self.load(*dst, *mem, *index, *access, *gate);
                self.set(*dst, value);
            }
            Inst::Store {
                mode,
                mem,
                index,
                access,
                value,
                gate,
            } => {
                self.store(*mode, *mem, *index, *access, *value, *gate)?;
            }
            Inst::Horizontal { dst, op, a } => {
                let value = self.horizontal(*op, *a)?;
                self.set(*dst, value);
            }
            Inst::SetAcc { acc, a } => {
                let ty = spelled(self.p.accs[acc.0 as usize]);
                self.line(format!("store {ty} {}, ptr %acc{}", self.v(*a), acc.0));
            }
            Inst::GetAcc { dst, acc } => {
                let ty = spelled(self.p.ty(*dst));
                let value = self.let_(format!("load {ty}, ptr %acc{}", acc.0));
                self.set(*dst, value);
            }
            Inst::Loop { var, extent } => self.open_loop(*var, "0", &extent.to_string(), false),
            Inst::Groups { var } => self.open_loop(*var, "%begin", "%end", true),
            Inst::Once => {
                let id = self.loops;
                self.loops += 1;
                let first = self.let_("icmp eq i64 %begin, 0");
                self.line(format!("br i1 {first}, label %B{id}, label %B{id}.exit"));
                self.start(&format!("B{id}"));
                self.opened.push(Open::Once { id });
            }
            Inst::End => match self.opened.pop() {
                Some(Open::Loop { id, next, extent }) => {
                    let (var, _) = next.rsplit_once('.').unwrap_or((&next, ""));
                    let var = var.to_string();
                    self.line(format!("br label %B{id}.latch"));
                    self.start(&format!("B{id}.latch"));
                    self.line(format!("{next} = add nuw nsw i64 {var}, 1"));
                    let more = self.let_(format!("icmp ult i64 {next}, {extent}"));
                    self.line(format!("br i1 {more}, label %B{id}, label %B{id}.exit"));
                    self.start(&format!("B{id}.exit"));
                }
                Some(Open::Once { id }) => {
                    self.line(format!("br label %B{id}.exit"));
                    self.start(&format!("B{id}.exit"));
                }
                None => return self.unsupported("an end without a beginning"),
            },
            // One work-item per group: everything before has happened.
            Inst::Barrier => {}
        }
        Ok(())
    }

    fn open_loop(&mut self, var: Reg, first: &str, extent: &str, maybe_empty: bool) {
        let id = self.loops;
        self.loops += 1;
        if maybe_empty {
            let some = self.let_(format!("icmp ult i64 {first}, {extent}"));
            self.line(format!("br i1 {some}, label %B{id}.pre, label %B{id}.exit"));
            self.start(&format!("B{id}.pre"));
        }
        let from = self.label.clone();
        self.line(format!("br label %B{id}"));
        self.start(&format!("B{id}"));
        let name = format!("%i{id}");
        let next = format!("%i{id}.next");
        self.line(format!(
            "{name} = phi i64 [ {first}, %{from} ], [ {next}, %B{id}.latch ]"
        ));
        self.set(var, name);
        self.opened.push(Open::Loop {
            id,
            next,
            extent: extent.to_string(),
        });
    }

    fn fma(&mut self, ty: Ty, a: &str, b: &str, c: &str) -> Result<String> {
        let element = scalar(ty.dtype);
        let t = spelled(ty);
        let has = self.t.arch == "aarch64" || self.t.features.contains("+fma");
        if matches!(ty.dtype, DType::F32 | DType::F64) && has {
            return Ok(self.intrinsic("fma", element, ty.lanes, &[(&t, a), (&t, b), (&t, c)]));
        }
        let product = self.binary(ty, Binary::Mul, a, b)?;
        self.binary(ty, Binary::Add, &product, c)
    }

    fn unary(&mut self, ty: Ty, op: Unary, a: Reg) -> Result<String> {
        let a = self.v(a);
        let t = spelled(ty);
        let e = scalar(ty.dtype);
        let float = arithmetic_float(ty.dtype);
        if ty.dtype.is_float() && !float {
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
            Unary::Recip if float => {
                let one =
                    self.constant(ty, crate::interp::scalar::identity(ReduceOp::Mul, ty.dtype));
                self.let_(format!("fdiv {t} {one}, {a}"))
            }
            Unary::Sqrt if float => self.intrinsic("sqrt", e, ty.lanes, &[(&t, &a)]),
            Unary::Trunc if float => self.intrinsic("trunc", e, ty.lanes, &[(&t, &a)]),
            Unary::Floor if float => self.intrinsic("floor", e, ty.lanes, &[(&t, &a)]),
            Unary::Ceil if float => self.intrinsic("ceil", e, ty.lanes, &[(&t, &a)]),
            Unary::RoundEven if float => self.intrinsic("roundeven", e, ty.lanes, &[(&t, &a)]),
            Unary::Exp2 if ty.dtype == DType::F32 => self.exp2(ty, &a),
            _ => return self.unsupported(format!("{op:?} on {}", ty.dtype)),
        })
    }

    /// An instruction on two operands of one type.
    fn two(&mut self, name: &str, t: &str, a: &str, b: &str) -> String {
        self.let_(format!("{name} {t} {a}, {b}"))
    }

    fn pick(&mut self, ty: Ty, cond: &str, a: &str, b: &str) -> String {
        let t = spelled(ty);
        let c = vector("i1", ty.lanes);
        self.let_(format!("select {c} {cond}, {t} {a}, {t} {b}"))
    }

    fn binary(&mut self, ty: Ty, op: Binary, a: &str, b: &str) -> Result<String> {
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
        let count = self.pick(ty, &fits, b, &zero);
        let name = if op == Binary::Shl { "shl" } else { "lshr" };
        let shifted = self.two(name, &t, a, &count);
        self.pick(ty, &fits, &shifted, &zero)
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
        let safe = known.is_some_and(|k| k > 0);
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

    fn cast(&mut self, to: Ty, a: Reg) -> Result<String> {
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

    /// The address, or the vector of addresses, of an access.
    fn address(&mut self, mem: Mem, element: &str, index: Reg) -> String {
        let base = match mem {
            Mem::Arg(i) => format!("%arg{i}"),
            Mem::Local(i) => format!("%local{i}"),
        };
        let ty = spelled(self.p.ty(index));
        let index = self.v(index);
        self.let_(format!("getelementptr {element}, ptr {base}, {ty} {index}"))
    }

    fn loaded_value(&mut self, ty: Ty, value: String) -> String {
        if ty.dtype != DType::Bool {
            return value;
        }
        let t = vector("i8", ty.lanes);
        let zero = self.splat_constant("i8", ty.lanes, "0");
        self.let_(format!("icmp ne {t} {value}, {zero}"))
    }

    fn stored_value(&mut self, ty: Ty, value: String) -> String {
        if ty.dtype != DType::Bool {
            return value;
        }
        self.let_(format!(
            "zext {} {value} to {}",
            spelled(ty),
            vector("i8", ty.lanes)
        ))
    }

    fn load(
        &mut self,
        dst: Reg,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Option<(Reg, Reg)>,
    ) -> String {
        let ty = self.p.ty(dst);
        let element = memory_type(ty.dtype);
        let t = vector(element, ty.lanes);
        let align = ty.dtype.size();
        let mut address = self.address(mem, element, index);
        let all = self.splat_constant("i1", ty.lanes, "true");
        let mask_ty = vector("i1", ty.lanes);
        let gate_value = gate.map(|(g, alt)| (self.v(g), self.v(alt)));
        if access == Access::Gather && ty.lanes > 1 {
            let name = format!(
                "llvm.masked.gather.{}.{}",
                mangled(element, ty.lanes),
                mangled("ptr", ty.lanes)
            );
            let mask = gate_value.as_ref().map_or(all, |(g, _)| g.clone());
            let ptrs = format!("{} align {align}", vector("ptr", ty.lanes));
            let raw = self.call(
                &name,
                &t,
                &[
                    (&ptrs, &address),
                    (&mask_ty, &mask),
                    (&t, "zeroinitializer"),
                ],
            );
            let value = self.loaded_value(ty, raw);
            return match gate_value {
                Some((g, alt)) => self.pick(ty, &g, &value, &alt),
                None => value,
            };
        }
        match gate_value {
            None => {
                let raw = self.let_(format!("load {t}, ptr {address}, align {align}"));
                self.loaded_value(ty, raw)
            }
            Some((g, alt)) if ty.lanes == 1 => {
                address = self.let_(format!("select i1 {g}, ptr {address}, ptr %nowhere"));
                let raw = self.let_(format!("load {t}, ptr {address}, align {align}"));
                let value = self.loaded_value(ty, raw);
                self.pick(ty, &g, &value, &alt)
            }
            Some((g, alt)) => {
                let name = format!("llvm.masked.load.{}.p0", mangled(element, ty.lanes));
                let ptr = format!("ptr align {align}");
                let plain = ty.dtype != DType::Bool;
                let other = if plain {
                    alt.as_str()
                } else {
                    "zeroinitializer"
                };
                let raw = self.call(&name, &t, &[(&ptr, &address), (&mask_ty, &g), (&t, other)]);
                if plain {
                    return raw;
                }
                let value = self.loaded_value(ty, raw);
                self.pick(ty, &g, &value, &alt)
            }
        }
    }

    fn store(
        &mut self,
        mode: StoreMode,
        mem: Mem,
        index: Reg,
        access: Access,
        value: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        let ty = self.p.ty(value);
        let element = memory_type(ty.dtype);
        let t = vector(element, ty.lanes);
        let align = ty.dtype.size();
        let mut address = self.address(mem, element, index);
        let mask_ty = vector("i1", ty.lanes);
        let mut value = self.v(value);
        let gate = gate.map(|g| self.v(g));
        let scatter = access == Access::Gather && ty.lanes > 1;
        if let (Some(g), 1) = (&gate, ty.lanes) {
            address = self.let_(format!("select i1 {g}, ptr {address}, ptr %nowhere"));
        }
        if let StoreMode::Combine(op) = mode {
            let raw = match &gate {
                Some(g) if ty.lanes > 1 => {
                    let name = format!("llvm.masked.load.{}.p0", mangled(element, ty.lanes));
                    let ptr = format!("ptr align {align}");
                    self.call(
                        &name,
                        &t,
                        &[(&ptr, &address), (&mask_ty, g), (&t, "zeroinitializer")],
                    )
                }
                _ => self.let_(format!("load {t}, ptr {address}, align {align}")),
            };
            let old = self.loaded_value(ty, raw);
            value = self.binary(ty, op.binary(), &old, &value)?;
        }
        let value = self.stored_value(ty, value);
        if scatter {
            let name = format!(
                "llvm.masked.scatter.{}.{}",
                mangled(element, ty.lanes),
                mangled("ptr", ty.lanes)
            );
            let mask = gate.unwrap_or_else(|| self.splat_constant("i1", ty.lanes, "true"));
            let ptrs = format!("{} align {align}", vector("ptr", ty.lanes));
            self.call(
                &name,
                "void",
                &[(&t, &value), (&ptrs, &address), (&mask_ty, &mask)],
            );
            return Ok(());
        }
        match gate {
            Some(g) if ty.lanes > 1 => {
                let name = format!("llvm.masked.store.{}.p0", mangled(element, ty.lanes));
                let ptr = format!("ptr align {align}");
                self.call(
                    &name,
                    "void",
                    &[(&t, &value), (&ptr, &address), (&mask_ty, &g)],
                );
            }
            _ => self.line(format!("store {t} {value}, ptr {address}, align {align}")),
        }
        Ok(())
    }

    /// Folds halves onto each other; an odd lane count is folded one by one.
    fn horizontal(&mut self, op: ReduceOp, a: Reg) -> Result<String> {
        let mut ty = self.p.ty(a);
        let mut value = self.v(a);
        let element = scalar(ty.dtype);
        while ty.lanes > 1 {
            let whole = spelled(ty);
            if ty.lanes % 2 == 1 {
                let one = Ty { lanes: 1, ..ty };
                let mut sum = self.let_(format!("extractelement {whole} {value}, i64 0"));
                for lane in 1..ty.lanes {
                    let next = self.let_(format!("extractelement {whole} {value}, i64 {lane}"));
                    sum = self.binary(one, op.binary(), &sum, &next)?;
                }
                return Ok(sum);
            }
            let half = ty.lanes / 2;
            let mut part = |from: u32| {
                let list: Vec<String> = (from..from + half).map(|i| format!("i32 {i}")).collect();
                self.let_(format!(
                    "shufflevector {whole} {value}, {whole} poison, <{half} x i32> <{}>",
                    list.join(", ")
                ))
            };
            let (low, high) = (part(0), part(half));
            ty.lanes = half;
            if half == 1 {
                let v = vector(element, 1);
                let single = format!("<1 x {v}>");
                let low = self.let_(format!("extractelement {single} {low}, i64 0"));
                let high = self.let_(format!("extractelement {single} {high}, i64 0"));
                value = self.binary(ty, op.binary(), &low, &high)?;
            } else {
                value = self.binary(ty, op.binary(), &low, &high)?;
            }
        }
        Ok(value)
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

fn plain(types: &[&str]) -> String {
    types.join(", ")
}
