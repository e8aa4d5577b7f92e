//! Integer operations on one lane whose result is a word.

use super::program::Refusal;
use super::source::Reading;

/// An operation of two or three sources whose result is a word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Select,
    Move,
    Absolute,
    Count,
    /// The highest bit that tells: signed, as a shift to the left.
    Find(bool, bool),
    Reverse,
    /// The low bits with their sign: whether without one, whether the count wraps.
    Extend(bool, bool),
    /// Bits from one on: whether both numbers wrap.
    Bits(bool),
    Permute(Permute),
    Add,
    AddHalves,
    /// The signed sum, or the number nearest to it: whether the second source is taken off.
    AddSaturated(bool),
    /// The smaller one, or the greater: signed, not below zero, of two halves each.
    Extreme(bool, bool, bool),
    /// The same of three.
    ExtremeOfThree(bool, bool, bool),
    /// The same of a sum and a number.
    ExtremeOfSum(bool, bool, bool),
    Shift(Shift),
    /// The distance of two numbers, added to a third: signed.
    Distance(bool),
    Dot(Dot),
}

/// To the right, by bits, signed; wraps; the upper half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    right: bool,
    wide: bool,
    signed: bool,
    wraps: bool,
    high: bool,
}

/// Products of four bytes, or of two halves with two of four bytes: signs, and which two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dot {
    first: bool,
    second: bool,
    halves: Option<u32>,
}

/// How bytes are picked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Permute {
    Each,
    Forward,
    Backward,
    Replicate,
    Left,
    Right,
    Halves,
}

/// An operation by its name, how many sources it has, and whether a predicate comes last.
pub(crate) fn lower(
    name: &str,
    r: &Reading,
    signed: bool,
) -> Result<Option<(Word, usize, bool)>, Refusal> {
    let wraps = r.has(".W");
    let halves = r.inst.modifiers.iter().any(|text| text.ends_with("x2"));
    let relu = r.has(".RELU");
    let signed_halves = if halves { r.has(".S16x2") } else { signed };
    Ok(Some(match name {
        "SEL" => (Word::Select, 2, true),
        "MOV" => (Word::Move, 1, false),
        "IABS" => (Word::Absolute, 1, false),
        "POPC" => (Word::Count, 1, false),
        "FLO" => (Word::Find(signed, r.has(".SH")), 1, false),
        "BREV" => (Word::Reverse, 1, false),
        "SGXT" => (Word::Extend(!signed, wraps), 2, false),
        "BMSK" => (Word::Bits(wraps), 2, false),
        "PRMT" => {
            use Permute::{Backward, Each, Forward, Halves, Left, Replicate, Right};
            let how = r.choice(&[
                (".F4E", Forward),
                (".B4E", Backward),
                (".RC8", Replicate),
                (".ECL", Left),
                (".ECR", Right),
                (".RC16", Halves),
            ]);
            (Word::Permute(how.unwrap_or(Each)), 3, false)
        }
        "VIADD" if r.has(".U8x4") || r.has(".S8x4") || halves && r.has(".ISAT") => {
            return Err(r.refuse("sums of bytes, and saturated ones of halves, are not modelled"));
        }
        "VIADD" if r.has(".ISAT") => {
            let negative = |k: usize| r.inst.operands.get(k).is_some_and(|of| of.sign.negative);
            if negative(1) || !r.has(".S32") {
                return Err(r.refuse("what it saturates to is not known"));
            }
            (Word::AddSaturated(negative(2)), 2, false)
        }
        "VIADD" => (if halves { Word::AddHalves } else { Word::Add }, 2, false),
        "IMNMX" => (Word::Extreme(signed, false, false), 2, true),
        "VIMNMX" | "VIMNMX3" | "VIADDMNMX" if r.has(".U8x4") || r.has(".S8x4") => {
            return Err(r.refuse("bytes are not modelled"));
        }
        "VIMNMX" => (Word::Extreme(signed_halves, relu, halves), 2, true),
        "VIMNMX3" => (Word::ExtremeOfThree(signed_halves, relu, halves), 3, true),
        "VIADDMNMX" => (Word::ExtremeOfSum(signed_halves, relu, halves), 3, true),
        "SHF" => {
            let shift = Shift {
                right: r.has(".R"),
                wide: r.has(".U64") || r.has(".S64"),
                signed: r.has(".S64") || r.has(".S32"),
                wraps,
                high: r.has(".HI"),
            };
            (Word::Shift(shift), 3, false)
        }
        "VABSDIFF" => (Word::Distance(signed), 3, false),
        "IDP" => {
            let halves = r.choice(&[(".2A.LO", 0), (".2A.HI", 2)]);
            let signs: Vec<bool> = r
                .inst
                .modifiers
                .iter()
                .filter_map(|&text| match text {
                    ".U8" | ".U16" => Some(false),
                    ".S8" | ".S16" => Some(true),
                    _ => None,
                })
                .collect();
            let [first, second] = signs[..] else {
                return Err(r.refuse("two types were expected"));
            };
            let dot = Dot {
                first,
                second,
                halves,
            };
            (Word::Dot(dot), 3, false)
        }
        _ => return Ok(None),
    }))
}

