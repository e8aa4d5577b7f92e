//! Formats of buffers.

use half::f16;

use super::rules::BUFFER_FORMAT;
use crate::isa::Gen;
use crate::step::Stop;

/// The bits of each element, first one first.
type Widths = &'static [u8];

const B8: Widths = &[8];
const B16: Widths = &[16];
const B8_8: Widths = &[8, 8];
const B32: Widths = &[32];
const B16_16: Widths = &[16, 16];
const B10_11_11: Widths = &[11, 11, 10];
const B11_11_10: Widths = &[10, 11, 11];
const B10_10_10_2: Widths = &[2, 10, 10, 10];
const B2_10_10_10: Widths = &[10, 10, 10, 2];
const B8_8_8_8: Widths = &[8, 8, 8, 8];
const B32_32: Widths = &[32, 32];
const B16_16_16_16: Widths = &[16, 16, 16, 16];
const B32_32_32: Widths = &[32, 32, 32];
const B32_32_32_32: Widths = &[32, 32, 32, 32];

/// What the bits of an element say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    Unorm,
    Snorm,
    Uscaled,
    Sscaled,
    Uint,
    Sint,
    Float,
}

use Number::{Float, Sint, Snorm, Sscaled, Uint, Unorm, Uscaled};

const ALL: &[Number] = &[Unorm, Snorm, Uscaled, Sscaled, Uint, Sint, Float];
const NO_FLOAT: &[Number] = &[Unorm, Snorm, Uscaled, Sscaled, Uint, Sint];
const PLAIN: &[Number] = &[Unorm, Snorm, Uint, Sint];
const WORDS: &[Number] = &[Uint, Sint, Float];
const FLOAT: &[Number] = &[Float];

/// The unified formats of RDNA2, in order from 1: names of the widths, the widths, and the numbers
/// that each group has. Names list elements from the highest bits down.
const RDNA2: &[(&str, Widths, &[Number])] = &[
    ("8", B8, NO_FLOAT),
    ("16", B16, ALL),
    ("8_8", B8_8, NO_FLOAT),
    ("32", B32, WORDS),
    ("16_16", B16_16, ALL),
    ("10_11_11", B10_11_11, ALL),
    ("11_11_10", B11_11_10, ALL),
    ("10_10_10_2", B10_10_10_2, NO_FLOAT),
    ("2_10_10_10", B2_10_10_10, NO_FLOAT),
    ("8_8_8_8", B8_8_8_8, NO_FLOAT),
    ("32_32", B32_32, WORDS),
    ("16_16_16_16", B16_16_16_16, ALL),
    ("32_32_32", B32_32_32, WORDS),
    ("32_32_32_32", B32_32_32_32, WORDS),
];

/// Those of RDNA3 and RDNA4.
const RDNA3: &[(&str, Widths, &[Number])] = &[
    ("8", B8, NO_FLOAT),
    ("16", B16, ALL),
    ("8_8", B8_8, NO_FLOAT),
    ("32", B32, WORDS),
    ("16_16", B16_16, ALL),
    ("10_11_11", B10_11_11, FLOAT),
    ("11_11_10", B11_11_10, FLOAT),
    ("10_10_10_2", B10_10_10_2, PLAIN),
    ("2_10_10_10", B2_10_10_10, NO_FLOAT),
    ("8_8_8_8", B8_8_8_8, NO_FLOAT),
    ("32_32", B32_32, WORDS),
    ("16_16_16_16", B16_16_16_16, ALL),
    ("32_32_32", B32_32_32, WORDS),
    ("32_32_32_32", B32_32_32_32, WORDS),
];

/// Data formats of CDNA3, from 1.
const CDNA3: [(&str, Widths); 14] = [
    ("8", B8),
    ("16", B16),
    ("8_8", B8_8),
    ("32", B32),
    ("16_16", B16_16),
    ("10_11_11", B10_11_11),
    ("11_11_10", B11_11_10),
    ("10_10_10_2", B10_10_10_2),
    ("2_10_10_10", B2_10_10_10),
    ("8_8_8_8", B8_8_8_8),
    ("32_32", B32_32),
    ("16_16_16_16", B16_16_16_16),
    ("32_32_32", B32_32_32),
    ("32_32_32_32", B32_32_32_32),
];

