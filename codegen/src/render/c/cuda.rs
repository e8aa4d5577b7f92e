//! CUDA C: the differences to C for CPUs. There are no vectors: every lane is a variable, and an instruction is
//! spelled once for each. What is contiguous and aligned is read and written as a structure. No header is needed:
//! what the language lacks is a line of PTX.
//!
//! Source: "CUDA C++ Programming Guide"; "PTX ISA" for what lines of PTX mean.

use std::fmt::Write as _;

use super::{Dialect, PRELUDE, Text, memory, scalar};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::mma::MmaDesc;
use crate::lower::decomp::Caps;
use crate::lower::{Arg, Inst, Mem, Program, Reg, Ty};
use crate::render::factors::{WIDEST, together};
use crate::render::{Code, ENTRY, Emitter, Language, Source, nv_caps};
use crate::target::Target;
use crate::target::nv::{Matrix, STATIC_BYTES};

/// Renders CUDA C for NVIDIA GPUs.
#[derive(Clone, Copy, Default, Debug)]
pub struct CudaRenderer;

impl Emitter for CudaRenderer {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn caps(&self, t: &Target) -> Caps {
        nv_caps(t)
    }

    fn emit(&self, p: &Program, t: &Target) -> Result<Code> {
        let mut text = Text::new(p, t, Dialect::Cuda);
        if !t.is_nv() {
            return text.unsupported("CUDA");
        }
        if p.insts
            .iter()
            .any(|i| matches!(i, Inst::Groups { .. } | Inst::Once))
        {
            let Some(grid) = p.grid(t) else {
                return text.unsupported(format!("{} groups", p.groups));
            };
            text.group_of(grid);
        }
        for inst in &p.insts {
            text.each_lane(inst)?;
        }
        let types: String = PRELUDE.replace("typedef _Float16 f16; ", "");
        let mut out = format!("{types}{FUNCTIONS}");
        for (element, lanes) in &text.types {
            let _ = writeln!(
                out,
                "struct __align__({lanes} * sizeof({element})) {element}x{lanes} {{ {element} v[{lanes}]; }};"
            );
        }
        let args: Vec<String> = p
            .args
            .iter()
            .enumerate()
            .map(|(i, arg)| match arg {
                Arg::Buffer { dtype, .. } => format!("{} *arg{i}", memory(*dtype)),
                Arg::Var { .. } | Arg::Number { .. } => format!("i64 arg{i}"),
                Arg::Tensor(_) => format!("const __grid_constant__ tensor_map arg{i}"),
            })
            .collect();
        let _ = writeln!(
            out,
            "\nextern \"C\" __global__ void __launch_bounds__({}) {ENTRY}({}) {{",
            p.items,
            args.join(", ")
        );
        // What is declared is limited; more is asked for at the launch.
        let asked = p.local_bytes() > STATIC_BYTES || p.local_align() > WIDEST;
        if asked {
            let _ = writeln!(
                out,
                "  extern __shared__ __align__({}) u8 shared[];",
                p.local_align()
            );
        }
        for (i, (dtype, len)) in p.locals.iter().enumerate() {
            let t = memory(*dtype);
            let _ = match asked {
                true => writeln!(
                    out,
                    "  {t} *const local{i} = ({t} *)(shared + {});",
                    p.local_place(i)
                ),
                false => writeln!(out, "  __shared__ __align__({WIDEST}) {t} local{i}[{len}];"),
            };
        }
        for (i, acc) in p.accs.iter().enumerate() {
            let names: Vec<String> = match acc.lanes {
                1 => vec![format!("acc{i}")],
                lanes => (0..lanes).map(|lane| format!("acc{i}_{lane}")).collect(),
            };
            let _ = writeln!(out, "  {} {};", scalar(acc.dtype), names.join(", "));
        }
        out.push_str(&text.body);
        out.push_str("}\n");
        Ok(Code::Text(Source {
            language: Language::Cuda,
            entry: ENTRY.into(),
            text: out,
        }))
    }
}

/// Halves, which are numbers for PTX only, and what has no function that needs no header. Rounding is
/// spelled out where products and sums may become one otherwise.
const FUNCTIONS: &str = r#"
#define INLINE static __device__ __forceinline__
struct f16 {
  u16 bits;
  f16() = default;
  __device__ __forceinline__ explicit f16(f32 x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  __device__ __forceinline__ explicit operator f32() const {
    f32 x; asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits)); return x;
  }
};
#define OF_HALVES(name, op) INLINE f16 name(f16 a, f16 b) { \
  f16 c; asm(op " %0, %1, %2;" : "=h"(c.bits) : "h"(a.bits), "h"(b.bits)); return c; }
