//! Specific to NVIDIA GPUs: the entry point, barriers, matrix instructions, and 2^x.
//!
//! What LLVM has no intrinsic for in this form is assembly of PTX, as in CUDA C.
//!
//! Source: LLVM, "User Guide for NVPTX Back-end": calling conventions, address spaces, `nvvm.maxntid`; "PTX ISA".

use std::fmt::Write as _;

use super::gpu::GLOBAL;
use super::{Text, scalar, spelled, vector};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::mma::MmaDesc;
use crate::lower::{Program, Reg, Ty};
use crate::render::ENTRY;
use crate::target::nv::Matrix;

/// The text around the body of a function.
pub(super) fn module(text: &Text<'_>, p: &Program) -> String {
    let mut out = text.globals();
    let _ = writeln!(
        out,
        "\ndefine ptx_kernel void @{ENTRY}({}) #0 {{\nentry:",
        text.arguments()
    );
    out.push_str(&text.body);
    let _ = write!(
        out,
        "  ret void\n}}\n\nattributes #0 = {{ nounwind \"nvvm.maxntid\"=\"{}\" }}\n\
         attributes #1 = {{ convergent nounwind memory(none) }}\n",
        p.items
    );
    out
}

impl Text<'_> {
    /// A barrier orders memory for the work-items of the group, too.
    pub(super) fn bar_sync(&mut self) {
        let name = "llvm.nvvm.barrier.cta.sync.aligned.all";
        self.call(name, "void", &[("i32", "0")]);
    }

    /// A matrix instruction: a struct of the sums comes out, registers of 32 bits, or doubles, go in.
    pub(super) fn mma_sync(&mut self, d: &MmaDesc, a: Reg, b: Reg, c: Reg) -> Result<String> {
        let Some(matrix) = Matrix::of(d).filter(|_| self.t.mma.contains(d)) else {
            return self.unsupported(format!("the matrix instruction {d:?}"));
        };
        let (sum, lanes) = (scalar(d.acc), self.p.ty(c).lanes);
        let mut inputs: Vec<(&str, char, Vec<String>)> = Vec::new();
        for reg in [a, b] {
            let Ty { dtype, lanes } = self.p.ty(reg);
            let (ty, letter) = match dtype {
                DType::F64 => ("double", 'd'),
                _ => ("i32", 'r'),
            };
            if dtype == DType::F32 {
                let whole = self.v(reg);
                let singles = self.lanes_of("float", lanes, &whole);
                let rounded =
                    |one: &String| self.call("llvm.nvvm.f2tf32.rna", ty, &[("float", one)]);
                inputs.push((ty, letter, singles.iter().map(rounded).collect()));
                continue;
            }
            let words = lanes * dtype.size() as u32 / if dtype == DType::F64 { 8 } else { 4 };
            let whole = self.as_type(reg, &vector(ty, words));
            inputs.push((ty, letter, self.lanes_of(ty, words, &whole)));
        }
        let c = self.v(c);
        inputs.push((sum, matrix.letter, self.lanes_of(sum, lanes, &c)));
        let mut next = 0;
        let mut list = |n: usize| {
            let names: Vec<String> = (next..next + n).map(|i| format!("${i}")).collect();
            next += n;
            format!("{{{}}}", names.join(", "))
        };
        let mut operands = vec![list(lanes as usize)];
        let mut constraints = vec![format!("={}", matrix.letter); lanes as usize];
        let mut args = Vec::new();
        for (ty, letter, values) in &inputs {
            operands.push(list(values.len()));
            for value in values {
                constraints.push(letter.to_string());
                args.push(format!("{ty} {value}"));
            }
        }
        let out = vec![sum; lanes as usize].join(", ");
        let made = self.let_(format!(
            "call {{ {out} }} asm \"{} {};\", \"{}\"({}) #1",
            matrix.name,
            operands.join(", "),
            constraints.join(","),
            args.join(", ")
        ));
        let whole = vector(sum, lanes);
        let mut value = "poison".to_string();
        for lane in 0..lanes {
            let one = self.let_(format!("extractvalue {{ {out} }} {made}, {lane}"));
            value = self.let_(format!(
                "insertelement {whole} {value}, {sum} {one}, i64 {lane}"
            ));
        }
        Ok(value)
    }

    /// The elements of a vector.
    fn lanes_of(&mut self, element: &str, lanes: u32, value: &str) -> Vec<String> {
        if lanes == 1 {
            return vec![value.to_string()];
        }
        let whole = vector(element, lanes);
        (0..lanes)
            .map(|lane| self.let_(format!("extractelement {whole} {value}, i64 {lane}")))
            .collect()
    }

    /// Pairs of small floats are added to memory by an instruction that LLVM does not choose.
    pub(super) fn add_pair(&mut self, dtype: DType, address: &str, pair: &str) {
        self.line(format!(
            "call void asm sideeffect \"red.relaxed.gpu.global.add.noftz.{dtype}x2 [$0], $1;\", \
             \"l,r,~{{memory}}\"(ptr addrspace({GLOBAL}) {address}, i32 {pair})"
        ));
    }

    /// Rounds to 16 bits.
    pub(super) fn brain(&mut self, from: Ty, a: &str) -> String {
        let brain = vector("bfloat", from.lanes);
        let short = self.let_(format!("fptrunc {} {a} to {brain}", spelled(from)));
        self.let_(format!(
            "bitcast {brain} {short} to {}",
            vector("i16", from.lanes)
        ))
    }
}
