//! Combinations with memory in one indivisible step, on GPUs.
//!
//! Their scope is the device: they are done in its level-2 cache, and order nothing else. The host
//! and other devices see the result once the kernel has ended, as all that it stores.
//!
//! For AMD's, LLVM uses the instructions that add floats only where it is told that memory is neither
//! fine-grained nor remote. Buffers of kernels are VRAM (`hcq::MemoryKind::Device`), which is
//! neither; over PCIe such sums are lost ("User Guide for AMDGPU Backend", memory model and
//! `amdgpu.no.fine.grained.memory`).
//!
//! In 32 bits instead of 8 or 16: the operation is one on the dword around the element that leaves
//! the others as they are.

use super::gpu::GLOBAL;
use super::{Open, Text, memory_type, scalar};
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::ReduceOp;
use crate::lower::{Mem, Reg};

/// The dword, or the two, that hold an element of memory.
pub(super) struct Word {
    address: String,
    /// `i32` or `i64`.
    ty: &'static str,
    /// Where the element begins in it, in bits; `None` if it is the whole.
    shift: Option<String>,
}

impl Text<'_> {
    fn word(&mut self, mem: Mem, dtype: DType, index: Reg) -> Result<Word> {
        let (Mem::Arg(_), true) = (mem, self.gpu()) else {
            return self.unsupported("a combination of several work-items");
        };
        let address = self.address(mem, memory_type(dtype), index);
        let ty = if dtype.size() == 8 { "i64" } else { "i32" };
        if dtype.size() >= 4 {
            return Ok(Word {
                address,
                ty,
                shift: None,
            });
        }
        let ptr = format!("ptr addrspace({GLOBAL})");
        let name = format!("llvm.ptrmask.p{GLOBAL}.i64");
        let around = self.call(&name, &ptr, &[(&ptr, &address), ("i64", "-4")]);
        let number = self.let_(format!("ptrtoint {ptr} {address} to i64"));
        let number = self.let_(format!("trunc i64 {number} to i32"));
        let byte = self.let_(format!("and i32 {number}, 3"));
        let shift = self.let_(format!("shl i32 {byte}, 3"));
        Ok(Word {
            address: around,
            ty,
            shift: Some(shift),
        })
    }

    /// The bits of a value, as a number as wide as a word.
    fn raw(&mut self, word: &Word, dtype: DType, value: &str) -> String {
        let (bits, own) = (dtype.size() * 8, scalar(dtype));
        let value = match own {
            "half" | "float" | "double" => self.let_(format!("bitcast {own} {value} to i{bits}")),
            _ => value.to_string(),
        };
        match word.shift {
            Some(_) => self.let_(format!("zext i{bits} {value} to i32")),
            None => value,
        }
    }

    /// Bits in the place of the element, and others around.
    fn placed(&mut self, word: &Word, dtype: DType, raw: String, around: u32) -> String {
        let Some(shift) = &word.shift else { return raw };
        let value = self.let_(format!("shl i32 {raw}, {shift}"));
        if around == 0 {
            return value;
        }
        let own = self.let_(format!("shl i32 {}, {shift}", low(dtype)));
        let others = self.let_(format!("xor i32 {own}, -1"));
        let others = self.let_(format!("and i32 {others}, {}", around as i32));
        self.let_(format!("or i32 {value}, {others}"))
    }

    /// Among all work-items of the device, in no order.
    fn order(&self) -> &'static str {
        match self.amd() {
            true => "syncscope(\"agent\") monotonic",
            false => "syncscope(\"device\") monotonic",
        }
    }

    fn step(&mut self, word: &Word, op: &str, ty: &str, value: &str) {
        let told = match self.amd() {
            true => ", !amdgpu.no.fine.grained.memory !2, !amdgpu.no.remote.memory !2",
            false => "",
        };
        let order = self.order();
        let pointer = format!("ptr addrspace({GLOBAL}) {}", word.address);
        self.let_(format!(
            "atomicrmw {op} {pointer}, {ty} {value} {order}{told}"
        ));
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
            let gate = self.v(gate);
            self.open_if(&gate);
        }
        let value = self.v(value);
        if dtype == DType::Bool {
            self.decide(op, mem, index, &value);
            if gate.is_some() {
                self.close();
            }
            return Ok(());
        }
        let word = self.word(mem, dtype, index)?;
        match (op, dtype) {
            (ReduceOp::Add, DType::F32 | DType::F64) => {
                self.step(&word, "fadd", scalar(dtype), &value);
            }
            (ReduceOp::Add, DType::F16 | DType::BF16) => {
                let raw = self.raw(&word, dtype, &value);
                let pair = self.placed(&word, dtype, raw, 0x8000_8000);
                if self.t.is_nv() {
                    self.add_pair(dtype, &word.address, &pair);
                    if gate.is_some() {
                        self.close();
                    }
                    return Ok(());
                }
                let ty = match dtype {
                    DType::F16 => "<2 x half>",
                    _ => "<2 x bfloat>",
                };
                let pair = self.let_(format!("bitcast i32 {pair} to {ty}"));
                self.step(&word, "fadd", ty, &pair);
            }
            (ReduceOp::Max | ReduceOp::Min, DType::F32 | DType::F64) => {
                self.extreme(op == ReduceOp::Max, &word, dtype, &value);
            }
            _ => {
                let signed = dtype.is_signed();
                let (name, around) = match op {
                    ReduceOp::Or => ("or", 0),
                    ReduceOp::And => ("and", u32::MAX),
                    ReduceOp::Max if signed => ("max", 0),
                    ReduceOp::Max => ("umax", 0),
                    ReduceOp::Min if signed => ("min", 0),
                    ReduceOp::Min => ("umin", 0),
                    _ => ("add", 0),
                };
                let raw = self.raw(&word, dtype, &value);
                let value = self.placed(&word, dtype, raw, around);
                self.step(&word, name, word.ty, &value);
            }
        }
        if gate.is_some() {
            self.close();
        }
        Ok(())
    }

    /// One of two truths wins over the other, whatever was there: it is stored, and nothing else is.
    fn decide(&mut self, op: ReduceOp, mem: Mem, index: Reg, value: &str) {
        let wins = matches!(op, ReduceOp::Add | ReduceOp::Max | ReduceOp::Or);
        let go = match wins {
            true => value.to_string(),
            false => self.let_(format!("xor i1 {value}, true")),
        };
        self.open_if(&go);
        let address = self.address(mem, "i8", index);
        let pointer = format!("ptr addrspace({GLOBAL}) {address}");
        let (bit, order) = (u8::from(wins), self.order());
        self.line(format!("store atomic i8 {bit}, {pointer} {order}, align 1"));
        self.close();
    }

    /// The larger or the smaller one of two floats by their bits: those of positive floats are in
    /// the order of signed integers, those of negative ones in the reverse order of unsigned ones,
    /// and either comparison is right if one of both is on each side. A NaN gets the sign with
    /// which it wins. What memory holds is looked at first: it may be a NaN of the other sign,
    /// which stays; and where it is beyond the value already, it stays so.
    fn extreme(&mut self, most: bool, word: &Word, dtype: DType, value: &str) {
        let (ty, int, bits) = (scalar(dtype), word.ty, dtype.size() * 8);
        let seen = self.look(word);
        let seen = self.let_(format!("bitcast {int} {seen} to {ty}"));
        let nan = self.let_(format!("fcmp uno {ty} {value}, {value}"));
        let by = if most { "ole" } else { "oge" };
        let beats = self.let_(format!("fcmp {by} {ty} {seen}, {value}"));
        let go = self.let_(format!("or i1 {nan}, {beats}"));
        self.open_if(&go);
        let raw = self.let_(format!("bitcast {ty} {value} to {int}"));
        let quiet = match (bits, most) {
            (32, true) => 0x7fc0_0000,
            (32, false) => 0xffc0_0000_u32 as i32 as i64,
            (_, true) => 0x7ff8_0000_0000_0000,
            (_, false) => 0xfff8_0000_0000_0000_u64 as i64,
        };
        let raw = self.let_(format!("select i1 {nan}, {int} {quiet}, {int} {raw}"));
        let negative = self.let_(format!("icmp slt {int} {raw}, 0"));
        let names = if most {
            ["umin", "max"]
        } else {
            ["umax", "min"]
        };
        self.open_if(&negative);
        self.step(word, names[0], int, &raw);
        self.close();
        let positive = self.let_(format!("icmp sge {int} {raw}, 0"));
        self.open_if(&positive);
        self.step(word, names[1], int, &raw);
        self.close();
        self.close();
    }

    /// Closes what [`Text::open_if`] has opened.
    fn close(&mut self) {
        if let Some(Open::Once { id }) = self.opened.pop() {
            self.close_if(id);
        }
    }

    /// What memory holds now.
    fn look(&mut self, word: &Word) -> String {
        let size = if word.ty == "i64" { 8 } else { 4 };
        let pointer = format!("ptr addrspace({GLOBAL}) {}", word.address);
        self.let_(format!(
            "load atomic {}, {pointer} {}, align {size}",
            word.ty,
            self.order()
        ))
    }

    /// The beginning of a loop that ends once memory has not changed during an iteration.
    pub(super) fn attempt(
        &mut self,
        dst: Reg,
        mem: Mem,
        index: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        match gate {
            Some(gate) => {
                let gate = self.v(gate);
                self.open_if(&gate);
            }
            None => self.opened.push(Open::Nothing),
        }
        let dtype = self.p.ty(dst).dtype;
        let word = self.word(mem, dtype, index)?;
        let first = self.look(&word);
        let id = self.loops;
        self.loops += 1;
        let from = self.label.clone();
        self.line(format!("br label %B{id}"));
        self.start(&format!("B{id}"));
        let old = format!("%i{id}");
        self.line(format!(
            "{old} = phi {} [ {first}, %{from} ], [ {old}.now, %B{id}.try ]",
            word.ty
        ));
        let mut value = old;
        let bits = dtype.size() * 8;
        if let Some(shift) = &word.shift {
            value = self.let_(format!("lshr i32 {value}, {shift}"));
            value = self.let_(format!("trunc i32 {value} to i{bits}"));
        }
        let value = match scalar(dtype) {
            own @ ("half" | "float" | "double") => {
                self.let_(format!("bitcast i{bits} {value} to {own}"))
            }
            _ => value,
        };
        self.set(dst, value);
        self.opened.push(Open::Attempt { id, word });
        Ok(())
    }

    /// The end of the loop: swaps, unless it would change nothing.
    pub(super) fn commit(&mut self, value: Reg) -> Result<()> {
        let Some(Open::Attempt { id, word }) = self.opened.pop() else {
            return self.unsupported("a commit without an attempt");
        };
        let dtype = self.p.ty(value).dtype;
        let value = self.v(value);
        let old = format!("%i{id}");
        let ty = word.ty;
        let mut new = self.raw(&word, dtype, &value);
        if let Some(shift) = &word.shift {
            let own = self.let_(format!("shl i32 {}, {shift}", low(dtype)));
            let others = self.let_(format!("xor i32 {own}, -1"));
            let others = self.let_(format!("and i32 {old}, {others}"));
            let placed = self.let_(format!("shl i32 {new}, {shift}"));
            new = self.let_(format!("or i32 {others}, {placed}"));
        }
        let same = self.let_(format!("icmp eq {ty} {new}, {old}"));
        self.line(format!("br i1 {same}, label %B{id}.exit, label %B{id}.try"));
        self.start(&format!("B{id}.try"));
        let pointer = format!("ptr addrspace({GLOBAL}) {}", word.address);
        let pair = self.let_(format!(
            "cmpxchg {pointer}, {ty} {old}, {ty} {new} {} monotonic",
            self.order()
        ));
        self.line(format!("{old}.now = extractvalue {{ {ty}, i1 }} {pair}, 0"));
        let done = self.let_(format!("extractvalue {{ {ty}, i1 }} {pair}, 1"));
        self.line(format!("br i1 {done}, label %B{id}.exit, label %B{id}"));
        self.start(&format!("B{id}.exit"));
        self.close();
        Ok(())
    }
}

/// The lowest bits of a word, as many as the type has.
fn low(dtype: DType) -> u32 {
    u32::MAX >> (32 - 8 * dtype.size())
}
