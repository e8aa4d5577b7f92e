//! C: with the vector extensions of clang, for machines with only the clang program, and OpenCL C.
//!
//! Vectors of `Bool` are vectors of bytes 0 and 1. Integer arithmetic is done in unsigned types,
//! whose overflow is defined. Entry point as in [`crate::render::llvm`].

mod arith;
mod atomic;
mod beside;
mod cuda;
mod hip;
mod lanes;
mod memory;
mod opencl;

pub use cuda::CudaRenderer;
pub use hip::HipRenderer;
pub use opencl::OpenClRenderer;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::ReduceOp;
use crate::lower::decomp::Caps;
use crate::lower::{Acc, Arg, Extent, Inst, Program, Reg, Ty};
use crate::render::factors::factors;
use crate::render::{Code, ENTRY, Emitter, Language, Source, cpu_caps};
use crate::target::{Target, TargetKind};

/// Renders C for CPUs.
#[derive(Clone, Copy, Default, Debug)]
pub struct CRenderer;

impl Emitter for CRenderer {
    fn name(&self) -> &'static str {
        "c"
    }

    fn caps(&self, t: &Target) -> Caps {
        cpu_caps(t)
    }

    fn emit(&self, p: &Program, t: &Target) -> Result<Code> {
        let mut text = Text::new(p, t, Dialect::C);
        if p.items != 1 {
            return text.unsupported(format!("a group of {} work-items", p.items));
        }
        if t.kind == TargetKind::Gpu {
            return text.unsupported("GPU code");
        }
        for inst in &p.insts {
            text.inst(inst)?;
        }
        let mut out = String::from(PRELUDE);
        out.push_str(&text.vectors());
        let _ = writeln!(
            out,
            "\nvoid {ENTRY}(const u64 *args, u64 begin, u64 end) {{"
        );
        for (i, arg) in p.args.iter().enumerate() {
            let _ = match arg {
                Arg::Buffer { dtype, .. } => {
                    let t = memory(*dtype);
                    writeln!(out, "  {t} *arg{i} = ({t} *)args[{i}];")
                }
                Arg::Var { .. } | Arg::Number { .. } | Arg::Tensor(_) => {
                    writeln!(out, "  i64 arg{i} = (i64)args[{i}];")
                }
            };
        }
        for (i, (dtype, len)) in p.locals.iter().enumerate() {
            let _ = writeln!(out, "  {} local{i}[{len}];", memory(*dtype));
        }
        for (i, acc) in p.accs.iter().enumerate() {
            let _ = writeln!(out, "  {} acc{i};", spelled(*acc));
        }
        out.push_str(&text.body);
        out.push_str("}\n");
        Ok(Code::Text(Source {
            language: Language::C,
            entry: ENTRY.into(),
            text: out,
        }))
    }
}

const PRELUDE: &str = "\
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef _Float16 f16; typedef float f32; typedef double f64;
";

fn scalar(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => "u8",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::U16 | DType::BF16 => "u16",
        DType::I32 => "i32",
        DType::U32 => "u32",
        DType::I64 => "i64",
        DType::U64 => "u64",
        DType::F16 => "f16",
        DType::F32 => "f32",
        DType::F64 => "f64",
    }
}

/// The name of the type in memory.
fn memory(dtype: DType) -> &'static str {
    scalar(dtype)
}

/// The integer type of a width, in bits.
fn integer(bits: u32, signed: bool) -> String {
    format!("{}{bits}", if signed { 'i' } else { 'u' })
}

fn spelled(ty: Ty) -> String {
    wide(scalar(ty.dtype), ty.lanes)
}

fn wide(element: &str, lanes: u32) -> String {
    if lanes == 1 {
        element.to_string()
    } else {
        format!("{element}x{lanes}")
    }
}

fn literal(dtype: DType, bits: u64) -> String {
    match dtype {
        DType::Bool => (bits & 1).to_string(),
        DType::F16 => {
            format!("__builtin_bit_cast(f16, (u16){:#x})", bits as u16)
        }
        DType::F32 => {
            let x = f32::from_bits(bits as u32);
            if x.is_finite() && x == x.trunc() && x.abs() < 1e6 && bits != 0x8000_0000 {
                format!("{x:.1}f")
            } else {
                format!("__builtin_bit_cast(f32, {:#x}u)", bits as u32)
            }
        }
        DType::F64 => format!("__builtin_bit_cast(f64, {bits:#x}ull)"),
        DType::I64 if bits as i64 == i64::MIN => "(-0x7fffffffffffffffll - 1)".into(),
        DType::I64 => format!("{}ll", bits as i64),
        DType::U64 => format!("{bits}ull"),
        t if t.is_signed() => {
            let shift = 64 - t.bits();
            format!("({})({}ll)", scalar(t), ((bits << shift) as i64) >> shift)
        }
        t => format!("({}){}u", scalar(t), bits & (u64::MAX >> (64 - t.bits()))),
    }
}

