//! Combinations with memory in one indivisible step, in HIP, CUDA and OpenCL C. As in
//! [`crate::render::llvm`], which says why.

use super::{Dialect, Text, scalar};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::ReduceOp;
use crate::lower::{Mem, Reg};

/// Compilers that do not know the attribute make loops of what adds floats.
pub(super) const HIP: &str = "\
#if __has_extension(clang_atomic_attributes)
#define VRAM [[clang::atomic(no_remote_memory, no_fine_grained_memory)]]
#else
#define VRAM
#endif
#define GLOBAL __attribute__((address_space(1)))
#define RELAXED __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT
";

impl Text<'_> {
    /// Opens a block in which `at` points to the word around an element, and `shift` says where
    /// the element is in it. Gives the name of the type of the word without sign.
    fn word(
        &mut self,
        mem: Mem,
        dtype: DType,
        index: Reg,
        gate: Option<Reg>,
        signed: bool,
    ) -> Result<&'static str> {
        let (Mem::Arg(_), Dialect::Hip | Dialect::Cuda | Dialect::OpenCl) = (mem, self.dialect)
        else {
            return self.unsupported("a combination of several work-items");
        };
        match gate {
            Some(g) => self.line(format!("if (r{}) {{", g.0)),
            None => self.line("{"),
        }
        self.depth += 1;
        let place = format!("(u64)&{}[{}]", Self::place(mem), self.r(index));
        let (word, other) = match dtype.size() {
            8 => ("u64", "i64"),
            _ => ("u32", "i32"),
        };
        let ty = match (dtype, signed) {
            (DType::F32 | DType::F64, true) => scalar(dtype),
            (_, true) => other,
            _ => word,
        };
        if dtype.size() >= 4 {
            let global = self.global();
            self.line(format!("{global}{ty} *at = ({global}{ty} *)({place});"));
        } else {
            self.line(format!("const u32 shift = ({place} & 3) * 8;"));
            let global = self.global();
            let three = match self.dialect {
                Dialect::OpenCl => "3ul",
                _ => "3ull",
            };
            self.line(format!(
                "{global}{ty} *at = ({global}{ty} *)({place} & ~{three});"
            ));
        }
        Ok(word)
    }

    /// The qualifier of pointers to global memory.
    fn global(&self) -> &'static str {
        match self.dialect {
            Dialect::Cuda => "",
            Dialect::OpenCl => "volatile __global ",
            _ => "GLOBAL ",
        }
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// One step of an operation on `at`.
    fn fetch(&self, op: &str, value: &str) -> String {
        match (self.dialect, op) {
            (Dialect::Cuda, "add") => format!("atomicAdd(at, {value});"),
            (Dialect::Cuda, "or") => format!("atomicOr(at, {value});"),
            (Dialect::Cuda, "and") => format!("atomicAnd(at, {value});"),
            (Dialect::Cuda, "max") => format!("atomicMax(at, {value});"),
            (Dialect::Cuda, _) => format!("atomicMin(at, {value});"),
            (Dialect::OpenCl, op) => format!("atomic_{op}(at, {value});"),
            _ => format!("VRAM {{ __hip_atomic_fetch_{op}(at, {value}, RELAXED); }}"),
        }
    }

    /// What an element of memory is now.
    fn look(&self) -> &'static str {
        match self.dialect {
            Dialect::Cuda => "*(volatile decltype(at))at",
            Dialect::OpenCl => "*at",
            _ => "__hip_atomic_load(at, RELAXED)",
        }
    }

    /// The bits of a value as a number as wide as a word.
    fn raw(&self, dtype: DType, value: Reg) -> String {
        let bits = dtype.size() * 8;
        let word = if bits == 64 { "u64" } else { "u32" };
        let raw = self.same_bits(&format!("u{bits}"), &format!("r{}", value.0));
        format!("({word}){raw}")
    }

    pub(super) fn atomic(
        &mut self,
        op: ReduceOp,
        mem: Mem,
        index: Reg,
        value: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        let dtype = self.of(value).dtype;
        if !self.t.atomics.one_step(op, dtype) {
            return self.unsupported(format!("{op:?} of {dtype} in one step"));
        }
        if dtype == DType::Bool {
            self.atomic_truth(op, mem, index, value, gate);
            return Ok(());
        }
        match (op, dtype) {
            (ReduceOp::Add, DType::F16 | DType::BF16) => {
                self.word(mem, dtype, index, gate, false)?;
                self.add_half(dtype, value);
            }
            (ReduceOp::Max | ReduceOp::Min, DType::F32 | DType::F64) => {
                let word = self.word(mem, dtype, index, gate, false)?;
                self.float_extremum(op, dtype, word, value);
            }
            (ReduceOp::Add, DType::F32 | DType::F64) => {
                self.word(mem, dtype, index, gate, true)?;
                self.line(self.fetch("add", &format!("r{}", value.0)));
            }
            _ => {
                let small = dtype.size() < 4;
                let ordered = matches!(op, ReduceOp::Max | ReduceOp::Min);
                let signed = dtype.is_signed() && (ordered || self.dialect == Dialect::Hip);
                self.word(mem, dtype, index, gate, signed && !small)?;
                self.combine_bits(op, dtype, value);
            }
        }
        self.close();
        Ok(())
    }

    /// One of two truths wins over the other, whatever was there.
    fn atomic_truth(&mut self, op: ReduceOp, mem: Mem, index: Reg, value: Reg, gate: Option<Reg>) {
        let wins = matches!(op, ReduceOp::Add | ReduceOp::Max | ReduceOp::Or);
        let gate = gate.map_or(String::new(), |g| format!("r{} && ", g.0));
        let (place, bit) = (Self::place(mem), u8::from(wins));
        let place = format!("&{place}[r{}]", index.0);
        let store = match self.dialect {
            Dialect::Cuda => format!("*(volatile u8 *){place} = {bit}"),
            Dialect::OpenCl => format!("*(volatile __global u8 *){place} = {bit}"),
            _ => format!("__hip_atomic_store({place}, (u8){bit}, RELAXED)"),
        };
        self.line(format!("if ({gate}r{} == {bit}) {store};", value.0));
    }

    /// Adds to a float of two bytes, and the negative zero to its neighbour.
    fn add_half(&mut self, dtype: DType, value: Reg) {
        let raw = self.raw(dtype, value);
        let (name, element) = match dtype {
            DType::F16 => ("f16", "_Float16"),
            _ => ("bf16", "short"),
        };
        let two = format!("const u32 two = {raw} << shift | 0x8000u << (16 - shift);");
        if self.dialect == Dialect::Cuda {
            self.line(two);
            self.line(format!(
                "asm volatile(\"red.relaxed.gpu.global.add.noftz.{name}x2 [%0], %1;\" :: \"l\"(at), \
                 \"r\"(two) : \"memory\");"
            ));
            return;
        }
        self.line(format!(
            "typedef {element} pair __attribute__((ext_vector_type(2)));"
        ));
        self.line(two);
        self.line(format!(
            "__builtin_amdgcn_global_atomic_fadd_v2{name}((GLOBAL pair *)at, \
             __builtin_bit_cast(pair, two));"
        ));
    }

    /// The extremum of floats is that of their bits as integers.
    fn float_extremum(&mut self, op: ReduceOp, dtype: DType, word: &str, value: Reg) {
        let raw = self.raw(dtype, value);
        let most = op == ReduceOp::Max;
        let (float, v) = (scalar(dtype), value.0);
        let signed = if word == "u64" { "i64" } else { "i32" };
        let (by, [low, high]) = match most {
            true => ("<=", ["min", "max"]),
            false => (">=", ["max", "min"]),
        };
        let nan = match (word, most) {
            ("u32", true) => "0x7fc00000u",
            ("u32", false) => "0xffc00000u",
            (_, true) => "0x7ff8000000000000ull",
            (_, false) => "0xfff8000000000000ull",
        };
        let seen = self.same_bits(float, self.look());
        self.line(format!("const {float} seen = {seen};"));
        self.line(format!("if (r{v} != r{v} || seen {by} r{v}) {{"));
        self.line(format!(
            "  const {word} raw = r{v} != r{v} ? {nan} : {raw};"
        ));
        self.line(format!(
            "  if (({signed})raw < 0) {}",
            self.fetch(low, "raw")
        ));
        let high = self.fetch(high, &format!("({signed})raw"));
        let high = high.replace("(at,", &format!("(({}{signed} *)at,", self.global()));
        self.line(format!("  else {high}"));
        self.line("}");
    }

    /// An operation on integers, or on their part of a word.
    fn combine_bits(&mut self, op: ReduceOp, dtype: DType, value: Reg) {
        let raw = self.raw(dtype, value);
        let own = u64::MAX >> (64 - 8 * dtype.size());
        let small = dtype.size() < 4;
        let (name, others) = match op {
            ReduceOp::Or => ("or", false),
            ReduceOp::And => ("and", true),
            ReduceOp::Max => ("max", false),
            ReduceOp::Min => ("min", false),
            _ => ("add", false),
        };
        let value = match (small, others) {
            (false, _) => raw,
            (true, false) => format!("({raw} << shift)"),
            (true, true) => format!("({raw} << shift | ~({own:#x}u << shift))"),
        };
        if self.dialect == Dialect::OpenCl && dtype.size() == 8 {
            self.words_of_opencl(name, &value);
            return;
        }
        self.line(self.fetch(name, &value));
    }

    /// OpenCL has no step of 64 bits on these GPUs: the low word, and then the high one with what that carries.
    fn words_of_opencl(&mut self, name: &str, value: &str) {
        self.line("volatile __global u32 *word = (volatile __global u32 *)at;");
        self.line(format!(
            "const u32 low = (u32)({value}), high = (u32)(({value}) >> 32);"
        ));
        self.line(format!("const u32 seen = atomic_{name}(word, low);"));
        match name {
            "add" => self.line("atomic_add(word + 1, high + (seen > ~low));"),
            _ => self.line(format!("atomic_{name}(word + 1, high);")),
        }
    }

    pub(super) fn attempt(
        &mut self,
        dst: Reg,
        mem: Mem,
        index: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        let dtype = self.of(dst).dtype;
        let word = self.word(mem, dtype, index, gate, false)?;
        self.line(format!("{word} old = {};", self.look()));
        self.line("for (;;) {");
        self.depth += 1;
        let bits = dtype.size() * 8;
        let old = match dtype.size() {
            1 | 2 => format!("(u{bits})(old >> shift)"),
            _ => "old".into(),
        };
        self.define(dst, self.same_bits(scalar(dtype), &old));
        Ok(())
    }

    pub(super) fn commit(&mut self, value: Reg) {
        let dtype = self.of(value).dtype;
        let raw = self.raw(dtype, value);
        let word = if dtype.size() == 8 { "u64" } else { "u32" };
        let new = match dtype.size() {
            1 | 2 => {
                let own = u32::MAX >> (32 - 8 * dtype.size());
                format!("(old & ~({own:#x}u << shift)) | ({raw} << shift)")
            }
            _ => raw,
        };
        self.line(format!("const {word} made = {new};"));
        if self.dialect != Dialect::Hip {
            let swap = match self.dialect {
                Dialect::OpenCl => "atomic_cmpxchg",
                _ => "atomicCAS",
            };
            self.line("if (made == old) break;");
            self.line(format!("const {word} seen = {swap}(at, old, made);"));
            self.line("if (seen == old) break;");
            self.line("old = seen;");
            self.close();
            self.close();
            return;
        }
        self.line(
            "if (made == old || __hip_atomic_compare_exchange_strong(at, &old, made, \
             __ATOMIC_RELAXED, RELAXED)) break;",
        );
        self.close();
        self.close();
    }
}
