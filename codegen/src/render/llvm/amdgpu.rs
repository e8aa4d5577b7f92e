//! Specific to AMD GPUs: the entry point, barriers, matrix instructions.
//!
//! Source: LLVM, "User Guide for AMDGPU Backend": address spaces, function attributes, memory
//! model; `IntrinsicsAMDGPU.td`.

use std::fmt::Write as _;

use super::{Text, spelled, vector};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::Unary;
use crate::ir::mma::MmaDesc;
use crate::lower::decomp::{Caps, TypeSet};
use crate::lower::{Program, Reg, Ty};
use crate::render::ENTRY;
use crate::target::Target;
use crate::target::amd::Matrix as Kind;

/// The number of an address space.
pub(super) const PRIVATE: u32 = 5;

/// As for CPUs, and 2^x and log2 of `f32`, which are instructions with an error of one unit in the
/// last place ("RDNA3 ISA", `V_EXP_F32`, `V_LOG_F32`; LLVM adds what they lack for subnormal
/// numbers).
pub(super) fn caps(base: Caps, t: &Target) -> Caps {
    let single = TypeSet::of(&[DType::F32]);
    let caps = base.with_unary(&[Unary::Exp2, Unary::Log2], single);
    if !t.f8_convert {
        return caps;
    }
    let narrow = TypeSet::of(&[DType::F8E4M3, DType::F8E5M2]);
    caps.with_casts(narrow, single).with_casts(single, narrow)
}

/// Everything a work-item can be given by hardware or by the host that these kernels never read;
/// with fewer of them a launch is set up faster, and the argument block has no hidden part.
const NOT_READ: &str = "\"amdgpu-no-dispatch-ptr\" \"amdgpu-no-dispatch-id\" \
    \"amdgpu-no-queue-ptr\" \"amdgpu-no-implicitarg-ptr\" \"amdgpu-no-hostcall-ptr\" \
    \"amdgpu-no-multigrid-sync-arg\" \"amdgpu-no-heap-ptr\" \"amdgpu-no-default-queue\" \
    \"amdgpu-no-completion-action\" \"amdgpu-no-lds-kernel-id\" \"amdgpu-no-workitem-id-y\" \
    \"amdgpu-no-workitem-id-z\" \"amdgpu-no-cluster-id-x\" \"amdgpu-no-cluster-id-y\" \
    \"amdgpu-no-cluster-id-z\"";

/// The text around the body of a function.
pub(super) fn module(text: &Text<'_>, p: &Program, t: &Target) -> String {
    let mut out = text.globals();
    let _ = writeln!(
        out,
        "\ndefine amdgpu_kernel void @{ENTRY}({}) #0 {{\nentry:",
        text.arguments()
    );
    out.push_str(&text.body);
    let _ = write!(
        out,
        "  ret void\n}}\n\nattributes #0 = {{ nounwind \"target-cpu\"=\"{}\" \
         \"target-features\"=\"{}\" \"amdgpu-flat-work-group-size\"=\"{2},{2}\" \
         \"uniform-work-group-size\"=\"true\" {NOT_READ} }}\n\n\
         !llvm.module.flags = !{{!0}}\n\
         !0 = !{{i32 1, !\"amdhsa_code_object_version\", i32 500}}\n\
         !1 = !{{!\"amdgpu-synchronize-as\", !\"local\"}}\n\
         !2 = !{{}}\n",
        t.cpu, t.features, p.items
    );
    out
}

/// The name of a matrix instruction, and the types of its operands and of the accumulator.
struct Matrix {
    name: &'static str,
    operand: &'static str,
    acc: &'static str,
    form: Form,
}

enum Form {
    /// WMMA: `(a, b, c)`.
    Plain,
    /// WMMA on integers: `(signed a, a, signed b, b, c, clamp)`.
    Signed,
    /// MFMA: `(a, b, c, cbsz, abid, blgp)`.
    Blocks,
}