impl Word {
    /// An operation on one lane.
    #[inline(always)]
    pub fn of(self, x: u32, y: u32, z: u32, with: bool) -> u32 {
        let extreme = |a: u32, b: u32, signed: bool| match (signed, with) {
            (true, true) => a.cast_signed().min(b.cast_signed()).cast_unsigned(),
            (true, false) => a.cast_signed().max(b.cast_signed()).cast_unsigned(),
            (false, true) => a.min(b),
            (false, false) => a.max(b),
        };
        let floor = |value: u32, relu: bool| {
            if relu && value.cast_signed() < 0 {
                0
            } else {
                value
            }
        };
        match self {
            Word::Select => {
                if with {
                    x
                } else {
                    y
                }
            }
            Word::Move => x,
            Word::Absolute => x.cast_signed().unsigned_abs(),
            Word::Count => x.count_ones(),
            Word::Find(signed, shift) => {
                let tells = if signed && x.cast_signed() < 0 { !x } else { x };
                match (tells, shift) {
                    (0, _) => u32::MAX,
                    (_, true) => tells.leading_zeros(),
                    (_, false) => 31 - tells.leading_zeros(),
                }
            }
            Word::Reverse => x.reverse_bits(),
            Word::AddSaturated(minus) => {
                let (x, y) = (x.cast_signed(), y.cast_signed());
                let sum = if minus {
                    // It comes negated, which has no room for the least number.
                    x.saturating_sub(y.wrapping_neg())
                } else {
                    x.saturating_add(y)
                };
                sum.cast_unsigned()
            }
            Word::Extend(unsigned, wraps) => {
                let count = if wraps { y & 31 } else { y.min(32) };
                match 32 - count {
                    32 => 0,
                    unused if unsigned => x << unused >> unused,
                    unused => ((x << unused).cast_signed() >> unused).cast_unsigned(),
                }
            }
            Word::Bits(wraps) => {
                let (at, count) = if wraps {
                    (x & 31, y & 31)
                } else {
                    (x.min(32), y.min(32))
                };
                (((1_u64 << count) - 1) << at) as u32
            }
            Word::Permute(how) => permute(how, x, y, z),
            Word::Add => x.wrapping_add(y),
            Word::AddHalves => {
                let low = x.wrapping_add(y) & 0xffff;
                (x & 0xffff_0000).wrapping_add(y & 0xffff_0000) | low
            }
            Word::Extreme(signed, relu, halves) => {
                in_parts(halves, signed, [x, y, z], |x, y, _| {
                    floor(extreme(x, y, signed), relu)
                })
            }
            Word::ExtremeOfThree(signed, relu, halves) => {
                in_parts(halves, signed, [x, y, z], |x, y, z| {
                    floor(extreme(extreme(x, y, signed), z, signed), relu)
                })
            }
            Word::ExtremeOfSum(signed, relu, halves) => {
                in_parts(halves, signed, [x, y, z], |x, y, z| {
                    let sum = x.wrapping_add(y);
                    // A sum of halves wraps as a half.
                    let sum = if halves { widened(sum, signed) } else { sum };
                    floor(extreme(sum, z, signed), relu)
                })
            }
            Word::Shift(shift) => shift.of(x, y, z),
            Word::Distance(signed) => {
                let distance = if signed {
                    x.cast_signed().abs_diff(y.cast_signed())
                } else {
                    x.abs_diff(y)
                };
                distance.wrapping_add(z)
            }
            Word::Dot(dot) => dot.of(x, y).wrapping_add(z),
        }
    }
}