/// Number formats of CDNA3.
const NUMBERS: [(&str, Option<Number>); 8] = [
    ("UNORM", Some(Unorm)),
    ("SNORM", Some(Snorm)),
    ("USCALED", Some(Uscaled)),
    ("SSCALED", Some(Sscaled)),
    ("UINT", Some(Uint)),
    ("SINT", Some(Sint)),
    ("RESERVED_6", None),
    ("FLOAT", Some(Float)),
];

/// The format with this code: the name and width of its elements, and what they are.
fn unified(generation: Gen, code: u8) -> Option<(&'static str, Widths, Number)> {
    let groups = if generation == Gen::Rdna2 {
        RDNA2
    } else {
        RDNA3
    };
    let mut first = 1;
    for &(name, widths, numbers) in groups {
        let index = usize::from(code).checked_sub(first)?;
        if let Some(&number) = numbers.get(index) {
            return Some((name, widths, number));
        }
        first += numbers.len();
    }
    None
}

/// Elements of a format and what they are; none where the code is reserved.
pub fn find(generation: Gen, code: u8) -> Option<(Widths, Number)> {
    if generation == Gen::Cdna3 {
        let (_, widths) = *CDNA3.get(usize::from(code & 15).checked_sub(1)?)?;
        Some((widths, NUMBERS[usize::from(code >> 4 & 7)].1?))
    } else {
        unified(generation, code).map(|(_, widths, number)| (widths, number))
    }
}

/// How LLVM writes a format; empty for the default one; none where it has no name.
pub fn name(generation: Gen, code: u8) -> Option<String> {
    if generation != Gen::Cdna3 {
        return match code {
            0 => Some("BUF_FMT_INVALID".to_owned()),
            1 => Some(String::new()),
            _ => {
                let (widths, _, number) = unified(generation, code)?;
                let number = NUMBERS.iter().find(|n| n.1 == Some(number))?.0;
                Some(format!("BUF_FMT_{widths}_{number}"))
            }
        };
    }
    let data = match code & 15 {
        0 => "BUF_DATA_FORMAT_INVALID".to_owned(),
        1 => String::new(),
        15 => "BUF_DATA_FORMAT_RESERVED_15".to_owned(),
        n => format!("BUF_DATA_FORMAT_{}", CDNA3[usize::from(n) - 1].0),
    };
    let number = match code >> 4 & 7 {
        0 => String::new(),
        n => format!("BUF_NUM_FORMAT_{}", NUMBERS[usize::from(n)].0),
    };
    let comma = if data.is_empty() || number.is_empty() {
        ""
    } else {
        ","
    };
    Some(format!("{data}{comma}{number}"))
}

/// Where the elements of a result are in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Into {
    /// A register each.
    Whole,
    /// Half a register each.
    Halves,
    /// Bits 31:16 of one register.
    High,
}

impl Into {
    /// Which register holds element `i`, and where in it; none for all of it.
    pub fn register(self, i: u8) -> (usize, Option<u32>) {
        match self {
            Self::Whole => (i.into(), None),
            Self::Halves => (usize::from(i / 2), Some(u32::from(i % 2) * 16)),
            Self::High => (0, Some(16)),
        }
    }
}

/// Where an instruction takes its format from.
#[derive(Clone, Copy)]
pub struct Elements {
    generation: Gen,
    /// The instruction's own format.
    typed: Option<u8>,
}

/// A format, and which element goes where.
#[derive(Clone, Copy)]
pub struct Chosen {
    widths: Widths,
    number: Number,
    /// DST_SEL: 0 and 1 for constants, 4 to 7 for X to W.
    select: [u8; 4],
}

impl Elements {
    pub fn new(generation: Gen, typed: Option<u8>) -> Self {
        Self { generation, typed }
    }

    /// The format, from the instruction or from the last word of the descriptor.
    pub fn choose(&self, flags: u32) -> Result<Chosen, Stop> {
        let code = self.typed.unwrap_or(match self.generation {
            Gen::Rdna2 => flags >> 12 & 127,
            Gen::Rdna3 | Gen::Rdna4 => flags >> 12 & 63,
            Gen::Cdna3 => flags >> 15 & 15 | (flags >> 12 & 7) << 4,
        } as u8);
        let Some((widths, number)) = find(self.generation, code) else {
            return Err(Stop::Rule(&BUFFER_FORMAT, format!("format {code}")));
        };
        let select = if self.typed.is_some() {
            [4, 5, 6, 7]
        } else {
            std::array::from_fn(|i| (flags >> (3 * i) & 7) as u8)
        };
        Ok(Chosen {
            widths,
            number,
            select,
        })
    }
}