fn matrix(d: &MmaDesc) -> Option<Matrix> {
    use DType::*;
    use Kind::{Mfma, Wmma3, Wmma4};
    let (name, operand, acc, form) = match (Kind::of(d)?, d.k, d.operands, d.acc) {
        (Wmma3, 16, [F16, F16], F32) => (
            "wmma.f32.16x16x16.f16.v8f32.v16f16",
            "<16 x half>",
            "<8 x float>",
            Form::Plain,
        ),
        (Wmma3, 16, [BF16, BF16], F32) => (
            "wmma.f32.16x16x16.bf16.v8f32.v16i16",
            "<16 x i16>",
            "<8 x float>",
            Form::Plain,
        ),
        (Wmma3, 16, [I8 | U8, I8 | U8], I32) => (
            "wmma.i32.16x16x16.iu8.v8i32.v4i32",
            "<4 x i32>",
            "<8 x i32>",
            Form::Signed,
        ),
        (Wmma4, 16, [F16, F16], F32) => (
            "wmma.f32.16x16x16.f16.v8f32.v8f16",
            "<8 x half>",
            "<8 x float>",
            Form::Plain,
        ),
        (Wmma4, 16, [BF16, BF16], F32) => (
            "wmma.f32.16x16x16.bf16.v8f32.v8i16",
            "<8 x i16>",
            "<8 x float>",
            Form::Plain,
        ),
        (Wmma4, 16, [a @ (F8E4M3 | F8E5M2), b @ (F8E4M3 | F8E5M2)], F32) => (
            match (a, b) {
                (F8E4M3, F8E4M3) => "wmma.f32.16x16x16.fp8.fp8.v8f32.v2i32",
                (F8E4M3, _) => "wmma.f32.16x16x16.fp8.bf8.v8f32.v2i32",
                (_, F8E4M3) => "wmma.f32.16x16x16.bf8.fp8.v8f32.v2i32",
                _ => "wmma.f32.16x16x16.bf8.bf8.v8f32.v2i32",
            },
            "<2 x i32>",
            "<8 x float>",
            Form::Plain,
        ),
        (Wmma4, 16, [I8 | U8, I8 | U8], I32) => (
            "wmma.i32.16x16x16.iu8.v8i32.v2i32",
            "<2 x i32>",
            "<8 x i32>",
            Form::Signed,
        ),
        (Mfma, 16, [F16, F16], F32) => (
            "mfma.f32.16x16x16f16",
            "<4 x half>",
            "<4 x float>",
            Form::Blocks,
        ),
        (Mfma, 16, [BF16, BF16], F32) => (
            "mfma.f32.16x16x16bf16.1k",
            "<4 x i16>",
            "<4 x float>",
            Form::Blocks,
        ),
        (Mfma, 4, [F32, F32], F32) => ("mfma.f32.16x16x4f32", "float", "<4 x float>", Form::Blocks),
        (Mfma, 4, [F64, F64], F64) => (
            "mfma.f64.16x16x4f64",
            "double",
            "<4 x double>",
            Form::Blocks,
        ),
        (Mfma, 32, [I8, I8], I32) => ("mfma.i32.16x16x32.i8", "i64", "<4 x i32>", Form::Blocks),
        _ => return None,
    };
    Some(Matrix {
        name,
        operand,
        acc,
        form,
    })
}