impl Shift {
    #[inline(always)]
    fn of(self, x: u32, y: u32, z: u32) -> u32 {
        let bits = if self.wide { 64 } else { 32 };
        let by = if self.wraps {
            y & (bits - 1)
        } else {
            y.min(bits)
        };
        let value = u64::from(z) << 32 | u64::from(x);
        let shifted = match (self.right, self.signed) {
            (false, _) => value.checked_shl(by).unwrap_or(0),
            (true, false) => value.checked_shr(by).unwrap_or(0),
            (true, true) => (value.cast_signed() >> by.min(63)).cast_unsigned(),
        };
        if self.high {
            (shifted >> 32) as u32
        } else {
            shifted as u32
        }
    }
}

impl Dot {
    #[inline(always)]
    fn of(self, x: u32, y: u32) -> u32 {
        let byte = |value: u32, k: u32, signed: bool| {
            let byte = (value >> (8 * k)) as u8;
            if signed {
                i32::from(byte.cast_signed())
            } else {
                i32::from(byte)
            }
        };
        let half = |value: u32, k: u32, signed: bool| {
            let half = (value >> (16 * k)) as u16;
            if signed {
                i32::from(half.cast_signed())
            } else {
                i32::from(half)
            }
        };
        let (first, second) = (self.first, self.second);
        let sum = match self.halves {
            None => (0..4).fold(0_i32, |sum, k| {
                sum.wrapping_add(byte(x, k, first) * byte(y, k, second))
            }),
            Some(from) => (0..2).fold(0_i32, |sum, k| {
                sum.wrapping_add(half(x, k, first).wrapping_mul(byte(y, from + k, second)))
            }),
        };
        sum.cast_unsigned()
    }
}

/// The low half as a word.
fn widened(half: u32, signed: bool) -> u32 {
    if signed {
        i32::from((half as u16).cast_signed()).cast_unsigned()
    } else {
        half & 0xffff
    }
}

/// An operation on words, or on both halves of them.
fn in_parts(halves: bool, signed: bool, words: [u32; 3], f: impl Fn(u32, u32, u32) -> u32) -> u32 {
    let part = |shift: u32| {
        let [x, y, z] = words.map(|word| widened(word >> shift, signed));
        f(x, y, z) & 0xffff
    };
    match words {
        [x, y, z] if !halves => f(x, y, z),
        _ => part(16) << 16 | part(0),
    }
}

/// Bytes of two words, picked by a third, which stands between them.
fn permute(how: Permute, low: u32, by: u32, high: u32) -> u32 {
    let bytes = u64::from(high) << 32 | u64::from(low);
    let byte = |k: u32| (bytes >> (8 * (k & 7))) as u8;
    let n = by & 3;
    let word =
        |f: &dyn Fn(u32) -> u32| (0..4).fold(0, |word, k| word | u32::from(byte(f(k))) << (8 * k));
    match how {
        Permute::Each => (0..4).fold(0, |word, k| {
            let pick = by >> (4 * k);
            let byte = byte(pick);
            let byte = if pick & 8 == 0 {
                byte
            } else {
                (byte.cast_signed() >> 7).cast_unsigned()
            };
            word | u32::from(byte) << (8 * k)
        }),
        Permute::Forward => word(&|k| n + k),
        Permute::Backward => word(&|k| n.wrapping_sub(k)),
        Permute::Replicate => word(&|_| n),
        Permute::Left => word(&|k| k.max(n)),
        Permute::Right => word(&|k| k.min(n)),
        Permute::Halves => word(&|k| (n & 1) * 2 + (k & 1)),
    }
}
