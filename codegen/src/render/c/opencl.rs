//! OpenCL C: the differences to C for CPUs. There are no vectors, as in CUDA C: what is contiguous and aligned is read and
//! written by `vload` and `vstore`. Halves are only converted: Qualcomm's compiler is said to be unreliable with more
//! (tinygrad, which has them in images only).
//!
//! Two kinds of devices take it. Adreno GPUs are driven by this project: their kernels take addresses. Devices behind a
//! vendor's OpenCL take objects: a buffer is two parameters, the object and an offset in bytes, since a buffer may begin
//! anywhere in an object. There halves are their bits, which `vload_half` and `vstore_half` convert: without them a device
//! needs an extension.
//!
//! Source: Khronos, "The OpenCL C Specification" 1.2: 6.1 types, 6.2.4 `as_type`, 6.12 built-in functions, 7.4 accuracy of
//! `x / y` (2.5 units in the last place) and `sqrt` (3); the extension cl_khr_fp16.

use std::fmt::Write as _;

use super::{Dialect, Text, memory, scalar};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::{Binary, Unary};
use crate::lower::decomp::{Caps, TypeSet};
use crate::lower::{Arg, Inst, Mem, Program, Reg, Ty};
use crate::render::factors::together;
use crate::render::{CL_ENTRY as ENTRY, Code, Emitter, Language, Source};
use crate::target::Target;

/// Renders OpenCL C, for Adreno GPUs and for devices behind a vendor's OpenCL.
#[derive(Clone, Copy, Default, Debug)]
pub struct OpenClRenderer;

impl Emitter for OpenClRenderer {
    fn name(&self) -> &'static str {
        "opencl"
    }

    fn caps(&self, t: &Target) -> Caps {
        const SINGLE: TypeSet = TypeSet::of(&[DType::F32]);
        let floats = match t.cl_has("fp64") {
            true => TypeSet::of(&[DType::F32, DType::F64]),
            false => SINGLE,
        };
        let numbers = TypeSet::BITS.and(floats);
        let caps = Caps::NONE
            .with_unary(Unary::ALL, numbers)
            .without_functions()
            .with_binary(Binary::ALL, numbers)
            .with_binary(&[Binary::Pow], TypeSet::NONE)
            .with_binary(&[Binary::TruncMod, Binary::FloorMod], TypeSet::BITS)
            .with_casts(numbers, numbers)
            .with_casts(TypeSet::of(&[DType::BF16]), SINGLE)
            .with_half_casts();
        let caps = Caps {
            atomics: t.atomics,
            ..caps
        };
        let caps = match t.is_cl() {
            // `fma` is exact everywhere; where it is no instruction, it is a function of many.
            true if t.cl_has("fma") => caps.with_fma(floats),
            true => caps,
            false => Caps {
                mad: SINGLE,
                ..caps
            },
        };
        caps.with_flushes(!t.cl_has("denorm"))
    }

    fn emit(&self, p: &Program, t: &Target) -> Result<Code> {
        let mut text = Text::new(p, t, Dialect::OpenCl);
        if !t.is_qcom() && !t.is_cl() {
            return text.unsupported("OpenCL C");
        }
        if t.is_cl() && !t.cl_has("fp64") && has_doubles(p) {
            return text.unsupported("f64, which the device does not have (cl_khr_fp64); use f32");
        }
        if p.insts
            .iter()
            .any(|i| matches!(i, Inst::Groups { .. } | Inst::Once))
        {
            let Some(grid) = p.grid(t) else {
                return text.unsupported(format!("{} groups", p.groups));
            };
            text.number_of_group(grid);
        }
        for inst in &p.insts {
            text.each_lane(inst)?;
        }
        let args: Vec<String> = (0..p.args.len())
            .map(|i| text.argument(i))
            .collect::<Result<_>>()?;
        let mut out = prelude(t);
        let _ = writeln!(
            out,
            "\n__attribute__((reqd_work_group_size({}, 1, 1)))\n__kernel void {ENTRY}({}) {{",
            p.items,
            args.join(", ")
        );
        if t.is_cl() {
            out.push_str(&text.pointers());
        }
        for (i, (dtype, len)) in p.locals.iter().enumerate() {
            let _ = writeln!(
                out,
                "  __local {} local{i}[{len}] __attribute__((aligned(16)));",
                memory(*dtype)
            );
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
            language: Language::OpenCl,
            entry: ENTRY.into(),
            text: out,
        }))
    }
}

