//! Where elements are.
//!
//! Global addresses have 64 bits. Elements are reached through the address of their buffer and an index (ldg.a), which
//! counts elements, is extended with zeros, and costs nothing; where many accesses share an index but for a constant,
//! its address is computed once, and the constants are in the accesses.
//!
//! Source: Mesa `ir3-cat6.xml`, `ir3_a6xx.c`; offsets have 13 bits with a sign.

use super::Select;
use super::build::{At, List, Opnd};
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
                    return Ok(Address::Indexed(
                        self.base(arg),
                        at,
                        words as u8 - 1,
                        behind as i32,
                    ));
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
