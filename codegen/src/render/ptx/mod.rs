//! PTX, the assembly language that NVIDIA's tools take: every lane is a register, and an instruction is spelled
//! once for each; what is contiguous and aligned is read and written as vectors.
//!
//! Booleans are predicates. Integers of 8 and 16 bits are kept in 32, extended by their sign or by zeros; floats
//! of 8 bits are such integers, those of 16 bits registers of 16.
//!
//! Source: "PTX ISA".

mod arith;
mod atomic;
mod beside;
mod memory;

use std::fmt::Write as _;

use hashbrown::HashMap;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::mma::MmaDesc;
use crate::ir::{ReduceOp, Unary};
use crate::lower::decomp::Caps;
use crate::lower::{Acc, Arg, Extent, Inst, Program, Reg, Ty};
use crate::render::factors::{WIDEST, factors};
use crate::render::{Code, ENTRY, Emitter, Language, Source, nv_caps};
use crate::target::Target;
use crate::target::nv::{Matrix, STATIC_BYTES, own_name, ptx};

/// Renders PTX for NVIDIA GPUs.
#[derive(Clone, Copy, Default, Debug)]
pub struct PtxRenderer;

impl Emitter for PtxRenderer {
    fn name(&self) -> &'static str {
        "ptx"
    }

    fn caps(&self, t: &Target) -> Caps {
        nv_caps(t)
    }

    fn emit(&self, p: &Program, t: &Target) -> Result<Code> {
        let mut text = Text {
            p,
            t,
            factors: factors(p),
            body: String::new(),
            declared: String::new(),
            alias: HashMap::new(),
            constants: HashMap::new(),
            opened: Vec::new(),
            temporaries: 0,
            labels: 0,
            lane: 0,
        };
        if !t.is_nv() {
            return text.unsupported("PTX");
        }
        text.begin()?;
        for inst in &p.insts {
            text.each_lane(inst)?;
        }
        let params: Vec<String> = p
            .args
            .iter()
            .enumerate()
            .map(|(i, arg)| match arg {
                Arg::Tensor(_) => format!("  .param .align 64 .b8 param{i}[{}]", arg.bytes()),
                _ => format!("  .param .u64 param{i}"),
            })
            .collect();
        Ok(Code::Text(Source {
            language: Language::Ptx,
            entry: ENTRY.into(),
            text: format!(
                ".version {}\n.target {}\n.address_size 64\n\n{}.visible .entry {ENTRY}(\n{}\n)\n.maxntid {}, 1, 1\n\
                 {{\n{}{}  ret;\n}}\n",
                ptx(t),
                own_name(t),
                text.shared(),
                params.join(",\n"),
                p.items,
                text.declared,
                text.body
            ),
        }))
    }
}

/// What an [`Inst::End`] or an [`Inst::Commit`] closes.
enum Open {
    Loop {
        label: u32,
        var: String,
        ty: &'static str,
        extent: String,
    },
    /// Jumped over under a condition.
    If { label: u32 },
    Attempt {
        label: u32,
        word: atomic::Word,
        old: String,
    },
}

struct Text<'a> {
    p: &'a Program,
    t: &'a Target,
    factors: Vec<u32>,
    body: String,
    declared: String,
    /// Lanes that are the value of another register.
    alias: HashMap<(Reg, u32), String>,
    /// Constants, by their names.
    constants: HashMap<String, u64>,
    opened: Vec<Open>,
    temporaries: u32,
    labels: u32,
    /// The lane that is spelled.
    lane: u32,
}

/// The kind of a register that holds a type.
fn class(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "pred",
        DType::F16 | DType::BF16 => "b16",
        DType::I64 | DType::U64 => "b64",
        DType::F32 => "f32",
        DType::F64 => "f64",
        _ => "b32",
    }
}

/// The type of an operation on a register that holds an integer.
fn number(dtype: DType) -> &'static str {
    match (dtype.is_signed(), dtype.size()) {
        (true, 8) => "s64",
        (false, 8) => "u64",
        (true, _) => "s32",
        (false, _) => "u32",
    }
}

