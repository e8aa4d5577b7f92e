//! HIP C: the differences to C for CPUs. No header is needed: attributes and builtins are spelled out as clang
//! knows them.
//!
//! Source: Clang, "Attributes in Clang" and `BuiltinsAMDGPU.def`; HIP's headers for what their
//! macros stand for.

use std::fmt::Write as _;

use super::{Dialect, PRELUDE, Text, memory, spelled};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::StoreMode;
use crate::ir::mma::MmaDesc;
use crate::lower::decomp::Caps;
use crate::lower::{Arg, Inst, Program, Reg};
use crate::render::{Code, ENTRY, Emitter, Language, Source, amd_caps};
use crate::target::Target;
use crate::target::amd::Matrix;

/// Renders HIP C for AMD GPUs.
#[derive(Clone, Copy, Default, Debug)]
pub struct HipRenderer;

impl Emitter for HipRenderer {
    fn name(&self) -> &'static str {
        "hip"
    }

    fn caps(&self, t: &Target) -> Caps {
        amd_caps(t)
    }

    fn emit(&self, p: &Program, t: &Target) -> Result<Code> {
        let mut text = Text::new(p, t, Dialect::Hip);
        if !t.is_amd() {
            return text.unsupported("HIP");
        }
        if p.insts
            .iter()
            .any(|i| matches!(i, Inst::Groups { .. } | Inst::Once))
        {
            text.group_number()?;
        }
        for inst in &p.insts {
            text.inst(inst)?;
        }
        let mut out = String::from(PRELUDE);
        let steps = |i: &Inst| match i {
            Inst::Store { mode, .. } => matches!(mode, StoreMode::Atomic(_)),
            _ => matches!(i, Inst::Attempt { .. }),
        };
        if p.insts.iter().any(steps) {
            out.push_str(super::atomic::HIP);
        }
        out.push_str(&text.vectors());
        let args: Vec<String> = p
            .args
            .iter()
            .enumerate()
            .map(|(i, arg)| match arg {
                Arg::Buffer { dtype, .. } => format!("{} *arg{i}", memory(*dtype)),
                Arg::Var { .. } | Arg::Number { .. } | Arg::Tensor(_) => format!("i64 arg{i}"),
            })
            .collect();
        let _ = writeln!(
            out,
            "\nextern \"C\" __attribute__((global, amdgpu_flat_work_group_size({0}, {0}))) \
             void {1}({2}) {{",
            p.items,
            ENTRY,
            args.join(", ")
        );
        for (i, (dtype, len)) in p.locals.iter().enumerate() {
            let _ = writeln!(
                out,
                "  __attribute__((shared, aligned(16))) {} local{i}[{len}];",
                memory(*dtype)
            );
        }
        for (i, acc) in p.accs.iter().enumerate() {
            let _ = writeln!(out, "  {} acc{i};", spelled(*acc));
        }
        out.push_str(&text.body);
        out.push_str("}\n");
        Ok(Code::Text(Source {
            language: Language::Hip,
            entry: ENTRY.into(),
            text: out,
        }))
    }
}

