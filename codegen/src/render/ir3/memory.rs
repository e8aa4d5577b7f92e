//! Loads and stores.
//!
//! Global addresses have 64 bits. Elements are reached through the address of their buffer and an index (ldg.a), which
//! counts elements, is extended with zeros, and costs nothing; where many accesses share an index but for a constant,
//! its address is computed once, and the constants are in the accesses.
//!
//! A load that does not happen everywhere reads the first element instead, and its value is not taken: several of them
//! are under way at once then, and fibers stay together. Stores, and loads of local memory, are jumped over.
//!
//! Source: Mesa `ir3-cat6.xml`, `ir3_a6xx.c`; offsets have 13 bits with a sign.

use super::Select;
use super::build::{At, List, Opnd};
use super::wide::Wide;
use crate::dtype::DType;
use crate::error::Result;
use crate::ir::StoreMode;
use crate::ir3::virt::{Code, Dst, FULL, HALF, Src};
use crate::ir3::{Op, Round, Type};
use crate::lower::{Access, Arg, Mem, Reg, Ty};
use crate::machine::{Class, Part};
use crate::render::factors::{splat, together};

/// Offsets of accesses, in bytes.
const OFFSETS: std::ops::RangeInclusive<i64> = -4096..=4095;
/// Accesses that share an index, from which on its address is computed: that takes four instructions.
const MANY: u32 = 5;
/// Elements behind an index that ldg.a and stg.a reach.
const NEAR: std::ops::RangeInclusive<i64> = 0..=3;

/// An address that was computed: of an index in a memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    mem: Mem,
    index: Reg,
    size: usize,
}

/// Where an access goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// A global address in two registers, and bytes behind it.
    Global(Part, i32),
    /// The address of a buffer, a number of elements of so many words (by its logarithm), and words behind it.
    Indexed(Part, Part, u8, i32),
    /// An address in local memory, and bytes behind it.
    Local(Part, i32),
}

/// How an element is in memory: its type there, and its class in a register.
pub(super) fn access_type(dtype: DType) -> (Type, Class) {
    match dtype.size() {
        1 => (Type::U8, HALF),
        2 => (Type::U16, HALF),
        _ => (Type::U32, FULL),
    }
}

