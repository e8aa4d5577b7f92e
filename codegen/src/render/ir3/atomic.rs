//! Combinations with elements of global memory: one instruction where there is one, a loop that compares and swaps
//! elsewhere. Sums and bitwise operations of 64 bits are two: the low words, and then the high ones with what those
//! carry. Other atomics of 64 bits are not there (Mesa: from Adreno 7xx on).
//!
//! Elements narrower than a dword are part of one.

use super::Select;
use super::address::Address;
use super::build::{List, Opnd};
use super::wide::Wide;
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::ReduceOp;
use crate::ir3::virt::{Code, Dst, FULL, HALF, Name, Src};
use crate::ir3::{Cond, Op, Round, Type};
use crate::lower::{Mem, Reg};
use crate::machine::Part;

/// The dword that an element is in.
#[derive(Clone, Debug)]
pub(super) struct Word {
    /// Its address.
    at: Part,
    /// By how much the element is shifted there, if it is narrower.
    shift: Option<List>,
}

/// A loop that compares and swaps.
pub(super) struct Attempt {
    word: Word,
    old: Part,
    head: usize,
    gate: Option<(usize, usize)>,
}

/// The lowest bits of a word, as many as the type has.
fn low(dtype: DType) -> u32 {
    u32::MAX >> (32 - dtype.bits())
}

/// An element: the words of its index, the register of that if it is one, and elements behind it.
type Element<'a> = (&'a List, Option<Reg>, i64);