impl Text<'_> {
    /// Only local memory is ordered: loads of global memory may go on.
    pub(super) fn barrier(&mut self) {
        self.line("fence syncscope(\"workgroup\") release, !mmra !1");
        self.call("llvm.amdgcn.s.barrier", "void", &[]);
        self.line("fence syncscope(\"workgroup\") acquire, !mmra !1");
    }

    pub(super) fn mma(&mut self, d: &MmaDesc, a: Reg, b: Reg, c: Reg) -> Result<String> {
        let Some(m) = matrix(d).filter(|_| self.t.mma.contains(d)) else {
            return self.unsupported(format!("the matrix instruction {d:?}"));
        };
        let (a, b) = (self.as_type(a, m.operand), self.as_type(b, m.operand));
        let c = self.v(c);
        let name = format!("llvm.amdgcn.{}", m.name);
        let (operand, acc) = ((m.operand, &*a), (m.acc, &*c));
        Ok(match m.form {
            Form::Plain => self.call(&name, m.acc, &[operand, (m.operand, &b), acc]),
            Form::Signed => {
                let signs = d
                    .operands
                    .map(|t| ("i1", if t == DType::I8 { "true" } else { "false" }));
                let clamp = ("i1", "false");
                let args = [signs[0], operand, signs[1], (m.operand, &*b), acc, clamp];
                self.call(&name, m.acc, &args)
            }
            Form::Blocks => {
                let none = ("i32", "0");
                let args = [operand, (m.operand, &*b), acc, none, none, none];
                self.call(&name, m.acc, &args)
            }
        })
    }

    /// A conversion between 8-bit floats and `f32`: out of the bytes of a dword one by one, and into
    /// them in pairs.
    pub(super) fn convert_f8(&mut self, from: Ty, to: Ty, a: &str) -> String {
        let decodes = to.dtype == DType::F32;
        let narrow = if decodes { from.dtype } else { to.dtype };
        let format = if narrow == DType::F8E4M3 {
            "fp8"
        } else {
            "bf8"
        };
        // Dwords of four lanes; the last one may have fewer.
        let lanes = to.lanes;
        let words = lanes.div_ceil(4);
        let (wide, bytes) = (vector("i32", words), vector("i8", words * 4));
        let (wide_from, wide_to) = (spelled(from), spelled(to));
        let lane_of = |s: &mut Self, lane: u32| match lanes {
            1 => a.to_string(),
            _ => s.let_(format!("extractelement {wide_from} {a}, i64 {lane}")),
        };
        if decodes {
            let all = match lanes {
                1 => self.let_(format!("zext i8 {a} to i32")),
                _ => {
                    let all = self.resized("i8", a, lanes, words * 4);
                    self.let_(format!("bitcast {bytes} {all} to {wide}"))
                }
            };
            let name = format!("llvm.amdgcn.cvt.f32.{format}");
            let mut out = "poison".to_string();
            let mut word = all.clone();
            for lane in 0..lanes {
                if lane % 4 == 0 && words > 1 {
                    word = self.let_(format!("extractelement {wide} {all}, i64 {}", lane / 4));
                }
                let byte = (lane % 4).to_string();
                let one = self.call(&name, "float", &[("i32", &word), ("i32", &byte)]);
                if lanes == 1 {
                    return one;
                }
                out = self.let_(format!(
                    "insertelement {wide_to} {out}, float {one}, i64 {lane}"
                ));
            }
            return out;
        }
        let name = format!("llvm.amdgcn.cvt.pk.{format}.f32");
        let mut all = "poison".to_string();
        for word in 0..words {
            let mut made = "0".to_string();
            for pair in (4 * word..lanes.min(4 * word + 4)).step_by(2) {
                let low = lane_of(self, pair);
                let high = match pair + 1 < lanes {
                    true => lane_of(self, pair + 1),
                    false => "0x0000000000000000".into(),
                };
                let upper = if pair % 4 == 0 { "false" } else { "true" };
                let args = [
                    ("float", &*low),
                    ("float", &*high),
                    ("i32", &*made),
                    ("i1", upper),
                ];
                made = self.call(&name, "i32", &args);
            }
            all = match words {
                1 => made,
                _ => self.let_(format!(
                    "insertelement {wide} {all}, i32 {made}, i64 {word}"
                )),
            };
        }
        if lanes == 1 {
            return self.let_(format!("trunc i32 {all} to i8"));
        }
        let all = self.let_(format!("bitcast {wide} {all} to {bytes}"));
        self.resized("i8", &all, words * 4, lanes)
    }

    /// The first lanes of a vector, or a vector with more lanes, whatever is in them.
    fn resized(&mut self, element: &str, a: &str, from: u32, to: u32) -> String {
        if from == to {
            return a.to_string();
        }
        let lane = |i: u32| match i < from {
            true => format!("i32 {i}"),
            false => "i32 poison".into(),
        };
        let list: Vec<String> = (0..to).map(lane).collect();
        let t = vector(element, from);
        self.let_(format!(
            "shufflevector {t} {a}, {t} poison, <{to} x i32> <{}>",
            list.join(", ")
        ))
    }
}
