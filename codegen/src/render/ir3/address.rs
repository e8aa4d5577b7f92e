//! Where elements are.
//!
//! Global addresses have 64 bits. Elements are reached through the address of their buffer and an index (ldg.a), which
//! counts elements, is extended with zeros, and costs nothing; where many accesses share an index but for a constant,
//! its address is computed once, and the constants are in the accesses.
//!
//! Source: Mesa `ir3-cat6.xml`, `ir3_a6xx.c`; offsets have 13 bits with a sign.

use super::Select;
use super::operand::{At, List, Opnd};
use super::wide::Wide;
use crate::error::Result;
use crate::ir3::Type;
use crate::ir3::virt::{Code, FULL, Src};
use crate::lower::{Arg, Mem, Reg};
use crate::machine::Part;

/// Offsets of accesses, in bytes.
const OFFSETS: std::ops::RangeInclusive<i64> = -4096..=4095;
/// Accesses that share an index, from which on its address is computed: that takes four instructions.
const MANY: u32 = 5;
/// Words behind an index that ldg.a and stg.a reach are fewer than these.
const NEAR: i64 = 4;

/// What was computed of an index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Key {
    /// The address of an element of so many bytes.
    Address(Mem, Reg, usize),
    /// An index so many elements behind it.
    Behind(Reg, i64),
    /// The number of the pixel that an index is in.
    Pixel(Reg),
    /// The four elements of a pixel from the one of an index on, for the loads of a group.
    Elements(Reg, u32),
}

impl Key {
    fn index(self) -> Reg {
        match self {
            Key::Address(_, index, _)
            | Key::Behind(index, _)
            | Key::Pixel(index)
            | Key::Elements(index, _) => index,
        }
    }
}

/// Where an access goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Address {
    /// A global address in two registers, and bytes behind it.
    Global(Part, i32),
    /// The address of a buffer, a number of elements of so many words (by its logarithm), and words behind it.
    Indexed(Part, Part, u8, i32),
    /// An address in local memory, and bytes behind it.
    Local(Part, i32),
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
    ) -> Result<Address> {
        let (base, more) = match known {
            Some(reg) => super::uses::split(self.p, &self.facts.defs, mem, reg),
            None => (Reg(u32::MAX), 0),
        };
        let bytes = (further + more) * size as i64;
        let key = Key::Address(mem, base, size);
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
                    return Ok(Address::Local(at, all as i32));
                }
                let at = vec![Opnd::part(self.local(index, size))];
                let more = start + further * size as i64;
                if OFFSETS.contains(&more) {
                    return Ok(Address::Local(self.register(FULL, at[0]), more as i32));
                }
                let more = self.same(more as u32, 1);
                let at = self.add(&at, &more);
                Ok(Address::Local(self.register(FULL, at[0]), 0))
            }
            Mem::Arg(arg) => {
                if index.len() == 1 && !(many && OFFSETS.contains(&bytes)) {
                    let from = known.map(|_| (base, further + more));
                    return self.indexed(arg, (index[0], further), from, size);
                }
                if known.is_some() && OFFSETS.contains(&bytes) {
                    let at = self.found(key, |s, words| s.global(arg, words, size))?;
                    return Ok(Address::Global(at, bytes as i32));
                }
                let at = self.global(arg, index, size);
                let more = further * size as i64;
                if OFFSETS.contains(&more) {
                    return Ok(Address::Global(at, more as i32));
                }
                let wide = Wide {
                    low: vec![Opnd::part(Part::of(at.value, 0))],
                    high: vec![Opnd::part(Part::of(at.value, 1))],
                };
                let more = self.wide_constant(more as u64, 1);
                let sum = self.wide_add(&wide, &more);
                Ok(Address::Global(self.pair(&sum), 0))
            }
        }
    }

    /// Elements behind an index, which is that of a register or known to be a constant behind one. Those that are near
    /// one another share a register.
    fn indexed(
        &mut self,
        arg: u32,
        (index, further): (Opnd, i64),
        known: Option<(Reg, i64)>,
        size: usize,
    ) -> Result<Address> {
        // Elements of two words are reached as words.
        let words = size.div_ceil(4) as i64;
        let (from, all) = match known.filter(|&(_, all)| all >= 0) {
            Some((reg, all)) => (Some(reg), all),
            None => (None, further),
        };
        let near = if all < 0 { 0 } else { all % (NEAR / words) };
        let at = match from {
            Some(reg) => self.found(Key::Behind(reg, all - near), |s, index| {
                s.behind(index[0], all - near)
            })?,
            None => self.behind(index, all - near),
        };
        let shift = words as u8 - 1;
        let words = (near * words) as i32;
        Ok(Address::Indexed(self.base(arg), at, shift, words))
    }

    fn behind(&mut self, index: Opnd, further: i64) -> Part {
        let more = self.same(further as u32, 1);
        let at = self.add(&vec![index], &more);
        self.register(FULL, at[0])
    }

    /// What is there, or is made now.
    pub(super) fn found(
        &mut self,
        key: Key,
        make: impl FnOnce(&mut Self, &[Opnd]) -> Part,
    ) -> Result<Part> {
        if let Some(&at) = self.addresses.get(&key) {
            return Ok(at);
        }
        let words = self.r(key.index())?;
        let at = make(self, &words);
        self.addresses.insert(key, at);
        self.made.push(key);
        Ok(at)
    }

    fn local(&mut self, index: &[Opnd], size: usize) -> Part {
        let at = self.shl_by(&vec![index[0]], size.trailing_zeros());
        self.register(FULL, at[0])
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
}