OF_HALVES(operator+, "add.rn.f16")
OF_HALVES(operator-, "sub.rn.f16")
OF_HALVES(operator*, "mul.rn.f16")
INLINE f16 operator-(f16 a) { a.bits ^= 0x8000; return a; }
INLINE f16 absolute(f16 a) { a.bits &= 0x7fff; return a; }
INLINE bool operator<(f16 a, f16 b) { return (f32)a < (f32)b; }
INLINE bool operator==(f16 a, f16 b) { return (f32)a == (f32)b; }
INLINE bool operator!=(f16 a, f16 b) { return (f32)a != (f32)b; }
INLINE bool operator!=(f16 a, int) { return (a.bits & 0x7fff) != 0; }
INLINE f32 max_nan(f32 a, f32 b) { f32 c; asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
INLINE f32 min_nan(f32 a, f32 b) { f32 c; asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b)); return c; }
INLINE f32 exp2_near(f32 a) { f32 c; asm("ex2.approx.f32 %0, %1;" : "=f"(c) : "f"(a)); return c; }
INLINE u32 to_tf32(f32 a) { u32 c; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(c) : "f"(a)); return c; }
INLINE u64 matrix(const void *at, u64 rest) {
  u64 a; asm("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(at)); return rest | (a & 0x3ffff) >> 4;
}
INLINE u32 in_shared(const void *at) {
  u64 a; asm("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(at)); return (u32)a;
}
struct __align__(64) tensor_map { u64 words[16]; };
INLINE void arm(u32 at) { asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory"); }
INLINE void expect(u32 at, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at), "r"(bytes) : "memory");
}
INLINE void landed(u32 at, u32 odd) {
  u32 yes;
  do asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
    : "=r"(yes) : "r"(at), "r"(odd) : "memory"); while (!yes);
}
INLINE void copy_16(void *to, const void *from, bool there) {
  u64 a; asm("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"((u32)a), "l"(from), "r"(there ? 16 : 0) : "memory");
}
INLINE u16 to_bf16(f32 a) { u32 c; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(c) : "f"(0.0f), "f"(a)); return c; }
"#;

/// A function of floats.
pub(super) fn function(name: &str, dtype: DType, a: &str) -> String {
    let name = match (name, dtype) {
        ("abs", DType::F16) => "absolute",
        ("abs", DType::F32) => "fabsf",
        ("abs", _) => "fabs",
        ("sqrt", DType::F32) => "__fsqrt_rn",
        ("sqrt", _) => "__dsqrt_rn",
        ("roundeven", DType::F32) => "rintf",
        ("roundeven", _) => "rint",
        ("exp2", _) => "exp2_near",
        (name, DType::F32) => return format!("{name}f({a})"),
        (name, _) => name,
    };
    format!("{name}({a})")
}

/// The larger (`max`) or the smaller one of two integers, or of two floats of 32 bits.
pub(super) fn extremum(name: &str, dtype: DType, a: &str, b: &str) -> String {
    if dtype.is_float() {
        return format!("{name}_nan({a}, {b})");
    }
    let order = if name == "max" { ">" } else { "<" };
    format!("({a} {order} {b} ? {a} : {b})")
}