impl Chosen {
    /// Bytes of an element of the buffer.
    pub fn bytes(&self) -> u32 {
        self.widths.iter().map(|&w| u32::from(w)).sum::<u32>() / 8
    }

    fn integer(&self) -> bool {
        matches!(self.number, Uint | Sint)
    }

    /// Element `i` of the result, from the bytes of the buffer.
    pub fn load(&self, raw: u128, i: u8, into: Into) -> u32 {
        let value = match self.select[usize::from(i & 3)] {
            0 => 0,
            1 => self.one(),
            selected => {
                let at = usize::from(selected.wrapping_sub(4));
                match self.widths.get(at) {
                    None if at == 3 => self.one(),
                    None => 0,
                    Some(&width) => {
                        let first: u32 = self.widths[..at].iter().map(|&w| u32::from(w)).sum();
                        let mask = !0u32 >> (32 - u32::from(width));
                        decode((raw >> first) as u32 & mask, width, self.number)
                    }
                }
            }
        };
        match into {
            Into::Whole => value,
            _ if self.integer() => value & 0xffff,
            _ => f16::from_f32(f32::from_bits(value)).to_bits().into(),
        }
    }

    fn one(&self) -> u32 {
        if self.integer() { 1 } else { 1f32.to_bits() }
    }

    /// The bytes of the buffer, from the elements.
    pub fn store(&self, values: [u32; 4], from: Into) -> u128 {
        let (mut raw, mut first) = (0, 0);
        for (i, &width) in self.widths.iter().enumerate() {
            // The destination selects say which element each one was taken from.
            let source = self.select.iter().position(|&s| usize::from(s) == i + 4);
            let value = source.map_or(0, |source| values[source]);
            let value = match (from, self.number) {
                (Into::Whole, _) | (_, Uint) => value,
                (_, Sint) => value as i16 as u32,
                _ => f16::from_bits(value as u16).to_f32().to_bits(),
            };
            raw |= u128::from(encode(value, width, self.number)) << first;
            first += u32::from(width);
        }
        raw
    }
}

/// Bits of `width` as a 32-bit value.
fn decode(bits: u32, width: u8, number: Number) -> u32 {
    let shift = 32 - u32::from(width);
    let signed = (bits << shift) as i32 >> shift;
    let most = (!0u32 >> shift) as f32;
    let half = ((1u64 << (width - 1)) - 1) as f32;
    match number {
        Uint => bits,
        Sint => signed as u32,
        Unorm => (bits as f32 / most).to_bits(),
        Snorm => (signed as f32 / half).max(-1.0).to_bits(),
        Uscaled => (bits as f32).to_bits(),
        Sscaled => (signed as f32).to_bits(),
        Float => match width {
            32 => bits,
            16 => f16::from_bits(bits as u16).to_f32().to_bits(),
            // No sign, the exponent of a half.
            _ => f16::from_bits((bits << (15 - width)) as u16)
                .to_f32()
                .to_bits(),
        },
    }
}

/// A 32-bit value in `width` bits. Integers saturate.
fn encode(value: u32, width: u8, number: Number) -> u32 {
    let shift = 32 - u32::from(width);
    let all = !0u32 >> shift;
    let least = -(1i64 << (width - 1));
    let most = (1i64 << (width - 1)) - 1;
    let float = f32::from_bits(value);
    let float = if float.is_nan() { 0.0 } else { float };
    let round = |x: f64| x.round_ties_even();
    let clamp = |x: i64| (x.clamp(least, most) as u32) & all;
    match number {
        Uint => value.min(all),
        Sint => clamp((value as i32).into()),
        Unorm => round(f64::from(float).clamp(0.0, 1.0) * f64::from(all)) as u32,
        Snorm => clamp(round(f64::from(float).clamp(-1.0, 1.0) * most as f64) as i64),
        Uscaled => (round(f64::from(float).max(0.0)) as u64).min(all.into()) as u32,
        Sscaled => clamp(round(f64::from(float)) as i64),
        Float => match width {
            32 => value,
            16 => f16::from_f32(f32::from_bits(value)).to_bits().into(),
            _ => {
                let half = f16::from_f32(f32::from_bits(value)).to_bits();
                let negative = half >> 15 == 1 && half & 0x7fff <= 0x7c00;
                if negative {
                    0
                } else {
                    u32::from(half & 0x7fff) >> (15 - width)
                }
            }
        },
    }
}
