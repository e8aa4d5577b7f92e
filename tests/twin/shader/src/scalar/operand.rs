//! Scalar operands: their names, where they are read and written.

use std::fmt::Write;

use half::f16;

use crate::isa::Gen;
use crate::step::{File, Regs};
use crate::wave::Wave;

/// The code that says that a literal follows the instruction.
pub const LITERAL: u8 = 255;

/// A scalar source, resolved.
#[derive(Clone, Copy)]
pub enum Source {
    /// A register of [`Wave::s`], and the ones after it.
    Reg(u8),
    /// A constant.
    Const(u64),
    /// Anything else: EXEC, M0, SCC, apertures.
    Special(u8),
}

impl Source {
    /// The register or constant at `code`; none where the generation has nothing there, or where a
    /// pair of registers does not start at an even one.
    pub fn new<T: Value>(generation: Gen, code: u8, literal: u32) -> Option<Self> {
        Some(match code {
            0..=123 => {
                register(generation, code, T::DWORDS)?;
                Self::Reg(code)
            }
            124..=127 => {
                register(generation, code, T::DWORDS)?;
                if u16::from(code) == null_code(generation) {
                    Self::Const(0)
                } else {
                    Self::Special(code)
                }
            }
            128..=208 => Self::Const(T::whole(inline_integer(code))),
            240..=248 => Self::Const(T::float(code)),
            LITERAL => Self::Const(T::literal(literal)),
            235..=238 | 251..=253 => Self::Special(code),
            230 | 231 if generation == Gen::Rdna4 => Self::Special(code),
            _ => return None,
        })
    }

    #[inline(always)]
    fn low(self, wave: &Wave) -> u32 {
        match self {
            Self::Reg(r) => wave.s[usize::from(r & 127)],
            Self::Const(value) => value as u32,
            Self::Special(code) => wave.special(code.into()) as u32,
        }
    }

    #[inline(always)]
    fn both(self, wave: &Wave) -> u64 {
        match self {
            Self::Reg(r) => {
                let r = usize::from(r & 126);
                u64::from(wave.s[r]) | u64::from(wave.s[r + 1]) << 32
            }
            Self::Const(value) => value,
            Self::Special(code) => wave.special(code.into()),
        }
    }

    /// The registers that it reads, for the check that none is in flight.
    pub fn touches(self, dwords: u16) -> Option<Regs> {
        match self {
            Self::Reg(r) => Some(registers(r, dwords)),
            Self::Special(code) if code == 124 || code == 125 => Some(registers(code, 1)),
            _ => None,
        }
    }
}

/// Registers of the scalar file.
pub fn registers(first: u8, count: u16) -> Regs {
    Regs {
        file: File::S,
        first: first.into(),
        count,
    }
}

/// The integer that codes 128 to 208 stand for: 0 to 64, then -1 to -16.
fn inline_integer(code: u8) -> i64 {
    match code {
        128..=192 => i64::from(code) - 128,
        _ => 192 - i64::from(code),
    }
}

/// The size of floats of 16 bits, which take one register.
pub const HALF: u16 = 0;

/// What scalar operands hold: integers and floats of 16, 32 and 64 bits.
pub trait Value: Copy + Send + Sync + 'static {
    /// How many registers it takes.
    const DWORDS: u16;
    /// As [`Value::DWORDS`], and [`HALF`] for floats of 16 bits: how constants are printed.
    const SIZE: u16 = Self::DWORDS;
    /// The bits of an inline integer.
    fn whole(value: i64) -> u64 {
        value as u64
    }
    /// The bits of the inline float `code`.
    fn float(code: u8) -> u64;
    /// The bits of a literal.
    fn literal(literal: u32) -> u64 {
        literal.into()
    }
    /// Reads a source.
    fn get(source: Source, wave: &Wave) -> Self;
    /// Writes the register `code`, below 128.
    fn put(self, code: u8, wave: &mut Wave);
    /// True where it is not zero: SCC of most instructions.
    fn truth(self) -> bool;
}

