//! LLVM assembly. It is text, so that it can be read, compared and cached without LLVM; the
//! compiler parses it in well under a millisecond.
//!
//! The entry point on CPUs is `void f(ptr args, i64 begin, i64 end)`: `args[i]` is the address or
//! the value of argument `i`; groups `begin..end` are run. For GPUs see `gpu`.

mod address;
mod amdgpu;
mod arith;
mod atomic;
mod avx512;
mod dot;
mod gpu;
mod memory;
mod nvptx;
mod transpose;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use hashbrown::HashMap;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::lower::decomp::Caps;
use crate::lower::{Arg, Extent, Inst, Program, Reg, Ty};
use crate::render::factors::factors;
use crate::render::{Code, ENTRY, Emitter, Language, Source};
use crate::target::{Target, TargetKind};

/// Renders LLVM assembly for CPUs and GPUs.
#[derive(Clone, Copy, Default, Debug)]
pub struct LlvmRenderer;

impl Emitter for LlvmRenderer {
    fn name(&self) -> &'static str {
        "llvm"
    }

    fn target(&self, t: Target) -> Target {
        if t.is_nv() { t.in_registers() } else { t }
    }

    fn caps(&self, t: &Target) -> Caps {
        let caps = crate::render::cpu_caps(t);
        if t.is_nv() {
            crate::render::nv_caps(t)
        } else if t.is_amd() {
            amdgpu::caps(crate::render::amd_caps(t), t)
        } else if avx512::native(t) {
            avx512::caps(caps)
        } else {
            caps
        }
    }

    fn emit(&self, p: &Program, t: &Target) -> Result<Code> {
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
            factors: factors(p),
            splats: HashMap::new(),
            constants: HashMap::new(),
            sums: HashMap::new(),
            known: Vec::new(),
            marks: Vec::new(),
        };
        if t.kind == TargetKind::Gpu {
            if !t.is_amd() && !t.is_nv() {
                return text.unsupported("GPU code");
            }
            text.kernel()?;
            return Ok(Code::Text(Source {
                language: Language::Llvm,
                entry: ENTRY.into(),
                text: match t.is_nv() {
                    true => nvptx::module(&text, p),
                    false => amdgpu::module(&text, p, t),
                },
            }));
        }
        text.function()?;
        let mut out = format!("target triple = \"{}\"\n\n", t.triple);
        for line in &text.declared {
            let _ = writeln!(out, "declare {line}");
        }
        let _ = writeln!(
            out,
            "\ndefine void @{ENTRY}(ptr noalias readonly %args, i64 %begin, i64 %end) #0 {{\nentry:"
        );
        out.push_str(&text.body);
        let _ = write!(
            out,
            // The device says at run time whether subnormal numbers are zeros.
            "  ret void\n}}\n\nattributes #0 = {{ nounwind \"denormal-fp-math\"=\"dynamic,dynamic\" \
             \"target-cpu\"=\"{}\" \"target-features\"=\"{}\" \
             \"prefer-vector-width\"=\"{}\" }}\n",
            t.cpu,
            t.features,
            t.vector_bytes * 8
        );
        Ok(Code::Text(Source {
            language: Language::Llvm,
            entry: ENTRY.into(),
            text: out,
        }))
    }
}