/// The builtin of a matrix instruction, element and lanes of its operands, and what kind of
/// arguments it takes.
fn matrix(d: &MmaDesc) -> Option<(&'static str, (&'static str, u32), Form)> {
    use DType::*;
    use Matrix::{Mfma, Wmma3, Wmma4};
    Some(match (Matrix::of(d)?, d.k, d.operands, d.acc) {
        (Wmma3, 16, [F16, F16], F32) => ("wmma_f32_16x16x16_f16_w32", ("f16", 16), Form::Plain),
        (Wmma3, 16, [BF16, BF16], F32) => ("wmma_f32_16x16x16_bf16_w32", ("i16", 16), Form::Plain),
        (Wmma3, 16, [I8 | U8, I8 | U8], I32) => {
            ("wmma_i32_16x16x16_iu8_w32", ("i32", 4), Form::Signed)
        }
        (Wmma4, 16, [F16, F16], F32) => {
            ("wmma_f32_16x16x16_f16_w32_gfx12", ("f16", 8), Form::Plain)
        }
        (Wmma4, 16, [BF16, BF16], F32) => {
            ("wmma_f32_16x16x16_bf16_w32_gfx12", ("i16", 8), Form::Plain)
        }
        (Wmma4, 16, [a @ (F8E4M3 | F8E5M2), b @ (F8E4M3 | F8E5M2)], F32) => {
            let name = match (a, b) {
                (F8E4M3, F8E4M3) => "wmma_f32_16x16x16_fp8_fp8_w32_gfx12",
                (F8E4M3, _) => "wmma_f32_16x16x16_fp8_bf8_w32_gfx12",
                (_, F8E4M3) => "wmma_f32_16x16x16_bf8_fp8_w32_gfx12",
                _ => "wmma_f32_16x16x16_bf8_bf8_w32_gfx12",
            };
            (name, ("i32", 2), Form::Plain)
        }
        (Wmma4, 16, [I8 | U8, I8 | U8], I32) => {
            ("wmma_i32_16x16x16_iu8_w32_gfx12", ("i32", 2), Form::Signed)
        }
        (Mfma, 16, [F16, F16], F32) => ("mfma_f32_16x16x16f16", ("f16", 4), Form::Blocks),
        (Mfma, 16, [BF16, BF16], F32) => ("mfma_f32_16x16x16bf16_1k", ("i16", 4), Form::Blocks),
        (Mfma, 4, [F32, F32], F32) => ("mfma_f32_16x16x4f32", ("f32", 1), Form::Blocks),
        (Mfma, 4, [F64, F64], F64) => ("mfma_f64_16x16x4f64", ("f64", 1), Form::Blocks),
        (Mfma, 32, [I8, I8], I32) => ("mfma_i32_16x16x32_i8", ("i64", 1), Form::Blocks),
        _ => return None,
    })
}

/// As in [`crate::render::llvm`].
enum Form {
    Plain,
    Signed,
    Blocks,
}

impl Text<'_> {
    fn group_number(&mut self) -> Result<()> {
        let Some(grid) = self.p.grid(self.t) else {
            return self.unsupported(format!("{} groups", self.p.groups));
        };
        let mut number = String::from("(i64)__builtin_amdgcn_workgroup_id_x()");
        let mut below = u64::from(grid[0]);
        for (axis, n) in [('y', grid[1]), ('z', grid[2])] {
            if n > 1 {
                let _ = write!(
                    number,
                    " + (i64)__builtin_amdgcn_workgroup_id_{axis}() * {below}"
                );
            }
            below *= u64::from(n);
        }
        self.line(format!("const i64 group = {number};"));
        Ok(())
    }

    /// The group of this call; where a launch has more groups than the program, they do nothing.
    pub(super) fn open_group(&mut self, var: Reg) {
        let t = self.ty(self.of(var));
        self.line(format!("if (group < {}) {{", self.p.groups));
        self.depth += 1;
        self.line(format!("const {t} r{} = ({t})group;", var.0));
    }

    pub(super) fn item(&mut self, dst: Reg) {
        let value = match (self.p.items, self.dialect) {
            (1, _) => "0",
            (_, Dialect::Cuda) => "threadIdx.x",
            (_, Dialect::OpenCl) => "get_local_id(0)",
            _ => "__builtin_amdgcn_workitem_id_x()",
        };
        self.define(dst, value);
    }

    pub(super) fn barrier(&mut self) {
        self.line("__builtin_amdgcn_fence(__ATOMIC_RELEASE, \"workgroup\");");
        self.line("__builtin_amdgcn_s_barrier();");
        self.line("__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, \"workgroup\");");
    }

    pub(super) fn mma(&mut self, dst: Reg, d: &MmaDesc, a: Reg, b: Reg, c: Reg) -> Result<()> {
        let Some((name, (element, lanes), form)) = matrix(d).filter(|_| self.t.mma.contains(d))
        else {
            return self.unsupported(format!("the matrix instruction {d:?}"));
        };
        let a = self.bits(&format!("r{}", a.0), element, lanes);
        let b = self.bits(&format!("r{}", b.0), element, lanes);
        let c = format!("r{}", c.0);
        let args = match form {
            Form::Plain => format!("{a}, {b}, {c}"),
            Form::Signed => {
                let [x, y] = d.operands.map(|t| t == DType::I8);
                format!("{x}, {a}, {y}, {b}, {c}, false")
            }
            Form::Blocks => format!("{a}, {b}, {c}, 0, 0, 0"),
        };
        self.define(dst, format!("__builtin_amdgcn_{name}({args})"));
        Ok(())
    }
}