/// The types by the names of the other dialects. Where a product and a sum may be one instruction, the source says so.
const PRELUDE: &str = "\
#pragma OPENCL FP_CONTRACT OFF
typedef char i8; typedef short i16; typedef int i32; typedef long i64;
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64; typedef float f32;
";

/// Halves of Adreno GPUs.
const HALVES: &str = "\
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half f16;
";

/// Halves of other devices, as their bits.
const HALF_BITS: &str = "\
typedef ushort f16;
f32 of_half(const u16 bits) { u16 at = bits; return vload_half(0, (const __private half *)&at); }
u16 to_half(const f32 x) { u16 at = 0; vstore_half_rte(x, 0, (__private half *)&at); return at; }
";

/// Numbers of 64 bits.
const DOUBLES: &str = "\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
";

/// Whether a program has floats of 64 bits.
fn has_doubles(p: &Program) -> bool {
    let of_buffer = |arg: &Arg| {
        matches!(
            arg,
            Arg::Buffer {
                dtype: DType::F64,
                ..
            }
        )
    };
    p.regs.iter().any(|ty| ty.dtype == DType::F64) || p.args.iter().any(of_buffer)
}

/// What the source of a kernel begins with.
fn prelude(t: &Target) -> String {
    let doubles = if t.cl_has("fp64") { DOUBLES } else { "" };
    match t.is_cl() {
        true => format!("{PRELUDE}{doubles}{HALF_BITS}"),
        false => format!("{HALVES}{PRELUDE}"),
    }
}

/// What the language calls a type.
fn name(element: &str) -> &'static str {
    match element {
        "i8" => "char",
        "u8" => "uchar",
        "i16" => "short",
        "u16" => "ushort",
        "i32" => "int",
        "u32" => "uint",
        "i64" => "long",
        "u64" => "ulong",
        "f16" => "half",
        "f32" => "float",
        _ => "double",
    }
}

pub(super) fn literal(dtype: DType, bits: u64) -> String {
    match dtype {
        DType::F16 => format!("as_half((ushort){:#x})", bits as u16),
        DType::F64 => format!("as_double({bits:#x}ul)"),
        DType::F32 => {
            let x = f32::from_bits(bits as u32);
            match x.is_finite() && x == x.trunc() && x.abs() < 1e6 && bits != 0x8000_0000 {
                true => format!("{x:.1}f"),
                false => format!("as_float({:#x}u)", bits as u32),
            }
        }
        DType::I64 if bits as i64 == i64::MIN => "(-0x7fffffffffffffffl - 1)".into(),
        DType::I64 => format!("{}l", bits as i64),
        DType::U64 => format!("{bits}ul"),
        t => super::literal(t, bits).replace("ll)", "l)"),
    }
}

/// A function of floats.
pub(super) fn function(name: &str, a: &str) -> String {
    let name = match name {
        "abs" => "fabs",
        "roundeven" => "rint",
        name => name,
    };
    format!("{name}({a})")
}