impl Text<'_> {
    fn group_of(&mut self, grid: [u32; 3]) {
        let mut number = String::from("(i64)blockIdx.x");
        let mut below = u64::from(grid[0]);
        for (axis, n) in [('y', grid[1]), ('z', grid[2])] {
            if n > 1 {
                let _ = write!(number, " + (i64)blockIdx.{axis} * {below}");
            }
            below *= u64::from(n);
        }
        self.line(format!("const i64 group = {number};"));
    }

    /// Matrix instructions, and what goes on beside the warps; false for others.
    pub(super) fn of_cuda(&mut self, inst: &Inst) -> Result<bool> {
        match inst {
            Inst::Mma { dst, desc, a, b, c } => self.mma_sync(*dst, desc, *a, *b, *c)?,
            Inst::MmaThere {
                acc,
                desc,
                operands,
                at,
            } => self.mma_async(*acc, desc, operands, at)?,
            other => return self.beside(other),
        }
        Ok(true)
    }

    /// Reads lanes as structures.
    pub(super) fn read_structures(&mut self, names: &[String], ty: Ty, mem: Mem, index: Reg) {
        let k = together(&self.factors, ty, index);
        let truth = if ty.dtype == DType::Bool { " != 0" } else { "" };
        let from = format!("({} + {})", Self::place(mem), self.r(index));
        let t = self.wide(memory(ty.dtype), k);
        for (first, names) in (0..).step_by(k as usize).zip(names.chunks(k as usize)) {
            if let [name] = names {
                self.line(format!("{name} = {from}[{first}]{truth};"));
                continue;
            }
            let parts: Vec<String> = (0..k)
                .zip(names)
                .map(|(i, name)| format!("{name} = v.v[{i}]{truth};"))
                .collect();
            self.line(format!(
                "{{ const {t} v = *(const {t} *)({from} + {first}); {} }}",
                parts.join(" ")
            ));
        }
    }

    /// Writes lanes as structures.
    pub(super) fn store_structures(&mut self, mem: Mem, index: Reg, value: Reg) {
        let ty = self.p.ty(value);
        let k = together(&self.factors, ty, index);
        let to = format!("({} + {})", Self::place(mem), self.r(index));
        let t = self.wide(memory(ty.dtype), k);
        for first in (0..ty.lanes).step_by(k as usize) {
            if k == 1 {
                self.line(format!("{to}[{first}] = r{}_{first};", value.0));
                continue;
            }
            let parts: Vec<String> = (0..k)
                .map(|i| format!("v.v[{i}] = r{}_{};", value.0, first + i))
                .collect();
            self.line(format!(
                "{{ {t} v; {} *({t} *)({to} + {first}) = v; }}",
                parts.join(" ")
            ));
        }
    }

    /// Elements of a register that lie in one dword, packed; neighbours are in neighbouring lanes.
    fn packed(&self, reg: Reg) -> Vec<String> {
        let Ty { dtype, lanes } = self.p.ty(reg);
        let (bits, each) = (dtype.bits(), 32 / dtype.bits());
        (0..lanes / each)
            .map(|word| {
                let parts: Vec<String> = (0..each)
                    .map(|i| {
                        let name = format!("r{}_{}", reg.0, word * each + i);
                        format!("(u32)__builtin_bit_cast(u{bits}, {name}) << {}", bits * i)
                    })
                    .collect();
                format!("\"r\"({})", parts.join(" | "))
            })
            .collect()
    }

    /// A matrix instruction of the lanes of a wave.
    pub(super) fn mma_sync(&mut self, dst: Reg, d: &MmaDesc, a: Reg, b: Reg, c: Reg) -> Result<()> {
        let Some(matrix) = Matrix::of(d).filter(|_| self.t.mma.contains(d)) else {
            return self.unsupported(format!("the matrix instruction {d:?}"));
        };
        let lanes = self.p.ty(dst).lanes;
        let letter = matrix.letter;
        let names = self.declare(dst);
        let out: Vec<String> = names
            .iter()
            .map(|n| format!("\"={letter}\"({n})"))
            .collect();
        let numbers = match d.operands[0] {
            DType::F64 => [a, b].map(|r| vec![format!("\"d\"(r{})", r.0)]),
            DType::F32 => [a, b].map(|r| {
                let lanes = 0..self.p.ty(r).lanes;
                let one = |i| format!("\"r\"(to_tf32(r{}_{i}))", r.0);
                lanes.map(one).collect()
            }),
            _ => [a, b].map(|r| self.packed(r)),
        };
        let [a, b] = numbers;
        let c: Vec<String> = (0..lanes)
            .map(|i| format!("\"{letter}\"(r{}_{i})", c.0))
            .collect();
        let mut next = 0;
        let mut group = |n: usize| {
            let list: Vec<String> = (next..next + n).map(|i| format!("%{i}")).collect();
            next += n;
            format!("{{{}}}", list.join(", "))
        };
        let operands = [out.len(), a.len(), b.len(), c.len()].map(&mut group);
        let inputs = [a, b, c].concat().join(", ");
        self.line(format!(
            "asm volatile(\"{} {};\" : {} : {inputs});",
            matrix.name,
            operands.join(", "),
            out.join(", ")
        ));
        Ok(())
    }
}
