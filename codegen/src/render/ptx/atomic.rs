//! Combinations with memory in one indivisible step. As in [`crate::render::llvm`], which says why.

use super::memory::Address;
use super::{Open, Text, class};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::ReduceOp;
use crate::lower::{Mem, Reg};

/// The dword, or the two, that hold an element of memory.
pub(super) struct Word {
    address: String,
    /// `b32` or `b64`.
    class: &'static str,
    /// Where the element begins in it, in bits; `None` if it is the whole.
    shift: Option<String>,
}

impl Text<'_> {
    fn word(&mut self, mem: Mem, dtype: DType, index: Reg) -> Result<Word> {
        let Mem::Arg(_) = mem else {
            return self.unsupported("a combination of several work-items");
        };
        let Address { base, .. } = self.address(mem, dtype, index);
        let class = if dtype.size() == 8 { "b64" } else { "b32" };
        if dtype.size() >= 4 {
            return Ok(Word {
                address: base,
                class,
                shift: None,
            });
        }
        let around = self.let_("b64", &format!("and.b64 {{}}, {base}, -4"));
        let byte = self.let_("b32", &format!("cvt.u32.u64 {{}}, {base}"));
        let byte = self.let_("b32", &format!("and.b32 {{}}, {byte}, 3"));
        let shift = self.let_("b32", &format!("shl.b32 {{}}, {byte}, 3"));
        Ok(Word {
            address: around,
            class,
            shift: Some(shift),
        })
    }

    /// The bits of a value, as a number as wide as a word: what is above an element is zeros.
    fn raw(&mut self, word: &Word, dtype: DType, value: &str) -> String {
        let raw = match class(dtype) {
            "b16" => self.let_("b32", &format!("cvt.u32.u16 {{}}, {value}")),
            _ => self.let_(word.class, &format!("mov.{} {{}}, {value}", word.class)),
        };
        match word.shift {
            Some(_) => self.let_("b32", &format!("and.b32 {{}}, {raw}, {:#x}", low(dtype))),
            None => raw,
        }
    }

    /// Bits in the place of the element, and others around.
    fn placed(&mut self, word: &Word, dtype: DType, raw: String, around: u32) -> String {
        let Some(shift) = word.shift.clone() else {
            return raw;
        };
        let value = self.let_("b32", &format!("shl.b32 {{}}, {raw}, {shift}"));
        if around == 0 {
            return value;
        }
        let others = self.others(dtype, &shift);
        let others = self.let_("b32", &format!("and.b32 {{}}, {others}, {around:#x}"));
        self.let_("b32", &format!("or.b32 {{}}, {value}, {others}"))
    }

    /// The bits of a dword around an element.
    fn others(&mut self, dtype: DType, shift: &str) -> String {
        let mask = self.let_("b32", &format!("mov.b32 {{}}, {:#x}", low(dtype)));
        let own = self.let_("b32", &format!("shl.b32 {{}}, {mask}, {shift}"));
        self.let_("b32", &format!("not.b32 {{}}, {own}"))
    }

    /// See [`crate::target::Atomics`].
    pub(super) fn atomic(
        &mut self,
        op: ReduceOp,
        mem: Mem,
        index: Reg,
        value: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        let dtype = self.p.ty(value).dtype;
        if !self.t.atomics.one_step(op, dtype) {
            return self.unsupported(format!("{op:?} of {dtype} in one step"));
        }
        if let Some(gate) = gate {
            let gate = self.r(gate);
            self.open_if(&gate);
        }
        let value = self.r(value);
        if dtype == DType::Bool {
            // One of two truths wins over the other, whatever was there.
            let wins = matches!(op, ReduceOp::Add | ReduceOp::Max | ReduceOp::Or);
            let Address { base, .. } = self.address(mem, dtype, index);
            let (sign, bit) = if wins { ("", 1) } else { ("!", 0) };
            self.line(format!(
                "@{sign}{value} st.volatile.global.u8 [{base}], {bit}"
            ));
        } else {
            let word = self.word(mem, dtype, index)?;
            match (op, dtype) {
                (ReduceOp::Add, DType::F32 | DType::F64) => {
                    self.step(&word, &format!("add.{dtype}"), &value);
                }
                (ReduceOp::Add, DType::F16 | DType::BF16) => {
                    let raw = self.raw(&word, dtype, &value);
                    let pair = self.placed(&word, dtype, raw, 0x8000_8000);
                    self.step(&word, &format!("add.noftz.{dtype}x2"), &pair);
                }
                (ReduceOp::Max | ReduceOp::Min, DType::F32 | DType::F64) => {
                    self.extreme(op == ReduceOp::Max, &word, dtype, &value);
                }
                _ => {
                    let bits = if word.class == "b64" { 64 } else { 32 };
                    let sign = if dtype.is_signed() { 's' } else { 'u' };
                    let (name, around) = match op {
                        ReduceOp::Or => (format!("or.b{bits}"), 0),
                        ReduceOp::And => (format!("and.b{bits}"), u32::MAX),
                        ReduceOp::Max => (format!("max.{sign}{bits}"), 0),
                        ReduceOp::Min => (format!("min.{sign}{bits}"), 0),
                        _ => (format!("add.u{bits}"), 0),
                    };
                    let raw = self.raw(&word, dtype, &value);
                    let value = self.placed(&word, dtype, raw, around);
                    self.step(&word, &name, &value);
                }
            }
        }
        if gate.is_some() {
            self.close();
        }
        Ok(())
    }

    fn step(&mut self, word: &Word, op: &str, value: &str) {
        self.line(format!(
            "red.relaxed.gpu.global.{op} [{}], {value}",
            word.address
        ));
    }

    /// Opens what happens under a condition.
    fn open_if(&mut self, cond: &str) {
        let not = self.let_("pred", &format!("not.pred {{}}, {cond}"));
        self.open_unless(&not);
    }

    /// The larger or the smaller one of two floats by their bits; see the renderer of LLVM.
    fn extreme(&mut self, most: bool, word: &Word, dtype: DType, value: &str) {
        let (class, at) = (word.class, word.address.clone());
        let bits = dtype.bits();
        let seen = self.let_(
            super::class(dtype),
            &format!("ld.volatile.global.{dtype} {{}}, [{at}]"),
        );
        let nan = self.let_("pred", &format!("setp.nan.{dtype} {{}}, {value}, {value}"));
        let by = if most { "le" } else { "ge" };
        let beats = self.let_("pred", &format!("setp.{by}.{dtype} {{}}, {seen}, {value}"));
        let go = self.let_("pred", &format!("or.pred {{}}, {nan}, {beats}"));
        self.open_if(&go);
        let raw = self.let_(class, &format!("mov.{class} {{}}, {value}"));
        let quiet = match (bits, most) {
            (32, true) => "0x7fc00000",
            (32, false) => "0xffc00000",
            (_, true) => "0x7ff8000000000000",
            (_, false) => "0xfff8000000000000",
        };
        let raw = self.let_(class, &format!("selp.{class} {{}}, {quiet}, {raw}, {nan}"));
        let negative = self.let_("pred", &format!("setp.lt.s{bits} {{}}, {raw}, 0"));
        let (low, high) = if most { ("min", "max") } else { ("max", "min") };
        self.line(format!(
            "@{negative} red.relaxed.gpu.global.{low}.u{bits} [{at}], {raw}"
        ));
        self.line(format!(
            "@!{negative} red.relaxed.gpu.global.{high}.s{bits} [{at}], {raw}"
        ));
        self.close();
    }

    /// The beginning of a loop that ends once memory has not changed during an iteration.
    pub(super) fn attempt(
        &mut self,
        dst: Reg,
        mem: Mem,
        index: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        let label = self.new_label();
        if let Some(gate) = gate {
            let gate = self.r(gate);
            self.line(format!("@!{gate} bra $L{label}"));
        }
        let dtype = self.p.ty(dst).dtype;
        let word = self.word(mem, dtype, index)?;
        let (at, wide) = (&word.address, word.class);
        let old = self.let_(wide, &format!("ld.volatile.global.{wide} {{}}, [{at}]"));
        self.label(&format!("$L{label}_again"));
        let own = match &word.shift {
            Some(shift) => self.let_("b32", &format!("shr.u32 {{}}, {old}, {shift}")),
            None => old.clone(),
        };
        let name = self.define(dst);
        match class(dtype) {
            "b16" => self.line(format!("cvt.u16.u32 {name}, {own}")),
            _ if word.shift.is_some() => self.narrowed(&name, dtype, &own),
            _ => self.line(format!("mov.{wide} {name}, {own}")),
        }
        self.opened.push(Open::Attempt { label, word, old });
        Ok(())
    }

    /// The end of the loop: swaps, unless it would change nothing.
    pub(super) fn commit(&mut self, value: Reg) -> Result<()> {
        let Some(Open::Attempt { label, word, old }) = self.opened.pop() else {
            return self.unsupported("a commit without an attempt");
        };
        let dtype = self.p.ty(value).dtype;
        let value = self.r(value);
        let (at, wide) = (word.address.clone(), word.class);
        let mut new = self.raw(&word, dtype, &value);
        if let Some(shift) = word.shift.clone() {
            let others = self.others(dtype, &shift);
            let others = self.let_("b32", &format!("and.b32 {{}}, {others}, {old}"));
            let placed = self.let_("b32", &format!("shl.b32 {{}}, {new}, {shift}"));
            new = self.let_("b32", &format!("or.b32 {{}}, {others}, {placed}"));
        }
        let same = self.let_("pred", &format!("setp.eq.{wide} {{}}, {new}, {old}"));
        self.line(format!("@{same} bra $L{label}"));
        let seen = self.let_(
            wide,
            &format!("atom.relaxed.gpu.global.cas.{wide} {{}}, [{at}], {old}, {new}"),
        );
        let done = self.let_("pred", &format!("setp.eq.{wide} {{}}, {seen}, {old}"));
        self.line(format!("mov.{wide} {old}, {seen}"));
        self.line(format!("@!{done} bra $L{label}_again"));
        self.label(&format!("$L{label}"));
        Ok(())
    }
}

/// The lowest bits of a word, as many as the type has.
fn low(dtype: DType) -> u32 {
    u32::MAX >> (32 - dtype.bits())
}