impl Select<'_> {
    fn buffer_bytes(&self, arg: u32) -> u64 {
        match self.p.args.get(arg as usize) {
            Some(Arg::Buffer { dtype, len, .. }) => (dtype.size() * len) as u64,
            _ => u64::MAX,
        }
    }

    /// The address of a buffer in two registers, made at the entry.
    fn base(&mut self, arg: u32) -> Part {
        let whole = |value| Part {
            value,
            lane: 0,
            lanes: 2,
        };
        if let Some(&value) = self.bases.get(&arg) {
            return whole(value);
        }
        let value = self.f.value(FULL, 2);
        for lane in 0..2u8 {
            let from = Src::new(crate::ir3::virt::Name::Const(
                2 * arg as u16 + u16::from(lane),
            ));
            let to = Part::of(value, lane);
            self.entry.push(Code::mov(Type::U32, Type::U32, to, from));
        }
        self.bases.insert(arg, value);
        whole(value)
    }

    fn base_words(arg: u32) -> Wide {
        let word = |n: u16| vec![Opnd::new(At::Const(n))];
        Wide {
            low: word(2 * arg as u16),
            high: word(2 * arg as u16 + 1),
        }
    }

    /// Two words side by side.
    fn pair(&mut self, wide: &Wide) -> Part {
        let to = self.two_lanes();
        for (to, from) in to.into_iter().zip([wide.low[0], wide.high[0]]) {
            self.move_to(FULL, to, from);
        }
        Part { lanes: 2, ..to[0] }
    }

    /// The address of an index in a buffer.
    pub(super) fn global(&mut self, arg: u32, index: &[Opnd], size: usize) -> Part {
        let digits = size.trailing_zeros();
        let base = Self::base_words(arg);
        let bytes = match index {
            [low, high] => {
                let wide = Wide {
                    low: vec![*low],
                    high: vec![*high],
                };
                let by = vec![Opnd::bits(digits)];
                self.wide_shift(crate::ir::Binary::Shl, false, &wide, &by)
            }
            _ => {
                let low = vec![index[0]];
                let high = match self.buffer_bytes(arg) < 1 << 32 {
                    true => self.same(0, 1),
                    false => self.shr_by(&low, 32 - digits.max(1)),
                };
                // One digit is shifted out less where the elements are bytes.
                let high = if digits == 0 { self.same(0, 1) } else { high };
                Wide {
                    low: self.shl_by(&low, digits),
                    high,
                }
            }
        };
        let sum = self.wide_add(&base, &bytes);
        self.pair(&sum)
    }

    /// Where an element is: `further` elements behind an index, of which a lane is given. `known` is the register of
    /// an index that is one for all lanes and unchanged.
    pub(super) fn place(
        &mut self,
        mem: Mem,
        index: &[Opnd],
        known: Option<Reg>,
        further: i64,
        size: usize,
    ) -> Result<Place> {
        let (base, more) = match known {
            Some(reg) => super::ranges::split(self.p, &self.facts.defs, reg),
            None => (Reg(u32::MAX), 0),
        };
        let bytes = (further + more) * size as i64;
        let key = Key {
            mem,
            index: base,
            size,
        };
        let many = self
            .facts
            .shared
            .get(&(mem, base))
            .is_some_and(|&n| n >= MANY);
        match mem {
            Mem::Local(block) => {
                let start = self.p.local_place(block as usize) as i64;
                let all = start + bytes;
                if known.is_some() && OFFSETS.contains(&all) {
                    let at = self.found(key, |s, words| s.local(words, size))?;
                    return Ok(Place::Local(at, all as i32));
                }
                let at = vec![Opnd::part(self.local(index, size))];
                let more = start + further * size as i64;
                if OFFSETS.contains(&more) {
                    return Ok(Place::Local(self.register(FULL, at[0]), more as i32));
                }
                let more = self.same(more as u32, 1);
                let at = self.add(&at, &more);
                Ok(Place::Local(self.register(FULL, at[0]), 0))
            }
            Mem::Arg(arg) => {
                if index.len() == 1 && !(many && OFFSETS.contains(&bytes)) {
                    // Elements of two words are reached as words.
                    let words = size.div_ceil(4) as i64;
                    let near = NEAR.contains(&(further * words));
                    let (more, behind) = if near {
                        (0, further * words)
                    } else {
                        (further, 0)
                    };
                    let more = self.same(more as u32, 1);
                    let at = self.add(&vec![index[0]], &more);
                    let at = self.register(FULL, at[0]);
                    return Ok(Place::Indexed(
                        self.base(arg),
                        at,
                        words as u8 - 1,
                        behind as i32,
                    ));
                }
                if known.is_some() && OFFSETS.contains(&bytes) {
                    let at = self.found(key, |s, words| s.global(arg, words, size))?;
                    return Ok(Place::Global(at, bytes as i32));
                }
                let at = self.global(arg, index, size);
                let more = further * size as i64;
                if OFFSETS.contains(&more) {
                    return Ok(Place::Global(at, more as i32));
                }
                let wide = Wide {
                    low: vec![Opnd::part(Part::of(at.value, 0))],
                    high: vec![Opnd::part(Part::of(at.value, 1))],
                };
                let more = self.wide_constant(more as u64, 1);
                let sum = self.wide_add(&wide, &more);
                Ok(Place::Global(self.pair(&sum), 0))
            }
        }
    }

    /// An address that is there, or is made now.
    fn found(&mut self, key: Key, make: impl FnOnce(&mut Self, &[Opnd]) -> Part) -> Result<Part> {
        if let Some(&at) = self.addresses.get(&key) {
            return Ok(at);
        }
        let words = self.r(key.index)?;
        let at = make(self, &words);
        self.addresses.insert(key, at);
        self.made.push(key);
        Ok(at)
    }

    fn local(&mut self, index: &[Opnd], size: usize) -> Part {
        let at = self.shl_by(&vec![index[0]], size.trailing_zeros());
        self.register(FULL, at[0])
    }

    /// Reads neighbours into lanes that lie side by side.
    pub(super) fn read(&mut self, ty: Type, to: Part, place: Place) {
        let (op, srcs, offset, shift) = match place {
            Place::Global(at, offset) => (Op::Ldg, vec![Src::part(at)], offset, 0),
            Place::Indexed(at, index, shift, offset) => (
                Op::LdgA,
                vec![Src::part(at), Src::part(index)],
                offset,
                shift,
            ),
            Place::Local(at, offset) => (Op::Ldl, vec![Src::part(at)], offset, 0),
        };
        let mut code = Code::new(op, Dst::Part(to), srcs);
        code.mods.ty = Some(ty);
        code.mods.shift = shift;
        code.mods.count = u16::from(to.lanes);
        code.mods.offset = offset;
        self.emit(code);
    }

    pub(super) fn write(&mut self, ty: Type, place: Place, from: Part) {
        let value = Src::part(from);
        let (op, srcs, offset, shift) = match place {
            Place::Global(at, offset) => (Op::Stg, vec![Src::part(at), value], offset, 0),
            Place::Indexed(at, index, shift, offset) => (
                Op::StgA,
                vec![Src::part(at), Src::part(index), value],
                offset,
                shift,
            ),
            Place::Local(at, offset) => (Op::Stl, vec![Src::part(at), value], offset, 0),
        };
        let mut code = Code::new(op, Dst::None, srcs);
        code.mods.ty = Some(ty);
        code.mods.shift = shift;
        code.mods.count = u16::from(from.lanes);
        code.mods.offset = offset;
        self.emit(code);
    }

    /// What was read, as a value of a type.
    fn arrived(&mut self, dtype: DType, list: List) -> List {
        match dtype {
            DType::F16 => list,
            DType::U16 | DType::BF16 => self.convert(Type::U16, Type::U32, Round::Zero, &list),
            DType::I16 => self.convert(Type::S16, Type::S32, Round::Zero, &list),
            DType::I8 => {
                // What is above the byte is not known.
                let by = self.same(8, list.len());
                let up = self.make(super::build::Template::of(Op::ShlB, HALF), &[&list, &by]);
                let wide = self.convert(Type::S16, Type::S32, Round::Zero, &up);
                self.ashr_by(&wide, 8)
            }
            t if t.size() == 1 => {
                let mask = self.same(0xff, list.len());
                let template = super::build::Template {
                    to: FULL,
                    ..super::build::Template::of(Op::AndB, HALF)
                };
                let byte = self.make(template, &[&list, &mask]);
                if t == DType::Bool {
                    self.truth(&byte)
                } else {
                    byte
                }
            }
            _ => list,
        }
    }

    /// A value of a type, as it is written.
    fn leaving(&mut self, dtype: DType, list: List) -> List {
        let list = self.plain(super::class(dtype), list);
        match dtype {
            DType::F16 => list,
            t if t.size() <= 2 => match super::integer::constant(&list) {
                Some(bits) => self.same(bits & 0xffff, list.len()),
                None => self.convert(Type::U32, Type::U16, Round::Zero, &list),
            },
            _ => list,
        }
    }

    /// How far behind the index a lane is.
    fn further(access: Access, lane: u32) -> i64 {
        match access {
            Access::Contiguous => i64::from(lane),
            Access::Strided(by) => by.wrapping_mul(i64::from(lane)),
            Access::Gather => 0,
        }
    }

    /// Neighbours that one access reaches: their words fit four registers.
    fn neighbours(&self, ty: Ty, access: Access, index: Reg) -> u32 {
        if access != Access::Contiguous || ty.lanes == 1 {
            return 1;
        }
        let most = 4 / super::words(ty.dtype) as u32;
        let mut k = together(&self.facts.factors, ty, index).min(most);
        while !ty.lanes.is_multiple_of(k) {
            k /= 2;
        }
        k.max(1)
    }

    /// The words of the index of a lane.
    fn index_of(&mut self, index: Reg, lane: u32) -> Result<(List, Option<Reg>)> {
        let ty = self.ty(index);
        let list = self.r(index)?;
        let words = super::words(ty.dtype);
        if ty.lanes == 1 {
            return Ok((list, Some(index)));
        }
        let from = lane as usize * words;
        Ok((list[from..from + words].to_vec(), None))
    }

    pub(super) fn load(
        &mut self,
        dst: Reg,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Option<(Reg, Reg)>,
    ) -> Result<()> {
        let ty = self.ty(dst);
        self.has(ty.dtype)?;
        let list = match (gate, mem) {
            (None, _) => {
                let list = self.load_words(ty, mem, index, access, None)?;
                self.arrived(ty.dtype, list)
            }
            (Some((gate, alt)), Mem::Arg(_)) => {
                let list = self.load_words(ty, mem, index, access, Some(gate))?;
                let list = self.arrived(ty.dtype, list);
                let (cond, alt) = (self.r(gate)?, self.r(alt)?);
                self.select_list(ty.dtype, &cond, list, alt)
            }
            (Some((gate, alt)), Mem::Local(_)) => {
                self.load_gated(ty, mem, index, access, gate, alt)?
            }
        };
        self.define(dst, list);
        Ok(())
    }

    /// The words of lanes from memory. Where the gate is false, the first element is read.
    fn load_words(
        &mut self,
        ty: Ty,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Option<Reg>,
    ) -> Result<List> {
        let Ty { dtype, lanes } = ty;
        let (memory, class) = access_type(dtype);
        let words = super::words(dtype);
        let common = match gate {
            Some(gate) if lanes > 1 => splat(self.p, gate),
            gate => gate,
        };
        let k = match (gate, common) {
            (Some(_), None) => 1,
            (Some(_), _) if !self.has_elements(mem, lanes) => 1,
            _ => self.neighbours(ty, access, index),
        };
        let gates = match gate {
            Some(gate) => Some(self.r(gate)?),
            None => None,
        };
        let mut out = List::new();
        for lane in (0..lanes).step_by(k as usize) {
            let (mut at, mut known) = self.index_of(index, lane)?;
            let mut further = Self::further(access, lane);
            if let Some(gates) = &gates {
                let gate = vec![gates[lane as usize]];
                let there = self.shifted(&at, further);
                at = self.clamped(&gate, &there);
                (known, further) = (None, 0);
            }
            let place = self.place(mem, &at, known, further, dtype.size())?;
            let count = k as usize * words;
            let to = self.lanes_of(class, count);
            let whole = Part {
                lanes: count as u8,
                ..to[0]
            };
            self.read(memory, whole, place);
            out.extend(to.into_iter().map(Opnd::part));
        }
        Ok(out)
    }

    /// Whether so many elements can be read from the first one on.
    fn has_elements(&self, mem: Mem, count: u32) -> bool {
        match mem {
            Mem::Local(_) => true,
            Mem::Arg(arg) => match self.p.args.get(arg as usize) {
                Some(Arg::Buffer { len, .. }) => *len >= count as usize,
                _ => false,
            },
        }
    }

    /// An index, and elements behind it.
    pub(super) fn shifted(&mut self, index: &List, further: i64) -> List {
        match index.len() {
            2 => {
                let more = self.wide_constant(further as u64, 1);
                self.wide_add(&Wide::of(index), &more).list()
            }
            _ => {
                let more = self.same(further as u32, 1);
                self.add(index, &more)
            }
        }
    }

    /// An index, or 0 where a boolean is false.
    fn clamped(&mut self, gate: &List, index: &List) -> List {
        let zero = self.same(0, 1);
        let words = index.clone();
        words
            .iter()
            .map(|&w| self.choose(FULL, gate, &vec![w], &zero)[0])
            .collect()
    }

    /// A load that is jumped over: its lanes have the alternative before.
    fn load_gated(
        &mut self,
        ty: Ty,
        mem: Mem,
        index: Reg,
        access: Access,
        gate: Reg,
        alt: Reg,
    ) -> Result<List> {
        let Ty { dtype, lanes } = ty;
        let words = super::words(dtype);
        let class = super::class(dtype);
        let (gates, alts) = (self.r(gate)?, self.r(alt)?);
        let alts = self.plain(class, alts);
        let to = self.lanes_of(class, lanes as usize * words);
        for (&to, &from) in to.iter().zip(&alts) {
            self.move_to(class, to, from);
        }
        let common = lanes == 1 || splat(self.p, gate).is_some();
        let step = if common { lanes } else { 1 };
        for lane in (0..lanes).step_by(step as usize) {
            self.open_if(gates[lane as usize], true, true);
            let list = if common {
                self.load_words(ty, mem, index, access, None)?
            } else {
                let (memory, from) = access_type(dtype);
                let (at, known) = self.index_of(index, lane)?;
                let place =
                    self.place(mem, &at, known, Self::further(access, lane), dtype.size())?;
                let parts = self.lanes_of(from, words);
                let whole = Part {
                    lanes: words as u8,
                    ..parts[0]
                };
                self.read(memory, whole, place);
                parts.into_iter().map(Opnd::part).collect()
            };
            let list = self.arrived(dtype, list);
            let first = lane as usize * words;
            for (&to, &from) in to[first..].iter().zip(&list) {
                self.move_to(class, to, from);
            }
            self.close()?;
        }
        Ok(to.into_iter().map(Opnd::part).collect())
    }

    pub(super) fn store(
        &mut self,
        mode: StoreMode,
        mem: Mem,
        index: Reg,
        access: Access,
        value: Reg,
        gate: Option<Reg>,
    ) -> Result<()> {
        let ty = self.ty(value);
        self.has(ty.dtype)?;
        let lanes = ty.lanes;
        let Some(gate) = gate else {
            return self.store_lanes(mode, mem, index, access, value, 0..lanes);
        };
        let gates = self.r(gate)?;
        // What is stored is computed outside: it may be read elsewhere.
        let whole = lanes == 1 || splat(self.p, gate).is_some();
        let step = if whole { lanes } else { 1 };
        for lane in (0..lanes).step_by(step as usize) {
            self.open_if(gates[lane as usize], true, true);
            self.store_lanes(mode, mem, index, access, value, lane..lane + step)?;
            self.close()?;
        }
        Ok(())
    }

    fn store_lanes(
        &mut self,
        mode: StoreMode,
        mem: Mem,
        index: Reg,
        access: Access,
        value: Reg,
        range: std::ops::Range<u32>,
    ) -> Result<()> {
        let ty = self.ty(value);
        let dtype = ty.dtype;
        let words = super::words(dtype);
        let list = self.r(value)?;
        let whole = range.len() as u32 == ty.lanes;
        let k = match (mode, whole) {
            (StoreMode::Set, true) => self.neighbours(ty, access, index),
            _ => 1,
        };
        for lane in range.step_by(k as usize) {
            let (at, known) = self.index_of(index, lane)?;
            let further = Self::further(access, lane);
            let first = lane as usize * words;
            let list = list[first..first + k as usize * words].to_vec();
            if let StoreMode::Atomic(op) = mode {
                self.atomic(op, dtype, mem, (&at, known, further), list)?;
                continue;
            }
            let place = self.place(mem, &at, known, further, dtype.size())?;
            let (memory, class) = access_type(dtype);
            let list = match mode {
                StoreMode::Combine(op) => {
                    let to = self.lanes_of(class, words);
                    let all = Part {
                        lanes: words as u8,
                        ..to[0]
                    };
                    self.read(memory, all, place);
                    let old = to.into_iter().map(Opnd::part).collect();
                    let old = self.arrived(dtype, old);
                    self.binary(op.binary(), dtype, [None; 2], old, list)?
                }
                _ => list,
            };
            let list = self.leaving(dtype, list);
            let from = self.side_by_side(class, &list);
            self.write(memory, place, from);
        }
        Ok(())
    }

    /// Words in neighbouring registers.
    pub(super) fn side_by_side(&mut self, class: Class, list: &List) -> Part {
        if let Some(part) = Self::run(list)
            && self.f.shape(part.value).class == class
        {
            return part;
        }
        let to = self.lanes_of(class, list.len());
        for (&to, &from) in to.iter().zip(list) {
            self.move_to(class, to, from);
        }
        Part {
            lanes: list.len() as u8,
            ..to[0]
        }
    }
}