/// The inline floats, codes 240 to 248 ("scalar operands" of the ISA documents). The last is
/// 1 / (2 * pi).
const FLOATS: [(f64, u32, u16); 9] = [
    (0.5, 0x3f00_0000, 0x3800),
    (-0.5, 0xbf00_0000, 0xb800),
    (1.0, 0x3f80_0000, 0x3c00),
    (-1.0, 0xbf80_0000, 0xbc00),
    (2.0, 0x4000_0000, 0x4000),
    (-2.0, 0xc000_0000, 0xc000),
    (4.0, 0x4080_0000, 0x4400),
    (-4.0, 0xc080_0000, 0xc400),
    (0.159_154_943_091_895_32, 0x3e22_f983, 0x3118),
];

macro_rules! value {
    ($($type:ty, $dwords:literal, $size:expr, $float:expr, $literal:expr, $from:expr, $to:expr, $read:ident;)*) => {$(
        impl Value for $type {
            const DWORDS: u16 = $dwords;
            const SIZE: u16 = $size;
            fn float(code: u8) -> u64 {
                let index = usize::from(code.wrapping_sub(240));
                FLOATS.get(index).map_or(0, $float)
            }
            fn literal(literal: u32) -> u64 {
                $literal(literal)
            }
            #[inline(always)]
            fn get(source: Source, wave: &Wave) -> Self {
                $from(source.$read(wave))
            }
            #[inline(always)]
            fn put(self, code: u8, wave: &mut Wave) {
                put(wave, code, $to(self), $dwords);
            }
            fn truth(self) -> bool {
                $to(self) != 0
            }
        }
    )*};
}

value! {
    u32, 1, 1, |f| f.1.into(), u64::from, |b| b, u64::from, low;
    i32, 1, 1, |f| f.1.into(), u64::from, |b| b as i32, |v: i32| u64::from(v as u32), low;
    u64, 2, 2, |f| f.0.to_bits(), u64::from, |b| b, |v| v, both;
    i64, 2, 2, |f| f.0.to_bits(), |l: u32| i64::from(l as i32) as u64, |b| b as i64, |v: i64| v as u64, both;
    f32, 1, 1, |f| f.1.into(), u64::from, f32::from_bits, |v: f32| u64::from(v.to_bits()), low;
    f16, 1, HALF, |f| f.2.into(), u64::from, |b| f16::from_bits(b as u16), |v: f16| u64::from(v.to_bits()), low;
}

#[inline(always)]
fn put(wave: &mut Wave, code: u8, value: u64, dwords: u16) {
    if code < 124 {
        let at = usize::from(code & 127);
        wave.s[at] = value as u32;
        if dwords == 2 {
            wave.s[at ^ 1] = (value >> 32) as u32;
        }
    } else if dwords == 2 {
        wave.set_scalar64(code.into(), value);
    } else {
        wave.set_scalar(code.into(), value as u32);
    }
}

/// M0 moved: 124 before RDNA3, 125 since.
pub fn m0_code(generation: Gen) -> u8 {
    match generation {
        Gen::Rdna2 | Gen::Cdna3 => 124,
        Gen::Rdna3 | Gen::Rdna4 => 125,
    }
}

/// The register that reads as zero; CDNA3 has none.
pub fn null_code(generation: Gen) -> u16 {
    match generation {
        Gen::Rdna2 => 125,
        Gen::Rdna3 | Gen::Rdna4 => 124,
        Gen::Cdna3 => 0xffff,
    }
}