enum Open {
    Loop {
        id: usize,
        next: String,
        extent: String,
        ty: &'static str,
        /// There is a loop in it.
        outer: bool,
        /// It adds to accumulators.
        sums: bool,
    },
    Once {
        id: usize,
    },
    Attempt {
        id: usize,
        word: atomic::Word,
    },
    Nothing,
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
    /// Each register is a multiple of two to this power.
    factors: Vec<u32>,
    /// The scalar that is in each lane.
    splats: HashMap<Reg, Reg>,
    /// Constants among the indices that are not negative.
    constants: HashMap<Reg, i64>,
    /// Registers that are another one plus a constant.
    sums: HashMap<Reg, (Reg, i64)>,
    /// Addresses that are there already, and how many of them there were where each open block
    /// began.
    known: Vec<address::Known>,
    marks: Vec<usize>,
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

/// The numbers of lanes, as a constant.
fn iota(element: &str, lanes: u32) -> String {
    if lanes == 1 {
        return "0".into();
    }
    let list: Vec<String> = (0..lanes).map(|i| format!("{element} {i}")).collect();
    format!("<{}>", list.join(", "))
}

/// The type as it appears in names of intrinsics.
fn mangled(element: &str, lanes: u32) -> String {
    let e = match element {
        "half" => "f16",
        "float" => "f32",
        "double" => "f64",
        "ptr" => "p0",
        "ptr addrspace(1)" => "p1",
        "ptr addrspace(3)" => "p3",
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
            .insert(format!("{result} @{name}({})", types.join(", ")));
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
                Arg::Var { .. } | Arg::Number { .. } | Arg::Tensor(_) => "i64",
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

    fn amd(&self) -> bool {
        self.t.is_amd()
    }

    fn inst(&mut self, inst: &Inst) -> Result<()> {
        self.sum(inst);
        match inst {
            Inst::Const { dst, .. }
            | Inst::Var { dst, .. }
            | Inst::Lanes { dst }
            | Inst::Mask { dst, .. }
            | Inst::Item { dst }
            | Inst::Splat { dst, .. }
            | Inst::Unary { dst, .. }
            | Inst::Binary { dst, .. }
            | Inst::Select { dst, .. }
            | Inst::Fma { dst, .. }
            | Inst::Dot { dst, .. }
            | Inst::Mma { dst, .. }
            | Inst::Cast { dst, .. }
            | Inst::Bitcast { dst, .. }
            | Inst::Load { dst, .. }
            | Inst::Horizontal { dst, .. }
            | Inst::GetAcc { dst, .. } => {
                let value = self.value(inst)?;
                self.set(*dst, value);
            }
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
            Inst::SetAcc { acc, a } => {
                let ty = spelled(self.p.accs[acc.0 as usize]);
                let ptr = self.private();
                self.line(format!("store {ty} {}, {ptr} %acc{}", self.v(*a), acc.0));
                if let Some(Open::Loop { sums, .. }) = self.opened.last_mut() {
                    *sums = true;
                }
            }
            Inst::Loop { var, extent } => {
                let extent = match extent {
                    Extent::Known(n) => n.to_string(),
                    Extent::Arg(arg) => format!("%arg{arg}"),
                };
                self.open_loop(*var, "0", &extent, false);
            }
            Inst::Groups { var } if self.gpu() => self.open_group(*var),
            Inst::Groups { var } => self.open_loop(*var, "%begin", "%end", true),
            Inst::Once => {
                let number = if self.gpu() { "%group" } else { "%begin" };
                let first = self.let_(format!("icmp eq i64 {number}, 0"));
                self.open_if(&first);
            }
            Inst::End => self.end()?,
            Inst::Attempt {
                dst,
                mem,
                index,
                gate,
            } => self.attempt(*dst, *mem, *index, *gate)?,
            Inst::Commit { value } => self.commit(*value)?,
            Inst::Barrier if self.t.is_nv() => self.bar_sync(),
            Inst::Barrier if self.amd() => self.barrier(),
            // One work-item per group: everything before has happened.
            Inst::Barrier => {}
        }
        Ok(())
    }

    /// The value of an instruction that defines a register.
    fn value(&mut self, inst: &Inst) -> Result<String> {
        Ok(match *inst {
            Inst::Const { dst, bits } => self.constant(self.p.ty(dst), bits),
            Inst::Var { arg, .. } => format!("%arg{arg}"),
            Inst::Lanes { dst } => {
                let Ty { dtype, lanes } = self.p.ty(dst);
                iota(scalar(dtype), lanes)
            }
            Inst::Mask { dst, count } => self.mask(self.p.ty(dst).lanes, count),
            Inst::Item { dst } if self.gpu() => self.item(dst),
            Inst::Item { .. } => "0".into(),
            Inst::Splat { dst, a } => {
                self.splats.insert(dst, a);
                let ty = self.p.ty(dst);
                let a = self.v(a);
                self.splat(scalar(ty.dtype), ty.lanes, &a)
            }
            Inst::Unary { dst, op, a } => self.unary(self.p.ty(dst), op, a)?,
            Inst::Binary { op, a, b, .. } => {
                let (ty, a, b) = (self.p.ty(a), self.v(a), self.v(b));
                self.binary(ty, op, &a, &b)?
            }
            Inst::Select { dst, cond, a, b } => {
                let [ty, c] = [dst, cond].map(|r| spelled(self.p.ty(r)));
                let [cond, a, b] = [cond, a, b].map(|r| self.v(r));
                self.let_(format!("select {c} {cond}, {ty} {a}, {ty} {b}"))
            }
            Inst::Fma { dst, a, b, c } => {
                let ty = self.p.ty(dst);
                let [a, b, c] = [a, b, c].map(|r| self.v(r));
                self.fma(ty, &a, &b, &c)?
            }
            Inst::Dot { dst, a, b, c } => {
                let ty = self.p.ty(dst);
                let [a, b, c] = [a, b, c].map(|r| self.v(r));
                self.dot(ty.lanes, &a, &b, &c)
            }
            Inst::Mma {
                ref desc, a, b, c, ..
            } => match self.t.is_nv() {
                true => self.mma_sync(desc, a, b, c)?,
                false => self.mma(desc, a, b, c)?,
            },
            Inst::Cast { dst, a } => self.cast(self.p.ty(dst), a)?,
            Inst::Bitcast { dst, a } => {
                let [to, from] = [dst, a].map(|r| spelled(self.p.ty(r)));
                let a = self.v(a);
                if to == from {
                    a
                } else {
                    self.let_(format!("bitcast {from} {a} to {to}"))
                }
            }
            Inst::Load {
                dst,
                mem,
                index,
                access,
                gate,
            } => self.load(dst, mem, index, access, gate),
            Inst::Horizontal { op, a, .. } => self.horizontal(op, a)?,
            Inst::GetAcc { dst, acc } => {
                let ty = spelled(self.p.ty(dst));
                self.let_(format!("load {ty}, {} %acc{}", self.private(), acc.0))
            }
            ref other => return self.unsupported(format!("a value of {other:?}")),
        })
    }

    /// Lanes that are true below a count.
    fn mask(&mut self, lanes: u32, count: Reg) -> String {
        let e = scalar(self.p.ty(count).dtype);
        let count = self.v(count);
        let most = lanes.to_string();
        let count = self.intrinsic("smin", e, 1, &[(e, &count), (e, &most)]);
        let count = self.intrinsic("smax", e, 1, &[(e, &count), (e, "0")]);
        let small = match e {
            "i32" => count,
            _ => self.let_(format!("trunc {e} {count} to i32")),
        };
        let wide = self.splat("i32", lanes, &small);
        let (ty, each) = (vector("i32", lanes), iota("i32", lanes));
        self.let_(format!("icmp slt {ty} {each}, {wide}"))
    }

    /// The end of a block.
    fn end(&mut self) -> Result<()> {
        match self.opened.pop() {
            Some(Open::Loop {
                id,
                next,
                extent,
                ty,
                outer,
                sums,
            }) => {
                self.known.truncate(self.marks.pop().unwrap_or(0));
                let (var, _) = next.rsplit_once('.').unwrap_or((&next, ""));
                let var = var.to_string();
                self.line(format!("br label %B{id}.latch"));
                self.start(&format!("B{id}.latch"));
                if self.gpu() || (sums && !outer) {
                    self.line(format!("{next} = add nuw nsw {ty} {var}, 1"));
                } else {
                    self.plain_step(&var, &next, ty);
                }
                let more = self.let_(format!("icmp ult {ty} {next}, {extent}"));
                self.line(format!("br i1 {more}, label %B{id}, label %B{id}.exit"));
                self.start(&format!("B{id}.exit"));
            }
            Some(Open::Once { id }) => self.close_if(id),
            Some(Open::Nothing) => {}
            Some(Open::Attempt { .. }) | None => {
                return self.unsupported("an end without a beginning");
            }
        }
        Ok(())
    }

    /// A pointer to an accumulator.
    fn private(&self) -> String {
        match self.amd() {
            true => format!("ptr addrspace({})", amdgpu::PRIVATE),
            false => "ptr".into(),
        }
    }

    /// The next value of a counter of which the compiler is not to see that it counts. Otherwise it
    /// tries all ways to write the addresses of the loop as pointers that move along: a quarter of
    /// its time, which only loops that do little else than add up products are worth.
    fn plain_step(&mut self, var: &str, next: &str, ty: &str) {
        let more = self.let_(format!("add nuw nsw {ty} {var}, 1"));
        let name = format!("llvm.expect.{ty}");
        self.declared.insert(format!("{ty} @{name}({ty}, {ty})"));
        self.line(format!("{next} = call {ty} @{name}({ty} {more}, {ty} 0)"));
    }

    fn open_loop(&mut self, var: Reg, first: &str, extent: &str, maybe_empty: bool) {
        let ty = scalar(self.p.ty(var).dtype);
        let id = self.loops;
        self.loops += 1;
        if maybe_empty {
            let some = self.let_(format!("icmp ult i64 {first}, {extent}"));
            self.line(format!("br i1 {some}, label %B{id}.pre, label %B{id}.exit"));
            self.start(&format!("B{id}.pre"));
        }
        for open in &mut self.opened {
            if let Open::Loop { outer, .. } = open {
                *outer = true;
            }
        }
        let from = self.label.clone();
        self.line(format!("br label %B{id}"));
        self.start(&format!("B{id}"));
        self.marks.push(self.known.len());
        let name = format!("%i{id}");
        let next = format!("%i{id}.next");
        self.line(format!(
            "{name} = phi {ty} [ {first}, %{from} ], [ {next}, %B{id}.latch ]"
        ));
        self.set(var, name);
        self.opened.push(Open::Loop {
            id,
            next,
            extent: extent.to_string(),
            ty,
            outer: false,
            sums: false,
        });
    }
}