impl Select<'_> {
    /// An address in two registers, with nothing behind it.
    fn whole_address(
        &mut self,
        mem: Mem,
        (at, _, further): Element<'_>,
        size: usize,
    ) -> Result<Part> {
        let Mem::Arg(arg) = mem else {
            return self.unsupported("atomics in local memory");
        };
        let index = self.shifted(at, further);
        Ok(self.global(arg, &index, size))
    }

    fn word(&mut self, mem: Mem, dtype: DType, element: Element<'_>) -> Result<Word> {
        let at = self.whole_address(mem, element, dtype.size())?;
        if dtype.size() >= 4 {
            return Ok(Word { at, shift: None });
        }
        let first = vec![Opnd::part(Part::of(at.value, at.lane))];
        let high = Opnd::part(Part::of(at.value, at.lane + 1));
        let three = self.same(3, 1);
        let byte = self.and(&first, &three);
        let around = self.xor(&first, &byte);
        let shift = self.shl_by(&byte, 3);
        Ok(Word {
            at: self.side_by_side(FULL, &vec![around[0], high]),
            shift: Some(shift),
        })
    }

    fn atomic_op(&mut self, op: Op, ty: Type, at: Part, data: Part) -> Part {
        let to = self.lane(FULL);
        let mut code = Code::new(op, Dst::Part(to), vec![Src::part(at), Src::part(data)]);
        code.mods.ty = Some(ty);
        code.mods.dims = 1;
        code.mods.count = 1;
        self.emit(code);
        to
    }

    /// The bits of a value as a word, with zeros above.
    fn raw(&mut self, dtype: DType, list: List) -> List {
        let list = self.plain(super::class(dtype), list);
        match dtype {
            DType::F16 => self.convert(Type::U16, Type::U32, Round::Zero, &list),
            t if t.size() < 4 => {
                let mask = self.same(low(t), 1);
                self.and(&list, &mask)
            }
            _ => list,
        }
    }

    /// Bits in the place of the element, and these around.
    fn placed(&mut self, word: &Word, dtype: DType, raw: &List, around: &List) -> List {
        let Some(shift) = &word.shift else {
            return raw.clone();
        };
        let value = self.shl(raw, shift);
        let others = self.others(dtype, shift);
        let others = self.and(&others, around);
        self.or(&value, &others)
    }

    /// The bits of a dword around an element.
    fn others(&mut self, dtype: DType, shift: &List) -> List {
        let mask = self.same(low(dtype), 1);
        let own = self.shl(&mask, shift);
        self.not(&own)
    }

    /// See [`crate::target::Atomics`].
    pub(super) fn atomic(
        &mut self,
        op: ReduceOp,
        dtype: DType,
        mem: Mem,
        element: Element<'_>,
        value: List,
    ) -> Result<()> {
        if !self.t.atomics.one_step(op, dtype) {
            return self.unsupported(format!("{op:?} of {dtype} in one step"));
        }
        if dtype == DType::Bool {
            return self.decided(op, mem, element, value);
        }
        if dtype.size() == 8 {
            return self.long(op, mem, dtype, element, &value);
        }
        let word = self.word(mem, dtype, element)?;
        if dtype.is_float() {
            return self.extreme_of_floats(op, &word, value);
        }
        let signed = dtype.is_signed();
        let ty = if signed { Type::S32 } else { Type::U32 };
        let (name, around) = match op {
            ReduceOp::Or => (Op::AtomicGOr, 0),
            ReduceOp::And => (Op::AtomicGAnd, u32::MAX),
            ReduceOp::Max => (Op::AtomicGMax, 0),
            ReduceOp::Min => (Op::AtomicGMin, 0),
            _ => (Op::AtomicGAdd, 0),
        };
        let raw = self.raw(dtype, value);
        let around = self.same(around, 1);
        let placed = self.placed(&word, dtype, &raw, &around);
        let data = self.register(FULL, placed[0]);
        let extreme = matches!(op, ReduceOp::Max | ReduceOp::Min);
        self.atomic_op(name, if extreme { ty } else { Type::U32 }, word.at, data);
        Ok(())
    }

    /// One of two truths wins over the other, whatever was there.
    fn decided(&mut self, op: ReduceOp, mem: Mem, element: Element<'_>, value: List) -> Result<()> {
        let wins = matches!(op, ReduceOp::Add | ReduceOp::Max | ReduceOp::Or);
        self.open_if(value[0], wins, true);
        let word = self.same(u32::from(wins), 1);
        let from = self.side_by_side(HALF, &word);
        let (at, known, further) = element;
        let place = self.place(mem, at, known, further, 1)?;
        self.write(Type::U8, place, from);
        self.close()
    }

    /// Combines the low words, and then the high ones, for sums with what was carried.
    fn long(
        &mut self,
        op: ReduceOp,
        mem: Mem,
        dtype: DType,
        element: Element<'_>,
        value: &List,
    ) -> Result<()> {
        let name = match op {
            ReduceOp::Add => Op::AtomicGAdd,
            ReduceOp::And => Op::AtomicGAnd,
            ReduceOp::Or => Op::AtomicGOr,
            _ => return self.unsupported(format!("{op:?} of {dtype} in one step")),
        };
        let at = self.whole_address(mem, element, dtype.size())?;
        let low = self.register(FULL, value[0]);
        let old = self.atomic_op(name, Type::U32, at, low);
        let mut high = vec![value[1]];
        if op == ReduceOp::Add {
            let sum = self.add(&vec![Opnd::part(old)], &vec![value[0]]);
            let carry = self.compare(Op::CmpsU, Cond::Lt, FULL, &sum, &vec![value[0]]);
            high = self.add(&carry, &high);
        }
        let data = self.register(FULL, high[0]);
        let words = Wide {
            low: vec![Opnd::part(Part::of(at.value, at.lane))],
            high: vec![Opnd::part(Part::of(at.value, at.lane + 1))],
        };
        let four = self.wide_constant(4, 1);
        let next = self.wide_add(&words, &four);
        let next = self.side_by_side(FULL, &next.list());
        self.atomic_op(name, Type::U32, next, data);
        Ok(())
    }

    /// The larger or the smaller one of two floats by their bits; see the renderer of LLVM.
    fn extreme_of_floats(&mut self, op: ReduceOp, word: &Word, value: List) -> Result<()> {
        let most = op == ReduceOp::Max;
        let value = self.plain(FULL, value);
        let seen = self.lane(FULL);
        self.read(Type::U32, seen, Address::Global(word.at, 0));
        let seen = vec![Opnd::part(seen)];
        let nan = self.compare(Op::CmpsF, Cond::Ne, FULL, &value, &value);
        let cond = if most { Cond::Le } else { Cond::Ge };
        let beats = self.compare(Op::CmpsF, cond, FULL, &seen, &value);
        let go = self.or(&nan, &beats);
        let quiet = self.same(if most { 0x7fc0_0000 } else { 0xffc0_0000 }, 1);
        let raw = self.choose(FULL, &nan, &quiet, &value);
        let data = self.register(FULL, raw[0]);
        let zero = self.same(0, 1);
        let negative = self.compare(Op::CmpsS, Cond::Lt, FULL, &raw, &zero);
        let (below, above) = match most {
            true => (Op::AtomicGMin, Op::AtomicGMax),
            false => (Op::AtomicGMax, Op::AtomicGMin),
        };
        self.open_if(go[0], true, true);
        self.open_if(negative[0], true, true);
        self.atomic_op(below, Type::U32, word.at, data);
        self.close()?;
        self.open_if(negative[0], false, true);
        self.atomic_op(above, Type::S32, word.at, data);
        self.close()?;
        self.close()
    }

    /// The beginning of a loop that ends once memory has not changed during an iteration.
    pub(super) fn attempt(
        &mut self,
        dst: Reg,
        mem: Mem,
        index: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        let dtype = self.ty(dst).dtype;
        if dtype.size() == 8 {
            return self.unsupported(format!("a combination of {dtype} with memory"));
        }
        if let Some(gate) = gate {
            let gate = self.r(gate)?;
            self.open_if(gate[0], true, true);
        }
        let gate = gate.and_then(|_| self.take_if());
        let list = self.r(index)?;
        let known = (self.ty(index).lanes == 1).then_some(index);
        let word = self.word(mem, dtype, (&list, known, 0))?;
        let old = self.lane(FULL);
        self.read(Type::U32, old, Address::Global(word.at, 0));
        let head = self.enter(self.depth + 1);
        let now = vec![Opnd::part(old)];
        let own = match &word.shift {
            Some(shift) => self.shr(&now, shift),
            None => self.copied(&now),
        };
        let value = match dtype {
            DType::F16 => self.convert(Type::U32, Type::U16, Round::Zero, &own),
            t if t.size() < 4 => self.narrowed(t, own),
            _ => own,
        };
        self.define(dst, value);
        self.open_attempt(Attempt {
            word,
            old,
            head,
            gate,
        });
        self.diverge(2);
        Ok(())
    }

    /// The end of the loop: swaps, unless it would change nothing.
    pub(super) fn commit(&mut self, value: Reg) -> Result<()> {
        let dtype = self.ty(value).dtype;
        let list = self.r(value)?;
        let Some(attempt) = self.close_attempt() else {
            return self.unsupported("a commit without an attempt");
        };
        let Attempt {
            word,
            old,
            head,
            gate,
        } = attempt;
        let raw = self.raw(dtype, list);
        let before = vec![Opnd::part(old)];
        let new = self.placed(&word, dtype, &raw, &before);
        // What is to be there, and what must have been.
        let data = self.side_by_side(FULL, &vec![new[0], before[0]]);
        let data = match data.value == old.value {
            true => self.side_by_side_copy(&[new[0], before[0]]),
            false => data,
        };
        let seen = self.atomic_op(Op::AtomicGCmpxchg, Type::U32, word.at, data);
        let seen = Opnd::part(seen);
        self.compare_to(2, Op::CmpsU, Cond::Ne, [seen, before[0]]);
        self.move_to(FULL, old, seen);
        self.again(Name::Predicate(2), false, head);
        self.join();
        if let Some((from, made)) = gate {
            self.close_if(from, made, true);
        }
        Ok(())
    }

    fn side_by_side_copy(&mut self, words: &[Opnd; 2]) -> Part {
        let to = self.two_lanes();
        for (to, &from) in to.into_iter().zip(words) {
            self.move_to(FULL, to, from);
        }
        Part { lanes: 2, ..to[0] }
    }
}