/// The compiler has the conversion without calling a library.
fn convertible(f: DType, d: DType, t: &Target) -> bool {
    let bits_only = |x: DType| x.is_float() && !arithmetic_float(x);
    let half = f == DType::F16 || d == DType::F16;
    let single = f == DType::F32 || d == DType::F32;
    !bits_only(f) && !bits_only(d) && (!half || (t.f16_convert && single))
}

/// What is spelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    /// For CPUs.
    C,
    /// For AMD GPUs.
    Hip,
    /// For NVIDIA GPUs: without vectors, each lane is a variable of its own.
    Cuda,
    /// OpenCL C, likewise.
    OpenCl,
}

impl Dialect {
    /// Each lane is a variable of its own.
    const fn has_lanes_apart(self) -> bool {
        matches!(self, Dialect::Cuda | Dialect::OpenCl)
    }
}

struct Text<'a> {
    p: &'a Program,
    t: &'a Target,
    dialect: Dialect,
    /// The lane that is spelled where lanes are variables of their own.
    lane: u32,
    /// By the number of a register, how often two divides it.
    factors: Vec<u32>,
    body: String,
    types: BTreeSet<(String, u32)>,
    depth: usize,
}

fn arithmetic_float(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::F32 | DType::F64)
}

impl<'a> Text<'a> {
    fn new(p: &'a Program, t: &'a Target, dialect: Dialect) -> Self {
        Text {
            p,
            t,
            dialect,
            lane: 0,
            factors: factors(p),
            body: String::new(),
            types: BTreeSet::new(),
            depth: 1,
        }
    }

    /// The type of a register as it is spelled: that of one lane where lanes are variables of their own.
    fn of(&self, reg: Reg) -> Ty {
        let ty = self.p.ty(reg);
        match self.dialect.has_lanes_apart() {
            true => Ty { lanes: 1, ..ty },
            false => ty,
        }
    }

    /// The name of a register, or of the lane that is spelled.
    fn r(&self, reg: Reg) -> String {
        match self.dialect.has_lanes_apart() && self.p.ty(reg).lanes > 1 {
            true => format!("r{}_{}", reg.0, self.lane),
            false => format!("r{}", reg.0),
        }
    }

    /// The name of an accumulator, likewise.
    fn acc(&self, acc: Acc) -> String {
        match self.dialect.has_lanes_apart() && self.p.accs[acc.0 as usize].lanes > 1 {
            true => format!("acc{}_{}", acc.0, self.lane),
            false => format!("acc{}", acc.0),
        }
    }

    /// Definitions of the vector types that were used.
    fn vectors(&self) -> String {
        let mut out = String::new();
        for (element, lanes) in &self.types {
            let _ = writeln!(
                out,
                "typedef {element} {element}x{lanes} __attribute__((ext_vector_type({lanes})));\n\
                 typedef {element} {element}x{lanes}u __attribute__((ext_vector_type({lanes}), \
                 aligned(sizeof({element}))));"
            );
        }
        out
    }