/// Whether `dwords` registers from `code`, below 128, can be named: pairs and larger groups start at
/// a multiple of 2 or 4, EXEC and VCC are pairs, M0 is alone.
pub fn register(generation: Gen, code: u8, dwords: u16) -> Option<()> {
    let aligned = match dwords {
        1 => true,
        2 => code.is_multiple_of(2),
        _ => code.is_multiple_of(4),
    };
    let exists = match code {
        0..=105 => u16::from(code) + dwords <= if generation == Gen::Cdna3 { 102 } else { 106 },
        106 | 107 => dwords <= 2,
        108..=123 => u16::from(code) + dwords <= 124,
        124 | 125 => {
            code == m0_code(generation) && dwords == 1 || u16::from(code) == null_code(generation)
        }
        _ => dwords <= 2,
    };
    // CDNA3: FLAT_SCRATCH and XNACK_MASK.
    let named = generation == Gen::Cdna3 && (102..=105).contains(&code) && dwords <= 2;
    (aligned && (exists || named)).then_some(())
}

/// The bits of the inline float `code`, 16 of them.
pub fn half_bits(code: u8) -> u16 {
    FLOATS[usize::from(code.wrapping_sub(240)) % FLOATS.len()].2
}

/// The name of the register or constant at `code`, as LLVM prints it; none where LLVM calls the
/// encoding invalid. LLVM rounds odd pairs down.
pub fn name(generation: Gen, code: u8, size: u16) -> Option<String> {
    let dwords = size.max(1);
    let range = |letter: &str, first: u8, base: u8, limit: u8| {
        if dwords == 1 {
            return Some(format!("{letter}{}", first - base));
        }
        let align = if dwords == 2 { 2 } else { 4 };
        let first = (first - base) / align * align;
        let last = u16::from(first) + dwords - 1;
        (last < u16::from(limit)).then(|| format!("{letter}[{first}:{last}]"))
    };
    let special = |single: &str, pair: Option<&str>| match dwords {
        1 => Some(single.to_owned()),
        2 => pair.map(str::to_owned),
        _ => None,
    };
    let cdna3 = generation == Gen::Cdna3;
    match code {
        102 if cdna3 => special("flat_scratch_lo", Some("flat_scratch")),
        103 if cdna3 => special("flat_scratch_hi", None),
        104 if cdna3 => special("xnack_mask_lo", Some("xnack_mask")),
        105 if cdna3 => special("xnack_mask_hi", None),
        0..=105 if cdna3 && dwords > 2 => range("s", code, 0, 104),
        0..=105 => range("s", code, 0, if cdna3 { 102 } else { 106 }),
        106 => special("vcc_lo", Some("vcc")),
        107 => special("vcc_hi", None),
        108..=123 => range("ttmp", code, 108, 16),
        124 | 125 if code == m0_code(generation) => special("m0", None),
        124 | 125 => Some("null".to_owned()),
        126 => special("exec_lo", Some("exec")),
        127 => special("exec_hi", None),
        _ if dwords > 2 => None,
        128..=208 => Some(inline_integer(code).to_string()),
        230 => special("src_flat_scratch_base_lo", Some("src_flat_scratch_base_lo")),
        231 => special("src_flat_scratch_base_hi", None),
        235 => Some("src_shared_base".to_owned()),
        236 => Some("src_shared_limit".to_owned()),
        237 => Some("src_private_base".to_owned()),
        238 => Some("src_private_limit".to_owned()),
        239 => Some("src_pops_exiting_wave_id".to_owned()),
        240..=248 => {
            let value = FLOATS[usize::from(code - 240)].0;
            Some(match (code, dwords) {
                (248, 1) => format!("{:?}", value as f32),
                _ => format!("{value:?}"),
            })
        }
        251 => Some("src_vccz".to_owned()),
        252 => Some("src_execz".to_owned()),
        253 => Some("src_scc".to_owned()),
        254 if dwords == 1 => {
            let mut text = "src_lds_direct".to_owned();
            let _ = write!(
                text,
                "/*Invalid register, operand has 'SReg_32' register class*/"
            );
            Some(text)
        }
        _ => None,
    }
}