impl Text<'_> {
    fn argument(&self, i: usize) -> Result<String> {
        Ok(match self.p.args[i] {
            Arg::Buffer { .. } if self.t.is_cl() => {
                format!("__global uchar *object{i}, const ulong offset{i}")
            }
            Arg::Buffer {
                dtype,
                written: true,
                ..
            } => format!("__global {} *arg{i}", memory(dtype)),
            Arg::Buffer { dtype, .. } => format!("const __global {} *arg{i}", memory(dtype)),
            Arg::Var { .. } | Arg::Number { .. } => format!("i64 arg{i}"),
            Arg::Tensor(_) => return self.unsupported("tensor descriptors"),
        })
    }

    /// Where buffers begin, of devices whose kernels take objects.
    fn pointers(&self) -> String {
        let mut out = String::new();
        for (i, arg) in self.p.args.iter().enumerate() {
            if let Arg::Buffer { dtype, written, .. } = arg {
                let constant = if *written { "" } else { "const " };
                let pointer = format!("{constant}__global {} *", memory(*dtype));
                let _ = writeln!(
                    out,
                    "  {pointer}arg{i} = ({pointer})(object{i} + offset{i});"
                );
            }
        }
        out
    }

    /// What the language calls a type on this target.
    pub(super) fn cl_name(&self, element: &str) -> &'static str {
        match element {
            "f16" if self.t.is_cl() => "ushort",
            element => name(element),
        }
    }

    /// A conversion of halves, which are bits on devices behind a vendor's OpenCL.
    pub(super) fn cast_half(&self, to: DType, a: &str) -> String {
        match to {
            DType::F16 => format!("to_half({a})"),
            _ => format!("of_half({a})"),
        }
    }

    fn number_of_group(&mut self, grid: [u32; 3]) {
        let mut number = String::from("(i64)get_group_id(0)");
        let mut below = u64::from(grid[0]);
        for (axis, n) in [(1, grid[1]), (2, grid[2])] {
            if n > 1 {
                let _ = write!(number, " + (i64)get_group_id({axis}) * {below}");
            }
            below *= u64::from(n);
        }
        self.line(format!("const i64 group = {number};"));
    }

    /// Reads lanes as vectors.
    pub(super) fn read_vectors(&mut self, names: &[String], ty: Ty, mem: Mem, index: Reg) {
        let k = together(&self.factors, ty, index);
        let truth = if ty.dtype == DType::Bool { " != 0" } else { "" };
        let from = format!("{} + {}", Self::place(mem), self.r(index));
        let element = self.cl_name(memory(ty.dtype));
        for (first, names) in (0..).step_by(k as usize).zip(names.chunks(k as usize)) {
            if let [name] = names {
                self.line(format!("{name} = ({from})[{first}]{truth};"));
                continue;
            }
            let parts: Vec<String> = (0..k)
                .zip(names)
                .map(|(i, name)| format!("{name} = v.s{i:x}{truth};"))
                .collect();
            self.line(format!(
                "{{ const {element}{k} v = vload{k}(0, {from} + {first}); {} }}",
                parts.join(" ")
            ));
        }
    }

    /// Writes lanes as vectors.
    pub(super) fn store_vectors(&mut self, mem: Mem, index: Reg, value: Reg) {
        let ty = self.p.ty(value);
        let k = together(&self.factors, ty, index);
        let to = format!("{} + {}", Self::place(mem), self.r(index));
        let element = self.cl_name(memory(ty.dtype));
        for first in (0..ty.lanes).step_by(k as usize) {
            if k == 1 {
                self.line(format!("({to})[{first}] = r{}_{first};", value.0));
                continue;
            }
            let parts: Vec<String> = (0..k)
                .map(|i| format!("r{}_{}", value.0, first + i))
                .collect();
            self.line(format!(
                "vstore{k}(({element}{k})({}), 0, {to} + {first});",
                parts.join(", ")
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_spelled_for_by_what_it_has() {
        let few = Target::cl("cl:local=32768,items=256,wave=32", 0).unwrap();
        let many = Target::cl("cl:local=32768,items=256,wave=32,fp64,fma,denorm", 0).unwrap();
        let qcom = Target::qcom("a630", 0).unwrap();
        assert!(!prelude(&few).contains("cl_khr") && prelude(&few).contains("to_half"));
        assert!(prelude(&many).contains("cl_khr_fp64") && !prelude(&many).contains("cl_khr_fp16"));
        assert!(prelude(&qcom).contains("cl_khr_fp16") && !prelude(&qcom).contains("to_half"));
        let caps = |t| OpenClRenderer.caps(t);
        let (few, many, qcom) = (caps(&few), caps(&many), caps(&qcom));
        assert!(!few.has_binary(Binary::Add, DType::F64) && few.flushes);
        assert!(many.has_binary(Binary::Add, DType::F64) && !many.flushes);
        assert!(!few.fma.has(DType::F32) && many.fma.has(DType::F64));
        assert!(qcom.mad.has(DType::F32) && !many.mad.has(DType::F32) && qcom.flushes);
        for caps in [few, many] {
            assert!(caps.has_cast(DType::F16, DType::F32));
            assert!(!caps.has_binary(Binary::Add, DType::F16));
        }
    }
}