    fn unsupported<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::Render {
            renderer: match self.dialect {
                Dialect::C => "c",
                Dialect::Hip => "hip",
                Dialect::Cuda => "cuda",
                Dialect::OpenCl => "opencl",
            },
            kernel: self.p.name.clone(),
            what: what.into(),
            target: self.t.arch.clone(),
        })
    }

    fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(
            self.body,
            "{:indent$}{}",
            "",
            text.as_ref(),
            indent = self.depth * 2
        );
    }

    fn ty(&mut self, ty: Ty) -> String {
        self.wide(scalar(ty.dtype), ty.lanes)
    }

    fn wide(&mut self, element: &str, lanes: u32) -> String {
        if lanes > 1 {
            self.types.insert((element.to_string(), lanes));
        }
        wide(element, lanes)
    }

    fn define(&mut self, dst: Reg, value: impl AsRef<str>) {
        let (ty, name) = (self.of(dst), self.r(dst));
        let t = self.ty(ty);
        self.line(format!("{t} {name} = {};", value.as_ref()));
    }

    /// A conversion by value between vectors or scalars of one length.
    fn convert(&mut self, value: &str, element: &str, lanes: u32) -> String {
        let t = self.wide(element, lanes);
        if self.dialect == Dialect::OpenCl && element == "f16" {
            // The rounding of a plain conversion is that of the profile.
            format!("convert_half_rte({value})")
        } else if lanes == 1 {
            format!("(({t})({value}))")
        } else {
            format!("__builtin_convertvector({value}, {t})")
        }
    }

    /// The same bits as another type of the same width.
    fn bits(&mut self, value: &str, element: &str, lanes: u32) -> String {
        let t = self.wide(element, lanes);
        self.same_bits(&t, value)
    }

    /// The same bits as a type whose definition is known to be used.
    fn same_bits(&self, t: &str, value: &str) -> String {
        match self.dialect {
            Dialect::OpenCl => format!("as_{}({value})", self.cl_name(t)),
            _ => format!("__builtin_bit_cast({t}, {value})"),
        }
    }

    fn literal(&self, dtype: DType, bits: u64) -> String {
        match self.dialect {
            Dialect::OpenCl if dtype == DType::F16 && self.t.is_cl() => {
                format!("(ushort){:#x}", bits as u16)
            }
            Dialect::OpenCl => opencl::literal(dtype, bits),
            _ => literal(dtype, bits),
        }
    }

    /// `cond ? a : b` where the condition is a `Bool` value.
    fn select(&mut self, cond: &str, ty: Ty, a: &str, b: &str) -> String {
        if ty.lanes == 1 {
            return format!("({cond} ? {a} : {b})");
        }
        let mask = integer(ty.dtype.bits(), true);
        let t = self.ty(ty);
        let c = self.convert(cond, &mask, ty.lanes);
        format!("(({c} != 0) ? ({t})({a}) : ({t})({b}))")
    }

    /// A comparison as a `Bool` value.
    fn compare(&mut self, lanes: u32, text: &str) -> String {
        if lanes == 1 {
            return format!("(u8)({text})");
        }
        let byte = self.convert(&format!("({text})"), "i8", lanes);
        let t = self.wide("u8", lanes);
        format!("(({t})({byte}) & 1)")
    }

    /// Evaluates an expression lane by lane; `{i}` stands for the lane.
    fn lanewise(&mut self, dst: Reg, each: &str) {
        let (ty, name) = (self.of(dst), self.r(dst));
        let t = self.ty(ty);
        self.line(format!("{t} {name};"));
        if ty.lanes == 1 {
            let lane = self.lane.to_string();
            let one = each.replace("[{i}]", "").replace("{i}", &lane);
            self.line(format!("{name} = {one};"));
        } else {
            let body = each.replace("{i}", "i");
            self.line("#pragma clang loop unroll(full)");
            self.line(format!(
                "for (int i = 0; i < {}; i++) r{}[i] = {body};",
                ty.lanes, dst.0
            ));
        }
    }

    fn inst(&mut self, inst: &Inst) -> Result<()> {
        match inst {
            Inst::Mma { dst, desc, a, b, c } => self.mma(*dst, desc, *a, *b, *c)?,
            Inst::MmaThere { desc, .. } => {
                return self.unsupported(format!("the matrix instruction {desc:?}"));
            }
            Inst::Copy { .. }
            | Inst::MbarrierInit { .. }
            | Inst::TmaLoad { .. }
            | Inst::MbarrierWait { .. } => {
                return self.unsupported("a copy beside the work-items");
            }
            // They are about such instructions.
            Inst::WgmmaWait { .. } | Inst::Expose | Inst::Sent | Inst::Arrived { .. } => {}
            Inst::Const { dst, bits } => {
                let ty = self.of(*dst);
                let t = self.ty(ty);
                let value = self.literal(ty.dtype, *bits);
                self.define(*dst, format!("({t})({value})"));
            }
            Inst::Var { dst, arg } => self.define(*dst, format!("arg{arg}")),
            Inst::Lanes { dst } => self.lanewise(*dst, "{i}"),
            Inst::Mask { dst, count } => {
                self.lanewise(*dst, &format!("{{i}} < {}", self.r(*count)))
            }
            Inst::Item { dst } if self.t.kind == TargetKind::Gpu => self.item(*dst),
            Inst::Item { dst } => self.define(*dst, "0"),
            Inst::Splat { dst, a } => {
                let ty = self.of(*dst);
                let t = self.ty(ty);
                self.define(*dst, format!("({t})({})", self.r(*a)));
            }
            Inst::Unary { dst, op, a } => self.unary(*dst, *op, *a)?,
            Inst::Binary { dst, op, a, b } => {
                let ty = self.of(*a);
                let (a, b) = (self.r(*a), self.r(*b));
                self.binary(*dst, ty, *op, &a, &b)?;
            }
            Inst::Select { dst, cond, a, b } => {
                let ty = self.of(*dst);
                let (cond, a, b) = (self.r(*cond), self.r(*a), self.r(*b));
                let value = self.select(&cond, ty, &a, &b);
                self.define(*dst, value);
            }
            Inst::Dot { dst, a, b, c } => self.dot(*dst, *a, *b, *c),
            Inst::Fma { dst, a, b, c } => self.fma(*dst, *a, *b, *c)?,
            Inst::Cast { dst, a } => self.cast(*dst, *a)?,
            Inst::Bitcast { dst, a } => {
                let ty = self.of(*dst);
                let value = self.bits(&self.r(*a), scalar(ty.dtype), ty.lanes);
                self.define(*dst, value);
            }
            Inst::Load {
                dst,
                mem,
                index,
                access,
                gate,
            } => {
                self.load(*dst, *mem, *index, *access, *gate);
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
            Inst::Horizontal { dst, op, a } => self.horizontal(*dst, *op, *a)?,
            Inst::SetAcc { acc, a } => {
                let ty = self.of(*a);
                self.ty(ty);
                self.line(format!("{} = {};", self.acc(*acc), self.r(*a)));
            }
            Inst::GetAcc { dst, acc } => self.define(*dst, self.acc(*acc)),
            Inst::Loop { .. }
            | Inst::Groups { .. }
            | Inst::Once
            | Inst::End
            | Inst::Attempt { .. }
            | Inst::Commit { .. }
            | Inst::Barrier => self.control(inst)?,
        }
        Ok(())
    }

    /// What opens and closes blocks, and barriers.
    fn control(&mut self, inst: &Inst) -> Result<()> {
        match inst {
            Inst::Loop { var, extent } => {
                let v = var.0;
                let t = self.ty(self.of(*var));
                let extent = match extent {
                    Extent::Known(n) => n.to_string(),
                    Extent::Arg(arg) => format!("arg{arg}"),
                };
                self.line(format!("for ({t} r{v} = 0; r{v} < {extent}; r{v}++) {{"));
                self.depth += 1;
            }
            Inst::Groups { var } if self.t.kind == TargetKind::Gpu => self.open_group(*var),
            Inst::Groups { var } => {
                let v = var.0;
                self.line(format!(
                    "for (i64 r{v} = begin; r{v} < (i64)end; r{v}++) {{"
                ));
                self.depth += 1;
            }
            Inst::Once => {
                let number = match self.t.kind {
                    TargetKind::Gpu => "group",
                    TargetKind::Cpu => "begin",
                };
                self.line(format!("if ({number} == 0) {{"));
                self.depth += 1;
            }
            Inst::End => {
                self.depth = self.depth.saturating_sub(1).max(1);
                self.line("}");
            }
            Inst::Attempt {
                dst,
                mem,
                index,
                gate,
            } => self.attempt(*dst, *mem, *index, *gate)?,
            Inst::Commit { value } => self.commit(*value),
            Inst::Barrier if self.dialect == Dialect::Cuda => self.line("__syncthreads();"),
            Inst::Barrier if self.dialect == Dialect::Hip => self.barrier(),
            Inst::Barrier if self.dialect == Dialect::OpenCl => {
                self.line("barrier(CLK_LOCAL_MEM_FENCE);");
            }
            // One work-item per group: everything before has happened.
            Inst::Barrier => {}
            _ => debug_assert!(false, "{inst:?} is rendered elsewhere"),
        }
        Ok(())
    }

    /// Folds halves onto each other, as the LLVM renderer does.
    fn horizontal(&mut self, dst: Reg, op: ReduceOp, a: Reg) -> Result<()> {
        let mut ty = self.p.ty(a);
        let mut value = format!("r{}", a.0);
        while ty.lanes > 1 && ty.lanes.is_multiple_of(2) {
            let half = ty.lanes / 2;
            let list = |from: u32| {
                (from..from + half)
                    .map(|i| i.to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let (low, high) = if half == 1 {
                (format!("{value}[0]"), format!("{value}[1]"))
            } else {
                (
                    format!("__builtin_shufflevector({value}, {value}, {})", list(0)),
                    format!("__builtin_shufflevector({value}, {value}, {})", list(half)),
                )
            };
            ty.lanes = half;
            let t = self.ty(ty);
            let name = format!("h{}_{half}", dst.0);
            self.line(format!("{t} {name}a = {low}, {name}b = {high};"));
            let (x, y) = (format!("{name}a"), format!("{name}b"));
            let Some(sum) = self.expression(ty, op.binary(), &x, &y)? else {
                return self.unsupported(format!("reduction by {op:?}"));
            };
            self.line(format!("{t} {name} = {sum};"));
            value = name;
        }
        self.define(dst, value);
        Ok(())
    }
}