/// A constant as an operand.
fn literal(dtype: DType, bits: u64) -> String {
    match dtype {
        DType::F32 => format!("0f{:08X}", bits as u32),
        DType::F64 => format!("0d{bits:016X}"),
        DType::F16 | DType::BF16 => format!("{:#06x}", bits as u16),
        t if t.is_signed() => {
            let shift = 64 - t.bits();
            format!("{}", ((bits << shift) as i64) >> shift)
        }
        t => format!("{:#x}", bits & (u64::MAX >> (64 - t.bits()))),
    }
}

impl Text<'_> {
    fn unsupported<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::Render {
            renderer: "ptx",
            kernel: self.p.name.clone(),
            what: what.into(),
            target: self.t.arch.clone(),
        })
    }

    fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.body, "  {};", text.as_ref());
    }

    fn label(&mut self, text: &str) {
        let _ = writeln!(self.body, "{text}:");
    }

    fn new_label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    /// A new register of a kind.
    fn temporary(&mut self, class: &str) -> String {
        self.temporaries += 1;
        let name = format!("%t{}", self.temporaries);
        let _ = writeln!(self.declared, "  .reg .{class} {name};");
        name
    }

    /// A new register with what an instruction makes: `{}` stands for it.
    fn let_(&mut self, class: &str, text: &str) -> String {
        let name = self.temporary(class);
        self.line(text.replacen("{}", &name, 1));
        name
    }

    /// The lane that is spelled of a register that was defined.
    fn r(&self, reg: Reg) -> String {
        self.lane_of(reg, self.lane)
    }

    fn lane_of(&self, reg: Reg, lane: u32) -> String {
        let lane = if self.p.ty(reg).lanes == 1 { 0 } else { lane };
        match self.alias.get(&(reg, lane)) {
            Some(other) => other.clone(),
            None => format!("%v{}_{lane}", reg.0),
        }
    }

    /// Declares the lane that is spelled of a register.
    fn define(&mut self, reg: Reg) -> String {
        let Ty { dtype, lanes } = self.p.ty(reg);
        let lane = if lanes == 1 { 0 } else { self.lane };
        let name = format!("%v{}_{lane}", reg.0);
        let _ = writeln!(self.declared, "  .reg .{} {name};", class(dtype));
        name
    }

    fn acc(&self, acc: Acc) -> String {
        match self.p.accs[acc.0 as usize].lanes {
            1 => format!("%acc{}_0", acc.0),
            _ => format!("%acc{}_{}", acc.0, self.lane),
        }
    }

    /// Whether shared memory is asked for at the launch: what is declared is limited.
    fn asks(&self) -> bool {
        self.p.local_bytes() > STATIC_BYTES || self.p.local_align() > WIDEST
    }

    /// The declaration of shared memory that is asked for.
    fn shared(&self) -> String {
        match self.asks() {
            true => format!(
                ".extern .shared .align {} .b8 shared[];\n",
                self.p.local_align()
            ),
            false => String::new(),
        }
    }

    /// Arguments, local memory, accumulators, and the number of the group.
    fn begin(&mut self) -> Result<()> {
        for (i, arg) in self.p.args.iter().enumerate() {
            let _ = writeln!(self.declared, "  .reg .b64 %arg{i};");
            if let Arg::Tensor(_) = arg {
                self.line(format!("mov.b64 %arg{i}, param{i}"));
                self.line(format!("cvta.param.u64 %arg{i}, %arg{i}"));
                continue;
            }
            self.line(format!("ld.param.b64 %arg{i}, [param{i}]"));
            if let Arg::Buffer { .. } = arg {
                self.line(format!("cvta.to.global.u64 %arg{i}, %arg{i}"));
            }
        }
        for (i, (dtype, len)) in self.p.locals.iter().enumerate() {
            let bytes = dtype.size() * len;
            let _ = writeln!(self.declared, "  .reg .b32 %local{i};");
            if self.asks() {
                let from = self.p.local_place(i);
                self.line(format!("mov.u32 %local{i}, shared+{from}"));
                continue;
            }
            let _ = writeln!(self.declared, "  .shared .align 16 .b8 local{i}[{bytes}];");
            self.line(format!("mov.u32 %local{i}, local{i}"));
        }
        for (i, acc) in self.p.accs.iter().enumerate() {
            for lane in 0..acc.lanes {
                let class = class(acc.dtype);
                let _ = writeln!(self.declared, "  .reg .{class} %acc{i}_{lane};");
            }
        }
        let asks = |i: &Inst| matches!(i, Inst::Groups { .. } | Inst::Once);
        if !self.p.insts.iter().any(asks) {
            return Ok(());
        }
        let Some(grid) = self.p.grid(self.t) else {
            return self.unsupported(format!("{} groups", self.p.groups));
        };
        let _ = writeln!(self.declared, "  .reg .b64 %group;");
        let axis = |s: &mut Self, axis: char| {
            let small = s.let_("b32", &format!("mov.u32 {{}}, %ctaid.{axis}"));
            s.let_("b64", &format!("cvt.u64.u32 {{}}, {small}"))
        };
        let mut group = axis(self, 'x');
        let mut below = u64::from(grid[0]);
        for (name, n) in [('y', grid[1]), ('z', grid[2])] {
            if n > 1 {
                let next = axis(self, name);
                group = self.let_("b64", &format!("mad.lo.u64 {{}}, {next}, {below}, {group}"));
            }
            below *= u64::from(n);
        }
        self.line(format!("mov.b64 %group, {group}"));
        Ok(())
    }

    /// An instruction, once for each of its lanes.
    fn each_lane(&mut self, inst: &Inst) -> Result<()> {
        let lanes = match inst {
            Inst::Load { dst, .. } if self.p.ty(*dst).lanes > 1 => {
                return self.load_lanes(inst);
            }
            Inst::Store { value, .. } if self.p.ty(*value).lanes > 1 => {
                return self.store_lanes(inst);
            }
            Inst::Horizontal { dst, op, a } => return self.fold(*dst, *op, *a),
            Inst::Mma { dst, desc, a, b, c } => return self.mma(*dst, desc, *a, *b, *c),
            Inst::MmaThere {
                acc,
                desc,
                operands,
                at,
            } => return self.mma_async(*acc, desc, operands, at),
            Inst::SetAcc { a, .. } => self.p.ty(*a).lanes,
            other => other.dst().map_or(1, |dst| self.p.ty(dst).lanes),
        };
        for lane in 0..lanes {
            self.lane = lane;
            self.inst(inst)?;
        }
        self.lane = 0;
        Ok(())
    }

    fn inst(&mut self, inst: &Inst) -> Result<()> {
        match *inst {
            Inst::Const { dst, bits } => self.constant(dst, bits),
            Inst::Var { dst, arg } => self.name(dst, format!("%arg{arg}")),
            Inst::Lanes { dst } => {
                let name = self.define(dst);
                let (class, lane) = (class(self.p.ty(dst).dtype), self.lane);
                self.line(format!("mov.{class} {name}, {lane}"));
            }
            Inst::Mask { dst, count } => {
                let ty = number(self.p.ty(count).dtype);
                let (count, name) = (self.r(count), self.define(dst));
                let lane = self.lane;
                self.line(format!("setp.gt.{ty} {name}, {count}, {lane}"));
            }
            Inst::Item { dst } => self.item(dst),
            Inst::Splat { dst, a } => self.name(dst, self.r(a)),
            Inst::Unary { dst, op, a } => self.unary(dst, op, a)?,
            Inst::Binary { dst, op, a, b } => {
                let dtype = self.p.ty(a).dtype;
                let (a, b) = (self.r(a), self.r(b));
                let name = self.define(dst);
                self.binary(&name, dtype, op, &a, &b)?;
            }
            Inst::Select { dst, cond, a, b } => {
                let dtype = self.p.ty(dst).dtype;
                let [cond, a, b] = [cond, a, b].map(|r| self.r(r));
                let name = self.define(dst);
                self.select(&name, dtype, &cond, &a, &b);
            }
            Inst::Fma { dst, a, b, c } => {
                let dtype = self.p.ty(dst).dtype;
                if !matches!(dtype, DType::F32 | DType::F64) {
                    return self.unsupported(format!("multiply-add of {dtype}"));
                }
                let [a, b, c] = [a, b, c].map(|r| self.r(r));
                let name = self.define(dst);
                self.line(format!("fma.rn.{dtype} {name}, {a}, {b}, {c}"));
            }
            Inst::Dot { dst, a, b, c } => {
                let [a, b, c] = [a, b, c].map(|r| self.r(r));
                let name = self.define(dst);
                self.line(format!("dp4a.u32.s32 {name}, {a}, {b}, {c}"));
            }
            Inst::Cast { dst, a } => self.cast(dst, a)?,
            Inst::Bitcast { dst, a } => self.bitcast(dst, a)?,
            Inst::Load {
                dst,
                mem,
                index,
                gate,
                ..
            } => self.load(dst, mem, index, 0, gate),
            Inst::Store {
                mode,
                mem,
                index,
                value,
                gate,
                ..
            } => self.store(mode, mem, index, 0, value, gate)?,
            Inst::SetAcc { acc, a } => {
                let class = class(self.p.ty(a).dtype);
                self.line(format!("mov.{class} {}, {}", self.acc(acc), self.r(a)));
            }
            Inst::GetAcc { dst, acc } => {
                let name = self.define(dst);
                let class = class(self.p.ty(dst).dtype);
                self.line(format!("mov.{class} {name}, {}", self.acc(acc)));
            }
            Inst::Loop { .. }
            | Inst::Groups { .. }
            | Inst::Once
            | Inst::End
            | Inst::Attempt { .. }
            | Inst::Commit { .. }
            | Inst::Barrier => self.control(inst)?,
            Inst::WgmmaWait { .. }
            | Inst::Expose
            | Inst::Copy { .. }
            | Inst::MbarrierInit { .. }
            | Inst::TmaLoad { .. }
            | Inst::MbarrierWait { .. }
            | Inst::Sent
            | Inst::Arrived { .. } => self.beside(inst)?,
            Inst::Horizontal { .. } | Inst::Mma { .. } | Inst::MmaThere { .. } => {}
        }
        Ok(())
    }

    fn constant(&mut self, dst: Reg, bits: u64) {
        let dtype = self.p.ty(dst).dtype;
        let name = self.define(dst);
        match dtype {
            DType::Bool => self.line(format!("setp.ne.u32 {name}, {}, 0", bits & 1)),
            _ => {
                let value = literal(dtype, bits);
                self.constants.insert(name.clone(), bits);
                self.line(format!("mov.{} {name}, {value}", class(dtype)));
            }
        }
    }

    /// The number of the work-item.
    fn item(&mut self, dst: Reg) {
        let name = self.define(dst);
        let dtype = self.p.ty(dst).dtype;
        let item = match self.p.items {
            1 => "0",
            _ => "%tid.x",
        };
        match class(dtype) {
            "b64" => {
                let small = self.let_("b32", &format!("mov.u32 {{}}, {item}"));
                self.line(format!("cvt.u64.u32 {name}, {small}"));
            }
            _ => self.line(format!("mov.u32 {name}, {item}")),
        }
    }

    /// What opens and closes blocks, and barriers.
    fn control(&mut self, inst: &Inst) -> Result<()> {
        match *inst {
            Inst::Loop { var, extent } => {
                let name = self.define(var);
                let dtype = self.p.ty(var).dtype;
                let extent = match extent {
                    Extent::Known(n) => n.to_string(),
                    Extent::Arg(arg) if dtype.size() == 8 => format!("%arg{arg}"),
                    Extent::Arg(arg) => self.let_("b32", &format!("cvt.u32.u64 {{}}, %arg{arg}")),
                };
                let label = self.new_label();
                self.line(format!("mov.{} {name}, 0", class(dtype)));
                self.label(&format!("$L{label}"));
                self.opened.push(Open::Loop {
                    label,
                    var: name,
                    ty: number(dtype),
                    extent,
                });
            }
            Inst::Groups { var } => {
                let wrong = self.let_(
                    "pred",
                    &format!("setp.ge.u64 {{}}, %group, {}", self.p.groups),
                );
                self.open_unless(&wrong);
                let name = self.define(var);
                match class(self.p.ty(var).dtype) {
                    "b64" => self.line(format!("mov.b64 {name}, %group")),
                    _ => self.line(format!("cvt.u32.u64 {name}, %group")),
                }
            }
            Inst::Once => {
                let wrong = self.let_("pred", "setp.ne.u64 {}, %group, 0");
                self.open_unless(&wrong);
            }
            Inst::End => self.close(),
            Inst::Attempt {
                dst,
                mem,
                index,
                gate,
            } => self.attempt(dst, mem, index, gate)?,
            Inst::Commit { value } => self.commit(value)?,
            Inst::Barrier => self.line("bar.sync 0"),
            _ => debug_assert!(false, "{inst:?} is rendered elsewhere"),
        }
        Ok(())
    }

    /// A register is another name for a value.
    fn name(&mut self, dst: Reg, value: String) {
        let lane = if self.p.ty(dst).lanes == 1 {
            0
        } else {
            self.lane
        };
        self.alias.insert((dst, lane), value);
    }

    /// What follows, up to the end, does not happen under a condition.
    fn open_unless(&mut self, cond: &str) {
        let label = self.new_label();
        self.line(format!("@{cond} bra $L{label}"));
        self.opened.push(Open::If { label });
    }

    fn close(&mut self) {
        match self.opened.pop() {
            Some(Open::Loop {
                label,
                var,
                ty,
                extent,
            }) => {
                self.line(format!("add.{ty} {var}, {var}, 1"));
                let more = self.let_("pred", &format!("setp.lt.{ty} {{}}, {var}, {extent}"));
                self.line(format!("@{more} bra $L{label}"));
            }
            Some(Open::If { label } | Open::Attempt { label, .. }) => {
                self.label(&format!("$L{label}"));
            }
            None => {}
        }
    }

    fn select(&mut self, name: &str, dtype: DType, cond: &str, a: &str, b: &str) {
        match class(dtype) {
            "pred" => {
                let yes = self.let_("pred", &format!("and.pred {{}}, {cond}, {a}"));
                let other = self.let_("pred", &format!("not.pred {{}}, {cond}"));
                self.line(format!("and.pred {other}, {other}, {b}"));
                self.line(format!("or.pred {name}, {yes}, {other}"));
            }
            class => self.line(format!("selp.{class} {name}, {a}, {b}, {cond}")),
        }
    }

    /// Folds halves of the lanes onto each other, as the other renderers do; an odd number one by one.
    fn fold(&mut self, dst: Reg, op: ReduceOp, a: Reg) -> Result<()> {
        let Ty { dtype, lanes } = self.p.ty(a);
        let mut names: Vec<String> = (0..lanes).map(|lane| self.lane_of(a, lane)).collect();
        while names.len() > 1 {
            let half = match names.len() {
                n if n % 2 == 0 => n / 2,
                n => n - 1,
            };
            for i in half..names.len() {
                let sum = self.temporary(class(dtype));
                let (x, y) = (names[i - half].clone(), names[i].clone());
                self.binary(&sum, dtype, op.binary(), &x, &y)?;
                names[i - half] = sum;
            }
            names.truncate(half);
        }
        self.name(dst, names.swap_remove(0));
        Ok(())
    }

    /// A matrix instruction of the lanes of a wave.
    fn mma(&mut self, dst: Reg, d: &MmaDesc, a: Reg, b: Reg, c: Reg) -> Result<()> {
        let Some(matrix) = Matrix::of(d).filter(|_| self.t.mma.contains(d)) else {
            return self.unsupported(format!("the matrix instruction {d:?}"));
        };
        let operands = [a, b].map(|reg| {
            let Ty { dtype, lanes } = self.p.ty(reg);
            let names: Vec<String> = (0..lanes).map(|lane| self.lane_of(reg, lane)).collect();
            match dtype {
                DType::F64 => names,
                DType::F32 => names
                    .iter()
                    .map(|name| self.let_("b32", &format!("cvt.rna.tf32.f32 {{}}, {name}")))
                    .collect(),
                _ => names
                    .chunks(4 / dtype.size())
                    .map(|part| self.packed(dtype, part))
                    .collect(),
            }
        });
        let lanes = 0..self.p.ty(dst).lanes;
        let mut out = Vec::new();
        let mut sums = Vec::new();
        for lane in lanes {
            self.lane = lane;
            out.push(self.define(dst));
            sums.push(self.r(c));
        }
        self.lane = 0;
        let [a, b] = operands.map(|list| list.join(", "));
        self.line(format!(
            "{} {{{}}}, {{{a}}}, {{{b}}}, {{{}}}",
            matrix.name,
            out.join(", "),
            sums.join(", ")
        ));
        Ok(())
    }

    fn unary(&mut self, dst: Reg, op: Unary, a: Reg) -> Result<()> {
        let dtype = self.p.ty(dst).dtype;
        let a = self.r(a);
        let name = self.define(dst);
        self.unary_of(&name, dtype, op, &a)
    }
}
